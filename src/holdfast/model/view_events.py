"""Events about what a model was shown, and what it is kept from. The other events are in `events`."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from holdfast.model.content import BlobRef
from holdfast.model.plan import Figures, Fold, Level, Op, Redacted, RedactionWhy, Reduction, Why


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: ClassVar[str]
    version: ClassVar[int] = 1


class SummaryRecorded(_Event, frozen=True, kw_only=True):
    """The messages from `first` to `last`, those of the conversation of `frame`, are shown as `text` from now on."""

    name = "summary.recorded"
    version = 3
    first: int
    last: int
    messages: int
    text: str
    tokens: int
    counter: str
    frame: str | None = None
    replaced: int = 0
    """Tokens of the messages that it stands for."""
    kept: tuple[int, ...] = ()
    """The seqs of the messages among these that stay in view, behind it: those that are Critical, and a question that waits
    for its answer."""
    replaces: int = 0
    """The seq of the event whose summary of the same messages this takes the place of; 0 for none."""
    first_changed: int | None = None
    """Of one that replaces another: the number of the item of the view that is shown otherwise."""
    original: int = 0
    final: int = 0
    """Tokens of the view before and after, for one that replaces another."""


class ContextRedacted(_Event, frozen=True, kw_only=True):
    """What the guard keeps out of a conversation changes. `redacted` are the items that are shown otherwise from now on;
    `original` and `final` are the tokens of the view before and after."""

    name = "context.redacted"
    frame: str | None = None
    redacted: tuple[Redacted, ...]
    why: RedactionWhy
    first_changed: int | None = None
    """The number of the first item of the view that was shown before and is shown otherwise now; None for none."""
    original: int
    final: int
    counter: str


class ContextCompacted(_Event, frozen=True, kw_only=True):
    """What is shown of a conversation changes: a boundary. `frame` is whose conversation; None outside of frames.
    `original` and `final` are its tokens before and after, as far as is known in the provider's own count."""

    name = "frame.compacted"
    version = 2
    frame: str | None = None
    policy: str
    why: Why
    ops: tuple[Op, ...] = ()
    reduced: tuple[Reduction, ...] = ()
    fold: Fold | None = None
    first_changed: int | None = None
    """The number of the first item of the view that is shown otherwise than before."""
    original: int
    final: int
    level: Level = "none"
    target_met: bool = True
    counter: str
    figures: Figures = Figures()
    handles: tuple[str, ...] = ()
    """The handles of the frame that packs leave out from now on; `read_handle` reads them all the same."""


class PackRecorded(_Event, frozen=True, kw_only=True):
    """A model was called with this context, or it was kept on request. Why it is as it is stands in the manifest."""

    name = "pack.recorded"
    version = 2
    frame: str | None = None
    """Whose conversation it is of; None outside of frames."""
    at: int
    """The last event that it tells of."""
    context_hash: str
    budget: int
    used: int
    counted: int = 0
    """Its tokens as the counter says, uncalibrated; 0 in what older versions recorded."""
    messages: int = 0
    """In how many messages."""
    counter: str = ""
    level: Level = "none"
    query: str = ""
    """The beginning of it."""
    shown: tuple[tuple[int, int], ...] = ()
    """The stretches of events that it shows something of: when one of those is erased, this goes with it."""
    manifest: BlobRef | bytes
    """As it is, compressed, or where it lies if it is long."""
    brief: BlobRef | None = None
    """What was not in the log: prompt, invariants and tools."""
    asked: int = 0
    """The message that has its query, if that was recorded with it, as it was by older versions."""
    reply: int = 0
    """The message that answered it; 0 if none was recorded with it."""
    reservation: str | None = None
    """What was reserved for the call, and is over with it."""
