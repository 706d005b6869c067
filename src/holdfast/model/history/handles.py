"""Handles: addressable pieces of context, in the reach of a frame without being in its window."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from holdfast.model.content import Json
from holdfast.model.history.plans import Residency, Tier
from holdfast.model.names import parse_id_number

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
PRIORITY_SCORES: dict[Priority, int] = {"critical": 100, "high": 75, "medium": 50, "low": 25, "background": 10}
"""Always in · in unless severely constrained · if space permits · if space abounds · summarised or left out."""


def handle_id(seq: int) -> str:
    return f"h{seq}"


def piece_id(message: int, piece: int) -> str:
    """The handle of a piece of a message: tool results come first, then the parts of the content."""
    return f"h{message}_{piece}"


def parse_piece_id(handle: str) -> tuple[int, int] | None:
    """The seq of the message and the number of the piece in such an id; None for another text."""
    message, _, piece = handle.partition("_")
    seq, number = parse_id_number("h", message), parse_id_number("h", f"h{piece}") if piece != "0" else 0
    return (seq, number) if seq and (number or piece == "0") else None


def handle_seq(handle: str) -> int:
    """The seq in the id of a handle; 0 for another text."""
    return parse_id_number("h", handle)


class Handle(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A piece of context: what it is and where it is; `handles.parts` has its content."""

    id: str
    frame: str | None = None
    kind: HandleKind
    priority: Priority = "medium"
    title: str = ""
    source: str | None = None
    """Its origin: a tool call, a frame, a URL."""
    tokens: int = 0
    digest: str
    """The SHA-256 of its content."""
    at: int
    """The seq of the event that has its content."""
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    residency: Residency = "resident"
    tier: Tier | None = None
    """Where it was archived, if it is paged out."""
    locator: str = ""
    """Where its content is: `event:12`, or `blob:` and its SHA-256."""
    size: int = 0
    """Its bytes, if that is known."""

    @property
    def is_in_context(self) -> bool:
        return self.residency == "resident"

    @property
    def score(self) -> int:
        return PRIORITY_SCORES[self.priority]


class ResultRef(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a child frame."""

    frame: str
    status: Literal["completed", "failed", "cancelled"]
    handle: str


class HandleText(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the content of a handle."""

    handle: str
    text: str
    """The requested text; of a binary body, the bytes as hexadecimal digits."""
    size: int
    """Bytes of the whole."""
    start: int
    """The first byte that this shows."""
    stop: int
    """The byte after the last one: where to read on."""
    lines: tuple[int, int] | None = None
    """The first and the last line that it shows, if lines were requested."""
    matches: int | None = None
    """The number of matching lines, those that are not shown included."""
    is_binary: bool = False
    more: str = ""
    """How to read on; empty if there is nothing more."""
    media_type: str | None = None
    """Of a binary body, if it is known."""
