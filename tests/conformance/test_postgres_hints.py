"""Hints between processes on PostgreSQL: they save a failed append, come after the commit, name nothing, may be lost."""

from __future__ import annotations

import asyncio
import os
import queue
import re
import resource
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

import holdfast
from holdfast.errors import KeyConflict, VersionConflict
from holdfast.flows.load import StateCache
from holdfast.model import limits
from holdfast.model.log import Append, AppendResult
from holdfast.model.names import StreamId
from holdfast.runtime.engine import Engine
from holdfast.storage.postgres import hints
from holdfast.storage.postgres.hints import ALL_STREAMS, MAX_TOKENS, StreamHints, token_of
from holdfast.storage.postgres.store import PostgresStore
from holdfast.testing.appends import ONE, TWO, append_of, fill_stream, run_in_threads, session_stream, write_to
from tests.conformance.postgres_tools import RawConnection, connect_raw, wait_until_blocked
from tests.conformance.postgres_workers import record_some, run_in_processes
from tests.postgres import fresh_url

LONGEST_S = 60.0
"""A hint that is not there by then never comes."""
LAST = session_stream("the last")

Heard: TypeAlias = "queue.Queue[frozenset[str] | None]"


@pytest.fixture
def url() -> str:
    """A store whose sessions can be told from all others."""
    url = f"{fresh_url()}&application_name={uuid.uuid4().hex}"
    holdfast.open(url).close()
    return url


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], tuple[PostgresStore, Heard]]]:
    """Stores that listen already, and what they hear."""
    with ExitStack() as stack:

        def open() -> tuple[PostgresStore, Heard]:
            store = PostgresStore(url)
            stack.callback(store.close)
            heard: Heard = queue.Queue()
            store.listen(heard.put)
            assert heard.get(timeout=LONGEST_S) is None  # from here on, nothing escapes it
            return store, heard

        yield open


Open: TypeAlias = Callable[[], tuple[PostgresStore, Heard]]


class Listener:
    """A session that hears what is said, word for word."""

    def __init__(self, url: str) -> None:
        self.session: RawConnection = connect_raw(url)
        self.session.execute(f'LISTEN "holdfast_{self.session.execute("SELECT current_schema()").fetchall()[0][0]}"')

    def until(self, stream: StreamId) -> list[psycopg.Notify]:
        """All up to the one that speaks of this stream."""
        said: list[psycopg.Notify] = []
        for notify in self.session.notifies(timeout=LONGEST_S):
            said.append(notify)
            if token_of(stream) in notify.payload:
                break
        assert said, "nothing was heard"
        assert token_of(stream) in said[-1].payload
        return said


@pytest.fixture
def listener(url: str) -> Iterator[Listener]:
    listener = Listener(url)
    yield listener
    listener.session.close()


def heard_until(heard: Heard, stream: StreamId) -> set[str]:
    tokens: set[str] = set()
    while token_of(stream) not in tokens:
        tokens |= heard.get(timeout=LONGEST_S) or set()
    return tokens


# What they are for


class Appends:
    """How often an engine's appends were refused."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = 0
        self._append = engine.store.append
        monkeypatch.setattr(engine.store, "append", self)

    def __call__(self, append: Append) -> AppendResult:
        try:
            return self._append(append)
        except VersionConflict:
            self.refused += 1
            raise


@pytest.fixture
def doubts(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[bool]:
    """Every time that an engine in this process is put in doubt; True if of every stream."""
    told: queue.Queue[bool] = queue.Queue()
    doubt = StateCache.doubt

    def tell(cache: StateCache, moved: Callable[[StreamId], bool] | None) -> None:
        doubt(cache, moved)
        told.put(moved is None)

    monkeypatch.setattr(StateCache, "doubt", tell)
    return told


def test_who_heard_of_anothers_writes_appends_without_being_refused(
    url: str, doubts: queue.Queue[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with holdfast.open(url) as engine:
        assert doubts.get(timeout=LONGEST_S)
        session = engine.session("shared", create=True)
        session.record("user", "first")
        appends = Appends(engine, monkeypatch)
        (theirs,) = run_in_processes(1, record_some, url)
        assert not doubts.get(timeout=LONGEST_S)
        session.record("user", "last")
        assert appends.refused == 0
        assert [message.text for message in session.messages()] == ["first", *theirs, "last"]


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ever heard."""
    monkeypatch.setattr(StreamHints, "_run", lambda self: None)


