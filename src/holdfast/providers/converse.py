"""Read replies of Bedrock's Converse API."""

from __future__ import annotations

from typing import Any

from holdfast.model.sessions.messages import MessageDraft
from holdfast.providers import bedrock
from holdfast.providers.fields import invalid_message, read_fields, read_list, require_fields
from holdfast.providers.messages import ReplyBuilder, add_converse_block, result_in_reply_error


def read_response(value: dict[str, Any]) -> tuple[MessageDraft, ...]:
    """Read a response of converse()."""
    output = read_fields(value.get("output")) or {}
    message = require_fields(output.get("message"), "'message' of the output")
    reply = ReplyBuilder()
    for block in read_list(message.get("content"), "'content'"):
        fields = require_fields(block, "a content block")
        if len(fields) != 1:
            raise invalid_message(f"a content block has {len(fields)} fields, not one")
        if add_converse_block(reply, fields):
            raise result_in_reply_error()
    return (reply.build_draft(bedrock.read_usage(value), bedrock.build_source(value)),)
