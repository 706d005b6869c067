"""Read replies and contents of Gemini.

A part of Gemini has no type: its fields say what it is. A part that Holdfast has no part for is kept whole, with a type
before it: `{"type": "thought", "thought": true, "text": …}`. Fields have the names of the Python client, as in
`thought_signature`; the names of the REST API are read too. Bytes are kept as base64.

Laws: a signature stays with the part that it came on. A call without an id is named after its tool, so that a result
without an id finds it: "find", then "find#2" in the same content. The position of every call is kept.
"""

from __future__ import annotations

import re
from typing import Any

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model.content import Data, Source, Text
from holdfast.model.sessions.messages import MessageDraft, ResultDraft
from holdfast.providers.fields import (
    GOOGLE,
    WireReader,
    build_opaque,
    get_name,
    get_text,
    invalid_message,
    read_arguments,
    read_fields,
    read_list,
    require_fields,
    require_text,
)
from holdfast.providers.messages import ReplyBuilder, result_in_reply_error
from holdfast.providers.parts import DraftPart, build_shell, decode_inline
from holdfast.providers.usage import read_gemini_usage

RESPONSE_FIELDS = frozenset({"candidates", "prompt_feedback", "promptFeedback", "usage_metadata", "usageMetadata"})
"""A response has at least one of these."""
CONTENT_FIELDS = frozenset({"role", "parts"})
ROLES = {"model": "assistant", "user": "user", "system": "system", "function": "user", None: "user"}
"""The roles of contents, as those of messages."""
FREE_FIELDS = frozenset({"args", "response", "part_metadata"})
"""Fields whose content is data of an application, whatever its names."""
KINDS = ("function_call", "function_response", "inline_data", "file_data", "executable_code", "code_execution_result")
"""The fields that say what a part is, beside text."""
OUTPUT_FIELDS = ("output", "result")
"""The field of a response that has nothing but what the tool returned."""
_UPPER = re.compile(r"(?<=[a-z0-9])[A-Z]")


def snake_case(name: str) -> str:
    """The name of a field in the Python client: thoughtSignature is thought_signature."""
    return _UPPER.sub(lambda match: f"_{match[0].lower()}", name)


def snake_fields(value: dict[str, Any]) -> dict[str, Any]:
    """The fields of an object that are not empty, by their names in the Python client."""
    return {snake_case(key): item for key, item in value.items() if item is not None}


def is_response(value: dict[str, Any]) -> bool:
    """Whether this is a response, or a piece of one."""
    return not RESPONSE_FIELDS.isdisjoint(value)


def is_content(value: dict[str, Any]) -> bool:
    """Whether this is a content: a role and parts, and nothing else."""
    return "parts" in value and CONTENT_FIELDS.issuperset(value)


def read_response(value: dict[str, Any]) -> tuple[MessageDraft, ...]:
    """Read a response with one candidate. A prompt that was blocked has none."""
    response = snake_fields(value)
    candidates = read_list(response.get("candidates"), "'candidates'")
    if len(candidates) > 1:
        raise invalid_message(f"the response has {len(candidates)} candidates: pass the content of one of them")
    candidate = snake_fields(require_fields(candidates[0], "a candidate")) if candidates else {}
    stop = read_word(candidate, "finish_reason")
    if not candidates:
        stop = read_word(snake_fields(read_fields(response.get("prompt_feedback")) or {}), "block_reason")
    content = read_fields(candidate.get("content")) or {}
    reply = ReplyBuilder()
    if add_parts(reply, read_part_list(content.get("parts")), is_reply=True):
        raise result_in_reply_error()
    source = Source(GOOGLE, get_name(response, "model_version"), get_name(response, "response_id"), stop)
    usage = read_gemini_usage(snake_fields(read_fields(response.get("usage_metadata")) or {}))
    return (reply.build_draft(usage, source),)


def read_word(fields: dict[str, Any], key: str) -> str | None:
    """The text under this key, also of an enumeration; None if it is missing or no valid name."""
    value = fields.get(key)
    return get_name({key: str.__str__(value)}, key) if issubclass(type(value), str) else None


def read_content(value: dict[str, Any]) -> tuple[MessageDraft, ...]:
    """Read one content of a conversation. Function responses beside other parts become a message before it."""
    name = get_text(value, "role")
    if name not in ROLES or (name is None and value.get("role") is not None):
        raise invalid_message(f"{describe_value(value.get('role'))} is not the role of a content: pass user or model")
    reply = ReplyBuilder()
    results = add_parts(reply, read_part_list(value.get("parts")), is_reply=name == "model")
    role: Any = ROLES[name]
    content, calls = reply.content, reply.calls
    drafts = [MessageDraft(role="tool", tool_results=results)] if results else []
    if content or calls or not results:
        skipped = reply.skip_reason(None, content, calls) if role == "assistant" else None
        drafts.append(MessageDraft(role=role, content=content or (), tool_calls=calls, skipped=skipped))
    return tuple(drafts)


