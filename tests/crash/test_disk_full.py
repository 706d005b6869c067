"""Promise 5: on a full disk or a read-only file system writes are typed errors, reads go on, and writes resume by
themselves once there is space again; nothing acknowledged is lost, and no half-written copy has the name of a whole one.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

import holdfast
from holdfast import BlobRef, Engine, File
from holdfast.errors import StorageFull, StorageReadOnly, StorageUnavailable
from holdfast.model import limits
from holdfast.storage.blobs import folder as blob_folder
from tests.crash.test_power_loss import small_log
from tests.disk import FaultyDisk, QuotaDisk, TapFiles, TapVFS, open_on_tap

BODY = os.urandom(20_000)

pytestmark = pytest.mark.promise(5, "disk full, read-only file system")
NOBODY = 65_534
PLENTY = 1 << 30
ROOMS = range(0, 100_000, 5_003)
"""No multiples of a page, so that space runs out in the middle of all sorts of writes."""

Said: TypeAlias = dict[str, str]
"""What was acknowledged: a message's key and its text."""


def talk(engine: Engine, said: Said, count: int) -> None:
    """Record messages; each counts as said once it is acknowledged."""
    session = engine.session("talk")
    for _ in range(count):
        key = str(len(said))
        text = f"message {key} " + "x" * (len(said) % 7 * 500)
        session.record("user", text, key=key)
        said[key] = text


def start(engine: Engine, said: Said) -> BlobRef:
    """A session with a few messages and a body."""
    engine.create_session("talk")
    ref = engine.blobs.put(BODY)
    engine.session("talk").record("user", ["see", File(ref)], key="see")
    said["see"] = "see"
    talk(engine, said, 5)
    return ref


def holds(engine: Engine, said: Said, ref: BlobRef) -> bool:
    """Whether everything acknowledged can be read, and read once. One more message may be there: the one that was
    answered with an error, which `talk` repeats."""
    texts = [message.text for message in engine.session("talk").messages(limit=limits.READ_EVENTS)]
    assert texts[: len(said)] == list(said.values())
    assert len(texts) <= len(said) + 1
    return engine.blobs.read(ref) == BODY and engine.admin.verify().ok


@pytest.mark.parametrize("room", ROOMS)
def test_when_space_runs_out_reads_go_on_and_when_it_returns_so_do_writes(room: int, tmp_path: Path) -> None:
    disk, said = QuotaDisk(PLENTY), Said()
    with small_log(), open_on_tap(disk, tmp_path / "agent.db") as engine:
        ref = start(engine, said)
        disk.room = disk.used + room
        with pytest.raises(StorageFull):
            talk(engine, said, 1_000)
        with pytest.raises(StorageFull):
            engine.blobs.put(os.urandom(ROOMS.stop))
        with pytest.raises(StorageFull):
            talk(engine, said, 1_000)
        assert disk.used <= disk.room
        assert holds(engine, said, ref)

        disk.room = PLENTY
        talk(engine, said, 20)
        assert engine.blobs.read(engine.blobs.put(BODY[::-1])) == BODY[::-1]
        assert holds(engine, said, ref)
    with holdfast.open(tmp_path / "agent.db") as engine:
        assert holds(engine, said, ref)
        assert len(engine.session("talk").messages(limit=limits.READ_EVENTS)) == len(said)


def test_a_file_that_turns_read_only_goes_on_being_read_and_is_written_when_it_can_be(tmp_path: Path) -> None:
    disk, said = FaultyDisk(), Said()
    with open_on_tap(disk, tmp_path / "agent.db") as engine:
        ref = start(engine, said)
        disk.arm(1, errno.EROFS, every=True)
        with pytest.raises(StorageReadOnly):
            talk(engine, said, 1)
        with pytest.raises(StorageReadOnly):
            engine.blobs.put(b"something else")
        assert holds(engine, said, ref)

        disk.arm(0)
        talk(engine, said, 20)
        assert holds(engine, said, ref)


@contextmanager
def unprivileged() -> Iterator[None]:
    """As someone to whom permissions apply."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def locked() -> Iterator[Path]:
    """A folder with a store in it, neither of which can be written. Not under tmp_path, which only its owner can enter."""
    folder = Path(tempfile.mkdtemp())
    with holdfast.open(folder / "agent.db") as engine:
        start(engine, {})
    for path in (folder, folder / "agent.db"):
        path.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["new.db", "agent.db"])
def test_a_store_in_a_read_only_folder_is_refused_with_what_to_do(name: str, locked: Path) -> None:
    with unprivileged(), pytest.raises((StorageReadOnly, StorageUnavailable)) as refused:
        holdfast.open(locked / name)

    assert "Check the permissions of the file and its folder" in str(refused.value)


Copy: TypeAlias = Callable[[Engine, Path], object]
COPIES: tuple[Copy, ...] = (
    lambda engine, path: engine.admin.export(path),
    lambda engine, path: engine.admin.backup(path),
)


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_into_a_read_only_folder_is_a_typed_error(copy: Copy, locked: Path, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "agent.db") as engine:
        start(engine, {})
        with unprivileged(), pytest.raises(StorageReadOnly):
            copy(engine, locked / "copy")


def test_an_export_to_a_full_disk_is_a_typed_error_and_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    target = tmp_path / "copy.jsonl"
    os.symlink("/dev/full", f"{target}.partial")
    with holdfast.open(tmp_path / "agent.db") as engine:
        start(engine, {})
        with pytest.raises(StorageFull):
            engine.admin.export(target)
        assert not target.exists()
        assert not os.path.lexists(f"{target}.partial")
        assert engine.admin.export(target) == engine.admin.totals().events


@pytest.fixture
def quota(monkeypatch: pytest.MonkeyPatch) -> Iterator[QuotaDisk]:
    """What everything writes to that is given no disk of its own, as a backup."""
    disk = QuotaDisk(PLENTY)
    vfs = TapVFS(disk, default=True)
    monkeypatch.setattr(blob_folder, "Disk", lambda: TapFiles(disk))
    yield disk
    vfs.unregister()


@pytest.mark.parametrize("part", [0, 0.2, 0.6, 0.9, 0.99])
def test_a_backup_to_a_full_disk_is_a_typed_error_and_leaves_no_file_of_that_name(
    part: float, quota: QuotaDisk, tmp_path: Path
) -> None:
    said, target = Said(), tmp_path / "copy.db"
    with holdfast.open(tmp_path / "agent.db") as engine:
        ref = start(engine, said)
        before = quota.used
        engine.admin.backup(tmp_path / "first.db")
        quota.room = quota.used + int(part * (quota.used - before))
        with pytest.raises(StorageFull):
            engine.admin.backup(target)
        quota.room = PLENTY
        assert not target.exists()

        engine.admin.backup(target)
    with holdfast.open(target) as copy:
        assert holds(copy, said, ref)
