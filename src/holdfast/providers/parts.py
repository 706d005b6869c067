"""Read content blocks of all formats as parts.

The content of a block that Holdfast understands becomes a part: text, an image, the bytes of a file. The other
fields of the block, such as citations, detail or title, are its *shell*. The shell is kept as an opaque part right
before: `{"around": {…}}`. A shell and the next part make the original block again, and no text is stored or shown
twice. A block that is not understood is kept as an opaque part, and always has a type.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from holdfast.codec import check_text
from holdfast.errors import InvalidArgument, TooLarge, describe_value
from holdfast.model import limits
from holdfast.model.content import Body, Data, File, Image, Opaque, Part, Text, blob_refs
from holdfast.model.sessions.messages import InlineBytes
from holdfast.providers.fields import (
    ANTHROPIC,
    OPENAI,
    build_opaque,
    get_text,
    invalid_message,
    read_fields,
    remaining_fields,
    require_fields,
    require_text,
    wrap_shell,
)

DraftPart: TypeAlias = Part | InlineBytes

_OwnPart: Any = Part
_OWN_KINDS = frozenset({"data", "body", "opaque"})
_SHARED_KINDS = frozenset({"image", "file"})
"""Types of Holdfast and of a provider; `_OWN_FIELDS` are in those of Holdfast only."""
_OWN_FIELDS = frozenset({"ref", "url"})
_DIGEST = re.compile("[0-9a-f]{64}")

OPENAI_PARTS = frozenset(
    """
    audio computer_screenshot file image_url input_audio input_file input_image input_text output_text
    reasoning_text refusal summary_text
    """.split()
)

ANTHROPIC_BLOCKS = frozenset(
    """
    compaction container_upload document fallback image mcp_tool_listing redacted_thinking search_result
    thinking tool_addition tool_reference tool_removal tool_result tool_use
    """.split()
)


def issuer_of(kind: str | None) -> str | None:
    """Return the provider of a block type; None if it can be of any."""
    if kind is None:
        return None
    if kind in OPENAI_PARTS:
        return OPENAI
    if kind in ANTHROPIC_BLOCKS or kind.endswith(("_tool_use", "_tool_result")):
        return ANTHROPIC
    return None


def find_issuer(blocks: list[Any]) -> str | None:
    """Return the provider of these blocks, if the type of any of them shows it."""
    for block in blocks:
        kind = get_text(block, "type") if type(block) is dict else None
        issuer = issuer_of(kind) or (ANTHROPIC if type(block) is dict and "citations" in block else None)
        if issuer is not None:
            return issuer
    return None


def unpack_content(content: object) -> list[Any]:
    """Return the items of a content field, with objects of clients as dicts."""
    if content is None:
        return []
    if type(content) is str or is_draft_part(content):
        return [content]
    if type(content) is list or type(content) is tuple:
        return [_unpack_item(item, f"content[{number}]") for number, item in enumerate(content)]
    return [_unpack_item(content, "content")]


def _unpack_item(item: object, argument: str) -> Any:
    if type(item) is str or is_draft_part(item):
        return item
    fields = read_fields(item)
    if fields is None:
        raise InvalidArgument(argument=argument, reason=f"{describe_value(item)} is not text and not a part")
    return fields


def read_parts(item: Any, issuer: str | None) -> list[DraftPart]:
    """Read one item of unpacked content as parts."""
    if type(item) is str:
        return [Text(item)] if item else []
    if is_draft_part(item):
        return [item]
    kind = require_text(item, "type")
    if kind in _OWN_KINDS or (kind in _SHARED_KINDS and item.keys() & _OWN_FIELDS):
        return [_read_own_part(item)]
    owner = issuer or issuer_of(kind)
    read = _READERS.get(kind)
    if read is not None:
        return read(item, owner)
    if owner is None:
        raise invalid_message(f"the part type {describe_value(item.get('type'))} is unknown")
    return [build_opaque(owner, item)]


def _read_own_part(item: dict[str, Any]) -> DraftPart:
    """Read a part in the format of Holdfast."""
    try:
        part: Part = msgspec.convert(item, _OwnPart)
    except (msgspec.ValidationError, RecursionError) as error:
        raise invalid_message(f"a part of type {describe_value(item['type'])} cannot be read: {error}") from error
    unknown = item.keys() - {"type", *part.__struct_fields__}
    if unknown:
        name = describe_value(min(unknown))
        raise invalid_message(f"a part of type {describe_value(item['type'])} has no field {name}")
    for ref in blob_refs([part]):
        if not _DIGEST.fullmatch(ref.digest):
            raise invalid_message(f"{describe_value(ref.digest)} is not the digest of a blob")
    return part


def is_draft_part(value: object) -> bool:
    """Whether a value is a part of Holdfast."""
    return type(value) in (Text, Data, Body, Image, File, Opaque, InlineBytes)


def build_shell(item: dict[str, Any], issuer: str | None, *used: str, plain: str = "") -> list[DraftPart]:
    """Return the shell of a block: its fields that are not used. None is needed if only the type `plain` remains."""
    fields = remaining_fields(item, frozenset(used))
    if issuer is None or not fields or (get_text(fields, "type") == plain and len(fields) == 1):
        return []
    return [wrap_shell(issuer, fields)]


def _read_text(item: dict[str, Any], issuer: str | None) -> list[DraftPart]:
    text = require_text(item, "text")
    owner = issuer or (ANTHROPIC if item.get("citations") is not None else None)
    outer = build_shell(item, owner, "text", plain=require_text(item, "type"))
    return [*outer, Text(text)] if text or outer else []


def _read_refusal(item: dict[str, Any], _issuer: str | None) -> list[DraftPart]:
    return [*build_shell(item, OPENAI, "refusal"), Text(require_text(item, "refusal"))]


def _read_image_url(item: dict[str, Any], _issuer: str | None) -> list[DraftPart]:
    """Read an image of OpenAI chat. The address is an object with a detail, or a plain address."""
    image = item.get("image_url")
    if type(image) is str:
        return [_build_image(image)]
    image = require_fields(image, "'image_url'")
    fields = {**item, "image_url": remaining_fields(image, frozenset({"url"})) or None}
    return [*build_shell(fields, OPENAI, plain="image_url"), _build_image(require_text(image, "url"))]


def _read_input_image(item: dict[str, Any], _issuer: str | None) -> list[DraftPart]:
    url = get_text(item, "image_url")
    if url is None:
        return [build_opaque(OPENAI, item)]
    return [*build_shell(item, OPENAI, "image_url", plain="input_image"), _build_image(url)]


def _read_anthropic_image(item: dict[str, Any], _issuer: str | None) -> list[DraftPart]:
    source = require_fields(item.get("source"), "the source of an image")
    outer = build_shell(item, ANTHROPIC, "source", plain="image")
    match get_text(source, "type"):
        case "base64":
            return [*outer, decode_inline("image", require_text(source, "data"), get_text(source, "media_type"))]
        case "url":
            return [*outer, _build_image(require_text(source, "url"))]
        case _:
            return [build_opaque(ANTHROPIC, item)]


def _read_document(item: dict[str, Any], _issuer: str | None) -> list[DraftPart]:
    source = require_fields(item.get("source"), "the source of a document")
    outer = build_shell(item, ANTHROPIC, "source", "title", plain="document")
    title, media_type = get_text(item, "title"), get_text(source, "media_type")
    match get_text(source, "type"):
        case "base64":
            return [*outer, decode_inline("file", require_text(source, "data"), media_type, title)]
        case "text":
            text = check_text("the text of a document", require_text(source, "data"))
            check_inline_size(len(text))
            return [*outer, InlineBytes("file", text.encode(), media_type or None, title or None)]
        case _:
            return [build_opaque(ANTHROPIC, item)]


def _read_chat_file(item: dict[str, Any], _issuer: str | None) -> list[DraftPart]:
    file = require_fields(item.get("file"), "'file'")
    data = get_text(file, "file_data")
    if data is None:
        return [build_opaque(OPENAI, item)]
    fields = {**item, "file": remaining_fields(file, frozenset({"file_data", "filename"})) or None}
    return [*build_shell(fields, OPENAI, plain="file"), _build_file(data, get_text(file, "filename"))]


def _read_input_file(item: dict[str, Any], _issuer: str | None) -> list[DraftPart]:
    data = get_text(item, "file_data")
    if data is None:
        return [build_opaque(OPENAI, item)]
    return [
        *build_shell(item, OPENAI, "file_data", "filename", plain="input_file"),
        _build_file(data, get_text(item, "filename")),
    ]


_READERS: dict[str, Callable[[dict[str, Any], str | None], list[DraftPart]]] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "refusal": _read_refusal,
    "image_url": _read_image_url,
    "input_image": _read_input_image,
    "image": _read_anthropic_image,
    "document": _read_document,
    "file": _read_chat_file,
    "input_file": _read_input_file,
}


def _build_image(url: str) -> DraftPart:
    data = _split_data_url(url)
    return Image(url=url) if data is None else decode_inline("image", data[1], data[0])


def _build_file(data: str, name: str | None) -> DraftPart:
    """Decode a file from a data URL, or from base64."""
    media_type, encoded = _split_data_url(data) or (None, data)
    return decode_inline("file", encoded, media_type, name)


def _split_data_url(url: str) -> tuple[str | None, str] | None:
    if not url.startswith("data:"):
        return None
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return head.removeprefix("data:").removesuffix(";base64") or None, data


def decode_inline(kind: Any, text: str, media_type: str | None, name: str | None = None) -> InlineBytes:
    """Decode base64 that encodes to the same text again, so that the provider gets the original back."""
    check_inline_size(len(text) * 3 // 4)
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise invalid_message(f"the data of {_kind_phrase(kind)} is not base64: {error}") from error
    if binascii.b2a_base64(data, newline=False) != text.encode():
        raise invalid_message(f"the data of {_kind_phrase(kind)} is not canonical base64")
    return InlineBytes(kind, data, media_type or None, name or None)


def _kind_phrase(kind: str) -> str:
    return "an image" if kind == "image" else "a file"


def check_inline_size(size: int) -> None:
    if size > limits.INLINE_BYTES:
        raise TooLarge(
            what="a file inside a message",
            size=size,
            unit="bytes",
            limit_name="INLINE_BYTES",
            limit=limits.INLINE_BYTES,
            advice="Put it into the blob store with engine.blobs.put() and record a reference.",
        )


def read_result_content(content: object, issuer: str | None, outer: list[DraftPart]) -> Any:
    """Read the content of a tool result: text and JSON as they are, blocks as parts. `outer` is the shell of the
    result."""
    if content is None:
        content = ""
    if type(content) is str:
        return [*outer, Text(content)] if outer else content
    blocks = _read_blocks(content, issuer)
    if blocks is not None:
        owner = issuer or find_issuer(blocks)
        return [*outer, *(part for block in blocks for part in read_parts(block, owner))] or ""
    return [*outer, Data(content)] if outer else content  # type: ignore[arg-type]


def _read_blocks(content: object, issuer: str | None) -> list[Any] | None:
    """Return the content as blocks; None if it is any other list, which is a plain value of the tool."""
    if type(content) is not list and type(content) is not tuple:
        return None
    blocks = [read_fields(item) for item in content]
    for block in blocks:
        kind = get_text(block, "type") if block is not None else None
        if kind is None or (issuer is None and kind not in _READERS and issuer_of(kind) is None):
            return None
    return blocks
