"""Read connections: borrowed for one read, at most READERS of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from holdfast import errors
from holdfast.model import limits
from holdfast.storage.sqlite.connect import connect, typed_errors


class Readers:
    def __init__(self, path: str, *, synchronous: str, vfs: str | None) -> None:
        self._path = path
        self._synchronous = synchronous
        self._vfs = vfs
        self._free: list[apsw.Connection] = []
        self._slots = threading.BoundedSemaphore(limits.READERS)
        self._closed = False

    @contextmanager
    def borrow(self) -> Iterator[apsw.Connection]:
        """Every read is one statement or one short transaction, so the log can be checkpointed behind it."""
        with self._slots:
            if self._closed:
                raise errors.StoreClosed(what=self._path)
            try:
                connection = self._free.pop()
            except IndexError:
                connection = connect(self._path, synchronous=self._synchronous, vfs=self._vfs, reading=True)
            try:
                with typed_errors(self._path):
                    yield connection
            finally:
                self._free.append(connection)

    @contextmanager
    def fresh(self) -> Iterator[apsw.Connection]:
        """One that has seen nothing yet. SQLite's own check trusts what a connection remembers of the index of words, and
        takes what others have written since for damage."""
        with self._slots:
            if self._closed:
                raise errors.StoreClosed(what=self._path)
            connection = connect(self._path, synchronous=self._synchronous, vfs=self._vfs, reading=True)
            try:
                with typed_errors(self._path):
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
