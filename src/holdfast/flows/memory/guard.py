"""Guard recalled passages: find where they are in the log among the ends of facts.

Laws: order is that of the log, never that of a clock, as far as the log knows. The log is asked only for passages that may
state a superseded fact. A session that was destroyed still has its place in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.core.history.guard import FactEnd, GuardInput
from holdfast.core.memory.guard import find_ended_facts, find_past_facts, guard_passage
from holdfast.core.packs.recall import ShownPassage
from holdfast.flows import effects
from holdfast.flows.context import SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.history.guard import LogPosition, load_guard_input
from holdfast.model.facts.fact import fact_seq
from holdfast.model.memory.recall import RecalledPassage
from holdfast.model.names import StreamId
from holdfast.model.packs.pack import PassageTrace
from holdfast.model.state import SessionState


class _PassageEvent(NamedTuple):
    """The event of a passage in the log."""

    position: LogPosition = ()
    id: str = ""


def trace_passages(
    context: SessionContext, guard_input: GuardInput, passages: Sequence[RecalledPassage]
) -> Flow[tuple[PassageTrace, ...]]:
    """Where each passage stands among the ends of the superseded facts that it may state."""
    if guard_input.is_idle or not passages:
        return (PassageTrace(),) * len(passages)
    facts = [find_ended_facts(guard_input, passage.text) for passage in passages]
    places = yield from _find_places(context, [one for one, names in zip(passages, facts, strict=True) if names])
    when = yield from _find_changes(context, guard_input, sorted({name for names in facts for name in names}))
    return tuple(
        _build_trace(guard_input.endings, passage, names, places.get(passage.id, _PassageEvent()), when)
        for passage, names in zip(passages, facts, strict=True)
    )


def _build_trace(
    endings: Mapping[str, FactEnd],
    passage: RecalledPassage,
    names: Sequence[str],
    place: _PassageEvent,
    when: Mapping[str, tuple[LogPosition, LogPosition]],
) -> PassageTrace:
    if not names or not place.position:
        return PassageTrace()

    def has_ended(name: str) -> bool:
        end = when[name][1]
        return end < place.position if end else endings[name].ended_us <= (passage.time_us or 0)

    return PassageTrace(
        ended=tuple(name for name in names if has_ended(name)),
        known=tuple(name for name in names if () < when[name][0] < place.position),
        sources=tuple(name for name in names if place.id in endings[name].sources),
    )


def _find_places(context: SessionContext, passages: Sequence[RecalledPassage]) -> Flow[dict[str, _PassageEvent]]:
    """The places of these passages in the log, by their ids. What the log does not know is left out."""
    streams: dict[StreamId, set[int]] = {}
    for passage in passages:
        if passage.stream is not None and passage.stream.tenant == context.scope.tenant:
            streams.setdefault(passage.stream, set()).add(passage.seq)
    found: dict[tuple[StreamId, int], _PassageEvent] = {}
    for stream, numbers in sorted(streams.items()):
        seqs = sorted(numbers)
        events = yield from effects.read_each(stream, seqs)
        for seq, position in zip(seqs, (yield from effects.positions(stream, seqs)), strict=True):
            if seq in events:
                found[stream, seq] = _PassageEvent(position, events[seq].id)
    places = {one.id: found.get((one.stream, one.seq)) for one in passages if one.stream is not None}
    return {name: place for name, place in places.items() if place is not None}


def _find_changes(
    context: SessionContext, guard_input: GuardInput, names: Sequence[str]
) -> Flow[dict[str, tuple[LogPosition, LogPosition]]]:
    """When these facts were asserted, and when they ended, in the log."""
    seqs: dict[tuple[str, ...], set[int]] = {}
    for name in names:
        ending = guard_input.endings[name]
        seqs.setdefault(ending.ledger, set()).update(filter(None, (fact_seq(ending.fact), ending.ended_seq)))
    positions: dict[tuple[tuple[str, ...], int], LogPosition] = {}
    for ledger, numbers in seqs.items():
        ordered = sorted(numbers)
        in_log = yield from effects.positions(StreamId(context.scope.tenant, "ledger", ledger), ordered)
        positions |= {(ledger, seq): position for seq, position in zip(ordered, in_log, strict=True)}
    return {
        name: (
            positions.get((ending.ledger, fact_seq(ending.fact)), ()),
            positions.get((ending.ledger, ending.ended_seq), ()),
        )
        for name, ending in ((name, guard_input.endings[name]) for name in names)
    }


def guard_passages(
    guard_input: GuardInput, query: str, passages: Sequence[RecalledPassage], traces: Sequence[PassageTrace]
) -> list[ShownPassage]:
    """These passages as they may be shown to answer a question."""
    past = find_past_facts(guard_input, query, (one.text for one in passages))
    return [guard_passage(guard_input, one, trace, past) for one, trace in zip(passages, traces, strict=True)]


def load_guarded_passages(
    context: SessionContext, state: SessionState, query: str, passages: Sequence[RecalledPassage]
) -> Flow[list[ShownPassage]]:
    """These passages as the speaker of the session may be shown them now, to answer a question."""
    engine = context.engine
    guard_input = yield from load_guard_input(
        context,
        state,
        (),
        [(0, passage.text) for passage in passages],
        policy=engine.policy.guard,
        as_of_us=engine.clock.now_us(),
        turn=0,
        deferring=False,
    )
    traces = yield from trace_passages(context, guard_input, passages)
    return guard_passages(guard_input, query, passages, traces)
