"""The delivery of the outbox to long-term memory.

Laws:
- An entry is learned from, then taken, then acknowledged. Each step can be repeated, so a worker may die anywhere: the next
  one begins again, and nothing is lost or there twice. A memory of the caller gets each part with the same key each time.
- A worker has an entry for a while, and keeps it while it works. One that lost it stops quietly.
- A failure delays its own entry only, longer each time; after DELIVERY_TRIES the entry is set aside until it is requeued.
- The stored error says where it happened and of which kind it was. It quotes nothing: an error may repeat what users said.
"""

from __future__ import annotations

import itertools
import os

import msgspec

from holdfast.errors import (
    InvalidArgument,
    MemoryFailed,
    NotFound,
    StorageError,
    describe_value,
)
from holdfast.flows import effects
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.flows.memory.histories import HistoryParts, give_part
from holdfast.flows.memory.identities import read_identities
from holdfast.flows.memory.index import index_stream, take_history
from holdfast.flows.memory.lessons import learn
from holdfast.flows.memory.removal import forget_again
from holdfast.flows.sessions import lifecycle
from holdfast.model import limits
from holdfast.model.memory.deliveries import Delivery, DeliveryBacklog, DeliveryOutcome, DeliveryReport
from holdfast.model.names import check_name, check_whole
from holdfast.model.sessions.messages import Offload
from holdfast.ports import Memory

LEASE_US = limits.DELIVERY_LEASE_S * 1_000_000
_SECOND_US = 1_000_000
_INDEX_STEP = 10 * limits.PASSAGE_EVENTS
"""Events that are indexed before a claim is looked at again."""


_WORKERS = itertools.count(1)


def name_worker() -> str:
    """A name that no other worker has, on any machine."""
    return f"{os.uname().nodename}:{os.getpid()}:{next(_WORKERS)}"[-limits.NAME_BYTES :]


class ClaimLost(Exception):
    """Another worker has the entry, or it is acknowledged."""


class Claim:
    """An entry that a worker has, for a while."""

    def __init__(self, engine: EngineContext, delivery: Delivery, lease_us: int) -> None:
        self.engine = engine
        self.delivery = delivery
        self._lease_us = lease_us

    @property
    def offload(self) -> Offload:
        return self.delivery.offload

    def keep(self) -> Flow[None]:
        """Renew the claim once half of its time is over. Raises ClaimLost."""
        if self.delivery.until_us - self.engine.clock.now_us() <= self._lease_us // 2:
            yield from self.renew()

    def renew(self) -> Flow[None]:
        """Have the entry for the whole time again. Raises ClaimLost."""
        until_us = self.engine.clock.now_us() + self._lease_us
        renewed = msgspec.structs.replace(self.delivery, until_us=until_us)
        if not (yield from effects.renew_offload(renewed)):
            raise ClaimLost
        self.delivery = renewed


def deliver(
    engine: EngineContext, *, owner: str | None = None, limit: int = 100, lease_us: int = LEASE_US
) -> Flow[DeliveryReport]:
    """Deliver entries of the outbox that are due, oldest first, at most `limit` of them. `owner` is the name of the worker:
    no two workers may share one."""
    owner = name_worker() if owner is None else check_name("owner", owner)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    report = DeliveryReport()
    for _ in range(limit):
        claim = yield from claim_next(engine, owner=owner, lease_us=lease_us)
        if claim is None:
            break
        report = report.add((yield from deliver_entry(claim)))
    return (yield from complete_report(engine, report))


def complete_report(engine: EngineContext, report: DeliveryReport) -> Flow[DeliveryReport]:
    """The report with the number of entries that wait, up to READ_EVENTS."""
    waiting = yield from effects.deliveries(engine.tenant, set_aside=False, limit=limits.READ_EVENTS)
    return msgspec.structs.replace(report, pending=len(waiting))


def claim_next(engine: EngineContext, *, owner: str, lease_us: int = LEASE_US) -> Flow[Claim | None]:
    """Claim the oldest entry that is due; None if there is none."""
    now_us = engine.clock.now_us()
    for delivery in (
        yield from effects.claim_offloads(engine.tenant, owner=owner, now_us=now_us, lease_us=lease_us, limit=1)
    ):
        return Claim(engine, delivery, lease_us)
    return None


class _Progress:
    """How far a delivery is."""

    def __init__(self) -> None:
        self.step = "take"
        self.facts = 0


def deliver_entry(claim: Claim) -> Flow[DeliveryOutcome]:
    """Deliver one claimed entry. Only an error of the storage itself is raised: then the claim runs out."""
    attempts = claim.delivery.attempts
    if attempts > limits.DELIVERY_TRIES:
        error = f"{attempts - 1} workers began to deliver it, and none of them came to an end"
        return (yield from _note_failure(claim, error, 0))
    progress = _Progress()
    try:
        yield from _run_steps(claim, progress)
    except ClaimLost:
        if progress.step != "learn":
            yield from forget_again(claim.engine, claim.offload)
        return DeliveryOutcome(delivery=claim.delivery, facts=progress.facts)
    except NotFound as error:  # somebody may have acknowledged it meanwhile
        if not (yield from _waits(claim)):
            return DeliveryOutcome(delivery=claim.delivery, facts=progress.facts)
        return (yield from _note_failure(claim, describe_failure(progress.step, error), progress.facts))
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the other entries go on
        return (yield from _note_failure(claim, describe_failure(progress.step, error), progress.facts))
    return DeliveryOutcome(delivery=claim.delivery, is_delivered=True, facts=progress.facts)


