"""Engines for tests that ask every kind the same: in memory, on SQLite or on PostgreSQL, blocking or awaited."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import psycopg
import pytest
from psycopg import sql

import holdfast
from holdfast.errors import HoldfastError
from holdfast.model import limits
from holdfast.model.log import Recorded
from holdfast.model.rows import TABLES, Row
from holdfast.ports import EventStore
from holdfast.runtime.async_held import Waking
from holdfast.storage.memory import MemoryStore
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.threaded import ThreadedStore
from tests.postgres import empty_url
from tests.property.tools import whole_feed
from tests.support import SOAK, CountingIds, SteppingClock

KINDS = ("memory", "sqlite", "postgres", "memory awaited", "sqlite awaited", "postgres awaited")
FEWER = KINDS[:-1] if SOAK else ("memory", "sqlite", "postgres", "sqlite awaited")
"""For tests that have many other parameters: every store, and both worlds, without the kind that takes longest to open."""
LOCAL = tuple(kind for kind in KINDS if not kind.startswith("postgres"))
"""For tests of what happens before a store is asked, and for those that open one for each of many examples."""
SQLITE = tuple(kind for kind in KINDS if kind.startswith("sqlite"))
LASTING = tuple(kind for kind in FEWER if not kind.startswith("memory"))
"""Those that are still there when they are opened again."""


def kinds_for(test: str, *, many: bool) -> tuple[str, ...]:
    """The kinds that a test asks. A server takes long, so it is asked in one of the two worlds, and not at all by a test
    that has other parameters: that one asks memory in one world, and a file in the other. Which is in which world differs
    from test to test."""
    if SOAK:
        return KINDS
    turn = zlib.crc32(test.encode()) % 2
    return (LOCAL[turn], LOCAL[3 - turn]) if many else (*LOCAL, KINDS[2 + 3 * turn])


class Awaited:
    """An async engine, session or frame, used as if it blocked: one body of a test serves both worlds."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not inspect.isroutine(found):
            return found

        def call(*args: object, **kwargs: object) -> Any:
            named = {name: _unwrapped(value) for name, value in kwargs.items()}
            return self._settled(found(*map(_unwrapped, args), **named))

        return call

    def _settled(self, answer: Any) -> Any:
        if inspect.iscoroutine(answer):
            answer = self._runner.run(answer)
        if isinstance(answer, AsyncIterator):
            return self._runner.run(_collected(answer))
        if isinstance(answer, Waking):
            answer = self._runner.run(_made(answer))
        if isinstance(
            answer, holdfast.AsyncEngine | holdfast.AsyncSession | holdfast.AsyncFrame | holdfast.AsyncLedger
        ):
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


def _unwrapped(value: object) -> object:
    return value._target if isinstance(value, Awaited) else value


async def _made(frame: Waking) -> holdfast.AsyncFrame:
    return await frame


async def _collected(pieces: AsyncIterator[bytes]) -> list[bytes]:
    return [piece async for piece in pieces]


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.now_s = now_s

    def now_us(self) -> int:
        return round(self.now_s * 1_000_000)


class Ids(CountingIds):
    """Suspension tokens that are the same in every run, too."""

    def secret(self) -> bytes:
        return hashlib.sha256(self.command_id().encode()).digest()


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
        options = {"clock": SteppingClock(), "ids": Ids(), **options}
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


