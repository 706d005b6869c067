"""What PostgreSQL refuses, or takes too long for: a typed error, nothing stored, and everyone else goes on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import psycopg
import pytest

import holdfast
from holdfast import Engine
from holdfast.errors import (
    PoolExhausted,
    RoleTooNarrow,
    SchemaTooOld,
    SessionNotFound,
    StorageBusy,
    StorageReadOnly,
    StorageUnavailable,
)
from holdfast.storage.postgres import connect
from tests.crash.stores import MODES, STORE_CALLS, open_engine
from tests.postgres import base_url, fresh_url
from tests.property.store_tools import dump

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]


class Database:
    """One of our own, seen by whoever may do everything."""

    def __init__(self, exits: ExitStack) -> None:
        self.name = f"test_{uuid.uuid4().hex}"
        self._exits = exits
        self._server = exits.enter_context(psycopg.connect(base_url(), autocommit=True))
        self._server.execute(f"CREATE DATABASE {self.name}")
        exits.callback(self._server.execute, f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")
        self.url = urlsplit(base_url())._replace(path=f"/{self.name}").geturl()

    def execute(self, statement: str, *values: object) -> int:
        """How many rows there were."""
        return self._server.execute(statement.encode(), values).rowcount

    def inside(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), values)

    def cut_all(self) -> None:
        """So that new connections come with new settings."""
        self.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            self.name,
        )

    def role(self, url: str) -> tuple[str, str]:
        """A new one, and the address for it."""
        name = f"test_{uuid.uuid4().hex}"
        self._server.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
        self._exits.callback(self._server.execute, f"DROP ROLE {name}")
        self._exits.callback(self.inside, f"DROP OWNED BY {name}")
        parts = urlsplit(url)
        return name, parts._replace(netloc=f"{name}:{name}@{parts.netloc.rpartition('@')[2]}").geturl()

    @contextmanager
    def held(self, url: str, session: str) -> Iterator[None]:
        """Another program's transaction holds the row that counts a session's events."""
        with psycopg.connect(self.url) as connection:
            held = f"SELECT FROM {schema_of(url)}.streams WHERE key::jsonb ->> 1 = %s FOR UPDATE"
            assert connection.execute(held.encode(), (session,)).rowcount == 1
            yield

    def until_it_waits(self, call: Future[Any]) -> None:
        while not self.execute(
            "SELECT FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'", self.name
        ):
            assert not call.done()


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with ExitStack() as exits:
        yield Database(exits)


@pytest.fixture
def url(database: Database) -> str:
    url = fresh_url(database.url)
    with holdfast.open(url) as engine:
        for name in ("talk", "other"):
            engine.create_session(name).record("user", "first")
    return url


def record(engine: Engine, name: str) -> int:
    return engine.session(name).record("user", "hello").seq


# Someone else's transaction


@pytest.mark.parametrize("world", MODES)
def test_who_waits_for_a_session_holds_up_nobody_else(database: Database, url: str, world: str) -> None:
    with open_engine(url, world) as engine, ThreadPoolExecutor(1) as thread:
        with database.held(url, "talk"):
            waiting = thread.submit(record, engine, "talk")
            database.until_it_waits(waiting)
            assert [record(engine, "other") for _ in range(20)] == list(range(3, 23))
            assert len(engine.session("talk").messages()) == 1
            assert not waiting.done()
        assert waiting.result() == 3
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("world", MODES)
@pytest.mark.parametrize("setting", ["lock_timeout=200", "statement_timeout=1500"])  # all else must take less
def test_a_session_that_stays_held_is_busy_and_nothing_is_stored(
    database: Database, url: str, world: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "SESSION_OPTIONS", (*connect.SESSION_OPTIONS, f"-c {setting}"))
    with open_engine(url, world) as engine:
        before = dump(engine)
        with database.held(url, "talk"):
            for _ in range(2):
                with pytest.raises(StorageBusy, match="locked by another process"):
                    engine.session("talk").record("user", "in vain", key="key")
            assert len(engine.session("talk").messages()) == 1
        assert dump(engine) == before
        assert engine.session("talk").record("user", "at last", key="key").seq == 3
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("world", MODES)
def test_a_call_that_gets_none_of_the_connections_says_so(database: Database, url: str, world: str) -> None:
    calls: list[Callable[[Engine], object]] = [
        lambda engine: record(engine, "other"),
        lambda engine: engine.session("other").messages(),
    ]
    with open_engine(f"{url}&pool=1", world, wait_ms=200) as engine, ThreadPoolExecutor(1) as thread:
        with database.held(url, "talk"):
            waiting = thread.submit(record, engine, "talk")
            database.until_it_waits(waiting)
            for call in calls:
                with pytest.raises(PoolExhausted, match=r"All 1 connections .* Raise pool="):
                    call(engine)
        assert waiting.result() == 3
        for call in calls:
            assert call(engine)
        assert engine.session("other").state().version == 3


# What may not be done


@pytest.mark.parametrize("world", MODES)
def test_a_database_that_became_read_only_is_read_and_written_again_when_it_may_be(
    database: Database, url: str, world: str
) -> None:
    with open_engine(url, world) as engine:
        before = dump(engine)
        database.execute(f"ALTER DATABASE {database.name} SET default_transaction_read_only = on")
        database.cut_all()
        try:
            for call in (lambda: record(engine, "talk"), lambda: engine.create_session("new")):
                with pytest.raises(StorageReadOnly, match="cannot be written"):
                    call()
            assert dump(engine) == before
            with open_engine(url, world) as another:
                assert dump(another) == before
        finally:
            database.execute(f"ALTER DATABASE {database.name} RESET default_transaction_read_only")
        assert record(engine, "talk") == 3
        assert engine.admin.verify().problems == ()


def test_a_role_without_any_rights_is_told_so(database: Database, url: str) -> None:
    _, stranger = database.role(url)
    with pytest.raises(StorageReadOnly, match=r"permissions .* of the role"):
        holdfast.open(stranger)
    with pytest.raises(SchemaTooOld, match="may not migrate it"):
        holdfast.open(stranger.replace(schema_of(url), "elsewhere"))


@pytest.mark.parametrize("world", MODES)
def test_a_role_that_may_only_read_reads(database: Database, url: str, world: str) -> None:
    (role, readers), schema = database.role(url), schema_of(url)
    database.inside(
        f"GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
    )
    with open_engine(readers, world) as engine:
        assert [row.session for row in engine.sessions()] == ["other", "talk"]
        assert len(engine.session("talk").messages()) == 1
        for call in (lambda: record(engine, "talk"), lambda: engine.create_session("new")):
            with pytest.raises(StorageReadOnly, match="of the role"):
                call()
        for look in (engine.admin.feed, engine.admin.verify, engine.admin.totals):
            with pytest.raises(RoleTooNarrow):
                look()


# What is gone


@pytest.mark.parametrize("world", MODES)
def test_a_schema_that_was_dropped_is_missed_and_a_new_one_in_its_place_is_used(
    database: Database, url: str, world: str
) -> None:
    with open_engine(url, world) as engine:
        for _ in range(10):  # so often that the server keeps the statements
            record(engine, "talk")
            engine.session("talk").messages()
        database.inside(f"DROP SCHEMA {schema_of(url)} CASCADE")
        for call in STORE_CALLS.values():
            with pytest.raises(StorageUnavailable, match="its tables are missing"):
                call(engine)
        holdfast.open(url).close()
        with pytest.raises(SessionNotFound):
            record(engine, "talk")
        engine.create_session("talk")
        assert record(engine, "talk") == 2
        assert engine.admin.verify().problems == ()


def test_a_database_that_was_dropped_is_named() -> None:
    with ExitStack() as exits:
        database = Database(exits)
        with open_engine(fresh_url(database.url), wait_ms=50) as engine:
            engine.create_session("talk")
            database.execute(f"DROP DATABASE {database.name} WITH (FORCE)")
            for call in STORE_CALLS.values():
                with pytest.raises(StorageUnavailable, match=database.name):
                    call(engine)


def test_a_task_that_is_cancelled_as_it_gets_a_connection_is_cancelled() -> None:
    async def work(url: str) -> None:
        async with await holdfast.open_async(f"{url}&pool=1") as engine:
            store: Any = engine.store
            for steps in range(6):  # of the loop, between the free connection and the cancellation
                borrowed = store._borrow()
                await borrowed.__aenter__()
                reader = asyncio.ensure_future(engine.sessions())
                while not store._pool.get_stats().get("requests_waiting"):  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0)
                giver = asyncio.ensure_future(borrowed.__aexit__(None, None, None))
                for _ in range(steps):
                    await asyncio.sleep(0)
                if reader.cancel():
                    with pytest.raises(asyncio.CancelledError):
                        await reader
                else:  # the database was quicker than the steps
                    assert steps, "nothing has run since the connection was free"
                await giver
            assert await engine.sessions() == ()

    asyncio.run(work(fresh_url()))
