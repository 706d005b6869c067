"""Entries: opaque records that another framework stores beside the messages of a session.

Laws: a key names one entry; its body never changes. A large value inside a JSON body is a chunk of its own, and a long list
is a row of chunks: entries with the same content refer to the same chunks.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.content import BlobRef, Json


class ChunkRef(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Chunk `at` of event `seq`."""

    seq: int
    at: int


class SharedPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a JSON value that is stored in chunks. The value has null at `path`, or the last elements of a list."""

    path: tuple[str | int, ...]
    refs: tuple[ChunkRef, ...]
    is_list: bool = False
    """The chunks are the first elements of the list at `path`; otherwise one chunk is the value at `path`."""


class Chunk(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A part of the bodies of entries: a value, a run of list elements, or a row of other chunks."""

    digest: str
    """Of its content. The same content is stored once in a session."""
    value: Json = None
    parts: tuple[SharedPart, ...] = ()
    children: tuple[ChunkRef, ...] = ()
    """For a row of chunks: their runs of elements, in order."""
    ref: BlobRef | None = None
    """The value as JSON in the blob store, if it is large."""


class JsonBody(msgspec.Struct, frozen=True, omit_defaults=True, tag="json"):
    value: Json = None
    parts: tuple[SharedPart, ...] = ()


class BytesBody(msgspec.Struct, frozen=True, tag="bytes"):
    data: bytes


class BlobBody(msgspec.Struct, frozen=True, tag="blob"):
    """Bytes in the blob store."""

    ref: BlobRef


EntryBody: TypeAlias = JsonBody | BytesBody | BlobBody


class NewEntry(msgspec.Struct, frozen=True):
    """An entry to append.

    NewEntry("checkpoint", "1f0a", {"messages": []}, parent="1f09")
    """

    kind: str
    key: str
    body: Json | bytes
    parent: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A record of another framework in a session.

        entry = session.entries.get("1f0a")
        entry.kind, entry.body, entry.parent

    `key` names it in the session, `parent` the entry that it follows, if any; no entry of that name need exist."""

    kind: str
    key: str
    parent: str | None
    seq: int
    """The position in the session: a later entry has a higher one."""
    at_us: int
    """When it was appended, in microseconds since the epoch."""
    size: int
    """Bytes of the body; of a JSON body, in canonical JSON."""
    body: Json | bytes
    """The body, as it was appended. None also in a list without bodies."""
