"""The table of operations covers the public surface, and every value in it has a schema."""

from __future__ import annotations

import inspect
from collections import Counter

import msgspec
import pytest

from holdfast.api.operations import LOCAL, OPERATIONS, SURFACE, ApiOperation
from holdfast.api.signatures import read_signature
from holdfast.api.wire import answer_type, wire_type


def test_every_public_method_is_an_operation_or_says_why_not() -> None:
    methods = {
        f"{owner.__name__}.{name}"
        for owner in SURFACE
        for name, _ in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
    }
    operations = {f"{each.owner.__name__}.{each.method}" for each in OPERATIONS}
    assert operations | set(LOCAL) == methods
    assert not operations & set(LOCAL)


def test_every_operation_has_a_name_and_a_request_of_its_own() -> None:
    assert max(Counter(each.name for each in OPERATIONS).values()) == 1
    assert max(Counter((each.verb, each.path) for each in OPERATIONS).values()) == 1


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_every_parameter_and_answer_has_a_schema(operation: ApiOperation) -> None:
    signature = read_signature(operation)
    types = [wire_type(parameter.annotation) for parameter in signature.parameters]
    types += [] if signature.answer is None else [answer_type(signature.answer)]
    msgspec.json.schema_components(types)
    assert signature.summary


def test_no_source_is_read_for_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 fails now and then to parse in several threads at once, and a program need not have its sources."""
    monkeypatch.setattr(inspect, "getsource", None)
    for operation in OPERATIONS:
        assert read_signature.__wrapped__(operation) == read_signature(operation)
