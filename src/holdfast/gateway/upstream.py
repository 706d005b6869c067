"""The way to a provider: a request leaves with the bytes and headers that it is given, and its answer comes back as it is.

Laws: nothing is decoded, followed, kept or tried again. Headers keep their order and case; only those that are for one
connection alone are left out, and Host names the provider. An answer that was cut raises UpstreamCut, and never looks
complete.
"""

from __future__ import annotations

import ipaddress
import ssl
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx2

from holdfast.errors import InvalidArgument

RawHeaders: TypeAlias = list[tuple[bytes, bytes]]

CONNECT_S = 10
"""How long a connection to a provider may take. How long it may be silent is for the client to decide."""
KEPT_CONNECTIONS = 32
KEPT_S = 60
"""How long an unused connection stays open."""
HOP_HEADERS = frozenset(
    b"""
    connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade
    """.split()
)
"""Headers of one connection."""
LOOPBACK_NAMES = frozenset({"localhost", "ip6-localhost"})
_TIMEOUTS = {"connect": CONNECT_S, "read": None, "write": None, "pool": None}


class UpstreamFailed(Exception):
    """No answer came."""


class UpstreamCut(Exception):
    """An answer ended before it was complete."""


class UpstreamAnswer:
    """An answer whose body is still to be read."""

    def __init__(self, response: httpx2.Response) -> None:
        self._stream = response.stream
        self.status = response.status_code
        self.headers = clean_headers(response.headers.raw)

    def find_header(self, name: bytes) -> str:
        """The value of a header, in lower case; empty if there is none."""
        return next((value.decode("latin-1").lower() for key, value in self.headers if key.lower() == name), "")

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes. Raises UpstreamCut."""
        assert isinstance(self._stream, httpx2.AsyncByteStream)
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx2.TransportError as error:
            raise UpstreamCut(_describe(error)) from error

    async def close(self) -> None:
        """Give the connection back if the answer was read to its end; else close it."""
        assert isinstance(self._stream, httpx2.AsyncByteStream)
        try:
            await self._stream.aclose()
        except httpx2.TransportError:
            pass


class BodyStream(httpx2.AsyncByteStream):
    """A body as it is, in one piece or as it comes."""

    def __init__(self, pieces: Iterable[bytes] | AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces, self._pieces = self._pieces, ()  # the request lives as long as its answer, but its body need not
        if isinstance(pieces, Iterable):
            for piece in pieces:
                yield piece
            return
        async for piece in pieces:
            yield piece


class UpstreamLink:
    """Connections to one provider."""

    def __init__(self, base_url: str, *, is_versioned: bool, context: ssl.SSLContext | bool = True) -> None:
        """`is_versioned`: the path of the base URL stands for /v1, as in clients of OpenAI; else it stands before it."""
        parts = split_url(base_url)
        self.url = httpx2.URL(f"{parts.scheme}://{parts.netloc}")
        self.host = parts.netloc.encode("ascii")
        self._path = parts.path.rstrip("/").encode("ascii")
        self._is_versioned = is_versioned and bool(self._path)
        self._transport = httpx2.AsyncHTTPTransport(
            verify=context if parts.scheme == "https" else False,
            proxy=find_proxy(base_url),
            limits=httpx2.Limits(
                max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS, keepalive_expiry=KEPT_S
            ),
        )

    def build_target(self, path: bytes, query: bytes) -> bytes:
        """The path and the query of a request to the provider."""
        base = self._path
        if self._is_versioned and (path == b"/v1" or path.startswith(b"/v1/")):
            path = path.removeprefix(b"/v1")
        elif base.endswith(b"/v1"):
            base = base.removesuffix(b"/v1")
        return (base + path or b"/") + (b"?" + query if query else b"")

    async def open(
        self, method: str, target: bytes, headers: RawHeaders, body: Iterable[bytes] | AsyncIterator[bytes]
    ) -> UpstreamAnswer:
        """Send a request. Raises UpstreamFailed if no answer comes."""
        request = httpx2.Request(
            method,
            self.url,
            headers=headers,
            stream=BodyStream(body),
            extensions={"target": target, "timeout": _TIMEOUTS},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except (httpx2.TransportError, httpx2.InvalidURL, OSError) as error:
            raise UpstreamFailed(_describe(error)) from error
        answer = UpstreamAnswer(response)
        if not 200 <= answer.status < 600:
            await answer.close()
            raise UpstreamFailed(f"it answered with the status {answer.status}")
        return answer

    async def close(self) -> None:
        await self._transport.aclose()


def _describe(error: Exception) -> str:
    """What happened. Errors of the protocol quote headers and bodies, which are for nobody else."""
    name = type(error).__name__
    return (
        f"{name}: the HTTP is not valid, or ended too early"
        if isinstance(error, httpx2.ProtocolError)
        else f"{name}: {str(error) or 'the connection was closed'}"
    )


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
