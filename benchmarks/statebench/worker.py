"""The side of the measurement that runs where StateBench is installed: timelines through strategies, judged by its rules.

As its own harness does, a query is not part of the context that is judged, and of the forbidden phrases only those count
that a right answer could not have. What is admissible, and where a phrase stands, is for StateBench to say. Queries that
forbid what a model may invent count as not judged: it stands in no context.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import tiktoken  # type: ignore[import-not-found]
from statebench.baselines import MemoryStrategy, get_baseline  # type: ignore[import-not-found]
from statebench.evaluation.phrase_quality import infer_kind, is_discriminative  # type: ignore[import-not-found]
from statebench.evaluation.rubric import contains_phrase  # type: ignore[import-not-found]
from statebench.runner.fact_padding import generate_filler_facts  # type: ignore[import-not-found]
from statebench.runner.harness import load_timelines  # type: ignore[import-not-found]
from statebench.schema.timeline import (  # type: ignore[import-not-found]
    ConversationTurn,
    Event,
    Query,
    StateWrite,
    Supersession,
    Timeline,
)

from benchmarks.statebench.scores import FIELDS_ALONE, OURS, Score
from benchmarks.statebench.strategy import HoldfastStrategy
from holdfast.core.packs.assembly import HEADINGS

BUDGET = 8_000
_MARKS = re.compile(
    r"\((?:under review|disputed|may be out of date|stated by)\b|not confirmed|\[(?:superseded|outdated|no longer)"
)
"""How a line says that what it tells may not be so."""
_SECTIONS = {
    HEADINGS["facts"]: "in_facts",
    HEADINGS["environment"]: "in_environment",
    HEADINGS["notes"]: "in_notes",
}
_HEADS = frozenset(HEADINGS.values())


class Quarters:
    """In the place of an encoding that would come from the network. No timeline comes near the budget."""

    def encode(self, text: str, **_: Any) -> list[int]:
        return [0] * (len(text) // 4)


def strategy(name: str, profile: str) -> MemoryStrategy:
    if name in (OURS, FIELDS_ALONE):
        return HoldfastStrategy(BUDGET, profile, beyond_fields=name == OURS)
    return get_baseline(name, token_budget=BUDGET)


def phrases(wanted: Iterable[Any]) -> list[str]:
    return [each if isinstance(each, str) else each.phrase for each in wanted]


def initial_texts(timeline: Timeline) -> Iterator[str]:
    """All that is in a timeline before anything happens."""
    start = timeline.initial_state
    yield from (str(each) for each in start.identity_role.model_dump().values())
    yield from (f"{each.key}: {each.value}" for each in start.persistent_facts)
    yield from (each.content for each in start.working_set)
    yield from (f"{name}: {value}" for name, value in start.environment.items())


def event_texts(event: Event) -> Iterator[str]:
    if isinstance(event, ConversationTurn):
        yield event.text
    elif isinstance(event, StateWrite | Supersession):
        yield from (f"{each.key}: {each.value}" for each in event.writes)


def judge_context(context: str, query: Query, track: str, known: list[str], newest: str) -> Score:
    required = phrases(query.ground_truth.must_mention)
    missing = [each for each in required if not contains_phrase(context, each)]
    forbidden = [each for each in phrases(query.ground_truth.must_not_mention) if is_discriminative(each)]
    exposed = [each for each in forbidden if contains_phrase(context, each)]
    counts = bool(forbidden) and infer_kind(track) != "fabricated"
    asked = any(contains_phrase(query.prompt, each) for each in forbidden)
    absent = sum(not any(contains_phrase(text, each) for text in known) for each in missing)
    return Score(
        queries=1,
        required=len(required),
        covered=len(required) - len(missing),
        judged=counts,
        exposed=bool(exposed),
        usable=not missing and not exposed,
        floor=counts and asked,
        spoken=counts and (asked or any(contains_phrase(newest, each) for each in forbidden)),
        above=bool(exposed) and not asked,
        marked=bool(exposed) and all(_is_marked(context, each) for each in exposed),
        absent=absent,
        lost=len(missing) - absent,
        **_places(context, exposed),
    )


def _is_marked(context: str, phrase: str) -> bool:
    return all(_MARKS.search(line) for line in context.splitlines() if contains_phrase(line, phrase))


def _places(context: str, exposed: list[str]) -> dict[str, int]:
    """In how many sections of a pack forbidden phrases stand."""
    texts: dict[str, list[str]] = {}
    name = "in_history"
    for line in context.splitlines():
        if line in _HEADS:
            name = _SECTIONS.get(line, "in_working")
        texts.setdefault(name, []).append(line)
    return {name: sum(contains_phrase("\n".join(lines), each) for each in exposed) for name, lines in texts.items()}


def run(timeline: Timeline, memory: MemoryStrategy, unrelated: int) -> Score:
    memory.reset()
    if memory.expects_initial_state:
        memory.initialize_from_state(timeline.initial_state)
    for event in generate_filler_facts(unrelated, seed=sum(map(ord, timeline.id))) if unrelated else ():
        memory.process_event(event)
    score, known, newest = Score(), [*initial_texts(timeline)], ""
    for event in timeline.events:
        if isinstance(event, Query):
            context = memory.build_context(event.prompt).context
            score += judge_context(context, event, timeline.track, known, newest)
            continue
        memory.process_event(event)
        known += event_texts(event)
        newest = event.text if isinstance(event, ConversationTurn) and event.speaker == "user" else newest
    return score


def main(path: str, every: str, unrelated: str, name: str, profile: str) -> None:
    """Prints what came of each track, as JSON."""
    tiktoken.get_encoding = lambda _: Quarters()
    memory = strategy(name, profile)
    scores: dict[str, Score] = {}
    for timeline in list(load_timelines(Path(path)))[:: int(every)]:
        scores[timeline.track] = scores.get(timeline.track, Score()) + run(timeline, memory, int(unrelated))
    print(msgspec.json.encode(dict(sorted(scores.items()))).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
