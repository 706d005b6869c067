"""Engines for tests that ask every kind the same: in memory, on SQLite or on PostgreSQL, blocking or awaited."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import os
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
from holdfast.access.access import SYSTEM_TENANT
from holdfast.errors import HoldfastError
from holdfast.model import limits
from holdfast.model.log import StoredEvent
from holdfast.model.rows import TABLES, Row
from holdfast.ports import EventStore
from holdfast.runtime.async_base import AwaitableFrame
from holdfast.storage.memory import MemoryStore
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.threaded import ThreadedStore
from tests.client.serving import engine_server
from tests.postgres import empty_url
from tests.property.store_tools import read_whole_feed
from tests.support import SOAK, CountingIds, SteppingClock

KINDS = ("memory", "sqlite", "postgres", "memory awaited", "sqlite awaited", "postgres awaited")
HTTP_KINDS = ("http", "http awaited")
"""An engine of a server: one on a store in memory, one on a file."""
FEWER_KINDS = KINDS[:-1] if SOAK else ("memory", "sqlite awaited", "postgres")
"""For tests that have many other parameters: every store, and both worlds, without the kind that takes longest to open."""
LOCAL_KINDS = tuple(kind for kind in KINDS if not kind.startswith("postgres"))
"""For tests of what happens before a store is asked, and for those that open one for each of many examples."""
FEW_KINDS = LOCAL_KINDS if SOAK else ("memory", "sqlite awaited")
"""The same, for those of many cases each."""
SQLITE_KINDS = tuple(kind for kind in KINDS if kind.startswith("sqlite"))
DURABLE_KINDS = tuple(kind for kind in FEWER_KINDS if not kind.startswith("memory"))
"""Those that are still there when they are opened again."""


ONLY_HTTP = os.environ.get("HOLDFAST_HTTP") == "1"
"""Run all tests that can on a server, and on nothing else: for work on the client and the server."""
NOT_OVER_HTTP = {
    "test_acting_as_another_closes_with_the_first": "who acts as another has a connection of their own",
    "test_a_strategy_of_ones_own_decides": "a strategy that is a function stays with the store: LocalOnly",
    "test_a_window_that_what_is_critical_does_not_fit_is_refused": "the same",
    "test_a_body_that_fails_on_its_way_leaves_nothing": "the server notices a lost upload a moment later",
    "test_a_wrong_size_is_told_when_the_body_is_read": "damage in its store is the matter of the server: ServerFailed",
}
"""Tests of what is otherwise for an engine of a server, each with the reason."""


def kinds_for(test: str, *, many: bool) -> tuple[str, ...]:
    """The kinds of engine that a test runs on: memory in one world (blocking or awaited), a file in the other, and a server
    for two tests in three: PostgreSQL for one of them, a server of Holdfast for the other. A test with other parameters
    runs on one of these, and one in twelve on a server of Holdfast, too. Which kind it is differs from test to test: the
    stores themselves are held to one contract by tests/conformance. `make soak` runs all kinds."""
    served = () if test in NOT_OVER_HTTP else HTTP_KINDS
    if ONLY_HTTP or SOAK:
        return served if ONLY_HTTP else (*KINDS, *served)
    turn = zlib.crc32(test.encode())
    extra = {0: (KINDS[2 + 3 * (turn % 2)],), 1: served[turn % 2 :][:1]}.get(turn % 3, ())
    if many:
        return (LOCAL_KINDS[turn % 4], *(extra if turn % 12 == 1 else ()))
    return (LOCAL_KINDS[turn % 2], LOCAL_KINDS[3 - turn % 2], *extra)


class BlockingProxy:
    """An async engine, session or frame, used as if it blocked: one body of a test serves both worlds."""

    def __init__(self, target: object, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not inspect.isroutine(found):
            return BlockingProxy(found, self._runner) if _is_async_object(found) else found

        def call(*args: object, **kwargs: object) -> Any:
            named = {name: _unwrap(value) for name, value in kwargs.items()}
            return self._settled(found(*map(_unwrap, args), **named))

        return call

    def _settled(self, answer: Any) -> Any:
        if inspect.iscoroutine(answer):
            answer = self._runner.run(answer)
        if isinstance(answer, AsyncIterator):
            return self._runner.run(_collect(answer))
        if isinstance(answer, AwaitableFrame):
            answer = self._runner.run(_await_frame(answer))
        if _is_async_object(answer):
            return BlockingProxy(answer, self._runner)
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

    def __enter__(self) -> BlockingProxy:
        return BlockingProxy(self._runner.run(self._target.__aenter__()), self._runner)  # type: ignore[attr-defined]

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._target.__aexit__(*error))  # type: ignore[attr-defined]


def _is_async_object(value: object) -> bool:
    """An async engine, session, frame or ledger, or a facet of one."""
    return any(each.__module__.startswith("holdfast.runtime.async_") for each in type(value).__mro__)


def _unwrap(value: object) -> object:
    return value._target if isinstance(value, BlockingProxy) else value


async def _await_frame(frame: AwaitableFrame) -> holdfast.AsyncFrame:
    return await frame


async def _collect(pieces: AsyncIterator[bytes]) -> list[bytes]:
    return [piece async for piece in pieces]


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.now_s = now_s

    def now_us(self) -> int:
        return round(self.now_s * 1_000_000)


class RepeatableIds(CountingIds):
    """Suspension tokens that are the same in every run, too."""

    def secret(self) -> bytes:
        return hashlib.sha256(self.command_id().encode()).digest()


class EngineDesk:
    """Opens engines of any kind, and closes what is still open at the end. Their ids, salts and times are the same in
    every run, so two engines that were asked the same have the same bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runner = asyncio.Runner()
        self._opened: list[holdfast.Engine] = []
        self._schemas: dict[tuple[str, str], str] = {}
        self._borrowed = ExitStack()

    def open(self, kind: str, name: str = "agent", **options: Any) -> holdfast.Engine:
        if kind.startswith("http"):
            url = "memory:" if kind == "http" else str(self.path(kind, name))
            return self.open_served(url, awaited=kind.endswith("awaited"), **options)
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
        options = {"clock": SteppingClock(), "ids": RepeatableIds(), **options}
        if awaited:
            engine = self._runner.run(holdfast.open_async(url, **options))
            opened = cast("holdfast.Engine", BlockingProxy(engine, self._runner))
        else:
            opened = holdfast.open(url, **options)
        self._opened.append(opened)
        return opened

    def open_served(self, url: Any, *, awaited: bool = False, **options: Any) -> holdfast.Engine:
        """An engine of a server on this store. What tests look at behind it is that of the server."""
        options = {"clock": SteppingClock(), "ids": RepeatableIds(), **options}
        server = engine_server()
        address, served = server.open(url, **options)
        self._borrowed.callback(server.close, address, served)
        return self._connect(address, served, awaited=awaited)

    def _connect(self, address: str, served: holdfast.AsyncEngine, *, awaited: bool) -> holdfast.Engine:
        remote: Any
        if awaited:
            remote = self._runner.run(holdfast.connect_async(address, retries=0))
            self._borrowed.callback(lambda: self._runner.run(remote.close()))
        else:
            remote = holdfast.connect(address, retries=0)
            self._borrowed.callback(remote.close)
        remote.store, remote._blob_store, remote._served = served.store, served._blob_store, served

        def act_as(**who: str) -> holdfast.Engine:
            """As a program does that has another key."""
            return self._connect(engine_server().act_as(address, **who), served.acting_as(**who), awaited=awaited)

        remote.acting_as = act_as
        return cast("holdfast.Engine", BlockingProxy(remote, self._runner) if awaited else remote)

    def close(self) -> None:
        for engine in self._opened:
            store: Any = engine.store
            closing = store.close()
            if inspect.iscoroutine(closing):
                self._runner.run(closing)
        self._borrowed.close()
        self._runner.close()


