"""Commands about entries."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.command import SessionCommandBase
from holdfast.model.content import BlobRef, Json
from holdfast.model.entries.entry import BlobBody, BytesBody


class PartDraft(msgspec.Struct, frozen=True):
    """A part that is stored in chunks, before these have a position."""

    path: tuple[str | int, ...]
    digests: tuple[str, ...]
    is_list: bool = False


class ChunkDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk before it has a position."""

    digest: str
    value: Json = None
    parts: tuple[PartDraft, ...] = ()
    children: tuple[str, ...] = ()
    ref: BlobRef | None = None
    size: int = 0
    """The approximate bytes that it takes in an event."""

    def needed_digests(self) -> tuple[str, ...]:
        return (*self.children, *(digest for part in self.parts for digest in part.digests))


class JsonDraft(msgspec.Struct, frozen=True, tag="draft"):
    """A JSON body, with its large parts taken out."""

    value: Json = None
    parts: tuple[PartDraft, ...] = ()


BodyDraft: TypeAlias = JsonDraft | BytesBody | BlobBody


class EntryDraft(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    key: str
    parent: str | None
    body: BodyDraft
    digest: str
    size: int


class AppendEntries(SessionCommandBase, frozen=True, kw_only=True, tag="append_entries"):
    entries: tuple[EntryDraft, ...]
    chunks: dict[str, ChunkDraft] = msgspec.field(default_factory=dict)
    """All chunks of the bodies, by digest."""


class DeleteEntries(SessionCommandBase, frozen=True, kw_only=True, tag="delete_entries"):
    keys: tuple[str, ...]
    reason: str


EntryCommand: TypeAlias = AppendEntries | DeleteEntries
