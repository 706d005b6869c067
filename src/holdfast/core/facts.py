"""Facts: what a command makes happen in a ledger.

Laws: a lower authority never ends what a higher one says, it is kept as a claim; what ends takes nothing along silently,
its dependents are marked or go with it; repeating what is known changes nothing; whoever may not know of a fact is told
nothing by which he could tell that it is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast import codec, errors
from holdfast.core import infer
from holdfast.core.authority import lowest, may_know, outranks, rank, rung
from holdfast.model.commands import (
    AssertFact,
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFact,
    ExpireFacts,
    Given,
    LedgerCommand,
    OnFact,
    PromoteFact,
    ReinstateFact,
    RetractFact,
    SupersedeFact,
)
from holdfast.model.content import Json
from holdfast.model.events import (
    Event,
    FactAsserted,
    FactConfirmed,
    FactEndorsed,
    FactExpired,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactSuperseded,
    PayloadsErased,
)
from holdfast.model.facts import (
    FACT_SCOPES,
    Fact,
    FactScope,
    FactSource,
    Mention,
    SupersessionRule,
    fact_id,
    fact_seq,
)
from holdfast.model.names import LedgerId, check_size
from holdfast.model.state import LedgerState

_MANY = "Take back or replace the facts below it first."


def decide(state: LedgerState, command: LedgerCommand, given: Given) -> tuple[Event, ...]:
    """The events that this command makes now; none if it changes nothing. Refusals are raised."""
    match command:
        case AssertFact():
            return _assert(state, command, given)
        case ExpireFacts():
            return _run_out(given.slice.due, given)
        case EraseFacts():
            return _erase(command, given)
    fact = named(command.ledger, command.fact, given)
    return _change(fact, command, given)


def _change(fact: Fact, command: OnFact, given: Given) -> tuple[Event, ...]:
    match command:
        case SupersedeFact():
            return _supersede(fact, command, given)
        case RetractFact():
            return _retract(fact, command, given)
        case ExpireFact():
            return _expire(fact, command, given)
        case PromoteFact():
            return _promote(fact, command, given)
        case EndorseFact():
            return _endorse(fact, command, given)
        case ConfirmFact():
            return _confirm(fact, command, given)
        case ReinstateFact():
            return _reinstate(fact, command, given)


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same, as JSON tells them apart: 1 is neither 1.0 nor true."""
    return codec.encode(one) == codec.encode(other)


def named(ledger: LedgerId, name: str, given: Given) -> Fact:
    """The fact that a command names; one that was made a moment ago, together with it, is known by its names, too."""
    facts = given.slice.facts
    found = facts.get(given.slice.named.get(name, ""))
    if found is None:
        made = [
            each.fact for each in facts.values() if name in (each.fact.ref, each.fact.key) and _knows(each.fact, given)
        ]
        if not made:
            raise errors.FactNotFound(ledger=ledger, fact=name)
        return max(made, key=lambda each: (each.is_valid, fact_seq(each.id)))
    return found.fact


def _end(fact: Fact, given: Given) -> Fact:
    """The last of a fact's chain, as far as it was looked up."""
    while fact.superseded_by in given.slice.facts:
        fact = given.slice.facts[fact.superseded_by].fact
    return fact


def _knows(fact: Fact, given: Given) -> bool:
    return may_know(fact.requires, given.writer.permissions)


def _slot(key: str, scope: str, scope_id: str, given: Given) -> list[Fact]:
    """The live facts of one key in one scope that the writer may know of, the newest first."""
    found = [
        each.fact
        for each in given.slice.facts.values()
        if each.fact.is_valid
        and (each.fact.key, each.fact.scope, each.fact.scope_id) == (key, scope, scope_id)
        and _knows(each.fact, given)
    ]
    return sorted(found, key=lambda each: -fact_seq(each.id))


def _live(fact: Fact, what: str, given: Given) -> Fact:
    status = "expired" if fact.is_valid and fact.ran_out(given.time_us) else fact.status
    if status != "live":
        raise errors.FactNotLive(fact=fact.id, status=status, what=what)
    return fact


