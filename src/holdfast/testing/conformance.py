"""The contracts of stores as test suites. Subclass a contract, say how to open your store, and run pytest:

class TestMyStore(EventStoreContract):
    @pytest.fixture
    def make_store(self, tmp_path):
        names = itertools.count()
        return lambda: MyStore(tmp_path / str(next(names)))

    def reopen(self, store):
        store.close()
        return MyStore(store.path)
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.errors import BlobNotFound, InvalidInput, NotFound, StorageCorrupt, StoreClosed
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.ports import BlobStore, EventStore
from holdfast.testing.appends import LOOKALIKES, run_in_threads
from holdfast.testing.contract_deliveries import DeliveryContract
from holdfast.testing.contract_forks import ForkContract
from holdfast.testing.contract_log import AdoptContract, AppendContract, EraseContract, KeyContract, ReadContract
from holdfast.testing.contract_memory import MemoryContract
from holdfast.testing.contract_passages import PassageContract
from holdfast.testing.contract_search import SearchContract
from holdfast.testing.contract_state import (
    CloseContract,
    ConcurrencyContract,
    IsolationContract,
    LookupContract,
    RowContract,
)
from holdfast.testing.strategies import store_machine

__all__ = [
    "BlobStoreContract",
    "DeliveryQueueContract",
    "EventStoreContract",
    "MemoryContract",
    "PassageIndexContract",
    "store_machine",
]


class PassageIndexContract(PassageContract):
    """Tests everything that `ports.PassageIndex` promises, for an event store that is one. A subclass defines the fixture
    `make_store`."""


class DeliveryQueueContract(DeliveryContract):
    """Tests everything that `ports.DeliveryQueue` promises, for an event store that is one. A subclass defines the fixture
    `make_store`."""


class EventStoreContract(
    AppendContract,
    KeyContract,
    ReadContract,
    RowContract,
    LookupContract,
    SearchContract,
    EraseContract,
    AdoptContract,
    ForkContract,
    IsolationContract,
    ConcurrencyContract,
    CloseContract,
):
    """Tests everything that `ports.EventStore` promises. A subclass defines the fixture `make_store`, and `reopen`
    if it can."""

    machine_examples = 30
    machine_steps = 30

    def test_any_history_reads_as_the_model_says(self, make_store: Callable[[], EventStore]) -> None:
        run_state_machine_as_test(
            store_machine(make_store, self.reopen),
            settings=settings(
                max_examples=self.machine_examples, stateful_step_count=self.machine_steps, deadline=None
            ),
        )


ALWAYS_S, NEVER_S = -1.0, 4e9
"""Times for `drop`: no blob is older than the first, every blob is older than the second."""


def body_of(size: int) -> bytes:
    """Return bytes that do not compress, always the same."""
    return hashlib.shake_256(b"body").digest(size)


def put_blob(blobs: BlobStore, tenant: str, body: bytes, chunk: int = 1 << 16) -> BlobRef:
    writer = blobs.writer(tenant)
    for at in range(0, len(body), chunk):
        writer.write(body[at : at + chunk])
    return writer.commit()


def read_blob(blobs: BlobStore, tenant: str, ref: BlobRef) -> bytes:
    return b"".join(blobs.chunks(tenant, ref))


def blob_names(blobs: BlobStore) -> list[tuple[str, str]]:
    return sorted((tenant, digest) for tenant, digest, _ in blobs.stored())


class BlobStoreContract:
    """Tests everything that `ports.BlobStore` promises. A subclass defines the fixture `blobs`: a new, empty store."""

    @pytest.fixture
    def blobs(self) -> BlobStore:
        """Override this."""
        pytest.fail("define the fixture `blobs`: it opens a new, empty blob store")

    @pytest.mark.parametrize("size", [0, 1, 1_000, 2 * limits.BLOB_CHUNK_BYTES + 3])
    @pytest.mark.parametrize("chunk", [7, 4_097, limits.BLOB_CHUNK_BYTES, 1 << 20])
    def test_a_body_is_read_back_unchanged(self, blobs: BlobStore, size: int, chunk: int) -> None:
        body = body_of(size)
        ref = put_blob(blobs, "acme", body, chunk)
        assert ref == BlobRef(hashlib.sha256(body).hexdigest(), size)
        assert read_blob(blobs, "acme", ref) == body

    def test_a_body_that_compresses_well_is_read_back(self, blobs: BlobStore) -> None:
        body = bytes(5_000_000)
        assert read_blob(blobs, "acme", put_blob(blobs, "acme", body)) == body

    def test_empty_chunks_add_nothing_and_the_media_type_is_kept(self, blobs: BlobStore) -> None:
        writer = blobs.writer("acme")
        for chunk in (b"", b"ab", b"", b"c", b""):
            writer.write(chunk)
        ref = writer.commit("text/plain")
        assert ref.media_type == "text/plain"
        assert read_blob(blobs, "acme", ref) == b"abc"

    def test_the_same_body_is_kept_once(self, blobs: BlobStore) -> None:
        assert (
            put_blob(blobs, "acme", b"body", 1)
            == put_blob(blobs, "acme", b"body", 3)
            == put_blob(blobs, "acme", b"body")
        )
        assert len(blob_names(blobs)) == 1

    def test_many_may_put_the_same_body_at_once(self, blobs: BlobStore) -> None:
        body = body_of(100_000)
        refs = run_in_threads(8, lambda number: put_blob(blobs, "acme", body, 1_000 + number))
        assert set(refs) == {BlobRef(hashlib.sha256(body).hexdigest(), len(body))}
        assert read_blob(blobs, "acme", refs[0]) == body
        assert len(blob_names(blobs)) == 1

    @pytest.mark.parametrize(
        ("one", "other"),
        [*LOOKALIKES, ("../..", ".."), ("/", "a/b"), ("a\\b", "a/b"), ("😀" * 64, "😀" * 63)],
    )
    def test_tenants_are_separate(self, blobs: BlobStore, one: str, other: str) -> None:
        ref = put_blob(blobs, one, b"body")
        with pytest.raises(BlobNotFound) as caught:
            read_blob(blobs, other, ref)
        assert (caught.value.tenant, caught.value.digest) == (other, ref.digest)
        put_blob(blobs, other, b"body")
        assert blob_names(blobs) == sorted([(one, ref.digest), (other, ref.digest)])
        assert blobs.drop(one, ref.digest, unless_put_after_s=NEVER_S)
        assert blob_names(blobs) == [(other, ref.digest)]
        assert read_blob(blobs, other, ref) == b"body"

    @pytest.mark.parametrize("size", [0, 3, 5, 1 << 40])
    def test_a_body_of_another_size_is_damage(self, blobs: BlobStore, size: int) -> None:
        ref = put_blob(blobs, "acme", b"body")
        with pytest.raises(StorageCorrupt):
            read_blob(blobs, "acme", BlobRef(ref.digest, size))

    @pytest.mark.parametrize(
        "digest",
        [
            "",
            "../../etc/passwd",
            "/etc/passwd",
            "..",
            "0" * 64,
            "0" * 63,
            "A" * 64,
            "0" * 62 + "/0",
            "0\0" * 32,
            "٣" * 64,
        ],
    )
    def test_an_unknown_digest_is_refused(self, blobs: BlobStore, digest: str) -> None:
        put_blob(blobs, "acme", b"body")
        with pytest.raises((NotFound, InvalidInput)):
            read_blob(blobs, "acme", BlobRef(digest, 4))

    def test_a_body_has_no_name_until_it_is_committed(self, blobs: BlobStore) -> None:
        writer = blobs.writer("acme")
        writer.write(b"body")
        assert blob_names(blobs) == []
        with pytest.raises(BlobNotFound):
            read_blob(blobs, "acme", BlobRef(hashlib.sha256(b"body").hexdigest(), 4))
        ref = writer.commit()
        assert blob_names(blobs) == [("acme", ref.digest)]

    def test_an_aborted_body_leaves_nothing(self, blobs: BlobStore) -> None:
        kept = put_blob(blobs, "acme", b"kept")
        for body in (b"", b"body", b"kept"):
            writer = blobs.writer("acme")
            writer.write(body)
            writer.abort()
            writer.abort()
        assert blob_names(blobs) == [("acme", kept.digest)]
        assert read_blob(blobs, "acme", kept) == b"kept"
        assert blobs.sweep(before_s=NEVER_S) == 0

    @pytest.mark.parametrize("body", [b"", b"body", b"kept"])
    def test_an_aborted_body_cannot_be_committed(self, blobs: BlobStore, body: bytes) -> None:
        kept = put_blob(blobs, "acme", b"kept")
        writer = blobs.writer("acme")
        writer.write(body)
        writer.abort()
        with pytest.raises(StoreClosed):
            writer.commit()
        assert blob_names(blobs) == [("acme", kept.digest)]

    def test_a_dropped_body_is_gone_and_may_come_back(self, blobs: BlobStore) -> None:
        ref = put_blob(blobs, "acme", b"body")
        for _ in range(2):
            assert blobs.drop("acme", ref.digest, unless_put_after_s=NEVER_S)
            assert blob_names(blobs) == []
            with pytest.raises(BlobNotFound):
                read_blob(blobs, "acme", ref)
        assert put_blob(blobs, "acme", b"body") == ref
        assert read_blob(blobs, "acme", ref) == b"body"

    def test_a_body_put_meanwhile_is_not_dropped(self, blobs: BlobStore) -> None:
        ref = put_blob(blobs, "acme", b"body")
        (_, _, put_s), *_ = blobs.stored()
        for since_s in (ALWAYS_S, put_s - 1):
            assert not blobs.drop("acme", ref.digest, unless_put_after_s=since_s)
            assert read_blob(blobs, "acme", ref) == b"body"
        assert blobs.drop("acme", ref.digest, unless_put_after_s=put_s)

    def test_putting_a_body_again_updates_its_time(self, blobs: BlobStore) -> None:
        put_blob(blobs, "acme", b"body")
        (_, _, first_s), *_ = blobs.stored()
        later = (put_s for _ in itertools.count() if (put_s := self._put_again(blobs)) != first_s)
        assert next(later) > first_s

    def _put_again(self, blobs: BlobStore) -> float:
        put_blob(blobs, "acme", b"body")
        (_, _, put_s), *_ = blobs.stored()
        return put_s

    def test_a_sweep_removes_no_body(self, blobs: BlobStore) -> None:
        ref = put_blob(blobs, "acme", b"body")
        writer = blobs.writer("acme")
        writer.write(b"half a body")
        blobs.sweep(before_s=ALWAYS_S)
        half = writer.commit()
        blobs.sweep(before_s=NEVER_S)
        assert (read_blob(blobs, "acme", ref), read_blob(blobs, "acme", half)) == (b"body", b"half a body")

    def test_readers_of_one_body_are_independent(self, blobs: BlobStore) -> None:
        body = body_of(2 * limits.BLOB_CHUNK_BYTES)
        ref = put_blob(blobs, "acme", body)
        pieces: list[Iterator[bytes]] = [blobs.chunks("acme", ref) for _ in range(3)]
        assert [b"".join(group) for group in zip(*zip(*pieces, strict=True), strict=True)] == [body] * 3
