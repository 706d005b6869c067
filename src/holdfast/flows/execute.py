"""A command's way: load the state, decide, append events and rows in one transaction, fold.

Laws: the cache is changed only after the store has acknowledged; the key is looked up before anything is decided; without a
caller's expected version a collision with another process is decided anew, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast import chain, codec
from holdfast.core import sessions
from holdfast.errors import Contended, HoldfastError, VersionConflict
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform import informed
from holdfast.flows.load import StateCache, load, replay, stepped
from holdfast.model import limits
from holdfast.model.commands import Command, Given
from holdfast.model.events import Event, PayloadsErased
from holdfast.model.log import Append, Appended, NewEvent, Snapshot, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import Row
from holdfast.model.state import SNAPSHOT_FORMAT, SessionState
from holdfast.ports import IdSource


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A command with what travels beside it."""

    command: Command
    given: Given
    principal: str
    cause: str | None = None
    key: str | None = None
    expected: int | None = None
    needs: tuple[Callable[[], object], ...] = ()
    """What else must be there: each raises if it is not. Asked before the append, after the key."""


def execute(order: Order, cache: StateCache, ids: IdSource) -> Flow[Appended]:
    """The events that the command made, now or when its key was first used; none if it changed nothing."""
    return effects.exclusive([order.command.scope.stream], _execute(order, cache, ids))


def _execute(order: Order, cache: StateCache, ids: IdSource) -> Flow[Appended]:
    stream = order.command.scope.stream
    content = codec.encode_command(order.command)
    fresh = False
    lost_to: VersionConflict | None = None
    for _ in range(limits.REDECIDE_TRIES):
        state = yield from load(stream, cache, fresh=fresh)
        if order.key is not None:  # after the state: then whoever changed it was not another try of this command
            first = yield from effects.find(stream.tenant, order.key)
            if first:
                return chain.repeated(order.key, content, first)
        try:
            _check_expected(order, stream, state)
            command, given = yield from informed(order.command, order.given, state)
            events = sessions.decide(state, command, given)
        except HoldfastError:
            # Before refusing on a state that may be old, or for a command that another thread just finished: look again.
            if fresh:
                raise
            fresh = True
            continue
        if not events and not fresh:
            fresh = True
            continue
        if not events:
            return Appended(())
        for need in order.needs:
            yield from effects.outside(need)
        try:
            return (yield from _commit(order, content, state, events, cache, ids))
        except VersionConflict as conflict:
            if order.expected is not None:
                raise
            lost_to = conflict
            fresh = True
    assert lost_to is not None, "only a conflict leads to another try without a fresh state"
    raise Contended(
        stream=stream,
        expected=lost_to.expected,
        actual=lost_to.actual,
        tries=limits.REDECIDE_TRIES,
        limit_name="REDECIDE_TRIES",
    ) from lost_to


def _check_expected(order: Order, stream: StreamId, state: SessionState) -> None:
    if order.expected is not None and order.expected != state.version:
        raise VersionConflict(stream=stream, expected=order.expected, actual=state.version)


def _commit(
    order: Order,
    content: bytes,
    state: SessionState,
    events: tuple[Event, ...],
    cache: StateCache,
    ids: IdSource,
) -> Flow[Appended]:
    stream = order.command.scope.stream
    write, after = yield from _write(order, stream, state, events, ids)
    request = Append(
        ids.command_id(),
        content,
        order.given.time_us,
        order.principal,
        (write,),
        order.cause,
        order.key,
    )
    try:
        appended = yield from effects.append(request)
    except BaseException:  # also a cancelled task: what became of the append is for the next load to find out
        cache.drop(stream)
        raise
    if appended.repeated:
        cache.drop(stream)
    else:
        cache.put(stream, after)
    return appended


def _write(
    order: Order, stream: StreamId, state: SessionState, events: tuple[Event, ...], ids: IdSource
) -> Flow[tuple[StreamWrite, SessionState]]:
    salts = ids.salts(len(events))
    new = tuple(
        NewEvent(event.name, event.version, codec.encode_event(event), salt)
        for event, salt in zip(events, salts, strict=True)
    )
    erase = events[0].seqs if isinstance(events[0], PayloadsErased) else ()
    rows: list[Row] = []
    after = state
    if erase:
        after, rows = yield from replay(stream, state.version, erased=frozenset(erase))
    named = ((event, event.name, order.given.time_us) for event in events)
    after, made = stepped(order.command.scope, after, named)
    rows += made
    snapshot = snapshot_of(0 if erase else state.version, after)
    return StreamWrite(stream, state.version, new, tuple(rows), snapshot, erase), after


def snapshot_of(before: int, state: SessionState) -> Snapshot | None:
    """One every SNAPSHOT_EVERY events; while many frames live, every so many events, so that what is written down again and
    again stays a small part. A state over the bound is replayed instead: slower, never wrong."""
    every = limits.SNAPSHOT_EVERY
    while every * 4 < len(state.frames):
        every *= 2
    if before // every == state.version // every:
        return None
    encoded = codec.encode(state)
    if len(encoded) > limits.SNAPSHOT_BYTES:
        return None
    return Snapshot(state.version, SNAPSHOT_FORMAT, encoded)
