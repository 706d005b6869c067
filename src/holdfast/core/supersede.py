"""What a fact takes the place of, and what its death brings about.

Laws: a lower authority never ends what a higher one says; what ends takes nothing along silently, its dependents are
marked, or follow if the value is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast import codec, errors
from holdfast.core.authority import may_know, outranks, rank
from holdfast.model.commands import (
    AssertFact,
    Given,
    LedgerCommand,
)
from holdfast.model.content import Json
from holdfast.model.events import (
    Event,
    FactExpired,
    FactMarked,
    FactSuperseded,
)
from holdfast.model.facts import (
    Fact,
    FactScope,
    Mention,
    SupersessionRule,
    fact_seq,
)
from holdfast.model.names import LedgerId, check_size

_MANY = "Take back or replace the facts below it first."


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same, as JSON tells them apart: 1 is neither 1.0 nor true."""
    return codec.encode(one) == codec.encode(other)


def named(ledger: LedgerId, name: str, given: Given) -> Fact:
    """The fact that a command names."""
    found = given.slice.facts.get(given.slice.named.get(name, ""))
    if found is None:
        raise errors.FactNotFound(ledger=ledger, fact=name)
    return found.fact


def end_of(fact: Fact, given: Given) -> Fact:
    """The last of a fact's chain, as far as it was looked up."""
    facts = given.slice.facts
    fact = facts[given.slice.ends.get(fact.id, fact.id)].fact if fact.id in facts else fact
    for _ in facts:
        after = facts.get(fact.superseded_by or "")
        if after is None or not knows(after.fact, given):
            break
        fact = after.fact
    return fact


def knows(fact: Fact, given: Given) -> bool:
    return may_know(fact.requires, given.writer.permissions)


def slot_of(key: str, scope: str, scope_id: str, given: Given) -> list[Fact]:
    """The live facts of one key in one scope that the writer may know of, the newest first."""
    found = [
        each.fact
        for each in given.slice.facts.values()
        if each.fact.is_valid
        and (each.fact.key, each.fact.scope, each.fact.scope_id) == (key, scope, scope_id)
        and knows(each.fact, given)
    ]
    return sorted(found, key=lambda each: -fact_seq(each.id))


def check_live(fact: Fact, what: str, given: Given) -> Fact:
    status = "expired" if fact.is_valid and fact.ran_out(given.time_us) else fact.status
    if status != "live":
        raise errors.FactNotLive(fact=fact.id, status=status, what=what)
    return fact


def lives(fact: Fact, given: Given) -> bool:
    return fact.is_valid and not fact.ran_out(given.time_us)


def above(fact: Fact, given: Given) -> bool:
    """Whether a fact has more authority than the writer."""
    return outranks(given.policy.ladder, fact.authority, given.writer.authority)


def check_may(fact: Fact, given: Given, what: str) -> None:
    """Raises if the writer has too little authority to do this to a fact."""
    if above(fact, given):
        raise errors.NotAuthorised(fact=fact.id, needs=fact.authority, has=given.writer.authority, what=what)


def placed(mentions: Iterable[Mention], given: Given) -> tuple[Mention, ...]:
    """Those in the message that is recorded together with the fact know its seq now."""
    known = (
        each if each.seq else msgspec.structs.replace(each, seq=given.message)
        for each in mentions
        if each.seq or given.message
    )
    return tuple(sorted({*known}))


def foremost(held: list[Fact], given: Given) -> Fact | None:
    """What counts of all that is held in one place."""
    ladder = given.policy.ladder
    return max(held, key=lambda each: (rank(ladder, each.authority), fact_seq(each.id)), default=None)


def contest(
    authority: str, rivals: Iterable[Fact], slot: Iterable[Fact], given: Given
) -> tuple[Fact | None, list[Fact]]:
    """The rival that outranks a fact of this authority, if any does; and what ends because of it."""
    ladder = given.policy.ladder
    unique = {each.id: each for each in rivals}
    higher = [each for each in unique.values() if outranks(ladder, each.authority, authority)]
    claims = {
        each.id: each
        for each in slot
        if each.claim and lives(each, given) and not outranks(ladder, each.authority, authority)
    }
    if higher:
        against = max(higher, key=lambda each: (rank(ladder, each.authority), fact_seq(each.id)))
        return against, [each for each in claims.values() if each.id not in unique]
    return None, list((unique | claims).values())


class By(NamedTuple):
    """What takes the place of others."""

    fact: str
    value: Json
    authority: str
    sources: set[str]

    @classmethod
    def of(cls, fact: Fact, authority: str | None = None) -> By:
        return cls(fact.id, fact.value, authority or fact.authority, {*fact.depends_on})


def deaths(
    by: By,
    ended: Iterable[Fact],
    targets: Iterable[Fact],
    command: LedgerCommand,
    given: Given,
    gone: Collection[str] = (),
) -> Iterator[Event]:
    """These are superseded, and who depends on them is marked, or follows if the value is the same; but not who is gone
    already."""
    explicit = {each.id for each in targets}
    ended = list(ended)
    dying = {each.id for each in ended} | {by.fact, *gone}
    mentions = placed(command.old_mentions, given) if isinstance(command, AssertFact) else ()
    for fact in ended:
        rule: SupersessionRule = "implicit"
        if fact.id in explicit:
            rule = "explicit"
        elif outranks(given.policy.ladder, by.authority, fact.authority):
            rule = "authority"
        elif isinstance(command, AssertFact) and command.valid_from_us is not None:
            rule = "temporal"
        equal = same(fact.value, by.value) and by.sources.isdisjoint(below([fact.id], given))
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
            yield from marks_of(fact.id, dying, given)


def check_wide(scope: FactScope, scope_id: str, other: Fact) -> None:
    """What is only supposed, a draft, or one task's changes nothing outside of it."""
    if (scope, scope_id) != (other.scope, other.scope_id) and scope != "global":
        reason = f"what holds in the scope {scope!r} cannot supersede {other.id!r}, which holds in {other.scope!r}"
        raise errors.InvalidContent(reason=f"{reason}: promote it first, or assert it there")


def below(roots: Iterable[str], given: Given, besides: Collection[str] = ()) -> list[str]:
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


def marks_of(root: str, besides: Iterable[str], given: Given) -> Iterator[FactMarked]:
    besides = {*besides}
    facts = given.slice.facts
    doubtful = tuple(each for each in below([root], given) if each not in besides and not facts[each].fact.review)
    if doubtful:
        yield FactMarked(facts=doubtful, because=root)


def run_out(gone: Iterable[str], given: Given, reason: str = "") -> tuple[Event, ...]:
    """These have expired, and who depends on them is marked."""
    gone = tuple(gone)
    if not gone:
        return ()
    marks = [mark for each in gone for mark in marks_of(each, gone, given)]
    return (FactExpired(facts=gone, reason=reason), *once(marks))


def once(marks: Iterable[FactMarked]) -> Iterator[FactMarked]:
    """Each fact is marked for the first of its reasons."""
    seen: set[str] = set()
    for mark in marks:
        facts = tuple(each for each in mark.facts if each not in seen)
        seen |= {*facts}
        if facts:
            yield msgspec.structs.replace(mark, facts=facts)
