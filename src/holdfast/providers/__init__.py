"""What comes back from a model, and what people keep in their message lists, as drafts of messages.

    read(response)       one reply, message or item
    read_all(messages)   a list of them
    Deltas               a reply that arrives in pieces

Laws: pure, and no client library is imported; an object of an official client and the same data as a dict give the same
drafts; nothing that a provider needs back is lost (see parts.py for how it is kept); whatever cannot be read is an
InvalidInput, never another error.
"""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidContent, shown
from holdfast.model.drafts import Draft, DraftCall, DraftResult, Inline
from holdfast.providers import anthropic, openai
from holdfast.providers.deltas import Deltas
from holdfast.providers.messages import message
from holdfast.providers.outcomes import STOPS
from holdfast.providers.plain import fields, listed, word

__all__ = ["STOPS", "Deltas", "Draft", "DraftCall", "DraftResult", "Inline", "read", "read_all", "read_content"]


def read(value: object) -> tuple[Draft, ...]:
    """The messages that a value holds: nearly always one."""
    return _drafts(_recognisable(value))


def read_content(role: str, content: object) -> tuple[Draft, ...]:
    """A message of this role whose content has parts as dicts, in our own shape or in a provider's."""
    return message({"role": role, "content": content})


def read_all(values: object) -> tuple[Draft, ...]:
    """The messages of a list. Items of a responses list that the model made in one go are one reply, as they were."""
    drafts: list[Draft] = []
    run: list[dict[str, Any]] = []
    for value in listed(values, "the list of messages"):
        plain = _recognisable(value)
        if _is_item(plain) and openai.made_by_model(plain):
            run.append(plain)
            continue
        drafts.extend(openai.items(run) if run else ())
        run = []
        drafts.extend(_drafts(plain))
    drafts.extend(openai.items(run) if run else ())
    return tuple(drafts)


def _recognisable(value: object) -> dict[str, Any]:
    plain = value.response() if type(value) is Deltas else fields(value)
    if plain is None:
        raise InvalidContent(reason=f"{shown(value)} is neither a message nor a provider's response")
    return plain


def _drafts(value: dict[str, Any]) -> tuple[Draft, ...]:
    kind, role, name = word(value, "type"), word(value, "role"), word(value, "object")
    if name == "chat.completion" or (name is None and "choices" in value):
        return openai.completion(value)
    if name == "response" or (role is None and "output" in value and kind is None):
        return openai.response(value)
    if kind == "message" and _is_anthropic_reply(value):
        return anthropic.reply(value)
    if kind == "message" and role == "assistant":
        return openai.items([value])
    if kind in openai.ITEMS:
        return openai.item(value)
    if "role" in value:
        return message(value)
    raise _unknown(value, kind or name)


def _is_anthropic_reply(value: dict[str, Any]) -> bool:
    """A message of a responses list has the same type and role, but it is no whole reply."""
    return any(key in value for key in ("stop_reason", "stop_sequence", "usage", "model"))


def _is_item(value: dict[str, Any]) -> bool:
    kind = word(value, "type")
    return kind in openai.ITEMS or (kind == "message" and not _is_anthropic_reply(value))


def _unknown(value: dict[str, Any], kind: str | None) -> InvalidContent:
    if value.get("error") is not None or kind == "error":
        return InvalidContent(reason=f"the provider reported an error: {openai.error_text(value)}")
    if kind is not None and (kind.startswith(("response.", "content_block_", "message_")) or kind.endswith(".chunk")):
        return InvalidContent(reason=f"{shown(kind)} is a piece of a stream: collect the pieces in a Deltas")
    if kind is not None:
        return InvalidContent(reason=f"{shown(kind)} is neither a message nor a provider's response")
    return InvalidContent(reason="the object is neither a message (it has no 'role') nor a provider's response")
