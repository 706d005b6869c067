"""What is particular to one SQLite file: its settings, its schema, its migrations, and other people's files."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import get_type_hints

import apsw
import pytest

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
from holdfast.model.events import Event, MessageRecorded, SessionCreated
from holdfast.model.log import NewEvent, Snapshot, StreamWrite
from holdfast.model.names import Scope
from holdfast.model.rows import (
    IN_ORDER_OF_KEY,
    TABLES,
    FrameRow,
    HandleRow,
    Order,
    OutboxRow,
    Row,
    SessionRow,
    TokenRow,
)
from holdfast.storage.sql import Migration, select_rows
from holdfast.storage.sqlite import connect
from holdfast.storage.sqlite.migrate import APPLICATION_ID, migrate, refuse_foreign, shipped
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing.appends import (
    ONE,
    PAGE,
    TWO,
    all_events,
    append_of,
    assert_sound,
    blob_row,
    fill,
    rows_of_every_table,
    session_row,
    write_to,
)


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
    connect.check_sqlite(version)


# Schema


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_the_columns_of_a_table_are_the_fields_of_its_row(path: Path, table: type[Row]) -> None:
    SqliteStore(path).close()
    with raw(path) as connection:
        columns = connection.execute(
            f"SELECT name, type, \"notnull\", pk FROM pragma_table_info('{table.table}')"
        ).fetchall()
        strict = connection.execute("SELECT strict FROM pragma_table_list WHERE name = ?", (table.table,)).get
    hints = get_type_hints(table)
    key = sorted((int(str(place)), name) for name, _, _, place in columns if place)
    kinds = {name: "INTEGER" if hints[name] in (int, int | None) else "TEXT" for name in table.__struct_fields__}
    assert {name: kind for name, kind, *_ in columns} == {"stream_no": "INTEGER", **kinds}
    assert tuple(name for _, name in key) == table.key
    assert {name for name, _, required, _ in columns if not required} == {
        name for name, hint in hints.items() if hint in (int | None, str | None)
    }
    assert strict == 1


# Plans


NAMES = ("tenant", "actor", "session", "thread")
LAID_OUT: dict[str, tuple[type[Row], Sequence[str], Order, Sequence[str]]] = {
    "outbox_rows_pending": (OutboxRow, ("tenant", "done"), IN_ORDER_OF_KEY, ()),
    "session_rows_by_expiry": (SessionRow, ("tenant",), Order(("expires_us",)), ("expires_us",)),
    "frame_rows_by_parent": (FrameRow, (*NAMES, "parent"), IN_ORDER_OF_KEY, ()),
    "frame_rows_by_ending": (FrameRow, (*NAMES, "ended"), IN_ORDER_OF_KEY, ()),
    "frame_rows_by_deadline": (FrameRow, ("tenant",), Order(("deadline_us",)), ("deadline_us",)),
    "handle_rows_by_frame": (HandleRow, (*NAMES, "frame"), IN_ORDER_OF_KEY, ()),
    "handle_rows_by_source": (HandleRow, (*NAMES, "frame", "source"), IN_ORDER_OF_KEY, ()),
    "token_rows_by_digest": (TokenRow, ("tenant", "digest"), IN_ORDER_OF_KEY, ()),
    "token_rows_suspended": (TokenRow, ("tenant", "suspended"), IN_ORDER_OF_KEY, ()),
}
"""What each index is there for: equal columns, an order, and what is bounded."""


def plan_of(connection: apsw.Connection, statement: str, values: Sequence[str | int] = ()) -> list[str]:
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", tuple(values))]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("old", [False, True], ids=["new", "upgraded"])
@pytest.mark.parametrize("index", LAID_OUT)
def test_rows_are_found_by_the_index_that_is_there_for_them(path: Path, index: str, old: bool, backwards: bool) -> None:
    """From any page on, and none of them is sorted."""
    if old:
        old_file(path)
    SqliteStore(path).close()
    table, columns, order, bounded = LAID_OUT[index]
    row = next(row for row in rows_of_every_table(ONE, 2) if type(row) is table)
    order, most = Order(order.columns, backwards), dict.fromkeys(bounded, 5)
    where = {column: "some" if (value := getattr(row, column)) is None else value for column in columns}
    with raw(path) as connection:
        for after in (None, row):
            query = select_rows(table, where, after, 10, order, {}, most, "?")
            assert query is not None
            (plan,) = plan_of(connection, *query)
            assert f"USING INDEX {index} ({' AND '.join(f'{column}=?' for column in columns)}" in plan
            assert (after is None and not most) == plan.endswith(f"{columns[-1]}=?)"), plan


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.table)
def test_rows_are_found_by_their_key_and_by_their_stream(path: Path, table: type[Row]) -> None:
    SqliteStore(path).close()
    with raw(path) as connection:
        by_key = " AND ".join(f"{column} = 1" for column in table.key)
        (plan,) = plan_of(connection, f"SELECT * FROM {table.table} WHERE {by_key}")
        assert f"USING PRIMARY KEY ({' AND '.join(f'{column}=?' for column in table.key)})" in plan
        (plan,) = plan_of(connection, f"DELETE FROM {table.table} WHERE stream_no = 1")
        assert f"USING INDEX {table.table}_by_stream (stream_no=?)" in plan


# Migrations


def old_file(path: Path, known: int = 1) -> tuple[holdfast.Recorded, ...]:
    """A file from the time before there were rows, or only some of them, with a session in it."""
    store = SqliteStore(path, migrations=shipped()[:known])
    told: list[Event] = [
        SessionCreated(),
        *(MessageRecorded(role="user", content=(Text(f"message {n}"),), tokens=2, counter="c") for n in range(5)),
    ]
    events = tuple(NewEvent(each.name, each.version, codec.encode_event(each), os.urandom(16)) for each in told)
    scope = Scope("default", "main", "old")
    recorded = store.append(append_of(StreamWrite(scope.stream, 0, events), key="key")).events
    store.close()
    return recorded


@pytest.mark.parametrize("known", range(1, len(shipped())))
def test_an_older_file_upgrades_in_place_and_gets_its_rows(path: Path, known: int) -> None:
    recorded = old_file(path, known)
    with raw(path) as connection:
        assert connection.pragma("user_version") == known
    with holdfast.open(path) as engine:
        assert engine.feed(limit=PAGE).events == recorded
        (row,) = engine.sessions()
        assert (row.session, row.messages, row.tokens, row.version) == ("old", 5, 10, 6)
        assert [message.text for message in engine.session("old").messages()] == [f"message {n}" for n in range(5)]
        assert engine.store.find("default", "key") == recorded
        assert engine.verify().ok
        engine.session("old").record("user", "and on it goes")
    with raw(path) as connection:
        assert connection.pragma("user_version") == shipped()[-1].number


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    recorded = old_file(path)
    broken = Migration(2, "0002_broken", "CREATE TABLE half_way (x); CREATE TABLE streams (x);")
    with pytest.raises(StorageUnavailable):
        SqliteStore(path, migrations=(*shipped()[:1], broken))
    with raw(path) as connection:
        assert connection.pragma("user_version") == 1
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half_way'").get == 0
    store = SqliteStore(path)
    assert tuple(all_events(store)) == recorded
    store.close()


LATER = Migration(9_999, "9999_later", "CREATE TABLE later (x);")


def newer(path: Path) -> None:
    store = SqliteStore(path, migrations=(*shipped(), LATER))
    fill(store, ONE, 2)
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
    crashed(lambda connection: migrate(connection, str(path), (*shipped(), LATER)), path)


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
    assert (caught.value.found, caught.value.known) == (9_999, shipped()[-1].number)


@pytest.mark.parametrize("number", [migration.number for migration in shipped()])
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
                migrate(other, str(path), shipped())
        return True

    with raw(path) as connection:
        connection.exec_trace = meanwhile
        refuse_foreign(connection, str(path), shipped())
        connection.exec_trace = None
        migrate(connection, str(path), shipped())
        assert connection.pragma("application_id") == APPLICATION_ID


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    store = SqliteStore(path)
    fill(store, ONE, 1)
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
    fill(store, TWO, 3)
    assert any(secret in file.read_bytes() for file in path.parent.glob("agent.db*"))
    store.append(append_of(write_to(ONE, 1, rows=[session_row(ONE, 2)], erase=[1])))
    assert not any(secret in file.read_bytes() for file in path.parent.glob("agent.db*"))
    assert_sound(store)
    store.close()


# Backups


def test_a_backup_taken_while_others_write_is_a_sound_beginning_of_the_log(path: Path) -> None:
    store = SqliteStore(path)
    fill(store, ONE, 20)
    stop, wrote = threading.Event(), threading.Event()

    def write() -> None:
        while not stop.is_set():
            fill(store, TWO, 1)
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
        fill(copy, ONE, 1)
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
    events = fill(store, ONE, 3)
    target = path.with_name("copy.db")
    with raw(target.with_name("copy.db.partial")) as connection:
        connection.execute("CREATE TABLE half_a_copy (x)")
    store.backup(str(target))
    store.close()
    copy = SqliteStore(target)
    assert tuple(all_events(copy)) == events
    copy.close()
