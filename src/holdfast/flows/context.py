"""The context of a flow: the engine, session or ledger that it works on, and who acts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from holdfast import chain, codec
from holdfast.core.history import levels
from holdfast.core.history.previews import Spooling
from holdfast.core.sessions.decide import check_exists
from holdfast.core.sessions.messages import closing_text
from holdfast.errors import Contended, VersionConflict
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandBatch, CommandRequest, Execution, execute
from holdfast.flows.load import StateCache, load_session_state
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import BlobRef
from holdfast.model.facts.commands import LedgerCommand
from holdfast.model.frames.frames import TokenWeights
from holdfast.model.history.plans import Faithful, PlanPolicy
from holdfast.model.history.prices import PRICES, Prices
from holdfast.model.inputs import CallInput, DecisionInput, FactWriter, FrameInput, LedgerInput
from holdfast.model.log import StoredEvent
from holdfast.model.names import LedgerId, Scope, StreamId, check_name, check_whole
from holdfast.model.packs.pack import Brief
from holdfast.model.policy import Policy
from holdfast.model.sessions.commands import RenewTurn
from holdfast.model.sessions.turns import TurnFence
from holdfast.model.state import SessionState
from holdfast.ports import (
    BlobAccess,
    Clock,
    Detector,
    Embedder,
    Extractor,
    IdSource,
    Memory,
    Summarizer,
    TokenCounter,
)

_SAMPLE_KEY = "0123456789abcdef" * 2
"""A sample of the key of a call, to count its tokens."""


class EngineContext(msgspec.Struct, frozen=True):
    """Who acts, in which tenant, and with which ports and settings."""

    tenant: str
    principal: str
    cache: StateCache
    clock: Clock
    ids: IdSource
    counter: TokenCounter
    bodies: BlobAccess
    weights: TokenWeights = TokenWeights()
    policy: Policy = Policy()
    detector: Detector | None = None
    """None for the built-in detector, loaded at its first use."""
    spooling: Spooling = Spooling()
    compaction: PlanPolicy = Faithful()
    prices: tuple[Prices, ...] = PRICES
    summarizer: Summarizer | None = None
    """None for the built-in summarizer."""
    memory: Memory | None = None
    """None for the built-in long-term memory, in the store itself."""
    embedder: Embedder | None = None
    """None: the built-in memory searches by words alone."""
    extractor: Extractor | None = None
    """None: facts are learned from ended sessions by the rules of the detector."""
    strategies: dict[str, levels.CustomFunction] = {}
    """The compaction strategies of the caller, by name."""
    briefs: dict[str, Brief] = {}
    """The brief of each role; under the empty name, the brief without a role."""
    turn: TurnFence | None = None
    """The turn under which everything is written."""


class SessionContext(msgspec.Struct, frozen=True):
    """A session, or a frame in it, as the principal sees it."""

    engine: EngineContext
    scope: Scope
    frame: str | None = None


class LedgerContext(msgspec.Struct, frozen=True):
    """A ledger as a writer sees it."""

    engine: EngineContext
    ledger: LedgerId
    writer: FactWriter
    session: Scope | None = None
    """The session through which it is used: the writer is then the identity of the session at that time."""


def load_session(session: SessionContext) -> Flow[SessionState]:
    """The current state of the session. Raises if it does not exist, or was destroyed."""
    state = yield from load_session_state(session.scope.stream, session.engine.cache, fresh=True)
    check_exists(state, session.scope)
    return state


def peek_session(session: SessionContext) -> Flow[SessionState]:
    """The same, as this process knows it: others may have written since."""
    state = yield from load_session_state(session.scope.stream, session.engine.cache, fresh=False)
    check_exists(state, session.scope)
    return state


def execute_command(
    session: SessionContext,
    command: SessionCommand,
    *,
    tokens: Iterable[int] = (),
    closing_reason: str | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
    bodies: Iterable[BlobRef] = (),
    spent: Iterable[int] = (),
    digest: str = "",
) -> Flow[Execution]:
    """Execute one command. `closing_reason` is why it closes open calls; `bodies` must be stored before it."""
    inputs = build_input(session.engine, tokens=tokens, closing_reason=closing_reason, spent=spent, digest=digest)
    requests = [CommandRequest(command, inputs)]
    return execute_commands(session.engine, requests, key=key, expect=expect, cause=cause, bodies=bodies)


def build_input(
    engine: EngineContext,
    *,
    tokens: Iterable[int] = (),
    closing_reason: str | None = None,
    spent: Iterable[int] = (),
    digest: str = "",
) -> DecisionInput:
    counter = engine.counter
    calls = CallInput()
    if closing_reason is not None:
        calls = CallInput(
            closing_tokens=counter.count(closing_text(closing_reason)),
            started_tokens=counter.count(closing_text(closing_reason, _SAMPLE_KEY)),
        )
    return DecisionInput(
        time_us=engine.clock.now_us(),
        principal=engine.principal,
        counter=counter.name,
        tokens=tuple(tokens),
        spent=tuple(spent),
        calls=calls,
        frame=FrameInput(digest=digest),
    )


def build_ledger_request(
    ledger: LedgerContext, command: LedgerCommand, refusals: list[str] | None = None
) -> CommandRequest:
    """A command to a ledger, on behalf of its writer."""
    engine = ledger.engine
    inputs = DecisionInput(
        time_us=engine.clock.now_us(),
        principal=engine.principal,
        ledger=LedgerInput(writer=ledger.writer, policy=engine.policy),
    )
    return CommandRequest(command, inputs, refusals)


def execute_commands(
    engine: EngineContext,
    requests: Sequence[CommandRequest],
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
    bodies: Iterable[BlobRef] = (),
    key_content: bytes | None = None,
    is_exclusive: bool = False,
) -> Flow[Execution]:
    """Execute commands at one time, all or none. `key_content` is the content that the key is bound to, if it is not the
    commands: they may depend on more than what the caller passed. `is_exclusive` as for execute()."""
    time_us = requests[0].inputs.time_us
    if engine.turn is not None:
        key_content = key_content or codec.encode_commands([request.command for request in requests])
        requests = _fence_requests(engine.turn, requests, time_us)
    return execute(
        CommandBatch(
            requests=tuple(_set_time(request, time_us) for request in requests),
            key_content=key_content,
            principal=engine.principal,
            cause=None if cause is None else check_name("cause", cause),
            key=None if key is None else check_name("idempotency key", key),
            expected=None if expect is None else check_whole("the expected version", expect),
            preconditions=tuple(functools.partial(engine.bodies.check, engine.tenant, ref) for ref in bodies),
        ),
        engine.cache,
        engine.ids,
        is_exclusive=is_exclusive,
    )


def execute_on_state(
    context: SessionContext,
    build: Callable[[SessionState], Flow[list[CommandRequest]]],
    content: bytes,
    key: str | None,
    expect: int | None,
    cause: str | None,
) -> Flow[Sequence[StoredEvent]]:
    """Execute the commands that are built for the current state, built again if another flow or process was first. This
    process then writes nothing else to their streams until it is done."""
    if key is not None and (first := (yield from effects.find(context.scope.tenant, check_name("key", key)))):
        return chain.answer_repeated_key(key, content, first).events
    streams: list[StreamId] = []

    def attempt(*, is_exclusive: bool) -> Flow[Sequence[StoredEvent]]:
        state = yield from load_session(context)
        requests = yield from build(state)
        streams[:] = dict.fromkeys(request.command.stream for request in requests)
        version = state.version if expect is None else expect
        options: dict[str, Any] = {"key": key, "expect": version, "cause": cause, "key_content": content}
        return (yield from execute_commands(context.engine, requests, **options, is_exclusive=is_exclusive)).events

    def attempt_again(conflict: VersionConflict) -> Flow[Sequence[StoredEvent]]:
        for _ in range(1, limits.REDECIDE_TRIES):
            try:
                return (yield from attempt(is_exclusive=True))
            except VersionConflict as error:
                conflict = error
        raise Contended(
            stream=conflict.stream,
            expected=conflict.expected,
            actual=conflict.actual,
            tries=limits.REDECIDE_TRIES,
            limit_name="REDECIDE_TRIES",
        ) from conflict

    try:
        return (yield from attempt(is_exclusive=False))
    except VersionConflict as error:
        if expect is not None:
            raise
        return (yield from effects.run_exclusively(streams, attempt_again(error)))


def _fence_requests(turn: TurnFence, requests: Sequence[CommandRequest], time_us: int) -> list[CommandRequest]:
    """Bind these commands to a turn. If none of them writes to the session, the turn is renewed with them, so that the same
    transaction checks it."""
    fenced = [
        msgspec.structs.replace(request, inputs=msgspec.structs.replace(request.inputs, turn=turn))
        if request.command.stream == turn.scope.stream
        else request
        for request in requests
    ]
    if all(request.inputs.turn is None for request in fenced):
        renewal = RenewTurn(scope=turn.scope, number=turn.number, lease_us=turn.lease_us, frame=turn.frame)
        fenced.append(CommandRequest(renewal, DecisionInput(time_us=time_us)))
    return fenced


def _set_time(request: CommandRequest, time_us: int) -> CommandRequest:
    if request.inputs.time_us == time_us:
        return request
    return msgspec.structs.replace(request, inputs=msgspec.structs.replace(request.inputs, time_us=time_us))
