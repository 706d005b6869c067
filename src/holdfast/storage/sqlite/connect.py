"""Connections, their settings, and the typed errors that SQLite's become."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import msgspec

from holdfast import errors
from holdfast.model import limits

FOLDER = os.path.dirname(os.path.abspath(__file__))

SAFE_SQLITE = (3, 51, 3)
"""The first release without the WAL-reset bug."""


def check_sqlite(version: str) -> None:
    found = tuple(int(part) for part in version.split(".")[:3])
    if found < SAFE_SQLITE:
        raise errors.UnsafeSqlite(version=version, needed=".".join(map(str, SAFE_SQLITE)))


def connect(path: str, *, synchronous: str, vfs: str | None, reading: bool = False) -> apsw.Connection:
    """A connection as every part of the store uses it. The file is made if it is not there."""
    check_sqlite(apsw.sqlite_lib_version())
    with typed_errors(path):
        connection = apsw.Connection(path, vfs=vfs)
        connection.set_busy_timeout(limits.BUSY_MS)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA fullfsync=ON")  # macOS needs it to reach the disk; elsewhere it says nothing
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        if reading:
            connection.execute("PRAGMA query_only=ON")
        return connection


@contextmanager
def typed_errors(path: str) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise typed(path, error) from error
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise errors.StorageCorrupt(what=path, reason=f"a stored value cannot be read ({error})") from error


def typed(path: str, error: apsw.Error) -> errors.HoldfastError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return errors.StorageBusy(what=path, waited_ms=limits.BUSY_MS)
        case apsw.FullError():
            return errors.StorageFull(what=path)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return errors.StorageReadOnly(what=path)
        case apsw.CantOpenError() if not _writable(os.path.dirname(os.path.abspath(path))):
            return errors.StorageReadOnly(what=path)
        case apsw.CorruptError():
            return errors.StorageCorrupt(what=path, reason=str(error))
        case apsw.NotADBError():
            return errors.ForeignFile(path=path, reason="it is not an SQLite database")
        case _:
            return errors.StorageUnavailable(what=path, reason=f"{type(error).__name__}: {error}")


def _writable(folder: str) -> bool:
    return not os.path.isdir(folder) or os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def broken_storage(error: BaseException) -> bool:
    """Whether the fault lies with the disk, so that trying the next command at once makes no sense."""
    return isinstance(
        error,
        apsw.FullError | apsw.IOError | apsw.ReadOnlyError | apsw.CorruptError | apsw.CantOpenError | apsw.BusyError,
    )
