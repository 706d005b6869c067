"""Servers in processes of their own, for tests that stop and kill them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx2
import msgspec

from holdfast.server.settings import ServerSettings
from tests.support import PATIENCE_S


class ServerProcess:
    """A running server: its address, its token, its processes and its log."""

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self._log = log
        first = process.stdout.readline().split()
        assert first, f"the server did not start: {self.read_log()}"
        self.port = int(first[0])
        self.token = first[1] if len(first) > 1 else ""
        self.url = f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def client(self, **options: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers=self.headers, **{"timeout": PATIENCE_S, **options})

    def async_client(self, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers=self.headers, **{"timeout": PATIENCE_S, **options})

    def workers(self) -> list[int]:
        return find_workers(self.process.pid)

    def wait_until_ready(self) -> None:
        def is_over() -> bool:
            assert self.process.poll() is None, f"the server has ended: {self.read_log()}"
            return is_ready(self.url)

        wait_for(is_over, "the server is not ready")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal to the server, and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def read_log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read_log().splitlines()]


def find_workers(parent: int) -> list[int]:
    """The processes that serve: the server itself, or its children."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in children if b"spawn_main" in _read_command(int(pid))] or [parent]


def _read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", timeout=PATIENCE_S).status_code == 200
    except httpx2.HTTPError:
        return False


def wait_for(condition: Callable[[], bool], message: str, seconds: float = PATIENCE_S) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, message
        time.sleep(0.02)


@contextmanager
def serving(settings: ServerSettings, **environment: str) -> Iterator[ServerProcess]:
    """Run a server with the routes of `workload` in processes of its own, while the block runs."""
    settings = msgspec.structs.replace(settings, port=0)
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.workload", msgspec.json.encode(settings).decode()],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **environment},
        )
        try:
            server = ServerProcess(process, log)
            server.wait_until_ready()
            yield server
        finally:
            workers = find_workers(process.pid) if process.poll() is None else []
            process.kill()
            process.wait()
            for pid in workers:
                _kill(pid)
            assert process.stdout is not None
            process.stdout.close()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
