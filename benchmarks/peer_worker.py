"""The peer's side, run by its own interpreter: `eventsourcing` on its SQLite, told what to do line by line.

Each line on standard input is a JSON array, an order with its arguments; each answer is one JSON line. Only the standard
library and the peer are imported: nothing of Holdfast is installed where this runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from eventsourcing.application import Application  # type: ignore[import-not-found]
from eventsourcing.domain import Aggregate, event  # type: ignore[import-not-found]

FILL_EVENTS = 1_000


class Transcript(Aggregate):  # type: ignore[misc]
    @event("Recorded")  # type: ignore[untyped-decorator]
    def record(self, role: str, text: str) -> None:
        pass


class Worker:
    def __init__(self, path: str) -> None:
        self._app = Application(env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": path})
        self._filled: dict[str, Any] = {}
        self._only = Transcript()
        self._app.save(self._only)

    def about(self) -> dict[str, object]:
        with self._app.factory.datastore.transaction(commit=False) as cursor:
            settings = {}
            for name in ("journal_mode", "synchronous"):
                cursor.execute(f"PRAGMA {name}")
                settings[name] = cursor.fetchone()[0]
            cursor.execute("SELECT sqlite_version()")
            return {"peer": version("eventsourcing"), "sqlite": cursor.fetchone()[0], **settings}

    def fill(self, name: str, texts: list[str], role: str) -> None:
        """An aggregate with one event for each text, after the one that makes it."""
        transcript = Transcript()
        for start in range(0, len(texts), FILL_EVENTS):
            for text in texts[start : start + FILL_EVENTS]:
                transcript.record(role, text)
            self._app.save(transcript)
        self._filled[name] = transcript.id

    def append(self, texts: list[str], role: str) -> list[float]:
        """The aggregate stays in memory: every append is one event and one commit, with nothing to load before."""

        def work() -> None:
            for text in texts:
                self._only.record(role, text)
                self._app.save(self._only)

        return measure_time(work)

    def read(self, name: str, limit: int, times: int) -> list[float]:
        key = self._filled[name]

        def work() -> None:
            for _ in range(times):
                found = list(self._app.events.get(key, desc=True, limit=limit))
                assert len(found) == limit

        return measure_time(work)


def measure_time(work: Callable[[], None]) -> list[float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return [time.perf_counter() - wall, time.process_time() - cpu]


def main(path: str) -> None:
    worker = Worker(path)
    orders: dict[str, Callable[..., object]] = {
        "about": worker.about,
        "fill": worker.fill,
        "append": worker.append,
        "read": worker.read,
    }
    for line in sys.stdin:
        order, *arguments = json.loads(line)
        print(json.dumps(orders[order](*arguments)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
