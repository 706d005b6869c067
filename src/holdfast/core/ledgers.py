"""From one state of a ledger to the next, event by event, and from facts to rows.

Laws: folding takes every event that was ever decided, also one whose payload was erased: the fact is then not there, and
what speaks of it later is passed over. What folding an event needs are the facts that it names, and no others.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast import codec
from holdfast.core import guard
from holdfast.core.infer import text_of
from holdfast.core.stems import terms
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.events import (
    Event,
    FactAsserted,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactExpired,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactSuperseded,
)
from holdfast.model.facts import Dispute, Fact, FactState, Mention, fact_id, fact_seq
from holdfast.model.names import LedgerId
from holdfast.model.rows import DependRow, FactRow, LedgerRow, MentionRow, Row
from holdfast.model.state import LedgerState

_WORD = re.compile(r"[^\W_]+")
_WORD_CHARS = 64
_READ_CHARS = 64 << 10


_REINSTATED: dict[str, Any] = {
    "status": "live",
    "superseded_by": None,
    "ended_us": None,
    "ended_seq": 0,
    "rule": None,
    "why": "",
    "against": "",
}
"""The end of a fact, undone."""


def step(state: LedgerState, event_type: str, time_us: int) -> LedgerState:
    """The state after one more event."""
    return LedgerState(
        version=state.version + 1,
        facts=state.facts + (event_type == FactAsserted.name),
        created_us=state.created_us if state.version else time_us,
        updated_us=time_us,
    )


def touched(event: Event | None) -> tuple[str, ...]:
    """The facts that folding an event needs to know."""
    match event:
        case FactAsserted(depends_on=sources):
            return sources
        case FactSuperseded():
            return (event.fact, event.by, *event.followers)
        case FactRetracted(facts=facts) | FactExpired(facts=facts):
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


def applied(facts: Mapping[str, FactState], event: Event | None, seq: int, time_us: int) -> dict[str, FactState]:
    """The facts that an event makes or changes, as they are after it."""
    ended = {"ended_us": time_us, "ended_seq": seq}
    match event:
        case FactAsserted():
            made = {fact_id(seq): FactState(fact=_asserted(event, seq, time_us))}
            return made | _with(facts, event.depends_on, sources=True)
        case FactSuperseded():
            return _superseded(facts, event, ended)
        case FactRetracted():
            return _ended(facts, event.facts, event.mentions, status="retracted", why=event.reason, **ended)
        case FactExpired():
            return _ended(facts, event.facts, (), status="expired", why=event.reason, **ended)
        case FactMarked():
            return _marked(facts, event)
        case FactConfirmed():
            on = {"depends_on": event.depends_on} if event.depends_on else {}
            return _with(facts, event.depends_on, sources=True) | _changed(
                facts, (event.fact,), review="", disputes=(), **on
            )
        case FactPromoted():
            moved = {"scope": event.scope, "scope_id": event.scope_id, "against": event.against}
            return _changed(facts, (event.fact,), **moved | ({"requires": event.requires} if event.requires else {}))
        case FactEndorsed():
            return _endorsed(facts, event)
        case FactDisputed():
            return _disputed(facts, event, time_us)
        case FactReinstated():
            taken = _ended(facts, event.instead, (), status="retracted", why=event.reason, **ended)
            return taken | _changed(facts, (event.fact,), **_REINSTATED)
    return {}


def _asserted(event: FactAsserted, seq: int, time_us: int) -> Fact:
    return Fact(
        id=fact_id(seq),
        key=event.key,
        value=event.value,
        ref=event.ref,
        source=event.source,
        memory_type=event.memory_type,
        scope=event.scope,
        scope_id=event.scope_id,
        at_us=time_us,
        valid_from_us=event.valid_from_us,
        expires_us=event.expires_us,
        against=event.against,
        depends_on=event.depends_on,
        review=event.review,
        is_constraint=event.is_constraint,
        constraint_type=event.constraint_type,
        requires=event.requires,
        provenance=event.provenance,
        mentions=event.mentions,
        reason=event.reason,
    )


def _with(facts: Mapping[str, FactState], ids: tuple[str, ...], **changes: Any) -> dict[str, FactState]:
    """The rows' own part of these facts changed; those that are as they should be are left out."""
    found = {each: facts[each] for each in ids if each in facts}
    new = {each: msgspec.structs.replace(state, **changes) for each, state in found.items()}
    return {each: state for each, state in new.items() if state != found[each]}


