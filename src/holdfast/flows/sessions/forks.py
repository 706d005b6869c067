"""Fork a session, list its forks, and erase in all of them what is erased in it.

Laws: a fork and its parent change in one transaction, so an erasure in the parent knows all forks that it must reach. No
event and no body is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import TypeAlias

import msgspec

from holdfast import codec
from holdfast.core.sessions.decide import FORK_REASON
from holdfast.core.sessions.forks import extend_lineage
from holdfast.errors import InvalidArgument, describe_value
from holdfast.flows import effects
from holdfast.flows.context import (
    EngineContext,
    LedgerContext,
    SessionContext,
    build_input,
    build_ledger_request,
    execute_commands,
    execute_on_state,
    load_session,
)
from holdfast.flows.effects import Flow
from holdfast.flows.entries.lookup import find_entry_seqs
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.facts.queries import own_ledger
from holdfast.flows.lineage import find_children, find_forks
from holdfast.flows.sessions.erasure import find_erased_seqs
from holdfast.flows.sessions.messages import find_message
from holdfast.model.entries.commands import DeleteEntries
from holdfast.model.facts.commands import BranchLedger, ForkLedger
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import Scope, StreamId, check_name, check_whole, hash_long_name
from holdfast.model.rows import SessionRow, scope_of
from holdfast.model.sessions.commands import BranchSession, ErasePayloads, ForkSession
from holdfast.model.sessions.messages import Message
from holdfast.model.state import SessionState

ForkPoint: TypeAlias = Message | int | str | None
"""The last thing that a fork shares: a message, its seq, or an id of it; None for everything."""


def fork(
    context: SessionContext,
    at: ForkPoint = None,
    *,
    as_: str | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[SessionContext]:
    """Begin a session that shares the events of this one up to a message."""
    engine, scope = context.engine, context.scope
    new = Scope(scope.tenant, scope.actor, _name_fork(engine, scope, as_, key), scope.thread)
    state = yield from load_session(context)
    cut = yield from _find_cut(context, state, at)
    owner = Scope.from_stream(extend_lineage(state.origin, scope.stream.key, cut)[-1].stream_beside(scope.stream))
    inputs = build_input(engine, closing_reason=FORK_REASON)
    requests = [
        CommandRequest(BranchSession(scope=owner, fork=new, cut=cut), inputs),
        CommandRequest(ForkSession(scope=new, parent=owner, cut=cut), inputs),
    ]
    shared = yield from _find_ledger_cut(owner, cut)
    if shared:
        parent, own = own_ledger(owner), own_ledger(new)
        requests += [
            _build_ledger_request(engine, BranchLedger(ledger=parent, fork=own, cut=shared)),
            _build_ledger_request(engine, ForkLedger(ledger=own, parent=parent, cut=shared)),
        ]
    point = at.seq if isinstance(at, Message) else at
    content = codec.encode(("fork", scope.stream.key, point, as_))
    yield from execute_commands(engine, requests, key=key, cause=cause, key_content=content)
    return SessionContext(msgspec.structs.replace(engine, turn=None), new)


def list_forks(context: SessionContext) -> Flow[tuple[SessionRow, ...]]:
    """The forks of a session, and those of its forks, parents first, without destroyed ones."""
    yield from load_session(context)
    forks = yield from find_forks(context.scope.stream)
    return tuple(each.row for each in forks if not each.row.gone)


def _name_fork(engine: EngineContext, scope: Scope, name: object, key: object) -> str:
    """The name of a fork. Without one, it is made of the name of the session; with a key, of the key as well, so that a
    retry means the same fork."""
    if name is not None:
        return check_name("as_", name)
    unique = engine.ids.command_id() if key is None else hashlib.sha256(check_name("key", key).encode()).hexdigest()
    return hash_long_name(f"{scope.session}~{unique[-12:]}")


def _find_cut(context: SessionContext, state: SessionState, at: object) -> Flow[int]:
    """The seq of the last event that a fork shares."""
    if at is None:
        return state.version
    if isinstance(at, str):
        message = (yield from find_message(context, at)) if at else None
        if message is None:
            raise InvalidArgument(argument="at", reason=f"{describe_value(at)} is no message of this session")
        return message.seq
    if isinstance(at, Message):
        return check_whole("at.seq", at.seq, 1, state.version)
    return check_whole("at", at, 1, state.version)


def _find_ledger_cut(owner: Scope, cut: int) -> Flow[int]:
    """The version of the session's own ledger when event `cut` of the session was stored; 0 if it had no events."""
    ledger = own_ledger(owner).stream
    head = yield from effects.head(ledger)
    following = yield from effects.read(owner.stream, cut, 1)
    if head is None or not following:
        return 0 if head is None else head.version
    (end,) = yield from effects.positions(owner.stream, [cut + 1])
    low, high = 0, head.version  # the version is at least `low`, and at most `high`
    while low < high:
        middle = (low + high + 1) // 2
        (position,) = yield from effects.positions(ledger, [middle])
        low, high = (middle, high) if position < end else (low, middle - 1)
    while low:  # facts that were stored together with the next event are not shared
        (last,) = yield from effects.read(ledger, low - 1, 1)
        if last.command != following[0].command:
            break
        low -= 1
    return low


def _build_ledger_request(engine: EngineContext, command: BranchLedger | ForkLedger) -> CommandRequest:
    return build_ledger_request(LedgerContext(engine, command.ledger, writer_for(engine, None)), command)


def erase_with_forks(
    context: SessionContext, command: ErasePayloads | DeleteEntries, *, key: str | None = None, cause: str | None = None
) -> Flow[None]:
    """Erase events of a session, and of its forks as far as they share them, in one transaction."""
    stream = context.scope.stream

    def build(_: SessionState) -> Flow[list[CommandRequest]]:
        inputs = build_input(context.engine)
        requests = [CommandRequest(command, inputs)]
        if not (yield from find_children(stream)):
            return requests
        seqs = command.seqs if isinstance(command, ErasePayloads) else (yield from find_entry_seqs(command))
        closure = yield from find_erased_seqs(stream, seqs)
        return requests + (yield from build_fork_erasures(stream, closure, command.reason, inputs))

    yield from execute_on_state(context, build, codec.encode_commands([command]), key, None, cause)


def build_fork_erasures(
    stream: StreamId, seqs: Collection[int], reason: str, inputs: DecisionInput
) -> Flow[list[CommandRequest]]:
    """The commands that erase these events of a session in its forks, as far as they share them. A fork that begins
    meanwhile changes the version of the session or fork that it shares them with; a destroyed one has no more forks."""
    requests: list[CommandRequest] = []
    for fork in (yield from find_forks(stream)):
        shared = tuple(sorted(seq for seq in seqs if seq <= fork.cut))
        if shared and not (fork.row.gone and not fork.row.residue):
            scope = scope_of(fork.row)
            command = ErasePayloads(scope=scope, seqs=shared, reason=reason, shared=True, alone=bool(fork.row.gone))
            version = None if fork.row.gone else fork.row.version
            requests.append(CommandRequest(command, inputs, version=version))
    return requests
