"""What other processes do in the tests of one file with many openers. Imported by those processes, so it stays light."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing.synchronize import Barrier
from typing import TypeVar

from holdfast.storage.sqlite.store import SqliteStore
from holdfast.testing.appends import append_of, append_with_retries, session_stream, write_to

T = TypeVar("T")


SHARED = session_stream("shared")


START_TIMEOUT_S = 60


_start: Barrier


def _set_barrier(start: Barrier) -> None:
    global _start  # noqa: PLW0603 - how a pool hands a barrier to its processes
    _start = start


def run_in_processes(count: int, work: Callable[[str, int], T], path: str) -> Sequence[T]:
    """Run this in so many fresh processes, which all begin at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(count, context, _set_barrier, (context.Barrier(count),)) as pool:
        return list(pool.map(work, [path] * count, range(count)))


def append_shared_and_own(path: str, number: int) -> list[str]:
    """25 events to a stream that all write, 25 to one of its own, in turns; the ids of what was acknowledged."""
    _start.wait(START_TIMEOUT_S)
    acknowledged = []
    with ExitStack() as stack:
        store = SqliteStore(path)
        stack.callback(store.close)
        for at in range(25):
            acknowledged.append(append_with_retries(store, SHARED, b"%d %d" % (number, at)).id)
            own = append_of(write_to(session_stream(f"own {number}"), at, b"%d" % at), key=f"{number} {at}")
            acknowledged.append(store.append(own).events[0].id)
    return acknowledged


def open_and_append(path: str, number: int) -> str:
    """Open a file that is perhaps being made just now, and write to it."""
    _start.wait(START_TIMEOUT_S)
    store = SqliteStore(path)
    event = append_with_retries(store, SHARED, b"%d" % number)
    store.close()
    return event.id


def retry_one_key(path: str, number: int) -> tuple[str, bool]:
    """The same command under the same key from every process."""
    _start.wait(START_TIMEOUT_S)
    store = SqliteStore(path)
    answer = store.append(append_of(write_to(SHARED, 0, b"%d" % number), key="key"))
    store.close()
    return answer.events[0].id, answer.repeated


def claim_entries(path: str, number: int) -> list[str]:
    """Claim entries of the outbox until none is due. Returns their keys."""
    store = SqliteStore(path)
    _start.wait(START_TIMEOUT_S)
    keys: list[str] = []
    while claimed := store.claim_offloads("acme", owner=f"w{number}", now_us=100, lease_us=1_000, limit=3):
        keys += (each.offload.key for each in claimed)
    store.close()
    return keys
