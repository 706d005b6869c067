"""The layers around the routes: what every request goes through, whichever part of the server answers it.

Laws: each request has an id and one line in the log; every error that escapes is answered as a problem document, and
nothing of the inside is in it; no request is larger, longer or more numerous than the settings and `state` allow.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.api.problems import build_http_problem, build_problem, headers_of
from holdfast.api.requests import STREAM_TYPE
from holdfast.errors import RequestTimeout, ServerBusy, TooLarge
from holdfast.server import metrics
from holdfast.server.authentication import shape_problem
from holdfast.server.logs import log_failure, log_request
from holdfast.server.settings import MOST_BODY_BYTES, ServerSettings
from holdfast.server.state import SERVER_NAME, RunningRequest, ServerState
from holdfast.server.stream_guard import is_stream

PROBES = frozenset(("/healthz", "/readyz", "/metrics"))
"""Paths that are answered however busy the server is, and that the log leaves out."""
REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""What a client may send as X-Request-Id; anything else is replaced."""
CLIENT_GONE = 499
"""The status of a request in the log whose client went away before the answer."""
ADDRESS_ADVICE = (
    "The server has nothing for {} at this address. Its parts are at /api (/api/openapi.json lists all), /v1 and /mcp."
)
UNMATCHED = "unmatched"
"""The route of a request that no route matches."""


class RequestRecorder:
    """Gives each request an id, counts it, and writes its line of the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        request_id = state["request_id"] = choose_request_id(Headers(scope=scope))
        start = time.perf_counter()
        status, stream_s = CLIENT_GONE, None

        async def send_with_id(message: Message) -> None:
            nonlocal status, stream_s
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
                if is_stream(headers):
                    stream_s = time.perf_counter() - start
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - start
            route = find_route(scope)
            metrics.count_request(route, scope["method"], status, seconds if stream_s is None else stream_s)
            access = state.get("access")
            fields = {
                "request_id": request_id,
                "method": scope["method"] if scope["method"] in metrics.METHODS else "other",
                "route": route,
                "status": status,
                "ms": round(seconds * 1_000, 1),
                "stream": stream_s is not None,
                "key_id": getattr(access, "key_id", ""),
                "tenant": getattr(access, "tenant", ""),
            }
            log_request(logging.DEBUG if scope["path"] in PROBES else logging.INFO, fields)


class Errors:
    """Answers every error that escapes with a problem document."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def send_noted(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except Exception as error:  # everything that escapes
            request_id = scope["state"]["request_id"]
            problem = build_problem(error, request_id, if_match="if-match" in Headers(scope=scope))
            if problem["status"] >= 500 and not isinstance(error, ServerBusy):  # which is counted, and nothing failed
                log_failure(error, request_id)
            if has_started:  # the answer is cut off: the client must see that it is not complete
                raise
            await build_response(scope["path"], problem, error, headers_of(error))(scope, receive, send)


class Exchange:
    """One request and its answer, as they go by."""

    def __init__(self, receive: Receive, send: Send, check_size: Callable[[int], None]) -> None:
        self._receive = receive
        self._send = send
        self._check_size = check_size
        self._size = 0
        self.request: RunningRequest | None = None
        self.has_started = False
        self.has_ended = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        self._check_size(self._size)
        return message

    async def send(self, message: Message) -> None:
        assert self.request is not None, "the request has its place before it is answered"
        if message["type"] == "http.response.start":
            if is_stream(message.get("headers", ())):
                self.request.become_stream()
            self.has_started = True
        elif not message.get("more_body", False):
            self.has_ended = True
        await self._send(message)
        if self.request.is_stream:
            await asyncio.sleep(0)  # to a client that is gone, send() does not wait: others must have their turn

    async def end_stream(self) -> None:
        """Tell the client that the stream is complete."""
        if not self.has_ended:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class Limits:
    """Bounds the number, the size and the time of requests."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        check_size = functools.partial(self._check_size, self._choose_limit(headers))
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit():  # refused by what the client says of it, before it is read
            check_size(int(length[:20]))
        state: ServerState = scope["app"].state.server
        exchange = Exchange(receive, send, check_size)
        try:
            async with state.run_request(scope["method"], self._settings.request_s) as exchange.request:
                scope["state"]["running"] = exchange.request
                await self._app(scope, exchange.receive, exchange.send)
        except TimeoutError:
            request = exchange.request
            if request is None or not request.is_expired or (exchange.has_started and not request.is_stream):
                raise
            if not exchange.has_started:
                raise self._build_timeout(state) from None
            await exchange.end_stream()

    def _build_timeout(self, state: ServerState) -> RequestTimeout:
        if state.is_stopping:
            return RequestTimeout(server=SERVER_NAME, limit_s=self._settings.grace_s, reason="the server stops")
        return RequestTimeout(server=SERVER_NAME, limit_s=self._settings.request_s, reason="its time limit is over")

    def _choose_limit(self, headers: Headers) -> int:
        """The largest body: bytes go to the disk as they arrive, everything else is in memory."""
        is_bytes = headers.get("content-type", "").partition(";")[0].strip().lower() == STREAM_TYPE
        return max(self._settings.body_bytes, MOST_BODY_BYTES) if is_bytes else self._settings.body_bytes

    @staticmethod
    def _check_size(limit: int, size: int) -> None:
        if size > limit:
            raise TooLarge(
                what="the body of the request",
                size=size,
                unit="bytes",
                limit=limit,
                limit_name="body_bytes",
                advice="Send less at a time, or start the server with a larger --max-body.",
            )


def choose_request_id(headers: Headers) -> str:
    """The id that the client sent, if it is usable in logs and headers, or a new one."""
    sent = headers.getlist("x-request-id")
    if len(sent) == 1 and REQUEST_ID.fullmatch(sent[0]):
        return sent[0]
    return f"{random.getrandbits(128):032x}"  # an id, not a secret: a call of the system would cost more


def find_route(scope: Scope) -> str:
    """The template of the route that was matched: a name without any id in it."""
    template = scope.get("route_template")
    if isinstance(template, str):
        return template
    route = scope.get("route")
    path = getattr(route, "path", None)
    if path is None or isinstance(route, Mount):  # within a part that is mounted as a whole
        return UNMATCHED
    return (scope.get("root_path", "") + path) or "/"


def build_response(path: str, problem: dict[str, Any], error: Exception, headers: Mapping[str, str]) -> Response:
    """A problem as an answer, in the shape that the clients of the path know."""
    media_type, body = shape_problem(path, problem, error)
    return Response(
        msgspec.json.encode(body), status_code=problem["status"], headers=dict(headers), media_type=media_type
    )


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """The answer to an address or a method that the server does not have."""
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    detail = error.detail if error.detail != title else ADDRESS_ADVICE.format(request.method)
    problem = build_http_problem(error.status_code, title, detail, request.state.request_id)
    return build_response(request.url.path, problem, error, error.headers or {})
