"""The log as a store sees it: bytes with headers, streams with heads. What is inside a payload is not its business.

None of these structs can be part of a cycle, so the garbage collector need not look at them (gc=False).
"""

from __future__ import annotations

import msgspec

from holdfast.model.names import StreamId
from holdfast.model.rows import Row

GENESIS = bytes(32)
"""What the first event of a stream is chained to."""


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    version: int
    payload: bytes
    salt: bytes


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A stream's state at a version. `format` says how to read it; another format is as good as none."""

    version: int
    format: int
    state: bytes


class StreamWrite(msgspec.Struct, frozen=True, gc=False):
    """What one command does to one stream."""

    stream: StreamId
    expected: int
    events: tuple[NewEvent, ...]
    rows: tuple[Row, ...] = ()
    snapshot: Snapshot | None = None
    erase: tuple[int, ...] = ()
    """Seqs whose payload and salt go away. `snapshot`, or none, replaces the stream's own, and `rows` all its rows."""


class Append(msgspec.Struct, frozen=True, gc=False):
    """One command's effect: all of it becomes durable, or none."""

    command: str
    """The command's id, 32 hexadecimal digits."""
    order: bytes
    """The command itself, in canonical bytes: what `key` is bound to."""
    time_us: int
    principal: str
    writes: tuple[StreamWrite, ...]
    cause: str | None = None
    key: str | None = None

    @property
    def tenant(self) -> str:
        return self.writes[0].stream.tenant


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """A stored event. Everything here survives a copy to another store, byte for byte."""

    stream: StreamId
    seq: int
    command: str
    ordinal: int
    type: str
    version: int
    time_us: int
    principal: str
    cause: str | None
    key: str | None
    command_digest: bytes
    payload_digest: bytes
    hash: bytes
    salt: bytes | None
    payload: bytes | None
    """None once erased; so is the salt."""

    @property
    def id(self) -> str:
        return f"{self.command}.{self.ordinal}"


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The answer to an append. `repeated` says that the key was known and these are the events of the first time."""

    events: tuple[Recorded, ...]
    repeated: bool = False


class Head(msgspec.Struct, frozen=True, gc=False):
    """Where a stream ends: kept apart from its events, so that a cut-off tail is found."""

    stream: StreamId
    version: int
    hash: bytes


class FeedPage(msgspec.Struct, frozen=True, gc=False):
    """Events of all streams in one order; `cursor` is where to go on, also after a restart."""

    events: tuple[Recorded, ...]
    cursor: str


class Totals(msgspec.Struct, frozen=True, gc=False):
    streams: int
    events: int
    keys: int
    bytes_on_disk: int
