"""Threads for blocking calls of a loop.

Laws: there are never more threads than the pool may have. A call that does not end keeps its own thread, and nothing else:
not the loop, and not the end of the process. When no thread is left, a call with a deadline fails at once. Calls of one
series run one after the other, as they were submitted.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
PendingCall: TypeAlias = tuple[Future[Any], Callable[[], Any], str]


class WorkerPool:
    """A bounded number of threads, which start when they are needed."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._size = size
        self._queue: SimpleQueue[PendingCall | None] = SimpleQueue()
        self._series: dict[str, deque[PendingCall]] = {}
        """The series with a call that is queued or runs, and the calls that wait for it."""
        self._series_lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open: set[Future[Any]] = set()
        self._overdue: list[Future[Any]] = []

    @property
    def pending(self) -> int:
        """The calls that have not ended."""
        return len(self._open)

    def submit(self, call: Callable[[], T], *, series: str = "") -> Future[T]:
        """Run a call in a thread. To be used from one thread alone."""
        future: Future[T] = Future()
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        self._line_up((future, call, series))
        if len(self._threads) < min(self._size, self.pending):
            thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return future

    async def run(self, call: Callable[[], T], deadline_s: float) -> T:
        """Return the result of a call. Raises TimeoutError after the deadline; a later result is thrown away."""
        self._overdue = [each for each in self._overdue if not each.done()]
        if len(self._overdue) >= self._size:
            raise TimeoutError
        future = self.submit(call)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), deadline_s)
        except TimeoutError:
            if future.running():
                self._overdue.append(future)
            raise

    async def finish(self, timeout_s: float) -> int:
        """Wait until all calls have ended, and end the threads. Returns the number of calls that did not end in time."""
        calls = [asyncio.wrap_future(each) for each in list(self._open) if each not in self._overdue]
        pending = (await asyncio.wait(calls, timeout=timeout_s))[1] if calls else set()
        for _ in self._threads:
            self._queue.put(None)
        return len(pending)

    def _line_up(self, pending: PendingCall) -> None:
        """Queue a call, or let it wait for the one before it in its series."""
        series = pending[2]
        with self._series_lock:
            if series in self._series:
                self._series[series].append(pending)
                return
            if series:
                self._series[series] = deque()
        self._queue.put(pending)

    def _take_next(self, series: str) -> PendingCall | None:
        """The next call of a series, when one has ended."""
        with self._series_lock:
            if series and self._series[series]:
                return self._series[series].popleft()
            self._series.pop(series, None)
            return None

    def _work(self) -> None:
        while (pending := self._queue.get()) is not None:
            while pending is not None:
                future, call, series = pending
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(call())
                    except BaseException as error:  # noqa: BLE001 - whoever waits for the call gets it
                        future.set_exception(error)
                del future, call
                pending = self._take_next(series)