def _lives(fact: Fact, given: Given) -> bool:
    return fact.is_valid and not fact.ran_out(given.time_us)


def _above(fact: Fact, given: Given) -> bool:
    """Whether a fact has more authority than the writer."""
    return outranks(given.policy.ladder, fact.authority, given.writer.authority)


def _check_may(fact: Fact, given: Given, what: str) -> None:
    """Raises if the writer has too little authority to do this to a fact."""
    if _above(fact, given):
        raise errors.NotAuthorised(fact=fact.id, needs=fact.authority, has=given.writer.authority, what=what)


def _assert(state: LedgerState, command: AssertFact, given: Given) -> tuple[Event, ...]:
    new = _new(command, given)
    targets = [_end(named(command.ledger, name, given), given) for name in command.supersedes]
    targets = [each for each in {each.id: each for each in targets}.values() if _lives(each, given)]
    for each in targets:
        _check_wide(new.scope, new.scope_id, each)
    slot = _slot(new.key, new.scope, new.scope_id, given)
    held = [each for each in slot if each.current_at(given.time_us)]
    if all(each in held for each in targets):
        known = _repetition(new, command, held, slot, given)
        if known is not None:
            return known
    late = _overtaken(new, command, held, given) if not targets else None
    own = fact_id(state.version + 1)
    gone = tuple(each.id for each in slot if each.ran_out(given.time_us))
    if late is not None:
        return (new, FactSuperseded(fact=own, by=late.id, rule="temporal", reason="it is older news", late=True))
    against, ended = _contest(new.source.authority, [*held, *targets], slot, given)
    if against is not None:
        requires = tuple(sorted({*new.requires, *against.requires}))
        new = msgspec.structs.replace(new, against=against.id, requires=requires)
    by = _By(own, new.value, new.source.authority, {*new.depends_on})
    deaths = list(_deaths(by, ended, targets, command, given))
    _check_apart(own, new, ended)
    doubtful = next((each.id for each in ended if {*_below([each.id], given)} & {*new.depends_on}), "")
    if doubtful and not new.review:
        new = msgspec.structs.replace(new, review=doubtful)
    return (new, *_run_out(gone, given), *deaths)


def _new(command: AssertFact, given: Given) -> FactAsserted:
    """The fact, if nothing stands against it."""
    policy, writer = given.policy, given.writer
    asked = rung(policy.ladder, command.authority) if command.authority is not None else writer.default
    if outranks(policy.ladder, asked, writer.authority):
        if command.authority is not None:
            raise errors.AuthorityExceeded(asked=asked, has=writer.authority)
        asked = writer.authority
    sources = [named(command.ledger, name, given) for name in command.depends_on]
    for each in sources:
        _live(each, "nothing can be derived from it", given)
    source = _spoken(command.source or FactSource(), given)
    if command.authority is None and writer.permissions is None and source.type == "policy":
        asked = policy.ladder.rungs[0]
    authority = lowest(policy.ladder, [asked, *(each.authority for each in sources)])
    turn = given.message if source.type == "conversation" and given.message else source.turn
    source = msgspec.structs.replace(source, authority=authority, turn=turn)
    requires = {*command.requires}.union(*(each.requires for each in sources))
    missing = requires - {*(writer.permissions if writer.permissions is not None else requires)}
    if missing:
        raise errors.PermissionMissing(permission=min(missing), what="know of what you are about to assert")
    kind = command.constraint_type
    if kind is None and command.is_constraint is not False:
        kind = infer.constraint(command.key, command.value, source)
        kind = "policy" if kind is None and command.is_constraint else kind
    return FactAsserted(
        key=command.key,
        value=command.value,
        ref=command.ref,
        source=source,
        memory_type=command.memory_type or infer.memory_type(source),
        scope=command.scope or "global",
        scope_id=command.scope_id,
        valid_from_us=given.time_us if command.valid_from_us is None else command.valid_from_us,
        expires_us=given.time_us + command.ttl_us if command.ttl_us is not None else command.expires_us,
        depends_on=tuple(dict.fromkeys(each.id for each in sources)),
        review=next((each.review for each in sources if each.review), ""),
        is_constraint=kind is not None,
        constraint_type=kind,
        requires=tuple(sorted(requires)),
        provenance=command.provenance,
        mentions=_placed(command.mentions, given),
    )


