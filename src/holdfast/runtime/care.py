"""Care of a whole store that involves its blobs: putting, verifying, collecting, backing up."""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO, TypeAlias

import msgspec

from holdfast.core import previews
from holdfast.errors import HoldfastError, InvalidContent, InvalidNumber, InvalidUrl, shown
from holdfast.flows import effects, maintain
from holdfast.flows.effects import Flow
from holdfast.flows.maintain import Count, Problem, Report
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Text
from holdfast.model.names import checked_name
from holdfast.model.rows import BlobRow, scope_of
from holdfast.ports import BlobStore, Clock, EventStore
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.files import appearing
from holdfast.storage.sqlite.store import SqliteStore

Drive: TypeAlias = Callable[[Flow[Any]], Any]

LONGEST_GRACE_S = 10**12

BLOB_FOLDER = ".blobs"
"""Beside the database file: agent.db keeps its bodies in agent.db.blobs."""


def checked_path(value: object) -> str:
    """A path as text, if the file system can take it."""
    path = os.fspath(value) if hasattr(type(value), "__fspath__") else value  # type: ignore[call-overload]
    if type(path) is not str or not path or "\0" in path:
        raise InvalidUrl(url=shown(value), reason="it is not a file name")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise InvalidUrl(url=path, reason="it is not valid Unicode") from error
    return path


class Bodies:
    """The blob store as recording sees it: no event names a body that is not there. One that was put here is not read
    again."""

    def __init__(self, blobs: BlobStore, spooling: previews.Spooling = previews.Spooling()) -> None:
        self._blobs = blobs
        self._spooling = spooling
        self._known: OrderedDict[tuple[str, str, int], None] = OrderedDict()

    def note(self, tenant: str, ref: BlobRef) -> None:
        self._known[tenant, ref.digest, ref.size] = None
        while len(self._known) > limits.CACHED_STREAMS:
            self._known.popitem(last=False)

    def check(self, tenant: str, ref: BlobRef) -> None:
        chunks = self._blobs.chunks(tenant, ref)
        if (tenant, ref.digest, ref.size) not in self._known:
            for _ in chunks:
                pass
            self.note(tenant, ref)

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        return self._blobs.chunks(tenant, ref)

    def put(self, tenant: str, body: bytes | BinaryIO | Iterable[bytes], media_type: str | None) -> BlobRef:
        ref = put_blob(self._blobs, tenant, body, media_type)
        self.note(tenant, ref)
        return ref

    def take(self, tenant: str, source: bytes | BinaryIO | Iterable[bytes]) -> Text | Body:
        """What is short and is text stays text; the rest is put piece by piece."""
        policy = self._spooling
        chunks = _chunks(source)
        start = bytearray()
        whole = False
        for chunk in chunks:
            start += chunk
            if len(start) > policy.enough:
                break
        else:
            whole = True
            with suppress(UnicodeDecodeError):
                text = start.decode()
                if previews.of_text(text, policy) is None:
                    return Text(text)
        beginning = bytes(start)
        kind = previews.media_type(beginning[: policy.enough], whole=whole)
        watched = _Ended(itertools.chain([beginning], chunks), policy.preview)
        ref = self.put(tenant, watched, kind)
        if ref.media_type != previews.TEXT:
            return Body(ref)
        made = previews.of_ends(beginning, watched.end, ref.size, policy)
        return Body(ref, made.text, tail=made.tail)


class _Ended:
    """Pieces of a body that pass through; the last bytes of what has passed are kept."""

    def __init__(self, chunks: Iterator[bytes], size: int) -> None:
        self._chunks = chunks
        self._size = size
        self.end = b""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        kept = chunk if len(chunk) >= self._size else self.end + chunk
        self.end = kept[max(0, len(kept) - self._size) :]
        return chunk


