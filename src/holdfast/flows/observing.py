"""What a session knows, and what it takes from what is said in it.

Laws: what is said is kept together with what it changes, or neither is; a detector only proposes, and nothing that it
proposes has more authority than the one who spoke; across the ledgers that a session reads, authority decides, then their
order.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import msgspec

from holdfast import chain, codec
from holdfast.core import infer, proposals, upcast
from holdfast.core.authority import lowest, outranks
from holdfast.core.sessions import check_open, check_there
from holdfast.errors import HoldfastError, InvalidContent, InvalidLedger, shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.inform_facts import ledger_where, seen
from holdfast.flows.knowing import (
    Scopes,
    checked_scopes,
    current,
    in_use,
    ledgers_of,
    one_of,
    own_ledger,
    search_in,
    slot_of,
)
from holdfast.flows.ledgers import ledger_named, writer_for
from holdfast.flows.load import load
from holdfast.flows.messages import recording
from holdfast.flows.place import Context, LedgerPlace, Place, given_to, on_ledger, together
from holdfast.flows.read import message as message_of
from holdfast.model import limits
from holdfast.model.commands import (
    AssertFact,
    DecideProposal,
    ExpireFact,
    LedgerCommand,
    ProposeFacts,
    RetractFact,
    Writer,
)
from holdfast.model.content import BlobRef, Role
from holdfast.model.detection import Candidate, Observation, Outcome, Proposal, Said, Settled, Span
from holdfast.model.drafts import Draft
from holdfast.model.events import FactsProposed, MessageRecorded
from holdfast.model.facts import Fact, FactScope, FactSource, Known, Mention
from holdfast.model.log import Recorded
from holdfast.model.messages import Message
from holdfast.model.names import LedgerId, StreamId, checked_name
from holdfast.model.observed import Judged, Observed
from holdfast.model.policy import Ladder
from holdfast.model.state import OpenProposal, SessionState
from holdfast.ports import Detector

_CHANGING = ("supersede", "retract", "expire", "assert")


class _Shown(msgspec.Struct, frozen=True):
    """A fact that a detector was shown, and where it lives."""

    ledger: LedgerId
    fact: Fact


def _there(place: Place) -> Flow[SessionState]:
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    check_there(state, place.scope)
    return state


def ledger(
    place: Place, *, user: str | None = None, project: str | None = None, organization: str | None = None
) -> Flow[LedgerPlace]:
    """A ledger as whoever speaks in this session may see it and write to it: the session's own, or one of those that it was
    opened with."""
    state = yield from _there(place)
    named = user is not None or project is not None or organization is not None
    found = own_ledger(place.scope)
    if named:
        found = ledger_named(place.context, user=user, project=project, organization=organization)
        if found not in ledgers_of(place.scope, state):
            reason = f"the session {place.scope.session!r} was not opened with it"
            raise InvalidLedger(value=str(found), reason=reason)
    return LedgerPlace(place.context, found, writer_for(place.context, state.identity), place.scope)


def fact(place: Place, name: str, /, *, scope: FactScope = "global", scope_id: str = "") -> Flow[Fact | None]:
    """What holds for a key in the ledgers that the session reads: the highest authority decides, then their order."""
    state = yield from _there(place)
    best = yield from _best(place.context, ledgers_of(place.scope, state), _reader(place, state), name, scope, scope_id)
    return None if best is None else best[1]


def _reader(place: Place, state: SessionState) -> Writer:
    return writer_for(place.context, state.identity)


def _best(
    context: Context, ledgers: Sequence[LedgerId], writer: Writer, name: str, scope: FactScope, scope_id: str
) -> Flow[tuple[LedgerId, Fact] | None]:
    best: tuple[LedgerId, Fact] | None = None
    for each in ledgers:
        found = yield from current(LedgerPlace(context, each, writer), name, scope=scope, scope_id=scope_id)
        if found is None:
            continue
        if best is None or outranks(context.policy.ladder, found.authority, best[1].authority):
            best = (each, found)
    return best


def search(place: Place, query: str, /, *, within: Scopes = (), limit: int = 50) -> Flow[tuple[Known, ...]]:
    """The facts in the ledgers that the session reads that fit a query best. Of facts with the same key and scope only the
    one that has the say is there; the session's own scope is looked into, others if `within` names them."""
    state = yield from _there(place)
    writer = _reader(place, state)
    ledgers = [each.ledger for each in (yield from in_use(ledgers_of(place.scope, state)))]
    scopes: list[tuple[FactScope, str]] = [*checked_scopes(within), ("session", place.scope.session)]
    found = yield from search_in(place.context, ledgers, writer.permissions, query, scopes, limit)
    kept: list[Known] = []
    for known in found:
        if known.fact.claim or (yield from _has_the_say(place.context, ledgers, writer, known)):
            kept.append(known)
    return tuple(kept)


