"""Compression of blobs, and the checks that all blob stores share."""

from __future__ import annotations

import hashlib
import re
import sys

from holdfast import errors
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.names import check_size

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdCompressor, ZstdDecompressor, ZstdError
else:
    from backports.zstd import ZstdCompressor, ZstdDecompressor, ZstdError

__all__ = [
    "BodyChecker",
    "ZstdCompressor",
    "ZstdDecompressor",
    "ZstdError",
    "check_blob_size",
    "check_digest",
    "damage_error",
]

DIGEST = re.compile(r"[0-9a-f]{64}")
COMPRESSION_LEVEL = 3


def check_digest(digest: str) -> str:
    """Check the name of a blob."""
    if not DIGEST.fullmatch(digest):
        raise errors.InvalidName(what="blob digest", value=digest, reason="it is not 64 hexadecimal digits", limit=64)
    return digest


def check_blob_size(size: int) -> None:
    """Check that a body is not too large."""
    check_size("the blob", size, "bytes", "BLOB_BYTES", "Split it.")


def damage_error(ref: BlobRef, reason: str) -> errors.StorageCorrupt:
    """Build the error for a damaged blob."""
    return errors.StorageCorrupt(what=f"blob {ref.digest}", reason=reason)


class BodyChecker:
    """Checks the size and the digest of a body while it is read."""

    def __init__(self, ref: BlobRef) -> None:
        self._ref = ref
        self._digest = hashlib.sha256()
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Add the next piece."""
        self._size += len(piece)
        if self._size > self._ref.size:
            raise damage_error(self._ref, f"it has more than {self._ref.size} bytes")
        self._digest.update(piece)

    def finish(self) -> None:
        """Check the complete body."""
        if self._size != self._ref.size:
            raise damage_error(self._ref, f"it has {self._size} bytes, not {self._ref.size}")
        if self._digest.hexdigest() != self._ref.digest:
            raise damage_error(self._ref, "its content does not match its digest")


def compress_piece(piece: bytes) -> bytes:
    """Compress one piece of a body."""
    compressor = ZstdCompressor(level=COMPRESSION_LEVEL)
    return compressor.compress(piece, mode=ZstdCompressor.FLUSH_FRAME)


def decompress_piece(data: bytes) -> bytes:
    """Restore one piece of a body. Never returns more than a piece can have."""
    decompressor = ZstdDecompressor()
    piece = decompressor.decompress(data, max_length=limits.BLOB_CHUNK_BYTES + 1)
    if not decompressor.eof or decompressor.unused_data or len(piece) > limits.BLOB_CHUNK_BYTES:
        raise ZstdError("the piece does not end where it should")
    return piece
