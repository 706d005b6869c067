"""What the official clients of OpenAI and Anthropic have in common: their errors, their bodies, and when to close them.

Laws: the time of a request is over when it is over, also if the server sends a byte now and then. A reply of any size takes
a bounded amount of memory. The clients themselves do not retry: a retry has to know the time that is left.
"""

from __future__ import annotations

import asyncio
import importlib
import threading
import time
import weakref
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import msgspec

from holdfast.errors import ExtraMissing, ModelRejected, ModelTimeout, ModelUnavailable
from holdfast.models.model import ServerFailure

REPLY_BYTES = 32 << 20
"""The most bytes of a reply."""
RETRY_AFTER_S = 60.0
"""The longest pause that a server can ask for; a longer one is not waited for."""
NO_KEY = "none"
"""The key for a server of one's own, which asks for none."""
_BUSY = (408, 409, 425, 429)
"""Statuses that tell a client to come again; so do all from 500 on."""
_FORMAT = (400, 415, 422, 501)
"""Statuses with which servers refuse a field that they do not know."""


def import_extra(name: str, what: str, extra: str) -> ModuleType:
    """A package of an extra, imported at its first use."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExtraMissing(what=what, extra=extra) from error


class ClientHolder:
    """The clients of one server: one that blocks, and one for each event loop. A client of the caller is never closed."""

    def __init__(self, build: Callable[[], Any], build_async: Callable[[], Any], own: Any, own_async: Any) -> None:
        self._build, self._build_async = build, build_async
        self._own, self._own_async = own, own_async
        self._lock = threading.Lock()
        self._client: Any = None
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()

    @property
    def client(self) -> Any:
        if self._own is not None:
            return self._own.with_options(max_retries=0)
        with self._lock:
            self._client = self._client or self._build()
            return self._client

    @property
    def async_client(self) -> Any:
        """The client of the running event loop: connections belong to a loop."""
        if self._own_async is not None:
            return self._own_async.with_options(max_retries=0)
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._build_async()
        return self._clients[loop]

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    async def close_async(self) -> None:
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


def open_clients(
    library: Any, names: tuple[str, str], base_url: str | None, api_key: str | None, client: Any, async_client: Any
) -> ClientHolder:
    """Clients that are made when they are needed. A server of one's own needs no key."""
    given: dict[str, Any] = {} if base_url is None else {"base_url": base_url, "api_key": NO_KEY}
    given |= {} if api_key is None else {"api_key": api_key}
    blocking, awaited = names
    return ClientHolder(
        lambda: getattr(library, blocking)(**given, max_retries=0),
        lambda: getattr(library, awaited)(**given, max_retries=0),
        client,
        async_client,
    )


@contextmanager
def translated_errors(library: ModuleType, model: str) -> Iterator[None]:
    """Raise the errors of an official client as failures of the server."""
    try:
        yield
    except Exception as error:
        failure = translate_error(library, error, model)
        if failure is None:
            raise
        raise failure from error


def translate_error(library: ModuleType, error: Exception, model: str) -> ServerFailure | None:
    """The failure that an error of an official client means; None for an error of the program."""
    if isinstance(error, library.APITimeoutError):
        return ServerFailure(ModelTimeout(model=model, reason="its time is over"))
    if isinstance(error, library.APIConnectionError):
        return ServerFailure(ModelUnavailable(model=model, reason="its server cannot be reached"), is_busy=True)
    if isinstance(error, library.APIStatusError):
        status: int = error.status_code
        reason = f"status {status}: {error.message}"
        if status in _BUSY or (status >= 500 and status not in _FORMAT):
            headers = error.response.headers
            busy = ModelUnavailable(model=model, reason=reason)
            after_s = _read_seconds(headers.get("retry-after"))
            return ServerFailure(busy, is_busy=after_s <= RETRY_AFTER_S, retry_after_s=after_s)
        return ServerFailure(ModelRejected(model=model, reason=reason), is_format=status in _FORMAT)
    if isinstance(error, _transport_errors(library)):
        return ServerFailure(ModelUnavailable(model=model, reason="its reply was broken off"), is_busy=True)
    base: type[Exception] = getattr(library, "OpenAIError", None) or library.AnthropicError
    if isinstance(error, base):
        return ServerFailure(ModelRejected(model=model, reason=str(error)))
    return None


def _transport_errors(library: ModuleType) -> tuple[type[Exception], ...]:
    """The errors of the HTTP library under the client while a body is read; the client does not translate these."""
    kind: Any = library.Timeout
    found: list[type[Exception]] = []
    for base in kind.__mro__:
        errors = getattr(importlib.import_module(base.__module__.split(".")[0]), "TransportError", None)
        found += [errors] if isinstance(errors, type) else []
    return tuple(found)


def _read_seconds(text: object) -> float:
    try:
        return max(0.0, float(str(text)))
    except ValueError:
        return 0.0


class BodyReader:
    """Collects the bytes of a reply, within its time and its size."""

    def __init__(self, model: str, deadline_s: float) -> None:
        self._model, self._deadline_s = model, deadline_s
        self._body = bytearray()

    def _add(self, chunk: bytes) -> None:
        if time.monotonic() > self._deadline_s:
            raise ServerFailure(ModelTimeout(model=self._model, reason="its time is over"))
        self._body += chunk
        if len(self._body) > REPLY_BYTES:
            raise ServerFailure(
                ModelRejected(model=self._model, reason=f"its reply has more than {REPLY_BYTES:,} bytes")
            )

    def read(self, chunks: Iterable[bytes]) -> dict[str, Any]:
        for chunk in chunks:
            self._add(chunk)
        return self._decode()

    async def read_async(self, chunks: AsyncIterable[bytes]) -> dict[str, Any]:
        async for chunk in chunks:
            self._add(chunk)
        return self._decode()

    def _decode(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(bytes(self._body), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            reason = "its server sent something that is not the JSON of a reply"
            raise ServerFailure(ModelUnavailable(model=self._model, reason=reason)) from error


def text_of(value: object) -> str:
    """A text field of a reply; servers send what they like."""
    return value if type(value) is str else ""


def fields_of(value: object) -> dict[str, Any]:
    return value if type(value) is dict else {}


def list_of(value: object) -> list[Any]:
    return value if type(value) is list else []
