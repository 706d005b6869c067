"""Connections with their settings, a pool of them for reading, and typed errors for errors of SQLite."""

from __future__ import annotations

import os
import threading
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
    """Refuse a version of SQLite with the WAL-reset bug."""
    found = tuple(int(part) for part in version.split(".")[:3])
    if found < SAFE_SQLITE:
        raise errors.UnsafeSqlite(version=version, needed=".".join(map(str, SAFE_SQLITE)))


def connect(path: str, *, synchronous: str, vfs: str | None, reading: bool = False) -> apsw.Connection:
    """Open a connection with the settings of the store. The file is created if it does not exist."""
    check_sqlite(apsw.sqlite_lib_version())
    with translate_errors(path):
        connection = apsw.Connection(path, vfs=vfs)
        connection.set_busy_timeout(limits.BUSY_MS)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("PRAGMA fullfsync=ON")  # needed on macOS; without effect elsewhere
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA secure_delete=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        if reading:
            connection.execute("PRAGMA query_only=ON")
        return connection


def limit_page_caches(size: int) -> None:
    """Keep at most about so many bytes of all files of this process in memory."""
    apsw.soft_heap_limit(size)


class ReaderPool:
    """Connections for reading, borrowed for one read each; at most READERS."""

    def __init__(self, path: str, *, synchronous: str, vfs: str | None) -> None:
        self._path = path
        self._synchronous = synchronous
        self._vfs = vfs
        self._free: list[apsw.Connection] = []
        self._slots = threading.BoundedSemaphore(limits.READERS)
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[apsw.Connection]:
        """Lend a connection for one read. Reads are short, so that the write-ahead log can be checkpointed."""
        with self._slots:
            if self._closed:
                raise errors.StoreClosed(what=self._path)
            try:
                connection = self._free.pop()
            except IndexError:
                connection = connect(self._path, synchronous=self._synchronous, vfs=self._vfs, reading=True)
            try:
                with translate_errors(self._path):
                    yield connection
            finally:
                self._free.append(connection)

    @contextmanager
    def borrow_fresh(self) -> Iterator[apsw.Connection]:
        """Lend a new connection. SQLite's own check relies on what a connection has cached of the word index, and
        would report newer writes of other connections as damage."""
        with self._slots:
            if self._closed:
                raise errors.StoreClosed(what=self._path)
            connection = connect(self._path, synchronous=self._synchronous, vfs=self._vfs, reading=True)
            try:
                with translate_errors(self._path):
                    yield connection
            finally:
                connection.close()

    def close(self) -> None:
        self._closed = True
        for _ in range(limits.READERS):
            self._slots.acquire()
        for _ in range(limits.READERS):
            self._slots.release()
        while self._free:
            self._free.pop().close()


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Turn errors of SQLite into typed errors."""
    try:
        yield
    except apsw.Error as error:
        raise translate_error(path, error) from error
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise errors.StorageCorrupt(what=path, reason=f"a stored value cannot be read ({error})") from error


def translate_error(path: str, error: apsw.Error) -> errors.HoldfastError:
    """Return the typed error for an error of SQLite."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return errors.StorageBusy(what=path, waited_ms=limits.BUSY_MS)
        case apsw.FullError():
            return errors.StorageFull(what=path)
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return errors.StorageReadOnly(what=path)
        case apsw.CantOpenError() if not _is_writable(os.path.dirname(os.path.abspath(path))):
            return errors.StorageReadOnly(what=path)
        case apsw.CorruptError():
            return errors.StorageCorrupt(what=path, reason=str(error))
        case apsw.NotADBError():
            return errors.ForeignFile(path=path, reason="it is not an SQLite database")
        case _:
            return errors.StorageUnavailable(what=path, reason=f"{type(error).__name__}: {error}")


def _is_writable(folder: str) -> bool:
    return not os.path.isdir(folder) or os.access(folder, os.W_OK, effective_ids=os.access in os.supports_effective_ids)


def is_storage_fault(error: BaseException) -> bool:
    """Whether the storage failed, so that other commands would fail too."""
    return isinstance(
        error,
        apsw.FullError | apsw.IOError | apsw.ReadOnlyError | apsw.CorruptError | apsw.CantOpenError | apsw.BusyError,
    )