@pytest.mark.usefixtures("deaf")
def test_without_hints_an_append_is_refused_once_and_all_is_right(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with holdfast.open(url) as ours, holdfast.open(url) as theirs:
        mine, other = ours.session("shared", create=True), theirs.session("shared", create=True)
        appends = Appends(ours, monkeypatch)
        for number in range(5):
            mine.record("user", f"mine {number}")
            other.record("user", f"other {number}")
        assert appends.refused == 4
        told = [message.text for message in mine.messages()]
        assert told == [text for number in range(5) for text in (f"mine {number}", f"other {number}")]
        assert ours.admin.verify().ok


async def hears(url: str, doubts: queue.Queue[bool]) -> None:
    engine = await holdfast.open_async(url)
    session = await engine.session("shared", create=True)
    assert await asyncio.to_thread(doubts.get, timeout=LONGEST_S)
    with holdfast.open(url) as other:
        assert await asyncio.to_thread(doubts.get, timeout=LONGEST_S)
        other.session("shared").record("user", "theirs")
        assert not await asyncio.to_thread(doubts.get, timeout=LONGEST_S)
        await session.record("user", "mine")
        assert not await asyncio.to_thread(doubts.get, timeout=LONGEST_S)  # of the other one
    assert [message.text for message in await session.messages()] == ["theirs", "mine"]
    await engine.close()


def test_an_event_loop_hears_and_is_heard(url: str, doubts: queue.Queue[bool]) -> None:
    asyncio.run(hears(url, doubts))


# Lost connections


LISTENING = "FROM pg_stat_activity WHERE application_name = %s AND query ~ '^(LISTEN|SELECT pg_notify)'"


def end_listening(url: str) -> int:
    """Terminate every session of this store that listens; how many."""
    with connect_raw(url) as session:
        mine = session.info.parameter_status("application_name")
        return session.execute(f"SELECT pg_terminate_backend(pid, 10000) {LISTENING}", (mine,)).rowcount


def wait_for_listeners(url: str, count: int) -> None:
    with connect_raw(url) as session:
        mine = session.info.parameter_status("application_name")
        while session.execute(f"SELECT count(*) {LISTENING}", (mine,)).fetchone() != (count,):
            pass


def test_a_lost_connection_is_made_anew_and_everything_doubted(
    url: str, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "RECONNECT_S", 0.01)
    (ours, heard), (theirs, _) = opened(), opened()
    for _ in range(3):
        assert end_listening(url) == 2
        fill_stream(ours, ONE, 1)
        fill_stream(theirs, TWO, 1)
        while heard.get(timeout=LONGEST_S) is not None:
            pass
        wait_for_listeners(url, 2)
    fill_stream(theirs, LAST, 1)
    heard_until(heard, LAST)


def test_who_has_lost_its_connection_is_still_right(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "RECONNECT_S", LONGEST_S)  # so it hears nothing while we look
    with holdfast.open(url) as ours, holdfast.open(url) as theirs:
        mine, other = ours.session("shared", create=True), theirs.session("shared", create=True)
        wait_for_listeners(url, 2)
        assert end_listening(url) == 2
        for number in range(4):
            mine.record("user", f"mine {number}")
            other.record("user", f"other {number}")
        assert mine.state() == other.state()
        assert ours.admin.verify().ok


# What is said


def test_many_appends_are_told_in_few_words(opened: Open, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HINT_MS", 200)
    store, _ = opened()
    streams = [session_stream(f"{number}") for number in range(20)]
    run_in_threads(20, lambda number: fill_stream(store, streams[number], 50))
    fill_stream(store, LAST, 1)
    said = listener.until(LAST)
    assert len(said) < 200
    assert {token for notify in said for token in notify.payload.split()} == set(map(token_of, [*streams, LAST]))


def test_a_hint_comes_after_the_commit_from_a_session_of_its_own(opened: Open, listener: Listener) -> None:
    store, _ = opened()
    ((listens,),) = listener.session.execute(
        "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid() "
        "AND query LIKE '%' || current_schema() || '%'"
    ).fetchall()
    with connect_raw(store.url, autocommit=False) as holder, ThreadPoolExecutor(1) as pool:
        fill_stream(store, ONE, 1)
        listener.until(ONE)
        holder.execute("SELECT act_for('acme')")
        holder.execute("SELECT 1 FROM streams FOR UPDATE")
        waiting = pool.submit(fill_stream, store, ONE, 1)
        wait_until_blocked(holder)
        fill_stream(store, LAST, 1)
        assert not any(token_of(ONE) in notify.payload for notify in listener.until(LAST))
        holder.commit()
        waiting.result()
    said = listener.until(ONE)
    assert len(store.read(ONE, limit=10)) == 2
    assert {notify.pid for notify in said} == {listens}


def test_what_was_refused_is_not_told(opened: Open, listener: Listener) -> None:
    store, _ = opened()
    store.append(append_of(write_to(TWO, 0), key="key"))
    listener.until(TWO)
    refused = (append_of(write_to(ONE, 7)), append_of(write_to(ONE, 0), write_to(TWO, 5)))
    for append in refused:
        with pytest.raises(VersionConflict):
            store.append(append)
    with pytest.raises(KeyConflict):
        store.append(append_of(write_to(ONE, 0), key="key", order=b'{"command":"other"}'))
    fill_stream(store, LAST, 1)
    assert [notify.payload for notify in listener.until(LAST)] == [token_of(LAST)]


def test_a_store_is_not_told_of_its_own_writes(opened: Open) -> None:
    (ours, heard), (theirs, _) = opened(), opened()
    fill_stream(ours, ONE, 3)
    fill_stream(theirs, TWO, 3)
    fill_stream(theirs, LAST, 1)
    assert heard_until(heard, LAST) <= {token_of(TWO), token_of(LAST)}


def test_a_hint_names_nothing(opened: Open, listener: Listener) -> None:
    store, _ = opened()
    streams = [
        session_stream("payroll", actor=actor, tenant=tenant) for actor in ("ada", "bob") for tenant in ("x", "y")
    ]
    for stream in (*streams, LAST):
        fill_stream(store, stream, 1)
    said = " ".join(notify.payload for notify in listener.until(LAST))
    assert re.fullmatch(r"[0-9a-f]{16}( [0-9a-f]{16})*", said)
    assert len({token_of(stream) for stream in streams}) == 4


@pytest.mark.parametrize(("count", "all_of_them"), [(MAX_TOKENS, False), (MAX_TOKENS + 1, True)])
def test_of_very_many_streams_only_that_they_moved_is_told(
    opened: Open, listener: Listener, count: int, all_of_them: bool
) -> None:
    (ours, _), (_, heard) = opened(), opened()
    assert ours._hints is not None
    streams = [session_stream(f"{number}") for number in range(count)]
    ours._hints.announce(streams)
    tokens = heard.get(timeout=LONGEST_S)
    assert tokens == (None if all_of_them else frozenset(map(token_of, streams)))
    (said,) = listener.session.notifies(timeout=LONGEST_S, stop_after=1)
    assert (said.payload == ALL_STREAMS) is all_of_them


@pytest.mark.parametrize("payload", ["", " ", "*", "* *", "x" * 7_999, "👍 '); DROP TABLE events; --", token_of(ONE)])
def test_whatever_a_stranger_says_does_no_harm(opened: Open, listener: Listener, payload: str) -> None:
    """Any role of the database may speak on the channel."""
    (_, heard), (theirs, _) = opened(), opened()
    listener.session.execute("SELECT pg_notify('holdfast_' || current_schema(), %s)", (payload,))
    fill_stream(theirs, LAST, 1)
    heard_until(heard, LAST)


def test_a_stream_is_told_even_if_others_are_told_meanwhile(opened: Open, listener: Listener) -> None:
    store, _ = opened()
    assert store._hints is not None

    def streams() -> Iterator[StreamId]:
        listener.until(ONE)  # what was there before has been said
        yield TWO

    store._hints.announce([ONE])
    store._hints.announce(streams())
    store._hints.announce([LAST])
    said = {token for notify in listener.until(LAST) for token in notify.payload.split()}
    assert said == {token_of(TWO), token_of(LAST)}


# Beginning and end


def test_a_process_with_many_files_open_hears_too(opened: Open) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2_048 if hard == resource.RLIM_INFINITY else min(hard, 2_048)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1_100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        (_, heard), (theirs, _) = opened(), opened()
        fill_stream(theirs, LAST, 1)
        heard_until(heard, LAST)


def test_closing_twice_is_closing_once(url: str) -> None:
    engine = holdfast.open(url)
    engine.close()
    with open(os.devnull, "rb") as reused:
        engine.close()
        assert reused.read() == b""


def test_what_is_told_after_the_end_reaches_nobodys_file(url: str, tmp_path: Path) -> None:
    """A descriptor that was closed belongs to whoever opens the next one."""
    with closing(PostgresStore(url)) as store:
        late = StreamHints(store.info, store.address.schema, lambda tokens: None)
        late.close()
        late._thread.join(LONGEST_S)
        with ExitStack() as stack:
            files = [stack.enter_context(open(tmp_path / f"{number}", "wb")) for number in range(16)]
            assert late._waker in {file.fileno() for file in files}
            late.announce([ONE])
        assert {path.read_bytes() for path in tmp_path.iterdir()} == {b""}


def test_a_store_closed_in_the_middle_of_work_answers_everyone(opened: Open) -> None:
    store, _ = opened()
    under_way = threading.Barrier(5)

    def work(number: int) -> int:
        under_way.wait(LONGEST_S)
        done = 0
        with suppress(holdfast.errors.StoreClosed):
            while True:
                store.append(append_of(write_to(session_stream(f"{number}"), done)))
                done += 1
        return done

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, number) for number in range(4)]
        under_way.wait(LONGEST_S)
        store.close()
        done = [each.result() for each in working]
    with closing(PostgresStore(store.url)) as again:
        for number, count in enumerate(done):
            head = again.head(session_stream(f"{number}"))
            assert (head.version if head else 0) == count
