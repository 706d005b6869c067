"""Connections to a provider: HTTP/1.1 on the loop's own transports, and no more of it than a gateway needs.

Laws: a connection has one exchange at a time. It is used again only if both sides of the last one were complete, and if the
server has been silent since. What ends an exchange early closes its connection. Nothing is sent twice.
"""

from __future__ import annotations

import asyncio
import base64
import os
import select
import ssl
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import Any, NamedTuple, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import h11

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]
Pieces: TypeAlias = Iterable[bytes] | AsyncIterator[bytes]
"""A body as it is, in one piece or as it comes."""

CONNECT_S = 10
"""How long a connection may take. How long it may be silent is for the client to decide."""
KEPT_CONNECTIONS = 32
KEPT_S = 60
"""How long an unused connection stays open."""
READ_BYTES = 256 << 10
"""What may have come and not been taken before the server has to wait."""
WRITE_BYTES = 64 << 10
"""So much of a body is handed on at once: what a socket does not take, the loop copies."""
HEAD_BYTES = 100 << 10
"""The largest head of an answer."""
EYEBALLS_S = 0.25
"""How long one address of a host is tried before the next one is tried beside it."""
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem")
"""Where machines have their certificates, if OpenSSL was built to look elsewhere."""


class ExchangeFailed(Exception):
    """A connection could not be made, or ended before its answer was complete."""


