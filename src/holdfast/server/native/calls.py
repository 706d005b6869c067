"""One request to the native API: who makes it, what it names, and its body.

Law: a body is read once, as JSON of at most JSON_BYTES, or as a stream that never is in memory as a whole.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import IO, Any
from urllib.parse import parse_qsl

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

import holdfast
from holdfast.access.access import Access
from holdfast.api.requests import STREAM_TYPE, decode_json
from holdfast.errors import InvalidArgument, InvalidJson, InvalidText, TooLarge
from holdfast.server.context import access_of, engine_of

JSON_BYTES = 96 << 20
"""A body of JSON: the largest image, file or entry, as base64. A larger one is sent as bytes."""
MEMORY_BYTES = 1 << 20
"""A body of bytes is in memory up to this size, and in a file beyond."""
QUERY_FIELDS = 64
"""The fields of a query."""


class Call:
    """A request, and what its path names."""

    def __init__(self, request: Request, template: str, names: Mapping[str, str]) -> None:
        self.request = request
        self.template = template
        self.names = names
        self.query = _read_query(request)

    @property
    def access(self) -> Access:
        return access_of(self.request)

    @functools.cached_property
    def engine(self) -> holdfast.AsyncEngine:
        """The engine, acting for the caller."""
        return engine_of(self.request)

    def header(self, name: str) -> str | None:
        """A header; None if there is none."""
        values = self.request.headers.getlist(name)
        if len(values) > 1:
            raise InvalidArgument(argument=name, reason="the header is there twice")
        return values[0] if values else None

    @property
    def is_streamed(self) -> bool:
        """Whether the body is bytes, not JSON."""
        kind = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        return kind == STREAM_TYPE

    async def read_json(self) -> dict[str, Any]:
        """The JSON object of the body; an empty one if there is no body."""
        data = bytearray()
        async for chunk in self.request.stream():
            data += chunk
            if len(data) > JSON_BYTES:
                raise TooLarge(
                    what="the body of the request",
                    size=len(data),
                    unit="bytes",
                    limit_name="JSON_BYTES",
                    limit=JSON_BYTES,
                    advice=f"Send large bodies as {STREAM_TYPE}.",
                )
        if not data:
            return {}
        value = decode_json(bytes(data), "the body of the request")
        if not isinstance(value, dict):
            raise InvalidJson(where="the body of the request", reason="it is not an object")
        return value

    @asynccontextmanager
    async def spool(self) -> AsyncIterator[IO[bytes]]:
        """The body as a file, read to its end first: a slow sender holds nothing but a file."""
        with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as file:
            async for chunk in self.request.stream():
                if file._rolled:  # type: ignore[attr-defined]  # on disk: a write may block
                    await anyio.to_thread.run_sync(file.write, chunk)
                else:
                    file.write(chunk)
            file.seek(0)
            yield file


def _read_query(request: Request) -> dict[str, str]:
    query: dict[str, str] = {}
    sent: bytes = request.scope["query_string"]
    try:
        pairs = parse_qsl(sent.decode(), keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS)
    except UnicodeDecodeError:
        raise InvalidText(where="the query", reason="it is not UTF-8") from None
    except ValueError:
        raise InvalidArgument(argument="query", reason=f"it has more than {QUERY_FIELDS} fields") from None
    for name, value in pairs:
        if name in query:
            raise InvalidArgument(argument=name, reason="it is in the query twice")
        query[name] = value
    return query


class Answer(Response):
    """JSON that is encoded already."""

    media_type = "application/json"
