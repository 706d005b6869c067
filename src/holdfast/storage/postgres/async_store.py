"""The event store contract on PostgreSQL, for an event loop: the same operations on psycopg's own async connections.

Care of the whole store goes to a few threads and the blocking store, as on every backend.
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
from holdfast.model.facts import Search
from holdfast.model.log import Append, Appended, FeedPage, Head, Recorded, Snapshot
from holdfast.model.names import StreamId
from holdfast.model.rows import IN_ORDER_OF_KEY, Among, FactRow, Order, Row
from holdfast.storage import common
from holdfast.storage.group import Request
from holdfast.storage.postgres import log
from holdfast.storage.postgres.connect import lost, typed, typed_errors
from holdfast.storage.postgres.log import SQL, Alone, Ask, Heads, Operation
from holdfast.storage.postgres.store import PostgresStore, batches, check_breadth, forget, no_connection
from holdfast.storage.threaded import ThreadedStore

R = TypeVar("R", bound=Row)
T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]


LEADERS = 2
"""Batches under way at once: while the server works on one, this process prepares another."""


class AsyncPostgresStore(ThreadedStore):
    """For the event loop it is first used in. Tasks that append together share a commit."""

    def __init__(self, blocking: PostgresStore) -> None:
        super().__init__(blocking)
        self._store = blocking
        self._heads = Heads()
        self._lent: set[Connection] = set()
        self._queue: deque[Request] = deque()
        self._leaders: set[asyncio.Task[None]] = set()
        self._pool = psycopg_pool.AsyncConnectionPool(
            blocking.info,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=blocking.address.pool,
            timeout=limits.POOL_WAIT_MS / 1_000,
            num_workers=1,
            reconnect_timeout=limits.CONNECT_S,
            reconnect_failed=_try_on,
            open=False,
        )

    # Writing

    async def append(self, append: Append) -> Appended:
        common.check_append(append)
        joined: Appended | Alone = Alone()
        if len(append.writes) == 1 and not append.writes[0].erase:
            joined = await self._join(append)
        if isinstance(joined, Appended):
            return joined
        was_lost = joined.lost
        heads, answer = await self._run(lambda again: log.append_alone(append, lost=was_lost or again))
        for head in heads:
            self._heads.put(head)
        self._store.wrote([append])
        return answer

    async def _join(self, append: Append) -> Appended | Alone:
        """Queue up for a batch. Whoever finds too few leaders starts one; it works until nobody waits."""
        if self._closed:
            raise errors.StoreClosed(what=self._store.address.what)
        if len(self._queue) >= limits.QUEUED_COMMANDS:
            raise errors.QueueFull(what=self._store.address.what, limit=limits.QUEUED_COMMANDS)
        future: asyncio.Future[Appended | Alone] = asyncio.get_running_loop().create_future()
        self._queue.append(Request(append, future))
        if len(self._leaders) < LEADERS:
            self._leaders.add(asyncio.create_task(self._lead()))
        return await future

    async def _lead(self) -> None:
        try:
            while self._queue:
                await asyncio.sleep(0)  # tasks that are ready now join this batch
                share = min(-(-len(self._queue) // LEADERS), limits.BATCH_COMMANDS)
                await self._carry_out([self._queue.popleft() for _ in range(share)])
        finally:  # in the step that found nobody waiting: who comes next is led by another
            self._leaders.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _carry_out(self, taken: list[Request]) -> None:
        waiting = [request for request in taken if not (request.future and request.future.done())]
        try:
            for requests in batches(waiting):
                await self._commit(requests)
        finally:
            for request in waiting:
                if not request.finished:  # we were torn out of it
                    request.fail(errors.StorageUnavailable(what=self._store.address.what, reason="interrupted"))
                _resolve(request)

    async def _commit(self, requests: list[Request]) -> None:
        appends = [request.job for request in requests]
        answers: Sequence[Appended | Alone]
        try:
            async with self._borrow() as connection:
                answers = await self._drive(log.append_batch(self._heads, appends), connection)
        except (psycopg.Error, UnicodeError) as error:
            forget(self._heads, appends)
            answers = [Alone(lost(error))] * len(requests)
        except errors.HoldfastError as error:
            for request in requests:
                request.fail(error)
            return
        for request, answer in zip(requests, answers, strict=True):
            request.answer(answer)
            _resolve(request)
        self._store.wrote([each for each, answer in zip(appends, answers, strict=True) if isinstance(answer, Appended)])

    # Reading

    async def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        return await self._run(lambda _: log.find(tenant, key))

    async def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[Recorded, ...]:
        return await self._run(lambda _: log.read(stream, after, limit))

    async def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[Recorded, ...]:
        return await self._run(lambda _: log.read_back(stream, before, limit, types))

    async def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        return await self._run(lambda _: log.feed(cursor, limit))

    async def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        return await self._run(lambda _: log.positions(stream, seqs))

    async def head(self, stream: StreamId) -> Head | None:
        return await self._run(lambda _: log.head(stream))

    async def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[Head, ...]:
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
        order: Order = IN_ORDER_OF_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: Among = MappingProxyType({}),
    ) -> tuple[R, ...]:
        return await self._run(lambda _: log.rows(table, where, after, limit, order, least, most, among))

    async def search(self, search: Search) -> tuple[tuple[FactRow, float], ...]:
        return await self._run(lambda _: log.search(search))

    async def close(self) -> None:
        if not self._closed:
            while self._leaders:
                await asyncio.wait(self._leaders)
            await self._pool.close()
        await super().close()

    # Driving

    async def _run(self, operation: Callable[[bool], Operation[T]]) -> T:
        """Drive an operation, again on another connection if one is lost under it; it is told so."""
        for tries_left in reversed(range(limits.RECONNECT_TRIES)):
            again = tries_left < limits.RECONNECT_TRIES - 1
            try:
                async with self._borrow() as connection:
                    return await self._drive(operation(again), connection)
            except (psycopg.Error, UnicodeError) as error:
                if tries_left and lost(error):
                    await self._pool.check()
                    continue
                if tries_left and not again and isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                    await self._pool.drain()
                    continue
                with typed_errors(self._store.address.what):
                    raise
        raise AssertionError("the last try returns or raises")

    async def _drive(self, operation: Operation[T], connection: Connection) -> T:
        try:
            ask = next(operation)
            while True:
                check_breadth(self._store, ask)
                try:
                    found = await _answer(connection, ask)
                except psycopg.Error as error:
                    ask = operation.throw(error)
                else:
                    ask = operation.send(found)
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
                no_connection, self._store.address, self._store.info, len(self._lent)
            ) from None
        except psycopg_pool.PoolClosed as error:
            raise typed(self._store.address.what, error) from error
        self._lent.add(connection)
        try:
            yield connection
        finally:
            self._lent.discard(connection)
            await self._pool.putconn(connection)


def _resolve(request: Request) -> None:
    future = request.future
    if future is None or future.done():
        return
    if request.error is not None:
        future.set_exception(request.error)
    else:
        future.set_result(request.result)


async def _try_on(pool: psycopg_pool.AsyncConnectionPool[Connection]) -> None:
    if pool.get_stats().get("requests_waiting"):
        await pool.check()


async def _answer(connection: Connection, ask: Ask) -> list[tuple[Any, ...]]:
    if ask.sets_tenant:
        cursor = await connection.execute(ask.statement, ask.values, binary=True)
        return await cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []
    async with connection.pipeline():
        await connection.execute(SQL["act_for_long" if ask.long else "act_for"], (ask.tenant,))
        cursor = await connection.execute(ask.statement, ask.values, binary=True)
    return await cursor.fetchall()
