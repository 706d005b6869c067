"""The only module that encodes and decodes.

Laws: the same value gives the same bytes, always; nothing is accepted that would not come back as it went in; JSON only.
"""

from __future__ import annotations

import hashlib
import math
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.errors import InvalidJson, InvalidText, shown
from holdfast.model import limits
from holdfast.model.commands import Command, LedgerCommand
from holdfast.model.content import Json
from holdfast.model.events import Event
from holdfast.model.names import StreamId, check_size

T = TypeVar("T")

_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(value: object) -> bytes:
    """Canonical bytes of a struct or of plain data that was checked before."""
    return _encode(value)


def digest(value: object) -> str:
    """The SHA-256 of what a value is encoded to."""
    return hashlib.sha256(_encode(value)).hexdigest()


_decoders: dict[Any, Any] = {}
_building = threading.Lock()


def _decoder(kind: Any) -> Any:
    """Built by one thread at a time: msgspec shows others a type that it is not done with, and they crash on it."""
    decoder = _decoders.get(kind)
    if decoder is None:
        with _building:
            decoder = _decoders.setdefault(kind, msgspec.json.Decoder(kind, strict=True).decode)
    return decoder


def decode(data: bytes, kind: type[T]) -> T:
    """Raises msgspec.ValidationError or msgspec.DecodeError, which callers turn into an error that names the place."""
    decoder: Any = _decoder
    try:
        value: T = decoder(kind)(data)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(str(error)) from error
    return value


def compressed(data: bytes) -> bytes:
    """In fewer bytes, for what is read seldom."""
    return zlib.compress(data)


def decompressed(data: bytes, most: int) -> bytes:
    """As it was, no more than so many bytes. Raises ValueError for what is none, or is more."""
    unpacking = zlib.decompressobj()
    try:
        whole = unpacking.decompress(data, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("it is cut off, or has more than it may")
    return whole


def decode_object(data: bytes) -> dict[str, Any]:
    """A payload as plain data: what upcasters work on."""
    return decode(data, dict[str, Any])


def convert(value: dict[str, Any], kind: type[T]) -> T:
    _decoder(kind)
    return msgspec.convert(value, kind, strict=True)


def plain(value: object) -> Any:
    """A struct as the JSON that it is encoded to."""
    return msgspec.to_builtins(value)


_SLICE_CHARS = 1 << 16


def encode_event(event: Event) -> bytes:
    payload = _encoded(event, f"the event {event.name!r}")
    check_size(
        f"the event {event.name!r}",
        len(payload),
        "bytes",
        "PAYLOAD_BYTES",
        "Put large bodies into the blob store with put_blob() and record a reference.",
    )
    return payload


def encode_commands(commands: Sequence[Command | LedgerCommand]) -> bytes:
    """One command as it is; several, which take effect together, as a list."""
    return _encoded(commands[0] if len(commands) == 1 else commands, "the command")


def _encoded(value: object, where: str) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError as error:
        raise InvalidText(where=where, reason=f"lone surrogate at character {error.start}") from error


def encode_stream_key(stream: StreamId) -> str:
    """The key of a stream as one column: a JSON array, so that no two keys ever meet."""
    return _encode(stream.key).decode()


def decode_stream_key(text: str) -> tuple[str, ...]:
    return decode(text.encode(), tuple[str, ...])


def checked_text(where: str, value: object) -> str:
    if type(value) is not str:
        raise InvalidText(where=where, reason=f"it is a {type(value).__name__}, not a str")
    if not value.isascii():
        for start in range(0, len(value), _SLICE_CHARS):  # a whole copy of a large text is not needed to look at it
            try:
                value[start : start + _SLICE_CHARS].encode()
            except UnicodeEncodeError as error:
                raise InvalidText(where=where, reason=f"lone surrogate at character {start + error.start}") from error
    return value


def encoded_text(text: str) -> Iterator[bytes]:
    """A text as UTF-8, piece by piece."""
    for start in range(0, len(text), _SLICE_CHARS):
        yield text[start : start + _SLICE_CHARS].encode()


def checked_json(where: str, value: object) -> Json:
    """A deep copy of the value, if JSON carries it there and back unchanged."""
    return _Checker(where).checked(value, 0)


class _Checker:
    """Counts as it goes: a few lists that hold each other many times unfold to more than any memory."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._left = limits.JSON_VALUES

    def checked(self, value: object, depth: int) -> Json:
        self._left -= 1
        if self._left < 0:
            raise self._refusal(f"it has more than {limits.JSON_VALUES} values")
        if depth > limits.JSON_DEPTH:
            raise self._refusal(f"it is nested deeper than {limits.JSON_DEPTH}")
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return self._constant(value)
        if kind is str:
            return checked_text(self._where, value)
        if kind is int:
            return self._whole(value)  # type: ignore[arg-type]
        if kind is list:
            return [self.checked(item, depth + 1) for item in value]  # type: ignore[attr-defined]
        if kind is dict:
            return self._object(value, depth)  # type: ignore[arg-type]
        raise self._refusal(f"{shown(value)} is not a JSON value")

    def _constant(self, value: Any) -> Json:
        if type(value) is float and not math.isfinite(value):
            raise self._refusal(f"{value} is not a finite number")
        constant: Json = value
        return constant

    def _whole(self, value: int) -> int:
        if value.bit_length() >= limits.JSON_INT_BITS:
            raise self._refusal(f"{shown(value)} needs more than {limits.JSON_INT_BITS} bits")
        return value

    def _object(self, value: dict[Any, Any], depth: int) -> dict[str, Json]:
        copy: dict[str, Json] = {}
        for key, item in value.items():
            if type(key) is not str:
                raise self._refusal(f"the key {shown(key)} is not text")
            copy[checked_text(self._where, key)] = self.checked(item, depth + 1)
        return copy

    def _refusal(self, reason: str) -> InvalidJson:
        return InvalidJson(where=self._where, reason=reason)
