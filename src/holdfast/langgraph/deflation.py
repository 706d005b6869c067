"""How values and small bodies are written: as texts, compressed with words that LangChain and LangGraph use.

Laws: what was packed comes back as it was, and equal things that are packed by one build of zlib give equal texts. A body
that is large is not packed: the store shares its parts with other bodies.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import StorageCorrupt

_PLAIN, _BASE64, _DEFLATED = " ", "|", "*"
"""Separators: the bytes follow as characters, in base64, or compressed with the dictionary and in base64."""
_DICTIONARY = (
    b"langchain_core.messages.toolToolMessagelangchain_core.messages.systemSystemMessagetool_call_idartifactstatussuccess"
    b"input_token_detailsoutput_token_detailscache_readcache_creationreasoningmodel_namemodel_providerfinish_reasonstop"
    b"invalid_tool_callstool_callsargsusage_metadatainput_tokensoutput_tokenstotal_tokens\xa8snapshot\xa5items\x91\x92"
    b"\x83\xa4path\xc4\x19~__pregel_pull, __start__\xa4task\xc4$\xa6writes\x92\x93\x00\xc4\x08messages\x93\x01\xc4\x0f"
    b"branch:to:\xc4\x05null \x82\xa4head\xc5\x01"
    b"msgpack \x82\xaacheckpoint\x86\xa1v\x04\xa2ts\xd9 2026-\xb0channel_versions\x83\xa9__start__\x02\xa8messages\xcd\x01"
    b"\xafbranch:to:\xadversions_seen\x83\xa9__input__\x80\xa9__start__\x81\xa9__start__\xcd\x01\xb0updated_channels\x92"
    b"\xa8metadata\x83\xa6source\xa4loop\xa5input\xa4step\xcd\x01\xa7parents\x80"
    b"\xa8channels\x82\xa9__start__\x81\xa8messages\x82\xa6blocks\xa4list\x91\xc5\x01"
    b"msgpack \x94\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xc5\x02"
    b"msgpack \x94\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xda\x01"
    b"\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa2ai\xa4name\xc0\xa2id\xd9$"
    b"\xaatool_calls\x90\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0\xb3model_validate_json"
)
"""Words that serialized messages and checkpoints have in common. It is part of the format: it must never change."""
_DEFLATED_BYTES = 100
"""Shorter bytes are not compressed."""
_ELEMENT_BYTES = 1_024
"""Larger elements of a list are compressed on their own."""
LARGE_BYTES = 2_048
"""What is larger is not packed: the store shares it."""
_CONTROL = bytes(range(32))
_ESCAPED_CHARS = 5
"""Characters that JSON adds to a control character."""
_PACKED = "packed"
_NAMES = 1
"""The extension type of MessagePack for names of blocks."""
NAME_CHARS = 12
"""Characters of a digest in the name of a block, after its prefix."""
BLOCK_PREFIX = "b"


def pack_bytes(kind: str, data: bytes, *, is_element: bool = False) -> str:
    """What a serializer wrote, as a text: as it is, in base64, or compressed, whichever is shortest. A small element of a
    list stays as it is: it is compressed with its neighbours."""
    data = bytes(data)
    text = data.decode("latin-1")
    if is_element and len(data) <= _ELEMENT_BYTES:
        return f"{kind}{_PLAIN}{text}"
    size = len(text.encode()) + _ESCAPED_CHARS * (len(data) - len(data.translate(None, _CONTROL)))
    if len(data) > _DEFLATED_BYTES:
        packed = _deflate(data)
        if len(packed) < size:
            return f"{kind}{_DEFLATED}{packed}"
    if size * 3 > len(data) * 4:
        return f"{kind}{_BASE64}{base64.b64encode(data).decode()}"
    return f"{kind}{_PLAIN}{text}"


def unpack_bytes(text: str) -> tuple[str, bytes]:
    """What a serializer wrote."""
    for at, char in enumerate(text):
        if char == _PLAIN:
            return text[:at], text[at + 1 :].encode("latin-1")
        if char == _BASE64:
            return text[:at], binascii.a2b_base64(text[at + 1 :])
        if char == _DEFLATED:
            return text[:at], _inflate(text[at + 1 :])
    raise StorageCorrupt(what="a checkpoint of LangGraph", reason="a value has no type")


def pack_body(small: Mapping[str, Any], large: Mapping[str, Any] | None = None) -> Any:
    """The body of an entry: what is small in it, in one text, beside what is large."""
    try:
        return {_PACKED: _deflate(msgspec.msgpack.encode(_to_bytes(small))), **(large or {})}
    except UnicodeEncodeError:  # then the store says what is wrong
        return {**small, **(large or {})}


def open_body(body: Any) -> dict[str, Any]:
    """What is small in the body of an entry."""
    opened: dict[str, Any] = _to_text(msgspec.msgpack.decode(_inflate(body[_PACKED]))) if _PACKED in body else body
    return opened


def pack_elements(form: Any) -> Any:
    """A value for a body that is not packed: the elements of its lists are compressed on their own."""
    match form:
        case {"list": list() as texts}:
            return {**form, "list": [pack_bytes(*unpack_bytes(text)) for text in texts]}
        case {"items": list() as items}:
            return {"items": [[name, pack_elements(item)] for name, item in items]}
        case {"snapshot": value}:
            return {"snapshot": pack_elements(value)}
    return form


def measure(form: Any) -> int:
    """About how many bytes a value has as JSON."""
    if isinstance(form, str):
        return len(form) + 2
    if isinstance(form, dict):
        return sum(len(name) + 3 + measure(item) for name, item in form.items()) + 2
    return sum(measure(item) + 1 for item in form) + 2 if isinstance(form, list) else 8


def _to_bytes(form: Any) -> Any:
    """A form with its texts as bytes, so that what a serializer wrote is compressed as it wrote it."""
    if isinstance(form, str):
        try:
            return form.encode("latin-1")
        except UnicodeEncodeError:
            return form
    if isinstance(form, dict):
        return {
            name: _to_names(item) if name == "blocks" and isinstance(item, list) else _to_bytes(item)
            for name, item in form.items()
        }
    return [_to_bytes(item) for item in form] if isinstance(form, list) else form


def _to_names(names: list[str]) -> msgspec.msgpack.Ext:
    joined = "".join(name.removeprefix(BLOCK_PREFIX) for name in names)
    return msgspec.msgpack.Ext(_NAMES, base64.urlsafe_b64decode(joined))


def _to_text(form: Any) -> Any:
    if isinstance(form, bytes):
        return form.decode("latin-1")
    if isinstance(form, dict):
        return {name: _to_text(item) for name, item in form.items()}
    if isinstance(form, list):
        return [_to_text(item) for item in form]
    if isinstance(form, msgspec.msgpack.Ext):
        joined = base64.urlsafe_b64encode(form.data).decode()
        return [BLOCK_PREFIX + joined[at : at + NAME_CHARS] for at in range(0, len(joined), NAME_CHARS)]
    return form


def _deflate(data: bytes) -> str:
    deflate = zlib.compressobj(level=6, wbits=-15, zdict=_DICTIONARY)
    return binascii.b2a_base64(deflate.compress(data) + deflate.flush(), newline=False).decode()


def _inflate(text: str) -> bytes:
    inflate = zlib.decompressobj(wbits=-15, zdict=_DICTIONARY)
    try:
        return inflate.decompress(binascii.a2b_base64(text))
    except (zlib.error, binascii.Error) as error:
        raise StorageCorrupt(what="a checkpoint of LangGraph", reason="a value cannot be decompressed") from error
