"""The facts of a session, and the detection of facts in its messages.

Laws: a message is stored together with the changes that it causes, or neither is; a detector only proposes, and no proposal
has more authority than the speaker; across the ledgers that a session reads, the highest authority decides, then their
order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from holdfast import chain, codec
from holdfast.core import upcast
from holdfast.core.facts import proposals
from holdfast.core.facts.authority import lowest_rung, outranks, rank
from holdfast.core.sessions.decide import check_open
from holdfast.errors import HoldfastError, InvalidArgument, InvalidLedger, describe_value
from holdfast.flows import effects
from holdfast.flows.context import (
    EngineContext,
    LedgerContext,
    SessionContext,
    build_input,
    build_ledger_request,
    execute_commands,
    load_session,
    peek_session,
)
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts.changes import resolve_ledger, writer_for
from holdfast.flows.facts.lookup import ledger_where, read_visible
from holdfast.flows.facts.queries import (
    Scopes,
    check_scopes,
    find_used_ledgers,
    get_current,
    ledgers_of,
    own_ledger,
    read_slot,
    search_ledgers,
)
from holdfast.flows.sessions.messages import build_recording
from holdfast.flows.sessions.model_uses import limit_error, take_answer
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from holdfast.model.content import BlobRef, Role
from holdfast.model.facts.commands import (
    AssertFact,
    DecideProposal,
    ExpireFact,
    LedgerCommand,
    ProposeFacts,
    RetractFact,
)
from holdfast.model.facts.detection import (
    FactCandidate,
    MessageSpan,
    Observation,
    Proposal,
    ProposalOutcome,
    SettledProposal,
    Utterance,
)
from holdfast.model.facts.events import FactsProposed
from holdfast.model.facts.fact import Fact, FactMatch, FactScope, FactSource, Mention
from holdfast.model.facts.outcomes import ObservationResult, ObservedProposal
from holdfast.model.inputs import FactWriter, ProposalInput
from holdfast.model.log import StoredEvent
from holdfast.model.names import LedgerId, StreamId, check_choice, check_name
from holdfast.model.policy import AuthorityLadder
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message, MessageDraft
from holdfast.model.sessions.model_uses import MeteredAnswer, ProposalAnswer
from holdfast.model.state import OpenProposal, SessionState
from holdfast.ports import Detector
from holdfast.text.values import value_text

P = ParamSpec("P")
T = TypeVar("T")
_FACT_CHANGES = ("supersede", "retract", "expire", "assert")


class _LocatedFact(msgspec.Struct, frozen=True):
    """A fact and its ledger."""

    ledger: LedgerId
    fact: Fact


def ledger(
    context: SessionContext, *, user: str | None = None, project: str | None = None, organization: str | None = None
) -> Flow[LedgerContext]:
    """The own ledger of the session, or one that it was opened with, as the identity of the session may use it."""
    state = yield from load_session(context)
    home = own_ledger(context.scope)
    if user is not None or project is not None or organization is not None:
        home = resolve_ledger(context.engine, user=user, project=project, organization=organization)
        if home not in ledgers_of(context.scope, state):
            reason = f"the session {context.scope.session!r} was not opened with it"
            raise InvalidLedger(value=str(home), reason=reason)
    return LedgerContext(context.engine, home, writer_for(context.engine, state.identity), context.scope)


def get_fact(
    context: SessionContext, name: str, /, *, scope: FactScope = "global", scope_id: str = ""
) -> Flow[Fact | None]:
    """The current fact of a key over all ledgers that the session reads; None if there is none."""
    state = yield from load_session(context)
    writer = writer_for(context.engine, state.identity)
    facts: list[_LocatedFact] = []
    for home in ledgers_of(context.scope, state):
        target = LedgerContext(context.engine, home, writer)
        fact = yield from get_current(target, name, scope=scope, scope_id=scope_id)
        facts += [] if fact is None else [_LocatedFact(home, fact)]
    best = _choose_foremost(facts, context.engine.policy.ladder)
    return None if best is None else best.fact


def _choose_foremost(facts: Iterable[_LocatedFact], ladder: AuthorityLadder) -> _LocatedFact | None:
    """The first of the facts with the highest authority. Pass them in the order of their ledgers."""
    return max(facts, key=lambda each: rank(ladder, each.fact.authority), default=None)


def run_in_own_ledger(
    context: SessionContext,
    flow: Callable[Concatenate[LedgerContext, P], Flow[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Flow[T]:
    """Run a flow on the session's own ledger."""
    own = yield from ledger(context)
    return (yield from flow(own, *args, **kwargs))


