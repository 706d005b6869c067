"""The model server behind /v1/responses: one request to it, its reply or its stream, in any of three languages.

Laws: a request has limits of time: to connect, and for each silence. An error of the upstream says what the upstream said;
its own status is passed on if it is one of a client. The key and the address of the upstream are in no error and in no log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import httpx2
import msgspec

import holdfast
from holdfast.model.content import Usage
from holdfast.server.settings import ServerSettings
from holdfast.server.v1.bodies import Fields
from holdfast.server.v1.errors import ApiError, invalid
from holdfast.server.v1.output import OutputBuilder

CONNECT_S = 10
CONNECTIONS = 1_000
"""The most requests to the upstream at once; others wait for a free connection."""
KEPT_CONNECTIONS = 100
ERROR_CHARS = 2_000
LINE_BYTES = 16 << 20
"""The most bytes of one event of a stream."""
REPLY_BYTES = 64 << 20
"""The most bytes of a reply that is no stream."""
ERROR_BYTES = 64 << 10
"""The most bytes of an error that are read."""
CLIENT_STATUSES = (400, 401, 403, 404, 408, 409, 413, 422, 429)
"""Statuses of an upstream that are passed on."""
PASSED_HEADERS = ("retry-after", "retry-after-ms")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks of the model, beside the conversation."""

    model: str
    tools: tuple[Fields, ...] = ()
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    max_output_tokens: int | None = None
    text: Fields | None = None
    reasoning: Fields | None = None
    include: tuple[str, ...] = ()
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    service_tier: str | None = None


class ReplyEnd(NamedTuple):
    """How a reply ended."""

    stop: str = "completed"
    """"completed", or why it is incomplete: "max_output_tokens" or "content_filter"."""
    usage: Usage | None = None
    model: str = ""


class UpstreamBroken(Exception):
    """The upstream stopped in the middle of its reply."""


class StreamReader(Protocol):
    """Reads the events of a stream into the output."""

    def add(self, event: Fields) -> None: ...

    def end(self) -> ReplyEnd | None:
        """How the reply ended; None if it has not."""


class Dialect(Protocol):
    """The language of an upstream."""

    path: str

    def build_headers(self, key: str) -> dict[str, str]: ...

    def check(self, question: Question) -> None:
        """Refuse what the upstream cannot do, before anything is stored."""

    def build_request(
        self, pack: holdfast.Pack, question: Question, engine_tools: tuple[holdfast.Tool, ...]
    ) -> Fields: ...

    def mark_stream(self, body: Fields) -> None:
        """Ask for a stream."""

    def read_reply(self, reply: Fields, output: OutputBuilder) -> ReplyEnd: ...

    def read_stream(self, output: OutputBuilder) -> StreamReader: ...


class Upstream:
    """An upstream, as the settings name it."""

    def __init__(self, settings: ServerSettings, client: httpx2.AsyncClient) -> None:
        from holdfast.server.v1 import anthropic_dialect, chat_dialect, responses_dialect  # noqa: PLC0415 - they use this

        parts = urlsplit(settings.upstream)
        self.address = settings.upstream.rstrip("/") + ("" if parts.path.strip("/") else "/v1")
        kind, self.host = find_kind(settings), parts.hostname or ""
        dialects: dict[str, Dialect] = {
            "openai": chat_dialect.ChatDialect(is_openai=self.host == "api.openai.com"),
            "openai-responses": responses_dialect.ResponsesDialect(),
            "anthropic": anthropic_dialect.AnthropicDialect(),
        }
        if kind not in dialects:
            names = ", ".join(dialects)
            raise ApiError(501, f"The setting upstream_kind is {kind!r}; it is one of {names}.", kind="server_error")
        self.dialect = dialects[kind]
        variable = settings.upstream_key_variable
        self._key = os.environ.get(variable or ("ANTHROPIC_API_KEY" if kind == "anthropic" else "OPENAI_API_KEY"), "")
        self._client = client

    @asynccontextmanager
    async def open(self, body: Fields | None, path: str | None = None) -> AsyncIterator[httpx2.Response]:
        """Send a request. The block gets the answer if it is a good one, with its body still to be read."""
        headers = self.dialect.build_headers(self._key)
        url = f"{self.address}{path or self.dialect.path}"
        method = "GET" if body is None else "POST"
        try:
            async with self._client.stream(method, url, json=body, headers=headers) as response:
                if not response.is_success:
                    raise refusal(response.status_code, await read_start(response), response.headers)
                yield response
        except httpx2.TimeoutException as error:
            raise upstream_error(504, "it did not answer in time", "upstream_timeout") from error
        except httpx2.HTTPError as error:
            raise upstream_error(502, f"no answer came ({type(error).__name__})") from error
        except httpx2.InvalidURL as error:
            raise upstream_error(502, "its address is not valid") from error

    async def read_json(self, response: httpx2.Response) -> Fields:
        data = await read_whole(response)
        try:
            reply = json.loads(data)
        except (ValueError, RecursionError):
            reply = None
        if type(reply) is not dict:
            raise upstream_error(502, "its answer is not a JSON object")
        if reply.get("error") and "choices" not in reply and "output" not in reply:
            raise upstream_error(502, describe_failure(reply))
        return reply


