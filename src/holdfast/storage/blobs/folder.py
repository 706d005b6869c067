"""Blobs in a local folder: <folder>/<tenant's hash>/<first two digits>/<SHA-256 of the body>.zst

Laws: a name is a hash, so no caller's text reaches the file system; a body is synced, and so is every folder on the way to
it, before it has its name; what is read back has the size and the digest that were asked for, or it is an error.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from holdfast import errors
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.storage.blobs.packing import (
    DIGEST,
    LEVEL,
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
    check_blob_size,
    checked_digest,
    damaged,
)
from holdfast.storage.files import Disk, typed_os_errors

_TENANT_FILE = "tenant"


class FolderBlobs:
    def __init__(self, folder: str | os.PathLike[str], disk: Disk | None = None) -> None:
        self.folder = os.fspath(folder)
        self._disk = disk or Disk()

    def writer(self, tenant: str) -> FolderWriter:
        with typed_os_errors(self.folder):
            return FolderWriter(self._disk, self._tenant_folder(tenant))

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        path = os.path.join(self._place(tenant), checked_digest(ref.digest)[:2], ref.digest + ".zst")
        places = (path, path + ".dropped", path)  # a collector may be looking at it just now
        if not any(os.path.exists(place) for place in places):
            raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)
        return self._chunks(tenant, ref, places)

    def _chunks(self, tenant: str, ref: BlobRef, places: Sequence[str]) -> Iterator[bytes]:
        for place in places:
            try:
                with typed_os_errors(place), open(place, "rb") as file:
                    yield from _checked_chunks(file, ref)
            except errors.StorageUnavailable as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
            else:
                return
        raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)

    def stored(self) -> Iterator[tuple[str, str, float]]:
        with typed_os_errors(self.folder), suppress(FileNotFoundError):
            for tenant_folder in os.scandir(self.folder):
                name_file = os.path.join(tenant_folder.path, _TENANT_FILE)
                if os.path.exists(name_file):
                    with open(name_file, encoding="utf-8") as file:
                        tenant = file.read()
                    yield from self._stored_in(tenant, tenant_folder.path)

    def _stored_in(self, tenant: str, folder: str) -> Iterator[tuple[str, str, float]]:
        for shelf in os.scandir(folder):
            if shelf.is_dir():
                for entry in os.scandir(shelf.path):
                    digest, _, ending = entry.name.partition(".")
                    if ending == "zst" and DIGEST.fullmatch(digest):
                        with suppress(FileNotFoundError):
                            yield tenant, digest, entry.stat().st_mtime

    def drop(self, tenant: str, digest: str, *, unless_put_after_s: float) -> bool:
        """Moved aside first: a writer who puts the same body meanwhile either touched it before, which shows and brings
        it back, or finds nothing and writes it anew."""
        path = os.path.join(self._place(tenant), checked_digest(digest)[:2], digest + ".zst")
        aside = path + ".dropped"
        with typed_os_errors(path):
            try:
                self._disk.rename(path, aside)
            except FileNotFoundError:
                return True
            if os.stat(aside).st_mtime > unless_put_after_s:
                self._disk.rename(aside, path)
                return False
            self._disk.remove(aside)
            self._disk.sync_folder(os.path.dirname(path))
            return not os.path.exists(path)

    def sweep(self, *, before_s: float) -> int:
        swept = 0
        with typed_os_errors(self.folder):
            for folder, _, names in os.walk(self.folder):
                for path in (os.path.join(folder, name) for name in names):
                    with suppress(FileNotFoundError):
                        swept += self._sweep_one(path, before_s)
        return swept

    def _sweep_one(self, path: str, before_s: float) -> bool:
        if path.endswith(".partial") and os.stat(path).st_mtime <= before_s:
            self._disk.remove(path)
            return True
        blob = path.removesuffix(".dropped")
        if blob != path and os.stat(path).st_ctime <= before_s:
            if os.path.exists(blob):
                self._disk.remove(path)
            else:  # the collector died before it made sure: the next one decides again
                self._disk.rename(path, blob)
            return True
        return False

    def _place(self, tenant: str) -> str:
        return os.path.join(self.folder, hashlib.sha256(tenant.encode()).hexdigest()[:32])

    def _tenant_folder(self, tenant: str) -> str:
        """Made on the first put, with the tenant's name beside the blobs, so that a collector can look it up."""
        place = self._place(tenant)
        name_file = os.path.join(place, _TENANT_FILE)
        if not os.path.exists(name_file):
            _make_folder(self._disk, self.folder)
            _make_folder(self._disk, place)
            partial = f"{name_file}.{os.urandom(8).hex()}.partial"
            handle = self._disk.create(partial)
            try:
                self._disk.write(handle, tenant.encode())
                self._disk.sync(handle)
            finally:
                self._disk.close(handle)
            self._disk.rename(partial, name_file)
            self._disk.sync_folder(place)
        return place


