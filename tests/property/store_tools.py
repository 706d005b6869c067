"""What the tests of whole histories share: dumps to compare byte for byte, and a store whose answers get lost."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, cast

import holdfast
from holdfast import codec
from holdfast.errors import StorageUnavailable
from holdfast.model import limits
from holdfast.model.log import Append, AppendResult
from holdfast.model.rows import TABLES, Row
from holdfast.ports import EventStore
from tests.postgres import empty_url
from tests.support import SHARED_MEMORY

R = TypeVar("R", bound=Row)


PATIENCE_S = 60.0
"""How long a feed may hold back what it knows of."""


Kind = Literal["memory", "sqlite", "postgres"]


Fault = Literal["before", "after"]
"""An append that never reached the disk, or one whose answer never came back."""


def all_rows(engine: holdfast.Engine) -> Iterator[Row]:
    return rows_in(engine.store)


def rows_in(store: EventStore) -> Iterator[Row]:
    for table in TABLES:
        yield from rows_of_table(store, table)


def rows_of_table(store: EventStore, table: type[R]) -> Iterator[R]:
    last: R | None = None
    while page := store.rows(table, {}, after=last, limit=limits.READ_EVENTS):
        yield from page
        last = page[-1]


def all_events(engine: holdfast.Engine) -> Iterator[holdfast.types.StoredEvent]:
    return read_whole_feed(engine.store)


def read_whole_feed(store: EventStore) -> Iterator[holdfast.types.StoredEvent]:
    """Every event in its one order. On PostgreSQL a feed stops before whoever began to write earlier, be it the server
    itself in its housekeeping: it is read on until it has shown as many events as there are."""
    cursor, seen, deadline = "", 0, time.monotonic() + PATIENCE_S
    while True:
        page = store.feed(cursor, limit=limits.READ_EVENTS)
        yield from page.events
        cursor, seen = page.cursor, seen + len(page.events)
        if not page.events:
            if not hasattr(store, "url") or seen >= store.totals().events:
                return
            assert time.monotonic() < deadline, f"the feed shows {seen} events and no more"


def session_events(session: holdfast.Session) -> list[holdfast.types.StoredEvent]:
    events: list[holdfast.types.StoredEvent] = []
    while page := session.events(after=len(events), limit=limits.READ_EVENTS):
        events += page
    return events


def rows_dump(engine: holdfast.Engine) -> bytes:
    """Every row of every table in the order of its key."""
    return b"\n".join(codec.encode((type(row).table, row)) for row in all_rows(engine))


def dump(engine: holdfast.Engine) -> bytes:
    """Everything that a store is asked to keep: its events in their one order, and its rows."""
    events = (codec.encode(_printable(event)) for event in all_events(engine))
    return b"\n".join([*events, rows_dump(engine)])


def digest(engine: holdfast.Engine) -> str:
    return hashlib.sha256(dump(engine)).hexdigest()


def _printable(event: holdfast.types.StoredEvent) -> list[object]:
    values = (getattr(event, name) for name in event.__struct_fields__)
    return [value.hex() if isinstance(value, bytes) else value for value in values]


class Faulty:
    """A store between the engine and the real one: one append fails as `fault` says, which is then None again."""

    def __init__(self, inner: EventStore) -> None:
        self.inner = inner
        self.fault: Fault | None = None
        self.lost: AppendResult | None = None
        """What the append whose answer was lost had to say."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, append: Append) -> AppendResult:
        if self.fault == "before":
            self.fault = None
            raise StorageUnavailable(what="the store", reason="it failed before anything was stored")
        appended = self.inner.append(append)
        if self.fault == "after":
            self.fault, self.lost = None, appended
            raise StorageUnavailable(what="the store", reason="the answer was lost")
        return appended

    @classmethod
    def under(cls, engine: holdfast.Engine) -> Faulty:
        """Put one under an open engine."""
        faulty = cls(engine.store)
        engine.store = cast("EventStore", faulty)
        return faulty


@contextmanager
def fast_folder() -> Iterator[str]:
    """A folder in memory where there is one: for tests that are not about what the disk keeps."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield folder


@contextmanager
def store_of_kind(kind: Kind) -> Iterator[str]:
    """The address of a store of this kind with nothing in it."""
    match kind:
        case "memory":
            yield "memory:"
        case "sqlite":
            with fast_folder() as folder:
                yield os.path.join(folder, "log.db")
        case "postgres":
            with empty_url() as url:
                yield url
