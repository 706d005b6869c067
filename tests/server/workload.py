"""A server with routes for tests of its running: they use the engine as the parts of the server do, behind the same layers.

`python -m tests.server.workload SETTINGS` runs it as `holdfast serve` does, in processes of its own.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from holdfast.errors import StorageFull
from holdfast.server import run
from holdfast.server.app import build_app
from holdfast.server.context import engine_of, extend_time
from holdfast.server.settings import ServerSettings, load_settings

FACTORY = "tests.server.workload:create_app"
TURN_S = 3_600
"""A lease that no test outlives: who gets the turn before that, got it back from its owner."""


async def record(request: Request) -> JSONResponse:
    """Record a message, under the key of the request."""
    body = await request.json()
    session = await engine_of(request).session(request.path_params["session"], create=True)
    message = await session.record("user", body["text"], key=request.headers.get("idempotency-key"))
    return JSONResponse({"seq": message.seq}, status_code=201)


async def read(request: Request) -> JSONResponse:
    session = await engine_of(request).session(request.path_params["session"])
    return JSONResponse([message.text for message in await session.messages(limit=1_000)])


async def watch(request: Request) -> StreamingResponse:
    """Follow a session, as server-sent events."""
    watched = engine_of(request).watch(request.path_params["session"], after=0)

    async def write_events() -> AsyncIterator[bytes]:
        async for event in watched:
            yield f"id: {event.cursor}\ndata: {event.type}\n\n".encode()

    return StreamingResponse(write_events(), media_type="text/event-stream")


async def flood(_request: Request) -> StreamingResponse:
    """A stream without end, as fast as the client reads it."""

    async def write() -> AsyncIterator[bytes]:
        while True:
            yield b"data: " + b"x" * 8_000 + b"\n\n"

    return StreamingResponse(write(), media_type="text/event-stream")


async def hold_turn(request: Request) -> Response:
    """Hold the turn on a session for as long as the request runs; as a stream, if the client asks for one."""
    session = await engine_of(request).session(request.path_params["session"], create=True)

    async def work() -> AsyncIterator[bytes]:
        async with session.turn(lease_s=TURN_S):
            yield b"data: the turn is mine\n\n"
            await asyncio.sleep(TURN_S)

    if "stream" in request.query_params:
        return StreamingResponse(work(), media_type="text/event-stream")
    async for _ in work():
        pass
    return Response(status_code=204)


async def take_turn(request: Request) -> JSONResponse:
    """Take the turn on a session without waiting."""
    session = await engine_of(request).session(request.path_params["session"])
    async with session.turn(wait_s=0, lease_s=5):
        return JSONResponse({"turn": "taken"})


async def sleep(request: Request) -> JSONResponse:
    """Take some time, and more of it if the server allows that."""
    if "extend" in request.query_params:
        extend_time(request, float(request.query_params["extend"]))
    await asyncio.sleep(float(request.query_params["s"]))
    return JSONResponse({"slept": True})


async def hold(request: Request) -> JSONResponse:
    """Take as long as the test says: until the event `gate` of the application is set."""
    while not request.app.state.gate.is_set():  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0.01)
    return JSONResponse({"held": True})


async def fail(request: Request) -> JSONResponse:
    """Fail, as a route may that has a fault, with a content in its message."""
    body = await request.body()
    if request.query_params.get("how") == "full":
        raise StorageFull(what="/srv/agent.db")
    raise RuntimeError(f"the fault quotes {body.decode()}")


async def rest(_request: Request) -> Response:
    """Give memory back that is not in use: what is still there afterwards is held by something."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return Response(status_code=204)


async def echo(request: Request) -> Response:
    return Response(await request.body(), media_type="text/plain")


def routes() -> list[BaseRoute]:
    session = "/load/{session}"
    return [
        Route("/load/sleep", sleep, methods=["POST"]),
        Route("/load/hold", hold, methods=["POST"]),
        Route("/load/fail", fail, methods=["POST"]),
        Route("/load/echo", echo, methods=["POST"]),
        Route("/load/rest", rest, methods=["POST"]),
        Route("/load/flood", flood),
        Route(f"{session}/messages", record, methods=["POST"]),
        Route(f"{session}/messages", read),
        Route(f"{session}/events", watch),
        Route(f"{session}/turn", hold_turn, methods=["POST"]),
        Route(f"{session}/turn", take_turn, methods=["PUT"]),
    ]


def create_app() -> Starlette:
    return build_app(load_settings(), more=routes())


def create_failing_app() -> Starlette:
    """An application that cannot start."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        if not app.routes:
            raise RuntimeError("there is nothing to serve")
        yield

    return Starlette(lifespan=lifespan)


def main() -> None:
    settings = msgspec.json.decode(sys.argv[1], type=ServerSettings)

    def announce(started: ServerSettings) -> None:
        sys.stdout.write(f"{started.port} {started.token}\n")
        sys.stdout.flush()

    run.serve(settings, announce=announce, factory=FACTORY)


if __name__ == "__main__":
    main()
