"""engine.watch(): every event once and in order, live or later, on every store; and nothing is left behind at its end."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import errors
from holdfast.flows import watch as flow
from holdfast.model import limits
from holdfast.model.log import FeedPage
from holdfast.ports import EventStore
from holdfast.runtime import watch as runtime
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.types import FeedEvent, StoredEvent
from tests.conformance.postgres_tools import connect_raw, create_roles
from tests.edges.engines import EngineDesk, log_of, store_of
from tests.support import figure

STORES = ("memory", "sqlite", "postgres")
WRITERS = 16
MESSAGES = figure(10, 200)
"""Messages of each writer."""
LONGEST_S = 60.0
"""An event that is not there by then never comes."""


def without_cursor(event: FeedEvent) -> StoredEvent:
    return StoredEvent(**{name: getattr(event, name) for name in StoredEvent.__struct_fields__})


def take(events: Iterable[FeedEvent], count: int) -> list[FeedEvent]:
    return list(itertools.islice(events, count))


def fill(engine: holdfast.Engine) -> None:
    """Two tenants, three sessions, and a ledger, in turns."""
    other = engine.acting_as(tenant="other")
    sessions = [engine.create_session("c1"), engine.create_session("c2", thread="t"), other.create_session("c1")]
    for number, session in enumerate(sessions * 3):
        session.record("user", f"message {number}")
    engine.ledger(user="ada").set("city", "Lisbon")
    sessions[0].record("assistant", "the last one")


# What is stored


def test_a_watch_of_a_session_delivers_its_events_and_their_seqs(engine: holdfast.Engine) -> None:
    fill(engine)
    session = engine.session("c1")
    events = list(engine.watch("c1", timeout_s=0))
    assert tuple(map(without_cursor, events)) == tuple(session.events())
    assert [event.cursor for event in events] == [str(event.seq) for event in events]
    for event in events:
        rest = events[event.seq :]
        assert list(engine.watch("c1", after=event.cursor, timeout_s=0)) == rest
        assert list(engine.watch("c1", after=event.seq, timeout_s=0)) == rest
    assert list(engine.watch("c1", after=session.state().version, timeout_s=0)) == []
    assert list(engine.watch("c1", after=None, timeout_s=0)) == []
    assert [event.type for event in engine.watch("c2", thread="t", timeout_s=0)][:1] == ["session.created"]


def test_a_watch_of_a_ledger_delivers_its_facts(engine: holdfast.Engine) -> None:
    fill(engine)
    ledger = engine.ledger(user="ada")
    assert [event.type for event in engine.watch(ledger=ledger.id, timeout_s=0)] == ["fact.asserted"]
    assert list(engine.watch(ledger=engine.ledger(user="nobody").id, timeout_s=0)) == []


@pytest.mark.parametrize("kind", STORES)
def test_a_watch_of_a_tenant_resumes_at_every_cursor(desk: EngineDesk, kind: str) -> None:
    engine = desk.open(kind)
    fill(engine)
    for watcher in (engine, engine.acting_as(tenant="other")):
        own = [event for event in log_of(engine) if event.stream.tenant == watcher._context.tenant]
        with watcher.watch() as watch:
            events = take(watch, len(own))
        assert [*map(without_cursor, events)] == own
        for number, event in enumerate(events, 1):
            with watcher.watch(after=event.cursor) as watch:
                assert take(watch, len(own) - number) == events[number:]


@pytest.mark.parametrize("kind", STORES)
def test_a_watch_of_the_administrator_delivers_everything(desk: EngineDesk, kind: str) -> None:
    engine = desk.open(kind)
    fill(engine)
    log = log_of(engine)
    with engine.admin.watch() as watch:
        events = take(watch, len(log))
        assert watch.cursor == events[-1].cursor
    assert [*map(without_cursor, events)] == log
    for number, event in enumerate(events, 1):
        with engine.admin.watch(after=event.cursor) as watch:
            assert take(watch, len(log) - number) == events[number:]
        assert engine.admin.feed(event.cursor, limit=1).events == tuple(log[number : number + 1])


@pytest.mark.parametrize("kind", STORES)
def test_a_watch_from_now_on_shows_nothing_older(desk: EngineDesk, kind: str) -> None:
    engine = desk.open(kind)
    empty = engine.watch(after=None)
    fill(engine)
    log = log_of(engine)
    with engine.watch(after=None) as tenant, engine.admin.watch(after=None) as everything:
        engine.session("c1").record("user", "new")
        assert next(everything).type == next(tenant).type == "message.recorded"
    own = [event for event in log if event.stream.tenant == "default"]
    assert [*map(without_cursor, take(empty, len(own)))] == own
    empty.close()


def test_random_pauses_and_restarts_change_nothing(desk: EngineDesk) -> None:
    """The cursor of any event, of any watch, is a place to start again: the whole is the log."""
    rng = random.Random(7)
    engine = desk.open("memory")
    sessions = [engine.acting_as(tenant=f"t{number % 3}").create_session(f"s{number}") for number in range(6)]
    seen: dict[str | None, list[StoredEvent]] = {None: [], "t1": []}
    cursors: dict[str | None, str] = {None: "", "t1": ""}
    for _ in range(figure(60, 2_000)):
        for _ in range(rng.randint(0, 5)):
            rng.choice(sessions).record("user", "x" * rng.randint(1, 9))
        tenant = rng.choice([None, "t1"])
        opened = engine.admin if tenant is None else engine.acting_as(tenant=tenant)
        with opened.watch(after=cursors[tenant], timeout_s=0) as watch:
            seen[tenant] += map(without_cursor, take(watch, rng.randint(0, 7)))
            cursors[tenant] = watch.cursor
    for tenant, events in seen.items():
        opened = engine.admin if tenant is None else engine.acting_as(tenant=tenant)
        events += map(without_cursor, opened.watch(after=cursors[tenant], timeout_s=0))
        assert events == [event for event in log_of(engine) if tenant in (None, event.stream.tenant)]


# Refusals


def test_what_cannot_be_watched_is_refused(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    session = engine.create_session("c1")
    refusals: list[tuple[type[errors.HoldfastError], dict[str, Any]]] = [
        (errors.SessionNotFound, {"session": "nobody"}),
        (errors.SessionNotFound, {"session": "c1", "thread": "t"}),
        (errors.InvalidName, {"session": ""}),
        (errors.InvalidArgument, {"session": "c1", "ledger": session.facts.id}),
        (errors.InvalidArgument, {"thread": "t"}),
        (errors.InvalidArgument, {"ledger": "user ada"}),
        (errors.InvalidArgument, {"timeout_s": -1}),
        (errors.InvalidArgument, {"timeout_s": "soon"}),
        (errors.InvalidArgument, {"timeout_s": float("nan")}),
        *(
            (errors.InvalidCursor, {"session": "c1", "after": after})
            for after in (2, -1, "2", "x", "٣", True, b"", 1 << 70)
        ),
        *((errors.InvalidCursor, {"after": after}) for after in ("9", "x", 1, "1.2.3", object())),
    ]
    for kind, options in refusals:
        with pytest.raises(kind):
            list(engine.watch(**{"timeout_s": 0, **options}))


@pytest.mark.parametrize(
    "cursor", ["9.9.9", "1.1.1", "1.99999999999.0", "7.1.0", ".0", "1..0", "0.0.0", "1.2.3.0", "1.0"]
)
def test_a_cursor_of_another_store_is_refused_by_postgres(desk: EngineDesk, cursor: str) -> None:
    engine = desk.open("postgres")
    fill(engine)
    with pytest.raises(errors.InvalidCursor):
        next(engine.watch(after=cursor))


def test_one_tenant_is_enough_for_a_watch_on_postgres() -> None:
    """A role that sees one tenant at a time watches that tenant, and cannot watch all."""
    with create_roles() as roles:
        url = roles.url()
        with holdfast.open(url) as owner:
            fill(owner)
            with holdfast.open(roles.let_in(url)) as engine:
                own = [event for event in log_of(owner) if event.stream.tenant == "default"]
                with engine.watch() as watch:
                    assert [*map(without_cursor, take(watch, len(own)))] == own
                    engine.acting_as(tenant="other").session("c1").record("user", "not for them")
                    engine.session("c1").record("user", "for them")
                    assert b"for them" in (next(watch).payload or b"")
                with pytest.raises(errors.RoleTooNarrow):
                    next(engine.admin.watch())


# Live


@pytest.mark.parametrize("kind", STORES)
def test_sixteen_writers_and_nothing_is_skipped(desk: EngineDesk, kind: str) -> None:
    """Threads; one watch of everything, one of the tenant and one of a session, all started before the first event."""
    engine = desk.open(kind)
    shared = engine.create_session("shared")

    def write(number: int) -> None:
        own = engine.create_session(f"s{number}")
        for turn in range(MESSAGES):
            (shared if turn % 2 else own).record("user", f"{number}/{turn}")

    everything = 1 + WRITERS * (MESSAGES + 1)
    in_shared = 1 + WRITERS * (MESSAGES // 2)
    with ThreadPoolExecutor(WRITERS + 3) as pool:
        watches = [engine.admin.watch(), engine.watch(), engine.watch("shared")]
        reading = [
            pool.submit(take, watch, count)
            for watch, count in zip(watches, (everything, everything, in_shared), strict=True)
        ]
        list(pool.map(write, range(WRITERS)))
        events = [each.result(LONGEST_S) for each in reading]
        for watch in watches:
            watch.close()
    log = log_of(engine)
    assert [*map(without_cursor, events[0])] == log
    assert [*map(without_cursor, events[1])] == log
    assert (
        tuple(map(without_cursor, events[2]))
        == tuple(store_of(engine).read(shared.scope.stream, limit=1_000))[:in_shared]
    )


@pytest.mark.parametrize("kind", STORES)
def test_sixteen_tasks_and_nothing_is_skipped(desk: EngineDesk, kind: str) -> None:
    async def main() -> tuple[list[FeedEvent], list[FeedEvent]]:
        async with await holdfast.open_async(desk.address(kind)) as engine:
            shared = await engine.create_session("shared")

            async def write(number: int) -> None:
                for turn in range(MESSAGES):
                    await shared.record("user", f"{number}/{turn}")

            async def read(watch: Any) -> list[FeedEvent]:
                events: list[FeedEvent] = []
                async for event in watch:
                    events.append(event)
                    if len(events) == 1 + WRITERS * MESSAGES:
                        break
                return events

            async with asyncio.timeout(LONGEST_S):
                reading = [asyncio.create_task(read(watch)) for watch in (engine.watch(), engine.watch("shared"))]
                await asyncio.gather(*map(write, range(WRITERS)))
                first, second = await asyncio.gather(*reading)
            return first, second

    first, second = asyncio.run(main())
    assert [event.seq for event in first] == [event.seq for event in second] == [*range(1, 2 + WRITERS * MESSAGES)]


def test_the_end_of_a_long_transaction_is_noticed_on_postgres(desk: EngineDesk) -> None:
    """It holds back the feed, and no process hints at its end."""
    engine = desk.open("postgres")
    engine.create_session("c1")
    with engine.watch(after=None) as watch, connect_raw(desk.address("postgres"), autocommit=False) as other:
        other.execute("SELECT pg_current_xact_id()")
        engine.session("c1").record("user", "held back")
        with engine.watch("c1", after=1) as session:
            assert next(session).seq == 2  # a stream is not held back
        assert list(engine.watch(after=watch.cursor, timeout_s=0)) == []
        threading.Timer(0.3, other.rollback).start()
        assert next(watch).seq == 2


def test_an_event_whose_hint_was_lost_is_found_on_postgres(desk: EngineDesk) -> None:
    from holdfast.storage.postgres.store import PostgresStore

    engine = desk.open("postgres")
    engine.create_session("c1")
    store = store_of(engine)
    assert isinstance(store, PostgresStore)
    assert store.recheck_s == limits.WATCH_RECHECK_MS / 1_000
    store.recheck_s = 0.1
    with engine.watch("c1", after=1) as watch, holdfast.open(desk.address("postgres")) as silent:
        silent.store.announce = lambda appends: None  # type: ignore[attr-defined]
        assert list(engine.watch("c1", after=1, timeout_s=0.2)) == []
        threading.Timer(0.2, silent.session("c1").record, ("user", "hello")).start()
        assert next(watch).seq == 2


# The end


def file_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "holdfast-file-changes"]


def wait_until(is_so: Callable[[], bool]) -> None:
    last = time.monotonic() + LONGEST_S
    while not is_so():
        assert time.monotonic() < last
        time.sleep(0.01)


def count_listeners(store: Any) -> int:
    return len(getattr(store._changes, "_listeners", store._changes))


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONGEST_S):
        while not is_so():  # noqa: ASYNC110 - other threads make it so
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", STORES)
def test_a_watch_ends_when_the_engine_is_closed(desk: EngineDesk, kind: str) -> None:
    engine = holdfast.open(desk.address(kind))
    engine.create_session("c1")
    with ThreadPoolExecutor(3) as pool:
        watches = [engine.watch(), engine.watch("c1"), engine.admin.watch()]
        assert [next(watch).type for watch in watches] == ["session.created"] * 3
        waiting = [pool.submit(list, watch) for watch in watches]
        wait_until(lambda: count_listeners(engine.store) == 3)
        engine.close()
        assert [each.result(LONGEST_S) for each in waiting] == [[], [], []]
    assert file_threads() == []
    assert list(watches[0]) == []


@pytest.mark.parametrize("kind", STORES)
def test_an_awaited_watch_ends_when_the_engine_is_closed(desk: EngineDesk, kind: str) -> None:
    async def main() -> None:
        engine = await holdfast.open_async(desk.address(kind))
        await engine.create_session("c1")

        async def read(watch: Any) -> list[str]:
            return [event.type async for event in watch]

        async with asyncio.timeout(LONGEST_S):
            waiting = [asyncio.create_task(read(watch)) for watch in (engine.watch(), engine.watch("c1"))]
            await wait_for(lambda: count_listeners(engine.store.blocking) == 2)
            await engine.close()
            assert await asyncio.gather(*waiting) == [["session.created"]] * 2

    asyncio.run(main())
    assert file_threads() == []


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("leave", ["break", "cancel", "close"])
def test_who_leaves_the_loop_leaves_nothing_behind(desk: EngineDesk, kind: str, leave: str) -> None:
    """No task, no thread, no listener and no connection."""

    async def main() -> None:
        async with await holdfast.open_async(desk.address(kind)) as engine:
            session = await engine.create_session("c1")
            store: Any = engine.store.blocking
            before = asyncio.all_tasks()

            async def read() -> None:
                async for event in engine.watch("c1"):
                    if event.seq == 2:
                        break

            async def read_until_closed() -> None:
                async with engine.watch("c1") as watch:
                    asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(watch.aclose()))
                    assert [event.seq async for event in watch] == [1]

            async with asyncio.timeout(LONGEST_S):
                task = asyncio.create_task(read_until_closed() if leave == "close" else read())
                await wait_for(lambda: count_listeners(store) == 1)
                if leave == "break":
                    await session.record("user", "enough")
                elif leave == "cancel":
                    task.cancel()
                await asyncio.wait([task])
            assert task.cancelled() == (leave == "cancel")
            del task
            gc.collect()
            assert count_listeners(store) == 0
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == before
            await wait_for(lambda: not file_threads())

    asyncio.run(main())


def test_a_blocking_watch_that_is_dropped_leaves_nothing_behind(desk: EngineDesk) -> None:
    engine = desk.open("sqlite")
    engine.create_session("c1")
    for _ in range(3):
        for _event in engine.watch("c1"):
            break
    assert file_threads() == []  # it never waited
    watch = engine.watch("c1", timeout_s=0.01)
    assert [event.seq for event in watch] == [1]
    del watch
    gc.collect()
    assert count_listeners(engine.store) == 0
    wait_until(lambda: not file_threads())


def test_a_step_that_is_cancelled_loses_nothing(desk: EngineDesk) -> None:
    async def main() -> None:
        async with await holdfast.open_async(desk.address("sqlite")) as engine:
            session = await engine.create_session("c1")

            async def write() -> None:
                for number in range(20):
                    await session.record("user", f"message {number}")
                    await asyncio.sleep(0.002)

            task = asyncio.create_task(write())
            seqs: list[int] = []
            watch = engine.watch("c1")
            while len(seqs) < 21:
                try:
                    seqs.append((await asyncio.wait_for(anext(watch), 0.001)).seq)
                except TimeoutError:
                    continue
            assert seqs == [*range(1, 22)]
            await task

    asyncio.run(main())


def test_two_consumers_of_one_watch_share_its_events(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    session = engine.create_session("c1")
    watch = engine.watch("c1")
    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(take, watch, 50) for _ in range(2)]
        for number in range(99):
            session.record("user", f"message {number}")
        seqs = [[event.seq for event in each.result(LONGEST_S)] for each in reading]
    assert sorted(seqs[0] + seqs[1]) == [*range(1, 101)]
    assert all(part == sorted(part) for part in seqs)


def test_a_slow_consumer_holds_back_nobody(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    session = engine.create_session("c1")
    with engine.watch("c1") as watch:
        assert next(watch).seq == 1
        for number in range(3 * limits.WATCH_EVENTS):
            session.record("user", f"message {number}")
        assert next(watch).seq == 2
        assert len(watch._progress.events) < limits.WATCH_EVENTS
        assert take(watch, 3 * limits.WATCH_EVENTS - 1)[-1].seq == 3 * limits.WATCH_EVENTS + 1


# Stores of others, and stores that fail


class PlainStore:
    """A store with the methods of the contract and no others, which knows one cursor a page."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.failures = 0

    def __getattr__(self, name: str) -> Any:
        if name not in {*vars(EventStore), "search"}:
            raise AttributeError(name)
        return getattr(self._store, name)

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        if self.failures:
            self.failures -= 1
            raise errors.StorageUnavailable(what="the store", reason="it is started again")
        return msgspec.structs.replace(self._store.feed(cursor, limit=limit), cursors=())


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCH_READ_MS", 10)


