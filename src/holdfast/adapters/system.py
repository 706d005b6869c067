"""The clock and the ids of this machine."""

from __future__ import annotations

import os
import time

_SALT_BYTES = 16


class SystemClock:
    """Order never depends on it: versions and positions order events, a clock only dates them."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000


class RandomIds:
    """UUIDv7 as 32 hexadecimal digits: sortable enough to keep indexes dense, unique without coordination."""

    def command_id(self) -> str:
        millis = time.time_ns() // 1_000_000
        rand = int.from_bytes(os.urandom(10), "big")
        high = (millis << 16) | 0x7000 | (rand >> 68)
        low = (0b10 << 62) | (rand & ((1 << 62) - 1))
        return f"{(high << 64) | low:032x}"

    def salts(self, count: int) -> list[bytes]:
        pool = os.urandom(_SALT_BYTES * count)
        return [pool[at : at + _SALT_BYTES] for at in range(0, len(pool), _SALT_BYTES)]