def store_of(engine: holdfast.Engine) -> EventStore:
    store: Any = engine.store
    return cast("EventStore", getattr(store, "blocking", store))


@contextmanager
def replace_store(engine: holdfast.Engine, store: object) -> Iterator[None]:
    """Another store under an open engine, for a while."""
    holder: Any = getattr(engine, "_target", engine)
    holder = getattr(holder, "_served", holder)
    before = holder.store
    holder.store = store if holder is engine else ThreadedStore(cast("EventStore", store))
    try:
        yield
    finally:
        holder.store = before


def log_of(engine: holdfast.Engine) -> list[StoredEvent]:
    return [event for event in read_whole_feed(store_of(engine)) if event.stream.tenant != SYSTEM_TENANT]


def rows_of(engine: holdfast.Engine) -> list[Row]:
    store = store_of(engine)
    rows: list[Row] = []
    for table in TABLES:
        last: Row | None = None
        while page := store.rows(table, {}, after=last, limit=1_000):
            rows += (row for row in page if getattr(row, "tenant", "") != SYSTEM_TENANT)
            last = page[-1]
    return rows


def blobs_of(engine: holdfast.Engine) -> list[tuple[str, str]]:
    stored = engine._blob_store.stored()
    return sorted((tenant, digest) for tenant, digest, _ in stored if tenant != SYSTEM_TENANT)


def contents(engine: holdfast.Engine) -> tuple[list[StoredEvent], list[Row], list[tuple[str, str]]]:
    """Everything that an engine keeps, in order: what must not change when a call is refused."""
    return log_of(engine), rows_of(engine), blobs_of(engine)


