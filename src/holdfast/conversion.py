"""Values of a program as JSON, by one rule.

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

Anything else is refused with InvalidJson, which names the path inside the value; so is a number that is not finite, a value
that contains itself, one nested too deep, or one of too many values.

Laws: JSON stays as it is; the same value gives the same JSON; the result shares nothing with the value; whatever an object
does when it is looked at, the error is a typed one.
"""

from __future__ import annotations

import base64
import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from holdfast.codec import checked_text
from holdfast.errors import HoldfastError, InvalidJson, InvalidText, shown
from holdfast.model import limits
from holdfast.model.content import Json

_BYTES = (bytes, bytearray, memoryview)
_KEY_TYPES = (str, int, float, enum.Enum, date, time, timedelta, Decimal, UUID)
_SHOWN_STEPS = 16
"""Steps of a path that an error names: the first ones."""
_SHOWN_KEY_CHARS = 40


def to_json(where: str, value: object) -> Json:
    """The JSON of a value, by the rule above. `where` names the value in errors."""
    converter = _Converter(where)
    try:
        return converter.convert(value, 0)
    except HoldfastError:
        raise
    except RecursionError as error:
        raise InvalidJson(where=where, reason="it is nested too deep") from error
    except Exception as error:
        raise converter.refusal(_raised(error)) from error


