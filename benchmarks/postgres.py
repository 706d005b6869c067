"""Holdfast on PostgreSQL: durable appends against a raw INSERT, many processes, long sessions, and what others keep there.

The server has its own defaults: every commit is synced before it is answered for.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from tests.postgres_server import SOCKET_FOLDER, PostgresServer

import holdfast
from benchmarks import agents, group, growth, postgres_processes, sample_messages
from benchmarks.harness import (
    FSYNC,
    Bench,
    Sample,
    Samples,
    Turn,
    file_system,
    limit_met,
    measure_each,
    measure_time,
    rate,
    rate_ratio,
    time_ratio,
)
from benchmarks.postgres_meter import Meter
from benchmarks.report import Goal, Line, Table, per_second

GOAL = Goal("at most", 2)
TOGETHER = Goal("at least", 3)
CONNECTIONS = (1, 8, 64)
THREADS, TASKS, RAW, AUTOCOMMIT = "threads", "tasks", "raw", "raw in autocommit"
WARM_BYTES = 96 << 20
SIZES = (100, 1_000, 10_000)
WINDOW_TOKENS = 8_000
LAYOUT, WINDOW = "one session", f"window of {WINDOW_TOKENS:,} tokens"


def run(bench: Bench) -> list[Table]:
    with ExitStack() as stack:
        server = PostgresServer(parent=SOCKET_FOLDER)
        stack.callback(server.remove)
        meter = stack.enter_context(closing(Meter(server)))
        # the probe syncs the disk that the server has
        probed = stack.enter_context(tempfile.TemporaryDirectory(dir=Path(server.folder).parent))
        bench = msgspec.structs.replace(bench, folder=Path(probed))
        warm(server)
        tables = [
            appends(bench, server, meter),
            postgres_processes.measure_processes(bench, server.url(), meter),
            measure_growth(bench, server, meter),
        ]
        return [*tables, *agents.on_postgres(bench, server.url, meter.metered)]


def warm(server: PostgresServer) -> None:
    """Past the first checkpoint, the files of the write-ahead log are used again, and a sync costs what it costs then."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE log (position bigserial PRIMARY KEY, payload bytea NOT NULL)")
        connection.execute("CREATE TABLE warm (payload bytea NOT NULL)")
        connection.execute("ALTER TABLE warm ALTER payload SET STORAGE EXTERNAL")
        for _ in range(WARM_BYTES >> 20):
            connection.execute("INSERT INTO warm VALUES (%s)", (bytes(1 << 20),))
        connection.execute("DROP TABLE warm")
        connection.execute("CHECKPOINT")


def schema(server: PostgresServer, name: str) -> str:
    return f"{server.url()}&schema={name}"


def insert_with(connection: psycopg.Connection[Any]) -> Callable[[bytes], object]:
    """Durable when it returns; a transaction of its own is begun and ended for it, unless the connection commits itself."""

    def insert(payload: bytes) -> None:
        connection.execute("INSERT INTO log (payload) VALUES (%s)", (payload,))
        connection.commit()

    return insert


