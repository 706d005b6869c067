"""What every blob store does alike: compressing, checking names and sizes, saying what is damaged."""

from __future__ import annotations

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
    "ZstdCompressor",
    "ZstdDecompressor",
    "ZstdError",
    "check_blob_size",
    "checked_digest",
    "damaged",
    "unpacked",
]

DIGEST = re.compile(r"[0-9a-f]{64}")
LEVEL = 3


def checked_digest(digest: str) -> str:
    if not DIGEST.fullmatch(digest):
        raise errors.InvalidName(what="blob digest", value=digest, reason="it is not 64 hexadecimal digits", limit=64)
    return digest


def check_blob_size(size: int) -> None:
    check_size("the blob", size, "bytes", "BLOB_BYTES", "Split it.")


def damaged(ref: BlobRef, reason: str) -> errors.StorageCorrupt:
    return errors.StorageCorrupt(what=f"blob {ref.digest}", reason=reason)


def packed(piece: bytes) -> bytes:
    compressor = ZstdCompressor(level=LEVEL)
    return compressor.compress(piece, mode=ZstdCompressor.FLUSH_FRAME)


def unpacked(data: bytes) -> bytes:
    """A piece that was packed whole. Nothing unfolds to more than a piece can have."""
    decompressor = ZstdDecompressor()
    piece = decompressor.decompress(data, max_length=limits.BLOB_CHUNK_BYTES + 1)
    if not decompressor.eof or decompressor.unused_data or len(piece) > limits.BLOB_CHUNK_BYTES:
        raise ZstdError("the piece does not end where it should")
    return piece