def busy(session: holdfast.Session) -> None:
    """Frames in every state, with budgets, handles, a tool under way, and results of children, one of them large; and a
    conversation that is shown otherwise than it was recorded."""
    root = session.frame(
        "plan the trip", budget=10_000, inputs={"to": "Lisbon"}, timeout_s=10**6, key=f"{session.id} root"
    )
    root.reserve("the next call", 100)
    with root.frame("find a hotel", budget=3_000) as child:
        child.record("assistant", "looking", usage=holdfast.Usage(100, 10))
        child.add_handle("document", "long " * limits.SPOOL_BYTES, source="guide", title="a guide", priority="high")
        child.pop("completed", "found one", result={"hotel": ["by the sea"] * 9_000})
    root.frame("ask the user", budget=100).suspend("which room?", resumable_by=["ada"])
    below = root.frame("pay for it", budget=100, max_tool_calls=1)
    below.frame("deeper", budget=10).pop("failed", "no money")
    call = below.record("assistant", "", tool_calls=[{"name": "pay", "args": {"amount": 5}}]).tool_calls[0]
    below.start(call)
    below.result(call, "paid")
    other = session.frame("another matter", budget=5)
    other.suspend("later")
    other.revoke("never mind")
    handle = root.add_handle("document", "a map " * 99, source="atlas")
    root.page_out(handle, tier="semantic")
    root.replace_handle(handle, "a better map " * 99, title="the map")
    root.page_out(handle)
    reshown(session)
    session.recover()


def reshown(session: holdfast.Session) -> None:
    """A conversation with a fold, an excerpt, a piece that is paged out, and one that came back."""
    for text in ("where to?", "and then?", "anything else?"):
        session.record("user", f"{text} {'please ' * 30}")
        call = session.record("assistant", "", tool_calls=[{"name": "look", "args": {"for": text}}]).tool_calls[0]
        session.result(call, f"{text} {'a place ' * 200}")
        session.record("assistant", "there it is " * 9)
    assert session.compact(strategy=holdfast.SummarizeOldest(keep_recent=8), window=9_000).at
    assert session.compact(window=1_200, policy=holdfast.Classic(snip=0.1, micro=None, collapse=None, auto=None)).at
    seqs = [message.seq for message in session.messages(limit=8)]
    session.page_out(f"h{seqs[0]}_0")
    session.page_out(f"h{seqs[3]}_0")
    session.page_in(f"h{seqs[3]}_0")


def everything(engine: holdfast.Engine, desk: Desk) -> bytes:
    """All that a store holds, as raw as it can be had: the bytes of its tables, of its files, or of what is in memory."""
    store = store_of(engine)
    if isinstance(store, PostgresStore):
        return _tables(store)
    if isinstance(store, MemoryStore):
        return b"\0".join(_held([vars(store), getattr(engine.blobs, "_bodies", None)]))
    return b"\0".join(path.read_bytes() for path in sorted(desk.folder.rglob("*")) if path.is_file())


def _tables(store: PostgresStore) -> bytes:
    found = []
    with psycopg.connect(store.info) as connection:
        connection.execute("SELECT act_for(NULL)")
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        for (name,) in names:
            query = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT (FORMAT BINARY)").format(sql.Identifier(name))
            with connection.cursor() as cursor, cursor.copy(query) as copy:
                found += [bytes(piece) for piece in copy]
    assert len(names) > len(TABLES)
    return b"".join(found)


def _held(value: object) -> Iterator[bytes]:
    """The texts and bytes in a value, however deep."""
    match value:
        case str():
            yield value.encode()
        case bytes() | bytearray():
            yield bytes(value)
        case msgspec.Struct():
            yield from _held([getattr(value, name) for name in value.__struct_fields__])
        case Mapping():
            yield from _held([*value.keys(), *value.values()])
        case list() | tuple() | set() | frozenset():
            for each in value:
                yield from _held(each)
        case _ if type(value).__module__.startswith("holdfast.storage"):
            yield from _held(vars(value))


@contextmanager
def refused(engine: holdfast.Engine, kind: type[HoldfastError], **data: object) -> Iterator[None]:
    """What is done here is refused with just this kind of error, which has this data, and nothing has changed."""
    before = contents(engine)
    with pytest.raises(kind) as refusal:
        yield
    assert type(refusal.value) is kind
    assert {name: getattr(refusal.value, name) for name in data} == data
    assert contents(engine) == before
