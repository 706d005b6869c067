"""The session that everybody records: questions, tool calls, results of log-normal size, answers. Standard library only.

A turn depends on its number alone, so every process makes the same one. Every message begins with a mark of its own, so
that it can be found again in any store.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SEED = "agents"
MEDIAN_BYTES = 800
SIGMA = 1.5
LEAST_BYTES, MOST_BYTES = 20, 200_000
"""A result's size: half are below the median, one in forty is above 15 KB."""
MOST_CALLS = 3
SESSION = "only"
SQLITE_SETTINGS = {
    "SQLite": "SELECT sqlite_version()",
    "journal_mode": "PRAGMA journal_mode",
    "synchronous": "PRAGMA synchronous",
}
POSTGRES_SETTINGS = {
    "PostgreSQL": "SHOW server_version",
    "fsync": "SHOW fsync",
    "synchronous_commit": "SHOW synchronous_commit",
}
"""What everybody's own connection is asked."""
WINDOW_TOKENS = 8_000
TAIL_MESSAGES = 20
"""What is read back before a model call: by tokens, or by number where there is no way to ask for tokens."""
TYPICAL = range(44, 49)
"""Turns with ten results, whose mean and median are about those of all."""
MARK = re.compile(r"\[(\d+\.\d+)\] ")

NOUNS = ("order", "invoice", "shipment", "build", "branch", "release", "ticket", "schema", "queue", "worker", "cache")
VERBS = (
    "checked",
    "updated",
    "found",
    "compared",
    "rolled back",
    "retried",
    "merged",
    "measured",
    "rejected",
    "opened",
)
STATES = ("pending", "failed", "shipped", "paid", "stale", "merged", "green", "late", "blocked", "duplicate")
PLACES = ("eu-west-1", "us-east-2", "staging", "production", "the mirror", "warehouse 7", "the nightly run", "shard 2")
TOOLS = ("run_query", "read_file", "search_logs", "http_get", "run_tests")


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    args: dict[str, object]

    @property
    def arguments(self) -> str:
        return json.dumps(self.args)


@dataclass(frozen=True)
class Turn:
    """A question, a remark that comes with the calls, a result for each call, and the answer."""

    number: int
    question: str
    remark: str
    calls: tuple[Call, ...]
    results: tuple[str, ...]
    answer: str

    def __len__(self) -> int:
        """Messages: each result is one."""
        return 3 + len(self.results)

    def marks(self) -> list[str]:
        return [mark(self.number, position) for position in range(len(self))]


def mark(number: int, position: int) -> str:
    return f"{number}.{position}"


def marks_in(texts: Iterator[str]) -> list[str]:
    """The marks at the beginning of the texts, in their order."""
    return [found[1] for text in texts if (found := MARK.match(text))]


def settings_of(execute: Callable[[str], Any], settings: Mapping[str, str]) -> dict[str, object]:
    return {name: next(iter(execute(query)))[0] for name, query in settings.items()}


def turns() -> Iterator[Turn]:
    return (turn(number, number) for number in itertools.count())


def typical(first: int) -> Iterator[Turn]:
    """The same few turns over and over, numbered on: what is measured with them compares at any length of session."""
    return (turn(number, TYPICAL[number % len(TYPICAL)]) for number in itertools.count(first))


def turn(number: int, like: int) -> Turn:
    rng = random.Random(f"{SEED} {like}")
    calls = tuple(
        Call(f"call_{number:06d}_{ordinal}", rng.choice(TOOLS), arguments(rng))
        for ordinal in range(rng.randint(1, MOST_CALLS))
    )
    texts = [
        f"{prose(rng, rng.randint(60, 300))} Can you look into it?",
        prose(rng, rng.randint(40, 160)),
        *(result(rng) for _ in calls),
        prose(rng, rng.randint(150, 1_200)),
    ]
    question, remark, *results, answer = (f"[{mark(number, position)}] {text}" for position, text in enumerate(texts))
    return Turn(number, question, remark, calls, tuple(results), answer)


def arguments(rng: random.Random) -> dict[str, object]:
    return {
        "target": f"{rng.choice(NOUNS)}s/{rng.randrange(100_000)}",
        "where": rng.choice(PLACES),
        "filter": f"state = '{rng.choice(STATES)}' and age_days < {rng.randrange(90)}",
        "limit": rng.randrange(10, 500),
    }


def result(rng: random.Random) -> str:
    size = int(rng.lognormvariate(math.log(MEDIAN_BYTES), SIGMA))
    size = min(max(size, LEAST_BYTES), MOST_BYTES)
    kind: Callable[[random.Random, int], str] = rng.choice((log, rows, prose))
    return kind(rng, size)[:size]


def prose(rng: random.Random, size: int) -> str:
    return fill_text(size, " ", lambda: sentence(rng))


def log(rng: random.Random, size: int) -> str:
    return fill_text(size, "\n", lambda: log_line(rng))


def rows(rng: random.Random, size: int) -> str:
    return "[" + fill_text(size, ",", lambda: json.dumps(row(rng)))


def fill_text(size: int, between: str, make: Callable[[], str]) -> str:
    pieces: list[str] = []
    length = 0
    while length < size:
        pieces.append(make())
        length += len(pieces[-1]) + len(between)
    return between.join(pieces)


def sentence(rng: random.Random) -> str:
    return (
        f"The {rng.choice(NOUNS)} {rng.randrange(10_000)} in {rng.choice(PLACES)} was {rng.choice(VERBS)} and is "
        f"{rng.choice(STATES)} now, so the {rng.choice(NOUNS)} has to wait."
    )


def log_line(rng: random.Random) -> str:
    return (
        f"2026-03-{rng.randrange(1, 31):02d}T{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}Z "
        f"{rng.choice(('INFO ', 'INFO ', 'DEBUG', 'WARN ', 'ERROR'))} {rng.choice(NOUNS)}.{rng.choice(NOUNS)} "
        f"req={rng.getrandbits(48):012x} {rng.choice(VERBS)} {rng.choice(NOUNS)}={rng.randrange(100_000)} "
        f"in {rng.randrange(2_000)}ms"
    )


def row(rng: random.Random) -> dict[str, object]:
    return {
        "id": rng.randrange(1_000_000),
        rng.choice(NOUNS): f"{rng.choice(VERBS)} by {rng.choice(PLACES)}",
        "state": rng.choice(STATES),
        "total": rng.randrange(1_000_000) / 100,
    }
