"""Untrusted data as plain data: objects of the official clients are dumped, arguments decoded, the rest kept as text.

Laws: nothing here looks at a value before it knows its type, so a hostile one fails with a typed error and in bounded time;
what Holdfast has no part for is kept as the provider sent it, in one canonical spelling.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.codec import checked_json, encode
from holdfast.core.arguments import carried_object
from holdfast.errors import InvalidContent, InvalidInput, shown
from holdfast.model import limits
from holdfast.model.content import Opaque
from holdfast.model.names import checked_name

OPENAI = "openai"
ANTHROPIC = "anthropic"

CACHE_HINTS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Where to cache is decided each time a request is made, so these are no part of a message."""

ASIDES = CACHE_HINTS | {"logprobs", "parsed", "parsed_arguments", "parsed_output"}
"""What stands beside the content and repeats or measures it. Clients add the parsed forms themselves."""


def fields(value: object) -> dict[str, Any] | None:
    """The fields of a dict or of an official client's object; None for anything else."""
    plain = value if type(value) is dict else dumped(value)
    if plain is not None and not all(type(key) is str for key in plain):
        raise InvalidContent(reason=f"{shown(value)} has a key that is not text")
    return plain


def dumped(value: object, exclude: frozenset[str] = frozenset()) -> dict[str, Any] | None:
    """The clients' objects as the provider sent them: unset fields left out, and no value translated on the way (JSON mode
    would turn a NaN into null, and null is something that a provider may have said)."""
    try:
        dump = getattr(type(value), "model_dump", None)
        if dump is None:
            return None
        plain = dump(value, mode="python", by_alias=True, exclude_unset=True, exclude=set(exclude), warnings=False)
    except Exception as error:
        raise InvalidContent(reason=f"{shown(value)} cannot be read as plain data") from error
    if type(plain) is not dict:
        raise InvalidContent(reason=f"{shown(value)} gives {shown(plain)} as its plain data")
    return plain


def attribute(value: object, name: str) -> object:
    try:
        return getattr(value, name, None)
    except Exception as error:
        raise InvalidContent(reason=f"{shown(value)} cannot be read as plain data") from error


def needed(value: object, what: str) -> dict[str, Any]:
    plain = fields(value)
    if plain is None:
        raise InvalidContent(reason=f"{what} is {shown(value)}, not an object")
    return plain


def listed(value: object, what: str) -> list[Any]:
    """The items of a list or tuple; none for None."""
    if value is None:
        return []
    if type(value) is list or type(value) is tuple:
        return list(value)
    raise InvalidContent(reason=f"{what} is {shown(value)}, not a list")


def word(item: dict[str, Any], key: str) -> str | None:
    """The text under this key; None if there is none, or something else."""
    value = item.get(key)
    return value if type(value) is str else None


def named(item: dict[str, Any], key: str) -> str | None:
    """The name under this key; None for one that could not be kept, since no reply is worth less for it."""
    try:
        return checked_name(key, item.get(key))
    except InvalidInput:
        return None


def text_at(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    if type(value) is not str:
        raise InvalidContent(reason=f"{key!r} of a part of type {shown(item.get('type'))} is {shown(value)}, not text")
    return value


def flag(item: dict[str, Any], key: str) -> bool:
    value = item.get(key)
    if value is None or type(value) is bool:
        return value is True
    raise InvalidContent(reason=f"{key!r} is {shown(value)}, neither true nor false")


def opaque(issuer: str, item: dict[str, Any]) -> Opaque:
    """An item as its issuer made it."""
    kept = {key: value for key, value in item.items() if key not in CACHE_HINTS}
    return Opaque(issuer, encode(checked_json("an item of the provider", kept)).decode())


def around(issuer: str, shell: dict[str, Any]) -> Opaque:
    """What is left of an item of which the part behind, or a call, says the rest."""
    return Opaque(issuer, encode({"around": checked_json("an item of the provider", shell)}).decode())


def rest(item: dict[str, Any], taken: frozenset[str]) -> dict[str, Any]:
    """What an item says beyond what was taken from it. Nulls, empty texts and empty lists say nothing."""
    return {
        key: value
        for key, value in item.items()
        if key not in taken
        and key not in ASIDES
        and value is not None
        and not (type(value) in (str, list) and not value)
    }


def arguments(value: object) -> Any:
    """The arguments of a call: an object, or the text as it came when it spells none."""
    if value is None:
        return ""
    if type(value) is str:
        found = carried_object(value)
        return value if found is None else found
    if type(value) is not dict:
        raise InvalidContent(reason=f"the arguments of a tool call are {shown(value)}, neither an object nor text")
    try:
        return checked_json("the arguments", value)
    except InvalidInput:
        return _spelled(value)


def _spelled(value: dict[str, Any]) -> str:
    """An object that Holdfast cannot carry (a model wrote a number of thirty digits) goes by its text instead."""
    _Measured().look(value, 0)
    try:
        return json.dumps(value)
    except ValueError as error:
        raise InvalidContent(reason="the arguments of a tool call hold a number too long to print") from error


class _Measured:
    """Whether a value is JSON at all, and small enough to be spelled."""

    def __init__(self) -> None:
        self._left = limits.JSON_VALUES

    def look(self, value: object, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > limits.JSON_DEPTH:
            raise InvalidContent(reason="the arguments of a tool call hold too many values, or too deep")
        if type(value) is dict:
            for key, item in value.items():
                if type(key) is not str:
                    raise InvalidContent(reason="the arguments of a tool call have a key that is not text")
                self.look(item, depth + 1)
        elif type(value) is list:
            for item in value:
                self.look(item, depth + 1)
        elif not (value is None or type(value) in (bool, int, float, str)):
            raise InvalidContent(reason=f"{shown(value)} in the arguments of a tool call is not JSON")
