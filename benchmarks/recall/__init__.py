"""Recall: how much of the evidence that a question needs does long-term memory bring into a budget, how fast, and in how
much room?

This is retrieval recall: no model answers anything. The chats and the evaluator are in the data folder; nothing here ships
them.
"""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.harness import Bench, Spread
from benchmarks.recall.chats import ChatMemory, find_embedder, measure_packs
from benchmarks.recall.speed import measure_speed
from benchmarks.report import Goal, Line, Table

BUDGETS = (500, 1_000, 2_000, 4_000)
GOALS = {1_000: 82.0, 2_000: 90.0, 4_000: 95.0}
EMBEDDER_GOALS = {1_000: 87.0, 2_000: 92.5, 4_000: 96.5}
GOAL_ALL = 60.0
"""Of the questions that need several passages, how many have all of them at 2,000 tokens."""


def run(bench: Bench) -> list[Table]:
    evaluator = load_evaluator(bench)
    chats = [] if evaluator is None else evaluator.load([str(bench.data / "recall")])[: bench.pick(100, 1)]
    if not chats:
        note = f"There are no chats in {bench.data / 'recall'}: nothing was measured. --data names another folder."
        return [Table(name="recall", title="evidence that is recalled", ours="", theirs="", lines=[], notes=[note])]
    tables = [measure_recall(bench, evaluator, chats, None, GOALS)]
    embedder = find_embedder()
    if embedder is not None:
        tables.append(measure_recall(bench, evaluator, chats, embedder, EMBEDDER_GOALS))
    return [*tables, measure_packs(bench, chats), measure_speed(bench)]


def load_evaluator(bench: Bench) -> Any:
    path = bench.data / "recall" / "recall_at_budget.py"
    spec = importlib.util.spec_from_file_location("recall_at_budget", path)
    if spec is None or spec.loader is None or not path.exists():
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure_recall(bench: Bench, evaluator: Any, chats: Sequence[Any], embedder: Any, goals: dict[int, float]) -> Table:
    """Ask every question of `engine.memory.recall`, on a file with default settings."""
    rows, _ = evaluator.evaluate(ChatMemory(bench.folder, embedder), chats, BUDGETS)
    notes = [
        "Retrieval recall at a budget of tokens; adversarial questions are not in the overall figures.",
        f"engine.memory.recall() on SQLite, a session for each day of a chat; counted with {evaluator.COUNTER}.",
        evaluator.updates(rows, BUDGETS) or "The chats have no knowledge updates: stale and fresh are not told apart.",
    ]
    how = "without an embedder" if embedder is None else f"with {embedder.name}"
    return Table(
        name="recall",
        title=f"evidence among the recalled passages, % of {len(rows)} questions, {how}",
        ours="mean",
        theirs="all of it",
        lines=list_lines(rows, goals),
        notes=notes,
    )


def list_lines(rows: Sequence[dict[str, Any]], goals: dict[int, float]) -> list[Line]:
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
            goal, figure = (goals.get(budget), mean) if name == "overall" else (None, mean)
            if (name, budget) == ("multi-hop", 2_000):
                goal, figure = GOAL_ALL, strict
            lines.append(
                Line(
                    what=f"{name}, {budget:,} tokens",
                    ours=f"{mean:.1f}",
                    theirs=f"{strict:.1f}",
                    ratio=None if goal is None else Spread.of([figure]),
                    goal=None if goal is None else Goal("at least", goal),
                )
            )
    return lines
