"""Read the objects of a file of JSON lines, or of one JSON document. A file is never in memory as a whole, except for
a short document: a long one is mapped, and its list is decoded element by element."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import FileAbsent, LogRefused
from holdfast.storage.files import translate_os_errors

DOCUMENT_BYTES = 32 << 20
"""A longer JSON document is read as the list of its messages alone."""
LINE_BYTES = 64 << 20
"""A longer line is skipped."""
_BOM = b"\xef\xbb\xbf"
_LISTS = (("messages",), ("values", "messages"), ("channel_values", "messages"), ("items",), ("data",), ("input",))
"""Where a document has its list."""

Record: TypeAlias = tuple[int, "dict[str, Any] | None"]
"""The number of a line or an element, and its object; None if it is broken or no object."""


def read_records(path: Path) -> Iterator[Record]:
    """The objects of a file, in their order. Raises FileAbsent, StorageUnavailable, or LogRefused for an empty file."""
    if not path.is_file():
        raise FileAbsent(path=str(path))
    with translate_os_errors(str(path)):
        if path.stat().st_size == 0:
            raise LogRefused(path=path.name, reason="it is empty")
        with open(path, "rb") as file:
            first = file.readline(LINE_BYTES + 1).removeprefix(_BOM)
            while first and not first.strip():
                first = file.readline(LINE_BYTES + 1)
            is_document = not isinstance(_parse(first), dict)
        if is_document and (records := _read_document(path)) is not None:
            yield from records
        else:
            yield from _read_lines(path)


def _read_lines(path: Path) -> Iterator[Record]:
    with open(path, "rb") as file:
        number = 0
        while raw := file.readline(LINE_BYTES + 1):
            number += 1
            is_long = len(raw) > LINE_BYTES
            while is_long and not raw.endswith(b"\n") and raw:  # skip the rest of the line
                raw = file.readline(LINE_BYTES)
            text = raw.removeprefix(_BOM) if number == 1 else raw
            if is_long:
                yield number, None
            elif text.strip():
                value = _parse(text)
                yield number, value if isinstance(value, dict) else None


def _parse(text: bytes) -> object:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return None


def _read_document(path: Path) -> Iterator[Record] | None:
    """The elements of a document: of its list, or the document itself. None if it is no JSON document."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        start = len(_BOM) if mapped[: len(_BOM)] == _BOM else 0
        with memoryview(mapped) as whole, whole[start:] as content:
            try:
                elements = _find_elements(content)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                elements = None
            if elements is not None:
                return _decode_elements(elements)
            value = _parse(bytes(content)) if len(content) <= DOCUMENT_BYTES else None
    return iter([(1, value)]) if isinstance(value, dict) else None


def _decode_elements(elements: list[bytes]) -> Iterator[Record]:
    for number, element in enumerate(elements, 1):
        yield number, _decode(element)


def _find_elements(content: memoryview) -> list[bytes] | None:
    """The elements of the list of a document as they are written; None if it has none, or is short and not a list."""
    head = bytes(content[:64]).lstrip()[:1]
    if head == b"[":
        return [bytes(each) for each in msgspec.json.decode(content, type=list[msgspec.Raw])]
    if head != b"{" or len(content) <= DOCUMENT_BYTES:
        return None
    for names in _LISTS:
        found: Any = content
        for name in names:
            found = msgspec.json.decode(found, type=dict[str, msgspec.Raw]).get(name, b"null")
        if bytes(found[:64] if isinstance(found, bytes) else memoryview(found)[:64]).lstrip()[:1] == b"[":
            return [bytes(each) for each in msgspec.json.decode(found, type=list[msgspec.Raw])]
    return None


def _decode(raw: bytes) -> dict[str, Any] | None:
    value = _parse(raw) if len(raw) <= LINE_BYTES else None
    return value if isinstance(value, dict) else None
