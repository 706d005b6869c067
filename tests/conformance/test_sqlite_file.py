"""What is particular to one SQLite file: its settings, its schema, its migrations, and other people's files."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, get_type_hints

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import codec
from holdfast.errors import (
    ForeignFile,
    InvalidUrl,
    SchemaChanged,
    SchemaTooNew,
    StorageUnavailable,
    StoreClosed,
    UnsafeSqlite,
)
from holdfast.model.content import Text
from holdfast.model.events import Event
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import NewEvent, Snapshot, StreamWrite
from holdfast.model.names import Scope
from holdfast.model.rows import (
    BY_KEY,
    TABLES,
    EntryRow,
    FactRow,
    FrameRow,
    HandleRow,
    LedgerRow,
    MentionRow,
    OutboxRow,
    PageRow,
    Row,
    RowOrder,
    SessionRow,
    TokenRow,
)
from holdfast.model.sessions.events import MessageRecorded, SessionCreated
from holdfast.storage import common
from holdfast.storage.sql import Migration, select_rows
from holdfast.storage.sqlite import connections
from holdfast.storage.sqlite.log import SQL
from holdfast.storage.sqlite.migrate import APPLICATION_ID, check_owner, migrate, shipped_migrations
from holdfast.storage.sqlite.store import DIALECT, SqliteStore
from holdfast.testing.appends import (
    LEDGER,
    ONE,
    OTHER_LEDGER,
    PAGE,
    TWO,
    all_events,
    append_of,
    assert_sound,
    blob_row,
    fact_row,
    fill_stream,
    page_row,
    rows_of_every_table,
    session_row,
    write_to,
)
from tests.property.store_tools import fast_folder
from tests.support import figure


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@contextmanager
def raw(path: Path) -> Iterator[apsw.Connection]:
    """The file without Holdfast around it."""
    connection = apsw.Connection(str(path))
    try:
        yield connection
    finally:
        connection.close()


def contents(path: Path) -> dict[str, str]:
    """Of the file and its write-ahead log; an empty log is as good as none."""
    found = {each.name: each.read_bytes() for each in path.parent.glob(path.name + "*") if each.suffix != ".db-shm"}
    return {name: hashlib.sha256(data).hexdigest() for name, data in found.items() if data}


@pytest.fixture
def opened() -> Iterator[list[apsw.Connection]]:
    """Every connection that is made during the test."""
    connections: list[apsw.Connection] = []
    apsw.connection_hooks.append(connections.append)
    yield connections
    apsw.connection_hooks.remove(connections.append)
    connections.clear()


# Settings


def settings_of(connection: apsw.Connection) -> dict[str, object]:
    names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete", "trusted_schema", "query_only")
    return {name: connection.pragma(name) for name in names}


IN_FORCE = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1, "trusted_schema": 0}


def test_the_settings_that_durability_rests_on_are_in_force(path: Path, opened: list[apsw.Connection]) -> None:
    store = SqliteStore(path)
    store.head(ONE)
    writer, reader = opened
    assert settings_of(writer) == {**IN_FORCE, "query_only": 0}
    assert settings_of(reader) == {**IN_FORCE, "query_only": 1}
    store.close()


def test_a_file_that_left_the_write_ahead_log_is_brought_back(path: Path, opened: list[apsw.Connection]) -> None:
    """As a copy made with VACUUM INTO has."""
    SqliteStore(path).close()
    with raw(path) as connection:
        assert connection.pragma("journal_mode", "delete") == "delete"
    opened.clear()
    store = SqliteStore(path)
    assert settings_of(opened[0])["journal_mode"] == "wal"
    store.close()


@pytest.mark.parametrize("version", ["3.51.2", "3.9.0", "3.7.17", "2.99.99"])
def test_a_sqlite_with_a_bug_that_loses_data_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(UnsafeSqlite) as caught:
        SqliteStore(path)
    assert (caught.value.version, caught.value.needed) == (version, "3.51.3")
    assert not path.exists()


@pytest.mark.parametrize("version", ["3.51.3", "3.51.10", "3.100.0", "4.0.0"])
def test_a_later_sqlite_is_fine(version: str) -> None:
    connections.check_sqlite(version)


# Schema


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_the_columns_of_a_table_are_the_fields_of_its_row(path: Path, table: type[Row]) -> None:
    SqliteStore(path).close()
    with raw(path) as connection:
        columns = connection.execute(
            f"SELECT name, type, \"notnull\", pk FROM pragma_table_info('{table.table}')"
        ).fetchall()
        strict = connection.execute("SELECT strict FROM pragma_table_list WHERE name = ?", (table.table,)).get
        unique = connection.execute(
            'SELECT c.name FROM pragma_index_list(?) i, pragma_index_info(i.name) c WHERE i."unique" ORDER BY c.seqno',
            (table.table,),
        ).fetchall()
    hints = get_type_hints(table)
    kinds = {name: "INTEGER" if hints[name] in (int, int | None) else "TEXT" for name in table.__struct_fields__}
    own = {"row_no": "INTEGER"} if table is FactRow else {}  # its words are kept by a number
    assert {name: kind for name, kind, *_ in columns} == {"stream_no": "INTEGER", **own, **kinds}
    assert tuple(name for (name,) in unique) == table.key
    assert [name for name, *_, place in columns if place] == [*own] or not own
    assert {name for name, _, required, _ in columns if not required} == {
        *own,
        *(name for name, hint in hints.items() if hint in (int | None, str | None)),
    }
    assert strict == 1


# Plans


NAMES = ("tenant", "actor", "session", "thread")
HOME = ("tenant", "ledger")
LAID_OUT: dict[str, tuple[type[Row], Sequence[str], RowOrder, Sequence[str]]] = {
    "outbox_rows_pending": (OutboxRow, ("tenant", "done"), BY_KEY, ()),
    "session_rows_by_expiry": (SessionRow, ("tenant",), RowOrder(("expires_us",)), ("expires_us",)),
    "frame_rows_by_parent": (FrameRow, (*NAMES, "parent"), BY_KEY, ()),
    "frame_rows_by_ending": (FrameRow, (*NAMES, "ended"), BY_KEY, ()),
    "frame_rows_by_deadline": (FrameRow, ("tenant",), RowOrder(("deadline_us",)), ("deadline_us",)),
    "handle_rows_by_frame": (HandleRow, (*NAMES, "frame"), BY_KEY, ()),
    "handle_rows_by_source": (HandleRow, (*NAMES, "frame", "source"), BY_KEY, ()),
    "page_rows_by_residency": (PageRow, (*NAMES, "frame", "residency"), BY_KEY, ()),
    "entry_rows_by_seq": (EntryRow, NAMES, RowOrder(("seq",)), ("seq",)),
    "entry_rows_by_kind": (EntryRow, (*NAMES, "kind"), RowOrder(("seq",)), ("seq",)),
    "entry_rows_by_parent": (EntryRow, (*NAMES, "parent"), RowOrder(("seq",)), ("seq",)),
    "token_rows_by_digest": (TokenRow, ("tenant", "digest"), BY_KEY, ()),
    "token_rows_suspended": (TokenRow, ("tenant", "suspended"), BY_KEY, ()),
    "ledger_rows_by_kind": (LedgerRow, ("tenant", "kind"), BY_KEY, ()),
    "fact_rows_by_slot": (FactRow, (*HOME, "subject", "scope", "scope_id", "live"), BY_KEY, ()),
    "fact_rows_by_subject": (FactRow, (*HOME, "subject"), BY_KEY, ()),
    "fact_rows_by_life": (FactRow, (*HOME, "live"), BY_KEY, ()),
    "fact_rows_by_ref": (FactRow, (*HOME, "ref", "live"), BY_KEY, ()),
    "fact_rows_live_by_subject": (FactRow, ("live", *HOME, "subject"), BY_KEY, ()),
    "fact_rows_live_by_scope": (FactRow, ("live", *HOME, "scope", "scope_id"), BY_KEY, ()),
    "fact_rows_by_anchor": (FactRow, (*HOME, "anchor", "live"), BY_KEY, ()),
    "fact_rows_in_review": (FactRow, ("review", *HOME), BY_KEY, ()),
    "fact_rows_constraints": (FactRow, ("constrains", *HOME), BY_KEY, ()),
    "fact_rows_by_expiry": (FactRow, ("live", "tenant"), RowOrder(("expires_us",)), ("expires_us",)),
    "fact_rows_due": (FactRow, ("live", *HOME), RowOrder(("expires_us",)), ("expires_us",)),
    "mention_rows_by_session": (MentionRow, (*NAMES, "live"), RowOrder(("seq",)), ("seq",)),
}
"""What each index is there for: equal columns, an order, and what is bounded."""

SAID_BY_THE_INDEX = {
    "fact_rows_live_by_subject",
    "fact_rows_live_by_scope",
    "fact_rows_in_review",
    "fact_rows_constraints",
    "fact_rows_by_expiry",
    "fact_rows_due",
}
"""The first of those columns needs no looking up: the index holds no other rows."""


def plan_of(connection: apsw.Connection, statement: str, values: Sequence[str | int] = ()) -> list[str]:
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", tuple(values))]


@pytest.fixture(scope="module", params=[False, True], ids=["new", "upgraded"])
def laid_out(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "agent.db"
    if request.param:
        old_file(path)
    SqliteStore(path).close()
    with raw(path) as connection:
        yield connection


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("index", LAID_OUT)
def test_rows_are_found_by_the_index_that_is_there_for_them(
    laid_out: apsw.Connection, index: str, backwards: bool
) -> None:
    """From any page on, and none of them is sorted."""
    table, columns, order, bounded = LAID_OUT[index]
    fact = fact_row(LEDGER, 2, ref="ref", review=1, constrains=1, expires_us=2)
    rows = (fact, *rows_of_every_table(ONE, 2), *rows_of_every_table(LEDGER, 2))
    row = next(row for row in rows if type(row) is table)
    order, most = RowOrder(order.columns, backwards), dict.fromkeys(bounded, 5)
    where = {column: "some" if (value := getattr(row, column)) is None else value for column in columns}
    columns = columns[1 if index in SAID_BY_THE_INDEX else 0 :]
    for after in (None, row):
        query = select_rows(table, where, after, 10, order, {}, most, {}, DIALECT)
        assert query is not None
        (plan,) = plan_of(laid_out, *query)
        assert f"USING INDEX {index} ({' AND '.join(f'{column}=?' for column in columns)}" in plan
        assert (after is None and not most) == plan.endswith(f"{columns[-1]}=?)"), plan


def test_positions_are_found_by_the_stream_and_the_seqs(laid_out: apsw.Connection) -> None:
    plan = plan_of(laid_out, SQL["positions"], (*common.stream_key(ONE), "[1,2]"))
    assert any("sqlite_autoindex_events_1 (stream_no=? AND seq=?)" in line for line in plan), plan
    assert not any(line.startswith("SCAN") and "json_each" not in line for line in plan), plan


AMONG: dict[str, tuple[type[Row], Mapping[str, str | int], str, str]] = {
    "by their anchors": (FactRow, {}, "anchor", "INDEX fact_rows_by_anchor (tenant=? AND ledger=? AND anchor=?"),
    "live ones by their anchors": (
        FactRow,
        {"live": 1},
        "anchor",
        "INDEX fact_rows_by_anchor (tenant=? AND ledger=? AND anchor=? AND live=?",
    ),
    "live ones by their keys": (
        FactRow,
        {"live": 1},
        "subject",
        "INDEX fact_rows_live_by_subject (tenant=? AND ledger=? AND subject=?",
    ),
    "by their ids": (FactRow, {}, "fact", "INDEX sqlite_autoindex_fact_rows_1 (tenant=? AND ledger=? AND fact=?"),
}


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("how", AMONG)
def test_facts_are_found_among_many_by_an_index(laid_out: apsw.Connection, how: str, backwards: bool) -> None:
    table, also, column, index = AMONG[how]
    row = fact_row(LEDGER, 2)
    where = {**{name: getattr(row, name) for name in HOME}, **also}
    many = [getattr(fact_row(LEDGER, number), column) for number in range(5_000)]
    for after in (None, row):
        among = {column: many}
        query = select_rows(table, where, after, 10, RowOrder(backwards=backwards), {}, {}, among, DIALECT)
        assert query is not None
        assert any(f"SEARCH fact_rows USING {index}" in step for step in plan_of(laid_out, *query))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("by", ["place", "message", "messages"])
def test_pages_are_found_by_their_key_also_by_a_part_of_it(laid_out: apsw.Connection, by: str, backwards: bool) -> None:
    """Though another index begins alike."""
    row = page_row(ONE, 2, 1)
    where = {column: getattr(row, column) for column in (*NAMES, *(("message",) if by == "message" else ()))}
    after, most = (row if by != "messages" else None), ({"message": 5} if by == "messages" else {})
    query = select_rows(PageRow, where, after, 10, RowOrder(backwards=backwards), {}, most, {}, DIALECT)
    assert query is not None
    (plan,) = plan_of(laid_out, *query)
    sign = "<" if backwards else ">"
    place = {"place": f"(message,piece){sign}(?,?)", "message": f"message=? AND piece{sign}?", "messages": "message<?"}
    assert plan.endswith(f"USING PRIMARY KEY ({' AND '.join(f'{name}=?' for name in NAMES)} AND {place[by]})"), plan


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_rows_are_found_by_their_key_and_by_their_stream(path: Path, table: type[Row]) -> None:
    SqliteStore(path).close()
    with raw(path) as connection:
        by_key = " AND ".join(f"{column} = 1" for column in table.key)
        (plan,) = plan_of(connection, f"SELECT * FROM {table.table} WHERE {by_key}")
        how = "INDEX sqlite_autoindex_fact_rows_1" if table is FactRow else "PRIMARY KEY"
        assert f"USING {how} ({' AND '.join(f'{column}=?' for column in table.key)})" in plan
        (plan,) = plan_of(connection, f"DELETE FROM {table.table} WHERE stream_no = 1")
        assert f"INDEX {table.table}_by_stream (stream_no=?)" in plan


def test_a_search_walks_over_nothing_but_the_words_and_takes_the_best_in_their_order(path: Path) -> None:
    SqliteStore(path).close()
    with raw(path) as connection:
        words, row, *rest = plan_of(connection, SQL["search"], ('"l1xword"', *[0] * 7))
        assert words.startswith("SCAN w VIRTUAL TABLE INDEX")
        assert row == "SEARCH f USING INTEGER PRIMARY KEY (rowid=?)"
        assert not any("ORDER BY" in step or "f USING" in step for step in rest), rest


# Migrations


def old_file(path: Path, known: int = 1) -> tuple[holdfast.types.StoredEvent, ...]:
    """A file from the time before there were rows, or only some of them, with a session in it."""
    store = SqliteStore(path, migrations=shipped_migrations()[:known])
    told: list[Event] = [
        SessionCreated(),
        *(MessageRecorded(role="user", content=(Text(f"message {n}"),), tokens=2, counter="c") for n in range(5)),
    ]
    events = tuple(NewEvent(each.name, each.version, codec.encode_event(each), os.urandom(16)) for each in told)
    scope = Scope("default", "main", "old")
    recorded = store.append(append_of(StreamWrite(scope.stream, 0, events), key="key")).events
    store.close()
    return recorded


@pytest.mark.parametrize("known", range(1, len(shipped_migrations())))
def test_an_older_file_upgrades_in_place_and_gets_its_rows(path: Path, known: int) -> None:
    recorded = old_file(path, known)
    with raw(path) as connection:
        assert connection.pragma("user_version") == known
    with holdfast.open(path) as engine:
        assert engine.admin.feed(limit=PAGE).events == recorded
        (row,) = engine.sessions()
        assert (row.session, row.messages, row.tokens, row.version) == ("old", 5, 10, 6)
        assert [message.text for message in engine.session("old").messages()] == [f"message {n}" for n in range(5)]
        assert engine.store.find("default", "key") == recorded
        assert engine.admin.verify().ok
        engine.session("old").record("user", "and on it goes")
    with raw(path) as connection:
        assert connection.pragma("user_version") == shipped_migrations()[-1].number


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    recorded = old_file(path)
    broken = Migration(2, "0002_broken", "CREATE TABLE half_way (x); CREATE TABLE streams (x);")
    with pytest.raises(StorageUnavailable):
        SqliteStore(path, migrations=(*shipped_migrations()[:1], broken))
    with raw(path) as connection:
        assert connection.pragma("user_version") == 1
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half_way'").get == 0
    store = SqliteStore(path)
    assert tuple(all_events(store)) == recorded
    store.close()


LATER = Migration(9_999, "9999_later", "CREATE TABLE later (x);")


def newer(path: Path) -> None:
    store = SqliteStore(path, migrations=(*shipped_migrations(), LATER))
    fill_stream(store, ONE, 2)
    store.close()


def others(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def crashed(make: Callable[[apsw.Connection], object], path: Path) -> None:
    """A database whose last changes are still in its write-ahead log."""
    original = path.with_name("original.db")
    with raw(original) as connection:
        connection.pragma("journal_mode", "wal")
        make(connection)
        for end in ("", "-wal"):
            shutil.copy(f"{original}{end}", f"{path}{end}")


def others_crashed(path: Path) -> None:
    crashed(lambda connection: connection.execute("CREATE TABLE theirs (x)"), path)


def newer_crashed(path: Path) -> None:
    crashed(lambda connection: migrate(connection, str(path), (*shipped_migrations(), LATER)), path)


def marked(path: Path) -> None:
    with raw(path) as connection:
        connection.pragma("application_id", 7)


def text(path: Path) -> None:
    path.write_text("Dear diary,\n" * 1_000)


def short_text(path: Path) -> None:
    path.write_text("hi")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (newer, SchemaTooNew),
        (others, ForeignFile),
        (newer_crashed, SchemaTooNew),
        (others_crashed, ForeignFile),
        (marked, ForeignFile),
        (text, ForeignFile),
        (short_text, ForeignFile),
    ],
)
def test_a_file_that_is_not_for_us_stays_as_it_is(
    path: Path, make: Callable[[Path], None], error: type[holdfast.HoldfastError]
) -> None:
    make(path)
    before = contents(path)
    for _ in range(2):
        with pytest.raises(error):
            holdfast.open(path)
        assert contents(path) == before
    assert not path.with_name("agent.db.blobs").exists()


def test_a_newer_schema_says_which(path: Path) -> None:
    newer(path)
    with pytest.raises(SchemaTooNew) as caught:
        SqliteStore(path)
    assert (caught.value.found, caught.value.known) == (9_999, shipped_migrations()[-1].number)


@pytest.mark.parametrize("number", [migration.number for migration in shipped_migrations()])
def test_a_migration_applied_with_another_text_is_found(path: Path, number: int) -> None:
    SqliteStore(path).close()
    with raw(path) as connection:
        connection.execute("UPDATE migrations SET checksum = 'other' WHERE number = ?", (number,))
    before = contents(path)
    with pytest.raises(SchemaChanged) as caught:
        SqliteStore(path)
    assert caught.value.number == number
    assert contents(path) == before


def test_looking_at_a_file_while_another_process_makes_it(path: Path) -> None:
    """Between any two looks at a new file it may become a whole one: that does not make it someone else's."""

    def meanwhile(_cursor: object, sql: str, _bindings: object) -> bool:
        if "sqlite_schema" in sql:
            with raw(path) as other, suppress(apsw.BusyError):  # whoever looks may make others wait
                migrate(other, str(path), shipped_migrations())
        return True

    with raw(path) as connection:
        connection.exec_trace = meanwhile
        check_owner(connection, str(path), shipped_migrations())
        connection.exec_trace = None
        migrate(connection, str(path), shipped_migrations())
        assert connection.pragma("application_id") == APPLICATION_ID


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    store = SqliteStore(path)
    fill_stream(store, ONE, 1)
    assert_sound(store)
    store.close()


