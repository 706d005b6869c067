"""Numbered migrations with checksums: an older file is upgraded in place, a newer one is refused unchanged."""

from __future__ import annotations

import time
from collections.abc import Sequence

import apsw

from holdfast import errors
from holdfast.model import limits
from holdfast.storage.sql import Migration, check_checksums, load_migrations
from holdfast.storage.sqlite.connections import FOLDER

APPLICATION_ID = 0x48464C44
"""Marks a file of Holdfast (PRAGMA application_id)."""

_BUSY_PAUSE_S = 0.005

_MIGRATIONS_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    number   INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT
"""


def shipped_migrations() -> tuple[Migration, ...]:
    """Return the migrations of this version."""
    return load_migrations(FOLDER)


def migrate(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Upgrade the file to the newest schema. If several processes start at the same time, one migrates and the
    others wait."""
    check_owner(connection, path, migrations)
    mode = _use_wal(connection)
    if mode != "wal":  # without WAL, a power failure could undo a commit
        raise errors.StorageUnavailable(what=path, reason=f"it cannot use a write-ahead log (its mode stays {mode!r})")
    if connection.pragma("user_version") == migrations[-1].number:
        _check_applied(connection, path, migrations)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_MIGRATIONS_TABLE)
        applied = _check_applied(connection, path, migrations)
        for migration in migrations:
            if migration.number not in applied:
                connection.execute(migration.sql)
                connection.execute("INSERT INTO migrations VALUES (?, ?, ?)", (*migration[:2], migration.checksum))
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={migrations[-1].number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: apsw.Connection) -> str:
    """Switch to a write-ahead log, and return the mode. SQLite does not wait for others who switch a new file at the same
    time: it refuses at once, whatever the busy timeout."""
    end = time.monotonic() + limits.BUSY_MS / 1_000
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").get)
        except apsw.BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(_BUSY_PAUSE_S)


def check_owner(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Refuse a database of another program, and one with a newer schema, before anything is changed."""
    connection.execute("BEGIN")  # one consistent read: another process may be creating the file
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        application = connection.pragma("application_id")
        version = connection.pragma("user_version")
    finally:
        connection.execute("ROLLBACK")
    if application != APPLICATION_ID and (application != 0 or tables):
        raise errors.ForeignFile(path=path, reason="another program created this database")
    if application == APPLICATION_ID and version > migrations[-1].number:
        raise errors.SchemaTooNew(path=path, found=version, known=migrations[-1].number)


def _check_applied(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> set[int]:
    applied = dict(connection.execute("SELECT number, checksum FROM migrations"))
    check_checksums(path, applied, migrations)
    for number in applied.keys() - {migration.number for migration in migrations}:
        raise errors.SchemaTooNew(path=path, found=number, known=migrations[-1].number)
    return set(applied)
