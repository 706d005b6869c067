"""What one server process does at the moment: its requests, its streams, and whether it stops.

Laws: everything is bounded. At most RUNNING requests are in work; at most WAITING others wait, each for at most WAIT_S
seconds, in the order of arrival; the next one is refused at once, with the time after which to send it again. A stream
occupies no place of a request; at most STREAMS are open. After stop() nothing new begins, and what runs has its grace time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.api.problems import RETRY_AFTER_S
from holdfast.errors import ServerBusy
from holdfast.server import metrics

RUNNING = 64
"""Requests that one process works on at the same time. More would only wait for the store, and hold memory."""
WAITING = 128
"""Requests of one process that may wait for those."""
WAIT_S = 5
"""How long a request waits for its place."""
STREAMS = 1_000
"""Streams that one process may have open."""
SERVER_NAME = "of Holdfast"
"""How errors name this server. Clients put the address there by which they know it."""


class RunningRequest:
    """A request in work: its time limit, and whether its answer is a stream."""

    def __init__(self, state: ServerState, timer: asyncio.Timeout, method: str) -> None:
        self._state = state
        self._timer = timer
        self._method = method
        self._has_place = True
        self.is_stream = False

    @property
    def is_expired(self) -> bool:
        """Whether the time limit has ended the request."""
        return self._timer.expired()

    def become_stream(self) -> None:
        """Give the place of a request back: the answer is a stream, which has no time limit of its own."""
        self._state.open_stream()
        self.is_stream = True
        self.leave_place()
        self._timer.reschedule(None)
        if self._state.is_stopping:
            self.end_soon(self._state.grace_s)

    def extend(self, seconds: float) -> None:
        """Allow the request so many seconds from now on, unless the server stops."""
        if not (self._state.is_stopping or self.is_stream):
            self._timer.reschedule(asyncio.get_running_loop().time() + seconds)

    def end_soon(self, grace_s: float) -> None:
        """End after the grace time. A stream that answers a GET ends at once: nothing is lost, and the client goes on where
        it was, at another replica."""
        end = asyncio.get_running_loop().time() + (0 if self.is_stream and self._method == "GET" else grace_s)
        before = self._timer.when()
        self._timer.reschedule(end if before is None else min(before, end))

    def leave_place(self) -> None:
        if self._has_place:
            self._has_place = False
            self._state.leave_place()

    def leave(self) -> None:
        self.leave_place()
        if self.is_stream:
            self._state.close_stream()


class ServerState:
    """The requests of one process."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self.is_draining = False
        """Whether /readyz says no."""
        self.is_stopping = False
        """Whether new requests are refused."""
        self._places = asyncio.Semaphore(RUNNING)
        self._requests: set[RunningRequest] = set()
        self._waiting = 0
        self._streams = 0

    def stop(self) -> None:
        """Refuse new requests, and let those that run come to their end. A second call changes nothing."""
        if self.is_stopping:
            return
        self.is_draining = self.is_stopping = True
        for request in self._requests:
            request.end_soon(self.grace_s)

    @asynccontextmanager
    async def run_request(self, method: str, limit_s: float) -> AsyncIterator[RunningRequest]:
        """Wait for a place, and keep it while the block runs. Raises TimeoutError after `limit_s` seconds."""
        await self._take_place()
        request: RunningRequest | None = None
        try:
            async with asyncio.timeout(limit_s) as timer:
                request = RunningRequest(self, timer, method)
                self._requests.add(request)
                try:
                    yield request
                finally:
                    self._requests.discard(request)
        finally:
            if request is None:
                self.leave_place()
            else:
                request.leave()

    async def _take_place(self) -> None:
        self._check_running()
        if self._places.locked():
            if self._waiting >= WAITING:
                raise self._build_refusal("full", f"{WAITING} requests wait already (WAITING)")
            self._waiting += 1
            metrics.WAITING.inc()
            try:
                async with asyncio.timeout(WAIT_S):
                    await self._places.acquire()
            except TimeoutError:
                raise self._build_refusal("slow", f"no request ended within {WAIT_S} seconds (WAIT_S)") from None
            finally:
                self._waiting -= 1
                metrics.WAITING.dec()
            if self.is_stopping:
                self._places.release()
                self._check_running()
        else:
            await self._places.acquire()
        metrics.RUNNING.inc()

    def leave_place(self) -> None:
        self._places.release()
        metrics.RUNNING.dec()

    def open_stream(self) -> None:
        if self._streams >= STREAMS:
            raise self._build_refusal("streams", f"{STREAMS} streams are open already (STREAMS)")
        self._streams += 1
        metrics.STREAMS.inc()

    def close_stream(self) -> None:
        self._streams -= 1
        metrics.STREAMS.dec()

    def _check_running(self) -> None:
        if self.is_stopping:
            raise self._build_refusal("stopping", "it stops")

    def _build_refusal(self, name: str, reason: str) -> ServerBusy:
        metrics.REFUSED.labels(name).inc()
        return ServerBusy(server=SERVER_NAME, reason=reason, retry_s=RETRY_AFTER_S)
