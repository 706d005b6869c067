"""MCP on standard input and output: one client, one caller, named by the options of the command."""

from __future__ import annotations

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
    async with agent.tasks.running(), stdio_server() as (reader, writer):
        await lowlevel.run(reader, writer, lowlevel.create_initialization_options())
