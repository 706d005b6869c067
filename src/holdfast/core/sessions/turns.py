"""Turns: who may work on a conversation.

Laws: at any time, at most one turn on a conversation is in force. The numbers of turns only rise. A command under a turn
that is over is refused. Those who wait are served in order; one that does not come in time loses its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast import errors
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import Scope
from holdfast.model.sessions.commands import EndTurn, RenewTurn, TakeTurn, TurnCommand
from holdfast.model.sessions.events import TurnAwaited, TurnEnded, TurnRenewed, TurnTaken
from holdfast.model.sessions.turns import NO_LEASE, Lease, TurnWaiter
from holdfast.model.state import OpenCall, SessionState

_LAST_S = 253_402_300_799
"""The last second that has a date: in the year 9999."""
TURN_EVENTS = {TurnTaken.name, TurnRenewed.name, TurnEnded.name, TurnAwaited.name}


def find_lease(state: SessionState, frame: str | None) -> Lease:
    return state.leases.get(frame or "", NO_LEASE)


def find_running_lease(state: SessionState, call: OpenCall, now_us: int) -> Lease | None:
    """The lease under which a call runs now; None if it was started under none, or under one that is over."""
    if not call.turn:
        return None
    return next((each for each in state.leases.values() if each.number == call.turn and each.is_held(now_us)), None)


def check_fence(state: SessionState, command: SessionCommand, inputs: DecisionInput) -> None:
    """Refuse a command under a turn that is over."""
    fence = inputs.turn
    if fence is None or isinstance(command, TurnCommand):
        return
    if state.status != "open" or (fence.frame is not None and fence.frame not in state.frames):
        return  # the command itself is refused, with a better reason
    lease = find_lease(state, fence.frame)
    if lease.number != fence.number or not lease.owner:
        raise _lease_lost(fence.scope, fence.number, lease)


def _lease_lost(scope: Scope, number: int, lease: Lease) -> errors.LeaseLost:
    taken = lease.number != number and lease.owner
    reason = f"{lease.owner!r} has taken the next one" if taken else "it has ended"
    return errors.LeaseLost(session=scope.session, number=number, owner=lease.owner, reason=reason)


def busy_error(scope: Scope, frame: str | None, owner: str, until_us: int, waiters: int) -> errors.TurnBusy:
    until = datetime.fromtimestamp(min(until_us // 1_000_000, _LAST_S), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return errors.TurnBusy(
        session=scope.session, frame=frame, owner=owner, until_us=until_us, until=until, waiters=waiters
    )


# Decisions


def decide(state: SessionState, command: TurnCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    lease = find_lease(state, command.frame)
    match command:
        case TakeTurn():
            return (_take(lease, command, inputs.time_us),) if not _is_in_queue(lease, command, inputs.time_us) else ()
        case RenewTurn(number=number):
            if lease.number != number or not lease.owner:
                raise _lease_lost(command.scope, number, lease)
            until_us = _add_time(inputs.time_us, command.lease_us)
            return (TurnRenewed(number=number, until_us=max(until_us, lease.until_us), frame=command.frame),)
        case EndTurn(number=number):
            is_over = lease.number != number or not lease.owner
            return () if is_over else (TurnEnded(number=number, frame=command.frame),)


def _add_time(now_us: int, more_us: int) -> int:
    return min(now_us + more_us, limits.WHOLE_NUMBER)


def _live_waiters(lease: Lease, now_us: int) -> list[TurnWaiter]:
    return [each for each in lease.waiters if now_us < each.until_us]


def _position(waiters: list[TurnWaiter], ticket: int) -> int:
    """The number of waiters before this one; of all for one that is not in the queue."""
    return next((at for at, each in enumerate(waiters) if each.ticket == ticket), len(waiters))


def _may_take(lease: Lease, waiters: list[TurnWaiter], ticket: int, now_us: int) -> bool:
    position = _position(waiters, ticket)
    ready_us = lease.free_since_us + position * limits.TURN_GRACE_US if position else 0
    return not lease.is_held(now_us) and now_us >= ready_us


def _is_in_queue(lease: Lease, command: TakeTurn, now_us: int) -> bool:
    """Whether the owner goes on waiting at its place."""
    waiters = _live_waiters(lease, now_us)
    is_waiting = _position(waiters, command.ticket) < len(waiters)
    return is_waiting and not _may_take(lease, waiters, command.ticket, now_us)


def _take(lease: Lease, command: TakeTurn, now_us: int) -> Event:
    """Take the turn, or a place in the queue."""
    waiters = _live_waiters(lease, now_us)
    if _may_take(lease, waiters, command.ticket, now_us):
        ticket = command.ticket if _position(waiters, command.ticket) < len(waiters) else 0
        until_us = _add_time(now_us, command.lease_us)
        return TurnTaken(owner=command.owner, until_us=until_us, frame=command.frame, ticket=ticket)
    if not command.wait_us or len(waiters) >= limits.TURN_WAITERS:
        holder = lease if lease.is_held(now_us) else waiters[0]
        raise busy_error(command.scope, command.frame, holder.owner, holder.until_us, len(waiters))
    return TurnAwaited(owner=command.owner, until_us=_add_time(now_us, command.wait_us), frame=command.frame)


# Folds


def fold_event(state: SessionState, event: Event | None, event_type: str, time_us: int) -> dict[str, Any]:
    """The changes of the state. If a turn's event was erased, all turns count as over: it may have been any of them."""
    seq = state.version + 1
    match event:
        case TurnTaken(frame=frame):
            new = _fold_taken(find_lease(state, frame), event, seq, time_us)
        case TurnRenewed(frame=frame, number=number, until_us=until_us):
            new = find_lease(state, frame)
            new = msgspec.structs.replace(new, until_us=until_us) if new.number == number else new
        case TurnEnded(frame=frame, number=number):
            new = find_lease(state, frame)
            new = _end_lease(new, time_us) if new.number == number else new
        case TurnAwaited(frame=frame, owner=owner, until_us=until_us):
            lease = find_lease(state, frame)
            waiters = (*_live_waiters(lease, time_us), TurnWaiter(seq, owner, until_us))
            new = msgspec.structs.replace(lease, waiters=waiters)
        case None if event_type == TurnTaken.name:
            return {"leases": {name: _end_lease(lease, time_us) for name, lease in state.leases.items()}}
        case _:
            return {}
    return {"leases": {**state.leases, frame or "": new}}


