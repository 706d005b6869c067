"""Read untrusted data of providers as plain data.

Laws: the type of a value is checked before the value is used, so a hostile value fails with a typed error in bounded
time. Data that Holdfast has no part for is kept as the provider sent it, with canonical bytes.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable
from typing import Any

from holdfast.codec import check_json, encode
from holdfast.conversion import parse_object
from holdfast.errors import InvalidArgument, InvalidInput, describe_value
from holdfast.model import limits
from holdfast.model.content import Opaque
from holdfast.model.names import check_name

OPENAI = "openai"
ANTHROPIC = "anthropic"
GOOGLE = "google"
BEDROCK = "bedrock"
LITELLM = "litellm"
ISSUERS = (OPENAI, ANTHROPIC, GOOGLE, BEDROCK, LITELLM)
"""The issuers whose own parts a renderer gives back."""
CACHE_HINTS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Where to cache is decided for each request, so these are not part of a message."""
ASIDES = CACHE_HINTS | {"logprobs", "parsed", "parsed_arguments", "parsed_output"}
"""Fields beside the content that repeat or measure it. Clients add the parsed forms themselves."""


def invalid_message(reason: str) -> InvalidArgument:
    """Build the error for a message that cannot be read."""
    return InvalidArgument(argument="message", reason=reason)


def read_fields(value: object) -> dict[str, Any] | None:
    """Return the fields of a dict or of an object of an official client; None for any other value."""
    plain = value if type(value) is dict else dump(value)
    for key in plain or ():
        if type(key) is not str:
            raise invalid_message(f"{describe_value(value)} has a key that is not text")
    return plain


def dump(value: object, exclude: frozenset[str] = frozenset()) -> dict[str, Any] | None:
    """Return an object of an official client as the provider sent it: without unset fields and without translation.

    JSON mode would turn NaN into null, which a provider can mean."""
    try:
        dump = getattr(type(value), "model_dump", None)
        if dump is None:
            return None
        plain = dump(value, mode="python", by_alias=True, exclude_unset=True, exclude=set(exclude), warnings=False)
    except Exception as error:
        raise invalid_message(f"{describe_value(value)} cannot be read as plain data") from error
    if type(plain) is not dict:
        raise invalid_message(f"model_dump() of {describe_value(value)} returned {describe_value(plain)}")
    return plain


def read_attribute(value: object, name: str) -> object:
    """Return an attribute of a foreign object; None if it has none."""
    try:
        return getattr(value, name, None)
    except Exception as error:
        raise invalid_message(f"{describe_value(value)} cannot be read as plain data") from error


def require_fields(value: object, what: str) -> dict[str, Any]:
    """Return the fields of an object; refuse any other value."""
    plain = read_fields(value)
    if plain is None:
        raise invalid_message(f"{what} is {describe_value(value)}, not an object")
    return plain


def read_list(value: object, what: str) -> list[Any]:
    """Return the items of a list or tuple; an empty list for None."""
    if value is None:
        return []
    if type(value) is list or type(value) is tuple:
        return list(value)
    raise invalid_message(f"{what} is {describe_value(value)}, not a list")


def get_text(item: dict[str, Any], key: str) -> str | None:
    """Return the text under this key; None if it is missing or not text."""
    value = item.get(key)
    return value if type(value) is str else None


def get_name(item: dict[str, Any], key: str) -> str | None:
    """Return the name under this key; None if it is missing or not a valid name."""
    try:
        return check_name(key, item.get(key))
    except InvalidInput:
        return None


def require_text(item: dict[str, Any], key: str) -> str:
    """Return the text under this key; refuse any other value."""
    value = item.get(key)
    if type(value) is not str:
        kind = describe_value(item.get("type"))
        raise invalid_message(f"{key!r} of a part of type {kind} is {describe_value(value)}, not text")
    return value


def read_flag(item: dict[str, Any], key: str) -> bool:
    """Return the flag under this key; False if it is missing."""
    value = item.get(key)
    if value is None or type(value) is bool:
        return value is True
    raise invalid_message(f"{key!r} is {describe_value(value)}, not true or false")


