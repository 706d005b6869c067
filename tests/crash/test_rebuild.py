"""Promise 10: rows are dropped and made anew from the log to the same bytes, on every backend and under any hash seed."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import apsw
import psycopg
import pytest

import holdfast
from holdfast import File
from holdfast.model.rows import TABLES
from holdfast.storage.postgres.connect import parse_address
from holdfast.types import Body
from tests.postgres import empty_url
from tests.property.store_tools import Kind, all_events, digest, fast_folder, rows_dump, store_of_kind
from tests.support import SOAK, CountingIds, SteppingClock, common_folder, figure

EVENTS = figure(4_000, 1_000_000)
SEEDED: dict[Kind, int] = {
    "memory": figure(200, 10_000),
    "sqlite": figure(200, 10_000),
    "postgres": figure(100, 10_000),
}
SEEDS = ("0", "1", "4242", "random")
SESSION_EVENTS = 50
TURNS = (1, 2, 3, 5, 8, 13, 17)
"""How many events a session adds when it is its turn again."""
BESIDES = (
    ("know", "derive", "hear", "save"),
    ("push", "handle", "replace", "suspend"),
    ("set", "observe", "put away", "page out", "page in", "page out", "compact"),
)
"""What happens beside messages, in one session or another."""
ROOT = Path(__file__).parents[2]
MEMORY = "memory:"

pytestmark = pytest.mark.promise(
    10, f"rebuild of {EVENTS:,} events: same bytes on both backends and under any hash seed"
)


class Order(NamedTuple):
    """One step of a session's life."""

    what: str
    text: str = ""
    key: str | None = None
    seqs: tuple[int, ...] = ()


def life(number: int) -> Iterator[Order]:
    """The orders of one session, SESSION_EVENTS at least: every kind of event, some with keys, some with bodies."""
    rng = random.Random(number)
    besides = BESIDES[number % 3]
    for seq in range(2, SESSION_EVENTS - len(besides)):
        text = f"message {seq} of session {number}: {'word ' * rng.randrange(6)}"
        if rng.random() < 0.02:
            yield Order("erase", text, seqs=tuple(rng.sample(range(1, seq), min(3, seq - 1))))
        else:
            what = "body" if rng.random() < 0.05 else "record"
            yield Order(what, text, key=f"{number}/{seq}" if rng.random() < 0.2 else None)
    yield from (Order(what, f"{what} in session {number}") for what in besides)
    yield Order("close", f"done with {number}") if number % 4 == 0 else Order("record", "the last word")


def obey(engine: holdfast.Engine, session: holdfast.Session, order: Order) -> None:
    match order.what:
        case "record":
            session.record("user", order.text, key=order.key)
        case "body":
            ref = engine.blobs.put(order.text.encode() * 20, media_type="text/plain")
            session.record("user", [Body(ref, order.text[:10]), File(ref), order.text], key=order.key)
        case "close":
            session.end(order.text)
        case "erase":
            session.erase(order.seqs, order.text)
        case "set":
            session.working.set("draft", {"text": order.text}, ttl_s=60)
        case "observe":
            session.environment.set("location", order.text)
        case "put away":
            session.working.clear()
        case "save":
            session.entries.append("checkpoint", order.text, {"texts": [f"{order.text} {at} " * 9 for at in range(20)]})
        case "push" | "handle" | "replace" | "suspend":
            work(session, order)
        case "page out" | "page in" | "compact":
            show(session, order)
        case _:
            learn(session, order)


def work(session: holdfast.Session, order: Order) -> None:
    match order.what:
        case "push":
            session.frame(order.text, budget=100, timeout_s=60)
        case "handle":
            session.frames.get(session.frames.list()[-1]).handles.add("document", order.text, source="a page")
        case "replace":
            frame = session.frames.get(session.frames.list()[-1])
            frame.handles.replace(frame.handles.attachments()[-1], f"{order.text}, again")
        case "suspend":
            session.frames.get(session.frames.list()[-1]).suspend(order.text)


