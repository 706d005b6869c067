"""The entrances of entries, as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.conversion import to_json
from holdfast.errors import InvalidInput, VersionConflict
from holdfast.model import limits
from holdfast.types import NewEntry, shorten_name
from tests.edges.input_cases import (
    InputCase,
    accept_nothing,
    identity,
    is_bool,
    is_int,
    is_text,
    or_none,
)

USUAL: dict[str, Any] = {"kind": "checkpoint", "key": "a", "body": 1}


def _append(field: str) -> Callable[[Any, Any, int], object]:
    """An entry with the value in this field, read again; the field of what came back."""

    def use(engine: Any, value: Any, number: int) -> object:
        session = engine.session(f"s{number}")
        entry = session.entries.append(**{**USUAL, field: value})
        again = session.entries.get(entry.key)
        assert again == entry
        return getattr(again, field)

    return use


def _append_all(make: Callable[[Any], Any], **option: Any) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        entries = engine.session(f"s{number}").entries
        entries.append_all(make(value), **dict.fromkeys(option, value))
        return value

    return use


def _ask(method: str, name: str, *usual: Any) -> Callable[[Any, Any, int], object]:
    def use(engine: Any, value: Any, number: int) -> object:
        getattr(engine.session(f"s{number}").entries, method)(*usual, **{name: value})
        return value

    return use


def _is_body(value: object) -> bool:
    try:
        _as_body(value)
    except InvalidInput:
        return False
    return True


def _as_body(value: Any) -> object:
    if type(value) in (bytes, bytearray, memoryview):
        return bytes(value)
    return to_json("the body", value, limits.ENTRY_VALUES)


def _is_keys(value: object) -> bool:
    return type(value) in (list, tuple, set, frozenset)


def _usual_entries(_: Any) -> list[NewEntry]:
    return [NewEntry("checkpoint", "a", 1)]


ENTRY_INPUTS: dict[str, InputCase] = {
    "entries.append(kind)": InputCase(_append("kind"), is_text),
    "entries.append(key)": InputCase(_append("key"), is_text),
    "entries.append(body)": InputCase(_append("body"), _is_body, _as_body),
    "entries.append(parent)": InputCase(_append("parent"), or_none(is_text)),
    "entries.append(cause)": InputCase(_ask("append", "cause", "checkpoint", "a", 1), or_none(is_text)),
    "entries.append_all(new)": InputCase(_append_all(identity), lambda value: type(value) in (list, tuple)),
    "entries.append_all([new])": InputCase(_append_all(lambda value: [value]), accept_nothing),
    "entries.append_all(expect)": InputCase(
        _append_all(_usual_entries, expect=...), or_none(is_int), also=(VersionConflict,)
    ),
    "entries.append_all(key)": InputCase(_append_all(_usual_entries, key=...), or_none(is_text)),
    "entries.append_all(cause)": InputCase(_append_all(_usual_entries, cause=...), or_none(is_text)),
    "entries.get(key)": InputCase(_ask("get", "key"), is_text),
    "entries.list(kind)": InputCase(_ask("list", "kind"), or_none(is_text)),
    "entries.list(parent)": InputCase(_ask("list", "parent"), or_none(is_text)),
    "entries.list(before)": InputCase(_ask("list", "before"), or_none(is_int)),
    "entries.list(limit)": InputCase(_ask("list", "limit"), is_int),
    "entries.list(bodies)": InputCase(_ask("list", "bodies"), is_bool),
    "entries.delete(keys)": InputCase(_ask("delete", "keys"), _is_keys),
    "entries.delete([key])": InputCase(
        lambda engine, value, number: _ask("delete", "keys")(engine, [value], number), is_text, lambda value: [value]
    ),
    "entries.delete(reason)": InputCase(_ask("delete", "reason", ["a"]), is_text),
    "entries.delete(key)": InputCase(_ask("delete", "key", ["a"]), or_none(is_text)),
    "entries.delete(cause)": InputCase(_ask("delete", "cause", ["a"]), or_none(is_text)),
    "shorten_name(name)": InputCase(lambda _, value, __: shorten_name(value)[:9], is_text, lambda value: value[:9]),
}
