"""Read replies of Anthropic."""

from __future__ import annotations

from typing import Any

from holdfast.model.content import Source
from holdfast.model.sessions.messages import MessageDraft
from holdfast.providers.fields import ANTHROPIC, get_name
from holdfast.providers.messages import ReplyBuilder, add_blocks, result_in_reply_error
from holdfast.providers.parts import unpack_content
from holdfast.providers.usage import read_anthropic_usage


def read_reply(value: dict[str, Any]) -> tuple[MessageDraft, ...]:
    """Read a complete reply of the Messages API."""
    reply = ReplyBuilder()
    if add_blocks(reply, unpack_content(value.get("content")), ANTHROPIC):
        raise result_in_reply_error()
    source = Source(ANTHROPIC, get_name(value, "model"), get_name(value, "id"), get_name(value, "stop_reason"))
    return (reply.build_draft(read_anthropic_usage(value.get("usage")), source),)
