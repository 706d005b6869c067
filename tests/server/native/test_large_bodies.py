"""A large result over HTTP: a server takes and sends it in pieces, in little memory."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.server.native.serving import PATIENCE_S, TOKEN

pytestmark = pytest.mark.promise(12, "a 100 MB tool result in 64 MB")
PIECES = 100
PIECE_BYTES = 1 << 20
MOST_BYTES = 64 << 20
SERVER = """
import socket, sys
import uvicorn
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings

app = build_app(ServerSettings(store=sys.argv[1], token=sys.argv[2], background=False))
uvicorn.run(app, port=int(sys.argv[3]), log_level="warning")
"""


def pieces() -> Iterator[bytes]:
    """Bytes that do not compress."""
    for number in range(PIECES):
        yield hashlib.shake_128(number.to_bytes(4, "big")).digest(PIECE_BYTES)


def read_peak(process: int) -> int:
    """The most memory that a process had, in bytes."""
    [line] = [each for each in Path(f"/proc/{process}/status").read_text().splitlines() if each.startswith("VmHWM")]
    return int(line.split()[1]) * 1_024


def start_server(folder: Path) -> tuple[subprocess.Popen[bytes], httpx2.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder / "agent.db"), TOKEN, str(port)], env=os.environ
    )
    headers = {"Authorization": f"Bearer {TOKEN}"}
    client = httpx2.Client(base_url=f"http://127.0.0.1:{port}/api", headers=headers, timeout=PATIENCE_S)
    last = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.get("/sessions").raise_for_status()
        except httpx2.TransportError:
            assert time.monotonic() < last, "the server did not start"
            time.sleep(0.05)
        else:
            return process, client


def test_a_result_of_100_mb_takes_64_mb(tmp_path: Path) -> None:
    digest = hashlib.sha256()
    for piece in pieces():
        digest.update(piece)
    process, client = start_server(tmp_path)
    try:
        client.post("/sessions", json={"session": "s"}).raise_for_status()
        calls = {"message": "assistant", "tool_calls": [{"name": "cat"}]}
        call = client.post("/sessions/s/messages", json=calls).json()["tool_calls"][0]["id"]
        before = read_peak(process.pid)
        headers = {"Content-Type": "application/octet-stream", "Idempotency-Key": "k"}
        stored = client.post(f"/sessions/s/calls/{call}/result", content=pieces(), headers=headers)
        message = stored.raise_for_status().json()
        [part] = message["tool_results"][0]["content"]
        assert (part["ref"]["digest"], part["ref"]["size"]) == (digest.hexdigest(), PIECES * PIECE_BYTES)
        received = hashlib.sha256()
        with client.stream("GET", f"/sessions/s/handles/h{message['seq']}_0/content") as answer:
            for chunk in answer.iter_bytes():
                received.update(chunk)
        assert received.digest() == digest.digest()
        assert read_peak(process.pid) - before <= MOST_BYTES
    finally:
        client.close()
        process.terminate()
        process.wait()
