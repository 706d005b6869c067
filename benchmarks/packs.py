"""What a pack costs: with more and more history behind, from a cold start, with facts to rank and to guard, in frames; and
side by side with what others give to a model from the same history."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from benchmarks import peer
from benchmarks.agents.measure import ENVIRONMENT, LOCK, ROOT
from benchmarks.harness import FSYNC, Bench, Sample, Samples, Turn, each_us, environment, limit_met, time_ratio
from benchmarks.packs_conversation import ANSWER, BUDGET, short
from benchmarks.packs_histories import (
    SESSION,
    History,
    assert_facts,
    build_pack,
    create_history,
    fold_turn,
    open_engine,
    pack_sample,
    pack_turn,
    record,
    step_turn,
)
from benchmarks.report import Goal, Line, Table, micros
from holdfast.model import limits
from holdfast.render.pack import Pack

NAME = "packs"
FLAT = Goal("at most", 1.5)
AHEAD = Goal("below", 1)
SIZES = (100, 1_000, 10_000, 100_000)
AHEAD_OF_READING_FROM = 10_000
FACTS = (0, 100, 1_000, 10_000, 100_000)
FACTS_GOAL = Goal("at most", 5)
WITH_GOAL = 1_000
"""Facts of the ledger that the goal is about."""
FACTS_BEHIND = 1_000
"""Messages of the histories that have facts beside them."""
TOLD = 10
"""Of the dead values, and of the live ones, that somebody said where it is still in view."""
HANDLES = 20
DEPTH = 3
BUDGETS = 10_000_000
PACK, SHOWN, STEP, FOLD = ("pack()", "pack(), rendered, with its manifest", "a model call", "pack() that folds first")
TRIM, READ, KEPT = "trim_messages", "get_items", "add_items, get_items"
THEIRS_AT_ONCE = 4
"""Of a peer's operations in a turn; one where the history is long."""
COLD = "open, recover, pack"
GUARDED = "pack(), {:,} facts"
ANOTHER, CHANGED = ", another question each time", ", after a fact changed"
FRAMED = "frame.pack(), {:,} messages"


