"""StateBench: timelines of what was written, said and superseded. `ledgers` asks which values live; `scores` asks what a
pack shows, by the rules of StateBench itself."""

from __future__ import annotations

from benchmarks.harness import Bench
from benchmarks.report import Table
from benchmarks.statebench import ledgers, scores
from benchmarks.statebench.ledgers import BOTH, EVENTS, MODES, NAME, SPLITS, TALK, TALKING, Replay, Tally, Timeline

__all__ = ["BOTH", "EVENTS", "MODES", "NAME", "SPLITS", "TALK", "TALKING", "Replay", "Tally", "Timeline", "run"]


def run(bench: Bench) -> list[Table]:
    return [*ledgers.run(bench), *scores.run(bench)]
