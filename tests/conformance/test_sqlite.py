"""The embedded store keeps the whole contract, and what it keeps is still there when the file is opened again."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.ports import EventStore
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing import DeliveryQueueContract, EventStoreContract, PassageIndexContract
from tests.support import figure


class TestSqliteStore(EventStoreContract, PassageIndexContract, DeliveryQueueContract):
    machine_examples = figure(12, 1_000)

    @pytest.fixture
    def make_store(self, tmp_path: Path) -> Callable[[], EventStore]:
        names = (tmp_path / f"{number}.db" for number in itertools.count())
        return lambda: SqliteStore(next(names))

    def reopen(self, store: EventStore) -> EventStore:
        assert isinstance(store, SqliteStore)
        store.close()
        return SqliteStore(store.path)
