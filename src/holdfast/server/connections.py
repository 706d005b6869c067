"""Connections of clients: the socket that a server listens on, and the protocol that drops clients who hold it up.

Laws: a client has HEADER_S seconds for the head of a request, and must read what it is sent: one that takes nothing for
STALL_S seconds is dropped. A client that half-closes its connection has gone. A client that vanished without a word is
found by the system within about a minute. Nothing that a client does, or leaves undone, occupies the server for longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from holdfast.errors import InvalidArgument
from holdfast.server.state import ServerState

HEADER_S = 10
"""How long a client may take to send the head of a request."""
HEADER_BYTES = 32 << 10
"""The largest head of a request: its address and headers."""
STALL_S = 30
"""How long a client may take nothing of what it is sent."""
KEEP_ALIVE_S = 15
"""How long a connection may be idle between two requests."""
CONNECTIONS = 4_096
"""Connections of one process."""
BACKLOG = 1_024
"""Connections that may wait to be accepted."""
PROBE_S = 30
"""After this time in silence the system asks whether the client is still there, and then three times more."""


class GuardedProtocol(H11Protocol):
    """The HTTP of uvicorn, with time limits on what clients do."""

    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def eof_received(self) -> None:
        """The client sends no more: it has gone. What is left for it to read has a time limit."""
        super().eof_received()
        self._watch_stall()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_stall()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall_timer = _cancel(self._stall_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._head_timer = _cancel(self._head_timer)
        self._stall_timer = _cancel(self._stall_timer)

    def shutdown(self) -> None:
        """The server stops: tell the application, if nobody else has done it."""
        state = self.app_state.get("server")
        if isinstance(state, ServerState):
            state.stop()
        super().shutdown()

    def _watch_head(self) -> None:
        """Drop the client if the head of a request is not complete in time."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._head_timer = _cancel(self._head_timer)
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEADER_S, self.transport.abort)

    def _watch_stall(self) -> None:
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(STALL_S, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    if timer is not None:
        timer.cancel()
    return None


def open_listener(host: str, port: int) -> socket.socket:
    """Listen at an address. Accepted connections have the options of this socket."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
    except OSError as error:
        raise InvalidArgument(argument="host", reason=f"{host!r} is not an address of this machine: {error}") from error
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_REUSEADDR", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", PROBE_S),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", PROBE_S // 3),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", STALL_S * 1_000),
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    ):
        option: Any = getattr(socket, name, None)
        if option is not None:  # not every system has every option
            listener.setsockopt(level, option, value)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = f"{host}:{port} cannot be used: {error.strerror or error}; choose another port or host"
        raise InvalidArgument(argument="port", reason=reason) from error
    listener.set_inheritable(True)
    return listener


def raise_file_limit() -> None:
    """Allow the process as many open connections as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS * 2 if hard == resource.RLIM_INFINITY else min(hard, CONNECTIONS * 2)
    if soft < wanted:
        with contextlib.suppress(OSError):  # a service that is locked in may not: its own limit counts
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
