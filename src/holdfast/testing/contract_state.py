"""The contract of event stores, part 2: snapshots and rows, isolation, concurrency and close."""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidName, StoreClosed, VersionConflict
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import Snapshot, StoredEvent, StreamHead
from holdfast.model.names import StreamId
from holdfast.model.rows import (
    BY_KEY,
    TABLES,
    ChunkRow,
    ColumnValues,
    DependRow,
    EntryRow,
    FactRow,
    FrameRow,
    HandleRow,
    LedgerRow,
    MentionRow,
    PageRow,
    Row,
    RowOrder,
    SessionRow,
    TokenRow,
)
from holdfast.ports import EventStore
from holdfast.testing.appends import (
    LEDGER,
    LOOKALIKES,
    ONE,
    OTHER_LEDGER,
    PAGE,
    TWO,
    all_events,
    append_of,
    append_with_retries,
    assert_sound,
    chunk_row,
    depend_row,
    entry_row,
    fact_row,
    fill_stream,
    frame_row,
    handle_row,
    ledger_row,
    ledger_stream,
    mention_row,
    page_row,
    rows_of_every_table,
    run_in_threads,
    session_row,
    session_stream,
    stream_events,
    token_row,
    write_to,
)
from holdfast.testing.contract_log import FAR_POSITION, StoreFixtures

PAIRS = pytest.mark.parametrize(
    ("one", "two"), [(ONE, TWO), (LEDGER, OTHER_LEDGER), (ONE, LEDGER)], ids=["sessions", "ledgers", "one of each"]
)

INVALID_COLUMNS = ("1=1; --", "tenant = tenant OR 1", 'tenant"', "TENANT", "", "*", "stream_no", "rowid")


def fill_rows(store: EventStore) -> list[SessionRow]:
    """Store rows of several actors in no order, many with equal numbers."""
    rows: list[SessionRow] = []
    for number, (actor, session) in enumerate(itertools.product(("bob", "alice", "a/b", "é"), ("2", "1", "10"))):
        stream = session_stream(session, actor=actor)
        rows.append(session_row(stream, number * 7 % 4 + 1))
        store.append(append_of(write_to(stream, 0, rows=rows[-1:])))
    return rows


def row_key(row: SessionRow) -> tuple[str, ...]:
    return row.tenant, row.actor, row.session, row.thread


def change_all_columns(row: Row) -> Row:
    """Return a row with the same key and other values in all other columns."""
    old = {column: getattr(row, column) for column in row.__struct_fields__ if column not in row.key}
    texts = {column for column, kind in type(row).__annotations__.items() if "int" not in kind}
    new = {column: f"{value}'" if column in texts else (value or 0) + 7 for column, value in old.items()}
    return msgspec.structs.replace(row, **new)


def assert_rows(store: EventStore, *rows: Row) -> None:
    """Check that the store has exactly these rows."""
    for table in TABLES:
        wanted = [row for row in rows if type(row) is table]
        assert store.rows(table, {}, limit=PAGE) == tuple(sorted(wanted, key=lambda row: sort_key(row, ())))


def sort_key(row: Row, columns: Sequence[str]) -> list[str | int]:
    return [getattr(row, column) for column in (*columns, *row.key)]


