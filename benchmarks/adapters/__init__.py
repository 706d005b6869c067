"""The same agent in each framework, with its own store and with Holdfast: time, bytes, tokens, and what survives.

Each side runs in a process of its own, in the environment that `make frameworks` makes. The model follows a script, so all
that is measured is the framework and its store.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from benchmarks.adapters.workload import BUDGET, MOVES_EVERY, GrowthFigures, RunFigures, Survivors
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table

ROOT = Path(__file__).parents[2]
TURNS, QUICK_TURNS = 300, 30
KILLS, QUICK_KILLS = 5, 2
KILLED_AT = 3
"""The turn in which a process is killed."""
MOST_S = 1_800
GROWTH = (100, 200, 400)
"""Turns of a conversation whose checkpoints are measured."""
MOST_MB, NOT_SLOWER = Goal("at most", 5), Goal("at most", 1)


class Contender(NamedTuple):
    """A framework, and its own store that ours is compared with."""

    name: str
    driver: str
    environment: str
    own: str
    keeps_conversation: bool = True
    """False: there is nothing to look for after a crash."""


CONTENDERS = (
    Contender("LangGraph, LangChain", "langgraph_agent", "langgraph", "SqliteSaver"),
    Contender("OpenAI Agents SDK", "openai_agents_agent", "openai_agents", "SQLiteSession"),
    Contender("Pydantic AI", "pydantic_ai_agent", "pydantic_ai", "InMemoryConversationStore"),
    Contender("Google ADK", "adk_agent", "adk", "SqliteSessionService"),
    Contender("Agent Framework", "agent_framework_agent", "agent_framework", "FileHistoryProvider"),
    Contender("Strands", "strands_agent", "strands", "FileSessionManager"),
    Contender("LlamaIndex", "llama_index_agent", "llama_index", "Memory on SQLite"),
    Contender("Claude Agent SDK", "claude_agent", "claude", "the log on the disk"),
    Contender("A2A", "a2a_agent", "a2a", "DatabaseTaskStore on SQLite"),
    Contender("Anthropic's memory tool", "anthropic_agent", "anthropic", "files", keeps_conversation=False),
)

SURVIVING = (
    ("after kill -9 in a tool: the question", "question"),
    ("the call", "call"),
    ("that its outcome is unknown, with a key", "unknown"),
)


class SideFindings(msgspec.Struct, frozen=True):
    """What one side of a framework did."""

    run: RunFigures
    size: int
    """Bytes on disk."""
    kills: tuple[Survivors, ...]

    def count(self, field: str) -> str:
        return f"{sum(getattr(each, field) for each in self.kills)} of {len(self.kills)}"


class Comparison(NamedTuple):
    contender: Contender
    own: SideFindings
    ours: SideFindings


def run(bench: Bench) -> list[Table]:
    turns, kills = bench.pick(TURNS, QUICK_TURNS), bench.pick(KILLS, QUICK_KILLS)
    compared = [compare(bench, contender, turns, kills) for contender in CONTENDERS]
    growth = {size: measure_growth(bench, size) for size in GROWTH[: bench.pick(3, 1)]}
    if bench.table is not None:
        bench.table.write_text(write_page(compared, growth, turns, kills))
    return [*(build_table(each, turns) for each in compared), build_growth_table(growth)]


def compare(bench: Bench, contender: Contender, turns: int, kills: int) -> Comparison:
    ready = f".venv-frameworks/{contender.environment}/ready"
    subprocess.run(["make", "-s", ready], cwd=ROOT, check=True, capture_output=True)
    own, ours = (measure(bench, contender, side, turns, kills) for side in ("own", "ours"))
    return Comparison(contender, own, ours)


def measure(bench: Bench, contender: Contender, side: Literal["own", "ours"], turns: int, kills: int) -> SideFindings:
    folder = bench.file(f"{contender.driver}-{side}")
    folder.mkdir()
    figures = msgspec.json.decode(work(contender, side, "run", folder, turns), type=RunFigures)
    size = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    survivors: list[Survivors] = []
    for number in range(kills if contender.keeps_conversation else 0):
        killed = bench.file(f"{contender.driver}-{side}-{number}")
        killed.mkdir()
        work(contender, side, "die", killed, KILLED_AT)
        survivors.append(msgspec.json.decode(work(contender, side, "survey", killed, KILLED_AT), type=Survivors))
    return SideFindings(figures, size, tuple(survivors))


def work(contender: Contender, side: str, mode: str, folder: Path, turns: int) -> bytes:
    """Run the worker; returns its last line."""
    python = ROOT / ".venv-frameworks" / contender.environment / "bin" / "python"
    command = [str(python), "-m", "benchmarks.adapters.worker", contender.driver, side, mode, str(folder), str(turns)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=MOST_S, check=False, start_new_session=True)
    expected = -signal.SIGKILL if mode == "die" else 0
    if done.returncode != expected:
        raise RuntimeError(f"{' '.join(command[2:])} ended with {done.returncode}:\n{done.stderr.decode()[-2_000:]}")
    lines = done.stdout.splitlines()
    return lines[-1] if lines else b""


def measure_growth(bench: Bench, turns: int) -> GrowthFigures:
    folder = bench.file(f"growth-{turns}")
    folder.mkdir()
    python = ROOT / ".venv-frameworks" / "langgraph" / "bin" / "python"
    command = [str(python), "-m", "benchmarks.adapters.growth_agent", str(folder), str(turns)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=MOST_S, check=True)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=GrowthFigures)


def build_growth_table(growth: dict[int, GrowthFigures]) -> Table:
    """The checkpoints of LangGraph, at several lengths; the goals are those of the longest."""
    lines: list[Line] = []
    for turns, each in growth.items():
        is_last = turns == GROWTH[-1]
        own, ours = (each.size[side] / 1e6 for side in ("own", "ours"))
        lines.append(
            Line(
                what=f"{turns} turns, MB on disk (the ratio is MB)",
                ours=f"{ours:,.2f} MB",
                theirs=f"{own:,.1f} MB",
                ratio=Spread.of([ours]),
                goal=MOST_MB if is_last else None,
            )
        )
        for what, seconds in (("seconds", each.wall_s), ("seconds of the processor", each.cpu_s)):
            lines.append(
                Line(
                    what=f"{turns} turns, {what}",
                    ours=f"{seconds['ours']:,.2f} s",
                    theirs=f"{seconds['own']:,.2f} s",
                    ratio=Spread.of([seconds["ours"] / seconds["own"]]),
                    goal=NOT_SLOWER if is_last else None,
                )
            )
    return Table(
        name="adapters: checkpoints of LangGraph",
        title="two messages of 500 characters a turn; both savers in turns, in one process",
        ours="HoldfastSaver",
        theirs="SqliteSaver",
        lines=lines,
    )


def build_table(compared: Comparison, turns: int) -> Table:
    contender, own, ours = compared

    def line(what: str, mine: float, theirs: float, form: str, unit: float = 1) -> Line:
        ratio = Spread.of([mine / theirs]) if theirs else None
        return Line(what=what, ours=form.format(mine / unit), theirs=form.format(theirs / unit), ratio=ratio)

    def survived(what: str, field: str) -> Line:
        return Line(what=what, ours=ours.count(field), theirs=own.count(field))

    return Table(
        name=f"adapters: {contender.name}",
        title=f"{turns} turns of a desk, each with a tool call",
        ours="Holdfast",
        theirs=contender.own,
        lines=[
            line("seconds", ours.run.seconds, own.run.seconds, "{:,.1f} s"),
            line("seconds of the processor, without the script", ours.run.cpu_s, own.run.cpu_s, "{:,.1f} s"),
            line("on disk", ours.size, own.size, "{:,.2f} MB", 1e6),
            line("tokens sent", ours.run.tokens, own.run.tokens, "{:,.0f} k", 1e3),
            line("tokens of the last call", ours.run.last_tokens, own.run.last_tokens, "{:,.0f}"),
            line("calls shown a superseded address", ours.run.shown_superseded, own.run.shown_superseded, "{:,.0f}"),
            *(survived(what, field) for what, field in SURVIVING if contender.keeps_conversation),
        ],
    )


HEAD = """# Figures

