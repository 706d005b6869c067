"""The stores on PostgreSQL keep the whole contract, unchanged: events, blocking and awaited, and blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from holdfast.ports import BlobStore, EventStore
from holdfast.storage.postgres.async_store import AsyncPostgresStore
from holdfast.storage.postgres.blobs import PostgresBlobs
from holdfast.storage.postgres.store import PostgresStore
from holdfast.testing import BlobStoreContract, EventStoreContract
from tests.conformance.awaited import Awaited, Loop
from tests.postgres import empty_url
from tests.support import figure


class TestPostgresStore(EventStoreContract):
    machine_examples = figure(6, 500)

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


class TestAsyncPostgresStore(EventStoreContract):
    machine_examples = figure(2, 300)

    @pytest.fixture
    def make_store(self) -> Iterator[Callable[[], EventStore]]:
        with ExitStack() as stack:
            loop = Loop()
            stack.callback(loop.stop)

            def make() -> EventStore:
                store = Awaited(loop, AsyncPostgresStore(PostgresStore(stack.enter_context(empty_url()))))
                stack.callback(store.close)
                return store

            yield make


class TestPostgresBlobs(BlobStoreContract):
    @pytest.fixture
    def blobs(self) -> Iterator[BlobStore]:
        with empty_url() as url:
            store = PostgresStore(url)
            yield PostgresBlobs(store)
            store.close()