class RowContract(StoreFixtures):
    """Snapshots and rows."""

    def test_a_snapshot_is_stored_and_replaced(self, store: EventStore) -> None:
        largest = hashlib.shake_256(b"state").digest(limits.SNAPSHOT_BYTES)  # does not compress
        for version, state in enumerate((b"", b"state", largest)):
            snapshot = Snapshot(version + 1, 7, state)
            store.append(append_of(write_to(ONE, version, snapshot=snapshot)))
            assert store.snapshot(ONE) == snapshot
        fill_stream(store, ONE, 1)
        assert store.snapshot(ONE) == Snapshot(3, 7, largest)
        assert store.snapshot(TWO) is None

    @PAIRS
    def test_rows_are_stored_and_all_columns_are_updated(self, store: EventStore, one: StreamId, two: StreamId) -> None:
        rows, others = rows_of_every_table(one), rows_of_every_table(two)
        changed = [change_all_columns(row) for row in rows]
        store.append(append_of(write_to(two, 0, rows=others)))
        store.append(append_of(write_to(one, 0, rows=rows)))
        assert_rows(store, *rows, *others)
        store.append(append_of(write_to(one, 1, rows=changed)))
        assert_rows(store, *changed, *others)
        store.append(append_of(write_to(one, 2, rows=[*rows, *changed, *rows_of_every_table(one, 2), *rows])))
        assert_rows(store, *rows, *rows_of_every_table(one, 2)[1:], *others)

    def test_rows_are_found_by_any_columns_and_in_pages(self, store: EventStore) -> None:
        rows: list[SessionRow] = []
        for actor in ("bob", "alice", "alice2"):
            for session in ("2", "1", "10"):
                stream = session_stream(session, actor=actor)
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

    @pytest.mark.parametrize("column", INVALID_COLUMNS)
    def test_an_unknown_column_is_refused(self, store: EventStore, column: str) -> None:
        with pytest.raises(InvalidName):
            store.rows(SessionRow, {column: 1}, limit=5)

    @pytest.mark.parametrize("backwards", [False, True])
    @pytest.mark.parametrize("columns", [(), ("updated_us",), ("status", "tokens"), ("session",), ("thread", "actor")])
    def test_rows_are_ordered_and_paged(self, store: EventStore, columns: tuple[str, ...], backwards: bool) -> None:
        rows = fill_rows(store)
        order = RowOrder(columns, backwards)

        def place(row: SessionRow) -> list[str | int]:
            return [getattr(row, column) for column in (*columns, *SessionRow.key)]

        rows.sort(key=place, reverse=backwards)
        for limit in (1, 3, PAGE):
            found: list[SessionRow] = []
            while page := store.rows(SessionRow, {}, after=found[-1] if found else None, limit=limit, order=order):
                found += page
            assert found == rows
        gone = session_row(session_stream("5", actor="alice"), 2)
        beyond = [row for row in rows if (place(row) < place(gone) if backwards else place(row) > place(gone))]
        assert store.rows(SessionRow, {}, after=gone, limit=PAGE, order=order) == tuple(beyond)

    @pytest.mark.parametrize("order", [BY_KEY, RowOrder(("updated_us",), backwards=True)])
    @pytest.mark.parametrize("most", [{}, {"updated_us": 3}, {"expires_us": 2}, {"updated_us": 2, "tokens": 10}])
    @pytest.mark.parametrize("least", [{}, {"updated_us": 2}, {"expires_us": 0}, {"residue": 1, "updated_us": -1}])
    def test_rows_are_bounded_and_null_is_within_no_bound(
        self, store: EventStore, least: Mapping[str, int], most: Mapping[str, int], order: RowOrder
    ) -> None:
        wanted = [
            row
            for row in fill_rows(store)
            if row.actor == "alice"
            and all(getattr(row, column) is not None and getattr(row, column) >= low for column, low in least.items())
            and all(getattr(row, column) is not None and getattr(row, column) <= high for column, high in most.items())
        ]
        found: list[SessionRow] = []
        bounds: Any = {"least": least, "most": most}
        while page := store.rows(
            SessionRow, {"actor": "alice"}, after=found[-1] if found else None, limit=2, order=order, **bounds
        ):
            found += page
        assert sorted(found, key=row_key) == sorted(wanted, key=row_key)
        assert len(found) == len(wanted)

    @pytest.mark.parametrize("side", ["least", "most"])
    @pytest.mark.parametrize("bound", [{"updated_us": "1"}, {"session": 1}, {"version": True}], ids=str)
    def test_a_bound_of_another_type_matches_nothing(self, store: EventStore, side: str, bound: Any) -> None:
        fill_rows(store)
        assert store.rows(SessionRow, {}, limit=PAGE, **{side: bound}) == ()

    @pytest.mark.parametrize("column", INVALID_COLUMNS)
    @pytest.mark.parametrize("argument", ["least", "most", "order", "among"])
    def test_an_unknown_column_is_refused_in_bounds_and_orders(
        self, store: EventStore, argument: str, column: str
    ) -> None:
        value: Any = RowOrder((column,)) if argument == "order" else {column: [1] if argument == "among" else 1}
        with pytest.raises(InvalidName):
            store.rows(SessionRow, {}, limit=5, **{argument: value})

    @pytest.mark.parametrize("where", [{"version": "1"}, {"session": 1}, {"version": FAR_POSITION}], ids=str)
    def test_a_value_of_another_type_matches_nothing(self, store: EventStore, where: Mapping[str, str | int]) -> None:
        stream = session_stream("1")
        store.append(append_of(write_to(stream, 0, rows=[session_row(stream, 1)])))
        assert store.rows(SessionRow, where, limit=5) == ()

    @PAIRS
    def test_replaced_rows_do_not_affect_other_streams(self, store: EventStore, one: StreamId, two: StreamId) -> None:
        rows, others, new = rows_of_every_table(one), rows_of_every_table(two), rows_of_every_table(one, 9)
        for stream, some in ((one, rows), (two, others)):
            store.append(append_of(write_to(stream, 0, rows=some)))
        for version in (0, 2):
            with pytest.raises(VersionConflict) as caught:
                store.replace_rows(one, version, [])
            assert (caught.value.stream, caught.value.expected, caught.value.actual) == (one, version, 1)
        assert_rows(store, *rows, *others)
        store.replace_rows(one, 1, new[1:])
        assert_rows(store, *new[1:], *others)

    def test_the_projection_version_is_stored(self, store: EventStore) -> None:
        assert store.projection_version() == 0
        store.set_projection_version(3)
        reopened = self.reopen(store) or store
        assert reopened.projection_version() == 3
        reopened.close()

    def test_everything_is_stored_after_reopening(self, store: EventStore) -> None:
        rows, snapshot = rows_of_every_table(ONE, 2), Snapshot(2, 1, b"state")
        facts = rows_of_every_table(LEDGER)
        first = store.append(append_of(write_to(ONE, 0, b"\0\xff", b"", rows=rows, snapshot=snapshot), key="key"))
        second = store.append(append_of(write_to(LEDGER, 0, b"[1]", rows=facts), write_to(ONE, 2, b"[2]")))
        reopened = self.reopen(store) or store
        assert tuple(all_events(reopened)) == first.events + second.events
        assert reopened.snapshot(ONE) == snapshot
        assert_rows(reopened, *rows, *facts)
        assert reopened.append(append_of(write_to(ONE, 0), key="key")).events == first.events
        assert fill_stream(reopened, ONE, 1)[0].seq == 4
        assert_sound(reopened)
        reopened.close()