def _spoken(source: FactSource, given: Given) -> FactSource:
    """Who speaks is what the channel says; only the program itself, or who has the rank, speaks for policy or a system."""
    writer, policy = given.writer, given.policy
    if writer.permissions is None:
        return source
    needs = policy.source_types.get(source.type)
    if needs is not None and outranks(policy.ladder, needs, writer.authority):
        raise errors.AuthorityExceeded(asked=rung(policy.ladder, needs), has=writer.authority)
    return msgspec.structs.replace(source, identity=writer.identity)


def _placed(mentions: Iterable[Mention], given: Given) -> tuple[Mention, ...]:
    """Those in the message that is recorded together with the fact know its seq now."""
    known = (
        each if each.seq else msgspec.structs.replace(each, seq=given.message)
        for each in mentions
        if each.seq or given.message
    )
    return tuple(sorted({*known}))


def _repetition(
    new: FactAsserted, command: AssertFact, held: list[Fact], slot: list[Fact], given: Given
) -> tuple[Event, ...] | None:
    """What hearing the same again makes happen; None if it is something new."""
    ladder, authority = given.policy.ladder, new.source.authority
    now = max(held, key=lambda each: (rank(ladder, each.authority), fact_seq(each.id)), default=None)
    for known in held:
        if known is not now or not (same(known.value, new.value) and _says_no_more(new, command, known)):
            continue
        events: list[Event] = []
        if outranks(ladder, authority, known.authority) and {*known.depends_on} == {*new.depends_on}:
            events.append(FactEndorsed(fact=known.id, authority=authority, by=new.source.identity))
        if known.review and not new.review and not outranks(ladder, known.authority, authority):
            events.append(FactConfirmed(fact=known.id, by=new.source.identity))
        return tuple(events)
    for claim in slot:
        if claim.claim and same(claim.value, new.value) and _says_no_more(new, command, claim):
            higher = any(outranks(ladder, each.authority, authority) for each in held)
            if higher and not outranks(ladder, authority, claim.authority):
                return ()
    return None


def _says_no_more(new: FactAsserted, command: AssertFact, known: Fact) -> bool:
    """Whether a repetition leaves everything beside the value as it is, too."""
    return (
        {*new.depends_on} <= {*known.depends_on}
        and {*new.requires} <= {*known.requires}
        and (new.expires_us is None or new.expires_us == known.expires_us)
        and (command.is_constraint is None or command.is_constraint == known.is_constraint)
        and command.constraint_type in (None, known.constraint_type)
        and command.memory_type in (None, known.memory_type)
        and command.ref in ("", known.ref)
    )


def _overtaken(new: FactAsserted, command: AssertFact, held: list[Fact], given: Given) -> Fact | None:
    """What is newer than this news, although it came before; None if it is news."""
    if command.valid_from_us is None:
        return None
    sensitive = command.time_sensitive
    if sensitive is None:
        sensitive = infer.time_sensitive(given.policy, command.key)
    newer = [
        each
        for each in held
        if sensitive
        and each.valid_from_us > new.valid_from_us
        and not outranks(given.policy.ladder, new.source.authority, each.authority)
    ]
    return max(newer, key=lambda each: (each.valid_from_us, fact_seq(each.id)), default=None)


def _contest(
    authority: str, rivals: Iterable[Fact], slot: Iterable[Fact], given: Given
) -> tuple[Fact | None, list[Fact]]:
    """The rival that outranks a fact of this authority, if any does; and what ends because of it."""
    ladder = given.policy.ladder
    unique = {each.id: each for each in rivals}
    higher = [each for each in unique.values() if outranks(ladder, each.authority, authority)]
    claims = {each.id: each for each in slot if each.claim and not outranks(ladder, each.authority, authority)}
    if higher:
        against = max(higher, key=lambda each: (rank(ladder, each.authority), fact_seq(each.id)))
        return against, [each for each in claims.values() if each.id not in unique]
    return None, list((unique | claims).values())


