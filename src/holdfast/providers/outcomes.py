"""How a reply ended, and whether a model is shown it again.

Laws: a reply that the provider cut off, filtered or failed to finish is recorded whole and shown to no model, since half an
answer is none; nor is a refusal, or a reply in which there is nothing to see. What the provider said of it stays in the
message's source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.codec import decode_object
from holdfast.model.content import Opaque, SkipReason, Text

STOPS: dict[str, SkipReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "refusal": "refusal",
    "failed": "incomplete",
    "cancelled": "incomplete",
    "incomplete": "incomplete",
}
"""Why a model stopped, in the words of the providers, where the reply is none to go on from."""

REASONING = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""What led to a reply, and is none without it."""


def skip_reason(
    stop: str | None, content: Sequence[Any], calls: Sequence[object], *, refused: bool = False
) -> SkipReason | None:
    """Why this reply is shown to no model; None if it is. A refusal that calls tools all the same is shown: they run."""
    if stop in STOPS:
        return STOPS[stop]
    if calls:
        return None
    if refused:
        return "refusal"
    return None if any(map(_is_visible, content)) else "empty"


def _is_visible(part: object) -> bool:
    if isinstance(part, Text):
        return bool(part.text.strip())
    if not isinstance(part, Opaque) or not isinstance(part.body, str):
        return part is not None
    try:
        block = decode_object(part.body.encode())
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return True
    around = block.get("around")
    if isinstance(around, dict):  # it says something about what stands behind it; sound is all that stands there
        return "audio" in around
    return block.get("type") not in REASONING
