"""One contender in a process of its own, told what to do line by line: `python -m benchmarks.agents.worker NAME`.

Each line on standard input is a JSON array, an order with its arguments; each answer is one JSON line. Standard library
only, apart from the contender itself.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from benchmarks.agents import workload
from benchmarks.agents.workload import Turn

SIDES = {
    "holdfast": "benchmarks.agents.ours:Holdfast",
    "openai-agents": "benchmarks.agents.openai_agents:OpenaiAgents",
    "langgraph": "benchmarks.agents.langgraph_sqlite:Langgraph",
    "llama-index": "benchmarks.agents.llama_memory:LlamaIndex",
}
KILLED = "killed"


class Side(Protocol):
    """One system on one file. `Any` is what it makes of a turn before the clock starts."""

    packages: tuple[str, ...]

    def __init__(self, path: str) -> None: ...

    def settings(self) -> dict[str, object]:
        """The version of SQLite, and what its own connection is set to."""

    def prepared(self, turn: Turn) -> Any: ...

    def append(self, turns: list[Any]) -> None:
        """Durably, in the largest unit that its users write at once, at most a turn."""

    def append_each(self, turns: list[Any]) -> None:
        """Durably, message by message."""

    def fill(self, turns: list[Turn]) -> None:
        """In any way that leaves what appends would leave."""

    def read(self, kind: str, times: int) -> int:
        """What goes to the model next, read as often; says how many messages that is."""

    def send(self, turn: Turn, position: int) -> list[str]:
        """One message, with the protection against a second sending that the system has; the marks it answers for."""

    def held(self) -> list[str]:
        """The marks of the whole transcript."""

    def close(self) -> None: ...


class Worker:
    def __init__(self, name: str) -> None:
        module, _, side = SIDES[name].partition(":")
        self._kind: type[Side] = getattr(importlib.import_module(module), side)
        self._sides: dict[str, Side] = {}
        self._turns: dict[str, Iterator[Turn]] = {}
        """What comes next for a file: the session itself while it is filled, typical turns while it is measured."""

    def open(self, path: str) -> dict[str, object]:
        side = self._sides[path] = self._kind(path)
        self._turns[path] = workload.turns()
        versions = {package: version(package) for package in self._kind.packages}
        return {"versions": versions, **side.settings()}

    def close(self, path: str) -> int:
        """The number of turns that it ended with."""
        self._sides.pop(path).close()
        return next(self._turns.pop(path)).number

    def fill(self, path: str, turns: int) -> int:
        """The bytes on disk afterwards."""
        self._sides[path].fill(self._next(path, turns))
        self._turns[path] = workload.typical(turns)
        return on_disk(Path(path))

    def grow(self, path: str, turns: int, budget_s: float) -> list[float]:
        """Turn by turn until there are so many or the time is up: how many, bytes, seconds that are left."""
        side, end, done = self._sides[path], time.monotonic() + budget_s, 0
        while done < turns and time.monotonic() < end:
            side.append([side.prepared(turn) for turn in self._next(path, 1)])
            done += 1
        return [done, on_disk(Path(path)), end - time.monotonic()]

    def append(self, path: str, turns: int, one_by_one: bool) -> list[float]:
        """Messages, wall seconds, seconds of the processor."""
        side, new = self._sides[path], self._next(path, turns)
        ready = [side.prepared(turn) for turn in new]
        work = side.append_each if one_by_one else side.append
        return [sum(map(len, new)), *timed(lambda: work(ready))]

    def read(self, path: str, kind: str, times: int) -> list[float]:
        found = 0

        def work() -> None:
            nonlocal found
            found = self._sides[path].read(kind, times)

        taken = timed(work)
        return [found, *taken]

    def held(self, path: str) -> list[str]:
        side = self._kind(path)
        held = side.held()
        side.close()
        return held

    def doomed(self, path: str, answered: int) -> str:
        """A child that appends until it is killed, beginning with the first message that nobody has answered for.

        It says its number first, then the marks as they are answered for. Nothing is open in this process when it forks.
        """
        child = os.fork()
        if child == 0:
            self._append_for_ever(path, answered)
        os.waitpid(child, 0)
        return KILLED

    def _append_for_ever(self, path: str, answered: int) -> None:
        say(os.getpid())
        side = self._kind(path)
        passed = 0
        for turn in workload.turns():
            if passed + len(turn) > answered:
                for position in range(max(0, answered - passed), len(turn)):
                    if answered_for := side.send(turn, position):
                        say(answered_for)
            passed += len(turn)

    def _next(self, path: str, count: int) -> list[Turn]:
        return [next(self._turns[path]) for _ in range(count)]


def timed(work: Callable[[], object]) -> list[float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return [time.perf_counter() - wall, time.process_time() - cpu]


def on_disk(path: Path) -> int:
    """The file and all that lies beside it under its name: write-ahead log, shared memory, bodies."""
    files = [each for beside in path.parent.glob(f"{path.name}*") for each in (beside, *beside.rglob("*"))]
    return sum(each.stat().st_size for each in files if each.is_file())


def say(answer: object) -> None:
    """In one write, so that a kill leaves a whole line or none."""
    os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")


def main(name: str) -> None:
    worker = Worker(name)
    orders: dict[str, Callable[..., object]] = {
        "open": worker.open,
        "close": worker.close,
        "fill": worker.fill,
        "grow": worker.grow,
        "append": worker.append,
        "read": worker.read,
        "held": worker.held,
        "doomed": worker.doomed,
    }
    for line in sys.stdin:
        order, *arguments = json.loads(line)
        say(orders[order](*arguments))


if __name__ == "__main__":
    main(sys.argv[1])