class FolderWriter:
    """Compresses and hashes on the way in; the body appears under its name only when all of it is on the disk."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._partial = os.path.join(folder, f"{os.urandom(16).hex()}.partial")
        self._handle: int | None = disk.create(self._partial)
        self._compressor = ZstdCompressor(level=LEVEL)
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, chunk: bytes) -> None:
        self._size += len(chunk)
        try:
            check_blob_size(self._size)
        except errors.TooLarge:
            self.abort()
            raise
        self._hash.update(chunk)
        with self._guarded():
            self._disk.write(self._open_handle(), self._compressor.compress(chunk))

    def commit(self, media_type: str | None = None) -> BlobRef:
        self._open_handle()
        digest = self._hash.hexdigest()
        shelf = os.path.join(self._folder, digest[:2])
        path = os.path.join(shelf, digest + ".zst")
        with self._guarded():
            if self._already_there(path):
                self.abort()
            else:
                handle = self._open_handle()
                self._disk.write(handle, self._compressor.flush())
                self._disk.sync(handle)
                self._disk.close(handle)
                self._handle = None
                _make_folder(self._disk, shelf)  # synced by us: one that another put just made may not be yet
                self._disk.rename(self._partial, path)
                self._disk.sync_folder(shelf)
        return BlobRef(digest, self._size, media_type)

    def _already_there(self, path: str) -> bool:
        """A dated touch tells a collector that someone counts on this body again."""
        try:
            self._disk.touch(path)
        except FileNotFoundError:
            return False
        self._disk.sync_folder(os.path.dirname(path))
        return True

    def abort(self) -> None:
        """What cannot be removed now is swept later: the error that led here is the one to tell."""
        handle, self._handle = self._handle, None
        with suppress(OSError):
            if handle is not None:
                self._disk.close(handle)
            self._disk.remove(self._partial)

    def _open_handle(self) -> int:
        if self._handle is None:
            raise errors.StoreClosed(what="the blob writer")
        return self._handle

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            with typed_os_errors(self._folder):
                yield
        except BaseException:
            with suppress(OSError):
                self.abort()
            raise


def _checked_chunks(file: BinaryIO, ref: BlobRef) -> Iterator[bytes]:
    """The body in pieces. Decompression stops at the promised size, whatever the file claims to hold."""
    decompressor = ZstdDecompressor()
    digest = hashlib.sha256()
    size = 0
    try:
        while not decompressor.eof:
            data = file.read(limits.BLOB_CHUNK_BYTES) if decompressor.needs_input else b""
            if not data and decompressor.needs_input:
                raise damaged(ref, "the file ends too early")
            piece = decompressor.decompress(data, max_length=limits.BLOB_CHUNK_BYTES)
            size += len(piece)
            if size > ref.size:
                raise damaged(ref, f"it has more than {ref.size} bytes")
            digest.update(piece)
            if piece:
                yield piece
    except ZstdError as error:
        raise damaged(ref, str(error)) from error
    if decompressor.unused_data or file.read(1):
        raise damaged(ref, "there is more after its end")
    if size != ref.size:
        raise damaged(ref, f"it has {size} bytes, not {ref.size}")
    if digest.hexdigest() != ref.digest:
        raise damaged(ref, "its digest is another one")


def _make_folder(disk: Disk, path: str) -> None:
    with suppress(FileExistsError):
        disk.make_folder(path)
    disk.sync_folder(os.path.dirname(os.path.abspath(path)))
