"""Events that change the history view, and events of handles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from holdfast.model.content import BlobRef, Json, Part
from holdfast.model.event import (
    EventBase,
    FrameTreeEvent,
    Identifier,
    OwnContent,
    Quotation,
    QuotedEvents,
    add_text,
    count_noun,
    name_frame,
    quote_each,
)
from holdfast.model.history.handles import HandleKind, Priority, handle_id, piece_id
from holdfast.model.history.plans import (
    BoundaryReason,
    Fold,
    Level,
    Op,
    PlanFigures,
    Redaction,
    RedactionReason,
    Reduction,
    Residency,
    Tier,
)
from holdfast.model.history.ranges import LedgerFacts, VisibilityChange, describe_ranges


class HandleMoved(EventBase, frozen=True, kw_only=True):
    """A piece of a message was paged in or out. `frame` is the frame of the conversation, if any."""

    name = "handle.moved"
    version = 3
    frame: Identifier[str | None] = None
    residency: Residency
    piece: Quotation[Reduction]

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        return quote_each([self.piece.message])

    def describe(self, seq: int) -> str:
        return f"{piece_id(self.piece.message, self.piece.piece)}{name_frame(self.frame)}, {self.residency}"


class HandleReplaced(FrameTreeEvent, frozen=True, kw_only=True):
    """A handle of a frame got other content, or another residency."""

    name = "handle.replaced"
    version = 2
    frame: Identifier[str]
    handle: Identifier[str]
    kind: HandleKind
    priority: Priority = "medium"
    title: OwnContent[str] = ""
    source: OwnContent[str | None] = None
    content: OwnContent[tuple[Part, ...] | None] = None
    """None if the content does not change."""
    tokens: int
    counter: Identifier[str]
    digest: Quotation[str]
    at: int
    """The seq of the event with its content: of this one, if `content` is set."""
    metadata: OwnContent[dict[str, Json]] = msgspec.field(default_factory=dict)
    residency: Residency = "resident"
    tier: Tier | None = None
    ref: Quotation[BlobRef | None] = None
    size: int = 0
    result: Identifier[str] = ""
    """How the child frame ended whose result it is; empty if it is no result of a child frame."""

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The event with the content. It is in the same tree of frames, and so is erased together with this one anyway."""
        return quote_each([self.at] if self.at != seq else [])

    def describe(self, seq: int) -> str:
        return add_text(f"{self.frame} {self.handle}, {self.residency}", self.title)


class HandleAdded(FrameTreeEvent, frozen=True, kw_only=True):
    """A handle was added to a frame. Its id is made of the seq of this event."""

    name = "frame.handle_added"
    version = 2
    frame: Identifier[str]
    kind: HandleKind
    priority: Priority = "medium"
    title: OwnContent[str] = ""
    source: OwnContent[str | None] = None
    content: OwnContent[tuple[Part, ...]] = ()
    tokens: int
    counter: Identifier[str]
    digest: OwnContent[str]
    metadata: OwnContent[dict[str, Json]] = msgspec.field(default_factory=dict)

    def describe(self, seq: int) -> str:
        return add_text(f"{self.frame} {handle_id(seq)}, {self.kind}", self.title)


class SummaryRecorded(EventBase, frozen=True, kw_only=True):
    """A boundary: the messages from `first` to `last` of the conversation of `frame` are shown as `text` from now on."""

    name = "summary.recorded"
    version = 3
    first: int
    last: int
    messages: int
    text: Quotation[str]
    tokens: int
    counter: Identifier[str]
    frame: Identifier[str | None] = None
    replaced: int = 0
    """The tokens of the summarized messages."""
    kept: tuple[int, ...] = ()
    """The seqs of the messages in this range that stay in view after it: critical ones, and a question without an
    answer."""
    replaces: int = 0
    """The seq of the event whose summary of the same messages it replaces; 0 for none."""
    first_changed: int | None = None
    """If it replaces a summary: the number of the item of the view that changes."""
    original: int = 0
    final: int = 0
    """If it replaces a summary: the tokens of the view before and after."""

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """Its messages, and the summary that it replaces. Earlier summaries within this one are not named here: they are
        those of the same conversation that start between `first` and `last`."""
        yield QuotedEvents(self.first, self.last)
        if self.replaces:
            yield QuotedEvents(self.replaces, self.replaces)

    def describe(self, seq: int) -> str:
        return f"events {self.first:,} to {self.last:,}{name_frame(self.frame)}: {self.text}"


