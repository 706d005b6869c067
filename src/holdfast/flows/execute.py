"""The path of a command: load the state, decide, append events and rows in one transaction.

Laws: the cache changes only after the store has acknowledged the append. The key is looked up before a decision. Without an
expected version, a command that collides with another process is decided again, a bounded number of times. Each event is
folded once: the same pass gives the next state and the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdfast import chain, codec
from holdfast.core.decide import decide_session
from holdfast.core.facts.decide import decide as decide_ledger
from holdfast.core.facts.project import LedgerFold
from holdfast.errors import Contended, HoldfastError, SessionExists, VersionConflict
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.facts.lookup import gather_facts
from holdfast.flows.inputs import complete_input
from holdfast.flows.lineage import ForkBase, load_fork_base
from holdfast.flows.load import (
    StateCache,
    load_ledger_state,
    load_session_state,
    replay_stream,
    snapshot_format,
    start_fold,
)
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.events import Event
from holdfast.model.facts.commands import ForkLedger, LedgerCommand
from holdfast.model.facts.fact import FactState, fact_seq
from holdfast.model.inputs import DecisionInput
from holdfast.model.log import Append, AppendResult, NewEvent, Snapshot, StreamHead, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import Row
from holdfast.model.sessions.commands import ErasePayloads, ForkSession
from holdfast.model.sessions.events import MessageRecorded, PayloadsErased
from holdfast.model.state import LedgerState, SessionState, StreamState
from holdfast.ports import IdSource


class CommandRequest(msgspec.Struct, frozen=True):
    """One command, with its input."""

    command: SessionCommand | LedgerCommand
    inputs: DecisionInput
    refusals: list[str] | None = None
    """For an optional command: why it was left out. None for a command that the others need."""
    version: int | None = None
    """The version of the stream that the command was built for; None for any."""


class CommandBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One command, or several that take effect together. Each is decided on the state after those before it."""

    requests: tuple[CommandRequest, ...]
    key_content: bytes | None = None
    """The content that the key is bound to; None for the commands themselves."""
    principal: str
    cause: str | None = None
    key: str | None = None
    expected: int | None = None
    """The version that the first stream must have."""
    preconditions: tuple[Callable[[], object], ...] = ()
    """Each raises if it is not met. Checked after the key was looked up, before the append."""


class Execution(AppendResult, frozen=True, gc=False):
    """The events of a command as they are stored."""

    decided: tuple[Event, ...] = ()
    """The same events, decoded; none for a repeated command."""


class _StaleStateError(Exception):
    """Other processes have written since the state was read."""

    def __init__(self, conflict: VersionConflict) -> None:
        self.conflict = conflict


class _StreamChanges:
    """The changes that a batch makes to one stream, command by command."""

    def __init__(self, stream: StreamId, state: StreamState) -> None:
        self.stream = stream
        self.version = state.version
        """Before the batch."""
        self.events: list[Event] = []
        self.erase: tuple[int, ...] = ()
        self.keeps_taken = False
        """The erasure leaves what long-term memory has taken: the session is destroyed."""
        self.base: StreamHead | None = None
        """Where a new fork continues another stream."""
        self._fold = start_fold(stream, state, {})
        self._replay_rows: list[Row] = []

    @property
    def state(self) -> StreamState:
        return self._fold.state

    @property
    def fact_changes(self) -> Mapping[str, FactState]:
        """The facts of a ledger that differ from their rows."""
        return self._fold.changes if isinstance(self._fold, LedgerFold) else {}

    def add_stored_facts(self, facts: Mapping[str, FactState]) -> None:
        """Note facts as their rows have them, before events that name them are added."""
        newest = max(map(fact_seq, facts), default=0)
        if newest > self.version:  # newer than the state: a new fact would get the id of a stored one
            raise _StaleStateError(VersionConflict(stream=self.stream, expected=self.version, actual=newest))
        if isinstance(self._fold, LedgerFold) and not self.erase:  # a replay has read all facts
            for name, fact in facts.items():
                self._fold.facts.setdefault(name, fact)

    def begin_fork(self, base: ForkBase) -> None:
        """Begin a new stream with the state and the rows of another one."""
        self.base = base.head
        self._fold = start_fold(self.stream, base.state, {})
        self._replay_rows = base.rows

    def add_events(self, events: tuple[Event, ...], time_us: int) -> Flow[None]:
        """Fold these events. Before an erasure, the stream is replayed without the erased payloads."""
        if events and not self.events and isinstance(events[0], PayloadsErased):
            self.erase = events[0].seqs
            replay = yield from replay_stream(self.stream, self.version, erased=frozenset(self.erase))
            state, self._replay_rows, facts = replay
            self._fold = start_fold(self.stream, state, facts)
        for event in events:
            self._fold.add(event, event.name, time_us)
        self.events += events

    def build_write(self, ids: IdSource) -> StreamWrite:
        salts = ids.salts(len(self.events))
        new = tuple(
            NewEvent(event.name, event.version, codec.encode_event(event), salt)
            for event, salt in zip(self.events, salts, strict=True)
        )
        rows = (*self._replay_rows, *self._fold.build_rows())
        snapshot = build_snapshot(self.stream, 0 if self.erase else self.version, self.state)
        return StreamWrite(self.stream, self.version, new, rows, snapshot, self.erase, self.base, self.keeps_taken)


