"""The writing connection: events, heads, keys, snapshots and rows, inside a transaction.

Laws: everything is checked before anything is written. Heads are remembered between transactions only while no other
connection commits, and forgotten when a transaction fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import apsw
import msgspec

from holdfast import chain, errors
from holdfast.model.log import GENESIS, Append, AppendResult, Snapshot, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import TABLES, Row
from holdfast.storage import common
from holdfast.storage.sql import load_statements
from holdfast.storage.sqlite.connections import FOLDER
from holdfast.storage.sqlite.passage_log import PassageLog

SQL = load_statements(FOLDER)

_CACHED_HEADS = 4_096


def _put_statement(table: type[Row]) -> str:
    columns = ("stream_no", *table.__struct_fields__)
    updates = ", ".join(f"{name} = excluded.{name}" for name in table.__struct_fields__ if name not in table.key)
    return (
        f"INSERT INTO {table.table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(table.key)}) DO {f'UPDATE SET {updates}' if updates else 'NOTHING'}"
    )


_PUT_ROW = {table: _put_statement(table) for table in TABLES}
_FORGET_ROWS = [f"DELETE FROM {table.table} WHERE stream_no = ?" for table in TABLES]


class SqliteLog:
    """The writing connection. It runs one transaction after the other."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._cursor = connection.cursor()
        """Runs the statements one after the other: a new cursor for each takes as long as a small statement."""
        self._data_version = -1
        self._heads: dict[StreamId, tuple[int, StreamHead]] = {}
        self._events = self._streams = 0
        self._feed = GENESIS
        self._are_totals_stored = True
        self._needs_purge = False
        """Facts were erased: the index still has their words, marked as deleted."""
        self.passages = PassageLog(connection, self._head)

    def begin(self) -> None:
        if self.connection.in_transaction:  # left open by an interrupted thread
            self.roll_back()
        self._cursor.execute("BEGIN IMMEDIATE")
        data_version = self._cursor.execute("PRAGMA data_version").get
        if data_version != self._data_version:
            self._heads.clear()
            totals = self._cursor.execute(SQL["log_totals"]).get
            if totals is None:
                raise apsw.CorruptError("the count of its events is missing")
            self._events, self._streams, self._feed = totals
            self._data_version = data_version
        self._are_totals_stored = True

    def commit(self) -> None:
        if self._needs_purge:
            self._cursor.execute(SQL["purge_words"])
            self._needs_purge = False
        self.passages.finish()
        if not self._are_totals_stored:
            self._cursor.execute(SQL["set_log_totals"], (self._events, self._streams, self._feed))
        self._cursor.execute("COMMIT")

    def roll_back(self) -> None:
        self._data_version = -1
        self._needs_purge = self.passages.needs_purge = False
        self._cursor = self.connection.cursor()  # an interrupted thread may have left a statement in the other
        if self.connection.in_transaction:
            self._cursor.execute("ROLLBACK")

    def append(self, append: Append) -> AppendResult:
        if append.key is not None and (first := find_by_key(self.connection, append.tenant, append.key)):
            return chain.answer_repeated_key(append.key, append.order, first)
        heads = []
        for write in append.writes:
            numbered_head = self._head(write.stream)
            common.check_version(write, numbered_head[1])
            heads.append(numbered_head)
        stored: list[StoredEvent] = []
        starts = [common.chain_start(write, head) for write, (_, head) in zip(append.writes, heads, strict=True)]
        links = chain.chain_events(append, starts)
        for write, (stream_no, _), (head, events) in zip(append.writes, heads, links, strict=True):
            stream_no = self._move_head(stream_no, head)
            self._add_events(stream_no, events)
            self._store_extras(stream_no, write)
            stored += events
        return AppendResult(tuple(stored))

    def adopt(
        self,
        events: Sequence[StoredEvent],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
        bases: Mapping[StreamId, StreamHead] = MappingProxyType({}),
        keep_taken: Mapping[StreamId, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        for event in events:
            stream_no, head = self._head(event.stream)
            common.check_adoption(head, event, bases)
            if (
                event.key is not None
                and event.ordinal == 0
                and find_by_key(self.connection, event.stream.tenant, event.key)
            ):
                raise errors.KeyConflict(tenant=event.stream.tenant, key=event.key, reason="it is used in this store")
            stream_no = self._move_head(stream_no, StreamHead(event.stream, event.seq, event.hash))
            self._add_events(stream_no, [event])
        for stream, seqs in erase.items():
            self._erase(self._head(stream)[0], seqs, keep_taken.get(stream, ()))
        for stream, new_rows in rows.items():
            self._put_rows(self._head(stream)[0], new_rows)
        for stream, snapshot in snapshots.items():
            self._put_snapshot(self._head(stream)[0], snapshot)

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        stream_no, head = self._head(stream)
        if head.version != version:
            raise errors.VersionConflict(stream=stream, expected=version, actual=head.version)
        self._drop_rows(stream_no)
        self._put_rows(stream_no, rows)

    def set_projection_version(self, version: int) -> None:
        self._cursor.execute(SQL["set_projection_version"], (version,))

    def touch(self) -> None:
        """Make a change that the commit reverts, so that there is something to commit: SQLite does not write equal
        values."""
        self._cursor.execute(SQL["set_log_totals"], (self._events + 1, self._streams, self._feed))
        self._are_totals_stored = False

    def _head(self, stream: StreamId) -> tuple[int, StreamHead]:
        numbered_head = self._heads.get(stream)
        if numbered_head is None:
            numbered_head = read_head(self.connection, stream)
            if numbered_head[0]:
                self._remember(stream, numbered_head)
        return numbered_head

    def _move_head(self, stream_no: int, head: StreamHead) -> int:
        if stream_no:
            self._cursor.execute(SQL["move_head"], (head.version, head.hash, stream_no))
        else:
            self._cursor.execute(SQL["add_stream"], (*common.stream_key(head.stream), head.version, head.hash))
            stream_no = self.connection.last_insert_rowid()
            self._streams += 1
        self._remember(head.stream, (stream_no, head))
        return stream_no

    def _remember(self, stream: StreamId, numbered_head: tuple[int, StreamHead]) -> None:
        if len(self._heads) >= _CACHED_HEADS:
            self._heads.clear()
        self._heads[stream] = numbered_head

    def _add_events(self, stream_no: int, events: Sequence[StoredEvent]) -> None:
        rows: list[tuple[Any, ...]] = []
        for event in events:
            self._events += 1
            self._feed = chain.extend_feed_digest(self._feed, event.hash)
            _, seq, command, *fields = msgspec.structs.astuple(
                event
            )  # in the order of the columns, as recorded_of reads
            rows.append((self._events, stream_no, seq, bytes.fromhex(command), *fields))
        self._are_totals_stored = False
        self._cursor.executemany(SQL["add_event"], rows)

    def _store_extras(self, stream_no: int, write: StreamWrite) -> None:
        if write.erase:
            self._erase(stream_no, write.erase, write.erase if write.keeps_taken else ())
        if write.snapshot is not None:
            self._put_snapshot(stream_no, write.snapshot)
        self._put_rows(stream_no, write.rows)

    def _put_snapshot(self, stream_no: int, snapshot: Snapshot) -> None:
        values = (stream_no, snapshot.version, snapshot.format, snapshot.state)
        self._cursor.execute(SQL["put_snapshot"], values)

    def _erase(self, stream_no: int, seqs: Sequence[int], keep_taken: Sequence[int]) -> None:
        for seq in seqs:
            self._cursor.execute(SQL["erase"], (stream_no, seq))
        self._cursor.execute(SQL["drop_snapshot"], (stream_no,))
        self._needs_purge |= bool(self._cursor.execute(SQL["has_facts"], (stream_no,)).get)
        self._drop_rows(stream_no)
        self.passages.erase(stream_no, seqs, keep_taken)

    def _put_rows(self, stream_no: int, rows: Sequence[Row]) -> None:
        for row in rows:
            self._cursor.execute(_PUT_ROW[type(row)], (stream_no, *msgspec.structs.astuple(row)))

    def _drop_rows(self, stream_no: int) -> None:
        for statement in _FORGET_ROWS:
            self._cursor.execute(statement, (stream_no,))


def read_head(connection: apsw.Connection, stream: StreamId) -> tuple[int, StreamHead]:
    """Return the number and the head of a stream; number 0 if it does not exist."""
    for stream_no, version, digest in connection.execute(SQL["head"], common.stream_key(stream)):
        return stream_no, StreamHead(stream, version, digest)
    return 0, StreamHead(stream, 0, GENESIS)


def find_by_key(connection: apsw.Connection, tenant: str, key: str) -> tuple[StoredEvent, ...]:
    """Return the events of the command that used this key, in all streams."""
    for row in connection.execute(SQL["find"], (key, tenant)):
        first = common.parse_feed_row(row)
        others = connection.execute(SQL["find_rest"], (row[5], tenant))
        return first, *(common.parse_feed_row(other) for other in others)
    return ()
