"""Follow the log live in an event loop: the twin of `watch`, awaited."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from holdfast.errors import StoreClosed
from holdfast.flows import watch
from holdfast.model.log import FeedEvent
from holdfast.runtime.async_base import AsyncDriver
from holdfast.runtime.async_driver import run_uncancelled
from holdfast.runtime.watch import PASSING_ERRORS, WatchProgress
from holdfast.storage.threaded import ThreadedStore


class LoopSignal:
    """An event of a loop that other threads can set."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_due = False

    def set(self) -> None:
        """Wake the task that waits. Threads can call it, also after the loop has ended."""
        if not self._is_due and self._loop is not None:
            self._is_due = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        """Forget what was announced: for a reader, before it reads."""
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self._event.clear()

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait, and return whether the event was set."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._event.wait()
        except TimeoutError:
            return False


class AsyncWatch:
    """Events as they are stored: an async iterator that waits for the next one. `engine.watch()` returns it.

    Leave the loop, close it, or close the engine to end it. `cursor` is where it is: pass it as `after` to continue
    there, also in another process. A step that is cancelled loses nothing: the next one delivers the event."""

    def __init__(self, drive: AsyncDriver, store: ThreadedStore, progress: WatchProgress) -> None:
        self._drive = drive
        self._store = store
        self._progress = progress
        self._signal = LoopSignal()
        self._turn = asyncio.Lock()

    @property
    def cursor(self) -> str:
        """The cursor after the last event that was delivered."""
        return self._progress.delivered

    async def aclose(self) -> None:
        """End the watch. A task that waits for its next event gets StopAsyncIteration."""
        self._close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedEvent:
        timeout_s = self._progress.timeout_s
        last = None if timeout_s is None else time.monotonic() + timeout_s
        async with self._turn:
            if await self._fetch(last) and self._progress.events:
                return self._progress.deliver()
        self._close()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        if self._progress.start is None:
            await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def __del__(self) -> None:
        if hasattr(self, "_turn"):  # otherwise it was never built
            self._progress.close(self._signal.set)

    def _close(self) -> None:
        self._progress.close(self._signal.set)
        self._signal.set()

    async def _start(self) -> None:
        progress = self._progress
        if not progress.is_started:
            progress.begin(await self._drive(watch.start(progress.target, progress.start)))

    async def _fetch(self, last: float | None) -> bool:
        """Wait until there are events. Returns False at the end: closed, or past the time `last`."""
        progress = self._progress
        while not progress.events:
            if progress.is_closed:
                return False
            self._signal.clear()
            try:
                if await self._read_on():
                    continue
            except StoreClosed:
                return False
            except PASSING_ERRORS as error:
                progress.note_failure(error)
            left_s = None if last is None else last - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            if await run_uncancelled(self._subscribe()):
                continue
            pause_s = progress.next_pause()
            if await self._signal.wait(min((each for each in (pause_s, left_s) if each is not None), default=None)):
                progress.wake()
        return True

    async def _read_on(self) -> bool:
        await self._start()
        progress = self._progress
        return progress.add_page(await self._drive(watch.read_page(progress.target, progress.cursor)))

    async def _subscribe(self) -> bool:
        """Subscribe to changes, before the first wait. Returns whether to read once more."""
        progress = self._progress
        if progress.source is None or progress.is_subscribed:
            return False
        try:
            await self._store.call(progress.source.subscribe, self._signal.set, progress.target.stream)
        except (StoreClosed, *PASSING_ERRORS):
            return False  # the next read raises it
        progress.is_subscribed = True
        return True
