"""Maintenance that involves bodies: verify, collect, back up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from holdfast.errors import HoldfastError, InvalidNumber, InvalidUrl, describe_value
from holdfast.flows import effects, maintain
from holdfast.flows.maintain import CountCallback, VerificationProblem, VerificationReport
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.rows import BlobRow, scope_of
from holdfast.ports import BlobStore, Clock, EventStore
from holdfast.runtime.base import Driver
from holdfast.runtime.bodies import put_blob
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.files import atomic_file
from holdfast.storage.sqlite.store import SqliteStore

MAX_GRACE_S = 10**12
BLOB_FOLDER = ".blobs"
"""Added to the name of the database file: the bodies of agent.db are in agent.db.blobs."""


def check_path(value: object) -> str:
    """Check that a value is a path, and return it as text."""
    path = os.fspath(value) if hasattr(type(value), "__fspath__") else value  # type: ignore[call-overload]
    if type(path) is not str or not path or "\0" in path:
        raise InvalidUrl(url=describe_value(value), reason="it is not a file name or an address")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidUrl(url=path, reason="it is not valid Unicode") from error
    return path


def verify(drive: Driver, blobs: BlobStore, count: CountCallback | None) -> VerificationReport:
    """Verify the log, and read every body that an event refers to."""
    report: VerificationReport = drive(maintain.verify(count))
    problems = list(report.problems)
    sound: tuple[str, str, int] | None = None
    for row in _read_blob_rows(drive):
        if sound == (row.tenant, row.digest, row.size):
            continue
        try:
            for _ in blobs.chunks(row.tenant, BlobRef(row.digest, row.size)):
                pass
            sound = (row.tenant, row.digest, row.size)
        except HoldfastError as error:
            stream = scope_of(row).stream
            problems.append(VerificationProblem(f"event {row.seq} of {stream}", str(error)))
    return msgspec.structs.replace(report, problems=tuple(problems))


def collect_blobs(drive: Driver, blobs: BlobStore, clock: Clock, grace_s: float) -> int:
    """Remove bodies without a reference. A body that was put again meanwhile stays: see FolderBlobs.drop."""
    if type(grace_s) not in (int, float) or not 0 <= grace_s <= MAX_GRACE_S:
        raise InvalidNumber(what="grace_s", value=describe_value(grace_s), low=0, high=MAX_GRACE_S)
    before_s = clock.now_us() / 1e6 - grace_s
    dropped = 0
    for tenant, digest, touched_s in blobs.stored():
        if touched_s > before_s:
            continue
        where: dict[str, str | int] = {"tenant": tenant, "digest": digest}
        if not drive(effects.rows(BlobRow, where, None, 1)):
            dropped += blobs.drop(tenant, digest, unless_put_after_s=before_s)
    blobs.sweep(before_s=before_s)
    return dropped


def backup(store: EventStore, blobs: BlobStore, target: str, progress: Callable[[int, int], None] | None) -> None:
    """Copy the log, then the bodies that it refers to. The copy gets its name when it is complete."""
    if os.path.exists(target):
        raise InvalidUrl(url=target, reason="the file exists; a backup never overwrites")
    with atomic_file(target) as partial:
        with suppress(FileNotFoundError):
            os.unlink(partial)  # left by a backup that was killed
        store.backup(partial)
        copy = SqliteStore(partial)
        try:
            _copy_blobs(copy, blobs, FolderBlobs(target + BLOB_FOLDER), os.path.getsize(partial), progress)
        finally:
            copy.close()


def _copy_blobs(
    copy: EventStore, blobs: BlobStore, folder: BlobStore, done: int, progress: Callable[[int, int], None] | None
) -> None:
    """Copy every body that the copied log refers to, once. `done` is the number of bytes copied before."""
    total = done
    if progress is not None:
        for row in _read_distinct_blobs(copy):
            total += row.size
        progress(done, total)
    for row in _read_distinct_blobs(copy):
        put_blob(folder, row.tenant, blobs.chunks(row.tenant, BlobRef(row.digest, row.size)), None)
        done += row.size
        if progress is not None:
            progress(done, total)


def _read_distinct_blobs(store: EventStore) -> Iterator[BlobRow]:
    """Yield the bodies that the events of a store refer to, each once."""
    last: BlobRow | None = None
    while page := store.rows(BlobRow, {}, after=last, limit=limits.READ_EVENTS):
        for row in page:
            if last is None or (row.tenant, row.digest) != (last.tenant, last.digest):
                yield row
            last = row


def _read_blob_rows(drive: Driver) -> Iterator[BlobRow]:
    last: BlobRow | None = None
    while page := drive(effects.rows(BlobRow, {}, last, limits.READ_EVENTS)):
        yield from page
        last = page[-1]
