"""Many writers in one process share their commits: against one writer, the raw commit, and a bare loop of batches."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import FSYNC, Bench, Sample, Turn, limit_met, measure_each, measure_time, rate, rate_ratio
from benchmarks.raw_sqlite import RawLog
from benchmarks.report import Goal, Line, Table, per_second

T = TypeVar("T")

GOAL = Goal("at least", 4)
WRITERS = (1, 50, 500)
RAW = "raw"


def commits(path: Path) -> int:
    """SQLite's own count of transactions, from the header of the write-ahead log's index.

    Another process reads it: closing the file in this one would drop the locks that SQLite holds on it."""
    header = subprocess.run(["head", "-c", "12", f"{path}-shm"], check=True, capture_output=True).stdout
    (count,) = struct.unpack_from("=I", header, 8)
    return int(count)


def count_commits(path: Path, measure: Callable[[], Sample]) -> Sample:
    before = commits(path)
    sample = measure()
    return Sample(sample.operations, sample.wall_s, sample.cpu_s, commits(path) - before)


def write_in_threads(writers: Sequence[Callable[[T], object]], items: Sequence[T]) -> Sample:
    """Every writer has a thread of its own, and all start at once."""
    gate = threading.Barrier(len(writers) + 1)

    def write(writer: Callable[[T], object]) -> None:
        gate.wait()
        for item in items:
            writer(item)

    with ThreadPoolExecutor(len(writers)) as pool:
        running = [pool.submit(write, writer) for writer in writers]

        def work() -> None:
            gate.wait()
            for each in running:
                each.result()

        return measure_time(len(writers) * len(items), work)


def record_with(session: holdfast.Session) -> Callable[[str], object]:
    return lambda text: session.record(sample_messages.ROLE, text)


async def write_in_tasks(sessions: Sequence[holdfast.AsyncSession], texts: Sequence[str]) -> None:
    async def write(session: holdfast.AsyncSession) -> None:
        for text in texts:
            await session.record(sample_messages.ROLE, text)

    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(write(session))


class Batches:
    """The limit: what a bare loop commits when it gets as many inserts at a time as our writer had."""

    def __init__(self, raw: RawLog, operations: int) -> None:
        self._raw = raw
        self._operations = operations
        self.size = 1

    def turn(self) -> Sample:
        batches = -(-self._operations // self.size)
        payloads = [sample_messages.payload(number) for number in range(self.size)]
        return measure_time(
            batches * self.size, lambda: measure_each(self._raw.commit, [payloads] * batches), commits=batches
        )


def run(bench: Bench) -> Table:
    with asyncio.Runner() as loop, holdfast.open(bench.file("threads.db")) as engine:
        awaited = loop.run(holdfast.open_async(bench.file("tasks.db")))
        raw = RawLog(bench.file("raw.db"))
        try:
            return measure_writers(bench, engine, awaited, raw, loop.run)
        finally:
            raw.close()
            loop.run(awaited.close())


def measure_writers(
    bench: Bench,
    engine: holdfast.Engine,
    awaited: holdfast.AsyncEngine,
    raw: RawLog,
    wait: Callable[[Coroutine[Any, Any, Any]], Any],
) -> Table:
    sample_messages.warm(engine.store)
    sample_messages.warm(awaited.store.blocking)
    rounds, slices, target = bench.pick(7, 2), bench.pick(4, 2), bench.pick(3_000, 1_500)
    texts = [sample_messages.text(number) for number in range(target)]
    turns: dict[str, Turn] = {}
    limits: dict[str, Batches] = {}

    def add(what: str, path: Path, operations: int, measure: Callable[[], Sample]) -> None:
        """A contender, and beside it the limit for batches of the size it last had."""
        limit = limits[what] = Batches(raw, operations)

        def turn() -> Sample:
            sample = count_commits(path, measure)
            limit.size = max(1, round(sample.batch))
            return sample

        turns[what] = turn
        turns[limit_of(what)] = limit.turn

    singles = [sample_messages.payload(number) for number in range(target // 10)]
    turns[RAW] = lambda: measure_each(raw.commit_one, singles)
    for writers in WRITERS:
        each = texts[: max(1, target // (10 if writers == 1 else writers))]
        names = [f"of {writers}: {number}" for number in range(writers)]
        blocking = [record_with(engine.create_session(name)) for name in names]
        tasks = [wait(awaited.create_session(name)) for name in names]
        operations = writers * len(each)
        add(
            f"{writers} threads" if writers > 1 else "1 thread",
            bench.file("threads.db"),
            operations,
            lambda writers=blocking, each=each: write_in_threads(writers, each),  # type: ignore[misc]
        )
        add(
            f"{writers} tasks" if writers > 1 else "1 task",
            bench.file("tasks.db"),
            operations,
            lambda sessions=tasks, each=each, operations=operations: measure_time(  # type: ignore[misc]
                operations, lambda: wait(write_in_tasks(sessions, each))
            ),
        )
    return table(bench.in_turns(rounds, turns, slices=slices), list(limits), rounds)


def limit_of(what: str) -> str:
    return f"limit of {what}"


def table(samples: dict[str, list[Sample]], names: Sequence[str], rounds: int) -> Table:
    lines, notes = [], [f"{rounds} rounds; the raw commit of one payload: {per_second(rate(samples[RAW]))}."]
    for what in names:
        ours, limit = samples[what], samples[limit_of(what)]
        alone = samples["1 thread" if "thread" in what else "1 task"]
        many = not what.startswith("1 ")
        batch = sum(sample.batch for sample in ours) / len(ours)
        lines.append(
            Line(
                what=what,
                ours=per_second(rate(ours)),
                theirs=per_second(rate(samples[RAW])),
                ratio=rate_ratio(ours, samples[RAW]),
                goal=GOAL if many else None,
                limit=limit_met(ours, samples[FSYNC]),
            )
        )
        notes.append(
            f"{what}: {batch:.1f} commands a commit; {rate_ratio(ours, alone)} × one writer of ours; "
            f"{rate_ratio(ours, limit)} × a bare loop of such batches ({per_second(rate(limit))})."
        )
    return Table(
        name="group",
        title="concurrent writers, each on its own session",
        ours="ours",
        theirs="raw single commits",
        lines=lines,
        notes=notes,
    )
