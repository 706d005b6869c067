"""Decisions about facts: assertion, supersession, retraction, expiry, promotion, endorsement, confirmation,
reinstatement and erasure.

Laws: a lower authority never ends a fact of a higher one: its statement is kept as a claim; when a fact ends, its
dependents are marked or end with it; an equal statement changes nothing; no answer tells a writer without permission to
read a fact that it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast import errors
from holdfast.core.facts import withdrawals
from holdfast.core.facts.authority import lowest_rung, outranks, rung
from holdfast.core.facts.supersession import (
    Successor,
    build_marks,
    check_authority,
    check_live,
    check_scope_covers,
    choose_foremost,
    complete_mentions,
    dependents_of,
    end_of,
    expire_facts,
    find_named,
    is_live,
    is_same_value,
    is_visible,
    merge_marks,
    outranks_writer,
    resolve_contest,
    slot_of,
    supersede_facts,
)
from holdfast.model.events import Event
from holdfast.model.facts.commands import (
    AssertFact,
    BranchLedger,
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFact,
    ExpireFacts,
    FactCommand,
    ForkLedger,
    LedgerCommand,
    PromoteFact,
    ReinstateFact,
    RestoreFacts,
    RetractFact,
    SupersedeFact,
    WithdrawFacts,
)
from holdfast.model.facts.events import (
    FactAsserted,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactSuperseded,
    LedgerBranched,
    LedgerForked,
)
from holdfast.model.facts.fact import FACT_SCOPES, Fact, FactSource, fact_id, fact_seq
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import check_size
from holdfast.model.sessions.events import PayloadsErased
from holdfast.model.sessions.forks import ForkOrigin
from holdfast.model.state import LedgerState
from holdfast.text import inference
from holdfast.text.validity import Validity, read_validity


def decide(state: LedgerState, command: LedgerCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events of this command; none if it changes nothing. Raises if it is refused."""
    match command:
        case AssertFact():
            return _assert(state, command, inputs)
        case ExpireFacts():
            return expire_facts(inputs.ledger.slice.due, inputs)
        case EraseFacts():
            return decide_erasure(state, command, inputs)
        case ForkLedger():
            origin = inputs.fork or ForkOrigin(parent=command.parent.stream.key, cut=command.cut)
            return (LedgerForked(parent=origin.parent, cut=origin.cut, lineage=origin.lineage),)
        case BranchLedger():
            return (LedgerBranched(fork=command.fork.stream.key, cut=command.cut),)
        case WithdrawFacts():
            return withdrawals.decide_withdrawal(command, inputs)
        case RestoreFacts():
            return withdrawals.decide_restoration(command, inputs)
    fact = find_named(command.ledger, command.fact, inputs)
    return decide_change(fact, command, inputs)


def _assert(state: LedgerState, command: AssertFact, inputs: DecisionInput) -> tuple[Event, ...]:
    new = _build_assertion(command, inputs)
    targets = [end_of(find_named(command.ledger, name, inputs), inputs) for name in command.supersedes]
    targets = [each for each in {each.id: each for each in targets}.values() if is_live(each, inputs)]
    for each in targets:
        check_scope_covers("supersedes", new.scope, new.scope_id, each)
    slot = slot_of(new.key, new.scope, new.scope_id, inputs)
    current = [each for each in slot if each.is_current_at(inputs.time_us)]
    if all(each in current for each in targets):
        repetition = _decide_repetition(new, command, current, slot, inputs)
        if repetition is not None:
            return repetition
    newer = _find_newer(new, command, current, inputs) if not targets else None
    new_id = fact_id(state.version + 1)
    expired_ids = tuple(each.id for each in slot if each.has_expired(inputs.time_us))
    if newer is not None:
        return (new, FactSuperseded(fact=new_id, by=newer.id, rule="temporal", reason="it is older news", late=True))
    against, losers = resolve_contest(new.source.authority, [*current, *targets], slot, inputs)
    if against is not None:
        requires = tuple(sorted({*new.requires, *against.requires}))
        new = msgspec.structs.replace(new, against=against.id, requires=requires)
    successor = Successor(new_id, new.value, new.source.authority, {*new.depends_on})
    supersessions = list(supersede_facts(successor, losers, targets, command, inputs, expired_ids))
    _check_not_source(new_id, new, losers)
    ended_ids = (*(each.id for each in losers), *expired_ids)
    doubt = next((each for each in ended_ids if {*dependents_of([each], inputs)} & {*new.depends_on}), "")
    if doubt and not new.review:
        new = msgspec.structs.replace(new, review=doubt)
    return (new, *expire_facts(expired_ids, inputs), *supersessions)


