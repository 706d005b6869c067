"""What packs show of StateBench's timelines: the phrases that a right answer needs, and none that it could not have? Beside
it, what strategies show that come with StateBench.

Of the required phrases so many are in the context (coverage); of the queries with admissible forbidden phrases so many show
one (exposed); of all queries so many have all that is required, and nothing forbidden (usable). Some questions have a
forbidden phrase themselves, which no context can avoid: the floor. What is exposed where the question has none is above it.

The timelines are the published splits, and some that StateBench's generator makes when this runs, of all its tracks.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from benchmarks.harness import Bench, Spread, environment
from benchmarks.report import Goal, Line, Table
from benchmarks.statebench import mapping

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "benchmarks" / "statebench.lock"
ENVIRONMENT = ROOT / ".venv-statebench"
NAME = "statebench"
OURS = "holdfast"
FIELDS_ALONE = "holdfast, fields alone"
THEIRS = ("transcript_replay", "memgine", "memgine_safe_supersession")
SPLITS = ("train", "dev")
BALANCED, HIGH_STAKES = PROFILES = ("balanced", "high_stakes")
"""The default, and the one for where a wrong value costs more than a missing one."""
SEEDS = (4711, 1213)
PER_TRACK = 20
"""Timelines that are generated for each track and seed."""
QUICK = 8
"""A quick run takes one timeline in so many."""
UNRELATED = 200
"""Facts that have nothing to do with any query, added to each ledger."""
APART = Goal("at most", 0.02)
GENERATED = {"exposed": Goal("at most", 0.08), "usable": Goal("at least", 0.75)}
PUBLISHED = {"coverage": Goal("at least", 0.7), "exposed": Goal("at most", 0.15), "usable": Goal("at least", 0.55)}


class Score(msgspec.Struct):
    queries: int = 0
    required: int = 0
    covered: int = 0
    judged: int = 0
    """Queries that have an admissible forbidden phrase."""
    exposed: int = 0
    usable: int = 0
    floor: int = 0
    """Judged queries whose question has a forbidden phrase itself."""
    spoken: int = 0
    """The same, of the question or of the newest message of the user: neither is anybody's to change."""
    above: int = 0
    """Exposed ones whose question has none."""
    marked: int = 0
    """Exposed ones where each line that has a forbidden phrase says that it is disputed, under review or out of date."""
    absent: int = 0
    """Required phrases that are not in the context, and in nothing that was said or written either."""
    lost: int = 0
    """Required phrases that were said or written, and are not in the context."""
    in_history: int = 0
    """Forbidden phrases in messages."""
    in_facts: int = 0
    in_environment: int = 0
    in_working: int = 0
    in_notes: int = 0

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

    def describe_causes(self) -> tuple[str, str]:
        """Why queries are not usable: what is missing, and what is exposed."""
        places = ("history", "facts", "environment", "working", "notes")
        found = ", ".join(f"{count} in {name}" for name in places if (count := getattr(self, f"in_{name}")))
        exposed = f"{self.exposed:,} of {self.judged:,}: {self.above:,} above the floor of {self.floor:,}"
        marked = f", {self.marked:,} marked" if self.marked else ""
        return f"{self.absent:,} absent, {self.lost:,} lost", f"{exposed}{marked}" + (f" ({found})" if found else "")


Scores = dict[str, Score]
"""What came of each track."""


def run(bench: Bench) -> list[Table]:
    paths = [path for split in SPLITS if (path := bench.data / NAME / f"{split}.jsonl").exists()]
    if not paths:
        return []
    python = environment(ENVIRONMENT, LOCK)
    every = bench.pick(1, QUICK)
    tables = [table for path in paths for table in compare(python, path, every, PUBLISHED)]
    return [*tables, *compare(python, generate(python, bench), every, GENERATED)]


def generate(python: Path, bench: Bench) -> Path:
    """Timelines of every track that StateBench knows, in one file."""
    made = bench.file("generated.jsonl")
    parts: list[bytes] = []
    for seed in SEEDS:
        part = bench.file(f"{seed}.jsonl")
        order = ["generate", "--tracks", "all", "-n", str(PER_TRACK), "-s", str(seed), "-o", str(part)]
        subprocess.run(
            [str(python.parent / "statebench"), *order],
            check=True,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONHASHSEED": "0"},
        )
        parts.append(part.read_bytes())
    made.write_bytes(b"".join(parts))
    return made


