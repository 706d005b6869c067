"""Random histories, and a state machine that compares a store with a simple model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast import chain
from holdfast.codec import encode_stream_key
from holdfast.errors import KeyConflict, VersionConflict
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import GENESIS, Append, Snapshot, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import TABLES, FactRow, Row
from holdfast.ports import EventStore
from holdfast.testing.appends import (
    TYPES,
    all_events,
    all_heads,
    append_of,
    assert_sound,
    erase_event,
    fact_row,
    rows_of_every_table,
    write_to,
)

payloads: st.SearchStrategy[bytes] = st.binary(max_size=40)

# Names that differ by a prefix, a separator or the form of a letter, in two tenants.
_KEYS = (("a", "b"), ("a", "b2"), ("a/b", "c"), ("a", "b/c"), ("a", "b", "c"), ("é", "%"), ("e\u0301", "_"))
_LEDGERS = (("user", "a"), ("session", "a", "b"), ("project", "é"))
STREAMS = (
    *(StreamId(tenant, "session", key) for tenant in ("t", "t2") for key in _KEYS),
    *(StreamId(tenant, "ledger", key) for tenant in ("t", "t2") for key in _LEDGERS),
)
streams: st.SearchStrategy[StreamId] = st.sampled_from(STREAMS)


def _notes_of(tenant: str) -> st.SearchStrategy[dict[StreamId, list[bytes]]]:
    own = st.sampled_from([stream for stream in STREAMS if stream.tenant == tenant])
    return st.dictionaries(own, st.lists(payloads, min_size=1, max_size=3), min_size=1, max_size=3)


notes: st.SearchStrategy[dict[StreamId, list[bytes]]] = st.sampled_from(("t", "t2")).flatmap(_notes_of)
"""The writes of one command: some streams of one tenant, each with some payloads."""


class StoreModel:
    """The expected content of a store, as lists and dicts of what it acknowledged."""

    def __init__(self) -> None:
        self.streams: dict[StreamId, list[StoredEvent]] = {}
        self.feed: list[tuple[StreamId, int]] = []
        self.keys: dict[tuple[str, str], tuple[bytes, list[tuple[StreamId, int]]]] = {}
        self.rows: dict[StreamId, list[Row]] = {}
        self.snapshots: dict[StreamId, Snapshot] = {}

    def version(self, stream: StreamId) -> int:
        return len(self.streams.get(stream, ()))

    def at(self, places: Sequence[tuple[StreamId, int]]) -> tuple[StoredEvent, ...]:
        return tuple(self.streams[stream][seq - 1] for stream, seq in places)

    def all_rows(self, table: type[Row]) -> list[Row]:
        found = [row for rows in self.rows.values() for row in rows if type(row) is table]
        return sorted(found, key=lambda row: [getattr(row, column) for column in table.key])

    def add(self, append: Append, events: Sequence[StoredEvent]) -> None:
        """Check the answer of an append, and add its events."""
        expected = [(write.stream, new) for write in append.writes for new in write.events]
        for ordinal, ((stream, new), event) in enumerate(zip(expected, events, strict=True)):
            history = self.streams.setdefault(stream, [])
            head = StreamHead(stream, len(history), history[-1].hash if history else GENESIS)
            assert chain.find_chain_fault(head, event) is None
            assert (event.stream, event.ordinal, event.command, event.key) == (
                stream,
                ordinal,
                append.command,
                append.key,
            )
            assert (event.type, event.payload, event.salt) == (new.type, new.payload, new.salt)
            history.append(event)
            self.feed.append((stream, event.seq))
        if append.key is not None:
            places = [(event.stream, event.seq) for event in events]
            self.keys[append.tenant, append.key] = (append.order, places)
        for write in append.writes:
            self._add_extras(write)

    def _add_extras(self, write: StreamWrite) -> None:
        for seq in write.erase:
            self.streams[write.stream][seq - 1] = erase_event(self.streams[write.stream][seq - 1])
        if write.erase:
            self.rows.pop(write.stream, None)
            self.snapshots.pop(write.stream, None)
        new = {self._identity(row) for row in write.rows}
        kept = [row for row in self.rows.get(write.stream, ()) if self._identity(row) not in new]
        self.rows[write.stream] = [*kept, *write.rows]
        if write.snapshot is not None:
            self.snapshots[write.stream] = write.snapshot

    def _identity(self, row: Row) -> tuple[object, ...]:
        return (type(row), *(getattr(row, column) for column in type(row).key))


class _StoreMachine(RuleBasedStateMachine):
    """Commands, conflicts, retries, erasures and reads in any order. The store must agree with the model."""

    make_store: ClassVar[Callable[[], EventStore]]
    reopen: ClassVar[Callable[[EventStore], EventStore | None]]

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).make_store()
        self.model = StoreModel()

    def teardown(self) -> None:
        try:
            assert_sound(self.store)
        finally:
            self.store.close()

    def _writes(self, what: dict[StreamId, list[bytes]], kind: str, *, keep: bool) -> list[StreamWrite]:
        writes = []
        for stream, some in what.items():
            expected = self.model.version(stream)
            after = expected + len(some)
            rows: list[Row] = [*rows_of_every_table(stream, after)]
            if stream.kind == "ledger":  # a fact whose words and status change
                rows.append(fact_row(stream, 0, words=f"number {after}", live=after % 2))
            snapshot = Snapshot(after, 1, b"".join(some)) if keep else None
            writes.append(write_to(stream, expected, *some, kind=kind, rows=rows, snapshot=snapshot))
        return writes

    def _known_key(self, pick: int) -> tuple[str, str]:
        return sorted(self.model.keys)[pick % len(self.model.keys)]

    @rule(what=notes, kind=st.sampled_from(TYPES), keep=st.booleans(), keyed=st.booleans())
    def append(self, what: dict[StreamId, list[bytes]], kind: str, keep: bool, keyed: bool) -> None:
        key = f"key {len(self.model.keys)}" if keyed else None
        append = append_of(*self._writes(what, kind, keep=keep), key=key, order=repr(sorted(what)).encode())
        answer = self.store.append(append)
        assert not answer.repeated
        self.model.add(append, answer.events)

    @rule(what=notes, stale=st.integers(0, 2), off=st.sampled_from((-1, 1, 7)))
    def conflict(self, what: dict[StreamId, list[bytes]], stale: int, off: int) -> None:
        writes = self._writes(what, TYPES[0], keep=True)
        at = stale % len(writes)
        actual = writes[at].expected
        writes[at] = msgspec.structs.replace(writes[at], expected=actual + off)
        with pytest.raises(VersionConflict) as caught:
            self.store.append(append_of(*writes, key="never stored"))
        error = caught.value
        assert (error.stream, error.expected, error.actual) == (writes[at].stream, actual + off, actual)
        assert self.store.find(writes[0].stream.tenant, "never stored") == ()

    @precondition(lambda self: self.model.keys)
    @rule(pick=st.integers(0, 99), same=st.booleans(), payload=payloads)
    def retry(self, pick: int, same: bool, payload: bytes) -> None:
        tenant, key = self._known_key(pick)
        order, places = self.model.keys[tenant, key]
        first = self.model.at(places)
        assert self.store.find(tenant, key) == first
        write = write_to(StreamId(tenant, "session", ("other", "stream")), 99, payload)
        again = append_of(write, key=key, order=order if same else order + b" ")
        if same and first[0].payload is not None:
            answer = self.store.append(again)
            assert answer.repeated
            assert answer.events == first
        else:
            with pytest.raises(KeyConflict) as caught:
                self.store.append(again)
            assert (caught.value.tenant, caught.value.key) == (tenant, key)

    @precondition(lambda self: self.model.streams)
    @rule(pick=st.integers(0, 99), seqs=st.sets(st.integers(1, 12), min_size=1, max_size=4))
    def erase(self, pick: int, seqs: set[int]) -> None:
        stream = sorted(self.model.streams)[pick % len(self.model.streams)]
        version = self.model.version(stream)
        gone = sorted({min(seq, version) for seq in seqs})
        write = write_to(stream, version, b"erased", rows=rows_of_every_table(stream, version + 1)[:1], erase=gone)
        append = append_of(write)
        self.model.add(append, self.store.append(append).events)

    @rule(stream=streams, after=st.integers(0, 12), limit=st.integers(1, 5))
    def read(self, stream: StreamId, after: int, limit: int) -> None:
        expected = self.model.streams.get(stream, [])[after : after + limit]
        assert list(self.store.read(stream, after=after, limit=limit)) == expected

    @rule(
        stream=streams,
        before=st.none() | st.integers(0, 12),
        limit=st.integers(1, 5),
        types=st.sets(st.sampled_from(TYPES)),
    )
    def read_back(self, stream: StreamId, before: int | None, limit: int, types: set[str]) -> None:
        wanted = [
            event
            for event in reversed(self.model.streams.get(stream, []))
            if (before is None or event.seq < before) and (not types or event.type in types)
        ]
        assert list(self.store.read_back(stream, before=before, limit=limit, types=sorted(types))) == wanted[:limit]

    @rule(stream=streams, seqs=st.lists(st.integers(-1, 12), max_size=5))
    def positions(self, stream: StreamId, seqs: list[int]) -> None:
        """Positions compare like the order of the feed."""
        order = {place: number for number, place in enumerate(self.model.feed)}
        found = {(stream, seq): each for seq, each in zip(seqs, self.store.positions(stream, seqs), strict=True)}
        assert {place for place, position in found.items() if position} == {*found} & {*order}
        last = self.model.feed[-1:]
        found.update((place, self.store.positions(place[0], place[1:])[0]) for place in last)
        known = sorted({*found} & {*order}, key=order.__getitem__)
        assert sorted(known, key=found.__getitem__) == known
        assert len({found[place] for place in known}) == len(known)

    @rule(limit=st.integers(1, 5))
    def page_through(self, limit: int) -> None:
        assert tuple(all_events(self.store, limit=limit)) == self.model.at(self.model.feed)
        assert {head.stream for head in all_heads(self.store, limit=limit)} == set(self.model.streams)

    @rule(tenant=st.sampled_from(("t", "t2")), number=st.integers(1, 12), live=st.booleans())
    def search(self, tenant: str, number: int, live: bool) -> None:
        facts = [cast("FactRow", row) for row in self.model.all_rows(FactRow)]
        ledgers = tuple(encode_stream_key(stream) for stream in STREAMS if stream.kind == "ledger")
        for word in ("subject", str(number)):
            found = self.store.search(FactQuery(tenant=tenant, ledgers=ledgers, words=(word,), live=live, limit=100))
            known = [row for row, _ in found]
            assert sorted(known, key=repr) == sorted(
                (
                    row
                    for row in facts
                    if (row.tenant, row.live) == (tenant, live) and word in (row.subject, *row.words.split())
                ),
                key=repr,
            )

    @rule()
    def open_again(self) -> None:
        self.store = type(self).reopen(self.store) or self.store

    @invariant()
    def the_store_agrees_with_the_model(self) -> None:
        totals = self.store.totals()
        model = self.model
        assert (totals.streams, totals.events, totals.keys) == (len(model.streams), len(model.feed), len(model.keys))
        for stream in STREAMS:
            history = model.streams.get(stream)
            expected = StreamHead(stream, len(history), history[-1].hash) if history else None
            assert self.store.head(stream) == expected
            assert self.store.snapshot(stream) == model.snapshots.get(stream)
        for table in TABLES:
            assert list(self.store.rows(table, {}, limit=limits.READ_EVENTS)) == model.all_rows(table)


def _never_reopen(_: EventStore) -> None:
    return None


def store_machine(
    make_store: Callable[[], EventStore], reopen: Callable[[EventStore], EventStore | None] = _never_reopen
) -> type[RuleBasedStateMachine]:
    """Return a state machine for the stores that `make_store` opens, each of them empty.

    `reopen` closes a store and opens it again, or returns None. Run the machine with `run_state_machine_as_test`, or
    use its `TestCase`."""
    members: dict[str, Any] = {"make_store": staticmethod(make_store), "reopen": staticmethod(reopen)}
    return type("StoreMachine", (_StoreMachine,), members)
