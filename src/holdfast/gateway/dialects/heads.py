"""What stands before the messages: tools and the system prompt, read once for each spelling."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from holdfast.gateway.model import Slice

_CACHED = 256
_encode = msgspec.json.Encoder().encode  # keys in their order: a model sees the schema of a tool as it is written


class HeadPart(msgspec.Struct, frozen=True, kw_only=True):
    """Tools, or a system prompt."""

    digest: bytes = b""
    size: int = 0
    """Its bytes in the body."""
    count: int = 0
    """Its elements."""
    marks: int = 0
    ttl_s: int = 0


HeadReader: TypeAlias = Callable[[bytes], tuple[object, int, int, int]]
"""What of it the provider caches, its elements, its marks and their longest time."""


class HeadPartCache:
    """The parts that were read last, by the hash of their bytes. Threads can share it."""

    def __init__(self, read: HeadReader, most: int = _CACHED) -> None:
        self._read = read
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, HeadPart] = OrderedDict()

    def read(self, body: bytes, at: Slice | None) -> HeadPart:
        """The part at this slice; an empty one for None."""
        if at is None:
            return HeadPart()
        text = body[at.start : at.end]
        key = hashlib.sha256(text).digest()
        with self._lock:
            part = self._known.get(key)
        if part is None:
            value, count, marks, ttl_s = self._read(text)
            digest = hashlib.sha256(_encode(value)).digest()
            part = HeadPart(digest=digest, size=len(text), count=count, marks=marks, ttl_s=ttl_s)
        with self._lock:
            self._known[key] = part
            self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return part
