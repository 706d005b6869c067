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
    """The clock of this machine. Versions and positions order events; the clock only dates them."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000


class RandomIds:
    """Ids as UUIDv7 in 32 hexadecimal digits: roughly sorted, which keeps indexes dense, and unique without
    coordination."""

    def __init__(self) -> None:
        self._pool = _RandomPool()

    def command_id(self) -> str:
        millis = time.time_ns() // 1_000_000
        rand = random.getrandbits(74)  # this generator is seeded again after a fork
        high = (millis << 16) | 0x7000 | (rand >> 62)
        low = (0b10 << 62) | (rand & ((1 << 62) - 1))
        return f"{(high << 64) | low:032x}"

    def salts(self, count: int) -> list[bytes]:
        if count == 1:
            return [self._pool.take(_SALT_BYTES)]
        salts = self._pool.take(count * _SALT_BYTES)
        return [salts[start : start + _SALT_BYTES] for start in range(0, len(salts), _SALT_BYTES)]

    def secret(self) -> bytes:
        return os.urandom(_SECRET_BYTES)


class _RandomPool:
    """Random bytes of the system, fetched in blocks: each fetch lets another thread run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = b""
        self._at = 0
        self._pid = 0

    def take(self, count: int) -> bytes:
        if count > _POOL_BYTES:
            return os.urandom(count)
        with self._lock:
            if self._at + count > len(self._bytes) or self._pid != os.getpid():  # after a fork: not the same bytes
                self._bytes, self._at, self._pid = os.urandom(_POOL_BYTES), 0, os.getpid()
            start, self._at = self._at, self._at + count
            return self._bytes[start : self._at]