class _By(NamedTuple):
    """What takes the place of others."""

    fact: str
    value: Json
    authority: str
    sources: set[str]

    @classmethod
    def of(cls, fact: Fact, authority: str | None = None) -> _By:
        return cls(fact.id, fact.value, authority or fact.authority, {*fact.depends_on})


def _deaths(
    by: _By,
    ended: Iterable[Fact],
    targets: Iterable[Fact],
    command: LedgerCommand,
    given: Given,
) -> Iterator[Event]:
    """These are superseded, and who depends on them is marked, or follows if the value is the same."""
    explicit = {each.id for each in targets}
    ended = list(ended)
    dying = {each.id for each in ended} | {by.fact}
    mentions = _placed(command.old_mentions, given) if isinstance(command, AssertFact) else ()
    for fact in ended:
        rule: SupersessionRule = "implicit"
        if fact.id in explicit:
            rule = "explicit"
        elif outranks(given.policy.ladder, by.authority, fact.authority):
            rule = "authority"
        elif isinstance(command, AssertFact) and command.valid_from_us is not None:
            rule = "temporal"
        equal = same(fact.value, by.value) and by.sources.isdisjoint(_below([fact.id], given))
        followers = tuple(each for each in given.slice.below.get(fact.id, ()) if equal and each not in dying)
        reason: str = getattr(command, "reason", "")
        yield FactSuperseded(
            fact=fact.id,
            by=by.fact,
            rule=rule,
            reason=reason,
            followers=followers,
            mentions=mentions if fact.id in explicit or len(ended) == 1 else (),
        )
        if not equal:
            yield from _marks(fact.id, dying, given)


def _check_wide(scope: FactScope, scope_id: str, other: Fact) -> None:
    """What is only supposed, a draft, or one task's changes nothing outside of it."""
    if (scope, scope_id) != (other.scope, other.scope_id) and scope != "global":
        reason = f"what holds in the scope {scope!r} cannot supersede {other.id!r}, which holds in {other.scope!r}"
        raise errors.InvalidContent(reason=f"{reason}: promote it first, or assert it there")


def _check_apart(own: str, new: FactAsserted, ended: Iterable[Fact]) -> None:
    for each in ended:
        if each.id in new.depends_on:
            raise errors.SupersessionCycle(fact=own, what=f"both depend on {each.id!r} and supersede it")


def _below(roots: Iterable[str], given: Given, besides: Collection[str] = ()) -> list[str]:
    """All live facts that depend on these, directly or not; and not only through those besides."""
    found: dict[str, None] = {}
    ahead = [*roots]
    while ahead:
        for each in given.slice.below.get(ahead.pop(), ()):
            if each not in found and each not in besides:
                found[each] = None
                ahead.append(each)
    check_size("the ripple", len(found), "dependent facts", "RIPPLE_FACTS", _MANY)
    return sorted(found, key=fact_seq)


def _marks(root: str, besides: Iterable[str], given: Given) -> Iterator[FactMarked]:
    besides = {*besides}
    facts = given.slice.facts
    doubtful = tuple(each for each in _below([root], given) if each not in besides and not facts[each].fact.review)
    if doubtful:
        yield FactMarked(facts=doubtful, because=root)


def _run_out(gone: Iterable[str], given: Given, reason: str = "") -> tuple[Event, ...]:
    """These have expired, and who depends on them is marked."""
    gone = tuple(gone)
    if not gone:
        return ()
    marks = [mark for each in gone for mark in _marks(each, gone, given)]
    return (FactExpired(facts=gone, reason=reason), *_once(marks))


def _once(marks: Iterable[FactMarked]) -> Iterator[FactMarked]:
    """Each fact is marked for the first of its reasons."""
    seen: set[str] = set()
    for mark in marks:
        facts = tuple(each for each in mark.facts if each not in seen)
        seen |= {*facts}
        if facts:
            yield msgspec.structs.replace(mark, facts=facts)