def execute(batch: CommandBatch, cache: StateCache, ids: IdSource, *, is_exclusive: bool = False) -> Flow[Execution]:
    """The events of the batch, appended now or when its key was first used; none if it changed nothing. `is_exclusive` says
    that the caller runs this exclusively already."""
    targets = [request.command.stream for request in batch.requests]
    flow = _execute_in_turn(batch, targets, cache, ids)
    return flow if is_exclusive else effects.run_exclusively([*dict.fromkeys(targets)], flow)


def _execute_in_turn(
    batch: CommandBatch, targets: Sequence[StreamId], cache: StateCache, ids: IdSource
) -> Flow[Execution]:
    """`targets` are the streams of the requests, in their order."""
    content = batch.key_content or codec.encode_commands([request.command for request in batch.requests])
    fresh = False
    last_conflict: VersionConflict | None = None
    for _ in range(limits.REDECIDE_TRIES):
        streams = yield from _load_streams(targets, cache, fresh=fresh)
        if batch.key is not None:  # after the state: then another try of this command cannot have changed it
            first = yield from effects.find(targets[0].tenant, batch.key)
            if first:
                return Execution(chain.answer_repeated_key(batch.key, content, first).events, repeated=True)
        try:
            targeted = [streams[stream] for stream in targets]
            _check_expected(batch, targeted)
            yield from _decide_batch(batch, targeted, cache, fresh=fresh)
        except _StaleStateError as stale:
            last_conflict, fresh = stale.conflict, True
            continue
        except HoldfastError:
            # The state may be old, or another thread may have just finished this command: look again before the refusal.
            if fresh:
                raise
            fresh = True
            continue
        changes = [each for each in streams.values() if each.events]
        if not changes and not fresh:
            fresh = True
            continue
        if not changes:
            return Execution(())
        for check in batch.preconditions:
            yield from effects.run_outside(check)
        try:
            return (yield from _commit(batch, content, changes, cache, ids))
        except VersionConflict as conflict:
            if batch.expected is not None:
                raise
            last_conflict = conflict
            fresh = True
    assert last_conflict is not None, "only a conflict leads to another try on a fresh state"
    raise Contended(
        stream=last_conflict.stream,
        expected=last_conflict.expected,
        actual=last_conflict.actual,
        tries=limits.REDECIDE_TRIES,
        limit_name="REDECIDE_TRIES",
    ) from last_conflict


def _load_streams(
    targets: Sequence[StreamId], cache: StateCache, *, fresh: bool
) -> Flow[dict[StreamId, _StreamChanges]]:
    streams: dict[StreamId, _StreamChanges] = {}
    for stream in targets:
        if stream not in streams:
            load = load_ledger_state if stream.kind == "ledger" else load_session_state
            streams[stream] = _StreamChanges(stream, (yield from load(stream, cache, fresh=fresh)))
    return streams


