"""The processes that `holdfast run` starts."""

from __future__ import annotations

import contextlib
from pathlib import Path


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
