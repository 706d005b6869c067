"""Content blocks of every dialect as parts.

What Holdfast understands of a block becomes a part of its own: text, an image, the bytes of a file. What else the block
says (its citations, its detail, its title) is its *shell*: the block without what was taken from it, kept as an opaque
part right before: `{"around": {…}}`. A shell and the part behind it make the block again, and no text is stored or shown
twice. A block of which nothing is understood is kept opaque as it is, and always has a type.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from holdfast.codec import checked_text
from holdfast.errors import InvalidContent, TooLarge, shown
from holdfast.model import limits
from holdfast.model.content import Body, Data, File, Image, Opaque, Part, Text, blob_refs
from holdfast.model.drafts import Inline
from holdfast.providers.plain import ANTHROPIC, OPENAI, around, fields, needed, opaque, rest, text_at, word

Piece: TypeAlias = Part | Inline

_OwnPart: Any = Part
_OWN_KINDS = frozenset({"data", "body", "opaque"})
_SHARED_KINDS = frozenset({"image", "file"})
"""Ours and a provider's, told apart by their fields."""
_OWN_FIELDS = frozenset({"ref", "url"})
_DIGEST = re.compile("[0-9a-f]{64}")

OPENAI_PARTS = frozenset(
    {
        "audio",
        "computer_screenshot",
        "file",
        "image_url",
        "input_audio",
        "input_file",
        "input_image",
        "input_text",
        "output_text",
        "reasoning_text",
        "refusal",
        "summary_text",
    }
)

ANTHROPIC_BLOCKS = frozenset(
    {
        "compaction",
        "container_upload",
        "document",
        "fallback",
        "image",
        "mcp_tool_listing",
        "redacted_thinking",
        "search_result",
        "thinking",
        "tool_addition",
        "tool_reference",
        "tool_removal",
        "tool_result",
        "tool_use",
    }
)


def issuer_of(kind: str | None) -> str | None:
    """Whose block this is; None when it could be anyone's."""
    if kind is None:
        return None
    if kind in OPENAI_PARTS:
        return OPENAI
    if kind in ANTHROPIC_BLOCKS or kind.endswith(("_tool_use", "_tool_result")):
        return ANTHROPIC
    return None


def issuer_among(blocks: list[Any]) -> str | None:
    """Whose blocks these are, as far as any of them tells."""
    for block in blocks:
        kind = word(block, "type") if type(block) is dict else None
        issuer = issuer_of(kind) or (ANTHROPIC if type(block) is dict and "citations" in block else None)
        if issuer is not None:
            return issuer
    return None


def unpacked(content: object) -> list[Any]:
    """The items of a content field, objects of the clients as dicts."""
    if content is None:
        return []
    if type(content) is str or is_piece(content):
        return [content]
    if type(content) is list or type(content) is tuple:
        return [
            item if type(item) is str or is_piece(item) else needed(item, f"part {number} of the content")
            for number, item in enumerate(content)
        ]
    return [needed(content, "the content")]


def pieces(item: Any, issuer: str | None) -> list[Piece]:
    """One item of unpacked content as parts."""
    if type(item) is str:
        return [Text(item)] if item else []
    if is_piece(item):
        return [item]
    kind = text_at(item, "type")
    if kind in _OWN_KINDS or (kind in _SHARED_KINDS and item.keys() & _OWN_FIELDS):
        return [_own_part(item)]
    known = issuer or issuer_of(kind)
    maker = _MAKERS.get(kind)
    if maker is not None:
        return maker(item, known)
    if known is None:
        raise InvalidContent(reason=f"a part of type {shown(item.get('type'))} is unknown")
    return [opaque(known, item)]


def _own_part(item: dict[str, Any]) -> Piece:
    """A part in our own shape, as it is encoded."""
    try:
        part: Part = msgspec.convert(item, _OwnPart)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidContent(reason=f"a part of type {shown(item['type'])} cannot be read: {error}") from error
    left = item.keys() - {"type", *part.__struct_fields__}
    if left:
        raise InvalidContent(reason=f"a part of type {shown(item['type'])} has no field {shown(min(left))}")
    for ref in blob_refs([part]):
        if not _DIGEST.fullmatch(ref.digest):
            raise InvalidContent(reason=f"{shown(ref.digest)} is not the digest of a blob")
    return part


def is_piece(value: object) -> bool:
    kind = type(value)
    return any(kind is each for each in (Text, Data, Body, Image, File, Opaque, Inline))


def shell(item: dict[str, Any], issuer: str | None, *taken: str, plain: str = "") -> list[Piece]:
    """What a block says beyond what was taken from it, as an opaque part; nothing if it is but a block of type `plain`."""
    left = rest(item, frozenset(taken))
    if issuer is None or not left or (word(left, "type") == plain and len(left) == 1):
        return []
    return [around(issuer, left)]


def _text(item: dict[str, Any], issuer: str | None) -> list[Piece]:
    text = text_at(item, "text")
    whose = issuer or (ANTHROPIC if item.get("citations") is not None else None)
    outer = shell(item, whose, "text", plain=text_at(item, "type"))
    return [*outer, Text(text)] if text or outer else []


def _refusal(item: dict[str, Any], _issuer: str | None) -> list[Piece]:
    return [*shell(item, OPENAI, "refusal"), Text(text_at(item, "refusal"))]


