"""The event store on PostgreSQL, blocking."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import psycopg
import psycopg_pool

from holdfast import errors
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import (
    Append,
    AppendResult,
    FeedPage,
    Snapshot,
    StoredEvent,
    StoreTotals,
    StreamHead,
    StreamWrite,
)
from holdfast.model.names import StreamId
from holdfast.model.rows import BY_KEY, ColumnValues, FactRow, Row, RowOrder
from holdfast.storage import common
from holdfast.storage.changes import ChangeListener, ChangeListeners
from holdfast.storage.group import CommitGroup, QueuedCommand
from holdfast.storage.postgres import log
from holdfast.storage.postgres.connect import (
    PostgresAddress,
    is_connection_lost,
    parse_address,
    translate_error,
    translate_errors,
)
from holdfast.storage.postgres.hints import StreamHints, token_of
from holdfast.storage.postgres.index import PostgresIndex
from holdfast.storage.postgres.log import SQL, BatchRefusal, HeadCache, Operation, Query
from holdfast.storage.postgres.migrate import prepare_schema, shipped_migrations
from holdfast.storage.sql import Migration

R = TypeVar("R", bound=Row)
T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # its errors reach callers as exceptions


class PostgresStore(PostgresIndex):
    """An event store on PostgreSQL. Threads can share it; a forked process must open its own."""

    def __init__(self, url: str, *, migrations: Sequence[Migration] | None = None) -> None:
        """Connect, and upgrade the schema. `migrations` is for tests."""
        self.url = url
        self.address = parse_address(url)
        self.role_status = prepare_schema(self.address, migrations or shipped_migrations())
        self.info = self.address.info if self.role_status.is_durable else _with_synchronous_commit(self.address.info)
        self._pid = os.getpid()
        self._closed = False
        self._heads = HeadCache()
        self._borrowed: set[Connection] = set()
        self._group = CommitGroup(self.address.what, self._commit)
        self._hints: StreamHints | None = None
        self._changes = ChangeListeners()
        self.recheck_s: float | None = limits.WATCH_RECHECK_MS / 1_000
        self._pool = psycopg_pool.ConnectionPool(
            self.info,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=self.address.pool,
            timeout=limits.POOL_WAIT_MS / 1_000,
            num_workers=1,
            reconnect_timeout=limits.CONNECT_S,  # then the next call tries again, without growing pauses
            reconnect_failed=_check_waiting_pool,
            open=True,
        )

    def listen(self, on_hint: Callable[[frozenset[str] | None], None]) -> None:
        """Call `on_hint` with the tokens of streams that other processes wrote to, or None for all. A hint may come
        late or never."""

        def hear(tokens: frozenset[str] | None) -> None:
            on_hint(tokens)
            if tokens is None:
                self._changes.announce_all()
            else:
                self._changes.announce_matching(lambda stream: token_of(stream) in tokens)

        self._hints = StreamHints(self.info, self.address.schema, hear)

    def subscribe(self, listener: ChangeListener, stream: StreamId | None) -> None:
        self._check_open()
        self._changes.add(listener, stream)

    def unsubscribe(self, listener: ChangeListener) -> None:
        self._changes.remove(listener)

    def end_cursor(self, tenant: str | None) -> str:
        return self.run(lambda _: log.end_cursor(tenant))

    # Writing

    def append(self, append: Append) -> AppendResult:
        common.check_append(append)
        self._check_open()
        answer: AppendResult | BatchRefusal = BatchRefusal()
        if len(append.writes) == 1 and not append.writes[0].erase:
            answer = self._group.run(append)
        if isinstance(answer, BatchRefusal):
            answer = self._append_alone(append, answer.lost)
        return answer

    def _commit(self, batch: list[QueuedCommand]) -> None:
        for requests in split_batches(batch):
            appends = [request.job for request in requests]
            for request in requests:
                request.is_committing = True
            try:
                with self._borrow() as connection:
                    answers = self._drive(log.append_batch(self._heads, appends), connection)
            except (psycopg.Error, UnicodeError) as error:
                forget_heads(self._heads, appends)
                answers = [BatchRefusal(is_connection_lost(error))] * len(requests)
            except errors.HoldfastError as error:
                for request in requests:
                    request.fail(error)
                continue
            for request, answer in zip(requests, answers, strict=True):
                request.answer(answer)
            self.announce(
                append for append, answer in zip(appends, answers, strict=True) if isinstance(answer, AppendResult)
            )

    def _append_alone(self, append: Append, was_lost: bool) -> AppendResult:
        heads, answer = self.run(lambda again: log.append_alone(append, lost=was_lost or again))
        for head in heads:
            self._heads.put(head)
        self.announce([append])
        return answer

    def announce(self, appends: Iterator[Append] | Sequence[Append]) -> None:
        """Tell this process and others about these appends."""
        self._announce_streams([write.stream for append in appends for write in append.writes])

    def _announce_streams(self, streams: Sequence[StreamId]) -> None:
        self._changes.announce(streams)
        hints = self._hints
        if hints is not None:
            hints.announce(streams)

    def adopt(
        self,
        events: Sequence[StoredEvent],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
        bases: Mapping[StreamId, StreamHead] = MappingProxyType({}),
        keep_taken: Mapping[StreamId, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        self.run(lambda _: log.adopt(events, rows, erase, snapshots, bases, keep_taken), retry=False)
        self._announce_streams(list({event.stream for event in events}))

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        self.run(lambda _: log.replace_rows(stream, version, rows))

    def set_projection_version(self, version: int) -> None:
        self.run(lambda _: log.set_projection_version(version))

    # Reading

    def find(self, tenant: str, key: str) -> tuple[StoredEvent, ...]:
        return self.run(lambda _: log.find(tenant, key))

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[StoredEvent, ...]:
        return self.run(lambda _: log.read(stream, after, limit))

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[StoredEvent, ...]:
        return self.run(lambda _: log.read_back(stream, before, limit, types))

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        return self.run(lambda _: log.feed(cursor, limit))

    def tenant_feed(self, tenant: str, cursor: str = "", *, limit: int) -> FeedPage:
        return self.run(lambda _: log.tenant_feed(tenant, cursor, limit))

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        return self.run(lambda _: log.positions(stream, seqs))

    def head(self, stream: StreamId) -> StreamHead | None:
        return self.run(lambda _: log.head(stream))

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[StreamHead, ...]:
        return self.run(lambda _: log.heads(after, limit))

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        return self.run(lambda _: log.snapshot(stream))

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
        return self.run(lambda _: log.rows(table, where, after, limit, order, least, most, among))

    def search(self, search: FactQuery) -> tuple[tuple[FactRow, float], ...]:
        return self.run(lambda _: log.search(search))

    def projection_version(self) -> int:
        return self.run(lambda _: log.projection_version())

    def check(self) -> tuple[str, ...]:
        return self.run(lambda _: log.check())

    def backup(self, target: str) -> None:
        raise errors.InvalidUrl(
            url=target,
            reason="back up PostgreSQL with pg_dump, or copy it to a file with holdfast copy",
        )

    def totals(self) -> StoreTotals:
        return self.run(lambda _: log.totals())

    def close(self) -> None:
        self._check_process()
        self._closed = True
        self._changes.announce_all()
        hints, self._hints = self._hints, None
        if hints is not None:
            hints.close()
        self._group.close(self._pool.close)

    # Driving

    def run(self, operation: Callable[[bool], Operation[T]], *, retry: bool = True) -> T:
        """Run an operation. If the connection is lost, it runs again on another one, and `again` is True."""
        self._check_open()
        for tries_left in reversed(range(limits.RECONNECT_TRIES if retry else 1)):
            again = tries_left < limits.RECONNECT_TRIES - 1
            try:
                with self._borrow() as connection:
                    return self._drive(operation(again), connection)
            except (psycopg.Error, UnicodeError) as error:
                if tries_left and is_connection_lost(error):
                    self._pool.check()
                    continue
                if tries_left and not again and isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                    self._pool.drain()  # new connections may reach a server that can be written
                    continue
                with translate_errors(self.address.what):
                    raise
        raise AssertionError("the last try returns or raises")

    def _drive(self, operation: Operation[T], connection: Connection) -> T:
        try:
            query = next(operation)
            while True:
                check_tenant_access(self, query)
                try:
                    rows = _run_query(connection, query)
                except psycopg.Error as error:
                    query = operation.throw(error)
                else:
                    query = operation.send(rows)
        except StopIteration as stop:
            result: T = stop.value
            return result

    @contextmanager
    def _borrow(self) -> Iterator[Connection]:
        try:
            connection = self._pool.getconn()
        except psycopg_pool.PoolTimeout:
            raise connection_error(self.address, self.info, len(self._borrowed)) from None
        except psycopg_pool.PoolClosed as error:
            raise translate_error(self.address.what, error) from error
        self._borrowed.add(connection)
        try:
            yield connection
        finally:
            self._borrowed.discard(connection)
            self._pool.putconn(connection)

    def _check_open(self) -> None:
        self._check_process()
        if self._closed:
            raise errors.StoreClosed(what=self.address.what)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.ForkedHandle(what=self.address.what, opener=self._pid, user=os.getpid())


def _check_waiting_pool(pool: psycopg_pool.ConnectionPool[Connection]) -> None:
    """Try again for callers that wait: the pool has given up."""
    if pool.get_stats().get("requests_waiting"):
        pool.check()


def _run_query(connection: Connection, query: Query) -> list[tuple[Any, ...]]:
    """Run a query in one round trip, and so in one transaction, which ends with the pipeline."""
    if query.sets_tenant:
        cursor = connection.execute(query.statement, query.values, binary=True)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []
    with connection.pipeline():
        connection.execute(SQL["act_for_long" if query.is_long else "act_for"], (query.tenant,))
        cursor = connection.execute(query.statement, query.values, binary=True)
    return cursor.fetchall()


def check_tenant_access(store: PostgresStore, query: Query) -> None:
    """Refuse a query over all tenants for a role that does not see them all: it would find nothing."""
    if query.tenant is None and not query.sets_tenant and not store.role_status.is_maintainer:
        raise errors.RoleTooNarrow(what=store.address.what, role=store.role_status.role)


def split_batches(batch: Sequence[QueuedCommand]) -> Iterator[list[QueuedCommand]]:
    """Yield batches of commands, each of one tenant and not too large."""
    tenants: dict[str, list[QueuedCommand]] = {}
    for request in batch:
        tenants.setdefault(request.job.tenant, []).append(request)
    for requests in tenants.values():
        part: list[QueuedCommand] = []
        size = 0
        for request in requests:
            weight = sum(map(_byte_size, request.job.writes))
            if part and size + weight > limits.BATCH_BYTES:
                yield part
                part, size = [], 0
            part.append(request)
            size += weight
        yield part


def _byte_size(write: StreamWrite) -> int:
    """Estimate the bytes that a write sends to the server."""
    payloads = sum(len(event.payload) for event in write.events)
    states = sum(len(getattr(row, "state", "")) for row in write.rows)
    return payloads + states + (len(write.snapshot.state) if write.snapshot else 0)


def forget_heads(heads: HeadCache, appends: Sequence[Append]) -> None:
    """Drop the heads of the streams of these appends."""
    for append in appends:
        for write in append.writes:
            heads.drop(write.stream)


def connection_error(address: PostgresAddress, info: str, lent: int) -> errors.HoldfastError:
    """Return why the pool had no connection: all are in use, or the server cannot be reached."""
    try:
        psycopg.connect(info).close()
    except psycopg.Error as error:
        return translate_error(address.what, error)
    if lent < address.pool:
        return errors.StorageUnavailable(what=address.what, reason="there was no connection until a moment ago")
    return errors.PoolExhausted(what=address.what, limit=address.pool, waited_ms=limits.POOL_WAIT_MS)


def _with_synchronous_commit(info: str) -> str:
    """Let commits wait for the disk, which they do not by the settings of the server."""
    options = psycopg.conninfo.conninfo_to_dict(info)["options"]
    return psycopg.conninfo.make_conninfo(info, options=f"{options} -c synchronous_commit=on")
