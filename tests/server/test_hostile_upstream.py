"""An upstream that lies, never ends, or sends clients elsewhere: the server stays small and asks nobody else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.server.v1 import upstreams
from tests.server.native.serving import serving
from tests.support import PATIENCE_S, read_request

PIECE = b"x" * (1 << 16)
MOST_BYTES = 1 << 20
"""The limits of these tests."""
ENOUGH_BYTES = 64 << 20
"""What an upstream sends at most to a server that does not stop it."""


class RawUpstream:
    """An upstream that answers each request with bytes, and says how many it could send."""

    def __init__(self, start: bytes, piece: bytes = b"") -> None:
        self._start, self._piece = start, piece
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.requests = 0
        self.sent = 0
        self.has_ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def close(self) -> None:
        self._listener.close()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self.requests += 1
                read_request(connection)
                self._answer(connection)
            self.has_ended.set()

    def _answer(self, connection: socket.socket) -> None:
        try:
            connection.sendall(self._start)
            while self._piece and self.sent < ENOUGH_BYTES:
                connection.sendall(self._piece)
                self.sent += len(self._piece)
        except OSError:
            return


@contextmanager
def answering(start: bytes, piece: bytes = b"") -> Iterator[RawUpstream]:
    upstream = RawUpstream(start, piece)
    threading.Thread(target=upstream.serve, daemon=True).start()
    try:
        yield upstream
    finally:
        upstream.close()


def head(status: str, kind: str, *more: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", f"Content-Type: {kind}", "Connection: close", *more, "", "")).encode()


def ask(folder: Path, upstream: RawUpstream, **fields: Any) -> Any:
    with serving(folder, upstream=upstream.url, upstream_kind="openai") as api:
        body = {"model": "m", "input": "hello", **fields}
        return api.http.post(f"{api.url}/v1/responses", json=body, headers={"Authorization": f"Bearer {api.key}"})


@pytest.mark.parametrize(
    ("start", "stream"),
    [
        (head("200 OK", "text/event-stream") + b"data: ", True),
        (head("200 OK", "application/json") + b"[", False),
        (head("500 Broken", "text/plain"), False),
    ],
    ids=["line", "reply", "error"],
)
def test_an_answer_without_an_end_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: bytes, stream: bool
) -> None:
    for name in ("LINE_BYTES", "REPLY_BYTES", "ERROR_BYTES"):
        monkeypatch.setattr(upstreams, name, MOST_BYTES)
    with answering(start, PIECE) as upstream:
        answer = ask(tmp_path, upstream, stream=stream)
        assert upstream.has_ended.wait(PATIENCE_S)
    assert answer.status_code == (200 if stream else 502)
    assert not stream or "response.failed" in answer.text
    assert upstream.sent < ENOUGH_BYTES


def test_separators_that_are_text_do_not_end_a_line(tmp_path: Path) -> None:
    said = "one\u2028two\u0085three\u000b"
    escaped = said.replace("\u000b", "\\u000b")
    first = '{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"%s"}}]}'
    last = first.replace('"delta":{"content":"%s"}', '"delta":{},"finish_reason":"stop"')
    stream = f"data: {first % escaped}\r\n\r\ndata: {last}\n\ndata: [DONE]\n\n"
    with answering(head("200 OK", "text/event-stream") + stream.encode()) as upstream:
        answer = ask(tmp_path, upstream, stream=True)
    assert "response.completed" in answer.text
    assert '"text": "one\u2028two\u0085three\\u000b"' in answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_redirect_is_not_followed(tmp_path: Path, stream: bool) -> None:
    with (
        answering(head("200 OK", "application/json", "Content-Length: 2") + b"{}") as elsewhere,
        answering(head("307 Moved", "text/plain", f"Location: {elsewhere.url}", "Content-Length: 0")) as upstream,
    ):
        answer = ask(tmp_path, upstream, stream=stream)
    assert answer.status_code == 502
    assert (upstream.requests, elsewhere.requests) == (1, 0)


def test_a_number_that_is_none_is_no_failure_of_the_server(tmp_path: Path) -> None:
    message = b'{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}'
    reply = b'{"id":"c","object":"chat.completion","model":"m","choices":[%s]}' % message
    with (
        answering(head("200 OK", "application/json", f"Content-Length: {len(reply)}") + reply) as upstream,
        serving(tmp_path, upstream=upstream.url, upstream_kind="openai") as api,
    ):
        address = f"{api.url}/v1/responses"
        stored = api.http.post(address, json={"model": "m", "input": "hello"}).json()["id"]
        for text in ("²", "9" * 5_000, "-1", ""):
            assert api.http.get(f"{address}/{stored}", params={"starting_after": text}).status_code == 200
