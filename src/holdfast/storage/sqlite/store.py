"""The event store contract on one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast import chain, codec, errors
from holdfast.model import limits
from holdfast.model.log import GENESIS, Append, Appended, FeedPage, Head, Recorded, Snapshot, StreamWrite, Totals
from holdfast.model.names import StreamId
from holdfast.model.rows import TABLES, Row
from holdfast.storage import common
from holdfast.storage.sqlite.connect import connect, load_statements, typed_errors
from holdfast.storage.sqlite.migrate import Migration, migrate, shipped
from holdfast.storage.sqlite.readers import Readers
from holdfast.storage.sqlite.writer import Writer

R = TypeVar("R", bound=Row)
T = TypeVar("T")

_SQL = load_statements(__package__, "queries.sql")


def _put_statement(table: type[Row]) -> str:
    columns = ("stream_no", *table.__struct_fields__)
    moved = ", ".join(f"{name} = excluded.{name}" for name in table.__struct_fields__ if name not in table.key)
    return (
        f"INSERT INTO {table.table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {moved}"
    )


_PUT_ROW = {table: _put_statement(table) for table in TABLES}
_FORGET_ROWS = [f"DELETE FROM {table.table} WHERE stream_no = ?" for table in TABLES]


class SqliteStore:
    """Open it once a process; threads share it, forks must not."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vfs: str | None = None,
        synchronous: str = "FULL",
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        """`vfs`, `synchronous` and `migrations` are for tests of the promises; users leave them alone."""
        self.path = os.fspath(path)
        self._pid = os.getpid()
        parent = Path(self.path).resolve().parent
        if not parent.is_dir():
            raise errors.StorageUnavailable(what=self.path, reason=f"the folder {str(parent)!r} does not exist")
        connection = connect(self.path, synchronous=synchronous, vfs=vfs)
        try:
            with typed_errors(self.path):
                migrate(connection, self.path, migrations or shipped())
        except BaseException:
            connection.close()
            raise
        self._writer = Writer(connection, self.path)
        self._readers = Readers(self.path, synchronous=synchronous, vfs=vfs)

    # Writing

    def append(self, append: Append) -> Appended:
        common.check_append(append)
        appended = self._write(lambda connection: _append(connection, append))
        if any(write.erase for write in append.writes):
            self._clear_log()
        return appended

    async def submit(self, append: Append) -> Appended:
        """`append` for an event loop: tasks that wait together share one commit. Not for erasures, which take a while."""
        common.check_append(append)
        self._check_process()
        return await self._writer.submit(lambda connection: _append(connection, append))

    def _clear_log(self) -> None:
        """What was erased must not linger in the write-ahead log. A long reader puts that off to the next checkpoint."""
        with self._readers.borrow() as connection, suppress(apsw.BusyError):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def adopt(
        self,
        events: Sequence[Recorded],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
    ) -> None:
        self._write(lambda connection: _adopt(connection, events, rows, erase))
        if erase:
            self._clear_log()

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        def job(connection: apsw.Connection) -> None:
            stream_no, head = _head(connection, stream)
            if head.version != version:
                raise errors.VersionConflict(stream=stream, expected=version, actual=head.version)
            _forget_rows(connection, stream_no)
            _put_rows(connection, stream_no, rows)

        self._write(job)

    def set_projection_version(self, version: int) -> None:
        def job(connection: apsw.Connection) -> None:
            connection.execute(_SQL["set_projection_version"], (version,))

        self._write(job)

    def _write(self, job: Callable[[apsw.Connection], T]) -> T:
        self._check_process()
        return self._writer.run(job)

    # Reading

    def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        with self._read() as connection:
            return _find(connection, tenant, key)

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[Recorded, ...]:
        common.check_limit(limit)
        with self._read() as connection:
            found = connection.execute(_SQL["read"], (*_names(stream), after, limit))
            return tuple(_recorded(stream, row) for row in found)

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[Recorded, ...]:
        common.check_limit(limit)
        start = before if before is not None else (1 << 62)
        with self._read() as connection:
            if types:
                wanted = codec.encode(list(types)).decode()
                found = connection.execute(_SQL["read_back_types"], (*_names(stream), start, wanted, limit))
            else:
                found = connection.execute(_SQL["read_back"], (*_names(stream), start, limit))
            return tuple(_recorded(stream, row) for row in found)

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        common.check_limit(limit)
        at = common.position_of(cursor)
        with self._read() as connection:
            page = list(connection.execute(_SQL["feed"], (at, limit)))
        return FeedPage(tuple(_placed(row) for row in page), str(page[-1][3]) if page else cursor)

    def head(self, stream: StreamId) -> Head | None:
        with self._read() as connection:
            _, head = _head(connection, stream)
        return head if head.version else None

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[Head, ...]:
        common.check_limit(limit)
        with self._read() as connection:
            if after is None:
                found = connection.execute(_SQL["heads"], (limit,))
            else:
                found = connection.execute(_SQL["heads_after"], (*_names(after), limit))
            return tuple(Head(_stream(*row[:3]), row[3], row[4]) for row in found)

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        with self._read() as connection:
            for row in connection.execute(_SQL["snapshot"], _names(stream)):
                return Snapshot(*row)
        return None

    def rows(
        self, table: type[R], where: Mapping[str, str | int], *, after: R | None = None, limit: int
    ) -> tuple[R, ...]:
        common.check_limit(limit)
        common.check_columns(table, where)
        terms = [f"{column} = ?" for column in where]
        values: list[str | int] = list(where.values())
        key = ", ".join(table.key)
        if after is not None:
            terms.append(f"({key}) > ({', '.join('?' * len(table.key))})")
            values += common.row_key(after)
        condition = f"WHERE {' AND '.join(terms)} " if terms else ""
        fields = table.__struct_fields__
        statement = f"SELECT {', '.join(fields)} FROM {table.table} {condition}ORDER BY {key} LIMIT ?"
        with self._read() as connection:
            found = connection.execute(statement, (*values, limit))
            return tuple(table(**dict(zip(fields, row, strict=True))) for row in found)

    def projection_version(self) -> int:
        with self._read() as connection:
            version: int = connection.execute(_SQL["projection_version"]).get
            return version

    def totals(self) -> Totals:
        with self._read() as connection:
            streams, events, keys, *_ = connection.execute(_SQL["totals"]).get
        files = (self.path, self.path + "-wal")
        return Totals(streams, events, keys, sum(os.path.getsize(file) for file in files if os.path.exists(file)))

    def check(self) -> tuple[str, ...]:
        with self._read() as connection:
            return tuple(_faults(connection))

    def backup(self, target: str) -> None:
        if os.path.exists(target):
            raise errors.InvalidUrl(url=target, reason="the file exists; a backup never overwrites")
        partial = target + ".partial"
        with self._read() as source, typed_errors(partial):
            copy = apsw.Connection(partial)
            try:
                with copy.backup("main", source, "main") as steps:
                    steps.step()
            finally:
                copy.close()
        _sync(partial)
        os.rename(partial, target)
        _sync(os.path.dirname(os.path.abspath(target)))

    def close(self) -> None:
        self._check_process()
        self._readers.close()
        self._writer.close()

    def _read(self) -> AbstractContextManager[apsw.Connection]:
        self._check_process()
        return self._readers.borrow()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.ForkedHandle(what=self.path, opener=self._pid, user=os.getpid())