def record_busy_session(session: holdfast.Session) -> None:
    """Frames in every state, with budgets, handles, a tool under way, and results of children, one of them large; and a
    conversation that is shown otherwise than it was recorded."""
    root = session.frame(
        "plan the trip", budget=10_000, inputs={"to": "Lisbon"}, timeout_s=10**6, key=f"{session.id} root"
    )
    root.budget.reserve("the next call", 100)
    with root.frame("find a hotel", budget=3_000) as child:
        child.record("assistant", "looking", usage=holdfast.Usage(100, 10))
        child.handles.add("document", "long " * limits.SPOOL_BYTES, source="guide", title="a guide", priority="high")
        child.pop("completed", "found one", result={"hotel": ["by the sea"] * 9_000})
    root.frame("ask the user", budget=100).suspend("which room?", resumable_by=["ada"])
    below = root.frame("pay for it", budget=100, max_tool_calls=1)
    below.frame("deeper", budget=10).pop("failed", "no money")
    call = below.record("assistant", "", tool_calls=[{"name": "pay", "args": {"amount": 5}}]).tool_calls[0]
    below.start_call(call)
    below.result(call, "paid")
    other = session.frame("another matter", budget=5)
    other.suspend("later")
    other.revoke("never mind")
    handle = root.handles.add("document", "a map " * 99, source="atlas")
    root.handles.page_out(handle, tier="semantic")
    root.handles.replace(handle, "a better map " * 99, title="the map")
    root.handles.page_out(handle)
    record_changed_view(session)
    record_entries(session)
    session.recover()


def record_entries(session: holdfast.Session) -> None:
    """Checkpoints of a list that grows, one of them deleted, with a long name, bytes and a value for the blob store."""
    steps: list[dict[str, object]] = []
    for number in range(12):
        steps += [{"step": number, "text": f"step {number} of {session.id} " * 30}]
        parent = f"c{number - 1}" if number else None
        session.entries.append("checkpoint", f"c{number}", {"steps": steps, "at": number}, parent=parent)
    session.entries.append("write", "node:" * 90, [{"large": f"{session.id} " * 9_000}], parent="c3")
    session.entries.append("write", "bytes", f"{session.id}".encode() * 9_000)
    session.entries.delete(["c2", "c5"])


def record_changed_view(session: holdfast.Session) -> None:
    """A conversation with a fold, an excerpt, a piece that is paged out, and one that came back."""
    for text in ("where to?", "and then?", "anything else?"):
        session.record("user", f"{text} {'please ' * 30}")
        call = session.record("assistant", "", tool_calls=[{"name": "look", "args": {"for": text}}]).tool_calls[0]
        session.result(call, f"{text} {'a place ' * 200}")
        session.record("assistant", "there it is " * 9)
    assert session.context.compact(strategy=holdfast.types.SummarizeOldest(keep_recent=8), window=9_000).at
    assert session.context.compact(
        window=1_200, policy=holdfast.types.Classic(snip=0.1, micro=None, collapse=None, auto=None)
    ).at
    seqs = [message.seq for message in session.messages(limit=8)]
    session.handles.page_out(f"h{seqs[0]}_0")
    session.handles.page_out(f"h{seqs[3]}_0")
    session.handles.page_in(f"h{seqs[3]}_0")


def read_raw_contents(engine: holdfast.Engine, desk: EngineDesk) -> bytes:
    """All that a store holds, as raw as it can be had: the bytes of its tables, of its files, or of what is in memory."""
    store = store_of(engine)
    if isinstance(store, PostgresStore):
        return _read_tables(store)
    if isinstance(store, MemoryStore):
        return b"\0".join(_iterate_bytes([vars(store), getattr(engine._blob_store, "_bodies", None)]))
    return b"\0".join(path.read_bytes() for path in sorted(desk.folder.rglob("*")) if path.is_file())


def _read_tables(store: PostgresStore) -> bytes:
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


def _iterate_bytes(value: object) -> Iterator[bytes]:
    """The texts and bytes in a value, however deep."""
    match value:
        case str():
            yield value.encode()
        case bytes() | bytearray():
            yield bytes(value)
        case msgspec.Struct():
            yield from _iterate_bytes([getattr(value, name) for name in value.__struct_fields__])
        case Mapping():
            yield from _iterate_bytes([*value.keys(), *value.values()])
        case list() | tuple() | set() | frozenset():
            for each in value:
                yield from _iterate_bytes(each)
        case _ if type(value).__module__.startswith("holdfast.storage"):
            yield from _iterate_bytes(vars(value))


@contextmanager
def expect_refusal(engine: holdfast.Engine, kind: type[HoldfastError], **data: object) -> Iterator[None]:
    """What is done here is refused with just this kind of error, which has this data, and nothing has changed."""
    before = contents(engine)
    with pytest.raises(kind) as refusal:
        yield
    assert type(refusal.value) is kind
    assert {name: getattr(refusal.value, name) for name in data} == data
    assert contents(engine) == before
