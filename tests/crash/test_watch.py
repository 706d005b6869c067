"""A watch while others die: writers that are killed and replaced, a server that is stopped or killed, and the watcher
itself. Every stored event is delivered, in order and once; who resumes from a cursor continues right behind it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import psycopg_pool.base
import pytest

import holdfast
from holdfast.errors import StorageError
from holdfast.types import FeedEvent
from tests.crash.stores import KINDS, create_store
from tests.crash.worker import DONE, Nursery, Round
from tests.postgres_server import PostgresServer
from tests.property.store_tools import all_events
from tests.support import figure

ROUNDS = figure(4, 100)
"""Writers that are killed one after the other."""
RESTARTS = figure(2, 20)
LONGEST_S = 120.0


def ids_of(engine: holdfast.Engine) -> list[str]:
    return [event.id for event in all_events(engine)]


@pytest.mark.parametrize("kind", KINDS)
def test_writers_are_killed_and_the_watch_goes_on(kind: str, tmp_path: Path) -> None:
    """One watch sees it all; another one stops with each writer, and resumes from its cursor in an engine opened anew."""
    with create_store(kind, tmp_path) as store, holdfast.open(store.url) as engine:
        live: list[FeedEvent] = []
        resumed: list[FeedEvent] = []
        whole = engine.admin.watch()
        reader = threading.Thread(target=lambda: live.extend(whole))
        reader.start()
        with closing(Nursery("tests.crash.worker", DONE)) as nursery:
            for number in range(ROUNDS):
                url = store.url_for(f"watch-{number}")
                nursery.run_and_kill(Round(url, number), 5 + number % 20, 0.001 * (number % 3))
                with store.look(f"watch-{number}") as looker:
                    stored = ids_of(looker)
                    after = resumed[-1].cursor if resumed else ""
                    with holdfast.open(store.url) as other, other.admin.watch(after=after) as watch:
                        resumed += itertools.islice(watch, len(stored) - len(resumed))
        assert [event.id for event in resumed] == stored
        engine.create_session("the last one")
        with engine.admin.watch(after=resumed[-1].cursor) as watch:
            assert next(watch).stream.key[1] == "the last one"
        while not live or live[-1].stream.key[1] != "the last one":
            reader.join(0.05)
        whole.close()
        reader.join(LONGEST_S)
        assert [event.id for event in live] == ids_of(engine)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    """Nobody else's; and the pools try again soon."""
    monkeypatch.setattr(psycopg_pool.base.AttemptWithBackoff, "INITIAL_DELAY", 0.05)
    monkeypatch.setattr(psycopg_pool.base.AttemptWithBackoff, "DELAY_BACKOFF", 1.0)
    server = PostgresServer()
    yield server
    server.kill()
    server.remove()


def test_a_server_is_stopped_and_killed_under_a_watch(server: PostgresServer) -> None:
    """Blocking and awaited, of the tenant and of a session: they wait for the server, and miss nothing."""
    with holdfast.open(server.url()) as writer, holdfast.open(server.url()) as watcher:
        session = writer.create_session("c1")
        count = 1 + 2 * RESTARTS
        is_awaited = threading.Event()

        def record(text: str) -> None:
            while True:
                with suppress(StorageError):
                    session.record("user", text, key=text)
                    return

        async def read() -> list[FeedEvent]:
            async with await holdfast.open_async(server.url()) as engine, asyncio.timeout(LONGEST_S):
                events: list[FeedEvent] = []
                async for event in engine.watch():
                    events.append(event)
                    is_awaited.set()
                    if len(events) == count:
                        break
                return events

        with ThreadPoolExecutor(3) as pool, watcher.watch("c1") as in_session, watcher.watch() as in_tenant:
            reading = [
                pool.submit(list, itertools.islice(in_session, count)),
                pool.submit(list, itertools.islice(in_tenant, count)),
                pool.submit(asyncio.run, read()),
            ]
            assert is_awaited.wait(LONGEST_S)
            for number in range(RESTARTS):
                record(f"before {number}")
                (server.kill if number % 2 else server.stop)()
                server.start()
                record(f"after {number}")
            events = [each.result(LONGEST_S) for each in reading]
        assert [[event.seq for event in each] for each in events] == [[*range(1, count + 1)]] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_watcher_that_is_killed_resumes_from_its_cursor(kind: str, tmp_path: Path) -> None:
    """`holdfast log --follow` in another process, killed again and again: together they print the log, once."""
    with create_store(kind, tmp_path) as store, holdfast.open(store.url) as engine:
        session = engine.create_session("c1")
        printed: list[str] = []
        cursor = ""
        for number in range(3):
            session.record("user", f"before {number}")
            command = [
                sys.executable,
                "-m",
                "holdfast",
                "-f",
                store.url,
                "log",
                "--follow",
                "--json",
                "--after",
                cursor,
            ]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
                assert process.stdout is not None
                for text in (None, f"live {number}", f"also live {number}"):
                    if text is not None:
                        session.record("user", text)
                    while len(printed) < session.state().version:
                        event = json.loads(process.stdout.readline())
                        printed.append(event["id"])
                cursor = (
                    engine.admin.feed("", limit=len(printed)).cursor if event["cursor"] is None else event["cursor"]
                )
                process.send_signal(signal.SIGKILL)
        assert printed == ids_of(engine)
