"""LangChain messages as messages of a session.

Laws: every message of LangChain becomes a message that a session accepts, or none. Content blocks in a format of OpenAI or
Anthropic are recorded as they are; LangChain's own images and files become those of Holdfast; any other block is kept as an
opaque part. Nothing that a model does not see is recorded, except for the usage.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from holdfast.conversion import to_json
from holdfast.errors import HoldfastError, InvalidArgument, InvalidInput
from holdfast.frameworks.shadows import ShadowMessage, name_messages
from holdfast.providers.messages import read_message
from holdfast.providers.parts import read_parts
from holdfast.types import shorten_name

_ISSUER = "langchain"
_PROVIDERS = ("openai", "anthropic")
_ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
}
_SIDE_FIELDS = ("reasoning_content", "reasoning_details", "reasoning", "audio", "annotations")
"""Fields of a reply beside its content that OpenAI and compatible providers want back."""
_CALL_BLOCKS = frozenset(
    {"tool_use", "tool_call", "function_call", "tool_call_chunk", "invalid_tool_call", "tool_result"}
)
"""Blocks that repeat the tool calls of a reply. The calls themselves count: programs edit those."""
_BLOCKS = 300
"""A message with more blocks is recorded as its text."""


def to_shadow(message: BaseMessage) -> ShadowMessage:
    """The message as a session records it. Without an id, it is named by its content: use to_shadows() for a list."""
    return to_shadows([message])[0] if message.id is None else _convert(message)


def to_shadows(messages: Sequence[BaseMessage]) -> list[ShadowMessage]:
    """The messages as a session records them. Messages without an id are named by their content and number."""
    kept = [message for message in messages if not isinstance(message, RemoveMessage)]
    nameless = [_convert(message).message for message in kept if message.id is None]
    named = iter(name_messages(nameless))
    return [next(named) if message.id is None else _convert(message) for message in kept]


def _convert(message: BaseMessage) -> ShadowMessage:
    fields = _read_fields(message)
    if type(message.content) is not str or len(fields) > 2:
        try:
            read_message(fields)
        except (HoldfastError, RecursionError):
            fields = _reduce(message, fields)
    return ShadowMessage(_clean(message.id or ""), fields)


def _read_fields(message: BaseMessage) -> dict[str, Any]:
    if isinstance(message, ToolMessage):
        return {
            "role": "tool",
            "tool_call_id": _name(message.tool_call_id, "call"),
            "content": _read_content(message),
            "is_error": message.status == "error",
        }
    if isinstance(message, FunctionMessage):
        return {"role": "function", "name": _name(message.name, "function"), "content": _read_content(message)}
    if isinstance(message, AIMessage):
        return _read_reply(message)
    role = _role_of(message)
    fields: dict[str, Any] = {"role": role, "content": _read_content(message)}
    speaker = message.role if isinstance(message, ChatMessage) and message.role not in _ROLES else message.name
    if speaker and role == "user":
        fields["name"] = _name(speaker, "user")
    return fields


def _role_of(message: BaseMessage) -> str:
    if isinstance(message, HumanMessage):
        return "user"
    if isinstance(message, SystemMessage):
        return "system"
    return _ROLES.get(message.role if isinstance(message, ChatMessage) else message.type, "user")


def _read_reply(message: AIMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": "assistant", "content": _read_content(message)}
    for name in _SIDE_FIELDS:
        if value := message.additional_kwargs.get(name):
            fields[name] = _plain(value)
    calls = [
        {"id": _name(call.get("id"), "call"), "name": _name(call["name"], "tool"), "args": _plain(call["args"])}
        for call in message.tool_calls
    ]
    calls += [  # with the arguments as the model wrote them
        {
            "id": _name(call.get("id"), f"invalid_{number}"),
            "name": _name(call.get("name"), "tool"),
            "args": _clean(str(call.get("args") or "")),
        }
        for number, call in enumerate(message.invalid_tool_calls)
    ]
    if calls:
        fields["tool_calls"] = calls
    if message.usage_metadata:
        fields["usage"] = _read_usage(message)
    if message.name:
        fields["metadata"] = {"name": _clean(message.name)}
    return fields


def _read_usage(message: AIMessage) -> dict[str, int]:
    usage: dict[str, Any] = {**(message.usage_metadata or {})}
    read = usage.get("input_token_details") or {}
    written = usage.get("output_token_details") or {}
    figures = {
        "input_tokens": usage.get("input_tokens"),
        "output_tokens": usage.get("output_tokens"),
        "cache_read_tokens": read.get("cache_read"),
        "cache_write_tokens": read.get("cache_creation"),
        "reasoning_tokens": written.get("reasoning"),
    }
    return {name: value for name, value in figures.items() if type(value) is int and value > 0}


def _read_content(message: BaseMessage) -> Any:
    content: Any = message.content
    if type(content) is str:
        return _clean(content)
    blocks = [block if type(block) is dict else {"type": "text", "text": str(block)} for block in content]
    if len(blocks) > _BLOCKS:
        return _clean(str(message.text))
    has_calls = isinstance(message, AIMessage)
    provider = message.response_metadata.get("model_provider")
    issuer = provider if provider in _PROVIDERS else _ISSUER
    return [
        _read_block(block, issuer)
        for block in blocks
        if not (has_calls and block.get("type") in _CALL_BLOCKS) and not _is_empty(block)
    ]


def _is_empty(block: dict[str, Any]) -> bool:
    return block.get("type") == "text" and not block.get("text")


def _read_block(block: dict[str, Any], issuer: str) -> Any:
    """The block, in a format that a session reads. `issuer` is whose block it is if nothing of it shows that."""
    plain = _plain(block)
    if not isinstance(plain, dict):
        return {"type": "text", "text": str(plain)}
    known = _read_media(plain)
    try:
        if plain.get("type") in _CALL_BLOCKS:
            raise InvalidArgument(argument="content", reason="it is a call, in a message that is no reply")
        read_parts(known, None)
    except (InvalidInput, RecursionError):
        if "reasoning" in plain:  # LangChain's own form, which no provider takes back
            issuer = _ISSUER
        return {"type": "opaque", "issuer": issuer, "body": json.dumps(plain, ensure_ascii=False)}
    return known


def _read_media(block: dict[str, Any]) -> dict[str, Any]:
    """An image, a file or a text in LangChain's own format, in that of a provider; any other block as it is."""
    kind = block.get("type")
    data, media_type = block.get("base64") or block.get("data"), block.get("mime_type")
    if kind == "text-plain" and type(block.get("text")) is str:
        return {"type": "text", "text": block["text"]}
    if kind == "image" and type(block.get("url")) is str:
        return {"type": "image_url", "image_url": {"url": block["url"]}}
    if type(data) is not str or "source" in block:
        return block
    address = f"data:{media_type or 'application/octet-stream'};base64,{data}"
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": address}}
    if kind in ("file", "audio", "video"):
        return {"type": "file", "file": {"file_data": address, "filename": block.get("filename")}}
    return block


def _reduce(message: BaseMessage, fields: dict[str, Any]) -> dict[str, Any]:
    """What of a message is recorded in any case: its role, its text and its calls."""
    kept: dict[str, Any] = {
        name: fields[name] for name in ("role", "tool_call_id", "name", "is_error", "usage") if name in fields
    }
    kept["content"] = _clean(str(message.text))
    calls = fields.get("tool_calls")
    if calls:
        kept["tool_calls"] = [{**call, "args": _to_text(call["args"])} for call in calls]
    return kept


def _to_text(args: object) -> str:
    return args if isinstance(args, str) else json.dumps(args, default=str)


def _plain(value: object) -> Any:
    """A value as JSON; what has no JSON form, as text."""
    try:
        return to_json("the value", value)
    except (HoldfastError, RecursionError):
        pass
    if isinstance(value, dict):
        return {_clean(str(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _clean(str(value))


def _clean(text: str) -> str:
    """The text, with a replacement character for each half of a surrogate pair that stands alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _name(text: object, default: str) -> str:
    """A name without control characters, of at most 256 bytes."""
    return shorten_name("".join(each for each in _clean(str(text or "")) if each.isprintable()) or default)