SESSION_COLUMNS = ("tenant", "actor", "session", "thread")
LEDGER_COLUMNS = ("tenant", "ledger")


def fill_tables(store: EventStore) -> list[Row]:
    """Store rows of several sessions and ledgers. The order of their names depends on the encoding and the
    collation."""
    keys = [(actor, "1", *thread) for actor in ("a", "é", "\uffff", "\U00010000") for thread in ((), ("x",))]
    filled: list[Row] = []
    for stream in (StreamId(tenant, "session", key) for tenant in ("t", "t2") for key in keys):
        rows: list[Row] = []
        for number in range(1, 6):
            dice = hashlib.sha256(f"{stream} {number}".encode()).digest()
            live, parent = dice[0] % 2, dice[1] % number
            ended = None if live else ("completed", "failed")[dice[2] % 2]
            deadline_us = dice[3] % 4 if live and dice[4] % 2 else None
            rows.append(frame_row(stream, number, parent, ended=ended, deadline_us=deadline_us))
            rows.append(handle_row(stream, number, dice[6] % 2 + 1, source=(None, "a", "b")[dice[7] % 3]))
            residency = ("resident", "paged_out")[dice[9] % 2]
            rows.append(page_row(stream, number // 2 + 1, number % 2, frame=dice[10] % 2, residency=residency))
            rows.append(token_row(stream, f"{'de'[dice[8] % 2]}{number}", parent, suspended=live))
            kind, follows = ("checkpoint", "write")[dice[11] % 2], ("", "a")[dice[12] % 2]
            rows.append(entry_row(stream, f"{'éab'[dice[13] % 3]}{number}", number, kind=kind, parent=follows))
            rows.append(chunk_row(stream, f"{'de'[dice[14] % 2]}{number}", dice[15] % 3, number))
        store.append(append_of(write_to(stream, 0, rows=rows)))
        filled += rows
    for tenant in ("t", "t2"):
        for name in ("a", "é", "\uffff", "\U00010000"):
            stream = ledger_stream(name, tenant=tenant)
            rows = [ledger_row(stream), *(row for number in range(1, 7) for row in build_facts(stream, number))]
            store.append(append_of(write_to(stream, 0, rows=rows)))
            filled += rows
    return filled


def build_facts(stream: StreamId, number: int) -> list[Row]:
    """Build a fact with its dependency and mention; many values are equal to those of other facts."""
    dice = hashlib.sha256(f"{stream} {number}".encode()).digest()
    live = dice[0] % 2
    fact = fact_row(
        stream,
        number,
        subject=("one", "two")[dice[1] % 2],
        scope=("global", "task")[dice[2] % 2],
        scope_id=("", "7")[dice[2] % 2],
        ref=("", "", "ref")[dice[3] % 3],
        live=live,
        claim=dice[4] % 2,
        review=live * (dice[5] % 2),
        constrains=live * (dice[6] % 2),
        expires_us=(None, 1, 3)[dice[7] % 3],
    )
    where = StreamId(stream.tenant, "session", ("ada", ("1", "2")[dice[8] % 2]))
    source = depend_row(stream, dice[9] % 2, number)
    return [fact, source, mention_row(stream, number, where, seq=dice[10] % 4, live=live)]


class RowLookup(NamedTuple):
    """A query for rows."""

    table: type[Row]
    where: Mapping[str, str | int]
    after: Row | None
    limit: int
    order: RowOrder
    least: Mapping[str, int]
    most: Mapping[str, int]
    among: ColumnValues

    def includes(self, row: Row) -> bool:
        """Whether a row matches the query, apart from paging."""
        if type(row) is not self.table:
            return False
        low = [(getattr(row, column), bound) for column, bound in self.least.items()]
        high = [(getattr(row, column), bound) for column, bound in self.most.items()]
        return (
            all(getattr(row, column) == value for column, value in self.where.items())
            and all(getattr(row, column) in values for column, values in self.among.items())
            and all(value is not None and value >= bound for value, bound in low)
            and all(value is not None and value <= bound for value, bound in high)
        )


@st.composite
def row_lookups(draw: st.DrawFn, rows: Sequence[Row]) -> RowLookup:
    """Queries about an existing row. The page can start after any row, also one that does not match."""
    some = draw(st.sampled_from(rows))
    table = type(some)
    home = LEDGER_COLUMNS if "ledger" in table.key else SESSION_COLUMNS
    columns = [column for column in table.__struct_fields__ if column not in home]
    numbers = [column for column in columns if type(getattr(some, column)) is int]
    fixed = {*home[: draw(st.sampled_from((0, 1, 2, 4)))], *draw(st.sets(st.sampled_from(columns), max_size=3))}
    bounds: st.SearchStrategy[dict[str, int]] = st.dictionaries(st.sampled_from(numbers), st.integers(0, 5), max_size=1)
    least, most = (draw(bounds) if draw(st.integers(0, 2)) == 2 else {} for _ in range(2))
    unsure = {"deadline_us", "ended", "expires_us"} - {**least, **most}.keys()
    unsure |= {"source"} if table is HandleRow else set()
    sure = [column for column in (*home, *columns) if column not in unsure]
    order = RowOrder(tuple(draw(st.lists(st.sampled_from(sure), unique=True, max_size=2))), draw(st.booleans()))
    there = [row for row in rows if type(row) is table and None not in sort_key(row, order.columns)]
    where = {column: getattr(some, column) for column in fixed if getattr(some, column) is not None}
    after = draw(st.sampled_from([None, *there]))
    others = [row for row in rows if type(row) is table]
    column = draw(st.sampled_from(sure))
    some_of_them: ColumnValues = {
        column: [getattr(row, column) for row in draw(st.lists(st.sampled_from(others), max_size=4))]
    }
    among = some_of_them if draw(st.booleans()) else {}
    return RowLookup(table, where, after, draw(st.sampled_from((1, 3, PAGE))), order, least, most, among)


PAGE_QUERIES: tuple[tuple[type[Row], tuple[str, ...]], ...] = (
    (FrameRow, (*SESSION_COLUMNS, "parent")),
    (FrameRow, (*SESSION_COLUMNS, "ended")),
    (HandleRow, (*SESSION_COLUMNS, "frame")),
    (HandleRow, (*SESSION_COLUMNS, "frame", "source")),
    (PageRow, SESSION_COLUMNS),
    (PageRow, (*SESSION_COLUMNS, "message")),
    (PageRow, (*SESSION_COLUMNS, "frame", "residency")),
    (TokenRow, (*SESSION_COLUMNS, "frame")),
    (EntryRow, SESSION_COLUMNS),
    (EntryRow, (*SESSION_COLUMNS, "kind")),
    (EntryRow, (*SESSION_COLUMNS, "parent")),
    (ChunkRow, SESSION_COLUMNS),
    (TokenRow, (*SESSION_COLUMNS, "suspended")),
    (TokenRow, ("tenant", "suspended")),
    (TokenRow, ("tenant", "digest")),
    (LedgerRow, ("tenant", "kind")),
    (FactRow, (*LEDGER_COLUMNS, "subject", "scope", "scope_id", "live")),
    (FactRow, (*LEDGER_COLUMNS, "subject")),
    (FactRow, (*LEDGER_COLUMNS, "ref")),
    (FactRow, (*LEDGER_COLUMNS, "live")),
    (FactRow, (*LEDGER_COLUMNS, "memory_type", "live")),
    (FactRow, (*LEDGER_COLUMNS, "review")),
    (FactRow, (*LEDGER_COLUMNS, "constrains")),
    (DependRow, (*LEDGER_COLUMNS, "source")),
    (DependRow, (*LEDGER_COLUMNS, "source", "live")),
    (MentionRow, (*SESSION_COLUMNS, "live")),
)
"""The queries of an engine that are read in pages."""


class LookupContract(StoreFixtures):
    """Queries for rows."""

    look_ups = 100

    def test_any_query_for_rows_is_answered(self, store: EventStore) -> None:
        rows = fill_tables(store)

        @settings(max_examples=self.look_ups, deadline=None)
        @given(row_lookups(rows))
        def check(lookup: RowLookup) -> None:
            table, where, after, limit, order, least, most, among = lookup
            wanted = sorted(filter(lookup.includes, rows), key=lambda row: sort_key(row, order.columns))
            if after is not None:
                start = sort_key(after, order.columns)
                beyond = start.__gt__ if order.backwards else start.__lt__
                wanted = [row for row in wanted if beyond(sort_key(row, order.columns))]
            bounds: Any = {"least": least, "most": most, "among": among}
            found = store.rows(table, where, after=after, limit=limit, order=order, **bounds)
            assert list(found) == (wanted[::-1] if order.backwards else wanted)[:limit]

        check()

    @pytest.mark.parametrize("backwards", [False, True])
    def test_pages_have_all_rows(self, store: EventStore, backwards: bool) -> None:
        rows, order = fill_tables(store), RowOrder(backwards=backwards)
        for table, columns in PAGE_QUERIES:
            some = [row for row in rows if type(row) is table and "é" in str(sort_key(row, ()))]
            for values in {tuple(getattr(row, column) for column in columns) for row in some}:
                if None in values:  # engines do not query for NULL
                    continue
                where = dict(zip(columns, values, strict=True))
                lookup = RowLookup(table, where, None, 2, order, {}, {}, {})
                found: list[Row] = []
                while page := store.rows(table, where, after=found[-1] if found else None, limit=2, order=order):
                    found += page
                assert found == sorted(
                    filter(lookup.includes, rows), key=lambda row: sort_key(row, ()), reverse=backwards
                )

    def test_a_row_has_long_and_unusual_values(self, store: EventStore) -> None:
        """Names and sources that do not compress, and JSON with an escaped NUL."""
        tenant, *names = (
            hashlib.shake_256(name.encode()).hexdigest(limits.NAME_BYTES // 2) for name in SESSION_COLUMNS
        )
        stream, source = StreamId(tenant, "session", tuple(names)), names[0][::-1]
        state = '{"odd":"\\u0000 \\\\ \\" é 😀 \\ud800","long":"%s"}' % ("long " * 40_000)
        rows = [
            frame_row(stream, limits.WHOLE_NUMBER, state=state),
            handle_row(stream, limits.WHOLE_NUMBER, limits.WHOLE_NUMBER, source=source, state=state),
            page_row(stream, limits.WHOLE_NUMBER, limits.WHOLE_NUMBER, frame=limits.WHOLE_NUMBER, state=state),
            token_row(stream, hashlib.sha256(b"token").hexdigest(), limits.WHOLE_NUMBER, state=state),
            entry_row(stream, names[1][::-1], limits.WHOLE_NUMBER, kind=source, parent=source, names=state),
            chunk_row(stream, hashlib.sha256(b"chunk").hexdigest(), limits.WHOLE_NUMBER, limits.WHOLE_NUMBER),
        ]
        store.append(append_of(write_to(stream, 0, rows=rows)))
        ledger = StreamId(tenant, "ledger", ("session", *names))
        long = [hashlib.shake_256(name.encode()).hexdigest(limits.NAME_BYTES // 2) for name in ("key", "id", "ref")]
        subject, scope_id, ref = long
        facts = [
            fact_row(ledger, limits.WHOLE_NUMBER, subject, "long " * 1_000, scope_id=scope_id, ref=ref, state=state),
            depend_row(ledger, limits.WHOLE_NUMBER, limits.WHOLE_NUMBER),
            mention_row(ledger, limits.WHOLE_NUMBER, stream),
        ]
        store.append(append_of(write_to(ledger, 0, rows=facts)))
        assert_rows(store, *rows, *facts)
        assert store.rows(HandleRow, {"tenant": tenant, "source": source}, limit=5) == (rows[1],)
        assert store.rows(FactRow, {"tenant": tenant, "subject": subject, "ref": ref}, limit=5) == (facts[0],)


class IsolationContract(StoreFixtures):
    """Streams and tenants are separate."""

    def check_apart(self, store: EventStore, one: StreamId, other: StreamId) -> None:
        """Write to both streams, change one, and check that the other stays as it is."""
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
        assert store.head(other) == StreamHead(other, 1, kept[other][0].hash)
        assert store.snapshot(other) == Snapshot(1, 1, b"")
        assert store.rows(SessionRow, {}, limit=5) == (session_row(other),)

    @pytest.mark.parametrize(("one", "other"), LOOKALIKES)
    def test_similar_streams_are_separate(self, store: EventStore, one: str, other: str) -> None:
        self.check_apart(store, session_stream(actor=one), session_stream(actor=other))

    @pytest.mark.parametrize(("one", "other"), LOOKALIKES)
    def test_similar_tenants_are_separate(self, store: EventStore, one: str, other: str) -> None:
        self.check_apart(store, session_stream(tenant=one), session_stream(tenant=other))

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


class ConcurrencyContract(StoreFixtures):
    """Many writers and readers at the same time."""

    def test_writers_of_one_stream_write_one_history(self, store: EventStore) -> None:
        threads, each = 8, 25
        run_in_threads(
            threads, lambda number: [append_with_retries(store, ONE, b"%d %d" % (number, at)) for at in range(each)]
        )
        events = list(stream_events(store, ONE))
        assert [event.seq for event in events] == list(range(1, threads * each + 1))
        written: dict[bytes, list[int]] = defaultdict(list)
        for event in events:
            number, at = (event.payload or b"").split()
            written[number].append(int(at))
        assert list(written.values()) == [list(range(each))] * threads

    def test_a_failed_append_does_not_affect_others(self, store: EventStore) -> None:
        fill_stream(store, ONE, 1)

        def work(number: int) -> int:
            conflicts = 0
            for at in range(10):
                store.append(append_of(write_to(session_stream(f"own {number}"), at), key=f"{number} {at}"))
                with pytest.raises(VersionConflict):
                    store.append(
                        append_of(write_to(session_stream(f"new {number}"), 0), write_to(ONE, 0), key=f"x {number}")
                    )
                conflicts += 1
            return conflicts

        assert run_in_threads(8, work) == [10] * 8
        totals = store.totals()
        assert (totals.streams, totals.events, totals.keys) == (9, 81, 80)

    def test_a_key_is_used_once_by_many_threads(self, store: EventStore) -> None:
        append = append_of(write_to(ONE, 0, b"[1]", b"[2]"), key="key")
        answers = run_in_threads(8, lambda _: store.append(append))
        assert {answer.events for answer in answers} == {store.read(ONE, limit=5)}
        assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7

    def test_a_reader_of_the_feed_skips_and_repeats_nothing(self, store: EventStore) -> None:
        writers, each = 4, 25
        done = threading.Event()

        def follow() -> list[StoredEvent]:
            seen: list[StoredEvent] = []
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
                run_in_threads(writers, lambda number: fill_stream(store, session_stream(str(number)), each))
            finally:
                done.set()
            assert reader.result() == list(all_events(store))


STORE_CALLS: dict[str, Callable[[EventStore], object]] = {
    "append": lambda store: store.append(append_of(write_to(ONE, 1))),
    "adopt": lambda store: store.adopt((), {}, {}),
    "find": lambda store: store.find(ONE.tenant, "key"),
    "read": lambda store: store.read(ONE, limit=1),
    "read_back": lambda store: store.read_back(ONE, limit=1),
    "positions": lambda store: store.positions(ONE, (1,)),
    "feed": lambda store: store.feed(limit=1),
    "head": lambda store: store.head(ONE),
    "heads": lambda store: store.heads(limit=1),
    "snapshot": lambda store: store.snapshot(ONE),
    "rows": lambda store: store.rows(SessionRow, {}, limit=1),
    "search": lambda store: store.search(FactQuery(tenant="acme", ledgers=(), words=("word",))),
    "replace_rows": lambda store: store.replace_rows(ONE, 1, ()),
    "projection_version": lambda store: store.projection_version(),
    "set_projection_version": lambda store: store.set_projection_version(1),
    "check": lambda store: store.check(),
    "totals": lambda store: store.totals(),
}


class CloseContract(StoreFixtures):
    """A closed store."""

    @pytest.mark.parametrize("use", STORE_CALLS.values(), ids=STORE_CALLS)
    def test_a_closed_store_raises_an_error(self, store: EventStore, use: Callable[[EventStore], object]) -> None:
        fill_stream(store, ONE, 1)
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            use(store)