def build_opaque(issuer: str, item: dict[str, Any]) -> Opaque:
    """Keep an item as the provider made it, without cache hints."""
    fields = {key: value for key, value in item.items() if key not in CACHE_HINTS}
    return Opaque(issuer, encode(check_json("an item of the provider", fields)).decode())


def wrap_shell(issuer: str, shell: dict[str, Any]) -> Opaque:
    """Keep the remaining fields of an item whose content is the next part, or a call."""
    return Opaque(issuer, encode({"around": check_json("an item of the provider", shell)}).decode())


def remaining_fields(item: dict[str, Any], used: frozenset[str]) -> dict[str, Any]:
    """Return the fields of an item that are not used and not empty."""
    return {
        key: value
        for key, value in item.items()
        if key not in used
        and key not in ASIDES
        and value is not None
        and not (type(value) in (str, list) and not value)
    }


def read_arguments(value: object) -> Any:
    """Return the arguments of a call: an object, or the original text if it is not an object."""
    if value is None:
        return ""
    if type(value) is str:
        parsed = parse_object(value)
        return value if parsed is None else parsed
    if type(value) is not dict:
        raise invalid_message(f"the arguments of a tool call are {describe_value(value)}, not an object or text")
    try:
        return check_json("the arguments", value)
    except InvalidInput:
        return _spell_arguments(value)


def _spell_arguments(value: dict[str, Any]) -> str:
    """Return the text of an object that Holdfast cannot store as a value, such as one with a number of thirty
    digits."""
    _JsonMeter().check(value, 0)
    try:
        return json.dumps(value)
    except ValueError as error:
        raise invalid_message("the arguments of a tool call have a number that is too long to print") from error


class WireReader:
    """Copies a value of a client as JSON: bytes as base64, an enumeration as its text, without empty fields.

    `rename` is the name of a field in the copy; below a field in `free`, the names are data and stay. Law: a value that
    is too deep or too large is refused, so one that contains itself is too."""

    def __init__(self, free: frozenset[str], rename: Callable[[str], str] = str) -> None:
        self._free = free
        self._rename = rename
        self._left = limits.JSON_VALUES

    def copy(self, value: object, depth: int = 0, *, free: bool = False) -> Any:
        self._left -= 1
        if self._left < 0 or depth > limits.JSON_DEPTH:
            raise invalid_message("an item of the provider has too many values, or is nested too deep")
        if type(value) is dict:
            return self._copy_fields(value, depth, free=free)
        if type(value) is list or type(value) is tuple:
            return [self.copy(item, depth + 1, free=free) for item in value]
        if type(value) is bytes:
            return binascii.b2a_base64(value, newline=False).decode()
        if issubclass(type(value), str):
            return str.__str__(value)  # also of an enumeration
        if value is None or type(value) in (bool, int, float):
            return value
        raise invalid_message(f"{describe_value(value)} in an item of the provider is not JSON")

    def _copy_fields(self, fields: dict[Any, Any], depth: int, *, free: bool) -> dict[str, Any]:
        copied: dict[str, Any] = {}
        for key, item in fields.items():
            if type(key) is not str:
                raise invalid_message("an item of the provider has a key that is not text")
            if free:
                copied[key] = self.copy(item, depth + 1, free=True)
            elif item is not None:
                name = self._rename(key)
                copied[name] = self.copy(item, depth + 1, free=name in self._free)
        return copied


class _JsonMeter:
    """Checks that a value is JSON, and not too large."""

    def __init__(self) -> None:
        self._left = limits.JSON_VALUES

    def check(self, value: object, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > limits.JSON_DEPTH:
            raise invalid_message("the arguments of a tool call have too many values, or are nested too deep")
        if type(value) is dict:
            for key, item in value.items():
                if type(key) is not str:
                    raise invalid_message("the arguments of a tool call have a key that is not text")
                self.check(item, depth + 1)
        elif type(value) is list:
            for item in value:
                self.check(item, depth + 1)
        elif not (value is None or type(value) in (bool, int, float, str)):
            raise invalid_message(f"{describe_value(value)} in the arguments of a tool call is not JSON")
