"""The connections to a server: a pool that blocks, and one for each event loop. Only here something is sent.

Laws: a request has a bounded time. The key is in the header of requests and nowhere else: no text of this module has it.
Threads share the connections; a forked process opens its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import CoroutineType
from typing import Any, NamedTuple, TypeVar

import httpx2

from holdfast.api.requests import API
from holdfast.client.exchanges import (
    FIRST_FAILURE,
    Download,
    Pause,
    RemoteFlow,
    RemoteRequest,
    RemoteResponse,
    Unanswered,
    Upload,
    attempts,
    read_failure,
)
from holdfast.errors import InvalidArgument, ServerUnreachable, StoreClosed
from holdfast.flows.effects import OutsideCall, call_function
from holdfast.runtime.driver import COROUTINE_REASON

T = TypeVar("T")
MAX_CONNECTIONS = 100
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
"""The server cannot have such a request."""


class ServerAddress(NamedTuple):
    """Where a server is, and how it is asked."""

    url: str
    """Without a slash at the end, a user, a password or a key."""
    headers: dict[str, str]
    timeout_s: float
    retries: int

    def __repr__(self) -> str:
        return f"<ServerAddress {self.url}>"


class _Pool:
    """What both worlds share: how a request becomes one of the HTTP library, and errors of it ours."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.is_closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address.url}>"

    def _options(self) -> dict[str, Any]:
        return {
            "headers": self.address.headers,
            "timeout": httpx2.Timeout(self.address.timeout_s),
            "limits": httpx2.Limits(max_connections=MAX_CONNECTIONS),
            "trust_env": not self.address.url.startswith("http:"),  # no proxy between a program and its own machine
        }

    def _check_open(self) -> None:
        if self.is_closed:
            raise StoreClosed(what=f"The connection to {self.address.url}")

    def _build(self, request: RemoteRequest, silence_s: float | None = None) -> dict[str, Any]:
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = request.media_type
        read_s = silence_s or self.address.timeout_s
        return {
            "method": request.verb,
            "url": f"{self.address.url}{API}{_keep_dots(request.path)}",
            "params": request.query or None,
            "headers": headers,
            "timeout": httpx2.Timeout(self.address.timeout_s, read=read_s),
        }

    def _explain(self, error: Exception) -> Unanswered:
        """A failure of the connection. Its text names no header."""
        if isinstance(error, httpx2.TimeoutException):
            reason = f"no answer within {self.address.timeout_s:g} seconds"
        else:
            reason = str(error) or type(error).__name__
        return Unanswered(reason, was_sent=not isinstance(error, _UNSENT))


def _keep_dots(path: str) -> str:
    """A path in which a name that is a dot or two is a name: URLs without this would be shortened."""
    if "/." not in path:
        return path
    return "/".join(each.replace(".", "%2E") if each in (".", "..") else each for each in path.split("/"))


class BlockingPool(_Pool):
    """The connections of threads."""

    def __init__(self, address: ServerAddress) -> None:
        super().__init__(address)
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None
        self._process = 0

    @property
    def client(self) -> httpx2.Client:
        self._check_open()
        if self._process != os.getpid():  # the connections of the parent are not ours: leave them open
            self._lock, self._client, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(**self._options())
            return self._client

    def close(self) -> None:
        self.is_closed = True
        client, self._client = self._client, None
        if client is not None and self._process == os.getpid():
            client.close()

    def __call__(self, flow: RemoteFlow[T], /) -> T:
        """Carry out what a flow asks for, and block at every step."""

        def carry_out(effect: object) -> Any:
            if isinstance(effect, RemoteRequest):
                return self._exchange(effect)
            if isinstance(effect, Pause):
                return time.sleep(effect.seconds)
            if isinstance(effect, Download):
                return self._download(effect)
            assert isinstance(effect, OutsideCall), "a remote flow asks for nothing else"
            answer = call_function(effect.function)
            if isinstance(answer, CoroutineType):
                answer.close()
                raise InvalidArgument(argument="function", reason=COROUTINE_REASON)
            return answer

        return _run(flow, carry_out)

    def _exchange(self, request: RemoteRequest) -> RemoteResponse:
        def carry_out(step: object) -> RemoteResponse | None:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                return None
            return self._send(request)

        return _run(attempts(request, self.address.url, self.address.retries), carry_out)

    def _send(self, request: RemoteRequest) -> RemoteResponse:
        content = request.body.open() if isinstance(request.body, Upload) else request.body
        client = self.client
        try:
            answer = client.request(**self._build(request), content=content)
        except httpx2.HTTPError as error:
            raise self._explain(error) from error
        return RemoteResponse(answer.status_code, answer.headers, answer.content)

    @contextmanager
    def stream(self, request: RemoteRequest, silence_s: float | None = None) -> Iterator[httpx2.Response]:
        """Send a request whose answer is read piece by piece, with at most `silence_s` seconds between two pieces. It is
        not sent again."""
        client, built = self.client, self._build(request, silence_s)
        try:
            with client.stream(**built) as answer:
                if answer.status_code >= FIRST_FAILURE:
                    answer.read()
                    raise read_failure(
                        RemoteResponse(answer.status_code, answer.headers, answer.content), self.address.url
                    )
                yield answer
        except httpx2.HTTPError as error:
            raise ServerUnreachable(server=self.address.url, reason=str(self._explain(error))) from error

    def _download(self, wanted: Download) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        with self.stream(wanted.request) as answer, open(wanted.path, "wb") as file:
            for chunk in answer.iter_bytes():
                digest.update(chunk)
                size += file.write(chunk)
        return digest.hexdigest(), size


