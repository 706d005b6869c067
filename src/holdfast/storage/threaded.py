"""A blocking event store for an event loop: reads run in a few threads, appends join the queue of the writer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from holdfast.errors import StoreClosed
from holdfast.model import limits
from holdfast.model.log import Append, AppendResult
from holdfast.ports import EventStore
from holdfast.storage.sqlite.store import SqliteStore

P = ParamSpec("P")
T = TypeVar("T")


class ThreadedStore:
    """The methods of a blocking store, awaited. A method that is not defined here runs in a thread."""

    def __init__(self, blocking: EventStore) -> None:
        self.blocking = blocking
        self._closed = False
        self._threads = ThreadPoolExecutor(limits.READERS, thread_name_prefix="holdfast-reader")

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function in a thread."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise StoreClosed(what="the store")
        return await loop.run_in_executor(self._threads, functools.partial(method, *args, **kwargs))

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return functools.partial(self.call, getattr(self.blocking, name))

    async def append(self, append: Append) -> AppendResult:
        has_erasure = any(write.erase for write in append.writes)
        if isinstance(self.blocking, SqliteStore) and not has_erasure:
            return await self.blocking.submit(append, asyncio.get_running_loop())
        return await self.call(self.blocking.append, append)

    def load(self) -> dict[str, int]:
        """How many calls wait for this store, for metrics: `queue` for the writer, `reads` for a thread."""
        return {"queue": getattr(self.blocking, "queued", 0), "reads": self._threads._work_queue.qsize()}

    async def close(self) -> None:
        if not self._closed:
            await self.call(self.blocking.close)
            self._closed = True
            self._threads.shutdown(wait=False)
