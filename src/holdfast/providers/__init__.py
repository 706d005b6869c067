"""Read replies of providers, and messages in the formats of providers, as drafts of messages.

    read(response)       one reply, message or item
    read_all(messages)   a list of them
    Deltas               a reply that arrives in pieces

Laws: pure, and no client library is imported. An object of an official client and the same data as a dict give the same
drafts. Nothing that a provider needs back is lost: `parts` says how it is kept. Anything that cannot be read raises
InvalidInput, and no other error.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model.sessions.messages import CallDraft, InlineBytes, MessageDraft, ResultDraft
from holdfast.providers import anthropic, bedrock, converse, gemini, openai
from holdfast.providers.deltas import Deltas
from holdfast.providers.fields import get_text, invalid_message, read_fields, read_list
from holdfast.providers.messages import read_message
from holdfast.providers.outcomes import STOPS
from holdfast.providers.streams import BEDROCK_EVENTS

__all__ = [
    "STOPS",
    "CallDraft",
    "Deltas",
    "InlineBytes",
    "MessageDraft",
    "ResultDraft",
    "read",
    "read_all",
    "read_content",
]


_CHAT_FIELDS = frozenset({"role", "content", "tool_calls", "tool_call_id"})
"""A message with a role and no other fields than these is neither an item nor a reply with its envelope."""


def read(value: object) -> tuple[MessageDraft, ...]:
    """Return the messages in a value, usually one."""
    return _read_drafts(require_message(value))


def read_content(role: str, content: object) -> tuple[MessageDraft, ...]:
    """Return a message of this role whose content has parts as dicts, in the format of Holdfast or of a provider."""
    return read_message({"role": role, "content": content})


def read_all(values: object) -> tuple[MessageDraft, ...]:
    """Return the messages of a list. Successive items of a model in an OpenAI responses list are one reply."""
    drafts: list[MessageDraft] = []
    run: list[dict[str, Any]] = []
    for value in read_list(values, "the list of messages"):
        plain = require_message(value)
        is_chat = "role" in plain and _CHAT_FIELDS.issuperset(plain)
        if not is_chat and _is_item(plain) and openai.is_from_model(plain):
            run.append(plain)
            continue
        if run:
            drafts.extend(openai.read_items(run))
            run = []
        drafts.extend(read_message(plain) if is_chat else _read_drafts(plain))
    drafts.extend(openai.read_items(run) if run else ())
    return tuple(drafts)


def require_message(value: object) -> dict[str, Any]:
    """Return a message or a reply of a provider as a dict; refuse any other value."""
    plain = value.response() if type(value) is Deltas else read_fields(value)
    if plain is None:
        raise InvalidArgument(
            argument="message", reason=f"{describe_value(value)} is not a message or a reply of a provider"
        )
    return plain


def _read_drafts(value: dict[str, Any]) -> tuple[MessageDraft, ...]:
    kind, role, name = get_text(value, "type"), get_text(value, "role"), get_text(value, "object")
    if name == "chat.completion" or (name is None and "choices" in value):
        return openai.read_completion(value)
    if kind is None and name is None and role is None and gemini.is_response(value):
        return gemini.read_response(value)
    if kind is None and bedrock.is_response(value):
        return converse.read_response(value)
    if kind is None and gemini.is_content(value):
        return gemini.read_content(value)
    if name == "response" or (role is None and "output" in value and kind is None):
        return openai.read_response(value)
    if kind == "message" and _is_anthropic_reply(value):
        return anthropic.read_reply(value)
    if kind == "message" and role == "assistant":
        return openai.read_items([value])
    if kind in openai.ITEMS:
        return openai.read_item(value)
    if "role" in value:
        return read_message(value)
    raise _unknown_value_error(value, kind or name)


def _is_anthropic_reply(value: dict[str, Any]) -> bool:
    """Whether this is a complete reply. A message in an OpenAI responses list has the same type and role."""
    return any(key in value for key in ("stop_reason", "stop_sequence", "usage", "model"))


def _is_item(value: dict[str, Any]) -> bool:
    kind = get_text(value, "type")
    return kind in openai.ITEMS or (kind == "message" and not _is_anthropic_reply(value))


def _unknown_value_error(value: dict[str, Any], kind: str | None) -> InvalidArgument:
    if value.get("error") is not None or kind == "error":
        reason = f"the provider reported an error: {openai.describe_error(value)}"
    elif not BEDROCK_EVENTS.isdisjoint(value):
        reason = "the object is an event of a stream: collect the events in a Deltas"
    elif kind is not None and (kind.startswith(("response.", "content_block_", "message_")) or kind.endswith(".chunk")):
        reason = f"{describe_value(kind)} is an event of a stream: collect the events in a Deltas"
    elif kind is not None:
        reason = f"{describe_value(kind)} is not the type of a message or a reply of a provider"
    else:
        reason = "the object is not a message (it has no `role`) and not a reply of a provider"
    return invalid_message(reason)
