"""A command's way: load the state, decide, append events and rows in one transaction, fold.

Laws: the cache is changed only after the store has acknowledged; the key is looked up before anything is decided; without a
caller's expected version a collision with another process is decided anew, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from holdfast import chain, codec
from holdfast.core import facts, ledgers, sessions
from holdfast.core.fold import fold
from holdfast.errors import Contended, HoldfastError, VersionConflict
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.inform import informed
from holdfast.flows.inform_facts import about_facts
from holdfast.flows.load import State, StateCache, format_of, ledger_stepped, load, load_ledger, replay, stepped
from holdfast.model import limits
from holdfast.model.commands import Command, Given, LedgerCommand
from holdfast.model.events import Event, MessageRecorded, PayloadsErased
from holdfast.model.facts import FactState, fact_seq
from holdfast.model.log import Append, Appended, NewEvent, Snapshot, StreamWrite
from holdfast.model.names import LedgerId, Scope, StreamId
from holdfast.model.rows import Row
from holdfast.model.state import LedgerState, SessionState
from holdfast.ports import IdSource


class Part(msgspec.Struct, frozen=True):
    """One command, and what is given with it."""

    command: Command | LedgerCommand
    given: Given
    refused: list[str] | None = None
    """If it may be left out: why it was. None for one without which the others make no sense."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A command, or several that take effect together, each on what those before it made; with what travels beside them."""

    parts: tuple[Part, ...]
    bound: bytes | None = None
    """What the key stands for; None for the commands themselves."""
    principal: str
    cause: str | None = None
    key: str | None = None
    expected: int | None = None
    """The version that the first stream must have."""
    needs: tuple[Callable[[], object], ...] = ()
    """What else must be there: each raises if it is not. Asked before the append, after the key."""


class _Behind(Exception):
    """Others have written since the state was read."""

    def __init__(self, conflict: VersionConflict) -> None:
        self.conflict = conflict


class _Course:
    """What an order comes to on one stream, command by command."""

    def __init__(self, stream: StreamId, state: State) -> None:
        self.stream = stream
        self.before = self.state = state
        self.events: list[Event] = []
        self.known: dict[str, FactState] = {}
        """Facts of a ledger as they were before."""
        self._changed: dict[str, FactState] = {}
        self.time_us = 0

    @property
    def changed(self) -> Mapping[str, FactState]:
        """Facts of a ledger that are no longer as their rows say."""
        return self._changed

    def read(self, stored: Mapping[str, FactState]) -> None:
        """These were found in the rows."""
        newest = max(map(fact_seq, stored), default=0)
        if newest > self.before.version:  # newer than the state: what is made now would be named as they are
            raise _Behind(VersionConflict(stream=self.stream, expected=self.before.version, actual=newest))
        self.known = {**stored, **self.known}

    def add(self, events: tuple[Event, ...], given: Given) -> None:
        self.time_us = given.time_us
        for event in events:
            if isinstance(self.state, LedgerState):
                facts = given.slice.facts | self._changed
                self._changed |= ledgers.applied(facts, event, self.state.version + 1, given.time_us)
                self.state = ledgers.step(self.state, event.name, given.time_us)
            else:
                self.state = fold(self.state, event, event.name, given.time_us)
        self.events += events


def execute(order: Order, cache: StateCache, ids: IdSource) -> Flow[Appended]:
    """The events that the command made, now or when its key was first used; none if it changed nothing."""
    streams = dict.fromkeys(part.command.stream for part in order.parts)
    return effects.exclusive(list(streams), _execute(order, cache, ids))


def _execute(order: Order, cache: StateCache, ids: IdSource) -> Flow[Appended]:
    content = order.bound or codec.encode_commands([part.command for part in order.parts])
    fresh = False
    lost_to: VersionConflict | None = None
    for _ in range(limits.REDECIDE_TRIES):
        courses = yield from _courses(order, cache, fresh=fresh)
        if order.key is not None:  # after the state: then whoever changed it was not another try of this command
            first = yield from effects.find(order.parts[0].command.stream.tenant, order.key)
            if first:
                return chain.repeated(order.key, content, first)
        try:
            _check_expected(order, courses)
            yield from _decide(order, courses, fresh=fresh)
        except _Behind as behind:
            lost_to, fresh = behind.conflict, True
            continue
        except HoldfastError:
            # Before refusing on a state that may be old, or for a command that another thread just finished: look again.
            if fresh:
                raise
            fresh = True
            continue
        changed = [course for course in courses.values() if course.events]
        if not changed and not fresh:
            fresh = True
            continue
        if not changed:
            return Appended(())
        for need in order.needs:
            yield from effects.outside(need)
        try:
            return (yield from _commit(order, content, changed, cache, ids))
        except VersionConflict as conflict:
            if order.expected is not None:
                raise
            lost_to = conflict
            fresh = True
    assert lost_to is not None, "only a conflict leads to another try without a fresh state"
    raise Contended(
        stream=lost_to.stream,
        expected=lost_to.expected,
        actual=lost_to.actual,
        tries=limits.REDECIDE_TRIES,
        limit_name="REDECIDE_TRIES",
    ) from lost_to


