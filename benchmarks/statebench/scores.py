"""What packs show of StateBench's timelines: the phrases that a right answer needs, and none that it could not have? Beside
it, what strategies show that come with StateBench.

Of the required phrases so many are in the context (coverage); of the queries with admissible forbidden phrases so many show
one (exposed); of all queries so many have all that is required, and nothing forbidden (usable).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from benchmarks.harness import Bench, Spread, environment
from benchmarks.report import Goal, Line, Table

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "benchmarks" / "statebench.lock"
ENVIRONMENT = ROOT / ".venv-statebench"
NAME = "statebench"
OURS = "holdfast"
THEIRS = ("transcript_replay", "memgine", "memgine_safe_supersession")
SPLITS = ("train", "dev")
QUICK = 8
"""A quick run takes one timeline in so many."""
UNRELATED = 200
"""Facts that have nothing to do with any query, added to each ledger."""
COVERAGE, EXPOSED, USABLE = Goal("at least", 0.7), Goal("at most", 0.15), Goal("at least", 0.55)
APART = Goal("at most", 0.02)


class Score(msgspec.Struct):
    queries: int = 0
    required: int = 0
    covered: int = 0
    judged: int = 0
    """Queries that have an admissible forbidden phrase."""
    exposed: int = 0
    usable: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, each) + getattr(other, each) for each in self.__struct_fields__))

    @property
    def shares(self) -> tuple[float, float, float]:
        """Coverage, exposed, usable."""
        return (
            self.covered / self.required if self.required else 1.0,
            self.exposed / self.judged if self.judged else 0.0,
            self.usable / self.queries if self.queries else 0.0,
        )

    def __str__(self) -> str:
        coverage, exposed, usable = self.shares
        return f"{coverage:6.1%} {exposed:6.1%} {usable:6.1%}"


def run(bench: Bench) -> list[Table]:
    paths = [path for split in SPLITS if (path := bench.data / NAME / f"{split}.jsonl").exists()]
    if not paths:
        return []
    python = environment(ENVIRONMENT, LOCK)
    return [table for path in paths for table in compared(python, path, bench.pick(1, QUICK))]


def measured(python: Path, path: Path, every: int, unrelated: int, name: str) -> dict[str, Score]:
    """What came of each track."""
    command = [str(python), "-P", "-m", "benchmarks.statebench.worker", str(path), str(every), str(unrelated), name]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths})
    return msgspec.json.decode(done.stdout, type=dict[str, Score])


def compared(python: Path, path: Path, every: int) -> list[Table]:
    ours, crowded = (measured(python, path, every, unrelated, OURS) for unrelated in (0, UNRELATED))
    theirs = {name: sum(measured(python, path, every, 0, name).values(), Score()) for name in THEIRS}
    total, among = sum(ours.values(), Score()), sum(crowded.values(), Score())
    tracks = [Line(what=track, ours=str(score), theirs=str(crowded[track])) for track, score in ours.items()]
    tracks += [Line(what=f"all ({total.queries:,} queries)", ours=str(total), theirs=str(among))]
    tracks += [Line(what=name, ours=str(score)) for name, score in theirs.items()]
    by_track = Table(
        name=NAME,
        title=f"{path.stem}, packs: coverage, exposed, usable",
        ours="packs",
        theirs=f"with {UNRELATED} unrelated facts",
        lines=tracks,
        notes=["The last lines are of strategies that come with StateBench, by the same count."],
    )
    return [by_track, judged(path.stem, total, among)]


def judged(split: str, total: Score, among: Score) -> Table:
    coverage, exposed, usable = total.shares
    apart = max(abs(one - other) for one, other in zip(total.shares, among.shares, strict=True))
    lines = [
        goal("required phrases that are in the context", coverage, COVERAGE),
        goal("queries whose context shows a forbidden phrase", exposed, EXPOSED),
        goal("queries with all that is required, and nothing forbidden", usable, USABLE),
        goal(f"the most that {UNRELATED} unrelated facts change of these", apart, APART),
    ]
    return Table(name=NAME, title=f"{split}, packs: what was reached", ours="share", theirs="", lines=lines)


def goal(what: str, figure: float, wanted: Goal) -> Line:
    return Line(what=what, ours=f"{figure:.1%}", ratio=Spread.of([figure]), goal=wanted)
