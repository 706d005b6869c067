"""Requests and replies of OpenAI's Chat Completions API, and of those that speak it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.gateway.bodies import UnreadableBody, decode, elements, is_array, members, read_string
from holdfast.gateway.dialects.elements import (
    Element,
    ElementCache,
    digest_value,
    drop_empty,
    get_text,
    is_blank,
    require_call,
    require_object,
)
from holdfast.gateway.dialects.heads import HeadPart, HeadPartCache
from holdfast.gateway.dialects.identity import read_identity
from holdfast.gateway.dialects.marks import Marks, add_marks, read_ttl, strip_marks
from holdfast.gateway.dialects.recent import OpenedBody
from holdfast.gateway.dialects.requests import assemble_request, read_flag, read_leading, read_whole
from holdfast.gateway.model import ClientPiece, ClientRequest, Draft, MessageRole, PieceKind, Slice

_ROLES: dict[str, MessageRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_PARTS: dict[str, PieceKind] = {
    "text": "text",
    "refusal": "other",
    "image_url": "other",
    "input_audio": "other",
    "file": "other",
}
_MEDIA = frozenset({"image_url", "input_audio", "file"})
"""What a summary cannot quote: it stays."""
_FREE: frozenset[str] = frozenset()
_REASONING = frozenset({"reasoning", "reasoning_content", "reasoning_details", "reasoning_items", "thinking_blocks"})
"""What a model thought. Many clients drop it from replies, or from older turns, so that it does not count."""
_UNSTABLE = _REASONING | frozenset(
    """
    annotations cache_control images index logprobs parsed prompt_cache_breakpoint provider_specific_fields
    """.split()
)
_UNSTABLE_IN_CALLS = frozenset({"index", "parsed_arguments", "cache_control"})
_RECORDED = frozenset({"content", "name", "refusal", "tool_calls", "function_call", "audio"}) | _REASONING
"""Fields of a message that the session records."""


def read_request(headers: Mapping[str, str], opened: OpenedBody) -> ClientRequest:
    """Read a request for a reply."""
    body, fields = opened.body, opened.fields
    if not is_array(body, fields.get("messages")):
        raise UnreadableBody("`messages` is not an array")
    array = fields["messages"]
    metadata = decode(body, fields["metadata"]) if "metadata" in fields else None
    head = [_HEADS.read(body, fields.get(name)) for name in ("tools", "functions", "response_format")]
    placed = opened.placed = _CACHE.read(body, opened.slots, opened.placed)
    max_output = read_whole(body, fields.get("max_completion_tokens")) or read_whole(body, fields.get("max_tokens"))
    retention = read_ttl(read_string(body, fields.get("prompt_cache_retention")))
    return assemble_request(
        dialect="chat",
        array=array,
        placed=placed,
        known=opened.known,
        identity=read_identity(headers, metadata, read_string(body, fields.get("prompt_cache_key"))),
        model=read_string(body, fields.get("model")),
        is_stream=read_flag(body, fields.get("stream")),
        side=_find_side(head, read_whole(body, fields.get("n"))),
        head=(*head, read_leading(placed)),
        marks=[(0, retention)],
        max_output=max_output,
    )


def _find_side(head: list[HeadPart], replies: int) -> str:
    if replies > 1:
        return "asks for several replies"
    return "" if head[0].count or head[1].count else "no tools"


def read_element(text: bytes) -> Element:
    """Read one message."""
    whole = Slice(0, len(text))
    value = require_object(decode(text, whole), "a message")
    role = _ROLES.get(get_text(value, "role"))
    if role is None:
        raise UnreadableBody("a message has no known role")
    digest = digest_value(canonical_message(value))
    fields = members(text, whole)
    marks = add_marks(Marks(), text, whole, value)
    if role == "tool":
        pieces, stays = [_read_result(whole, value, fields)], False
    else:
        pieces, stays = _read_content(text, value, fields)
        pieces += _read_calls(text, value, fields)
    return Element(
        role=role,
        pieces=tuple(pieces) or (ClientPiece(at=whole, kind="other"),),
        digest=digest,
        stays=stays or role == "system",
        marks=marks.number,
        ttl_s=marks.ttl_s,
        mark=marks.longest,
    )


def _read_result(whole: Slice, value: dict[str, Any], fields: dict[str, Slice]) -> ClientPiece:
    content = fields["content"] if type(value.get("content")) in (str, list) else None
    return ClientPiece(at=content or whole, kind="result", call=require_call(_call_of_result(value)), content=content)


def _call_of_result(value: dict[str, Any]) -> str:
    """The call that a message answers. The old format has no ids: there it is the name of the function."""
    return get_text(value, "tool_call_id") or get_text(value, "name")


def _read_content(text: bytes, value: dict[str, Any], fields: dict[str, Slice]) -> tuple[list[ClientPiece], bool]:
    """The pieces beside the calls, and whether one of them keeps the message where it is."""
    content = value.get("content")
    pieces: list[ClientPiece] = []
    stays = False
    if type(content) is str and content:
        pieces.append(ClientPiece(at=fields["content"], kind="text", content=fields["content"]))
    elif type(content) is list:
        for at, part in zip(elements(text, fields["content"]), content, strict=True):
            kind = get_text(part, "type")
            if is_blank(part):
                continue
            stays = stays or kind not in _PARTS or kind in _MEDIA
            words = members(text, at).get("text") if kind == "text" else None
            pieces.append(ClientPiece(at=at, kind=_PARTS.get(kind, "other"), content=words))
    for name, kind_of_field in (("refusal", "text"), ("audio", "other")):
        if value.get(name):
            pieces.append(ClientPiece(at=fields[name], kind="text" if kind_of_field == "text" else "other"))
    return pieces, stays


def _read_calls(text: bytes, value: dict[str, Any], fields: dict[str, Slice]) -> list[ClientPiece]:
    pieces = []
    if value.get("tool_calls"):
        for at, call in zip(elements(text, fields["tool_calls"]), value["tool_calls"], strict=True):
            pieces.append(ClientPiece(at=at, kind="call", call=get_text(call, "id")))
    if value.get("function_call"):
        pieces.append(
            ClientPiece(at=fields["function_call"], kind="call", call=get_text(value["function_call"], "name"))
        )
    return pieces


def canonical_message(value: dict[str, Any]) -> dict[str, Any]:
    """A message without what clients change on the way: a text is one part, and empty fields are gone."""
    fields: dict[str, Any] = {
        key: item
        for key, item in value.items()
        if key not in _UNSTABLE and item is not None and (item or key not in ("content", "tool_calls", "refusal"))
    }
    if "content" in fields:
        fields["content"] = _canonical_content(fields["content"])
        if not fields["content"]:
            del fields["content"]
    if "tool_calls" in fields:
        calls = fields["tool_calls"]
        if type(calls) is not list:
            raise UnreadableBody("`tool_calls` is not an array")
        fields["tool_calls"] = [_canonical_call(require_object(call, "a call")) for call in calls]
    if fields.get("function_call"):
        require_object(fields["function_call"], "`function_call`")
    if type(fields.get("audio")) is dict:  # a reply has its sound; a client sends its id back
        fields["audio"] = {"id": fields["audio"].get("id")}
    canonical: dict[str, Any] = drop_empty(fields, _FREE)
    return canonical


def _canonical_content(content: object) -> list[Any]:
    if type(content) is str:
        return [{"type": "text", "text": content}]
    if type(content) is not list:
        raise UnreadableBody("the content of a message is not a text and not an array")
    parts = [require_object(part, "a part") for part in content]
    for part in parts:
        if not get_text(part, "type") or (part["type"] == "text" and type(part.get("text")) is not str):
            raise UnreadableBody("a part has no type, or no text")
    return [
        {key: item for key, item in part.items() if key not in _UNSTABLE and item != []}
        for part in parts
        if not is_blank(part)
    ]


def _canonical_call(call: dict[str, Any]) -> dict[str, Any]:
    fields = {key: item for key, item in call.items() if key not in _UNSTABLE_IN_CALLS}
    if type(fields.get("function")) is dict:
        fields["type"] = "function"
        fields["function"] = {key: item for key, item in fields["function"].items() if key not in _UNSTABLE_IN_CALLS}
    return fields


def read_head(text: bytes) -> tuple[object, int, int, int]:
    """Read tools or a format of replies: its value, and its elements."""
    value = decode(text, Slice(0, len(text)))
    return value, len(value) if type(value) is list else int(value is not None), 0, 0


def build_drafts(values: list[Any]) -> list[Draft]:
    """The message as the session records it."""
    (value,) = values
    role = value["role"]
    content = value.get("content")
    if type(content) is list:
        content = [strip_marks(part) for part in content if not is_blank(part)]
    if _ROLES[role] == "tool":
        return [Draft({"role": "tool", "tool_call_id": _call_of_result(value), "content": content or ""}, (0,))]
    fields = {key: item for key, item in value.items() if key in _RECORDED and item}
    message = {"role": role, **fields, "content": content or ""}
    count = len(content) if type(content) is list else int(bool(content))
    count += sum(bool(value.get(name)) for name in ("refusal", "audio", "function_call"))
    count += len(value.get("tool_calls") or ())
    return [Draft(message, tuple(range(max(count, 1))))]


def reply_message(reply: dict[str, Any]) -> dict[str, Any]:
    """The message of a reply, as a client sends it back."""
    (choice,) = reply["choices"]
    return canonical_message({"role": "assistant", **choice["message"]})


def digest_message(canonical: dict[str, Any]) -> bytes:
    return digest_value(canonical)


_CACHE = ElementCache(read_element)
_HEADS = HeadPartCache(read_head)
