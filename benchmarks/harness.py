"""How things are measured: in turns, on one folder, with the cost of an fsync taken beside them.

A figure of its own says little on a shared machine. So the contenders of a benchmark take turns, in reversed order every
other time, and what is compared are the figures of one round.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")

FSYNC = "fsync"
FSYNC_TRIES = 10
SATURATED = 0.5
"""The share of its time from which on a limit counts as met. Below, others on the machine had the rest."""
FULL = 0.8
"""The share of all cores from which on they count as busy: a client and its server take turns, and wait in between."""
PAGE = bytes(4096)


class Sample(msgspec.Struct, frozen=True):
    """One turn: how much was done and what it took. CPU time is that of all the processes that did the work."""

    operations: int
    wall_s: float
    cpu_s: float
    commits: int = 0
    server_s: float = 0.0
    """CPU time of the server that was asked, if there is one."""
    shared: int = 0
    """Commits that needed no sync of their own."""

    @classmethod
    def total(cls, samples: Sequence[Sample]) -> Sample:
        return cls(
            sum(sample.operations for sample in samples),
            sum(sample.wall_s for sample in samples),
            sum(sample.cpu_s for sample in samples),
            sum(sample.commits for sample in samples),
            sum(sample.server_s for sample in samples),
            sum(sample.shared for sample in samples),
        )

    @property
    def each_us(self) -> float:
        return self.wall_s / self.operations * 1e6

    @property
    def rate(self) -> float:
        return self.operations / self.wall_s

    @property
    def batch(self) -> float:
        return self.operations / self.commits if self.commits else 1.0


Turn = Callable[[], Sample]
Samples = Mapping[str, Sequence[Sample]]


class Spread(msgspec.Struct, frozen=True):
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.low:.2f}–{self.high:.2f})"


class Bench(msgspec.Struct, frozen=True):
    """Where and how thoroughly to measure."""

    folder: Path
    quick: bool
    data: Path = Path("../shared/data")
    """Recorded sessions and dialogues; nothing here ships them."""
    samples: Path | None = None
    """Where to write samples to read, for benchmarks that have some."""
    picture: Path | None = None
    """Where to write a picture, for benchmarks that draw one."""
    source: Path | None = None
    """Another checkout of Holdfast to compare with, for benchmarks that can."""
    table: Path | None = None
    """Where to write a page with the figures, for benchmarks that have one."""
    keep: Path | None = None
    """Where finished parts are kept, and taken from, for benchmarks that take long."""

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def file(self, name: str) -> Path:
        return self.folder / name

    def in_turns(self, rounds: int, turns: Mapping[str, Turn], *, slices: int = 1) -> dict[str, list[Sample]]:
        """Rounds of `slices` turns for each contender, summed up, after one turn each that does not count.

        Short turns make a noisy neighbour disturb all contenders alike; long rounds hold what comes now and then, such
        as a checkpoint."""
        contenders = dict(turns) | {FSYNC: lambda: measure_fsyncs(self.folder)}
        samples: dict[str, list[Sample]] = {name: [] for name in contenders}
        order = list(contenders)
        for name in order:
            contenders[name]()
        for _ in range(rounds):
            taken: dict[str, list[Sample]] = {name: [] for name in contenders}
            for _ in range(slices):
                order.reverse()
                for name in order:
                    taken[name].append(contenders[name]())
            for name in order:
                samples[name].append(Sample.total(taken[name]))
        return samples


def measure_time(operations: int, work: Callable[[], object], *, commits: int = 0) -> Sample:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Sample(operations, time.perf_counter() - wall, time.process_time() - cpu, commits)


def measure_each(work: Callable[[T], object], items: Sequence[T]) -> Sample:
    """The work done on each item, each with a commit of its own."""

    def loop() -> None:
        for item in items:
            work(item)

    return measure_time(len(items), loop, commits=len(items))


def measure_fsyncs(folder: Path) -> Sample:
    """One page written in place and synced: what a commit cannot do without."""
    handle = os.open(folder / "fsync.probe", os.O_RDWR | os.O_CREAT, 0o600)
    try:

        def sync(at: int) -> None:
            os.pwrite(handle, PAGE, at)
            os.fsync(handle)

        sync(0)
        return measure_each(sync, [0] * FSYNC_TRIES)
    finally:
        os.close(handle)


def each_us(samples: Sequence[Sample]) -> Spread:
    return Spread.of([sample.each_us for sample in samples])


def rate(samples: Sequence[Sample]) -> Spread:
    return Spread.of([sample.rate for sample in samples])


def time_ratio(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Spread:
    """How many times theirs ours takes; below 1 is faster."""
    return Spread.of([a.each_us / b.each_us for a, b in zip(ours, theirs, strict=True)])


def rate_ratio(ours: Sequence[Sample], theirs: Sequence[Sample]) -> Spread:
    return Spread.of([a.rate / b.rate for a, b in zip(ours, theirs, strict=True)])


def limit_met(samples: Sequence[Sample], fsync: Sequence[Sample]) -> str:
    """What the machine had no more of: time of its processors, or syncs of its disk."""
    shares = {
        "CPU": statistics.median(sample.cpu_s / sample.wall_s for sample in samples),
        "server": statistics.median(sample.server_s / sample.wall_s for sample in samples),
        "fsync": statistics.median(
            (sample.commits - sample.shared) * probe.each_us / 1e6 / sample.wall_s
            for sample, probe in zip(samples, fsync, strict=True)
        ),
    }
    largest = max(shares, key=lambda name: shares[name])
    if shares["CPU"] + shares["server"] >= FULL * (os.cpu_count() or 1):
        bound = "all cores busy"
    else:
        bound = f"{largest}-bound" if shares[largest] >= SATURATED else "neither: it waited"
    shown = ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if name != "server" or share)
    return f"{bound} ({shown})"


def file_system(folder: Path) -> str:
    """The type of the file system that holds the folder, as the kernel names it."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    found = ("", "unknown")
    for line in mounts.read_text().splitlines():
        _, point, kind, *_ = line.split()
        if folder.resolve().is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]


def environment(folder: Path, lock: Path) -> Path:
    """The interpreter of an environment that holds what the lock file names, made anew whenever that changed."""
    python, made_from = folder / "bin" / "python", folder / "made-from.lock"
    if not made_from.exists() or made_from.read_bytes() != lock.read_bytes():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q"]
        subprocess.run([*pip, "install", "--require-hashes", "-r", lock], check=True)
        made_from.write_bytes(lock.read_bytes())
    return python
