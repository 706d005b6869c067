"""Random values of the types that operations take and return."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from holdfast.api.signatures import is_union
from holdfast.errors import HoldfastError

LEAVES = 4
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
WHOLE = st.integers(-(2**62), 2**62)
FRACTION = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | WHOLE | FRACTION | TEXT
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=LEAVES
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.sampled_from(["$bytes", "$value"]), inner, max_size=3)
    ),
    max_leaves=LEAVES,
)
"""JSON with bytes in it, and with names that look like those of bytes."""
_SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: WHOLE,
    float: FRACTION,
    bool: st.booleans(),
    bytes: st.binary(max_size=8),
    types.NoneType: st.none(),
    None: st.none(),
    datetime: st.datetimes(timezones=st.just(UTC)),
    Any: JSON,
    object: JSON,
}


@functools.cache
def values_of(kind: Any, *, leave_out: frozenset[Any] = frozenset()) -> st.SearchStrategy[Any]:
    """Values of a type, without those of some members of unions."""
    of = functools.partial(values_of, leave_out=leave_out)
    if isinstance(kind, str):
        return JSON
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return of(args[0])
    if origin is Literal:
        return st.sampled_from(args)
    if is_union(kind):
        return st.one_of([of(each) for each in args if each not in leave_out and get_origin(each) is not Callable])
    if origin is tuple and Ellipsis not in args:
        return st.tuples(*map(of, args))
    if origin in (list, tuple) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        listed = st.lists(of(args[0]), max_size=2)
        return listed.map(tuple) if origin is tuple else listed
    if origin is frozenset:
        return st.frozensets(of(args[0]), max_size=2)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(of(args[0]), of(args[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return structs_of(kind, leave_out)
    return JSON


def structs_of(kind: type[msgspec.Struct], leave_out: frozenset[Any]) -> st.SearchStrategy[Any]:
    """Structs with random fields; those that a struct refuses are not used."""

    def build() -> st.SearchStrategy[Any]:
        fields = {
            field.name: values_of(field.type, leave_out=leave_out)
            if field.required
            else st.just(msgspec.UNSET) | values_of(field.type, leave_out=leave_out)
            for field in msgspec.structs.fields(kind)
        }
        return st.fixed_dictionaries(fields).map(make).filter(lambda made: made is not None)

    def make(fields: dict[str, Any]) -> Any:
        try:
            return kind(**{name: value for name, value in fields.items() if value is not msgspec.UNSET})
        except (HoldfastError, ValueError):
            return None

    return st.deferred(build)
