"""Runs the contenders and takes the figures that `tables` compares."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import peer
from benchmarks.agents import workload
from benchmarks.agents.targets import EACH, Contender, Ground, Target
from benchmarks.agents.worker import KILLED
from benchmarks.harness import Bench, Sample, Samples, Turn, environment

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "benchmarks" / "agents.lock"
ENVIRONMENT = ROOT / ".venv-agents"

SIZES = (10, 100, 1_000, 10_000)
LONG, SHORT = SIZES[-1], 100
"""A long session is measured less often, since that takes some so long; a short one too, since it would not stay short."""
SLICE_S, ROUND_S, QUICK_ROUND_S = 0.2, 1.0, 0.4
"""How long a slice and a round last at most, unless one append takes longer."""
MOST_SLICES = 10
MOST_READS = 20
KILL_WITHIN_S = 0.3
SEED = 7


class Worker(peer.Peer):
    """A contender's process."""

    def __init__(self, contender: Contender, python: Path) -> None:
        self._process = subprocess.Popen(
            [python, "-P", "-m", "benchmarks.agents.worker", contender.side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, find_sources(contender)))},
        )
        self.contender = contender


class Store:
    """One store of a contender, used by its process."""

    def __init__(self, worker: Worker, ground: Ground, address: str) -> None:
        self.contender = worker.contender
        self.metered = ground.metered
        self._worker = worker
        self._ground = ground
        self._address = address

    def order(self, order: str, *arguments: object) -> Any:
        return self._worker.order(order, self._address, *arguments)

    def size(self) -> int:
        return self._ground.size(self._address)

    def append(self, unit: str, turns: int) -> Sample:
        messages, wall_s, cpu_s = self.order("append", turns, unit == EACH)
        return Sample(messages, wall_s, cpu_s, commits=messages if unit == EACH else turns)

    def read(self, kind: str, times: int) -> Sample:
        found, wall_s, cpu_s = self.order("read", kind, times)
        assert found
        return Sample(times, wall_s, cpu_s)


class Pair(msgspec.Struct, frozen=True):
    """We and one peer, in turns. The others rest meanwhile: who writes much disturbs only the own comparison."""

    reads: Samples
    appends: Samples


class SizeFindings(msgspec.Struct, frozen=True):
    """What was found with sessions of one length."""

    turns: int
    pairs: Mapping[str, Pair]
    on_disk: Mapping[str, int]
    ended_with: Mapping[str, int]


class GrowthFindings(msgspec.Struct, frozen=True):
    """Bytes at each length that was reached turn by turn, and how far it came before the time was up."""

    on_disk: Mapping[int, int]
    turns: int
    bytes: int


class Kills(msgspec.Struct, frozen=True):
    answered: int
    missing: int
    doubled: int


class Findings(msgspec.Struct, frozen=True):
    target: Target
    about: Mapping[str, Mapping[str, object]]
    sized: Sequence[SizeFindings]
    grown: Mapping[str, GrowthFindings]
    kills: Mapping[str, Kills]
    killed: int
    """How often each was."""


def collect_findings(bench: Bench, target: Target) -> Findings:
    sizes, times = SIZES[: bench.pick(4, 3)], bench.pick(20, 3)
    with start_workers(target) as workers:
        # the kills come first: a process that has opened nothing yet can fork
        kills = {each.contender.name: measure_kills(each, target.ground, times) for each in workers}
        about = {each.contender.name: read_settings(each, target.ground) for each in workers}
        rewriting = [each for each in workers if each.contender.rewrites]
        grown = {each.contender.name: grow(bench, each, target.ground, sizes) for each in rewriting}
        sized = [measure_size(bench, workers, target.ground, turns) for turns in sizes]
    return Findings(target, about, sized, grown, kills, times)


def find_sources(contender: Contender) -> list[Path]:
    """Where the process of a contender finds its modules."""
    return [ROOT] if contender.source is None else [contender.source.resolve() / "src", ROOT]


@contextmanager
def start_workers(target: Target) -> Iterator[list[Worker]]:
    theirs = environment(ENVIRONMENT, LOCK)
    with ExitStack() as stack:
        own = Path(sys.executable)
        pythons = [(each, own if each is target.ours or each.source else theirs) for each in target.contenders]
        yield [stack.enter_context(Worker(contender, python)) for contender, python in pythons]


