"""The fake provider: a server on real sockets that speaks the APIs of Anthropic and OpenAI, refuses what they refuse,
charges what they charge, and answers by a script.

    with FakeProvider([say("Looking.", ("ls", {})), say("Done.")]) as provider:
        anthropic.Anthropic(base_url=provider.url, api_key="none")

A reply is chosen by the turn of its line. The line is the header `x-fake-line`, else the client's id of its conversation
and sub-agent. The turn is the header `x-fake-turn`, else the number of replies that the line was given in full. Ids
follow from both and the reply. Other headers: `x-fake-fault` (see faults), `x-fake-reply` (the name of a reply in
`FakeProvider.replies`), `x-fake-time` (seconds, for the cache).
"""

from __future__ import annotations

import asyncio
import collections
import gzip
import json
import sys
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from tests.gateway.upstreams.bills import Bill, build_usage, get_prices
from tests.gateway.upstreams.caches import CacheUse, MarkCache, PrefixCache
from tests.gateway.upstreams.exchanges import Exchange, Keep
from tests.gateway.upstreams.faults import HEADER, Fault, read_fault
from tests.gateway.upstreams.http import HEAD_BYTES, Answer, serve_connection
from tests.gateway.upstreams.messages_rules import MessageRules
from tests.gateway.upstreams.openai_rules import ResponseRules, check_chat, read_json
from tests.gateway.upstreams.prompts import PromptBlock, PromptReader, Tokens
from tests.gateway.upstreams.refusals import Refusal
from tests.gateway.upstreams.replies import (
    Call,
    Names,
    Reply,
    Text,
    build_completion,
    build_message,
    build_output,
    build_response,
    read_reply,
    say,
    spell,
)
from tests.gateway.upstreams.seals import Sealer
from tests.gateway.upstreams.streams import stream_completion, stream_message, stream_response
from tests.gateway.upstreams.threads import MessageThreads

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DIALECTS = {"/messages": "anthropic", "/chat/completions": "chat", "/responses": "responses"}
ERROR_KINDS = {429: "rate_limit_error", 529: "overloaded_error", 503: "api_error", 401: "authentication_error"}
MAX_BODY = 32 << 20
HTML = b"<html>\r\n<head><title>500 Internal Server Error</title></head>\r\n<body>nginx</body>\r\n</html>\r\n"


class Ask(NamedTuple):
    """What a script is asked."""

    dialect: str
    line: str
    turn: int
    request: dict[str, Any]
    exchange: Exchange


Script: TypeAlias = Callable[[Ask], Reply] | Sequence[Reply]