def _run(steps: Generator[Any, Any, T], carry_out: Callable[[Any], Any]) -> T:
    try:
        step = next(steps)
        while True:
            try:
                answer = carry_out(step)
            except BaseException as error:  # noqa: BLE001 - the flow may handle it
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


class AwaitedPool(_Pool):
    """The connections of event loops: each has its own."""

    def __init__(self, address: ServerAddress) -> None:
        super().__init__(address)
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def client(self) -> httpx2.AsyncClient:
        self._check_open()
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx2.AsyncClient(**self._options())
        return self._clients[loop]

    async def close(self) -> None:
        self.is_closed = True
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def __call__(self, flow: RemoteFlow[T], /) -> T:
        """Carry out what a flow asks for, awaited."""

        async def carry_out(effect: object) -> Any:
            if isinstance(effect, RemoteRequest):
                return await self._exchange(effect)
            if isinstance(effect, Pause):
                return await asyncio.sleep(effect.seconds)
            if isinstance(effect, Download):
                return await self._download(effect)
            assert isinstance(effect, OutsideCall), "a remote flow asks for nothing else"
            if inspect.iscoroutinefunction(effect.function):
                answer = await effect.function()
            else:
                answer = await asyncio.to_thread(call_function, effect.function)
            return await answer if inspect.isawaitable(answer) else answer

        return await _run_async(flow, carry_out)

    async def _exchange(self, request: RemoteRequest) -> RemoteResponse:
        async def carry_out(step: object) -> RemoteResponse | None:
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                return None
            return await self._send(request)

        return await _run_async(attempts(request, self.address.url, self.address.retries), carry_out)

    async def _send(self, request: RemoteRequest) -> RemoteResponse:
        content: Any = request.body
        if isinstance(request.body, Upload):
            chunks = request.body.open()
            content = chunks if isinstance(chunks, AsyncIterator) else _iterate_in_thread(chunks)
        client = self.client
        try:
            answer = await client.request(**self._build(request), content=content)
        except httpx2.HTTPError as error:
            raise self._explain(error) from error
        return RemoteResponse(answer.status_code, answer.headers, answer.content)

    @asynccontextmanager
    async def stream(self, request: RemoteRequest, silence_s: float | None = None) -> AsyncIterator[httpx2.Response]:
        """Send a request whose answer is read piece by piece, with at most `silence_s` seconds between two pieces. It is
        not sent again."""
        client, built = self.client, self._build(request, silence_s)
        try:
            async with client.stream(**built) as answer:
                if answer.status_code >= FIRST_FAILURE:
                    await answer.aread()
                    raise read_failure(
                        RemoteResponse(answer.status_code, answer.headers, answer.content), self.address.url
                    )
                yield answer
        except httpx2.HTTPError as error:
            raise ServerUnreachable(server=self.address.url, reason=str(self._explain(error))) from error

    async def _download(self, wanted: Download) -> tuple[str, int]:
        digest, size = hashlib.sha256(), 0
        file = await asyncio.to_thread(open, wanted.path, "wb")
        try:
            async with self.stream(wanted.request) as answer:
                async for chunk in answer.aiter_bytes():
                    digest.update(chunk)
                    size += await asyncio.to_thread(file.write, chunk)
        finally:
            await asyncio.to_thread(file.close)
        return digest.hexdigest(), size


async def _run_async(steps: Generator[Any, Any, T], carry_out: Callable[[Any], Coroutine[Any, Any, Any]]) -> T:
    try:
        step = next(steps)
        while True:
            try:
                answer = await carry_out(step)
            except BaseException as error:  # noqa: BLE001 - the flow may handle it
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _iterate_in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The chunks of a body that blocks."""
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk
