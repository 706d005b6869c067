"""Messages of Pydantic AI as messages of a session, and back.

A `ModelRequest` has parts of several speakers: each part becomes a message of its own. A `ModelResponse` becomes one.

System prompts are no messages of the session: they belong to the agent, and change with it.

Laws: every message converts; what a session would refuse is reduced to its text. How the framework groups parts into
requests does not matter. `restore_response` and `restore_result` give back what was converted: text, calls, and the parts
that only a provider reads, such as signed reasoning.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ERROR_OUTCOMES,
    BaseToolReturnPart,
    BinaryContent,
    CachePoint,
    CompactionPart,
    FilePart,
    FileUrl,
    ImageUrl,
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    RetryFeedbackPart,
    RetryPromptPart,
    SpeechPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from holdfast import codec
from holdfast.errors import HoldfastError
from holdfast.frameworks.shadows import ShadowMessage
from holdfast.model.content import Opaque, Text, ToolCall
from holdfast.model.sessions.messages import Message
from holdfast.providers.messages import read_message
from holdfast.types import shorten_name

_ARGUMENTS_CHARS = 200_000
"""The most characters of the arguments in a reply, all together."""
ISSUER = "pydantic-ai"
"""Of the opaque parts: reasoning, files of models, and calls of tools that a provider runs."""
_RESPONSE_PARTS: TypeAdapter[ModelResponsePart] = TypeAdapter(
    ModelResponsePart, config={"ser_json_bytes": "base64", "val_json_bytes": "base64"}
)
_TOOL_MARK = "t"


class Piece(NamedTuple):
    """A message of a session, and the parts of the framework's message that it was converted from."""

    fields: dict[str, Any]
    numbers: tuple[int, ...]
    """The positions of its parts."""
    base: str
    """A digest of its role and content."""

    @property
    def call_id(self) -> str | None:
        """Of a result: the call that it answers."""
        call: str | None = self.fields.get("tool_call_id")
        return call


class ListedPiece(NamedTuple):
    """A piece of a list of messages: its position in the list, and its name in the session."""

    position: int
    piece: Piece
    shadow: ShadowMessage


def convert_message(message: ModelMessage) -> tuple[Piece, ...]:
    """The messages of a session for one of the framework."""
    if isinstance(message, ModelResponse):
        return (_build_piece(_read_response(message), tuple(range(len(message.parts)))),)
    read = ((number, _read_request_part(part)) for number, part in enumerate(message.parts))
    return tuple(_build_piece(fields, (number,)) for number, fields in read if fields is not None)


def name_pieces(
    converted: Iterable[Sequence[Piece]],
    known: Sequence[str] = (),
    *,
    continues: bool = False,
    before: Mapping[str, int] | None = None,
) -> list[ListedPiece]:
    """Name the pieces of a list, from their content and from how often it came before.

    `known` has the names in the session, if the list may begin later than the session does: it is then counted from the
    position where the end of the session and the beginning of the list agree. With `continues`, the list has nothing of the
    session but perhaps its end. `before` says instead how often each content came before: see count_before()."""
    pieces = [(index, piece) for index, each in enumerate(converted) for piece in each]
    counts = dict(_count_pieces(pieces, known, continues=continues) if before is None else before)
    listed: list[ListedPiece] = []
    for index, piece in pieces:
        counts[piece.base] = number = counts.get(piece.base, 0) + 1
        name = piece.base if number == 1 else f"{piece.base}-{number}"
        shadow = ShadowMessage(name, piece.fields)
        shadow.digest = piece.base[1:]  # of the same fields
        listed.append(ListedPiece(index, piece, shadow))
    return listed


def count_before(converted: Iterable[Sequence[Piece]], known: Sequence[str]) -> dict[str, int]:
    """How often each content comes in the session before a list that goes on from its end. For name_pieces()."""
    pieces = [(index, piece) for index, each in enumerate(converted) for piece in each]
    return _count_pieces(pieces, known, continues=True)


def _count_pieces(pieces: Sequence[tuple[int, Piece]], known: Sequence[str], *, continues: bool) -> dict[str, int]:
    last = pieces[-1][0] if pieces else 0
    spoken = [(index < last, piece.base) for index, piece in pieces if piece.call_id is None]
    return _count_before(spoken, known, continues=continues)


