"""Drafts that a session accepts: what cannot be read as a message of a provider is recorded as text."""

from __future__ import annotations

import json
from typing import Any

from holdfast import providers
from holdfast.errors import HoldfastError
from holdfast.gateway.model import Draft

_OWN_KINDS = frozenset({"data", "body", "opaque"})
_SHARED_KINDS = frozenset({"image", "file"})
_OWN_FIELDS = frozenset({"ref", "url"})
_NAME_CHARS = 200


def check_draft(draft: Draft) -> Draft:
    """The draft, if a session reads it as one message; else its JSON as text."""
    message = draft.message
    try:
        if not _has_own_parts(message.get("content")) and _is_one_message(message):
            return draft
    except (HoldfastError, TypeError, ValueError, RecursionError):
        pass
    values = [message[key] for key in ("content", "tool_calls") if message.get(key)]
    return Draft(describe_values(message["role"], message.get("tool_call_id"), values), draft.pieces)


def describe_values(role: str, call: object, values: list[Any]) -> dict[str, Any]:
    """A message that says what these values are, for those that cannot be read."""
    described = {
        "role": role,
        "content": "\n".join(json.dumps(value, ensure_ascii=False, default=str) for value in values),
    }
    return described if call is None else {**described, "tool_call_id": clean_name(call)}


def clean_name(name: object) -> str:
    """A name of a call without what names cannot have."""
    text = "".join(each for each in name if each.isprintable()) if type(name) is str else ""
    return text[:_NAME_CHARS] or "call"


def _is_one_message(message: dict[str, Any]) -> bool:
    drafts = providers.read(message)
    if len(drafts) != 1 or not all(type(result.call) is str for result in drafts[0].tool_results):
        return False
    return all(_is_call_name(call.name) for call in drafts[0].tool_calls)


def _is_call_name(name: object) -> bool:
    return type(name) is str and 0 < len(name) <= _NAME_CHARS and name.isprintable()


def _has_own_parts(content: object) -> bool:
    """Whether a client's block could be taken for a part of Holdfast, which can name a stored body."""
    if type(content) is not list:
        return False
    for block in content:
        kind = block.get("type") if type(block) is dict else None
        if kind in _OWN_KINDS or (kind in _SHARED_KINDS and not _OWN_FIELDS.isdisjoint(block)):
            return True
    return False