def _has_the_say(context: Context, ledgers: Sequence[LedgerId], writer: Writer, known: Known) -> Flow[bool]:
    """Whether no other fact with the same key and scope stands above it."""
    said, now = known.fact, context.clock.now_us()
    best: tuple[LedgerId, Fact] | None = None
    for each in ledgers:
        slot = yield from slot_of(LedgerPlace(context, each, writer), said.key, said.scope, said.scope_id)
        for fact in (one.fact for one in slot if one.fact.current_at(now)):  # the newest first
            if best is None or outranks(context.policy.ladder, fact.authority, best[1].authority):
                best = (each, fact)
    return best is None or (best[0], best[1].id) == (known.ledger, said.id)


def waiting(place: Place) -> Flow[tuple[OpenProposal, ...]]:
    """What a detector proposed in this session and nobody has decided on yet."""
    return (yield from _there(place)).proposals


def accept(place: Place, proposal: str, /, *, key: str | None = None, cause: str | None = None) -> Flow[None]:
    """Do what was proposed, with the authority of whoever speaks in this session."""
    bound = codec.encode(["accept", checked_name("proposal", proposal)])
    if key is not None and (
        first := (yield from effects.find(place.scope.tenant, checked_name("idempotency key", key)))
    ):
        chain.repeated(key, bound, first)
        return
    state = yield from _there(place)
    found = proposals.find(state, place.scope.session, proposal)
    home = LedgerId(place.scope.tenant, found.ledger[0], found.ledger[1:])  # type: ignore[arg-type]
    target = LedgerPlace(place.context, home, _reader(place, state))
    command = _command(place, home, found.proposal, found.message)
    decided = DecideProposal(scope=place.scope, proposal=found.id, accepted=True)
    parts = [Part(decided, given_to(place.context)), on_ledger(target, command)]
    yield from together(place.context, parts, key=key, cause=cause, bound=bound)


def decline(place: Place, proposal: str, /, *, key: str | None = None, cause: str | None = None) -> Flow[None]:
    """Leave things as they are."""
    command = DecideProposal(scope=place.scope, proposal=checked_name("proposal", proposal), accepted=False)
    yield from together(place.context, [Part(command, given_to(place.context))], key=key, cause=cause)


def observe(
    place: Place,
    said: str | Message,
    /,
    *,
    role: Role = "user",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Observed]:
    """Take in what was said: a detector proposes which facts it replaces, takes back or adds, and policy decides what is
    applied, what is asked, and what is left alone.

    A text is recorded as a message of this role, together with what it changes, all or none. A message that was recorded
    before is only read. What is applied has the authority of the speaker: the session's identity for the user, less for
    the assistant and for tools, whatever the text says of itself. What a higher authority holds stays; then the session's
    own ledger keeps what was said as its own view of it."""
    state = yield from _there(place)
    parts: list[Part] = []
    bodies: list[BlobRef] = []
    stored: Message | None = None
    if type(said) is str:
        one_of("role", role, ("user", "assistant", "system"))
        part, bodies = yield from recording(place, [Draft(role=role, content=said)])
        parts.append(part)
        heard = Said(said, role, 0, place.context.clock.now_us())
    else:
        stored = yield from _stored(place, said)
        heard = Said(stored.text, stored.role or "user", stored.seq, stored.time_us)
    bound = codec.encode_commands([parts[0].command]) if stored is None else codec.encode(["observe", heard.seq])
    if key is not None and (
        first := (yield from effects.find(place.scope.tenant, checked_name("idempotency key", key)))
    ):
        chain.repeated(key, bound, first)
        return _observed(first, stored)
    check_open(state, place.scope)
    before = yield from _before(place, heard.seq or None)
    writer = _speaker(place, state, heard.role)
    shown_facts = yield from _candidates(place, state, heard, writer)
    found, trouble = yield from _detected(place.context, heard, before, shown_facts)
    learned = _learned_into(place, state, heard.role)
    judged = _within_bounds([_judged(place, each, shown_facts, writer, learned) for each in found])
    refusals: list[list[str]] = []
    for one in judged:
        if one.outcome == "asked":
            continue
        refusals.append([])
        if one.outcome in ("applied", "claimed"):
            target = LedgerPlace(place.context, one.ledger, writer)
            parts.append(on_ledger(target, _command(place, one.ledger, one.proposal, heard.seq), refusals[-1]))
    if judged:
        parts.append(_told(place, heard.seq, judged, refusals))
    if stored is not None and not parts:
        return Observed(message=stored, trouble=trouble)
    appended = yield from together(place.context, parts, key=key, cause=cause, bodies=bodies, bound=bound)
    return _observed(appended.events, stored, trouble)


