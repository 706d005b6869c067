"""Follow the log of a server: `engine.watch()` over server-sent events, blocking and awaited.

Laws: a watch delivers each event once, in order, and misses none: when its connection is lost, it continues after the last
event that it has. It reads ahead by a bounded number of events. What reads does not hold on to the watch, so a watch that
nobody uses any more ends.
"""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self

import msgspec

from holdfast.api.operations import SESSION_PATH
from holdfast.api.requests import CURSOR_HEADER, quote_name, unquote_name
from holdfast.client.calls import ledger_place, scope_query
from holdfast.client.exchanges import RemoteRequest
from holdfast.errors import HoldfastError, ServerBusy, ServerFailed, ServerUnreachable, StoreClosed
from holdfast.flows.context import EngineContext
from holdfast.flows.watch import WatchTarget
from holdfast.model import limits
from holdfast.model.log import FeedEvent
from holdfast.model.names import LedgerId
from holdfast.runtime.async_watch import AsyncWatch
from holdfast.runtime.watch import PASSING_ERRORS, Watch, WatchProgress, build_target

NOW = "now"
"""The cursor of the next event."""
PAUSE_S = 0.2
"""The pause before a lost connection is made again."""
_PASSING = (ServerUnreachable, ServerBusy, ServerFailed, *PASSING_ERRORS)
"""Errors that may be over soon: the server is started again."""
EVENT_BYTES = 512 << 20
"""The most bytes of one event: the largest payload, as base64 and as JSON."""
_SILENCE_S = 60.0
"""A connection without any byte for so long is lost: a server sends a comment every 15 seconds."""


class FeedAddress(NamedTuple):
    """The feed that a watch follows."""

    path: str
    query: tuple[tuple[str, str], ...]
    target: WatchTarget


def find_feed(context: EngineContext, session: Any, actor: Any, thread: Any, ledger: LedgerId | None) -> FeedAddress:
    """Check what to watch, and find its feed."""
    target = build_target(context, None, session, actor, thread, ledger)
    if ledger is not None:
        path, query = ledger_place(ledger)
        return FeedAddress(f"{path}/feed", query, target)
    if target.scope is not None:
        path = SESSION_PATH.replace("{session}", quote_name(target.scope.session))
        return FeedAddress(f"{path}/feed", scope_query(target.scope), target)
    return FeedAddress("/feed", (), target)


def find_whole_feed() -> FeedAddress:
    """The feed of all tenants."""
    return FeedAddress("/admin/events", (), WatchTarget())


class UnreadableFeed(Exception):
    """The server sends what is no event: to ask again would bring the same."""

    def build_error(self) -> HoldfastError:
        reason = f"its feed cannot be read: {self}. It may be of another version of Holdfast"
        return ServerFailed(server="of Holdfast", reason=reason)


