"""Promise 2: what was acknowledged survives power loss, bodies included, whatever unsynced writes are dropped or torn.

`kill -9` cannot show this, as the page cache survives it. So real workloads are recorded, operation by operation, and then
cut at random: each cut is a disk as the failure may have left it. It has to open, verify, hold everything acknowledged
exactly once and whole commands only, and go on working. The same campaign on a disk that skips syncs finds the losses.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

import apsw
import pytest

import holdfast
from holdfast import BlobRef, Engine, File, HoldfastError, codec
from holdfast.model import limits
from holdfast.runtime.bodies import put_blob
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.types import NewEntry, Part
from tests.disk import (
    SECTOR,
    Act,
    DiskOperation,
    DiskRecorder,
    DiskTap,
    T,
    TapFiles,
    cut_power,
    open_on_tap,
    write_files,
)
from tests.support import SHARED_MEMORY, CountingIds, SteppingClock, figure

CUTS = figure(200, 10_000)

pytestmark = pytest.mark.promise(2, f"power loss on SQLite: {CUTS:,} cuts")
BITES = 200
"""The cuts within which a disk that skips syncs has to be found out."""
RECUT_EVERY = 8
"""One recovery in so many is itself cut off."""
PAGES_A_CHECKPOINT = 30
THREADS = 8
DATABASE = "agent.db"

Item: TypeAlias = tuple[str, str]
"""A session and the text of one of its messages, or what became of it, or an entry; "" stands for the session itself."""


class Deed(NamedTuple):
    """What one operation changes, all of it or nothing."""

    adds: frozenset[Item] = frozenset()
    erases: frozenset[Item] = frozenset()
    blob: BlobRef | None = None
    key: str | None = None
    refs: tuple[BlobRef, ...] = ()


Recording: TypeAlias = DiskRecorder[Deed]


class Worker:
    """Does things to an engine and notes in the log what was begun and what was acknowledged."""

    def __init__(self, engine: Engine, disk: Recording, seed: int = 1) -> None:
        self.engine = engine
        self.disk = disk
        self.rng = Random(seed)

    def do(self, deed: Deed, act: Callable[[], object]) -> None:
        self.disk.intend(deed)
        act()
        self.disk.acknowledge(deed)

    def create(self, session: str) -> None:
        self.do(Deed(frozenset({(session, "")})), lambda: self.engine.create_session(session, key=f"create {session}"))

    def say(self, session: str, text: str, *refs: BlobRef, key: str | None = None) -> None:
        content: list[str | Part] = [text, *map(File, refs)]
        deed = Deed(frozenset({(session, text)}), key=key, refs=refs)
        self.do(deed, lambda: self.engine.session(session).record("user", content, key=key))

    def chat(self, session: str, count: int) -> None:
        for number in range(count):
            size = self.rng.choice((0, 0, 20, 300, 5_000))
            text = f"{number} {''.join(self.rng.choices('abc äöü', k=size))}" if size else str(number)
            self.say(session, text, key=self.rng.choice((None, f"{session}/{number}")))

    def put(self, body: bytes) -> BlobRef:
        ref = BlobRef(hashlib.sha256(body).hexdigest(), len(body))
        self.do(Deed(blob=ref), lambda: self.engine.blobs.put(body))
        return ref

    def erase(self, session: str) -> None:
        """Erase a message, which its forks lose as well."""
        there = self.engine.session(session)
        message = self.rng.choice([each for each in there.messages() if not each.erased and not each.withdrawn])
        shared = {(row.session, message.text) for row in there.forks()} & {*_items(self.engine)}
        deed = Deed(erases=frozenset({(session, message.text), *shared}))
        self.do(deed, lambda: there.erase([message.seq], "asked to"))

    def fork(self, session: str, name: str) -> None:
        """Fork a session at its newest event: the fork has all that the session has."""
        shared = frozenset((name, text) for there, text in _items(self.engine) if there == session)
        self.do(Deed(shared), lambda: self.engine.session(session).fork(as_=name))

    def withdraw(self, session: str, number: int) -> None:
        """Say something that a fact comes from, withdraw it, and perhaps restore it."""
        there, text = self.engine.session(session), f"said {number}"
        self.say(session, text)
        there.facts.set(text, "x" * 900, provenance=there.messages(limit=1)[-1].id)
        changed = frozenset({(session, f"withdrawn: {text}"), (session, f"doubted: {text}")})
        self.do(Deed(changed), there.withdraw)
        if number % 3:
            self.do(Deed(erases=changed), lambda: there.restore(there.state().version))

    def save(self, session: str, *bodies: dict[str, Any]) -> None:
        new = [NewEntry("checkpoint", str(body["step"]), body) for body in bodies]
        deed = Deed(frozenset((session, _describe_entry(each.key, each.body)) for each in new))
        self.do(deed, lambda: self.engine.session(session).entries.append_all(new))

    def prune(self, session: str, keep: int) -> None:
        entries = self.engine.session(session).entries
        old = entries.list()[keep:]
        deed = Deed(erases=frozenset((session, _describe_entry(each.key, each.body)) for each in old))
        self.do(deed, lambda: entries.delete([each.key for each in old]))


def _describe_entry(key: str, body: object) -> str:
    return f"entry: {key} {hashlib.sha256(codec.encode(body)).hexdigest()}"


def long_session(worker: Worker, _folder: Path) -> None:
    """Past a snapshot, which an erasure then drops."""
    worker.create("long")
    worker.chat("long", limits.SNAPSHOT_EVERY + 5)
    worker.erase("long")
    worker.create("other")
    worker.chat("other", 20)


def bodies(worker: Worker, _folder: Path) -> None:
    """Bodies, new and known, and the messages that name them."""
    worker.create("files")
    for number in range(14):
        body = worker.rng.randbytes(worker.rng.choice((1, 700, 20_000)))
        worker.put(body)
        worker.say("files", f"see {number}", worker.put(body), key=worker.rng.choice((None, f"see/{number}")))
    worker.erase("files")
    worker.chat("files", 10)


def imported(worker: Worker, folder: Path) -> None:
    """Two sessions with bodies, taken in by one transaction, between other writes."""
    sessions = {f"import {each}": [f"{each}{number}" for number in range(12)] for each in "ab"}
    with holdfast.open("memory:") as other:
        for session, texts in sessions.items():
            there = other.create_session(session)
            for text in texts:
                there.record("user", [text, File(other.blobs.put(text.encode()))])
        other.admin.export(folder / "import.jsonl")
    items = frozenset((session, text) for session, texts in sessions.items() for text in ("", *texts))
    worker.create("before")
    worker.chat("before", 20)
    worker.do(Deed(items), lambda: worker.engine.admin.import_(folder / "import.jsonl"))
    worker.create("after")
    worker.chat("after", 20)


def threads(worker: Worker, _folder: Path) -> None:
    """Threads that share commits."""

    def run(number: int) -> None:
        each = Worker(worker.engine, worker.disk, number)
        each.create(f"thread {number}")
        each.chat(f"thread {number}", 15)
        each.say(f"thread {number}", "see there", each.put(each.rng.randbytes(300)))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


def withdrawals(worker: Worker, _folder: Path) -> None:
    """Messages that are taken back together with the facts that they state, and restored."""
    worker.create("taken")
    for number in range(12):
        worker.withdraw("taken", number)


def entries(worker: Worker, _folder: Path) -> None:
    """Checkpoints that share chunks, some of them bodies, and are pruned."""
    worker.create("saved")
    messages: list[str] = []
    for step in range(0, 24, 2):
        messages += [worker.rng.randbytes(300).hex() for _ in range(6)]
        first: dict[str, Any] = {"step": step, "messages": messages[:-2], "large": f"{step // 8} " * 30_000}
        worker.save("saved", first, {**first, "step": step + 1, "messages": [*messages]})
        if step % 8 == 6:
            worker.prune("saved", 3)


def forks(worker: Worker, _folder: Path) -> None:
    """Forks of a session and of its forks, with messages, doubted facts and entries, and erasures that reach them."""
    worker.create("fork 0")
    worker.chat("fork 0", 12)
    worker.save("fork 0", {"step": 0, "text": "shared"})
    worker.withdraw("fork 0", 0)
    for number in range(1, 9):
        parent, new = f"fork {worker.rng.randrange(max(0, number - 3), number)}", f"fork {number}"
        worker.fork(parent, new)
        for session in (parent, new):
            worker.say(session, f"{session} goes on after {number} forks")
        worker.erase("fork 0")


Workload: TypeAlias = Callable[[Worker, Path], None]
WORKLOADS: tuple[Workload, ...] = (long_session, bodies, imported, threads, withdrawals, entries, forks)


@contextmanager
def small_log() -> Iterator[None]:
    """A checkpoint every few commits: a log that starts over is where the difficult cases are."""

    def set_up(connection: apsw.Connection) -> None:
        connection.wal_autocheckpoint(PAGES_A_CHECKPOINT)

    apsw.connection_hooks.append(set_up)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(set_up)


def record(work: Workload, disk: Recording, synchronous: str = "FULL") -> Recording:
    """Run a workload on a new store, from its creation to its close."""
    file = os.path.join(disk.folder, DATABASE)
    with (
        small_log(),
        open_on_tap(disk, file, synchronous=synchronous, clock=SteppingClock(), ids=CountingIds()) as engine,
    ):
        work(Worker(engine, disk), Path(disk.folder))
    return disk


class SkippingDisk(DiskRecorder[Deed]):
    """A disk on which some operations are said to be done and are not."""

    def __init__(self, folder: Path, skips: Callable[[DiskOperation], bool]) -> None:
        super().__init__(folder)
        self._skips = skips

    def perform(self, op: DiskOperation, act: Act[T]) -> T:
        return act(op) if self._skips(op) else super().perform(op, act)


class Known(NamedTuple):
    """What has to be there after a cut, and what may."""

    acknowledged: frozenset[Deed]
    begun: frozenset[Deed]

    @classmethod
    def at(cls, disk: Recording, at: int) -> Known:
        return cls(frozenset(disk.acknowledgements(at)), frozenset(disk.intentions(at)))

    def and_then(self, later: Known) -> Known:
        return Known(self.acknowledged | later.acknowledged, self.begun | later.begun)

    def faults(self, engine: Engine) -> Iterator[str]:
        """What is wrong with what an engine holds."""
        found = Counter(_items(engine))
        yield from (f"{item} is there {times} times" for item, times in found.items() if times > 1)
        may_be_gone = {item for deed in self.begun for item in deed.erases}
        for deed in self.begun:
            held = deed.adds & found.keys()
            owed = deed.adds - may_be_gone
            if deed in self.acknowledged:
                yield from (f"{item} was acknowledged and is lost" for item in owed - held)
                yield from (f"{item} was erased and is back" for item in deed.erases & found.keys())
            elif held and owed - held:
                yield f"half a command: {held} without {owed - held}"
            elif found.keys() & deed.erases not in (set(), deed.erases):
                yield f"half an erasure: {found.keys() & deed.erases} of {deed.erases} are left"
            if deed.blob is not None and deed in self.acknowledged:
                yield from _blob_faults(engine, deed.blob)
        yield from (f"{item} came from nowhere" for item in found.keys() - {i for d in self.begun for i in d.adds})


def _items(engine: Engine) -> Iterator[Item]:
    for row in engine.sessions():
        yield row.session, ""
        for message in engine.session(row.session).messages(limit=limits.READ_EVENTS):
            if not message.erased:
                yield row.session, message.text
            if message.withdrawn:
                yield row.session, f"withdrawn: {message.text}"
        session = engine.session(row.session)
        yield from ((row.session, f"doubted: {fact.key}") for fact in session.ledger().review.list())
        yield from ((row.session, _describe_entry(each.key, each.body)) for each in session.entries.list())


def _blob_faults(engine: Engine, ref: BlobRef) -> Iterator[str]:
    try:
        engine.blobs.read(ref)
    except HoldfastError as error:
        yield f"a body was acknowledged and is lost: {error}"


def go_on(worker: Worker, known: Known, session: str) -> None:
    """What a client does after the crash: repeat what was not answered, if it has a key, and go on."""
    for deed in known.begun - known.acknowledged:
        if deed.key is not None:
            [(there, text)] = deed.adds
            worker.say(there, text, *deed.refs, key=deed.key)
    worker.create(session)
    worker.say(session, "it goes on")


def faults_after(known: Known, disk: Recording, *, recording: bool) -> Iterator[str]:
    """Recover what a cut left, compare it with what is known, and go on."""
    file = os.path.join(disk.folder, DATABASE)
    try:
        with open_on_tap(disk, file) if recording else holdfast.open(file) as engine:
            yield from (f"verify: {problem}" for problem in engine.admin.verify().problems)
            yield from known.faults(engine)
            go_on(Worker(engine, disk), known, os.path.basename(disk.folder))
            yield from known.and_then(Known.at(disk, len(disk.log))).faults(engine)
    except HoldfastError as error:
        yield f"it does not work: {error!r}"


def campaign(disk: Recording, shelf: Path, cuts: int, seed: int) -> Iterator[str]:
    """Cut the power at random points of a log. What it finds names the cut, whose folder is left as it is."""
    for number in range(cuts):
        rng = Random(f"{seed}.{number}")
        recording = number % RECUT_EVERY == 0
        at = rng.randrange(disk.start, len(disk.log) + 1)
        recovery = left_by_cut(disk, at, rng, shelf / f"cut-{number}")
        known = Known.at(disk, at)
        faults = list(faults_after(known, recovery, recording=recording))
        if recording and not faults:
            later = rng.randrange(recovery.start, len(recovery.log) + 1)
            known = known.and_then(Known.at(recovery, later))
            recovery = left_by_cut(recovery, later, rng, shelf / f"recut-{number}")
            faults = list(faults_after(known, recovery, recording=False))
        if faults:
            where = f"operation {at} of {len(disk.log)}, {recovery.folder}"
            yield f"seed {seed}, cut {number} after {where}: {'; '.join(faults)}"
        for each in ("cut", "recut"):
            shutil.rmtree(shelf / f"{each}-{number}", ignore_errors=True)


def left_by_cut(disk: Recording, at: int, rng: Random, folder: Path) -> Recording:
    write_files(cut_power(disk.log, at, rng), folder)
    return DiskRecorder(folder)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A place in memory for thousands of cuts. What a failure left there stays, to be looked at."""
    path = tempfile.mkdtemp(prefix="holdfast-", dir=SHARED_MEMORY)
    yield Path(path)
    with suppress(OSError):
        os.rmdir(path)