class Site(NamedTuple):
    """Where a connection goes."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Site:
        parts = urlsplit(url)
        return cls(parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


class Proxy(NamedTuple):
    """An HTTP proxy between this machine and a site."""

    site: Site
    headers: RawHeaders

    @classmethod
    def of(cls, url: str) -> Proxy:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
        headers = [(b"Proxy-Authorization", b"Basic " + base64.b64encode(user))] if parts.username else []
        return cls(Site.of(parts.geturl()), headers)


class Wire(asyncio.Protocol):
    """The bytes of a connection."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._error: Exception | None = None
        self._came: asyncio.Event = asyncio.Event()
        self._can_write: asyncio.Event = asyncio.Event()
        self._can_write.set()
        self.transport: asyncio.Transport | None = None
        self.has_ended = False
        """The server sends nothing more."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > READ_BYTES and self.transport is not None:
            self.transport.pause_reading()
        self._came.set()

    def eof_received(self) -> None:
        self.has_ended = True
        self._came.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.has_ended = True
        self._error = error
        self._came.set()
        self._can_write.set()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    @property
    def is_silent(self) -> bool:
        """Whether the server has sent nothing that was not read, and has not closed the connection."""
        if self._pieces or self.has_ended or self.transport is None:
            return False
        poll = select.poll()  # the loop may not have looked since
        poll.register(self.transport.get_extra_info("socket"), select.POLLIN)
        return not poll.poll(0)

    async def read(self) -> bytes:
        """What has come; empty at the end. Raises OSError if the connection was lost."""
        while not self._pieces:
            if self.has_ended:
                if self._error is not None:
                    raise self._error
                return b""
            self._came.clear()
            await self._came.wait()
        data = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._size > READ_BYTES and self.transport is not None and not self.has_ended:
            self.transport.resume_reading()
        self._size = 0
        return data

    async def write(self, data: bytes) -> bool:
        """Send bytes. Returns whether the server may still read them."""
        view = memoryview(data)
        for start in range(0, len(view), WRITE_BYTES):
            if self.has_ended or self.transport is None:
                return False
            self.transport.write(view[start : start + WRITE_BYTES])
            await self._can_write.wait()
        return not self.has_ended

    def close(self) -> None:
        """Close the connection at once, whatever the server has not read."""
        if self.transport is not None:
            self.transport.abort()


class Connection:
    """A connection with the state of its HTTP."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._http = h11.Connection(h11.CLIENT, HEAD_BYTES)
        self.last_used = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether another exchange can begin."""
        return self._wire.is_silent and time.monotonic() - self.last_used < KEPT_S

    async def ask(self, method: str, target: bytes, headers: RawHeaders, body: Pieces) -> h11.Response:
        """Send a request, and read the head of its answer. Raises OSError and h11.ProtocolError."""
        await self._send(h11.Request(method=method, target=target, headers=headers))
        if isinstance(body, Iterable):
            for piece in body:
                await self._send(h11.Data(data=piece))
            del body  # the answer may take minutes
        else:
            async for piece in body:
                await self._send(h11.Data(data=piece))
        await self._send(h11.EndOfMessage())
        while type(event := await self._next()) is h11.InformationalResponse:
            pass
        assert type(event) is h11.Response, "h11 raises an error for all else"
        return event

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Yield the body of an answer as it comes. Raises OSError and h11.ProtocolError."""
        while type(event := await self._next()) is h11.Data:
            yield bytes(event.data)

    def is_complete(self) -> bool:
        """Whether another exchange can begin; if so, it can."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self.last_used = time.monotonic()
        return not self._http.trailing_data[0] and self._wire.is_silent

    def close(self) -> None:
        self._wire.close()

    async def tunnel(self, proxy: Proxy, site: Site, context: ssl.SSLContext) -> None:
        """Ask a proxy for a way to a site, and go on in TLS with the site itself."""
        headers = [(b"Host", site.authority), *proxy.headers]
        answer = await self.ask("CONNECT", site.authority, headers, ())
        if not 200 <= answer.status_code < 300:
            raise ExchangeFailed(f"the proxy answered with the status {answer.status_code}")
        loop = asyncio.get_running_loop()
        assert self._wire.transport is not None, "it has just answered"
        transport = await loop.start_tls(self._wire.transport, self._wire, context, server_hostname=site.host)
        self._wire.transport = transport
        self._http = h11.Connection(h11.CLIENT, HEAD_BYTES)

    async def _send(self, event: h11.Event) -> None:
        pieces = self._http.send_with_data_passthrough(event)
        for piece in pieces or ():
            if not await self._wire.write(piece):
                return  # a server that reads no further may have answered

    async def _next(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._wire.read())
        return event


class ConnectionPool:
    """Connections to one site."""

    def __init__(self, url: str, proxy: str | None, context: ssl.SSLContext | None) -> None:
        """`context`: how a site of https: is checked."""
        self._site, self._netloc = Site.of(url), urlsplit(url).netloc.encode()
        self._proxy = None if proxy is None else Proxy.of(proxy)
        self._context = context
        self._unused: list[Connection] = []

    async def take(self) -> Connection:
        """A connection that nobody else uses: an unused one, or a new one. Raises OSError and ExchangeFailed."""
        while self._unused:
            connection = self._unused.pop()
            if connection.is_fresh:
                return connection
            connection.close()
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._connect()
        except TimeoutError as error:
            raise ExchangeFailed(f"no connection was made in {CONNECT_S} seconds") from error

    def give_back(self, connection: Connection) -> None:
        """Keep a connection for the next exchange, if there can be one."""
        if not connection.is_complete():
            connection.close()
            return
        self._unused.append(connection)
        while self._unused and (len(self._unused) > KEPT_CONNECTIONS or not self._unused[0].is_fresh):
            self._unused.pop(0).close()

    def build_request(self, target: bytes, headers: RawHeaders) -> tuple[bytes, RawHeaders]:
        """A request for the site as the next server on the way reads it."""
        if self._proxy is None or self._site.scheme == "https":
            return target, headers
        return b"http://" + self._netloc + target, [*headers, *self._proxy.headers]

    def close(self) -> None:
        for connection in self._unused:
            connection.close()
        self._unused.clear()

    async def _connect(self) -> Connection:
        if self._proxy is None:
            return await self._open(self._site)
        if self._proxy.site.scheme not in ("http", "https"):
            raise ExchangeFailed(f"the proxy is none of HTTP, but of {self._proxy.site.scheme}")
        connection = await self._open(self._proxy.site)
        if self._site.scheme == "https":
            try:
                await connection.tunnel(self._proxy, self._site, self._find_context())
            except BaseException:
                connection.close()
                raise
        return connection

    async def _open(self, site: Site) -> Connection:
        context = self._find_context() if site.scheme == "https" else None
        _, wire = await asyncio.get_running_loop().create_connection(
            Wire, site.host, site.port, ssl=context, happy_eyeballs_delay=EYEBALLS_S
        )
        return Connection(wire)

    def _find_context(self) -> ssl.SSLContext:
        if self._context is None:  # for a proxy of https: alone
            self._context = make_context()
        return self._context


def make_context() -> ssl.SSLContext:
    """Checks certificates as this machine does, or by SSL_CERT_FILE and SSL_CERT_DIR. It takes time and memory to make."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if sys.platform != "linux" and not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys():
        import truststore  # noqa: PLC0415 - here, as it is needed here alone

        context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context.load_default_certs()
        if bundle := _find_bundle():
            context.load_verify_locations(bundle)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _find_bundle() -> str | None:
    """The certificates of this machine, if OpenSSL does not find them by itself."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile or (paths.capath and any(name.endswith(".0") for name in os.listdir(paths.capath))):
        return None
    return next(filter(os.path.isfile, _BUNDLES), None)
