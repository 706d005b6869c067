"""How a reply ended, and whether it is shown to models.

Laws: a reply that is cut off, filtered or not finished is recorded completely and shown to no model; nor is a
refusal or an empty reply. The stop reason of the provider stays in the source of the message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.codec import decode_object
from holdfast.model.content import Opaque, SkipReason, Text

_GEMINI_FILTERS = """
    SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION
    MODEL_ARMOR ESCALATION JAILBREAK
""".split()
_GEMINI_FAILURES = """
    OTHER BLOCKED_REASON_UNSPECIFIED MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS
    MISSING_THOUGHT_SIGNATURE MALFORMED_RESPONSE PUP_LIMITED_DISABLED CONTINUATION IMAGE_OTHER NO_IMAGE
""".split()

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
    **dict.fromkeys(("guardrail_intervened", "content_filtered"), "content_filter"),
    **dict.fromkeys(("malformed_model_output", "malformed_tool_use"), "incomplete"),
    "MAX_TOKENS": "length",
    **dict.fromkeys(_GEMINI_FILTERS, "content_filter"),
    **dict.fromkeys(_GEMINI_FAILURES, "incomplete"),
}
"""The stop reasons of providers with which a reply is not shown to models."""

REASONING_BLOCKS = frozenset({"thinking", "redacted_thinking", "reasoning", "thought", "reasoningContent"})
"""Blocks that are not a reply by themselves."""


def find_skip_reason(
    stop: str | None, content: Sequence[Any], calls: Sequence[object], *, refused: bool = False
) -> SkipReason | None:
    """Return why this reply is shown to no model; None if it is shown. A refusal with tool calls is shown: they run."""
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
    if isinstance(around, dict):  # fields of the next part; only audio is content of its own
        return "audio" in around
    return block.get("type") not in REASONING_BLOCKS
