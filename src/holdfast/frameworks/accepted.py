"""Values of frameworks and models, in the forms that a session takes.

Law: a session refuses none of these, so that a message of a framework is never refused for what a model or a tool wrote.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from holdfast.codec import check_json
from holdfast.errors import InvalidInput
from holdfast.model import limits
from holdfast.types import shorten_name

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DEPTH = limits.JSON_DEPTH // 2
_SHOWN_CHARS = 100_000
_DECIMAL_BITS = 10_000
"""A larger whole number is written in hexadecimal: Python refuses to write it in decimal."""
_UNNAMED = "unnamed"


def accept_text(text: str) -> str:
    """The text, with a question mark for each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def accept_name(name: object) -> str:
    """The name of a tool: models invent names that are empty, too long, or have control characters."""
    return shorten_name(_CONTROLS.sub("?", str(name or "")) or _UNNAMED)


def accept_id(given: object) -> str:
    """The id of a call."""
    return (
        accept_text(shorten_name(_CONTROLS.sub("?", text), limits.CALL_ID_CHARS)) if (text := str(given or "")) else ""
    )


def accept_json(value: object) -> Any:
    """A JSON value: numbers that have no JSON form in a session become text, and so does what is nested too deep."""
    accepted = _accept(value, 0)
    try:
        return check_json("the value", accepted)
    except InvalidInput:
        return accept_text(repr(value)[:_SHOWN_CHARS])


def accept_calls(calls: Iterable[tuple[object, object, object]]) -> list[dict[str, Any]]:
    """Calls with an id, a name and arguments each: as many as a message can have. A second one with the same id gets
    another id."""
    accepted: list[dict[str, Any]] = []
    used: set[str] = set()
    for given, name, arguments in calls:
        call = accept_id(given)
        number = len(accepted)
        if number == limits.MESSAGE_CALLS:
            break
        if call in used:
            call = accept_id(f"{call[:100]}~{number}")
        used |= {call} if call else set()
        args = accept_json(arguments)
        args = args if isinstance(args, dict) else {"arguments": args}
        accepted.append({"id": call, "name": accept_name(name), "args": args})
    return accepted


def _accept(value: object, depth: int) -> Any:
    match value:
        case None | bool():
            return value
        case str():
            return accept_text(value)
        case int():
            return value if value.bit_length() < limits.JSON_INT_BITS else _write_whole(value)
        case float():
            return value if math.isfinite(value) else str(value)
    if depth >= _DEPTH:
        return accept_text(repr(value)[:_SHOWN_CHARS])
    if isinstance(value, dict):
        return {accept_text(str(key)): _accept(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [_accept(each, depth + 1) for each in value]
    return accept_text(str(value))


def _write_whole(value: int) -> str:
    return str(value) if value.bit_length() < _DECIMAL_BITS else f"{value:#x}"[:_SHOWN_CHARS]
