"""The event store on one SQLite file."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import apsw

from holdfast import chain, codec, errors
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import GENESIS, Append, AppendResult, FeedPage, Snapshot, StoredEvent, StoreTotals, StreamHead
from holdfast.model.names import StreamId
from holdfast.model.rows import BY_KEY, TABLES, ColumnValues, FactRow, Row, RowOrder
from holdfast.storage import common
from holdfast.storage.changes import ChangeListener
from holdfast.storage.sql import Migration, SqlDialect, row_of, select_rows
from holdfast.storage.sqlite.connections import ReaderPool, connect, translate_errors
from holdfast.storage.sqlite.file_changes import FileChanges
from holdfast.storage.sqlite.index import SqliteIndex
from holdfast.storage.sqlite.log import SQL, SqliteLog, find_by_key, read_head
from holdfast.storage.sqlite.migrate import migrate, shipped_migrations
from holdfast.storage.sqlite.passage_log import SQL as PASSAGE_SQL
from holdfast.storage.sqlite.search import search_facts
from holdfast.storage.sqlite.writer import SqliteWriter

if TYPE_CHECKING:
    import asyncio

R = TypeVar("R", bound=Row)
T = TypeVar("T")

DIALECT = SqlDialect(
    "?", lambda column, values: (f"{column} IN (SELECT value FROM json_each(?))", codec.encode(values).decode())
)


class SqliteStore(SqliteIndex):
    """An event store on one SQLite file. Open it once in each process; threads can share it, forked processes
    cannot."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vfs: str | None = None,
        synchronous: str = "FULL",
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        """Open or create the file. `vfs`, `synchronous` and `migrations` are for tests."""
        self.path = os.fspath(path)
        self._pid = os.getpid()
        parent = os.path.dirname(os.path.realpath(self.path))
        if not os.path.isdir(parent):
            raise errors.StorageUnavailable(what=self.path, reason=f"the folder {parent!r} does not exist")
        connection = connect(self.path, synchronous=synchronous, vfs=vfs)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a file of another program must not be changed
        try:
            with translate_errors(self.path):
                migrate(connection, self.path, migrations or shipped_migrations())
        except BaseException:
            connection.close()
            raise
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._writer = SqliteWriter(SqliteLog(connection), self.path)
        self._readers = ReaderPool(self.path, synchronous=synchronous, vfs=vfs)
        self._changes = FileChanges(
            functools.partial(connect, self.path, synchronous=synchronous, vfs=vfs, reading=True)
        )
        self.recheck_s: float | None = None

    def subscribe(self, listener: ChangeListener, stream: StreamId | None) -> None:
        with self._read(), translate_errors(self.path):  # it raises if the store is closed
            self._changes.add(listener, stream)

    def unsubscribe(self, listener: ChangeListener) -> None:
        self._changes.remove(listener)

    def end_cursor(self, tenant: str | None) -> str:  # noqa: ARG002 - all tenants share the feed
        with self._read() as connection:
            return str(connection.execute(SQL["last_position"]).get or "")

    # Writing

    def append(self, append: Append) -> AppendResult:
        common.check_append(append)
        appended = self._write(lambda log: log.append(append))
        if self._changes.has_listeners:
            self._changes.announce(write.stream for write in append.writes)
        if any(write.erase for write in append.writes):
            self._clear_log()
        return appended

    def submit(self, append: Append, loop: asyncio.AbstractEventLoop) -> asyncio.Future[AppendResult]:
        """Append from an event loop: tasks that wait at the same time share a commit. Not for erasures, which are
        slow."""
        common.check_append(append)
        self._check_process()
        future = self._writer.submit(lambda log: log.append(append), loop)
        if self._changes.has_listeners:
            future.add_done_callback(lambda _: self._changes.announce(write.stream for write in append.writes))
        return future

    @property
    def queued(self) -> int:
        """How many commands wait for the writer."""
        return self._writer.queued

    def _clear_log(self) -> None:
        """Remove erased content from the write-ahead log. A long read delays this to the next checkpoint."""
        with self._readers.borrow() as connection, suppress(apsw.BusyError):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._write(lambda log: log.touch())  # a commit syncs the truncated log

    def adopt(
        self,
        events: Sequence[StoredEvent],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
        bases: Mapping[StreamId, StreamHead] = MappingProxyType({}),
        keep_taken: Mapping[StreamId, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self._write(lambda log: log.adopt(events, rows, erase, snapshots, bases, keep_taken))
        self._changes.announce(event.stream for event in events)
        if erase:
            self._clear_log()

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        self._write(lambda log: log.replace_rows(stream, version, rows))

    def set_projection_version(self, version: int) -> None:
        self._write(lambda log: log.set_projection_version(version))

    def _write(self, job: Callable[[SqliteLog], T]) -> T:
        self._check_process()
        return self._writer.run(job)

    # Reading

    def find(self, tenant: str, key: str) -> tuple[StoredEvent, ...]:
        with self._read() as connection:
            return find_by_key(connection, tenant, key)

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[StoredEvent, ...]:
        common.check_limit(limit)
        with self._read() as connection:
            found = connection.execute(SQL["read"], (*common.stream_key(stream), common.clamp_position(after), limit))
            return tuple(common.recorded_of(stream, row) for row in found)

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[StoredEvent, ...]:
        common.check_limit(limit)
        start = common.clamp_position(before) if before is not None else limits.WHOLE_NUMBER
        with self._read() as connection:
            if types:
                wanted = codec.encode(list(types)).decode()
                found = connection.execute(SQL["read_back_types"], (*common.stream_key(stream), start, wanted, limit))
            else:
                found = connection.execute(SQL["read_back"], (*common.stream_key(stream), start, limit))
            return tuple(common.recorded_of(stream, row) for row in found)

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        common.check_limit(limit)
        at = common.parse_cursor(cursor)
        with self._read() as connection:
            page = list(connection.execute(SQL["feed"], (at, limit)))
            if not page and at > connection.execute(SQL["log_totals"]).get[0]:
                raise errors.InvalidCursor(cursor=cursor)
            cursors = tuple(str(row[3]) for row in page)
            return FeedPage(tuple(map(common.parse_feed_row, page)), cursors[-1] if page else cursor, cursors)

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        found: dict[int, tuple[int, ...]] = {}
        with self._read() as connection:
            for chunk in common.seq_chunks(seqs):
                values = (*common.stream_key(stream), codec.encode(chunk).decode())
                found.update((seq, (position,)) for seq, position in connection.execute(SQL["positions"], values))
        return tuple(found.get(seq, ()) for seq in seqs)

    def head(self, stream: StreamId) -> StreamHead | None:
        with self._read() as connection:
            _, head = read_head(connection, stream)
        return head if head.version else None

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[StreamHead, ...]:
        common.check_limit(limit)
        with self._read() as connection:
            if after is None:
                found = connection.execute(SQL["heads"], (limit,))
            else:
                found = connection.execute(SQL["heads_after"], (*common.stream_key(after), limit))
            return tuple(StreamHead(common.stream_of(*row[:3]), row[3], row[4]) for row in found)

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        with self._read() as connection:
            for row in connection.execute(SQL["snapshot"], common.stream_key(stream)):
                return Snapshot(*row)
        return None

    def rows(
        self,
        table: type[R],
        where: Mapping[str, str | int],
        *,
        after: R | None = None,
        limit: int,
        order: RowOrder = BY_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: ColumnValues = MappingProxyType({}),
    ) -> tuple[R, ...]:
        query = select_rows(table, where, after, limit, order, least, most, among, DIALECT)
        if query is None:
            return ()
        with self._read() as connection:
            return tuple(row_of(table, row) for row in connection.execute(*query))

    def search(self, search: FactQuery) -> tuple[tuple[FactRow, float], ...]:
        words = common.check_search(search)
        with self._read() as connection:
            return search_facts(connection, search, words)

    def projection_version(self) -> int:
        with self._read() as connection:
            version: int = connection.execute(SQL["projection_version"]).get
            return version

    def totals(self) -> StoreTotals:
        with self._read() as connection:
            streams, events, keys, *_ = connection.execute(SQL["totals"]).get
            entries, entry_bytes = connection.execute(SQL["entry_totals"]).get
        size = sum(os.path.getsize(file) for file in (self.path, self.path + "-wal") if os.path.exists(file))
        return StoreTotals(streams, events, keys, size, entries, entry_bytes)

    def check(self) -> tuple[str, ...]:
        self._check_process()
        faults: list[str] = []
        with self._readers.borrow_fresh() as connection, connection:  # one moment of the log, while others write
            faults += _find_faults(connection)
        return tuple(faults)

    def backup(self, target: str) -> None:
        if os.path.exists(target):
            raise errors.InvalidUrl(url=target, reason="the file exists, and a backup never overwrites a file")
        with self._read() as source, translate_errors(target):
            copy = apsw.Connection(target)
            try:
                with copy.backup("main", source, "main") as steps:
                    steps.step()
            finally:
                copy.close()

    def close(self) -> None:
        self._check_process()
        self._readers.close()
        self._changes.close()
        self._writer.close()

    def _read(self) -> AbstractContextManager[apsw.Connection]:
        self._check_process()
        return self._readers.borrow()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.ForkedHandle(what=self.path, opener=self._pid, user=os.getpid())


def _find_faults(connection: apsw.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check(10)"):
        if line != "ok":
            yield f"integrity check of SQLite: {line}"
    for table, row_id, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row_id} of {table} points to nothing in {parent}"
    yield from _find_wrong_totals(connection)
    for table in TABLES:
        of = common.owner_of(table)
        for (name,) in connection.execute(SQL[f"strange_{table.table}"]):
            yield f"a row of {table.table} for the {of} {name!r} is stored with another stream"
    for (row_no,) in connection.execute(SQL["strange_fact_words"]):
        yield f"row {row_no} of fact_rows does not match its words in the index"
    for (fault,) in connection.execute(PASSAGE_SQL["strange_passages"]):
        yield str(fault)
    for (position,) in connection.execute(SQL["lost_events"]):
        yield f"the event at position {position} belongs to no stream"
    for (position,) in connection.execute(SQL["disordered_events"]):
        yield f"the event at position {position} is before the event that it follows"
    for tenant, key in connection.execute(SQL["doubled_keys"]):
        yield f"the key {key!r} of tenant {tenant!r} belongs to two commands"


def _find_wrong_totals(connection: apsw.Connection) -> Iterator[str]:
    streams, events, _, events_written, streams_written, last, feed_written = connection.execute(SQL["totals"]).get
    if events != events_written or last != events_written:
        yield f"the log has {events} events, the last at position {last}, but {events_written} were written"
    if streams != streams_written:
        yield f"the log has {streams} streams, but {streams_written} were written"
    feed = GENESIS
    for (digest,) in connection.execute(SQL["feed_hashes"]):
        feed = chain.extend_feed_digest(
            feed, digest if isinstance(digest, bytes) else b""
        )  # a torn page can have any value
    if feed != feed_written:
        yield "the events of the feed are not those that were written, or in another order"