def _count_before(spoken: Sequence[tuple[bool, str]], known: Sequence[str], *, continues: bool) -> dict[str, int]:
    """How often each message comes in the session before the list begins. Results are not compared: those that a tool
    recorded have no name.

    `spoken` says of each message whether it is before the last request. If all of those are the end of the session, the
    list goes on from there, even if it might also be the beginning of the session, said again."""
    listed = [base for _, base in spoken]
    stored = [name.partition("-")[0] for name in known if not name.startswith(_TOOL_MARK)]
    overlap = _find_overlap(stored, listed)
    if not continues and (
        not overlap or (overlap < sum(is_before for is_before, _ in spoken) and _begins(stored, listed))
    ):
        return {}
    counts: dict[str, int] = {}
    for base in stored[: len(stored) - overlap]:
        counts[base] = counts.get(base, 0) + 1
    return counts


def _begins(stored: Sequence[str], listed: Sequence[str]) -> bool:
    return stored[: len(listed)] == listed


def _find_overlap(stored: Sequence[str], listed: Sequence[str]) -> int:
    """The length of the longest end of `stored` that `listed` begins with. (Knuth, Morris, Pratt.)"""
    if not listed:
        return 0
    border = [0] * len(listed)
    length = 0
    for at in range(1, len(listed)):
        while length and listed[at] != listed[length]:
            length = border[length - 1]
        length += listed[at] == listed[length]
        border[at] = length
    length = 0
    for each in stored:
        while length and (length == len(listed) or each != listed[length]):
            length = border[length - 1]
        length += each == listed[length]
    return length


def _build_piece(fields: dict[str, Any], numbers: tuple[int, ...]) -> Piece:
    content = fields["content"]
    if not isinstance(content, str) and any(part["type"] != "text" for part in content):
        try:
            read_message(fields)
        except (HoldfastError, RecursionError):
            fields = _reduce(fields)
    mark = _TOOL_MARK if fields["role"] == "tool" else str(fields["role"])[0]
    return Piece(fields, numbers, mark + ShadowMessage("", fields).digest)


def _reduce(fields: dict[str, Any]) -> dict[str, Any]:
    """What of a message is recorded in any case: its role, its text and its calls."""
    kept: dict[str, Any] = {name: fields[name] for name in ("role", "tool_call_id", "is_error") if name in fields}
    content = fields.get("content")
    if not isinstance(content, str):
        texts = [part.get("text") for part in content or () if isinstance(part, dict)]
        content = "\n".join(text for text in texts if isinstance(text, str))
    kept["content"] = content
    if calls := fields.get("tool_calls"):
        kept["tool_calls"] = calls
    return kept


# Requests


def _read_request_part(part: object) -> dict[str, Any] | None:
    """A part of a request; None if it is none of the conversation: a system prompt, or how instructions, tools or settings
    changed."""
    match part:
        case UserPromptPart():
            return {"role": "user", "content": _read_content(part.content)}
        case BaseToolReturnPart():
            return _read_tool_return(part)
        case RetryPromptPart() if part.tool_name is not None:
            return _build_result(part.tool_call_id, clean(part.model_response()), is_error=True)
        case RetryPromptPart() | RetryFeedbackPart():
            return {"role": "user", "content": clean(part.model_response())}
        case SpeechPart() | CompactionPart():
            text = part.content if isinstance(part, CompactionPart) else part.transcript
            return {"role": "user", "content": clean(text or "")} if text else None
    return None


def _read_tool_return(part: BaseToolReturnPart[Any]) -> dict[str, Any]:
    return _build_result(part.tool_call_id, describe_return(part), is_error=part.outcome in ERROR_OUTCOMES)


def describe_return(part: BaseToolReturnPart[Any]) -> Any:
    """What a tool returned, as a session records it: text, and images and files."""
    text = clean(part.model_response_str(wrap_if_error=False))
    if not part.files:
        return text
    return [*([{"type": "text", "text": text}] if text else []), *map(_read_item, part.files)]


def _build_result(call_id: str, content: Any, *, is_error: bool) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name_call(call_id), "content": content, "is_error": is_error}


def _read_content(content: object) -> Any:
    if isinstance(content, str):
        return clean(content)
    items: Any = content
    return [_read_item(item) for item in items if not isinstance(item, CachePoint)]