@pytest.mark.parametrize("work", WORKLOADS)
def test_no_cut_loses_or_breaks_what_was_acknowledged(work: Workload, tmp_path: Path, shelf: Path) -> None:
    disk = record(work, DiskRecorder(tmp_path))

    assert _restarts(disk) >= 2, "the workload is to start the log over several times"
    assert next(campaign(disk, shelf, CUTS // len(WORKLOADS), seed=2), None) is None


def _restarts(disk: Recording) -> int:
    """How often the write-ahead log began anew: SQLite then writes its header."""
    return sum(op.kind == "write" and op.path == DATABASE + "-wal" and op.offset == 0 for op in disk.log)


def test_without_a_sync_at_every_commit_the_campaign_finds_lost_messages(tmp_path: Path) -> None:
    disk = record(long_session, DiskRecorder(tmp_path), synchronous="NORMAL")

    assert any("was acknowledged and is lost" in found for found in campaign(disk, tmp_path, BITES, seed=3))


def _body(op: DiskOperation) -> bool:
    return ".blobs/" in op.path


@pytest.mark.parametrize(
    ("work", "skips", "finds"),
    [
        pytest.param(bodies, lambda op: op.kind == "sync" and _body(op), "a body was", id="the sync of a body"),
        pytest.param(bodies, lambda op: op.kind == "sync_folder", "a body was", id="the sync of a folder"),
        pytest.param(threads, lambda op: op.kind == "sync" and not _body(op), "acknowledged", id="the sync of the log"),
        pytest.param(
            withdrawals, lambda op: op.kind == "sync" and not _body(op), "'doubted: ", id="the sync of a withdrawal"
        ),
        pytest.param(
            entries, lambda op: op.kind == "sync" and _body(op), "StorageCorrupt", id="the sync of a body of an entry"
        ),
        pytest.param(
            long_session, lambda op: op.kind == "sync" and op.path.endswith(".db"), "", id="the sync of the database"
        ),
    ],
)
def test_a_disk_that_skips_a_sync_is_found_out(
    work: Workload, skips: Callable[[DiskOperation], bool], finds: str, tmp_path: Path
) -> None:
    disk = record(work, SkippingDisk(tmp_path, skips))

    assert any(finds in found for found in campaign(disk, tmp_path, BITES, seed=4))


class InterruptedDisk(DiskTap):
    """Lets something else happen just before the Nth operation."""

    def __init__(self, nth: int, meanwhile: Callable[[], None]) -> None:
        self._left = nth
        self._meanwhile = meanwhile

    def perform(self, op: DiskOperation, act: Act[T]) -> T:
        self._left -= 1
        if self._left == 0:
            self._meanwhile()
        return act(op)


def test_a_body_put_in_the_middle_of_another_put_is_durable_when_acknowledged(tmp_path: Path) -> None:
    first, second = _neighbours()
    nth = 1
    while len(_put_during(nth, first, second, tmp_path / str(nth))) == 2:
        nth += 1

    assert nth > 10, "the first put has more operations than that"


def _put_during(nth: int, first: bytes, second: bytes, folder: Path) -> list[tuple[int, BlobRef]]:
    """Put the second body just before the Nth operation of putting the first, and cut after each answer."""
    folder.mkdir()
    acknowledged: list[tuple[int, BlobRef]] = []

    def put(body: bytes) -> None:
        ref = put_blob(blobs, "tenant", body, None)
        acknowledged.append((len(disk.log), ref))

    disk: Recording = DiskRecorder(folder, InterruptedDisk(nth, lambda: put(second)))
    blobs = FolderBlobs(folder / "blobs", TapFiles(disk))
    put(first)
    for number in range(40):
        for at, ref in acknowledged:
            left = left_by_cut(disk, at, Random(number), folder / f"cut-{number}-{at}")
            assert b"".join(FolderBlobs(os.path.join(left.folder, "blobs")).chunks("tenant", ref)) in (first, second)
    return acknowledged


def _neighbours() -> tuple[bytes, bytes]:
    """Two bodies that go into the same folder."""
    seen: dict[str, bytes] = {}
    for number in range(1_000):
        body = str(number).encode()
        shelf = hashlib.sha256(body).hexdigest()[:2]
        if shelf in seen:
            return seen[shelf], body
        seen[shelf] = body
    raise AssertionError("unreachable: there are 256 folders")


def _cuts(log: list[DiskOperation]) -> set[bytes]:
    """What a file may hold after the whole log, over many cuts."""
    return {cut_power(log, len(log), Random(number)).get("file") or b"" for number in range(400)}


def test_a_cut_keeps_what_was_synced_and_any_of_the_rest() -> None:
    log = [
        DiskOperation("create", "file"),
        DiskOperation("write", "file", 0, b"synced"),
        DiskOperation("sync", "file", began=2),
    ]
    named = [*log, DiskOperation("sync_folder", ".", began=3)]
    later = [*named, DiskOperation("write", "file", 6, b"+1"), DiskOperation("write", "file", 8, b"+2")]

    assert _cuts(log) == {b"", b"synced"}
    assert _cuts(named) == {b"synced"}
    assert _cuts(later) == {
        b"synced" + rest for rest in (b"", b"+1", b"+1+2", b"\0\0+2", b"\0\0", b"+1\0\0", b"\0\0\0\0")
    }


def test_a_cut_tears_a_write_at_its_sectors() -> None:
    data = b"a" * SECTOR + b"b" * SECTOR
    log = [
        DiskOperation("create", "file"),
        DiskOperation("sync_folder", ".", began=1),
        DiskOperation("write", "file", 0, data),
    ]

    assert {bytes(content) for content in _cuts(log)} >= {b"", data, data[:SECTOR], bytes(SECTOR) + data[SECTOR:]}


def test_a_cut_never_loses_both_names_of_a_renamed_file() -> None:
    log = [
        DiskOperation("create", "old"),
        DiskOperation("sync_folder", ".", began=1),
        DiskOperation("rename", "old", target="new"),
    ]

    assert {tuple(cut_power(log, len(log), Random(number))) for number in range(100)} == {
        ("old",),
        ("new",),
        ("new", "old"),
    }
