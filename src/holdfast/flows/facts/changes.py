"""Changes of facts: set, supersede, retract, expire, promote, endorse, confirm, reinstate, erase.

Laws: a fact never has more authority than the channel it comes through; a command that changes nothing stores nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import upcast
from holdfast.core.facts.authority import rank, rung
from holdfast.core.facts.fold import needed_facts
from holdfast.core.facts.supersession import is_same_value
from holdfast.core.sessions import decide
from holdfast.errors import (
    DataError,
    HoldfastError,
    InvalidArgument,
    InvalidLedger,
    TooLarge,
    VersionConflict,
    describe_value,
)
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, LedgerContext, build_ledger_request, execute_commands
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts.lookup import SOONEST, read_facts
from holdfast.flows.facts.queries import (
    check_fact_name,
    check_optional_name,
    check_scope,
    read_by_id,
    read_slot,
    resolve_fact,
)
from holdfast.flows.lineage import find_children, read_origin
from holdfast.flows.load import find_hidden_seqs, load_ledger_state, load_session_state
from holdfast.flows.sessions.ingest import to_microseconds
from holdfast.model import limits
from holdfast.model.events import RETAINED_EVENTS
from holdfast.model.facts.commands import (
    AssertFact,
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFact,
    ExpireFacts,
    LedgerCommand,
    PromoteFact,
    ReinstateFact,
    RetractFact,
    SupersedeFact,
)
from holdfast.model.facts.events import FactAsserted, FactConfirmed, FactEndorsed, FactExpired, FactRetracted
from holdfast.model.facts.fact import (
    MEMORY_TYPES,
    SOURCE_TYPES,
    Fact,
    FactScope,
    FactSource,
    MemoryType,
    fact_id,
    fact_seq,
)
from holdfast.model.inputs import FactWriter
from holdfast.model.log import AppendResult
from holdfast.model.names import (
    LedgerId,
    Scope,
    StreamId,
    check_choice,
    check_flag,
    check_ledger,
    check_name,
    check_size,
    check_whole,
)
from holdfast.model.rows import FactRow, ledger_of, scope_of
from holdfast.model.sessions.layers import Identity
from holdfast.text import inference

P = ParamSpec("P")
T = TypeVar("T")
_LONG_VALUE_ADVICE = "Store long content with engine.blobs.put() and set a reference."


def resolve_ledger(
    engine: EngineContext,
    ledger: LedgerId | None = None,
    *,
    user: str | None = None,
    project: str | None = None,
    organization: str | None = None,
) -> LedgerId:
    """The ledger that the one given argument names."""
    all_names = {"user": user, "project": project, "organization": organization}
    names = {kind: name for kind, name in all_names.items() if name is not None}
    if len(names) + (ledger is not None) != 1:
        raise InvalidLedger(value=", ".join(names) or "nothing", reason="pass exactly one name")
    if ledger is not None:
        return check_ledger(ledger, engine.tenant)
    ((kind, name),) = names.items()
    return LedgerId(engine.tenant, kind, (check_name(kind, name),))  # type: ignore[arg-type]


def with_current_identity(
    flow: Callable[Concatenate[LedgerContext, P], Flow[T]],
) -> Callable[Concatenate[LedgerContext, P], Flow[T]]:
    """Run a flow with the identity that the session has at that time.

    A ledger handle of a session may be old: permissions that were revoked meanwhile no longer count."""

    @functools.wraps(flow)
    def run(context: LedgerContext, /, *args: P.args, **kwargs: P.kwargs) -> Flow[T]:
        if context.session is not None:
            state = yield from load_session_state(context.session.stream, context.engine.cache, fresh=True)
            context = msgspec.structs.replace(context, writer=writer_for(context.engine, state.identity))
        return (yield from flow(context, *args, **kwargs))

    return run


def writer_for(engine: EngineContext, identity: Identity | None) -> FactWriter:
    """What an identity may write. Without an identity, the program itself writes, with any authority."""
    ladder = engine.policy.ladder
    if identity is None:
        return FactWriter(authority=ladder.rungs[0], default=rung(ladder, engine.policy.channel))
    authority = rung(ladder, identity.authority)
    return FactWriter(
        identity=identity.user_id or identity.user_name,
        authority=authority,
        default=authority,
        permissions=identity.permissions,
    )


def set_fact(
    context: LedgerContext,
    name: str,
    value: Any,
    /,
    *,
    key: str | None = None,
    cause: str | None = None,
    expect: int | None = None,
    **options: Any,
) -> Flow[Fact]:
    """Set the value of a key. The options are those of _build_assertion()."""
    command = _build_assertion(context, name, value, **options)
    yield from _check_session_open(context, key)
    appended = yield from _execute(context, command, key, cause, expect)
    return (yield from _read_asserted_fact(context, command, appended))


def set_facts(
    context: LedgerContext,
    facts: Sequence[dict[str, Any]],
    /,
    *,
    key: str | None = None,
    cause: str | None = None,
    expect: int | None = None,
) -> Flow[tuple[Fact, ...]]:
    """Set several facts in this order, all or none; the new ones."""
    if type(facts) not in (list, tuple) or not facts:
        raise InvalidArgument(argument="facts", reason="pass a list of at least one fact")
    check_size("the batch", len(facts), "facts", "BATCH_FACTS", "Set them in several steps.")
    parts: list[CommandRequest] = []
    for at, each in enumerate(facts):
        if type(each) is not dict or not {"key", "value"} <= {*each} <= {"key", "value", *_FACT_OPTIONS}:
            reason = "pass a dict with `key`, `value` and options of set(), and nothing else"
            raise InvalidArgument(argument=f"facts[{at}]", reason=reason)
        options = {name: each[name] for name in each if name in _FACT_OPTIONS}
        command = _build_assertion(context, each["key"], each["value"], **options)
        parts.append(build_ledger_request(context, command))
    yield from _check_session_open(context, key)
    appended = yield from execute_commands(context.engine, parts, key=key, cause=cause, expect=expect)
    new: list[Fact] = []
    for recorded in appended.events:
        if recorded.type == FactAsserted.name:
            new.append((yield from read_by_id(context, fact_id(recorded.seq))))
    return tuple(new)


def _build_assertion(
    context: LedgerContext,
    name: str,
    value: Any,
    *,
    supersedes: str | Fact | Sequence[str | Fact] = (),
    depends_on: str | Fact | Sequence[str | Fact] = (),
    source: FactSource | str | None = None,
    authority: str | None = None,
    scope: FactScope | None = None,
    scope_id: str = "",
    memory_type: MemoryType | None = None,
    is_constraint: bool | None = None,
    constraint_type: str | None = None,
    requires: Sequence[str] = (),
    valid_from_us: int | None = None,
    expires_at_us: int | None = None,
    ttl_s: float | None = None,
    time_sensitive: bool | None = None,
    ref: str = "",
    provenance: str | Sequence[str] = (),
    reason: str = "",
) -> AssertFact:
    """The command that sets a fact, with all of its options checked."""
    command = AssertFact(
        ledger=context.ledger,
        key=check_name("the key of a fact", name),
        value=_check_value(value),
        ref=check_optional_name("ref", ref),
        source=_check_source(source),
        authority=None if authority is None else check_name("authority", authority),
        memory_type=None if memory_type is None else check_choice("memory_type", memory_type, MEMORY_TYPES),
        scope=None if scope is None else check_scope(scope, scope_id)[0],
        scope_id=check_scope("global", scope_id)[1],
        valid_from_us=None if valid_from_us is None else check_whole("valid_from_us", valid_from_us),
        expires_us=None if expires_at_us is None else check_whole("expires_at_us", expires_at_us),
        ttl_us=None if ttl_s is None else to_microseconds("ttl_s", ttl_s),
        supersedes=_check_names(context, "supersedes", supersedes),
        depends_on=_check_names(context, "depends_on", depends_on),
        is_constraint=None if is_constraint is None else check_flag("is_constraint", is_constraint),
        constraint_type=None if constraint_type is None else check_name("constraint_type", constraint_type),
        requires=_check_permissions(requires),
        provenance=_check_names(context, "provenance", provenance),
        time_sensitive=None if time_sensitive is None else check_flag("time_sensitive", time_sensitive),
        reason=_check_reason(reason),
    )
    if command.expires_us is not None and command.ttl_us is not None:
        raise InvalidArgument(argument="ttl_s", reason="expires_at_us is set, too: pass one of the two")
    if command.is_constraint is False and command.constraint_type is not None:
        raise InvalidArgument(argument="constraint_type", reason="is_constraint is False: leave one of the two out")
    return command


_FACT_OPTIONS = frozenset(_build_assertion.__kwdefaults__ or ())
"""The options of a fact beside its key and value."""


def _read_asserted_fact(context: LedgerContext, command: AssertFact, appended: AppendResult) -> Flow[Fact]:
    """The fact that an assertion created, or the one that it repeated."""
    for recorded in appended.events:
        if recorded.stream != context.ledger.stream:
            continue
        event = upcast.decode_event(recorded)
        if isinstance(event, FactAsserted):
            return (yield from read_by_id(context, fact_id(recorded.seq)))
        if isinstance(event, FactEndorsed | FactConfirmed):
            return (yield from read_by_id(context, event.fact))
    scope = command.scope or inference.infer_scope(command.value)
    slot = yield from read_slot(context, command.key, scope, command.scope_id)
    equal = [each.fact for each in slot if is_same_value(each.fact.value, command.value)]
    now, ladder = context.engine.clock.now_us(), context.engine.policy.ladder

    def order_of(fact: Fact) -> tuple[bool, bool, int, int]:
        return fact.is_claim, fact.has_expired(now), -rank(ladder, fact.authority), -fact_seq(fact.id)

    if equal:
        return (yield from read_by_id(context, min(equal, key=order_of).id))
    raise InvalidArgument(
        argument="name",
        reason=f"the fact {command.key!r} was retracted or erased after it was set: set it again, with another "
        "idempotency key if you passed one",
    )


def retract(
    context: LedgerContext, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[tuple[Fact, ...]]:
    """Retract a fact and the facts derived from it; the retracted facts that the writer may read."""
    name = check_fact_name(context, "fact", fact)
    command = RetractFact(ledger=context.ledger, fact=name, reason=_check_reason(reason))
    appended = yield from _execute(context, command, key, cause)
    retracted: list[Fact] = []
    for recorded in appended.events:
        event = upcast.decode_event(recorded)
        for each in event.facts if isinstance(event, FactRetracted) else ():
            ended = yield from read_by_id(context, each, absent_ok=True)
            retracted += [] if ended is None else [ended]
    if appended.events:
        return tuple(retracted)
    unchanged = yield from resolve_fact(context, name, prefer_ended=True)
    return () if unchanged.is_valid else (unchanged,)


def supersede(
    context: LedgerContext,
    fact: str | Fact,
    by: str | Fact,
    *,
    reason: str = "",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Fact]:
    """Supersede a fact by another one; the superseded fact."""
    successor = check_fact_name(context, "by", by)
    return _change_fact(context, SupersedeFact, fact, reason, key, cause, by=successor)


def expire(
    context: LedgerContext, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[Fact]:
    """End a fact because its time is over."""
    return _change_fact(context, ExpireFact, fact, reason, key, cause)


def promote(
    context: LedgerContext,
    fact: str | Fact,
    *,
    scope: FactScope = "global",
    scope_id: str = "",
    reason: str = "",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Fact]:
    """Move a fact to a wider scope."""
    wider, wider_id = check_scope(scope, scope_id)
    return _change_fact(context, PromoteFact, fact, reason, key, cause, scope=wider, scope_id=wider_id)


def endorse(
    context: LedgerContext,
    fact: str | Fact,
    authority: str | None = None,
    *,
    reason: str = "",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Fact]:
    """Raise the authority of a fact."""
    authority = None if authority is None else check_name("authority", authority)
    return _change_fact(context, EndorseFact, fact, reason, key, cause, authority=authority)


def confirm(
    context: LedgerContext, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[Fact]:
    """Confirm a fact that needs a review or is disputed."""
    return _change_fact(context, ConfirmFact, fact, reason, key, cause)


def reinstate(
    context: LedgerContext, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[Fact]:
    """Make a superseded fact current again, and retract its successor."""
    return _change_fact(context, ReinstateFact, fact, reason, key, cause)


def _change_fact(
    context: LedgerContext,
    kind: type[SupersedeFact | ExpireFact | PromoteFact | EndorseFact | ConfirmFact | ReinstateFact],
    fact: str | Fact,
    reason: str,
    key: str | None,
    cause: str | None,
    **fields: Any,
) -> Flow[Fact]:
    """Run a command of this kind about one fact; the fact after it."""
    name = check_fact_name(context, "fact", fact)
    command = kind(ledger=context.ledger, fact=name, reason=_check_reason(reason), **fields)
    appended = yield from _execute(context, command, key, cause)
    for recorded in appended.events:
        return (yield from read_by_id(context, needed_facts(upcast.decode_event(recorded))[0]))
    prefer_ended = not isinstance(command, EndorseFact | ConfirmFact | PromoteFact)
    return (yield from resolve_fact(context, name, prefer_ended=prefer_ended))


def erase(
    context: LedgerContext, facts: str | Fact | Sequence[str | Fact], reason: str, *, key: str | None = None
) -> Flow[None]:
    """Erase these facts for good."""
    names = _check_names(context, "facts", facts)
    command = EraseFacts(ledger=context.ledger, facts=names, reason=_check_reason(reason))
    if context.ledger.kind != "session":
        yield from _execute(context, command, key, None)
        return
    content = codec.encode_commands([command])
    for tries_left in reversed(range(limits.REDECIDE_TRIES)):
        state = yield from load_ledger_state(context.ledger.stream, context.engine.cache, fresh=True)
        requests = [build_ledger_request(context, command), *(yield from _build_fork_erasures(context, command))]
        try:
            yield from execute_commands(context.engine, requests, key=key, expect=state.version, key_content=content)
            return
        except VersionConflict:  # a fork may have begun: look again
            if not tries_left:
                raise


def _build_fork_erasures(context: LedgerContext, command: EraseFacts) -> Flow[list[CommandRequest]]:
    """The commands that erase facts of a session's own ledger in the ledgers of its forks, as far as they share them."""
    requests: list[CommandRequest] = []
    forks = yield from _find_fork_ledgers(context.ledger)
    erased: list[str] = []
    for name in command.facts if forks else ():
        erased.append((yield from resolve_fact(context, name)).id)
    for ledger, (cut, version) in forks.items():
        ids = tuple((yield from read_facts(ledger.stream, [each for each in erased if fact_seq(each) <= cut])))
        if ids:
            erasure = EraseFacts(ledger=ledger, facts=ids, reason=command.reason, shared=True)
            request = build_ledger_request(LedgerContext(context.engine, ledger, context.writer), erasure)
            requests.append(msgspec.structs.replace(request, version=version))
    return requests


