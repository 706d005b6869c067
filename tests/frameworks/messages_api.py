"""A server on this machine that speaks the Messages API, as far as Claude Code and the client of Anthropic use it, and
answers by a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[dict[str, Any]], list[dict[str, Any]]]
"""The blocks with which a request is answered."""


class FakeApi:
    """What was asked, and the address."""

    def __init__(self, script: Script, url: str) -> None:
        self.script = script
        self.url = url
        self.count = 0
        """Requests so far."""
        self.requests: list[dict[str, Any]] = []

    def asked(self, number: int) -> str:
        """A request for a reply, as text."""
        return json.dumps(self.requests[number]["messages"], ensure_ascii=False)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": args}


def results_in(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of tools that a request shows."""
    return [
        block
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


def _whole(number: int, model: str, blocks: list[dict[str, Any]]) -> dict[str, Any]:
    stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    message = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": model, "content": blocks}
    return message | {"stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 5}}


def _events(number: int, model: str, blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    has_calls = any(block["type"] == "tool_use" for block in blocks)
    usage = {"input_tokens": 1_000 + number, "output_tokens": 1, "cache_read_input_tokens": 500}
    message = {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": model, "content": []}
    yield {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}}
    for index, block in enumerate(blocks):
        if block["type"] == "tool_use":
            start, delta = (
                block | {"input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(block["input"])},
            )
        else:
            start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": "tool_use" if has_calls else "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 40 + number}}
    yield {"type": "message_stop"}


@contextmanager
def fake_api(script: Script, *, keep: bool = True) -> Iterator[FakeApi]:
    """Run the server while the block lasts. Without `keep`, it remembers no request."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one piece, or each reply waits 40 ms for an acknowledgement

        def log_message(self, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._send(200, b"", "text/plain")

        def do_GET(self) -> None:
            self._send(404, b"{}", "application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
            if "count_tokens" in self.path:
                self._send(200, b'{"input_tokens": 100}', "application/json")
                return
            if not self.path.startswith("/v1/messages"):
                self._send(404, b"{}", "application/json")
                return
            with lock:
                if keep:
                    api.requests.append(body)
                api.count = number = api.count + 1
            blocks = api.script(body)
            if not body.get("stream"):
                self._send(200, json.dumps(_whole(number, body["model"], blocks)).encode(), "application/json")
                return
            lines = "".join(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                for event in _events(number, body["model"], blocks)
            )
            self._send(200, lines.encode(), "text/event-stream")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api = FakeApi(script, f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
