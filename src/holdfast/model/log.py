"""The log as a store sees it: bytes with headers, and streams with heads. A store does not read payloads.

None of these structs can be part of a cycle, so the garbage collector need not look at them (gc=False).
"""

from __future__ import annotations

import msgspec

from holdfast.model.names import StreamId
from holdfast.model.rows import Row

GENESIS = bytes(32)
"""The hash before the first event of a stream."""


class NewEvent(msgspec.Struct, frozen=True, gc=False):
    type: str
    version: int
    payload: bytes
    salt: bytes


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The state of a stream at a version. A snapshot of another `format` is ignored."""

    version: int
    format: int
    state: bytes


class StreamHead(msgspec.Struct, frozen=True, gc=False):
    """The end of a stream, stored apart from its events, so that lost events are detected."""

    stream: StreamId
    version: int
    hash: bytes


class StreamWrite(msgspec.Struct, frozen=True, gc=False):
    """The effect of one command on one stream."""

    stream: StreamId
    expected: int
    events: tuple[NewEvent, ...]
    rows: tuple[Row, ...] = ()
    snapshot: Snapshot | None = None
    erase: tuple[int, ...] = ()
    """Seqs whose payload and salt are erased. Then `snapshot`, or none, replaces the old one, and `rows` all rows. Of
    seqs that a fork shares, which are in other streams, nothing is erased there."""
    base: StreamHead | None = None
    """For a new stream that is a fork: where it continues another one. Its events are numbered and chained after this."""
    keeps_taken: bool = False
    """With `erase`: passages of these events that long-term memory has taken stay. For a session that is destroyed."""


class Append(msgspec.Struct, frozen=True, gc=False):
    """The effect of one command: all of it becomes durable, or none."""

    command: str
    """The command's id, 32 hexadecimal digits."""
    order: bytes
    """The command in canonical bytes: `key` is bound to them."""
    time_us: int
    principal: str
    writes: tuple[StreamWrite, ...]
    cause: str | None = None
    key: str | None = None

    @property
    def tenant(self) -> str:
        return self.writes[0].stream.tenant


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
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


class FeedEvent(StoredEvent, frozen=True, gc=False):
    """An event that engine.watch() delivers. `cursor` is the position right after it: pass it as `after` to continue
    there."""

    cursor: str


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """The answer to an append. `repeated` says that the key was known and these are the events of the first time."""

    events: tuple[StoredEvent, ...]
    repeated: bool = False


class FeedPage(msgspec.Struct, frozen=True, gc=False):
    """Events of all streams in one order; `cursor` is where the next page starts, also after a restart."""

    events: tuple[StoredEvent, ...]
    cursor: str
    cursors: tuple[str, ...] = ()
    """The cursor after each event. A store may leave it empty."""


class StoreTotals(msgspec.Struct, frozen=True, gc=False):
    streams: int
    events: int
    keys: int
    bytes_on_disk: int
    entries: int = 0
    """Records of other frameworks, in all sessions."""
    entry_bytes: int = 0
    """Their bodies as they were given. Shared chunks are stored once, so they take less."""
