"""Subscriptions: a client hears when a session or a task changes, whichever process changes it.

Laws: a subscription to what the caller may not read is accepted and never fires, as one to what does not exist. What is
sent names only the address that the client gave, or shows the task as `tasks/get` does. A client that does not read is
dropped, and asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import unquote

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.subscriptions import SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourceUpdated,
    ServerEvent,
    event_matches,
    event_to_notification,
)
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    EmptyResult,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel

from holdfast.errors import InvalidInput, NotFound
from holdfast.mcp.caller import CallerSource
from holdfast.mcp.results import SCHEME
from holdfast.mcp.task_frames import TASKS_ACTOR
from holdfast.mcp.tasks import EXTENSION_ID, Tasks

MAX_WATCHES = 64
"""The sessions and tasks of one subscription."""
MAX_STREAMS = 1_024
"""The subscriptions of one process."""
_BUFFERED = 1_024
"""What waits for a client; one that reads no more is dropped."""
_PREFIX = f"{SCHEME}://sessions/"
_STATE = "holdfast.watches"


class PlainNotification(BaseModel):
    """A notification with fields that the SDK does not know."""

    method: str
    params: dict[str, Any]


class Subscriptions:
    """Serves `subscriptions/listen`, and `resources/subscribe` of clients of earlier versions that have a connection."""

    def __init__(self, source: CallerSource, tasks: Tasks) -> None:
        self._source = source
        self._tasks = tasks
        self._streams = 0
        self._bus: SubscriptionBus | None = None

    def add_to(self, server: MCPServer[Any], *, has_connections: bool) -> None:
        """Add the methods to a server. Without connections, nothing can be sent to clients of earlier versions."""
        self._bus = server._subscriptions
        lowlevel = server._lowlevel_server  # the bus of MCPServer sends the same to every caller
        lowlevel.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, self._listen)
        if has_connections:
            lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
            lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        tasks = _read_task_ids(ctx)
        if tasks:
            require_client_extension(ctx, EXTENSION_ID)
        wanted = params.notifications
        uris = frozenset(wanted.resource_subscriptions or ())
        if len(uris) + len(tasks) > MAX_WATCHES:
            raise MCPError(INVALID_PARAMS, f"One subscription may have at most {MAX_WATCHES} resources and tasks.")
        if self._streams >= MAX_STREAMS:
            raise MCPError(INTERNAL_ERROR, "This server has too many subscriptions. Try again later.")
        self._streams += 1
        try:
            await self._stream(ctx, wanted, uris, tasks)
        finally:
            self._streams -= 1
        return SubscriptionsListenResult(_meta={SUBSCRIPTION_ID_META_KEY: ctx.request_id})

    async def _stream(
        self, ctx: ServerRequestContext[Any, Any], wanted: SubscriptionFilter, uris: frozenset[str], tasks: list[str]
    ) -> None:
        """Send what happens, until the client goes or does not read."""
        meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        queue: asyncio.Queue[Any] = asyncio.Queue(_BUFFERED)
        is_full = asyncio.Event()

        def put(notification: Any) -> None:
            try:
                queue.put_nowait(notification)
            except asyncio.QueueFull:
                is_full.set()

        def deliver(event: ServerEvent) -> None:
            if event_matches(wanted, uris, event):
                put(event_to_notification(event, meta))

        assert self._bus is not None, "add_to() comes first"
        unsubscribe = self._bus.subscribe(deliver)
        try:
            known = [each for each in tasks if await self._tasks.describe(ctx, each) is not None]
            sessions = [(uri, asyncio.Event()) for uri in uris if uri.startswith(_PREFIX)]
            watches = [self._watch_session(ctx, uri, deliver, has_begun) for uri, has_begun in sessions]
            async with _running(watches):
                for _, has_begun in sessions:
                    await has_begun.wait()
                await _send(ctx, _acknowledge(wanted, known, meta))
                watching = [self._watch_task(ctx, each, meta, put) for each in known]
                await self._forward(ctx, queue, is_full, watching)
        finally:
            unsubscribe()

    async def _forward(
        self,
        ctx: ServerRequestContext[Any, Any],
        queue: asyncio.Queue[Any],
        is_full: asyncio.Event,
        watches: list[Coroutine[Any, Any, None]],
    ) -> None:
        async with _running(watches):
            while not is_full.is_set():
                await _send(ctx, await queue.get())

    async def _watch_session(
        self,
        ctx: ServerRequestContext[Any, Any],
        uri: str,
        deliver: Callable[[ServerEvent], None],
        has_begun: asyncio.Event,
    ) -> None:
        try:
            await self._follow_session(ctx, uri, deliver, has_begun)
        finally:
            has_begun.set()

    async def _follow_session(
        self,
        ctx: ServerRequestContext[Any, Any],
        uri: str,
        deliver: Callable[[ServerEvent], None],
        has_begun: asyncio.Event,
    ) -> None:
        caller = self._source(ctx)
        name = unquote(uri.removeprefix(_PREFIX).partition("/")[0])
        try:
            await caller.open(name)
        except (NotFound, InvalidInput):
            return
        async with caller.engine.watch(name, actor=caller.actor, after=None) as events:
            has_begun.set()
            async for _ in events:
                deliver(ResourceUpdated(uri=uri))

    async def _watch_task(
        self, ctx: ServerRequestContext[Any, Any], task_id: str, meta: dict[str, Any], put: Callable[[Any], None]
    ) -> None:
        engine = self._tasks.owner_of(ctx).engine
        last: dict[str, Any] = {}
        async with engine.watch(task_id, actor=TASKS_ACTOR) as events:
            async for _ in events:
                shown = await self._tasks.describe(ctx, task_id)
                if shown is None:
                    return
                state = {name: shown.get(name) for name in ("status", "inputRequests")}
                if state != last:
                    last = state
                    put(PlainNotification(method="notifications/tasks", params={**shown, "_meta": meta}))

    # Earlier versions

    async def _subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        uri = str(params.uri)
        watches = _connection_watches(ctx)
        if uri.startswith(_PREFIX) and uri not in watches:
            if len(watches) >= MAX_WATCHES:
                raise MCPError(INVALID_PARAMS, f"One connection may have at most {MAX_WATCHES} subscriptions.")
            has_begun = asyncio.Event()
            watches[uri] = asyncio.ensure_future(self._notify(ctx, uri, has_begun))
            await has_begun.wait()
        return EmptyResult()

    async def _unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        watch = _connection_watches(ctx).pop(str(params.uri), None)
        if watch is not None:
            watch.cancel()
        return EmptyResult()

    async def _notify(self, ctx: ServerRequestContext[Any, Any], uri: str, has_begun: asyncio.Event) -> None:
        queue: asyncio.Queue[ServerEvent] = asyncio.Queue(1)

        def deliver(event: ServerEvent) -> None:
            if queue.empty():  # one that is not sent yet tells of this change, too
                queue.put_nowait(event)

        async with _running([self._watch_session(ctx, uri, deliver, has_begun)]):
            while True:
                await queue.get()
                await ctx.session.send_resource_updated(uri)


def _connection_watches(ctx: ServerRequestContext[Any, Any]) -> dict[str, asyncio.Future[None]]:
    """The watches of the connection of a request. They end with it."""
    connection = ctx.session._connection  # the SDK shows it to nobody, but a subscription is of a connection
    watches: dict[str, asyncio.Future[None]] | None = connection.state.get(_STATE)
    if watches is None:
        watches = connection.state[_STATE] = {}

        def end(watches: dict[str, asyncio.Future[None]] = watches) -> None:
            for watch in watches.values():
                watch.cancel()

        connection.exit_stack.callback(end)
    return watches


def _acknowledge(wanted: SubscriptionFilter, tasks: list[str], meta: dict[str, Any]) -> Any:
    """The first message of a stream: what it will tell of."""
    accepted = {
        name: value for name, value in wanted.model_dump(by_alias=True, mode="json", exclude_none=True).items() if value
    }
    accepted.pop("taskIds", None)
    if tasks:
        accepted["taskIds"] = tasks
    params = {"notifications": accepted, "_meta": meta}
    return PlainNotification(method="notifications/subscriptions/acknowledged", params=params)


async def _send(ctx: ServerRequestContext[Any, Any], notification: Any) -> None:
    await ctx.session.send_notification(notification, related_request_id=ctx.request_id)


def _read_task_ids(ctx: ServerRequestContext[Any, Any]) -> list[str]:
    wanted = (ctx.params or {}).get("notifications")
    listed = wanted.get("taskIds") if isinstance(wanted, dict) else None
    if listed is None:
        return []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise MCPError(INVALID_PARAMS, "taskIds must be a list of the ids of tasks.")
    return listed


@asynccontextmanager
async def _running(watches: list[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run the watches while the block runs."""
    tasks = [asyncio.ensure_future(watch) for watch in watches]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
