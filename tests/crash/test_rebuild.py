"""Promise 10: rows are dropped and made anew from the log to the same bytes, on every backend and under any hash seed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

import holdfast
from holdfast import Body, File
from holdfast.model.rows import TABLES
from tests.property.tools import all_events, digest, dump, fast_folder, rows_dump
from tests.support import CountingIds, SteppingClock, figure

EVENTS = figure(20_000, 1_000_000)
SEEDED = figure(1_000, 10_000)
SESSION_EVENTS = 50
ROOT = Path(__file__).parents[2]
MEMORY = "memory:"


class Order(NamedTuple):
    """One step of a session's life."""

    what: str
    text: str = ""
    key: str | None = None
    seqs: tuple[int, ...] = ()


def life(number: int) -> Iterator[Order]:
    """The orders of one session, SESSION_EVENTS in all: every kind of event, some with keys, some with bodies."""
    rng = random.Random(number)
    for seq in range(2, SESSION_EVENTS):
        text = f"message {seq} of session {number}: {'word ' * rng.randrange(6)}"
        if rng.random() < 0.02:
            yield Order("erase", text, seqs=tuple(rng.sample(range(1, seq), min(3, seq - 1))))
        else:
            what = "body" if rng.random() < 0.05 else "record"
            yield Order(what, text, key=f"{number}/{seq}" if rng.random() < 0.2 else None)
    yield Order("close", f"done with {number}") if number % 4 == 0 else Order("record", "the last word")


def obey(engine: holdfast.Engine, session: holdfast.Session, order: Order) -> None:
    match order.what:
        case "record":
            session.record("user", order.text, key=order.key)
        case "body":
            ref = engine.put_blob(order.text.encode() * 20, media_type="text/plain")
            session.record("user", [Body(ref, order.text[:10]), File(ref), order.text], key=order.key)
        case "close":
            session.close(order.text)
        case "erase":
            session.erase(order.seqs, order.text)


def create(engine: holdfast.Engine, number: int) -> holdfast.Session:
    return engine.create_session(
        f"session {number}",
        actor=f"actor {number % 7}",
        thread="side" if number % 5 == 0 else None,
        metadata={"b": 1, "a": [number]},
        key=f"create {number}" if number % 3 == 0 else None,
    )


def open_scripted(url: str | os.PathLike[str], events: int) -> holdfast.Engine:
    """An engine with a history that is the same in every run: many sessions, taking turns."""
    engine = holdfast.open(url, clock=SteppingClock(), ids=CountingIds())
    lives = [(create(engine, number), life(number)) for number in range(events // SESSION_EVENTS)]
    for turn in range(1, SESSION_EVENTS):
        for session, orders in lives[:: 1 if turn % 2 else -1]:
            obey(engine, session, next(orders))
    return engine


def print_digest(url: str) -> None:
    """For a process with another hash seed: what a history looks like there, before and after a rebuild."""
    with open_scripted(url, SEEDED) as engine:
        before = digest(engine)
        engine.rebuild()
        print(before, digest(engine))


def raw_rows(path: Path) -> list[list[tuple[object, ...]]]:
    """Every column of every row, also those that only the file knows."""
    connection = apsw.Connection(str(path))
    tables = [list(connection.execute(f"SELECT * FROM {t.table} ORDER BY {', '.join(t.key)}")) for t in TABLES]
    connection.close()
    return tables


def spoil(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    for table in TABLES:
        connection.execute(statement.format(table=table.table))
    connection.close()


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with fast_folder() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    """A file with the whole history."""
    path = folder / "history.db"
    open_scripted(path, EVENTS).close()
    return path


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM {table}", "DELETE FROM {table} WHERE stream_no % 3 = 0", "UPDATE {table} SET actor = actor || '!'"],
    ids=["dropped", "partly dropped", "scrambled"],
)
def test_rows_are_made_anew_to_the_same_bytes(path: Path, damage: str) -> None:
    before = raw_rows(path)
    assert all(before)
    spoil(path, damage)
    assert raw_rows(path) != before
    with holdfast.open(path) as engine:
        assert not engine.verify().ok
        assert engine.rebuild() == EVENTS // SESSION_EVENTS
        assert raw_rows(path) == before
        engine.rebuild()
        assert raw_rows(path) == before
        report = engine.verify()
    assert report.problems == ()
    assert report.events == EVENTS


def test_the_same_history_in_memory_and_in_a_file_is_the_same_to_the_byte(path: Path) -> None:
    with holdfast.open(path) as file, open_scripted(MEMORY, EVENTS) as memory:
        assert sum(1 for _ in all_events(memory)) == EVENTS
        assert dump(memory) == dump(file)
        memory.rebuild()
        assert rows_dump(memory) == rows_dump(file)
        assert memory.store.heads(limit=1_000) == file.store.heads(limit=1_000)


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_the_hash_seed_of_the_process_changes_nothing(folder: Path, kind: str) -> None:
    digests = set()
    for seed in ("0", "1", "4242", "random"):
        url = MEMORY if kind == "memory" else str(folder / f"seed-{seed}.db")
        code = f"from tests.crash.test_rebuild import print_digest; print_digest({url!r})"
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
        )
        digests.update(said.stdout.split())
    with open_scripted(MEMORY, SEEDED) as here:
        assert digests == {digest(here)}


def test_a_file_made_by_other_code_is_rebuilt_when_it_is_opened(folder: Path) -> None:
    path = folder / "older.db"
    open_scripted(path, SESSION_EVENTS * 4).close()
    before = raw_rows(path)
    spoil(path, "DELETE FROM {table}")
    spoil(path, "UPDATE projection SET version = 0")
    holdfast.open(path).close()
    assert raw_rows(path) == before


def test_a_rebuild_ends_right_while_others_write(folder: Path) -> None:
    path = folder / "busy.db"
    with holdfast.open(path) as engine:
        long = engine.create_session("long")
        for number in range(1_000):
            long.record("user", f"message {number}")
        stop = threading.Event()
        failed: list[BaseException] = []

        def write(name: str) -> None:
            try:
                number = 0
                while not stop.is_set():
                    number += 1
                    long.record("user", f"{name} {number}", key=f"{name} {number}")
                    create(engine, int(name) * 1_000_000 + number).record("user", "hello")
            except BaseException as error:
                failed.append(error)

        writers = [threading.Thread(target=write, args=(name,)) for name in ("1", "2")]
        for writer in writers:
            writer.start()
        try:
            for _ in range(figure(3, 30)):
                assert engine.rebuild() > 0
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        assert failed == []
        before = rows_dump(engine)
        assert engine.verify().problems == ()
        engine.rebuild()
        assert rows_dump(engine) == before