def show(session: holdfast.Session, order: Order) -> None:
    match order.what:
        case "page out":
            session.handles.page_out(f"h{session.record('user', order.text * 30).seq}_0", tier="semantic")
        case "page in":
            session.handles.page_in(session.handles.list()[-1])
        case "compact":
            session.record("assistant", "what came before was seen")
            assert session.context.compact(strategy=holdfast.types.SummarizeOldest(keep_recent=5), window=8_000).at


def learn(session: holdfast.Session, order: Order) -> None:
    match order.what:
        case "know":
            session.ledger().set("meeting", "Tuesday", reason=order.text)
        case "derive":
            session.ledger().set("room", order.text, depends_on="meeting")
        case "hear":
            heard = session.observe("Actually, the meeting is on Thursday.")
            assert [each.outcome for each in heard.proposals] == ["applied"]


def create(engine: holdfast.Engine, number: int) -> holdfast.Session:
    return engine.create_session(
        f"session {number}",
        actor=f"actor {number % 7}",
        thread="side" if number % 5 == 0 else None,
        metadata={"b": 1, "a": [number]},
        identity=holdfast.Identity(user_id=f"u{number}", permissions=("b", "a")) if number % 3 == 2 else None,
        key=f"create {number}" if number % 3 == 0 else None,
    )


