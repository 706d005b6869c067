"""The stores in memory keep the whole contract: they are the reference that the others are compared with."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.errors import InvalidUrl
from holdfast.ports import BlobStore, EventStore
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.testing import BlobStoreContract, DeliveryQueueContract, EventStoreContract, PassageIndexContract
from tests.support import figure


class TestMemoryStore(EventStoreContract, PassageIndexContract, DeliveryQueueContract):
    machine_examples = figure(40, 5_000)

    @pytest.fixture
    def make_store(self) -> Callable[[], EventStore]:
        return MemoryStore

    def test_there_is_no_file_to_back_up(self, store: EventStore) -> None:
        with pytest.raises(InvalidUrl):
            store.backup("copy.db")


class TestMemoryBlobs(BlobStoreContract):
    @pytest.fixture
    def blobs(self) -> BlobStore:
        return MemoryBlobs()