@pytest.mark.parametrize("place", ["missing/agent.db", "missing/deep/agent.db", "file/agent.db", "."])
def test_a_place_that_cannot_hold_a_file_is_a_typed_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnavailable):
        SqliteStore(tmp_path / place)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


# Erasing


@pytest.mark.parametrize("size", [20, 20_000], ids=["in a page", "over many pages"])
def test_what_was_erased_is_in_no_file_any_more(path: Path, size: int) -> None:
    secret = b"the secret of the tomb"
    payload = secret * (size // 20)
    store = SqliteStore(path)
    row, snapshot = blob_row(ONE, 1, digest=secret.decode()), Snapshot(1, 1, payload)
    store.append(append_of(write_to(ONE, 0, payload, rows=[row], snapshot=snapshot)))
    fill_stream(store, TWO, 3)
    assert any(secret in file.read_bytes() for file in path.parent.glob("agent.db*"))
    store.append(append_of(write_to(ONE, 1, rows=[session_row(ONE, 2)], erase=[1])))
    assert not any(secret in file.read_bytes() for file in path.parent.glob("agent.db*"))
    assert_sound(store)
    store.close()


class _Fact(NamedTuple):
    number: int
    version: int
    live: bool

    @property
    def secret(self) -> str:
        """A word that no other begins like, so that the index has to write it out."""
        return hashlib.sha256(f"{self.number} {self.version}".encode()).hexdigest()

    def row(self) -> Row:
        return fact_row(LEDGER, self.number, f"key{self.secret}", f"some {self.secret}", live=int(self.live))


@settings(max_examples=figure(12, 300))
@given(
    told=st.lists(
        st.lists(st.builds(_Fact, st.integers(1, 5), st.integers(1, 3), st.booleans()), min_size=1, max_size=4),
        min_size=1,
        max_size=12,
    ),
    gone=st.sets(st.integers(1, 5), min_size=1),
    elsewhere=st.booleans(),
)
def test_no_word_of_an_erased_fact_is_left_in_the_index(
    told: list[list[_Fact]], gone: set[int], elsewhere: bool
) -> None:
    """However often it changed, lived or died before; what is left is found as before."""
    with fast_folder() as folder:
        path = Path(folder) / "agent.db"
        store = SqliteStore(path)
        if elsewhere:
            store.append(append_of(write_to(OTHER_LEDGER, 0, rows=[fact_row(OTHER_LEDGER, 1, "some", "some")])))
        last: dict[int, _Fact] = {}
        for version, facts in enumerate(told):
            last.update((fact.number, fact) for fact in facts)
            store.append(append_of(write_to(LEDGER, version, rows=[fact.row() for fact in facts])))
        assert all(fact.secret.encode() in everything(path) for fact in last.values())
        left = [fact for number, fact in last.items() if number not in gone]
        store.append(append_of(write_to(LEDGER, len(told), rows=[fact.row() for fact in left], erase=[1])))
        there = everything(path)
        said = {fact.secret for facts in told for fact in facts} - {fact.secret for fact in left}
        assert [secret for secret in said if secret[8:].encode() in there] == []
        for fact in left:
            asked = FactQuery(tenant="acme", ledgers=('["user","one"]',), words=(fact.secret,), live=fact.live)
            assert [row for row, _ in store.search(asked)] == [fact.row()]
        assert_sound(store)
        store.close()


def everything(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(path.parent.glob("agent.db*")))


def test_an_index_that_lost_step_with_its_facts_is_found_out(path: Path) -> None:
    """Whoever writes past the triggers, or damages what they wrote."""
    store = SqliteStore(path)
    store.append(append_of(write_to(LEDGER, 0, rows=[fact_row(LEDGER, number) for number in range(1, 4)])))
    assert store.check() == ()
    undo = "INSERT INTO fact_words (fact_words) VALUES ('rebuild')"
    for damage in (
        "INSERT INTO fact_words (fact_words, rowid, key_words, words) SELECT 'delete', * FROM fact_texts WHERE row_no = 2",
        "INSERT INTO fact_words (rowid, key_words, words) VALUES (99, 'l1xword', 'l1xword')",
        "DELETE FROM fact_words_docsize WHERE id = 1",
        "DELETE FROM fact_words_data WHERE id > 10",
        "UPDATE fact_words_data SET block = zeroblob(length(block)) WHERE id > 10",
    ):
        with raw(path) as connection:
            connection.execute(damage)
        assert store.check() != (), damage
        with raw(path) as connection:
            connection.execute(undo)
        assert store.check() == ()
    store.close()


# Backups


def test_a_backup_taken_while_others_write_is_a_sound_beginning_of_the_log(path: Path) -> None:
    store = SqliteStore(path)
    fill_stream(store, ONE, 20)
    stop, wrote = threading.Event(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            fill_stream(store, TWO, 1)
            wrote.set()

    thread = threading.Thread(target=write)
    thread.start()
    targets = [path.with_name(f"copy{number}.db") for number in range(3)]
    try:
        for target in targets:
            wrote.clear()
            assert wrote.wait(60)
            store.backup(str(target))
    finally:
        stop.set()
        thread.join()
    everything = list(all_events(store))
    store.close()
    for target in targets:
        copy = SqliteStore(target)
        assert_sound(copy)
        events = list(all_events(copy))
        assert 20 < len(events) <= len(everything)
        assert events == everything[: len(events)]
        fill_stream(copy, ONE, 1)
        copy.close()
    assert not list(path.parent.glob("*.partial*"))


def test_a_backup_never_overwrites(path: Path) -> None:
    store = SqliteStore(path)
    target = path.with_name("copy.db")
    target.write_text("precious")
    with pytest.raises(InvalidUrl):
        store.backup(str(target))
    assert target.read_text() == "precious"
    with pytest.raises(StorageUnavailable):
        store.backup(str(path.with_name("missing") / "copy.db"))
    store.close()
    with pytest.raises(StoreClosed):
        store.backup(str(path.with_name("another.db")))


def test_a_backup_takes_no_notice_of_one_that_was_interrupted(path: Path) -> None:
    store = SqliteStore(path)
    events = fill_stream(store, ONE, 3)
    target = path.with_name("copy.db")
    with raw(target.with_name("copy.db.partial")) as connection:
        connection.execute("CREATE TABLE half_a_copy (x)")
    store.backup(str(target))
    store.close()
    copy = SqliteStore(target)
    assert tuple(all_events(copy)) == events
    copy.close()
