"""Content codings of HTTP bodies: gzip, deflate, zstd, and brotli if its module is installed.

Laws: no decoder returns more bytes than its limit, whatever it is fed. A body that cannot be decoded raises Undecodable,
and no other error.
"""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Callable
from typing import Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP_BITS = 16 + zlib.MAX_WBITS


class Undecodable(Exception):
    """A body is not what its coding says, or is larger than the limit."""


class Inflater(Protocol):
    """A decoder of one member of a body, as the standard library has it."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class BodyDecoder:
    """Decodes one body in pieces. A body may have several members."""

    def __init__(self, coding: str, limit: int) -> None:
        """Raises Undecodable for a coding that is not known here."""
        try:
            self._open = _INFLATERS[coding]
            self._inflater = self._open()
        except (KeyError, ImportError) as error:
            raise Undecodable(f"there is no decoder for {coding!r}") from error
        self._left = limit
        self._may_be_raw = coding == "deflate"

    @property
    def has_ended(self) -> bool:
        """Whether the last member is complete."""
        return self._inflater.eof

    def decode(self, data: bytes) -> bytes:
        """Return what this piece of the body adds. Raises Undecodable."""
        output: list[bytes] = []
        try:
            while data:
                if self._inflater.eof:
                    self._inflater = self._open()
                output.append(self._inflate(data))
                data = self._inflater.unused_data if self._inflater.eof else b""
        except Undecodable:
            raise
        except Exception as error:  # each library has errors of its own
            raise Undecodable(f"{type(error).__name__}: {error}") from error
        return b"".join(output)

    def _inflate(self, data: bytes) -> bytes:
        try:
            piece = self._inflater.decompress(data, self._left + 1)
        except zlib.error:
            if not self._may_be_raw:
                raise
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)  # some programs send deflate without its header
            piece = self._inflater.decompress(data, self._left + 1)
        self._may_be_raw = False
        self._left -= len(piece)
        if self._left < 0:
            raise Undecodable("the body is larger than the limit")
        return piece


class BrotliInflater:
    """A decoder of brotli with the methods of the others."""

    unused_data = b""

    def __init__(self) -> None:
        self._decoder = importlib.import_module("brotli").Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._decoder.is_finished())

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        pieces = [self._decoder.process(data, output_buffer_limit=max_length)]
        size = len(pieces[0])
        while size < max_length and not self._decoder.can_accept_more_data():
            pieces.append(self._decoder.process(b"", output_buffer_limit=max_length - size))
            size += len(pieces[-1])
        return b"".join(pieces)


_INFLATERS: dict[str, Callable[[], Inflater]] = {
    "gzip": lambda: zlib.decompressobj(_GZIP_BITS),
    "x-gzip": lambda: zlib.decompressobj(_GZIP_BITS),
    "deflate": zlib.decompressobj,
    "zstd": zstd.ZstdDecompressor,
    "br": BrotliInflater,
}


def decode_body(coding: str, data: bytes, limit: int) -> bytes:
    """Return a whole body without its coding. Raises Undecodable, also for a body that ends too early."""
    decoder = BodyDecoder(coding, limit)
    body = decoder.decode(data)
    if not decoder.has_ended:
        raise Undecodable("the body ends too early")
    return body


def encode_body(coding: str, data: bytes) -> bytes | None:
    """Return a body in this coding; None if there is no encoder for it. The same body always gives the same bytes."""
    if coding in ("gzip", "x-gzip", "deflate"):
        encoder = zlib.compressobj(wbits=zlib.MAX_WBITS if coding == "deflate" else _GZIP_BITS)
        return encoder.compress(data) + encoder.flush()
    return zstd.compress(data) if coding == "zstd" else None
