"""An event loop gets the same answers: the whole contract again, every call awaited, over both backends."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.errors import StoreClosed, VersionConflict
from holdfast.model.log import Append, Appended, FeedPage, Head, Recorded, Snapshot
from holdfast.model.names import StreamId
from holdfast.ports import EventStore
from holdfast.storage.memory import MemoryStore
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.storage.threaded import ThreadedStore
from holdfast.testing import EventStoreContract
from holdfast.testing.appends import ONE, all_events, append_of, assert_sound, stream_named, write_to
from tests.support import figure

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own, for callers who block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Awaited:
    """A blocking store again, over an async one. What the async port leaves out goes to the store below."""

    def __init__(self, loop: Loop, inner: EventStore) -> None:
        self.inner = inner
        self._loop = loop
        self._store = ThreadedStore(inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, append: Append) -> Appended:
        return self._loop.run(self._store.append(append))

    def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        return self._loop.run(self._store.find(tenant, key))

    def read(self, stream: StreamId, **range_: Any) -> tuple[Recorded, ...]:
        return self._loop.run(self._store.read(stream, **range_))

    def read_back(self, stream: StreamId, **range_: Any) -> tuple[Recorded, ...]:
        return self._loop.run(self._store.read_back(stream, **range_))

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        return self._loop.run(self._store.feed(cursor, limit=limit))

    def head(self, stream: StreamId) -> Head | None:
        return self._loop.run(self._store.head(stream))

    def heads(self, **range_: Any) -> tuple[Head, ...]:
        return self._loop.run(self._store.heads(**range_))

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        return self._loop.run(self._store.snapshot(stream))

    def rows(self, *query: Any, **range_: Any) -> tuple[Any, ...]:
        return self._loop.run(self._store.rows(*query, **range_))

    def close(self) -> None:
        self._loop.run(self._store.close())


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.stop()


class TestThreadedMemory(EventStoreContract):
    machine_examples = figure(5, 500)

    @pytest.fixture
    def make_store(self, loop: Loop) -> Callable[[], EventStore]:
        return lambda: Awaited(loop, MemoryStore())


class TestThreadedSqlite(EventStoreContract):
    machine_examples = figure(5, 500)

    @pytest.fixture
    def make_store(self, tmp_path: Path, loop: Loop) -> Callable[[], EventStore]:
        names = (tmp_path / f"{number}.db" for number in itertools.count())
        return lambda: Awaited(loop, SqliteStore(next(names)))


@pytest.fixture(params=["memory", "sqlite"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> EventStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "agent.db")


def test_tasks_append_side_by_side(inner: EventStore) -> None:
    """Good ones and bad ones at once: each gets its own answer, and the good ones are all stored."""

    async def main() -> list[Appended | BaseException]:
        store = ThreadedStore(inner)
        appends = [append_of(write_to(stream_named(str(each)), each % 2, b"%d" % each)) for each in range(40)]
        answers = await asyncio.gather(*map(store.append, appends), return_exceptions=True)
        assert [answer.events[0].payload for answer in answers if isinstance(answer, Appended)] == [
            b"%d" % each for each in range(0, 40, 2)
        ]
        assert_sound(inner)
        await store.close()
        return answers

    refused = asyncio.run(main())[1::2]
    assert {type(answer) for answer in refused} == {VersionConflict}


def test_a_task_that_gives_up_leaves_the_others_alone(inner: EventStore) -> None:
    async def main() -> None:
        store = ThreadedStore(inner)
        tasks = [
            asyncio.create_task(store.append(append_of(write_to(stream_named(str(each)), 0)))) for each in range(9)
        ]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[5].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        given_up = [each for each, answer in enumerate(answers) if isinstance(answer, asyncio.CancelledError)]
        assert given_up == [0, 5]
        stored = set(all_events(inner))
        assert {event for answer in answers if isinstance(answer, Appended) for event in answer.events} <= stored
        await store.append(append_of(write_to(ONE, 0)))
        assert_sound(inner)
        await store.close()

    asyncio.run(main())


def test_closing_twice_and_then_using_it(inner: EventStore) -> None:
    async def main() -> None:
        store = ThreadedStore(inner)
        await store.close()
        await store.close()
        for use in (store.append(append_of(write_to(ONE, 0))), store.read(ONE, limit=1), store.head(ONE)):
            with pytest.raises(StoreClosed):
                await use

    asyncio.run(main())
