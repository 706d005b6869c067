"""One contender in a process of its own, told what to do line by line: `python -m benchmarks.agents.worker MODULE:CLASS`.

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
from typing import Any, Protocol

from benchmarks.agents import workload
from benchmarks.agents.workload import Turn

KILLED = "killed"


class Side(Protocol):
    """One system on one store: a file or a database. `Any` is what it makes of a turn before the clock starts."""

    packages: tuple[str, ...]

    def __init__(self, address: str) -> None: ...

    def settings(self) -> dict[str, object]:
        """The database and its version, then what its own connection is set to."""

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
    def __init__(self, kind: type[Side]) -> None:
        self._kind = kind
        self._sides: dict[str, Side] = {}
        self._turns: dict[str, Iterator[Turn]] = {}
        """What comes next for a store: the session itself while it is filled, typical turns while it is measured."""

    def open(self, address: str) -> None:
        self._sides[address] = self._kind(address)
        self._turns[address] = workload.turns()

    def settings(self, address: str) -> dict[str, object]:
        versions = {package: version(package) for package in self._kind.packages}
        return {"versions": versions, "settings": self._sides[address].settings()}

    def close(self, address: str) -> int:
        """The number of turns that it ended with."""
        self._sides.pop(address).close()
        return next(self._turns.pop(address)).number

    def fill(self, address: str, turns: int) -> None:
        self._sides[address].fill(self._next(address, turns))
        self._turns[address] = workload.typical(turns)

    def grow(self, address: str, turns: int, budget_s: float) -> list[float]:
        """Turn by turn until there are so many or the time is up: how many, and seconds that are left."""
        side, end, done = self._sides[address], time.monotonic() + budget_s, 0
        while done < turns and time.monotonic() < end:
            side.append([side.prepared(turn) for turn in self._next(address, 1)])
            done += 1
        return [done, end - time.monotonic()]

    def append(self, address: str, turns: int, one_by_one: bool) -> list[float]:
        """Messages, wall seconds, seconds of the processor."""
        side, new = self._sides[address], self._next(address, turns)
        ready = [side.prepared(turn) for turn in new]
        work = side.append_each if one_by_one else side.append
        return [sum(map(len, new)), *measure_time(lambda: work(ready))]

    def read(self, address: str, kind: str, times: int) -> list[float]:
        found = 0

        def work() -> None:
            nonlocal found
            found = self._sides[address].read(kind, times)

        taken = measure_time(work)
        return [found, *taken]

    def held(self, address: str) -> list[str]:
        side = self._kind(address)
        held = side.held()
        side.close()
        return held

    def doomed(self, address: str, answered: int) -> str:
        """A child that appends until it is killed, beginning with the first message that nobody has answered for.

        It says its number first, then the marks as they are answered for. Nothing is open in this process when it forks.
        """
        child = os.fork()
        if child == 0:
            self._append_for_ever(address, answered)
        os.waitpid(child, 0)
        return KILLED

    def _append_for_ever(self, address: str, answered: int) -> None:
        say(os.getpid())
        side = self._kind(address)
        passed = 0
        for turn in workload.turns():
            if passed + len(turn) > answered:
                for position in range(max(0, answered - passed), len(turn)):
                    if answered_for := side.send(turn, position):
                        say(answered_for)
            passed += len(turn)

    def _next(self, address: str, count: int) -> list[Turn]:
        return [next(self._turns[address]) for _ in range(count)]


def measure_time(work: Callable[[], object]) -> list[float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return [time.perf_counter() - wall, time.process_time() - cpu]


def say(answer: object) -> None:
    """In one write, so that a kill leaves a whole line or none."""
    os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")


def main(side: str) -> None:
    module, _, name = side.partition(":")
    worker = Worker(getattr(importlib.import_module(module), name))
    orders: dict[str, Callable[..., object]] = {
        "open": worker.open,
        "settings": worker.settings,
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
