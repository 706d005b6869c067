"""What a turn takes of a PostgreSQL server: time of its processes, transactions, and syncs of its disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
from tests.postgres_server import PostgresServer

from benchmarks.harness import Sample, Turn

WAITED_FOR = slice(13, 15)
"""Of the numbers in /proc/PID/stat after the name: ticks of children that have ended, in user and in system mode."""
FLUSHES = 15
"""Of those in /sys/dev/block/DEVICE/stat: how often its cache was written out."""


class MeterReading(NamedTuple):
    server_s: float
    transactions: int
    flushes: int


class Meter:
    """Where the kernel does not say (it does on Linux), the server's time is 0 and every commit has its own sync."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._connection = psycopg.connect(server.url(), autocommit=True)
        device = os.stat(server.folder).st_dev
        self._disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")

    def metered(self, turn: Turn) -> Turn:
        def measured() -> Sample:
            before = self._read()
            sample = turn()
            after = self._read()
            return sample_with(sample, before, after)

        return measured

    def close(self) -> None:
        self._connection.close()

    def _read(self) -> MeterReading:
        row = self._connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        assert row is not None
        flushes = int(self._disk.read_text().split()[FLUSHES]) if self._disk.exists() else 0
        return MeterReading(processor_s(self._server.pid), int(row[0]), flushes)


def sample_with(sample: Sample, before: MeterReading, after: MeterReading) -> Sample:
    """Others on the machine sync too, so no more than one is counted for a commit."""
    commits = after.transactions - before.transactions
    flushes = after.flushes - before.flushes
    shared = commits - flushes if 0 < flushes < commits else 0
    server_s = after.server_s - before.server_s
    return msgspec.structs.replace(sample, commits=commits, server_s=server_s, shared=shared)


def processor_s(pid: int) -> float:
    """Of a process and its children, those included that have ended."""
    process = Path(f"/proc/{pid}")
    if not process.exists():
        return 0.0
    ended = (process / "stat").read_text().rpartition(")")[2].split()[WAITED_FOR]
    children = (process / "task" / str(pid) / "children").read_text().split()
    return sum(map(int, ended)) / os.sysconf("SC_CLK_TCK") + sum(on_processor_s(each) for each in (str(pid), *children))


def on_processor_s(pid: str) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return 0.0
