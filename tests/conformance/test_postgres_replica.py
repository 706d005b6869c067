"""A replica serves everything that reads, as far as it has come, and refuses to write with a typed error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

import holdfast
from holdfast import errors
from holdfast.model import limits
from tests.postgres import fresh_url
from tests.postgres_server import PostgresServer

CAUGHT_UP_S = 60.0


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    primary = PostgresServer()
    replica = PostgresServer(following=primary)
    yield primary, replica
    replica.remove()
    primary.remove()


def test_a_replica_can_be_read_and_not_written(servers: tuple[PostgresServer, PostgresServer]) -> None:
    primary, replica = servers
    url = fresh_url(primary.url())
    with holdfast.open(url) as engine:
        session = engine.create_session("trip")
        session.record("user", "Where is the parcel?")
        _wait_for(replica, url, version=2)
        with holdfast.open(_on(replica, url)) as reader:
            copy = reader.session("trip")
            session.record("assistant", "On its way.")
            deadline = time.monotonic() + CAUGHT_UP_S
            while copy.state().version < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert copy.context.window() == session.context.window()
            assert reader.admin.feed().events == engine.admin.feed().events
            assert reader.sessions() == engine.sessions()
            assert reader.admin.verify().ok
            with pytest.raises(errors.StorageReadOnly):
                copy.record("user", "Thank you.")
        assert session.state().version == 3


def test_a_watch_on_a_replica_delivers_what_is_committed_on_the_primary(
    servers: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LISTEN is refused on a replica, so the watch reads again from time to time."""
    monkeypatch.setattr(limits, "WATCH_RECHECK_MS", 50)
    primary, replica = servers
    url = fresh_url(primary.url())
    with holdfast.open(url) as engine:
        session = engine.create_session("trip")
        _wait_for(replica, url, version=1)
        with holdfast.open(_on(replica, url)) as reader:
            of_session = reader.watch("trip", timeout_s=CAUGHT_UP_S)
            of_tenant = reader.watch(timeout_s=CAUGHT_UP_S)
            assert [next(of_session).seq, next(of_tenant).seq] == [1, 1]
            for version in (2, 3):
                session.record("user", "Where is the parcel?")
                assert [next(of_session).seq, next(of_tenant).seq] == [version, version]
        assert asyncio.run(_follow(_on(replica, url), session)) == [2, 3, 4]


async def _follow(url: str, session: holdfast.Session) -> list[int]:
    seen: list[int] = []
    async with await holdfast.open_async(url) as reader:
        async for event in reader.watch("trip", after="1", timeout_s=CAUGHT_UP_S):
            seen.append(event.seq)
            if event.seq == 3:
                await asyncio.to_thread(session.record, "assistant", "On its way.")
            if event.seq == 4:
                break
    return seen


def _on(server: PostgresServer, url: str) -> str:
    return f"{server.url()}&{url.rpartition('&')[2]}"


def _wait_for(replica: PostgresServer, url: str, version: int) -> None:
    """The schema, and this session in it, reach the replica a moment after they are committed."""
    deadline = time.monotonic() + CAUGHT_UP_S
    while time.monotonic() < deadline:
        try:
            with holdfast.open(_on(replica, url)) as reader:
                if reader.session("trip").state().version >= version:
                    return
        except (errors.StorageError, errors.NotFound):
            time.sleep(0.05)
    pytest.fail("the replica does not follow")
