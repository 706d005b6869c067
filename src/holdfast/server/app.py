"""The application: its parts, its layers, and the engine that it holds open while it runs.

Law: the store is opened in the process that uses it, after all forks, and closed when its last request has ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute

import holdfast
from holdfast.inspector import pages
from holdfast.mcp import routes as mcp_part
from holdfast.server import metrics, probes
from holdfast.server.authentication import Authentication, open_access
from holdfast.server.background import run_background, run_measurement
from holdfast.server.layers import Errors, Limits, RequestRecorder, answer_http_exception
from holdfast.server.native import routes as native_part
from holdfast.server.security import Security
from holdfast.server.settings import ServerSettings, load_settings
from holdfast.server.signals import watch_signals
from holdfast.server.state import ServerState
from holdfast.server.v1 import routes as v1_part

PARTS: tuple[Any, ...] = (pages, probes, native_part, v1_part, mcp_part)
"""The parts. Each module has `routes()`, and may have `resources(app)`: what it holds while the server runs."""
OWNER_PARTS: tuple[Any, ...] = (pages, probes, native_part)
"""The parts of a server for its owner."""
GZIP_BYTES = 1_000
"""Answers that are shorter are not compressed."""
GZIP_LEVEL = 4
"""Most of what the highest level saves, for a fifth of its time."""


def build_app(settings: ServerSettings, *, more: Sequence[BaseRoute] = ()) -> Starlette:
    """Build the application. It opens its store when it starts, and closes it when it ends. `more` are routes of your own,
    behind the same layers."""

    parts = OWNER_PARTS if settings.for_owner else PARTS

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        app.state.server = state = ServerState(settings.grace_s)
        async with contextlib.AsyncExitStack() as stack:
            engine = await stack.enter_async_context(await holdfast.open_async(settings.store, principal="server"))
            app.state.engine = engine
            app.state.probe = probes.StoreProbe(engine)
            metrics.count_appends(engine.store)
            await open_access(app, engine, settings)
            for part in parts:
                if hasattr(part, "resources"):
                    await stack.enter_async_context(part.resources(app))
            await stack.enter_async_context(run_measurement(engine))
            if settings.background:
                await stack.enter_async_context(run_background(engine))
            stack.enter_context(watch_signals(state, settings.drain_s))
            yield {"server": state}
            state.stop()

    app = Starlette(
        routes=[route for part in parts for route in part.routes()] + list(more),
        middleware=build_layers(settings),
        exception_handlers={HTTPException: answer_http_exception},
        lifespan=lifespan,
    )
    app.state.settings = settings
    return app


def build_layers(settings: ServerSettings) -> list[Middleware]:
    """What every request goes through, the outermost first."""
    streams = (*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/x-ndjson")
    return [
        Middleware(RequestRecorder),
        Middleware(Security, settings=settings),
        Middleware(GZipMiddleware, minimum_size=GZIP_BYTES, compresslevel=GZIP_LEVEL, exclude_content_types=streams),
        Middleware(Errors),
        Middleware(Limits, settings=settings),
        Middleware(Authentication, settings=settings),
    ]


def create_app() -> Starlette:
    """Build the application of a worker process, from the settings that its parent has handed over."""
    return build_app(load_settings())
