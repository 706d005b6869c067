"""The web service of its page, behind uvicorn with several workers on one store."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2

import holdfast
from tests.docs.pages import BLOCK, ROOT
from tests.docs.test_examples import provider
from tests.provider import Provider

__all__ = ["provider"]
PAGE = ROOT / "docs" / "howto" / "web-service.md"
PATIENCE_S = 240
CONVERSATIONS = [f"c{number}" for number in range(6)]
SHARED = ("shared", "shared-too")
REPLY = "Order 4711 is at the depot."


@contextmanager
def serve_page(folder: Path) -> Iterator[str]:
    """The address of the application, in two workers that share a file."""
    blocks = [code for code, _ in BLOCK.findall(PAGE.read_text()) if "TestClient" not in code]
    (folder / "service.py").write_text("\n".join(blocks))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "service:app", "--workers", "2", "--port", str(port)]
    server = subprocess.Popen(command, cwd=folder, env={**os.environ, "STORE": "desk.db"}, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until_served(f"{address}/openapi.json")
        yield address
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def wait_until_served(url: str) -> None:
    last = time.monotonic() + PATIENCE_S
    while True:
        try:
            httpx2.get(url).raise_for_status()
        except httpx2.TransportError:
            assert time.monotonic() < last, "the server did not start"
            time.sleep(0.1)
        else:
            return


def test_several_workers_answer_each_request_once_and_those_of_a_conversation_in_turns(
    tmp_path: Path, provider: Provider
) -> None:
    with serve_page(tmp_path) as address:
        send_requests_twice(address)
        send_requests_at_once(address)
    with holdfast.open(tmp_path / "desk.db") as engine:
        for name in CONVERSATIONS:
            roles = [message.role for message in engine.session(name, actor="ada").messages()]
            assert roles == ["user", "assistant", "tool", "assistant"]
        for name in SHARED:
            messages = engine.session(name, actor="ada").messages()
            assert [message.role for message in messages] == ["user", "assistant", "tool", "assistant"] * 6
            assert len({message.text for message in messages if message.role == "user"}) == 6
        assert engine.admin.verify().ok
    assert provider.refused == []


def send_requests_twice(address: str) -> None:
    def ask(conversation: str) -> list[str]:
        headers = {"idempotency-key": f"request of {conversation}", "x-user": "ada"}
        url, body = f"{address}/conversations/{conversation}", {"text": "Where is order 4711?"}
        answers = [httpx2.post(url, json=body, headers=headers, timeout=PATIENCE_S) for _ in range(3)]
        return [answer.raise_for_status().json()["text"] for answer in answers]

    with ThreadPoolExecutor(len(CONVERSATIONS)) as pool:
        replies = list(pool.map(ask, CONVERSATIONS))
    assert replies == [[REPLY] * 3] * len(CONVERSATIONS)


def send_requests_at_once(address: str) -> None:
    """Twelve requests for two conversations in two workers: no error, and each question has its reply right behind it."""

    def ask(number: int) -> str:
        headers = {"idempotency-key": f"request {number}", "x-user": "ada"}
        body = {"text": f"{number}: where is order 4711?"}
        url = f"{address}/conversations/{SHARED[number % 2]}"
        text: str = httpx2.post(url, json=body, headers=headers, timeout=PATIENCE_S).raise_for_status().json()["text"]
        return text

    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(ask, range(12)))
    assert replies == [REPLY] * 12
