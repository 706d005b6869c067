"""One server for all tests of this process, with any number of engines behind it: each has an address of its own."""

from __future__ import annotations

import asyncio
import functools
import itertools
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

import holdfast
from holdfast.access.access import Access
from holdfast.server.layers import Errors
from holdfast.server.native import routes
from holdfast.server.native.jobs import JobRunner
from holdfast.server.settings import ServerSettings

START_S = 30


class SilentAudit:
    """No audit: the log of the store has just what the test does."""

    async def maintain(self, **_fields: object) -> None:
        pass


class EngineServer:
    """Serves the native API of engines that it opens itself, to a program with all rights."""

    def __init__(self) -> None:
        self._apps: dict[str, ASGIApp] = {}
        self._granted: dict[str, tuple[ASGIApp, Access]] = {}
        self._numbers = itertools.count(1)
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listener.bind(("127.0.0.1", 0))
        self._loop: asyncio.AbstractEventLoop | None = None
        ready = threading.Event()

        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            server = uvicorn.Server(uvicorn.Config(self, log_level="error", lifespan="off", access_log=False))
            ready.set()
            await server.serve(sockets=[self._listener])

        threading.Thread(target=lambda: asyncio.run(serve()), name="tests-server", daemon=True).start()
        assert ready.wait(START_S), "the server did not start"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _, name, rest = scope["path"].split("/", 2)
        raw = scope["raw_path"].split(b"/", 2)[2]
        await self._apps[name]({**scope, "path": f"/{rest}", "raw_path": b"/" + raw}, receive, send)

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine in the event loop of the server."""
        assert self._loop is not None

        async def call() -> Any:
            return await work()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(START_S)

    def open(self, url: Any, **options: Any) -> tuple[str, holdfast.AsyncEngine]:
        """Open an engine. Returns its address, and the engine itself."""
        engine: holdfast.AsyncEngine = self.run(functools.partial(holdfast.open_async, url, **options))
        access = Access(tenant=engine._context.tenant, principal=engine._context.principal)
        app = Starlette(routes=routes.routes(), middleware=[Middleware(Errors)])
        app.state.engine, app.state.settings, app.state.audit = engine, ServerSettings(), SilentAudit()
        app.state.jobs = JobRunner()
        return self.grant(app, access), engine

    def grant(self, app: ASGIApp, access: Access) -> str:
        """The address at which a caller with this access finds an application."""
        name = f"engine-{next(self._numbers)}"
        self._apps[name] = _with_access(app, access)
        self._granted[name] = (app, access)
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/{name}"

    def act_as(self, address: str, **who: str) -> str:
        """The address at which another caller finds the same engine."""
        app, access = self._granted[address.rpartition("/")[2]]
        return self.grant(app, msgspec.structs.replace(access, **who))

    def close(self, address: str, engine: holdfast.AsyncEngine) -> None:
        self._apps.pop(address.rpartition("/")[2], None)
        self.run(engine.store.close)


def _with_access(app: ASGIApp, access: Access) -> ASGIApp:
    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {}).update(access=access, request_id="test")
        await app(scope, receive, send)

    return call


@functools.cache
def engine_server() -> EngineServer:
    """The server of this process."""
    return EngineServer()
