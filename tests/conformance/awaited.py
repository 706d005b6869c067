"""An async store for callers who block, so that the contract can be put to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from holdfast.model.facts import Search
from holdfast.model.log import Append, Appended, FeedPage, Head, Recorded, Snapshot
from holdfast.model.names import StreamId
from holdfast.model.rows import FactRow
from holdfast.storage.threaded import ThreadedStore

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own, for callers who block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Awaited:
    """A blocking store again, over an async one. What the async port leaves out goes to the store below."""

    def __init__(self, loop: Loop, store: ThreadedStore) -> None:
        self.inner = store.blocking
        self._loop = loop
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, append: Append) -> Appended:
        return self._loop.run(self._store.append(append))

    def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        return self._loop.run(self._store.find(tenant, key))

    def read(self, stream: StreamId, **range_: Any) -> tuple[Recorded, ...]:
        return self._loop.run(self._store.read(stream, **range_))

    def read_back(self, stream: StreamId, **range_: Any) -> tuple[Recorded, ...]:
        return self._loop.run(self._store.read_back(stream, **range_))

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        return self._loop.run(self._store.feed(cursor, limit=limit))

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        return self._loop.run(self._store.positions(stream, seqs))

    def head(self, stream: StreamId) -> Head | None:
        return self._loop.run(self._store.head(stream))

    def heads(self, **range_: Any) -> tuple[Head, ...]:
        return self._loop.run(self._store.heads(**range_))

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        return self._loop.run(self._store.snapshot(stream))

    def rows(self, *query: Any, **range_: Any) -> tuple[Any, ...]:
        return self._loop.run(self._store.rows(*query, **range_))

    def search(self, search: Search) -> tuple[tuple[FactRow, float], ...]:
        return self._loop.run(self._store.search(search))

    def close(self) -> None:
        self._loop.run(self._store.close())