def appends(bench: Bench, server: PostgresServer, meter: Meter) -> Table:
    rounds, slices = bench.pick(7, 2), bench.pick(3, 1)
    with ExitStack() as stack:
        loop = stack.enter_context(asyncio.Runner())
        engine = stack.enter_context(holdfast.open(schema(server, THREADS)))
        awaited = loop.run(holdfast.open_async(schema(server, TASKS)))
        stack.callback(lambda: loop.run(awaited.close()))

        def connected(autocommit: bool) -> Callable[[bytes], object]:
            return insert_with(stack.enter_context(psycopg.connect(server.url(), autocommit=autocommit)))

        turns: dict[str, Turn] = {}
        for writers in CONNECTIONS:
            numbers = range(bench.pick(1_024, 512) // max(writers, 8))
            texts, payloads = (
                [sample_messages.text(each) for each in numbers],
                [sample_messages.payload(each) for each in numbers],
            )
            sessions = [f"of {writers}: {number}" for number in range(writers)]
            turns |= {
                f"{writers} {RAW}": thread_turn([connected(False) for _ in sessions], payloads),
                f"{writers} {AUTOCOMMIT}": thread_turn([connected(True) for _ in sessions], payloads),
                f"{writers} {THREADS}": thread_turn(
                    [group.record_with(engine.create_session(session)) for session in sessions], texts
                ),
                f"{writers} {TASKS}": task_turn(
                    loop.run, [loop.run(awaited.create_session(session)) for session in sessions], texts
                ),
            }
        metered = {name: meter.metered(turn) for name, turn in turns.items()}
        samples = bench.in_turns(rounds, metered, slices=slices)
    return append_table(samples, rounds, bench)


def thread_turn(writers: Sequence[Callable[[Any], object]], items: Sequence[Any]) -> Turn:
    if len(writers) == 1:
        return lambda: measure_each(writers[0], items)
    return lambda: group.write_in_threads(writers, items)


def task_turn(
    wait: Callable[[Coroutine[Any, Any, None]], None], sessions: Sequence[holdfast.AsyncSession], texts: Sequence[str]
) -> Turn:
    return lambda: measure_time(len(sessions) * len(texts), lambda: wait(group.write_in_tasks(sessions, texts)))


def append_table(samples: Samples, rounds: int, bench: Bench) -> Table:
    notes = [
        f"{rounds} rounds; a payload has {len(sample_messages.payload(0))} bytes.",
        "Among transactions are the hints that processes send each other.",
    ]
    lines = []
    for writers in CONNECTIONS:
        for ours, theirs in itertools.product((THREADS, TASKS), (RAW, AUTOCOMMIT)):
            mine, other = samples[f"{writers} {ours}"], samples[f"{writers} {theirs}"]
            lines.append(
                Line(
                    what=f"{writers} {ours if writers > 1 else ours[:-1]}: {theirs}",
                    ours=per_second(rate(mine)),
                    theirs=per_second(rate(other)),
                    ratio=time_ratio(mine, other),
                    goal=GOAL if theirs == RAW else None,
                    limit=limit_met(mine, samples[FSYNC]),
                )
            )
        for contender in (RAW, AUTOCOMMIT, THREADS, TASKS):
            name = f"{writers} {contender}"
            done = Sample.total(samples[name])
            limit = f"; {limit_met(samples[name], samples[FSYNC])}" if contender in (RAW, AUTOCOMMIT) else ""
            syncs = max(done.commits - done.shared, 1)
            notes.append(f"{name}: {done.batch:.1f} a transaction, {done.operations / syncs:.1f} a sync{limit}.")
    many, one = samples[f"{CONNECTIONS[-1]} {TASKS}"], samples[f"{CONNECTIONS[0]} {RAW}"]
    lines.append(
        Line(
            what=f"{CONNECTIONS[-1]} {TASKS}: one raw connection, rate over rate",
            ours=per_second(rate(many)),
            theirs=per_second(rate(one)),
            ratio=rate_ratio(many, one),
            goal=TOGETHER,
            limit=limit_met(many, samples[FSYNC]),
        )
    )
    notes.append(f"The server keeps its data on {file_system(bench.folder)}. Ratios are of times, but for the last.")
    return Table(
        name="postgres",
        title="durable appends, each writer on a session or connection of its own",
        ours="ours",
        theirs="psycopg INSERT",
        lines=lines,
        notes=notes,
    )


def measure_growth(bench: Bench, server: PostgresServer, meter: Meter) -> Table:
    histories = [growth.History(LAYOUT, size, schema(server, f"behind_{size}"), ("long",)) for size in SIZES]
    rounds, slices = bench.pick(9, 3), bench.pick(5, 2)
    for each in histories:
        with holdfast.open(each.address) as engine:
            sample_messages.fill(engine.store, "long", each.events)
    openings = {each.name(growth.OPEN): meter.metered(growth.open_turn(each)) for each in histories}
    opened = bench.in_turns(rounds, openings, slices=slices)
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for each in histories:
            session = stack.enter_context(holdfast.open(each.address)).session("long")
            turns[each.name(growth.APPEND)] = meter.metered(growth.append_turn([session]))
            turns[each.name(WINDOW)] = meter.metered(windows(session))
        worked = bench.in_turns(rounds, turns, slices=slices)
    parts = [(LAYOUT, action) for action in (growth.OPEN, growth.APPEND, WINDOW)]
    return Table(
        name="postgres",
        title="with a session behind",
        ours="ours",
        theirs=f"with {SIZES[0]} events",
        lines=growth.compare_sizes(dict(opened) | worked, parts, SIZES, worked[FSYNC], opened[FSYNC]),
        notes=["To open is to connect, to look at the schema, to load the session, and to append to it."],
    )


def windows(session: holdfast.Session) -> Turn:
    def read(tokens: int) -> None:
        assert session.context.window(tokens=tokens).messages

    return lambda: measure_each(read, [WINDOW_TOKENS] * 10)
