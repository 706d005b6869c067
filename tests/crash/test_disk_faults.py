"""Promise 4: when a write or a sync fails, an operation is either an error or durable, never a false acknowledgement.

At one point after the other, an operation on the disk fails while a workload runs. Every error is a typed one, the same
engine goes on, what was acknowledged is there once, also after a power loss, and a message that was answered with an error
is there exactly once when it is repeated with its key.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeAlias

import apsw
import pytest

import holdfast
from holdfast import Engine
from holdfast.errors import StorageError
from holdfast.model import limits
from tests.crash.test_power_loss import (
    DATABASE,
    THREADS,
    Deed,
    Known,
    Recording,
    Worker,
    faults_after,
    left_by_cut,
    small_log,
)
from tests.disk import DiskRecorder, FaultyDisk, open_on_tap
from tests.support import SHARED_MEMORY, figure

CUTS_A_POINT = 2
SHARED_SYNC_S = 0.005
"""Long enough for the other threads to wait for the next commit."""

pytestmark = pytest.mark.promise(4, "every Nth write or sync of SQLite fails")


class Striver(Worker):
    """Takes an error for an answer, if it is a typed one, and remembers what it was about."""

    def __init__(self, engine: Engine, disk: Recording, seed: int = 1) -> None:
        super().__init__(engine, disk, seed)
        self.failed: list[tuple[Deed, Callable[[], object]]] = []

    def do(self, deed: Deed, act: Callable[[], object]) -> None:
        try:
            super().do(deed, act)
        except StorageError:
            self.failed.append((deed, act))

    def repeat(self) -> None:
        failed, self.failed = self.failed, []
        for deed, act in failed:
            self.do(deed, act)

    def work(self, session: str) -> None:
        """Messages and bodies. What needs a session or a body waits until it is acknowledged."""
        already = len(self.failed)
        self.create(session)
        if len(self.failed) > already:
            return
        for number in range(3):
            self.say(session, f"{number} in {session}", key=f"{session}/{number}")
        already = len(self.failed)
        ref = self.put(f"the body of {session}".encode() * 50)
        if len(self.failed) == already:
            self.say(session, f"see {session}", ref, key=f"{session}/see")


def alone(striver: Striver) -> None:
    for number in range(3):
        striver.work(f"alone {number}")


def together(striver: Striver) -> None:
    """Threads that share commits, so that one fault may hit them all."""
    start = threading.Barrier(THREADS)
    strivers = [Striver(striver.engine, striver.disk, number) for number in range(THREADS)]

    def run(number: int) -> None:
        start.wait()
        strivers[number].work(f"thread {number}")

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))
    striver.failed += (failure for each in strivers for failure in each.failed)


Work: TypeAlias = Callable[[Striver], None]


class Run(NamedTuple):
    operations: int
    faults: int
    errors: int


def run(work: Work, folder: Path, nth: int, error: int = errno.EIO, *, every: bool = False) -> Run:
    """Work while the Nth operation fails, or every Nth, then compare what is left with what was acknowledged."""
    folder.mkdir()
    faulty = FaultyDisk(sync_s=SHARED_SYNC_S if work is together else 0.0)
    disk: Recording = DiskRecorder(folder, faulty)
    with small_log(), open_on_tap(disk, folder / DATABASE) as engine:
        striver = Striver(engine, disk)
        faulty.arm(nth, error, every=every)
        work(striver)
        result = Run(faulty.count, faulty.failed, len(striver.failed))
        faulty.arm(0)
        if nth % 2:
            striver.repeat()
        Worker(engine, disk).create("the same engine goes on")
        known = Known.at(disk, len(disk.log))
        cuts = [
            left_by_cut(disk, len(disk.log), Random(f"{nth}.{number}"), folder / f"cut-{number}")
            for number in range(CUTS_A_POINT)
        ]
    for left in (*cuts, DiskRecorder[Deed](folder)):
        faults = list(faults_after(known, left, recording=False))
        assert not faults, f"operation {nth} failed with {os.strerror(error)}, {left.folder}: {faults}"
    return result


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A place in memory: what is durable is read off the log, not off the disk."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as path:
        yield Path(path)


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("work", [alone, together])
def test_wherever_the_disk_fails_once_an_operation_is_an_error_or_durable(work: Work, error: int, shelf: Path) -> None:
    operations = run(work, shelf / "0", nth=0).operations
    step = operations // figure(8, operations)
    first = 1 + (step // 2 if error == errno.ENOSPC else 0)  # half way between the points where the other error strikes

    runs = [run(work, shelf / str(nth), nth, error) for nth in range(first, operations + 1, step)]

    assert sum(each.faults for each in runs) > len(runs) // 2
    assert sum(each.errors for each in runs) > len(runs) // 2
    assert any(each.errors > 1 for each in runs) == (work is together), "one fault hits all who share a commit"


@pytest.mark.parametrize("nth", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("work", [alone, together])
def test_a_disk_that_fails_again_and_again_makes_errors_and_no_false_acknowledgement(
    work: Work, nth: int, shelf: Path
) -> None:
    result = run(work, shelf / "every", nth, every=True)

    assert result.faults > 1
    assert result.errors > 0


def test_a_disk_that_breaks_in_the_middle_of_a_body_is_a_typed_error(shelf: Path) -> None:
    faulty = FaultyDisk()

    def body() -> Iterator[bytes]:
        yield os.urandom(limits.BLOB_CHUNK_BYTES)
        faulty.arm(1, every=True)
        yield os.urandom(limits.BLOB_CHUNK_BYTES)

    with open_on_tap(faulty, shelf / DATABASE) as engine:
        try:
            with pytest.raises(StorageError):
                engine.blobs.put(body())
        finally:
            faulty.arm(0)
        assert engine.blobs.read(engine.blobs.put(b"it goes on")) == b"it goes on"


@pytest.mark.filterwarnings(  # SQLite gets over some of these faults without a word; apsw reports them all the same
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_wherever_the_disk_fails_while_a_store_is_made_it_is_an_error_or_durable(shelf: Path) -> None:
    nth = 1
    while _make(shelf / str(nth), nth):
        nth += 1

    assert nth > 10, "making a store has more operations than that"


def _make(folder: Path, nth: int) -> bool:
    """Make a store while the Nth operation fails; whether it came to that."""
    folder.mkdir()
    file = folder / DATABASE
    faulty = FaultyDisk()
    faulty.arm(nth)
    struck = True
    try:
        with open_on_tap(faulty, file) as engine:
            engine.create_session("made")
            struck = faulty.failed > 0
            assert _journal_mode(file) == "wal", f"operation {nth} failed: commits would not survive power loss"
            faulty.arm(0)
    except StorageError:
        assert faulty.failed
    with holdfast.open(file) as engine:
        engine.create_session("made later").record("user", "it goes on")
        assert _journal_mode(file) == "wal"
        assert engine.admin.verify().ok
    return struck


def _journal_mode(file: Path) -> str:
    connection = apsw.Connection(str(file))
    try:
        return str(connection.pragma("journal_mode"))
    finally:
        connection.close()
