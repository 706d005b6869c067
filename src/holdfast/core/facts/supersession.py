"""Supersession: which facts a new one supersedes, and what happens to their dependents.

Laws: a lower authority never ends a fact of a higher one; when a fact ends, its dependents are marked for review, or
depend on the successor if the value is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from holdfast import codec, errors
from holdfast.core.facts.authority import may_know, outranks, rank
from holdfast.model.content import Json
from holdfast.model.events import Event
from holdfast.model.facts.commands import AssertFact, LedgerCommand
from holdfast.model.facts.events import FactExpired, FactMarked, FactSuperseded
from holdfast.model.facts.fact import Fact, FactScope, Mention, SupersessionRule, fact_seq
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import LedgerId, check_size
from holdfast.model.policy import AuthorityLadder

_RIPPLE_ADVICE = "Retract or replace the dependent facts first."


def is_same_value(one: Json, other: Json) -> bool:
    """Whether two values are equal as JSON: 1 is neither 1.0 nor true."""
    return codec.encode(one) == codec.encode(other)


def find_named(ledger: LedgerId, name: str, inputs: DecisionInput) -> Fact:
    """The fact that a command names. Raises FactNotFound."""
    state = inputs.ledger.slice.facts.get(inputs.ledger.slice.named.get(name, ""))
    if state is None:
        raise errors.FactNotFound(ledger=ledger, fact=name)
    return state.fact


def end_of(fact: Fact, inputs: DecisionInput) -> Fact:
    """The last successor of a fact in the slice that the writer may see; the fact itself if it has none."""
    facts = inputs.ledger.slice.facts
    fact = facts[inputs.ledger.slice.ends.get(fact.id, fact.id)].fact if fact.id in facts else fact
    for _ in facts:
        after = facts.get(fact.superseded_by or "")
        if after is None or not is_visible(after.fact, inputs):
            break
        fact = after.fact
    return fact


def is_visible(fact: Fact, inputs: DecisionInput) -> bool:
    """Whether the writer may read a fact."""
    return may_know(fact.requires, inputs.ledger.writer.permissions)


def slot_of(key: str, scope: str, scope_id: str, inputs: DecisionInput) -> list[Fact]:
    """The live facts of one key in one scope that the writer may read, the newest first."""
    facts = [
        each.fact
        for each in inputs.ledger.slice.facts.values()
        if each.fact.is_valid
        and (each.fact.key, each.fact.scope, each.fact.scope_id) == (key, scope, scope_id)
        and is_visible(each.fact, inputs)
    ]
    return sorted(facts, key=lambda each: -fact_seq(each.id))


def check_live(fact: Fact, what: str, inputs: DecisionInput) -> Fact:
    """The fact. Raises FactNotLive if it has ended or expired."""
    status = "expired" if fact.is_valid and fact.has_expired(inputs.time_us) else fact.status
    if status != "live":
        raise errors.FactNotLive(fact=fact.id, status=status, what=what)
    return fact


def is_live(fact: Fact, inputs: DecisionInput) -> bool:
    """Whether a fact has neither ended nor expired."""
    return fact.is_valid and not fact.has_expired(inputs.time_us)


def outranks_writer(fact: Fact, inputs: DecisionInput) -> bool:
    """Whether a fact has more authority than the writer."""
    return outranks(inputs.ledger.policy.ladder, fact.authority, inputs.ledger.writer.authority)


def check_authority(fact: Fact, inputs: DecisionInput, what: str) -> None:
    """Raise if the writer has too little authority to do this to a fact."""
    if outranks_writer(fact, inputs):
        raise errors.NotAuthorised(fact=fact.id, needs=fact.authority, has=inputs.ledger.writer.authority, what=what)


def complete_mentions(mentions: Iterable[Mention], inputs: DecisionInput) -> tuple[Mention, ...]:
    """Mentions with a seq: those without one are in the message that is recorded together with the fact."""
    complete = (
        each if each.seq else msgspec.structs.replace(each, seq=inputs.message)
        for each in mentions
        if each.seq or inputs.message
    )
    return tuple(sorted({*complete}))


def choose_foremost(facts: Iterable[Fact], ladder: AuthorityLadder) -> Fact | None:
    """The fact that prevails: the highest authority, then the newest."""
    return max(facts, key=lambda each: (rank(ladder, each.authority), fact_seq(each.id)), default=None)


def resolve_contest(
    authority: str, rivals: Iterable[Fact], slot: Iterable[Fact], inputs: DecisionInput
) -> tuple[Fact | None, list[Fact]]:
    """The foremost rival that outranks a fact of this authority, if any; and the facts that this one supersedes."""
    ladder = inputs.ledger.policy.ladder
    unique = {each.id: each for each in rivals}
    higher = [each for each in unique.values() if outranks(ladder, each.authority, authority)]
    claims = {
        each.id: each
        for each in slot
        if each.is_claim and is_live(each, inputs) and not outranks(ladder, each.authority, authority)
    }
    against = choose_foremost(higher, ladder)
    if against is not None:
        return against, [each for each in claims.values() if each.id not in unique]
    return None, list((unique | claims).values())


class Successor(NamedTuple):
    """The fact that supersedes others."""

    fact: str
    value: Json
    authority: str
    sources: set[str]

    @classmethod
    def of(cls, fact: Fact, authority: str | None = None) -> Successor:
        return cls(fact.id, fact.value, authority or fact.authority, {*fact.depends_on})


def supersede_facts(
    successor: Successor,
    losers: Iterable[Fact],
    targets: Iterable[Fact],
    command: LedgerCommand,
    inputs: DecisionInput,
    expired_ids: Collection[str] = (),
) -> Iterator[Event]:
    """Supersede these facts. Their dependents are marked, or depend on the successor if its value is the same; unless they
    end as well."""
    target_ids = {each.id for each in targets}
    losers = list(losers)
    ended_ids = {each.id for each in losers} | {successor.fact, *expired_ids}
    mentions = complete_mentions(command.old_mentions, inputs) if isinstance(command, AssertFact) else ()
    for fact in losers:
        rule: SupersessionRule = "implicit"
        if fact.id in target_ids:
            rule = "explicit"
        elif outranks(inputs.ledger.policy.ladder, successor.authority, fact.authority):
            rule = "authority"
        elif isinstance(command, AssertFact) and command.valid_from_us is not None:
            rule = "temporal"
        is_equal = is_same_value(fact.value, successor.value)
        if is_equal:  # a follower must not be a source of the successor: that would be a cycle
            is_equal = successor.sources.isdisjoint(dependents_of([fact.id], inputs))
        below = inputs.ledger.slice.below.get(fact.id, ()) if is_equal else ()
        followers = tuple(each for each in below if each not in ended_ids)
        yield FactSuperseded(
            fact=fact.id,
            by=successor.fact,
            rule=rule,
            reason=getattr(command, "reason", ""),
            followers=followers,
            mentions=mentions if fact.id in target_ids or len(losers) == 1 else (),
        )
        if not is_equal:
            yield from build_marks(fact.id, ended_ids, inputs)


def check_scope_covers(argument: str, scope: FactScope, scope_id: str, other: Fact) -> None:
    """A fact of a hypothesis, a draft or one task supersedes nothing outside of that scope."""
    if (scope, scope_id) != (other.scope, other.scope_id) and scope != "global":
        reason = f"a fact of the scope {scope!r} cannot supersede {other.id!r}, a fact of the scope {other.scope!r}"
        raise errors.InvalidArgument(argument=argument, reason=f"{reason}: promote it first, or set it there")


def dependents_of(roots: Iterable[str], inputs: DecisionInput, exclude: Collection[str] = ()) -> list[str]:
    """All live facts that depend on these, directly or not, on a path without those in `exclude`."""
    dependents: dict[str, None] = {}
    queue = [*roots]
    while queue:
        for each in inputs.ledger.slice.below.get(queue.pop(), ()):
            if each not in dependents and each not in exclude:
                dependents[each] = None
                queue.append(each)
    check_size("the ripple", len(dependents), "dependent facts", "RIPPLE_FACTS", _RIPPLE_ADVICE)
    return sorted(dependents, key=fact_seq)


def build_marks(root: str, exclude: Iterable[str], inputs: DecisionInput) -> Iterator[FactMarked]:
    """Mark the dependents of an ended fact, except those in `exclude` and those that are marked already."""
    exclude = {*exclude}
    facts = inputs.ledger.slice.facts
    dependents = tuple(
        each for each in dependents_of([root], inputs) if each not in exclude and not facts[each].fact.review
    )
    if dependents:
        yield FactMarked(facts=dependents, because=root)


def expire_facts(ids: Iterable[str], inputs: DecisionInput, reason: str = "") -> tuple[Event, ...]:
    """Expire these facts and mark their dependents."""
    ids = tuple(ids)
    if not ids:
        return ()
    marks = [mark for each in ids for mark in build_marks(each, ids, inputs)]
    return (FactExpired(facts=ids, reason=reason), *merge_marks(marks))


def merge_marks(marks: Iterable[FactMarked]) -> Iterator[FactMarked]:
    """Mark each fact once, for the first reason."""
    seen: set[str] = set()
    for mark in marks:
        facts = tuple(each for each in mark.facts if each not in seen)
        seen |= {*facts}
        if facts:
            yield msgspec.structs.replace(mark, facts=facts)
