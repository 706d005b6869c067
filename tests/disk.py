"""A disk that a test can watch, cut off, break and fill up, under an engine that runs for real.

What SQLite (through a VFS) and the blobs (through a `Disk`) do to the disk all passes one tap:

    Tap             lets everything through
    RecordedDisk    keeps a log; `cut` says what may be left of it when the power fails
    FaultyDisk      fails the Nth operation, or every Nth
    QuotaDisk       has room for so many bytes

    with open_on(RecordedDisk(folder), folder + "/agent.db") as engine: ...

Laws of `cut`: what a file held at its last sync is there; of each write after it all, nothing or some sectors are there,
whatever else happened later to this or another file; a name is there, or gone, for sure only after its folder was synced;
a sync that failed is not made good by a later one, as on Linux.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import apsw

from holdfast.adapters.system import RandomIds, SystemClock
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.flows import maintain
from holdfast.flows.context import EngineContext
from holdfast.flows.load import StateCache
from holdfast.model import limits
from holdfast.ports import Clock, IdSource
from holdfast.runtime.bodies import VerifiedBodies
from holdfast.runtime.driver import StreamLocks, drive
from holdfast.runtime.engine import Engine
from holdfast.runtime.maintenance import BLOB_FOLDER
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.files import Disk
from holdfast.storage.sqlite.store import SqliteStore

T = TypeVar("T")


N = TypeVar("N")


SECTOR = 512
"""What a disk writes whole or not at all."""


BASE_VFS = "unix"


_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL
"""With the first sync of one of these SQLite syncs its folder, and with it the name of the database."""


OperationKind = Literal[
    "open",
    "create",
    "write",
    "truncate",
    "sync",
    "sync_failed",
    "remove",
    "rename",
    "make_folder",
    "sync_folder",
    "touch",
]


CHANGE_KINDS: frozenset[OperationKind] = frozenset(
    ("create", "write", "truncate", "sync", "remove", "rename", "make_folder", "sync_folder", "touch")
)
"""What a FaultyDisk can fail. SQLite opens files long before it writes to them."""


class DiskOperation(NamedTuple):
    """One operation on the disk."""

    kind: OperationKind
    path: str
    offset: int = 0
    """Of a write; the new size in a truncate."""
    data: bytes = b""
    target: str = ""
    began: int = 0
    """How long the log was when a sync began: it vouches for nothing that came later."""
    and_folder: bool = False
    """A sync or a remove that syncs the folder, too."""


Act: TypeAlias = Callable[[DiskOperation], T]


class DiskTap:
    """What an operation passes on its way to the disk. `act` does what the Op it is given says."""

    def perform(self, op: DiskOperation, act: Act[T]) -> T:
        return act(op)


class TapVFS(apsw.VFS):
    """SQLite's files, through a tap. Unregister it when its connections are closed."""

    _numbers = itertools.count(1)

    def __init__(self, tap: DiskTap, *, default: bool = False) -> None:
        self.tap = tap
        self.name = f"holdfast-tap-{next(self._numbers)}"
        super().__init__(self.name, BASE_VFS, makedefault=default)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's names
        if name is None:  # a temporary file: no one else knows it, nothing of it is kept
            return apsw.VFSFile(BASE_VFS, name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        op = DiskOperation("open", path)
        with _as_sqlite_error(op):
            return self.tap.perform(op, lambda _: _TapFile(self.tap, path, name, flags))

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's names
        op = DiskOperation("remove", filename, and_folder=syncdir)
        with _as_sqlite_error(op):
            self.tap.perform(op, lambda _: super(TapVFS, self).xDelete(filename, syncdir))


class _TapFile(apsw.VFSFile):
    def __init__(self, tap: DiskTap, path: str, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._tap = tap
        self._path = path
        self._sync_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)
        super().__init__(BASE_VFS, name, flags)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 - SQLite's names
        self._perform(
            DiskOperation("write", self._path, offset, bytes(data)),
            lambda op: super(_TapFile, self).xWrite(op.data, op.offset),
        )

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's names
        self._perform(
            DiskOperation("truncate", self._path, newsize), lambda op: super(_TapFile, self).xTruncate(op.offset)
        )

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's names
        op = DiskOperation("sync", self._path, and_folder=self._sync_folder)
        self._perform(op, lambda _: super(_TapFile, self).xSync(flags))
        self._sync_folder = False

    def _perform(self, op: DiskOperation, act: Act[None]) -> None:
        with _as_sqlite_error(op):
            self._tap.perform(op, act)


@contextmanager
def _as_sqlite_error(op: DiskOperation) -> Iterator[None]:
    """What SQLite's own VFS makes of the system's errors: a full disk shows as such only in a write."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise apsw.ReadOnlyError(str(error)) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and op.kind == "write":
            raise apsw.FullError(str(error)) from error
        raise apsw.IOError(str(error)) from error


class TapFiles(Disk):
    """The files of the blobs, through a tap."""

    def __init__(self, tap: DiskTap) -> None:
        self._tap = tap
        self._disk = Disk()
        self._open: dict[int, tuple[str, int]] = {}

    def make_folder(self, path: str) -> None:
        self._tap.perform(DiskOperation("make_folder", path), lambda op: self._disk.make_folder(op.path))

    def create(self, path: str) -> int:
        handle = self._tap.perform(DiskOperation("create", path), lambda op: self._disk.create(op.path))
        self._open[handle] = (path, 0)
        return handle

    def write(self, handle: int, data: bytes) -> None:
        if data:
            path, offset = self._open[handle]
            self._tap.perform(DiskOperation("write", path, offset, data), lambda op: self._disk.write(handle, op.data))
            self._open[handle] = (path, offset + len(data))

    def sync(self, handle: int) -> None:
        self._tap.perform(DiskOperation("sync", self._open[handle][0]), lambda _: self._disk.sync(handle))

    def close(self, handle: int) -> None:
        self._open.pop(handle, None)
        self._disk.close(handle)

    def rename(self, source: str, target: str) -> None:
        self._tap.perform(
            DiskOperation("rename", source, target=target), lambda op: self._disk.rename(op.path, op.target)
        )

    def remove(self, path: str) -> None:
        self._tap.perform(DiskOperation("remove", path), lambda op: self._disk.remove(op.path))

    def touch(self, path: str) -> None:
        self._tap.perform(DiskOperation("touch", path), lambda op: self._disk.touch(op.path))

    def sync_folder(self, path: str) -> None:
        self._tap.perform(DiskOperation("sync_folder", path), lambda op: self._disk.sync_folder(op.path))


@contextmanager
def open_on_tap(
    tap: DiskTap,
    path: str | os.PathLike[str],
    *,
    synchronous: str = "FULL",
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> Iterator[Engine]:
    """`holdfast.open` with everything that is written passing the tap."""
    file = os.fspath(path)
    vfs = TapVFS(tap)
    try:
        store = SqliteStore(file, vfs=vfs.name, synchronous=synchronous)
        try:
            drive(maintain.rebuild_if_old(), store, StreamLocks())
            blobs = FolderBlobs(file + BLOB_FOLDER, TapFiles(tap))
            context = EngineContext(
                "default",
                "local",
                StateCache(limits.CACHED_STREAMS),
                clock or SystemClock(),
                ids or RandomIds(),
                EstimatingCounter(),
                VerifiedBodies(blobs),
            )
            yield Engine(store, blobs, context)
        finally:
            store.close()
    finally:
        vfs.unregister()


class DiskRecorder(DiskTap, Generic[N]):
    """A log of everything done to a folder, with the test's notes between.

    An operation enters the log when it is done, so what the log holds has happened. `under` is a tap beneath this one."""

    def __init__(self, folder: str | os.PathLike[str], under: DiskTap | None = None) -> None:
        self.folder = os.path.realpath(folder)
        self.log: list[DiskOperation] = []
        self._under = under or DiskTap()
        self._notes: list[tuple[int, bool, N]] = []
        self._mutex = threading.Lock()
        self.log.extend(_folder_operations(self.folder))
        self.start = len(self.log)
        """Where the recording begins: before it stands what was in the folder already, all of it synced."""

    def perform(self, op: DiskOperation, act: Act[T]) -> T:
        began = len(self.log)
        try:
            answer = self._under.perform(op, act)
        except BaseException:
            if op.kind == "sync":
                self._log_operation(op._replace(kind="sync_failed"), began)
            raise
        self._log_operation(op, began)
        return answer

    def _log_operation(self, op: DiskOperation, began: int) -> None:
        target = self._relative(op.target) if op.target else ""
        with self._mutex:
            self.log.append(op._replace(path=self._relative(op.path), target=target, began=began))

    def _relative(self, path: str) -> str:
        folder, name = os.path.split(os.path.abspath(path))
        return os.path.relpath(os.path.join(os.path.realpath(folder), name), self.folder)

    def intend(self, note: N) -> None:
        """Something begins: from here on, some of it may be on the disk."""
        with self._mutex:
            self._notes.append((len(self.log), False, note))

    def acknowledge(self, note: N) -> None:
        """It returned: from here on, all of it must be."""
        with self._mutex:
            self._notes.append((len(self.log), True, note))

    def intentions(self, at: int) -> list[N]:
        return [note for index, acknowledged, note in self._notes if index <= at and not acknowledged]

    def acknowledgements(self, at: int) -> list[N]:
        return [note for index, acknowledged, note in self._notes if index <= at and acknowledged]


def _folder_operations(folder: str) -> Iterator[DiskOperation]:
    """The operations that make what is in a folder now, all of it synced."""
    for place, folders, names in os.walk(folder):
        inside = os.path.relpath(place, folder)
        for name in folders:
            yield DiskOperation("make_folder", _join_path(inside, name))
        for name in names:
            path = _join_path(inside, name)
            with open(os.path.join(place, name), "rb") as file:
                yield from (
                    DiskOperation("create", path),
                    DiskOperation("write", path, 0, file.read()),
                    DiskOperation("sync", path, began=1 << 62),
                )
        yield DiskOperation("sync_folder", inside, began=1 << 62)


def _join_path(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"


DiskFiles: TypeAlias = Mapping[str, bytes | None]
"""Files by path, with what is in them; None is a folder."""


def cut_power(log: Sequence[DiskOperation], at: int, rng: Random) -> DiskFiles:
    """What a disk may hold when the power fails after `at` operations."""
    names = _NameTable()
    for index, op in enumerate(log[:at]):
        node = names.seen.get(op.path)
        if node is not None:
            node.follow(index, op, rng)
        names.follow(index, op, node)
    return names.survivors(rng)


def write_files(left: DiskFiles, folder: str | os.PathLike[str]) -> None:
    """Write the files into a new folder, to be opened there."""
    os.makedirs(folder)
    for path in sorted(left):
        content = left[path]
        place = os.path.join(folder, path)
        if content is None:
            os.mkdir(place)
        else:
            with open(place, "wb") as file:
                file.write(content)


_SURVIVAL_RATES = (0.0, 0.5, 0.9, 1.0)
"""How likely an operation that nobody synced survives: most bugs show when nearly all or nearly nothing does."""


class _DiskNode:
    """A file, or a folder, by whatever name."""

    def __init__(self, *, folder: bool = False) -> None:
        self.folder = folder
        self.synced = bytearray()
        self.pending: list[tuple[int, DiskOperation]] = []

    def follow(self, index: int, op: DiskOperation, rng: Random) -> None:
        match op.kind:
            case "write" | "truncate":
                self.pending.append((index, op))
            case "sync":
                for since, done in self.pending:
                    if since < op.began:
                        _apply(self.synced, done)
                self.pending = [(since, done) for since, done in self.pending if since >= op.began]
            case "sync_failed":
                self.synced, self.pending = self.survivor(rng), []

    def survivor(self, rng: Random) -> bytearray:
        content = bytearray(self.synced)
        luck = rng.choice(_SURVIVAL_RATES)
        for _, op in self.pending:
            if rng.random() < luck:
                _apply(content, op)
            elif op.kind == "write" and op.data and rng.random() < 0.5:
                _tear(content, op, rng)
        return content


def _apply(content: bytearray, op: DiskOperation) -> None:
    if op.kind == "write":
        _put(content, op.offset, op.data)
    else:
        del content[op.offset :]
        _grow(content, op.offset)


def _tear(content: bytearray, op: DiskOperation, rng: Random) -> None:
    """Of a write, some sectors arrived: the first few, or any. The file may have grown for those that did not."""
    end = op.offset + len(op.data)
    sectors: Sequence[int] = range(op.offset // SECTOR, (end - 1) // SECTOR + 1)
    if rng.random() < 0.5:
        sectors = sectors[: rng.randrange(len(sectors) + 1)]
    else:
        sectors = [sector for sector in sectors if rng.random() < 0.5]
    for sector in sectors:
        first, last = max(sector * SECTOR, op.offset), min((sector + 1) * SECTOR, end)
        _put(content, first, op.data[first - op.offset : last - op.offset])
    if rng.random() < 0.5:
        _grow(content, end)


def _put(content: bytearray, offset: int, data: bytes) -> None:
    _grow(content, offset)
    content[offset : offset + len(data)] = data


def _grow(content: bytearray, size: int) -> None:
    if size > len(content):
        content.extend(bytes(size - len(content)))


class _NameChange:
    """A name was given to a node, or taken from it."""

    def __init__(self, index: int, path: str, node: _DiskNode, *, given: bool, link: _NameChange | None = None) -> None:
        self.index = index
        self.path = path
        self.folder = os.path.dirname(path) or "."
        self.node = node
        self.given = given
        self.link = link
        """A rename takes the old name away only if the new one is there: a file never loses both."""


class _NameTable:
    """Names and what they stand for: as programs see them, and as the disk has them for sure."""

    def __init__(self) -> None:
        self.seen: dict[str, _DiskNode] = {}
        self._sure: dict[str, _DiskNode] = {}
        self._pending: list[_NameChange] = []

    def follow(self, index: int, op: DiskOperation, node: _DiskNode | None) -> None:
        match op.kind:
            case "open" | "create" | "make_folder" if node is None:
                self._give(index, op.path, _DiskNode(folder=op.kind == "make_folder"))
            case "rename" if node is not None:
                self._take(index, op.path, node, self._give(index, op.target, node))
            case "remove" if node is not None:
                self._take(index, op.path, node)
            case "sync_folder":
                self._settle(op.path, op.began)
        if op.and_folder:
            self._settle(os.path.dirname(op.path) or ".", op.began if op.kind == "sync" else index + 1)

    def _give(self, index: int, path: str, node: _DiskNode) -> _NameChange:
        self.seen[path] = node
        change = _NameChange(index, path, node, given=True)
        self._pending.append(change)
        return change

    def _take(self, index: int, path: str, node: _DiskNode, link: _NameChange | None = None) -> None:
        del self.seen[path]
        self._pending.append(_NameChange(index, path, node, given=False, link=link))

    def _settle(self, folder: str, before: int) -> None:
        due = {change for change in self._pending if change.folder == folder and change.index < before}
        due |= {change.link for change in due if change.link}
        self._apply(self._sure, (change for change in self._pending if change in due))
        self._pending = [change for change in self._pending if change not in due]

    def survivors(self, rng: Random) -> dict[str, bytes | None]:
        names = dict(self._sure)
        lost: set[_NameChange | None] = set()
        luck = rng.choice(_SURVIVAL_RATES)
        for change in self._pending:
            if change.link in lost or rng.random() >= luck:
                lost.add(change)
        self._apply(names, (change for change in self._pending if change not in lost))
        reachable = {path: node for path, node in sorted(names.items()) if _is_reachable(path, names)}
        content = {id(node): bytes(node.survivor(rng)) for node in reachable.values() if not node.folder}
        return {path: content.get(id(node)) for path, node in reachable.items()}

    @staticmethod
    def _apply(names: dict[str, _DiskNode], changes: Iterable[_NameChange]) -> None:
        for change in changes:
            if change.given:
                names[change.path] = change.node
            elif names.get(change.path) is change.node:
                del names[change.path]


def _is_reachable(path: str, names: Mapping[str, _DiskNode]) -> bool:
    folder = os.path.dirname(path)
    return not folder or (folder in names and _is_reachable(folder, names))


class FaultyDisk(DiskTap):
    """Fails the Nth operation from when it is armed, or every Nth. A failing write leaves half of it behind."""

    def __init__(self, kinds: frozenset[OperationKind] = CHANGE_KINDS, sync_s: float = 0.0) -> None:
        """A sync takes so many seconds longer: commands that come meanwhile share the next commit."""
        self._kinds = kinds
        self._sync_s = sync_s
        self._mutex = threading.Lock()
        self.arm(0)

    def arm(self, nth: int, error: int = errno.EIO, *, every: bool = False) -> None:
        """Count from now; 0 only counts."""
        with self._mutex:
            self.count = self.failed = 0
            self._nth, self._error, self._every = nth, error, every

    def perform(self, op: DiskOperation, act: Act[T]) -> T:
        if op.kind in self._kinds and self._is_next_fault():
            if op.kind == "write":
                act(op._replace(data=op.data[: len(op.data) // 2]))
            raise OSError(self._error, os.strerror(self._error), op.path)
        if op.kind == "sync" and self._sync_s:
            time.sleep(self._sync_s)
        return act(op)

    def _is_next_fault(self) -> bool:
        with self._mutex:
            self.count += 1
            if not self._nth:
                return False
            strikes = self.count % self._nth == 0 if self._every else self.count == self._nth
            self.failed += strikes
            return strikes


class QuotaDisk(DiskTap):
    """Has room for `room` bytes, counted by the size of all files; raise it to make space."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._sizes: dict[str, int] = {}
        self._mutex = threading.Lock()

    @property
    def used(self) -> int:
        return sum(self._sizes.values())

    def perform(self, op: DiskOperation, act: Act[T]) -> T:
        with self._mutex:
            if op.kind == "write":
                return self._write(op, act)
            answer = act(op)
            match op.kind:
                case "truncate":
                    self._sizes[op.path] = op.offset
                case "remove":
                    self._sizes.pop(op.path, None)
                case "rename":
                    self._sizes[op.target] = self._sizes.pop(op.path, 0)
            return answer

    def _write(self, op: DiskOperation, act: Act[T]) -> T:
        size = self._sizes.get(op.path, 0)
        end = size + max(0, self.room - self.used)
        fits = min(len(op.data), max(0, end - op.offset))
        answer = act(op._replace(data=op.data[:fits]))
        self._sizes[op.path] = max(size, op.offset + fits)
        if fits < len(op.data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), op.path)
        return answer
