"""Values of a program as JSON, and the arguments of tool calls.

| a value of this type | becomes |
|---|---|
| text, whole numbers of at most 64 bits, finite floats, `True`, `False`, `None` | itself; a subclass, its plain value |
| `datetime`, `date`, `time` | ISO 8601 text; a time zone stays as it is |
| `timedelta` | an ISO 8601 duration: `"PT90S"` |
| `Decimal`, `UUID`, a path | text |
| an enum | its value |
| bytes | text if they are UTF-8, else a data URL in base64 |
| a list, tuple, deque, range or another sequence, an iterator, what has `tolist()` (arrays) | a list |
| a set | a list in a fixed order |
| a mapping | an object; keys that are numbers, dates, enums and the like become text |
| a dataclass, a named tuple, an attrs class, a msgspec struct | an object of its fields |
| a pydantic model | its `model_dump(mode="json")` |

Any other value is refused with InvalidJson, which names the path inside the value; so is a number that is not finite, a
value that contains itself, and a value that is nested too deep or has too many parts.

A tool call has its arguments as a JSON value, and beside it the text of the provider if that is not the canonical one:
providers cache, sign and compare their own text byte for byte.

Laws: JSON stays as it is. The same value gives the same JSON. The result shares nothing with the value, but for what was
checked before. Whatever the code of an object does, the error is a typed one. A text is kept with arguments only if it
spells exactly these arguments.
"""

from __future__ import annotations

import base64
import enum
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from holdfast import codec
from holdfast.codec import check_text
from holdfast.errors import HoldfastError, InvalidJson, InvalidText, describe_value
from holdfast.model import limits
from holdfast.model.content import Json

_BYTES = (bytes, bytearray, memoryview)
_KEY_TYPES = (str, int, float, enum.Enum, date, time, timedelta, Decimal, UUID)
_SHOWN_STEPS = 16
"""The first steps of a path that an error names."""
_SHOWN_KEY_CHARS = 40
_END = object()


def to_json(where: str, value: object, most: int = limits.JSON_VALUES) -> Json:
    """Convert a value to JSON, as the table above says. `where` names the value in errors; it has at most `most` values,
    nested ones included."""
    return _Converter(where, most).convert_whole(value, 0)


class CheckedJson:
    """A JSON value that is checked once, for callers who give it again and again inside larger values: to_json() takes it
    as it is, down to the nesting `depth`, without a walk over it. Nobody may change it."""

    __slots__ = ("count", "depth", "value")

    def __init__(self, where: str, value: object, depth: int) -> None:
        converter = _Converter(where, limits.ENTRY_VALUES)
        self.value = converter.convert_whole(value, depth)
        self.depth = depth
        self.count = converter.count


