"""A message as it comes in, before anything about it is checked."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.model.content import SkipReason, Source, Usage


class Inline(msgspec.Struct, frozen=True):
    """Bytes that came inside a message and belong into the blob store."""

    kind: Literal["image", "file"]
    data: bytes
    media_type: str | None = None
    name: str | None = None


class DraftCall(msgspec.Struct, frozen=True):
    name: Any
    args: Any
    provider_id: Any = None
    raw: str | None = None
    """The arguments as they were spelled, if they came as text."""


class DraftResult(msgspec.Struct, frozen=True):
    call: Any
    """The id that the session gave to the call, or the provider's own."""
    content: Any
    """What session.result() takes, or a list of parts and inlines."""
    is_error: bool = False


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever makes one promises nothing: names, text, JSON and references are checked where they come in."""

    role: Any
    content: Any = ()
    """Text, a part, an inline, or a list of them; None for none."""
    tool_calls: tuple[DraftCall, ...] = ()
    tool_results: tuple[DraftResult, ...] = ()
    usage: Usage | None = None
    source: Source | None = None
    metadata: Any = None
    skipped: SkipReason | None = None
    """Why no model is shown this reply, as far as the provider said."""
    priority: Any = None
