"""What every answer of a server has, and from where requests may come: hosts, origins, CORS and security headers.

Laws: a request for a host name that is not the server's is refused (421): a web page cannot reach a local server under a
name of its own (DNS rebinding). A request of a browser from another origin is refused (403), unless that origin is allowed;
then it gets the headers of CORS, never with credentials. An address in place of a name cannot be rebound: a server that
listens on all addresses allows any.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.inspector.files import PATHS
from holdfast.server.settings import ServerSettings

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
OPEN_PATHS = ("/healthz", "/readyz", "/api/openapi.json")
"""They say whether the server works, or describe it, and nothing else: no key is needed, and any host name is right."""
PAGE_PATHS = frozenset(PATHS)
"""The page of the inspector, which has no data: no key is needed, but the host name must be right."""
CORS_METHODS = "GET, POST, PUT, PATCH, DELETE, OPTIONS"
CORS_HEADERS = (
    "authorization, content-type, holdfast-cause, holdfast-identity, holdfast-turn, idempotency-key, if-match, "
    "if-none-match, if-range, last-event-id, range, mcp-method, mcp-name, "
    "mcp-protocol-version, mcp-session-id, openai-beta, openai-organization, openai-project, x-api-key, api-key, "
    "x-request-id"
)
CORS_EXPOSED = (
    "etag, location, mcp-session-id, ratelimit-limit, ratelimit-remaining, ratelimit-reset, retry-after, x-request-id"
)
CORS_AGE_S = 600
HSTS_AGE_S = 31_536_000
_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}
"""Headers of an answer that does not have them."""


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return not host


def split_host(host: str) -> tuple[str, str]:
    """The name and the port of a Host header, in lower case: ("localhost", "8787")."""
    host = host.strip().lower()
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = host.partition(":")
    return name.removesuffix("."), port


class HostRule:
    """Which Host headers are right."""

    def __init__(self, settings: ServerSettings) -> None:
        self._allowed = {each.lower() for each in settings.allowed_hosts}
        self._names = {*LOOPBACK_NAMES, settings.host.strip("[]").lower()}
        self._any_address = _is_wildcard(settings.host)
        if self._any_address:
            self._names |= {socket.gethostname().lower()}

    def allows(self, host: str) -> bool:
        name, port = split_host(host)
        if not name or (port and not port.isdecimal()):
            return False
        if "*" in self._allowed or name in self._names or name in self._allowed:
            return True
        if f"{name}:{port}" in self._allowed or any(
            each.startswith("*.") and name.endswith(each[1:]) for each in self._allowed
        ):
            return True
        return self._any_address and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Security:
    """The outermost layer that looks at a request."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self._hosts = HostRule(settings)
        self._origins = {each.rstrip("/").lower() for each in settings.allowed_origins}
        self._headers = {
            **_SECURITY_HEADERS,
            **({"strict-transport-security": f"max-age={HSTS_AGE_S}"} if settings.behind_tls else {}),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        is_allowed = origin is not None and self._allows_origin(origin)

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                own = MutableHeaders(raw=message.setdefault("headers", []))
                for name, value in self._headers.items():
                    own.setdefault(name, value)
                if self._origins:
                    own.add_vary_header("Origin")
                if origin is not None and is_allowed:
                    own["access-control-allow-origin"] = "*" if "*" in self._origins else origin
                    own["access-control-expose-headers"] = CORS_EXPOSED
            await send(message)

        hosts = headers.getlist("host")
        if scope["path"] not in OPEN_PATHS and (len(hosts) != 1 or not self._hosts.allows(hosts[0])):
            reason = "this server does not have that host name; allow it with --allow-host"
            await _refuse(scope, send_with_headers, 421, "Misdirected request", reason)
        elif origin is not None and not is_allowed and not _is_same_origin(origin, hosts):
            reason = "requests from web pages of this origin are not allowed; allow it with --allow-origin"
            await _refuse(scope, send_with_headers, 403, "Forbidden", reason)
        elif is_allowed and scope["type"] == "http" and _is_preflight(scope, headers):
            await _answer_preflight(send_with_headers)
        else:
            await self.app(scope, receive, send_with_headers)

    def _allows_origin(self, origin: str) -> bool:
        """`null`, which any sandboxed page sends, is never allowed."""
        return origin.lower() != "null" and ("*" in self._origins or origin.lower() in self._origins)


def _is_same_origin(origin: str, hosts: Iterable[str]) -> bool:
    """Whether a page comes from this server: same name and port. The host was checked before."""
    scheme, separator, place = origin.lower().partition("://")
    return bool(separator) and scheme in ("http", "https") and any(place == host.strip().lower() for host in hosts)


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers


async def _answer_preflight(send: Send) -> None:
    answer = {
        "access-control-allow-methods": CORS_METHODS,
        "access-control-allow-headers": CORS_HEADERS,
        "access-control-max-age": str(CORS_AGE_S),
    }
    raw = [(name.encode(), value.encode()) for name, value in answer.items()]
    await send({"type": "http.response.start", "status": 204, "headers": raw})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(scope: Scope, send: Send, status: int, title: str, reason: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": title})
        return
    problem = {"type": "about:blank", "title": title, "status": status, "detail": f"The request is refused: {reason}."}
    body = json.dumps(problem).encode()
    raw = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
