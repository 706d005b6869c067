"""Who makes a request: the key or the token of the request becomes the access of its caller, before any route runs.

Laws: no route but OPEN_PATHS and PAGE_PATHS runs without an access, and a stream ends with it. A request without a key,
with an unknown, an expired or a revoked one, all get the same answer after the same work. No answer and no line of
a log has a key. A server without keys works on loopback only, with a token that its start prints; anywhere else, and
behind TLS, it does not start. The token ends with the first key: it works only while the store has no live key. A
server for its owner (`holdfast inspect`) knows one token of its own process and no key: who can open the store may read
all of it anyway.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import holdfast
from holdfast.access.access import Access
from holdfast.access.audit import Audit
from holdfast.access.keys import KeyRing
from holdfast.access.rates import RateLimiter, RateState, rate_exceeded, rate_headers
from holdfast.access.records import read_key_id
from holdfast.access.spend import KeySpending
from holdfast.api.problems import MEDIA_TYPE, build_problem, headers_of, status_of
from holdfast.errors import HoldfastError, KeyRefused, KeysMissing
from holdfast.server.security import OPEN_PATHS, PAGE_PATHS, Security
from holdfast.server.settings import ServerSettings, is_loopback
from holdfast.server.shares import KeyShares
from holdfast.server.stream_guard import StreamGuard
from holdfast.server.v1.errors import shape_error

if TYPE_CHECKING:
    from holdfast.access.token_settings import TokenSettings
    from holdfast.access.tokens import TokenVerifier

KEY_HEADERS = ("x-api-key", "api-key")
"""Where a key may be in place of `Authorization: Bearer`, as clients of Anthropic and of Azure send it."""
METRICS_PATH = "/metrics"
REFUSAL = "it is missing, unknown, expired or revoked"
TOKEN_BYTES = 32
LOCAL_KEY_ID = "local"
"""The id of the token of a server without keys."""
logger = logging.getLogger("holdfast.access")


class AccessControl:
    """What one process knows of its callers: keys, tokens, rates, spending and the audit."""

    def __init__(self, engine: holdfast.AsyncEngine, settings: ServerSettings) -> None:
        self._token = b"" if needs_keys(settings) else settings.token.encode()
        self._is_for_owner = settings.for_owner
        self._local = Access(
            tenant=settings.local_tenant,
            actor=settings.local_actor,
            key_id=LOCAL_KEY_ID,
            rights=frozenset(settings.local_rights),
        )
        self._tokens = None if settings.jwt is None else _build_verifier(settings.jwt)
        self.keys = KeyRing(engine)
        self.audit = Audit(engine, stores_refusals=not settings.for_owner)
        self.rates = RateLimiter()
        self.shares = KeyShares()
        self.spending = KeySpending(engine)

    async def find(self, key: str) -> Access | None:
        """What a key or a token allows; None if it is not valid."""
        is_local = self._token and hmac.compare_digest(key.encode("utf-8", "surrogatepass"), self._token)
        if self._is_for_owner:
            return self._local if is_local else None
        if is_local and not await self.keys.has_live_keys():
            return self._local
        if self._tokens is not None and not read_key_id(key) and key.count(".") == 2:
            return await self._tokens.verify(key)
        return await self.keys.find(key)


def _build_verifier(settings: TokenSettings) -> TokenVerifier:
    from holdfast.access.tokens import TokenVerifier  # noqa: PLC0415 - slow to load, and few servers accept tokens

    return TokenVerifier(settings)


def needs_keys(settings: ServerSettings) -> bool:
    """Whether others can reach the server, by its address or through a proxy."""
    return settings.behind_tls or not is_loopback(settings.host)


async def is_protected(engine: holdfast.AsyncEngine, settings: ServerSettings) -> bool:
    """Whether anybody has a key or can get a token."""
    return settings.jwt is not None or await KeyRing(engine).has_live_keys()


async def protect_settings(settings: ServerSettings) -> ServerSettings:
    """The settings to start a server with: a server without keys gets a token on loopback, and is refused elsewhere, and
    behind TLS.

    `holdfast serve` calls this once, before its workers start, and prints the token."""
    async with await holdfast.open_async(settings.store, principal="server") as engine:
        if await is_protected(engine, settings):
            return msgspec.structs.replace(settings, token="")
    if needs_keys(settings):
        raise KeysMissing(host=settings.host)
    return msgspec.structs.replace(settings, token=settings.token or make_token())


def make_token() -> str:
    """A token that nobody can guess, for one run of a server."""
    return f"hf_local_{secrets.token_urlsafe(TOKEN_BYTES)}"


async def open_access(app: Starlette, engine: holdfast.AsyncEngine, settings: ServerSettings) -> AccessControl:
    """Prepare the access of an application that starts: `app.state.control`, `.spending` and `.audit`. A server that
    everybody could use does not start."""
    if needs_keys(settings) and not await is_protected(engine, settings):
        raise KeysMissing(host=settings.host)
    control = AccessControl(engine, settings)
    app.state.control, app.state.spending, app.state.audit = control, control.spending, control.audit
    return control


def access_layers(settings: ServerSettings) -> list[Middleware]:
    """The layers of an application that check hosts, origins and keys, the outermost first."""
    return [Middleware(Security, settings=settings), Middleware(Authentication, settings=settings)]


class Authentication:
    """Puts the access of the caller at `request.state.access`, or refuses the request."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        self._has_open_metrics = not needs_keys(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._is_open(scope["path"]):
            await self.app(scope, receive, send)
            return
        control: AccessControl = scope["app"].state.control
        state: RateState | None = None
        key = read_key(Headers(scope=scope))
        try:
            access = await control.find(key)
            if access is None:
                await _note_refusal(control, scope)
                raise KeyRefused(reason=REFUSAL)
            if scope["path"] == METRICS_PATH:
                access.check("admin")
            state = control.rates.take(access)
            if state is not None and not state.is_allowed:
                raise rate_exceeded(state)
        except HoldfastError as error:
            await refuse(scope, send, error, {} if state is None else rate_headers(state))
            return
        scope.setdefault("state", {})["access"] = access
        send = send if state is None else _add_headers(send, rate_headers(state))
        with control.shares.hold(access) as share:
            guard = StreamGuard(receive, send, access, lambda: control.find(key), share.become_stream)
            await self.app(scope, guard.receive, guard.send)

    def _is_open(self, path: str) -> bool:
        return path in OPEN_PATHS or path in PAGE_PATHS or (path == METRICS_PATH and self._has_open_metrics)