def put_blob(
    blobs: BlobStore, tenant: str, body: bytes | BinaryIO | Iterable[bytes], media_type: str | None
) -> BlobRef:
    if media_type is not None:
        checked_name("media type", media_type)
    kind: type = type(body)
    if kind not in (bytes, bytearray, memoryview, list, tuple) and not (
        hasattr(kind, "read") or hasattr(kind, "__next__")
    ):
        raise InvalidContent(reason=f"{shown(body)} is not a body; pass bytes, a binary file, or an iterator of bytes")
    writer = blobs.writer(tenant)
    try:
        for chunk in _chunks(body):
            writer.write(chunk)
        return writer.commit(media_type)
    except BaseException:
        writer.abort()
        raise


def _chunks(body: Any) -> Iterator[bytes]:
    """A body in pieces of at most BLOB_CHUNK_BYTES, however large those were that it came in."""
    if type(body) in (bytes, bytearray, memoryview):
        yield from pieces(body)
    elif hasattr(type(body), "read"):
        while chunk := body.read(limits.BLOB_CHUNK_BYTES):
            yield from pieces(chunk)
    else:
        for chunk in body:
            yield from pieces(chunk)


def pieces(chunk: object) -> Iterator[bytes]:
    """Bytes as bytes, none of them large; anything else is refused."""
    if type(chunk) not in (bytes, bytearray, memoryview):
        raise InvalidContent(reason=f"a body is made of bytes, and {shown(chunk)} is none; encode text first")
    whole = memoryview(chunk)  # type: ignore[arg-type]
    whole = whole.cast("B") if whole.c_contiguous else memoryview(bytes(whole))
    for start in range(0, len(whole), limits.BLOB_CHUNK_BYTES):
        yield bytes(whole[start : start + limits.BLOB_CHUNK_BYTES])


def verify(drive: Drive, blobs: BlobStore, count: Count | None) -> Report:
    report: Report = drive(maintain.verify(count))
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
            stream = scope_of(row).stream
            problems.append(Problem(f"event {row.seq} of {stream}", str(error)))
    return msgspec.structs.replace(report, problems=tuple(problems))


def collect_blobs(drive: Drive, blobs: BlobStore, clock: Clock, grace_s: float) -> int:
    """The touch that a put leaves on a body is what a late reference is protected by: see FolderBlobs.drop."""
    if type(grace_s) not in (int, float) or not 0 <= grace_s <= LONGEST_GRACE_S:
        raise InvalidNumber(what="the grace period", value=shown(grace_s), low=0, high=LONGEST_GRACE_S)
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
    """Bodies come after the log: whatever the copied log names was there before. The copy has its name when it is whole."""
    if os.path.exists(target):
        raise InvalidUrl(url=target, reason="the file exists; a backup never overwrites")
    with appearing(target) as partial:
        with suppress(FileNotFoundError):
            os.unlink(partial)  # of a backup that was killed
        store.backup(partial)
        copy = SqliteStore(partial)
        try:
            _copy_blobs(copy, blobs, FolderBlobs(target + BLOB_FOLDER), os.path.getsize(partial), progress)
        finally:
            copy.close()


def _copy_blobs(
    copy: EventStore,
    blobs: BlobStore,
    folder: BlobStore,
    done: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Every body that the copied log names, once; `done` bytes are copied already."""
    total = done
    if progress is not None:
        for row in _bodies_of(copy):
            total += row.size
        progress(done, total)
    for row in _bodies_of(copy):
        put_blob(folder, row.tenant, blobs.chunks(row.tenant, BlobRef(row.digest, row.size)), None)
        done += row.size
        if progress is not None:
            progress(done, total)


def _bodies_of(store: EventStore) -> Iterator[BlobRow]:
    """The blobs that a store's events name, each once."""
    last: BlobRow | None = None
    while page := store.rows(BlobRow, {}, after=last, limit=limits.READ_EVENTS):
        for row in page:
            if last is None or (row.tenant, row.digest) != (last.tenant, last.digest):
                yield row
            last = row


def _blob_rows(drive: Drive) -> Iterator[BlobRow]:
    last: BlobRow | None = None
    while page := drive(effects.rows(BlobRow, {}, last, limits.READ_EVENTS)):
        yield from page
        last = page[-1]