class EventLines:
    """Reads server-sent events from bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data = b""

    def add(self, chunk: bytes) -> Iterator[FeedEvent]:
        self._rest += chunk
        if b"\n" not in chunk:
            if len(self._rest) > EVENT_BYTES:
                raise UnreadableFeed(f"an event has more than {EVENT_BYTES} bytes")
            return
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            if line.startswith(b"data: "):
                self._data = line[6:]
            elif not line and self._data:
                data, self._data = self._data, b""
                yield _decode_event(data)


def _decode_event(data: bytes) -> FeedEvent:
    try:
        return msgspec.json.decode(data, type=FeedEvent)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UnreadableFeed(str(error)) from error


class FeedProgress:
    """How far the reader of a feed is, and when it gives up."""

    def __init__(self, feed: FeedAddress, start: str | None, *, is_finite: bool) -> None:
        self._feed = feed
        self.cursor = NOW if start is None else start
        self.is_finite = is_finite
        """The feed ends with what is stored now."""
        self.is_closed = False
        self._failed_at: float | None = None

    @property
    def request(self) -> RemoteRequest:
        query = (*self._feed.query, ("after", self.cursor), *((("timeout_s", "0"),) if self.is_finite else ()))
        return RemoteRequest("GET", self._feed.path, query, (("Accept-Encoding", "identity"),), is_safe=True)

    def note_answer(self, headers: Mapping[str, str]) -> None:
        """The feed begins: note where."""
        if not headers.get("content-type", "").startswith("text/event-stream"):
            raise UnreadableFeed("the answer is something else")
        self._failed_at = None
        if self.cursor == NOW:
            self.cursor = unquote_name(headers.get(CURSOR_HEADER, NOW))

    def note_failure(self, error: HoldfastError) -> HoldfastError | None:
        """The error to raise; None to try again."""
        now = time.monotonic()
        if self._failed_at is None:
            self._failed_at = now
        is_passing = isinstance(error, _PASSING) and now - self._failed_at <= limits.WATCH_RETRY_MS / 1_000
        return None if is_passing else error


# Blocking


class BlockingReader:
    """Reads a feed in a thread, a few events ahead."""

    def __init__(self, pool: Any, progress: FeedProgress) -> None:
        self._pool = pool
        self._progress = progress
        self.events: queue.Queue[FeedEvent | HoldfastError | None] = queue.Queue(limits.WATCH_EVENTS)
        """None at the end."""
        self.is_connected = threading.Event()
        self._is_over = threading.Event()
        self._socket: socket.socket | None = None
        threading.Thread(target=self._run, name="holdfast-watch", daemon=True).start()

    def close(self) -> None:
        self._is_over.set()
        open_socket = self._socket
        if open_socket is not None:
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it

    def _put(self, item: FeedEvent | HoldfastError | None) -> None:
        while not self._is_over.is_set():
            with suppress(queue.Full):
                self.events.put(item, timeout=PAUSE_S)
                return

    def _run(self) -> None:
        progress, end = self._progress, None
        while not self._is_over.is_set():
            try:
                self._read()
                if progress.is_finite:
                    break
            except StoreClosed:
                break
            except UnreadableFeed as error:
                end = error.build_error()
                break
            except HoldfastError as error:
                end = progress.note_failure(error)
                if end is not None:
                    break
            self._is_over.wait(PAUSE_S)
        self._put(end)
        self.is_connected.set()

    def _read(self) -> None:
        lines = EventLines()
        with self._pool.stream(self._progress.request, silence_s=_SILENCE_S) as answer:
            self._socket = answer.extensions["network_stream"].get_extra_info("socket")
            self._progress.note_answer(answer.headers)
            for chunk in answer.iter_raw():
                for event in lines.add(chunk):
                    self._put(event)
                    self._progress.cursor = event.cursor
                self.is_connected.set()
                if self._is_over.is_set():
                    return


class RemoteWatch(Watch):
    """Events of a server as they are stored: an iterator that waits for the next one."""

    def __init__(self, pool: Any, feed: FeedAddress, after: object, timeout_s: object) -> None:
        self._progress = WatchProgress(feed.target, after, timeout_s, None)
        self._pool = pool
        self._feed = feed
        self._reader: BlockingReader | None = None
        self._turn = threading.Lock()
        if self._progress.start is None:
            self._open_reader()
            self._progress.begin(self._position.cursor)

    def _open_reader(self) -> BlockingReader:
        progress = self._progress
        self._position = FeedProgress(self._feed, progress.start, is_finite=progress.timeout_s == 0)
        self._reader = BlockingReader(self._pool, self._position)
        self._reader.is_connected.wait()
        return self._reader

    def __next__(self) -> FeedEvent:
        with self._turn:
            if not self._progress.is_closed:
                event = self._take(self._reader or self._open_reader())
                if isinstance(event, FeedEvent):
                    self._progress.delivered = event.cursor
                    return event
                self.close()
                if event is not None:
                    raise event
        raise StopIteration

    def _take(self, reader: BlockingReader) -> FeedEvent | HoldfastError | None:
        timeout_s = self._progress.timeout_s
        end_s = None if not timeout_s else time.monotonic() + timeout_s
        while not self._progress.is_closed:
            left_s = PAUSE_S if end_s is None else min(PAUSE_S, end_s - time.monotonic())
            try:
                return reader.events.get(timeout=max(left_s, 0.0))
            except queue.Empty:
                if end_s is not None and time.monotonic() >= end_s:
                    return None
                if self._pool.is_closed:
                    return None
        return None

    def close(self) -> None:
        """End the watch. A thread that waits for its next event gets StopIteration."""
        self._progress.is_closed = True
        if self._reader is not None:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __del__(self) -> None:
        if getattr(self, "_reader", None) is not None:
            self.close()


# Awaited


class AwaitedReader:
    """Reads a feed in a task, a few events ahead."""

    def __init__(self, pool: Any, progress: FeedProgress) -> None:
        self._pool = pool
        self._progress = progress
        self.events: asyncio.Queue[FeedEvent | HoldfastError | None] = asyncio.Queue(limits.WATCH_EVENTS)
        self.is_connected = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="holdfast-watch")

    def close(self) -> None:
        loop = self._task.get_loop()
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._task.cancel)

    async def _run(self) -> None:
        progress, end = self._progress, None
        while True:
            try:
                await self._read()
                if progress.is_finite:
                    break
            except StoreClosed:
                break
            except UnreadableFeed as error:
                end = error.build_error()
                break
            except HoldfastError as error:
                end = progress.note_failure(error)
                if end is not None:
                    break
            await asyncio.sleep(PAUSE_S)
        self.is_connected.set()
        await self.events.put(end)

    async def _read(self) -> None:
        lines = EventLines()
        async with self._pool.stream(self._progress.request, silence_s=_SILENCE_S) as answer:
            self._progress.note_answer(answer.headers)
            async for chunk in answer.aiter_raw():
                for event in lines.add(chunk):
                    await self.events.put(event)
                    self._progress.cursor = event.cursor
                self.is_connected.set()


class RemoteAsyncWatch(AsyncWatch):
    """Events of a server as they are stored: an async iterator that waits for the next one."""

    def __init__(self, pool: Any, feed: FeedAddress, after: object, timeout_s: object) -> None:
        self._progress = WatchProgress(feed.target, after, timeout_s, None)
        self._pool = pool
        self._feed = feed
        self._reader: AwaitedReader | None = None
        self._turn = asyncio.Lock()

    async def _open_reader(self) -> AwaitedReader:
        progress = self._progress
        if self._reader is None:
            self._position = FeedProgress(self._feed, progress.start, is_finite=progress.timeout_s == 0)
            self._reader = AwaitedReader(self._pool, self._position)
        if not progress.is_started:
            await self._reader.is_connected.wait()
            progress.begin(self._position.cursor if progress.start is None else progress.start)
        return self._reader

    async def __anext__(self) -> FeedEvent:
        async with self._turn:
            if not self._progress.is_closed:
                reader = await self._open_reader()
                event = await self._take(reader)
                if isinstance(event, FeedEvent):
                    self._progress.delivered = event.cursor
                    return event
                self._close()
                if event is not None:
                    raise event
        raise StopAsyncIteration

    async def _take(self, reader: AwaitedReader) -> FeedEvent | HoldfastError | None:
        timeout_s = self._progress.timeout_s
        end_s = None if not timeout_s else time.monotonic() + timeout_s
        while not (self._progress.is_closed or self._pool.is_closed):
            left_s = PAUSE_S if end_s is None else min(PAUSE_S, end_s - time.monotonic())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(left_s, 0.0)):
                    return await reader.events.get()
            if end_s is not None and time.monotonic() >= end_s:
                return None
        return None

    async def aclose(self) -> None:
        """End the watch. A task that waits for its next event gets StopAsyncIteration."""
        self._close()

    def _close(self) -> None:
        self._progress.is_closed = True
        if self._reader is not None:
            self._reader.close()

    async def __aenter__(self) -> Self:
        if self._progress.start is None:
            await self._open_reader()
        return self

    def __del__(self) -> None:
        if getattr(self, "_reader", None) is not None:
            self._close()
