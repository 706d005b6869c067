"""Bodies as bytes: stored, read and read in ranges, streamed both ways.

Laws: no body is in memory as a whole. The last piece of a body is sent after all of it was checked against its digest, so a
damaged one never looks complete.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from starlette.responses import Response, StreamingResponse

import holdfast
from holdfast import codec
from holdfast.api.requests import STREAM_TYPE
from holdfast.errors import InvalidArgument, StorageCorrupt, describe_value
from holdfast.flows import effects
from holdfast.model.content import BlobRef, Body, Data, File, Image, Opaque, Part, Text
from holdfast.model.names import check_whole
from holdfast.model.rows import BlobRow
from holdfast.server.native.calls import Answer, Call
from holdfast.server.native.objects import open_conversation

_DIGEST = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class ByteRange(NamedTuple):
    """Bytes from `start` up to, not including, `stop`."""

    start: int
    stop: int


async def put_blob(call: Call) -> Response:
    """Store a body."""
    call.access.check_whole_tenant()
    media_type = call.query.get("media_type")
    ref = await call.engine.blobs.put(call.request.stream(), media_type=media_type)
    return Answer(msgspec.json.encode(ref), 201)


async def get_blob(call: Call) -> Response:
    """Read a body, or a range of it."""
    call.access.check_whole_tenant()
    digest = call.names["digest"]
    if not _DIGEST.fullmatch(digest):
        raise InvalidArgument(argument="digest", reason=f"{describe_value(digest)} is not a SHA-256 in hexadecimal")
    ref = BlobRef(digest, await _find_size(call, digest))
    return await answer_body(call, ref, STREAM_TYPE)


async def _find_size(call: Call, digest: str) -> int:
    text = call.query.get("size")
    if text is not None:
        is_number = text.isascii() and text.isdigit() and len(text) <= 19
        return check_whole("size", int(text) if is_number else text)
    where: dict[str, str | int] = {"tenant": call.access.tenant, "digest": digest}
    rows = await call.engine._drive(effects.rows(BlobRow, where, None, 1))
    if rows:
        return rows[0].size
    try:
        async for _ in call.engine.blobs.chunks(BlobRef(digest, 0)):
            break
    except StorageCorrupt:  # it is there, and is not empty
        reason = (
            "no message has this body yet, so its size is not known; send ?size= with the size that its upload gave"
        )
        raise InvalidArgument(argument="size", reason=reason) from None
    return 0


async def get_content(call: Call) -> Response:
    """Read the content of a handle."""
    conversation = await open_conversation(call)
    parts = await conversation.handles.parts(call.names["handle"])
    if len(parts) != 1:
        reason = f"it has {len(parts)} parts: read them at …/parts, or as text at …/text"
        raise InvalidArgument(argument="handle", reason=reason)
    content, media_type = _read_part(parts[0])
    return await answer_body(call, content, media_type)


def _read_part(part: Part) -> tuple[bytes | BlobRef, str]:
    match part:
        case Text(text):
            return text.encode("utf-8", "surrogatepass"), "text/plain; charset=utf-8"
        case Data(value):
            return codec.encode(value), "application/json"
        case Opaque(_, str(text)):
            return text.encode("utf-8", "surrogatepass"), "text/plain; charset=utf-8"
        case Body(ref) | File(ref) | Opaque(_, BlobRef() as ref) | Image(BlobRef() as ref):
            return ref, ref.media_type or STREAM_TYPE
    raise InvalidArgument(argument="handle", reason="it is an image at an address, which has no bytes here")


async def answer_body(
    call: Call,
    body: bytes | BlobRef,
    media_type: str,
    headers: Mapping[str, str] = MappingProxyType({"Content-Disposition": "attachment"}),
    *,
    engine: holdfast.AsyncEngine | None = None,
) -> Response:
    """Answer with a body, or with the range of it that the request asks for."""
    size = len(body) if isinstance(body, bytes) else body.size
    sent = {**headers, "Accept-Ranges": "bytes"}
    wanted = read_range(call.header("range"), size)
    if wanted is None:
        wanted, status = ByteRange(0, size), 200
    elif wanted.start >= wanted.stop:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
    else:
        status = 206
        sent["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{size}"
    sent["Content-Length"] = str(wanted.stop - wanted.start)
    if isinstance(body, bytes):
        return Response(body[wanted.start : wanted.stop], status, sent, media_type)
    chunks = (engine or call.engine).blobs.chunks(body)
    try:
        begun = [await anext(chunks, b""), await anext(chunks, b"")]  # what is wrong with a short one is known then
    except StorageCorrupt as error:
        if "size" not in call.query:
            raise
        raise wrong_reference() from error
    return StreamingResponse(cut_range(_hold_last(begun, chunks), wanted), status, sent, media_type)


def wrong_reference() -> InvalidArgument:
    """The error for a reference of the caller that does not fit its body."""
    reason = "the body is not as it says: check the digest and the size"
    return InvalidArgument(argument="ref", reason=reason)


def read_range(header: str | None, size: int) -> ByteRange | None:
    """The range of a Range header; None without one, or with one that this server leaves aside, as it may."""
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        return ByteRange(max(0, size - int(last)), size)
    stop = size if not last else min(int(last) + 1, size)
    return None if last and int(last) < int(first) else ByteRange(int(first), stop)


async def _hold_last(begun: list[bytes], chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a body, each when the next one is there."""
    first, held = begun
    yield first
    async for chunk in chunks:
        yield held
        held = chunk
    yield held


async def cut_range(chunks: AsyncIterator[bytes], wanted: ByteRange) -> AsyncIterator[bytes]:
    """The bytes of a range, from the pieces of all."""
    at = 0
    async for chunk in chunks:
        piece = chunk[max(0, wanted.start - at) : max(0, wanted.stop - at)]
        at += len(chunk)
        if piece:
            yield piece
        if at > wanted.stop:
            return