@pytest.mark.usefixtures("_soon")
def test_a_store_of_another_kind_is_read_at_an_interval() -> None:
    with holdfast.open(PlainStore(), blobs=MemoryBlobs()) as engine:
        fill(engine)
        log = [event for event in log_of(engine) if event.stream.tenant == "default"]
        with engine.watch() as watch, closing(engine.watch("c1", after=None)) as session:
            events = take(watch, len(log))
            assert [*map(without_cursor, events)] == log
            assert list(engine.watch(after=events[3].cursor, timeout_s=0)) == events[4:]
            assert list(engine.watch(after=None, timeout_s=0.02)) == []
            threading.Timer(0.05, engine.session("c1").record, ("user", "later")).start()
            assert next(watch).type == next(session).type == "message.recorded"


@pytest.mark.usefixtures("_soon")
def test_a_watch_outlives_a_store_that_fails_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    store = PlainStore()
    with holdfast.open(store, blobs=MemoryBlobs()) as engine:
        engine.create_session("c1")
        store.failures = 5
        assert next(engine.watch()).type == "session.created"
        assert store.failures == 0
        store.failures = 1_000
        monkeypatch.setattr(limits, "WATCH_RETRY_MS", 50)
        with pytest.raises(errors.StorageUnavailable):
            next(engine.watch())


def test_the_pauses_of_a_watch() -> None:
    """The pauses on PostgreSQL grow from the last announcement on, up to the recheck."""
    store = MemoryStore()
    store.recheck_s = 0.4
    feed = runtime.WatchProgress(flow.WatchTarget(), "", None, store)
    assert [feed.next_pause() for _ in range(5)] == [0.05, 0.1, 0.2, 0.4, 0.4]
    feed.wake()
    assert feed.next_pause() == 0.05
    stream = flow.WatchTarget(stream=holdfast.types.StreamId("default", "session", ("main", "c1")))
    assert runtime.WatchProgress(stream, "", None, store).next_pause() == 0.4
    store.recheck_s = None
    assert runtime.WatchProgress(stream, "", None, store).next_pause() is None
    assert runtime.WatchProgress(stream, "", None, None).next_pause() == limits.WATCH_READ_MS / 1_000
