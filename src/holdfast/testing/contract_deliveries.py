"""The contract of event stores, part 7: workers share the outbox."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.errors import TooLarge
from holdfast.model.memory.deliveries import Delivery
from holdfast.model.names import StreamId
from holdfast.testing.appends import ONE, TWO, append_of, outbox_row, run_in_threads, session_stream, write_to
from holdfast.testing.contract_log import StoreFixtures

LEASE = 50


def put_entries(store: Any, stream: StreamId, *entries: int, done: int = 0) -> None:
    head = store.head(stream)
    rows = [msgspec.structs.replace(outbox_row(stream, entry), done=done) for entry in entries]
    store.append(append_of(write_to(stream, head.version if head else 0, rows=rows)))


def claim(store: Any, now_us: int, owner: str = "w", limit: int = 9, tenant: str = "acme") -> list[Delivery]:
    return [*store.claim_offloads(tenant, owner=owner, now_us=now_us, lease_us=LEASE, limit=limit)]


def entries_of(deliveries: Any) -> list[int]:
    return [each.offload.entry for each in deliveries]


class DeliveryContract(StoreFixtures):
    """Claims of entries of the outbox. For stores that are a `ports.DeliveryQueue` too."""

    def test_entries_are_claimed_oldest_first_by_one_worker_at_a_time(self, store: Any) -> None:
        put_entries(store, ONE, 2, 4)
        put_entries(store, TWO, 1, 3)
        put_entries(store, session_stream("one", tenant="other"), 9)
        (first, second) = claim(store, 100, "w", limit=2)
        assert entries_of((first, second)) == [1, 2]
        assert (first.owner, first.until_us, first.attempts, first.error) == ("w", 150, 1, "")
        assert entries_of(claim(store, 100, "w")) == [3, 4], "not even the same worker gets it twice"
        assert claim(store, 149, "v") == []
        again = claim(store, 150, "v")
        assert [(each.offload.entry, each.owner, each.attempts) for each in again] == [
            (entry, "v", 2) for entry in (1, 2, 3, 4)
        ]
        assert entries_of(claim(store, 100, tenant="other")) == [9]
        for limit in (0, 1_000_000):
            with pytest.raises(TooLarge):
                claim(store, 1, limit=limit)

    def test_an_acknowledged_entry_is_never_claimed_again(self, store: Any) -> None:
        put_entries(store, ONE, 1, 2)
        claimed = claim(store, 100)
        put_entries(store, ONE, 1, done=1)
        assert not store.release_offload(claimed[0])
        assert entries_of(store.deliveries("acme", limit=9)) == [2]
        assert entries_of(claim(store, 200)) == [2]
        put_entries(store, ONE, 1)
        assert [(each.offload.entry, each.attempts) for each in claim(store, 201)] == [(1, 1)], "nothing was left of it"

    def test_a_failure_is_tried_again_later_or_set_aside(self, store: Any) -> None:
        put_entries(store, ONE, 1, 2)
        one, two = claim(store, 100)
        assert store.release_offload(msgspec.structs.replace(one, next_us=500, error="it is down"))
        assert store.release_offload(msgspec.structs.replace(two, error="it is poison", is_set_aside=True))
        assert claim(store, 499) == []
        (later,) = claim(store, 500, "v")
        assert (later.offload, later.attempts, later.error) == (one.offload, 2, "it is down")
        assert not store.release_offload(one), "another worker has it"
        assert entries_of(claim(store, 10_000)) == [1]
        assert entries_of(store.deliveries("acme", set_aside=True, limit=9)) == [2]
        assert entries_of(store.deliveries("acme", set_aside=False, limit=9)) == [1]
        (_, aside) = store.deliveries("acme", limit=9)
        assert (aside.error, aside.is_set_aside, aside.owner, aside.attempts) == ("it is poison", True, "", 1)
        store.requeue_offload(aside, 10_001)
        assert [(each.offload.entry, each.attempts, each.error) for each in claim(store, 10_001)] == [(2, 1, "")]
        store.requeue_offload(aside, 10_002)
        assert claim(store, 10_003) == [], "it is being delivered"

    def test_a_claim_is_kept_by_its_worker_alone(self, store: Any) -> None:
        put_entries(store, ONE, 1)
        (one,) = claim(store, 100)
        assert store.renew_offload(msgspec.structs.replace(one, until_us=900))
        assert claim(store, 899) == []
        (other,) = claim(store, 900, "v")
        assert not store.renew_offload(msgspec.structs.replace(one, until_us=10_000)), "another worker has it"
        assert not store.renew_offload(msgspec.structs.replace(other, owner="w", until_us=10_000))
        put_entries(store, ONE, 1, done=1)
        assert not store.renew_offload(other), "it is acknowledged"

    def test_deliveries_outlive_a_rebuild_of_the_rows(self, store: Any) -> None:
        put_entries(store, ONE, 1)
        (one,) = claim(store, 100)
        assert store.release_offload(msgspec.structs.replace(one, next_us=500, error="it is down"))
        store.replace_rows(ONE, 1, [outbox_row(ONE, 1)])
        (left,) = store.deliveries("acme", limit=9)
        assert (left.attempts, left.next_us, left.error) == (1, 500, "it is down")
        store.replace_rows(ONE, 1, [])
        assert store.deliveries("acme", limit=9) == ()
        assert claim(store, 600) == []

    def test_many_workers_share_the_entries(self, store: Any) -> None:
        for number in range(8):
            put_entries(store, session_stream(str(number)), *range(1, 6))

        def work(number: int) -> list[str]:
            keys: list[str] = []
            while claimed := claim(store, 100, f"w{number}", limit=3):
                assert {each.owner for each in claimed} == {f"w{number}"}
                keys += (each.offload.key for each in claimed)
            return keys

        keys = [key for keys in run_in_threads(4, work) for key in keys]
        assert len(keys) == len({*keys}) == 40
