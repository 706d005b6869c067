"""What becomes of a fact that is there: superseded by another, taken back, expired, promoted, endorsed, confirmed,
reinstated, erased.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast import errors
from holdfast.core.authority import outranks, rung
from holdfast.core.supersede import (
    By,
    above,
    below,
    check_live,
    check_may,
    check_wide,
    contest,
    deaths,
    end_of,
    foremost,
    knows,
    lives,
    marks_of,
    named,
    once,
    placed,
    run_out,
    same,
    slot_of,
)
from holdfast.model.commands import (
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFact,
    Given,
    OnFact,
    PromoteFact,
    ReinstateFact,
    RetractFact,
    SupersedeFact,
)
from holdfast.model.events import (
    Event,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    PayloadsErased,
)
from holdfast.model.facts import (
    FACT_SCOPES,
    Fact,
    fact_seq,
)
from holdfast.model.names import check_size


def changed(fact: Fact, command: OnFact, given: Given) -> tuple[Event, ...]:
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


def _supersede(fact: Fact, command: SupersedeFact, given: Given) -> tuple[Event, ...]:
    other = named(command.ledger, command.by, given)
    if fact.id == other.id or other.id in below([fact.id], given):
        raise errors.SupersessionCycle(fact=other.id, what=f"supersede {fact.id!r}")
    if fact.superseded_by == other.id:
        return ()
    check_live(fact, "it cannot be superseded", given)
    check_live(other, "it supersedes nothing", given)
    check_may(fact, given, "supersede")
    check_wide(other.scope, other.scope_id, fact)
    if outranks(given.policy.ladder, fact.authority, other.authority):
        raise errors.NotAuthorised(fact=fact.id, needs=fact.authority, has=other.authority, what="supersede")
    return tuple(deaths(By.of(other), [fact], [fact], command, given))


def _retract(fact: Fact, command: RetractFact, given: Given) -> tuple[Event, ...]:
    if fact.status == "retracted":
        return ()
    check_live(fact, "it cannot be taken back", given)
    if above(fact, given):
        return _dispute(fact, command, given)
    kept = {each for each in below([fact.id], given) if above(given.slice.facts[each].fact, given)}
    facts = (fact.id, *below([fact.id], given, kept))
    retracted = FactRetracted(facts=facts, reason=command.reason, mentions=placed(command.mentions, given))
    return (retracted, *marks_of(fact.id, facts, given))


def _dispute(fact: Fact, command: RetractFact, given: Given) -> tuple[Event, ...]:
    """Who may not end a fact disputes it; once is enough."""
    by, authority = given.writer.identity or given.principal, given.writer.authority
    if any((each.by, each.authority) == (by, authority) for each in fact.disputes):
        return ()
    return (FactDisputed(fact=fact.id, by=by, authority=authority, reason=command.reason),)


def _expire(fact: Fact, command: ExpireFact, given: Given) -> tuple[Event, ...]:
    if fact.status == "expired":
        return ()
    if not fact.is_valid:
        raise errors.FactNotLive(fact=fact.id, status=fact.status, what="it cannot expire")
    if not fact.ran_out(given.time_us):
        check_may(fact, given, "expire")
    return run_out([fact.id], given, command.reason)


def _promote(fact: Fact, command: PromoteFact, given: Given) -> tuple[Event, ...]:
    if (fact.scope, fact.scope_id) == (command.scope, command.scope_id):
        return ()
    if FACT_SCOPES.index(command.scope) > FACT_SCOPES.index(fact.scope):
        reason = (
            f"{fact.id!r} holds in the scope {fact.scope!r}; {command.scope!r} is narrower: assert it there instead"
        )
        raise errors.InvalidContent(reason=reason)
    check_live(fact, "it cannot be promoted", given)
    check_may(fact, given, "promote")
    slot = slot_of(fact.key, command.scope, command.scope_id, given)
    held = [each for each in slot if each.current_at(given.time_us)]
    known = foremost(held, given)
    if known is not None and _covers(known, fact, given):
        _check_not_below(known, [fact], given)
        return tuple(deaths(By.of(known), [fact], [], command, given))
    against, ended = contest(fact.authority, held, slot, given)
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
    return (promoted, *run_out(gone, given), *deaths(By.of(fact), ended, [], command, given, gone))


def _covers(known: Fact, fact: Fact, given: Given) -> bool:
    """Whether nothing is lost if a fact gives way to one that says the same."""
    return (
        same(known.value, fact.value)
        and not outranks(given.policy.ladder, fact.authority, known.authority)
        and {*fact.depends_on} <= {*known.depends_on}
        and {*fact.requires} <= {*known.requires}
        and fact.expires_us == known.expires_us
        and (fact.is_constraint, fact.constraint_type) == (known.is_constraint, known.constraint_type)
    )


def _check_not_below(fact: Fact, ended: Iterable[Fact], given: Given) -> None:
    for each in ended:
        if fact.id in below([each.id], given):
            raise errors.SupersessionCycle(fact=fact.id, what=f"supersede {each.id!r}")


def _guarded(fact: Fact, against: Fact | None) -> tuple[str, ...]:
    """What it takes to know of a claim: no less than for what it is against."""
    return () if against is None else tuple(sorted({*fact.requires, *against.requires}))


def _endorse(fact: Fact, command: EndorseFact, given: Given) -> tuple[Event, ...]:
    policy, writer = given.policy, given.writer
    check_live(fact, "it cannot be endorsed", given)
    if writer.permissions is not None and policy.endorse not in writer.permissions:
        raise errors.PermissionMissing(permission=policy.endorse, what="raise the authority of a fact")
    asked = writer.authority if command.authority is None else rung(policy.ladder, command.authority)
    if outranks(policy.ladder, asked, writer.authority):
        raise errors.AuthorityExceeded(asked=asked, has=writer.authority)
    if not outranks(policy.ladder, asked, fact.authority):
        return ()
    slot = [each for each in slot_of(fact.key, fact.scope, fact.scope_id, given) if each.id != fact.id]
    held = [each for each in slot if each.current_at(given.time_us)]
    rivals = held if fact.claim else []
    against, ended = contest(asked, rivals, slot if fact.claim else [], given)
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
    return (endorsed, *run_out(gone, given), *deaths(By.of(fact, asked), ended, [], command, given, gone))


def _confirm(fact: Fact, command: ConfirmFact, given: Given) -> tuple[Event, ...]:
    check_live(fact, "it cannot be confirmed", given)
    if not fact.review and not fact.disputes:
        return ()
    check_may(fact, given, "confirm")
    return (confirmed(fact, given.writer.identity or given.principal, command.reason, given),)


def confirmed(fact: Fact, by: str, reason: str, given: Given) -> FactConfirmed:
    """It holds, and rests from now on what took the place of its sources, or else it would never hear of their end."""
    return FactConfirmed(fact=fact.id, by=by, reason=reason, depends_on=_moved(fact, given))


def _moved(fact: Fact, given: Given) -> tuple[str, ...]:
    """What a fact rests on once it was looked at again; nothing if that has not changed."""
    facts, under = given.slice.facts, {fact.id, *below([fact.id], given)}
    moved: list[str] = []
    for each in fact.depends_on:
        end = end_of(facts[each].fact, given) if each in facts else None
        stands = end is not None and lives(end, given) and end.id not in under and {*end.requires} <= {*fact.requires}
        moved.append(end.id if end is not None and stands else each)
    found = tuple(dict.fromkeys(moved))
    return () if found == fact.depends_on else found


def _reinstate(fact: Fact, command: ReinstateFact, given: Given) -> tuple[Event, ...]:
    if fact.is_valid and not fact.ran_out(given.time_us):
        return ()
    if fact.status != "superseded" or fact.ran_out(given.time_us):
        status = "expired" if fact.ran_out(given.time_us) else fact.status
        raise errors.FactNotLive(fact=fact.id, status=status, what="it cannot be reinstated")
    check_may(fact, given, "reinstate")
    slot = slot_of(fact.key, fact.scope, fact.scope_id, given)
    instead = {each.id: each for each in slot if not each.claim}
    end = end_of(fact, given)
    if end.is_valid and knows(end, given):
        instead[end.id] = end
    if not instead.keys().isdisjoint(fact.depends_on):
        raise errors.SupersessionCycle(fact=fact.id, what="take back what it depends on")
    for each in instead.values():
        check_may(each, given, "take back")
    marks = [mark for each in instead for mark in marks_of(each, {*instead, fact.id}, given)]
    marks += [FactMarked(facts=(fact.id,), because=each) for each in _doubts(fact, instead, given)]
    return (FactReinstated(fact=fact.id, instead=tuple(instead), reason=command.reason), *once(marks))


def _doubts(fact: Fact, instead: Iterable[str], given: Given) -> Iterator[str]:
    """What a fact that was dead meanwhile rests on and can no longer rest on."""
    for each in fact.depends_on:
        yield from (root for root in instead if each in below([root], given))
        source = given.slice.facts.get(each)
        if source is None or not lives(source.fact, given):
            yield each
        elif source.fact.review:
            yield source.fact.review


def erased(command: EraseFacts, given: Given) -> tuple[Event, ...]:
    facts = {each.id: each for each in (named(command.ledger, name, given) for name in command.facts)}
    for each in facts.values():
        check_may(each, given, "erase")
    seqs = tuple(sorted({*(fact_seq(each) for each in facts), *command.seqs}))
    check_size("the erasure", len(seqs), "facts", "ERASE_EVENTS", "Erase in several steps.")
    marks = [mark for each in facts for mark in marks_of(each, facts, given)]
    return (PayloadsErased(seqs=seqs, reason=command.reason), *once(marks)) if seqs else ()
