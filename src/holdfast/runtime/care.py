"""Care of a whole store that involves its blobs: putting, verifying, collecting, backing up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, TypeAlias

import msgspec

from holdfast.errors import HoldfastError, InvalidContent, InvalidUrl
from holdfast.flows import effects, maintain
from holdfast.flows.effects import Flow
from holdfast.flows.maintain import Problem, Report
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.names import checked_name
from holdfast.model.rows import BlobRow
from holdfast.ports import BlobStore, Clock, EventStore
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.files import appearing
from holdfast.storage.sqlite.store import SqliteStore

Drive: TypeAlias = Callable[[Flow[Any]], Any]

BLOB_FOLDER = ".blobs"
"""Beside the database file: agent.db keeps its bodies in agent.db.blobs."""


def put_blob(
    blobs: BlobStore, tenant: str, body: bytes | BinaryIO | Iterable[bytes], media_type: str | None
) -> BlobRef:
    if media_type is not None:
        checked_name("media type", media_type)
    given: object = body
    if isinstance(given, str) or not (hasattr(given, "read") or isinstance(given, Iterable)):
        kind = type(given).__name__
        raise InvalidContent(reason=f"a {kind} is not a body; pass bytes, a binary file or pieces of bytes")
    writer = blobs.writer(tenant)
    try:
        for chunk in _chunks(body):
            writer.write(checked_chunk(chunk))
        return writer.commit(media_type)
    except BaseException:
        writer.abort()
        raise


def checked_chunk(chunk: object) -> bytes:
    if not isinstance(chunk, bytes | bytearray | memoryview):
        raise InvalidContent(reason=f"a body is made of bytes, not of {type(chunk).__name__}; encode text first")
    return bytes(chunk)


def _chunks(body: bytes | BinaryIO | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(body, bytes | bytearray | memoryview):
        yield bytes(body)
    elif hasattr(body, "read"):
        while chunk := body.read(limits.BLOB_CHUNK_BYTES):
            yield chunk
    else:
        yield from body


def verify(drive: Drive, blobs: BlobStore) -> Report:
    report: Report = drive(maintain.verify())
    problems = list(report.problems)
    sound: tuple[str, str, int] | None = None
    for row in _blob_rows(drive):
        if sound == (row.tenant, row.digest, row.size):
            continue
        try:
            for _ in blobs.chunks(row.tenant, BlobRef(row.digest, row.size)):
                pass
            sound = (row.tenant, row.digest, row.size)
        except HoldfastError as error:
            problems.append(Problem(f"event {row.seq} of session {row.tenant}/{row.actor}/{row.session}", str(error)))
    return msgspec.structs.replace(report, problems=tuple(problems))


def collect_blobs(drive: Drive, blobs: BlobStore, clock: Clock, grace_s: float) -> int:
    """The touch that a put leaves on a body is what a late reference is protected by: see FolderBlobs.drop."""
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


def backup(store: EventStore, blobs: BlobStore, target: str) -> None:
    """Bodies come after the log: whatever the copied log names was there before. The copy has its name when it is whole."""
    if os.path.exists(target):
        raise InvalidUrl(url=target, reason="the file exists; a backup never overwrites")
    with appearing(target) as partial:
        with suppress(FileNotFoundError):
            os.unlink(partial)  # of a backup that was killed
        store.backup(partial)
        copy = SqliteStore(partial)
        try:
            folder = FolderBlobs(target + BLOB_FOLDER)
            last: BlobRow | None = None
            while page := copy.rows(BlobRow, {}, after=last, limit=limits.READ_EVENTS):
                for row in page:
                    put_blob(folder, row.tenant, blobs.chunks(row.tenant, BlobRef(row.digest, row.size)), None)
                last = page[-1]
        finally:
            copy.close()


def _blob_rows(drive: Drive) -> Iterator[BlobRow]:
    last: BlobRow | None = None
    while page := drive(effects.rows(BlobRow, {}, last, limits.READ_EVENTS)):
        yield from page
        last = page[-1]
