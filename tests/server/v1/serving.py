"""/v1 as an application of its own, on a real port, with callers that their keys name."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

import holdfast
from holdfast.access.access import Access
from holdfast.errors import KeyRefused
from holdfast.server.settings import ServerSettings
from holdfast.server.v1.errors import build_error
from holdfast.server.v1.routes import resources, routes
from tests.server.running import running

KEY = "key-of-ada"
CALLERS = {
    KEY: Access(principal="ada"),
    "reader": Access(principal="reader", rights=frozenset({"read"})),
    "writer": Access(principal="writer", rights=frozenset({"read", "write"})),
    "other-tenant": Access(tenant="other", principal="eve"),
    "bob": Access(principal="bob", actor="bob", identity=holdfast.Identity(user_id="bob")),
    "carol": Access(principal="carol", actor="carol", identity=holdfast.Identity(user_id="carol")),
}

Endpoint = Callable[[Request], Awaitable[Response]]


class Authentication:
    """Finds the caller by their key."""

    def __init__(self, app: ASGIApp, callers: Mapping[str, Access]) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            key = Request(scope).headers.get("authorization", "").removeprefix("Bearer ")
            if key not in self._callers:
                await build_error(KeyRefused(reason="it is unknown"))(scope, receive, send)
                return
            scope.setdefault("state", {})["access"] = self._callers[key]
        await self._app(scope, receive, send)


def build_app(settings: ServerSettings, callers: Mapping[str, Access] = CALLERS, **state: Any) -> ASGIApp:
    """The application of /v1 alone."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with await holdfast.open_async(settings.store, principal="server") as app.state.engine, resources(app):
            yield

    app = Starlette(routes=routes(), lifespan=lifespan)
    app.state.settings = settings
    for name, value in state.items():
        setattr(app.state, name, value)
    app.add_middleware(Authentication, callers=callers)
    return app


@contextlib.contextmanager
def serving(store: str, **settings: Any) -> Iterator[str]:
    """Serve /v1 while the block runs. Yields the base URL of clients."""
    settings = {"upstream_key_variable": "UPSTREAM_KEY", "turn_lease_s": 5, "turn_wait_s": 10, **settings}
    with running(build_app(ServerSettings(store=store, **settings))) as url:
        yield f"{url}/v1"
