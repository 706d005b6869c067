"""What is at the address is no server of Holdfast, or one that lies: typed errors, no hang, and the key goes nowhere."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import holdfast
from holdfast.client import watch
from holdfast.errors import InvalidServerUrl, ServerFailed
from tests.support import read_request

CALLER = b'{"tenant":"default","principal":"p","rights":["read"],"actor":null,"user":null}'
LIMIT_S = 20


class LyingServer:
    """Answers the question who the caller is, and everything else, with these bytes."""

    def __init__(self, caller: bytes, other: bytes) -> None:
        self._caller, self._other = caller, other
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = read_request(connection)
                self.requests.append(request)
                connection.sendall(self._caller if b" /api/caller " in request else self._other)

    def close(self) -> None:
        self._listener.close()


def answer(body: bytes, kind: str = "application/json", status: str = "200 OK", more: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n"
    )
    return head.encode() + body


@contextmanager
def lying(caller: bytes, other: bytes = b"") -> Iterator[LyingServer]:
    server = LyingServer(caller, other)
    threading.Thread(target=server.serve, daemon=True).start()
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"null", b'{"tenant":5}', b'{"tenant":"\xff"}', b"[" * 100_000], ids=lambda body: body[:12]
)
def test_another_answer_than_that_of_holdfast_is_an_address_of_no_server(body: bytes) -> None:
    with lying(answer(body)) as server:
        with pytest.raises(InvalidServerUrl):
            holdfast.connect(server.url, key="hf_secret", retries=0)
        with pytest.raises(InvalidServerUrl):
            asyncio.run(holdfast.connect_async(server.url, key="hf_secret", retries=0))


@pytest.mark.parametrize(
    "feed",
    [
        answer(b"<html>", "text/html"),
        answer(b"id: 1\ndata: {broken\n\n", "text/event-stream"),
        answer(b'id: 1\ndata: {"a": 1}\n\n', "text/event-stream"),
        answer(b"data: " + b"x" * 100_000, "text/event-stream"),
    ],
    ids=["page", "broken", "other", "endless"],
)
def test_a_feed_that_is_none_ends_the_watch_with_an_error(monkeypatch: pytest.MonkeyPatch, feed: bytes) -> None:
    monkeypatch.setattr(watch, "EVENT_BYTES", 50_000)

    async def follow(url: str) -> None:
        async with await holdfast.connect_async(url, retries=0) as engine:
            async for _ in engine.watch(timeout_s=LIMIT_S):
                pass

    with lying(answer(CALLER), feed) as server:
        with holdfast.connect(server.url, retries=0) as engine, pytest.raises(ServerFailed, match="cannot be read"):
            next(engine.watch(timeout_s=LIMIT_S))
        with pytest.raises(ServerFailed, match="cannot be read"):
            asyncio.run(follow(server.url))


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Moved", "308 Moved"])
def test_a_key_does_not_follow_a_redirect(status: str) -> None:
    with lying(answer(CALLER)) as elsewhere:
        moved = answer(b"", "text/plain", status, f"Location: {elsewhere.url}/api/caller\r\n")
        with lying(moved) as server, pytest.raises(InvalidServerUrl) as caught:
            holdfast.connect(server.url, key="hf_secret", retries=0)
        assert not elsewhere.requests
        assert "hf_secret" not in f"{caught.value!r} {caught.value}"