def _check_expected(batch: CommandBatch, changes: Sequence[_StreamChanges]) -> None:
    """`changes` are those of the streams of the requests, in their order."""
    for at, (request, each) in enumerate(zip(batch.requests, changes, strict=True)):
        for expected in (batch.expected if at == 0 else None, request.version):
            if expected is not None and expected != each.version:
                raise VersionConflict(stream=each.stream, expected=expected, actual=each.version)


def _decide_batch(
    batch: CommandBatch, changes: Sequence[_StreamChanges], cache: StateCache, *, fresh: bool
) -> Flow[None]:
    """Decide each command on the state after those before it. A fact gets the seq of the message recorded with it."""
    message = 0
    for request, each in zip(batch.requests, changes, strict=True):
        try:
            message = yield from _decide_request(request, each, message, cache)
        except HoldfastError as error:
            if request.refusals is None or not fresh:
                raise
            request.refusals.append(str(error))


def _decide_request(request: CommandRequest, changes: _StreamChanges, message: int, cache: StateCache) -> Flow[int]:
    """Add the events of one command to the changes; returns the seq of the first message of the batch so far."""
    command, inputs = request.command, request.inputs
    if isinstance(command, ForkSession | ForkLedger):
        if changes.version:
            actor, name, *_ = changes.stream.key if isinstance(command, ForkSession) else changes.stream.key[1:]
            raise SessionExists(session=name, actor=actor)
        base = yield from load_fork_base(command.parent.stream, command.cut, changes.stream, cache)
        changes.begin_fork(base)
        inputs = msgspec.structs.replace(inputs, fork=base.origin)
    state = changes.state
    if request.refusals is not None:
        request.refusals.clear()
    if message:
        inputs = msgspec.structs.replace(inputs, message=message)
    events: tuple[Event, ...]
    if isinstance(state, LedgerState):
        assert isinstance(command, LedgerCommand), "a ledger's stream takes a ledger's commands"
        command, inputs, stored = yield from gather_facts(command, inputs, changes.fact_changes)
        changes.add_stored_facts(stored)
        events = decide_ledger(state, command, inputs)
    else:
        assert not isinstance(command, LedgerCommand), "a session's stream takes a session's commands"
        command, inputs = yield from complete_input(command, inputs, state)
        events = decide_session(state, command, inputs)
        seqs = (seq for seq, event in enumerate(events, state.version + 1) if isinstance(event, MessageRecorded))
        message = message or next(seqs, 0)
        changes.keeps_taken |= isinstance(command, ErasePayloads) and command.alone and state.status == "destroyed"
    yield from changes.add_events(events, inputs.time_us)
    return message


def _commit(
    batch: CommandBatch, content: bytes, changes: list[_StreamChanges], cache: StateCache, ids: IdSource
) -> Flow[Execution]:
    writes = tuple(each.build_write(ids) for each in changes)
    request = Append(
        ids.command_id(),
        content,
        batch.requests[0].inputs.time_us,
        batch.principal,
        writes,
        batch.cause,
        batch.key,
    )
    try:
        result = yield from effects.append(request)
    except BaseException:  # also a cancelled task: the next load finds out whether the append took effect
        for each in changes:
            cache.drop(each.stream)
        raise
    if result.repeated:
        for each in changes:
            cache.drop(each.stream)
        return Execution(result.events, repeated=True)
    for each in changes:
        cache.put(each.stream, each.state)
    return Execution(result.events, decided=tuple(event for each in changes for event in each.events))


def build_snapshot(stream: StreamId, before: int, state: StreamState) -> Snapshot | None:
    """A snapshot every SNAPSHOT_EVERY events, less often while many frames are live: snapshots stay a small part of the
    writes. None for a state over the size limit, which is replayed from its events instead."""
    every = limits.SNAPSHOT_EVERY
    if isinstance(state, SessionState):
        while every * 4 < len(state.frames):
            every *= 2
    if before // every == state.version // every:
        return None
    encoded = codec.encode(state)
    if len(encoded) > limits.SNAPSHOT_BYTES:
        return None
    return Snapshot(state.version, snapshot_format(stream), encoded)
