"""The contract of event stores, part 1: append, keys, read, erase and adopt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import msgspec
import pytest

from holdfast import chain, codec
from holdfast.errors import (
    InvalidAppend,
    InvalidCursor,
    KeyConflict,
    StorageCorrupt,
    StoreClosed,
    TooLarge,
    VersionConflict,
)
from holdfast.model import limits
from holdfast.model.log import GENESIS, Append, Snapshot, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import SessionRow
from holdfast.ports import EventStore
from holdfast.storage.memory import MemoryStore
from holdfast.testing.appends import (
    LEDGER,
    LOOKALIKES,
    ONE,
    ORDER,
    OTHER_LEDGER,
    PAGE,
    TWO,
    all_events,
    all_heads,
    append_of,
    assert_sound,
    entry_row,
    erase_event,
    fill_stream,
    ledger_stream,
    rows_of_every_table,
    session_row,
    session_stream,
    write_to,
)

FAR_POSITION = 1 << 70
"""Beyond the positions of any store."""

INVALID_IDS = ("", "id", "0" * 31, "0" * 33, "A" * 32, "00 " * 16, "g" * 32)
"""Ids that are not 32 hexadecimal digits, although a lenient parser would accept some."""


class StoreFixtures:
    """The fixtures of all contracts."""

    @pytest.fixture
    def make_store(self) -> Callable[[], EventStore]:
        """Override this: return a function that opens a new, empty store at each call."""
        pytest.fail("define the fixture `make_store`: it returns a function that opens a new, empty store")

    @pytest.fixture
    def store(self, make_store: Callable[[], EventStore]) -> Iterator[EventStore]:
        store = make_store()
        yield store
        with suppress(StoreClosed):
            assert_sound(store)
        store.close()

    def reopen(self, store: EventStore) -> EventStore | None:  # noqa: ARG002 - for subclasses
        """Override this for a durable store: close it and open it again."""
        return None


class AppendContract(StoreFixtures):
    """Appends, and what they refuse."""

    def test_an_append_returns_the_stored_events(self, store: EventStore) -> None:
        append = append_of(write_to(ONE, 0, b"[1]", b"[2]", b"[3]"), key="key", cause="a cause")
        answer = store.append(append)
        assert not answer.repeated
        assert store.read(ONE, limit=PAGE) == answer.events
        for number, (new, event) in enumerate(zip(append.writes[0].events, answer.events, strict=True)):
            assert (event.stream, event.seq, event.ordinal) == (ONE, number + 1, number)
            assert (event.command, event.cause, event.key) == (append.command, "a cause", "key")
            assert (event.time_us, event.principal) == (append.time_us, append.principal)
            assert (event.type, event.version, event.payload, event.salt) == (
                new.type,
                new.version,
                new.payload,
                new.salt,
            )

    def test_versions_have_no_gaps(self, store: EventStore) -> None:
        for size in (1, 3, 2):
            head = store.head(ONE)
            store.append(append_of(write_to(ONE, head.version if head else 0, *[b"{}"] * size)))
        assert [event.seq for event in store.read(ONE, limit=PAGE)] == [1, 2, 3, 4, 5, 6]

    def test_one_append_writes_several_streams(self, store: EventStore) -> None:
        fill_stream(store, ONE, 2)
        answer = store.append(append_of(write_to(TWO, 0, b"[1]", b"[2]"), write_to(ONE, 2, b"[3]")))
        assert [(event.stream, event.seq, event.ordinal) for event in answer.events] == [
            (TWO, 1, 0),
            (TWO, 2, 1),
            (ONE, 3, 2),
        ]
        assert store.read(TWO, limit=PAGE) + store.read(ONE, after=2, limit=PAGE) == answer.events

    @pytest.mark.parametrize("expected", [0, 2, 4, -1])
    def test_a_stale_writer_gets_a_conflict(self, store: EventStore, expected: int) -> None:
        events = fill_stream(store, ONE, 3)
        with pytest.raises(VersionConflict) as caught:
            store.append(append_of(write_to(ONE, expected)))
        assert (caught.value.stream, caught.value.expected, caught.value.actual) == (ONE, expected, 3)
        assert store.read(ONE, limit=PAGE) == events

    @pytest.mark.parametrize("stale", [0, 1])
    def test_a_conflict_on_one_stream_stores_nothing_on_any(self, store: EventStore, stale: int) -> None:
        writes = [
            write_to(stream, 9 if number == stale else 0, rows=[session_row(stream)], snapshot=Snapshot(1, 1, b"s"))
            for number, stream in enumerate((ONE, TWO))
        ]
        with pytest.raises(VersionConflict):
            store.append(append_of(*writes, key="key"))
        for stream in (ONE, TWO):
            assert (store.head(stream), store.snapshot(stream), store.read(stream, limit=PAGE)) == (None, None, ())
        assert store.rows(SessionRow, {}, limit=PAGE) == ()
        assert store.find(ONE.tenant, "key") == ()
        assert store.feed(limit=PAGE).events == ()

    @pytest.mark.parametrize(
        ("writes", "reason"),
        [
            ((), InvalidAppend),
            ((msgspec.structs.replace(write_to(ONE, 0), events=()),), InvalidAppend),
            ((write_to(ONE, 0), msgspec.structs.replace(write_to(TWO, 0), events=())), InvalidAppend),
            ((write_to(ONE, 0), write_to(ONE, 1)), InvalidAppend),
            ((write_to(ONE, 0), write_to(session_stream(tenant="other"), 0)), InvalidAppend),
            ((write_to(ONE, 0, *[b"{}"] * (limits.COMMAND_EVENTS + 1)),), TooLarge),
            ((write_to(ONE, 0, *[b"{}"] * limits.COMMAND_EVENTS), write_to(TWO, 0)), TooLarge),
            ((write_to(ONE, 0), write_to(TWO, 0, snapshot=Snapshot(1, 1, bytes(limits.SNAPSHOT_BYTES + 1)))), TooLarge),
            ((write_to(ONE, 0, erase=[2]),), InvalidAppend),
            ((write_to(ONE, 0), write_to(TWO, 0, erase=[0])), InvalidAppend),
        ],
        ids=[
            "no writes",
            "a write without events",
            "one of two without events",
            "a stream twice",
            "two tenants",
            "too many events",
            "too many in all",
            "too large a snapshot",
            "erasing what is not there yet",
            "erasing before the beginning",
        ],
    )
    def test_a_malformed_append_is_refused(
        self, store: EventStore, writes: tuple[StreamWrite, ...], reason: type[Exception]
    ) -> None:
        with pytest.raises(reason):
            store.append(append_of(*writes, key="key"))
        assert store.totals().events == store.totals().streams == store.totals().keys == 0

    @pytest.mark.parametrize("command", INVALID_IDS)
    def test_an_invalid_command_id_is_refused(self, store: EventStore, command: str) -> None:
        with pytest.raises(InvalidAppend):
            store.append(msgspec.structs.replace(append_of(write_to(ONE, 0)), command=command))
        assert store.totals().events == 0

    def test_the_largest_command_is_stored(self, store: EventStore) -> None:
        writes = (write_to(ONE, 0, *[b"[1]"] * (limits.COMMAND_EVENTS - 1)), write_to(TWO, 0))
        answer = store.append(append_of(*writes, key="key"))
        assert len(answer.events) == limits.COMMAND_EVENTS
        assert store.find(ONE.tenant, "key") == answer.events


class KeyContract(StoreFixtures):
    """Idempotency keys."""

    def test_a_retry_gets_the_first_answer_at_any_version(self, store: EventStore) -> None:
        first = append_of(write_to(ONE, 0, b"[1]"), write_to(TWO, 0, b"[2]", b"[3]"), key="key")
        answer = store.append(first)
        fill_stream(store, ONE, 2)
        for retry in (first, append_of(write_to(ONE, 0, b"[9]"), key="key"), append_of(write_to(TWO, 77), key="key")):
            again = store.append(retry)
            assert again.repeated
            assert again.events == answer.events == store.find(ONE.tenant, "key")
        assert store.totals().events == 5

    @pytest.mark.parametrize("expected", [1, 99])
    def test_a_key_used_for_another_command_is_a_conflict(self, store: EventStore, expected: int) -> None:
        """The key is checked before the version, also for a stale writer."""
        answer = store.append(append_of(write_to(ONE, 0), key="key"))
        with pytest.raises(KeyConflict) as caught:
            store.append(append_of(write_to(ONE, expected, rows=[session_row(ONE)]), key="key", order=ORDER + b" "))
        assert (caught.value.tenant, caught.value.key) == (ONE.tenant, "key")
        assert store.find(ONE.tenant, "key") == store.read(ONE, limit=PAGE) == answer.events
        assert store.rows(SessionRow, {}, limit=PAGE) == ()

    def test_a_key_belongs_to_its_tenant(self, store: EventStore) -> None:
        theirs = session_stream(tenant="theirs")
        first = store.append(append_of(write_to(ONE, 0), key="key"))
        second = store.append(append_of(write_to(theirs, 0), key="key", order=b"another"))
        assert store.find(ONE.tenant, "key") == first.events
        assert store.find("theirs", "key") == second.events
        assert store.find("nobody", "key") == ()

    def test_a_refused_append_leaves_its_key_free(self, store: EventStore) -> None:
        with pytest.raises(VersionConflict):
            store.append(append_of(write_to(ONE, 5), key="key"))
        assert not store.append(append_of(write_to(ONE, 0), key="key", order=b"another")).repeated

    def test_a_key_stays_used_after_its_content_is_erased(self, store: EventStore) -> None:
        append = append_of(write_to(ONE, 0, b"[1]", b"[2]"), key="key")
        events = store.append(append).events
        store.append(append_of(write_to(ONE, 2, erase=[1])))
        with pytest.raises(KeyConflict) as caught:
            store.append(append)
        assert "erased" in caught.value.reason
        assert store.find(ONE.tenant, "key") == (erase_event(events[0]), events[1])

    @pytest.mark.parametrize(("one", "other"), LOOKALIKES)
    def test_similar_keys_are_separate(self, store: EventStore, one: str, other: str) -> None:
        first = store.append(append_of(write_to(ONE, 0), key=one))
        assert store.find(ONE.tenant, other) == ()
        second = store.append(append_of(write_to(ONE, 1), key=other))
        assert (store.find(ONE.tenant, one), store.find(ONE.tenant, other)) == (first.events, second.events)


class ReadContract(StoreFixtures):
    """Reads, the feed and positions."""

    def test_a_range_of_a_stream(self, store: EventStore) -> None:
        events = fill_stream(store, ONE, 10)
        fill_stream(store, TWO, 3)
        for after, limit in ((0, PAGE), (0, 1), (3, 4), (9, 5), (10, 5), (-3, 2)):
            assert store.read(ONE, after=after, limit=limit) == events[max(0, after) :][:limit]

    def test_a_stream_backwards(self, store: EventStore) -> None:
        kinds = ("a", "b", "a", "c", "b", "a")
        for version, kind in enumerate(kinds):
            store.append(append_of(write_to(ONE, version, kind=kind)))
        newest = store.read(ONE, limit=PAGE)[::-1]
        for before, limit in ((None, PAGE), (None, 2), (4, PAGE), (4, 2), (1, 5), (0, 5), (-2, 5), (99, 3)):
            wanted = [event for event in newest if before is None or event.seq < before]
            assert list(store.read_back(ONE, before=before, limit=limit)) == wanted[:limit]
            of_types = [event for event in wanted if event.type in ("a", "c")]
            assert list(store.read_back(ONE, before=before, limit=limit, types=("a", "c"))) == of_types[:limit]
        assert store.read_back(ONE, limit=PAGE, types=("a' OR 1=1 --", "%")) == ()

    def test_a_missing_stream_is_empty(self, store: EventStore) -> None:
        fill_stream(store, ONE, 1)
        assert (store.read(TWO, limit=1), store.read_back(TWO, limit=1)) == ((), ())
        assert (store.head(TWO), store.snapshot(TWO), store.find(ONE.tenant, "key")) == (None, None, ())

    def test_a_position_beyond_the_limit_is_accepted(self, store: EventStore) -> None:
        events = fill_stream(store, ONE, 2)
        assert (store.read(ONE, after=FAR_POSITION, limit=5), store.read(ONE, after=-FAR_POSITION, limit=5)) == (
            (),
            events,
        )
        assert (
            store.read_back(ONE, before=-FAR_POSITION, limit=5),
            store.read_back(ONE, before=FAR_POSITION, limit=5),
        ) == (
            (),
            events[::-1],
        )

    @pytest.mark.parametrize("limit", [0, -1, PAGE + 1])
    @pytest.mark.parametrize("method", ["read", "read_back", "feed", "heads", "rows"])
    def test_the_size_of_a_page_is_limited(self, store: EventStore, method: str, limit: int) -> None:
        subject: tuple[object, ...] = {"read": (ONE,), "read_back": (ONE,), "rows": (SessionRow, {})}.get(method, ())
        with pytest.raises(TooLarge) as caught:
            getattr(store, method)(*subject, limit=limit)
        assert (caught.value.size, caught.value.limit) == (limit, PAGE)

    def test_the_feed_has_every_event_in_the_order_of_the_appends(self, store: EventStore) -> None:
        theirs = session_stream(tenant="theirs")
        appends = [append_of(write_to(stream, at, b"[1]", b"[2]")) for at in (0, 2, 4) for stream in (TWO, theirs, ONE)]
        appends.append(append_of(write_to(TWO, 6), write_to(ONE, 6)))
        expected = [event for append in appends for event in store.append(append).events]
        for limit in (1, 3, 7, PAGE):
            assert list(all_events(store, limit=limit)) == expected

    def test_a_cursor_continues_after_its_page(self, store: EventStore) -> None:
        assert store.feed("", limit=5).events == ()
        first = fill_stream(store, ONE, 3)
        page = store.feed(limit=2)
        assert page.events == first[:2]
        rest = store.feed(page.cursor, limit=5)
        assert rest.events == first[2:]
        at_the_end = store.feed(rest.cursor, limit=5)
        assert at_the_end.events == ()
        later = fill_stream(store, TWO, 2)
        reopened = self.reopen(store) or store
        assert tuple(all_events(reopened, at_the_end.cursor)) == later
        assert tuple(all_events(reopened, page.cursor)) == first[2:] + later
        reopened.close()

    @pytest.mark.parametrize("cursor", ["x", "-1", " 1", "1.5", "٣", "1 OR 1=1", "9" * 40, "\0", "99"])
    def test_a_cursor_of_another_store_is_refused(self, store: EventStore, cursor: str) -> None:
        """A cursor past the end is refused too: a reader may have it after the store was restored from an older
        copy, and would skip the next events."""
        fill_stream(store, ONE, 2)
        with pytest.raises(InvalidCursor):
            store.feed(cursor, limit=5)

    def test_positions_compare_as_the_appends_came(self, store: EventStore) -> None:
        """Whatever the names and tenants of the streams are, and whatever time the clock showed."""
        streams = (TWO, LEDGER, session_stream(tenant="theirs"), ONE, OTHER_LEDGER)
        positions: list[tuple[int, ...]] = []
        for version in range(3):
            for number, stream in enumerate(streams):
                append = append_of(write_to(stream, version))
                store.append(msgspec.structs.replace(append, time_us=9_000 - 100 * version - number))
                positions += store.positions(stream, (version + 1,))
        assert positions == sorted({*positions} - {()})
        read = [store.positions(stream, (1, 2, 3)) for stream in streams]
        assert [position for some in zip(*read, strict=True) for position in some] == positions

    def test_positions_within_one_append_are_those_of_the_feed(self, store: EventStore) -> None:
        fill_stream(store, ONE, 1)
        streams = (TWO, OTHER_LEDGER, ONE, LEDGER)
        writes = [write_to(stream, int(stream == ONE), b"[1]", b"[2]") for stream in streams]
        events = store.append(append_of(*writes)).events
        fill_stream(store, TWO, 1)
        assert store.feed(limit=PAGE).events[1:-1] == events
        positions = [store.positions(event.stream, (event.seq,))[0] for event in events]
        assert positions == sorted(set(positions))
        assert store.positions(ONE, (1,))[0] < positions[0]
        assert positions[-1] < store.positions(TWO, (3,))[0]

    def test_a_missing_event_has_no_position(self, store: EventStore) -> None:
        fill_stream(store, ONE, 2)
        first, second = store.positions(ONE, (1, 2))
        assert store.positions(ONE, (3, 2, 0, -1, FAR_POSITION, 1, -FAR_POSITION, 2)) == (
            (),
            second,
            (),
            (),
            (),
            first,
            (),
            second,
        )
        theirs = session_stream(tenant="theirs")
        for stream in (TWO, theirs, session_stream("session' OR 1=1 --"), ledger_stream("nobody")):
            assert store.positions(stream, (1, 2)) == ((), ())
        assert (store.positions(ONE, ()), store.positions(TWO, ())) == ((), ())

    def test_more_positions_than_one_query_takes(self, store: EventStore) -> None:
        size = limits.COMMAND_EVENTS
        appended = 0
        while appended <= PAGE:
            store.append(append_of(write_to(ONE, appended, *[b"{}"] * size)))
            appended += size
        seqs = list(range(1, appended + 1))
        positions = store.positions(ONE, seqs)
        assert list(positions) == sorted({*positions} - {()})
        assert store.positions(ONE, [*seqs[::-1], appended + 1, *seqs]) == (*positions[::-1], (), *positions)

    def test_positions_last(self, store: EventStore) -> None:
        """When the store is opened again, and when the content is erased."""
        fill_stream(store, ONE, 2)
        fill_stream(store, TWO, 1)
        before = store.positions(ONE, (1, 2)) + store.positions(TWO, (1,))
        store.append(append_of(write_to(ONE, 2, erase=[1])))
        reopened = self.reopen(store) or store
        assert reopened.positions(ONE, (1, 2)) + reopened.positions(TWO, (1,)) == before
        fill_stream(reopened, TWO, 1)
        assert max(before) < reopened.positions(ONE, (3,))[0] < reopened.positions(TWO, (2,))[0]
        reopened.close()

    def test_heads_come_in_the_order_of_their_streams(self, store: EventStore) -> None:
        keys = [
            ("a", "b"),
            ("a", "b", "c"),
            ("a", "b!"),
            ("a ", "b"),
            ("a", "B"),
            ("é", "z"),
            ("a/b", "c"),
            ('a"', "b"),
        ]
        streams = [StreamId(tenant, "session", key) for tenant in ("t", "t2", "T") for key in keys]
        streams += (ledger_stream("a", tenant="t"), StreamId("t", "ledger", ("session", "a", "b")))
        heads = []
        for stream in streams:
            event = fill_stream(store, stream, 1)[0]
            heads.append(StreamHead(stream, 1, event.hash))
        for limit in (1, 4, PAGE):
            assert list(all_heads(store, limit=limit)) == sorted(heads, key=_head_order)

    def test_totals_count_streams_events_keys_and_entries(self, store: EventStore) -> None:
        fill_stream(store, ONE, 3)
        store.append(append_of(write_to(TWO, 0, b"[1]", b"[2]"), write_to(ONE, 3), key="key"))
        store.append(append_of(write_to(TWO, 9), key="key"))
        totals = store.totals()
        assert (totals.streams, totals.events, totals.keys) == (2, 6, 1)
        assert (totals.entries, totals.entry_bytes) == (0, 0)
        store.append(append_of(write_to(ONE, 4, rows=[entry_row(ONE, "a", 5), entry_row(ONE, "b", 7)])))
        store.append(append_of(write_to(TWO, 2, rows=[entry_row(TWO, "a", 9)])))
        totals = store.totals()
        assert (totals.entries, totals.entry_bytes) == (3, 21)


class EraseContract(StoreFixtures):
    """Erasure of payloads."""

    def test_an_erasure_removes_payloads_and_keeps_the_chain(self, store: EventStore) -> None:
        events = fill_stream(store, ONE, 4)
        others = fill_stream(store, TWO, 4)
        answer = store.append(append_of(write_to(ONE, 4, b"erased", erase=[1, 3])))
        left = (erase_event(events[0]), events[1], erase_event(events[2]), events[3], *answer.events)
        assert store.read(ONE, limit=PAGE) == left
        assert store.read_back(ONE, limit=PAGE) == left[::-1]
        assert store.feed(limit=PAGE).events == left[:4] + others + left[4:]
        assert store.read(TWO, limit=PAGE) == others
        assert_sound(store)

    def test_a_second_erasure_changes_nothing(self, store: EventStore) -> None:
        events = fill_stream(store, ONE, 1)
        for version in (1, 2):
            store.append(append_of(write_to(ONE, version, erase=[1])))
        assert store.read(ONE, limit=1) == (erase_event(events[0]),)

    @pytest.mark.parametrize(("one", "two"), [(ONE, TWO), (LEDGER, OTHER_LEDGER)], ids=["sessions", "ledgers"])
    def test_an_erasure_drops_the_snapshot_and_replaces_the_rows(
        self, store: EventStore, one: StreamId, two: StreamId
    ) -> None:
        for stream in (one, two):
            rows = rows_of_every_table(stream)
            store.append(append_of(write_to(stream, 0, rows=rows, snapshot=Snapshot(1, 1, b"state"))))
        new = rows_of_every_table(one, 2)
        store.append(append_of(write_to(one, 1, rows=new[::2], erase=[1])))
        assert (store.snapshot(one), store.snapshot(two)) == (None, Snapshot(1, 1, b"state"))
        for row, other in zip(new, rows_of_every_table(two), strict=True):
            assert store.rows(type(row), {}, limit=5) == ((row, other) if row in new[::2] else (other,))

    def test_a_refused_erasure_erases_nothing(self, store: EventStore) -> None:
        events = fill_stream(store, ONE, 2)
        with pytest.raises(VersionConflict):
            store.append(append_of(write_to(ONE, 2, erase=[1]), write_to(TWO, 9)))
        assert store.read(ONE, limit=5) == events


def _head_order(head: StreamHead) -> tuple[str, str, str]:
    """The order of heads, the same in every store: by encoded names."""
    return head.stream.tenant, head.stream.kind, codec.encode_stream_key(head.stream)


def record_elsewhere(*appends: Append) -> tuple[StoredEvent, ...]:
    elsewhere = MemoryStore()
    return tuple(event for append in appends for event in elsewhere.append(append).events)


def _damage_events(events: Sequence[StoredEvent], at: int, damage: str) -> list[StoredEvent]:
    event = events[at]
    put: dict[str, list[StoredEvent]] = {
        "missing": [],
        "twice": [event, event],
        "other payload": [msgspec.structs.replace(event, payload=b"[0]")],
        "other principal": [msgspec.structs.replace(event, principal="mallory")],
        "other hash": [msgspec.structs.replace(event, hash=GENESIS)],
        "salt left": [msgspec.structs.replace(event, payload=None)],
    }
    return [*events[:at], *put[damage], *events[at + 1 :]]


class AdoptContract(StoreFixtures):
    """Events of another store."""

    def history(self) -> tuple[StoredEvent, ...]:
        return record_elsewhere(
            append_of(write_to(ONE, 0, b"[1]", b"[2]"), key="first"),
            append_of(write_to(TWO, 0, b"[3]"), write_to(ONE, 2, b"[4]"), key="second"),
            append_of(write_to(ONE, 3, b"[5]")),
            append_of(write_to(TWO, 1, b"[6]"), key="third"),
        )

    @pytest.mark.parametrize("size", [1, 2, 6])
    def test_adopted_events_are_stored_as_they_are(self, store: EventStore, size: int) -> None:
        events = self.history()
        for at in range(0, len(events), size):
            store.adopt(events[at : at + size], {}, {})
        assert store.feed(limit=PAGE).events == events
        assert store.head(ONE) == StreamHead(ONE, 4, events[4].hash)
        assert store.append(append_of(write_to(ONE, 4, b"[7]"))).events[0].seq == 5

    @pytest.mark.parametrize("size", [1, 4, 6])
    def test_adopted_events_have_positions_in_the_order_of_their_source(self, store: EventStore, size: int) -> None:
        here = fill_stream(store, session_stream("here"), 2)
        events = self.history()
        for at in range(0, len(events), size):
            store.adopt(events[at : at + size], {}, {})
        positions = [store.positions(event.stream, (event.seq,))[0] for event in here + events]
        assert positions == sorted({*positions} - {()})

    def test_adopted_keys_are_known(self, store: EventStore) -> None:
        events = self.history()
        store.adopt(events, {}, {})
        assert (store.find(ONE.tenant, "first"), store.find(ONE.tenant, "second")) == (events[:2], events[2:4])
        assert store.append(append_of(write_to(ONE, 0), key="second")).events == events[2:4]
        with pytest.raises(KeyConflict):
            store.append(append_of(write_to(ONE, 4), key="second", order=b"another"))

    def test_a_command_adopted_in_parts_is_found_completely(self, store: EventStore) -> None:
        events = self.history()
        store.adopt(events[:3], {}, {})
        fill_stream(store, session_stream("between"), 1)
        store.adopt(events[3:], {}, {})
        assert store.find(ONE.tenant, "second") == events[2:4]

    def test_an_adopted_key_of_another_command_is_a_conflict(self, store: EventStore) -> None:
        here = store.append(append_of(write_to(session_stream("here"), 0), key="second", order=b"another")).events
        with pytest.raises(KeyConflict):
            store.adopt(self.history(), {}, {})
        assert store.find(ONE.tenant, "second") == store.feed(limit=PAGE).events == here

    def test_erased_events_are_adopted(self, store: EventStore) -> None:
        events = self.history()
        without = (erase_event(events[0]), *events[1:])
        store.adopt(without, {}, {})
        assert store.feed(limit=PAGE).events == without

    def test_rows_and_erasures_are_adopted(self, store: EventStore) -> None:
        events = self.history()
        store.adopt(events[:3], {ONE: rows_of_every_table(ONE), TWO: rows_of_every_table(TWO)}, {})
        store.adopt(events[3:], {ONE: [session_row(ONE, 4)]}, {ONE: [1, 3]})
        assert [event.payload for event in store.read(ONE, limit=5)] == [None, b"[2]", None, b"[5]"]
        assert store.rows(SessionRow, {}, limit=5) == (session_row(ONE, 4), session_row(TWO))
        for row in rows_of_every_table(TWO)[1:]:
            assert store.rows(type(row), {}, limit=5) == (row,)

    @pytest.mark.parametrize("at", [0, 1, 3])
    @pytest.mark.parametrize(
        ("damage", "error"),
        [
            ("missing", VersionConflict),
            ("twice", VersionConflict),
            ("other payload", StorageCorrupt),
            ("other principal", StorageCorrupt),
            ("other hash", StorageCorrupt),
            ("salt left", StorageCorrupt),
        ],
    )
    def test_a_break_in_the_chain_refuses_the_whole_batch(
        self, store: EventStore, damage: str, error: type[Exception], at: int
    ) -> None:
        before = fill_stream(store, session_stream("here"), 1)
        batch = _damage_events(self.history(), at, damage)
        with pytest.raises(error):
            store.adopt(batch, {ONE: [session_row(ONE)]}, {})
        assert store.feed(limit=PAGE).events == before
        assert (store.rows(SessionRow, {}, limit=5), store.find(ONE.tenant, "first")) == ((), ())
        store.adopt(self.history(), {}, {})

    @pytest.mark.parametrize("command", INVALID_IDS)
    def test_an_invalid_adopted_command_id_is_refused(self, store: EventStore, command: str) -> None:
        append = msgspec.structs.replace(append_of(write_to(ONE, 0)), command=command)
        ((_, events),) = chain.chain_events(append, [StreamHead(ONE, 0, GENESIS)])
        with pytest.raises((StorageCorrupt, InvalidAppend)):
            store.adopt(events, {}, {})
        assert store.totals().events == 0

    def test_a_different_history_is_refused(self, store: EventStore) -> None:
        here = fill_stream(store, ONE, 1)
        with pytest.raises((StorageCorrupt, VersionConflict)):
            store.adopt(self.history()[1:2], {}, {})
        assert store.feed(limit=PAGE).events == here