class Peers(peer.Peer):
    """The process that has the others."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [environment(ENVIRONMENT, LOCK), "-P", "-m", "benchmarks.packs_peers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "LANGSMITH_TRACING": "false"},
        )

    def turns(self, messages: int) -> dict[str, Turn]:
        orders = {TRIM: ("trim", 0), READ: ("read", 0), KEPT: ("step", 2)}
        return {
            line_name(what, messages): functools.partial(self.repeated, messages, order, commits)
            for what, (order, commits) in orders.items()
        }

    def repeated(self, messages: int, order: str, commits: int) -> Sample:
        """Each waits to be told, as ours waits for its disk in between; once where the history is long."""
        times = THEIRS_AT_ONCE if messages < AHEAD_OF_READING_FROM else 1
        return Sample.total([self.turn(1, order, messages, 1, commits=commits) for _ in range(times)])


def line_name(what: str, messages: int) -> str:
    return f"{what}, {messages:,} messages"


def run(bench: Bench) -> list[Table]:
    sizes = SIZES[: bench.pick(4, 3)]
    histories = [create_history(bench.file(f"{size}.db"), size) for size in sizes]
    rounds, slices = bench.pick(7, 3), bench.pick(5, 3)
    with Peers() as peers:
        about = peers.order("about")
        turns: dict[str, Turn] = {}
        for each in histories:
            peers.order("fill", each.messages, str(bench.file(f"peer-{each.messages}.db")))
            turns |= pack_turns(each) | peers.turns(each.messages)
        samples = bench.in_turns(rounds, turns, slices=slices)
    return [
        growth_table(samples, sizes, histories),
        peer_table(samples, sizes, about),
        cold(bench, histories),
        measure_facts(bench),
        measure_frames(bench, [histories[0], histories[-1]]),
    ]


def pack_turns(history: History) -> dict[str, Turn]:
    size = history.messages
    return {
        line_name(PACK, size): pack_turn(history),
        line_name(SHOWN, size): pack_turn(history, check_rendering),
        line_name(STEP, size): step_turn(history),
        line_name(FOLD, size): fold_turn(history),
    }


def check_rendering(pack: Pack) -> None:
    assert pack.anthropic()
    assert pack.manifest.tokens.used <= BUDGET


def growth_table(samples: Samples, sizes: Sequence[int], histories: Sequence[History]) -> Table:
    lines = [
        line(samples, line_name(what, size), line_name(what, sizes[0]), FLAT)
        for what in (PACK, SHOWN, STEP, FOLD)
        for size in sizes[1:]
    ]
    with histories[0].session() as session:
        pack = build_pack(session)
    boundaries = (
        f"Packs of up to {BUDGET:,} tokens; this one has {pack.tokens.used:,} in {len(pack.history.items)} items. What is "
        "older was folded while the history came in: those boundaries belong to the set-up, and the last lines say what "
        "one costs."
    )
    steps = f"{STEP}: the question is recorded, the pack built, the answer recorded, and the manifest with it."
    notes = [boundaries, steps]
    return Table(
        name=NAME, title="with a history behind", ours="ours", theirs=f"{sizes[0]} messages", lines=lines, notes=notes
    )


def line(samples: Samples, ours: str, theirs: str, goal: Goal | None) -> Line:
    return Line(
        what=ours,
        ours=micros(each_us(samples[ours])),
        theirs=micros(each_us(samples[theirs])),
        ratio=time_ratio(samples[ours], samples[theirs]),
        goal=goal,
        limit=limit_met(samples[ours], samples[FSYNC]),
    )


def peer_table(samples: Samples, sizes: Sequence[int], about: Mapping[str, str]) -> Table:
    lines: list[Line] = []
    for ours, theirs, first in ((PACK, TRIM, sizes[0]), (PACK, READ, AHEAD_OF_READING_FROM), (STEP, KEPT, None)):
        for size in sizes:
            goal = AHEAD if first is not None and size >= first else None
            found = line(samples, line_name(ours, size), line_name(theirs, size), goal)
            lines.append(rename_line(found, f"{line_name(ours, size)}: {theirs}"))
    langchain = (
        f"langchain-core {about['langchain-core']}: trim_messages(max_tokens={BUDGET}, strategy='last', "
        "token_counter='approximate', include_system=True, start_on='human') of a list in memory; it reads nothing."
    )
    agents = f"openai-agents {about['openai-agents']}: SQLiteSession.get_items(), the whole history; it counts nothing."
    return Table(
        name=f"{NAME}, others",
        title="from the same history",
        ours="ours",
        theirs="theirs",
        lines=lines,
        notes=[langchain, agents],
    )


def rename_line(found: Line, what: str) -> Line:
    return Line(what=what, ours=found.ours, theirs=found.theirs, ratio=found.ratio, goal=found.goal, limit=found.limit)


# A cold start


def cold(bench: Bench, histories: Sequence[History]) -> Table:
    turns = {line_name(COLD, each.messages): cold_start_turn(each.path) for each in histories}
    samples = bench.in_turns(bench.pick(15, 5), turns)
    first = histories[0].messages
    return Table(
        name=f"{NAME}, cold",
        title="a new process, to its first pack",
        ours="ours",
        theirs=f"{first} messages",
        lines=[line(samples, line_name(COLD, each.messages), line_name(COLD, first), FLAT) for each in histories[1:]],
        notes=["The start of the interpreter and the import are not counted: they know nothing of the history."],
    )


def cold_start_turn(path: Path) -> Turn:
    def turn() -> Sample:
        command = [sys.executable, "-P", "-m", "benchmarks.packs_cold", str(path)]
        where = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        own = os.environ | {"PYTHONPATH": where}
        answer = subprocess.run(command, check=True, capture_output=True, text=True, env=own).stdout
        wall_s, cpu_s = map(float, answer.split())
        return Sample(1, wall_s, cpu_s, commits=1)

    return turn


# Facts


def measure_facts(bench: Bench) -> Table:
    turns: dict[str, Turn] = {}
    for count in FACTS[: bench.pick(5, 4)]:

        def prepare(session: holdfast.Session, count: int = count) -> None:
            all_facts = list(facts(count))
            assert_facts(session, all_facts[: count // 2], limits.BATCH_FACTS)
            session.record("user", " ".join(map(shipment_text, range(TOLD))))
            assert_facts(session, all_facts[count // 2 :], limits.BATCH_FACTS)

        history = create_history(bench.file(f"facts-{count}.db"), FACTS_BEHIND, prepare, short)
        turns[GUARDED.format(count)] = pack_turn(history)
        if count == WITH_GOAL:
            turns[GUARDED.format(count) + ANOTHER] = pack_turn(history, questions=itertools.count())
            turns[GUARDED.format(count) + CHANGED] = pack_turn(history, prepare=change_fact)
    samples = bench.in_turns(bench.pick(7, 3), turns, slices=bench.pick(5, 2))
    samples = {
        what: [msgspec.structs.replace(each, wall_s=max(each.cpu_s, 1e-9)) for each in taken]
        for what, taken in samples.items()
    }
    none = GUARDED.format(0)
    goals = {GUARDED.format(WITH_GOAL): FACTS_GOAL}
    lines = [line(samples, what, none, goals.get(what)) for what in turns if what != none]
    with history.session() as session:
        text = str(build_pack(session))
    assert value(0, dead=False) in text
    wrong = "a pack shows a dead value" if any(value(each, dead=True) in text for each in range(TOLD)) else ""
    note = (
        f"Time on the processor. {FACTS_BEHIND:,} messages; half of the facts are dead, superseded by the other half. "
        f"{TOLD} of the dead values, and as many of the live ones, are told in a message that is in view: the guard has to "
        "find the former. Few turns are in view, so that the facts find room."
    )
    return Table(
        name=f"{NAME}, facts",
        title="facts beside the history, the guard on",
        ours="ours",
        theirs="no facts",
        lines=lines,
        notes=[note],
        wrong=wrong,
    )


def facts(count: int) -> Iterator[dict[str, Any]]:
    """Half of them dead: each key has a value, and then another."""
    for dead in (True, False):
        for number in range(count // 2):
            yield {"key": f"shipment {number} dock", "value": value(number, dead=dead)}


def change_fact(session: holdfast.Session) -> None:
    """Give the first of the facts that nobody told another value."""
    known = session.facts.get(f"shipment {TOLD} dock")
    assert known is not None
    session.facts.set(known.key, value(TOLD, dead=False) if known.value == "the yard" else "the yard")


def value(number: int, *, dead: bool) -> str:
    return f"{'Pier' if dead else 'Gate'} {number + 10_000} in Hamburg"


def shipment_text(number: int) -> str:
    return f"Shipment {number} was at {value(number, dead=True)}. Now it is at {value(number, dead=False)}."


# Frames


def measure_frames(bench: Bench, histories: Sequence[History]) -> Table:
    turns: dict[str, Turn] = {}
    with ExitStack() as stack:
        for each in histories:
            session = stack.enter_context(open_engine(each.path)).session(SESSION)
            frame = session.frame("the whole", budget=BUDGETS)
            for depth in range(1, DEPTH):
                frame = frame.frame(f"part {depth}", budget=BUDGETS // (depth + 1))
            for number in range(HANDLES):
                frame.handles.add("document", f"Page {number}: {ANSWER}", title=f"page {number}")
            record(frame, short(each.messages))
            turns[FRAMED.format(each.messages)] = frame_turn(frame)
        samples = bench.in_turns(bench.pick(7, 3), turns, slices=bench.pick(5, 2))
    small, large = turns
    return Table(
        name=f"{NAME}, frames",
        title=f"in a frame, {DEPTH} deep, with {HANDLES} handles",
        ours="ours",
        theirs=f"{histories[0].messages} messages",
        lines=[line(samples, large, small, FLAT)],
        notes=["The messages are those of the session; the frame has a dozen of its own."],
    )


def frame_turn(frame: holdfast.Frame) -> Turn:
    return lambda: pack_sample(frame)
