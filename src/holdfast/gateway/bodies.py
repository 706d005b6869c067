"""Read JSON as slices of its bytes, so that a part of a body can be replaced while all else keeps its bytes.

Laws:
- Pure. A slice spans exactly the text of its value: `body[at.start:at.end]` is that value's JSON, without space around it.
- Anything that two readers could understand differently raises UnreadableBody, and no other error: duplicate keys, invalid
  UTF-8, a byte order mark, half a surrogate pair, NaN, numbers out of range, deep nesting, trailing bytes. The caller
  passes such a body on as it is.
- The values themselves are scanned by msgspec; only keys and separators are walked here, so that the time does not
  depend on the number of bytes in texts.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from holdfast.gateway.model import Slice

DEPTH = 128
"""Nested lists and objects in a value."""

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode
_FAULTS = (msgspec.MsgspecError, ValueError, RecursionError)
_SPACE = rb"[ \t\n\r]*+"
_KEY = re.compile(_SPACE + rb'("(?:[^"\\]++|\\.)*+")' + _SPACE + rb":" + _SPACE, re.DOTALL)
_GAP = re.compile(_SPACE)
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY, _COMMA, _QUOTE = b'{}[],"'


class UnreadableBody(ValueError):
    """The body is not the JSON that every reader understands alike. It is passed on as it is."""


def open_body(body: bytes) -> dict[str, Slice]:
    """The members of the object that a whole body is, after a check that it is UTF-8."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise UnreadableBody("the body is not UTF-8") from error
    return members(body, Slice(0, len(body)))


def members(body: bytes, at: Slice) -> dict[str, Slice]:
    """The values of the object at this slice, by key, in the order of the text."""
    try:
        values = _OBJECT.decode(memoryview(body)[at.start : at.end])
    except _FAULTS as error:
        raise UnreadableBody(f"no object can be read: {error}") from error
    position, last = _skip(body, at.start) + 1, len(values) - 1
    found: dict[str, Slice] = {}
    for number, (key, value) in enumerate(values.items()):
        match = _KEY.match(body, position, at.end)
        text = bytes(value)
        if match is None or not _is_key(match[1], key) or not body.startswith(text, match.end()):
            _refuse_keys()
        found[key] = Slice(match.end(), match.end() + len(text))
        position = _skip(body, found[key].end)
        if number < last:
            position = _pass_comma(body, position)
    if _skip(body, position) >= at.end or body[_skip(body, position)] != _CLOSE_OBJECT:
        _refuse_keys()
    return found


def elements(body: bytes, at: Slice) -> tuple[Slice, ...]:
    """The elements of the array at this slice."""
    try:
        values = _ARRAY.decode(memoryview(body)[at.start : at.end])
    except _FAULTS as error:
        raise UnreadableBody(f"no array can be read: {error}") from error
    found = []
    position = _skip(body, at.start) + 1
    for value in values:
        start = _skip(body, position)
        end = start + len(memoryview(value))
        found.append(Slice(start, end))
        position = _skip(body, end) + 1  # past the comma, or past the end of the array
    return tuple(found)


def decode(body: bytes, at: Slice) -> Any:
    """The value at this slice. Objects with duplicate keys are refused at every depth."""
    text = body[at.start : at.end]
    try:
        value = _VALUE.decode(text)
        if _encode(value) != text:  # most clients write JSON as msgspec does, which has no duplicate keys
            json.loads(text, object_pairs_hook=_check_keys)
    except _FAULTS as error:
        raise UnreadableBody(f"no value can be read: {error}") from error
    _check_depth(value)
    return value


def read_string(body: bytes, at: Slice | None) -> str:
    """The text at this slice; empty if there is no text."""
    if at is None or body[at.start] != _QUOTE:
        return ""
    try:
        return str(_VALUE.decode(memoryview(body)[at.start : at.end]))
    except _FAULTS as error:
        raise UnreadableBody(f"no text can be read: {error}") from error


def is_object(body: bytes, at: Slice | None) -> bool:
    return at is not None and body[at.start] == _OPEN_OBJECT


def is_array(body: bytes, at: Slice | None) -> bool:
    return at is not None and body[at.start] == _OPEN_ARRAY


def is_string(body: bytes, at: Slice | None) -> bool:
    return at is not None and body[at.start] == _QUOTE


def _skip(body: bytes, position: int) -> int:
    """The position after whitespace."""
    if position < len(body) and body[position] > 0x20:
        return position
    match = _GAP.match(body, position)
    return position if match is None else match.end()


def _pass_comma(body: bytes, position: int) -> int:
    if position >= len(body) or body[position] != _COMMA:
        _refuse_keys()
    return position + 1


def _is_key(text: bytes, key: str) -> bool:
    """Whether this is the JSON of the key, however it is escaped."""
    return text[1:-1] == key.encode() or (b"\\" in text and _VALUE.decode(text) == key)


def _refuse_keys() -> NoReturn:
    raise UnreadableBody("an object has the same key twice")


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        _refuse_keys()


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH):
        level = [
            item
            for each in level
            if type(each) in (dict, list)
            for item in (each.values() if type(each) is dict else each)
            if type(item) in (dict, list)
        ]
        if not level:
            return
    raise UnreadableBody(f"a value is nested deeper than {DEPTH}")
