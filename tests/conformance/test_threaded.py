"""An event loop gets the same answers: the whole contract again, every call awaited."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.errors import StoreClosed, VersionConflict
from holdfast.model.log import AppendResult
from holdfast.ports import EventStore
from holdfast.storage.memory import MemoryStore
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.storage.threaded import ThreadedStore
from holdfast.testing import DeliveryQueueContract, EventStoreContract, PassageIndexContract
from holdfast.testing.appends import ONE, all_events, append_of, assert_sound, session_stream, write_to
from tests.conformance.async_stores import BlockingStore, LoopThread
from tests.support import figure

T = TypeVar("T")


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.stop()


class TestThreadedSqlite(EventStoreContract, PassageIndexContract, DeliveryQueueContract):
    machine_examples = figure(3, 500)

    @pytest.fixture
    def make_store(self, tmp_path: Path, loop: LoopThread) -> Callable[[], EventStore]:
        names = (tmp_path / f"{number}.db" for number in itertools.count())
        return lambda: BlockingStore(loop, ThreadedStore(SqliteStore(next(names))))


@pytest.fixture(params=["memory", "sqlite"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> EventStore:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "agent.db")


def test_tasks_append_side_by_side(inner: EventStore) -> None:
    """Good ones and bad ones at once: each gets its own answer, and the good ones are all stored."""

    async def main() -> list[AppendResult | BaseException]:
        store = ThreadedStore(inner)
        appends = [append_of(write_to(session_stream(str(each)), each % 2, b"%d" % each)) for each in range(40)]
        answers = await asyncio.gather(*map(store.append, appends), return_exceptions=True)
        assert [answer.events[0].payload for answer in answers if isinstance(answer, AppendResult)] == [
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
            asyncio.create_task(store.append(append_of(write_to(session_stream(str(each)), 0)))) for each in range(9)
        ]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[5].cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        given_up = [each for each, answer in enumerate(answers) if isinstance(answer, asyncio.CancelledError)]
        assert given_up == [0, 5]
        stored = set(all_events(inner))
        assert {event for answer in answers if isinstance(answer, AppendResult) for event in answer.events} <= stored
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
