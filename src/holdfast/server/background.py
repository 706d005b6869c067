"""What a server does between requests, for all tenants of its store: deliver ended conversations to long-term memory, and
sweep.

Laws: any number of processes may do this at the same time. What fails is logged without contents, and tried again. At most
a fifth of the time is spent on it, however many tenants there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import msgspec

import holdfast
from holdfast.errors import HoldfastError, StoreClosed
from holdfast.model import limits
from holdfast.model.rows import SessionRow
from holdfast.server import metrics

EVERY_S = 5.0
"""How often the server looks for ended conversations."""
SWEEP_S = 60.0
"""How often the server sweeps, and looks for new tenants."""
MEASURE_S = 1.0
"""How often the gauges of the store are set."""
SHARE = 4
"""A round is followed by a pause of so many times its own length, or longer."""
STOP_S = 10.0
"""How long the end of the server waits for the entry that it is at."""
_LAST = chr(0x10FFFF) * (limits.NAME_BYTES // 4)
"""After every name, in every store."""
_log = logging.getLogger("holdfast.server")


async def list_tenants(engine: holdfast.AsyncEngine) -> list[str]:
    """All tenants with a session, with one short read for each."""
    tenants: list[str] = []
    last: SessionRow | None = None
    while page := await engine.store.rows(SessionRow, {}, after=last, limit=1):
        tenants.append(page[0].tenant)
        last = msgspec.structs.replace(page[0], actor=_LAST, session=_LAST, thread=_LAST)
    return tenants


class Background:
    """Runs the rounds of one process."""

    def __init__(self, engine: holdfast.AsyncEngine) -> None:
        self._engine = engine
        self._is_over = asyncio.Event()
        self._tenants: list[str] = []
        self._next_sweep = 0.0

    async def run(self) -> None:
        """Work until stop() is called, or the store is closed."""
        loop = asyncio.get_running_loop()
        while not self._is_over.is_set():
            start = loop.time()
            try:
                await self._run_round(start)
            except StoreClosed:
                return
            except HoldfastError as error:
                _log_failure(error, "all tenants")
            pause = max(EVERY_S, SHARE * (loop.time() - start))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), pause)

    def stop(self) -> None:
        self._is_over.set()

    async def _run_round(self, now: float) -> None:
        is_sweep = now >= self._next_sweep
        if is_sweep:
            self._next_sweep = now + SWEEP_S
            self._tenants = await list_tenants(self._engine)
        for tenant in self._tenants:
            if self._is_over.is_set():
                return
            engine = self._engine.acting_as(tenant=tenant)
            try:
                await engine.worker().run_once()
                if is_sweep:
                    await engine.admin.sweep()
            except StoreClosed:
                raise
            except Exception as error:  # noqa: BLE001 - one tenant must not stop the others
                _log_failure(error, "a tenant")


@contextlib.asynccontextmanager
async def run_background(engine: holdfast.AsyncEngine) -> AsyncIterator[None]:
    """Deliver and sweep while the block runs."""
    background = Background(engine)
    task = asyncio.create_task(background.run(), name="holdfast-background")
    try:
        yield
    finally:
        background.stop()
        _, hanging = await asyncio.wait([task], timeout=STOP_S)
        if hanging:
            task.cancel()
            await asyncio.wait([task])


@contextlib.asynccontextmanager
async def run_measurement(engine: holdfast.AsyncEngine) -> AsyncIterator[None]:
    """Set the gauges of the store while the block runs."""

    async def run() -> None:
        while True:
            metrics.measure_store(engine.store)
            await asyncio.sleep(MEASURE_S)

    task = asyncio.create_task(run(), name="holdfast-measurement")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _log_failure(error: Exception, what: str) -> None:
    _log.warning("work in the background for %s failed: %s", what, type(error).__name__)
