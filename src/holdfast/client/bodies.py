"""Large bodies: streamed to a server and from it.

Law: what is read is verified against its digest on this side, too.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from typing import Any

import msgspec

from holdfast.client.exchanges import OCTETS, RemoteFlow, RemoteRequest, Upload, ask
from holdfast.client.values import upload_of
from holdfast.errors import StorageCorrupt
from holdfast.flows.sessions import ingest
from holdfast.model.content import BlobRef
from holdfast.model.names import check_name
from holdfast.runtime.bodies import check_body, split_chunk


def put_body(body: Any, media_type: str | None) -> RemoteFlow[BlobRef]:
    """Send a body, and return its reference."""
    return (yield from _put(upload_of(body), media_type))


def _put(upload: Upload, media_type: str | None) -> RemoteFlow[BlobRef]:
    query = () if media_type is None else (("media_type", media_type),)
    request = RemoteRequest(
        "POST", "/blobs", query, (), upload, OCTETS, is_safe=True
    )  # the same body has the same name
    answer: BlobRef = msgspec.json.decode((yield from ask(request)).body, type=BlobRef)
    return answer


def _get(ref: BlobRef) -> RemoteRequest:
    return RemoteRequest("GET", f"/blobs/{ref.digest}", (("size", str(ref.size)),), is_safe=True)


async def _split(body: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for chunk in body:
        for piece in split_chunk(chunk):
            yield piece


class _Verifier:
    """Compares what was read with the reference."""

    def __init__(self, ref: BlobRef) -> None:
        self._ref = ref
        self._digest = hashlib.sha256()
        self._size = 0

    def add(self, chunk: bytes) -> bytes:
        self._digest.update(chunk)
        self._size += len(chunk)
        return chunk

    def check(self) -> None:
        if self._digest.hexdigest() != self._ref.digest or self._size != self._ref.size:
            raise StorageCorrupt(what=f"blob {self._ref.digest}", reason="what the server sent is not the stored body")


class BlockingBlobs:
    """The bodies of a server."""

    _drive: Any

    def put(self, body: Any, *, media_type: str | None = None) -> BlobRef:
        check_body(body, media_type)
        ref: BlobRef = self._drive(put_body(body, media_type))
        return ref

    def chunks(self, ref: BlobRef) -> Iterator[bytes]:
        return self._read(ingest.check_ref(ref))

    def _read(self, ref: BlobRef) -> Iterator[bytes]:
        verifier = _Verifier(ref)
        with self._drive.stream(_get(ref)) as answer:
            for chunk in answer.iter_bytes():
                yield verifier.add(chunk)
        verifier.check()

    def read(self, ref: BlobRef) -> bytes:
        return b"".join(self.chunks(ref))


class AwaitedBlobs:
    """The bodies of a server, for an event loop."""

    _drive: Any

    async def put(self, body: Any, *, media_type: str | None = None) -> BlobRef:
        if not isinstance(body, AsyncIterable):
            check_body(body, media_type)
            ref: BlobRef = await self._drive(put_body(body, media_type))
            return ref
        if media_type is not None:
            check_name("media type", media_type)
        sent: BlobRef = await self._drive(
            _put(Upload(functools.partial(_split, body), is_repeatable=False), media_type)
        )
        return sent

    async def chunks(self, ref: BlobRef) -> AsyncIterator[bytes]:
        verifier = _Verifier(ingest.check_ref(ref))
        async with self._drive.stream(_get(ref)) as answer:
            async for chunk in answer.aiter_bytes():
                yield verifier.add(chunk)
        verifier.check()

    async def read(self, ref: BlobRef) -> bytes:
        return b"".join([chunk async for chunk in self.chunks(ref)])
