"""Blobs in a local folder: <folder>/<tenant's hash>/<first two digits>/<SHA-256 of the body>.zst

Laws: names are hashes, so no text of a caller reaches the file system. A body and all folders on its path are synced
before it has its name. A body is checked against its size and digest when it is read.
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
from holdfast.storage.blobs.compression import (
    COMPRESSION_LEVEL,
    DIGEST,
    BodyChecker,
    ZstdCompressor,
    ZstdDecompressor,
    ZstdError,
    check_blob_size,
    check_digest,
    damage_error,
)
from holdfast.storage.files import Disk, translate_os_errors

_TENANT_FILE = "tenant"


class FolderBlobs:
    """A blob store in a folder."""

    def __init__(self, folder: str | os.PathLike[str], disk: Disk | None = None) -> None:
        self.folder = os.fspath(folder)
        self._disk = disk or Disk()

    def writer(self, tenant: str) -> FolderBlobWriter:
        with translate_os_errors(self.folder):
            return FolderBlobWriter(self._disk, self._ensure_tenant_folder(tenant))

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        path = os.path.join(self._tenant_path(tenant), check_digest(ref.digest)[:2], ref.digest + ".zst")
        paths = (path, path + ".dropped", path)  # drop() may have moved it for a moment
        if not any(os.path.exists(candidate) for candidate in paths):
            raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)
        return self._chunks(tenant, ref, paths)

    def _chunks(self, tenant: str, ref: BlobRef, paths: Sequence[str]) -> Iterator[bytes]:
        for path in paths:
            try:
                with translate_os_errors(path), open(path, "rb") as file:
                    yield from _read_verified(file, ref)
            except errors.StorageUnavailable as error:
                if not isinstance(error.__cause__, FileNotFoundError):
                    raise
            else:
                return
        raise errors.BlobNotFound(tenant=tenant, digest=ref.digest)

    def stored(self) -> Iterator[tuple[str, str, float]]:
        with translate_os_errors(self.folder), suppress(FileNotFoundError):
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
        """Remove a blob. It is renamed first: a writer of the same body either touched it before, and then it is
        renamed back, or does not find it and writes it again."""
        path = os.path.join(self._tenant_path(tenant), check_digest(digest)[:2], digest + ".zst")
        aside = path + ".dropped"
        with translate_os_errors(path):
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
        with translate_os_errors(self.folder):
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
            else:  # drop() was interrupted: the next collection decides again
                self._disk.rename(path, blob)
            return True
        return False

    def _tenant_path(self, tenant: str) -> str:
        return os.path.join(self.folder, hashlib.sha256(tenant.encode()).hexdigest()[:32])

    def _ensure_tenant_folder(self, tenant: str) -> str:
        """Create the folder of a tenant on the first put, with a file that has the tenant's name for collections."""
        folder = self._tenant_path(tenant)
        name_file = os.path.join(folder, _TENANT_FILE)
        if not os.path.exists(name_file):
            _make_folder(self._disk, self.folder)
            _make_folder(self._disk, folder)
            partial = f"{name_file}.{os.urandom(8).hex()}.partial"
            handle = self._disk.create(partial)
            try:
                self._disk.write(handle, tenant.encode())
                self._disk.sync(handle)
            finally:
                self._disk.close(handle)
            self._disk.rename(partial, name_file)
            self._disk.sync_folder(folder)
        return folder


class FolderBlobWriter:
    """Compresses and hashes a body. It gets its name when all of it is on the disk."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._partial = os.path.join(folder, f"{os.urandom(16).hex()}.partial")
        self._handle: int | None = disk.create(self._partial)
        self._compressor = ZstdCompressor(level=COMPRESSION_LEVEL)
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
        with self._abort_on_error():
            self._disk.write(self._open_handle(), self._compressor.compress(chunk))

    def commit(self, media_type: str | None = None) -> BlobRef:
        self._open_handle()
        digest = self._hash.hexdigest()
        shelf = os.path.join(self._folder, digest[:2])
        path = os.path.join(shelf, digest + ".zst")
        with self._abort_on_error():
            if self._touch_existing(path):
                self.abort()
            else:
                handle = self._open_handle()
                self._disk.write(handle, self._compressor.flush())
                self._disk.sync(handle)
                self._disk.close(handle)
                self._handle = None
                _make_folder(self._disk, shelf)  # synced here: a folder that another put created may not be synced yet
                self._disk.rename(self._partial, path)
                self._disk.sync_folder(shelf)
        return BlobRef(digest, self._size, media_type)

    def _touch_existing(self, path: str) -> bool:
        """Update the time of an existing body, so that drop() keeps it."""
        try:
            self._disk.touch(path)
        except FileNotFoundError:
            return False
        self._disk.sync_folder(os.path.dirname(path))
        return True

    def abort(self) -> None:
        """Remove the partial body. What cannot be removed is swept later; the first error is raised."""
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
    def _abort_on_error(self) -> Iterator[None]:
        try:
            with translate_os_errors(self._folder):
                yield
        except BaseException:
            with suppress(OSError):
                self.abort()
            raise


def _read_verified(file: BinaryIO, ref: BlobRef) -> Iterator[bytes]:
    """Yield a body in pieces, and check it. Decompression stops at the expected size."""
    decompressor = ZstdDecompressor()
    checker = BodyChecker(ref)
    try:
        while not decompressor.eof:
            data = file.read(limits.BLOB_CHUNK_BYTES) if decompressor.needs_input else b""
            if not data and decompressor.needs_input:
                raise damage_error(ref, "the file ends too early")
            piece = decompressor.decompress(data, max_length=limits.BLOB_CHUNK_BYTES)
            checker.add(piece)
            if piece:
                yield piece
    except ZstdError as error:
        raise damage_error(ref, str(error)) from error
    if decompressor.unused_data or file.read(1):
        raise damage_error(ref, "the file has more data after its end")
    checker.finish()


def _make_folder(disk: Disk, path: str) -> None:
    with suppress(FileExistsError):
        disk.make_folder(path)
    disk.sync_folder(os.path.dirname(os.path.abspath(path)))
