"""Messages of the Agent Framework as messages of a session, and what a pack shows as messages of the framework.

A message is one of the session, except that each function result is one of its own: results are recorded when their tools
end. Reasoning, approvals and what a provider runs itself are only in the framework's own contents, which go back to the
model unchanged wherever a pack shows the message as it was recorded.

Law: a session refuses none of these messages, so that nothing that a model or a user wrote ends a conversation.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agent_framework import Content, Message

import holdfast
from holdfast import Image, Text
from holdfast.frameworks.accepted import accept_calls, accept_id, accept_text
from holdfast.frameworks.media import ContentPart, bound_parts, file_block, image_block, unify_parts
from holdfast.frameworks.shadows import ShadowMessage
from holdfast.frameworks.shown import ShownMessage
from holdfast.model import limits

RESULT_MARK = "::"
"""Between the id of a message and that of the call that a part of it answers."""
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,100}/[\w!#$&^.+-]{1,100}(?:; ?[\w!#$&^.+=-]{1,100})*", re.ASCII)
_ROLES = {"user", "assistant", "system"}
_CONTROLS = {"function_approval_request", "function_approval_response"}
_USAGE_FIELDS = {
    "input_tokens": "input_token_count",
    "output_tokens": "output_token_count",
    "cache_read_tokens": "cache_read_input_token_count",
    "cache_write_tokens": "cache_creation_input_token_count",
    "reasoning_tokens": "reasoning_output_token_count",
}


class SplitMessage(NamedTuple):
    """A message for a session, with the contents of the framework that it was made from."""

    shadow: ShadowMessage
    contents: list[Content]
    call: str = ""
    """The id of the call that it answers."""


def split_message(message: Message, name: str) -> list[SplitMessage]:
    """The messages of a session that a message of the framework becomes: each function result, then the rest."""
    results = [content for content in message.contents if content.type == "function_result" and content.call_id]
    rest = [content for content in message.contents if content not in results]
    split = [_split_result(content, name) for content in results]
    if not rest and split:
        return split
    role = message.role if message.role in _ROLES else "user"
    shadow: dict[str, Any] = {"role": role, "content": read_contents(rest)}
    calls = [content for content in rest if is_call(content)]
    if calls and role == "assistant":
        shadow["tool_calls"] = accept_calls(
            (call.call_id, call.name, read_arguments(call)) for call in calls if call.call_id
        )
    return [*split, SplitMessage(ShadowMessage(name, shadow), rest)]


def digest_message(message: Message) -> str:
    """A digest of what models see of a message: equal for its copies, whatever ids they were given."""
    digests = [each.shadow.digest + each.call for each in split_message(message, "")]
    return hashlib.sha256(f"{message.role} {digests}".encode()).hexdigest()


def is_call(content: Content) -> bool:
    """Whether this is a call that the framework runs itself."""
    return content.type == "function_call" and not content.informational_only and not content.hosted


def read_arguments(call: Content) -> dict[str, Any]:
    """The arguments of a call; empty if they are not an object."""
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return {}
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def read_contents(contents: Iterable[Content]) -> list[ContentPart]:
    """The parts that other models can be shown of these contents."""
    parts: list[ContentPart] = []
    for content in contents:
        if content.type == "text":
            parts.append(Text(accept_text(content.text or "")))
        elif content.type in {"data", "uri"}:
            parts.append(_read_media(content))
        elif content.type == "error":
            parts.append(Text(accept_text(f"Error: {content.message or content.error_code or 'unknown'}")))
        elif content.type == "hosted_file":
            parts.append(Text(f"[file {accept_text(str(content.file_id))}]"))
    return bound_parts(unify_parts(parts))


def read_result(content: Content) -> tuple[list[ContentPart] | str, bool]:
    """The value of a function result, as session.result() takes it, and whether it is an error."""
    parts = read_contents(content.items or ())
    text = content.result if isinstance(content.result, str) else json.dumps(content.result, default=str)
    return parts or accept_text(text or ""), content.exception is not None


def read_usage(details: Mapping[str, Any] | None) -> holdfast.Usage | None:
    """The usage of a model call; None if the provider reported none."""
    counts = {name: int((details or {}).get(theirs) or 0) for name, theirs in _USAGE_FIELDS.items()}
    return holdfast.Usage(**counts) if any(counts.values()) else None


def build_messages(
    shown: Iterable[ShownMessage], find_contents: Callable[[ShownMessage, str], Sequence[Content] | None]
) -> list[Message]:
    """The messages for a model, from what a pack shows. `find_contents(shown, reply)` gives the framework's contents of a
    message that is shown as it was recorded; `reply` is the id of the last reply. Results of one reply are one message."""
    messages: list[Message] = []
    reply = ""
    for each in shown:
        reply = each.id if each.role == "assistant" else reply
        own = find_contents(each, reply) if each.is_original else None
        contents = [content for content in own or () if content.type not in _CONTROLS] or _write_contents(each)
        if each.role == "tool" and messages and messages[-1].role == "tool":
            messages[-1].contents.extend(contents)
        elif contents:
            messages.append(Message(each.role, contents))
    return messages


def _write_contents(shown: ShownMessage) -> list[Content]:
    if shown.role == "tool" and shown.call is not None:
        name = shown.call.provider_id or shown.call.id
        return [Content.from_function_result(name, result=shown.text)]
    contents = [Content.from_text(shown.text)] if shown.text.strip() else []
    for call in shown.calls:
        arguments = call.args if isinstance(call.args, dict) else {}
        contents.append(Content.from_function_call(call.provider_id or call.id, call.name, arguments=arguments))
    return contents


def _split_result(content: Content, name: str) -> SplitMessage:
    call = accept_id(content.call_id)
    value, is_error = read_result(content)
    message = {"role": "tool", "tool_call_id": call, "content": value, "is_error": is_error}
    return SplitMessage(ShadowMessage(f"{name}{RESULT_MARK}{call}", message), [content], call)


def _read_media(content: Content) -> ContentPart:
    """An image or a file: its bytes if they are here, its address, or a line that names it."""
    uri, given = content.uri or "", content.media_type or ""
    kind = given if _MEDIA_TYPE.fullmatch(given) else ""
    if uri.startswith("data:") and ";base64," in uri:
        try:
            data = base64.b64decode(uri.split(";base64,", 1)[1], validate=True)
        except (binascii.Error, ValueError):
            return Text(f"[{kind or 'data'}]")
        if len(data) > limits.INLINE_BYTES:
            return Text(f"[{kind or 'data'}, {len(data)} bytes]")
        return image_block(data, kind) if kind.startswith("image/") else file_block(data, kind or None, None)
    if kind.startswith("image/") and uri.startswith(("http://", "https://")):
        return Image(url=accept_text(uri))
    return Text(f"[{kind or 'file'} at {accept_text(uri)}]")
