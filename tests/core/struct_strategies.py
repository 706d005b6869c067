"""Any struct, made of the types of its fields: for what has no strategy of its own."""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from tests.core.json_strategies import json_values, texts

numbers = st.integers(0, 50)


@functools.cache
def structs(kind: type) -> st.SearchStrategy[Any]:
    """Values of a struct type."""
    return _values_of(inspect.type_info(kind))


def _values_of(declared: inspect.Type) -> st.SearchStrategy[Any]:
    match declared:
        case inspect.StructType(cls=cls, fields=fields):
            given = {field.name: _values_of(field.type) for field in fields}
            return st.builds(cls, **given)
        case inspect.UnionType(types=types):
            return st.one_of([_values_of(each) for each in types])
        case inspect.VarTupleType(item_type=item):
            return st.lists(_values_of(item), max_size=2).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(_values_of, items))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values_of(key), _values_of(value), max_size=2)
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
    return _LEAVES[type(declared)]


_LEAVES: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
    inspect.AnyType: json_values,
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.IntType: numbers,
    inspect.FloatType: st.floats(0, 1),
    inspect.StrType: texts,
    inspect.BytesType: st.binary(max_size=9),
}
