"""MCP as a part of the server: its route, and what runs while the server does.

`server/app.py` puts it together: `routes()` are behind the layers of the server, which authenticate, limit, and check Host
and Origin, and `resources(app)` is open between the start of the engine and its end.

Law: the library of MCP is loaded at the first request that needs it. To load it takes longer than all else that a server
does before it is ready, and a good part of its memory; many servers are never asked.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from holdfast.mcp import PATH

if TYPE_CHECKING:
    from holdfast.mcp.http import McpEndpoint


class McpPart:
    """Serves a request by the endpoint of the application that it comes to."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        holder: EndpointHolder = scope["app"].state.mcp
        endpoint = await holder.get()
        await endpoint(scope, receive, send)


class EndpointHolder:
    """The endpoint of an application, from the first request for it until the application ends."""

    def __init__(self, app: Starlette) -> None:
        self._app = app
        self._context = contextvars.copy_context()  # of the application: what serves all requests is of none of them
        self._end = asyncio.Event()
        self._run: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[McpEndpoint]

    async def get(self) -> McpEndpoint:
        """The endpoint. If it could not start, the next request tries it again."""
        if self._run is None or self._run.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._run = asyncio.create_task(self._serve(self._ready), context=self._context.copy())
        return await asyncio.shield(self._ready)  # others wait for it as well

    async def close(self) -> None:
        """End the endpoint, if there is one."""
        self._end.set()
        if self._run is not None:
            await self._run

    async def _serve(self, ready: asyncio.Future[McpEndpoint]) -> None:
        """Hold the endpoint open, in a task of its own: what it opens, it must close in the same one."""
        try:
            endpoint = await asyncio.to_thread(_build_endpoint, self._app)
            async with endpoint.running():
                ready.set_result(endpoint)
                await self._end.wait()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
            ready.exception()  # it is told, even if the request that asked for it has gone
        finally:
            ready.cancel()  # nobody waits for what was broken off


def _build_endpoint(app: Starlette) -> McpEndpoint:
    from holdfast.mcp.http import McpEndpoint  # noqa: PLC0415 - see the law of this module

    return McpEndpoint(lambda: app.state.engine, body_bytes=app.state.settings.body_bytes)


def routes() -> list[BaseRoute]:
    """The routes of this part."""
    return [Route(PATH, endpoint=McpPart())]


@asynccontextmanager
async def resources(app: Starlette) -> AsyncIterator[None]:
    """Serve MCP while the block runs. The engine of the application is open."""
    app.state.mcp = holder = EndpointHolder(app)
    try:
        yield
    finally:
        await holder.close()