def measure(python: Path, path: Path, every: int, name: str, profile: str = BALANCED, unrelated: int = 0) -> Scores:
    order = [str(path), str(every), str(unrelated), name, profile]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
    done = subprocess.run(
        [str(python), "-P", "-m", "benchmarks.statebench.worker", *order],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": paths},
    )
    return msgspec.json.decode(done.stdout, type=Scores)


def total(scores: Scores) -> Score:
    return sum(scores.values(), Score())


def compare(python: Path, path: Path, every: int, goals: dict[str, Goal]) -> list[Table]:
    ours = {profile: measure(python, path, every, OURS, profile) for profile in PROFILES}
    crowded = {profile: total(measure(python, path, every, OURS, profile, UNRELATED)) for profile in PROFILES}
    others = {name: total(measure(python, path, every, name)) for name in (FIELDS_ALONE, *THEIRS)}
    totals = {profile: total(scores) for profile, scores in ours.items()}
    queries = f"all ({totals[BALANCED].queries:,} queries)"
    lines = [
        Line(what=track, ours=str(score), theirs=str(ours[HIGH_STAKES][track]))
        for track, score in ours[BALANCED].items()
    ]
    lines += [Line(what=queries, ours=str(totals[BALANCED]), theirs=str(totals[HIGH_STAKES]))]
    among = [str(score) for score in crowded.values()]
    lines += [Line(what=f"all, with {UNRELATED} unrelated facts", ours=among[0], theirs=among[1])]
    lines += [Line(what=name, ours=str(score)) for name, score in others.items()]
    by_track = Table(
        name=NAME,
        title=f"{path.stem}, packs: coverage, exposed, usable",
        ours=BALANCED,
        theirs=HIGH_STAKES,
        lines=lines,
        notes=[
            "The last lines are of strategies that come with StateBench, by the same count.",
            *mapping.describe_mapping(),
        ],
    )
    causes = [explain(path, profile, scores) for profile, scores in ours.items()]
    return [by_track, *causes, judge(path.stem, totals, crowded[HIGH_STAKES], goals)]


def explain(path: Path, profile: str, scores: Scores) -> Table:
    """Why queries of each track are not usable."""
    both = total(scores)
    found = [(track, *score.describe_causes()) for track, score in (*scores.items(), ("all", both))]
    return Table(
        name=NAME,
        title=f"{path.stem}, {profile}: causes",
        ours="required phrases that are missing",
        theirs="queries that expose a forbidden one",
        lines=[Line(what=track, ours=missing, theirs=exposed) for track, missing, exposed in found],
        notes=[
            "Absent: nothing that was said or written has the phrase, so no context can. Lost: something has.",
            "The floor: the question has a forbidden phrase itself. In history and so on: phrases, not queries.",
            "Marked: each line that has one says that it is disputed, under review or out of date.",
            f"{both.spoken:,} of {both.judged:,} have one in the question or in the newest message of the user.",
        ],
    )


def judge(split: str, totals: dict[str, Score], crowded: Score, goals: dict[str, Goal]) -> Table:
    lines: list[Line] = []
    for profile, score in totals.items():
        coverage, exposed, usable = score.shares
        above = score.above / score.judged if score.judged else 0.0
        lines += [
            line(f"{profile}: required phrases in the context", coverage, goals.get("coverage")),
            line(f"{profile}: queries that expose a forbidden phrase", exposed, goals.get("exposed")),
            line(f"{profile}: the same, above the floor of the questions", above, None),
            line(f"{profile}: queries with all that is required, nothing forbidden", usable, goals.get("usable")),
        ]
    apart = max(abs(one - other) for one, other in zip(totals[HIGH_STAKES].shares, crowded.shares, strict=True))
    lines.append(line(f"{HIGH_STAKES}: the most that {UNRELATED} unrelated facts change of these", apart, APART))
    return Table(name=NAME, title=f"{split}, packs: what was reached", ours="share", theirs="", lines=lines)


def line(what: str, figure: float, wanted: Goal | None) -> Line:
    return Line(what=what, ours=f"{figure:.1%}", ratio=Spread.of([figure]), goal=wanted)
