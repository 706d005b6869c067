"""Recall: how much of the evidence that a question needs is among the passages recalled within a budget.

This is retrieval recall: no model answers anything. The chats and the evaluator are in the data folder; nothing here ships
them.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import Bench, Spread
from benchmarks.recall import retriever
from benchmarks.report import Goal, Line, Table

BUDGETS = (500, 1_000, 2_000, 4_000)
GOALS = {1_000: Goal("at least", 82), 2_000: Goal("at least", 90), 4_000: Goal("at least", 95)}
GOAL_ALL = Goal("at least", 60)
"""Of the questions that need several passages, how many have all of them at 2,000 tokens."""
GOAL_MS = Goal("at most", 8)


def run(bench: Bench) -> list[Table]:
    evaluator = load_evaluator(bench)
    chats = evaluator.load([str(bench.data / "recall")])[: bench.pick(100, 1)]
    retriever.PURE_MS.clear()
    rows, _ = evaluator.evaluate(retriever, chats, BUDGETS)
    return [
        Table(
            name="recall",
            title=f"evidence among the recalled passages, % of {len(rows)} questions, without an embedder",
            ours="mean",
            theirs="all of it",
            lines=[*list_lines(rows), measure_pure_time()],
            notes=["Retrieval recall at a budget of tokens; adversarial questions are not in the overall figures."],
        )
    ]


def load_evaluator(bench: Bench) -> Any:
    path = bench.data / "recall" / "recall_at_budget.py"
    spec = importlib.util.spec_from_file_location("recall_at_budget", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def list_lines(rows: Sequence[dict[str, Any]]) -> list[Line]:
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[row["category"]].append(row)
        if row["category"] != "adversarial":
            groups["overall"].append(row)
            groups[f"of {row['chat']}"].append(row)
    lines: list[Line] = []
    for name in sorted(groups, key=lambda group: (group != "overall", group)):
        for budget in BUDGETS:
            shares = [row["at"][budget]["recall"] for row in groups[name]]
            mean = 100 * sum(shares) / len(shares)
            strict = 100 * sum(share == 1 for share in shares) / len(shares)
            goal, figure = (GOALS.get(budget), mean) if name == "overall" else (None, mean)
            if (name, budget) == ("multi-hop", 2_000):
                goal, figure = GOAL_ALL, strict
            ratio = None if goal is None else Spread.of([figure])
            what = f"{name}, {budget:,} tokens"
            lines.append(Line(what=what, ours=f"{mean:.1f}", theirs=f"{strict:.1f}", ratio=ratio, goal=goal))
    return lines


def measure_pure_time() -> Line:
    """The time of a question without a store: parse, rank twice, the neighbours and the second hop between."""
    times = sorted(retriever.PURE_MS)
    middle, late = times[len(times) // 2], times[int(len(times) * 0.95)]
    text = f"{middle:.1f} ms, p95 {late:.1f}"
    return Line(what="time of a question, pure part", ours=text, ratio=Spread.of([middle]), goal=GOAL_MS)
