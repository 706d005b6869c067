"""What a long history costs: append, open to first append, and reading the tail, with more and more events behind."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import (
    FSYNC,
    Bench,
    Sample,
    Samples,
    Turn,
    each_us,
    limit_met,
    measure_each,
    measure_time,
    rate,
    rate_ratio,
    time_ratio,
)
from benchmarks.report import Goal, Line, Table, micros, per_second
from holdfast.model import limits

GOAL = Goal("at most", 1.5)
SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
MAINTENANCE_SIZES = SIZES[:4]
"""Verify and rebuild read everything: their price grows with the log, their rate should not fall."""
SESSION_EVENTS = 50
TAIL = 50
LAYOUTS = ("one session", "many sessions")
OPEN, APPEND, READ = ACTIONS = ("open to first append", "append", f"last {TAIL} messages")
VERIFY, REBUILD = MAINTENANCE = ("verify", "rebuild")


class History(msgspec.Struct, frozen=True):
    """A store with events in it, and the sessions that are worked on: as many in a large one as in a small one."""

    layout: str
    events: int
    address: Path | str
    sessions: tuple[str, ...]

    def name(self, action: str) -> str:
        return name(self.layout, action, self.events)


def name(layout: str, action: str, events: int) -> str:
    return f"{layout}: {action}, {events:,} events"


def run(bench: Bench) -> Table:
    sizes = SIZES[: bench.pick(5, 3)]
    histories = [make(bench.file(f"{events}.db"), events) for events in sizes for make in (one_long, many_short)]
    rounds = bench.pick(9, 3)
    openings = {each.name(OPEN): open_turn(each) for each in histories}
    samples = bench.in_turns(rounds, openings, slices=bench.pick(5, 3))
    with ExitStack() as stack:
        engines = [stack.enter_context(holdfast.open(each.address)) for each in histories]
        turns: dict[str, Turn] = {}
        care: dict[str, Turn] = {}
        for each, engine in zip(histories, engines, strict=True):
            sessions = [engine.session(session) for session in each.sessions]
            turns |= {each.name(APPEND): append_turn(sessions), each.name(READ): read_turn(sessions)}
            if each.events in MAINTENANCE_SIZES:
                care |= {each.name(VERIFY): verify_turn(engine), each.name(REBUILD): rebuild_turn(engine)}
        working = bench.in_turns(rounds, turns, slices=bench.pick(5, 3))
        grown = max(engine.admin.totals().events for engine in engines[: len(LAYOUTS)])
        caring = bench.in_turns(bench.pick(3, 1), care)
    parts = [(layout, action) for layout in LAYOUTS for action in ACTIONS]
    lines = compare_sizes(samples | working, parts, sizes, working[FSYNC], samples[FSYNC])
    lines += maintenance_lines(caring, [size for size in sizes if size in MAINTENANCE_SIZES])
    return Table(
        name="growth",
        title="with a history behind",
        ours="ours",
        theirs=f"with {sizes[0]} events",
        lines=lines,
        notes=[
            f"Many sessions have {SESSION_EVENTS} events each. Reads are of the cached file; rates are events a second.",
            f"Measuring adds events: the histories of {sizes[0]} ended with {grown:,}.",
        ],
    )


def one_long(path: Path, events: int) -> History:
    path = path.with_stem(f"one-{path.stem}")
    with holdfast.open(path) as engine:
        sample_messages.fill(engine.store, "long", events)
    return History(LAYOUTS[0], events, path, ("long",))


def many_short(path: Path, events: int) -> History:
    """One append makes several sessions, so that filling does not take an hour."""
    path = path.with_stem(f"many-{path.stem}")
    names = [f"short-{number:06d}" for number in range(events // SESSION_EVENTS)]
    together = limits.COMMAND_EVENTS // SESSION_EVENTS
    with holdfast.open(path) as engine:
        for start in range(0, len(names), together):
            parts = [
                sample_messages.StreamWriter(each).request(SESSION_EVENTS) for each in names[start : start + together]
            ]
            writes = tuple(write for part in parts for write in part.writes)
            engine.store.append(msgspec.structs.replace(parts[0], writes=writes))
    return History(LAYOUTS[1], events, path, (names[0], names[len(names) // 2]))


def open_turn(history: History) -> Turn:
    """Nobody else has the store open: the first to open it, as a new process would be."""

    def turn() -> Sample:
        engines: list[holdfast.Engine] = []

        def work() -> None:
            engine = holdfast.open(history.address)
            engines.append(engine)
            engine.session(history.sessions[-1]).record(sample_messages.ROLE, sample_messages.PROSE)

        sample = measure_time(1, work, commits=1)
        engines[0].close()
        return sample

    return turn


def append_turn(sessions: Sequence[holdfast.Session]) -> Turn:
    pairs = [
        (session, sample_messages.text(number))
        for number, session in zip(range(10), itertools.cycle(sessions), strict=False)
    ]
    return lambda: measure_each(lambda pair: pair[0].record(sample_messages.ROLE, pair[1]), pairs)


def read_turn(sessions: Sequence[holdfast.Session]) -> Turn:
    def read(session: holdfast.Session) -> None:
        found = session.messages(limit=TAIL)
        assert len(found) >= TAIL - 1  # the first event of a session is not a message

    turns = [session for _, session in zip(range(10), itertools.cycle(sessions), strict=False)]

    def turn() -> Sample:
        return msgspec.structs.replace(measure_each(read, turns), commits=0)

    return turn


def verify_turn(engine: holdfast.Engine) -> Turn:
    def work() -> None:
        report = engine.admin.verify()
        assert report.ok, report.problems

    return lambda: measure_time(engine.admin.totals().events, work)


def rebuild_turn(engine: holdfast.Engine) -> Turn:
    return lambda: measure_time(
        engine.admin.totals().events, engine.admin.rebuild, commits=engine.admin.totals().streams
    )


def compare_sizes(
    samples: Samples,
    parts: Sequence[tuple[str, str]],
    sizes: Sequence[int],
    fsync: Sequence[Sample],
    fsync_opening: Sequence[Sample],
) -> list[Line]:
    """Each layout and action at each size, over the same at the smallest."""
    return [
        Line(
            what=name(layout, action, size),
            ours=micros(each_us(samples[name(layout, action, size)])),
            theirs=micros(each_us(samples[name(layout, action, sizes[0])])),
            ratio=time_ratio(samples[name(layout, action, size)], samples[name(layout, action, sizes[0])]),
            goal=GOAL,
            limit=limit_met(samples[name(layout, action, size)], fsync_opening if action == OPEN else fsync),
        )
        for layout, action in parts
        for size in sizes[1:]
    ]


def maintenance_lines(samples: Samples, sizes: Sequence[int]) -> list[Line]:
    return [
        Line(
            what=name(layout, action, size),
            ours=per_second(rate(samples[name(layout, action, size)])),
            theirs=per_second(rate(samples[name(layout, action, sizes[0])])),
            ratio=rate_ratio(samples[name(layout, action, size)], samples[name(layout, action, sizes[0])]),
            limit=limit_met(samples[name(layout, action, size)], samples[FSYNC]),
        )
        for layout in LAYOUTS
        for action in MAINTENANCE
        for size in sizes
    ]
