"""A provider of models on this machine: an HTTP server that speaks the protocols of OpenAI and Anthropic, refuses what they
refuse, and answers by a script. Beside it stands the world outside of an agent: tools that take effect once per key, and
an inbox.

Laws: a reply follows from the conversation that was sent and from nothing else, so whoever asks again gets the same words;
what the server has made (ids of calls, their arguments, signatures) must come back as it was; a request that a provider
would refuse is answered with 400 and remembered with the reason.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias

from tests.core.provider_examples import chunks, message_events, response_events
from tests.protocols import PARSED, Call, ProviderMemory, Reply, RequestRefused, Talk, format_reply

Script: TypeAlias = Callable[[Talk], Reply]
"""What a model says to a conversation."""
Tool: TypeAlias = Callable[[dict[str, Any]], Any]

PROTOCOLS = {"/v1/messages": "anthropic", "/v1/chat/completions": "chat", "/v1/responses": "responses"}
LOOPBACK = "127.0.0.1"


class ProviderRequest(NamedTuple):
    """A request for a reply."""

    protocol: str
    body: dict[str, Any]
    problem: str
    """Why it was refused; empty if it was not."""

    @property
    def spelled(self) -> str:
        return json.dumps(self.body, ensure_ascii=False, sort_keys=True)


class Effect(NamedTuple):
    """A tool that was asked to do something."""

    name: str
    key: str
    args: dict[str, Any]
    first: bool
    """It took effect now; else it had, and the answer is the one of then."""


class StreamedReply(NamedTuple):
    """A reply that is sent event by event."""

    protocol: str
    events: list[dict[str, Any]]

    @property
    def broken(self) -> bool:
        """The last of its events is not the last of a stream."""
        last = self.events[-1] if self.events else {}
        return last.get("type") not in ENDS and last.get("choices") != []


EVENTS = {"anthropic": message_events, "chat": chunks, "responses": response_events}
ENDS = ("message_stop", "response.completed", "response.incomplete")


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


class Provider:
    """The server, and all that has come to it."""

    def __init__(
        self,
        script: Script,
        tools: Mapping[str, Tool] | None = None,
        inbox: Callable[[list[Effect]], list[tuple[str, str]]] = lambda effects: [],
    ) -> None:
        """`inbox`: the messages that the user has sent by now, each under its key; it may depend on what was done."""
        self._script = script
        self._tools = tools or {}
        self._inbox = inbox
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._made = ProviderMemory()
        self._done: dict[str, Any] = {}
        self.weather: Callable[[dict[str, Any]], int] = lambda body: 0
        """The status with which a request is turned away before it is read; 0 for none."""
        self.patience: Callable[[], int | None] = lambda: None
        """After how many events of a stream the line breaks; None for never."""
        self.delay: Callable[[dict[str, Any]], float] = lambda body: 0
        """For how many seconds a request is not answered."""
        self.drips: float = 0
        """The seconds between two bytes of a reply; 0 for all at once."""
        self.spelling: Callable[[bytes], bytes] = lambda data: data
        """What becomes of the bytes of a reply."""
        self.embed: Callable[[str], list[float]] = lambda text: [float(len(text)), 1.0]
        """The vector of a text."""
        self.over = threading.Event()
        """Nobody is kept waiting any more."""
        self.keep_alive = True
        """A connection serves several requests; else it ends with its reply, so that nobody has to close a client."""
        self.asked: list[ProviderRequest] = []
        self.effects: list[Effect] = []

    @property
    def refused(self) -> list[str]:
        return [each.problem for each in self.asked if each.problem]

    def answer(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        """What stands at a path, and its status."""
        with self._lock:
            if path in PROTOCOLS:
                status = self.weather(body)
                if status:
                    return status, {"type": "error", "error": {"type": "api_error", "message": "try again"}}
                return self._reply(PROTOCOLS[path], headers, body)
            if path == "/v1/embeddings":
                status = self.weather(body)
                return (status, {"error": {"message": "try again"}}) if status else self._embed(body)
            if path == "/inbox":
                return 200, self._inbox(self.effects)
            if path.startswith("/tools/"):
                return 200, self._act(path.removeprefix("/tools/"), headers.get("idempotency-key") or "", body)
        return 404, {"error": f"nothing is at {path}"}

    def _reply(self, protocol: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        try:
            _check_headers(protocol, headers)
            talk = PARSED[protocol](body, self._made)
        except RequestRefused as refused:
            self.asked.append(ProviderRequest(protocol, body, str(refused)))
            error = {"type": "invalid_request_error", "message": str(refused)}
            return 400, {"type": "error", "error": error} if protocol == "anthropic" else {"error": error}
        self.asked.append(ProviderRequest(protocol, body, ""))
        reply = self._script(talk)
        number = next(self._numbers)
        prefix = "toolu" if protocol == "anthropic" else "call"
        calls = [
            Call(f"{prefix}_{number:04}_{place}", name, args, json.dumps(args))
            for place, (name, args) in enumerate(reply.calls)
        ]
        for call in calls:
            self._made.calls[call.id] = (call.name, call.raw)
        sealed = _seal(reply.thought)
        if reply.thought:
            self._made.thoughts[sealed] = reply.thought
            self._made.reasoned.add(f"{number:04}")
        whole = format_reply(protocol, number, body, reply, calls, sealed)
        if body.get("stream") is not True:
            return 200, whole
        return 200, StreamedReply(protocol, list(EVENTS[protocol](whole, _halves))[: self.patience()])

    def _embed(self, body: dict[str, Any]) -> tuple[int, Any]:
        """Vectors in base64 or as numbers, last text first: whoever asks has to look at their index."""
        texts = body["input"]
        known = {"input", "model", "encoding_format", "dimensions"}
        problem = "" if {*body} <= known and texts and all(texts) else "input: must not be empty"
        self.asked.append(ProviderRequest("embeddings", body, problem))
        if problem:
            return 400, {"error": {"type": "invalid_request_error", "message": problem}}
        data = [{"object": "embedding", "index": at, "embedding": self.embed(text)} for at, text in enumerate(texts)]
        usage = {"prompt_tokens": sum(map(len, texts)) // 4, "total_tokens": sum(map(len, texts)) // 4}
        return 200, {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}

    def _act(self, name: str, key: str, args: dict[str, Any]) -> Any:
        known = bool(key) and key in self._done
        self.effects.append(Effect(name, key, args, not known))
        if known:
            return self._done[key]
        outcome = self._tools[name](args)
        if key:
            self._done[key] = outcome
        return outcome


def _seal(thought: str) -> str:
    return f"sealed-{hashlib.sha256(thought.encode()).hexdigest()[:32]}" if thought else ""


def _check_headers(protocol: str, headers: Mapping[str, str]) -> None:
    if not headers.get("authorization") and not headers.get("x-api-key"):
        raise RequestRefused("authentication: no key was sent")
    if protocol == "anthropic" and not headers.get("anthropic-version"):
        raise RequestRefused("anthropic-version: the header is missing")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._serve({})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        body = self.rfile.read(length)
        if len(body) < length:  # whoever asked has died over it
            self.close_connection = True
        else:
            self._serve(json.loads(body))

    def _serve(self, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, answer = self.server.provider.answer(self.path, headers, body)
        if isinstance(answer, StreamedReply):
            self._stream(answer)
            return
        provider = self.server.provider
        if (seconds := provider.delay(body)) and not provider.over.wait(seconds):
            self.close_connection = True
        data = provider.spelling(json.dumps(answer).encode())
        self._begin(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if not provider.drips:
            self.wfile.write(data)
            return
        for at in range(len(data)):
            self.wfile.write(data[at : at + 1])
            self.wfile.flush()
            if provider.over.wait(provider.drips):
                self.close_connection = True
                return

    def _begin(self, status: int) -> None:
        self.send_response(status)
        if not self.server.provider.keep_alive:
            self.send_header("connection", "close")

    def _stream(self, answer: StreamedReply) -> None:
        self._begin(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in answer.events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self._chunk(f"{name}data: {json.dumps(event)}\n\n".encode())
        if answer.broken:
            self.close_connection = True
            return
        if answer.protocol == "chat":
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_said: Any) -> None:
        """Nobody reads it."""


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, provider: Provider) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.provider = provider
        self.trouble: list[BaseException] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may be dead by now; all else is trouble."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            self.trouble.append(error)


@contextmanager
def serve_provider(provider: Provider) -> Iterator[str]:
    """The address at which it can be asked. It is left when whoever asked has hung up."""
    server = _Server(provider)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="provider")
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        provider.over.set()
        server.shutdown()
        thread.join()
        server.server_close()
        for error in server.trouble:
            raise error