class FakeProvider:
    """The server, all that has come to it, and what it has charged. It runs in a thread of its own."""

    def __init__(
        self,
        script: Script = (),
        *,
        port: int = 0,
        tokens: Tokens = "estimate",
        keep: Keep = "all",
        secret: str = "fake-provider",
        max_body: int = MAX_BODY,
        window: int | None = None,
        min_cached: int = 1_024,
    ) -> None:
        self.script = script
        self.replies: dict[str, Reply] = {}
        self.faults: collections.deque[Fault | None] = collections.deque()
        """For the next calls, in their order; None for a call without a fault."""
        self.exchanges: list[Exchange] = []
        self.bill = Bill()
        self.bills: dict[str, Bill] = collections.defaultdict(Bill)
        """By line."""
        self.clock: Callable[[], float] = time.time
        self.pages: dict[tuple[str, str], tuple[int, bytes]] = {}
        """Answers to other requests, by method and path: a status and a body."""
        self.stalled = threading.Event()
        """Set when an answer begins to stall."""
        self.sealer = Sealer(secret)
        self.rules = MessageRules(self.sealer)
        self.max_body, self.window = max_body, window
        self._response_rules = ResponseRules(self.sealer)
        self._threads = MessageThreads()
        self._reader = PromptReader(tokens)
        self._marks = MarkCache(min_cached)
        self._prefixes: dict[int, PrefixCache] = {}
        self._turns: collections.Counter[str] = collections.Counter()
        self._keep: Keep = keep
        self._port = port
        self._connections: set[asyncio.Task[None]] = set()
        self._changed = threading.Condition()

    # The thread

    def __enter__(self) -> FakeProvider:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="fake-provider", daemon=True)
        self._thread.start()
        ready.wait()
        if not self.port:
            raise OSError(f"the fake provider cannot listen on port {self._port}")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen(ready))
        finally:
            ready.set()
            self._loop.close()

    async def _listen(self, ready: threading.Event) -> None:
        self._stop, self._resume = asyncio.Event(), asyncio.Event()
        self.port = 0
        server = await asyncio.start_server(self._connect, "127.0.0.1", self._port, limit=HEAD_BYTES)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await serve_connection(reader, writer, self._begin, self._handle, self._stall, self._end)
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.discard(task)

    async def _stall(self, seconds: float) -> None:
        self._resume.clear()
        self.stalled.set()
        try:
            await asyncio.wait_for(self._resume.wait(), seconds)
        except TimeoutError:
            pass

    def resume(self) -> None:
        """Let every stalled answer go on."""
        self.stalled.clear()
        self._loop.call_soon_threadsafe(self._resume.set)

    def wait_for_calls(self, count: int, seconds: float = 30.0) -> None:
        """Wait until so many calls were answered, in full or not."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended_calls >= count, seconds):
                raise TimeoutError(f"{self._ended_calls} of {count} calls were answered")

    _ended_calls = 0

    # What it has seen

    @property
    def url(self) -> str:
        """For Anthropic clients; OpenAI clients add /v1."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[Exchange]:
        """The requests for replies, in the order of their arrival."""
        return [exchange for exchange in self.exchanges if exchange.is_call]

    @property
    def refusals(self) -> list[str]:
        return [exchange.refusal for exchange in self.exchanges if exchange.refusal]

    # Requests

    def _begin(self, method: str, target: str, headers: tuple[tuple[bytes, bytes], ...]) -> Exchange:
        exchange = Exchange(len(self.exchanges), method, target, headers)
        self.exchanges.append(exchange)
        return exchange

    def _end(self, exchange: Exchange, is_whole: bool) -> None:
        exchange.is_whole = is_whole
        if is_whole and exchange.turn >= 0:
            self._turns[exchange.line] = max(self._turns[exchange.line], exchange.turn + 1)
        if self._keep == "digests":
            exchange.forget()
        with self._changed:
            self._ended_calls += exchange.is_call
            self._changed.notify_all()

    async def _handle(self, exchange: Exchange) -> Answer:
        path = exchange.path.removeprefix("/v1")
        exchange.line = _find_line(exchange)
        dialect = DIALECTS.get(path, "anthropic" if path.startswith("/messages") else "chat")
        request_id = f"req_fake{exchange.number:08d}"
        try:
            if exchange.is_call:
                answer = self._reply(dialect, exchange)
            elif (exchange.method, path) == ("POST", "/messages/count_tokens"):
                answer = self._count(exchange)
            else:
                answer = self._answer_other(exchange, path)
        except Refusal as refusal:
            exchange.refusal = refusal.message
            self.bill.refused += 1
            self.bills[exchange.line].refused += 1
            body = spell(refusal.shape(dialect, request_id)).encode("utf-8", "surrogatepass")
            answer = Answer(refusal.status, [("Content-Type", "application/json")], body)
        name = "Request-Id" if dialect == "anthropic" else "X-Request-Id"
        answer.headers += [(name, request_id), ("Set-Cookie", "one=1; Path=/"), ("Set-Cookie", "two=2; Path=/")]
        answer.headers.append(("anthropic-ratelimit-requests-remaining", "49"))
        return answer

    def _answer_other(self, exchange: Exchange, path: str) -> Answer:
        plain = [("Content-Type", "application/json")]
        page = self.pages.get((exchange.method, exchange.path))
        if page is not None:
            return Answer(page[0], plain, page[1])
        if path == "/models" or path.startswith("/models/"):
            names = ("claude-opus-4-8", "claude-sonnet-4-5", "gpt-5.5", "gpt-5")
            rows = [{"id": name, "type": "model", "object": "model", "display_name": name} for name in names]
            value: dict[str, Any] = {"object": "list", "data": rows, "models": [], "has_more": False}
            return Answer(200, plain, spell(value if path == "/models" else rows[0]).encode())
        if path.startswith("/fake/"):
            return self._control(exchange, path.removeprefix("/fake/"))
        if exchange.method == "HEAD" or exchange.path == "/":
            return Answer(200, plain, b"")
        raise Refusal("Not found", status=404, kind="not_found_error")

    def _control(self, exchange: Exchange, what: str) -> Answer:
        """What other processes may ask and set."""
        given = json.loads(exchange.body) if exchange.body else None
        value: object = {}
        match exchange.method, what:
            case "GET", "bill":
                value = {"all": self.bill.as_dict(), "lines": {key: bill.as_dict() for key, bill in self.bills.items()}}
            case "GET", "exchanges":
                value = [each.as_dict() for each in self.exchanges if not each.path.startswith("/fake/")]
            case "POST", "script":
                self.script = [read_reply(each) for each in given or []]
            case "POST", "replies":
                self.replies.update({name: read_reply(each) for name, each in (given or {}).items()})
            case "POST", "faults":
                self.faults.extend(read_fault(each) if each else None for each in given or [])
            case "POST", "resume":
                self.resume()
            case _:
                raise Refusal("Not found", status=404, kind="not_found_error")
        return Answer(200, [("Content-Type", "application/json")], spell(value).encode())

    # Replies

    def _reply(self, dialect: str, exchange: Exchange) -> Answer:
        fault = self._choose_fault(exchange)
        self._check_credentials(dialect, exchange)
        if fault.status:
            return _fail(dialect, fault)
        request = read_json(self.decode(exchange))
        try:
            request = self._threads.expand(request) if dialect == "anthropic" else request
            items, blocks = self._read_request(dialect, exchange, request)
        except (TypeError, AttributeError, KeyError, ValueError, IndexError, RecursionError) as error:
            raise Refusal(f"Invalid request: {type(error).__name__}") from None
        self._check_window(blocks)
        ask = self._build_ask(dialect, exchange, request)
        reply = self._choose_reply(ask)
        usage = self._charge(ask, blocks, reply)
        answer = self._spell(ask, reply, usage, items)
        answer.fault = fault
        return answer

    def _read_request(
        self, dialect: str, exchange: Exchange, request: dict[str, Any]
    ) -> tuple[list[dict[str, Any]], list[PromptBlock]]:
        """The items of the Responses API, and the blocks of the prompt."""
        match dialect:
            case "anthropic":
                self.rules.check(request, _read_betas(exchange))
                return [], self._reader.read_message(request)
            case "chat":
                check_chat(request)
                return [], self._reader.read_chat(request)
            case _:
                items = self._response_rules.check(request)
                return items, self._reader.read_response(request, items)

    def _choose_fault(self, exchange: Exchange) -> Fault:
        header = exchange.get(HEADER)
        if header:
            return read_fault(header)
        return (self.faults.popleft() if self.faults else None) or Fault()

    def _check_credentials(self, dialect: str, exchange: Exchange) -> None:
        if not exchange.get("x-api-key") and not exchange.get("authorization"):
            raise Refusal("x-api-key header is required", status=401, kind="authentication_error")
        if dialect == "anthropic" and not exchange.get("anthropic-version"):
            raise Refusal("anthropic-version: header is required")

    def decode(self, exchange: Exchange) -> bytes:
        """The body of a request, without its content coding."""
        if len(exchange.body) > self.max_body:
            text = "Request exceeds the maximum size"
            raise Refusal(text, status=413, kind="request_too_large")
        encoding = exchange.get("content-encoding")
        if encoding in ("", "identity"):
            return exchange.body
        try:
            if encoding == "zstd":
                return zstd.decompress(exchange.body)
            return gzip.decompress(exchange.body) if encoding == "gzip" else zlib.decompress(exchange.body)
        except (OSError, EOFError, zlib.error, zstd.ZstdError):
            raise Refusal(f"unsupported content-encoding {encoding!r}", status=415) from None

    def _check_window(self, blocks: list[PromptBlock]) -> None:
        total = sum(block.tokens for block in blocks)
        if self.window is not None and total > self.window:
            raise Refusal(f"prompt is too long: {total} tokens > {self.window} maximum")

    def _build_ask(self, dialect: str, exchange: Exchange, request: dict[str, Any]) -> Ask:
        given = exchange.get("x-fake-turn")
        exchange.turn = int(given) if given else self._turns[exchange.line]
        return Ask(dialect, exchange.line, exchange.turn, request, exchange)

    def _choose_reply(self, ask: Ask) -> Reply:
        name = ask.exchange.get("x-fake-reply")
        if name:
            return self.replies[name]
        if callable(self.script):
            return self.script(ask)
        return self.script[ask.turn] if ask.turn < len(self.script) else say("Done.")

    def _charge(self, ask: Ask, blocks: list[PromptBlock], reply: Reply) -> dict[str, Any]:
        model = ask.request["model"]
        prices = get_prices(model)
        given = ask.exchange.get("x-fake-time")
        now = float(given) if given else self.clock()
        use: CacheUse
        if ask.dialect == "anthropic":
            use = self._marks.use(model, blocks, now)
        else:
            cache = self._prefixes.setdefault(prices.ttl_s, PrefixCache(prices.ttl_s))
            use = cache.use(model, blocks, now, bills_writes=prices.cache_write > prices.input)
        thought = output = 0
        for part in reply.parts:
            text = spell([part.name, part.args]) if isinstance(part, Call) else part.text
            count = self._reader.count(text)
            output += count
            thought += 0 if isinstance(part, Text | Call) else count
        for bill in (self.bill, self.bills[ask.line]):
            bill.charge(prices, use, output)
        ask.exchange.usage = build_usage(ask.dialect, use, output, thought)
        return ask.exchange.usage

    def _spell(self, ask: Ask, reply: Reply, usage: dict[str, Any], items: list[dict[str, Any]]) -> Answer:
        names = Names(ask.line, ask.turn, repr(reply))
        request, model = ask.request, ask.request["model"]
        is_stream = request.get("stream") is True
        match ask.dialect:
            case "anthropic":
                whole = build_message(reply, names, self.sealer, model, usage)
                if whole["content"] and whole["content"][0]["type"].endswith("thinking"):
                    self.rules.thoughtful.update(block["id"] for block in whole["content"] if "id" in block)
                self._threads.remember(request, whole)
                frames = stream_message(whole)
            case "chat":
                whole = build_completion(reply, names, model, usage)
                options = request.get("stream_options") or {}
                frames = stream_completion(whole, has_usage=bool(options.get("include_usage")))
            case _:
                has_encrypted = "reasoning.encrypted_content" in (request.get("include") or [])
                output = build_output(reply, names, self.sealer, has_encrypted=has_encrypted)
                whole = build_response(request, output, names, usage, reply.stop_reason)
                self._response_rules.remember(items, whole)
                frames = stream_response(whole)
        if not is_stream:
            body = spell(whole).encode("utf-8", "surrogatepass")
            return Answer(200, [("Content-Type", "application/json")], body)
        parts = list(frames)
        headers = [("Content-Type", "text/event-stream; charset=utf-8"), ("Cache-Control", "no-cache")]
        return Answer(200, headers, b"".join(parts), tuple(map(len, parts)))

    def _count(self, exchange: Exchange) -> Answer:
        self._check_credentials("anthropic", exchange)
        request = read_json(self.decode(exchange))
        self.rules.check(request, _read_betas(exchange), is_count=True)
        total = sum(block.tokens for block in self._reader.read_message(request))
        return Answer(200, [("Content-Type", "application/json")], spell({"input_tokens": total}).encode())


def _fail(dialect: str, fault: Fault) -> Answer:
    """The answer of a provider that cannot answer."""
    headers = [("Content-Type", "application/json")]
    if fault.retry_after:
        headers.append(("Retry-After", fault.retry_after))
    if fault.status == 500:
        return Answer(500, [("Content-Type", "text/html")], HTML, fault=fault)
    kind = ERROR_KINDS.get(fault.status, "api_error")
    refusal = Refusal("Overloaded" if fault.status == 529 else "Try again later", status=fault.status, kind=kind)
    return Answer(fault.status, headers, spell(refusal.shape(dialect, "req_fake")).encode(), fault=fault)


def _read_betas(exchange: Exchange) -> frozenset[str]:
    values = [value.decode("latin-1") for key, value in exchange.headers if key.lower() == b"anthropic-beta"]
    return frozenset(beta.strip() for value in values for beta in value.split(","))


def _find_line(exchange: Exchange) -> str:
    line = exchange.get("x-fake-line")
    if line:
        return line
    names = ("x-claude-code-session-id", "x-claude-code-agent-id", "thread-id", "session-id")
    return "/".join(filter(None, map(exchange.get, names)))
