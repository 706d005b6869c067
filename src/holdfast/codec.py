"""Encoding and decoding, all of it: JSON with canonical bytes.

Laws: the same value always gives the same bytes. A value that would not come back unchanged is refused.
"""

from __future__ import annotations

import hashlib
import math
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.errors import InvalidJson, InvalidText, describe_value
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import Json
from holdfast.model.events import Event
from holdfast.model.facts.commands import LedgerCommand
from holdfast.model.names import Scope, StreamId, check_size
from holdfast.model.rows import OutboxRow
from holdfast.model.sessions.messages import Offload

T = TypeVar("T")

_SLICE_CHARS = 1 << 16
_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(value: object) -> bytes:
    """Return the canonical bytes of a struct, or of plain data that was checked before."""
    return _encode(value)


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical bytes of a value."""
    return hashlib.sha256(_encode(value)).hexdigest()


_decoders: dict[Any, Any] = {}
_building = threading.Lock()


def _decoder(kind: Any) -> Any:
    """Build a decoder in one thread at a time: msgspec shows a type to other threads before it is complete, and they
    crash."""
    decoder = _decoders.get(kind)
    if decoder is None:
        with _building:
            decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind, strict=True).decode)
    return decoder


def decode(data: bytes, kind: type[T]) -> T:
    """Decode data as this type. Raises msgspec.ValidationError or msgspec.DecodeError; callers add the context."""
    try:
        value: T = _decoder(kind)(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
    return value


def compress(data: bytes) -> bytes:
    """Compress data that is seldom read."""
    return zlib.compress(data)


def decompress(data: bytes, most: int) -> bytes:
    """Restore compressed data of at most `most` bytes. Raises ValueError if it is damaged or larger."""
    decompressor = zlib.decompressobj()
    try:
        restored = decompressor.decompress(data, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not decompressor.eof or decompressor.unused_data:
        raise ValueError("it is cut off or too large")
    return restored


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode a payload as plain data, for upcasters."""
    return decode(data, dict[str, Any])


def convert(value: dict[str, Any], kind: type[T]) -> T:
    """Convert plain data to this type."""
    _decoder(kind)
    return msgspec.convert(value, kind, strict=True)


def to_plain(value: object) -> Any:
    """Return a struct as plain data."""
    return msgspec.to_builtins(value)


def encode_event(event: Event) -> bytes:
    """Return the payload of an event. Raises TooLarge over PAYLOAD_BYTES."""
    where = f"the event {event.name!r}"
    payload = _encode_or_refuse(event, where)
    advice = "Put large bodies into the blob store with engine.blobs.put() and record a reference."
    check_size(where, len(payload), "bytes", "PAYLOAD_BYTES", advice)
    return payload


def encode_commands(commands: Sequence[SessionCommand | LedgerCommand]) -> bytes:
    """Encode one command, or a list of commands that take effect together."""
    return _encode_or_refuse(commands[0] if len(commands) == 1 else commands, "the command")


def _encode_or_refuse(value: object, where: str) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError as error:
        raise InvalidText(where=where, reason=f"lone surrogate at character {error.start}") from error


def encode_stream_key(stream: StreamId) -> str:
    """Encode the key of a stream as one column: a JSON array, so that no two keys are the same."""
    return _encode(stream.key).decode()


def decode_stream_key(text: str) -> tuple[str, ...]:
    return decode(text.encode(), tuple[str, ...])


def build_offload(row: OutboxRow) -> Offload:
    """Return the entry of the outbox that a row describes. Its key is the same each time."""
    scope = Scope(row.tenant, row.actor, row.session, row.thread or None)
    return Offload(
        scope=scope,
        entry=row.entry,
        why=row.why,
        first=row.first,
        last=row.last,
        at_us=row.at_us,
        key=digest([scope.tenant, scope.actor, scope.session, scope.thread, row.entry]),
    )


def check_text(where: str, value: object) -> str:
    """Check that a value is Unicode text. `where` names it in the error."""
    if type(value) is not str:
        raise InvalidText(where=where, reason=f"it is a {type(value).__name__}, not a str")
    if not value.isascii():
        for start in range(0, len(value), _SLICE_CHARS):  # in slices: no copy of a large text is made
            try:
                value[start : start + _SLICE_CHARS].encode()
            except UnicodeEncodeError as error:
                raise InvalidText(where=where, reason=f"lone surrogate at character {start + error.start}") from error
    return value


def iter_utf8(text: str) -> Iterator[bytes]:
    """Yield a text as UTF-8 in pieces."""
    for start in range(0, len(text), _SLICE_CHARS):
        yield text[start : start + _SLICE_CHARS].encode()


def check_json(where: str, value: object, most: int = limits.JSON_VALUES) -> Json:
    """Return a deep copy of a value that JSON can represent exactly. Raises InvalidJson for any other value."""
    return _JsonChecker(where, most).check(value, 0)


class _JsonChecker:
    """Checks a value, and counts its parts: a few lists that contain each other many times would fill any memory."""

    def __init__(self, where: str, most: int) -> None:
        self._where = where
        self._most = self._left = most

    def check(self, value: object, depth: int) -> Json:
        self._left -= 1
        if self._left < 0:
            raise self._refusal(f"it has more than {self._most} values")
        if depth > limits.JSON_DEPTH:
            raise self._refusal(f"it is nested deeper than {limits.JSON_DEPTH}")
        kind = type(value)
        if kind is str:
            text: str = value  # type: ignore[assignment]
            return text if text.isascii() else check_text(self._where, text)
        if kind is int:
            return self._check_whole(value)  # type: ignore[arg-type]
        if kind is list:
            return [self.check(item, depth + 1) for item in value]  # type: ignore[attr-defined]
        if kind is dict:
            return self._check_object(value, depth)  # type: ignore[arg-type]
        if value is None or kind is bool or kind is float:
            return self._check_constant(value)
        raise self._refusal(f"{describe_value(value)} is not a JSON value")

    def _check_constant(self, value: Any) -> Json:
        if type(value) is float and not math.isfinite(value):
            raise self._refusal(f"{value} is not a finite number")
        constant: Json = value
        return constant

    def _check_whole(self, value: int) -> int:
        if value.bit_length() >= limits.JSON_INT_BITS:
            raise self._refusal(f"{describe_value(value)} needs more than {limits.JSON_INT_BITS} bits")
        return value

    def _check_object(self, value: dict[Any, Any], depth: int) -> dict[str, Json]:
        copy: dict[str, Json] = {}
        for key, item in value.items():
            if type(key) is not str:
                raise self._refusal(f"the key {describe_value(key)} is not text")
            if not key.isascii():
                check_text(self._where, key)
            copy[key] = self.check(item, depth + 1)
        return copy

    def _refusal(self, reason: str) -> InvalidJson:
        return InvalidJson(where=self._where, reason=reason)
