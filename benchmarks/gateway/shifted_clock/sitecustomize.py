"""Python imports this at its start, in the processes that the replay talks to: their time of day is that of the recording.

The file that HOLDFAST_BENCHMARK_CLOCK names has the microseconds by which it is shifted. Other clocks stay as they are, so
timeouts and durations are real.
"""

import mmap
import os
import struct
import time

_PATH = os.environ.get("HOLDFAST_BENCHMARK_CLOCK")

if _PATH:
    with open(_PATH, "rb") as _file:
        _SHIFT = mmap.mmap(_file.fileno(), 8, access=mmap.ACCESS_READ)
    _real_ns = time.time_ns
    _read = struct.Struct("<q").unpack_from

    def _shifted_ns() -> int:
        shift_us: int = _read(_SHIFT)[0]
        return _real_ns() + shift_us * 1_000

    def _shifted() -> float:
        return _shifted_ns() / 1e9

    time.time_ns = _shifted_ns
    time.time = _shifted
