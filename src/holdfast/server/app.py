"""The application: its parts, its layers, and the engine that it holds open while it runs.

Law: the store is opened in the process that uses it, after all forks, and closed when its last request has ended.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.routing import BaseRoute

import holdfast
from holdfast.server import metrics, probes
from holdfast.server.background import run_background, run_measurement
from holdfast.server.layers import Errors, ErrorShape, Limits, Observation, answer_http_exception
from holdfast.server.settings import ServerSettings, load_settings
from holdfast.server.signals import watch_signals
from holdfast.server.state import ServerState

PARTS = ("holdfast.server.native", "holdfast.server.v1", "holdfast.mcp.http")
"""The parts of the server: each module has `routes()`."""
AUTHENTICATION = "holdfast.server.authentication"
"""The module with the layers that know who makes a request: `layers(settings)`."""
GZIP_BYTES = 1_000
"""Answers that are shorter are not compressed."""
GZIP_LEVEL = 4
"""Most of what the highest level saves, for a fifth of its time."""


def build_app(settings: ServerSettings, *, more: Sequence[BaseRoute] = ()) -> Starlette:
    """Build the application. It opens its store when it starts, and closes it when it ends. `more` are routes of your own,
    behind the same layers."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        app.state.server = state = ServerState(settings.grace_s)
        async with contextlib.AsyncExitStack() as stack:
            app.state.engine = engine = await stack.enter_async_context(
                await holdfast.open_async(settings.store, principal="server")
            )
            app.state.probe = probes.StoreProbe(engine)
            metrics.count_appends(engine.store)
            await stack.enter_async_context(run_measurement(engine))
            if settings.background:
                await stack.enter_async_context(run_background(engine))
            stack.enter_context(watch_signals(state, settings.drain_s))
            yield {"server": state}
            state.stop()

    shapes = dict(_find_error_shapes())
    app = Starlette(
        routes=[*probes.routes(), *_find_routes(), *more],
        middleware=[
            Middleware(Observation),
            Middleware(
                GZipMiddleware,
                minimum_size=GZIP_BYTES,
                compresslevel=GZIP_LEVEL,
                exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, "application/x-ndjson"),
            ),
            Middleware(Errors, shapes=shapes),
            Middleware(Limits, settings=settings),
            *_find_authentication(settings),
        ],
        exception_handlers={HTTPException: answer_http_exception},
        lifespan=lifespan,
    )
    app.state.settings = settings
    app.state.error_shapes = shapes
    return app


def create_app() -> Starlette:
    """Build the application of a worker process, from the settings that its parent has handed over."""
    return build_app(load_settings())


def _find_routes() -> Iterator[BaseRoute]:
    for name in PARTS:
        part = _import_part(name)
        if part is not None:
            yield from part.routes()


def _find_error_shapes() -> Iterator[tuple[str, ErrorShape]]:
    """The parts that write errors in a shape of their own: `ERROR_SHAPES`, by the beginning of their paths."""
    for name in PARTS:
        shapes: Mapping[str, ErrorShape] = getattr(_import_part(name), "ERROR_SHAPES", {})
        yield from shapes.items()


def _find_authentication(settings: ServerSettings) -> list[Middleware]:
    part = _import_part(AUTHENTICATION)
    return [] if part is None else list(part.layers(settings))


def _import_part(name: str) -> Any:
    """A part, or None while it is not there yet."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return None
        raise