def check_choice_type(question: Question) -> None:
    """Refuse a choice of tools that only the Responses API has."""
    choice = question.tool_choice
    if isinstance(choice, dict) and choice["type"] != "function":
        kind = choice["type"][:100]
        raise invalid(f"The upstream has no tool_choice of type {kind!r}. Name a function tool.", "tool_choice")


def find_kind(settings: ServerSettings) -> str:
    """The language of the upstream: as it is set, else from its address."""
    if settings.upstream_kind:
        return settings.upstream_kind
    return "anthropic" if "anthropic" in (urlsplit(settings.upstream).hostname or "") else "openai"


def new_client(silence_s: float) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=KEPT_CONNECTIONS)
    return httpx2.AsyncClient(timeout=httpx2.Timeout(silence_s, connect=CONNECT_S), limits=limits)


def upstream_error(status: int, reason: str, code: str = "upstream_error") -> ApiError:
    return ApiError(status, f"The upstream failed: {reason}. Try again.", kind="server_error", code=code)


def refusal(status: int, data: bytes, headers: Any) -> ApiError:
    """The error of an upstream, in the envelope of OpenAI."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = {}
    inner = body.get("error") if isinstance(body, dict) else None
    fields: Fields = inner if isinstance(inner, dict) else {}
    reason = describe_failure(body) if body else data[:ERROR_CHARS].decode(errors="replace")
    if status not in CLIENT_STATUSES:
        return upstream_error(504 if status == 504 else 502, f"status {status}: {reason}")
    if status in (401, 403):  # the key of the server, not of the caller
        return upstream_error(502, f"it refuses the key of this server (status {status})")
    kind, code, param = fields.get("type"), fields.get("code"), fields.get("param")
    return ApiError(
        status,
        reason,
        kind=kind if isinstance(kind, str) else "invalid_request_error",
        code=code if isinstance(code, str) else None,
        param=param if isinstance(param, str) else None,
        headers={name: headers[name] for name in PASSED_HEADERS if name in headers},
    )


def describe_failure(body: object) -> str:
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        inner = inner.get("message") or inner.get("code") or inner.get("type") or "it gave no reason"
    return str(inner)[:ERROR_CHARS]


async def read_start(response: httpx2.Response) -> bytes:
    """The first ERROR_BYTES of an answer at least, whatever follows."""
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) >= ERROR_BYTES:
            break
    return bytes(data)


async def read_whole(response: httpx2.Response) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_bytes():
        data += chunk
        if len(data) > REPLY_BYTES:
            raise upstream_error(502, f"its answer has more than {REPLY_BYTES} bytes")
    return bytes(data)


async def read_lines(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The lines of a stream. Only CR and LF end a line of server-sent events: U+2028 and others are text, which JSON may
    have as they are. A line that does not end is refused before it is in memory."""
    rest = bytearray()
    async for chunk in response.aiter_bytes():
        rest += chunk
        if b"\n" in chunk or b"\r" in chunk:
            is_open = rest.endswith(b"\r")  # the other half of CR LF may follow
            *lines, last = _LINE_END.split(bytes(rest[:-1] if is_open else rest))
            for line in lines:
                yield line
            rest = bytearray(last + (b"\r" if is_open else b""))
        if len(rest) > LINE_BYTES:
            raise UpstreamBroken(f"an event has more than {LINE_BYTES} bytes")
    for line in _LINE_END.split(bytes(rest)):
        yield line


async def read_events(response: httpx2.Response) -> AsyncIterator[Fields]:
    """The events of a stream, as JSON."""
    lines: list[bytes] = []
    size = 0
    try:
        async for line in read_lines(response):
            if line:
                size += len(line)
                if size > LINE_BYTES:
                    raise UpstreamBroken(f"an event has more than {LINE_BYTES} bytes")
                if line.startswith(b"data:"):
                    lines.append(line.removeprefix(b"data:").removeprefix(b" "))
                continue
            event = _parse_event(b"\n".join(lines))
            lines, size = [], 0
            if event is not None:
                yield event
    except httpx2.HTTPError as error:
        raise UpstreamBroken(f"its connection ended ({type(error).__name__})") from error
    event = _parse_event(b"\n".join(lines))
    if event is not None:
        yield event


def _parse_event(data: bytes) -> Fields | None:
    text = data.decode(errors="replace")
    if not text or text.strip() == "[DONE]":
        return None
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        raise UpstreamBroken("an event is not JSON") from None
    if type(event) is not dict:
        raise UpstreamBroken("an event is not a JSON object")
    if event.get("type") == "error" or (event.get("error") and "type" not in event):
        raise UpstreamBroken(describe_failure(event))
    return event