def _image_url(item: dict[str, Any], _issuer: str | None) -> list[Piece]:
    """Chat: the address is an object with a detail. People write a bare address as well."""
    image = item.get("image_url")
    if type(image) is str:
        return [_image(image)]
    image = needed(image, "'image_url'")
    left = rest(image, frozenset({"url"}))
    left = {**item, "image_url": left or None}
    return [*shell(left, OPENAI, plain="image_url"), _image(text_at(image, "url"))]


def _input_image(item: dict[str, Any], _issuer: str | None) -> list[Piece]:
    url = word(item, "image_url")
    if url is None:
        return [opaque(OPENAI, item)]
    return [*shell(item, OPENAI, "image_url", plain="input_image"), _image(url)]


def _anthropic_image(item: dict[str, Any], _issuer: str | None) -> list[Piece]:
    source = needed(item.get("source"), "the source of an image")
    outer = shell(item, ANTHROPIC, "source", plain="image")
    match word(source, "type"):
        case "base64":
            return [*outer, _bytes("image", text_at(source, "data"), word(source, "media_type"))]
        case "url":
            return [*outer, _image(text_at(source, "url"))]
        case _:
            return [opaque(ANTHROPIC, item)]


def _document(item: dict[str, Any], _issuer: str | None) -> list[Piece]:
    source = needed(item.get("source"), "the source of a document")
    outer = shell(item, ANTHROPIC, "source", "title", plain="document")
    title, media_type = word(item, "title"), word(source, "media_type")
    match word(source, "type"):
        case "base64":
            return [*outer, _bytes("file", text_at(source, "data"), media_type, title)]
        case "text":
            text = checked_text("the text of a document", text_at(source, "data"))
            _bound(len(text))
            return [*outer, Inline("file", text.encode(), media_type or None, title or None)]
        case _:
            return [opaque(ANTHROPIC, item)]


def _chat_file(item: dict[str, Any], _issuer: str | None) -> list[Piece]:
    file = needed(item.get("file"), "'file'")
    data = word(file, "file_data")
    if data is None:
        return [opaque(OPENAI, item)]
    left = {**item, "file": rest(file, frozenset({"file_data", "filename"})) or None}
    return [*shell(left, OPENAI, plain="file"), _file(data, word(file, "filename"))]


def _input_file(item: dict[str, Any], _issuer: str | None) -> list[Piece]:
    data = word(item, "file_data")
    if data is None:
        return [opaque(OPENAI, item)]
    return [*shell(item, OPENAI, "file_data", "filename", plain="input_file"), _file(data, word(item, "filename"))]


_MAKERS: dict[str, Callable[[dict[str, Any], str | None], list[Piece]]] = {
    "text": _text,
    "input_text": _text,
    "output_text": _text,
    "refusal": _refusal,
    "image_url": _image_url,
    "input_image": _input_image,
    "image": _anthropic_image,
    "document": _document,
    "file": _chat_file,
    "input_file": _input_file,
}


def _image(url: str) -> Piece:
    data = _data_url(url)
    return Image(url=url) if data is None else _bytes("image", data[1], data[0])


def _file(data: str, name: str | None) -> Piece:
    """A data URL, or its base64 alone."""
    found = _data_url(data)
    return _bytes("file", data, None, name) if found is None else _bytes("file", found[1], found[0], name)


def _data_url(url: str) -> tuple[str | None, str] | None:
    if not url.startswith("data:"):
        return None
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return head.removeprefix("data:").removesuffix(";base64") or None, data


def _bytes(kind: Any, text: str, media_type: str | None, name: str | None = None) -> Inline:
    """Only what encodes to the same text again: what goes back to the provider is what came."""
    _bound(len(text) * 3 // 4)
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise InvalidContent(reason=f"the data of {_an(kind)} is not base64: {error}") from error
    if binascii.b2a_base64(data, newline=False) != text.encode():
        raise InvalidContent(reason=f"the data of {_an(kind)} is not base64 as it is written")
    return Inline(kind, data, media_type or None, name or None)


def _an(kind: str) -> str:
    return "an image" if kind == "image" else "a file"


def _bound(size: int) -> None:
    if size > limits.INLINE_BYTES:
        raise TooLarge(
            what="a file inside a message",
            size=size,
            unit="bytes",
            limit_name="INLINE_BYTES",
            limit=limits.INLINE_BYTES,
            advice="Put it into the blob store with put_blob() and record a reference.",
        )


def result_content(content: object, issuer: str | None, outer: list[Piece]) -> Any:
    """What a tool returned: text and JSON as they are, blocks as parts. `outer` is the shell of the result itself."""
    if content is None:
        content = ""
    if type(content) is str:
        return [*outer, Text(content)] if outer else content
    blocks = _blocks(content, issuer)
    if blocks is not None:
        known = issuer or issuer_among(blocks)
        return [*outer, *(piece for block in blocks for piece in pieces(block, known))] or ""
    return [*outer, Data(content)] if outer else content  # type: ignore[arg-type]


def _blocks(content: object, issuer: str | None) -> list[Any] | None:
    """The content as blocks; None for a list of anything else, which is what the tool returned."""
    if type(content) is not list and type(content) is not tuple:
        return None
    blocks = [fields(item) for item in content]
    for block in blocks:
        kind = word(block, "type") if block is not None else None
        if kind is None or (issuer is None and kind not in _MAKERS and issuer_of(kind) is None):
            return None
    return blocks
