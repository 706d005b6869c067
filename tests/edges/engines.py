"""Engines for tests that ask every kind the same: in memory, on SQLite or on PostgreSQL, blocking or awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import holdfast
from holdfast.model.log import Recorded
from holdfast.model.rows import TABLES, Row
from holdfast.ports import EventStore
from holdfast.storage.threaded import ThreadedStore
from tests.postgres import empty_url
from tests.property.tools import whole_feed
from tests.support import CountingIds, SteppingClock

KINDS = ("memory", "sqlite", "postgres", "memory awaited", "sqlite awaited", "postgres awaited")
FEWER = KINDS[:-1]
"""For tests that have many other parameters: without the kind that takes longest to open."""
LOCAL = tuple(kind for kind in KINDS if not kind.startswith("postgres"))
"""For tests of what happens before a store is asked, and for those that open one for each of many examples."""
SQLITE = tuple(kind for kind in KINDS if kind.startswith("sqlite"))
LASTING = tuple(kind for kind in FEWER if not kind.startswith("memory"))
"""Those that are still there when they are opened again."""


class Awaited:
    """An async engine or session, used as if it blocked: one body of a test serves both worlds."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not inspect.isroutine(found):
            return found

        def call(*args: object, **kwargs: object) -> Any:
            return self._settled(found(*args, **kwargs))

        return call

    def _settled(self, answer: Any) -> Any:
        if inspect.iscoroutine(answer):
            answer = self._runner.run(answer)
        if isinstance(answer, AsyncIterator):
            return self._runner.run(_collected(answer))
        if isinstance(answer, holdfast.AsyncEngine | holdfast.AsyncSession):
            return Awaited(answer, self._runner)
        if isinstance(answer, AbstractAsyncContextManager):
            return self._entered(answer)
        return answer

    @contextmanager
    def _entered(self, block: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        """What runs in the background of such a block runs on whenever something else is awaited."""
        inside = self._runner.run(block.__aenter__())
        try:
            yield inside
        finally:
            self._runner.run(block.__aexit__(None, None, None))

    def __repr__(self) -> str:
        return repr(self._target)

    def __enter__(self) -> Awaited:
        return Awaited(self._runner.run(self._target.__aenter__()), self._runner)  # type: ignore[attr-defined]

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._target.__aexit__(*error))  # type: ignore[attr-defined]


async def _collected(pieces: AsyncIterator[bytes]) -> list[bytes]:
    return [piece async for piece in pieces]


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.now_s = now_s

    def now_us(self) -> int:
        return round(self.now_s * 1_000_000)


class Desk:
    """Opens engines of any kind, and closes what is still open at the end. Their ids, salts and times are the same in
    every run, so two engines that were asked the same have the same bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runner = asyncio.Runner()
        self._opened: list[holdfast.Engine] = []
        self._schemas: dict[tuple[str, str], str] = {}
        self._borrowed = ExitStack()

    def open(self, kind: str, name: str = "agent", **options: Any) -> holdfast.Engine:
        return self.open_url(self.address(kind, name), awaited=kind.endswith("awaited"), **options)

    def address(self, kind: str, name: str = "agent") -> str:
        """Where a store of this kind and name is: the same one whenever it is asked for, unless it is in memory."""
        if kind.startswith("memory"):
            return "memory:"
        if kind.startswith("sqlite"):
            return str(self.path(kind, name))
        if (kind, name) not in self._schemas:
            self._schemas[kind, name] = self._borrowed.enter_context(empty_url())
        return self._schemas[kind, name]

    def path(self, kind: str, name: str = "agent") -> Path:
        return self.folder / f"{kind.replace(' ', '-')}-{name}.db"

    def open_url(self, url: Any, *, awaited: bool = False, **options: Any) -> holdfast.Engine:
        options = {"clock": SteppingClock(), "ids": CountingIds(), **options}
        if awaited:
            engine = self._runner.run(holdfast.open_async(url, **options))
            opened = cast("holdfast.Engine", Awaited(engine, self._runner))
        else:
            opened = holdfast.open(url, **options)
        self._opened.append(opened)
        return opened

    def close(self) -> None:
        for engine in self._opened:
            store: Any = engine.store
            closing = store.close()
            if inspect.iscoroutine(closing):
                self._runner.run(closing)
        self._runner.close()
        self._borrowed.close()


def store_of(engine: holdfast.Engine) -> EventStore:
    store: Any = engine.store
    return cast("EventStore", getattr(store, "blocking", store))


@contextmanager
def store_replaced(engine: holdfast.Engine, store: object) -> Iterator[None]:
    """Another store under an open engine, for a while."""
    holder: Any = getattr(engine, "_target", engine)
    before = holder.store
    holder.store = store if holder is engine else ThreadedStore(cast("EventStore", store))
    try:
        yield
    finally:
        holder.store = before


def log_of(engine: holdfast.Engine) -> list[Recorded]:
    return list(whole_feed(store_of(engine)))


def rows_of(engine: holdfast.Engine) -> list[Row]:
    store = store_of(engine)
    rows: list[Row] = []
    for table in TABLES:
        last: Row | None = None
        while page := store.rows(table, {}, after=last, limit=1_000):
            rows += page
            last = page[-1]
    return rows


def blobs_of(engine: holdfast.Engine) -> list[tuple[str, str]]:
    return sorted((tenant, digest) for tenant, digest, _ in engine.blobs.stored())


def contents(engine: holdfast.Engine) -> tuple[list[Recorded], list[Row], list[tuple[str, str]]]:
    """Everything that an engine keeps, in order: what must not change when a call is refused."""
    return log_of(engine), rows_of(engine), blobs_of(engine)