Made by `python -m benchmarks adapters --table docs/frameworks/figures.md`. The same agent in each framework, {turns} turns
of an order desk: a question, a call of a tool, its result, a reply. The model follows a script. Every {moves} turns the
customer gives a new address; the application has set the first one as a fact. Each cell has the framework with its own
store first, then with Holdfast: budget {budget:,}, default settings. One run on a machine with {cores} cores. The seconds
include the script, which counts the tokens; compare them within a row.

| framework, own store | seconds | MB on disk | million tokens sent | calls shown a superseded address |
|---|---|---|---|---|
"""

KILLED = """
Then the process is killed with `kill -9` in the middle of a tool, {kills} times. Another process looks for the question of
that turn, for the call that was running, and whether it is told that the outcome of the call is unknown, with a key to ask
about it.

| framework, own store | the question | the call | its unknown outcome |
|---|---|---|---|
"""

CHECKPOINTS = """
Checkpoints of LangGraph, without middleware: a graph of one node, two messages of 500 characters a turn, `SqliteSaver` and
`HoldfastSaver` in turns in one process.

| turns | MB on disk | seconds |
|---|---|---|
"""

NOTES = """
Three are other than the rest:

- **Claude Agent SDK**: the command that the SDK carries, one client for the whole conversation, without Claude Code's own
  tools. Claude Code builds its requests itself, and a session store changes none of them, so superseded addresses stay in
  them. `hooks(context=True)` puts the current facts beside them; these are the tokens that are sent more. The store is a
  mirror: the local log is counted too. A tool waits until its call is stored, about a tenth of a second.
