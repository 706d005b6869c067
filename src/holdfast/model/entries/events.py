"""Events of entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from holdfast.model.entries.entry import Chunk, ChunkRef, EntryBody
from holdfast.model.event import (
    EventBase,
    Identifier,
    OwnContent,
    Quotation,
    QuotedEvents,
    count_noun,
    quote_each,
)
from holdfast.model.structs import find_values


class EntryChunksStored(EventBase, frozen=True, kw_only=True):
    """Chunks of the bodies of the entries that follow. When no entry refers to any of them, they are erased."""

    name = "entry.chunks_stored"
    chunks: Quotation[tuple[Chunk, ...]]

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        return _quote_chunks(self, seq)

    def describe(self, seq: int) -> str:
        return count_noun(len(self.chunks), "chunk")


class EntryAppended(EventBase, frozen=True, kw_only=True):
    """An entry of another framework is appended. `digest` and `size` are of the whole body."""

    name = "entry.appended"
    kind: Identifier[str]
    key: Identifier[str]
    parent: Identifier[str | None] = None
    body: Quotation[EntryBody]
    digest: OwnContent[str]
    size: int

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        return _quote_chunks(self, seq)

    def describe(self, seq: int) -> str:
        after = f" after {self.parent}" if self.parent else ""
        return f"{self.kind} {self.key}{after}, {self.size:,} bytes"


EntryEvent: TypeAlias = EntryChunksStored | EntryAppended


def chunk_refs(value: object) -> list[ChunkRef]:
    """The chunks that an event, or a part of it, refers to."""
    return find_values(value, (ChunkRef,))


def _quote_chunks(event: EntryChunksStored | EntryAppended, seq: int) -> Iterator[QuotedEvents]:
    """The earlier events whose chunks this event needs."""
    return quote_each(sorted({ref.seq for ref in chunk_refs(event)} - {seq}))
