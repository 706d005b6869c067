"""Tools made of functions: name, words, schema, and the arguments of a call as the function wants them."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import pathlib
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Tool
from holdfast.errors import InvalidTool
from holdfast.model.tools.docstrings import read_docstring
from holdfast.types import FunctionTool

from_function = Tool.from_function


@dataclasses.dataclass
class Trip:
    to: str
    days: int = 3


class Seat(enum.Enum):
    AISLE = "aisle"
    WINDOW = "window"


class Guest(TypedDict):
    name: str
    age: NotRequired[int]


class Point(NamedTuple):
    x: int
    y: int


class Room(msgspec.Struct):
    beds: int
    view: str | None = None


class Leg(pydantic.BaseModel):
    to: str
    then: Leg | None = None


class Price(pydantic.BaseModel):
    amount: decimal.Decimal
    leg: Leg | None = None


def schema_of(kind: Any, **options: Any) -> Any:
    def tool(value: Any) -> None:
        pass

    tool.__annotations__["value"] = kind
    return from_function(tool, **options).parameters["properties"]["value"]


def converted(kind: Any, value: Any) -> Any:
    def tool(value: Any) -> None:
        pass

    tool.__annotations__["value"] = kind
    return from_function(tool).convert_arguments({"value": value})["value"]


TYPES: dict[str, tuple[Any, Any, Any, Any]] = {
    "text": (str, {"type": "string"}, "a", "a"),
    "int": (int, {"type": "integer"}, 3, 3),
    "whole float": (int, {"type": "integer"}, 3.0, 3),
    "float": (float, {"type": "number"}, 3, 3.0),
    "bool": (bool, {"type": "boolean"}, True, True),
    "none": (None, {"type": "null"}, None, None),
    "any": (Any, {}, {"a": [1]}, {"a": [1]}),
    "optional": (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),  # noqa: UP045
    "union": (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "a", "a"),
    "literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "a", "a"),
    "enum": (Seat, {"type": "string", "enum": ["aisle", "window"]}, "aisle", Seat.AISLE),
    "list": (list[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    "sequence": (Sequence[int], {"type": "array", "items": {"type": "integer"}}, [1], [1]),
    "set": (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [1, 1], {1}),
    "dict": (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    "mapping": (Mapping[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": 1}),
    "any dict": (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    "date": (datetime.date, {"type": "string", "format": "date"}, "2026-01-31", datetime.date(2026, 1, 31)),
    "uuid": (uuid.UUID, {"type": "string", "format": "uuid"}, str(uuid.UUID(int=1)), uuid.UUID(int=1)),
    "path": (pathlib.PurePosixPath, {"type": "string"}, "a/b", pathlib.PurePosixPath("a/b")),
    "bounded": (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}, 2, 2),
    "dataclass": (
        Trip,
        {
            "type": "object",
            "properties": {"to": {"type": "string"}, "days": {"type": "integer", "default": 3}},
            "required": ["to"],
            "additionalProperties": False,
        },
        {"to": "Rome"},
        Trip("Rome"),
    ),
    "typed dict": (
        Guest,
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        {"name": "Ada"},
        {"name": "Ada"},
    ),
    "struct": (
        Room,
        {
            "type": "object",
            "properties": {
                "beds": {"type": "integer"},
                "view": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            },
            "required": ["beds"],
            "additionalProperties": False,
        },
        {"beds": 2},
        Room(2),
    ),
    "models in a list": (
        list[Leg],
        {"type": "array", "items": {"$ref": "#/$defs/Leg"}},
        [{"to": "Rome", "then": {"to": "Pisa"}}],
        [Leg(to="Rome", then=Leg(to="Pisa"))],
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_a_type_becomes_a_schema_and_an_argument_a_value_of_it(name: str) -> None:
    kind, schema, given, expected = TYPES[name]
    assert schema_of(kind) == schema
    found = converted(kind, given)
    assert (type(found), found) == (type(expected), expected)


def test_tuples_and_named_tuples() -> None:
    assert schema_of(tuple[int, str])["prefixItems"] == [{"type": "integer"}, {"type": "string"}]
    assert converted(tuple[int, str], [1, "a"]) == (1, "a")
    assert converted(Point, [1, 2]) == Point(1, 2)


def test_types_that_refer_to_themselves_are_defined_once_and_others_stand_where_they_are_used() -> None:
    def tool(one: Price, other: Leg, trip: Trip) -> None:
        pass

    schema = from_function(tool).parameters
    assert [*schema["$defs"]] == ["Leg"]
    assert schema["properties"]["other"] == {"$ref": "#/$defs/Leg"}
    assert schema["properties"]["trip"]["properties"]["to"] == {"type": "string"}
    assert "title" not in json.dumps(schema)


def test_the_arguments_of_a_tool_are_an_object_that_says_what_it_takes() -> None:
    def book(trip: Trip, seats: int, *, when: datetime.date | None = None, note: str = "none") -> None:
        """Book a trip.

        The first that fits is taken.

        Args:
            trip (Trip): Where to go, and
                for how long.
            seats: How many.

        Returns:
            Nothing at all.
        """

    tool = from_function(book)
    assert (tool.name, tool.description) == ("book", "Book a trip.\n\nThe first that fits is taken.")
    schema = tool.parameters
    assert schema["required"] == ["trip", "seats"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["trip"]["description"] == "Where to go, and for how long."
    assert schema["properties"]["seats"] == {"type": "integer", "description": "How many."}
    assert schema["properties"]["note"] == {"type": "string", "default": "none"}
    assert tool.convert_arguments({"trip": {"to": "Rome"}, "seats": 2}) == {"trip": Trip("Rome"), "seats": 2}
    assert tool.convert_arguments({"trip": {"to": "Rome"}, "seats": 2, "note": None}) == {
        "trip": Trip("Rome"),
        "seats": 2,
    }
    given = tool.convert_arguments({"trip": {"to": "Rome"}, "seats": 2, "when": None})
    assert given == {"trip": Trip("Rome"), "seats": 2, "when": None}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({}, "missing required field `trip`"),
    "of another type": ({"trip": {"to": 1}, "seats": 1}, "Expected `str`, got `int` - at `$.trip.to`"),
    "unknown": ({"trip": {"to": "a"}, "seats": 1, "x": 1}, "unknown field `x`"),
    "not whole": ({"trip": {"to": "a"}, "seats": 1.5}, "Expected `int`, got `float` - at `$.seats`"),
    "of a model": ({"trip": {"to": "a"}, "seats": 1, "leg": {"too": 1}}, "Field required"),
    "refused by its class": ({"trip": {"to": "a"}, "seats": 1, "even": {"number": 3}}, "3 is odd"),
}


@dataclasses.dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise LookupError(f"{self.number} is odd")


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_arguments_is_said_in_words(name: str) -> None:
    def book(trip: Trip, seats: int, leg: Leg | None = None, even: Even | None = None) -> None:
        pytest.fail("it must not run")

    given, said = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(said)):
        from_function(book).convert_arguments(given)


STYLES = {
    "google": """Look.

        Args:
            city (str): Where
                to look.
            days: For how long: 1 to 9.
        Raises:
            OSError: never
        """,
    "numpy": """Look.

        Parameters
        ----------
        city : str
            Where
            to look.
        days : int, optional
            For how long: 1 to 9.

        Returns
        -------
        str
            What was found.
        """,
    "reST": """Look.

        :param city: Where
            to look.
        :param int days: For how long: 1 to 9.
        :returns: What was found.
        """,
}


@pytest.mark.parametrize("style", STYLES)
def test_parameters_are_described_in_three_styles(style: str) -> None:
    found = read_docstring(STYLES[style])
    assert found.text == "Look."
    assert found.parameters == {"city": "Where to look.", "days": "For how long: 1 to 9."}


@given(st.text(st.sampled_from(list("Args:\n  -param :x()*,returns")) | st.characters(exclude_categories=["Cs"])))
def test_any_docstring_can_be_read(text: str) -> None:
    found = read_docstring(text)
    assert len(found.text) <= len(text.expandtabs())


def test_an_annotation_says_more_than_the_docstring() -> None:
    def look(city: Annotated[str, "The city"], days: Annotated[int, msgspec.Meta(description="Days")]) -> None:
        """Look.

        Args:
            city: Nowhere.
            days: Never.
        """

    found = from_function(look).parameters["properties"]
    assert [each["description"] for each in found.values()] == ["The city", "Days"]


class Shop:
    def sell(self, what: str, count: int = 1) -> str:
        """Sell it."""
        return f"{count} {what}"

    async def order(self, what: str) -> str:
        """Order it."""
        return what

    @classmethod
    def close(cls, at: str) -> str:
        return at

    def __call__(self, what: str) -> str:
        return what


def test_methods_partials_and_objects_are_functions_too() -> None:
    shop = Shop()
    for function, name, parameters in (
        (shop.sell, "sell", ["what", "count"]),
        (shop.order, "order", ["what"]),
        (Shop.close, "close", ["at"]),
        (functools.partial(shop.sell, count=2), "sell", ["what"]),
        (functools.partial(shop.sell, "bread"), "sell", ["count"]),
    ):
        tool = from_function(function)
        assert (tool.name, [*tool.parameters["properties"]]) == (name, parameters)
    assert from_function(shop, name="shop").convert_arguments({"what": "a"}) == {"what": "a"}
    assert from_function(shop.sell)("bread", count=3) == "3 bread"


def test_a_class_that_is_defined_where_the_tool_is_made_is_found() -> None:
    class Local(msgspec.Struct):
        number: int

    def tool(local: Local) -> None:
        pass

    assert from_function(tool).convert_arguments({"local": {"number": 1}}) == {"local": Local(1)}


def test_names_and_words_may_be_given_and_parameters_hidden() -> None:
    def pay(to: str, key: str) -> None:
        """Pay."""

    tool = from_function(pay, "send_money", "Send money.", exclude=["key"])
    assert (tool.name, tool.description, [*tool.parameters["properties"]]) == ("send_money", "Send money.", ["to"])
    with pytest.raises(ValueError, match="unknown field `key`"):
        tool.convert_arguments({"to": "a", "key": "stolen"})


class Unknown:
    pass


def _any_number(*values: int) -> None: ...
def _any_names(**values: int) -> None: ...
def _by_place(value: int, /) -> None: ...
def _bare(value) -> None: ...  # type: ignore[no-untyped-def]
def _unresolved(value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
def _of_no_schema(value: Unknown) -> None: ...
def _callback(value: Callable[[], int]) -> None: ...
def _two_texts(value: datetime.date | str) -> None: ...


@pytest.mark.parametrize(
    ("function", "parameter", "reason"),
    [
        (_any_number, "values", "any number of arguments"),
        (_any_names, "values", "any number of arguments"),
        (_by_place, "value", "positional-only"),
        (_bare, "value", "no annotation"),
        (_unresolved, "value", "cannot be resolved: Nowhere"),
        (_of_no_schema, "value", "not supported"),
        (_callback, "value", "not supported"),
        (_two_texts, "value", "not contain more than one str-like type"),
        (Shop.sell, "self", "bound method"),
        (lambda: None, "", "pass name="),
        (Trip, "", "not a function"),
        (5, "", "not a function"),
        (None, "", "not a function"),
    ],
)
def test_what_cannot_be_described_is_refused_by_the_name_of_its_parameter(
    function: Any, parameter: str, reason: str
) -> None:
    with pytest.raises(InvalidTool) as caught:
        from_function(function)
    assert caught.value.parameter == parameter
    assert reason in caught.value.reason


def test_a_strict_tool_requires_everything_and_lets_be_null_what_may_be_left_out() -> None:
    def look(city: str, seat: Seat = Seat.AISLE, trip: Trip | None = None, days: list[int] = []) -> None:  # noqa: B006
        """Look.

        Args:
            seat: Which.
        """

    tool = from_function(look, strict=True)
    schema = tool.parameters
    assert schema["required"] == [*schema["properties"]] == ["city", "seat", "trip", "days"]
    null = {"type": "null"}
    assert schema["properties"]["seat"] == {
        "description": "Which.",
        "anyOf": [{"type": "string", "enum": ["aisle", "window"]}, null],
    }
    assert schema["properties"]["trip"]["anyOf"][0]["required"] == ["to", "days"]
    assert "default" not in json.dumps(schema)
    assert tool.openai()["function"]["strict"] is True
    assert tool.openai_responses()["strict"] is True
    assert tool.convert_arguments({"city": "Rome", "seat": None, "trip": None, "days": None}) == {
        "city": "Rome",
        "trip": None,
    }


@pytest.mark.parametrize("kind", [Any, dict[str, int], tuple[int, str], list[dict[str, int]]])
def test_what_strict_tools_cannot_say_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidTool, match="a strict tool cannot have"):
        schema_of(kind, strict=True)


def test_a_tool_is_told_to_providers_as_before_and_the_same_every_time() -> None:
    plain = Tool(name="a", description="b", parameters={"type": "object"})
    assert msgspec.json.encode(plain) == b'{"name":"a","description":"b","parameters":{"type":"object"}}'
    tool = from_function(Shop().sell)
    assert isinstance(tool, FunctionTool)
    assert tool.anthropic() == tool.declaration.anthropic() == from_function(Shop().sell).anthropic()
    assert "strict" not in tool.openai()["function"]
