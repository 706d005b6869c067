"""What other processes do in the tests of one schema with many openers. They are forked from one that has imported all."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing.synchronize import Barrier
from typing import TypeVar

import holdfast
from holdfast.storage.postgres.migrate import shipped_migrations
from holdfast.storage.postgres.store import PostgresStore
from holdfast.storage.sql import Migration
from holdfast.testing.appends import append_of, append_with_retries, session_stream, write_to

T = TypeVar("T")


SHARED = session_stream("shared")


START_TIMEOUT_S = 60


COUNTED = Migration(9_000, "counted", "CREATE TABLE IF NOT EXISTS counted (n integer); INSERT INTO counted VALUES (1);")
"""Not refused the second time: it tells how often it was applied."""


_start: Barrier


def _set_barrier(start: Barrier) -> None:
    global _start  # noqa: PLW0603 - how a pool hands a barrier to its processes
    _start = start


def run_in_processes(count: int, work: Callable[[str, int], T], url: str) -> Sequence[T]:
    """Run this in so many processes, which all begin at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(count, context, _set_barrier, (context.Barrier(count),)) as pool:
        return list(pool.map(work, [url] * count, range(count)))


def open_and_append(url: str, number: int) -> list[str]:
    """Open a schema that is perhaps being made just now, and write to it."""
    _start.wait(START_TIMEOUT_S)
    with closing(PostgresStore(url, migrations=[*shipped_migrations(), COUNTED])) as store:
        own = append_of(write_to(session_stream(f"own {number}"), 0), key=f"{number}")
        return [append_with_retries(store, SHARED, b"%d" % number).id, store.append(own).events[0].id]


def append_shared_and_own(url: str, number: int) -> list[str]:
    """Events for a shared stream and for one of its own, in turns; the ids of what was acknowledged, in that order."""
    _start.wait(START_TIMEOUT_S)
    acknowledged = []
    with closing(PostgresStore(url)) as store:
        for at in range(15):
            acknowledged.append(append_with_retries(store, SHARED, b"%d" % number).id)
            own = append_of(write_to(session_stream(f"own {number}"), at))
            acknowledged.append(store.append(own).events[0].id)
    return acknowledged


def record_some(url: str, number: int) -> list[str]:
    """A few messages for the session that all record to."""
    texts = [f"{number}/{at}" for at in range(5)]
    with holdfast.open(url) as engine:
        session = engine.session("shared", create=True)
        for text in texts:
            session.record("user", text)
    return texts
