"""Values inside structs, found by the declared types of fields.

Law: every field is looked into whose type can hold such a value; none has to be listed. JSON values hold no structs.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")


def find_values(value: object, kinds: tuple[type[T], ...]) -> list[T]:
    """All values of these types in a struct, in the order of its fields. Found values are not searched."""
    found: list[T] = []
    _collect_values(value, kinds, found)
    return found


def _collect_values(value: object, kinds: tuple[type[T], ...], found: list[T]) -> None:
    if isinstance(value, kinds):
        found.append(value)
    elif isinstance(value, msgspec.Struct):
        for name in _fields_with(type(value), kinds):
            if inner := getattr(value, name):
                _collect_values(inner, kinds, found)
    elif isinstance(value, dict):
        for each in value.values():
            _collect_values(each, kinds, found)
    elif isinstance(value, _COLLECTIONS):
        for each in value:
            _collect_values(each, kinds, found)


_COLLECTIONS = (tuple, list, set, frozenset)


def field_types(kind: type) -> dict[str, Any]:
    """The fields of a struct type and their declared types, with annotations."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hints[name] for name in kind.__struct_fields__}  # type: ignore[attr-defined]


@functools.cache
def _fields_with(kind: type, kinds: tuple[type, ...]) -> tuple[str, ...]:
    return tuple(name for name, declared in field_types(kind).items() if _can_hold(declared, kinds, ()))


def _can_hold(declared: Any, kinds: tuple[type, ...], path: tuple[type, ...]) -> bool:
    origin, inner = get_origin(declared), get_args(declared)
    if origin is Literal or declared is Any or declared is Ellipsis:
        return False
    if origin is Annotated:
        return _can_hold(inner[0], kinds, path)
    if inner:
        return any(_can_hold(each, kinds, path) for each in inner)
    if not isinstance(declared, type):
        return True  # an unknown kind of declaration: search the value
    if declared in path:
        return False
    if issubclass(declared, kinds):
        return True
    fields = field_types(declared).values() if issubclass(declared, msgspec.Struct) else ()
    return any(_can_hold(each, kinds, (*path, declared)) for each in fields)
