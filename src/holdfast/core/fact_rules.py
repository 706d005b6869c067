"""What must be true of every ledger, whatever led to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.model.facts import FactState, fact_id, fact_seq
from holdfast.model.state import LedgerState


def check(state: LedgerState, facts: Mapping[str, FactState]) -> list[str]:
    """The statements that do not hold; empty for a sound ledger."""
    return [rule for rule, holds in rules(state, facts).items() if not holds]


def rules(state: LedgerState, facts: Mapping[str, FactState]) -> dict[str, bool]:
    """All that must be true, and whether it is."""
    known = [each.fact for each in facts.values()]
    live = [each for each in known if each.is_valid]
    slots = Counter(
        (each.key, each.scope, each.scope_id, each.authority, each.requires) for each in live if not each.claim
    )
    return {
        "a fact is named after its event": all(
            each == fact.fact.id == fact_id(fact_seq(each)) and fact_seq(each) <= state.version
            for each, fact in facts.items()
        ),
        "no more facts than were asserted": len(known) <= state.facts,
        "what is dead has a time of death, and only that": all(
            each.is_valid == (each.ended_us is None) for each in known
        ),
        "a fact that ended, and only that, has the version of its ledger at which it did": all(
            each.ended_seq == 0 if each.is_valid else fact_seq(each.id) < each.ended_seq <= state.version
            for each in known
        ),
        "what was superseded, and only that, has something in its place": all(
            (each.status == "superseded") == (each.superseded_by is not None) for each in known
        ),
        "nothing supersedes itself, not even through others": not _turning(facts),
        "no fact depends on itself": all(each.id not in each.depends_on for each in known),
        "only what lives needs a review": all(each.is_valid or not each.review for each in known),
        "only what lives is disputed": all(each.is_valid or not each.disputes for each in known),
        "one source has one current fact for a key": all(count == 1 for count in slots.values()),
        "what others depend on knows it": all(
            facts[source].sources for each in known for source in each.depends_on if source in facts
        ),
    }


def _turning(facts: Mapping[str, FactState]) -> bool:
    """Whether some chain comes back to where it was."""
    done: set[str] = set()
    for start in facts:
        walked: set[str] = set()
        at: str | None = start
        while at is not None and at in facts and at not in done:
            if at in walked:
                return True
            walked.add(at)
            at = facts[at].fact.superseded_by
        done |= walked
    return False
