"""Commits of other processes to an SQLite file: its data version, read at an interval by one thread.

Laws: the thread and its connection exist only while somebody listens. The data version changes with every commit of
another connection, so no commit is missed, however long the thread sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import apsw

from holdfast.errors import StorageCorrupt
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.storage import common
from holdfast.storage.changes import ChangeListener, ChangeListeners
from holdfast.storage.sqlite.log import SQL


class FileChanges:
    """The listeners of one file. `connect` opens a connection for reading."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._listeners = ChangeListeners()
        self._mutex = threading.RLock()  # a watch can be collected while this thread has it
        self._thread: _FileThread | None = None

    def add(self, listener: ChangeListener, stream: StreamId | None) -> None:
        with self._mutex:
            self._listeners.add(listener, stream)
            try:
                if self._thread is None:
                    self._thread = _FileThread(self._connect(), self._listeners)
            except BaseException:
                self._listeners.remove(listener)
                raise

    def remove(self, listener: ChangeListener) -> None:
        with self._mutex:
            self._listeners.remove(listener)
            if not self._listeners and self._thread is not None:
                self._thread.stop.set()
                self._thread = None

    @property
    def has_listeners(self) -> bool:
        return len(self._listeners) > 0

    def announce(self, streams: Iterable[StreamId]) -> None:
        """Announce a commit of this process at once."""
        self._listeners.announce(streams)

    def close(self) -> None:
        """End the thread, and wake all listeners."""
        with self._mutex:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop.set()
            thread.join()
        self._listeners.announce_all()


class _FileThread(threading.Thread):
    """Reads the data version of a file, and announces the streams of new events."""

    def __init__(self, connection: apsw.Connection, listeners: ChangeListeners) -> None:
        super().__init__(name="holdfast-file-changes", daemon=True)
        self.stop = threading.Event()
        self._connection = connection
        self._listeners = listeners
        self._data_version = self._read_data_version()
        self._position: int = connection.execute(SQL["last_position"]).get
        self.start()

    def run(self) -> None:
        try:
            while not self.stop.wait(limits.WATCH_FILE_MS / 1_000):
                try:
                    self._look()
                except (apsw.Error, StorageCorrupt):  # whoever reads the file now gets the error
                    self._listeners.announce_all()
        finally:
            self._connection.close()

    def _look(self) -> None:
        data_version = self._read_data_version()
        if data_version == self._data_version:
            return
        query = SQL["changed_streams"]
        found: list[Any] = self._connection.execute(query, (self._position, limits.READ_EVENTS)).fetchall()

        if len(found) < limits.READ_EVENTS:
            self._listeners.announce({common.stream_of(*row[:3]) for row in found})
        else:
            self._listeners.announce_all()
        self._position = max((row[3] for row in found), default=self._position)
        if len(found) < limits.READ_EVENTS:  # otherwise look again: there is more
            self._data_version = data_version

    def _read_data_version(self) -> int:
        version: int = self._connection.pragma("data_version")
        return version
