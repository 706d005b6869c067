"""Inside a write transaction: appending to the log, its heads, keys, snapshots and rows.

Laws: everything that can be refused is checked before anything is written; what is remembered of the heads between two
transactions is used only if no other connection has committed since, and forgotten whenever a transaction fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import apsw
import msgspec

from holdfast import chain, codec, errors
from holdfast.model.log import GENESIS, Append, Appended, Head, Recorded, Snapshot, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import TABLES, Row
from holdfast.storage import common
from holdfast.storage.sql import Wording, load_statements
from holdfast.storage.sqlite.connect import FOLDER

SQL = load_statements(FOLDER)

WORDING = Wording(
    "?", lambda column, values: (f"{column} IN (SELECT value FROM json_each(?))", codec.encode(values).decode())
)

_REMEMBERED_HEADS = 4_096


def _put_statement(table: type[Row]) -> str:
    columns = ("stream_no", *table.__struct_fields__)
    moved = ", ".join(f"{name} = excluded.{name}" for name in table.__struct_fields__ if name not in table.key)
    return (
        f"INSERT INTO {table.table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(table.key)}) DO {f'UPDATE SET {moved}' if moved else 'NOTHING'}"
    )


_PUT_ROW = {table: _put_statement(table) for table in TABLES}
_FORGET_ROWS = [f"DELETE FROM {table.table} WHERE stream_no = ?" for table in TABLES]


class Log:
    """The writing connection, one transaction after the other."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._data_version = -1
        self._heads: dict[StreamId, tuple[int, Head]] = {}
        self._events = self._streams = 0
        self._feed = GENESIS
        self._counted = True
        self._purge = False
        """Facts were erased: their words are still in the index, with a note that they no longer count."""

    def begin(self) -> None:
        if self.connection.in_transaction:  # left open by someone who was interrupted
            self.roll_back()
        self.connection.execute("BEGIN IMMEDIATE")
        data_version = self.connection.execute("PRAGMA data_version").get
        if data_version != self._data_version:
            self._heads.clear()
            totals = self.connection.execute(SQL["log_totals"]).get
            if totals is None:
                raise apsw.CorruptError("the count of its events is gone")
            self._events, self._streams, self._feed = totals
            self._data_version = data_version
        self._counted = True

    def commit(self) -> None:
        if self._purge:
            self.connection.execute(SQL["purge_words"])
            self._purge = False
        if not self._counted:
            self.connection.execute(SQL["set_log_totals"], (self._events, self._streams, self._feed))
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        self._data_version = -1
        self._purge = False
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def append(self, append: Append) -> Appended:
        if append.key is not None and (first := find(self.connection, append.tenant, append.key)):
            return chain.repeated(append.key, append.order, first)
        places = []
        for write in append.writes:
            place = self._head(write.stream)
            common.check_version(write, place[1])
            places.append(place)
        recorded: list[Recorded] = []
        links = chain.record(append, [head for _, head in places])
        for write, (stream_no, _), (head, events) in zip(append.writes, places, links, strict=True):
            stream_no = self._move_head(stream_no, head)
            for event in events:
                self._add_event(stream_no, event)
            self._keep(stream_no, write)
            recorded += events
        return Appended(tuple(recorded))

    def adopt(
        self,
        events: Sequence[Recorded],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
    ) -> None:
        for event in events:
            stream_no, head = self._head(event.stream)
            common.check_adopted(head, event)
            if event.key is not None and event.ordinal == 0 and find(self.connection, event.stream.tenant, event.key):
                raise errors.KeyConflict(tenant=event.stream.tenant, key=event.key, reason="it is in use here")
            stream_no = self._move_head(stream_no, Head(event.stream, event.seq, event.hash))
            self._add_event(stream_no, event)
        for stream, seqs in erase.items():
            self._erase(self._head(stream)[0], seqs)
        for stream, some in rows.items():
            self._put_rows(self._head(stream)[0], some)
        for stream, snapshot in snapshots.items():
            self._put_snapshot(self._head(stream)[0], snapshot)

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        stream_no, head = self._head(stream)
        if head.version != version:
            raise errors.VersionConflict(stream=stream, expected=version, actual=head.version)
        self._forget_rows(stream_no)
        self._put_rows(stream_no, rows)

    def set_projection_version(self, version: int) -> None:
        self.connection.execute(SQL["set_projection_version"], (version,))

    def touch(self) -> None:
        """Something to commit that changes nothing in the end. On the way it does: what is overwritten with itself, SQLite
        does not write at all."""
        self.connection.execute(SQL["set_log_totals"], (self._events + 1, self._streams, self._feed))
        self._counted = False

    def _head(self, stream: StreamId) -> tuple[int, Head]:
        known = self._heads.get(stream)
        if known is None:
            known = read_head(self.connection, stream)
            if known[0]:
                self._remember(stream, known)
        return known

    def _move_head(self, stream_no: int, head: Head) -> int:
        if stream_no:
            self.connection.execute(SQL["move_head"], (head.version, head.hash, stream_no))
        else:
            self.connection.execute(SQL["add_stream"], (*common.stream_key(head.stream), head.version, head.hash))
            stream_no = self.connection.last_insert_rowid()
            self._streams += 1
        self._remember(head.stream, (stream_no, head))
        return stream_no

    def _remember(self, stream: StreamId, place: tuple[int, Head]) -> None:
        if len(self._heads) >= _REMEMBERED_HEADS:
            self._heads.clear()
        self._heads[stream] = place

    def _add_event(self, stream_no: int, event: Recorded) -> None:
        self._events += 1
        self._feed = chain.ordered(self._feed, event.hash)
        self._counted = False
        _, seq, command, *rest = msgspec.structs.astuple(event)  # in the order of the columns, as recorded_of reads
        self.connection.execute(SQL["add_event"], (self._events, stream_no, seq, bytes.fromhex(command), *rest))

    def _keep(self, stream_no: int, write: StreamWrite) -> None:
        if write.erase:
            self._erase(stream_no, write.erase)
        if write.snapshot is not None:
            self._put_snapshot(stream_no, write.snapshot)
        self._put_rows(stream_no, write.rows)

    def _put_snapshot(self, stream_no: int, snapshot: Snapshot) -> None:
        values = (stream_no, snapshot.version, snapshot.format, snapshot.state)
        self.connection.execute(SQL["put_snapshot"], values)

    def _erase(self, stream_no: int, seqs: Sequence[int]) -> None:
        for seq in seqs:
            self.connection.execute(SQL["erase"], (stream_no, seq))
        self.connection.execute(SQL["drop_snapshot"], (stream_no,))
        self._purge |= bool(self.connection.execute(SQL["has_facts"], (stream_no,)).get)
        self._forget_rows(stream_no)

    def _put_rows(self, stream_no: int, rows: Sequence[Row]) -> None:
        for row in rows:
            self.connection.execute(_PUT_ROW[type(row)], (stream_no, *msgspec.structs.astuple(row)))

    def _forget_rows(self, stream_no: int) -> None:
        for statement in _FORGET_ROWS:
            self.connection.execute(statement, (stream_no,))


def read_head(connection: apsw.Connection, stream: StreamId) -> tuple[int, Head]:
    """A stream's number and head; number 0 if it is not there."""
    for stream_no, version, digest in connection.execute(SQL["head"], common.stream_key(stream)):
        return stream_no, Head(stream, version, digest)
    return 0, Head(stream, 0, GENESIS)


def find(connection: apsw.Connection, tenant: str, key: str) -> tuple[Recorded, ...]:
    """The events of the command that used this key, wherever they stand."""
    for row in connection.execute(SQL["find"], (key, tenant)):
        first = common.placed(row)
        rest = connection.execute(SQL["find_rest"], (row[5], tenant))
        return first, *(common.placed(each) for each in rest)
    return ()