class _Converter:
    """Converts a value, and counts its parts: a few lists that contain each other many times would fill any memory."""

    def __init__(self, where: str, most: int) -> None:
        self._where = where
        self._most = self._left = most
        self._path: list[str | int] = []
        self._inside: set[int] = set()
        """The containers around the current value, by identity."""

    def convert_whole(self, value: object, depth: int) -> Json:
        try:
            return self.convert(value, depth)
        except HoldfastError:
            raise
        except RecursionError as error:
            raise InvalidJson(where=self._where, reason="it is nested too deep") from error
        except Exception as error:
            raise self.refusal(_describe_exception(error)) from error

    @property
    def count(self) -> int:
        """How many values it has converted."""
        return self._most - self._left

    def convert(self, value: object, depth: int) -> Json:
        self._left -= 1
        if self._left < 0:
            raise InvalidJson(where=self._where, reason=f"it has more than {self._most} values")
        if depth > limits.JSON_DEPTH:
            raise InvalidJson(where=self._where, reason=f"it is nested deeper than {limits.JSON_DEPTH}")
        kind = type(value)
        if kind is str:
            return self._text(value)
        if value is None or kind is bool:
            return value  # type: ignore[return-value]
        if kind is int or kind is float:
            return self._number(value)
        if kind is list:
            return self._list(value, value, depth)  # type: ignore[arg-type]
        if kind is dict:
            return self._object(value, value.items(), depth)  # type: ignore[attr-defined]
        if kind is CheckedJson:
            return self._checked(value, depth)  # type: ignore[arg-type]
        if issubclass(kind, enum.Enum):
            return self.convert(self._call(lambda: value.value), depth + 1)  # type: ignore[attr-defined]
        scalar = self._scalar(value, kind)
        return self._container(value, kind, depth) if scalar is None else scalar

    def _checked(self, value: CheckedJson, depth: int) -> Json:
        if depth > value.depth:  # it may be nested too deep here
            return self.convert(value.value, depth)
        self._left -= value.count - 1
        if self._left < 0:
            raise InvalidJson(where=self._where, reason=f"it has more than {self._most} values")
        return value.value

    def _scalar(self, value: Any, kind: Any) -> str | int | float | None:
        """Convert a value without parts; return None for any other value."""
        if issubclass(kind, str):
            return self._text(str.__str__(value))
        if issubclass(kind, int):
            return self._number(int.__int__(value))
        if issubclass(kind, float):
            return self._number(float.__float__(value))
        if issubclass(kind, datetime | date | time):
            return self._text(self._call(value.isoformat))
        if issubclass(kind, timedelta):
            return self._text(self._call(lambda: msgspec.to_builtins(timedelta(0) + value)))
        if issubclass(kind, Decimal):
            return self._decimal(value)
        if issubclass(kind, UUID):
            return self._text(self._call(lambda: str(value)))
        if hasattr(kind, "__fspath__"):
            return self._text(self._call(lambda: kind.__fspath__(value)))
        if issubclass(kind, _BYTES):
            return self._bytes(value)
        return None

    def _container(self, value: Any, kind: Any, depth: int) -> Json:
        if issubclass(kind, tuple):
            names = getattr(kind, "_fields", None)
            if type(names) is tuple and len(names) == tuple.__len__(value) and all(type(name) is str for name in names):
                return self._object(value, zip(names, tuple.__iter__(value), strict=True), depth)
            return self._list(value, tuple.__iter__(value), depth)
        if issubclass(kind, msgspec.Struct):
            return self._object(value, self._call(lambda: _struct_items(value)), depth)
        if hasattr(kind, "__dataclass_fields__"):
            return self._object(value, self._call(lambda: _dataclass_items(value)), depth)
        if hasattr(kind, "__attrs_attrs__"):
            return self._object(value, self._call(lambda: _field_items(value, kind.__attrs_attrs__)), depth)
        if hasattr(kind, "model_dump"):
            return self.convert(self._call(lambda: kind.model_dump(value, mode="json")), depth + 1)
        if hasattr(kind, "tolist"):
            return self.convert(self._call(lambda: kind.tolist(value)), depth + 1)
        if issubclass(kind, dict | Mapping):
            return self._object(value, self._iterate(self._call(value.items)), depth)
        if issubclass(kind, list | Set | ValuesView | Sequence) or hasattr(kind, "__next__"):
            items = self._list(value, self._iterate(value), depth)
            return sorted(items, key=msgspec.json.encode) if issubclass(kind, Set) else items
        raise self.refusal(f"{describe_value(value)} has no JSON form")

    def _enter(self, owner: object) -> None:
        if id(owner) in self._inside:
            raise self.refusal("it contains itself")
        self._inside.add(id(owner))

    def _list(self, owner: object, items: Iterable[Any], depth: int) -> list[Json]:
        self._enter(owner)
        converted: list[Json] = []
        for number, item in enumerate(items):
            self._path.append(number)
            converted.append(self.convert(item, depth + 1))
            self._path.pop()
        self._inside.discard(id(owner))
        return converted

    def _object(self, owner: object, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Json]:
        self._enter(owner)
        converted: dict[str, Json] = {}
        for key, item in items:
            name = self._text(key) if type(key) is str else self._key(key)
            if name in converted:
                raise self.refusal(f"two of its keys are {describe_value(name)} as text")
            self._path.append(name)
            converted[name] = self.convert(item, depth + 1)
            self._path.pop()
        self._inside.discard(id(owner))
        return converted

    def _key(self, key: object) -> str:
        """Convert a key to text."""
        kind = type(key)
        if key is not None and not issubclass(kind, _KEY_TYPES) and not hasattr(kind, "__fspath__"):
            raise self.refusal(f"its key, {describe_value(key)}, is not text")
        name = self.convert(key, 0)
        return name if type(name) is str else msgspec.json.encode(name).decode()

    def _iterate(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items of a foreign object, which can raise at any of them."""
        iterator = self._call(lambda: iter(items))
        while True:
            item = self._call(lambda: next(iterator, _END))
            if item is _END:
                return
            yield item

    def _call(self, function: Callable[[], Any]) -> Any:
        """Call foreign code. Any exception becomes a typed error."""
        try:
            return function()
        except HoldfastError:
            raise
        except Exception as error:
            raise self.refusal(_describe_exception(error)) from error

    def _text(self, value: Any) -> str:
        try:
            return check_text("", value)
        except InvalidText as error:
            raise InvalidText(where=self._path_text(), reason=error.reason) from error

    def _number(self, value: Any) -> int | float:
        if type(value) is float and not math.isfinite(value):
            raise self.refusal(f"{value} is not a finite number")
        if type(value) is int and value.bit_length() >= limits.JSON_INT_BITS:
            raise self.refusal(f"{describe_value(value)} needs more than {limits.JSON_INT_BITS} bits")
        number: int | float = value
        return number

    def _decimal(self, value: Decimal) -> str:
        if not Decimal.is_finite(value):
            raise self.refusal("it is a Decimal that is not finite")
        return Decimal.__str__(value)

    def _bytes(self, value: Any) -> str:
        data = self._call(lambda: bytes(value))
        try:
            return bytes(data).decode()
        except UnicodeDecodeError:
            return f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"

    def refusal(self, reason: str) -> InvalidJson:
        return InvalidJson(where=self._path_text(), reason=reason)

    def _path_text(self) -> str:
        if not self._path:
            return self._where
        steps = (
            f"[{step}]" if type(step) is int else f".{str(step)[:_SHOWN_KEY_CHARS]}"
            for step in self._path[:_SHOWN_STEPS]
        )
        more = "…" if len(self._path) > _SHOWN_STEPS else ""
        return f"{self._where} at {''.join(steps).removeprefix('.')}{more}"


def _describe_exception(error: Exception) -> str:
    return f"reading it raised {type.__dict__['__name__'].__get__(type(error))}"  # a metaclass can override it


def _struct_items(value: msgspec.Struct) -> list[tuple[str, Any]]:
    """Return the fields of a struct by their encoded names, the tag first."""
    config = value.__struct_config__
    tag = [(config.tag_field, config.tag)] if config.tag_field is not None else []
    names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    items = ((encoded, getattr(value, name)) for name, encoded in names)
    return [*tag, *((name, item) for name, item in items if item is not msgspec.UNSET)]


def _dataclass_items(value: Any) -> list[tuple[str, Any]]:
    import dataclasses  # noqa: PLC0415 - slow to load

    return _field_items(value, dataclasses.fields(value))


def _field_items(value: object, fields: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in fields]


def raw_arguments(args: Json, text: str | None = None) -> str | None:
    """Return the text to keep with these arguments: `text`, or the arguments in the order of their keys.

    Returns None if the text is canonical or does not spell the arguments, or if these are not an object."""
    if not isinstance(args, dict):
        return None
    raw = _encode_compact(args) if text is None else text
    canonical = codec.encode(args)
    return raw if raw != canonical.decode() and _is_spelling(raw, canonical) else None


def is_spelling(raw: str, args: Json) -> bool:
    """Whether this text spells exactly these arguments."""
    return isinstance(args, dict) and _is_spelling(raw, codec.encode(args))


def _is_spelling(raw: str, canonical: bytes) -> bool:
    try:
        return codec.encode(_parse_exact_json(raw)) == canonical
    except (ValueError, OverflowError, RecursionError):  # also a lone surrogate, and a number that JSON cannot hold
        return False


def parse_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object that Holdfast can store exactly; return None for any other text."""
    try:
        checked = codec.check_json("the arguments", _parse_json(text))
        codec.check_text("the arguments", text)
    except (ValueError, RecursionError):  # InvalidInput is a ValueError
        return None
    return checked if isinstance(checked, dict) else None


def parse_unstorable_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object that Holdfast cannot store as a value, such as one with an integer of thirty digits.

    Returns None for any other text."""
    if not text.lstrip().startswith("{") or parse_object(text) is not None:
        return None
    try:
        parsed = _parse_json(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def is_finite(value: Any) -> bool:
    """Whether every number in a parsed value is finite: 1e400 is parsed as infinity."""
    if isinstance(value, dict):
        return all(map(is_finite, value.values()))
    if isinstance(value, list):
        return all(map(is_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _encode_compact(args: dict[str, Json]) -> str:
    return json.dumps(args, ensure_ascii=False, separators=(",", ":"))


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        raise ValueError("a key is there twice")
    return parsed


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _parse_finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits:.60} is too large")
    return number


_parse_json = json.JSONDecoder(object_pairs_hook=_build_object, parse_constant=_refuse_constant).decode
_parse_exact_json = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_finite
).decode
