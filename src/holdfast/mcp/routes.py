"""MCP as a part of the server: its route, and what runs while the server does.

`server/app.py` puts it together: `routes()` are behind the layers of the server, which authenticate, limit, and check Host
and Origin, and `resources(app)` is open between the start of the engine and its end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from holdfast.mcp.http import PATH, McpEndpoint


class McpPart:
    """Serves a request by the endpoint of the application that it comes to."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint: McpEndpoint = scope["app"].state.mcp
        await endpoint(scope, receive, send)


def routes() -> list[BaseRoute]:
    """The routes of this part."""
    return [Route(PATH, endpoint=McpPart())]


@asynccontextmanager
async def resources(app: Starlette) -> AsyncIterator[None]:
    """Serve MCP while the block runs. The engine of the application is open."""
    endpoint = McpEndpoint(lambda: app.state.engine, body_bytes=app.state.settings.body_bytes)
    async with endpoint.running():
        app.state.mcp = endpoint
        yield