def _changed(facts: Mapping[str, FactState], ids: tuple[str, ...], **changes: Any) -> dict[str, FactState]:
    return {
        each: msgspec.structs.replace(facts[each], fact=msgspec.structs.replace(facts[each].fact, **changes))
        for each in ids
        if each in facts
    }


def _ended(
    facts: Mapping[str, FactState], ids: tuple[str, ...], mentions: tuple[Mention, ...], **changes: Any
) -> dict[str, FactState]:
    """What is dead needs no review any more. The mentions are the first one's."""
    ended = _changed(facts, ids, review="", disputes=(), **changes)
    if mentions and ids[0] in ended:
        ended |= _changed(ended, ids[:1], mentions=_more(ended[ids[0]].fact, mentions))
    return ended


def _more(fact: Fact, mentions: tuple[Mention, ...]) -> tuple[Mention, ...]:
    return tuple(sorted({*fact.mentions, *mentions}))[: limits.FACT_LINKS]


def _superseded(
    facts: Mapping[str, FactState], event: FactSuperseded, ended: Mapping[str, int]
) -> dict[str, FactState]:
    changed = _ended(
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
        changed[event.fact] = _linked(old, by)
    if by is not None and old is not None and not event.late:
        links = tuple(dict.fromkeys((*by.fact.supersedes, event.fact)))[-limits.FACT_LINKS :]
        changed |= {event.by: _linked(_changed(facts, (event.by,), supersedes=links)[event.by], old)}
    for each in event.followers:
        if each in facts:
            on = facts[each].fact.depends_on
            moved = tuple(dict.fromkeys(event.by if one == event.fact else one for one in on))
            follower = _changed(facts, (each,), depends_on=moved)[each]
            changed[each] = follower if by is None else _linked(follower, by)
    if event.followers and by is not None:
        changed |= _with({event.by: changed.get(event.by, by)}, (event.by,), sources=True)
    return changed


def _linked(one: FactState, other: FactState) -> FactState:
    """Who may not know of the other must not learn of it from this one."""
    if {*other.fact.requires} <= {*one.fact.requires}:
        return one
    return msgspec.structs.replace(one, guarded=one.guarded | {other.fact.id: other.fact.requires})


def _marked(facts: Mapping[str, FactState], event: FactMarked) -> dict[str, FactState]:
    marked, because = _changed(facts, event.facts, review=event.because), facts.get(event.because)
    return marked if because is None else {each: _linked(state, because) for each, state in marked.items()}


def _endorsed(facts: Mapping[str, FactState], event: FactEndorsed) -> dict[str, FactState]:
    if event.fact not in facts:
        return {}
    rung = sys.intern(event.authority)  # rows leave defaults out by identity: a rebuilt one must be the same
    source = msgspec.structs.replace(facts[event.fact].fact.source, authority=rung)
    more = {"requires": event.requires} if event.requires else {}
    return _changed(facts, (event.fact,), source=source, against=event.against, disputes=(), **more)


def _disputed(facts: Mapping[str, FactState], event: FactDisputed, time_us: int) -> dict[str, FactState]:
    if event.fact not in facts:
        return {}
    disputes = (*facts[event.fact].fact.disputes, Dispute(event.by, event.authority, time_us))
    return _changed(facts, (event.fact,), disputes=disputes[-limits.FACT_DISPUTES :])


def ledger_row(ledger: LedgerId, state: LedgerState) -> LedgerRow:
    return LedgerRow(
        tenant=ledger.tenant,
        ledger=codec.encode_stream_key(ledger.stream),
        kind=ledger.kind,
        version=state.version,
        facts=state.facts,
        created_us=state.created_us,
        updated_us=state.updated_us,
    )


def depend_rows(
    ledger: LedgerId, changed: Mapping[str, FactState], before: Mapping[str, FactState]
) -> Iterator[DependRow]:
    """A row for everything that a fact comes to depend on; it stays, dead, when the fact does no longer, or ends."""
    home = {"tenant": ledger.tenant, "ledger": codec.encode_stream_key(ledger.stream)}
    for each, state in changed.items():
        had = _rests_on(before[each].fact) if each in before else {}
        now = _rests_on(state.fact)
        for source in {**had, **now}:
            live = now.get(source, 0)
            if had.get(source) != live:
                yield DependRow(**home, source=fact_seq(source), fact=fact_seq(each), live=live)


def _rests_on(fact: Fact) -> dict[str, int]:
    return dict.fromkeys(fact.depends_on, int(fact.is_valid))


def fact_rows(ledger: LedgerId, changed: Mapping[str, FactState], before: Mapping[str, FactState]) -> Iterator[Row]:
    """The rows of these facts. `before` are the facts as their rows have them."""
    home = {"tenant": ledger.tenant, "ledger": codec.encode_stream_key(ledger.stream)}
    for state in changed.values():
        fact, known = state.fact, before.get(state.fact.id)
        yield _fact_row(home, state)
        if known is None or known.fact.mentions != fact.mentions or known.fact.is_valid != fact.is_valid:
            yield from _mention_rows(home, fact)


def _fact_row(home: dict[str, str], state: FactState) -> FactRow:
    fact = state.fact
    return FactRow(
        **home,
        fact=fact_seq(fact.id),
        subject=fact.key,
        scope=fact.scope,
        scope_id=fact.scope_id,
        ref=fact.ref,
        live=int(fact.is_valid),
        claim=int(fact.claim),
        review=int(fact.is_valid and fact.needs_review),
        constrains=int(fact.is_valid and fact.is_constraint),
        expires_us=fact.expires_us,
        requires=codec.encode(fact.requires).decode() if fact.requires else "",
        key_words=" ".join(terms(words(fact.key))),
        words=" ".join(terms(words(text_of(fact.value))[: limits.FACT_WORDS])),
        memory_type=fact.memory_type,
        anchor=_anchor(fact.value),
        state=codec.encode(state).decode(),
    )


def _anchor(value: Json) -> str:
    """The word that leads to a value. What has none that stands out is found by the longest, behind a sign: there may be
    many of its kind, and they must not crowd out the others. So may what several words lead to, as it is made of several
    values: it is looked at whatever a text says."""
    found = guard.anchors(value)
    if len(found) > 1:
        return guard.SEVERAL
    return "" if not found else found[0] if guard.anchor(value) else f"!{found[0]}"


def _mention_rows(home: dict[str, str], fact: Fact) -> Iterator[MentionRow]:
    longest: dict[tuple[str, str, str, int, int], Mention] = {}
    for each in fact.mentions:
        longest[each.actor, each.session, each.thread, each.seq, each.start] = each  # sorted: the last is the longest
    for each in longest.values():
        yield MentionRow(
            **home,
            fact=fact_seq(fact.id),
            actor=each.actor,
            session=each.session,
            thread=each.thread,
            seq=each.seq,
            start=each.start,
            stop=each.end,
            live=int(fact.is_valid),
        )


def words(text: str) -> list[str]:
    """The words of a text as they are searched for: letters and digits, lower-case."""
    return [word[:_WORD_CHARS] for word in _WORD.findall(text[:_READ_CHARS].lower())]