def _find_fork_ledgers(ledger: LedgerId) -> Flow[dict[LedgerId, tuple[int, int]]]:
    """The ledgers of the forks of a session: the last event that each shares with the session's own ledger, and its
    version, which is read before its own forks are."""
    cuts: dict[tuple[str, ...], int] = {ledger.stream.key: limits.WHOLE_NUMBER}
    ledgers: dict[LedgerId, tuple[int, int]] = {}
    queue = [StreamId(ledger.tenant, "session", ledger.names)]
    while queue:
        for row in (yield from find_children(queue.pop(0))):
            fork = scope_of(row).stream
            queue.append(fork)
            stream = ledger.stream.beside(("session", *fork.key))
            head, origin = (yield from effects.head(stream)), (yield from read_origin(stream))
            if head is not None and origin is not None and origin.parent in cuts:
                cuts[stream.key] = min(cuts[origin.parent], origin.cut)
                ledgers[LedgerId.from_stream(stream)] = (cuts[stream.key], head.version)
    return ledgers


def expire_due_facts(engine: EngineContext, limit: int) -> Flow[tuple[int, HoldfastError | None]]:
    """Expire the facts whose time is over, in all ledgers of the tenant: their number, and the last error."""
    where: dict[str, str | int] = {"tenant": engine.tenant, "live": 1}
    most = {"expires_us": engine.clock.now_us()}
    due = yield from effects.rows(FactRow, where, None, limit, order=SOONEST, most=most)
    expired, failure = 0, None
    for ledger in dict.fromkeys(ledger_of(row) for row in due):
        try:
            expired += yield from _expire_due_in_ledger(LedgerContext(engine, ledger, writer_for(engine, None)))
        except (DataError, TooLarge) as error:  # go on with the other ledgers
            failure = error
    return expired, failure


