"""Promise 9: the all-streams feed under 16 writers with slow and rolled-back transactions. Nothing is skipped, repeated or
out of order, for any of several followers, at any moment.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import apsw
import psycopg
import pytest

from holdfast.errors import VersionConflict
from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.testing.appends import append_of, assert_sound, session_stream, write_to
from tests.conformance.postgres_tools import (
    AppendRefused,
    RawConnection,
    append_by_hand,
    connect_raw,
    wait_for_transactions,
)
from tests.crash.feed_worker import GONE, SHARED, THREADS, Follower, Task, open_store, work
from tests.postgres import fresh_url
from tests.support import figure

EVENTS = figure(4_000, 1_000_000)

pytestmark = pytest.mark.promise(9, f"the feed under 16 writers: {EVENTS:,} events a store")
PROCESSES = 4
SLOW = 4
PAGES = (7, 100, 1_000)
REOPENINGS = 3
"""How often a follower stops and goes on from its cursor in a store opened anew."""
A_WHILE = 200
"""Events that others get acknowledged while a slow transaction is held open."""

MEANWHILE = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""What two raw transactions may do to each other: the second happens when both make the same stream."""

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([work.__module__, "holdfast.storage.postgres.store", "holdfast.storage.sqlite.store"])


class Progress:
    """How many events were acknowledged so far; those who wait for more are woken."""

    def __init__(self) -> None:
        self.count = 0
        self.written = False
        """The writers are done."""
        self.over = threading.Event()
        """Nobody writes any more, and nothing is under way."""
        self._moved = threading.Condition()

    def add(self, count: int) -> None:
        with self._moved:
            self.count += count
            self._moved.notify_all()

    def stop(self) -> None:
        with self._moved:
            self.written = True
            self._moved.notify_all()

    def wait(self, more: int) -> None:
        with self._moved:
            due = self.count + more
            self._moved.wait_for(lambda: self.count >= due or self.written)

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Whatever happens, nobody waits for ever."""
        try:
            yield
        finally:
            self.stop()
            self.over.set()


Disturb: TypeAlias = Callable[[str, int, Progress], Counter[StreamId]]
"""Until all writers are done; the events that it committed."""


def write(url: str, number: int, progress: Progress) -> Counter[StreamId]:
    """One process with its threads; what each stream got from it."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    task = Task(url, number, EVENTS // PROCESSES // THREADS)
    process = CONTEXT.Process(target=work, args=(task, sender))
    process.start()
    sender.close()
    with receiver:
        while isinstance(told := receiver.recv(), int):
            progress.add(told)
    process.join()
    assert process.exitcode == 0
    assert isinstance(told, Counter)
    return told


def follow(url: str, follower: Follower, progress: Progress) -> None:
    """Until nothing more can come. An empty page is no reason to hurry: others write, or a slow one is waited for."""
    for part in range(1, REOPENINGS + 1):
        store = open_store(url)
        due = EVENTS * part // REOPENINGS if part < REOPENINGS else limits.WHOLE_NUMBER
        while not progress.written and follower.count < due:
            if not follower.read(store):
                progress.wait(follower.limit)
        store.close()
    progress.over.wait()
    store = open_store(url)
    follower.read_all(store)
    store.close()


def hold_transactions(url: str, number: int, progress: Progress) -> Counter[StreamId]:
    """Raw transactions on PostgreSQL: some only hold their number, some write first and some last, and end either way."""
    rng = random.Random(number)
    own = session_stream(f"slow {number}")
    stored: Counter[StreamId] = Counter()
    with connect_raw(url, autocommit=False) as session:
        while not progress.written:
            kept = rng.random() < 0.5
            written: Counter[StreamId] = Counter()
            with suppress(AppendRefused, VersionConflict, *MEANWHILE):
                if rng.random() < 0.7:
                    session.execute("SELECT pg_current_xact_id()")
                if rng.random() < 0.7:
                    written += hand_in(session, own, stored[own], kept)
                progress.wait(rng.randint(1, A_WHILE))
                if rng.random() < 0.3:  # refused to whoever has an old number
                    written += hand_in(session, rng.choice(SHARED), None, kept)
                if kept:
                    session.commit()
                    stored += written
                    progress.add(written.total())
            session.rollback()
    return stored


def hand_in(session: RawConnection, stream: StreamId, version: int | None, kept: bool) -> Counter[StreamId]:
    if version is None:
        ((version,),) = session.execute(
            "SELECT coalesce(max(version), 0) FROM streams WHERE key = %s", (f'["alice","{stream.key[1]}"]',)
        ).fetchall()
    events = append_by_hand(session, append_of(write_to(stream, version, *[b"{}" if kept else GONE] * 2))).events
    return Counter(event.stream for event in events)


def take_back(url: str, number: int, progress: Progress) -> Counter[StreamId]:
    """Raw transactions on a file: each changes what is there, and is rolled back."""
    connection = apsw.Connection(url)
    connection.set_busy_timeout(limits.BUSY_MS)
    while not progress.written:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE events SET payload = ? WHERE position > (SELECT max(position) - 50 FROM events)", [GONE]
        )
        connection.execute(
            "DELETE FROM events WHERE position % 3 = 0 AND position > (SELECT max(position) - 20 FROM events)"
        )
        connection.execute("ROLLBACK")
        progress.wait(A_WHILE * SLOW)
    connection.close()
    return Counter()


STORES: dict[str, tuple[Callable[[Path], str], Disturb]] = {
    "sqlite": (lambda folder: str(folder / "feed.db"), take_back),
    "postgres": (lambda folder: fresh_url(), hold_transactions),
}


@pytest.mark.parametrize("store", STORES)
def test_no_follower_misses_anything_of_sixteen_writers(store: str, tmp_path: Path) -> None:
    place, disturb = STORES[store]
    url = place(tmp_path)
    open_store(url).close()
    progress = Progress()
    followers = [Follower(limit) for limit in PAGES]
    with ThreadPoolExecutor(PROCESSES + SLOW + len(PAGES)) as pool, progress.ending():
        following = [pool.submit(follow, url, follower, progress) for follower in followers]
        disturbing = [pool.submit(disturb, url, number, progress) for number in range(SLOW)]
        writing = [pool.submit(write, url, number, progress) for number in range(PROCESSES)]
        stored = total(writing)
        progress.stop()
        stored += total(disturbing)
        if url.startswith("postgresql:"):
            with connect_raw(url) as connection:
                wait_for_transactions(connection)
    for each in following:
        each.result()
    log = open_store(url)
    late = Follower(limits.READ_EVENTS)
    late.read_all(log)
    assert late.count >= EVENTS
    for follower in (*followers, late):
        assert follower.seqs == stored
        assert follower.order == late.order
    assert_sound(log)
    log.close()


def total(parts: Iterable[Future[Counter[StreamId]]]) -> Counter[StreamId]:
    return sum((part.result() for part in parts), Counter())