def _told(place: Place, seq: int, judged: Sequence[Judged], refusals: list[list[str]]) -> Part:
    """What keeps what was proposed, and what became of it."""
    asked = [one for one in judged if one.outcome == "asked"]
    command = ProposeFacts(
        scope=place.scope,
        detector=_detector(place.context).name,
        message=seq,
        proposals=tuple((one.ledger.stream.key, one.proposal) for one in asked),
        why=tuple(one.why for one in asked),
        settled=tuple(
            Settled(one.ledger.stream.key, one.proposal, one.outcome, one.why)
            for one in judged
            if one.outcome != "asked"
        ),
    )
    return Part(command, msgspec.structs.replace(given_to(place.context), refusals=refusals))


def _observed(events: Sequence[Recorded], stored: Message | None, trouble: str = "") -> Observed:
    """What came of observing something, as the log has it: what waits comes first."""
    judged: list[Judged] = []
    for recorded in events:
        event = upcast.current(recorded)
        if not isinstance(event, FactsProposed):
            continue
        tenant = recorded.stream.tenant
        for at, (key, proposal) in enumerate(event.proposals):
            name, why = proposals.proposal_id(recorded.seq, at), event.why[at] if at < len(event.why) else ""
            home = LedgerId.of(StreamId(tenant, "ledger", key))
            judged.append(Judged(proposal=proposal, outcome="asked", ledger=home, id=name, why=why))
        for one in event.settled:
            home = LedgerId.of(StreamId(tenant, "ledger", one.ledger))
            judged.append(Judged(proposal=one.proposal, outcome=one.outcome, ledger=home, why=one.why))
    message = stored if stored is not None else _recorded(events)
    return Observed(message=message, judged=tuple(judged), trouble=trouble)


def _within_bounds(judged: list[Judged]) -> list[Judged]:
    """As much as one event holds; what is more is ignored, and told without what it says."""
    left = limits.PAYLOAD_BYTES // 2
    kept: list[Judged] = []
    for one in judged:
        left -= len(codec.encode(one.proposal))
        if left < 0:
            bare = msgspec.structs.replace(one.proposal, value=None, old=(), new=None)
            one = msgspec.structs.replace(one, proposal=bare, outcome="ignored", why="there is too much to do at once")
        kept.append(one)
    return kept


def _recorded(events: Sequence[Recorded]) -> Message:
    return next(message_of(each) for each in events if each.type == MessageRecorded.name)


def _stored(place: Place, said: object) -> Flow[Message]:
    """A message as it was recorded: what someone holds may be another session's, or changed."""
    if type(said) is Message and type(said.seq) is int and said.seq > 0:
        for recorded in (yield from effects.read(place.scope.stream, said.seq - 1, 1)):
            found = message_of(recorded)
            if recorded.type == MessageRecorded.name and found.id == said.id:
                if found.role is None:
                    raise InvalidContent(reason=f"the message {found.id} was erased: there is nothing to observe in it")
                return found
    raise InvalidContent(reason=f"{shown(said)} is neither a text nor a message of this session: pass one of the two")


