"""The OpenAPI document: valid, complete, and what its examples say is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypedDict

import jsonschema_rs
import msgspec
import pytest

from holdfast.api.examples import EXAMPLES
from holdfast.api.openapi import build_document
from holdfast.api.operations import OPERATIONS
from holdfast.api.parts import PARTS
from holdfast.api.signatures import read_field_texts

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(build_document()))


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for entry in item.values():
            yield path, entry


def find_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for each in value.values():
            yield from find_references(each)
    elif isinstance(value, list):
        for each in value:
            yield from find_references(each)


def test_the_document_is_valid() -> None:
    from schemathesis.specs.openapi.definitions import OPENAPI_31  # slow to load

    validator = jsonschema_rs.Draft202012Validator(OPENAPI_31)
    assert [str(error.message) for error in validator.iter_errors(DOCUMENT)] == []


def test_it_has_every_operation_once() -> None:
    names = [entry["operationId"] for _, entry in operations()]
    assert len(names) == len(set(names))
    assert set(names) == {each.name for each in OPERATIONS} | {each.name for each in PARTS}


def test_every_reference_leads_to_a_schema() -> None:
    found = set(find_references(DOCUMENT))
    assert {each.removeprefix("#/components/schemas/") for each in found} <= set(DOCUMENT["components"]["schemas"])


def test_every_schema_is_one() -> None:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    wrong = [
        name
        for name, schema in DOCUMENT["components"]["schemas"].items()
        if not jsonschema_rs.meta.is_valid({**dialect, **schema})
    ]
    assert wrong == []


def test_no_two_paths_are_the_same() -> None:
    shapes = [re.sub(r"{\w+}", "{}", path) for path in DOCUMENT["paths"]]
    assert len(shapes) == len(set(shapes))


def test_parameters_are_declared_once_and_those_of_the_path_are_all_there() -> None:
    for path, entry in operations():
        declared = [(each["in"], each["name"]) for each in entry["parameters"]]
        assert len(declared) == len(set(declared)), entry["operationId"]
        in_path = {name for place, name in declared if place == "path"}
        assert in_path == set(re.findall(r"{(\w+)}", path)), entry["operationId"]


def test_everything_is_described() -> None:
    for _, entry in operations():
        assert entry["summary"], entry["operationId"]
        assert entry["responses"]["default"]["content"], entry["operationId"]
        assert any(status.startswith("2") for status in entry["responses"]), entry["operationId"]


def test_options_have_the_texts_of_their_typed_dicts() -> None:
    entries = {entry["operationId"]: entry for _, entry in operations()}
    fields = entries["Session.pack"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert fields["settle"]["description"].startswith("false: write nothing.")
    assert fields["guard"]["description"].startswith("What is done with superseded values")
    without = [name for name, field in fields.items() if not field.get("description")]
    assert set(without) <= {"brief", "profile", "reserve"}, "those that are no options"
    described = [each for _, entry in operations() for each in entry["parameters"] if each.get("description")]
    everything = [each for _, entry in operations() for each in entry["parameters"]]
    assert len(described) > 0.9 * len(everything)


def test_texts_are_read_from_classes_that_are_extended_too() -> None:
    assert read_field_texts(_MoreOptions) == {"first": "Of the base: true or null.", "third": "Of its own."}


class _BaseOptions(TypedDict, total=False):
    first: bool | None
    """Of the base:
    True or None."""
    second: int


class _MoreOptions(_BaseOptions, total=False):
    third: str
    """Of its own."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_fits_its_schema(name: str) -> None:
    [entry] = [each for _, each in operations() if each["operationId"] == name]
    schema = entry["requestBody"]["content"]["application/json"]["schema"]
    assert entry["requestBody"]["content"]["application/json"]["example"] == EXAMPLES[name]
    whole = {**schema, "components": DOCUMENT["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(EXAMPLES[name])
