"""An event store that blocks, made awaitable: reads go to a few threads, appends join the writer's queue."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from holdfast.errors import StoreClosed
from holdfast.model import limits
from holdfast.model.facts import Search
from holdfast.model.log import Append, Appended, FeedPage, Head, Recorded, Snapshot
from holdfast.model.names import StreamId
from holdfast.model.rows import IN_ORDER_OF_KEY, Among, FactRow, Order, Row
from holdfast.ports import EventStore
from holdfast.storage.sqlite.store import SqliteStore

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=Row)


class ThreadedStore:
    """The `AsyncEventStore` over any blocking one."""

    def __init__(self, blocking: EventStore) -> None:
        self.blocking = blocking
        self._closed = False
        self._threads = ThreadPoolExecutor(limits.READERS, thread_name_prefix="holdfast-reader")

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        if self._closed:
            raise StoreClosed(what="the store")
        return await loop.run_in_executor(self._threads, functools.partial(method, *args, **kwargs))

    async def append(self, append: Append) -> Appended:
        erasing = any(write.erase for write in append.writes)
        if isinstance(self.blocking, SqliteStore) and not erasing:
            return await self.blocking.submit(append, asyncio.get_running_loop())
        return await self.call(self.blocking.append, append)

    async def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        return await self.call(self.blocking.find, tenant, key)

    async def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[Recorded, ...]:
        return await self.call(self.blocking.read, stream, after=after, limit=limit)

    async def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[Recorded, ...]:
        return await self.call(self.blocking.read_back, stream, before=before, limit=limit, types=types)

    async def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        return await self.call(self.blocking.feed, cursor, limit=limit)

    async def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        return await self.call(self.blocking.positions, stream, seqs)

    async def head(self, stream: StreamId) -> Head | None:
        return await self.call(self.blocking.head, stream)

    async def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[Head, ...]:
        return await self.call(self.blocking.heads, after=after, limit=limit)

    async def snapshot(self, stream: StreamId) -> Snapshot | None:
        return await self.call(self.blocking.snapshot, stream)

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
        call = functools.partial(
            self.blocking.rows, after=after, limit=limit, order=order, least=least, most=most, among=among
        )
        return await self.call(call, table, where)

    async def search(self, search: Search) -> tuple[tuple[FactRow, float], ...]:
        return await self.call(self.blocking.search, search)

    async def close(self) -> None:
        if not self._closed:
            await self.call(self.blocking.close)
            self._closed = True
            self._threads.shutdown(wait=False)
