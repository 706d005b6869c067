"""The gateway as a plain ASGI application: requests for a reply pass the desk, all others go straight to their provider.

Laws: the client gets the bytes of the provider as they come. Whatever the desk does, or fails to do, a request leaves
within its deadline: as the desk prepared it, by the desk's last view, or as it came. A changed request that the provider
refuses is sent once more as it came. A client that has gone ends its request to the provider; a provider that cuts an
answer cuts it for the client. Nothing waits for a record.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from holdfast.gateway.codings import Undecodable, decode_body, encode_body
from holdfast.gateway.connections import RawHeaders, make_context
from holdfast.gateway.model import Arrival, Dialect, Outcome, PreparedRequest
from holdfast.gateway.replies import ReplyReader
from holdfast.gateway.rounds import RoundDriver, clean_reply_headers, follow_rounds
from holdfast.gateway.splitters import ReadCall, ReadReply
from holdfast.gateway.upstream import (
    UpstreamAnswer,
    UpstreamCut,
    UpstreamFailed,
    UpstreamLink,
    build_headers,
)
from holdfast.gateway.workers import WorkerPool

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
DEADLINE_S = 2.0
"""How long a request waits for the desk."""
FALL_BACK_S = 0.25
"""How long a request waits for the last view, if the desk failed."""
REQUEST_BYTES = 64 << 20
"""The largest request, before and after decoding, that the desk reads. A larger one goes straight to its provider."""
PASSED_BYTES = 64 << 10
"""How much of another request is read before it leaves; the rest follows as it comes."""
DESK_THREADS = 4
SETTLE_THREADS = 2
SETTLES = 512
"""Records that may wait for a thread. Those beyond are dropped."""
SETTLE_BYTES = 16 << 20
"""What these may keep of the requests; a single one may keep more."""
SETTLE_S = 30
"""How long records may take when the gateway ends."""
CONNECTION_KEY = "holdfast.connection"
"""Where a server keeps the connection whose `raw_headers` are the headers of the request in their own case."""
ERROR_HEADER = b"x-holdfast-error"
ROUTES: dict[bytes, Dialect] = {
    b"/v1/messages": "anthropic",
    b"/v1/chat/completions": "chat",
    b"/v1/responses": "responses",
}
REFUSALS = (400, 413)
"""Answers to a changed request after which it is sent as it came."""

_LOG = logging.getLogger(__name__)


class RequestDesk(Protocol):
    """What changes and records requests. Its calls block, and are made in threads."""

    def prepare(self, arrival: Arrival) -> PreparedRequest: ...

    def fall_back(self, arrival: Arrival) -> PreparedRequest: ...

    def settle(self, prepared: PreparedRequest, outcome: Outcome) -> None: ...

    def leave_alone(self, prepared: PreparedRequest) -> None: ...  # it does not block

    def read(self, prepared: PreparedRequest, calls: Sequence[ReadCall]) -> list[str]: ...

    def keep_reads(self, prepared: PreparedRequest, reply: ReadReply) -> None: ...


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests go, and how long they wait here."""

    anthropic_url: str = ANTHROPIC_URL
    openai_url: str = OPENAI_URL
    deadline_s: float = DEADLINE_S
    request_bytes: int = REQUEST_BYTES


class ClientGone(Exception):
    """The client closed its connection before its request was complete."""


class ClientCall(NamedTuple):
    """A request of a client, without its body."""

    method: str
    path: bytes
    query: bytes
    headers: RawHeaders
    receive: Receive
    send: Send

    def find_header(self, name: bytes) -> bytes:
        return next((value for key, value in self.headers if key.lower() == name), b"")

    @property
    def has_body(self) -> bool:
        return any(key.lower() in (b"content-length", b"transfer-encoding") for key, _ in self.headers)


class DeskExchange:
    """A request that the desk knows, and what became of it."""

    def __init__(self, prepared: PreparedRequest) -> None:
        self.prepared = prepared
        self.status = 0
        self.sent_us = time.time_ns() // 1_000
        self.was_resent = False
        self.rounds = 1
        self.reader: ReplyReader | None = None
        self.has_ended = False

    def note_end(self) -> None:
        """Note that the last byte of the answer has come."""
        self.has_ended = True


