"""Promise 3: PostgreSQL dies under load, a connection's process or all of it, or only the wire to it. What was acknowledged
is there exactly once, what was not answered is there once or not at all, and everyone goes on by themselves."""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias, TypeVar

import psycopg
import psycopg_pool.base
import pytest

import holdfast
from holdfast import Engine, Message, Session
from holdfast.errors import KeyConflict, StorageError, StorageUnavailable
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from tests.crash.postgres_proxy import MARK, STUCK_S, Break, PostgresProxy
from tests.crash.stores import MODES, STORE_CALLS, open_engine
from tests.postgres import fresh_url
from tests.postgres_server import PostgresServer
from tests.property.store_tools import all_events, rows_dump
from tests.support import figure

BACKENDS, SERVERS = figure(6, 500), figure(3, 200)

pytestmark = pytest.mark.promise(3, f"PostgreSQL killed under load: {BACKENDS:,} backends, {SERVERS:,} servers")

T = TypeVar("T")

SESSIONS = [f"s{number}" for number in range(4)]
SEED = 20_240_610


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Nobody else's."""
    server = PostgresServer()
    yield server
    server.kill()
    server.remove()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool waits a second before it tries again to connect, then two: no part of what is tested here."""
    monkeypatch.setattr(psycopg_pool.base.AttemptWithBackoff, "INITIAL_DELAY", 0.05)
    monkeypatch.setattr(psycopg_pool.base.AttemptWithBackoff, "DELAY_BACKOFF", 1.0)


# Under load


class Writer:
    """Records one message after the other, and keeps what it was told of each."""

    def __init__(self, name: str, engine: Engine, news: threading.Condition) -> None:
        self.name = name
        self.tried: dict[str, tuple[str, str | None]] = {}
        self.told: dict[str, tuple[str, str, int]] = {}
        self.errors: list[StorageError] = []
        self._sessions = [engine.session(name) for name in SESSIONS]
        self._news = news
        self._rng = random.Random(name)

    def live(self, stop: threading.Event) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            session = self._rng.choice(self._sessions)
            text = f"{self.name}/{number}"
            key = text if self._rng.random() < 0.5 else None
            self.tried[text] = (session.id, key)
            while True:
                try:
                    answer = session.record("user", text, key=key)
                except StorageError as error:
                    with self._news:
                        self.errors.append(error)
                        self._news.notify_all()
                    if key is not None:
                        continue
                else:
                    with self._news:
                        self.told[text] = (session.id, answer.id, answer.seq)
                        self._news.notify_all()
                break


class Reader:
    """Reads the feed on and on, and the end of a session."""

    def __init__(self, engine: Engine, news: threading.Condition) -> None:
        self.ids: list[str] = []
        self.pages = 0
        self._news = news
        self._engine = engine
        self._session = engine.session(SESSIONS[0])
        self._cursor = ""

    def live(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.read_on()
            newest = [each.seq for each in self._session.messages(limit=5)]
            assert all(later - earlier == 1 for earlier, later in itertools.pairwise(newest))

    def read_on(self) -> None:
        while (page := self._engine.admin.feed(self._cursor, limit=100)).events:
            self.ids += [event.id for event in page.events]
            self._cursor = page.cursor
            with self._news:
                self.pages += 1
                self._news.notify_all()


Blow: TypeAlias = Callable[[PostgresServer, random.Random], None]

VICTIMS = """
SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' ORDER BY state = 'active' DESC, random() LIMIT %s
"""


def terminate(server: PostgresServer, rng: random.Random) -> None:
    """A few connections, by an administrator."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for (pid,) in connection.execute(VICTIMS, (rng.randint(1, 4),)).fetchall():
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))


