"""The clock and the ids of this machine."""

from __future__ import annotations

import os
import random
import threading
import time

_SALT_BYTES = 16
_SECRET_BYTES = 32
_POOL_BYTES = 4_096


class SystemClock:
    """Order never depends on it: versions and positions order events, a clock only dates them."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000


class RandomIds:
    """UUIDv7 as 32 hexadecimal digits: sortable enough to keep indexes dense, unique without coordination."""

    def __init__(self) -> None:
        self._pool = _Pool()

    def command_id(self) -> str:
        millis = time.time_ns() // 1_000_000
        rand = random.getrandbits(74)  # the module's own generator: unlike one of ours, it is seeded anew after a fork
        high = (millis << 16) | 0x7000 | (rand >> 62)
        low = (0b10 << 62) | (rand & ((1 << 62) - 1))
        return f"{(high << 64) | low:032x}"

    def salts(self, count: int) -> list[bytes]:
        return [self._pool.take(_SALT_BYTES) for _ in range(count)]

    def secret(self) -> bytes:
        return os.urandom(_SECRET_BYTES)


class _Pool:
    """Random bytes of the system, fetched many at a time: each fetch gives up the interpreter to another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = b""
        self._at = 0
        self._pid = 0

    def take(self, count: int) -> bytes:
        with self._lock:
            if self._at + count > len(self._bytes) or self._pid != os.getpid():  # a fork must not hand out the same
                self._bytes, self._at, self._pid = os.urandom(_POOL_BYTES), 0, os.getpid()
            taken = self._bytes[self._at : self._at + count]
            self._at += count
            return taken
