"""Truth: does `observe` change what it must and nothing else, and does the guard hide what is outdated and nothing else?

Labelled cases are played one by one, each in a session of its own, with the default settings. The project's own cases
are in `tests/truth`; more are read from the data folder, if they are there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from benchmarks.truth.cases import GuardCase, Kind, ObserveCase, read_cases
from benchmarks.truth.guard_outcomes import GuardOutcome, run_guard
from benchmarks.truth.observe_outcomes import ObserveOutcome, run_observe

NAME = "truth"
OWN = Path(__file__).parents[2] / "tests" / NAME
GOALS = {
    "wrongly applied": Goal("at most", 0.01),
    "applied": Goal("at least", 0.75),
    "applied or asked": Goal("at least", 0.9),
    "kept": Goal("at least", 0.995),
    "hidden or marked": Goal("at least", 0.95),
    "answered and marked": Goal("at least", 1.0),
}

Outcome = TypeVar("Outcome", ObserveOutcome, GuardOutcome)


class Share(msgspec.Struct, frozen=True):
    """How many of how many."""

    part: int
    whole: int

    @property
    def figure(self) -> float:
        return self.part / self.whole if self.whole else 0.0

    def __str__(self) -> str:
        return f"{self.part:,} of {self.whole:,}"


def run(bench: Bench) -> list[Table]:
    observed: dict[str, list[ObserveOutcome]] = {}
    guarded: dict[str, list[GuardOutcome]] = {}
    for name, folder in find_sets(bench.data).items():
        for path in sorted(folder.glob("observe*.jsonl")):
            observed[label(name, path)] = [run_observe(case) for case in read_cases(path, ObserveCase)]
        for path in sorted(folder.glob("guard*.jsonl")):
            guarded[label(name, path)] = [run_guard(case) for case in read_cases(path, GuardCase)]
    missing = (
        f"There are no cases in {bench.data / NAME}: only the project's own were run. --data names another folder."
    )
    notes = [] if find_data(bench.data) else [missing]
    return [
        table("observe", "what observe changes", observed, observe_shares, notes),
        categories("observe", observed, observe_shares),
        table("guard", "what the guard hides", guarded, guard_shares, notes),
        categories("guard", guarded, guard_shares),
    ]


def find_sets(data: Path) -> dict[str, Path]:
    """The folders with cases, by name: the project's own, and those of the data folder if it has any."""
    folder = find_data(data)
    if folder is None or folder.resolve() == OWN:
        return {"own": OWN}
    return {"own": OWN, folder.resolve().name: folder}


def find_data(data: Path) -> Path | None:
    """The folder with cases: `truth` in the data folder, or the data folder itself."""
    folders = (data / NAME, data)
    return next(
        (folder for folder in folders if any(folder.glob("observe*.jsonl")) or any(folder.glob("guard*.jsonl"))), None
    )


def label(name: str, path: Path) -> str:
    """`observe-dev.jsonl` is of the set dev; `observe.jsonl` has the name of its folder."""
    ending = re.search(r"-(.+)$", path.stem)
    return ending.group(1) if ending else name


Shares = Callable[[Sequence[Outcome]], Mapping[str, tuple[Share, Goal | None]]]


def observe_shares(outcomes: Sequence[ObserveOutcome]) -> dict[str, tuple[Share, Goal | None]]:
    """The shares by what they are of. Kinds without any case are left out."""
    verdicts: dict[Kind, list[str]] = {"MUST_NOT": [], "MAY_ASK": [], "MUST_CHANGE": []}
    for each in outcomes:
        verdicts[each.case.kind].append(each.verdict)

    def count(kind: Kind, *wanted: str) -> Share:
        return Share(sum(verdict in wanted for verdict in verdicts[kind]), len(verdicts[kind]))

    shares = {
        "must not change: wrongly applied": (count("MUST_NOT", "wrong"), GOALS["wrongly applied"]),
        "must not change: asked": (count("MUST_NOT", "asked"), None),
        "may ask: wrongly applied": (count("MAY_ASK", "wrong"), GOALS["wrongly applied"]),
        "may ask: asked": (count("MAY_ASK", "asked"), None),
        "must change: applied": (count("MUST_CHANGE", "applied"), GOALS["applied"]),
        "must change: applied or asked": (count("MUST_CHANGE", "applied", "asked"), GOALS["applied or asked"]),
        "must change: another value or fact applied": (count("MUST_CHANGE", "wrong"), None),
        "must change: missed": (count("MUST_CHANGE", "missed"), None),
    }
    return {name: (share, goal) for name, (share, goal) in shares.items() if share.whole}


