"""Messages of LlamaIndex as messages of a session, and the messages of a pack as messages of LlamaIndex."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import (
    CachePoint,
    ChatMessage,
    ImageBlock,
    MessageRole,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)

from holdfast.frameworks.shadows import ShadowMessage
from holdfast.frameworks.shown import ShownMessage
from holdfast.model import limits
from holdfast.types import shorten_name

_ROLES = {
    MessageRole.SYSTEM: "system",
    MessageRole.DEVELOPER: "system",
    MessageRole.ASSISTANT: "assistant",
    MessageRole.CHATBOT: "assistant",
    MessageRole.MODEL: "assistant",
    MessageRole.TOOL: "tool",
    MessageRole.FUNCTION: "tool",
}


class OpenCalls:
    """The calls of the last reply that have no result yet. Models may give a call no id, or the id of another one: then
    results answer the calls in their order."""

    def __init__(self) -> None:
        self._open: list[tuple[str | None, str]] = []

    def ask(self, calls: Sequence[tuple[str | None, str]]) -> None:
        """The calls of a reply: the id of the model, and ours."""
        self._open = [*calls]

    def answer(self, given: str | None) -> str | None:
        """Our id of the call that a result with this id answers; None if it answers none of them."""
        for wanted in (given, None):
            for number, (call, name) in enumerate(self._open):
                if given is None or call == wanted:
                    del self._open[number]
                    return name
        return None


def to_shadow(name: str, message: ChatMessage, calls: OpenCalls) -> ShadowMessage:
    """A message of LlamaIndex, as a session records it. No message is refused: what a session cannot have is described."""
    role = _ROLES.get(message.role, "user")
    parts = _bound([part for block in message.blocks if (part := _read_block(block)) is not None])
    if role == "tool":
        given = message.additional_kwargs.get("tool_call_id")
        call = calls.answer(str(given) if given else None) or _read_id(given) or f"call-{name}"
        content = parts if any(part["type"] != "text" for part in parts) else "\n".join(each["text"] for each in parts)
        return ShadowMessage(name, {"role": "tool", "tool_call_id": call, "content": content})
    read: dict[str, Any] = {"role": role, "content": parts}
    if asked := _read_calls(name, message):
        calls.ask([(given, call["id"]) for given, call in asked])
        read["tool_calls"] = [call for _, call in asked]
    return ShadowMessage(name, read)


def _bound(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most as many parts as a message can have: the texts of longer lists become one."""
    if len(parts) <= limits.CONTENT_PARTS:
        return parts
    return [{"type": "text", "text": "\n".join(part.get("text", "[an image]") for part in parts)}]


def _read_block(block: Any) -> dict[str, Any] | None:
    """A block as a part; None for one that is no content: a call, or thoughts, which no other model may see."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ToolCallBlock() | ThinkingBlock() | CachePoint():
            return None
        case ImageBlock() if block.url is not None and _is_readable(str(block.url)):
            return {"type": "image_url", "image_url": {"url": str(block.url)}}
        case ImageBlock() if block.image is not None:
            data = block.image.decode() if isinstance(block.image, bytes) else str(block.image)
            url = f"data:{block.image_mimetype or 'image/png'};base64,{data}"
            return {"type": "image_url", "image_url": {"url": url}} if _is_readable(url) else _describe(block)
        case _:
            return _describe(block)


def _describe(block: Any) -> dict[str, Any]:
    return {"type": "text", "text": f"[a block of type {block.block_type}]"}


def _is_readable(url: str) -> bool:
    """Whether this is an address, or data in base64."""
    head, found, data = url.partition(";base64,")
    if not (head.startswith("data:") and found):
        return True
    try:
        base64.b64decode(data, validate=True)
    except ValueError:
        return False
    return True


def _read_calls(name: str, message: ChatMessage) -> list[tuple[str | None, dict[str, Any]]]:
    """The calls of a reply, each with the id of the model: blocks of LlamaIndex, or, from older integrations, calls of
    OpenAI beside the content."""
    found = [
        (block.tool_call_id, block.tool_name, block.tool_kwargs)
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ] or [*_read_listed(message.additional_kwargs.get("tool_calls"))]
    calls: list[tuple[str | None, dict[str, Any]]] = []
    used: set[str] = set()
    for number, (given, tool, arguments) in enumerate(found[: limits.MESSAGE_CALLS]):
        call = _read_id(given)
        if call is None or call in used:
            call = f"call-{name}-{number}"
        used.add(call)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
        function = {"name": _read_name(tool), "arguments": text}
        calls.append((str(given) if given else None, {"id": call, "type": "function", "function": function}))
    return calls


def _read_listed(listed: Any) -> Iterator[tuple[Any, Any, Any]]:
    for each in listed if isinstance(listed, list) else []:
        call = each.model_dump() if hasattr(each, "model_dump") else each
        if isinstance(call, Mapping) and isinstance(function := call.get("function"), Mapping):
            yield call.get("id"), function.get("name"), function.get("arguments") or ""


def _read_id(given: Any) -> str | None:
    """The id of a call, short enough for a session."""
    return shorten_name(_remove_controls(str(given))) if given else None


def _read_name(given: Any) -> str:
    """The name of a tool, as a session can have it: models invent names."""
    return shorten_name(_remove_controls(str(given or "")) or "unnamed")


def _remove_controls(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def to_chat(shown: ShownMessage, originals: Mapping[str, ChatMessage]) -> ChatMessage:
    """A message of a pack: LlamaIndex's own where it is shown as it was recorded."""
    if shown.is_original and shown.id in originals:
        return originals[shown.id]
    if shown.role == "tool" and shown.call is not None:
        answered = {"tool_call_id": shown.call.provider_id or shown.call.id}
        return ChatMessage(role=MessageRole.TOOL, content=shown.text, additional_kwargs=answered)
    blocks: list[Any] = [TextBlock(text=shown.text)] if shown.text else []
    for call in shown.calls:
        arguments: Any = call.args if isinstance(call.args, dict | str) else {}
        blocks.append(
            ToolCallBlock(tool_call_id=call.provider_id or call.id, tool_name=call.name, tool_kwargs=arguments)
        )
    return ChatMessage(role=MessageRole(shown.role), blocks=blocks)