def crash(server: PostgresServer, rng: random.Random) -> None:
    """kill -9 of the process behind one connection: the server ends all others, ours too, and recovers."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        ((pid,),) = connection.execute(VICTIMS, (1,)).fetchall()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT pg_sleep(%s)", (STUCK_S,))


def kill(server: PostgresServer, rng: random.Random) -> None:
    server.kill()
    server.start()


def restart(server: PostgresServer, rng: random.Random) -> None:
    server.restart()


def blows(rng: random.Random) -> list[Blow]:
    mixed: list[Blow] = [
        *itertools.islice(itertools.cycle((terminate, crash)), BACKENDS),
        *itertools.islice(itertools.cycle((kill, kill, restart)), SERVERS),
    ]
    rng.shuffle(mixed)
    return mixed


def test_who_writes_while_the_server_dies_again_and_again_loses_and_doubles_nothing(server: PostgresServer) -> None:
    url = fresh_url(server.url())
    rng = random.Random(SEED)
    news, stop = threading.Condition(), threading.Event()
    with ExitStack() as exits:
        patient = [exits.enter_context(open_engine(url, world)) for world in MODES]
        hasty = [exits.enter_context(open_engine(url, world, wait_ms=100)) for world in MODES]
        for name in SESSIONS:
            patient[0].create_session(name)
        calm = [Writer(f"calm {number}", engine, news) for number, engine in enumerate([*patient, patient[0]])]
        nervous = [Writer(f"nervous {number}", engine, news) for number, engine in enumerate(hasty)]
        writers = [*calm, *nervous]
        reader = Reader(patient[1], news)
        lives = [_Life(live, stop) for live in (*(writer.live for writer in writers), reader.live)]
        try:
            for blow in blows(rng):
                _wait_for_news(news, lives, rng.randint(1, 10), _told(writers[0]))
                blow(server, rng)
                _wait_for_news(news, lives, 2, *map(_told, writers), lambda: reader.pages)
            server.kill()
            _wait_for_news(news, lives, 1, *map(_failed, nervous))
            server.start()
            _wait_for_news(news, lives, 2, *map(_told, writers), lambda: reader.pages)
        finally:
            stop.set()
            for life in lives:
                life.end()
        reader.read_on()
        _check(patient[0], writers, reader)
    assert [writer.errors for writer in calm] == [[]] * len(calm)
    assert {type(error) for writer in nervous for error in writer.errors} == {StorageUnavailable}


class _Life:
    """A thread whose error is the test's."""

    def __init__(self, live: Callable[[threading.Event], None], stop: threading.Event) -> None:
        self.error: BaseException | None = None
        self._live = live
        self._stop = stop
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._live(self._stop)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._thread.join()
        if self.error is not None:
            raise self.error


def _told(writer: Writer) -> Callable[[], int]:
    return lambda: len(writer.told)


def _failed(writer: Writer) -> Callable[[], int]:
    return lambda: len(writer.errors)


def _wait_for_news(news: threading.Condition, lives: list[_Life], more: int, *counts: Callable[[], int]) -> None:
    """Until each of the counts is higher by so many."""
    with news:
        wanted = [count() + more for count in counts]

        def there() -> bool:
            over = any(life.error is not None for life in lives)
            return over or all(count() >= least for count, least in zip(counts, wanted, strict=True))

        assert news.wait_for(there, STUCK_S), "somebody does not go on"


def _check(engine: Engine, writers: list[Writer], reader: Reader) -> None:
    tried = {text: work for writer in writers for text, work in writer.tried.items()}
    told = {text: place for writer in writers for text, place in writer.told.items()}
    stored: dict[str, tuple[str, str, int]] = {}
    events = list(all_events(engine))
    for event in events:
        if event.type == "session.created":
            continue
        text = message_of(event).text
        assert text not in stored, "the message was stored twice"
        stored[text] = (event.stream.key[1], event.id, event.seq)
        assert tried[text] == (event.stream.key[1], event.key)
    assert {text: stored.get(text) for text in told} == told
    assert {text for text, (_, key) in tried.items() if key is not None} <= told.keys()
    assert reader.ids == [event.id for event in events]
    assert engine.admin.verify().problems == ()
    before = rows_dump(engine)
    engine.admin.rebuild()
    assert rows_dump(engine) == before


# The wire alone


@pytest.fixture
def wire(server: PostgresServer) -> Iterator[PostgresProxy]:
    with PostgresProxy(server.folder) as wire:
        yield wire


@contextmanager
def wired(
    server: PostgresServer, wire: PostgresProxy, world: str, wait_ms: int | None = None, pool: int = 10
) -> Iterator[Engine]:
    url = fresh_url(server.url()).replace(server.folder, wire.folder)
    with open_engine(f"{url}&pool={pool}", world, wait_ms) as engine:
        _until_there(lambda: engine.session("talk", create=True).record("user", "to be erased", key="first"))
        yield engine


def _create(engine: Engine, text: str, key: str | None) -> int:
    return engine.create_session(text, metadata={"text": text}, key=key).state().version


def _record(engine: Engine, text: str, key: str | None) -> Message:
    return engine.session("talk").record("user", text, key=key)


def _record_all(engine: Engine, text: str, key: str | None) -> list[Message]:
    return engine.session("talk").record_all([{"role": "user", "content": text}] * 3, key=key)


def _erase(engine: Engine, text: str, key: str | None) -> None:
    engine.session("talk").erase([2], text, key=key)


COMMANDS: dict[str, tuple[Callable[[Engine, str, str | None], Any], int]] = {
    "create": (_create, 1),
    "record": (_record, 1),
    "record_all": (_record_all, 3),
    "erase": (_erase, 1),
}
"""Commands whose text the wire sees, and how many events each makes."""

BREAKS: tuple[Break, ...] = ("before", "meanwhile", "after")


