"""Facts whose messages were withdrawn: they need a review, or are retracted; and what a restoration brings back.

Laws: only a fact that is as the withdrawal left it is restored. A retracted fact comes back only if its key has no other
current value, and its sources are live.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.facts.supersession import build_marks, dependents_of, is_live, merge_marks, slot_of
from holdfast.model.events import Event
from holdfast.model.facts.commands import RestoreFacts, WithdrawFacts
from holdfast.model.facts.events import FactsRestored, FactsWithdrawn
from holdfast.model.facts.fact import Fact, FactState, describe_withdrawal, fact_seq
from holdfast.model.inputs import DecisionInput

_REVIVAL: dict[str, Any] = {"status": "live", "ended_us": None, "ended_seq": 0, "why": ""}
"""The fields that undo the retraction of a fact."""


def decide_withdrawal(command: WithdrawFacts, inputs: DecisionInput) -> tuple[Event, ...]:
    facts = [state.fact for name in command.facts if (state := inputs.ledger.slice.facts.get(name)) is not None]
    live = [each for each in facts if is_live(each, inputs)]
    if not command.retract:
        ids = tuple(each.id for each in live if not each.review)
        return (FactsWithdrawn(facts=ids, withdrawal=command.withdrawal),) if ids else ()
    named = [each.id for each in live]
    if not named:
        return ()
    below = (each for each in dependents_of(named, inputs) if each not in named)
    ids = (*named, *below)
    marks = [mark for each in named for mark in build_marks(each, ids, inputs)]
    event = FactsWithdrawn(facts=ids, withdrawal=command.withdrawal, retracted=True)
    return (event, *merge_marks(marks))


def decide_restoration(command: RestoreFacts, inputs: DecisionInput) -> tuple[Event, ...]:
    facts = inputs.ledger.slice.facts
    restored: list[str] = []
    slots: set[tuple[str, str, str]] = set()
    for name in sorted({*command.facts}, key=fact_seq):
        fact = facts[name].fact if name in facts else None
        if fact is None or not (is_doubted(fact, command.withdrawal) or is_retracted(fact, command.withdrawal)):
            continue
        if not fact.is_valid:
            slot = (fact.key, fact.scope, fact.scope_id)
            if slot in slots or not _may_return(fact, facts, restored, inputs):
                continue
            slots.add(slot)
        restored.append(name)
    return (FactsRestored(facts=tuple(restored), withdrawal=command.withdrawal),) if restored else ()


def is_doubted(fact: Fact, withdrawal: str) -> bool:
    """Whether a fact needs a review because of this withdrawal."""
    return fact.is_valid and fact.review == withdrawal


def is_retracted(fact: Fact, withdrawal: str) -> bool:
    """Whether this withdrawal retracted a fact."""
    return fact.status == "retracted" and fact.why == describe_withdrawal(withdrawal)


def _may_return(fact: Fact, facts: Mapping[str, FactState], restored: list[str], inputs: DecisionInput) -> bool:
    if fact.is_claim or fact.has_expired(inputs.time_us):
        return False
    if any(not each.is_claim for each in slot_of(fact.key, fact.scope, fact.scope_id, inputs)):
        return False
    return all(each in restored or (each in facts and is_live(facts[each].fact, inputs)) for each in fact.depends_on)


def apply_event(
    facts: Mapping[str, FactState], event: FactsWithdrawn | FactsRestored, seq: int, time_us: int
) -> dict[str, FactState]:
    """The facts that a withdrawal or a restoration changes, as they are after it."""
    changed: dict[str, FactState] = {}
    for name in event.facts:
        state = facts.get(name)
        if state is not None:
            fields = _fields_after(state.fact, event, seq, time_us)
            changed[name] = msgspec.structs.replace(state, fact=msgspec.structs.replace(state.fact, **fields))
    return changed


def _fields_after(fact: Fact, event: FactsWithdrawn | FactsRestored, seq: int, time_us: int) -> dict[str, Any]:
    if isinstance(event, FactsRestored):
        return {"review": ""} if fact.is_valid else _REVIVAL
    if not event.retracted:
        return {"review": event.withdrawal}
    why = describe_withdrawal(event.withdrawal)
    return {"status": "retracted", "why": why, "ended_us": time_us, "ended_seq": seq, "review": "", "disputes": ()}
