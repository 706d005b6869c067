"""MCP on standard input and output: one client, one caller, named by the options of the command."""

from __future__ import annotations

from contextlib import AsyncExitStack

from mcp.server.stdio import stdio_server

import holdfast
from holdfast.access.access import Access
from holdfast.mcp.caller import Caller
from holdfast.mcp.server import AgentServer


async def serve_stdio(engine: holdfast.AsyncEngine, access: Access, session: str = "") -> None:
    """Serve until the client closes the connection."""
    caller = Caller.of(engine, access, session)
    agent = AgentServer(lambda _ctx: caller, has_connections=True)
    await agent.load(None)
    lowlevel = agent.mcp._lowlevel_server
    async with AsyncExitStack() as stack:
        if caller.may_write:
            await stack.enter_async_context(caller.engine.worker())  # nobody else may deliver what ended to memory
        await stack.enter_async_context(agent.tasks.running())
        reader, writer = await stack.enter_async_context(stdio_server())
        await lowlevel.run(reader, writer, lowlevel.create_initialization_options())
