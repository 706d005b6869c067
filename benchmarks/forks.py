"""What a fork costs, by the length of the conversation that it shares, and by its depth."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from pathlib import Path

import holdfast
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table

FLAT = Goal("at most", 3)
LENGTHS = (100, 1_000, 10_000)
DEPTHS = (1, 8, 64, 512)
BUDGET = 64_000
BATCH = 100


def fill(session: holdfast.Session, messages: int) -> None:
    for start in range(0, messages, BATCH):
        session.record_all(
            [
                (("user", "assistant")[at % 2], f"line {at} about the lamp in the hall")
                for at in range(start, start + BATCH)
            ]
        )


def measure_cpu(work: Callable[[], object]) -> float:
    """Milliseconds on the processor."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def measure_lengths(bench: Bench) -> list[Line]:
    """A fork at the newest message, and the bytes that it adds."""
    lines: list[Line] = []
    first: list[float] = []
    for length in LENGTHS:
        path = bench.file(f"length-{length}.db")
        with holdfast.open(path) as engine:
            session = engine.create_session("talk")
            fill(session, length)
            session.fork()
        before = path.stat().st_size
        with holdfast.open(path) as engine:
            session = engine.session("talk")
            session.pack(budget=BUDGET)
            rounds = bench.pick(50, 20)
            times = [measure_cpu(session.fork) for _ in range(rounds)]
        added = (path.stat().st_size - before) / rounds
        first = first or times
        lines.append(
            Line(
                what=f"fork() of {length:,} messages",
                ours=f"{sorted(times)[rounds // 2]:,.2f} ms, {added / 1e3:,.1f} KB",
                theirs=f"{sorted(first)[rounds // 2]:,.2f} ms",
                ratio=Spread.of([one / other for one, other in zip(sorted(times), sorted(first), strict=True)]),
                goal=FLAT if length != LENGTHS[0] else None,
            )
        )
    return lines


def build_chain(path: Path, depth: int) -> str:
    """A session beside a chain of forks, each with a question and an answer of its own. Returns the name of the last."""
    with holdfast.open(path) as engine:
        plain, session = engine.create_session("plain"), engine.create_session("root")
        for number in range(depth):
            for each in (plain, session):
                each.record_all([("user", f"question {number} about the lamp"), ("assistant", f"answer {number}")])
            session = session.fork(as_=f"fork-{number}")
        return session.id


def measure_depth(bench: Bench, depth: int) -> list[Line]:
    """A pack of the last fork of a chain, over one of a session with the same messages."""
    path = bench.file(f"depth-{depth}.db")
    last = build_chain(path, depth)
    cold: dict[str, list[float]] = {"plain": [], last: []}
    warm: dict[str, list[float]] = {"plain": [], last: []}
    for _ in range(bench.pick(9, 5)):
        for name in ("plain", last):
            with holdfast.open(path) as engine:
                build = functools.partial(engine.session(name).pack, budget=BUDGET)
                cold[name].append(measure_cpu(build))
                warm[name].append(measure_cpu(build))
    return [
        Line(
            what=f"pack(), {what}, over {depth:,} forks",
            ours=f"{sorted(taken[last])[len(taken[last]) // 2]:,.2f} ms",
            theirs=f"{sorted(taken['plain'])[len(taken['plain']) // 2]:,.2f} ms",
            ratio=Spread.of(
                [one / other for one, other in zip(sorted(taken[last]), sorted(taken["plain"]), strict=True)]
            ),
        )
        for what, taken in (("the first", cold), ("again", warm))
    ]


def run(bench: Bench) -> list[Table]:
    depths = DEPTHS[: bench.pick(4, 3)]
    return [
        Table(
            name="forks",
            title="a fork at the newest message",
            ours="ours",
            theirs=f"{LENGTHS[0]} messages",
            lines=measure_lengths(bench),
            notes=["Time on the processor, and what one fork adds to the file."],
        ),
        Table(
            name="forks, depth",
            title="a conversation that is spread over a chain of forks, two messages each",
            ours="last fork",
            theirs="no fork",
            lines=[line for depth in depths for line in measure_depth(bench, depth)],
            notes=["Time on the processor. The first pack is that of a newly opened engine."],
        ),
    ]
