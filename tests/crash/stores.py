"""The stores that have to keep what they acknowledged while something dies: a file, and a schema on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol, cast

import psycopg

import holdfast
from holdfast.ports import EventStore
from holdfast.storage.postgres.async_store import AsyncPostgresStore
from holdfast.storage.postgres.store import PostgresStore
from tests.conformance.async_stores import BlockingStore, LoopThread
from tests.postgres import base_url, fresh_url

URLS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: str(folder / "store.db"),
    "memory": lambda folder: "memory:",
    "postgres": lambda folder: fresh_url(),
}
KINDS = ("sqlite", "postgres")
"""Those that outlive a process."""
MODES = ("blocking", "awaited")


class CrashStore(Protocol):
    url: str

    def url_for(self, name: str) -> str:
        """For a process that gets killed."""

    def look(self, after: str) -> AbstractContextManager[holdfast.Engine]:
        """What is there when nothing of that process is at work any more."""


class FileStore:
    """Whoever opens it after a kill recovers it, so every look is one by a fresh engine."""

    def __init__(self, folder: Path) -> None:
        self.url = URLS["sqlite"](folder)

    def url_for(self, name: str) -> str:
        return self.url

    def look(self, after: str) -> AbstractContextManager[holdfast.Engine]:
        return holdfast.open(self.url)


class SchemaStore:
    """What a killed process has asked of the server is carried out nevertheless. One engine looks on all the time."""

    def __init__(self, exits: ExitStack) -> None:
        self.url = fresh_url()
        self._engine = exits.enter_context(holdfast.open(self.url))
        self._server = exits.enter_context(psycopg.connect(base_url(), autocommit=True))

    def url_for(self, name: str) -> str:
        return f"{self.url}&application_name={name}&pool=2"

    def look(self, after: str) -> AbstractContextManager[holdfast.Engine]:
        while self._server.execute("SELECT FROM pg_stat_activity WHERE application_name = %s", (after,)).rowcount:
            pass
        return nullcontext(self._engine)


@contextmanager
def create_store(kind: str, folder: Path) -> Iterator[CrashStore]:
    with ExitStack() as exits:
        yield FileStore(folder) if kind == "sqlite" else SchemaStore(exits)


@contextmanager
def open_engine(url: str, world: str = "blocking", wait_ms: int | None = None) -> Iterator[holdfast.Engine]:
    """An engine that blocks, over a store that blocks or over one for an event loop.

    `wait_ms`: how long it waits for a connection, once it has had one.
    """
    with ExitStack() as exits:
        engine = holdfast.open(url)
        store: Any = engine.store
        if world == "awaited":
            assert isinstance(engine.store, PostgresStore)
            loop = LoopThread()
            exits.callback(loop.stop)
            store = AsyncPostgresStore(engine.store)
            engine.store = cast("EventStore", BlockingStore(loop, store))
        exits.enter_context(engine)
        if wait_ms is not None:
            engine.sessions(limit=1)
            store._pool.timeout = wait_ms / 1_000
        yield engine


STORE_CALLS: dict[str, Callable[[holdfast.Engine], object]] = {
    "record": lambda engine: engine.session("talk").record("user", "hello"),
    "create": lambda engine: engine.create_session("new"),
    "read": lambda engine: engine.session("talk").messages(),
    "list": lambda engine: engine.sessions(),
    "feed": lambda engine: engine.admin.feed(),
    "blob": lambda engine: engine.blobs.put(b"body"),
    "verify": lambda engine: engine.admin.verify(),
}
"""Every road to a store that has a session `talk`."""