class ContextRedacted(EventBase, frozen=True, kw_only=True):
    """A boundary: the guard redacts or annotates other items of the view than before.

    `redacted` are the items that change; `original` and `final` are the tokens of the view before and after."""

    name = "context.redacted"
    frame: Identifier[str | None] = None
    redacted: Quotation[tuple[Redaction, ...]]
    why: RedactionReason
    first_changed: int | None = None
    """The number of the first item of the old view that changes; None for none."""
    original: int
    final: int
    counter: Identifier[str]

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The items: a redaction names the facts that they state, and has a digest of the keys."""
        return quote_each(each.at for each in self.redacted)

    def describe(self, seq: int) -> str:
        items = count_noun(len(self.redacted), "item")
        return f"{items}{name_frame(self.frame)}, {self.why}: {self.original:,} to {count_noun(self.final, 'token')}"


class ContextCompacted(EventBase, frozen=True, kw_only=True):
    """A boundary: the history view of a conversation was compacted. `frame` is None outside of frames.

    `original` and `final` are the tokens of the view before and after, in the provider's own count if it is known."""

    name = "frame.compacted"
    version = 3
    frame: Identifier[str | None] = None
    policy: Identifier[str]
    why: BoundaryReason
    ops: Identifier[tuple[Op, ...]] = ()
    reduced: Quotation[tuple[Reduction, ...]] = ()
    fold: Quotation[Fold | None] = None
    first_changed: int | None = None
    """The number of the first item of the view that changes."""
    original: int
    final: int
    level: Level = "none"
    target_met: bool = True
    counter: Identifier[str]
    figures: PlanFigures = PlanFigures()
    handles: Identifier[tuple[str, ...]] = ()
    """The handles of the frame that packs omit from now on; they can still be read."""

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The messages of reduced pieces, by digest or copy; and those in the text of the fold."""
        yield from quote_each(each.message for each in self.reduced)
        if self.fold is not None:
            yield from quote_each((*self.fold.messages, *self.fold.summaries))

    def describe(self, seq: int) -> str:
        figures = f"{self.original:,} to {count_noun(self.final, 'token')}"
        return f"{self.policy}{name_frame(self.frame)}, {self.why}: {figures}"


class MessagesWithdrawn(EventBase, frozen=True, kw_only=True):
    """A boundary: messages are taken out of a conversation. The transcript keeps them, and no view shows them.

    `ranges` are ranges of seqs: the messages of this conversation in them are withdrawn, and no others."""

    name = "messages.withdrawn"
    frame: Identifier[str | None] = None
    ranges: tuple[tuple[int, int], ...]
    change: VisibilityChange
    grown: bool = False
    """More was withdrawn than was asked for, so that no call is without its results."""
    facts: Identifier[tuple[LedgerFacts, ...]] = ()
    """The facts that only these messages state."""
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        number = count_noun(self.change.messages + len(self.change.system), "message")
        return add_text(f"{number}{name_frame(self.frame)}, {describe_ranges(self.ranges)}", self.reason)


class MessagesRestored(EventBase, frozen=True, kw_only=True):
    """A boundary: the messages of a withdrawal are in the conversation again."""

    name = "messages.restored"
    frame: Identifier[str | None] = None
    withdrawal: int
    """The seq of the event that withdrew them."""
    change: VisibilityChange
    reason: OwnContent[str] = ""

    def describe(self, seq: int) -> str:
        number = count_noun(self.change.messages + len(self.change.system), "message")
        return add_text(f"{number}{name_frame(self.frame)}, of withdrawal {self.withdrawal:,}", self.reason)


HistoryEvent: TypeAlias = (
    SummaryRecorded
    | ContextCompacted
    | ContextRedacted
    | MessagesWithdrawn
    | MessagesRestored
    | HandleMoved
    | HandleReplaced
    | HandleAdded
)
