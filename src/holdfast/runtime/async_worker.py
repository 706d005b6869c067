"""The awaited twin of `worker`: it delivers the outbox in a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

from holdfast.errors import HoldfastError, StorageError, StoreClosed
from holdfast.flows.context import EngineContext
from holdfast.flows.memory import delivery, vectors
from holdfast.flows.memory.delivery import Claim, ClaimLost
from holdfast.model.memory.deliveries import DeliveryReport
from holdfast.runtime.async_base import AsyncDriver
from holdfast.runtime.async_watch import LoopSignal
from holdfast.runtime.worker import (
    CALM_S,
    RENEWAL_S,
    STOP_S,
    WorkerPlan,
    log_hanging,
    log_outcome,
    log_round_failure,
)
from holdfast.storage.threaded import ThreadedStore


class AsyncWorker:
    """Delivers the outbox to long-term memory while its block runs. `engine.worker()` returns it."""

    def __init__(
        self, drive: AsyncDriver, context: EngineContext, store: ThreadedStore, every_s: float, limit: int
    ) -> None:
        self._drive = drive
        self._store = store
        self._plan = WorkerPlan(context, store.blocking, every_s, limit)
        self._is_over = False
        self._signal = LoopSignal()
        self._task: asyncio.Task[None] | None = None

    async def run_once(self) -> DeliveryReport:
        """Deliver what is due now, at most `limit` entries, and embed new passages. For a program that has its own loop."""
        report = DeliveryReport()
        async with self._keep_claims() as claims:
            for _ in range(self._plan.limit):
                claim = None if self._is_over else await self._drive(self._plan.claim_next())
                if claim is None:
                    break
                claims[:] = [claim]
                outcome = await self._drive(delivery.deliver_entry(claim))
                claims.clear()
                log_outcome(outcome)
                report = report.add(outcome)
        await self._embed()
        return await self._drive(delivery.complete_report(self._plan.context, report))

    def stop(self) -> None:
        """Stop after the entry that is in work. The end of the block does this, too."""
        self._is_over = True
        self._signal.set()

    async def __aenter__(self) -> Self:
        self._is_over = False
        self._signal.clear()
        if self._plan.source is not None:
            with suppress(StorageError):  # then it looks at its interval only
                await self._store.call(self._plan.source.subscribe, self._signal.set, None)
        self._task = asyncio.create_task(self._run(), name="holdfast-worker")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._plan.source is not None:
            self._plan.source.unsubscribe(self._signal.set)
        if self._task is not None:
            _, hanging = await asyncio.wait([self._task], timeout=STOP_S)
            if hanging:
                log_hanging()
                self._task.cancel()
                await asyncio.wait([self._task])

    async def _run(self) -> None:
        while not self._is_over:
            self._signal.clear()
            try:
                if self._plan.is_full(await self.run_once()):
                    continue
            except StoreClosed:
                return
            except Exception as error:  # noqa: BLE001 - the program goes on
                log_round_failure(error, "a round of deliveries")
            if await self._signal.wait(self._plan.every_s):
                await self._wait_for_calm()

    async def _wait_for_calm(self) -> None:
        if not self._is_over:
            await asyncio.sleep(CALM_S)

    async def _embed(self) -> None:
        if self._plan.context.embedder is None:
            return
        try:
            await self._drive(vectors.embed_pending(self._plan.context))
        except StoreClosed:
            raise
        except HoldfastError as error:
            log_round_failure(error, "the embedding of passages")

    @asynccontextmanager
    async def _keep_claims(self) -> AsyncIterator[list[Claim]]:
        """Renew the claim in the list, if any, until the block ends."""
        claims: list[Claim] = []

        async def keep() -> None:
            while True:
                await asyncio.sleep(RENEWAL_S)
                for claim in claims[:]:
                    with suppress(ClaimLost, HoldfastError):  # the delivery itself finds out
                        await self._drive(claim.renew())

        task = asyncio.create_task(keep(), name="holdfast-claims")
        try:
            yield claims
        finally:
            task.cancel()
            await asyncio.wait([task])
