"""The time of day of the recording, for this process and those that it starts."""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path
from typing import Protocol

VARIABLE = "HOLDFAST_BENCHMARK_CLOCK"
SITE = Path(__file__).parent / "shifted_clock"
_SHIFT = struct.Struct("<q")


class SettableClock(Protocol):
    """A time that a replay sets."""

    def advance(self, time_us: int) -> None: ...


class HeldClock:
    """The time of a replay in this process. It stands still."""

    def __init__(self) -> None:
        self._us = 0

    def now_us(self) -> int:
        return self._us

    def advance(self, time_us: int) -> None:
        """Set the time, unless it is later already."""
        self._us = max(self._us, time_us)


class RecordedClock:
    """Sets the time of day of other processes. It goes on from where it was set."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_SHIFT.size))
        self._path = path
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _SHIFT.size)

    def set(self, time_us: int) -> None:
        _SHIFT.pack_into(self._memory, 0, time_us - time.time_ns() // 1_000)

    def now_us(self) -> int:
        shift: int = _SHIFT.unpack_from(self._memory)[0]
        return time.time_ns() // 1_000 + shift

    def advance(self, time_us: int) -> None:
        """Set the time, unless it is later already."""
        self.set(max(time_us, self.now_us()))

    @property
    def environment(self) -> dict[str, str]:
        """For a process that is to have this clock."""
        paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        return {VARIABLE: str(self._path), "PYTHONPATH": os.pathsep.join(paths)}