class Gateway:
    """The application. One loop runs it."""

    def __init__(self, desk: RequestDesk, options: GatewayOptions | None = None) -> None:
        self.options = options or GatewayOptions()
        self._desk = desk
        self._links: dict[str, UpstreamLink] = {}
        self._preparers = WorkerPool("gateway-prepare", DESK_THREADS)
        self._rescuers = WorkerPool("gateway-fall-back", 1)
        self._settlers = WorkerPool("gateway-settle", SETTLE_THREADS)
        self._settle_bytes = 0
        self._settle_lock = threading.Lock()
        self._calls: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        call = _read_call(scope, receive, send)
        if not call.path.startswith(b"/"):
            await send_error(call, 400, "The address of the request is not a path.", "bad-path")
            return
        if call.find_header(b"upgrade").lower() == b"websocket":
            await send_error(call, 426, "Holdfast speaks HTTP only, no WebSockets.", "no-websockets")
            return
        task = asyncio.current_task()
        assert task is not None
        self._calls.add(task)
        try:
            await self._handle(call)
        except ClientGone:
            pass
        except UpstreamCut:
            raise  # the server closes the connection, without the end of the body
        except Exception:
            _LOG.exception("A request failed in the gateway.")
            raise
        finally:
            self._calls.discard(task)

    async def open(self) -> None:
        """Make connections possible."""
        if not self._links:
            context = _make_context(self.options)
            self._links = {
                "anthropic": UpstreamLink(self.options.anthropic_url, is_versioned=False, context=context),
                "openai": UpstreamLink(self.options.openai_url, is_versioned=True, context=context),
            }

    async def close(self, settle_s: float = SETTLE_S) -> None:
        """Finish all records, and close the connections."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=1)  # they were cancelled: each has its record to hand over
        if left := await self._settlers.finish(settle_s):
            _LOG.error("%d records were not finished in time.", left)
        await self._preparers.finish(0)
        await self._rescuers.finish(0)
        for link in self._links.values():
            await link.close()
        self._links = {}

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self.open()
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _handle(self, call: ClientCall) -> None:
        dialect = ROUTES.get(call.path) if call.method == "POST" else None
        limit = self.options.request_bytes if dialect else PASSED_BYTES
        body, is_whole = await _read_body(call.receive, limit) if call.has_body else (b"", True)
        uploaded: asyncio.Event | None = None
        if not is_whole:
            uploaded = asyncio.Event()
            work = self._pass_on(call, _follow(call.receive, body, uploaded))
        elif dialect is None or len(body) > limit:
            work = self._pass_on(call, body)
        else:
            work = self._use_desk(call, dialect, body)
        del body  # nobody has it when the request has left
        await _run_watched(call, work, uploaded)

    def _select(self, call: ClientCall) -> UpstreamLink:
        """The provider of a request. Everything of OpenAI is below /v1; and there, Anthropic names its version."""
        path = call.path
        is_anthropic = path.startswith(b"/v1/messages") or bool(call.find_header(b"anthropic-version"))
        is_below = path == b"/v1" or path.startswith(b"/v1/")
        return self._links["anthropic" if is_anthropic or not is_below else "openai"]

    async def _open(
        self,
        call: ClientCall,
        body: bytes | AsyncIterator[bytes],
        *,
        has_coding: bool = True,
        is_plain: bool = False,
    ) -> UpstreamAnswer:
        """Send a request. `has_coding`: the body has the content coding that the client's headers name. `is_plain`: the
        answer is asked for without a coding."""
        link = self._select(call)
        headers = call.headers
        if is_plain:
            headers = [pair for pair in headers if pair[0].lower() != b"accept-encoding"]
        if not has_coding:
            headers = [pair for pair in headers if pair[0].lower() != b"content-encoding"]
        size = len(body) if isinstance(body, bytes) else None
        pieces = ((body,) if body else ()) if isinstance(body, bytes) else body
        return await link.open(
            call.method, link.build_target(call.path, call.query), build_headers(headers, link.host, size), pieces
        )

    async def _pass_on(self, call: ClientCall, body: bytes | AsyncIterator[bytes]) -> None:
        """Send a request as it came, and its answer."""
        try:
            answer = await self._open(call, body)
        except UpstreamFailed as error:
            await _send_failure(call, error)
            return
        del body
        await _send_answer(call, answer)

    async def _use_desk(self, call: ClientCall, dialect: Dialect, body: bytes) -> None:
        arrival = self._read_arrival(call, dialect, body)
        prepared = None if arrival is None else await self._prepare(arrival)
        if prepared is None:
            await self._pass_on(call, body)
            return
        exchange = DeskExchange(prepared)
        try:
            answer = await self._send_prepared(call, exchange, body)
            exchange.status = answer.status
            sent = prepared.body if prepared.reading is not None else b""
            prepared.drop_bodies()
            del body, arrival
            if 200 <= answer.status < 300:
                exchange.reader = ReplyReader(
                    answer.find_header(b"content-type"), answer.find_header(b"content-encoding")
                )
            if exchange.reader is not None and prepared.reading is not None and not exchange.was_resent:
                await self._send_rounds(call, exchange, sent, answer)
                return
            await _send_answer(call, answer, exchange.reader, exchange.note_end)
        except UpstreamFailed as error:
            exchange.status = 0
            await _send_failure(call, error)
        finally:
            self._settle(exchange)

    async def _send_rounds(self, call: ClientCall, exchange: DeskExchange, body: bytes, answer: UpstreamAnswer) -> None:
        """Send a reply that the gateway may take part in, with its own tool. `body` is the request as it was sent."""
        prepared, send = exchange.prepared, call.send
        kind = answer.find_header(b"content-type")
        exchange.reader = reader = ReplyReader(kind, "")
        rounds = follow_rounds(prepared.arrival.dialect, body, answer, self._make_driver(call, exchange))
        headers = clean_reply_headers(answer.headers)
        try:
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            async with contextlib.aclosing(rounds) as chunks:
                async for chunk in chunks:
                    reader.add(chunk)
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            await answer.close()
        exchange.note_end()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        await asyncio.sleep(0)  # all has left before a record takes time

    def _make_driver(self, call: ClientCall, exchange: DeskExchange) -> RoundDriver:
        prepared = exchange.prepared

        async def ask(body: bytes) -> UpstreamAnswer:
            exchange.rounds += 1
            return await self._open(call, body, has_coding=False, is_plain=True)

        async def read(calls: Sequence[ReadCall]) -> list[str]:
            try:
                return await self._preparers.run(lambda: self._desk.read(prepared, calls), self.options.deadline_s)
            except Exception as error:  # noqa: BLE001 - whatever fails here stops no reply
                _LOG.warning("A model could not read: %s.", _describe(error))
                return ["Error: this cannot be read now. Go on without it."] * len(calls)

        async def keep(reply: ReadReply) -> None:
            try:
                await self._preparers.run(lambda: self._desk.keep_reads(prepared, reply), self.options.deadline_s)
            except Exception as error:  # noqa: BLE001 - the same; later requests go without it
                _LOG.warning("What a model read could not be stored: %s.", _describe(error))

        return RoundDriver(ask, read, keep)

    def _read_arrival(self, call: ClientCall, dialect: Dialect, body: bytes) -> Arrival | None:
        """A request as the desk reads it; None if its body cannot be decoded."""
        coding = _read_coding(call)
        if coding:
            try:
                body = decode_body(coding, body, self.options.request_bytes)
            except Undecodable:
                return None
        headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in call.headers)
        return Arrival(dialect=dialect, headers=headers, body=body)

    async def _prepare(self, arrival: Arrival) -> PreparedRequest | None:
        """The request as it leaves; None if the desk has failed in every way."""
        try:
            return await self._preparers.run(lambda: self._desk.prepare(arrival), self.options.deadline_s)
        except Exception as error:  # noqa: BLE001 - whatever fails here stops no request
            _LOG.warning("A request could not be prepared: %s. It leaves by the last view.", _describe(error))
        try:
            return await self._rescuers.run(lambda: self._desk.fall_back(arrival), FALL_BACK_S)
        except Exception as error:  # noqa: BLE001 - the same
            _LOG.warning("The last view could not be used: %s. The request leaves as it came.", _describe(error))
        return None

    async def _send_prepared(self, call: ClientCall, exchange: DeskExchange, original: bytes) -> UpstreamAnswer:
        prepared = exchange.prepared
        if not prepared.is_changed:
            return await self._open(call, original)
        coding = _read_coding(call)
        encoded = encode_body(coding, prepared.body) if coding else None
        answer = await self._open(
            call, encoded or prepared.body, has_coding=encoded is not None, is_plain=prepared.reading is not None
        )
        if answer.status not in REFUSALS:
            return answer
        await answer.close()
        _LOG.warning("The provider refused a changed request with status %d. It is sent as it came.", answer.status)
        exchange.was_resent = True
        answer = await self._open(call, original)
        if answer.status in REFUSALS:  # what is wrong is not the change: the account, or a field of the client
            exchange.was_resent = False
        else:
            self._desk.leave_alone(prepared)
        return answer

    def _settle(self, exchange: DeskExchange) -> None:
        """Hand the outcome to the desk, in a thread."""
        ended_us = time.time_ns() // 1_000
        size = exchange.prepared.kept_bytes
        is_full = self._settle_bytes and self._settle_bytes + size > SETTLE_BYTES
        if self._settlers.pending >= SETTLES or is_full:
            _LOG.error("A record was dropped: %d others wait.", self._settlers.pending)
            return

        def settle() -> None:
            try:
                self._desk.settle(exchange.prepared, _build_outcome(exchange, ended_us))
            except Exception as error:  # noqa: BLE001 - the client has its reply
                _LOG.error("A reply could not be recorded: %s.", _describe(error))

        with self._settle_lock:
            self._settle_bytes += size
        self._settlers.submit(settle, series=exchange.prepared.family).add_done_callback(lambda _: self._release(size))

    def _release(self, size: int) -> None:
        """Note, in any thread, that a record is finished."""
        with self._settle_lock:
            self._settle_bytes -= size


def _make_context(options: GatewayOptions) -> ssl.SSLContext | None:
    """One TLS context for all connections, if there are any."""
    is_used = any(url.startswith("https:") for url in (options.anthropic_url, options.openai_url))
    return make_context() if is_used else None


def _describe(error: Exception) -> str:
    """An error without the values that it may quote: they are the user's."""
    return "it took too long" if isinstance(error, TimeoutError) else type(error).__name__