def _speaker(place: Place, state: SessionState, role: Role) -> Writer:
    """Whoever spoke may do no more than the session's identity, and less for what is not the user's."""
    writer, policy = _reader(place, state), place.context.policy
    most = policy.speakers.get(role)
    if most is None:
        return writer
    authority = lowest(policy.ladder, [writer.authority, most])
    return msgspec.structs.replace(writer, authority=authority, default=authority)


def _before(place: Place, seq: int | None) -> Flow[tuple[Said, ...]]:
    found = yield from effects.read_back(place.scope.stream, seq, limits.DETECTED_BEFORE, (MessageRecorded.name,))
    said = (message_of(each) for each in reversed(found))
    return tuple(Said(each.text, each.role, each.seq, each.time_us) for each in said if each.role is not None)


def _candidates(place: Place, state: SessionState, heard: Said, writer: Writer) -> Flow[dict[str, _Shown]]:
    """The live facts that what was said may be about: those that fit its words, and the newest. Of several with one key,
    the one that has the say; claims have none."""
    ledgers = ledgers_of(place.scope, state)
    scopes: list[tuple[FactScope, str]] = [("global", ""), ("session", place.scope.session)]
    share = limits.DETECTED_FACTS // 2
    found = yield from search_in(place.context, ledgers, writer.permissions, heard.text, scopes[1:], share)
    fitting = (each for each in found if not each.fact.claim)
    shown_facts = {f"{ledgers.index(each.ledger)}:{each.fact.id}": _Shown(each.ledger, each.fact) for each in fitting}
    now = place.context.clock.now_us()
    for at, home in enumerate(ledgers):
        for scope, scope_id in scopes if at == 0 else scopes[:1]:  # elsewhere that would be a walk through all facts
            where = ledger_where(home.stream) | {"live": 1, "claim": 0, "scope": scope, "scope_id": scope_id}
            newest = yield from seen(where, writer.permissions, share)
            for each in (state.fact for state in newest):
                if not each.ran_out(now):
                    shown_facts.setdefault(f"{at}:{each.id}", _Shown(home, each))
    return _with_the_say(shown_facts, ledgers, place.context.policy.ladder)


def _with_the_say(found: dict[str, _Shown], ledgers: Sequence[LedgerId], ladder: Ladder) -> dict[str, _Shown]:
    """Of facts with one key and scope in several ledgers, the one of the highest authority, then of the first ledger."""
    best: dict[tuple[str, str, str], str] = {}
    for name, each in sorted(found.items(), key=lambda one: ledgers.index(one[1].ledger)):
        slot = each.fact.key, each.fact.scope, each.fact.scope_id
        if slot not in best or outranks(ladder, each.fact.authority, found[best[slot]].fact.authority):
            best[slot] = name
    kept = {*best.values()}
    return {name: each for name, each in found.items() if name in kept}


def _detector(context: Context) -> Detector:
    if context.detector is not None:
        return context.detector
    from holdfast.core.detect.rules import Rules  # noqa: PLC0415 - who observes nothing has no need of it

    return Rules()


def _detected(
    context: Context, heard: Said, before: tuple[Said, ...], shown_facts: dict[str, _Shown]
) -> Flow[tuple[tuple[Proposal, ...], str]]:
    """What the detector proposes, as far as it makes sense; and how it failed, if it did."""
    observation = Observation(
        said=msgspec.structs.replace(heard, seq=0),
        before=before,
        facts=tuple(_candidate(name, each.fact) for name, each in shown_facts.items()),
        now_us=context.clock.now_us(),
    )
    detect = functools.partial(_proposed, _detector(context), observation)
    try:
        found = yield from effects.outside(detect)
    except Exception as error:  # noqa: BLE001 - it may be anybody's code, and what was said must not be lost with it
        return (), f"{type(error).__name__}: {error}"[:1_000].encode(errors="replace").decode()
    return tuple(each for each in found if _makes_sense(each, observation)), ""


def _proposed(detector: Detector, observation: Observation) -> list[Proposal]:
    return list(itertools.islice(detector.detect(observation), limits.PROPOSALS))


def _candidate(name: str, known: Fact) -> Candidate:
    return Candidate(
        fact=name,
        key=known.key,
        value=known.value,
        text=infer.text_of(known.value),
        authority=known.authority,
        scope=known.scope,
        scope_id=known.scope_id,
        since_us=known.valid_from_us,
        expires_us=known.expires_us,
    )


