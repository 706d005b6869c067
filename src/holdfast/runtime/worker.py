"""Deliver the outbox in a background thread: `engine.worker()`. The twin for an event loop is in `async_worker`.

Laws: nothing that a delivery raises reaches the program; it is logged, without contents. A claim is renewed while a long
delivery runs. A worker stops after the entry that it is at; one that hangs there is left behind, and its claim runs out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import HoldfastError, StorageError, StoreClosed
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.flows.memory import delivery, vectors
from holdfast.flows.memory.delivery import LEASE_US, Claim, ClaimLost
from holdfast.model import limits
from holdfast.model.memory.deliveries import DeliveryOutcome, DeliveryReport
from holdfast.model.names import check_whole
from holdfast.ports import ChangeSource
from holdfast.runtime.base import Driver
from holdfast.runtime.store_features import require_index, require_queue
from holdfast.runtime.sweeper import check_pause
from holdfast.runtime.watch import find_source

if TYPE_CHECKING:
    import logging

CALM_S = 0.25
"""The pause after a change was announced: a burst of commits causes one round."""
STOP_S = 10.0
"""How long the end of the block waits for the entry that the worker is at."""
RENEWAL_S = LEASE_US / 3_000_000
"""A claim is renewed so often."""


class WorkerPlan:
    """How a worker works: the part that needs no waiting itself."""

    def __init__(self, context: EngineContext, store: Any, every_s: object, limit: object) -> None:
        require_queue(store)
        if context.memory is None:
            require_index(store)
        self.context = context
        self.every_s = check_pause(every_s)
        self.limit = check_whole("limit", limit, 1, limits.READ_EVENTS)
        self.owner = delivery.name_worker()
        self.source: ChangeSource | None = find_source(store)

    def claim_next(self) -> Flow[Claim | None]:
        return delivery.claim_next(self.context, owner=self.owner)

    def is_full(self, report: DeliveryReport) -> bool:
        """Whether a round ended at its limit: there may be more to do at once."""
        return len(report.delivered) + len(report.failed) >= self.limit


def find_worker_log() -> logging.Logger:
    import logging  # noqa: PLC0415 - slow to load

    return logging.getLogger("holdfast.worker")


def log_outcome(outcome: DeliveryOutcome) -> None:
    """Log a delivery that failed: names and numbers only."""
    if not outcome.is_failed:
        return
    failed = outcome.delivery
    scope, then = failed.offload.scope, "set aside" if failed.is_set_aside else "tried again later"
    find_worker_log().warning(
        "entry %d of session %s/%s was not delivered (try %d), and is %s: %s",
        *(failed.offload.entry, scope.actor, scope.session, failed.attempts, then, failed.error),
    )


def log_round_failure(error: BaseException, what: str) -> None:
    """Log why a round ended early. The message of the error is left out: it may quote a conversation."""
    find_worker_log().error("%s failed, and is tried again: %s", what, delivery.describe_failure("worker", error))


def log_hanging() -> None:
    find_worker_log().warning("the worker was left behind after %s seconds: its delivery hangs", STOP_S)


class Worker:
    """Delivers the outbox to long-term memory while its block runs. `engine.worker()` returns it."""

    def __init__(self, drive: Driver, context: EngineContext, store: Any, every_s: float, limit: int) -> None:
        self._drive = drive
        self._plan = WorkerPlan(context, store, every_s, limit)
        self._is_over = threading.Event()
        self._signal = threading.Event()
        self._thread: threading.Thread | None = None

    def run_once(self) -> DeliveryReport:
        """Deliver what is due now, at most `limit` entries, and embed new passages. For a program that has its own loop."""
        report = DeliveryReport()
        with self._keep_claims() as claims:
            for _ in range(self._plan.limit):
                claim = None if self._is_over.is_set() else self._drive(self._plan.claim_next())
                if claim is None:
                    break
                claims[:] = [claim]
                outcome = self._drive(delivery.deliver_entry(claim))
                claims.clear()
                log_outcome(outcome)
                report = report.add(outcome)
        self._embed()
        return self._drive(delivery.complete_report(self._plan.context, report))

    def run(self, note: Callable[[DeliveryReport], None] | None = None) -> None:
        """Deliver until stop() is called, or the store is closed, in this thread. `note` gets the report of each round."""
        with self._hear_changes():
            while not self._is_over.is_set():
                self._signal.clear()
                try:
                    report = self.run_once()
                except StoreClosed:
                    return
                except Exception as error:  # noqa: BLE001 - the program goes on
                    log_round_failure(error, "a round of deliveries")
                    self._is_over.wait(self._plan.every_s)
                    continue
                if note is not None:
                    note(report)
                if not self._plan.is_full(report) and self._signal.wait(self._plan.every_s):
                    self._is_over.wait(CALM_S)

    def stop(self) -> None:
        """Stop after the entry that is in work. The end of the block does this, too."""
        self._is_over.set()
        self._signal.set()

    def __enter__(self) -> Self:
        self._is_over.clear()
        self._thread = threading.Thread(target=self.run, name="holdfast-worker", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join(STOP_S)
            if self._thread.is_alive():
                log_hanging()

    @contextmanager
    def _hear_changes(self) -> Iterator[None]:
        source = self._plan.source
        try:
            if source is not None:
                source.subscribe(self._signal.set, None)
        except StorageError:
            source = None  # then it looks at its interval only
        try:
            yield
        finally:
            if source is not None:
                source.unsubscribe(self._signal.set)

    def _embed(self) -> None:
        if self._plan.context.embedder is None:
            return
        try:
            self._drive(vectors.embed_pending(self._plan.context))
        except StoreClosed:
            raise
        except HoldfastError as error:
            log_round_failure(error, "the embedding of passages")

    @contextmanager
    def _keep_claims(self) -> Iterator[list[Claim]]:
        """Renew the claim in the list, if any, until the block ends."""
        claims: list[Claim] = []
        is_over = threading.Event()

        def keep() -> None:
            while not is_over.wait(RENEWAL_S):
                for claim in claims[:]:
                    with suppress(ClaimLost, HoldfastError):  # the delivery itself finds out
                        self._drive(claim.renew())

        threading.Thread(target=keep, name="holdfast-claims", daemon=True).start()
        try:
            yield claims
        finally:
            is_over.set()
