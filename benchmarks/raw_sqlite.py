"""The limit: SQLite with the same settings, one table and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw

from benchmarks.harness import PAGE

WARM_PAGES = 1_200


class RawLog:
    def __init__(self, path: Path) -> None:
        """Ready in its steady state: past the first checkpoint, so that the write-ahead log grows no more."""
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE log (position INTEGER PRIMARY KEY, payload BLOB NOT NULL) STRICT")

        self.commit([PAGE] * WARM_PAGES)

    def commit(self, payloads: Sequence[bytes]) -> None:
        """One transaction, durable when this returns."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for payload in payloads:
            execute("INSERT INTO log (payload) VALUES (?)", (payload,))
        execute("COMMIT")

    def commit_one(self, payload: bytes) -> None:
        self.commit([payload])

    def close(self) -> None:
        self._connection.close()