def _expire_due_in_ledger(context: LedgerContext) -> Flow[int]:
    """Expire in portions: one command also marks all dependents of the expired facts, and its size is limited."""
    expired, portion = 0, limits.EXPIRED_AT_ONCE
    while True:
        try:
            appended = yield from _execute(context, ExpireFacts(ledger=context.ledger, limit=portion), None, None)
        except TooLarge:
            if portion == 1:
                raise
            portion = max(1, portion // 8)
            continue
        events = map(upcast.decode_event, appended.events)
        ended = sum(len(each.facts) for each in events if isinstance(each, FactExpired))
        expired += ended
        if ended < portion:
            return expired


def erase_ledger(engine: EngineContext, ledger: LedgerId, reason: str) -> Flow[None]:
    """Erase all facts of a ledger for good, and of the ledgers of its forks as far as they share them."""
    writer = writer_for(engine, None)
    forks = yield from _find_fork_ledgers(ledger)
    after = 0
    hidden: dict[LedgerId, set[int]] = {}
    for each in (ledger, *forks):
        hidden[each] = yield from find_hidden_seqs(each.stream)
    while page := (yield from effects.read(ledger.stream, after, limits.READ_EVENTS)):
        after = page[-1].seq
        stored = (each for each in page if each.payload is not None and each.type not in RETAINED_EVENTS)
        seqs = tuple(each.seq for each in stored if each.seq not in hidden[ledger])
        if not seqs:
            continue
        commands = [EraseFacts(ledger=ledger, seqs=seqs, reason=reason)]
        for fork, (cut, _) in forks.items():
            if shared := tuple(seq for seq in seqs if seq <= cut and seq not in hidden[fork]):
                commands.append(EraseFacts(ledger=fork, seqs=shared, reason=reason, shared=True))
        requests = [build_ledger_request(LedgerContext(engine, each.ledger, writer), each) for each in commands]
        yield from execute_commands(engine, requests)


def _execute(
    context: LedgerContext, command: LedgerCommand, key: str | None, cause: str | None, expect: int | None = None
) -> Flow[AppendResult]:
    return execute_commands(
        context.engine, [build_ledger_request(context, command)], key=key, cause=cause, expect=expect
    )


def _check_session_open(context: LedgerContext, key: str | None) -> Flow[None]:
    """Raise if this is the own ledger of a session that has ended: nothing would ever clear it. A repeated key is still
    answered."""
    if context.ledger.kind != "session":
        return
    if key is not None and (yield from effects.find(context.ledger.tenant, check_name("idempotency key", key))):
        return
    stream = StreamId(context.ledger.tenant, "session", context.ledger.names)
    decide.check_open(
        (yield from load_session_state(stream, context.engine.cache, fresh=True)), Scope.from_stream(stream)
    )


def _check_value(value: object) -> Any:
    data = to_json("the value of a fact", value)
    check_size("the value of a fact", len(codec.encode(data)), "bytes", "FACT_BYTES", _LONG_VALUE_ADVICE)
    return data


def _check_source(source: object) -> FactSource | None:
    """A source, or its name. Its authority is not the caller's to set: the channel decides it."""
    if source is None:
        return None
    if type(source) is str:
        return FactSource(name=check_name("source", source))
    if type(source) is not FactSource:
        reason = f"{describe_value(source)} is not a source: pass a FactSource, or its name"
        raise InvalidArgument(argument="source", reason=reason)
    kind = check_choice("type of a source", source.type, SOURCE_TYPES)
    for field in ("name", "identity"):
        check_optional_name(f"the {field} of a source", getattr(source, field))
    for field in ("turn", "event"):
        if getattr(source, field) is not None:
            check_whole(f"the {field} of a source", getattr(source, field))
    return msgspec.structs.replace(source, type=kind, authority="peer")


def _check_permissions(permissions: object) -> tuple[str, ...]:
    """Permissions in order, each once."""
    if type(permissions) not in (list, tuple):
        reason = f"{describe_value(permissions)} is not a list of permissions"
        raise InvalidArgument(argument="requires", reason=reason)
    check_size("the list", len(permissions), "permissions", "PERMISSIONS", "Pass fewer.")  # type: ignore[arg-type]
    return tuple(sorted({check_name("permission", each) for each in permissions}))  # type: ignore[attr-defined]


def _check_names(context: LedgerContext, what: str, names: object) -> tuple[str, ...]:
    """One name or several: of facts, or of the origins of facts."""
    several = names if type(names) in (list, tuple) else [names]
    check_size(what, len(several), "names", "FACT_LINKS", "Name fewer.")  # type: ignore[arg-type]
    return tuple(check_fact_name(context, what, each) for each in several)  # type: ignore[attr-defined]


def _check_reason(reason: object) -> str:
    text = codec.check_text("the reason", reason)
    check_size("the reason", len(text.encode()), "bytes", "BRIEF_BYTES", "Shorten it.")
    return text