@contextmanager
def open_stores(workers: Sequence[Worker], ground: Ground, name: str) -> Iterator[list[Store]]:
    """A new store for each, gone afterwards: some grow large."""
    addresses = [ground.make(f"{worker.contender.name}-{name}") for worker in workers]
    stores = [Store(worker, ground, address) for worker, address in zip(workers, addresses, strict=True)]
    for store in stores:
        store.order("open")
    yield stores
    for address in addresses:
        ground.drop(address)


def read_settings(worker: Worker, ground: Ground) -> Mapping[str, object]:
    """What it runs on."""
    with open_stores([worker], ground, "tried") as [store]:
        found: Mapping[str, object] = store.order("settings")
        store.order("close")
    return found


def grow(bench: Bench, worker: Worker, ground: Ground, sizes: Sequence[int]) -> GrowthFindings:
    reached, on_disk, left_s = 0, {}, float(bench.pick(20, 3))
    with open_stores([worker], ground, "grown") as [store]:
        for turns in sizes:
            done, left_s = store.order("grow", turns - reached, left_s)
            reached += done
            if reached < turns:
                break
            on_disk[turns] = store.size()
        size = store.size()
        store.order("close")
    return GrowthFindings(on_disk, reached, size)


def measure_size(bench: Bench, workers: Sequence[Worker], ground: Ground, turns: int) -> SizeFindings:
    rounds = bench.pick(3 if turns == LONG else 5, 3)
    with open_stores(workers, ground, str(turns)) as stores:
        for store in stores:
            store.order("fill", turns)
        on_disk = {store.contender.name: store.size() for store in stores}
        ours, *theirs = stores
        read = {other.contender.name: read_in_turns(bench, rounds, ours, other) for other in theirs}
        appended = {other.contender.name: append_in_turns(bench, rounds, ours, other, turns) for other in theirs}
        ended_with = {store.contender.name: store.order("close") for store in stores}
    pairs = {name: Pair(read[name], appended[name]) for name in read}
    return SizeFindings(turns, pairs, on_disk, ended_with)


def read_in_turns(bench: Bench, rounds: int, ours: Store, theirs: Store) -> Samples:
    kind = theirs.contender.reads[0]
    turns = {line_name(store.contender, kind): store.metered(read_turn(store, kind)) for store in (ours, theirs)}
    return in_turns(bench, rounds, turns, MOST_SLICES)


def append_in_turns(bench: Bench, rounds: int, ours: Store, theirs: Store, length: int) -> Samples:
    turns = {
        line_name(store.contender, unit): store.metered(append_turn(store, unit, length))
        for store in (ours, theirs)
        for unit in store.contender.units
    }
    return in_turns(bench, rounds, turns, min(length // SHORT + 1, MOST_SLICES))


def in_turns(bench: Bench, rounds: int, turns: Mapping[str, Turn], most_slices: int) -> Samples:
    """As many short slices as make a round of a bearable length: some contenders are a thousand times slower."""
    once_s = sum(turn().wall_s for turn in turns.values())
    fitting = int((QUICK_ROUND_S if bench.quick else ROUND_S) / once_s)
    return bench.in_turns(rounds, turns, slices=min(max(1, fitting), most_slices))


def line_name(contender: Contender, action: str) -> str:
    return f"{contender.name}: {action}"


def read_turn(store: Store, kind: str) -> Turn:
    times = MOST_READS if store.read(kind, 1).wall_s * MOST_READS < SLICE_S else 1
    return lambda: store.read(kind, times)


def append_turn(store: Store, unit: str, length: int) -> Turn:
    """All of the typical turns, or one at a time if a session is short or its owner slow."""
    turns = len(workload.TYPICAL)
    if length < SHORT or store.append(unit, 1).wall_s * turns > SLICE_S:
        turns = 1
    return lambda: store.append(unit, turns)


def measure_kills(worker: Worker, ground: Ground, times: int) -> Kills:
    """Killed again and again at a moment of chance, on one store; what nobody answered for is sent once more."""
    address, moments = ground.make(f"{worker.contender.name}-killed"), random.Random(SEED)
    answered: list[str] = []
    for _ in range(times):
        child = worker.order("doomed", address, len(answered))
        answered += msgspec.convert(worker.hear(), list[str])
        time.sleep(moments.uniform(0, KILL_WITHIN_S))
        os.kill(child, signal.SIGKILL)
        while (heard := worker.hear()) != KILLED:
            answered += msgspec.convert(heard, list[str])
    held = Counter(worker.order("held", address))
    ground.drop(address)
    missing = sum(mark not in held for mark in answered)
    return Kills(len(answered), missing, sum(count > 1 for count in held.values()))