def _append(connection: apsw.Connection, append: Append) -> Appended:
    """Everything is checked before anything is written, so a refusal leaves the shared transaction clean."""
    if append.key is not None and (first := _find(connection, append.tenant, append.key)):
        return chain.repeated(append.key, append.order, first)
    places = [_head(connection, write.stream) for write in append.writes]
    for write, (_, head) in zip(append.writes, places, strict=True):
        common.check_version(write, head)
    position = connection.execute(_SQL["last_position"]).get
    recorded: list[Recorded] = []
    added = 0
    links = chain.record(append, [head for _, head in places])
    for write, (stream_no, _), (head, events) in zip(append.writes, places, links, strict=True):
        added += stream_no == 0
        stream_no = _place_head(connection, stream_no, head)
        _add_events(connection, stream_no, position + len(recorded), events)
        _keep(connection, stream_no, write)
        recorded += events
    if append.key is not None:
        connection.execute(_SQL["add_key"], (append.tenant, append.key, position + 1))
    connection.execute(_SQL["count_in"], (len(recorded), added))
    return Appended(tuple(recorded))


def _adopt(
    connection: apsw.Connection,
    events: Sequence[Recorded],
    rows: Mapping[StreamId, Sequence[Row]],
    erase: Mapping[StreamId, Sequence[int]],
) -> None:
    position = connection.execute(_SQL["last_position"]).get
    places: dict[StreamId, tuple[int, Head]] = {}
    added = 0
    for event in events:
        stream_no, head = places.get(event.stream) or _head(connection, event.stream)
        if event.seq != head.version + 1:
            raise errors.VersionConflict(stream=event.stream, expected=event.seq - 1, actual=head.version)
        if wrong := chain.fault(head, event):
            raise errors.StorageCorrupt(what=f"event {event.seq} of {event.stream}", reason=wrong)
        added += stream_no == 0
        head = Head(event.stream, event.seq, event.hash)
        stream_no = _place_head(connection, stream_no, head)
        places[event.stream] = (stream_no, head)
        _add_events(connection, stream_no, position, [event])
        position += 1
        if event.key is not None and event.ordinal == 0:
            connection.execute(_SQL["add_key"], (event.stream.tenant, event.key, position))
    for stream, seqs in erase.items():
        _erase(connection, places[stream][0], seqs)
    for stream, some in rows.items():
        _put_rows(connection, places[stream][0], some)
    connection.execute(_SQL["count_in"], (len(events), added))


