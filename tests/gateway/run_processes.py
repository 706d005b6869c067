"""The processes that `holdfast run` starts.

python run_processes.py TESTS COMMAND…      run a command that gets SIGTERM when the process TESTS is gone
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def end_with_tests(*command: str) -> list[str]:
    """A command that ends when these tests are gone, however they end: a run passes the signal on to its command, and its
    gateway ends behind both. Linux only."""
    return [sys.executable, "-S", __file__, str(os.getpid()), *command]


def _become(tests: int, command: list[str]) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != tests:  # they were gone before
        sys.exit(1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would the command
    os.execvp(command[0], command)


def find_gateways(store: Path) -> list[int]:
    """The processes of gateways of `holdfast run` on this store."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            is_gateway = words[1:5] == [b"-m", b"holdfast", b"--json", b"gateway"]
            if is_gateway and f"HOLDFAST_FILE={store}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
