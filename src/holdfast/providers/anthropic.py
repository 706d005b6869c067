"""Anthropic's replies."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidContent
from holdfast.model.content import Source
from holdfast.model.drafts import Draft
from holdfast.providers.messages import Reply, take_blocks
from holdfast.providers.parts import unpacked
from holdfast.providers.plain import ANTHROPIC, named
from holdfast.providers.usage import anthropic_usage


def reply(value: dict[str, Any]) -> tuple[Draft, ...]:
    made = Reply()
    if take_blocks(made, unpacked(value.get("content")), ANTHROPIC):
        raise InvalidContent(reason="the reply of a model holds a tool result")
    source = Source(ANTHROPIC, named(value, "model"), named(value, "id"), named(value, "stop_reason"))
    return (made.draft(anthropic_usage(value.get("usage")), source),)
