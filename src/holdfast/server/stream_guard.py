"""Streams end with the key that opened them: one that is revoked, expired or changed gets nothing more.

Law: nothing is sent on a stream more than RECHECK_S seconds after its key was last looked at. To the application, a stream
that ends so is one whose client has gone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.types import Message, Receive, Send

from holdfast.access.access import Access
from holdfast.errors import HoldfastError

RECHECK_S = 2.0
"""How long a stream goes on without a look at its key: as long as a request may use a key that was looked up before."""
STREAM_TYPES = ("text/event-stream", "application/x-ndjson")
"""Types of answers that go on for as long as there is news."""


def is_stream(headers: Any) -> bool:
    """Whether an answer with these headers is a stream."""
    return any(
        name.lower() == b"content-type" and value.decode("latin-1").lower().startswith(STREAM_TYPES)
        for name, value in headers
    )


class StreamGuard:
    """One request and its answer, which ends if the access of its caller does."""

    def __init__(
        self,
        receive: Receive,
        send: Send,
        access: Access,
        find_access: Callable[[], Awaitable[Access | None]],
        note_stream: Callable[[], None],
    ) -> None:
        self._receive, self._send = receive, send
        self._note_stream = note_stream
        self._access, self._find_access = access, find_access
        self._is_stream = False
        self._has_ended = asyncio.Event()
        self._checked_at = time.monotonic()

    async def receive(self) -> Message:
        if not self._is_stream:
            return await self._receive()
        message, end = asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._has_ended.wait())
        try:
            await asyncio.wait([message, end], return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"} if self._has_ended.is_set() else await message
        finally:
            message.cancel()
            end.cancel()

    async def send(self, message: Message) -> None:
        if self._has_ended.is_set():
            return
        if message["type"] == "http.response.start":
            self._is_stream = is_stream(message.get("headers", ()))
            if self._is_stream:
                self._note_stream()
        elif self._is_stream and message.get("more_body") and not await self._is_allowed():
            self._has_ended.set()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _is_allowed(self) -> bool:
        if time.monotonic() - self._checked_at < RECHECK_S:
            return True
        try:
            found = await self._find_access()
        except HoldfastError:  # it cannot be looked at: a client that may go on comes again
            return False
        self._checked_at = time.monotonic()
        return found == self._access
