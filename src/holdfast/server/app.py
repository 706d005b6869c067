"""The application: its routes, its layers, and the engine that it holds open while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import holdfast
from holdfast.server.authentication import access_layers, open_access
from holdfast.server.settings import ServerSettings


async def healthz(_request: Request) -> JSONResponse:
    """The process answers."""
    return JSONResponse({"status": "ok"})


def build_app(settings: ServerSettings) -> Starlette:
    """Build the application. It opens its store when it starts, and closes it when it ends."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with await holdfast.open_async(settings.store, principal="server") as app.state.engine:
            await open_access(app, app.state.engine, settings)
            yield

    app = Starlette(routes=[Route("/healthz", healthz)], middleware=access_layers(settings), lifespan=lifespan)
    app.state.settings = settings
    return app
