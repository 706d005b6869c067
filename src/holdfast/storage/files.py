"""The file operations that durability depends on, and typed errors for errors of the system."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from holdfast import errors


class Disk:
    """The file operations that durability depends on, so that a test can simulate a power failure between any two."""

    def make_folder(self, path: str) -> None:
        os.mkdir(path)

    def create(self, path: str) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    def write(self, handle: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def close(self, handle: int) -> None:
        os.close(handle)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def touch(self, path: str) -> None:
        os.utime(path)

    def sync_folder(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def atomic_file(target: str) -> Iterator[str]:
    """Yield a temporary name. The file gets its real name when it is complete and synced; on an error it is removed."""
    partial = target + ".partial"
    folder = os.path.dirname(os.path.abspath(target))
    if not os.path.isdir(folder):
        raise errors.StorageUnavailable(what=target, reason=f"the folder {folder!r} does not exist")
    disk = Disk()
    with translate_os_errors(target):
        try:
            yield partial
            handle = os.open(partial, os.O_RDONLY)
            try:
                disk.sync(handle)
            finally:
                disk.close(handle)
            disk.rename(partial, target)
            disk.sync_folder(folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise


@contextmanager
def translate_os_errors(what: str) -> Iterator[None]:
    """Turn errors of the system into typed errors."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise errors.StorageFull(what=what) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise errors.StorageReadOnly(what=what) from error
        raise errors.StorageUnavailable(what=what, reason=str(error)) from error
