"""Read replies and messages of Bedrock's Converse API.

A block has no type: its only field says what it is. A block that Holdfast has no part for is kept whole, with the name of
that field as its type: `{"type": "reasoningContent", "reasoningContent": {…}}`. Bytes are kept as base64.
"""

from __future__ import annotations

from typing import Any

from holdfast.model.content import Data, Source, Text
from holdfast.model.sessions.messages import InlineBytes, ResultDraft
from holdfast.providers.fields import (
    BEDROCK,
    WireReader,
    build_opaque,
    get_name,
    get_text,
    read_arguments,
    read_fields,
    remaining_fields,
    require_fields,
    require_text,
    wrap_shell,
)
from holdfast.providers.parts import DraftPart, build_shell, check_inline_size, decode_inline
from holdfast.providers.usage import read_bedrock_usage

BLOCKS = frozenset(
    """
    audio cachePoint citationsContent document guardContent image reasoningContent searchResult text toolAddition
    toolRemoval toolResult toolUse video
    """.split()
)
"""The fields of which a content block has one."""
FREE_FIELDS = frozenset({"input", "json"})
"""Fields whose content is data of an application."""
BLOB_FIELDS = frozenset({"bytes", "redactedContent"})
"""Fields with bytes."""
DOCUMENT_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
"""The formats of documents, as media types."""


def is_response(value: dict[str, Any]) -> bool:
    """Whether this is a response of converse()."""
    return "stopReason" in value and "output" in value


def is_block(value: object) -> bool:
    """Whether this is a content block: one field, and no type."""
    return type(value) is dict and len(value) == 1 and not BLOCKS.isdisjoint(value)


def copy_block(block: dict[str, Any]) -> dict[str, Any]:
    """A block as JSON."""
    copied: dict[str, Any] = WireReader(FREE_FIELDS).copy(block)
    return copied


def find_model(response: dict[str, Any]) -> str | None:
    """The model that answered, which only the trace of a prompt router names."""
    trace = read_fields(response.get("trace")) or {}
    return get_name(read_fields(trace.get("promptRouter")) or {}, "invokedModelId")


def build_source(response: dict[str, Any]) -> Source:
    """Where a response came from. Its id is in the metadata that the client adds."""
    metadata = read_fields(response.get("ResponseMetadata")) or {}
    return Source(BEDROCK, find_model(response), get_name(metadata, "RequestId"), get_name(response, "stopReason"))


def read_usage(response: dict[str, Any]) -> Any:
    return read_bedrock_usage(response.get("usage"))


def read_parts(block: dict[str, Any]) -> list[DraftPart]:
    """Read a block that is neither a call nor a result as parts. Where to cache is no part of a message."""
    kind = next(iter(block), "")
    body = block.get(kind)
    if kind == "cachePoint":
        return []
    if kind == "text":
        text = require_text({"type": "text", **block}, "text")
        return [Text(text)] if text else []
    read = {
        "image": _read_image,
        "document": _read_document,
        "guardContent": _read_guarded,
        "citationsContent": _read_cited,
    }
    inner = read_fields(body)
    parts = read[kind](inner) if kind in read and inner is not None else None
    return [keep_block(block)] if parts is None else parts


def keep_block(block: dict[str, Any]) -> DraftPart:
    """Keep a block as Bedrock made it."""
    return build_opaque(BEDROCK, {"type": next(iter(block), ""), **block})


def call_shell(use: dict[str, Any]) -> dict[str, Any]:
    """The fields of a call beside its name and its input."""
    shell = {"type": "toolUse", **remaining_fields(use, frozenset({"name", "input", "toolUseId", "type"}))}
    identifier = use.get("toolUseId")
    return {**shell, "id": identifier} if type(identifier) is str and identifier else shell


def read_input(use: dict[str, Any]) -> Any:
    """The arguments of a call."""
    return read_arguments(use.get("input", {}))


def read_result(result: dict[str, Any]) -> ResultDraft:
    """Read the result of a call."""
    shell = remaining_fields(result, frozenset({"toolUseId", "content", "status"}))
    outer: list[DraftPart] = [wrap_shell(BEDROCK, {**shell, "type": "toolResult"})] if shell else []
    parts: list[DraftPart] = []
    content = result.get("content")
    for block in content if type(content) is list else []:
        fields = require_fields(block, "a block of a tool result")
        parts += [Data(fields["json"])] if fields.keys() == {"json"} else read_parts(fields)
    lone = parts[0] if len(parts) == 1 and not outer else None
    value: Any = [*outer, *parts] or ""
    if isinstance(lone, Text):
        value = lone.text
    elif isinstance(lone, Data):
        value = lone.value
    return ResultDraft(result.get("toolUseId"), value, get_text(result, "status") == "error")


def _read_image(image: dict[str, Any]) -> list[DraftPart] | None:
    data = _source_bytes(image)
    if data is None or image.keys() - {"format", "source"}:
        return None
    form = get_text(image, "format")
    return [decode_inline("image", data, f"image/{form}" if form else None)]


def _read_document(document: dict[str, Any]) -> list[DraftPart] | None:
    name, form = get_text(document, "name"), get_text(document, "format")
    media_type = DOCUMENT_TYPES.get(form or "")
    outer = build_shell({"type": "document", **document}, BEDROCK, "format", "name", "source", plain="document")
    data = _source_bytes(document)
    if data is not None:
        return [*outer, decode_inline("file", data, media_type, name)]
    text = get_text(read_fields(document.get("source")) or {}, "text")
    if text is None:
        return None
    check_inline_size(len(text))
    return [*outer, InlineBytes("file", text.encode(errors="replace"), media_type or "text/plain", name or None)]


def _source_bytes(holder: dict[str, Any]) -> str | None:
    source = read_fields(holder.get("source")) or {}
    return get_text(source, "bytes") if source.keys() == {"bytes"} else None


def _read_guarded(guarded: dict[str, Any]) -> list[DraftPart] | None:
    inner = read_fields(guarded.get("text"))
    text = get_text(inner or {}, "text")
    if inner is None or not text or guarded.keys() != {"text"}:
        return None
    return [wrap_shell(BEDROCK, {"type": "guardContent", **remaining_fields(inner, frozenset({"text"}))}), Text(text)]


def _read_cited(cited: dict[str, Any]) -> list[DraftPart] | None:
    """Read text with citations: its text is text, and the citations are around it."""
    content = cited.get("content")
    pieces = [read_fields(each) for each in content] if type(content) is list else []
    texts = [get_text(piece or {}, "text") for piece in pieces]
    if not texts or None in texts or any((piece or {}).keys() != {"text"} for piece in pieces):
        return None
    shell = {"type": "citationsContent", **remaining_fields(cited, frozenset({"content"}))}
    return [wrap_shell(BEDROCK, shell), Text("".join(filter(None, texts)))]
