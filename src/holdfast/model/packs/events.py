"""The event that records a pack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from holdfast.model.content import BlobRef
from holdfast.model.event import (
    EventBase,
    Identifier,
    OwnContent,
    Quotation,
    QuotedEvents,
    add_text,
    count_noun,
    name_frame,
    quote_each,
)
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.plans import Level
from holdfast.model.packs.pack import pack_id
from holdfast.model.sessions.events import EnvironmentObserved, IdentityRefreshed, SessionCreated, WorkingSet
from holdfast.model.situation.events import SituationUpdated

LAYER_TYPES = (
    SessionCreated.name,
    IdentityRefreshed.name,
    WorkingSet.name,
    EnvironmentObserved.name,
    SituationUpdated.name,
)
"""The events that a manifest names by digest, without their seqs."""


class PackRecorded(EventBase, frozen=True, kw_only=True):
    """A model was called with this pack, or it was stored on request. The manifest has the reasons for its content."""

    name = "pack.recorded"
    version = 2
    frame: Identifier[str | None] = None
    """The frame of the conversation; None outside of frames."""
    at: int
    """The last event that it covers."""
    context_hash: Quotation[str]
    budget: int
    used: int
    counted: int = 0
    """Its tokens by the counter, without calibration; 0 in events of older versions."""
    messages: int = 0
    """The number of its messages."""
    counter: Identifier[str] = ""
    level: Level = "none"
    query: Quotation[str] = ""
    """The start of the query."""
    shown: tuple[tuple[int, int], ...] = ()
    """The ranges of events that it shows. When one of these events is erased, this event is erased, too."""
    manifest: Quotation[BlobRef | bytes]
    """The compressed manifest, or a reference to it if it is long."""
    brief: OwnContent[BlobRef | None] = None
    """The parts that are not in the log: prompt, invariants and tools."""
    asked: int = 0
    """The message with the query, if it was recorded together with the pack. Only older versions did so."""
    reply: int = 0
    """The message that answers it; 0 if none was recorded with it."""
    reservation: Identifier[str | None] = None
    """The budget reservation of the call, which ends with it."""

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The events that it shows; also the layers of the session and the frame, shown or omitted."""
        yield from (QuotedEvents(first, last) for first, last in self.shown)
        yield from quote_each(filter(None, (self.asked, frame_seq(self.frame))))
        yield QuotedEvents(1, self.at, LAYER_TYPES)

    def describe(self, seq: int) -> str:
        answer = f", answered by {self.reply:,}" if self.reply else ""
        used = f"{self.used:,} of {count_noun(self.budget, 'token')}"
        return add_text(f"{pack_id(seq)}{name_frame(self.frame)}, {used}{answer}", self.query)


PackEvent: TypeAlias = PackRecorded