def _read_call(scope: Scope, receive: Receive, send: Send) -> ClientCall:
    connection = (scope.get("state") or {}).get(CONNECTION_KEY)
    headers = list(scope["headers"]) if connection is None else connection.raw_headers
    path = scope.get("raw_path") or scope["path"].encode()
    return ClientCall(scope["method"], path, scope["query_string"], headers, receive, send)


def _read_coding(call: ClientCall) -> str:
    coding = call.find_header(b"content-encoding").decode("latin-1").strip().lower()
    return "" if coding == "identity" else coding


async def _read_body(receive: Receive, limit: int) -> tuple[bytes, bool]:
    """Read a body. Returns it, or its beginning if it is longer than the limit, and whether that is all."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        piece = message.get("body", b"")
        if piece:
            pieces.append(piece)
            size += len(piece)
        if not message.get("more_body", False):
            return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), True
        if size > limit:
            return b"".join(pieces), False


async def _follow(receive: Receive, start: bytes, uploaded: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield the beginning of a body, and the rest as it comes."""
    yield start
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        if piece := message.get("body", b""):
            yield piece
        if not message.get("more_body", False):
            uploaded.set()
            return


async def _run_watched(
    call: ClientCall, work: Coroutine[Any, Any, None], uploaded: asyncio.Event | None = None
) -> None:
    """Do the work of a request until it is done or the client has gone."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_wait_for_end(call.receive, uploaded))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    if not task.cancelled():
        task.result()


async def _wait_for_end(receive: Receive, uploaded: asyncio.Event | None) -> None:
    """Wait until the client has closed its connection, or has its answer."""
    if uploaded is not None:
        await uploaded.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_answer(
    call: ClientCall,
    answer: UpstreamAnswer,
    reader: ReplyReader | None = None,
    on_end: Callable[[], None] | None = None,
) -> None:
    """Send an answer as it comes, with a copy for a reader."""
    send = call.send
    has_begun = False
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        async with contextlib.aclosing(answer.read()) as chunks:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if not has_begun:
                    has_begun = True
                    await asyncio.sleep(0)  # the first bytes leave now, however many came with them
                if reader is not None:
                    reader.add(chunk)
        if on_end is not None:
            on_end()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        await asyncio.sleep(0)  # all has left before a record takes time
    finally:
        await answer.close()


def _build_outcome(exchange: DeskExchange, ended_us: int) -> Outcome:
    read = None if exchange.reader is None else exchange.reader.finish(has_ended=exchange.has_ended)
    return Outcome(
        status=exchange.status,
        reply=None if read is None else read.reply,
        is_complete=exchange.has_ended if read is None or read.reply is None else read.is_complete,
        sent_us=exchange.sent_us,
        ended_us=ended_us,
        was_resent=exchange.was_resent,
        rounds=exchange.rounds,
    )


async def _send_failure(call: ClientCall, error: UpstreamFailed) -> None:
    _LOG.warning("A provider could not be reached: %s.", error)
    await send_error(call, 502, f"Holdfast could not reach the provider {error}. Try again.", "upstream-failed")


async def send_error(call: ClientCall, status: int, text: str, code: str) -> None:
    """Send an error of the gateway's own, in the shape of the client's provider."""
    if ROUTES.get(call.path) == "anthropic" or call.find_header(b"anthropic-version"):
        document: dict[str, Any] = {"type": "error", "error": {"type": "api_error", "message": text}}
    else:
        document = {"error": {"message": text, "type": "server_error", "param": None, "code": code.replace("-", "_")}}
    body = msgspec.json.encode(document)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (ERROR_HEADER, code.encode()),
    ]
    await call.send({"type": "http.response.start", "status": status, "headers": headers})
    await call.send({"type": "http.response.body", "body": body, "more_body": False})
