"""Feeds: the events of a session, a ledger, a tenant or all of them, as server-sent events.

Laws: the id of an event is its cursor: whoever continues after it gets every later event once. A user sees the events of
their own sessions; of ledgers, and of what shows more than a user may know, only that something happened. What the server
stores for itself is in no feed. The cursor of a feed of many streams says nothing of what others wrote (see `cursors`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec
from starlette.responses import Response, StreamingResponse

import holdfast
from holdfast.access import access as rules
from holdfast.access.access import SYSTEM_TENANT, Access
from holdfast.api.requests import CURSOR_HEADER, quote_name
from holdfast.errors import InvalidArgument, NotFound, describe_value
from holdfast.model.log import FeedEvent, StoredEvent
from holdfast.model.names import LedgerId, Scope, StreamId
from holdfast.runtime.async_watch import AsyncWatch
from holdfast.server.native.answers import describe_event
from holdfast.server.native.calls import Call
from holdfast.server.native.cursors import CursorSeal, find_seal
from holdfast.server.native.objects import name_ledger, open_session

E = TypeVar("E", bound=StoredEvent)
HEARTBEAT_S = 15.0
"""A comment is sent after so many seconds without an event: proxies keep the connection, and a lost client is noticed."""
ALL_EVENTS = "/admin/events"
NOW = "now"
"""The cursor of the next event."""
MEDIA_TYPE = "text/event-stream"
_LAST_TYPES = frozenset({"session.destroyed", "payloads.erased"})
"""The last events of a session, which have no content: whoever follows it sees that it is gone."""
_HIDDEN_TYPES = ("pack.",)
"""Events of sessions whose payload may name what a user may not know of."""


async def watch_tenant(call: Call) -> Response:
    """Follow the events of the tenant, as far as the caller may."""
    seal = await find_seal(call.engine, call.access)
    after = read_after(call)
    watch = call.engine.watch(after=None if after is None else seal.open(after), timeout_s=read_timeout(call))
    return await _answer_feed(call, watch, seal=seal)


async def watch_session(call: Call) -> Response:
    """Follow the events of a session."""
    scope = (await open_session(call)).scope
    watch = call.engine.watch(
        scope.session, actor=scope.actor, thread=scope.thread, after=read_after(call), timeout_s=read_timeout(call)
    )
    return await _answer_feed(call, watch, is_own=True)


async def watch_ledger(call: Call) -> Response:
    """Follow the events of a ledger."""
    ledger = name_ledger(call)
    await rules.check_ledger_use(call.engine, call.access, ledger)
    watch = call.engine.watch(ledger=ledger, after=read_after(call), timeout_s=read_timeout(call))
    return await _answer_feed(call, watch, is_own=True)


async def watch_all(call: Call) -> Response:
    """Follow the events of all tenants."""
    audit = call.request.app.state.audit
    await audit.maintain(by=call.access.principal, key_id=call.access.key_id, operation="Admin.watch")
    watch = call.engine.admin.watch(after=read_after(call), timeout_s=read_timeout(call))
    return await _answer_feed(call, watch)


def read_after(call: Call) -> str | None:
    """Where a feed starts: after the last event that the client has."""
    after = call.header("last-event-id")
    if after is None:
        after = call.query.get("after", "")
    return None if after == NOW else after


def read_timeout(call: Call) -> float | None:
    text = call.query.get("timeout_s")
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        reason = f"{describe_value(text)} is not a number of seconds"
        raise InvalidArgument(argument="timeout_s", reason=reason) from None


async def _answer_feed(
    call: Call, watch: AsyncWatch, *, is_own: bool = False, seal: CursorSeal | None = None
) -> Response:
    view = FeedView(call.engine, call.access, is_own=is_own or call.template == ALL_EVENTS, seal=seal)
    await watch._read_on()  # a cursor that is wrong is an error before the answer begins
    cursor = watch.cursor if seal is None else seal.seal(watch.cursor)
    headers = {"X-Accel-Buffering": "no", CURSOR_HEADER: quote_name(cursor)}
    return StreamingResponse(_send_events(watch, view), media_type=MEDIA_TYPE, headers=headers)


async def _send_events(watch: AsyncWatch, view: FeedView) -> AsyncIterator[bytes]:
    """Events as they are stored, and comments in between. A step that is cancelled loses no event."""
    try:
        yield b": holdfast\n\n"
        step: asyncio.Future[FeedEvent] | None = None
        now = asyncio.get_running_loop().time
        sent_at = now()
        try:
            while True:
                step = step or asyncio.ensure_future(anext(watch))
                done, _ = await asyncio.wait([step], timeout=max(0.0, sent_at + HEARTBEAT_S - now()))
                shown: FeedEvent | None = None
                if done:
                    event, step = step.result(), None
                    shown = await view.show(event)
                if shown is not None or now() >= sent_at + HEARTBEAT_S:  # also between events that are not shown
                    sent_at = now()
                    yield b": nothing new\n\n" if shown is None else write_event(shown)
        except StopAsyncIteration:
            return
        finally:
            if step is not None:
                step.cancel()
    finally:
        await watch.aclose()


def write_event(event: FeedEvent) -> bytes:
    """An event of a feed as lines of text."""
    data = msgspec.json.encode(describe_event(event))
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (event.cursor.encode(), event.type.encode(), data)


def hide_payload(event: E) -> E:
    """An event of a user's own stream, as that user may see it."""
    if event.stream.kind == "session" and not event.type.startswith(_HIDDEN_TYPES):
        return event
    return msgspec.structs.replace(event, payload=None, salt=None)


class FeedView:
    """What of a feed its reader may see."""

    def __init__(
        self, engine: holdfast.AsyncEngine, access: Access, *, is_own: bool, seal: CursorSeal | None = None
    ) -> None:
        self._engine = engine
        self._access = access
        self._is_own = is_own
        """All of the feed is known to be of the reader."""
        self._seal = seal

    async def show(self, event: FeedEvent) -> FeedEvent | None:
        """The event as its reader may see it; None for one that is not theirs."""
        stream = event.stream
        if stream.tenant == SYSTEM_TENANT:
            return None
        is_known = self._is_own and (self._access.identity is None or event.type in _LAST_TYPES)
        if not is_known and self._access.actor is not None and not await self._allows(stream):
            return None  # also of a session that was the reader's when the feed began, and is another user's now
        if self._seal is not None:
            event = msgspec.structs.replace(event, cursor=self._seal.seal(event.cursor))
        return event if self._access.identity is None else hide_payload(event)

    async def _allows(self, stream: StreamId) -> bool:
        if stream.kind == "ledger":
            try:
                await rules.check_ledger_use(self._engine, self._access, LedgerId.from_stream(stream))
            except NotFound:
                return False
            return True
        return await rules.allows_scope(self._engine, self._access, Scope.from_stream(stream))