def _supersede(fact: Fact, command: SupersedeFact, given: Given) -> tuple[Event, ...]:
    other = named(command.ledger, command.by, given)
    if fact.id == other.id or other.id in _below([fact.id], given):
        raise errors.SupersessionCycle(fact=other.id, what=f"supersede {fact.id!r}")
    if fact.superseded_by == other.id:
        return ()
    _live(fact, "it cannot be superseded", given)
    _live(other, "it supersedes nothing", given)
    _check_may(fact, given, "supersede")
    _check_wide(other.scope, other.scope_id, fact)
    if outranks(given.policy.ladder, fact.authority, other.authority):
        raise errors.NotAuthorised(fact=fact.id, needs=fact.authority, has=other.authority, what="supersede")
    return tuple(_deaths(_By.of(other), [fact], [fact], command, given))


def _retract(fact: Fact, command: RetractFact, given: Given) -> tuple[Event, ...]:
    if fact.status == "retracted":
        return ()
    _live(fact, "it cannot be taken back", given)
    _check_may(fact, given, "retract")
    kept = {each for each in _below([fact.id], given) if _above(given.slice.facts[each].fact, given)}
    facts = (fact.id, *_below([fact.id], given, kept))
    retracted = FactRetracted(facts=facts, reason=command.reason, mentions=_placed(command.mentions, given))
    return (retracted, *_marks(fact.id, facts, given))


def _expire(fact: Fact, command: ExpireFact, given: Given) -> tuple[Event, ...]:
    if fact.status == "expired":
        return ()
    if not fact.is_valid:
        raise errors.FactNotLive(fact=fact.id, status=fact.status, what="it cannot expire")
    if not fact.ran_out(given.time_us):
        _check_may(fact, given, "expire")
    return _run_out([fact.id], given, command.reason)


def _promote(fact: Fact, command: PromoteFact, given: Given) -> tuple[Event, ...]:
    if (fact.scope, fact.scope_id) == (command.scope, command.scope_id):
        return ()
    if FACT_SCOPES.index(command.scope) > FACT_SCOPES.index(fact.scope):
        reason = (
            f"{fact.id!r} holds in the scope {fact.scope!r}; {command.scope!r} is narrower: assert it there instead"
        )
        raise errors.InvalidContent(reason=reason)
    _live(fact, "it cannot be promoted", given)
    _check_may(fact, given, "promote")
    slot = _slot(fact.key, command.scope, command.scope_id, given)
    held = [each for each in slot if each.current_at(given.time_us)]
    for known in held:
        if same(known.value, fact.value) and _covers(known, fact, given):
            _check_not_below(known, [fact], given)
            return tuple(_deaths(_By.of(known), [fact], [], command, given))
    against, ended = _contest(fact.authority, held, slot, given)
    _check_not_below(fact, ended, given)
    promoted = FactPromoted(
        fact=fact.id,
        scope=command.scope,
        scope_id=command.scope_id,
        against="" if against is None else against.id,
        requires=_guarded(fact, against),
        reason=command.reason,
    )
    gone = [each.id for each in slot if each.ran_out(given.time_us)]
    deaths = _deaths(_By.of(fact), ended, [], command, given)
    return (promoted, *_run_out(gone, given), *deaths)


def _covers(known: Fact, fact: Fact, given: Given) -> bool:
    """Whether nothing is lost if a fact gives way to one that says the same."""
    return (
        not outranks(given.policy.ladder, fact.authority, known.authority)
        and {*fact.depends_on} <= {*known.depends_on}
        and {*fact.requires} <= {*known.requires}
        and fact.expires_us == known.expires_us
        and (fact.is_constraint, fact.constraint_type) == (known.is_constraint, known.constraint_type)
    )


def _check_not_below(fact: Fact, ended: Iterable[Fact], given: Given) -> None:
    for each in ended:
        if fact.id in _below([each.id], given):
            raise errors.SupersessionCycle(fact=fact.id, what=f"supersede {each.id!r}")


