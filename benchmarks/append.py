"""A durable append, against a raw INSERT and COMMIT of the same bytes."""

from __future__ import annotations

import itertools

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import FSYNC, Bench, Sample, each_us, limit_met, measure_each, time_ratio
from benchmarks.raw_sqlite import RawLog
from benchmarks.report import Goal, Line, Table, micros
from holdfast.storage.sqlite.store import SqliteStore

GOAL = Goal("at most", 1.6)


def run(bench: Bench) -> Table:
    commands, rounds, slices = 50, bench.pick(11, 3), bench.pick(20, 4)
    raw = RawLog(bench.file("raw.db"))
    store = SqliteStore(bench.file("store.db"))
    writing = sample_messages.StreamWriter("only")
    sample_messages.warm(store)
    store.append(writing.request(1))
    numbers = itertools.count()
    with holdfast.open(bench.file("engine.db")) as engine:
        sample_messages.warm(engine.store)
        session = engine.create_session("only")

        def raw_turn() -> Sample:
            payloads = [sample_messages.payload(next(numbers)) for _ in range(commands)]
            return measure_each(raw.commit_one, payloads)

        def store_turn() -> Sample:
            requests = writing.requests(commands)
            return measure_each(store.append, requests)

        def engine_turn() -> Sample:
            texts = [sample_messages.text(next(numbers)) for _ in range(commands)]
            return measure_each(lambda text: session.record("user", text), texts)

        turns = {"raw": raw_turn, "store.append": store_turn, "session.record": engine_turn}
        samples = bench.in_turns(rounds, turns, slices=slices)
    store.close()
    raw.close()
    lines = [
        Line(
            what=what,
            ours=micros(each_us(samples[what])),
            theirs=micros(each_us(samples["raw"])),
            ratio=time_ratio(samples[what], samples["raw"]),
            goal=GOAL,
            limit=limit_met(samples[what], samples[FSYNC]),
        )
        for what in ("session.record", "store.append")
    ]
    notes = [
        f"{rounds} rounds of {slices} turns of {commands} appends; a payload has {len(sample_messages.payload(0))} bytes.",
        f"raw: {limit_met(samples['raw'], samples[FSYNC])}; one fsync {micros(each_us(samples[FSYNC]))}.",
    ]
    return Table(
        name="append", title="one durable append", ours="ours", theirs="raw apsw commit", lines=lines, notes=notes
    )
