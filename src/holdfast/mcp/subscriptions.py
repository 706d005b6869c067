"""Subscriptions: a client hears when a session changes, or a task, whichever process changes it.

Laws: a subscription to what the caller may not read is accepted and never fires, as one to what does not exist. What is
sent names only the address that the client gave, or the task as `tasks/get` shows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import unquote

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.server import require_client_extension
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated, ServerEvent
from mcp_types import INVALID_PARAMS, Notification, SubscriptionsListenRequestParams, SubscriptionsListenResult

from holdfast.errors import InvalidInput, NotFound
from holdfast.mcp.caller import CallerSource
from holdfast.mcp.results import SCHEME
from holdfast.mcp.task_frames import TASKS_ACTOR
from holdfast.mcp.tasks import EXTENSION_ID, Tasks

MAX_WATCHES = 64
"""The sessions and tasks of one subscription."""
_PREFIX = f"{SCHEME}://sessions/"


class _CallBus:
    """The events of the server, and those of one subscription."""

    def __init__(self, shared: SubscriptionBus) -> None:
        self._shared = shared
        self._own = InMemorySubscriptionBus()

    async def publish(self, event: ServerEvent) -> None:
        await self._own.publish(event)

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        ends = (self._shared.subscribe(listener), self._own.subscribe(listener))

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe


class Subscriptions:
    """Serves `subscriptions/listen`."""

    def __init__(self, source: CallerSource, tasks: Tasks) -> None:
        self._source = source
        self._tasks = tasks
        self._shared: SubscriptionBus = InMemorySubscriptionBus()

    def add_to(self, server: MCPServer[Any]) -> None:
        self._shared = server._subscriptions
        server._lowlevel_server.add_request_handler(
            "subscriptions/listen", SubscriptionsListenRequestParams, self._listen
        )

    async def _listen(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        task_ids = _read_task_ids(ctx)
        uris = params.notifications.resource_subscriptions or []
        if len(uris) + len(task_ids) > MAX_WATCHES:
            raise MCPError(INVALID_PARAMS, f"One subscription may have at most {MAX_WATCHES} resources and tasks.")
        if task_ids:
            require_client_extension(ctx, EXTENSION_ID)
        bus = _CallBus(self._shared)
        watches = [self._watch_session(ctx, bus, uri) for uri in uris if uri.startswith(_PREFIX)]
        watches += [self._watch_task(ctx, task_id) for task_id in task_ids]
        async with _running(watches):
            return await ListenHandler(bus)(ctx, params)

    async def _watch_session(self, ctx: ServerRequestContext[Any, Any], bus: _CallBus, uri: str) -> None:
        caller = self._source(ctx)
        name = unquote(uri.removeprefix(_PREFIX).partition("/")[0])
        try:
            await caller.open(name)
        except (NotFound, InvalidInput):
            return
        async with caller.engine.watch(name, actor=caller.actor, after=None) as events:
            async for _ in events:
                await bus.publish(ResourceUpdated(uri=uri))

    async def _watch_task(self, ctx: ServerRequestContext[Any, Any], task_id: str) -> None:
        shown = await self._tasks.describe(ctx, task_id)
        if shown is None:
            return
        engine = self._tasks.owner_of(ctx).engine
        told = ""
        async with engine.watch(task_id, actor=TASKS_ACTOR) as events:
            async for _ in events:
                shown = await self._tasks.describe(ctx, task_id)
                if shown is None:
                    return
                state = f"{shown['status']} {sorted(shown.get('inputRequests', {}))}"
                if state != told:
                    told = state
                    meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
                    await ctx.session.send_notification(
                        Notification(method="notifications/tasks", params={**shown, "_meta": meta}),  # type: ignore[arg-type]
                        related_request_id=ctx.request_id,
                    )


def _read_task_ids(ctx: ServerRequestContext[Any, Any]) -> list[str]:
    wanted = (ctx.params or {}).get("notifications")
    listed = wanted.get("taskIds") if isinstance(wanted, dict) else None
    if listed is None:
        return []
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise MCPError(INVALID_PARAMS, "taskIds must be a list of the ids of tasks.")
    return listed


@asynccontextmanager
async def _running(watches: list[Any]) -> AsyncIterator[None]:
    """Run the watches while the block runs."""
    tasks = [asyncio.ensure_future(watch) for watch in watches]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