def read_key(headers: Headers) -> str:
    """The key or the token of a request; an empty text if it has none, or several."""
    sent = headers.getlist("authorization")
    if sent:
        scheme, _, key = sent[0].partition(" ")
        return key.strip() if len(sent) == 1 and scheme.lower() == "bearer" else ""
    for name in KEY_HEADERS:
        if len(values := headers.getlist(name)) == 1:
            return values[0].strip()
    return ""


async def _note_refusal(control: AccessControl, scope: Scope) -> None:
    key_id = read_key_id(read_key(Headers(scope=scope)))
    client = scope.get("client") or ("",)
    try:
        await control.audit.refuse(path=scope["path"], client=str(client[0]), key_id=key_id)
    except HoldfastError as error:  # the answer is the same, whether it can be stored or not
        logger.warning("a refused request is not in the audit: %s", type(error).__name__)


def _add_headers(send: Send, more: Mapping[str, str]) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message.setdefault("headers", []))
            headers.update(more)
        await send(message)

    return send_more


async def refuse(scope: Scope, send: Send, error: HoldfastError, more: Mapping[str, str]) -> None:
    """Answer with an error, in the shape that the clients of the path know."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": type(error).__name__})
        return
    problem = build_problem(error, str(scope.get("state", {}).get("request_id", "")))
    media_type, body = shape_problem(scope["path"], problem, error)
    content = msgspec.json.encode(body)
    headers = {
        **headers_of(error),
        **more,
        "content-type": media_type,
        "content-length": str(len(content)),
    }
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status_of(error), "headers": raw})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


def shape_problem(path: str, problem: dict[str, Any], error: Exception) -> tuple[str, dict[str, Any]]:
    """A refusal as the clients of a path know it: OpenAI's under /v1, OAuth's under /mcp, or else a problem document."""
    if path == "/v1" or path.startswith("/v1/"):
        return "application/json", {"error": shape_error(error, problem["detail"])}
    if path == "/mcp" or path.startswith("/mcp/"):
        code = "invalid_token" if isinstance(error, KeyRefused) else problem["type"]
        return "application/json", {"error": code, "error_description": problem["detail"]}
    return MEDIA_TYPE, problem