def _end_lease(lease: Lease, time_us: int) -> Lease:
    return msgspec.structs.replace(lease, owner="", until_us=0, free_us=time_us)


def _fold_taken(lease: Lease, event: TurnTaken, seq: int, time_us: int) -> Lease:
    """Those who were before the new owner in the queue did not come: they lose their places."""
    waiters = [each for each in _live_waiters(lease, time_us) if event.ticket and each.ticket > event.ticket]
    return Lease(number=seq, owner=event.owner, until_us=event.until_us, waiters=tuple(waiters))


# Faults


def find_turn_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    """Why no command can have made an event of a turn."""
    if not isinstance(event, TurnTaken | TurnRenewed | TurnEnded | TurnAwaited):
        return
    if event.frame is not None and event.frame not in state.frames and not erased:
        yield "a turn is on the conversation of a session or of a live frame"
    if isinstance(event, TurnTaken | TurnAwaited) and not event.owner:
        yield "a turn has an owner"
    if isinstance(event, TurnTaken | TurnRenewed | TurnAwaited) and not 0 < event.until_us <= limits.WHOLE_NUMBER:
        yield "a turn and a place in its queue have an end"
    if isinstance(event, TurnRenewed | TurnEnded) and not erased:
        lease = find_lease(state, event.frame)
        if lease.number != event.number or not lease.owner:
            yield "only the turn that is in force is renewed or ended"
    waiters = find_lease(state, event.frame).waiters
    if isinstance(event, TurnAwaited) and len(waiters) > limits.TURN_WAITERS:
        yield "there are more waiters than a turn takes"
