"""How fast a question is answered, and how much room passages take: 1k to 100k passages of one user, on both databases.

The passages are turns of the chats in `recall/locomo` of a data folder, repeated with other names, places and numbers until
there are enough. The data is not part of this repository.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import psycopg
from tests.postgres_server import SOCKET_FOLDER, PostgresServer

import holdfast
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast.model.memory.passages import (
    IndexedPassage,
    IndexMark,
    Passage,
    PassageBatch,
    StreamSpan,
)
from holdfast.model.names import Scope
from holdfast.storage.memory import MemoryBlobs
from holdfast.storage.postgres.connect import parse_address
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing.appends import append_of, write_to
from holdfast.text.recall.terms import passage_terms

TENANT, USER = "acme", "ada"
SIZES = (1_000, 10_000, 100_000)
SESSION_TURNS = 20
TIDY_SESSIONS = 250
"""How often a server vacuums, in sessions. Its own daemon does so every minute; the turns of a life do not come in one."""
BUDGET = 1_000
MOST_MS = 25.0
MOST_BYTES = 2.5
"""Bytes in the store for each byte of text."""

_NAME = re.compile(r"\b[A-Z][a-z]{3,}\b|\b\d+\b")


class Turns(NamedTuple):
    """What the chats say, and what is asked about them."""

    texts: list[tuple[str, str]]
    """The speaker and the words of each turn."""
    questions: list[str]


def load_turns(data: Path) -> Turns | None:
    """Read the chats of a data folder; None if there are none."""
    chats = [json.loads(path.read_text()) for path in sorted((data / "recall" / "locomo").glob("*.json"))]
    texts = [(turn["speaker"], turn["text"]) for chat in chats for turn in chat["turns"] if turn["text"]]
    questions = [question["text"] for chat in chats for question in chat["questions"]]
    return Turns(texts, questions) if texts and questions else None


def vary_turns(turns: Turns, count: int) -> Iterator[tuple[str, str]]:
    """Yield turns again and again. From the second round on, their names and numbers are others: so rare terms stay rare,
    as they do in a long life."""
    dice = random.Random(7)
    syllables = ["ba", "de", "ki", "lo", "mu", "na", "po", "ra", "su", "te", "vi", "zo"]
    for number in range(count):
        speaker, text = turns.texts[number % len(turns.texts)]
        if number >= len(turns.texts):
            text = _NAME.sub(lambda _: "".join(dice.choices(syllables, k=3)).capitalize(), text)
        yield speaker, text


def build_batches(turns: Turns, count: int) -> Iterator[tuple[Scope, list[IndexedPassage]]]:
    """Yield sessions of turns, the user's and the assistant's."""
    every = list(vary_turns(turns, count))
    for start in range(0, count, SESSION_TURNS):
        scope = Scope(TENANT, "agent", f"s{start}")
        own = every[start : start + SESSION_TURNS]
        yield (
            scope,
            [
                IndexedPassage(
                    Passage(
                        scope=scope,
                        seq=at,
                        role="user" if at % 2 else "assistant",
                        speaker=speaker,
                        user=USER,
                        time_us=1_700_000_000_000_000 + (start + at) * 60_000_000,
                        place=at,
                        text=text,
                    ),
                    passage_terms(text),
                )
                for at, (speaker, text) in enumerate(own, 1)
            ],
        )


def fill(store: Any, turns: Turns, count: int, tidy: Callable[[], None] = lambda: None) -> int:
    """Store so many taken passages of one user. Returns the bytes of their text. `tidy` is called from time to time."""
    size = 0
    for number, (scope, own) in enumerate(build_batches(turns, count), 1):
        if not number % TIDY_SESSIONS:
            tidy()
        stream = scope.stream
        store.append(append_of(write_to(stream, 0, *[b"{}"] * len(own))))
        mark = IndexMark(version=len(own), places=len(own), user=USER)
        assert store.index_passages(PassageBatch(stream=stream, before=None, mark=mark, passages=tuple(own)))
        store.take_passages(StreamSpan(stream, 1, len(own)))
        size += sum(len(each.passage.text.encode()) for each in own)
    return size


def time_questions(engine: holdfast.Engine, questions: Sequence[str], rounds: int) -> list[float]:
    """Milliseconds of each question, in order of size, after some that do not count."""
    for question in questions[:20]:
        engine.memory.recall(question, user=USER, budget=BUDGET)
    times: list[float] = []
    for question in itertools.islice(itertools.cycle(questions), rounds):
        start = time.perf_counter()
        engine.memory.recall(question, user=USER, budget=BUDGET)
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def sqlite_bytes(path: Path) -> int:
    """What passages take in a file, all indexes included."""
    connection = apsw.Connection(str(path))
    found = connection.execute("SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%passage%'").get
    connection.close()
    return int(found or 0)


POSTGRES_TABLES = (
    "passages_taken", "passages_draft", "passage_words", "passage_drafts", "passage_shelves", "passage_marks",
)  # fmt: skip


def vacuum(url: str) -> None:
    """Make room on a server for what comes next."""
    with psycopg.connect(parse_address(url).info, autocommit=True) as connection:
        for table in POSTGRES_TABLES:
            connection.execute(f"VACUUM {table}".encode())


def postgres_bytes(url: str) -> int:
    """What passages take on a server after a vacuum, all indexes included."""
    vacuum(url)
    with psycopg.connect(parse_address(url).info, autocommit=True) as connection:
        found = connection.execute(
            "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(%s::text[]) AS name",
            (list(POSTGRES_TABLES),),
        ).fetchall()
        return int(found[0][0])


def describe(
    what: str,
    store: Any,
    turns: Turns,
    count: int,
    bench: Bench,
    stored: Callable[[], int],
    tidy: Callable[[], None] = lambda: None,
) -> tuple[list[Line], str]:
    with holdfast.open(store, tenant=TENANT, blobs=MemoryBlobs()) as engine:
        start = time.perf_counter()
        text = fill(store, turns, count, tidy)
        filled = time.perf_counter() - start
        times = time_questions(engine, turns.questions, bench.pick(400, 60))
    middle, late = times[len(times) // 2], times[int(len(times) * 0.95)]
    size = stored()
    lines = [
        Line(
            what=f"{what}, {count:,} passages: ms per query",
            ours=f"{middle:.1f} ms, p95 {late:.1f} ms",
            ratio=Spread(late, late, late),
            goal=Goal("at most", MOST_MS),
        ),
        Line(
            what=f"{what}, {count:,} passages: bytes per passage",
            ours=f"{size / count:.0f} bytes",
            theirs=f"{text / count:.0f} bytes",
            ratio=Spread(size / text, size / text, size / text),
            goal=Goal("at most", MOST_BYTES),
        ),
    ]
    return lines, f"{what}, {count:,} passages were indexed and taken in {filled:.0f} s."


def measure_speed(bench: Bench) -> Table:
    title = "engine.memory.recall() in a budget of 1,000 tokens, and the room that passages take"
    turns = load_turns(bench.data)
    if turns is None:
        folder = bench.data / "recall" / "locomo"
        note = f"There are no chats in {folder}: nothing was measured. --data names another folder."
        return Table(name="recall", title=title, ours="Holdfast", theirs="text", lines=[], notes=[note])
    lines: list[Line] = []
    notes: list[str] = []
    sizes = SIZES[: bench.pick(3, 2)]
    for count in sizes:
        path = bench.file(f"passages-{count}.db")
        store = SqliteStore(path)
        some, note = describe("SQLite", store, turns, count, bench, lambda path=path: sqlite_bytes(path))  # type: ignore[misc]
        lines += some
        notes.append(note)
    with ExitStack() as stack:
        server = PostgresServer(parent=SOCKET_FOLDER)
        stack.callback(server.remove)
        for count in sizes:
            url = f"{server.url()}{'&' if '?' in server.url() else '?'}schema=passages_{count}"
            other = PostgresStore(url)
            stored, tidy = functools.partial(postgres_bytes, url), functools.partial(vacuum, url)
            some, note = describe("PostgreSQL", other, turns, count, bench, stored, tidy)
            lines += some
            notes.append(note)
        notes.append(f"PostgreSQL was vacuumed after every {TIDY_SESSIONS} sessions; without that it takes more room.")
    return Table(name="recall", title=title, ours="Holdfast", theirs="text", lines=lines, notes=notes)