def _courses(order: Order, cache: StateCache, *, fresh: bool) -> Flow[dict[StreamId, _Course]]:
    courses: dict[StreamId, _Course] = {}
    for part in order.parts:
        stream = part.command.stream
        if stream not in courses:
            loading = load_ledger if stream.kind == "ledger" else load
            courses[stream] = _Course(stream, (yield from loading(stream, cache, fresh=fresh)))
    return courses


def _check_expected(order: Order, courses: dict[StreamId, _Course]) -> None:
    stream = order.parts[0].command.stream
    if order.expected is not None and order.expected != courses[stream].state.version:
        raise VersionConflict(stream=stream, expected=order.expected, actual=courses[stream].state.version)


def _decide(order: Order, courses: dict[StreamId, _Course], *, fresh: bool) -> Flow[None]:
    """Each command on what those before it made. A fact knows the message that it is recorded with."""
    message = 0
    for part in order.parts:
        course = courses[part.command.stream]
        try:
            message = yield from _decide_part(part, course, message)
        except HoldfastError as error:
            if part.refused is None or not fresh:
                raise
            part.refused.append(str(error))


def _decide_part(part: Part, course: _Course, message: int) -> Flow[int]:
    """What the part makes is added to the course; returns the seq of the first message so far."""
    command, given = part.command, part.given
    if part.refused is not None:
        part.refused.clear()
    state = course.state
    events: tuple[Event, ...]
    if message:
        given = msgspec.structs.replace(given, message=message)
    if isinstance(state, LedgerState):
        assert isinstance(command, LedgerCommand), "a ledger's stream takes a ledger's commands"
        completed, given, stored = yield from about_facts(command, given, course.changed)
        course.read(stored)
        events = facts.decide(state, completed, given)
    else:
        assert not isinstance(command, LedgerCommand), "a session's stream takes a session's commands"
        known, given = yield from informed(command, given, state)
        events = sessions.decide(state, known, given)
        said = [seq for seq, event in enumerate(events, state.version + 1) if isinstance(event, MessageRecorded)]
        message = message or (said[0] if said else 0)
    course.add(events, given)
    return message


def _commit(order: Order, content: bytes, courses: list[_Course], cache: StateCache, ids: IdSource) -> Flow[Appended]:
    writes: list[StreamWrite] = []
    after: dict[StreamId, State] = {}
    for course in courses:
        write, after[course.stream] = yield from _write(course, ids)
        writes.append(write)
    request = Append(
        ids.command_id(),
        content,
        order.parts[0].given.time_us,
        order.principal,
        tuple(writes),
        order.cause,
        order.key,
    )
    try:
        appended = yield from effects.append(request)
    except BaseException:  # also a cancelled task: what became of the append is for the next load to find out
        for stream in after:
            cache.drop(stream)
        raise
    for stream, state in after.items():
        if appended.repeated:
            cache.drop(stream)
        else:
            cache.put(stream, state)
    return appended


def _write(course: _Course, ids: IdSource) -> Flow[tuple[StreamWrite, State]]:
    stream, before, events = course.stream, course.before, course.events
    salts = ids.salts(len(events))
    new = tuple(
        NewEvent(event.name, event.version, codec.encode_event(event), salt)
        for event, salt in zip(events, salts, strict=True)
    )
    erase = events[0].seqs if isinstance(events[0], PayloadsErased) else ()
    rows: list[Row] = []
    after, known = before, course.known
    if erase:
        after, rows, known = yield from replay(stream, before.version, erased=frozenset(erase))
    named = ((event, event.name, course.time_us) for event in events)
    if isinstance(after, LedgerState):
        after, made = ledger_stepped(LedgerId.of(stream), after, named, known)
    else:
        after, made = stepped(Scope.of(stream), after, named)
    snapshot = snapshot_of(stream, 0 if erase else before.version, after)
    return StreamWrite(stream, before.version, new, (*rows, *made), snapshot, erase), after


def snapshot_of(stream: StreamId, before: int, state: State) -> Snapshot | None:
    """One every SNAPSHOT_EVERY events; while many frames live, every so many events, so that what is written down again and
    again stays a small part. A state over the bound is replayed instead: slower, never wrong."""
    every = limits.SNAPSHOT_EVERY
    if isinstance(state, SessionState):
        while every * 4 < len(state.frames):
            every *= 2
    if before // every == state.version // every:
        return None
    encoded = codec.encode(state)
    if len(encoded) > limits.SNAPSHOT_BYTES:
        return None
    return Snapshot(state.version, format_of(stream), encoded)
