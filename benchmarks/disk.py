"""What an event costs on disk beyond its payload, and that this does not grow with the history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast.adapters.system import RandomIds

GOAL = Goal("at most", 400)
LINEAR = Goal("at most", 1.1)
SIZES = (1_000, 10_000, 100_000)
SESSIONS = 100


def mixed_text(number: int) -> str:
    return (sample_messages.PROSE * 2)[: 100 + number * 211 % 800]


LENGTHS: dict[str, Callable[[int], str]] = {"equal": sample_messages.text, "mixed": mixed_text}
"""With one length for all, how many events fit a page is luck, good or bad; with many it evens out. Both are shown."""


async def write(path: Path, events: int, text: Callable[[int], str], *, keyed: bool) -> None:
    """Commands of one event each, from many sessions at once: how they share commits does not show in the file."""
    ids = RandomIds()
    async with await holdfast.open_async(path) as engine:

        async def one_session(name: str, messages: int) -> None:
            session = await engine.create_session(name, key=ids.command_id() if keyed else None)
            for number in range(messages):
                key = ids.command_id() if keyed else None
                await session.record(sample_messages.ROLE, text(number), key=key)

        async with asyncio.TaskGroup() as group:
            for number in range(SESSIONS):
                group.create_task(one_session(f"session-{number}", events // SESSIONS - 1))


def payload_bytes(path: Path, events: int) -> int:
    """What the log keeps of the messages themselves."""
    with holdfast.open(path) as engine:
        total = found = 0
        cursor = ""
        while (page := engine.admin.feed(cursor, limit=1_000)).events:
            total += sum(len(event.payload or b"") for event in page.events)
            found += len(page.events)
            cursor = page.cursor
        assert found == events
        return total


def run(bench: Bench) -> Table:
    sizes = SIZES[: bench.pick(3, 2)]
    lines = [
        line
        for length, text in LENGTHS.items()
        for keyed in (False, True)
        for line in measure_sizes(
            bench, sizes, f"{length} lengths, {'keys' if keyed else 'no keys'}", text, keyed=keyed
        )
    ]
    return Table(
        name="disk",
        title="bytes on disk an event; the ratio is what comes on top of the payload",
        ours="file",
        theirs="payload",
        lines=lines,
        notes=[f"After the last checkpoint; commands of one event each, from {SESSIONS} sessions."],
    )


def measure_sizes(
    bench: Bench, sizes: tuple[int, ...], kind: str, text: Callable[[int], str], *, keyed: bool
) -> list[Line]:
    lines: list[Line] = []
    over: list[float] = []
    for events in sizes:
        path = bench.file(f"{kind} {events}.db")
        asyncio.run(write(path, events, text, keyed=keyed))
        inside = payload_bytes(path, events)
        size = path.stat().st_size  # the last to close has moved the write-ahead log into it
        over.append((size - inside) / events)
        lines.append(
            Line(
                what=f"{events:,} events, {kind}",
                ours=f"{size / events:,.0f} bytes",
                theirs=f"{inside / events:,.0f} bytes",
                ratio=Spread.of([over[-1]]),
                goal=GOAL,
            )
        )
    lines.append(
        Line(
            what=f"overhead at {sizes[-1]:,} over {sizes[-2]:,}, {kind}",
            ours=f"{over[-1]:,.0f} bytes",
            theirs=f"{over[-2]:,.0f} bytes",
            ratio=Spread.of([over[-1] / over[-2]]),
            goal=LINEAR,
        )
    )
    return lines