@pytest.mark.parametrize("world", MODES)
@pytest.mark.parametrize("where", BREAKS)
def test_a_store_finds_out_by_itself_what_became_of_a_command_when_the_wire_broke(
    server: PostgresServer, wire: PostgresProxy, world: str, where: Break
) -> None:
    with wired(server, wire, world) as engine:
        for number in range(figure(2, 50)):
            for name, (command, count) in COMMANDS.items():
                for key in (None, f"{name} {number}"):
                    before = engine.admin.totals().events
                    wire.break_at(where, times=1 + number % 2)
                    answer = command(engine, f"{MARK.decode()} {name} {number} {key}", key)
                    assert wire.broken, "the wire held"
                    wire.heal()
                    assert engine.admin.totals().events == before + count
                    if key is not None:
                        assert command(engine, f"{MARK.decode()} {name} {number} {key}", key) == answer
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("world", MODES)
def test_commands_that_shared_a_commit_whose_answer_was_lost_are_each_stored_once(
    server: PostgresServer, wire: PostgresProxy, world: str
) -> None:
    with wired(server, wire, world) as engine, ThreadPoolExecutor(8) as threads:
        sessions = [engine.create_session(f"talk {number}") for number in range(8)]
        for number in range(figure(5, 100)):
            text = f"{MARK.decode()} {number}"
            wire.break_at(BREAKS[number % 3], times=2)
            answers = list(threads.map(lambda session, text=text: session.record("user", text), sessions))
            assert wire.broken, "the wire held"
            wire.heal()
            assert [(answer.text, answer.seq) for answer in answers] == [(text, number + 2)] * len(sessions)
            assert [session.state().messages for session in sessions] == [number + 1] * len(sessions)
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("world", MODES)
@pytest.mark.parametrize("where", BREAKS)
def test_a_command_whose_answer_never_came_is_stored_once_when_it_is_repeated_under_its_key(
    server: PostgresServer, wire: PostgresProxy, world: str, where: Break
) -> None:
    with wired(server, wire, world, wait_ms=100) as engine:
        for number in range(figure(5, 200)):
            text, key = f"{MARK.decode()} {number}", f"key {number}"
            wire.break_at(where, dies=True)
            with pytest.raises(StorageUnavailable, match="repeat it with its idempotency key"):
                _record(engine, text, key)
            wire.heal()
            answer = _until_there(lambda text=text, key=key: _record(engine, text, key))  # type: ignore[misc]
            assert _record(engine, text, key) == answer
            assert engine.session("talk").state().messages == number + 2
            with pytest.raises(KeyConflict):
                _record(engine, "something else", key)
        assert engine.admin.verify().problems == ()


def _until_there(call: Callable[[], T]) -> T:
    """For those who do not wait long enough for a new connection."""
    while True:
        try:
            return call()
        except StorageError:
            continue


# Comings and goings


@pytest.mark.parametrize("world", MODES)
@pytest.mark.parametrize("how", [restart, kill], ids=["restarted", "killed"])
def test_a_server_that_went_and_came_while_nobody_asked_is_not_missed(
    server: PostgresServer, world: str, how: Blow
) -> None:
    calls: list[Callable[[Session], object]] = [
        lambda session: session.record("user", "hello").seq,
        lambda session: session.record("user", "hello", key=session.id).seq,
        lambda session: session.state().version + 1,
        lambda session: len(session.events()) + 1,
    ]
    with open_engine(fresh_url(server.url()), world) as engine, ThreadPoolExecutor(8) as threads:
        sessions = [engine.create_session(f"talk {number}") for number in range(8)]
        list(threads.map(Session.events, sessions))  # many connections, all of them lost the next moment
        how(server, random.Random())
        assert list(threads.map(lambda call, session: call(session), calls * 2, sessions)) == [2] * len(sessions)
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("world", MODES)
def test_a_server_that_is_gone_is_named_and_one_that_is_back_is_used(server: PostgresServer, world: str) -> None:
    url = fresh_url(server.url())
    with open_engine(url, world, wait_ms=100) as engine:
        engine.create_session("talk")
        server.stop()
        try:
            with pytest.raises(StorageUnavailable, match=r"PostgreSQL at .* Check .* the server"):
                holdfast.open(url)
            for call in STORE_CALLS.values():
                with pytest.raises(StorageUnavailable, match=r"PostgreSQL at .* Check .* the server"):
                    call(engine)
        finally:
            server.start()
        assert _until_there(lambda: STORE_CALLS["record"](engine))
        assert engine.session("talk").state().messages == 1
        for call in STORE_CALLS.values():
            call(engine)
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("world", MODES)
def test_who_waits_for_a_server_is_served_when_it_is_back_however_often_it_was_tried(
    server: PostgresServer, wire: PostgresProxy, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECT_S", 1)
    with wired(server, wire, world, wait_ms=20_000, pool=1) as engine, ThreadPoolExecutor(1) as thread:
        wire.break_at("before", dies=True)
        waiting = thread.submit(_record, engine, f"{MARK.decode()} hello", None)
        wire.until_refused(40)  # twice as many as there are tries in that time
        wire.heal()
        assert waiting.result().seq == 3
