"""Run a gateway in this process.

Laws: it listens on loopback, unless somebody asks for more. A web page cannot use it: a request for a host name that is not
its own, or from a page of another origin, is refused. SIGTERM and SIGINT end it in order: open streams have a bounded time,
and all records are finished.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import urlsplit

import h11
import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.errors import InvalidArgument
from holdfast.gateway.connections import RawHeaders
from holdfast.gateway.health import HEALTH_PATH, SERVICE
from holdfast.gateway.memory import MemoryTrimmer, tune_process
from holdfast.gateway.proxy import CONNECTION_KEY, Gateway, Receive, Scope, Send
from holdfast.gateway.upstream import is_loopback, split_url

HEADER_BYTES = 256 << 10
"""The largest head of a request."""
KEEP_ALIVE_S = 600
"""How long a connection of a client may be idle: longer than a client keeps one, so that none meets a closed one."""
GRACE_S = 10
"""How long open streams may go on when the gateway ends."""
BACKLOG = 1_024

_LOG = logging.getLogger("holdfast.gateway.http")
_LOG.setLevel(logging.CRITICAL)  # else uvicorn writes a stack for every stream that a provider cut


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gateway listens."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names that clients use, beside those of this machine."""
    allow_remote: bool = False
    """Listen at an address that other machines reach."""
    grace_s: int = GRACE_S
    listener: int | None = None
    """A socket that listens already, as a file descriptor, in place of a host and a port."""


class CaseConnection(h11.Connection):
    """A connection that keeps the headers of the current request as they were written."""

    raw_headers: RawHeaders

    def next_event(self) -> Any:
        event = super().next_event()
        if type(event) is h11.Request:
            self.raw_headers = event.headers.raw_items()
        return event


class BatchTransport:
    """A transport that sends what is written in one round of the loop at once: events of a stream that came together leave
    together, and nothing waits for what has not come."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class CaseProtocol(H11Protocol):
    """The HTTP of uvicorn, which also keeps the case of header names, and sends in batches."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.logger = _LOG
        self.conn = CaseConnection(h11.SERVER, HEADER_BYTES)
        self.app_state = {**self.app_state, CONNECTION_KEY: self.conn}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", BatchTransport(transport, self.loop)))


class HostGuard:
    """Refuses requests of web pages, and answers those for the gateway itself."""

    def __init__(self, gateway: Gateway, options: ServiceOptions) -> None:
        self._gateway = gateway
        self.trimmer: MemoryTrimmer | None = None
        self._names = {options.host.strip("[]").lower(), *(each.lower() for each in options.allowed_hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._gateway(scope, receive, send)
            return
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
        if any(not self._allows_host(host) for host in hosts) or len(hosts) > 1:
            await _send_json(
                send, 403, {"error": "This gateway does not have that host name; allow it with --allow-host."}
            )
        elif any(not is_loopback(urlsplit_host(origin)) for origin in origins):
            await _send_json(send, 403, {"error": "Web pages may not use this gateway."})
        elif scope["path"] == HEALTH_PATH:
            await _send_json(send, 200, {"status": "ok", "service": SERVICE})
        else:
            if self.trimmer is not None:
                self.trimmer.note_request()
            await self._gateway(scope, receive, send)

    def _allows_host(self, host: str) -> bool:
        name = urlsplit_host(f"http://{host}")
        return is_loopback(name) or name in self._names


def urlsplit_host(url: str) -> str:
    """The host name of a URL or an origin, in lower case; empty if there is none."""
    try:
        return (urlsplit(url.strip()).hostname or "").rstrip(".")
    except ValueError:
        return ""


async def _send_json(send: Send, status: int, document: dict[str, str]) -> None:
    body = msgspec.json.encode(document)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status != 200:
        headers.append((b"x-holdfast-error", b"refused"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class GatewayService:
    """A gateway that listens: from its creation on, connections wait until it runs."""

    def __init__(self, gateway: Gateway, options: ServiceOptions | None = None) -> None:
        """Raises InvalidArgument for an address that cannot be used, or a provider that is this gateway."""
        self.options = options or ServiceOptions()
        if not is_loopback(self.options.host) and not self.options.allow_remote:
            reason = f"{self.options.host!r} can be reached from other machines; allow that with --allow-remote"
            raise InvalidArgument(argument="host", reason=reason)
        self._listener = (
            open_listener(self.options.host, self.options.port)
            if self.options.listener is None
            else socket.socket(fileno=self.options.listener)
        )
        self.port: int = self._listener.getsockname()[1]
        try:
            for url in (gateway.options.anthropic_url, gateway.options.openai_url):
                self._check_upstream(url)
        except InvalidArgument:
            self._listener.close()
            raise
        self._guard = HostGuard(gateway, self.options)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._guard,
                http=CaseProtocol,
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=self.options.grace_s,
            )
        )
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        host = self.options.host.strip("[]")
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def run(self, announce: Callable[[str], None]) -> None:
        """Run until SIGTERM or SIGINT. `announce` gets the address as soon as clients can connect."""
        tune_process()
        self._guard.trimmer = MemoryTrimmer()
        with contextlib.closing(self._listener), _take_signals(self._stop):
            announce(self.url)
            self._server.run(sockets=[self._listener])

    def start(self) -> None:
        """Run in a thread."""
        self._thread = threading.Thread(target=self._run_thread, name="gateway", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the gateway in order, and wait for it."""
        self._stop()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> GatewayService:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def _run_thread(self) -> None:
        with contextlib.closing(self._listener):
            self._server.run(sockets=[self._listener])

    def _stop(self) -> None:
        self._server.should_exit = True

    def _check_upstream(self, url: str) -> None:
        parts = split_url(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        if port == self.port and (is_loopback(host) or host == self.options.host):
            reason = f"{url!r} is the address of this gateway: name the provider with --anthropic-url or --openai-url"
            raise InvalidArgument(argument="url", reason=reason)


def open_listener(host: str, port: int) -> socket.socket:
    """Listen at an address."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
    except OSError as error:
        raise InvalidArgument(argument="host", reason=f"{host!r} is not an address of this machine: {error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        reason = f"{host}:{port} cannot be used: {error.strerror or error}; choose another port or host"
        raise InvalidArgument(argument="port", reason=reason) from error
    return listener


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