def _head(connection: apsw.Connection, stream: StreamId) -> tuple[int, Head]:
    for stream_no, version, digest in connection.execute(_SQL["head"], _names(stream)):
        return stream_no, Head(stream, version, digest)
    return 0, Head(stream, 0, GENESIS)


def _place_head(connection: apsw.Connection, stream_no: int, head: Head) -> int:
    if stream_no:
        connection.execute(_SQL["move_head"], (head.version, head.hash, stream_no))
        return stream_no
    connection.execute(_SQL["add_stream"], (*_names(head.stream), head.version, head.hash))
    return connection.last_insert_rowid()


def _add_events(connection: apsw.Connection, stream_no: int, position: int, events: Sequence[Recorded]) -> None:
    for event in events:
        position += 1
        connection.execute(
            _SQL["add_event"],
            (
                position,
                stream_no,
                event.seq,
                bytes.fromhex(event.command),
                event.ordinal,
                event.type,
                event.version,
                event.time_us,
                event.principal,
                event.cause,
                event.key,
                event.command_digest,
                event.payload_digest,
                event.hash,
                event.salt,
                event.payload,
            ),
        )


def _keep(connection: apsw.Connection, stream_no: int, write: StreamWrite) -> None:
    if write.erase:
        _erase(connection, stream_no, write.erase)
    if write.snapshot is not None:
        snapshot = write.snapshot
        connection.execute(_SQL["put_snapshot"], (stream_no, snapshot.version, snapshot.format, snapshot.state))
    _put_rows(connection, stream_no, write.rows)


def _erase(connection: apsw.Connection, stream_no: int, seqs: Sequence[int]) -> None:
    for seq in seqs:
        connection.execute(_SQL["erase"], (stream_no, seq))
    connection.execute(_SQL["drop_snapshot"], (stream_no,))
    _forget_rows(connection, stream_no)


def _put_rows(connection: apsw.Connection, stream_no: int, rows: Sequence[Row]) -> None:
    for row in rows:
        values = (getattr(row, column) for column in row.__struct_fields__)
        connection.execute(_PUT_ROW[type(row)], (stream_no, *values))


def _forget_rows(connection: apsw.Connection, stream_no: int) -> None:
    for statement in _FORGET_ROWS:
        connection.execute(statement, (stream_no,))


def _find(connection: apsw.Connection, tenant: str, key: str) -> tuple[Recorded, ...]:
    """A command's events stand side by side in the feed: one transaction put them there."""
    found: list[Recorded] = []
    for row in connection.execute(_SQL["find"], (tenant, key, limits.COMMAND_EVENTS)):
        event = _placed(row)
        if found and event.command != found[0].command:
            break
        found.append(event)
    return tuple(found)


def _faults(connection: apsw.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check(10)"):
        if line != "ok":
            yield f"SQLite's own check: {line}"
    for table, row_id, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row_id} of {table} points to nothing in {parent}"
    streams, events, _, events_said, streams_said, last = connection.execute(_SQL["totals"]).get
    if events != events_said or last != events_said:
        yield f"the log has {events} events, the last at position {last}, but {events_said} were written"
    if streams != streams_said:
        yield f"the log has {streams} streams, but {streams_said} were made"
    for (position,) in connection.execute(_SQL["lost_events"]):
        yield f"the event at position {position} belongs to no stream"
    for (position,) in connection.execute(_SQL["disordered_events"]):
        yield f"the event at position {position} stands before the one it follows"
    for tenant, key in connection.execute(_SQL["wrong_keys"]):
        yield f"the key {key!r} of tenant {tenant!r} points to an event that does not carry it"
    for tenant, key in connection.execute(_SQL["missing_keys"]):
        yield f"the key {key!r} of tenant {tenant!r} is in the log but cannot be looked up"


def _names(stream: StreamId) -> tuple[str, str, str]:
    return stream.tenant, stream.kind, codec.encode_stream_key(stream)


def _stream(tenant: str, kind: Any, key: str) -> StreamId:
    return StreamId(tenant, kind, codec.decode_stream_key(key))


def _placed(row: Sequence[Any]) -> Recorded:
    return _recorded(_stream(*row[:3]), row[4:])


def _recorded(stream: StreamId, row: Sequence[Any]) -> Recorded:
    seq, command, *rest = row
    return Recorded(stream, seq, command.hex(), *rest)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