def _build_assertion(command: AssertFact, inputs: DecisionInput) -> FactAsserted:
    """The assertion, if no other fact outranks it."""
    policy, writer = inputs.ledger.policy, inputs.ledger.writer
    own_authority = rung(policy.ladder, command.authority) if command.authority is not None else writer.default
    if outranks(policy.ladder, own_authority, writer.authority):
        if command.authority is not None:
            raise errors.AuthorityExceeded(asked=own_authority, has=writer.authority)
        own_authority = writer.authority
    sources = [find_named(command.ledger, name, inputs) for name in command.depends_on]
    for each in sources:
        check_live(each, "nothing can be derived from it", inputs)
    source = _check_source(command.source or FactSource(), inputs)
    if command.authority is None and writer.permissions is None and source.type == "policy":
        own_authority = policy.ladder.rungs[0]
    authority = lowest_rung(policy.ladder, [own_authority, *(each.authority for each in sources)])
    turn = inputs.message if source.type == "conversation" and inputs.message else source.turn
    source = msgspec.structs.replace(source, authority=authority, turn=turn)
    requires = {*command.requires}.union(*(each.requires for each in sources))
    missing = requires - {*(writer.permissions if writer.permissions is not None else requires)}
    if missing:
        raise errors.PermissionMissing(permission=min(missing), what="read the fact that you set")
    validity = _resolve_validity(command, inputs)
    kind = command.constraint_type
    if kind is None and command.is_constraint is not False:
        kind = inference.infer_constraint(command.key, command.value, source)
        kind = "policy" if kind is None and command.is_constraint else kind
    return FactAsserted(
        key=command.key,
        value=command.value,
        ref=command.ref,
        source=source,
        memory_type=command.memory_type or inference.infer_memory_type(source),
        scope=command.scope or "global",
        scope_id=command.scope_id,
        valid_from_us=inputs.time_us if validity.from_us is None else validity.from_us,
        expires_us=validity.until_us,
        depends_on=tuple(dict.fromkeys(each.id for each in sources)),
        review=next((each.review for each in sources if each.review), ""),
        is_constraint=kind is not None,
        constraint_type=kind,
        requires=tuple(sorted(requires)),
        provenance=command.provenance,
        mentions=complete_mentions(command.mentions, inputs),
        reason=command.reason,
    )


def _resolve_validity(command: AssertFact, inputs: DecisionInput) -> Validity:
    """The validity of the fact: from the options, or else from its value."""
    first, last = command.valid_from_us, command.expires_us
    if command.ttl_us is not None:
        last = inputs.time_us + command.ttl_us
    stated_validity = read_validity(command.value, inputs.time_us if first is None else first)
    if stated_validity is None:
        return Validity(from_us=first, until_us=last)
    return Validity(
        from_us=stated_validity.from_us if first is None else first,
        until_us=stated_validity.until_us if last is None else last,
    )


def _check_source(source: FactSource, inputs: DecisionInput) -> FactSource:
    """Set the identity of the channel. Only the program, or a writer of enough authority, may name a policy or a system."""
    writer, policy = inputs.ledger.writer, inputs.ledger.policy
    if writer.permissions is None:
        return source
    required_rung = policy.source_types.get(source.type)
    if required_rung is not None and outranks(policy.ladder, required_rung, writer.authority):
        raise errors.AuthorityExceeded(asked=rung(policy.ladder, required_rung), has=writer.authority)
    return msgspec.structs.replace(source, identity=writer.identity)


def _decide_repetition(
    new: FactAsserted, command: AssertFact, current: list[Fact], slot: list[Fact], inputs: DecisionInput
) -> tuple[Event, ...] | None:
    """The events of an equal statement; None if the statement is new."""
    ladder, authority = inputs.ledger.policy.ladder, new.source.authority
    foremost = choose_foremost(current, inputs.ledger.policy.ladder)
    if foremost is not None and is_same_value(foremost.value, new.value) and _adds_nothing(new, command, foremost):
        events: list[Event] = []
        if outranks(ladder, authority, foremost.authority):
            if {*foremost.depends_on} != {*new.depends_on}:
                return None  # a derived fact is now stated directly, with a higher authority
            events.append(FactEndorsed(fact=foremost.id, authority=authority, by=new.source.identity))
        has_doubts = foremost.review or (foremost.disputes and not events)
        if has_doubts and not new.review and not outranks(ladder, foremost.authority, authority):
            events.append(build_confirmation(foremost, new.source.identity, "", inputs))
        return tuple(events)
    for claim in slot:
        if (
            claim.is_claim
            and is_live(claim, inputs)
            and is_same_value(claim.value, new.value)
            and _adds_nothing(new, command, claim)
        ):
            is_outranked = any(outranks(ladder, each.authority, authority) for each in current)
            if is_outranked and not outranks(ladder, authority, claim.authority):
                return ()
    return None