- **A2A** has no model and no calls of tools. The conversation is one task that waits for input after each reply; its
  messages tell of the call and of the result. The executor sends its model the history of the task, or the pack of its
  session. A task store does not know what a tool is: with Holdfast, the executor runs its tool with `run_tool` of the
  store, which stores the start before it and the result after it. The SDK's store writes the whole task with each of its
  events, ours what is new in it.
- **Anthropic's memory tool** keeps files, and no conversation: it has no row in the second table. Each question begins a
  new conversation, and the model reads the address in its memory. It is told of every other move, and corrects it. The
  other moves are made in the application: a note of the model stays as it is, and `/memories/facts` shows the fact that
  the application has set.

What these figures do not say: how well a real model answers; what a provider charges, whose cache makes unchanged tokens
cheap. Each pack has about a hundred tokens of the application: who the user is, the time, and the facts; less is sent
only when the history has outgrown the budget. Stores of others that are fast here acknowledge before the disk has the
data, or when a turn has ended; that of Pydantic AI is in memory. Holdfast waits for the disk at each step. Its time
includes packs, facts, intents and manifests; the guard, which reads every message for every pack, is the largest part of
what the processor does.
"""


def write_page(compared: list[Comparison], growth: dict[int, GrowthFigures], turns: int, kills: int) -> str:
    """The page of the documentation with the figures."""
    page = HEAD.format(turns=turns, moves=MOVES_EVERY, budget=BUDGET, cores=os.cpu_count())
    for contender, own, ours in compared:
        cells: list[Any] = [
            f"{contender.name}, {contender.own}",
            f"{own.run.seconds:,.1f} → {ours.run.seconds:,.1f}",
            f"{own.size / 1e6:,.2f} → {ours.size / 1e6:,.2f}",
            f"{own.run.tokens / 1e6:,.1f} → {ours.run.tokens / 1e6:,.1f}",
            f"{own.run.shown_superseded} → {ours.run.shown_superseded} of {ours.run.calls}",
        ]
        page += f"| {' | '.join(cells)} |\n"
    page += KILLED.format(kills=kills)
    for contender, own, ours in compared:
        if not contender.keeps_conversation:
            continue
        kept = [f"{own.count(field)} → {ours.count(field)}" for _, field in SURVIVING]
        page += f"| {contender.name}, {contender.own} | {' | '.join(kept)} |\n"
    page += CHECKPOINTS
    for size, each in growth.items():
        seconds = f"{each.wall_s['own']:,.1f} → {each.wall_s['ours']:,.1f}"
        page += f"| {size} | {each.size['own'] / 1e6:,.1f} → {each.size['ours'] / 1e6:,.1f} | {seconds} |\n"
    return page + NOTES
