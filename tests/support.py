"""What several tests need."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
QUICK = os.environ.get("HOLDFAST_QUICK") == "1"

SHARED_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 4 << 30 else None
"""Where files wait for no disk, if there is such a place with enough room. A killed process leaves there what it leaves in
the page cache of a disk; what power loss leaves is the matter of tests/disk.py."""

PATIENCE_S = 120
"""How long a test waits for what must come, on a machine that has much else to do. It costs nothing when it comes."""


def figure(every_push: int, full: int) -> int:
    """How often a promise is put to the test: a tenth of every push in `make quick`, at its full figure in `make soak`."""
    if SOAK or every_push <= full:
        return full if SOAK else max(1, every_push // 10) if QUICK else every_push
    return every_push  # a stride: the fewer, the more


@contextmanager
def common_folder(own: Path, name: str) -> Iterator[Path]:
    """A folder of all processes that share the tests of one run, for one of them at a time; `own` is where this one keeps
    what it makes. What is dear to make is made there once."""
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / name
    folder.mkdir(exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def read_request(connection: socket.socket) -> bytes:
    """Read an HTTP request to its end: a connection that is closed with unread bytes is reset, and its peer may lose the
    answer."""
    with connection.makefile("rb") as stream:
        head, length = b"", 0
        while (line := stream.readline()).strip():
            head += line
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        return head + line + stream.read(length)


class WeighingStore:
    """A store that passes everything on, and adds up what it is asked for: the length of each answer, 1 at least."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.answered = 0

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            answer = value(*args, **options)
            self.answered += max(1, len(answer)) if isinstance(answer, list | tuple) else 1
            return answer

        return call


class SteppingClock:
    """A clock that moves one millisecond at every look."""

    def __init__(self, start_us: int = 1_700_000_000_000_000) -> None:
        self._now_us = start_us

    def now_us(self) -> int:
        self._now_us += 1_000
        return self._now_us


class CountingIds:
    """Ids and salts that are the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def command_id(self) -> str:
        self._count += 1
        return f"{self._count:032x}"

    def salts(self, count: int) -> list[bytes]:
        self._count += count
        return [(self._count - count + each + 1).to_bytes(16, "big") for each in range(count)]

    def secret(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(32, "big")
