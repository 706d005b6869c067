"""Items of the OpenAI Agents SDK, and the messages of a session that they make up.

Laws: pure. Every item makes a message, whatever is in it: what cannot be read is text. Successive items of one model call
are one message, so a call is never apart from the reasoning before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from holdfast import providers
from holdfast.errors import HoldfastError, InvalidArgument, describe_value
from holdfast.frameworks.shadows import ShadowMessage
from holdfast.model.content import ToolCall
from holdfast.model.sessions.messages import MessageDraft
from holdfast.providers.fields import OPENAI, build_opaque
from holdfast.providers.openai import CALLS, HOSTED_ITEMS, ITEMS, OUTPUTS
from holdfast.render.entries import arguments_text

Item: TypeAlias = dict[str, Any]
"""An item of the SDK: a dict in the format of the Responses API."""

_KEY_CHARS = 24
_UNSTABLE_FIELDS = frozenset(
    {"id", "status", "provider_data", "created_by", "_agents_tool_description", "_agents_tool_title"}
)
"""Fields that the SDK drops or adds when it sends an item again."""
_UNPRINTABLE = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
"""Halves of pairs, which are not Unicode text."""


def check_item(item: object) -> Item:
    """The item, if it is one: a dict."""
    if isinstance(item, dict):
        return item
    raise InvalidArgument(argument="items", reason=f"{describe_value(item)} is not an item: pass dicts")


def encode_json(value: object) -> bytes:
    """JSON that comes back as it was, also with numbers and characters that are not portable."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(argument="items", reason=f"an item has no JSON form: {error}") from error


def decode_json(body: bytes) -> Any:
    """The value that encode_json() encoded."""
    return json.loads(body.decode("utf-8", "surrogatepass"))


def item_kind(item: Item) -> str:
    """The type of an item; a message need not name it."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else "message" if "role" in item else ""


def call_of(item: Item) -> str | None:
    """The id of the call that an item makes or answers."""
    name = item.get("call_id")
    if item_kind(item) == "local_shell_call_output" and name is None:
        name = item.get("id")
    return name if isinstance(name, str) and name else None


def build_call(call: ToolCall) -> Item:
    """The item of a function call."""
    name = call.provider_id or call.id
    return {"type": "function_call", "call_id": name, "name": call.name, "arguments": arguments_text(call)}


def is_model_item(item: Item) -> bool:
    """Whether a model made the item."""
    kind = item_kind(item)
    return kind in CALLS or kind in HOSTED_ITEMS or (kind == "message" and item.get("role") == "assistant")


def is_output(item: Item) -> bool:
    """Whether the item is the result of a call that the program ran."""
    return item_kind(item) in OUTPUTS and call_of(item) is not None


def is_user_message(item: Item) -> bool:
    return item_kind(item) == "message" and item.get("role") == "user"


def item_key(item: Item) -> str:
    """What an item is recognized by. The SDK sends an item again without some of its fields; those do not count."""
    kind, call = item_kind(item), call_of(item)
    if call is not None and (kind in CALLS or kind in OUTPUTS):
        return f"{kind}:{call}"
    fields = {name: value for name, value in item.items() if name not in _UNSTABLE_FIELDS} | {"type": kind}
    try:
        content = json.dumps(fields, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError):
        content = repr(fields).encode("utf-8", "backslashreplace")
    return hashlib.sha256(content).hexdigest()[:_KEY_CHARS]


def build_message(name: str, items: Sequence[Item]) -> ShadowMessage:
    """The message of these items: those of one model call, or a single other one."""
    try:
        message = _read_message([_drop_nulls(item) for item in _clean_items(items)])
    except (HoldfastError, TypeError, ValueError, RecursionError):
        message = _describe_message(items)
    return ShadowMessage(name, message)


def _clean_items(items: Sequence[Item]) -> Sequence[Item]:
    """The items, with characters that can be stored."""
    text = json.dumps(items, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        cleaned: list[Item] = json.loads(clean_text(text))
        return cleaned
    return items


def _drop_nulls(item: Item) -> Item:
    kept = {name: value for name, value in item.items() if value is not None}
    return {"type": "message", **kept} if item_kind(item) == "message" else kept


def _read_message(items: list[Item]) -> Item:
    """The items as a message, with all that a provider needs back."""
    first = items[0]
    if not is_model_item(first) and item_kind(first) not in ITEMS and item_kind(first) != "message":
        return {"role": "user", "content": [build_opaque(OPENAI, first)]}
    (draft,) = providers.read_all(items)
    if draft.tool_results:
        (result,) = draft.tool_results
        fields = {"tool_call_id": result.call, "content": result.content, "is_error": result.is_error}
        return {"role": "tool", **fields}
    message: Item = {"role": draft.role, "content": draft.content}
    if draft.tool_calls:
        message["tool_calls"] = [_show_call(call) for call in draft.tool_calls]
    _check_message(message, draft)
    return message


def _show_call(call: providers.CallDraft) -> Item:
    shown: Item = {"name": call.name, "args": call.args, "id": call.provider_id}
    return shown if call.raw is None else {"name": call.name, "arguments": call.raw, "id": call.provider_id}


def _check_message(message: Item, draft: MessageDraft) -> None:
    """What is recorded reads as it was read here."""
    (again,) = providers.read_all([message])
    if len(again.tool_calls) != len(draft.tool_calls) or not (again.content or again.tool_calls):
        raise ValueError("an empty message")


def _describe_message(items: Sequence[Item]) -> Item:
    """The items as text, for a message that cannot be read."""
    first = items[0]
    if is_output(first):
        return {"role": "tool", "tool_call_id": clean_text(call_of(first) or ""), "content": describe_items(items)}
    role = "assistant" if is_model_item(first) else first.get("role")
    return {
        "role": role if role in ("user", "assistant", "system", "developer") else "user",
        "content": describe_items(items),
    }


def describe_items(items: Sequence[Item]) -> str:
    """The JSON of these items, with characters that can be stored."""
    if all(not item.get("content", True) for item in items):
        return "(empty message)"
    return clean_text("\n".join(json.dumps(item, ensure_ascii=False, default=str) for item in items))


def clean_text(text: str) -> str:
    """The text, with replacement characters for those that cannot be stored."""
    return text.translate(_UNPRINTABLE)