def _adds_nothing(new: FactAsserted, command: AssertFact, current: Fact) -> bool:
    """Whether an equal statement leaves everything beside the value as it is, too."""
    return (
        {*new.depends_on} <= {*current.depends_on}
        and {*new.requires} <= {*current.requires}
        and (new.expires_us is None or new.expires_us == current.expires_us)
        and (command.is_constraint is None or command.is_constraint == current.is_constraint)
        and command.constraint_type in (None, current.constraint_type)
        and command.memory_type in (None, current.memory_type)
        and command.ref in ("", current.ref)
    )


def _find_newer(new: FactAsserted, command: AssertFact, current: list[Fact], inputs: DecisionInput) -> Fact | None:
    """A current fact that is newer than this statement, although it was asserted before; None if there is none."""
    has_expiry = command.expires_us is not None or command.ttl_us is not None
    if not has_expiry and new.expires_us is not None and new.expires_us <= inputs.time_us:
        return choose_foremost(current, inputs.ledger.policy.ladder)  # its own text says that its time is over
    if command.valid_from_us is None:
        return None
    is_sensitive = command.time_sensitive
    if is_sensitive is None:
        is_sensitive = inference.is_time_sensitive(inputs.ledger.policy, command.key)
    newer = [
        each
        for each in current
        if is_sensitive
        and each.valid_from_us > new.valid_from_us
        and not outranks(inputs.ledger.policy.ladder, new.source.authority, each.authority)
    ]
    return max(newer, key=lambda each: (each.valid_from_us, fact_seq(each.id)), default=None)


def _check_not_source(new_id: str, new: FactAsserted, losers: Iterable[Fact]) -> None:
    for each in losers:
        if each.id in new.depends_on:
            raise errors.SupersessionCycle(fact=new_id, what=f"both depend on {each.id!r} and supersede it")


