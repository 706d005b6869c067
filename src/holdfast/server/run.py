"""Run a server: check everything that can be checked, listen, and start its processes.

Laws: what cannot work is refused with a typed error before anything starts. SIGTERM ends the server in order, with exit
code 0. A worker that is killed is started again; the others go on. The application is loaded in the processes that serve
it: a refusal comes at once, and the parent of several workers stays small.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

import holdfast
from holdfast.errors import ServerFailed, StorageUnavailable, StoreNotOpened
from holdfast.server.authentication import make_token, protect_settings
from holdfast.server.connections import (
    CONNECTIONS,
    HEADER_BYTES,
    KEEP_ALIVE_S,
    GuardedProtocol,
    open_listener,
    raise_file_limit,
)
from holdfast.server.logs import build_log_config
from holdfast.server.metrics import FOLDER_VARIABLE
from holdfast.server.settings import ServerSettings, check_settings, store_settings
from holdfast.server.state import SERVER_NAME

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from holdfast.inspector.export import ExportReport, ExportRequest

if importlib.util.find_spec("mcp") is None:
    raise ModuleNotFoundError("mcp", name="mcp")  # here, as all else that is missing: it is loaded when it is needed

FACTORY = "holdfast.server.app:create_app"
END_S = 10
"""How long a process may take to end after its grace time: to give turns back, and to close its store."""


def serve(
    settings: ServerSettings,
    *,
    announce: Callable[[ServerSettings], None],
    log_level: str = "info",
    factory: str = FACTORY,
) -> None:
    """Run a server until SIGTERM or SIGINT. `announce` gets the settings with the port and the token in use; `factory` is
    the function that builds the application in each process."""
    check_settings(settings)
    try:
        settings = asyncio.run(protect_settings(settings))  # opens the store: its errors are typed, and it is migrated
    except StorageUnavailable as error:
        raise StoreNotOpened(what=error.what, reason=error.reason) from error
    with contextlib.closing(open_listener(settings.host, settings.port)) as listener, _share_metrics(settings):
        raise_file_limit()
        settings = msgspec.structs.replace(settings, port=listener.getsockname()[1])
        store_settings(settings)
        config = build_config(settings, log_level, factory)
        if settings.workers == 1:
            server = uvicorn.Server(config)
            with _take_signals(lambda: setattr(server, "should_exit", True)):
                announce(settings)
                _run_one(server, listener)
        else:
            with _take_signals(lambda: None):
                supervisor = Multiprocess(config, [listener])  # it takes the signals from here on
                announce(settings)
                _run_several(supervisor)


def serve_owner(settings: ServerSettings, *, announce: Callable[[ServerSettings], None], log_level: str) -> None:
    """Run a server for whoever starts it, until SIGTERM or SIGINT: on loopback, with a token that this process alone knows.

    `announce` gets the settings with the port and the token. Connections made from then on are answered as soon as the
    store is open."""
    settings = own_settings(settings)
    asyncio.run(_try_store(settings.store))
    with contextlib.closing(open_listener(settings.host, settings.port)) as listener, _share_metrics(settings):
        from holdfast.server.app import build_app  # noqa: PLC0415 - see the laws of this module

        settings = msgspec.structs.replace(settings, port=listener.getsockname()[1])
        server = uvicorn.Server(build_config(settings, log_level, functools.partial(build_app, settings)))
        with _take_signals(lambda: setattr(server, "should_exit", True)):
            announce(settings)
            _run_one(server, listener)


def own_settings(settings: ServerSettings) -> ServerSettings:
    """The settings of a server for whoever starts it, with a new token."""
    own = msgspec.structs.replace(settings, for_owner=True, background=False, workers=1, token=make_token())
    return check_settings(own)


def export_store(settings: ServerSettings, request: ExportRequest) -> ExportReport:
    """Export a session of a store: an application of this process answers, without a port."""
    from holdfast.inspector.export import open_app_client, run_export  # noqa: PLC0415 - the same
    from holdfast.server.app import build_app  # noqa: PLC0415 - the same

    settings = own_settings(settings)
    asyncio.run(_try_store(settings.store))
    return run_export(lambda: open_app_client(build_app(settings), settings.token), request)


async def _try_store(store: str) -> None:
    """Open the store, so that its errors are typed, and close it."""
    try:
        async with await holdfast.open_async(store, principal="server"):
            pass
    except StorageUnavailable as error:
        raise StoreNotOpened(what=error.what, reason=error.reason) from error


def build_config(settings: ServerSettings, log_level: str, factory: str | Callable[[], Starlette]) -> uvicorn.Config:
    """The configuration of uvicorn for these settings."""
    return uvicorn.Config(
        factory,  # of an application: its name, or itself
        factory=True,
        workers=settings.workers,
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        log_config=build_log_config(log_level),
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=settings.grace_s + END_S,
    )


def _run_one(server: uvicorn.Server, listener: object) -> None:
    try:
        server.run(sockets=[listener])  # type: ignore[list-item]
    except SystemExit as error:
        if error.code == STARTUP_FAILURE:
            raise ServerFailed(server=SERVER_NAME, reason="it could not start") from None
        raise


def _run_several(supervisor: Multiprocess) -> None:
    supervisor.run()
    if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
        raise ServerFailed(server=SERVER_NAME, reason="a worker process could not start")


@contextlib.contextmanager
def _share_metrics(settings: ServerSettings) -> Iterator[None]:
    """A folder for what the workers count, if there are several."""
    if settings.workers == 1:
        os.environ.pop(FOLDER_VARIABLE, None)
        yield
        return
    folder = tempfile.mkdtemp(prefix="holdfast-metrics-")
    os.environ[FOLDER_VARIABLE] = folder
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _take_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Stop at a signal that comes before uvicorn has its own handlers. One that it sends itself again when it has ended
    changes nothing."""
    before = {each: signal.signal(each, lambda *_: stop()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