def run_in_ledger_of(
    context: SessionContext,
    name: str | Fact,
    flow: Callable[Concatenate[LedgerContext, P], Flow[T]],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Flow[T]:
    """Run a flow on the ledger of a fact, or of the fact of a key; on the session's own ledger if there is no such fact."""
    home = yield from ledger(context)
    fact = name if isinstance(name, Fact) else (yield from get_fact(context, name))
    if fact is not None and fact.ledger is not None:
        home = msgspec.structs.replace(home, ledger=fact.ledger)
    return (yield from flow(home, *args, **kwargs))


def search_facts(
    context: SessionContext, query: str, /, *, within: Scopes = (), limit: int = 50
) -> Flow[tuple[FactMatch, ...]]:
    """The facts that match a query best, over all ledgers that the session reads."""
    state = yield from load_session(context)
    writer = writer_for(context.engine, state.identity)
    ledgers = [each.ledger for each in (yield from find_used_ledgers(ledgers_of(context.scope, state)))]
    scopes: list[tuple[FactScope, str]] = [*check_scopes(within), ("session", context.scope.session)]
    matches = yield from search_ledgers(context.engine, ledgers, writer.permissions, query, scopes, limit)
    results: list[FactMatch] = []
    for match in matches:
        if match.fact.is_claim or (yield from _is_foremost(context.engine, ledgers, writer, match)):
            results.append(match)
    return tuple(results)


def _is_foremost(
    engine: EngineContext, ledgers: Sequence[LedgerId], writer: FactWriter, match: FactMatch
) -> Flow[bool]:
    """Whether no other fact with the same key and scope prevails over this one."""
    fact, now = match.fact, engine.clock.now_us()
    rivals: list[_LocatedFact] = []
    for home in ledgers:
        slot = yield from read_slot(LedgerContext(engine, home, writer), fact.key, fact.scope, fact.scope_id)
        rivals += (_LocatedFact(home, each.fact) for each in slot if each.fact.is_current_at(now))  # the newest first
    best = _choose_foremost(rivals, engine.policy.ladder)
    return best is None or (best.ledger, best.fact.id) == (match.ledger, fact.id)


def open_proposals(context: SessionContext) -> Flow[tuple[OpenProposal, ...]]:
    """The proposals of a detector that nobody has decided yet."""
    return (yield from load_session(context)).proposals


def accept(
    context: SessionContext, proposal: str, /, *, key: str | None = None, cause: str | None = None
) -> Flow[None]:
    """Apply a proposal, with the authority of the session's identity."""
    key_content = codec.encode(["accept", check_name("proposal", proposal)])
    if key is not None and (
        first := (yield from effects.find(context.scope.tenant, check_name("idempotency key", key)))
    ):
        chain.answer_repeated_key(key, key_content, first)
        return
    state = yield from load_session(context)
    waiting = proposals.find_proposal(state, context.scope.session, proposal)
    home = LedgerId(context.scope.tenant, waiting.ledger[0], waiting.ledger[1:])  # type: ignore[arg-type]
    target = LedgerContext(context.engine, home, writer_for(context.engine, state.identity))
    command = build_command(context, home, waiting.proposal, waiting.message)
    decision = DecideProposal(scope=context.scope, proposal=waiting.id, accepted=True)
    parts = [CommandRequest(decision, build_input(context.engine)), build_ledger_request(target, command)]
    yield from execute_commands(context.engine, parts, key=key, cause=cause, key_content=key_content)


def decline(
    context: SessionContext, proposal: str, /, *, key: str | None = None, cause: str | None = None
) -> Flow[None]:
    """Decline a proposal: nothing changes."""
    command = DecideProposal(scope=context.scope, proposal=check_name("proposal", proposal), accepted=False)
    yield from execute_commands(
        context.engine, [CommandRequest(command, build_input(context.engine))], key=key, cause=cause
    )


def observe(
    context: SessionContext,
    message: str | Message,
    /,
    *,
    role: Role = "user",
    key: str | None = None,
    cause: str | None = None,
    is_known: bool = False,
) -> Flow[ObservationResult]:
    """Record a text, or read a recorded message, and apply the changes of facts that it states. `is_known`: the caller has
    just recorded or read this very message."""
    state = yield from (peek_session(context) if is_known else load_session(context))
    parts: list[CommandRequest] = []
    bodies: list[BlobRef] = []
    stored: Message | None = None
    if type(message) is str:
        check_choice("role", role, ("user", "assistant", "system"))
        part, bodies = yield from build_recording(context, [MessageDraft(role=role, content=message)])
        parts.append(part)
        utterance = Utterance(message, role, 0, context.engine.clock.now_us())
        key_content = codec.encode_commands([part.command])
    else:
        if is_known and isinstance(message, Message) and message.seq not in state.hidden_ranges(message.frame):
            found = message
        else:
            found = yield from _read_stored_message(context, state, message)
        stored = found
        utterance = Utterance(found.text, found.role or "user", found.seq, found.time_us)
        key_content = codec.encode(["observe", utterance.seq])
    if key is not None and (
        first := (yield from effects.find(context.scope.tenant, check_name("idempotency key", key)))
    ):
        chain.answer_repeated_key(key, key_content, first)
        return _build_result(first, stored)
    check_open(state, context.scope)
    previous = yield from _read_previous(context, state, utterance.seq or None)
    writer = _speaker_writer(context, state, utterance.role)
    candidates = yield from _find_candidates(context, state, utterance, writer)
    detected, failure = yield from _run_detector(context, utterance, previous, candidates)
    own = {name for name, each in candidates.items() if _is_stated_in(each.fact, context, utterance.seq)}
    detected = tuple(each for each in detected if each.fact not in own)  # it was read before, and set them
    target = _choose_ledger(context, state, utterance.role)
    verdicts = _limit_size([_judge_proposal(context, each, candidates, writer, target) for each in detected])
    refusals: list[list[str]] = []
    for each in verdicts:
        if each.outcome == "asked":
            continue
        refusals.append([])
        if each.outcome in ("applied", "claimed"):
            command = build_command(context, each.ledger, each.proposal, utterance.seq)
            home = LedgerContext(context.engine, each.ledger, writer)
            parts.append(build_ledger_request(home, command, refusals[-1]))
    if verdicts:
        parts.append(
            build_proposals_part(context, _choose_detector(context.engine).name, utterance.seq, verdicts, refusals)
        )
    if stored is not None and not parts:
        return ObservationResult(message=stored, error=failure)
    appended = yield from execute_commands(
        context.engine, parts, key=key, cause=cause, bodies=bodies, key_content=key_content
    )
    return _build_result(appended.events, stored, failure)


def build_proposals_part(
    context: SessionContext,
    detector: str,
    seq: int,
    verdicts: Sequence[ObservedProposal],
    refusals: list[list[str]],
) -> CommandRequest:
    """The command that stores the proposals and their outcomes."""
    waiting = [each for each in verdicts if each.outcome == "asked"]
    command = ProposeFacts(
        scope=context.scope,
        detector=detector,
        message=seq,
        proposals=tuple((one.ledger.stream.key, one.proposal) for one in waiting),
        why=tuple(one.why for one in waiting),
        settled=tuple(
            SettledProposal(one.ledger.stream.key, one.proposal, one.outcome, one.why)
            for one in verdicts
            if one.outcome != "asked"
        ),
    )
    return CommandRequest(
        command, msgspec.structs.replace(build_input(context.engine), proposals=ProposalInput(refusals))
    )


def _build_result(events: Sequence[StoredEvent], stored: Message | None, failure: str = "") -> ObservationResult:
    """The result of an observation, from its events: open proposals first."""
    message = (
        stored if stored is not None else next(message_of(each) for each in events if each.type == MessageRecorded.name)
    )
    return ObservationResult(message=message, proposals=build_verdicts(events), error=failure)


def build_verdicts(events: Sequence[StoredEvent]) -> tuple[ObservedProposal, ...]:
    """The proposals in these events, with their outcomes: open ones first."""
    verdicts: list[ObservedProposal] = []
    for recorded in events:
        event = upcast.decode_event(recorded)
        if not isinstance(event, FactsProposed):
            continue
        tenant = recorded.stream.tenant
        for at, (key, proposal) in enumerate(event.proposals):
            name, why = proposals.proposal_id(recorded.seq, at), event.why[at] if at < len(event.why) else ""
            home = LedgerId.from_stream(StreamId(tenant, "ledger", key))
            verdicts.append(ObservedProposal(proposal=proposal, outcome="asked", ledger=home, id=name, why=why))
        for one in event.settled:
            home = LedgerId.from_stream(StreamId(tenant, "ledger", one.ledger))
            verdicts.append(ObservedProposal(proposal=one.proposal, outcome=one.outcome, ledger=home, why=one.why))
    return tuple(verdicts)


def find_user_ledger(context: SessionContext, state: SessionState) -> LedgerId | None:
    """The user's ledger that takes new facts in the messages of the user; None if policy or the session has none."""
    home = _choose_ledger(context, state, "user")
    return home if home.kind == "user" else None


def judge_message(
    context: SessionContext,
    state: SessionState,
    utterance: Utterance,
    previous: tuple[Utterance, ...],
    propose: Callable[[Observation], Flow[tuple[object, ...]]],
) -> Flow[tuple[list[ObservedProposal], FactWriter]]:
    """What policy makes of the proposals in a recorded message, as of its time, and who writes the facts. Nothing is
    stored. `state` has the identity of the speaker."""
    writer = _speaker_writer(context, state, utterance.role)
    candidates = yield from _find_candidates(context, state, utterance, writer)
    observation = Observation(
        message=msgspec.structs.replace(utterance, seq=0),
        previous=previous,
        facts=tuple(_build_candidate(name, each.fact) for name, each in candidates.items()),
        now_us=utterance.time_us,
    )
    proposed = yield from propose(observation)
    own = {name for name, each in candidates.items() if _is_stated_in(each.fact, context, utterance.seq)}
    target = _choose_ledger(context, state, utterance.role)
    verdicts = [
        _judge_proposal(context, each, candidates, writer, target)
        for each in proposed
        if isinstance(each, Proposal) and _is_valid_proposal(each, observation) and each.fact not in own
    ]
    return verdicts, writer


def _limit_size(verdicts: list[ObservedProposal]) -> list[ObservedProposal]:
    """As many proposals as one event can hold. The others are ignored, and stored without their values."""
    left = limits.PAYLOAD_BYTES // 2
    limited: list[ObservedProposal] = []
    for one in verdicts:
        left -= len(codec.encode(one.proposal))
        if left < 0:
            bare = msgspec.structs.replace(one.proposal, value=None, old=(), new=None)
            one = msgspec.structs.replace(one, proposal=bare, outcome="ignored", why="there is too much to do at once")
        limited.append(one)
    return limited


def _read_stored_message(context: SessionContext, state: SessionState, message: object) -> Flow[Message]:
    """The message as it is stored: the caller's copy may be changed, or belong to another session."""
    if type(message) is Message and type(message.seq) is int and message.seq > 0:
        for recorded in (yield from effects.read(context.scope.stream, message.seq - 1, 1)):
            stored = message_of(recorded)
            if recorded.type == MessageRecorded.name and stored.id == message.id:
                if stored.role is None:
                    raise InvalidArgument(argument="message", reason=f"the message {stored.id} was erased")
                if stored.seq in state.hidden_ranges(stored.frame):
                    raise InvalidArgument(argument="message", reason=f"the message {stored.id} was withdrawn")
                return stored
    reason = f"{describe_value(message)} is neither a text nor a message of this session"
    raise InvalidArgument(argument="message", reason=reason)


def _speaker_writer(context: SessionContext, state: SessionState, role: Role) -> FactWriter:
    """What a speaker may write: no more than the session's identity, and less for the assistant and tools."""
    writer, policy = writer_for(context.engine, state.identity), context.engine.policy
    limit = policy.speakers.get(role)
    if limit is None:
        return writer
    authority = lowest_rung(policy.ladder, [writer.authority, limit])
    return msgspec.structs.replace(writer, authority=authority, default=authority)


def _read_previous(context: SessionContext, state: SessionState, seq: int | None) -> Flow[tuple[Utterance, ...]]:
    """The last messages before this one, oldest first."""
    events = yield from effects.read_back(context.scope.stream, seq, limits.DETECTED_BEFORE, (MessageRecorded.name,))
    messages = map(message_of, reversed(events))
    shown = (each for each in messages if each.seq not in state.hidden_ranges(each.frame))
    return tuple(Utterance(each.text, each.role, each.seq, each.time_us) for each in shown if each.role is not None)


def _find_candidates(
    context: SessionContext, state: SessionState, utterance: Utterance, writer: FactWriter
) -> Flow[dict[str, _LocatedFact]]:
    """The live facts that a message may be about: the best matches of its words, and the newest facts. Of several facts
    with one key and scope only the foremost; no claims."""
    ledgers = ledgers_of(context.scope, state)
    used = yield from find_used_ledgers(ledgers)
    if not used:
        return {}
    scopes: list[tuple[FactScope, str]] = [("global", ""), ("session", context.scope.session)]
    share = limits.DETECTED_FACTS // 2
    matches = yield from search_ledgers(
        context.engine,
        [each.ledger for each in used],
        writer.permissions,
        utterance.text,
        scopes[1:],
        share,
        ranked=limits.DETECTED_MATCHES,
    )
    candidates = {
        f"{ledgers.index(each.ledger)}:{each.fact.id}": _LocatedFact(each.ledger, each.fact)
        for each in matches
        if not each.fact.is_claim
    }
    now = context.engine.clock.now_us()
    for at, home, _ in used:
        for scope, scope_id in scopes if at == 0 else scopes[:1]:  # in other ledgers this would scan all facts
            where = ledger_where(home.stream) | {"live": 1, "claim": 0, "scope": scope, "scope_id": scope_id}
            newest = yield from read_visible(where, writer.permissions, share)
            for each in (state.fact for state in newest):
                if not each.has_expired(now):
                    candidates.setdefault(f"{at}:{each.id}", _LocatedFact(home, each))
    return _keep_foremost(candidates, ledgers, context.engine.policy.ladder)


def _is_stated_in(fact: Fact, context: SessionContext, seq: int) -> bool:
    """Whether the value of a fact was read from this message."""
    scope = context.scope
    message = (scope.actor, scope.session, scope.thread or "", seq)
    return any((each.actor, each.session, each.thread, each.seq) == message for each in fact.mentions)


def _keep_foremost(
    candidates: dict[str, _LocatedFact], ledgers: Sequence[LedgerId], ladder: AuthorityLadder
) -> dict[str, _LocatedFact]:
    """Without the facts over which another fact with the same key and scope prevails."""
    slots: dict[tuple[str, str, str], list[_LocatedFact]] = {}
    for each in sorted(candidates.values(), key=lambda one: ledgers.index(one.ledger)):
        slots.setdefault((each.fact.key, each.fact.scope, each.fact.scope_id), []).append(each)
    foremost = [_choose_foremost(slot, ladder) for slot in slots.values()]
    return {name: each for name, each in candidates.items() if any(each is one for one in foremost)}


def _choose_detector(engine: EngineContext) -> Detector:
    if engine.detector is not None:
        return engine.detector
    from holdfast.text.detect.detector import RuleDetector  # noqa: PLC0415 - loaded only when it is used

    return RuleDetector()


def _run_detector(
    context: SessionContext, utterance: Utterance, previous: tuple[Utterance, ...], candidates: dict[str, _LocatedFact]
) -> Flow[tuple[tuple[Proposal, ...], str]]:
    """The valid proposals of the detector; and its error, if it failed."""
    engine = context.engine
    observation = Observation(
        message=msgspec.structs.replace(utterance, seq=0),
        previous=previous,
        facts=tuple(_build_candidate(name, each.fact) for name, each in candidates.items()),
        now_us=engine.clock.now_us(),
    )
    detect = functools.partial(_collect_proposals, _choose_detector(engine), observation)
    try:
        answer: Any = yield from effects.run_outside(detect)  # awaited by now
        detected, failure = yield from take_answer(context, answer)
        read = list(itertools.islice(detected, limits.PROPOSALS))
    except Exception as error:  # noqa: BLE001 - user code: its error must not lose the message
        return (), limit_error(f"{type(error).__name__}: {error}")
    return tuple(each for each in read if _is_valid_proposal(each, observation)), failure


def _collect_proposals(detector: Detector, observation: Observation) -> ProposalAnswer | Awaitable[ProposalAnswer]:
    """What the detector returns: as it is if it must be awaited, or says what it cost; else its proposals, read here, since
    a generator runs the code of the detector."""
    answer = detector.detect(observation)
    if isinstance(answer, MeteredAnswer | Awaitable):
        return answer
    return tuple(itertools.islice(answer, limits.PROPOSALS))


def _build_candidate(name: str, fact: Fact) -> FactCandidate:
    return FactCandidate(
        fact=name,
        key=fact.key,
        value=fact.value,
        text=value_text(fact.value),
        authority=fact.authority,
        scope=fact.scope,
        scope_id=fact.scope_id,
        since_us=fact.valid_from_us,
        expires_us=fact.expires_us,
    )


def _is_valid_proposal(proposal: object, observation: Observation) -> bool:
    """Whether a proposal can be stored and applied: a detector may be a model, and return anything."""
    if type(proposal) is not Proposal:
        return False
    try:
        value = codec.check_json("the value", proposal.value)
        if codec.decode(codec.encode(proposal), Proposal) != proposal or len(codec.encode(value)) > limits.FACT_BYTES:
            return False
        for name in (proposal.scope_id, proposal.authority):
            check_name("a name in a proposal", name or "none")
        codec.check_text("the key", proposal.key)
        codec.check_text("the reason", proposal.reason)
    except (HoldfastError, msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return False
    if not 0 <= proposal.confidence <= 1 or len(proposal.reason.encode()) > limits.BRIEF_BYTES:
        return False
    if proposal.fact is not None and all(each.fact != proposal.fact for each in observation.facts):
        return False
    if proposal.change in ("supersede", "retract", "expire") and proposal.fact is None:
        return False
    return _has_valid_spans(proposal, observation)


def _has_valid_spans(proposal: Proposal, observation: Observation) -> bool:
    texts = {each.seq: each.text for each in (*observation.previous, observation.message)}
    spans = [*proposal.old, *([] if proposal.new is None else [proposal.new])]
    return len(spans) <= limits.FACT_LINKS and all(
        type(each.seq) is int and 0 <= each.start < each.end <= len(texts.get(each.seq, "")) for each in spans
    )


def _choose_ledger(context: SessionContext, state: SessionState, role: Role) -> LedgerId:
    """The ledger for new facts in the messages of a role: the user's own for the user, if policy says so and the session
    reads one; else the session's."""
    own = own_ledger(context.scope)
    if role != "user" or context.engine.policy.learn_into != "user":
        return own
    users = [each for each in ledgers_of(context.scope, state) if each.kind == "user"]
    actors = [each for each in users if each.names == (context.scope.actor,)]
    return (actors or users)[0] if actors or len(users) == 1 else own


def _judge_proposal(
    context: SessionContext,
    proposal: Proposal,
    candidates: dict[str, _LocatedFact],
    writer: FactWriter,
    target: LedgerId,
) -> ObservedProposal:
    """Decide by policy what happens to a proposal."""
    policy = context.engine.policy
    own = own_ledger(context.scope)
    about = candidates.get(proposal.fact or "")
    home = about.ledger if about is not None else target if proposal.scope == "global" else own
    outcome: ProposalOutcome = "applied"
    why = ""
    if proposal.change not in _FACT_CHANGES:
        outcome = "noted"
    elif proposal.confidence < policy.ask_from:
        outcome, why = "ignored", f"its confidence is below {policy.ask_from}"
    elif proposal.confidence < policy.apply_from:
        outcome, why = "asked", f"its confidence is below {policy.apply_from}"
    elif about is not None and outranks(policy.ladder, about.fact.authority, writer.authority):
        why = f"{about.fact.authority} outranks {writer.authority}"
        outcome = "claimed" if proposal.change == "supersede" and proposal.value is not None else "asked"
        home = own if outcome == "claimed" else home
    fact_id = None if about is None else about.fact.id
    key = about.fact.key if about is not None else proposal.key
    scope = (about.fact.scope, about.fact.scope_id) if about is not None else (proposal.scope, proposal.scope_id)
    if about is None and scope[0] in ("hypothetical", "draft", "task", "session") and not scope[1]:
        scope = (scope[0], context.scope.session)
    proposal = msgspec.structs.replace(
        proposal,
        fact=None if outcome == "claimed" else fact_id,
        key=_clean_key(key),
        scope=scope[0],
        scope_id=scope[1],
    )
    return ObservedProposal(proposal=proposal, outcome=outcome, ledger=home, why=why)


def _clean_key(text: str) -> str:
    """A key that every store accepts, from the text of a detector."""
    plain = "".join(each if each.isprintable() else " " for each in text).strip() or "said"
    return plain.encode(errors="replace")[: limits.NAME_BYTES].decode(errors="ignore")


def build_command(context: SessionContext, home: LedgerId, proposal: Proposal, seq: int) -> LedgerCommand:
    """The command that applies a proposal to a ledger."""
    if proposal.fact is not None and proposal.change == "expire":
        return ExpireFact(ledger=home, fact=proposal.fact, reason=proposal.reason)
    if proposal.fact is not None and (proposal.change == "retract" or proposal.value is None):
        mentions = _build_mentions(context, proposal.old, seq)
        return RetractFact(ledger=home, fact=proposal.fact, reason=proposal.reason, mentions=mentions)
    return AssertFact(
        ledger=home,
        key=proposal.key,
        value=codec.check_json("the proposed value", proposal.value),
        source=_build_source(proposal, seq),
        scope=proposal.scope,
        scope_id=proposal.scope_id,
        supersedes=() if proposal.fact is None else (proposal.fact,),
        is_constraint=None,
        mentions=() if proposal.new is None else _build_mentions(context, (proposal.new,), seq),
        old_mentions=_build_mentions(context, proposal.old, seq),
        provenance=(proposal.origin,) if proposal.origin else (),
        reason=proposal.reason,
    )


def _build_source(proposal: Proposal, seq: int) -> FactSource:
    if proposal.origin:
        return FactSource(name=proposal.origin)
    return FactSource(type="conversation", name=proposal.authority, turn=seq or None)


def _build_mentions(context: SessionContext, spans: Sequence[MessageSpan], seq: int) -> tuple[Mention, ...]:
    scope = context.scope
    return tuple(
        Mention(
            actor=scope.actor,
            session=scope.session,
            seq=each.seq or seq,
            start=each.start,
            end=each.end,
            thread=scope.thread or "",
        )
        for each in spans
    )
