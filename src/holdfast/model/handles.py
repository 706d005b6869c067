"""Handles: addressable pieces of context, that are in a frame's reach without being in its window."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from holdfast.model.content import Json
from holdfast.model.names import number_in
from holdfast.model.plan import Residency, Tier

HandleKind: TypeAlias = Literal[
    "tool_result",
    "memory_page",
    "knowledge_entry",
    "spool_file",
    "sub_agent_join",
    "event_ref",
    "worker_finding",
    "worker_learning",
    "artifact",
    "document",
    "url",
]
HANDLE_KINDS: tuple[HandleKind, ...] = get_args(HandleKind)

Priority: TypeAlias = Literal["critical", "high", "medium", "low", "background"]

SCORES: dict[Priority, int] = {"critical": 100, "high": 75, "medium": 50, "low": 25, "background": 10}
"""Always in; in unless severely constrained; if space permits; if space abounds; summarised or left out."""


def handle_id(seq: int) -> str:
    return f"h{seq}"


def piece_id(message: int, piece: int) -> str:
    """The handle of a piece of a message: its tool results come first, then the parts of its content."""
    return f"h{message}_{piece}"


def piece_of(handle: str) -> tuple[int, int] | None:
    """The seq of the message and the number of the piece in such an id; None if it is none."""
    message, _, piece = handle.partition("_")
    seq, number = number_in("h", message), number_in("h", f"h{piece}") if piece != "0" else 0
    return (seq, number) if seq and (number or piece == "0") else None


def handle_seq(handle: str) -> int:
    """The seq in the id of a handle; 0 if it is no such id."""
    return number_in("h", handle)


class Handle(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A piece of context: what it is and where it lies; `read_handle` has its content."""

    id: str
    frame: str | None = None
    kind: HandleKind
    priority: Priority = "medium"
    title: str = ""
    source: str | None = None
    """What it came from: a tool call, a frame, a URL."""
    tokens: int = 0
    digest: str
    """The SHA-256 of its content."""
    at: int
    """The seq of the event that has its content."""
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    residency: Residency = "resident"
    tier: Tier | None = None
    """Where it was archived to, if it is paged out."""
    locator: str = ""
    """Where its content lies: `event:12`, or `blob:` and its SHA-256."""
    size: int = 0
    """Its bytes, if that is known."""

    @property
    def occupies_context(self) -> bool:
        return self.residency == "resident"

    @property
    def score(self) -> int:
        return SCORES[self.priority]


class ResultRef(msgspec.Struct, frozen=True, kw_only=True):
    """What a child brought back."""

    frame: str
    status: Literal["completed", "failed", "cancelled"]
    handle: str
