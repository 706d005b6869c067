"""The event store contract, second half: what stands beside the log, who is kept apart, and many at once."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.errors import InvalidName, StoreClosed, VersionConflict
from holdfast.model import limits
from holdfast.model.log import Head, Recorded, Snapshot
from holdfast.model.names import StreamId
from holdfast.model.rows import IN_ORDER_OF_KEY, BlobRow, Order, SessionRow
from holdfast.ports import EventStore
from holdfast.testing.appends import (
    LOOKALIKES,
    ONE,
    PAGE,
    TWO,
    all_events,
    append_of,
    assert_sound,
    blob_row,
    fill,
    in_threads,
    push,
    session_row,
    stream_events,
    stream_named,
    write_to,
)
from holdfast.testing.contract_log import FAR, StoreFixtures

NO_COLUMNS = ("1=1; --", "tenant = tenant OR 1", 'tenant"', "TENANT", "", "*", "stream_no", "rowid")


def fill_rows(store: EventStore) -> list[SessionRow]:
    """Rows of several actors, in no order, many of them alike in their numbers."""
    rows: list[SessionRow] = []
    for number, (actor, session) in enumerate(itertools.product(("bob", "alice", "a/b", "é"), ("2", "1", "10"))):
        stream = stream_named(session, actor=actor)
        rows.append(session_row(stream, number * 7 % 4 + 1))
        store.append(append_of(write_to(stream, 0, rows=rows[-1:])))
    return rows


def row_key(row: SessionRow) -> tuple[str, ...]:
    return row.tenant, row.actor, row.session, row.thread


class Keeping(StoreFixtures):
    def test_a_snapshot_is_put_and_replaced(self, store: EventStore) -> None:
        largest = bytes(limits.SNAPSHOT_BYTES)
        for version, state in enumerate((b"", b"state", largest)):
            snapshot = Snapshot(version + 1, 7, state)
            store.append(append_of(write_to(ONE, version, snapshot=snapshot)))
            assert store.snapshot(ONE) == snapshot
        fill(store, ONE, 1)
        assert store.snapshot(ONE) == Snapshot(3, 7, largest)
        assert store.snapshot(TWO) is None

    def test_rows_are_put_and_updated(self, store: EventStore) -> None:
        for version in (1, 2, 3):
            rows = [session_row(ONE, version), blob_row(ONE, version)]
            store.append(append_of(write_to(ONE, version - 1, rows=rows)))
        assert store.rows(SessionRow, {}, limit=PAGE) == (session_row(ONE, 3),)
        assert store.rows(BlobRow, {}, limit=PAGE) == tuple(blob_row(ONE, seq) for seq in (1, 2, 3))

    def test_rows_are_found_by_any_columns_and_in_pages(self, store: EventStore) -> None:
        rows: list[SessionRow] = []
        for actor in ("bob", "alice", "alice2"):
            for session in ("2", "1", "10"):
                stream = stream_named(session, actor=actor)
                rows.append(session_row(stream, len(rows) + 1))
                store.append(append_of(write_to(stream, 0, rows=rows[-1:])))
        rows.sort(key=lambda row: (row.actor, row.session))
        queries: list[Mapping[str, str | int]] = [
            {},
            {"actor": "alice"},
            {"tenant": "acme", "session": "1"},
            {"version": 5},
            {"status": "closed"},
            {"tenant": "' OR 1=1 --"},
        ]
        for where in queries:
            wanted = [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]
            found: list[SessionRow] = []
            while page := store.rows(SessionRow, where, after=found[-1] if found else None, limit=2):
                found += page
            assert found == wanted

    @pytest.mark.parametrize("column", NO_COLUMNS)
    def test_a_column_that_is_none_is_refused(self, store: EventStore, column: str) -> None:
        with pytest.raises(InvalidName):
            store.rows(SessionRow, {column: 1}, limit=5)

    @pytest.mark.parametrize("backwards", [False, True])
    @pytest.mark.parametrize("columns", [(), ("updated_us",), ("status", "tokens"), ("session",), ("thread", "actor")])
    def test_rows_are_laid_out_as_asked_and_in_pages(
        self, store: EventStore, columns: tuple[str, ...], backwards: bool
    ) -> None:
        rows = fill_rows(store)
        order = Order(columns, backwards)

        def place(row: SessionRow) -> list[str | int]:
            return [getattr(row, column) for column in (*columns, *SessionRow.key)]

        rows.sort(key=place, reverse=backwards)
        for limit in (1, 3, PAGE):
            found: list[SessionRow] = []
            while page := store.rows(SessionRow, {}, after=found[-1] if found else None, limit=limit, order=order):
                found += page
            assert found == rows
        gone = session_row(stream_named("5", actor="alice"), 2)
        beyond = [row for row in rows if (place(row) < place(gone) if backwards else place(row) > place(gone))]
        assert store.rows(SessionRow, {}, after=gone, limit=PAGE, order=order) == tuple(beyond)

    @pytest.mark.parametrize("order", [IN_ORDER_OF_KEY, Order(("updated_us",), backwards=True)])
    @pytest.mark.parametrize("most", [{}, {"updated_us": 3}, {"expires_us": 2}, {"updated_us": 2, "tokens": 10}])
    @pytest.mark.parametrize("least", [{}, {"updated_us": 2}, {"expires_us": 0}, {"residue": 1, "updated_us": -1}])
    def test_rows_are_bounded_from_both_sides_and_what_is_not_there_is_within_no_bound(
        self, store: EventStore, least: Mapping[str, int], most: Mapping[str, int], order: Order
    ) -> None:
        wanted = [
            row
            for row in fill_rows(store)
            if row.actor == "alice"
            and all(getattr(row, column) is not None and getattr(row, column) >= low for column, low in least.items())
            and all(getattr(row, column) is not None and getattr(row, column) <= high for column, high in most.items())
        ]
        found: list[SessionRow] = []
        bounds = {"least": least, "most": most}
        while page := store.rows(
            SessionRow, {"actor": "alice"}, after=found[-1] if found else None, limit=2, order=order, **bounds
        ):
            found += page
        assert sorted(found, key=row_key) == sorted(wanted, key=row_key)
        assert len(found) == len(wanted)

    @pytest.mark.parametrize("side", ["least", "most"])
    @pytest.mark.parametrize("bound", [{"updated_us": "1"}, {"session": 1}, {"version": True}], ids=str)
    def test_a_bound_of_another_kind_holds_nothing(self, store: EventStore, side: str, bound: Any) -> None:
        fill_rows(store)
        assert store.rows(SessionRow, {}, limit=PAGE, **{side: bound}) == ()

    @pytest.mark.parametrize("column", NO_COLUMNS)
    @pytest.mark.parametrize("argument", ["least", "most", "order"])
    def test_nothing_is_ordered_or_bounded_by_a_column_that_is_none(
        self, store: EventStore, argument: str, column: str
    ) -> None:
        value: Any = Order((column,)) if argument == "order" else {column: 1}
        with pytest.raises(InvalidName):
            store.rows(SessionRow, {}, limit=5, **{argument: value})

    @pytest.mark.parametrize("where", [{"version": "1"}, {"session": 1}, {"version": FAR}], ids=str)
    def test_a_value_of_another_kind_equals_nothing(self, store: EventStore, where: Mapping[str, str | int]) -> None:
        stream = stream_named("1")
        store.append(append_of(write_to(stream, 0, rows=[session_row(stream, 1)])))
        assert store.rows(SessionRow, where, limit=5) == ()

    def test_replaced_rows_leave_those_of_other_streams_alone(self, store: EventStore) -> None:
        for stream in (ONE, TWO):
            store.append(append_of(write_to(stream, 0, rows=[session_row(stream), blob_row(stream, 1)])))
        for version in (0, 2):
            with pytest.raises(VersionConflict) as caught:
                store.replace_rows(ONE, version, [])
            assert (caught.value.stream, caught.value.expected, caught.value.actual) == (ONE, version, 1)
        assert len(store.rows(BlobRow, {}, limit=PAGE)) == 2
        store.replace_rows(ONE, 1, [blob_row(ONE, 9)])
        assert store.rows(SessionRow, {}, limit=PAGE) == (session_row(TWO),)
        assert store.rows(BlobRow, {}, limit=PAGE) == (blob_row(ONE, 9), blob_row(TWO, 1))

    def test_the_version_of_the_projection_is_what_was_last_said(self, store: EventStore) -> None:
        assert store.projection_version() == 0
        store.set_projection_version(3)
        reopened = self.reopen(store) or store
        assert reopened.projection_version() == 3
        reopened.close()

    def test_everything_is_there_after_opening_again(self, store: EventStore) -> None:
        rows, snapshot = [session_row(ONE, 2), blob_row(ONE, 2)], Snapshot(2, 1, b"state")
        first = store.append(append_of(write_to(ONE, 0, b"\0\xff", b"", rows=rows, snapshot=snapshot), key="key"))
        second = store.append(append_of(write_to(TWO, 0, b"[1]"), write_to(ONE, 2, b"[2]")))
        reopened = self.reopen(store) or store
        assert tuple(all_events(reopened)) == first.events + second.events
        assert reopened.snapshot(ONE) == snapshot
        assert reopened.rows(SessionRow, {}, limit=5) + reopened.rows(BlobRow, {}, limit=5) == tuple(rows)
        assert reopened.append(append_of(write_to(ONE, 0), key="key")).events == first.events
        assert fill(reopened, ONE, 1)[0].seq == 4
        assert_sound(reopened)
        reopened.close()


class Apart(StoreFixtures):
    def check_apart(self, store: EventStore, one: StreamId, other: StreamId) -> None:
        """Write to both; then change one and see that the other does not move."""
        kept = {}
        for number, stream in enumerate((one, other)):
            write = write_to(stream, 0, b"[%d]" % number, rows=[session_row(stream)], snapshot=Snapshot(1, number, b""))
            kept[stream] = store.append(append_of(write)).events
        for number, stream in enumerate((one, other)):
            row = session_row(stream)
            assert store.read(stream, limit=5) == store.read_back(stream, limit=5) == kept[stream]
            assert store.snapshot(stream) == Snapshot(1, number, b"")
            where: dict[str, str | int] = {column: getattr(row, column) for column in SessionRow.key}
            assert store.rows(SessionRow, where, limit=5) == (row,)
        store.append(append_of(write_to(one, 1, erase=[1])))
        assert store.read(other, limit=5) == kept[other]
        assert store.head(other) == Head(other, 1, kept[other][0].hash)
        assert store.snapshot(other) == Snapshot(1, 1, b"")
        assert store.rows(SessionRow, {}, limit=5) == (session_row(other),)

    @pytest.mark.parametrize(("one", "other"), LOOKALIKES)
    def test_streams_that_look_alike_never_meet(self, store: EventStore, one: str, other: str) -> None:
        self.check_apart(store, stream_named(actor=one), stream_named(actor=other))

    @pytest.mark.parametrize(("one", "other"), LOOKALIKES)
    def test_tenants_that_look_alike_never_meet(self, store: EventStore, one: str, other: str) -> None:
        self.check_apart(store, stream_named(tenant=one), stream_named(tenant=other))

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("a/b", "c"), ("a", "b/c")),
            (("a", "b"), ("a", "b", "c")),
            (('a","b', "c"), ("a", 'b","c')),
            (("a,b", "c"), ("a", "b,c")),
        ],
        ids=str,
    )
    def test_names_are_never_joined(self, store: EventStore, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        self.check_apart(store, StreamId("t", "session", one), StreamId("t", "session", other))


class Together(StoreFixtures):
    def test_writers_of_one_stream_make_one_history(self, store: EventStore) -> None:
        threads, each = 8, 25
        in_threads(threads, lambda number: [push(store, ONE, b"%d %d" % (number, at)) for at in range(each)])
        events = list(stream_events(store, ONE))
        assert [event.seq for event in events] == list(range(1, threads * each + 1))
        told: dict[bytes, list[int]] = defaultdict(list)
        for event in events:
            number, at = (event.payload or b"").split()
            told[number].append(int(at))
        assert list(told.values()) == [list(range(each))] * threads

    def test_a_failing_append_takes_no_other_with_it(self, store: EventStore) -> None:
        fill(store, ONE, 1)

        def work(number: int) -> int:
            conflicts = 0
            for at in range(10):
                store.append(append_of(write_to(stream_named(f"own {number}"), at), key=f"{number} {at}"))
                with pytest.raises(VersionConflict):
                    store.append(
                        append_of(write_to(stream_named(f"new {number}"), 0), write_to(ONE, 0), key=f"x {number}")
                    )
                conflicts += 1
            return conflicts

        assert in_threads(8, work) == [10] * 8
        totals = store.totals()
        assert (totals.streams, totals.events, totals.keys) == (9, 81, 80)

    def test_a_key_in_many_hands_is_used_once(self, store: EventStore) -> None:
        append = append_of(write_to(ONE, 0, b"[1]", b"[2]"), key="key")
        answers = in_threads(8, lambda _: store.append(append))
        assert {answer.events for answer in answers} == {store.read(ONE, limit=5)}
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7

    def test_a_reader_of_the_feed_misses_and_repeats_nothing(self, store: EventStore) -> None:
        writers, each = 4, 25
        done = threading.Event()

        def follow() -> list[Recorded]:
            seen: list[Recorded] = []
            cursor = ""
            last_look = False
            while not last_look:
                last_look = done.is_set()
                while (page := store.feed(cursor, limit=3)).events:
                    seen += page.events
                    cursor = page.cursor
            return seen

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(follow)
            try:
                in_threads(writers, lambda number: fill(store, stream_named(str(number)), each))
            finally:
                done.set()
            assert reader.result() == list(all_events(store))


USES: dict[str, Callable[[EventStore], object]] = {
    "append": lambda store: store.append(append_of(write_to(ONE, 1))),
    "adopt": lambda store: store.adopt((), {}, {}),
    "find": lambda store: store.find(ONE.tenant, "key"),
    "read": lambda store: store.read(ONE, limit=1),
    "read_back": lambda store: store.read_back(ONE, limit=1),
    "feed": lambda store: store.feed(limit=1),
    "head": lambda store: store.head(ONE),
    "heads": lambda store: store.heads(limit=1),
    "snapshot": lambda store: store.snapshot(ONE),
    "rows": lambda store: store.rows(SessionRow, {}, limit=1),
    "replace_rows": lambda store: store.replace_rows(ONE, 1, ()),
    "projection_version": lambda store: store.projection_version(),
    "set_projection_version": lambda store: store.set_projection_version(1),
    "check": lambda store: store.check(),
    "totals": lambda store: store.totals(),
}


class Closing(StoreFixtures):
    @pytest.mark.parametrize("use", USES.values(), ids=USES)
    def test_a_closed_store_says_so(self, store: EventStore, use: Callable[[EventStore], object]) -> None:
        fill(store, ONE, 1)
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            use(store)