def _run_steps(claim: Claim, progress: _Progress) -> Flow[None]:
    engine, offload = claim.engine, claim.offload
    yield from claim.renew()  # nothing is taken that was acknowledged meanwhile, to be forgotten
    if engine.memory is None:
        yield from _take_inside(claim)
    else:
        yield from _take_outside(claim, engine.memory)
    progress.step = "learn"  # after the words: they can be recalled while a model fails
    by_rules = claim.delivery.attempts > limits.EXTRACTION_TRIES
    progress.facts = yield from learn(engine, offload, by_rules=by_rules, keep=claim.keep)
    progress.step = "acknowledge"
    yield from claim.renew()  # otherwise it may be forgotten: what was taken must go, too
    yield from lifecycle.acknowledge(engine, offload)


def _waits(claim: Claim) -> Flow[bool]:
    """Whether the entry is in the outbox still: if not, somebody else acknowledged it."""
    try:
        yield from claim.renew()
    except ClaimLost:
        return False
    return True


def _take_inside(claim: Claim) -> Flow[None]:
    """Let the built-in memory take a conversation; a long one in steps, so that the claim can be kept."""
    engine, offload = claim.engine, claim.offload
    at = 0
    while at < offload.last:
        at = min(at + _INDEX_STEP, offload.last)
        yield from index_stream(engine, offload.scope, at)
        yield from claim.keep()
    yield from take_history(engine, offload)


def _take_outside(claim: Claim, memory: Memory) -> Flow[None]:
    """Give a conversation to a memory of the caller, part by part."""
    engine, offload = claim.engine, claim.offload
    parts = HistoryParts(engine, offload, (yield from read_identities(offload.scope.stream, offload.last)))
    while (part := (yield from parts.next_part())) is not None:
        if part.messages or part.situation or (part.is_last and part.part):
            yield from give_part(memory, part)
            yield from claim.keep()


# Failures


def _note_failure(claim: Claim, error: str, facts: int) -> Flow[DeliveryOutcome]:
    """Store why an entry failed, and when it is tried again."""
    delivery = claim.delivery
    failed = msgspec.structs.replace(
        delivery,
        next_us=claim.engine.clock.now_us() + pause_us(delivery.attempts),
        error=error,
        is_set_aside=delivery.attempts >= limits.DELIVERY_TRIES,
    )
    is_stored = yield from effects.release_offload(failed)
    return DeliveryOutcome(delivery=failed, is_failed=is_stored, facts=facts)


def pause_us(attempts: int) -> int:
    """How long an entry waits after so many tries: twice as long each time, up to a bound."""
    doublings = min(max(attempts - 1, 0), limits.DELIVERY_LONGEST_PAUSE_S.bit_length())
    return min(limits.DELIVERY_FIRST_PAUSE_S << doublings, limits.DELIVERY_LONGEST_PAUSE_S) * _SECOND_US


def describe_failure(step: str, error: BaseException) -> str:
    """The kind and the place of an error, without its message: that may quote a conversation."""
    cause = error.__cause__ if isinstance(error, MemoryFailed) and error.__cause__ is not None else error
    trace, place = cause.__traceback__, ""
    while trace is not None:
        place = f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    number = f" [Errno {cause.errno}]" if isinstance(cause, OSError) and type(cause.errno) is int else ""
    text = f"{step}: {type(cause).__name__}{number}{place}"
    return text[: limits.DELIVERY_ERROR_CHARS].encode(errors="replace").decode()


# The backlog


def read_backlog(engine: EngineContext) -> Flow[DeliveryBacklog]:
    """What waits for long-term memory, and what was set aside."""
    waiting = yield from effects.deliveries(engine.tenant, set_aside=False, limit=limits.READ_EVENTS)
    set_aside = yield from effects.deliveries(engine.tenant, set_aside=True, limit=limits.READ_EVENTS)
    return DeliveryBacklog(waiting=waiting, set_aside=set_aside)


def requeue(engine: EngineContext, delivery: Delivery) -> Flow[None]:
    """Make an entry due at once, as if it had never failed. One that a worker has is left alone."""
    if type(delivery) is not Delivery or delivery.offload.scope.tenant != engine.tenant:
        reason = f"{describe_value(delivery)} is not a delivery of this tenant; pass what the backlog has"
        raise InvalidArgument(argument="delivery", reason=reason)
    yield from effects.requeue_offload(delivery, engine.clock.now_us())
