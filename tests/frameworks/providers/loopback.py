"""A server on this machine that speaks to the clients of Gemini, Bedrock and LiteLLM: it remembers each request and answers
with the next reply of a list, as one body or as the stream that the path asks for."""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import boto3  # type: ignore[import-untyped]  # it has no types
from botocore.config import Config  # type: ignore[import-untyped]  # the same
from google import genai
from google.genai import types

EVENT_STREAM = "application/vnd.amazon.eventstream"


class ReceivedRequest(NamedTuple):
    path: str
    body: dict[str, Any]


class CutStream(NamedTuple):
    """A reply whose connection breaks within the event behind the first `whole` ones."""

    events: list[dict[str, Any]]
    whole: int


class Loopback:
    """The server, what it was sent, and what it answers: a reply, or the events of a stream."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.replies: list[Any] = []
        self.url = ""

    @property
    def last(self) -> dict[str, Any]:
        return self.requests[-1].body

    def gemini(self) -> genai.Client:
        options = types.HttpOptions(base_url=self.url, retry_options=types.HttpRetryOptions(attempts=1))
        return genai.Client(api_key="none", http_options=options)

    def bedrock(self) -> Any:
        return boto3.client(
            "bedrock-runtime",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
            config=Config(retries={"max_attempts": 0}),
        )


@contextmanager
def open_loopback() -> Iterator[Loopback]:
    loopback = Loopback()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))))
            loopback.requests.append(ReceivedRequest(self.path, body))
            reply = loopback.replies.pop(0)
            if isinstance(reply, CutStream):
                self._break_off(reply)
                return
            kind, data = encode_reply(self.path, reply)
            status = 400 if isinstance(reply, dict) and "error" in reply else 200
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _break_off(self, reply: CutStream) -> None:
            kind, _ = encode_reply(self.path, reply.events)
            parts = [encode_events(self.path, [event]) for event in reply.events[: reply.whole + 1]]
            data = b"".join([*parts[:-1], parts[-1][: len(parts[-1]) // 2]])
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
            self.close_connection = True  # without the last chunk

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    loopback.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield loopback
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def encode_reply(path: str, reply: Any) -> tuple[str, bytes]:
    if not isinstance(reply, list):
        return "application/json", json.dumps(reply).encode()
    kind = EVENT_STREAM if path.endswith("/converse-stream") else "text/event-stream"
    ending = b"data: [DONE]\n\n" if path.endswith("/chat/completions") else b""
    return kind, encode_events(path, reply) + ending


def encode_events(path: str, events: list[dict[str, Any]]) -> bytes:
    if path.endswith("/converse-stream"):
        return b"".join(encode_event(*next(iter(event.items()))) for event in events)
    names = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    return "".join(f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)).encode()


def encode_event(kind: str, payload: dict[str, Any]) -> bytes:
    """A message of an event stream of AWS."""
    fields = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in fields.items()
    )
    data = json.dumps(payload).encode()
    prelude = struct.pack(">II", len(headers) + len(data) + 16, len(headers))
    start = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + data
    return start + struct.pack(">I", zlib.crc32(start))
