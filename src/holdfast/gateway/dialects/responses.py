"""Requests and replies of OpenAI's Responses API: items, of which those of one reply are one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast import providers
from holdfast.errors import HoldfastError
from holdfast.gateway.bodies import (
    UnreadableBody,
    decode,
    elements,
    is_array,
    is_string,
    members,
    read_string,
)
from holdfast.gateway.dialects.drafts import describe_values
from holdfast.gateway.dialects.elements import (
    Element,
    ElementCache,
    PlacedElement,
    build_message,
    digest_parts,
    digest_value,
    drop_empty,
    get_text,
    is_blank,
    require_call,
    require_object,
)
from holdfast.gateway.dialects.heads import HeadPart, HeadPartCache
from holdfast.gateway.dialects.identity import read_identity
from holdfast.gateway.dialects.marks import read_ttl
from holdfast.gateway.dialects.recent import OpenedBody
from holdfast.gateway.dialects.requests import assemble_request, read_flag, read_leading, read_whole
from holdfast.gateway.model import ClientPiece, ClientRequest, Draft, MessageRole, PieceKind, Slice
from holdfast.providers.fields import OPENAI, build_opaque
from holdfast.providers.openai import CALLS, HOSTED_ITEMS, OUTPUTS

_ROLES: dict[str, MessageRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_PARTS: dict[str, PieceKind] = {
    "input_text": "text",
    "input_image": "other",
    "input_file": "other",
    "input_audio": "other",
}
_MEDIA = frozenset({"input_image", "input_file", "input_audio"})
"""What a summary cannot quote: it stays."""
_WHOLE_ITEMS = frozenset(
    {"file_search_call", "web_search_call", "code_interpreter_call", "image_generation_call", "mcp_call"}
)
"""Items of tools that the provider runs, which may leave with their reply. Others stay, such as a compaction, or a list of
tools."""
_TEXT_OUTPUTS = OUTPUTS - {"computer_call_output", "shell_call_output"}
"""Results whose `output` may be a text."""
_FREE = frozenset({"arguments", "input"})
_UNSTABLE = frozenset(
    """
    annotations created_by id internal_chat_message_metadata_passthrough logprobs parsed parsed_arguments
    prompt_cache_breakpoint provider_data status
    """.split()
)
"""Fields that clients add and drop, and that no model sees: with `store: false`, also the ids of items. Codex adds the turn
of an item."""
_SEARCH_FIELDS = frozenset({"type", "query", "url", "pattern"})
"""What clients keep of a search of the web."""
_STATE = ("previous_response_id", "conversation")
"""Fields by which the provider adds what it has stored: the request does not have all messages."""


def read_request(headers: Mapping[str, str], opened: OpenedBody) -> ClientRequest:
    """Read a request for a reply."""
    body, fields = opened.body, opened.fields
    array = fields.get("input")
    if array is None or not (is_array(body, array) or is_string(body, array)):
        raise UnreadableBody("`input` is not an array and not a text")
    metadata = decode(body, fields["metadata"]) if "metadata" in fields else None
    head = [_HEADS.read(body, fields.get(name)) for name in ("tools", "instructions", "prompt", "text")]
    placed = opened.placed = _CACHE.read(body, opened.slots, opened.placed)
    if not is_array(body, array):
        placed = [_read_text(body, array)]
    retention = read_ttl(read_string(body, fields.get("prompt_cache_retention")))
    return assemble_request(
        dialect="responses",
        array=array,
        placed=placed,
        known=opened.known,
        identity=read_identity(headers, metadata, read_string(body, fields.get("prompt_cache_key"))),
        model=read_string(body, fields.get("model")),
        is_stream=read_flag(body, fields.get("stream")),
        side=_find_side(body, fields, head[0], placed),
        head=(*head, read_leading(placed)),
        marks=[(0, retention)],
        max_output=read_whole(body, fields.get("max_output_tokens")),
    )


def _find_side(body: bytes, fields: dict[str, Slice], tools: HeadPart, placed: list[PlacedElement]) -> str:
    if any(name in fields and not body.startswith(b"null", fields[name].start) for name in _STATE):
        return "continues a state at the provider"
    if read_flag(body, fields.get("background")):
        return "runs in the background"
    if any(each.element.is_reference for each in placed):
        return "refers to items at the provider"
    return "" if tools.count or any(each.element.has_tools for each in placed) else "no tools"


def _read_text(body: bytes, at: Slice) -> PlacedElement:
    """The only message of a request whose input is a text."""
    canonical = canonical_item({"role": "user", "content": read_string(body, at)})
    whole = Slice(0, at.end - at.start)
    piece = ClientPiece(at=whole, kind="text", content=whole)
    element = Element(role="user", pieces=(piece,), digest=digest_value(canonical))
    return PlacedElement(element, build_message(at, element))


def read_element(text: bytes) -> Element:
    """Read one item."""
    whole = Slice(0, len(text))
    value = require_object(decode(text, whole), "an item")
    kind = _kind_of(value)
    digest = digest_value(canonical_item(value))
    if kind == "message":
        return _read_message(text, value, digest)
    call = _call_of(value)
    if kind in OUTPUTS:
        output = members(text, whole).get("output") if kind in _TEXT_OUTPUTS else None
        content = output if type(value.get("output")) in (str, list) else None
        piece = ClientPiece(at=whole, kind="result", call=require_call(call), content=content)
        return Element(role="tool", pieces=(piece,), digest=digest)
    if _is_reply_item(kind):
        is_known = kind in CALLS or kind in _WHOLE_ITEMS or kind == "reasoning"
        piece_kind: PieceKind = "call" if kind in CALLS else "reasoning" if kind == "reasoning" else "other"
        piece = ClientPiece(at=whole, kind=piece_kind, call=call if kind in CALLS else "")
        return Element(role="assistant", pieces=(piece,), digest=digest, joins=True, stays=not is_known)
    piece = ClientPiece(at=whole, kind="other")
    is_reference = kind == "item_reference"
    return Element(
        role="user",
        pieces=(piece,),
        digest=digest,
        stays=True,
        is_reference=is_reference,
        has_tools=kind == "additional_tools",
    )


def _kind_of(value: dict[str, Any]) -> str:
    """The type of an item; a message need not name it."""
    kind = get_text(value, "type") or ("message" if "role" in value else "")
    if not kind:
        raise UnreadableBody("an item has no type")
    return kind


def _is_reply_item(kind: str) -> bool:
    """Whether a model or the provider made an item that is no message. That holds for unknown calls, too."""
    return kind in CALLS or kind in HOSTED_ITEMS or kind.endswith("_call")


def _call_of(value: dict[str, Any]) -> str:
    """The id of the call that an item makes or answers. The output of a local shell may have it in `id`."""
    own = get_text(value, "id") if value.get("type") == "local_shell_call_output" else ""
    return get_text(value, "call_id") or own


def _read_message(text: bytes, value: dict[str, Any], digest: bytes) -> Element:
    whole = Slice(0, len(text))
    role = _ROLES.get(get_text(value, "role"))
    if role is None:
        raise UnreadableBody("a message has no known role")
    at, content = members(text, whole)["content"], value["content"]
    if role == "assistant":
        piece = ClientPiece(at=whole, kind="text", content=_find_text(text, at, content))
        return Element(role=role, pieces=(piece,), digest=digest, joins=True)
    if type(content) is str:
        pieces = [ClientPiece(at=at, kind="text", content=at)] if content else []
        stays = False
    else:
        pieces, stays = _read_parts(text, at, content)
    pieces = pieces or [ClientPiece(at=whole, kind="other")]
    return Element(role=role, pieces=tuple(pieces), digest=digest, stays=stays or role == "system")


def _find_text(text: bytes, at: Slice, content: Any) -> Slice | None:
    """The text of a message of the model, if it is one text."""
    if type(content) is str:
        return at
    slots = elements(text, at)
    return members(text, slots[0]).get("text") if len(slots) == 1 else None


def _read_parts(text: bytes, at: Slice, content: list[Any]) -> tuple[list[ClientPiece], bool]:
    pieces = []
    stays = False
    for place, part in zip(elements(text, at), content, strict=True):
        if is_blank(part):
            continue
        kind = get_text(part, "type")
        stays = stays or kind not in _PARTS or kind in _MEDIA
        words = members(text, place).get("text") if kind == "input_text" else None
        pieces.append(ClientPiece(at=place, kind=_PARTS.get(kind, "other"), content=words))
    return pieces, stays


def canonical_item(value: dict[str, Any]) -> dict[str, Any]:
    """An item without what clients change on the way: ids, states, and fields that are empty."""
    kind = _kind_of(value)
    if kind == "reasoning" and get_text(value, "encrypted_content"):  # its summary is for people
        return {"type": kind, "encrypted_content": value["encrypted_content"]}
    fields: dict[str, Any] = {
        key: item for key, item in value.items() if key not in _UNSTABLE and item is not None and item != []
    }
    fields["type"] = kind
    if kind in OUTPUTS:
        fields["call_id"] = _call_of(value)
    if kind == "message":
        fields["content"] = _canonical_content(value.get("content"), get_text(value, "role"))
    elif kind in OUTPUTS and "output" in fields and type(fields["output"]) in (str, list):
        fields["output"] = _canonical_output(fields["output"])
    elif kind == "web_search_call" and type(fields.get("action")) is dict:
        fields["action"] = {key: item for key, item in fields["action"].items() if key in _SEARCH_FIELDS}
    canonical: dict[str, Any] = drop_empty(fields, _FREE)
    return canonical


def _canonical_content(content: object, role: str) -> list[Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    if type(content) is str:
        return [{"type": kind, "text": content}] if content else []
    if type(content) is not list:
        raise UnreadableBody("the content of a message is not a text and not an array")
    return [_canonical_part(require_object(part, "a part")) for part in content if not is_blank(part)]


def _canonical_output(output: Any) -> list[Any]:
    """What a tool returned. A list that has one text is compared with the plain text."""
    if type(output) is str:
        return [{"type": "input_text", "text": output}] if output else []
    return [_canonical_part(part) if type(part) is dict else part for part in output if not is_blank(part)]


def _canonical_part(part: dict[str, Any]) -> dict[str, Any]:
    if not get_text(part, "type") or ("text" in part["type"] and type(part.get("text")) is not str):
        raise UnreadableBody("a part has no type, or no text")
    return {key: item for key, item in part.items() if key not in _UNSTABLE and item != []}


def read_head(text: bytes) -> tuple[object, int, int, int]:
    """Read tools, instructions or a format of replies: its value, and its elements."""
    value = decode(text, Slice(0, len(text)))
    return value, len(value) if type(value) is list else int(value is not None), 0, 0


def build_drafts(values: list[Any]) -> list[Draft]:
    """The item, or the items of a reply, as the session records them."""
    first = values[0]
    if type(first) is str:
        return [Draft({"role": "user", "content": first}, (0,))]
    kind = _kind_of(first)
    if kind == "message" and first.get("role") != "assistant":
        content = first["content"]
        if type(content) is list:
            content = [part for part in content if not is_blank(part)]
        count = len(content) if type(content) is list else 1
        return [Draft({"role": first["role"], "content": content}, tuple(range(max(count, 1))))]
    pieces = tuple(range(len(values)))
    try:
        return [Draft(_read_items(values), pieces)]
    except (HoldfastError, TypeError, ValueError, RecursionError):
        role = "tool" if kind in OUTPUTS else "assistant" if kind == "message" or _is_reply_item(kind) else "user"
        return [Draft(describe_values(role, _call_of(first) if role == "tool" else None, values), pieces)]


def _read_items(values: list[Any]) -> dict[str, Any]:
    """The items as a message, with all that a provider needs back."""
    kind = _kind_of(values[0])
    if kind not in OUTPUTS and not _is_reply_item(kind) and kind != "message":
        return {"role": "user", "content": [build_opaque(OPENAI, values[0])]}
    (draft,) = providers.read_all([{**value, "type": _kind_of(value)} for value in values])
    if draft.tool_results:
        (result,) = draft.tool_results
        message = {"role": "tool", "tool_call_id": result.call, "content": result.content}
        return {**message, "is_error": True} if result.is_error else message
    message = {"role": draft.role, "content": draft.content}
    if draft.tool_calls:
        message["tool_calls"] = [_show_call(call) for call in draft.tool_calls]
    return message


def _show_call(call: providers.CallDraft) -> dict[str, Any]:
    arguments = {"args": call.args} if call.raw is None else {"arguments": call.raw}
    return {"name": call.name, **arguments, "id": call.provider_id}


def reply_message(reply: dict[str, Any]) -> dict[str, Any]:
    """The message of a reply, as a client sends it back."""
    items = [canonical_item(require_object(item, "an item")) for item in reply["output"]]
    return {"role": "assistant", "items": items}


def digest_message(canonical: dict[str, Any]) -> bytes:
    return digest_parts([b"reply", *map(digest_value, canonical["items"])])


_CACHE = ElementCache(read_element)
_HEADS = HeadPartCache(read_head)
