"""Vectors as bytes, and their exact comparison: with numpy if it is installed, else in plain Python."""

from __future__ import annotations

import array
import functools
import heapq
import importlib
import math
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import mul
from typing import Any

_CHUNK_ROWS = 4_096
_FLOAT_BYTES = 4


def pack_vector(vector: Sequence[float]) -> bytes:
    """Return a vector of length 1 in the same direction: 4 bytes a number, the lowest byte first."""
    length = math.sqrt(sum(number * number for number in vector)) or 1.0
    packed = array.array("f", (number / length for number in vector))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_vector(packed: bytes) -> array.array[float]:
    vector = array.array("f")
    vector.frombytes(packed)
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


@functools.cache
def _load_numpy() -> Any:
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def find_nearest(wanted: bytes, vectors: Iterable[tuple[int, bytes]], limit: int) -> list[tuple[float, int]]:
    """Return the cosine and the row of the vectors nearest to a packed one, best first; the newest row first among equals.
    Vectors of another length are left out."""
    numpy = _load_numpy()
    best: list[tuple[float, int]] = []
    rows = iter(vectors)
    while part := list(islice(rows, _CHUNK_ROWS)):
        part = [each for each in part if len(each[1]) == len(wanted)]
        if not part:
            continue
        if numpy is None:
            compared = _compare(wanted, part)
        else:
            width = len(wanted) // _FLOAT_BYTES
            matrix = numpy.frombuffer(b"".join(packed for _, packed in part), dtype="<f4").reshape(-1, width)
            products = matrix @ numpy.frombuffer(wanted, dtype="<f4")
            least = numpy.partition(products, -limit)[-limit] if limit < len(part) else -numpy.inf
            compared = [(float(products[at]), part[at][0]) for at in numpy.flatnonzero(products >= least)]
        best = heapq.nlargest(limit, [*best, *compared])
    return best


def _compare(wanted: bytes, part: Sequence[tuple[int, bytes]]) -> list[tuple[float, int]]:
    own = unpack_vector(wanted)
    return [(math.fsum(map(mul, own, unpack_vector(packed))), row) for row, packed in part]
