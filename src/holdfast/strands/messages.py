"""Messages of Strands as messages of a session, and what a pack shows as messages of Strands.

A message of Strands is one of the session, except that each tool result is one of its own: results are recorded when
their tools end. Reasoning, cache points and guard marks are not for other models, so they are only in Strands' own
blocks, which go back to the model unchanged wherever a pack shows the message as it was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from strands.types.content import ContentBlock, Message, Messages
from strands.types.tools import ToolResult, ToolResultContent

from holdfast import Text
from holdfast.frameworks.accepted import accept_calls, accept_id, accept_json, accept_text
from holdfast.frameworks.media import ContentPart, bound_parts, file_block, image_block, unify_parts
from holdfast.frameworks.shadows import ShadowMessage
from holdfast.frameworks.shown import ShownMessage
from holdfast.types import Data

_MEDIA_TYPES = {
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "html": "text/html",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_USAGE_FIELDS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadInputTokens": "cache_read_tokens",
    "cacheWriteInputTokens": "cache_write_tokens",
}
RESULT_MARK = "::"
"""Between the id of a message and that of the call that a part of it answers."""
_OPENING = "(The beginning of the conversation is not shown.)"


class NamedMessage(NamedTuple):
    """A message for a session, with the blocks of Strands that it was made from."""

    shadow: ShadowMessage
    blocks: list[ContentBlock]
    call: str = ""
    """The id of the call that it answers."""


def split_message(message: Message, name: str) -> list[NamedMessage]:
    """The messages of a session that a message of Strands becomes: each tool result, then the rest."""
    blocks = message["content"]
    if message["role"] == "assistant":
        reply = _build_reply(message)
        return [NamedMessage(ShadowMessage(name, reply), _keep_calls(blocks, len(reply.get("tool_calls", ()))))]
    results = [block for block in blocks if "toolResult" in block]
    named: list[NamedMessage] = []
    for block in results:
        named.append(_name_result(block, name, named))
    rest = [block for block in blocks if "toolResult" not in block]
    if rest or not results:
        named.append(NamedMessage(ShadowMessage(name, {"role": "user", "content": read_blocks(rest)}), rest))
    return named


def name_list(messages: Iterable[tuple[str, Message]]) -> list[list[NamedMessage]]:
    """The messages of a session for a list of Strands, each with its name. Strands may list one twice."""
    named: list[list[NamedMessage]] = []
    counts: dict[str, int] = {}
    for name, message in messages:
        counts[name] = count = counts.get(name, 0) + 1
        named.append(split_message(message, name if count == 1 else f"{name}~{count}"))
    return named


def name_message(message: Message, number: int) -> str:
    """The tracking id of a message, or a name from its index."""
    return message.get("tracking_id") or f"message-{number}"


def read_blocks(blocks: Sequence[Mapping[str, Any]]) -> list[ContentPart]:
    """The parts that other models can be shown of these blocks."""
    parts: list[ContentPart] = []
    for block in blocks:
        if isinstance(text := block.get("text"), str):
            parts.append(Text(accept_text(text)))
        elif "json" in block:
            parts.append(Data(accept_json(block["json"])))
        elif "image" in block:
            parts.append(_read_media("image", block["image"]))
        elif "document" in block:
            parts.append(_read_media("document", block["document"]))
        elif "guardContent" in block:
            parts.append(Text(accept_text(str(block["guardContent"]["text"]["text"]))))
        elif "citationsContent" in block:
            parts += read_blocks(block["citationsContent"].get("content") or ())
        else:
            parts += [_describe_media(kind, block[kind]) for kind in ("video", "audio") if kind in block]
    return bound_parts(unify_parts(parts))


def read_result(result: ToolResult) -> list[ContentPart] | str:
    """The value of a tool result, as session.result() takes it."""
    parts = read_blocks(cast("list[dict[str, Any]]", result.get("content") or []))
    return parts or ""


def build_messages(shown: Iterable[ShownMessage], find_blocks: Callable[[ShownMessage, str], Any]) -> Messages:
    """The messages for a model, from what a pack shows. `find_blocks(shown, reply)` gives the blocks of Strands for a
    message that is shown as it was recorded; `reply` is the id of the last reply. Messages of one role are joined, since
    providers want roles to alternate."""
    messages: Messages = []
    reply = ""
    for each in shown:
        if each.role == "system" and not each.is_later:
            continue
        reply = each.id if each.role == "assistant" else reply
        blocks = (find_blocks(each, reply) if each.is_original else None) or _write_blocks(each)
        role = "assistant" if each.role == "assistant" else "user"
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] = [*messages[-1]["content"], *blocks]
        elif blocks:
            messages.append(cast("Message", {"role": role, "content": list(blocks)}))
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [{"text": _OPENING}]})
    return messages


def _write_blocks(shown: ShownMessage) -> list[ContentBlock]:
    if shown.role == "tool" and shown.call is not None:
        content: list[ToolResultContent] = [{"text": shown.text}]
        status = "error" if shown.is_error else "success"
        name = shown.call.provider_id or shown.call.id
        return [cast("ContentBlock", {"toolResult": {"toolUseId": name, "status": status, "content": content}})]
    blocks: list[ContentBlock] = [{"text": shown.user_text}] if shown.text.strip() else []
    for call in shown.calls:
        arguments = call.args if isinstance(call.args, dict) else {}
        use = {"toolUseId": call.provider_id or call.id, "name": call.name, "input": arguments}
        blocks.append(cast("ContentBlock", {"toolUse": use}))
    return blocks


def _build_reply(message: Message) -> dict[str, Any]:
    reply: dict[str, Any] = {"role": "assistant", "content": read_blocks(message["content"])}
    uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    if uses:
        reply["tool_calls"] = accept_calls(
            (use["toolUseId"], use["name"], use["input"] if isinstance(use["input"], dict) else {}) for use in uses
        )
    usage: Mapping[str, Any] = (message.get("metadata") or {}).get("usage") or {}
    counted = {name: int(usage.get(theirs) or 0) for theirs, name in _USAGE_FIELDS.items()}
    if any(counted.values()):
        counted["input_tokens"] += counted["cache_read_tokens"] + counted["cache_write_tokens"]
        reply["usage"] = counted
    return reply


def _keep_calls(blocks: list[ContentBlock], count: int) -> list[ContentBlock]:
    """The blocks with as many calls as the message of the session has: each call that is shown has a result."""
    kept: list[ContentBlock] = []
    for block in blocks:
        if "toolUse" in block:
            count -= 1
        if count >= 0 or "toolUse" not in block:
            kept.append(block)
    return kept


def _name_result(block: ContentBlock, name: str, before: Sequence[NamedMessage]) -> NamedMessage:
    """A result, with a name that none `before` it in the message has: a message may have two for one call."""
    result = block["toolResult"]
    call = accept_id(result["toolUseId"])
    message = {
        "role": "tool",
        "tool_call_id": call,
        "content": read_result(result),
        "is_error": result.get("status") == "error",
    }
    count = sum(each.call == call for each in before)
    return NamedMessage(
        ShadowMessage(f"{name}{RESULT_MARK}{call}{f'~{count + 1}' if count else ''}", message), [block], call
    )


def _read_media(kind: str, media: Mapping[str, Any]) -> ContentPart:
    """An image or a document: its bytes, or a line that names it if Strands has only its location."""
    data = (media.get("source") or {}).get("bytes")
    if not isinstance(data, bytes):
        return _describe_media(kind, media)
    suffix = str(media.get("format") or "")
    if kind == "image":
        return image_block(data, f"image/{suffix}")
    return file_block(data, _MEDIA_TYPES.get(suffix), accept_text(str(media.get("name") or "")))


def _describe_media(kind: str, media: Mapping[str, Any]) -> Text:
    source = media.get("source") or {}
    where = (source.get("location") or {}).get("uri") or f"{len(source.get('bytes') or b'')} bytes"
    return Text(accept_text(f"[{kind}: {media.get('format', 'unknown')}, {where}]"))
