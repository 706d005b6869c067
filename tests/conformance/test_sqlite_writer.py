"""The one writer of a file: commits are shared, failures are not, and nobody who leaves makes the others wait."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import apsw
import msgspec
import pytest

from holdfast.errors import KeyConflict, QueueFull, StorageBusy, StorageUnavailable, StoreClosed, VersionConflict
from holdfast.model import limits
from holdfast.model.log import Append, AppendResult
from holdfast.storage.sqlite import log, writer
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.storage.threaded import ThreadedStore
from holdfast.testing.appends import (
    ONE,
    TWO,
    all_events,
    append_of,
    assert_sound,
    fill_stream,
    run_in_threads,
    session_row,
    session_stream,
    write_to,
)
from tests.support import PATIENCE_S


class Watched:
    """A store with its writing connection in sight: how often it committed, and when it met another's lock."""

    def __init__(self, path: Path) -> None:
        opened: list[apsw.Connection] = []
        apsw.connection_hooks.append(opened.append)
        try:
            self.store = SqliteStore(path)
        finally:
            apsw.connection_hooks.remove(opened.append)
        self.tasks = ThreadedStore(self.store)
        self.path = path
        self.commits = 0
        self.blocked = threading.Event()
        self._free = threading.Event()
        opened[0].set_wal_hook(self._committed)
        opened[0].set_busy_handler(self._busy)

    def _committed(self, *_: object) -> int:
        self.commits += 1
        return 0

    def _busy(self, _tries: int) -> bool:
        self.blocked.set()
        return self._free.wait(PATIENCE_S)

    @contextmanager
    def held_up(self) -> Iterator[None]:
        """While another connection writes, as another process might."""
        other = apsw.Connection(str(self.path))
        other.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")
            other.close()
            self._free.set()

    def leader(self, pool: ThreadPoolExecutor, append: Append) -> Future[AppendResult]:
        """Let a thread begin a transaction and find the file locked: all that come after it have to queue."""
        leading = pool.submit(self.store.append, append)
        assert self.blocked.wait(PATIENCE_S)
        return leading

    def wait_for_queue(self, length: int) -> None:
        while len(self.store._writer._group._queue) < length:
            threading.Event().wait(0.001)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(tmp_path / "agent.db")
    yield watched
    watched.store.close()
    store = SqliteStore(watched.path)
    assert_sound(store)
    store.close()


async def together(watched: Watched, appends: list[Append]) -> list[AppendResult | BaseException]:
    """Have all of them wait in the queue before the first can be committed."""
    with watched.held_up():
        tasks = [asyncio.create_task(watched.tasks.append(append)) for append in appends]
        await asyncio.sleep(0)  # one turn of the loop: every task has run to where it waits
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_tasks_that_wait_together_share_a_commit(watched: Watched) -> None:
    appends = [append_of(write_to(session_stream(str(each)), 0)) for each in range(100)]
    answers = asyncio.run(together(watched, appends))
    assert [answer.events[0].command for answer in answers if isinstance(answer, AppendResult)] == [
        append.command for append in appends
    ]
    assert watched.commits <= 2, "one for those who were there when the first began, one for all others"


def test_threads_that_wait_together_share_a_commit(watched: Watched) -> None:
    with ThreadPoolExecutor(33) as pool:
        with watched.held_up():
            waiting = [watched.leader(pool, append_of(write_to(ONE, 0)))]
            for each in range(32):
                waiting.append(pool.submit(watched.store.append, append_of(write_to(session_stream(str(each)), 0))))
            watched.wait_for_queue(32)
        assert len({answer.result().events[0].id for answer in waiting}) == 33
    assert watched.commits == 2


