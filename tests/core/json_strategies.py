"""Texts, names, numbers and JSON, as hypothesis makes them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from holdfast.model import limits

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


names = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=12)


whole_numbers = st.integers(0, limits.WHOLE_NUMBER)


digests = st.binary(min_size=32, max_size=32)


json_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)


json_values: st.SearchStrategy[Any] = st.recursive(
    json_leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=8
)


json_objects = st.dictionaries(texts, json_values, max_size=4)
