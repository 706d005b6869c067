"""Commands that change the history view, and commands about handles."""

from __future__ import annotations

from holdfast.model.command import FrameCommandBase, SessionCommandBase
from holdfast.model.content import BlobRef, Json, Part
from holdfast.model.history.handles import HandleKind, Priority
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
from holdfast.model.history.ranges import LedgerFacts


class Summarize(SessionCommandBase, frozen=True, kw_only=True, tag="summarize"):
    """Show messages as a summary from now on, as planned at `version`."""

    first: int
    last: int
    version: int
    text: str
    frame: str | None = None
    replaces: int = 0
    """The seq of the summary in view that it replaces; 0 for none."""
    first_changed: int | None = None
    original: int = 0
    final: int = 0


class CompactContext(SessionCommandBase, frozen=True, kw_only=True, tag="compact_context"):
    """Compact the history view of a conversation, as planned at `version`."""

    frame: str | None = None
    version: int
    policy: str
    why: BoundaryReason
    ops: tuple[Op, ...]
    reduced: tuple[Reduction, ...]
    fold: Fold | None
    first_changed: int | None
    original: int
    final: int
    level: Level
    target_met: bool
    figures: PlanFigures
    handles: tuple[str, ...] = ()


class RedactContext(SessionCommandBase, frozen=True, kw_only=True, tag="redact_context"):
    """Redact or annotate these items of the view, as planned at `version`."""

    frame: str | None = None
    version: int
    redacted: tuple[Redaction, ...]
    why: RedactionReason
    first_changed: int | None
    original: int
    final: int


class WithdrawMessages(SessionCommandBase, frozen=True, kw_only=True, tag="withdraw_messages"):
    """Take messages out of a conversation: all after a seq, or the newest call group or single message."""

    frame: str | None = None
    after: int | None = None
    """None for the newest call group or single message."""
    facts: tuple[LedgerFacts, ...] = ()
    """The facts that only these messages state."""
    reason: str = ""


class RestoreMessages(SessionCommandBase, frozen=True, kw_only=True, tag="restore_messages"):
    """Undo a withdrawal."""

    frame: str | None = None
    withdrawal: int
    reason: str = ""


class MoveHandle(SessionCommandBase, frozen=True, kw_only=True, tag="move_handle"):
    """Page a piece of a message out or in."""

    frame: str | None = None
    residency: Residency
    piece: Reduction


class AddHandle(FrameCommandBase, frozen=True, kw_only=True, tag="add_handle"):
    """Add a handle to a frame."""

    kind: HandleKind
    priority: Priority
    title: str
    source: str | None
    content: tuple[Part, ...]
    digest: str
    metadata: dict[str, Json]


class ReplaceHandle(FrameCommandBase, frozen=True, kw_only=True, tag="replace_handle"):
    """Replace the content or the residency of a handle. None: no change."""

    handle: str
    priority: Priority | None = None
    title: str | None = None
    content: tuple[Part, ...] | None = None
    digest: str = ""
    metadata: dict[str, Json] | None = None
    residency: Residency | None = None
    tier: Tier | None = None
    ref: BlobRef | None = None
    size: int = 0
