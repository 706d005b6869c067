"""How the fake provider misbehaves, by a script or by the header `x-fake-fault`.

The header has the same names, separated by semicolons: `status=429;retry_after=2`, `cut=100;resets`,
`stall=30;stall_at=50`, `chunks=1,2,3`, `gzip`, `trim`, `length=5`.
"""

from __future__ import annotations

import dataclasses

HEADER = "x-fake-fault"


@dataclasses.dataclass(frozen=True)
class Fault:
    """What goes wrong with one answer. Offsets are bytes of its body as it is sent."""

    status: int = 0
    """Answer with this status instead of a reply: 429, 529, 500 (with HTML), 503 …"""
    retry_after: str = ""
    stall: float = 0.0
    """Wait for so many seconds, or until `FakeProvider.resume`."""
    stall_at: int = -1
    """Where; -1 before the status line."""
    cut: int | None = None
    """Close the connection after so many bytes of the body; a negative number: before the status line."""
    resets: bool = False
    """Close it with a reset."""
    chunks: tuple[int, ...] = ()
    """The sizes of the pieces in which the body is sent, again and again. (1,) is one byte at a time."""
    gzip: bool = False
    trim: bool = False
    """A stream without the last line feeds."""
    length: int = 0
    """What is added to the true content-length of an answer in one piece."""


def read_fault(header: str) -> Fault:
    """A fault from the header."""
    values: dict[str, object] = {}
    types = {name: type(value) for name, value in dataclasses.asdict(Fault()).items()}
    for item in filter(None, (part.strip() for part in header.split(";"))):
        name, _, text = item.partition("=")
        if name not in types:
            raise ValueError(f"unknown fault {name!r}")
        if name == "chunks":
            values[name] = tuple(int(size) for size in text.split(","))
        elif name == "cut":
            values[name] = int(text)
        elif types[name] is bool:
            values[name] = True
        else:
            values[name] = types[name](text)
    return Fault(**values)  # type: ignore[arg-type]