class _Converter:
    """Counts as it goes: a few lists that contain each other many times unfold to more than any memory."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._left = limits.JSON_VALUES
        self._path: list[str | int] = []
        self._inside: set[int] = set()
        """The containers around the present value, by identity."""

    def convert(self, value: object, depth: int) -> Json:
        self._left -= 1
        if self._left < 0:
            raise InvalidJson(where=self._where, reason=f"it has more than {limits.JSON_VALUES} values")
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
        if issubclass(kind, enum.Enum):
            return self.convert(self._called(lambda: value.value), depth + 1)  # type: ignore[attr-defined]
        scalar = self._scalar(value, kind)
        return self._container(value, kind, depth) if scalar is None else scalar

    def _scalar(self, value: Any, kind: Any) -> str | int | float | None:
        """What has no parts; None for anything else."""
        if issubclass(kind, str):
            return self._text(str.__str__(value))
        if issubclass(kind, int):
            return self._number(int.__int__(value))
        if issubclass(kind, float):
            return self._number(float.__float__(value))
        if issubclass(kind, datetime | date | time):
            return self._text(self._called(value.isoformat))
        if issubclass(kind, timedelta):
            return self._text(self._called(lambda: msgspec.to_builtins(timedelta(0) + value)))
        if issubclass(kind, Decimal):
            return self._decimal(value)
        if issubclass(kind, UUID):
            return self._text(self._called(lambda: str(value)))
        if hasattr(kind, "__fspath__"):
            return self._text(self._called(lambda: kind.__fspath__(value)))
        if issubclass(kind, _BYTES):
            return self._bytes(value)
        return None

    def _container(self, value: Any, kind: Any, depth: int) -> Json:
        if issubclass(kind, tuple):
            names = getattr(kind, "_fields", None)
            if type(names) is tuple and len(names) == tuple.__len__(value) and all(type(each) is str for each in names):
                return self._object(value, zip(names, tuple.__iter__(value), strict=True), depth)
            return self._list(value, tuple.__iter__(value), depth)
        if issubclass(kind, msgspec.Struct):
            return self._object(value, self._called(lambda: _struct_items(value)), depth)
        if hasattr(kind, "__dataclass_fields__"):
            return self._object(value, self._called(lambda: _dataclass_items(value)), depth)
        if hasattr(kind, "__attrs_attrs__"):
            return self._object(value, self._called(lambda: _fields(value, kind.__attrs_attrs__)), depth)
        if hasattr(kind, "model_dump"):
            return self.convert(self._called(lambda: kind.model_dump(value, mode="json")), depth + 1)
        if hasattr(kind, "tolist"):
            return self.convert(self._called(lambda: kind.tolist(value)), depth + 1)
        if issubclass(kind, dict | Mapping):
            return self._object(value, self._guarded(self._called(value.items)), depth)
        if issubclass(kind, list | Set | ValuesView | Sequence) or hasattr(kind, "__next__"):
            found = self._list(value, self._guarded(value), depth)
            return sorted(found, key=msgspec.json.encode) if issubclass(kind, Set) else found
        raise self.refusal(f"{shown(value)} has no JSON form")

    def _enter(self, owner: object) -> None:
        if id(owner) in self._inside:
            raise self.refusal("it contains itself")
        self._inside.add(id(owner))

    def _list(self, owner: object, items: Iterable[Any], depth: int) -> list[Json]:
        self._enter(owner)
        found: list[Json] = []
        for number, item in enumerate(items):
            self._path.append(number)
            found.append(self.convert(item, depth + 1))
            self._path.pop()
        self._inside.discard(id(owner))
        return found

    def _object(self, owner: object, items: Iterable[tuple[Any, Any]], depth: int) -> dict[str, Json]:
        self._enter(owner)
        found: dict[str, Json] = {}
        for key, item in items:
            name = self._text(key) if type(key) is str else self._key(key)
            if name in found:
                raise self.refusal(f"two of its keys are {shown(name)} as text")
            self._path.append(name)
            found[name] = self.convert(item, depth + 1)
            self._path.pop()
        self._inside.discard(id(owner))
        return found

    def _key(self, key: object) -> str:
        """A key as text: as JSON writes it where it is none."""
        kind = type(key)
        if key is not None and not issubclass(kind, _KEY_TYPES) and not hasattr(kind, "__fspath__"):
            raise self.refusal(f"its key, {shown(key)}, is not text")
        name = self.convert(key, 0)
        return name if type(name) is str else msgspec.json.encode(name).decode()

    def _guarded(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items of somebody's object, which may fail at any of them."""
        iterator = self._called(lambda: iter(items))
        while True:
            found = self._called(lambda: next(iterator, _END))
            if found is _END:
                return
            yield found

    def _called(self, function: Callable[[], Any]) -> Any:
        """What somebody's code gives: whatever it raises, the value cannot be read."""
        try:
            return function()
        except HoldfastError:
            raise
        except Exception as error:
            raise self.refusal(_raised(error)) from error

    def _text(self, value: Any) -> str:
        try:
            return checked_text("", value)
        except InvalidText as error:
            raise InvalidText(where=self._place(), reason=error.reason) from error

    def _number(self, value: Any) -> int | float:
        if type(value) is float and not math.isfinite(value):
            raise self.refusal(f"{value} is not a finite number")
        if type(value) is int and value.bit_length() >= limits.JSON_INT_BITS:
            raise self.refusal(f"{shown(value)} needs more than {limits.JSON_INT_BITS} bits")
        number: int | float = value
        return number

    def _decimal(self, value: Decimal) -> str:
        if not Decimal.is_finite(value):
            raise self.refusal("it is a Decimal that is not finite")
        return Decimal.__str__(value)

    def _bytes(self, value: Any) -> str:
        data = self._called(lambda: bytes(value))
        try:
            return bytes(data).decode()
        except UnicodeDecodeError:
            return f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"

    def refusal(self, reason: str) -> InvalidJson:
        return InvalidJson(where=self._place(), reason=reason)

    def _place(self) -> str:
        if not self._path:
            return self._where
        steps = (
            f"[{step}]" if type(step) is int else f".{str(step)[:_SHOWN_KEY_CHARS]}"
            for step in self._path[:_SHOWN_STEPS]
        )
        more = "…" if len(self._path) > _SHOWN_STEPS else ""
        return f"{self._where} at {''.join(steps).removeprefix('.')}{more}"


_END = object()


def _raised(error: Exception) -> str:
    return f"reading it raised {type.__dict__['__name__'].__get__(type(error))}"  # a metaclass may have another name


def _struct_items(value: msgspec.Struct) -> list[tuple[str, Any]]:
    """The fields of a struct under the names that it is encoded by, its tag first."""
    config = value.__struct_config__
    tag = [(config.tag_field, config.tag)] if config.tag_field is not None else []
    names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    items = ((encoded, getattr(value, name)) for name, encoded in names)
    return [*tag, *((name, item) for name, item in items if item is not msgspec.UNSET)]


def _dataclass_items(value: Any) -> list[tuple[str, Any]]:
    import dataclasses  # noqa: PLC0415 - a good part of the time of an import

    return _fields(value, dataclasses.fields(value))


def _fields(value: object, fields: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(each.name, getattr(value, each.name)) for each in fields]
