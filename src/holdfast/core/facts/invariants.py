"""Invariants of ledgers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.model.facts.fact import FactState, fact_id, fact_seq
from holdfast.model.state import LedgerState


def find_violations(state: LedgerState, facts: Mapping[str, FactState]) -> list[str]:
    """The invariants that are violated; empty for a valid ledger."""
    return [rule for rule, holds in evaluate_invariants(state, facts).items() if not holds]


def evaluate_invariants(state: LedgerState, facts: Mapping[str, FactState]) -> dict[str, bool]:
    """All invariants, and whether they hold."""
    all_facts = [each.fact for each in facts.values()]
    slots = Counter(
        (each.key, each.scope, each.scope_id, each.authority, each.requires)
        for each in all_facts
        if each.is_valid and not each.is_claim
    )
    return {
        "the id of a fact is made of the seq of its event": all(
            each == fact.fact.id == fact_id(fact_seq(each)) and fact_seq(each) <= state.version
            for each, fact in facts.items()
        ),
        "no more facts than were asserted": len(all_facts) <= state.facts,
        "an ended fact, and only that, has an end time": all(
            each.is_valid == (each.ended_us is None) for each in all_facts
        ),
        "an ended fact, and only that, has the version at which it ended": all(
            each.ended_seq == 0 if each.is_valid else fact_seq(each.id) < each.ended_seq <= state.version
            for each in all_facts
        ),
        "a superseded fact, and only that, has a successor": all(
            (each.status == "superseded") == (each.superseded_by is not None) for each in all_facts
        ),
        "no fact supersedes itself, not even through others": not _has_cycle(facts),
        "no fact depends on itself": all(each.id not in each.depends_on for each in all_facts),
        "only a live fact needs a review": all(each.is_valid or not each.review for each in all_facts),
        "only a live fact is disputed": all(each.is_valid or not each.disputes for each in all_facts),
        "a key has one current fact per scope, authority and permissions": all(count == 1 for count in slots.values()),
        "a source of other facts is marked as one": all(
            facts[source].sources for each in all_facts for source in each.depends_on if source in facts
        ),
    }


def _has_cycle(facts: Mapping[str, FactState]) -> bool:
    """Whether some chain of supersessions is a cycle."""
    done: set[str] = set()
    for start in facts:
        visited: set[str] = set()
        at: str | None = start
        while at is not None and at in facts and at not in done:
            if at in visited:
                return True
            visited.add(at)
            at = facts[at].fact.superseded_by
        done |= visited
    return False