def _read_item(item: object) -> dict[str, Any]:
    match item:
        case str():
            return {"type": "text", "text": clean(item)}
        case TextContent():
            return {"type": "text", "text": clean(item.content)}
        case ImageUrl():
            return {"type": "image_url", "image_url": {"url": clean(item.url)}}
        case BinaryContent():
            data = f"data:{clean(item.media_type)};base64,{base64.b64encode(item.data).decode()}"
            if item.is_image:
                return {"type": "image_url", "image_url": {"url": data}}
            return {"type": "file", "file": {"file_data": data, "filename": clean(item.identifier)}}
        case FileUrl():
            return {"type": "text", "text": f"[{type(item).__name__}: {clean(item.url)}]"}
        case UploadedFile():
            return {"type": "text", "text": f"[uploaded file: {clean(item.file_id)}]"}
    return {"type": "text", "text": clean(str(item))}


# Responses


def _read_response(message: ModelResponse) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            function = {"name": _name(part.tool_name, "tool"), "arguments": clean(part.args_as_json_str())}
            calls.append({"id": name_call(part.tool_call_id), "type": "function", "function": function})
        elif isinstance(part, TextPart):
            content += [{"type": "text", "text": clean(part.content)}] if part.content else []
        else:
            content += _read_own_part(part)
    _bound_arguments(calls)
    fields: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        fields["tool_calls"] = calls
    if usage := _read_usage(message.usage):
        fields["usage"] = usage
    return fields


def _bound_arguments(calls: Sequence[dict[str, Any]]) -> None:
    """Shorten arguments that are too large for a session. The framework's own object has them whole."""
    most = _ARGUMENTS_CHARS // max(len(calls), 1)
    for call in calls:
        arguments = call["function"]["arguments"]
        if len(arguments) > most:
            call["function"]["arguments"] = json.dumps({"shortened": arguments[: most // 10]}, ensure_ascii=False)


def _read_own_part(part: ModelResponsePart) -> list[dict[str, Any]]:
    """A part that only a provider reads, as it is; and what others can read of it."""
    try:
        body = _RESPONSE_PARTS.dump_json(part).decode()
    except (ValueError, RecursionError):
        body = json.dumps({"part_kind": part.part_kind})
    own = {"type": "opaque", "issuer": ISSUER, "body": body}
    if isinstance(part, FilePart):
        return [own, {"type": "text", "text": f"[{clean(part.content.media_type)}, {len(part.content.data)} bytes]"}]
    if isinstance(part, SpeechPart) and part.transcript:
        return [own, {"type": "text", "text": clean(part.transcript)}]
    return [own]


def _read_usage(usage: RequestUsage) -> dict[str, int]:
    figures = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.output_reasoning_tokens,
    }
    return {name: value for name, value in figures.items() if type(value) is int and value > 0}


# Back


def restore_response(message: Message, calls: Sequence[ToolCall] | None = None) -> ModelResponse:
    """A reply of the session as a response: of a run whose objects are gone."""
    parts: list[ModelResponsePart] = []
    skip = False
    for part in message.content:
        if skip:
            skip = False
            continue
        if isinstance(part, Opaque):
            own = _restore_own_part(part)
            parts += [own] if own is not None else []
            skip = isinstance(own, FilePart | SpeechPart)  # the text behind it is for others
        elif isinstance(part, Text):
            parts.append(TextPart(part.text))
    shown = message.tool_calls if calls is None else calls
    parts += (restore_call(call) for call in shown)
    return ModelResponse(parts=parts, timestamp=message.at)


def restore_call(call: ToolCall) -> ToolCallPart:
    """A tool call as a part."""
    text = call.raw
    if text is None:
        text = call.args if isinstance(call.args, str) else codec.encode(call.args).decode()
    return ToolCallPart(call.name, text, tool_call_id=call.provider_id or call.id)


def restore_result(message: Message, call: ToolCall, text: str, *, is_error: bool) -> ToolReturnPart:
    """The result of a call as a part."""
    return ToolReturnPart(
        call.name,
        text,
        tool_call_id=call.provider_id or call.id,
        timestamp=message.at,
        outcome="failed" if is_error else "success",
    )


def _restore_own_part(part: Opaque) -> ModelResponsePart | None:
    if part.issuer != ISSUER or not isinstance(part.body, str):
        return None
    try:
        return _RESPONSE_PARTS.validate_json(part.body)
    except ValueError:
        return None


# Texts and names


def clean(text: str) -> str:
    """The text, with a replacement character for each half of a surrogate pair that stands alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def name_call(call_id: str) -> str:
    """The id of a call in the session: that of the framework, without control characters."""
    return _name(call_id, "call")


def _name(text: str, default: str) -> str:
    return shorten_name("".join(each for each in clean(text) if each.isprintable()) or default)