def _makes_sense(proposal: object, observation: Observation) -> bool:
    """A detector may be a model, and say anything."""
    if type(proposal) is not Proposal:
        return False
    try:
        value = codec.checked_json("the value", proposal.value)
        if codec.decode(codec.encode(proposal), Proposal) != proposal or len(codec.encode(value)) > limits.FACT_BYTES:
            return False
        for name in (proposal.scope_id, proposal.authority):
            checked_name("a name in a proposal", name or "none")
        codec.checked_text("the key", proposal.key)
        codec.checked_text("the reason", proposal.reason)
    except (HoldfastError, msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return False
    if not 0 <= proposal.confidence <= 1 or len(proposal.reason.encode()) > limits.BRIEF_BYTES:
        return False
    if proposal.fact is not None and all(each.fact != proposal.fact for each in observation.facts):
        return False
    if proposal.change in ("supersede", "retract", "expire") and proposal.fact is None:
        return False
    return _lie_within(proposal, observation)


def _lie_within(proposal: Proposal, observation: Observation) -> bool:
    texts = {each.seq: each.text for each in (*observation.before, observation.said)}
    spans = [*proposal.old, *([] if proposal.new is None else [proposal.new])]
    return len(spans) <= limits.FACT_LINKS and all(
        type(each.seq) is int and 0 <= each.start < each.end <= len(texts.get(each.seq, "")) for each in spans
    )


def _learned_into(place: Place, state: SessionState, role: Role) -> LedgerId:
    """The ledger for what is new in the words of a role: of the user's own words the user's, if the session reads one and
    it is clear whose."""
    own = own_ledger(place.scope)
    if role != "user" or place.context.policy.learn_into != "user":
        return own
    users = [each for each in ledgers_of(place.scope, state) if each.kind == "user"]
    named = [each for each in users if each.names == (place.scope.actor,)]
    return (named or users)[0] if named or len(users) == 1 else own


def _judged(
    place: Place, proposal: Proposal, shown_facts: dict[str, _Shown], writer: Writer, learned: LedgerId
) -> Judged:
    """What policy makes of a proposal."""
    policy = place.context.policy
    own = own_ledger(place.scope)
    about = shown_facts.get(proposal.fact or "")
    learned = learned if proposal.scope == "global" else own
    home = learned if about is None else about.ledger
    outcome: Outcome = "applied"
    why = ""
    if proposal.change not in _CHANGING:
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
        scope = (scope[0], place.scope.session)
    proposal = msgspec.structs.replace(
        proposal,
        fact=None if outcome == "claimed" else fact_id,
        key=_as_key(key),
        scope=scope[0],
        scope_id=scope[1],
    )
    return Judged(proposal=proposal, outcome=outcome, ledger=home, why=why)


def _as_key(text: str) -> str:
    """A key that every store can hold, made of whatever a detector came up with."""
    plain = "".join(each if each.isprintable() else " " for each in text).strip() or "said"
    return plain.encode(errors="replace")[: limits.NAME_BYTES].decode(errors="ignore")


def _command(place: Place, home: LedgerId, proposal: Proposal, seq: int) -> LedgerCommand:
    """What a proposal asks of a ledger."""
    if proposal.fact is not None and proposal.change == "expire":
        return ExpireFact(ledger=home, fact=proposal.fact, reason=proposal.reason)
    if proposal.fact is not None and (proposal.change == "retract" or proposal.value is None):
        mentions = _mentions(place, proposal.old, seq)
        return RetractFact(ledger=home, fact=proposal.fact, reason=proposal.reason, mentions=mentions)
    return AssertFact(
        ledger=home,
        key=proposal.key,
        value=codec.checked_json("the proposed value", proposal.value),
        source=FactSource(type="conversation", name=proposal.authority, turn=seq or None),
        scope=proposal.scope,
        scope_id=proposal.scope_id,
        supersedes=() if proposal.fact is None else (proposal.fact,),
        is_constraint=None,
        mentions=() if proposal.new is None else _mentions(place, (proposal.new,), seq),
        old_mentions=_mentions(place, proposal.old, seq),
        reason=proposal.reason,
    )


def _mentions(place: Place, spans: Sequence[Span], seq: int) -> tuple[Mention, ...]:
    scope = place.scope
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
