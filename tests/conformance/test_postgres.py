"""The stores on PostgreSQL keep the whole contract, unchanged: events, blocking and awaited, and blobs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from holdfast.errors import StoreClosed
from holdfast.model import limits
from holdfast.model.log import AppendResult, Snapshot, StreamWrite
from holdfast.ports import BlobStore, EventStore
from holdfast.storage.group import QueuedCommand
from holdfast.storage.postgres.async_store import AsyncPostgresStore
from holdfast.storage.postgres.blobs import PostgresBlobs
from holdfast.storage.postgres.log import HeadCache
from holdfast.storage.postgres.store import PostgresStore, split_batches
from holdfast.testing import BlobStoreContract, DeliveryQueueContract, EventStoreContract, PassageIndexContract
from holdfast.testing.appends import (
    LEDGER,
    ONE,
    OTHER_LEDGER,
    append_of,
    assert_sound,
    fact_row,
    frame_row,
    session_stream,
    write_to,
)
from tests.conformance.async_stores import BlockingStore, LoopThread
from tests.conformance.postgres_tools import connect_raw
from tests.postgres import empty, empty_url
from tests.support import figure


class Kept:
    """A store that serves one test after the other, each of which finds it empty: to open one costs more than most of them
    do. One that was closed is opened anew."""

    def __init__(self, url: str, loop: LoopThread | None = None) -> None:
        self._url = url
        self._loop = loop
        self._open()

    def _open(self) -> None:
        self.blocking = PostgresStore(self._url)
        self.awaited = None if self._loop is None else AsyncPostgresStore(self.blocking)

    def emptied(self) -> EventStore:
        empty(self._url)
        if self.blocking._closed:
            self._open()
        self.blocking._heads = HeadCache()
        if self._loop is None or self.awaited is None:
            return self.blocking
        self.awaited._heads = HeadCache()
        return BlockingStore(self._loop, self.awaited)


@pytest.fixture(scope="module")
def kept() -> Iterator[Kept]:
    with empty_url() as url:
        found = Kept(url)
        yield found
        found.emptied().close()


@pytest.fixture(scope="module")
def kept_awaited() -> Iterator[Kept]:
    loop = LoopThread()
    with empty_url() as url:
        found = Kept(url, loop)
        yield found
        found.emptied().close()
    loop.stop()


def lent(kept: Kept) -> Iterator[EventStore]:
    """For one test, which may close it."""
    store = kept.emptied()
    yield store
    with suppress(StoreClosed):
        assert_sound(store)


class TestPostgresStore(EventStoreContract, PassageIndexContract, DeliveryQueueContract):
    machine_examples = figure(3, 500)

    @pytest.fixture
    def store(self, kept: Kept) -> Iterator[EventStore]:
        yield from lent(kept)

    @pytest.fixture
    def make_store(self) -> Iterator[Callable[[], EventStore]]:
        with ExitStack() as stack:

            def make() -> EventStore:
                store = PostgresStore(stack.enter_context(empty_url()))
                stack.callback(store.close)
                return store

            yield make

    def reopen(self, store: EventStore) -> EventStore:
        assert isinstance(store, PostgresStore)
        store.close()
        return PostgresStore(store.url)


class TestAsyncPostgresStore(EventStoreContract, PassageIndexContract, DeliveryQueueContract):
    machine_examples = figure(2, 300)

    @pytest.fixture
    def store(self, kept_awaited: Kept) -> Iterator[EventStore]:
        yield from lent(kept_awaited)

    @pytest.fixture
    def make_store(self) -> Iterator[Callable[[], EventStore]]:
        with ExitStack() as stack:
            loop = LoopThread()
            stack.callback(loop.stop)

            def make() -> EventStore:
                store = BlockingStore(loop, AsyncPostgresStore(PostgresStore(stack.enter_context(empty_url()))))
                stack.callback(store.close)
                return store

            yield make


class TestPostgresBlobs(BlobStoreContract):
    @pytest.fixture
    def blobs(self, kept: Kept) -> BlobStore:
        kept.emptied()
        return PostgresBlobs(kept.blocking)


MOST = limits.BATCH_BYTES // 2 + 1
HEAVY: dict[str, StreamWrite] = {
    "payload": write_to(ONE, 0, bytes(MOST)),
    "snapshot": write_to(ONE, 0, snapshot=Snapshot(1, 1, bytes(MOST))),
    "state in a row": write_to(ONE, 0, rows=[frame_row(ONE, 1, state=" " * MOST)]),
}


@pytest.mark.parametrize("write", HEAVY.values(), ids=HEAVY)
def test_no_batch_weighs_more_than_it_may(write: StreamWrite) -> None:
    heavy, light = append_of(write), append_of(write_to(ONE, 0))
    jobs = [light, heavy, light, heavy, heavy, light]
    found = [[request.job for request in batch] for batch in split_batches([QueuedCommand(job, None) for job in jobs])]
    assert found == [[light, heavy, light], [heavy], [heavy, light]]


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_no_task_is_left_waiting_between_two_batches(tasks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that queues up just as the last leaders leave is led by another. The commits are left out, so that leaders
    leave as often as can be, and at the same moment."""

    rng = random.Random(tasks)

    async def answer_soon(_: AsyncPostgresStore, requests: list[QueuedCommand]) -> None:
        for _turn in range(rng.randrange(4)):
            await asyncio.sleep(0)
        for request in requests:
            request.answer(AppendResult(()))

    async def work(store: AsyncPostgresStore, name: str) -> None:
        for version in range(2_000):
            for _turn in range(rng.randrange(4)):
                await asyncio.sleep(0)
            await store.append(append_of(write_to(session_stream(name), version)))

    async def main(url: str) -> None:
        store = AsyncPostgresStore(PostgresStore(url))
        async with asyncio.timeout(20):
            await asyncio.gather(*(work(store, str(number)) for number in range(tasks)))
        await store.close()

    monkeypatch.setattr(AsyncPostgresStore, "_commit", answer_soon)
    with empty_url() as url:
        asyncio.run(main(url))


DAMAGE = {
    "a word is gone": "DELETE FROM fact_words WHERE fact = 2",
    "a word too many": "INSERT INTO fact_words SELECT tenant, home, 'more', 99, weight FROM fact_words LIMIT 1",
    "a dead fact among the living": "UPDATE fact_words SET home = home - 1 WHERE fact = 2",
    "another tenant's": "UPDATE fact_words SET tenant = 'other' WHERE fact = 2",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_words_that_lost_step_with_their_facts_are_found_out(damage: str) -> None:
    with empty_url() as url, closing(PostgresStore(url)) as store:
        store.append(append_of(write_to(LEDGER, 0, rows=[fact_row(LEDGER, number) for number in range(1, 4)])))
        store.append(append_of(write_to(OTHER_LEDGER, 0, rows=[fact_row(OTHER_LEDGER, 1, "", words=" ")])))
        assert store.check() == ()
        with connect_raw(url) as connection:
            connection.execute("SELECT set_config('holdfast.every_tenant', 'on', false)")
            connection.execute(DAMAGE[damage])
            assert store.check() != ()
            connection.execute("DELETE FROM fact_words")
        store.replace_rows(LEDGER, 1, [fact_row(LEDGER, 1)])
        assert store.check() == ()
