"""Follow the log live: `engine.watch()`. Here it blocks; the twin for an event loop is in `async_watch`.

Laws: a watch delivers each event once, in order, and holds nobody up: it reads when its consumer takes the next event.
It subscribes to changes before it reads the end of the log, so nothing falls between.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from holdfast.errors import InvalidArgument, StorageBusy, StorageError, StorageUnavailable, StoreClosed, describe_value
from holdfast.flows import watch
from holdfast.flows.context import EngineContext
from holdfast.flows.watch import WatchPage, WatchTarget
from holdfast.model import limits
from holdfast.model.log import FeedEvent
from holdfast.model.names import LedgerId, Scope, check_ledger
from holdfast.ports import ChangeSource
from holdfast.runtime.base import Driver
from holdfast.runtime.logs import log
from holdfast.runtime.store_features import has_method

FIRST_PAUSE_S = 0.05
"""The first pause before the feed of PostgreSQL is read again: a transaction that is in progress delays it."""
MAX_TIMEOUT_S = 10**9
PASSING_ERRORS = (StorageUnavailable, StorageBusy)
"""Errors that may be over soon: the server is started again, or the file is locked."""


def build_target(
    context: EngineContext,
    store: object,
    session: object,
    actor: object,
    thread: object,
    ledger: LedgerId | None,
) -> WatchTarget:
    """Check what to watch: a session, a ledger, or everything of the tenant."""
    if session is not None and ledger is not None:
        raise InvalidArgument(argument="ledger", reason="a watch follows a session or a ledger: pass one of them")
    if ledger is not None:
        return WatchTarget(stream=check_ledger(ledger, context.tenant).stream)
    if session is not None:
        scope = Scope.check(context.tenant, actor, session, thread)
        return WatchTarget(stream=scope.stream, scope=scope)
    if thread is not None:
        raise InvalidArgument(argument="thread", reason="a thread belongs to a session: pass session=… too")
    return add_features(WatchTarget(tenant=context.tenant), store)


def add_features(target: WatchTarget, store: object) -> WatchTarget:
    """Note what the store offers for reading its feed."""
    return WatchTarget(
        tenant=target.tenant,
        has_tenant_feed=has_method(store, "tenant_feed"),
        has_end_cursor=has_method(store, "end_cursor"),
    )


def find_source(store: Any) -> ChangeSource | None:
    """The store itself, if it announces its changes."""
    is_source = has_method(store, "subscribe") and has_method(store, "unsubscribe")
    source: ChangeSource | None = store if is_source and hasattr(store, "recheck_s") else None
    return source


def check_timeout(timeout_s: object) -> float | None:
    if timeout_s is None:
        return None
    if type(timeout_s) not in (int, float) or not 0 <= timeout_s <= MAX_TIMEOUT_S:  # type: ignore[operator]
        reason = f"{describe_value(timeout_s)} is not a number of seconds from 0 to {MAX_TIMEOUT_S:,}, or None"
        raise InvalidArgument(argument="timeout_s", reason=reason)
    return float(timeout_s)  # type: ignore[arg-type]


class WatchProgress:
    """How far a watch is, and how long it waits: the part that needs no waiting itself."""

    def __init__(self, target: WatchTarget, after: object, timeout_s: object, source: ChangeSource | None) -> None:
        self.target = target
        self.start = watch.check_after(after, in_stream=target.stream is not None)
        self.timeout_s = check_timeout(timeout_s)
        self.source = source
        self.is_started = self.is_subscribed = self.is_closed = False
        self.events: deque[FeedEvent] = deque()
        self.delivered = self.start or ""
        self._read = ""
        self._pause_s = FIRST_PAUSE_S
        self._failed_at: float | None = None

    @property
    def cursor(self) -> str:
        """Where the next page starts."""
        return self._read

    def begin(self, cursor: str) -> None:
        """Start from this cursor."""
        self._read = self.delivered = cursor
        self.is_started = True

    def add_page(self, page: WatchPage) -> bool:
        """Take the events of a page. Returns whether it is worth to read on at once."""
        self._read = page.cursor
        self.events.extend(page.events)
        self._failed_at = None
        if page.events:
            self._pause_s = FIRST_PAUSE_S
        elif page.is_end:
            self.delivered = page.cursor  # nothing is between them
        return bool(page.events) or not page.is_end

    def deliver(self) -> FeedEvent:
        event = self.events.popleft()
        self.delivered = event.cursor
        return event

    def wake(self) -> None:
        """A change was announced: the feed may show it a little later."""
        self._pause_s = FIRST_PAUSE_S

    def next_pause(self) -> float | None:
        """How long to wait for an announcement before the next read; None for as long as it takes."""
        if self._failed_at is not None or self.source is None:
            return limits.WATCH_READ_MS / 1_000
        recheck_s = self.source.recheck_s
        if recheck_s is None or self.target.stream is not None:
            return recheck_s
        pause_s = min(self._pause_s, recheck_s)
        self._pause_s = pause_s * 2
        return pause_s

    def note_failure(self, error: StorageError) -> None:
        """Note that the store could not be read. Raises the error if that has been so for too long."""
        now = time.monotonic()
        if self._failed_at is None:
            self._failed_at = now
            log("watch: the store cannot be read, trying again: %s", error)
        if now - self._failed_at > limits.WATCH_RETRY_MS / 1_000:
            raise error

    def close(self, listener: Any) -> None:
        self.is_closed = True
        self.events.clear()
        if self.is_subscribed and self.source is not None:
            self.is_subscribed = False
            self.source.unsubscribe(listener)


class Watch:
    """Events as they are stored: an iterator that waits for the next one. `engine.watch()` returns it.

    Leave the loop, close it, or close the engine to end it. `cursor` is where it is: pass it as `after` to continue
    there, also in another process."""

    def __init__(self, drive: Driver, progress: WatchProgress) -> None:
        self._drive = drive
        self._progress = progress
        self._signal = threading.Event()
        self._turn = threading.Lock()
        if progress.start is None:
            self._start()

    @property
    def cursor(self) -> str:
        """The cursor after the last event that was delivered."""
        return self._progress.delivered

    def close(self) -> None:
        """End the watch. A thread that waits for its next event gets StopIteration."""
        self._progress.close(self._signal.set)
        self._signal.set()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FeedEvent:
        timeout_s = self._progress.timeout_s
        last = None if timeout_s is None else time.monotonic() + timeout_s
        with self._turn:
            if self._fetch(last) and self._progress.events:
                return self._progress.deliver()
        self.close()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_turn"):  # otherwise it was never built
            self._progress.close(self._signal.set)

    def _start(self) -> None:
        self._progress.begin(self._drive(watch.start(self._progress.target, self._progress.start)))

    def _fetch(self, last: float | None) -> bool:
        """Wait until there are events. Returns False at the end: closed, or past the time `last`."""
        progress = self._progress
        while not progress.events:
            if progress.is_closed:
                return False
            self._signal.clear()
            try:
                if self._read_on():
                    continue
            except StoreClosed:
                return False
            except PASSING_ERRORS as error:
                progress.note_failure(error)
            left_s = None if last is None else last - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            if self._subscribe():
                continue
            pause_s = progress.next_pause()
            if self._signal.wait(min((each for each in (pause_s, left_s) if each is not None), default=None)):
                progress.wake()
        return True

    def _read_on(self) -> bool:
        if not self._progress.is_started:
            self._start()
        return self._progress.add_page(self._drive(watch.read_page(self._progress.target, self._progress.cursor)))

    def _subscribe(self) -> bool:
        """Subscribe to changes, before the first wait. Returns whether to read once more."""
        progress = self._progress
        if progress.source is None or progress.is_subscribed:
            return False
        try:
            progress.source.subscribe(self._signal.set, progress.target.stream)
        except (StoreClosed, *PASSING_ERRORS):
            return False  # the next read raises it
        progress.is_subscribed = True
        return True