def open_scripted(url: str | os.PathLike[str], events: int) -> holdfast.Engine:
    """An engine with a history that is the same in every run: many sessions, taking turns."""
    engine = holdfast.open(url, clock=SteppingClock(), ids=CountingIds())
    lives = [(create(engine, number), life(number)) for number in range(events // SESSION_EVENTS)]
    for turn, length in enumerate(TURNS):
        for session, orders in lives[:: -1 if turn % 2 else 1]:
            for order in islice(orders, length):
                obey(engine, session, order)
    return engine


def print_digest(url: str, events: int) -> None:
    """For a process with another hash seed: what a history looks like there, before and after a rebuild."""
    with open_scripted(url, events) as engine:
        before = digest(engine)
        engine.admin.rebuild()
        print(before, digest(engine))


class Store(NamedTuple):
    """One that can be looked into, and meddled with, behind the engine's back."""

    kind: Kind
    url: str

    def execute(self, *statements: str) -> list[list[tuple[Any, ...]]]:
        if self.kind == "sqlite":
            with closing(apsw.Connection(self.url)) as file:
                return [list(file.execute(statement)) for statement in statements]
        with psycopg.connect(parse_address(self.url).info) as server:
            server.execute("SELECT act_for(NULL)")
            cursors = [server.execute(cast("Any", statement)) for statement in statements]
            return [cursor.fetchall() if cursor.description else [] for cursor in cursors]

    def raw_rows(self) -> list[list[tuple[Any, ...]]]:
        """Every column of every row, and the stream that it belongs to; but not where a store happens to keep it."""
        columns = {table: ", ".join(("stream_no", *table.__struct_fields__)) for table in TABLES}
        return self.execute(
            *(f"SELECT {columns[table]} FROM {table.table} ORDER BY {', '.join(table.key)}" for table in TABLES)
        )

    def spoil(self, statement: str) -> None:
        self.execute(*(statement.format(table=table.table) for table in TABLES))

    def ask_for_a_rebuild(self) -> None:
        column = "projection SET version" if self.kind == "sqlite" else "store SET projection"
        self.execute(f"UPDATE {column} = 0")


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A file with the whole history. The first of the processes that share the tests makes it, the others take a copy."""
    with fast_folder() as folder:
        path = os.path.join(folder, "history.db")
        with common_folder(tmp_path_factory.getbasetemp(), "history") as common:
            if any(common.iterdir()):
                shutil.copytree(common, folder, dirs_exist_ok=True)
            else:
                open_scripted(path, EVENTS).close()
                shutil.copytree(folder, common, dirs_exist_ok=True)
        yield Store("sqlite", path)


@pytest.fixture(scope="module")
def postgres(sqlite: Store) -> Iterator[Store]:
    """The same, taken over from the file."""
    with empty_url() as url:
        holdfast.copy(sqlite.url, url)
        yield Store("postgres", url)


@pytest.fixture(params=["sqlite", "postgres"])
def small(request: pytest.FixtureRequest) -> Iterator[Store]:
    with store_of_kind(request.param) as url:
        yield Store(request.param, url)


DAMAGE = {
    "dropped": "DELETE FROM {table}",
    "scrambled": "UPDATE {table} SET tenant = tenant || '!'",
    "partly dropped": "DELETE FROM {table} WHERE stream_no % 3 = 0",
}


@pytest.mark.parametrize("damage", DAMAGE if SOAK else ["dropped"])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_rows_are_made_anew_to_the_same_bytes(kind: str, damage: str, request: pytest.FixtureRequest) -> None:
    made_anew(request.getfixturevalue(kind), damage, EVENTS)


@pytest.mark.parametrize("damage", DAMAGE)
def test_rows_of_a_short_history_are_made_anew_whatever_became_of_them(damage: str) -> None:
    with fast_folder() as folder:
        store = Store("sqlite", os.path.join(folder, "history.db"))
        open_scripted(store.url, SEEDED["sqlite"]).close()
        made_anew(store, damage, SEEDED["sqlite"])


def made_anew(store: Store, damage: str, events: int) -> None:
    before = store.raw_rows()
    assert all(before)
    store.spoil(DAMAGE[damage])
    assert store.raw_rows() != before
    with holdfast.open(store.url) as engine:
        assert not engine.admin.verify().ok
        assert engine.admin.rebuild() == engine.admin.totals().streams > events // SESSION_EVENTS
        assert store.raw_rows() == before
        engine.admin.rebuild()
        assert store.raw_rows() == before
        report = engine.admin.verify()
        assert report.problems == ()
        assert report.events == engine.admin.totals().events > events


def test_the_same_history_is_the_same_to_the_byte_on_every_store(sqlite: Store, postgres: Store) -> None:
    with open_scripted(MEMORY, EVENTS) as memory:
        assert sum(1 for _ in all_events(memory)) == memory.admin.totals().events > EVENTS
        same = digest(memory)
        for store in (sqlite, postgres):
            with holdfast.open(store.url) as engine:
                assert digest(engine) == same
                assert engine.store.heads(limit=1_000) == memory.store.heads(limit=1_000)
        memory.admin.rebuild()
        assert digest(memory) == same


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_the_hash_seed_of_the_process_changes_nothing(kind: Kind) -> None:
    digests = set()
    for seed in SEEDS if SOAK else SEEDS[-2:] if kind == "memory" else SEEDS[-1:]:
        with store_of_kind(kind) as url:
            code = f"from tests.crash.test_rebuild import print_digest; print_digest({url!r}, {SEEDED[kind]})"
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            said = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
            )
            digests.update(said.stdout.split())
    with open_scripted(MEMORY, SEEDED[kind]) as here:
        assert digests == {digest(here)}


def test_a_store_made_by_other_code_is_rebuilt_when_it_is_opened(small: Store) -> None:
    open_scripted(small.url, SESSION_EVENTS * 2).close()
    before = small.raw_rows()
    assert any(before)
    small.spoil("DELETE FROM {table}")
    small.ask_for_a_rebuild()
    holdfast.open(small.url).close()
    assert small.raw_rows() == before


def test_a_rebuild_ends_right_while_others_write(small: Store) -> None:
    with holdfast.open(small.url) as engine:
        long = engine.create_session("long")
        for start in range(0, 1_000, 50):
            long.record_all([("user", f"message {start + number}") for number in range(50)])
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
                assert engine.admin.rebuild() > 0
        finally:
            stop.set()
            for writer in writers:
                writer.join()
        assert failed == []
        before = rows_dump(engine)
        assert engine.admin.verify().problems == ()
        engine.admin.rebuild()
        assert rows_dump(engine) == before
