"""The side of the measurement that runs where StateBench is installed: timelines through strategies, judged by its rules.

As its own harness does, a query is not part of the context that is judged, and of the forbidden phrases only those count
that a right answer could not have. What is admissible, and where a phrase stands, is for StateBench to say. Queries that
forbid what a model may invent count as not judged: it stands in no context.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import tiktoken  # type: ignore[import-not-found]
from statebench.baselines import MemoryStrategy, get_baseline  # type: ignore[import-not-found]
from statebench.evaluation.phrase_quality import infer_kind, is_discriminative  # type: ignore[import-not-found]
from statebench.evaluation.rubric import contains_phrase  # type: ignore[import-not-found]
from statebench.runner.fact_padding import generate_filler_facts  # type: ignore[import-not-found]
from statebench.runner.harness import load_timelines  # type: ignore[import-not-found]
from statebench.schema.timeline import Query, Timeline  # type: ignore[import-not-found]

from benchmarks.statebench.scores import OURS, Score
from benchmarks.statebench.strategy import HoldfastStrategy

BUDGET = 8_000


class Quarters:
    """In the place of an encoding that would come from the network. No timeline comes near the budget."""

    def encode(self, text: str, **_: Any) -> list[int]:
        return [0] * (len(text) // 4)


def strategy(name: str) -> MemoryStrategy:
    return HoldfastStrategy(BUDGET) if name == OURS else get_baseline(name, token_budget=BUDGET)


def phrases(wanted: Iterable[Any]) -> list[str]:
    return [each if isinstance(each, str) else each.phrase for each in wanted]


def judged(context: str, query: Query, track: str) -> Score:
    required = [contains_phrase(context, each) for each in phrases(query.ground_truth.must_mention)]
    forbidden = [
        contains_phrase(context, each)
        for each in phrases(query.ground_truth.must_not_mention)
        if is_discriminative(each)
    ]
    return Score(
        queries=1,
        required=len(required),
        covered=sum(required),
        judged=bool(forbidden) and infer_kind(track) != "fabricated",
        exposed=any(forbidden),
        usable=all(required) and not any(forbidden),
    )


def run(timeline: Timeline, memory: MemoryStrategy, unrelated: int) -> Score:
    memory.reset()
    if memory.expects_initial_state:
        memory.initialize_from_state(timeline.initial_state)
    for event in generate_filler_facts(unrelated, seed=sum(map(ord, timeline.id))) if unrelated else ():
        memory.process_event(event)
    score = Score()
    for event in timeline.events:
        if isinstance(event, Query):
            score += judged(memory.build_context(event.prompt).context, event, timeline.track)
        else:
            memory.process_event(event)
    return score


def main(path: str, every: str, unrelated: str, name: str) -> None:
    """Prints what came of each track, as JSON."""
    tiktoken.get_encoding = lambda _: Quarters()
    memory = strategy(name)
    scores: dict[str, Score] = {}
    for timeline in list(load_timelines(Path(path)))[:: int(every)]:
        scores[timeline.track] = scores.get(timeline.track, Score()) + run(timeline, memory, int(unrelated))
    print(msgspec.json.encode(dict(sorted(scores.items()))).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
