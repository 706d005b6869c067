"""The arguments of a tool call, and the text in which they came.

A call keeps its arguments as a JSON value, which programs read, and beside it the provider's own text where that is not the
canonical one: providers cache, sign and compare what they wrote byte for byte.

Law: a text is kept with a value only if it spells that value; so whatever looks at the value has seen the text.
"""

from __future__ import annotations

import json
import math
from typing import Any

from holdfast import codec
from holdfast.model.content import Json


def raw_of(args: Json, text: str | None = None) -> str | None:
    """The text to keep beside these arguments: `text`, or else the arguments in the order of their keys. None if it is
    their canonical text, does not spell them, or they are no object."""
    if not isinstance(args, dict):
        return None
    raw = _compact(args) if text is None else text
    return raw if raw != codec.encode(args).decode() and is_spelling(raw, args) else None


def is_spelling(raw: str, args: Json) -> bool:
    """Whether this text spells these arguments, without losing anything."""
    found = carried_object(raw)
    return found is not None and isinstance(args, dict) and codec.encode(found) == codec.encode(args)


def carried_object(text: str) -> dict[str, Any] | None:
    """The JSON object that this text spells, if Holdfast can carry it without changing it."""
    try:
        checked = codec.checked_json("the arguments", _parsed(text))
        codec.checked_text("the arguments", text)
    except (ValueError, RecursionError):  # InvalidInput is a ValueError
        return None
    return checked if isinstance(checked, dict) else None


def foreign_object(text: str) -> dict[str, Any] | None:
    """The JSON object that this text spells although Holdfast cannot carry it as a value: one with an integer of thirty
    digits, say. None for every other text."""
    if not text.lstrip().startswith("{") or carried_object(text) is not None:
        return None
    try:
        found = _parsed(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_finite(value: Any) -> bool:
    """Whether every number in a parsed value is one that JSON can spell: 1e400 is read as infinity."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refused)


def _compact(args: dict[str, Json]) -> str:
    return json.dumps(args, ensure_ascii=False, separators=(",", ":"))


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
