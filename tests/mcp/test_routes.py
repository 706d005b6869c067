"""MCP as a part of the server: loaded at the first request for it, and closed with the server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.applications import Starlette

import holdfast
from holdfast.errors import StorageUnavailable
from holdfast.mcp import routes
from holdfast.mcp.server import AgentServer
from holdfast.server.settings import ServerSettings

LOADED = """
import asyncio, sys
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings

async def start():
    app = build_app(ServerSettings(store="memory:"))
    async with app.router.lifespan_context(app):
        print("mcp" in sys.modules)
        await app.state.mcp.get()
        print("mcp" in sys.modules)

asyncio.run(start())
"""


def test_the_library_is_loaded_at_the_first_request() -> None:
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]


def test_an_endpoint_that_cannot_start_is_told_to_all_who_wait_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, failures = AgentServer.load, 1

    async def fail_once(self: AgentServer, engine: holdfast.AsyncEngine | None) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise StorageUnavailable(what="the store", reason="it sleeps")
        await load(self, engine)

    monkeypatch.setattr(AgentServer, "load", fail_once)

    async def work() -> None:
        app = Starlette()
        app.state.settings = ServerSettings()
        async with await holdfast.open_async(tmp_path / "agent.db") as app.state.engine, routes.resources(app):
            holder: routes.EndpointHolder = app.state.mcp
            told = await asyncio.gather(holder.get(), holder.get(), return_exceptions=True)
            assert [type(each) for each in told] == [StorageUnavailable] * 2
            first, second = await asyncio.gather(holder.get(), holder.get())
            assert first is second is await holder.get()

    asyncio.run(work())


def test_a_request_that_goes_away_does_not_take_the_endpoint_with_it(tmp_path: Path) -> None:
    async def work() -> None:
        app = Starlette()
        app.state.settings = ServerSettings()
        async with await holdfast.open_async(tmp_path / "agent.db") as app.state.engine, routes.resources(app):
            holder: routes.EndpointHolder = app.state.mcp
            gone, other = asyncio.ensure_future(holder.get()), asyncio.ensure_future(holder.get())
            await asyncio.sleep(0)
            gone.cancel()
            assert await other is await holder.get()
            assert gone.cancelled()

    asyncio.run(work())
