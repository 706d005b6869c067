"""The context of a tool that runs without a request: it can read who called, and reaches no client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import MessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import RequestId


@dataclass
class _NoChannel:
    """The channel of a request that is over: nothing can be sent."""

    request_id: RequestId
    transport: TransportContext = field(
        default_factory=lambda: TransportContext(kind="task", can_send_request=False), init=False
    )
    message_metadata: MessageMetadata = None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)
    can_send_request: bool = field(default=False, init=False)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,  # noqa: ARG002 - of the protocol
        opts: CallOptions | None = None,  # noqa: ARG002 - of the protocol
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Tasks have no notifications of progress or logs."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """As above."""


def background_context(
    ctx: ServerRequestContext[Any, Any],
    request_id: str,
    version: str,
    capabilities: dict[str, Any],
    client: dict[str, Any] | None,
) -> ServerRequestContext[Any, Any]:
    """The context of a call that runs in the background, for the caller of `ctx`, with what the client had declared."""
    connection = Connection.from_envelope(version, client, capabilities)
    return ServerRequestContext(
        session=ServerSession(_NoChannel(request_id), connection),
        lifespan_context=ctx.lifespan_context,
        protocol_version=version,
        method="tools/call",
        request_id=request_id,
        request=ctx.request,
    )