def test_a_batch_has_a_bound(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_COMMANDS", 10)
    appends = [append_of(write_to(ONE, each)) for each in range(35)]
    answers = asyncio.run(together(watched, appends))
    assert [answer.events[0].seq for answer in answers if isinstance(answer, AppendResult)] == list(range(1, 36))
    assert 4 <= watched.commits <= 5


def half_way(expected: int) -> Append:
    """An append that fails in the middle: its events go in, then its row is refused."""
    row = msgspec.structs.replace(session_row(ONE), status=None)
    return append_of(write_to(ONE, expected, rows=[row]), key="half-way")


def test_a_failure_in_a_shared_commit_takes_no_other_with_it(watched: Watched) -> None:
    fill_stream(watched.store, TWO, 1)
    watched.store.append(append_of(write_to(session_stream("keyed"), 0), key="key"))
    appends_and_answers: list[tuple[Append, type | int]] = [
        (append_of(write_to(ONE, 0)), 1),
        (append_of(write_to(TWO, 0)), VersionConflict),
        (append_of(write_to(ONE, 1)), 2),
        (half_way(2), StorageUnavailable),
        (append_of(write_to(ONE, 2), key="key", order=b"another"), KeyConflict),
        (append_of(write_to(ONE, 3)), VersionConflict),
        (append_of(write_to(ONE, 2), write_to(TWO, 1)), 3),
        (append_of(write_to(ONE, 3), write_to(TWO, 1)), VersionConflict),
        (append_of(write_to(ONE, 3)), 4),
    ]
    appends = [append for append, _ in appends_and_answers]
    answers = asyncio.run(together(watched, appends))
    told = [answer.events[0].seq if isinstance(answer, AppendResult) else type(answer) for answer in answers]
    assert told == [expected for _, expected in appends_and_answers]
    assert watched.store.find(ONE.tenant, "half-way") == ()
    assert [event.seq for event in watched.store.read(ONE, limit=9)] == [1, 2, 3, 4]


def test_a_failure_half_way_leaves_the_next_command_a_clean_start(watched: Watched) -> None:
    for version in range(3):
        with pytest.raises(StorageUnavailable) as caught:
            watched.store.append(half_way(version))
        assert isinstance(caught.value.__cause__, apsw.ConstraintError)
        assert fill_stream(watched.store, ONE, 1)[0].seq == version + 1
    assert watched.store.totals().events == 3


def test_reading_goes_on_while_the_writer_waits(watched: Watched) -> None:
    events = fill_stream(watched.store, ONE, 2)
    with ThreadPoolExecutor(1) as pool, watched.held_up():
        leading = watched.leader(pool, append_of(write_to(ONE, 2)))
        assert watched.store.read(ONE, limit=9) == events
        assert not leading.done()


def test_a_lock_held_too_long_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BUSY_MS", 20)
    store = SqliteStore(tmp_path / "agent.db")
    other = apsw.Connection(store.path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageBusy) as caught:
        fill_stream(store, ONE, 1)
    assert caught.value.waited_ms == 20
    other.close()
    fill_stream(store, ONE, 1)
    assert_sound(store)
    store.close()


def test_a_full_queue_is_a_typed_error(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUEUED_COMMANDS", 3)

    async def main() -> list[AppendResult | BaseException]:
        with watched.held_up():
            leading = asyncio.create_task(watched.tasks.append(append_of(write_to(ONE, 0))))
            assert await asyncio.to_thread(watched.blocked.wait, PATIENCE_S)
            tasks = [asyncio.create_task(watched.tasks.append(append_of(write_to(TWO, at)))) for at in range(5)]
            await asyncio.sleep(0)
            assert [task.done() for task in tasks] == [False, False, True, True, True]
        return await asyncio.gather(leading, *tasks, return_exceptions=True)

    answers = asyncio.run(main())
    assert [type(answer) for answer in answers] == [AppendResult] * 3 + [QueueFull] * 3


def test_closing_waits_for_what_is_queued(watched: Watched) -> None:
    appends = [append_of(write_to(ONE, version)) for version in range(20)]

    async def main() -> list[AppendResult | BaseException]:
        with watched.held_up():
            tasks = [asyncio.create_task(watched.tasks.append(append)) for append in appends]
            await asyncio.sleep(0)
            closing = asyncio.create_task(asyncio.to_thread(watched.store.close))
            await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        await closing
        return answers

    answers = asyncio.run(main())
    assert [answer.events[0].seq for answer in answers if isinstance(answer, AppendResult)] == list(range(1, 21))


def test_what_is_acknowledged_around_a_close_is_what_is_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "agent.db")
    begun = threading.Barrier(9)

    def work(number: int) -> list[str]:
        acknowledged = []
        try:
            for at in range(1_000_000):
                acknowledged.append(store.append(append_of(write_to(session_stream(str(number)), at))).events[0].id)
                if at == 0:
                    begun.wait(PATIENCE_S)
        except StoreClosed:
            pass
        return acknowledged

    def close() -> list[str]:
        begun.wait(PATIENCE_S)
        store.close()
        return []

    acknowledged = run_in_threads(9, lambda number: work(number) if number < 8 else close())
    again = SqliteStore(store.path)
    assert sorted(event.id for event in all_events(again)) == sorted(each for ids in acknowledged for each in ids)
    assert_sound(again)
    again.close()


def test_a_thread_does_not_depend_on_an_event_loop_that_is_busy(tmp_path: Path) -> None:
    """A task is in the queue, and its loop blocks before it gets to anything else."""
    store = SqliteStore(tmp_path / "agent.db")

    async def main() -> int:
        task = asyncio.create_task(ThreadedStore(store).append(append_of(write_to(ONE, 0))))
        await asyncio.sleep(0)
        (event,) = store.append(append_of(write_to(ONE, 1))).events
        await task
        return event.seq

    seqs: list[int] = []
    thread = threading.Thread(target=lambda: seqs.append(asyncio.run(main())), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert seqs == [2]
    store.close()


def test_an_event_loop_does_not_depend_on_another_that_is_busy(watched: Watched) -> None:
    """A task of one loop is in the queue, and that loop blocks; tasks of the other are written all the same."""
    queued, free = threading.Event(), threading.Event()

    async def busy() -> None:
        task = asyncio.create_task(watched.tasks.append(append_of(write_to(ONE, 0))))
        await asyncio.sleep(0)
        queued.set()
        free.wait(2 * PATIENCE_S)
        await task

    async def other() -> AppendResult:
        return await asyncio.wait_for(watched.tasks.append(append_of(write_to(TWO, 0))), PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lambda: asyncio.run(busy()))
        assert queued.wait(PATIENCE_S)
        try:
            assert asyncio.run(other()).events[0].seq == 1
        finally:
            free.set()
        first.result()


class Interrupted(BaseException):
    """What a signal handler raises, as Ctrl-C does."""


def appending(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code is not SqliteStore.append.__code__:
        frame = frame.f_back
    return frame is not None


@contextmanager
def interrupted_once_it_waits() -> Iterator[None]:
    """Signal the main thread until it is found twice at the same place of an append: it is blocked there, and gets the
    exception."""
    places: list[tuple[FrameType | None, int]] = []
    done = threading.Event()

    def handler(_number: int, frame: FrameType | None) -> None:
        place = (frame, frame.f_lasti if frame else 0)
        if not done.is_set() and place in places[-1:] and appending(frame):
            done.set()
            raise Interrupted
        places.append(place)

    def knock() -> None:
        while not done.wait(0.005):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    knocking = threading.Thread(target=knock)
    knocking.start()
    try:
        yield
    finally:
        done.set()
        knocking.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_a_waiting_thread_that_is_interrupted_holds_nobody_up(watched: Watched, behind: int) -> None:
    store = watched.store
    with ThreadPoolExecutor(5) as pool:
        with watched.held_up():
            leading = watched.leader(pool, append_of(write_to(ONE, 0)))
            waiting: list[Future[AppendResult]] = []

            def queue_behind() -> None:
                watched.wait_for_queue(1)
                for each in range(behind):
                    waiting.append(pool.submit(store.append, append_of(write_to(session_stream(str(each)), 0))))

            queueing = threading.Thread(target=queue_behind)
            queueing.start()
            with pytest.raises(Interrupted), interrupted_once_it_waits():
                store.append(append_of(write_to(TWO, 0)))
            queueing.join()
            watched.wait_for_queue(1 + behind)
        assert leading.result(PATIENCE_S).events[0].seq == 1
        assert all(answer.result(PATIENCE_S) for answer in waiting)
        assert pool.submit(fill_stream, store, ONE, 1).result(PATIENCE_S)[0].seq == 2


def interrupted_at(point: int, store: SqliteStore) -> bool:
    """Append, and be interrupted at this one of the points where Python lets a signal in: at the beginning of a function
    and after a call into C. False if there are not that many."""
    passed = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal passed
        if event in ("call", "c_return") and frame.f_code.co_filename in (writer.__file__, log.__file__):
            passed += 1
            if passed == point:
                raise Interrupted

    def run() -> None:
        sys.setprofile(profile)
        try:
            store.append(append_of(write_to(TWO, 0)))
        except Interrupted:
            pass
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), f"interrupted at point {point}, it never came back"
    return passed >= point


def test_a_writer_interrupted_at_any_point_leaves_the_store_working(tmp_path: Path) -> None:
    point = 1
    while interrupted_at(point, store := SqliteStore(tmp_path / f"{point}.db")):
        after = threading.Thread(target=fill_stream, args=(store, ONE, 1), daemon=True)
        after.start()
        after.join(PATIENCE_S)
        assert not after.is_alive(), f"after an interrupt at point {point} nobody can write"
        assert [event.seq for event in store.read(ONE, limit=5)] == [1]
        other = SqliteStore(store.path)
        fill_stream(other, ONE, 1)
        other.close()
        assert_sound(store)
        store.close()
        point += 1
    store.close()
    assert point > 20
