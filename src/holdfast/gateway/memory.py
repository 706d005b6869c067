"""Keep the memory of a gateway's process small: it runs beside other programs, and its bodies come and go.

Laws: all of this is for a process that is a gateway and nothing else. Where the C library has no such calls, nothing
happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
import time

from holdfast.storage.sqlite.connections import limit_page_caches
from holdfast.text.guard.finder import limit_lookups

LARGE_BLOCK = 64 << 10
"""A block of memory of so many bytes is given back as soon as it is free."""
PAGE_CACHE_BYTES = 1 << 20
"""Pages of the store in memory, of all connections."""
LOOKUP_BYTES = 1 << 20
"""Texts whose terms are known, for facts: of few texts the terms are asked for again, so that more saves no time."""
TRIM_S = 1.0
"""How often free memory between smaller blocks is given back, while there are requests."""
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
"""Parameters of mallopt()."""


def tune_process() -> None:
    """Let the C library give the memory of large bodies back, instead of keeping it for each thread; and let the garbage
    collector leave all alone that lives as long as the process: a full collection, for which all threads wait, then takes
    some milliseconds in place of tens."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        tune = ctypes.CDLL(None).mallopt
        tune(_M_ARENA_MAX, 1)
        tune(_M_MMAP_THRESHOLD, LARGE_BLOCK)
    limit_page_caches(PAGE_CACHE_BYTES)
    limit_lookups(LOOKUP_BYTES)
    gc.collect()
    gc.freeze()


class MemoryTrimmer:
    """Gives free memory back, in a thread, some time after a request."""

    def __init__(self, pause_s: float = TRIM_S) -> None:
        self._pause_s = pause_s
        self._has_work = threading.Event()
        try:
            self._trim = ctypes.CDLL(None).malloc_trim
        except (OSError, AttributeError):  # another C library
            return
        threading.Thread(target=self._run, name="gateway-trim", daemon=True).start()

    def note_request(self) -> None:
        self._has_work.set()

    def _run(self) -> None:
        while self._has_work.wait():
            self._has_work.clear()
            time.sleep(self._pause_s)
            self._trim(0)
