"""Large bodies on their way into the blob store."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from holdfast.core.history import previews
from holdfast.errors import InvalidArgument, describe_value
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Text
from holdfast.model.names import check_name
from holdfast.ports import BlobStore
from holdfast.runtime.logs import log_blob


class VerifiedBodies:
    """The blob store as flows use it. Before an event refers to a body, the body is verified once.

    A body that was put through this object is known to be sound, and is not read again."""

    def __init__(self, blobs: BlobStore, spooling: previews.Spooling = previews.Spooling()) -> None:
        self._blobs = blobs
        self._spooling = spooling
        self._verified: OrderedDict[tuple[str, str, int], None] = OrderedDict()

    def note(self, tenant: str, ref: BlobRef) -> None:
        self._verified[tenant, ref.digest, ref.size] = None
        while len(self._verified) > limits.CACHED_STREAMS:
            self._verified.popitem(last=False)

    def check(self, tenant: str, ref: BlobRef) -> None:
        chunks = self._blobs.chunks(tenant, ref)
        if (tenant, ref.digest, ref.size) not in self._verified:
            for _ in chunks:
                pass
            self.note(tenant, ref)

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        return self._blobs.chunks(tenant, ref)

    def put(self, tenant: str, body: bytes | BinaryIO | Iterable[bytes], media_type: str | None) -> BlobRef:
        ref = put_blob(self._blobs, tenant, body, media_type)
        self.note(tenant, ref)
        log_blob(tenant, ref)
        return ref

    def take(self, tenant: str, source: bytes | BinaryIO | Iterable[bytes]) -> Text | Body:
        """Return a short text as text; store everything else, streamed."""
        policy = self._spooling
        chunks = read_chunks(source)
        start = bytearray()
        is_complete = False
        for chunk in chunks:
            start += chunk
            if len(start) > policy.certain_bytes:
                break
        else:
            is_complete = True
            with suppress(UnicodeDecodeError):
                text = start.decode()
                if previews.preview_text(text, policy) is None:
                    return Text(text)
        beginning = bytes(start)
        kind = previews.detect_media_type(beginning[: policy.certain_bytes], whole=is_complete)
        passing = _TailBuffer(itertools.chain([beginning], chunks), policy.preview)
        ref = self.put(tenant, passing, kind)
        if ref.media_type != previews.TEXT_TYPE:
            return Body(ref)
        preview = previews.preview_ends(beginning, passing.tail, ref.size, policy)
        return Body(ref, preview.text, tail=preview.tail)


class _TailBuffer:
    """Passes chunks through, and keeps the last bytes."""

    def __init__(self, chunks: Iterator[bytes], size: int) -> None:
        self._chunks = chunks
        self._size = size
        self.tail = b""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        end = chunk if len(chunk) >= self._size else self.tail + chunk
        self.tail = end[max(0, len(end) - self._size) :]
        return chunk


def put_blob(
    blobs: BlobStore, tenant: str, body: bytes | BinaryIO | Iterable[bytes], media_type: str | None
) -> BlobRef:
    """Store a body. If anything fails, nothing of it is left."""
    check_body(body, media_type)
    writer = blobs.writer(tenant)
    try:
        for chunk in read_chunks(body):
            writer.write(chunk)
        return writer.commit(media_type)
    except BaseException:
        writer.abort()
        raise


def check_body(body: object, media_type: object) -> None:
    """Refuse what is no body."""
    if media_type is not None:
        check_name("media type", media_type)
    kind: type = type(body)
    if kind not in (bytes, bytearray, memoryview, list, tuple) and not (
        hasattr(kind, "read") or hasattr(kind, "__next__")
    ):
        reason = f"{describe_value(body)} is not a body: pass bytes, a binary file, or an iterator of bytes"
        raise InvalidArgument(argument="body", reason=reason)


def read_chunks(body: Any) -> Iterator[bytes]:
    """Yield a body in chunks of at most BLOB_CHUNK_BYTES."""
    if type(body) in (bytes, bytearray, memoryview):
        yield from split_chunk(body)
    elif hasattr(type(body), "read"):
        while chunk := body.read(limits.BLOB_CHUNK_BYTES):
            yield from split_chunk(chunk)
    else:
        for chunk in body:
            yield from split_chunk(chunk)


def split_chunk(chunk: object) -> Iterator[bytes]:
    """Yield a chunk of bytes in pieces of at most BLOB_CHUNK_BYTES."""
    if type(chunk) not in (bytes, bytearray, memoryview):
        raise InvalidArgument(argument="body", reason=f"{describe_value(chunk)} is not bytes: encode text first")
    view = memoryview(chunk)  # type: ignore[arg-type]
    view = view.cast("B") if view.c_contiguous else memoryview(bytes(view))
    for start in range(0, len(view), limits.BLOB_CHUNK_BYTES):
        yield bytes(view[start : start + limits.BLOB_CHUNK_BYTES])
