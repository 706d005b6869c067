"""Numbered migrations with checksums: an older file upgrades in place, a newer one is refused untouched."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast import errors
from holdfast.storage.sql import Migration, check_applied, shipped_in
from holdfast.storage.sqlite.connect import FOLDER

APPLICATION_ID = 0x48464C44
"""Marks a file as Holdfast's (PRAGMA application_id)."""

_LEDGER = """
CREATE TABLE IF NOT EXISTS migrations (
    number   INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum TEXT NOT NULL
) STRICT
"""


def shipped() -> tuple[Migration, ...]:
    return shipped_in(FOLDER)


def migrate(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Bring the file to the newest schema. Several processes may start at once: one does the work, the others wait."""
    refuse_foreign(connection, path, migrations)
    mode = connection.execute("PRAGMA journal_mode=WAL").get
    if mode != "wal":  # SQLite says so instead of raising, and without it a commit may be undone by power loss
        raise errors.StorageUnavailable(what=path, reason=f"it cannot have a write-ahead log (its mode stays {mode!r})")
    if connection.pragma("user_version") == migrations[-1].number:
        _check_ledger(connection, path, migrations)
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_LEDGER)
        applied = _check_ledger(connection, path, migrations)
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


def refuse_foreign(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> None:
    """Look before touching: someone else's database and one from the future stay as they are."""
    connection.execute("BEGIN")  # one look, not two: another process may be making the file
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        made_by = connection.pragma("application_id")
        found = connection.pragma("user_version")
    finally:
        connection.execute("ROLLBACK")
    if made_by != APPLICATION_ID and (made_by != 0 or tables):
        raise errors.ForeignFile(path=path, reason="another program made this database")
    if made_by == APPLICATION_ID and found > migrations[-1].number:
        raise errors.SchemaTooNew(path=path, found=found, known=migrations[-1].number)


def _check_ledger(connection: apsw.Connection, path: str, migrations: Sequence[Migration]) -> set[int]:
    applied = dict(connection.execute("SELECT number, checksum FROM migrations"))
    check_applied(path, applied, migrations)
    for number in applied.keys() - {migration.number for migration in migrations}:
        raise errors.SchemaTooNew(path=path, found=number, known=migrations[-1].number)
    return set(applied)
