"""The contract of event stores, part 4: forks, which are streams that continue another one."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import chain
from holdfast.errors import InvalidAppend, StorageCorrupt, VersionConflict
from holdfast.model.log import GENESIS, Snapshot, StoredEvent, StreamHead
from holdfast.model.rows import SessionRow
from holdfast.ports import EventStore
from holdfast.storage.memory import MemoryStore
from holdfast.testing.appends import (
    ONE,
    PAGE,
    TWO,
    append_of,
    fill_stream,
    ledger_stream,
    positions_in_feed_order,
    rows_of_every_table,
    session_row,
    session_stream,
    write_to,
)
from holdfast.testing.contract_log import StoreFixtures

CUT = 2
"""The last event of ONE that TWO shares."""


def _base_of(event: StoredEvent) -> StreamHead:
    return StreamHead(event.stream, event.seq, event.hash)


class ForkContract(StoreFixtures):
    """A new stream with a base is numbered and chained after it. The store has no events of it before them."""

    def fork(self, store: EventStore) -> tuple[tuple[StoredEvent, ...], tuple[StoredEvent, ...]]:
        """Three events of ONE, and four of TWO, which shares two of them."""
        shared = fill_stream(store, ONE, 3)
        base = _base_of(shared[CUT - 1])
        first = msgspec.structs.replace(write_to(TWO, 0, b"[1]", b"[2]", rows=[session_row(TWO)]), base=base)
        events = store.append(append_of(first, key="fork")).events
        return shared, events + store.append(append_of(write_to(TWO, CUT + 2, b"[3]", b"[4]"))).events

    def test_a_fork_is_numbered_and_chained_after_its_base(self, store: EventStore) -> None:
        shared, own = self.fork(store)
        assert [event.seq for event in own] == [3, 4, 5, 6]
        at = StreamHead(TWO, CUT, shared[CUT - 1].hash)
        for event in own:
            assert chain.find_chain_fault(at, event) is None
            at = StreamHead(TWO, event.seq, event.hash)
        assert store.head(TWO) == at
        assert store.check() == ()
        assert store.find(TWO.tenant, "fork") == own[:2]
        assert store.feed(limit=PAGE).events == shared + own
        assert store.totals().events == 7

    def test_a_fork_is_read_by_its_seqs(self, store: EventStore) -> None:
        _, own = self.fork(store)
        assert store.read(TWO, limit=PAGE) == store.read(TWO, after=2, limit=PAGE) == own
        assert (store.read(TWO, after=4, limit=1), store.read(TWO, after=6, limit=1)) == (own[2:3], ())
        assert store.read_back(TWO, limit=2) == own[:1:-1]
        assert store.read_back(TWO, before=5, limit=PAGE) == own[1::-1]
        assert (store.read_back(TWO, before=3, limit=PAGE), store.read_back(TWO, before=1, limit=PAGE)) == ((), ())

    def test_a_fork_has_positions_for_its_own_events(self, store: EventStore) -> None:
        self.fork(store)
        none, *others = store.positions(TWO, (2, 3, 4, 5, 6))
        assert (none, store.positions(TWO, (7, 1))) == ((), ((), ()))
        assert others == positions_in_feed_order(store)[3:]

    def test_the_shared_events_of_a_fork_are_erased_where_they_are_stored(self, store: EventStore) -> None:
        shared, own = self.fork(store)
        write = write_to(TWO, 6, b"[5]", rows=[session_row(TWO, 7)], erase=(1, 2, 4))
        store.append(append_of(write))
        assert store.read(ONE, limit=PAGE) == shared
        assert [event.payload for event in store.read(TWO, limit=PAGE)] == [b"[1]", None, b"[3]", b"[4]", b"[5]"]
        assert store.read(TWO, limit=1) == own[:1]
        assert store.rows(SessionRow, {}, limit=5) == (session_row(TWO, 7),)
        store.append(append_of(write_to(TWO, 7, b"[6]", erase=(1,))))
        assert (store.read(ONE, limit=PAGE), store.rows(SessionRow, {}, limit=5)) == (shared, ())

    def test_rows_and_a_snapshot_of_a_fork(self, store: EventStore) -> None:
        self.fork(store)
        snapshot = Snapshot(7, 1, b"state")
        store.append(append_of(write_to(TWO, 6, snapshot=snapshot)))
        assert store.snapshot(TWO) == snapshot
        store.replace_rows(TWO, 7, rows_of_every_table(TWO))
        assert store.rows(SessionRow, {}, limit=5) == rows_of_every_table(TWO)[:1]
        with pytest.raises(VersionConflict):
            store.replace_rows(TWO, 5, ())

    def test_only_a_new_stream_of_the_same_tenant_is_a_fork(self, store: EventStore) -> None:
        shared, own = self.fork(store)
        base = _base_of(shared[0])
        foreign = session_stream("three", tenant="other")
        for stream, expected, error in (
            (TWO, 6, InvalidAppend),
            (TWO, 0, VersionConflict),
            (foreign, 0, InvalidAppend),
        ):
            write = msgspec.structs.replace(write_to(stream, expected), base=base)
            with pytest.raises(error):
                store.append(append_of(write))
        assert store.feed(limit=PAGE).events == shared + own

    def test_several_forks_begin_in_one_append(self, store: EventStore) -> None:
        (first, *_), ledger = fill_stream(store, ONE, 2), ledger_stream("forked")
        (fact,) = fill_stream(store, ledger_stream("l"), 1)
        writes = [
            write_to(ONE, 2),
            msgspec.structs.replace(write_to(TWO, 0), base=_base_of(first)),
            msgspec.structs.replace(write_to(ledger, 0), base=_base_of(fact)),
        ]
        events = store.append(append_of(*writes)).events
        assert [(event.stream, event.seq) for event in events] == [(ONE, 3), (TWO, 2), (ledger, 2)]
        assert store.check() == ()

    def test_a_fork_is_adopted_with_its_base(self, store: EventStore) -> None:
        shared, own = self.fork(MemoryStore())
        store.adopt(shared, {}, {})
        with pytest.raises((StorageCorrupt, VersionConflict)):
            store.adopt(own, {}, {})
        for base in (StreamHead(ONE, 1, shared[0].hash), StreamHead(ONE, CUT, GENESIS)):
            with pytest.raises((StorageCorrupt, VersionConflict)):
                store.adopt(own, {}, {}, {}, {TWO: base})
        assert store.head(TWO) is None
        store.adopt(own[:1], {TWO: [session_row(TWO)]}, {}, {}, {TWO: _base_of(shared[CUT - 1])})
        store.adopt(own[1:], {TWO: [session_row(TWO, 6)]}, {TWO: [1, 4]}, {}, {})
        assert [event.hash for event in store.read(TWO, limit=PAGE)] == [event.hash for event in own]
        assert [event.seq for event in store.read(TWO, limit=PAGE) if event.payload is None] == [4]
        assert store.read(ONE, limit=PAGE) == shared
        assert store.rows(SessionRow, {}, limit=5) == (session_row(TWO, 6),)
