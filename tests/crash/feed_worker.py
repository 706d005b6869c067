"""The two sides of the all-streams feed: processes that write as fast as they can, and followers that believe nothing."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection

import msgspec

from holdfast.errors import VersionConflict
from holdfast.model.log import Append, StoredEvent
from holdfast.model.names import StreamId
from holdfast.ports import EventStore
from holdfast.testing.appends import append_of, session_stream, write_to

THREADS = 4
OWN = 3
"""Streams that only one writer writes to."""
SHARED = tuple(session_stream(f"shared {number}") for number in range(6))
MOST_EVENTS = 9
"""Events in one stream's part of an append."""
GONE = b'{"rolled":"back"}'
"""The payload of what must never be seen."""


class Task(msgspec.Struct, frozen=True):
    url: str
    number: int
    events: int
    """Each of the threads writes so many, or a few more."""


def open_store(url: str) -> EventStore:
    if url.startswith("postgresql:"):
        from holdfast.storage.postgres.store import PostgresStore

        return PostgresStore(url)
    from holdfast.storage.sqlite.store import SqliteStore

    return SqliteStore(url)


def work(task: Task, told: Connection) -> None:
    """Tell how many events each acknowledgement was for; at the end, and only then, how many each stream got."""
    store = open_store(task.url)
    mutex = threading.Lock()

    def say(count: int) -> None:
        with mutex:
            told.send(count)

    def write(thread: int) -> Counter[StreamId]:
        writer = Writer(store, f"{task.number}/{thread}")
        done = 0
        while done < task.events:
            count = writer.append()
            done += count
            say(count)
        return writer.stored

    with ThreadPoolExecutor(THREADS) as pool:
        told.send(sum(pool.map(write, range(THREADS)), Counter()))
    store.close()


class Writer:
    """Mostly to streams of its own; also to one that all write to, or to several at once."""

    def __init__(self, store: EventStore, name: str) -> None:
        self.stored: Counter[StreamId] = Counter()
        self._store = store
        self._rng = random.Random(name)
        self._own = [session_stream(f"{name}/{number}") for number in range(OWN)]

    def append(self) -> int:
        """One append, decided anew as often as others are first; how many events it had."""
        rng = self._rng
        shared = rng.choice(((), (), (), rng.sample(SHARED, 1), rng.sample(SHARED, 2)))
        streams = [*shared, *(() if len(shared) == 1 else rng.sample(self._own, 1))]
        while True:
            with suppress(VersionConflict):
                events = self._store.append(self._to(streams)).events
                self.stored.update(event.stream for event in events)
                return len(events)

    def _to(self, streams: list[StreamId]) -> Append:
        return append_of(
            *(
                write_to(stream, self._version(stream), *[b"{}"] * self._rng.randint(1, MOST_EVENTS))
                for stream in streams
            )
        )

    def _version(self, stream: StreamId) -> int:
        if stream in self._own:
            return self.stored[stream]
        head = self._store.head(stream)
        return head.version if head else 0


class Disorder(AssertionError):
    """The feed broke its promise."""


class Follower:
    """Reads the feed page by page, each event the next of its stream, and remembers the order of all in a few bytes."""

    def __init__(self, limit: int, cursor: str = "", seqs: dict[StreamId, int] | None = None) -> None:
        self.limit = limit
        self.cursor = cursor
        self.count = 0
        self.seqs = dict(seqs or {})
        self._order = hashlib.sha256()

    @property
    def order(self) -> str:
        return self._order.hexdigest()

    def read(self, store: EventStore) -> int:
        """One page; how many events were in it."""
        page = store.feed(self.cursor, limit=self.limit)
        for event in page.events:
            self._take(event)
        self.cursor = page.cursor
        return len(page.events)

    def read_all(self, store: EventStore) -> None:
        while self.read(store):
            pass

    def _take(self, event: StoredEvent) -> None:
        due = self.seqs.get(event.stream, 0) + 1
        if event.seq != due:
            raise Disorder(f"event {event.seq} of {event.stream} came when {due} was due")
        if event.payload == GONE:
            raise Disorder(f"event {event.seq} of {event.stream} was never committed")
        self.seqs[event.stream] = event.seq
        self.count += 1
        self._order.update(event.id.encode())