def guard_shares(outcomes: Sequence[GuardOutcome]) -> dict[str, tuple[Share, Goal | None]]:
    """The shares by what they are of. What no case asks for is left out."""
    keep = [state for each in outcomes for state in each.keep.values()]
    hide = [state for each in outcomes for state in each.hide.values()]
    note = [state for each in outcomes for state in each.note.values()]
    kept, marked = len(keep) - keep.count("lost"), hide.count("hidden") + hide.count("noted")
    shares = {
        "must stay: kept": (Share(kept, len(keep)), GOALS["kept"]),
        "must stay: kept, but marked as outdated": (Share(keep.count("kept, with a note"), len(keep)), None),
        "must go: hidden or marked": (Share(marked, len(hide)), GOALS["hidden or marked"]),
        "must go: hidden": (Share(hide.count("hidden"), len(hide)), None),
        "must go: exposed": (Share(hide.count("exposed"), len(hide)), None),
        "past asked for: answered and marked": (Share(note.count("noted"), len(note)), GOALS["answered and marked"]),
        "cases without a fault": (Share(sum(each.passed for each in outcomes), len(outcomes)), None),
    }
    return {name: (share, goal) for name, (share, goal) in shares.items() if share.whole}


def table(
    suite: str, title: str, sets: Mapping[str, Sequence[Outcome]], shares: Shares[Outcome], notes: list[str]
) -> Table:
    lines = [
        line(f"{name}, {what}", share, goal)
        for name, outcomes in sets.items()
        for what, (share, goal) in shares(outcomes).items()
    ]
    errors = [f"{each.case.id} ({each.error})" for outcomes in sets.values() for each in outcomes if each.error]
    return Table(
        name=f"{NAME}, {suite}",
        title=title,
        ours="share",
        theirs="of",
        lines=lines,
        notes=notes,
        wrong=f"{len(errors)} cases could not be played: {', '.join(errors[:3])}" if errors else "",
        failures=[failure(name, each) for name, outcomes in sets.items() for each in outcomes if not each.passed],
    )


def categories(suite: str, sets: Mapping[str, Sequence[Outcome]], shares: Shares[Outcome]) -> Table:
    """How many cases of each category pass, and what falls short. Many have few cases: examples of a kind, not rates."""
    lines = [
        Line(
            what=f"{name}, {category}",
            ours=str(Share(sum(each.passed for each in group), len(group))),
            theirs="; ".join(
                f"{what} {share}"
                for what, (share, goal) in shares(group).items()
                if goal is not None and not goal.met(share.figure)
            ),
        )
        for name, outcomes in sets.items()
        for category, group in by_category(outcomes)
    ]
    return Table(name=f"{NAME}, {suite}", title="by category", ours="cases passed", theirs="short of", lines=lines)


def by_category(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[Outcome]]]:
    for category in sorted({each.case.category for each in outcomes}):
        yield category, [each for each in outcomes if each.case.category == category]


def line(what: str, share: Share, goal: Goal | None) -> Line:
    ratio = Spread.of([share.figure])
    return Line(what=what, ours=f"{share.figure:.1%}", theirs=str(share), ratio=ratio, goal=goal)


def failure(name: str, outcome: ObserveOutcome | GuardOutcome) -> dict[str, Any]:
    """A case that failed, with all that came of it."""
    found: dict[str, Any] = msgspec.to_builtins(outcome)
    if isinstance(outcome, GuardOutcome):
        found["faults"] = outcome.faults
    return {"set": name} | found
