"""The lifecycle of sessions: create, list, reset, end, destroy, time out; and the outbox for long-term memory.

Laws: the end of a conversation puts its history into the outbox in the same transaction. Nothing is erased before long-term
memory has acknowledged it, unless the caller excludes it from the offload.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from holdfast import codec
from holdfast.core.sessions import decide as core
from holdfast.core.sessions.layers import check_identity
from holdfast.core.situation.fold import copy_states
from holdfast.errors import DataError, HoldfastError, InvalidArgument, InvalidCursor, SessionExists, describe_value
from holdfast.flows import effects
from holdfast.flows.context import (
    EngineContext,
    SessionContext,
    build_input,
    execute_command,
    execute_commands,
    load_session,
)
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts.changes import erase_ledger, expire_due_facts
from holdfast.flows.frames.frames import time_out_frames
from holdfast.flows.frames.lookup import session_filter
from holdfast.flows.lineage import find_forks
from holdfast.flows.load import find_hidden_seqs, load_session_state
from holdfast.flows.sessions.forks import build_fork_erasures, erase_with_forks
from holdfast.flows.sessions.ingest import check_object, to_microseconds
from holdfast.flows.sessions.layers import copy_layers
from holdfast.flows.sessions.transcript import message_of, read_withdrawn_messages
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.events import RETAINED_EVENTS
from holdfast.model.frames.frames import SweepResult
from holdfast.model.log import FeedPage
from holdfast.model.names import (
    LedgerId,
    Scope,
    check_choice,
    check_flag,
    check_ledgers,
    check_name,
    check_size,
    check_whole,
)
from holdfast.model.rows import BY_KEY, OutboxRow, RowOrder, SessionRow, scope_of
from holdfast.model.sessions.commands import (
    AcknowledgeOffload,
    CloseSession,
    CreateSession,
    DestroySession,
    ErasePayloads,
    ResetSession,
    TimeOutSession,
)
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message, Offload
from holdfast.model.state import SessionState

_LIST_ORDERS = {"name": BY_KEY, "recent": RowOrder(("updated_us",), backwards=True)}


def create(
    context: SessionContext,
    metadata: dict[str, Any] | None = None,
    *,
    idle_timeout_s: float | None = None,
    identity: Identity | None = None,
    ledgers: Sequence[LedgerId] = (),
    memory: bool = False,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    command = _build_creation(context, metadata, idle_timeout_s, identity, ledgers, memory)
    yield from execute_command(context, command, key=key, cause=cause)


def _build_creation(
    context: SessionContext,
    metadata: object,
    idle_timeout_s: object,
    identity: object,
    ledgers: object,
    memory: object,
) -> CreateSession:
    scope = context.scope
    return CreateSession(
        scope=scope,
        metadata=_check_metadata({} if metadata is None else metadata),
        idle_timeout_us=0 if idle_timeout_s is None else to_microseconds("idle_timeout_s", idle_timeout_s),
        identity=None if identity is None else check_identity(identity),
        ledgers=check_ledgers(ledgers, scope.stream.key, scope.tenant),
        memory=check_flag("memory", memory),
    )


def _check_metadata(metadata: object) -> dict[str, Json]:
    """The metadata, bounded: it is part of every snapshot."""
    data = check_object("metadata", metadata)
    size = len(codec.encode(data))
    check_size(
        "the metadata of the session",
        size,
        "bytes",
        "METADATA_BYTES",
        "Put large values into the blob store with engine.blobs.put() and pass the reference.",
    )
    return data


def ensure(
    context: SessionContext,
    metadata: dict[str, Any] | None = None,
    *,
    idle_timeout_s: float | None = None,
    identity: Identity | None = None,
    ledgers: Sequence[LedgerId] = (),
    memory: bool = False,
) -> Flow[None]:
    """Create the session unless it exists."""
    command = _build_creation(context, metadata, idle_timeout_s, identity, ledgers, memory)
    session = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
    if session.status == "absent":
        try:
            yield from execute_command(context, command)
        except SessionExists:  # another process was first, which is fine
            pass
    yield from state(context)


def state(context: SessionContext) -> Flow[SessionState]:
    """The current state of the session."""
    session = yield from load_session(context)
    if session.metadata or session.frames:  # a copy, which the caller may change
        copy = check_object("metadata", session.metadata)
        session = msgspec.structs.replace(session, metadata=copy, frames=dict(session.frames))
    if session.standings:
        session = msgspec.structs.replace(session, standings=copy_states(session))
    return copy_layers(session) if session.working or session.environment else session


def reset(
    context: SessionContext,
    reason: str = "reset",
    *,
    keep_system: bool = True,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Start the conversation anew."""
    command = ResetSession(
        scope=context.scope, reason=_check_reason(reason), keep_system=check_flag("keep_system", keep_system)
    )
    yield from execute_command(context, command, closing_reason=reason, key=key, expect=expect, cause=cause)


