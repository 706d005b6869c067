"""The event store contract on one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import apsw

from holdfast import chain, codec, errors
from holdfast.model import limits
from holdfast.model.facts import Search
from holdfast.model.log import GENESIS, Append, Appended, FeedPage, Head, Recorded, Snapshot, Totals
from holdfast.model.names import StreamId
from holdfast.model.rows import IN_ORDER_OF_KEY, TABLES, Among, FactRow, Order, Row
from holdfast.storage import common
from holdfast.storage.sql import Migration, row_of, select_rows
from holdfast.storage.sqlite.connect import connect, typed_errors
from holdfast.storage.sqlite.log import SQL, WORDING, Log, find, read_head
from holdfast.storage.sqlite.migrate import migrate, shipped
from holdfast.storage.sqlite.readers import Readers
from holdfast.storage.sqlite.search import search_facts
from holdfast.storage.sqlite.writer import Writer

if TYPE_CHECKING:
    import asyncio

R = TypeVar("R", bound=Row)
T = TypeVar("T")


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
        parent = os.path.dirname(os.path.realpath(self.path))
        if not os.path.isdir(parent):
            raise errors.StorageUnavailable(what=self.path, reason=f"the folder {parent!r} does not exist")
        connection = connect(self.path, synchronous=synchronous, vfs=vfs)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a file that is not ours stays as it is
        try:
            with typed_errors(self.path):
                migrate(connection, self.path, migrations or shipped())
        except BaseException:
            connection.close()
            raise
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._writer = Writer(Log(connection), self.path)
        self._readers = Readers(self.path, synchronous=synchronous, vfs=vfs)

    # Writing

    def append(self, append: Append) -> Appended:
        common.check_append(append)
        appended = self._write(lambda log: log.append(append))
        if any(write.erase for write in append.writes):
            self._clear_log()
        return appended

    def submit(self, append: Append, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Appended]:
        """`append` for an event loop: tasks that wait together share one commit. Not for erasures, which take a while."""
        common.check_append(append)
        self._check_process()
        return self._writer.submit(lambda log: log.append(append), loop)

    def _clear_log(self) -> None:
        """What was erased must not linger in the write-ahead log. A long reader puts that off to the next checkpoint."""
        with self._readers.borrow() as connection, suppress(apsw.BusyError):
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._write(lambda log: log.touch())  # a commit syncs the log's file, and with it that it was cut

    def adopt(
        self,
        events: Sequence[Recorded],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
    ) -> None:
        self._write(lambda log: log.adopt(events, rows, erase, snapshots))
        if erase:
            self._clear_log()

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        self._write(lambda log: log.replace_rows(stream, version, rows))

    def set_projection_version(self, version: int) -> None:
        self._write(lambda log: log.set_projection_version(version))

    def _write(self, job: Callable[[Log], T]) -> T:
        self._check_process()
        return self._writer.run(job)

    # Reading

    def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        with self._read() as connection:
            return find(connection, tenant, key)

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[Recorded, ...]:
        common.check_limit(limit)
        with self._read() as connection:
            found = connection.execute(SQL["read"], (*common.stream_key(stream), common.bounded(after), limit))
            return tuple(common.recorded_of(stream, row) for row in found)

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[Recorded, ...]:
        common.check_limit(limit)
        start = common.bounded(before) if before is not None else limits.WHOLE_NUMBER
        with self._read() as connection:
            if types:
                wanted = codec.encode(list(types)).decode()
                found = connection.execute(SQL["read_back_types"], (*common.stream_key(stream), start, wanted, limit))
            else:
                found = connection.execute(SQL["read_back"], (*common.stream_key(stream), start, limit))
            return tuple(common.recorded_of(stream, row) for row in found)

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        common.check_limit(limit)
        at = common.position_of(cursor)
        with self._read() as connection:
            page = list(connection.execute(SQL["feed"], (at, limit)))
            if not page and at > connection.execute(SQL["log_totals"]).get[0]:
                raise errors.InvalidCursor(cursor=cursor)
            return FeedPage(tuple(common.placed(row) for row in page), str(page[-1][3]) if page else cursor)

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        found: dict[int, tuple[int, ...]] = {}
        with self._read() as connection:
            for chunk in common.seq_chunks(seqs):
                values = (*common.stream_key(stream), codec.encode(chunk).decode())
                found.update((seq, (position,)) for seq, position in connection.execute(SQL["positions"], values))
        return tuple(found.get(seq, ()) for seq in seqs)

    def head(self, stream: StreamId) -> Head | None:
        with self._read() as connection:
            _, head = read_head(connection, stream)
        return head if head.version else None

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[Head, ...]:
        common.check_limit(limit)
        with self._read() as connection:
            if after is None:
                found = connection.execute(SQL["heads"], (limit,))
            else:
                found = connection.execute(SQL["heads_after"], (*common.stream_key(after), limit))
            return tuple(Head(common.stream_of(*row[:3]), row[3], row[4]) for row in found)

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
        order: Order = IN_ORDER_OF_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: Among = MappingProxyType({}),
    ) -> tuple[R, ...]:
        query = select_rows(table, where, after, limit, order, least, most, among, WORDING)
        if query is None:
            return ()
        with self._read() as connection:
            return tuple(row_of(table, row) for row in connection.execute(*query))

    def search(self, search: Search) -> tuple[tuple[FactRow, float], ...]:
        words = common.searched(search)
        with self._read() as connection:
            return search_facts(connection, search, words)

    def projection_version(self) -> int:
        with self._read() as connection:
            version: int = connection.execute(SQL["projection_version"]).get
            return version

    def totals(self) -> Totals:
        with self._read() as connection:
            streams, events, keys, *_ = connection.execute(SQL["totals"]).get
        files = (self.path, self.path + "-wal")
        return Totals(streams, events, keys, sum(os.path.getsize(file) for file in files if os.path.exists(file)))

    def check(self) -> tuple[str, ...]:
        self._check_process()
        with self._readers.fresh() as connection:
            return tuple(_faults(connection))

    def backup(self, target: str) -> None:
        if os.path.exists(target):
            raise errors.InvalidUrl(url=target, reason="the file exists; a backup never overwrites")
        with self._read() as source, typed_errors(target):
            copy = apsw.Connection(target)
            try:
                with copy.backup("main", source, "main") as steps:
                    steps.step()
            finally:
                copy.close()

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


def _faults(connection: apsw.Connection) -> Iterator[str]:
    for (line,) in connection.execute("PRAGMA integrity_check(10)"):
        if line != "ok":
            yield f"SQLite's own check: {line}"
    for table, row_id, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"row {row_id} of {table} points to nothing in {parent}"
    yield from _wrong_totals(connection)
    for table in TABLES:
        of = common.owner_of(table)
        for (name,) in connection.execute(SQL[f"strange_{table.table}"]):
            yield f"a row of {table.table} for the {of} {name!r} is laid at another stream's door"
    for (row_no,) in connection.execute(SQL["strange_fact_words"]):
        yield f"row {row_no} of fact_rows and the words that it is found by do not belong together"
    for (position,) in connection.execute(SQL["lost_events"]):
        yield f"the event at position {position} belongs to no stream"
    for (position,) in connection.execute(SQL["disordered_events"]):
        yield f"the event at position {position} stands before the one it follows"
    for tenant, key in connection.execute(SQL["doubled_keys"]):
        yield f"the key {key!r} of tenant {tenant!r} belongs to two commands"


def _wrong_totals(connection: apsw.Connection) -> Iterator[str]:
    streams, events, _, events_said, streams_said, last, feed_said = connection.execute(SQL["totals"]).get
    if events != events_said or last != events_said:
        yield f"the log has {events} events, the last at position {last}, but {events_said} were written"
    if streams != streams_said:
        yield f"the log has {streams} streams, but {streams_said} were made"
    feed = GENESIS
    for (digest,) in connection.execute(SQL["feed_hashes"]):
        feed = chain.ordered(feed, digest if isinstance(digest, bytes) else b"")  # a torn page has anything in it
    if feed != feed_said:
        yield "the events of the feed are not those that were written, or not in their order"
