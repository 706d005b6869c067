"""Clients and servers of `python -m benchmarks server`: connections that are kept open, and processes that answer them.

The client writes requests by hand and reads no more of an answer than its length: what is measured is the server.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from benchmarks.harness import Sample

CONNECTIONS = 16
"""Clients at the same time."""
START_S = 30


class Address(msgspec.Struct, frozen=True):
    """Where a server listens, and what it wants to see."""

    port: int
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

    def request(self, path: str, body: object) -> bytes:
        """The bytes of a POST request."""
        content = json.dumps(body).encode()
        access = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{access}"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content


class Turns:
    """What one contender did: its latencies, beside what the harness keeps."""

    def __init__(self) -> None:
        self.latencies: list[float] = []

    @property
    def p99_ms(self) -> float:
        return statistics.quantiles(self.latencies, n=100)[98] * 1_000


async def _send_all(port: int, requests: Sequence[bytes], latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for request in requests:
            start = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")), head
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            latencies.append(time.perf_counter() - start)
    finally:
        writer.close()


def measure_requests(address: Address, requests: Sequence[Sequence[bytes]], turns: Turns) -> Sample:
    """Send the requests, each list of them over a connection of its own."""
    latencies: list[float] = []

    async def run() -> None:
        await asyncio.gather(*(_send_all(address.port, each, latencies) for each in requests))

    cpu, wall = time.process_time(), time.perf_counter()
    asyncio.run(run())
    sample = Sample(len(latencies), time.perf_counter() - wall, time.process_time() - cpu)
    turns.latencies += latencies
    return sample


def measure_tasks(works: Sequence[Callable[[], Any]], runner: asyncio.Runner, turns: Turns) -> Sample:
    """The same work in this process: each coroutine function by a task of its own."""
    latencies: list[float] = []

    async def time_each(work: Callable[[], Any]) -> None:
        for step in work():
            start = time.perf_counter()
            await step
            latencies.append(time.perf_counter() - start)

    async def run() -> None:
        await asyncio.gather(*map(time_each, works))

    cpu, wall = time.process_time(), time.perf_counter()
    runner.run(run())
    sample = Sample(len(latencies), time.perf_counter() - wall, time.process_time() - cpu)
    turns.latencies += latencies
    return sample


@contextmanager
def serve_store(store: str, workers: int, folder: Path) -> Iterator[Address]:
    """`holdfast serve` with its default settings."""
    command = "import sys; from holdfast.cli import main; sys.exit(main())"
    arguments = ["serve", store, "--port", "0", "--workers", str(workers), "--json"]
    with open(folder / "server.log", "w") as log, _run([sys.executable, "-c", command, *arguments], log) as process:
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        address = Address(int(printed["url"].rpartition(":")[2]), printed["token"])
        _wait(f"{address.url}/readyz")
        yield address


@contextmanager
def serve_bare(workers: int, folder: Path) -> Iterator[Address]:
    """One Starlette route on uvicorn, which reads a JSON body and writes one."""
    port = find_port()
    command = [sys.executable, "-m", "benchmarks.server_bare", str(port), str(workers)]
    with open(folder / "bare.log", "w") as log, _run(command, log):
        _wait(f"http://127.0.0.1:{port}/")
        yield Address(port)


@contextmanager
def serve_devui(python: Path, script: Path, folder: Path) -> Iterator[Address]:
    """DevUI of the Microsoft Agent Framework, in an environment of its own."""
    port = find_port()
    with open(folder / "devui.log", "w") as log, _run([str(python), "-P", str(script), str(port), str(folder)], log):
        _wait(f"http://127.0.0.1:{port}/health")
        yield Address(port)


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _run(command: Sequence[str], log: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=dict(os.environ))
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _wait(url: str) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            if httpx2.get(url, timeout=5).status_code == 200:
                return
        except httpx2.HTTPError:
            pass
        assert time.monotonic() < end, f"{url} does not answer"
        time.sleep(0.05)
