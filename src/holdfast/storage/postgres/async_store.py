"""The event store on PostgreSQL for an event loop: the same operations on async connections of psycopg.

Maintenance of the whole store runs in threads with the blocking store, as for every backend.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast

import psycopg
import psycopg_pool

from holdfast import errors
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import Append, AppendResult, FeedPage, Snapshot, StoredEvent, StreamHead
from holdfast.model.names import StreamId
from holdfast.model.rows import BY_KEY, ColumnValues, FactRow, Row, RowOrder
from holdfast.storage import common
from holdfast.storage.group import QueuedCommand
from holdfast.storage.postgres import log
from holdfast.storage.postgres.connect import is_connection_lost, translate_error, translate_errors
from holdfast.storage.postgres.index import AsyncPostgresIndex
from holdfast.storage.postgres.log import SQL, BatchRefusal, HeadCache, Operation, Query
from holdfast.storage.postgres.store import (
    PostgresStore,
    check_tenant_access,
    connection_error,
    forget_heads,
    split_batches,
)
from holdfast.storage.threaded import ThreadedStore

R = TypeVar("R", bound=Row)
T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]


LEADERS = 2
"""Batches in progress at the same time: while the server works on one, this process prepares another."""


class AsyncPostgresStore(AsyncPostgresIndex, ThreadedStore):
    """An event store for the event loop that first uses it. Tasks that append at the same time share a commit."""

    def __init__(self, blocking: PostgresStore) -> None:
        super().__init__(blocking)
        self._store = blocking
        self._heads = HeadCache()
        self._borrowed: set[Connection] = set()
        self._queue: deque[QueuedCommand] = deque()
        self._leaders: set[asyncio.Task[None]] = set()
        self._pool = psycopg_pool.AsyncConnectionPool(
            blocking.info,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=blocking.address.pool,
            timeout=limits.POOL_WAIT_MS / 1_000,
            num_workers=1,
            reconnect_timeout=limits.CONNECT_S,
            reconnect_failed=_check_waiting_pool,
            open=False,
        )

    # Writing

    async def append(self, append: Append) -> AppendResult:
        common.check_append(append)
        joined: AppendResult | BatchRefusal = BatchRefusal()
        if len(append.writes) == 1 and not append.writes[0].erase:
            joined = await self._enqueue(append)
        if isinstance(joined, AppendResult):
            return joined
        was_lost = joined.lost
        heads, answer = await self._run(lambda again: log.append_alone(append, lost=was_lost or again))
        for head in heads:
            self._heads.put(head)
        self._store.announce([append])
        return answer

    async def _enqueue(self, append: Append) -> AppendResult | BatchRefusal:
        """Wait for a batch. If there are too few leaders, start one; it runs until the queue is empty."""
        if self._closed:
            raise errors.StoreClosed(what=self._store.address.what)
        if len(self._queue) >= limits.QUEUED_COMMANDS:
            raise errors.QueueFull(what=self._store.address.what, limit=limits.QUEUED_COMMANDS)
        future: asyncio.Future[AppendResult | BatchRefusal] = asyncio.get_running_loop().create_future()
        self._queue.append(QueuedCommand(append, future))
        if len(self._leaders) < LEADERS:
            self._leaders.add(asyncio.create_task(self._lead()))
        return await future

    async def _lead(self) -> None:
        try:
            while self._queue:
                await asyncio.sleep(0)  # tasks that are ready now join this batch
                share = min(-(-len(self._queue) // LEADERS), limits.BATCH_COMMANDS)
                await self._commit_batch([self._queue.popleft() for _ in range(share)])
        finally:  # without an await after the last check of the queue: the next command starts a new leader
            self._leaders.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _commit_batch(self, batch: list[QueuedCommand]) -> None:
        waiting = [request for request in batch if not (request.future and request.future.done())]
        try:
            for requests in split_batches(waiting):
                await self._commit(requests)
        finally:
            for request in waiting:
                if not request.is_finished:  # this task was cancelled
                    request.fail(errors.StorageUnavailable(what=self._store.address.what, reason="interrupted"))
                _resolve_future(request)

    async def _commit(self, requests: list[QueuedCommand]) -> None:
        appends = [request.job for request in requests]
        answers: Sequence[AppendResult | BatchRefusal]
        try:
            async with self._borrow() as connection:
                answers = await self._drive(log.append_batch(self._heads, appends), connection)
        except (psycopg.Error, UnicodeError) as error:
            forget_heads(self._heads, appends)
            answers = [BatchRefusal(is_connection_lost(error))] * len(requests)
        except errors.HoldfastError as error:
            for request in requests:
                request.fail(error)
            return
        for request, answer in zip(requests, answers, strict=True):
            request.answer(answer)
            _resolve_future(request)
        self._store.announce(
            [append for append, answer in zip(appends, answers, strict=True) if isinstance(answer, AppendResult)]
        )

    # Reading

    async def find(self, tenant: str, key: str) -> tuple[StoredEvent, ...]:
        return await self._run(lambda _: log.find(tenant, key))

    async def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[StoredEvent, ...]:
        return await self._run(lambda _: log.read(stream, after, limit))

    async def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[StoredEvent, ...]:
        return await self._run(lambda _: log.read_back(stream, before, limit, types))

    async def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        return await self._run(lambda _: log.feed(cursor, limit))

    async def tenant_feed(self, tenant: str, cursor: str = "", *, limit: int) -> FeedPage:
        return await self._run(lambda _: log.tenant_feed(tenant, cursor, limit))

    async def end_cursor(self, tenant: str | None) -> str:
        return await self._run(lambda _: log.end_cursor(tenant))

    async def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        return await self._run(lambda _: log.positions(stream, seqs))

    async def head(self, stream: StreamId) -> StreamHead | None:
        return await self._run(lambda _: log.head(stream))

    async def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[StreamHead, ...]:
        return await self._run(lambda _: log.heads(after, limit))

    async def snapshot(self, stream: StreamId) -> Snapshot | None:
        return await self._run(lambda _: log.snapshot(stream))

    async def rows(
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
        return await self._run(lambda _: log.rows(table, where, after, limit, order, least, most, among))

    async def search(self, search: FactQuery) -> tuple[tuple[FactRow, float], ...]:
        return await self._run(lambda _: log.search(search))

    def load(self) -> dict[str, int]:
        """The same, and `connections`, `borrowed` of them, and `borrowers` that wait for one."""
        stats = self._pool.get_stats()
        return {
            **super().load(),
            "queue": len(self._queue),
            "connections": stats.get("pool_size", 0),
            "borrowed": len(self._borrowed),
            "borrowers": stats.get("requests_waiting", 0),
        }

    async def close(self) -> None:
        if not self._closed:
            while self._leaders:
                await asyncio.wait(self._leaders)
            await self._pool.close()
        await super().close()

    # Driving

    async def _run(self, operation: Callable[[bool], Operation[T]]) -> T:
        """Run an operation. If the connection is lost, it runs again on another one, and `again` is True."""
        for tries_left in reversed(range(limits.RECONNECT_TRIES)):
            again = tries_left < limits.RECONNECT_TRIES - 1
            try:
                async with self._borrow() as connection:
                    return await self._drive(operation(again), connection)
            except (psycopg.Error, UnicodeError) as error:
                if tries_left and is_connection_lost(error):
                    await self._pool.check()
                    continue
                if tries_left and not again and isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                    await self._pool.drain()
                    continue
                with translate_errors(self._store.address.what):
                    raise
        raise AssertionError("the last try returns or raises")

    async def _drive(self, operation: Operation[T], connection: Connection) -> T:
        try:
            query = next(operation)
            while True:
                check_tenant_access(self._store, query)
                try:
                    rows = await _run_query(connection, query)
                except psycopg.Error as error:
                    query = operation.throw(error)
                else:
                    query = operation.send(rows)
        except StopIteration as stop:
            result: T = stop.value
            return result

    @asynccontextmanager
    async def _borrow(self) -> AsyncIterator[Connection]:
        if self._closed:
            raise errors.StoreClosed(what=self._store.address.what)
        if self._pool.closed:
            await self._pool.open()
        try:
            connection = await self._pool.getconn()
        except psycopg_pool.PoolTimeout:
            raise await asyncio.to_thread(
                connection_error, self._store.address, self._store.info, len(self._borrowed)
            ) from None
        except psycopg_pool.PoolClosed as error:
            raise translate_error(self._store.address.what, error) from error
        self._borrowed.add(connection)
        try:
            yield connection
        finally:
            self._borrowed.discard(connection)
            await self._pool.putconn(connection)


def _resolve_future(request: QueuedCommand) -> None:
    future = request.future
    if future is None or future.done():
        return
    if request.error is not None:
        future.set_exception(request.error)
    else:
        future.set_result(request.result)


async def _check_waiting_pool(pool: psycopg_pool.AsyncConnectionPool[Connection]) -> None:
    if pool.get_stats().get("requests_waiting"):
        await pool.check()


async def _run_query(connection: Connection, query: Query) -> list[tuple[Any, ...]]:
    if query.sets_tenant:
        cursor = await connection.execute(query.statement, query.values, binary=True)
        return await cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []
    async with connection.pipeline():
        await connection.execute(SQL["act_for_long" if query.is_long else "act_for"], (query.tenant,))
        cursor = await connection.execute(query.statement, query.values, binary=True)
    return await cursor.fetchall()