def _guarded(fact: Fact, against: Fact | None) -> tuple[str, ...]:
    """What it takes to know of a claim: no less than for what it is against."""
    return () if against is None else tuple(sorted({*fact.requires, *against.requires}))


def _endorse(fact: Fact, command: EndorseFact, given: Given) -> tuple[Event, ...]:
    policy, writer = given.policy, given.writer
    _live(fact, "it cannot be endorsed", given)
    if writer.permissions is not None and policy.endorse not in writer.permissions:
        raise errors.PermissionMissing(permission=policy.endorse, what="raise the authority of a fact")
    asked = writer.authority if command.authority is None else rung(policy.ladder, command.authority)
    if outranks(policy.ladder, asked, writer.authority):
        raise errors.AuthorityExceeded(asked=asked, has=writer.authority)
    if not outranks(policy.ladder, asked, fact.authority):
        return ()
    slot = [each for each in _slot(fact.key, fact.scope, fact.scope_id, given) if each.id != fact.id]
    held = [each for each in slot if each.current_at(given.time_us)]
    rivals = held if fact.claim else []
    against, ended = _contest(asked, rivals, slot if fact.claim else [], given)
    endorsed = FactEndorsed(
        fact=fact.id,
        authority=asked,
        by=writer.identity or given.principal,
        against="" if against is None else against.id,
        requires=_guarded(fact, against),
        reason=command.reason,
    )
    _check_not_below(fact, ended, given)
    gone = [each.id for each in slot if each.ran_out(given.time_us)]
    return (endorsed, *_run_out(gone, given), *_deaths(_By.of(fact, asked), ended, [], command, given))


def _confirm(fact: Fact, command: ConfirmFact, given: Given) -> tuple[Event, ...]:
    _live(fact, "it cannot be confirmed", given)
    if not fact.review:
        return ()
    _check_may(fact, given, "confirm")
    return (FactConfirmed(fact=fact.id, by=given.writer.identity or given.principal, reason=command.reason),)


def _reinstate(fact: Fact, command: ReinstateFact, given: Given) -> tuple[Event, ...]:
    if fact.is_valid and not fact.ran_out(given.time_us):
        return ()
    if fact.status != "superseded" or fact.ran_out(given.time_us):
        status = "expired" if fact.ran_out(given.time_us) else fact.status
        raise errors.FactNotLive(fact=fact.id, status=status, what="it cannot be reinstated")
    _check_may(fact, given, "reinstate")
    slot = _slot(fact.key, fact.scope, fact.scope_id, given)
    instead = {each.id: each for each in slot if not each.claim}
    end = _end(fact, given)
    if end.is_valid and _knows(end, given):
        instead[end.id] = end
    if fact.id in _below(instead, given):
        raise errors.SupersessionCycle(fact=fact.id, what="take back what it depends on")
    for each in instead.values():
        _check_may(each, given, "take back")
    marks = [mark for each in instead for mark in _marks(each, {*instead, fact.id}, given)]
    marks += [FactMarked(facts=(fact.id,), because=each) for each in _doubts(fact, given)]
    return (FactReinstated(fact=fact.id, instead=tuple(instead), reason=command.reason), *_once(marks))


def _doubts(fact: Fact, given: Given) -> Iterator[str]:
    """What a fact that was dead meanwhile rests on and can no longer rest on."""
    for each in fact.depends_on:
        source = given.slice.facts.get(each)
        if source is None or not _lives(source.fact, given):
            yield each
        elif source.fact.review:
            yield source.fact.review


def _erase(command: EraseFacts, given: Given) -> tuple[Event, ...]:
    facts = {each.id: each for each in (named(command.ledger, name, given) for name in command.facts)}
    for each in facts.values():
        _check_may(each, given, "erase")
    seqs = tuple(sorted({*(fact_seq(each) for each in facts), *command.seqs}))
    check_size("the erasure", len(seqs), "facts", "ERASE_EVENTS", "Erase in several steps.")
    marks = [mark for each in facts for mark in _marks(each, facts, given)]
    return (PayloadsErased(seqs=seqs, reason=command.reason), *_once(marks)) if seqs else ()
