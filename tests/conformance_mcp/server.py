"""The server that the conformance suites test: the endpoint of Holdfast, with their fixtures beside our tools.

python -m tests.conformance_mcp.server PORT STORE
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp_types import JSONRPCMessage
from starlette.applications import Starlette
from starlette.requests import HTTPConnection

import holdfast
from holdfast.access.access import Access
from holdfast.mcp.http import McpEndpoint, loopback_security
from holdfast.mcp.server import AgentServer
from tests.conformance_mcp.fixtures import add_fixtures, describe_fixtures
from tests.conformance_mcp.input_fixtures import add_input_fixtures

POLL_S = 0.1


class ReplayedEvents(EventStore):
    """The events of streams of earlier versions, so that a client can go on with a stream that was closed."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: JSONRPCMessage | None) -> EventId:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self._events):
            return None
        stream = self._events[int(last_event_id) - 1][0]
        for number, (each, message) in enumerate(self._events, 1):
            if each == stream and number > int(last_event_id) and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def configure(agent: AgentServer) -> None:
    add_fixtures(agent.mcp)
    add_input_fixtures(agent)
    describe_fixtures(agent.mcp)


def build_app(store: str) -> Starlette:
    access = Access(principal="conformance")

    def get_access(_request: HTTPConnection) -> Access:
        return access

    endpoint = McpEndpoint(
        lambda: engines[0],
        get_access=get_access,
        sessions=True,
        security=loopback_security(),
        configure=configure,
        event_store=ReplayedEvents(),
        poll_s=POLL_S,
    )
    engines: list[holdfast.AsyncEngine] = []

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with await holdfast.open_async(store, principal="server") as engine:
            engines[:] = [engine]
            async with endpoint.running():
                yield

    return Starlette(routes=endpoint.routes(), lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(build_app(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