def close(
    context: SessionContext,
    reason: str = "done",
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """End the session: it takes no more messages."""
    command = CloseSession(scope=context.scope, reason=_check_reason(reason))
    yield from execute_command(context, command, closing_reason=reason, key=key, expect=expect, cause=cause)


def destroy(
    context: SessionContext,
    reason: str = "destroyed",
    *,
    offload: bool = True,
    forks: Literal["refuse", "destroy"] = "refuse",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[None]:
    """Destroy the session, and erase its content once the outbox has nothing of it."""
    if check_choice("forks", forks, ("refuse", "destroy")) == "destroy":
        for child in reversed((yield from find_forks(context.scope.stream))):
            if not child.row.gone:
                fork = SessionContext(context.engine, scope_of(child.row))
                yield from destroy(fork, reason, offload=offload, cause=cause)
    command = DestroySession(scope=context.scope, reason=_check_reason(reason), offload=check_flag("offload", offload))
    yield from execute_command(context, command, closing_reason=reason, key=key, cause=cause)
    yield from _erase_destroyed(context)


def erase(context: SessionContext, seqs: Sequence[int], reason: str, *, key: str | None = None) -> Flow[None]:
    """Erase the content of these events, and of all that quote them."""
    if type(seqs) not in (list, tuple, range):
        raise InvalidArgument(argument="seqs", reason="pass the seqs of the events to erase, as a list")
    named = tuple(check_whole("an event to erase", seq, 1) for seq in seqs)
    check_size("the erasure", len({*named}), "events", "ERASE_EVENTS", "Erase in several steps.")  # each is read
    command = ErasePayloads(scope=context.scope, seqs=named, reason=codec.check_text("the reason", reason))
    yield from erase_with_forks(context, command, key=key)


def _check_reason(reason: object) -> str:
    text = codec.check_text("the reason", reason)
    if not text:
        raise InvalidArgument(argument="reason", reason="it is empty; say why the conversation ends")
    return text


def _erase_destroyed(context: SessionContext) -> Flow[None]:
    """Erase the content of a destroyed session, unless some of it waits for long-term memory; with it, what its destroyed
    forks share, while they still wait."""
    where = session_filter(context.scope) | {"done": 0}
    if (yield from effects.rows(OutboxRow, where, None, 1)):
        return
    stream = context.scope.stream
    yield from erase_ledger(context.engine, LedgerId(context.scope.tenant, "session", stream.key), "destroyed")
    session = yield from load_session_state(stream, context.engine.cache, fresh=True)
    hidden = yield from find_hidden_seqs(stream)
    after, end = 0, session.version
    while session.residue and after < end:
        seqs: list[int] = []
        while after < end and len(seqs) < limits.ERASE_EVENTS:
            page = yield from effects.read(stream, after, min(limits.READ_EVENTS, limits.ERASE_EVENTS - len(seqs)))
            stored = (each for each in page if each.payload is not None and each.type not in RETAINED_EVENTS)
            seqs += (each.seq for each in stored if each.seq not in hidden)
            after = page[-1].seq
        if seqs:
            command = ErasePayloads(scope=context.scope, seqs=tuple(seqs), reason="destroyed", alone=True, shared=True)
            inputs = build_input(context.engine)
            forks = yield from build_fork_erasures(stream, seqs, command.reason, inputs)
            yield from execute_commands(context.engine, [CommandRequest(command, inputs), *forks])


def list_sessions(
    engine: EngineContext,
    *,
    actor: str | None = None,
    status: Literal["open", "closed", "destroyed"] | None = None,
    active_since_us: int | None = None,
    idle_since_us: int | None = None,
    order: Literal["name", "recent"] = "name",
    after: SessionRow | None = None,
    limit: int = 100,
) -> Flow[tuple[SessionRow, ...]]:
    """The sessions of the tenant, by name or the most recently active first."""
    where: dict[str, str | int] = {"tenant": engine.tenant}
    if actor is not None:
        where["actor"] = check_name("actor", actor)
    if status is None:
        where["gone"] = 0
    else:
        where["status"] = check_choice("status", status, ("open", "closed", "destroyed"))
    if after is not None:
        _check_row(after)
    least = {} if active_since_us is None else {"updated_us": check_whole("active_since_us", active_since_us)}
    most = {} if idle_since_us is None else {"updated_us": check_whole("idle_since_us", idle_since_us)}
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    row_order = _LIST_ORDERS[check_choice("order", order, _LIST_ORDERS)]
    return (yield from effects.rows(SessionRow, where, after, limit, order=row_order, least=least, most=most))


def _check_row(after: object) -> None:
    if type(after) is not SessionRow:
        raise InvalidArgument(argument="after", reason="pass the last row of the page before")
    for column in SessionRow.key:
        codec.check_text(f"the {column} of the row before", getattr(after, column))
    check_whole("the time of the row before", after.updated_us)


def sweep(engine: EngineContext, *, limit: int = 1_000) -> Flow[SweepResult]:
    """Time out idle sessions and late frames, expire facts, and finish erasures. Several processes may sweep at once."""
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    tenant: dict[str, str | int] = {"tenant": engine.tenant}
    most = {"expires_us": engine.clock.now_us()}
    soonest = RowOrder(("expires_us",))
    due = yield from effects.rows(SessionRow, tenant | {"status": "open"}, None, limit, order=soonest, most=most)
    swept: list[Scope] = []
    failure: HoldfastError | None = None
    for row in due:
        context = SessionContext(engine, scope_of(row))
        command = TimeOutSession(scope=context.scope)
        try:
            if (
                yield from execute_command(context, command, closing_reason="the session was idle for too long")
            ).events:
                swept.append(context.scope)
        except DataError as error:  # one damaged session does not stop the others
            failure = error
    frames, frame_error = yield from time_out_frames(engine, limit)
    facts, fact_error = yield from expire_due_facts(engine, limit)
    failure = failure or frame_error or fact_error
    where, last = tenant | {"status": "destroyed"}, None
    while page := (yield from effects.rows(SessionRow, where, last, limits.READ_EVENTS, least={"residue": 1})):
        for last in page:
            try:
                yield from _erase_destroyed(SessionContext(engine, scope_of(last)))
            except DataError as error:
                failure = error
    if failure is not None:
        raise failure
    return SweepResult(tuple(swept), tuple(frames), facts)


def outbox(engine: EngineContext, *, after: Offload | None = None, limit: int = 100) -> Flow[list[Offload]]:
    """The history that waits for long-term memory, by session name."""
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    where: dict[str, str | int] = {"tenant": engine.tenant, "done": 0}
    beyond = None if after is None else _build_outbox_row(_check_offload(engine, after))
    return [codec.build_offload(row) for row in (yield from effects.rows(OutboxRow, where, beyond, limit))]


def history(engine: EngineContext, offload: Offload, *, after: int = 0, limit: int = 100) -> Flow[list[Message]]:
    """The messages and the evidence of an outbox entry, oldest first, after seq `after`; also of a destroyed session.
    Withdrawn messages are marked."""
    _check_offload(engine, offload)
    check_whole("after", after)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    messages: list[Message] = []
    session = yield from load_session_state(offload.scope.stream, engine.cache, fresh=True)
    at = max(after, offload.first - 1)
    while at < offload.last and len(messages) < limit:
        page = yield from effects.read(offload.scope.stream, at, min(limits.READ_EVENTS, offload.last - at))
        recorded = [message_of(event) for event in page if event.type in (MessageRecorded.name, EvidenceKept.name)]
        messages += recorded[: limit - len(messages)]
        if not page:
            break
        at = page[-1].seq
    if not session.withdrawn:
        return messages
    marks = yield from read_withdrawn_messages(offload.scope.stream)
    return [marks.mark(message) for message in messages]


def acknowledge(engine: EngineContext, offload: Offload, *, key: str | None = None) -> Flow[None]:
    """Note that long-term memory has this history. A second time changes nothing."""
    _check_offload(engine, offload)
    context = SessionContext(engine, offload.scope)
    yield from execute_command(context, AcknowledgeOffload(scope=offload.scope, entry=offload.entry), key=key)
    session = yield from load_session_state(offload.scope.stream, engine.cache, fresh=True)
    if session.status == "destroyed":
        yield from _erase_destroyed(context)


def _check_offload(engine: EngineContext, offload: object) -> Offload:
    if type(offload) is not Offload or type(offload.scope) is not Scope:
        raise InvalidArgument(
            argument="offload",
            reason=f"{describe_value(offload)} is not an entry of the outbox; pass what admin.outbox() returned",
        )
    scope = offload.scope
    Scope.check(scope.tenant, scope.actor, scope.session, scope.thread)
    if scope.tenant != engine.tenant:
        raise core.session_not_found(scope)
    for field in ("entry", "first", "last"):
        check_whole(field, getattr(offload, field), 1)
    return offload


def _build_outbox_row(offload: Offload) -> OutboxRow:
    scope = offload.scope
    return OutboxRow(
        **scope.columns,
        entry=offload.entry,
        why=offload.why,
        first=offload.first,
        last=offload.last,
        at_us=offload.at_us,
        done=0,
    )


def feed(_context: EngineContext, cursor: str = "", *, limit: int = 100) -> Flow[FeedPage]:
    """Events of all sessions and tenants in one order, after a cursor."""
    if type(cursor) is not str:
        raise InvalidCursor(cursor=describe_value(cursor))
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    return (yield from effects.feed(cursor, limit))
