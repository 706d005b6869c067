"""Expressions that are compiled at their first use."""

from __future__ import annotations

import importlib
import pkgutil
import re

from holdfast.text import detect
from holdfast.text.expressions import _LateExpression, compile_late


def test_matches_as_the_compiled_one() -> None:
    late, compiled = compile_late(r"\b(?P<word>now)\b", re.IGNORECASE), re.compile(r"\b(?P<word>now)\b", re.IGNORECASE)
    for text in ("Now it is.", "not known", "", "until NOW"):
        found, expected = late.search(text), compiled.search(text)
        assert (found and found.span("word")) == (expected and expected.span("word"))
    assert late.sub("then", "now and now") == "then and then"
    assert late.pattern == compiled.pattern
    assert late.flags == compiled.flags


def test_every_expression_of_the_detector_compiles() -> None:
    found = 0
    for module in pkgutil.iter_modules(detect.__path__, f"{detect.__name__}."):
        left: list[object] = [*vars(importlib.import_module(module.name)).values()]
        while left:
            value = left.pop()
            if isinstance(value, _LateExpression):
                assert isinstance(value.pattern, str)
                found += 1
            elif isinstance(value, list | tuple | set | frozenset):
                left += value
            elif isinstance(value, dict):
                left += value.values()
    assert found > 100
