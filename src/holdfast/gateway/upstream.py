"""The way to a provider: a request leaves with the bytes and headers that it is given, and its answer comes back as it is.

Laws: nothing is decoded, followed, kept or tried again. Headers keep their order and case; only those that are for one
connection alone are left out, and Host names the provider. An answer that was cut raises UpstreamCut, and never looks
complete.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
import sys
import urllib.parse
from collections.abc import AsyncGenerator, Iterable
from urllib.parse import urlsplit

import h11

from holdfast.errors import InvalidArgument
from holdfast.gateway.connections import Connection, ConnectionPool, ExchangeFailed, Pieces, RawHeaders

HOP_HEADERS = frozenset(
    b"""
    connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade
    """.split()
)
"""Headers of one connection."""
LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})
_FAULTS = (OSError, h11.ProtocolError, ExchangeFailed)


class UpstreamFailed(Exception):
    """No answer came; the text has the name of the provider, and what happened."""


class UpstreamCut(Exception):
    """An answer ended before it was complete."""


class UpstreamAnswer:
    """An answer whose body is still to be read."""

    def __init__(self, pool: ConnectionPool, connection: Connection, response: h11.Response) -> None:
        self._pool = pool
        self._connection: Connection | None = connection
        self.status = response.status_code
        self.headers = clean_headers(response.headers.raw_items())

    def find_header(self, name: bytes) -> str:
        """The value of a header, in lower case; empty if there is none."""
        return next((value.decode("latin-1").lower() for key, value in self.headers if key.lower() == name), "")

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes. Raises UpstreamCut."""
        if self._connection is None:
            return
        try:
            async for chunk in self._connection.read():
                yield chunk
        except _FAULTS as error:
            raise UpstreamCut(_describe(error)) from error

    async def close(self) -> None:
        """Give the connection back if the answer was read to its end; else close it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(connection)


class UpstreamLink:
    """Connections to one provider."""

    def __init__(self, base_url: str, *, is_versioned: bool, context: ssl.SSLContext | None = None) -> None:
        """`is_versioned`: the path of the base URL stands for /v1, as in clients of OpenAI; else it stands before it."""
        parts = split_url(base_url)
        self.host = parts.netloc.encode("ascii")
        self._path = parts.path.rstrip("/").encode("ascii")
        self._is_versioned = is_versioned and bool(self._path)
        proxy = find_proxy(base_url)
        self._name = (
            parts.netloc if proxy is None else f"{parts.netloc}, through the HTTP proxy that the environment names"
        )
        self._pool = ConnectionPool(base_url, proxy, context)

    def build_target(self, path: bytes, query: bytes) -> bytes:
        """The path and the query of a request to the provider."""
        base = self._path
        if self._is_versioned and (path == b"/v1" or path.startswith(b"/v1/")):
            path = path.removeprefix(b"/v1")
        elif base.endswith(b"/v1"):
            base = base.removesuffix(b"/v1")
        return (base + path or b"/") + (b"?" + query if query else b"")

    async def open(self, method: str, target: bytes, headers: RawHeaders, body: Pieces) -> UpstreamAnswer:
        """Send a request. Raises UpstreamFailed if no answer comes."""
        try:
            connection = await self._pool.take()
            try:
                target, headers = self._pool.build_request(target, headers)
                response = await connection.ask(method, target, headers, body)
            except BaseException:
                connection.close()
                raise
        except _FAULTS as error:
            raise UpstreamFailed(f"{self._name}: {_describe(error)}") from error
        answer = UpstreamAnswer(self._pool, connection, response)
        if not 200 <= answer.status < 600:
            await answer.close()
            raise UpstreamFailed(f"{self._name}: it answered with the status {answer.status}")
        return answer

    async def close(self) -> None:
        self._pool.close()
        await asyncio.sleep(0)  # the loop closes them in its next round


def _describe(error: Exception) -> str:
    """What happened. Errors of the protocol quote headers and bodies, which are for nobody else."""
    if isinstance(error, ExchangeFailed):
        return str(error)
    name = type(error).__name__
    if isinstance(error, h11.ProtocolError):  # it quotes what came
        return f"{name}: the HTTP is not valid, or ended too early"
    return f"{name}: {str(error) or 'the connection was closed'}"


def split_url(url: str) -> urllib.parse.SplitResult:
    """The parts of a base URL. Raises InvalidArgument if it is none."""
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_valid = is_valid and "@" not in parts.netloc
        if not (is_valid and url.isascii() and not parts.query and not parts.fragment):
            raise ValueError("it must be http:// or https:// with a host, and without a password or a query")
    except ValueError as error:
        raise InvalidArgument(argument="url", reason=f"{url!r} is not the base URL of a provider: {error}") from error
    return parts


def is_loopback(host: str) -> bool:
    """Whether a host name or an address is of this machine alone."""
    name = host.strip("[]").lower().rstrip(".")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name in LOOPBACK_NAMES or name.endswith(".localhost")


def find_proxy(url: str) -> str | None:
    """The proxy that the environment of this process names for a URL."""
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    import urllib.request  # noqa: PLC0415 - it takes a megabyte of memory

    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies()
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def clean_headers(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """Headers without those that are for one connection alone."""
    pairs = list(headers)
    hop = set(HOP_HEADERS)
    is_chunked = False
    for name, value in pairs:
        lower = name.lower()
        if lower == b"connection":
            hop.update(token.strip().lower() for token in value.split(b","))
        elif lower == b"transfer-encoding":
            is_chunked = True
    if is_chunked:
        hop.add(b"content-length")  # it says nothing about a body in chunks
    return [(name, value) for name, value in pairs if name.lower() not in hop]


def build_headers(headers: RawHeaders, host: bytes, size: int | None) -> RawHeaders:
    """The headers of a request to a provider. `size` is that of its body; None for a body in chunks or without one."""
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in headers)
    cleaned = [
        (name, value) for name, value in clean_headers(headers) if name.lower() != b"expect"
    ]  # it was answered here
    output: RawHeaders = []
    has_host = has_size = False
    for name, value in cleaned:
        lower = name.lower()
        if lower == b"host":
            value, has_host = host, True
        elif lower == b"content-length" and size is not None:
            value, has_size = b"%d" % size, True
        output.append((name, value))
    if not has_host:
        output.insert(0, (b"Host", host))
    if is_chunked:
        output.append((b"Transfer-Encoding", b"chunked"))
    elif size and not has_size:
        output.append((b"Content-Length", b"%d" % size))
    return output
