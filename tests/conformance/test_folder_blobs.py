"""Blobs in a folder keep the contract; no caller's text becomes a path, and no damage on the disk passes for content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import BlobNotFound, StorageCorrupt, StorageUnavailable, StoreClosed, TooLarge
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.ports import BlobStore
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.testing import BlobStoreContract
from holdfast.testing.conformance import ALWAYS_S, NEVER_S, blob_names, body_of, put_blob, read_blob


class TestFolderBlobs(BlobStoreContract):
    @pytest.fixture
    def blobs(self, tmp_path: Path) -> BlobStore:
        return FolderBlobs(tmp_path / "agent.db.blobs")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "agent.db.blobs"


@pytest.fixture
def blobs(folder: Path) -> FolderBlobs:
    return FolderBlobs(folder)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def file_of(folder: Path, ref: BlobRef) -> Path:
    (path,) = folder.rglob(ref.digest + ".zst")
    return path


@pytest.mark.parametrize("tenant", ["../..", "a/b", "/", "..", ".", "C:\\x", "😀" * 64, "-rf", "tenant"])
def test_no_callers_text_becomes_a_path(tmp_path: Path, folder: Path, blobs: FolderBlobs, tenant: str) -> None:
    ref = put_blob(blobs, tenant, b"body")
    assert list(tmp_path.iterdir()) == [folder]
    shape = re.compile(r"[0-9a-f]{32}(/tenant|/[0-9a-f]{2}/[0-9a-f]{64}\.zst)")
    found = [str(path.relative_to(folder)) for path in files(folder)]
    assert len(found) == 2
    assert all(shape.fullmatch(name) for name in found)
    assert blob_names(FolderBlobs(folder)) == [(tenant, ref.digest)]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 3)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def swapped(path: Path) -> None:
    """The packed form of another body of the same size, under this one's name."""
    elsewhere = FolderBlobs(path.parent / "elsewhere")
    other = put_blob(elsewhere, "t", bytes(len(body_of(50_000))))
    path.write_bytes(file_of(path.parent, other).read_bytes())


def bomb(path: Path) -> None:
    """A few bytes that unpack to far more than was promised."""
    elsewhere = FolderBlobs(path.parent / "elsewhere")
    other = put_blob(elsewhere, "t", bytes(50_000_000), 1 << 22)
    path.write_bytes(file_of(path.parent, other).read_bytes())


@pytest.mark.parametrize("damage", [cut, emptied, flipped, swapped, bomb])
def test_damage_on_the_disk_never_passes_for_content(
    folder: Path, blobs: FolderBlobs, damage: Callable[[Path], None]
) -> None:
    ref = put_blob(blobs, "acme", body_of(50_000))
    damage(file_of(folder, ref))
    given: list[bytes] = []
    with pytest.raises(StorageCorrupt):
        given.extend(blobs.chunks("acme", ref))
    assert sum(map(len, given)) <= ref.size


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


def test_a_reader_that_is_never_begun_holds_no_file_open(blobs: FolderBlobs) -> None:
    ref = put_blob(blobs, "acme", b"body")
    before = open_files()
    for _ in range(20):
        blobs.chunks("acme", ref)
    assert open_files() <= before


def test_a_reader_that_stops_half_way_holds_no_file_open(blobs: FolderBlobs) -> None:
    ref = put_blob(blobs, "acme", body_of(3 * limits.BLOB_CHUNK_BYTES))
    before = open_files()
    for _ in range(20):
        next(blobs.chunks("acme", ref))
    assert open_files() <= before


def test_a_body_has_a_bound(folder: Path, blobs: FolderBlobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BLOB_BYTES", 1_000)
    ref = put_blob(blobs, "acme", body_of(1_000))
    writer = blobs.writer("acme")
    writer.write(bytes(999))
    with pytest.raises(TooLarge):
        writer.write(b"xx")
    with pytest.raises(StoreClosed):
        writer.commit()
    assert blob_names(blobs) == [("acme", ref.digest)]
    assert not list(folder.rglob("*.partial"))


def test_an_interrupted_put_is_swept_once_it_is_old(folder: Path, blobs: FolderBlobs) -> None:
    ref = put_blob(blobs, "acme", b"body")
    abandoned = blobs.writer("acme")
    abandoned.write(b"half a body")
    (partial,) = folder.rglob("*.partial")
    assert blob_names(blobs) == [("acme", ref.digest)]
    assert blobs.sweep(before_s=partial.stat().st_mtime - 1) == 0
    assert blobs.sweep(before_s=partial.stat().st_mtime) == 1
    assert not partial.exists()
    assert read_blob(blobs, "acme", ref) == b"body"
    abandoned.abort()


@pytest.fixture
def half_dropped(folder: Path, blobs: FolderBlobs) -> tuple[BlobRef, Path]:
    """A blob whose collector died after it had moved it aside."""
    ref = put_blob(blobs, "acme", b"body")
    path = file_of(folder, ref)
    path.rename(f"{path}.dropped")
    return ref, path


def test_a_blob_that_was_being_dropped_can_still_be_read(
    blobs: FolderBlobs, half_dropped: tuple[BlobRef, Path]
) -> None:
    assert read_blob(blobs, "acme", half_dropped[0]) == b"body"


@pytest.mark.parametrize("put_again", [False, True])
def test_sweeping_brings_back_what_was_half_dropped(
    blobs: FolderBlobs, half_dropped: tuple[BlobRef, Path], put_again: bool
) -> None:
    ref, path = half_dropped
    if put_again:
        assert put_blob(blobs, "acme", b"body") == ref
    assert blobs.sweep(before_s=ALWAYS_S) == 0
    assert blobs.sweep(before_s=NEVER_S) == 1
    assert path.exists()
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert blobs.drop("acme", ref.digest, unless_put_after_s=NEVER_S)
    with pytest.raises(BlobNotFound):
        read_blob(blobs, "acme", ref)


def test_an_old_body_put_again_is_new(folder: Path, blobs: FolderBlobs) -> None:
    ref = put_blob(blobs, "acme", b"body")
    os.utime(file_of(folder, ref), (1_000, 1_000))
    assert list(blobs.stored()) == [("acme", ref.digest, 1_000.0)]
    put_blob(blobs, "acme", b"body")
    assert not blobs.drop("acme", ref.digest, unless_put_after_s=2_000)
    assert read_blob(blobs, "acme", ref) == b"body"


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    blobs = FolderBlobs(tmp_path / "missing" / "agent.db.blobs")
    assert list(blobs.stored()) == []
    with pytest.raises(BlobNotFound):
        read_blob(blobs, "acme", BlobRef("0" * 64, 1))
    with pytest.raises(StorageUnavailable):
        blobs.writer("acme")