def read_part_list(parts: object) -> list[dict[str, Any]]:
    """The parts of a content, with the names of the Python client."""
    reader = WireReader(FREE_FIELDS, snake_case)
    copies: list[dict[str, Any]] = [reader.copy(require_fields(part, "a part")) for part in read_list(parts, "'parts'")]
    for copy in copies:
        signature = get_text({"signature": copy.pop("thought_signature", None)}, "signature")
        if signature:
            copy["thought_signature"] = signature.translate(_STANDARD_ALPHABET)
    return copies


def add_parts(reply: ReplyBuilder, parts: list[dict[str, Any]], *, is_reply: bool) -> tuple[ResultDraft, ...]:
    """Add the parts of a content to a reply. Returns the function responses among them."""
    results: list[ResultDraft] = []
    calls: dict[str, int] = {}
    answers: dict[str, int] = {}
    for number, part in enumerate(parts):
        try:
            if "function_response" in part:
                results.append(_read_result(part, answers))
            elif "function_call" in part:
                _add_call(reply, part, calls)
            else:
                reply.add(*_read_part(part, is_reply=is_reply))
        except InvalidArgument as error:
            raise InvalidArgument(argument=f"parts[{number}]", reason=error.reason) from error
    return tuple(results)


def _read_part(part: dict[str, Any], *, is_reply: bool = False) -> list[DraftPart]:
    if not part or part == {"text": "", "thought": True}:
        return []
    if part.get("thought") is True and "inline_data" not in part:
        return [build_opaque(GOOGLE, {**part, "type": "thought"})]
    if "text" in part:
        text = require_text(part, "text")
        outer = build_shell({**part, "type": "text"}, GOOGLE, "text", plain="text")
        return [*outer, Text(text)] if text or outer else []
    if "inline_data" in part:
        return _read_inline(part, is_reply=is_reply)
    kind = next((kind for kind in KINDS if kind in part), "part")
    return [build_opaque(GOOGLE, {**part, "type": kind})]


def _read_inline(part: dict[str, Any], *, is_reply: bool) -> list[DraftPart]:
    """Read an image or a file. One of a reply always has a shell: it says that Gemini made it, and gets it back."""
    blob = require_fields(part["inline_data"], "'inline_data'")
    media_type = get_text(blob, "mime_type")
    kind: Any = "image" if (media_type or "").startswith("image/") else "file"
    outer = build_shell({**part, "type": kind}, GOOGLE, "inline_data", plain="" if is_reply else kind)
    data = require_text({"type": "inline_data", **blob}, "data").translate(_STANDARD_ALPHABET)
    name = get_text(blob, "display_name") if kind == "file" else None
    return [*outer, decode_inline(kind, data, media_type, name)]


_STANDARD_ALPHABET = str.maketrans("-_", "+/")
"""The letters of base64 in JSON of the Python client, as those of the REST API."""


def _name_call(name: object, given: object, seen: dict[str, int]) -> object:
    """The id of a call, or of the call of a result: its own, or the name of the tool with its number in the content."""
    if given or type(name) is not str or not name:
        return given
    seen[name] = seen.get(name, 0) + 1
    return name if seen[name] == 1 else f"{name}#{seen[name]}"


def _add_call(reply: ReplyBuilder, part: dict[str, Any], seen: dict[str, int]) -> None:
    call = require_fields(part["function_call"], "'function_call'")
    if call.get("partial_args") or call.get("will_continue"):
        raise invalid_message("the arguments of a call came in pieces: set stream_function_call_arguments to False")
    args = read_arguments(call.get("args", {}))
    mark = {"type": "function_call", **{key: item for key, item in part.items() if key != "function_call"}}
    given = call.get("id")
    if given:
        mark["id"] = given
    reply.add_call(call.get("name"), args, _name_call(call.get("name"), given, seen), (GOOGLE, mark), always=True)


def _read_result(part: dict[str, Any], seen: dict[str, int]) -> ResultDraft:
    answer = require_fields(part["function_response"], "'function_response'")
    response = require_fields(answer.get("response", {}), "'response'")
    value: Any = response
    failed = response.keys() == {"error"}
    if failed:
        value = response["error"]
    elif len(response) == 1:
        value = next((response[key] for key in OUTPUT_FIELDS if key in response), response)
    media = [
        one for each in read_list(answer.get("parts"), "'parts'") for one in _read_part(require_fields(each, "a part"))
    ]
    content: Any = value
    if media:
        shown = Text(value) if type(value) is str else Data(value)
        content = [*([shown] if value else []), *media]
    return ResultDraft(_name_call(answer.get("name"), answer.get("id"), seen), content, failed)
