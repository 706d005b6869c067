"""MCP over HTTP: the endpoint `/mcp` of a server, for clients of 2026-07-28 and of earlier versions.

    endpoint = McpEndpoint(lambda: app.state.engine)
    app = Starlette(routes=[*endpoint.routes()], lifespan=lifespan)

    async def lifespan(app):
        async with await holdfast.open_async("agent.db") as app.state.engine, endpoint.running():
            yield

The layer before it must have set `request.state.access` to the Access of the caller, and must check Host and Origin, or
`security` does.

Laws: a request is answered by any process: nothing of it is kept. With `sessions=True`, clients of earlier versions have a
session in the memory of this process, so that they can be asked questions while a tool runs; then a client must always
reach the same process. A session is of the access that began it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http import EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

import holdfast
from holdfast.access.access import Access
from holdfast.mcp import PATH
from holdfast.mcp.caller import Caller
from holdfast.mcp.server import AgentServer

BODY_BYTES = 4 << 20
"""The largest request, unless the server says otherwise."""
RETRY_MS = 100
"""When a client of an earlier version goes on with a stream that was closed."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def loopback_security() -> TransportSecuritySettings:
    """Only requests to this machine, and from pages of this machine: no page of the web can use a server on it."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*_LOOPBACK, *(f"{host}:*" for host in _LOOPBACK)],
        allowed_origins=[f"http://{host}:*" for host in _LOOPBACK],
    )


def access_of_request(request: HTTPConnection) -> Access:
    """The access that the authentication has put there."""
    access = request.state.access
    assert isinstance(access, Access), "the authentication comes before the endpoint"
    return access


class McpEndpoint:
    """The endpoint: its routes, and what must run while it serves."""

    def __init__(
        self,
        get_engine: Callable[[], holdfast.AsyncEngine],
        *,
        get_access: Callable[[HTTPConnection], Access] = access_of_request,
        sessions: bool = False,
        security: TransportSecuritySettings | None = None,
        configure: Callable[[AgentServer], None] | None = None,
        event_store: EventStore | None = None,
        body_bytes: int = BODY_BYTES,
        **task_options: float,
    ) -> None:
        self._get_engine, self._get_access = get_engine, get_access
        self._sessions, self._security, self._event_store = sessions, security, event_store
        self._configure, self._task_options, self._body_bytes = configure, task_options, body_bytes
        self._manager: StreamableHTTPSessionManager | None = None

    def routes(self) -> list[BaseRoute]:
        """The routes of the endpoint."""
        return [Route(PATH, endpoint=self)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve while the block runs. The engine is open before it and after it."""
        agent = AgentServer(self._find_caller, has_connections=self._sessions, task_options=self._task_options)
        if self._configure is not None:
            self._configure(agent)
        await agent.load(self._get_engine())
        self._manager = self._build_manager(agent.mcp)
        try:
            async with agent.tasks.running(), self._manager.run():
                yield
        finally:
            self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._manager is not None, "running() is open while the endpoint serves"
        access = self._get_access(HTTPConnection(scope))
        holder = f"{access.tenant}/{access.key_id}/{access.principal}"
        token = AccessToken(token=holder, client_id=holder, scopes=[])
        await self._manager.handle_request({**scope, "user": AuthenticatedUser(token)}, receive, send)

    def _find_caller(self, ctx: ServerRequestContext[Any, Any]) -> Caller:
        assert ctx.request is not None, "a request over HTTP has one"
        return Caller.of(self._get_engine(), self._get_access(ctx.request))

    def _build_manager(self, server: MCPServer[Any]) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            server._lowlevel_server,
            event_store=self._event_store,
            stateless=not self._sessions,
            security_settings=self._security,
            max_request_body_size=self._body_bytes,
            retry_interval=None if self._event_store is None else RETRY_MS,
        )
