"""Requests and replies of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.gateway.bodies import UnreadableBody, decode, elements, is_array, is_string, members, read_string
from holdfast.gateway.dialects.elements import (
    Element,
    ElementCache,
    digest_value,
    drop_empty,
    get_text,
    is_blank,
    normalize_numbers,
    require_call,
    require_object,
)
from holdfast.gateway.dialects.heads import HeadPartCache
from holdfast.gateway.dialects.identity import read_identity
from holdfast.gateway.dialects.marks import Marks, add_marks, read_mark, strip_marks
from holdfast.gateway.dialects.recent import OpenedBody
from holdfast.gateway.dialects.requests import assemble_request, read_flag, read_whole
from holdfast.gateway.model import ClientPiece, ClientRequest, Draft, MessageRole, PieceKind, Slice

_ROLES: dict[str, MessageRole] = {"user": "user", "assistant": "assistant", "system": "system"}
_KINDS: dict[str, PieceKind] = {
    "text": "text",
    "tool_use": "call",
    "tool_result": "result",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
}
_WHOLE_BLOCKS = frozenset(
    """
    image document search_result server_tool_use mcp_tool_use mcp_tool_result web_search_tool_result
    web_fetch_tool_result code_execution_tool_result bash_code_execution_tool_result
    text_editor_code_execution_tool_result
    """.split()
)
"""Blocks that may leave with their message. Others stay: what a block of a newer API does is not known, and some change
what comes later, such as a compaction or the definition of a tool."""
_MEDIA = frozenset({"image", "document"})
"""What a summary cannot quote. If the user sent it, it stays; what came with the result of a tool can be had again."""
_FREE = frozenset({"input"})
_UNSTABLE = frozenset({"cache_control", "caller", "index", "parsed_output"})
"""Fields of a block that clients add and drop, and that no model sees."""
_BILLING = "x-anthropic-billing-header:"
"""The first system block of Claude Code. It changes with the first prompt, while the marked blocks behind it are read
from the cache by other sessions: so the provider takes it out before it caches, and it is no part of the head."""


def read_request(headers: Mapping[str, str], opened: OpenedBody) -> ClientRequest:
    """Read a request for a reply."""
    body, fields = opened.body, opened.fields
    if not is_array(body, fields.get("messages")):
        raise UnreadableBody("`messages` is not an array")
    array = fields["messages"]
    metadata = decode(body, fields["metadata"]) if "metadata" in fields else None
    tools, system = _HEADS.read(body, fields.get("tools")), _HEADS.read(body, fields.get("system"))
    marks = [(each.marks, each.ttl_s) for each in (tools, system)]
    automatic = read_mark(body, fields.get("cache_control"))
    opened.placed = _CACHE.read(body, opened.slots, opened.placed)
    max_output = read_whole(body, fields.get("max_tokens"))
    return assemble_request(
        dialect="anthropic",
        array=array,
        placed=opened.placed,
        known=opened.known,
        identity=read_identity(headers, metadata),
        model=read_string(body, fields.get("model")),
        is_stream=read_flag(body, fields.get("stream")),
        side=_find_side(body, fields, tools.count, max_output),
        head=(tools, system),
        marks=marks,
        last_mark=automatic,
        max_output=max_output,
    )


def _find_side(body: bytes, fields: dict[str, Slice], tools: int, max_output: int) -> str:
    if "thread" in fields and not body.startswith(b"null", fields["thread"].start):
        return (
            "has its conversation at the provider"  # also the first request: later ones send neither messages nor tools
        )
    if "max_tokens" not in fields:
        return "counts tokens"
    if not max_output:
        return "asks for no output"
    return "" if tools else "no tools"


def read_element(text: bytes) -> Element:
    """Read one message."""
    whole = Slice(0, len(text))
    value = require_object(decode(text, whole), "a message")
    role = _ROLES.get(get_text(value, "role"))
    if role is None:
        raise UnreadableBody("a message has no known role")
    canonical = canonical_message(value)
    at = members(text, whole)["content"]
    if is_string(text, at):
        pieces = [ClientPiece(at=at, kind="text", content=at)]
        return Element(role=role, pieces=tuple(pieces), digest=digest_value(canonical), stays=role == "system")
    pieces, stays, marks = [], role == "system", Marks()
    for place, block in zip(elements(text, at), value["content"], strict=True):
        marks = add_marks(marks, text, place, block)
        if not is_blank(block):
            stays = stays or _stays(block)
            pieces.append(_read_piece(text, place, block))
    if role == "user" and not any(piece.kind == "result" for piece in pieces):
        stays = stays or any(get_text(block, "type") in _MEDIA for block in value["content"])
    pieces = pieces or [ClientPiece(at=whole, kind="other")]
    digest = digest_value(canonical)
    return Element(
        role=role,
        pieces=tuple(pieces),
        digest=digest,
        stays=stays,
        marks=marks.number,
        ttl_s=marks.ttl_s,
        mark=marks.longest,
    )


def canonical_message(value: dict[str, Any]) -> dict[str, Any]:
    """A message without what clients change on the way: a text is one text block, and marks and empty fields are gone."""
    return {"role": value.get("role"), "content": _canonical_content(value.get("content"))}


def _canonical_content(content: object) -> list[Any]:
    if type(content) is str:
        return [{"type": "text", "text": content}]
    if type(content) is not list:
        raise UnreadableBody("the content of a message is not a text and not an array")
    blocks = [require_object(block, "a block") for block in content]
    return [_canonical_block(block) for block in blocks if not is_blank(block)]


def _canonical_block(block: dict[str, Any]) -> dict[str, Any]:
    kind = get_text(block, "type")
    if not kind:
        raise UnreadableBody("a block has no type")
    fields: dict[str, Any] = drop_empty(
        {key: item for key, item in block.items() if key not in _UNSTABLE and key != "content"}, _FREE
    )
    if fields.get("citations") == []:
        del fields["citations"]
    if fields.get("is_error") is False:
        del fields["is_error"]
    content = block.get("content")
    if kind == "tool_result":
        fields["content"] = _canonical_result(content)
    elif content is not None:
        fields["content"] = _drop_marks(drop_empty(content, _FREE))
    return fields


def _canonical_result(content: object) -> Any:
    """What a tool returned. Blocks of text are compared with a plain text."""
    if content is None or content == "":
        return []
    if type(content) is str or type(content) is list:
        return _canonical_content(content)
    return normalize_numbers(content)


def _drop_marks(content: Any) -> Any:
    """The content of a result of the provider, without marks on its blocks."""
    if type(content) is not list:
        return content
    return [
        {key: item for key, item in each.items() if key not in _UNSTABLE} if type(each) is dict else each
        for each in content
    ]


def _stays(block: dict[str, Any]) -> bool:
    kind = get_text(block, "type")
    if kind == "tool_result" and type(block.get("content")) is list:
        return any(type(each) is dict and each.get("type") == "tool_reference" for each in block["content"])
    return kind not in _KINDS and kind not in _WHOLE_BLOCKS


def _read_piece(text: bytes, at: Slice, block: dict[str, Any]) -> ClientPiece:
    kind = _KINDS.get(get_text(block, "type"), "other")
    if kind == "call":
        return ClientPiece(at=at, kind=kind, call=get_text(block, "id"))
    if kind == "result":
        content = None if _stays(block) or block.get("content") is None else members(text, at)["content"]
        return ClientPiece(at=at, kind=kind, call=require_call(get_text(block, "tool_use_id")), content=content)
    if kind == "text":
        if type(block.get("text")) is not str:
            raise UnreadableBody("a text block has no text")
        return ClientPiece(at=at, kind=kind, content=members(text, at)["text"])
    return ClientPiece(at=at, kind=kind)


def read_head(text: bytes) -> tuple[object, int, int, int]:
    """Read tools or a system prompt: what of it the provider caches, its elements, its marks and their longest time."""
    whole = Slice(0, len(text))
    value = decode(text, whole)
    if type(value) is not list:
        return value, int(value is not None), 0, 0
    marks = Marks()
    for place, block in zip(elements(text, whole), value, strict=True):
        if type(block) is dict:
            marks = add_marks(marks, text, place, block)
    kept = [strip_marks(block) for block in value if not _is_billing(block)]
    return kept, len(value), marks.number, marks.ttl_s


def _is_billing(block: object) -> bool:
    return type(block) is dict and get_text(block, "text").startswith(_BILLING)


def build_drafts(values: list[Any]) -> list[Draft]:
    """The message as the session records it: each result of a tool by itself, and all else together."""
    (value,) = values
    role, content = value["role"], value["content"]
    if type(content) is str:
        return [Draft({"role": role, "content": content}, (0,))]
    blocks = [strip_marks(block) for block in content if not is_blank(block)]
    if not blocks:
        return [Draft({"role": role, "content": ""}, (0,))]
    if role != "user":
        return [Draft({"role": role, "content": blocks}, tuple(range(len(blocks))))]
    drafts, rest = [], []
    for number, block in enumerate(blocks):
        if get_text(block, "type") == "tool_result":
            drafts.append(Draft(_build_result(block), (number,)))
        else:
            rest.append(number)
    if rest:
        drafts.append(Draft({"role": role, "content": [blocks[number] for number in rest]}, tuple(rest)))
    return drafts


def _build_result(block: dict[str, Any]) -> dict[str, Any]:
    content = block.get("content")
    if type(content) is list:
        content = [strip_marks(each) for each in content]
    result = {"role": "tool", "tool_call_id": get_text(block, "tool_use_id"), "content": content or ""}
    return {**result, "is_error": True} if block.get("is_error") is True else result


def reply_message(reply: dict[str, Any]) -> dict[str, Any]:
    """The message of a reply, as a client sends it back."""
    return canonical_message({"role": "assistant", "content": reply.get("content")})


def digest_message(canonical: dict[str, Any]) -> bytes:
    return digest_value(canonical)


_CACHE = ElementCache(read_element)
_HEADS = HeadPartCache(read_head)
