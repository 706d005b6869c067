"""What several tests need."""

from __future__ import annotations

import os

SOAK = os.environ.get("HOLDFAST_SOAK") == "1"


def figure(every_push: int, full: int) -> int:
    """How often a promise is put to the test: briefly on every push, at its full figure in `make soak`."""
    return full if SOAK else every_push


class SteppingClock:
    """A clock that moves one millisecond at every look."""

    def __init__(self, start_us: int = 1_700_000_000_000_000) -> None:
        self._now_us = start_us

    def now_us(self) -> int:
        self._now_us += 1_000
        return self._now_us


class CountingIds:
    """Ids and salts that are the same in every run."""

    def __init__(self) -> None:
        self._count = 0

    def command_id(self) -> str:
        self._count += 1
        return f"{self._count:032x}"

    def salts(self, count: int) -> list[bytes]:
        self._count += count
        return [(self._count - count + each + 1).to_bytes(16, "big") for each in range(count)]

    def secret(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(32, "big")
