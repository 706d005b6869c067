"""An async store for callers who block, so that the contract can be put to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.storage.threaded import ThreadedStore

T = TypeVar("T")


class LoopThread:
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


class BlockingStore:
    """A blocking store again, over an async one: every method is awaited on the loop."""

    def __init__(self, loop: LoopThread, store: ThreadedStore) -> None:
        self.inner = store.blocking
        self._loop = loop
        self._store = store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return lambda *args, **kwargs: self._loop.run(method(*args, **kwargs))
