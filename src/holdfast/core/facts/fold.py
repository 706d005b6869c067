"""Fold the events of a ledger into its state and its facts.

Laws: every stored event can be folded, also one whose payload was erased: its fact does not exist, and later events about
it change nothing. Folding an event needs the facts that it names, and no others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.facts import withdrawals
from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.facts.events import (
    FactAsserted,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactExpired,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactsRestored,
    FactSuperseded,
    FactsWithdrawn,
)
from holdfast.model.facts.fact import Dispute, Fact, FactState, Mention, fact_id
from holdfast.model.state import LedgerState

_REINSTATEMENT: dict[str, Any] = {
    "status": "live",
    "superseded_by": None,
    "ended_us": None,
    "ended_seq": 0,
    "rule": None,
    "why": "",
    "against": "",
}
"""The fields that undo the end of a fact."""


def step(state: LedgerState, event_type: str, time_us: int) -> LedgerState:
    """The state after one more event."""
    return LedgerState(
        version=state.version + 1,
        facts=state.facts + (event_type == FactAsserted.name),
        created_us=state.created_us if state.version else time_us,
        updated_us=time_us,
    )


def needed_facts(event: Event | None) -> tuple[str, ...]:
    """The facts that are needed to fold an event."""
    match event:
        case FactAsserted(depends_on=sources):
            return sources
        case FactSuperseded():
            return (event.fact, event.by, *event.followers)
        case FactRetracted(facts=facts) | FactExpired(facts=facts):
            return facts
        case FactsWithdrawn(facts=facts) | FactsRestored(facts=facts):
            return facts
        case FactMarked():
            return (*event.facts, event.because)
        case FactReinstated():
            return (event.fact, *event.instead)
        case FactConfirmed():
            return (event.fact, *event.depends_on)
        case FactPromoted(fact=fact) | FactEndorsed(fact=fact) | FactDisputed(fact=fact):
            return (fact,)
    return ()


def apply_event(facts: Mapping[str, FactState], event: Event | None, seq: int, time_us: int) -> dict[str, FactState]:
    """The facts that an event creates or changes, as they are after it."""
    ended = {"ended_us": time_us, "ended_seq": seq}
    match event:
        case FactAsserted():
            fact = Fact(id=fact_id(seq), at_us=time_us, **msgspec.structs.asdict(event))  # the same fields
            new = {fact.id: FactState(fact=fact)}
            return new | _replace_state(facts, event.depends_on, sources=True)
        case FactSuperseded():
            return _apply_supersession(facts, event, ended)
        case FactRetracted():
            return _end_facts(facts, event.facts, event.mentions, status="retracted", why=event.reason, **ended)
        case FactExpired():
            return _end_facts(facts, event.facts, (), status="expired", why=event.reason, **ended)
        case FactMarked():
            return _apply_marks(facts, event)
        case FactConfirmed():
            more = {"depends_on": event.depends_on} if event.depends_on else {}
            return _replace_state(facts, event.depends_on, sources=True) | _replace_fact(
                facts, (event.fact,), review="", disputes=(), **more
            )
        case FactPromoted():
            moved = {"scope": event.scope, "scope_id": event.scope_id, "against": event.against}
            more = {"requires": event.requires} if event.requires else {}
            return _replace_fact(facts, (event.fact,), **moved, **more)
        case FactEndorsed():
            return _apply_endorsement(facts, event)
        case FactDisputed():
            return _apply_dispute(facts, event, time_us)
        case FactsWithdrawn() | FactsRestored():
            return withdrawals.apply_event(facts, event, seq, time_us)
        case FactReinstated():
            retracted = _end_facts(facts, event.instead, (), status="retracted", why=event.reason, **ended)
            return retracted | _replace_fact(facts, (event.fact,), **_REINSTATEMENT)
    return {}


def _replace_state(facts: Mapping[str, FactState], ids: tuple[str, ...], **changes: Any) -> dict[str, FactState]:
    """Change the fields of FactState, for those of these facts that differ."""
    new = {each: msgspec.structs.replace(facts[each], **changes) for each in ids if each in facts}
    return {each: state for each, state in new.items() if state != facts[each]}


def _replace_fact(facts: Mapping[str, FactState], ids: tuple[str, ...], **changes: Any) -> dict[str, FactState]:
    return {
        each: msgspec.structs.replace(facts[each], fact=msgspec.structs.replace(facts[each].fact, **changes))
        for each in ids
        if each in facts
    }


def _end_facts(
    facts: Mapping[str, FactState], ids: tuple[str, ...], mentions: tuple[Mention, ...], **changes: Any
) -> dict[str, FactState]:
    """End these facts, which then need no review. `mentions` are those of the first one."""
    ended = _replace_fact(facts, ids, review="", disputes=(), **changes)
    if mentions and ids[0] in ended:
        ended |= _replace_fact(ended, ids[:1], mentions=_merge_mentions(ended[ids[0]].fact, mentions))
    return ended


def _merge_mentions(fact: Fact, mentions: tuple[Mention, ...]) -> tuple[Mention, ...]:
    return tuple(sorted({*fact.mentions, *mentions}))[: limits.FACT_LINKS]


def _apply_supersession(
    facts: Mapping[str, FactState], event: FactSuperseded, ended: Mapping[str, int]
) -> dict[str, FactState]:
    changed = _end_facts(
        facts,
        (event.fact,),
        event.mentions,
        status="superseded",
        superseded_by=event.by,
        rule=event.rule,
        why=event.reason,
        **ended,
    )
    by, old = facts.get(event.by), changed.get(event.fact)
    if by is not None and old is not None:
        changed[event.fact] = _guard_link(old, by)
    if by is not None and old is not None and not event.late:
        links = tuple(dict.fromkeys((*by.fact.supersedes, event.fact)))[-limits.FACT_LINKS :]
        changed |= {event.by: _guard_link(_replace_fact(facts, (event.by,), supersedes=links)[event.by], old)}
    for each in event.followers:
        if each in facts:
            sources = facts[each].fact.depends_on
            moved = tuple(dict.fromkeys(event.by if one == event.fact else one for one in sources))
            follower = _replace_fact(facts, (each,), depends_on=moved)[each]
            changed[each] = follower if by is None else _guard_link(follower, by)
    if event.followers and by is not None:
        changed |= _replace_state({event.by: changed.get(event.by, by)}, (event.by,), sources=True)
    return changed


def _guard_link(one: FactState, other: FactState) -> FactState:
    """Hide the link to the other fact from readers who may read only this one."""
    if {*other.fact.requires} <= {*one.fact.requires}:
        return one
    return msgspec.structs.replace(one, guarded=one.guarded | {other.fact.id: other.fact.requires})


def _apply_marks(facts: Mapping[str, FactState], event: FactMarked) -> dict[str, FactState]:
    marked, because = _replace_fact(facts, event.facts, review=event.because), facts.get(event.because)
    return marked if because is None else {each: _guard_link(state, because) for each, state in marked.items()}


def _apply_endorsement(facts: Mapping[str, FactState], event: FactEndorsed) -> dict[str, FactState]:
    if event.fact not in facts:
        return {}
    rung = sys.intern(event.authority)  # rows omit defaults by identity: a rebuilt row must be equal
    source = msgspec.structs.replace(facts[event.fact].fact.source, authority=rung)
    more = {"requires": event.requires} if event.requires else {}
    return _replace_fact(facts, (event.fact,), source=source, against=event.against, disputes=(), **more)


def _apply_dispute(facts: Mapping[str, FactState], event: FactDisputed, time_us: int) -> dict[str, FactState]:
    if event.fact not in facts:
        return {}
    disputes = (*facts[event.fact].fact.disputes, Dispute(event.by, event.authority, time_us))
    return _replace_fact(facts, (event.fact,), disputes=disputes[-limits.FACT_DISPUTES :])