def decide_change(fact: Fact, command: FactCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events of a command about one fact."""
    match command:
        case SupersedeFact():
            return _supersede(fact, command, inputs)
        case RetractFact():
            return _retract(fact, command, inputs)
        case ExpireFact():
            return _expire(fact, command, inputs)
        case PromoteFact():
            return _promote(fact, command, inputs)
        case EndorseFact():
            return _endorse(fact, command, inputs)
        case ConfirmFact():
            return _confirm(fact, command, inputs)
        case ReinstateFact():
            return _reinstate(fact, command, inputs)


def _supersede(fact: Fact, command: SupersedeFact, inputs: DecisionInput) -> tuple[Event, ...]:
    other = find_named(command.ledger, command.by, inputs)
    if fact.id == other.id or other.id in dependents_of([fact.id], inputs):
        raise errors.SupersessionCycle(fact=other.id, what=f"supersede {fact.id!r}")
    if fact.superseded_by == other.id:
        return ()
    check_live(fact, "it cannot be superseded", inputs)
    check_live(other, "it supersedes nothing", inputs)
    check_authority(fact, inputs, "supersede")
    check_scope_covers("by", other.scope, other.scope_id, fact)
    if outranks(inputs.ledger.policy.ladder, fact.authority, other.authority):
        raise errors.NotAuthorised(fact=fact.id, needs=fact.authority, has=other.authority, what="supersede")
    return tuple(supersede_facts(Successor.of(other), [fact], [fact], command, inputs))


def _retract(fact: Fact, command: RetractFact, inputs: DecisionInput) -> tuple[Event, ...]:
    if fact.status == "retracted":
        return ()
    check_live(fact, "it cannot be retracted", inputs)
    if outranks_writer(fact, inputs):
        return _dispute(fact, command, inputs)
    immune = {
        each
        for each in dependents_of([fact.id], inputs)
        if outranks_writer(inputs.ledger.slice.facts[each].fact, inputs)
    }
    facts = (fact.id, *dependents_of([fact.id], inputs, immune))
    event = FactRetracted(facts=facts, reason=command.reason, mentions=complete_mentions(command.mentions, inputs))
    return (event, *build_marks(fact.id, facts, inputs))


def _dispute(fact: Fact, command: RetractFact, inputs: DecisionInput) -> tuple[Event, ...]:
    """A writer who may not end a fact disputes it, once."""
    by, authority = inputs.ledger.writer.identity or inputs.principal, inputs.ledger.writer.authority
    if any((each.by, each.authority) == (by, authority) for each in fact.disputes):
        return ()
    return (FactDisputed(fact=fact.id, by=by, authority=authority, reason=command.reason),)


def _expire(fact: Fact, command: ExpireFact, inputs: DecisionInput) -> tuple[Event, ...]:
    if fact.status == "expired":
        return ()
    if not fact.is_valid:
        raise errors.FactNotLive(fact=fact.id, status=fact.status, what="it cannot expire")
    if not fact.has_expired(inputs.time_us):
        check_authority(fact, inputs, "expire")
    return expire_facts([fact.id], inputs, command.reason)


def _promote(fact: Fact, command: PromoteFact, inputs: DecisionInput) -> tuple[Event, ...]:
    if (fact.scope, fact.scope_id) == (command.scope, command.scope_id):
        return ()
    if FACT_SCOPES.index(command.scope) > FACT_SCOPES.index(fact.scope):
        reason = f"{command.scope!r} is narrower than {fact.scope!r}, the scope of {fact.id!r}: set the fact there"
        raise errors.InvalidArgument(argument="scope", reason=reason)
    check_live(fact, "it cannot be promoted", inputs)
    check_authority(fact, inputs, "promote")
    slot = slot_of(fact.key, command.scope, command.scope_id, inputs)
    current = [each for each in slot if each.is_current_at(inputs.time_us)]
    foremost = choose_foremost(current, inputs.ledger.policy.ladder)
    if foremost is not None and _covers(foremost, fact, inputs):
        _check_not_dependent(foremost, [fact], inputs)
        return tuple(supersede_facts(Successor.of(foremost), [fact], [], command, inputs))
    against, losers = resolve_contest(fact.authority, current, slot, inputs)
    _check_not_dependent(fact, losers, inputs)
    event = FactPromoted(
        fact=fact.id,
        scope=command.scope,
        scope_id=command.scope_id,
        against="" if against is None else against.id,
        requires=_claim_permissions(fact, against),
        reason=command.reason,
    )
    expired_ids = [each.id for each in slot if each.has_expired(inputs.time_us)]
    return (
        event,
        *expire_facts(expired_ids, inputs),
        *supersede_facts(Successor.of(fact), losers, [], command, inputs, expired_ids),
    )


def _covers(other: Fact, fact: Fact, inputs: DecisionInput) -> bool:
    """Whether another fact with the same value has all that this fact has."""
    return (
        is_same_value(other.value, fact.value)
        and not outranks(inputs.ledger.policy.ladder, fact.authority, other.authority)
        and {*fact.depends_on} <= {*other.depends_on}
        and {*fact.requires} <= {*other.requires}
        and fact.expires_us == other.expires_us
        and (fact.is_constraint, fact.constraint_type) == (other.is_constraint, other.constraint_type)
    )


def _check_not_dependent(fact: Fact, losers: Iterable[Fact], inputs: DecisionInput) -> None:
    for each in losers:
        if fact.id in dependents_of([each.id], inputs):
            raise errors.SupersessionCycle(fact=fact.id, what=f"supersede {each.id!r}")


def _claim_permissions(fact: Fact, against: Fact | None) -> tuple[str, ...]:
    """The permissions to read a claim: at least those of the fact that it is against."""
    return () if against is None else tuple(sorted({*fact.requires, *against.requires}))


def _endorse(fact: Fact, command: EndorseFact, inputs: DecisionInput) -> tuple[Event, ...]:
    policy, writer = inputs.ledger.policy, inputs.ledger.writer
    check_live(fact, "it cannot be endorsed", inputs)
    if writer.permissions is not None and policy.endorse not in writer.permissions:
        raise errors.PermissionMissing(permission=policy.endorse, what="raise the authority of a fact")
    authority = writer.authority if command.authority is None else rung(policy.ladder, command.authority)
    if outranks(policy.ladder, authority, writer.authority):
        raise errors.AuthorityExceeded(asked=authority, has=writer.authority)
    if not outranks(policy.ladder, authority, fact.authority):
        return ()
    slot = [each for each in slot_of(fact.key, fact.scope, fact.scope_id, inputs) if each.id != fact.id]
    current = [each for each in slot if each.is_current_at(inputs.time_us)]
    rivals = current if fact.is_claim else []
    against, losers = resolve_contest(authority, rivals, slot if fact.is_claim else [], inputs)
    event = FactEndorsed(
        fact=fact.id,
        authority=authority,
        by=writer.identity or inputs.principal,
        against="" if against is None else against.id,
        requires=_claim_permissions(fact, against),
        reason=command.reason,
    )
    _check_not_dependent(fact, losers, inputs)
    expired_ids = [each.id for each in slot if each.has_expired(inputs.time_us)]
    return (
        event,
        *expire_facts(expired_ids, inputs),
        *supersede_facts(Successor.of(fact, authority), losers, [], command, inputs, expired_ids),
    )


def _confirm(fact: Fact, command: ConfirmFact, inputs: DecisionInput) -> tuple[Event, ...]:
    check_live(fact, "it cannot be confirmed", inputs)
    if not fact.review and not fact.disputes:
        return ()
    check_authority(fact, inputs, "confirm")
    return (build_confirmation(fact, inputs.ledger.writer.identity or inputs.principal, command.reason, inputs),)


def build_confirmation(fact: Fact, by: str, reason: str, inputs: DecisionInput) -> FactConfirmed:
    """Confirm a fact. From now on it depends on the successors of its sources, so that it is marked when they end."""
    return FactConfirmed(fact=fact.id, by=by, reason=reason, depends_on=_follow_sources(fact, inputs))


def _follow_sources(fact: Fact, inputs: DecisionInput) -> tuple[str, ...]:
    """The sources of a fact once it was confirmed; empty if they are the same."""
    facts, dependents = inputs.ledger.slice.facts, {fact.id, *dependents_of([fact.id], inputs)}
    sources: list[str] = []
    for each in fact.depends_on:
        end = end_of(facts[each].fact, inputs) if each in facts else None
        is_usable = (
            end is not None
            and is_live(end, inputs)
            and end.id not in dependents
            and {*end.requires} <= {*fact.requires}
        )
        sources.append(end.id if end is not None and is_usable else each)
    unique = tuple(dict.fromkeys(sources))
    return () if unique == fact.depends_on else unique


def _reinstate(fact: Fact, command: ReinstateFact, inputs: DecisionInput) -> tuple[Event, ...]:
    if fact.is_valid and not fact.has_expired(inputs.time_us):
        return ()
    if fact.status != "superseded" or fact.has_expired(inputs.time_us):
        status = "expired" if fact.has_expired(inputs.time_us) else fact.status
        raise errors.FactNotLive(fact=fact.id, status=status, what="it cannot be reinstated")
    check_authority(fact, inputs, "reinstate")
    slot = slot_of(fact.key, fact.scope, fact.scope_id, inputs)
    instead = {each.id: each for each in slot if not each.is_claim}
    end = end_of(fact, inputs)
    if end.is_valid and is_visible(end, inputs):
        instead[end.id] = end
    if not instead.keys().isdisjoint(fact.depends_on):
        raise errors.SupersessionCycle(fact=fact.id, what="retract its own source")
    for each in instead.values():
        check_authority(each, inputs, "retract")
    marks = [mark for each in instead for mark in build_marks(each, {*instead, fact.id}, inputs)]
    marks += [FactMarked(facts=(fact.id,), because=each) for each in _find_doubts(fact, instead, inputs)]
    return (FactReinstated(fact=fact.id, instead=tuple(instead), reason=command.reason), *merge_marks(marks))


def _find_doubts(fact: Fact, instead: Iterable[str], inputs: DecisionInput) -> Iterator[str]:
    """The sources of a reinstated fact that are no longer valid, or need a review themselves."""
    for each in fact.depends_on:
        yield from (root for root in instead if each in dependents_of([root], inputs))
        source = inputs.ledger.slice.facts.get(each)
        if source is None or not is_live(source.fact, inputs):
            yield each
        elif source.fact.review:
            yield source.fact.review


def decide_erasure(state: LedgerState, command: EraseFacts, inputs: DecisionInput) -> tuple[Event, ...]:
    """Erase facts and mark their dependents."""
    facts = {each.id: each for each in (find_named(command.ledger, name, inputs) for name in command.facts)}
    for each in facts.values():
        check_authority(each, inputs, "erase")
    seqs = tuple(sorted({*(fact_seq(each) for each in facts), *command.seqs}))
    check_size("the erasure", len(seqs), "facts", "ERASE_EVENTS", "Erase in several steps.")
    if seqs and seqs[-1] > state.version:  # the facts are read from the store, and may be newer than a remembered state
        raise errors.InvalidArgument(
            argument="seqs", reason=f"there is no event {seqs[-1]}; the last one is {state.version}"
        )
    marks = [mark for each in facts for mark in build_marks(each, facts, inputs)]
    return (PayloadsErased(seqs=seqs, reason=command.reason), *merge_marks(marks)) if seqs else ()
