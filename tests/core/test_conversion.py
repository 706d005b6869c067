"""Values of a program as JSON: one rule, with the path of what cannot be converted."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import types
import uuid
from typing import Any, NamedTuple

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import codec
from holdfast.conversion import CheckedJson, is_spelling, raw_arguments, to_json
from holdfast.errors import HoldfastError, InvalidInput, InvalidJson, InvalidText
from holdfast.model import limits
from tests import hostile
from tests.core.json_strategies import json_leaves, texts
from tests.support import figure

EXAMPLES = figure(100, 10_000)
AT = datetime.datetime(2026, 1, 31, 9, 30, tzinfo=datetime.UTC)


class Colour(enum.Enum):
    RED = "red"
    NONE = None


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Client:
    name: str
    since: datetime.date
    orders: list[Any] = dataclasses.field(default_factory=list)


class Point(NamedTuple):
    x: int
    y: int


class Room(msgspec.Struct, tag="room", rename="camel"):
    bed_count: int
    price: decimal.Decimal
    note: str | msgspec.UnsetType = msgspec.UNSET


class Order(pydantic.BaseModel):
    id: uuid.UUID
    at: datetime.datetime
    colour: Colour = Colour.RED


class Attribute:
    def __init__(self, name: str) -> None:
        self.name = name


class Attrs:
    """As attrs makes one."""

    __attrs_attrs__ = (Attribute("a"), Attribute("b"))

    def __init__(self) -> None:
        self.a, self.b = 1, Colour.RED


CONVERTED: dict[str, tuple[Any, Any]] = {
    "a datetime": (AT, "2026-01-31T09:30:00+00:00"),
    "a datetime without a zone": (AT.replace(tzinfo=None), "2026-01-31T09:30:00"),
    "a date": (AT.date(), "2026-01-31"),
    "a time": (AT.time(), "09:30:00"),
    "a timedelta": (datetime.timedelta(days=1, seconds=90), "P1DT90S"),
    "a Decimal": (decimal.Decimal("1.10"), "1.10"),
    "a UUID": (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "a path": (pathlib.PurePosixPath("a/b"), "a/b"),
    "an enum": (Colour.RED, "red"),
    "an enum of None": (Colour.NONE, None),
    "an int enum": (Level.HIGH, 3),
    "bytes of text": (b"caf\xc3\xa9", "café"),
    "bytes": ([b"\xff\xfe"], ["data:application/octet-stream;base64,//4="]),
    "a tuple": ((1, (2,)), [1, [2]]),
    "a named tuple": (Point(1, 2), {"x": 1, "y": 2}),
    "a set": ({3, 1, 2}, [1, 2, 3]),
    "a set of texts": (frozenset({"b", "a"}), ["a", "b"]),
    "a deque": (collections.deque([1]), [1]),
    "a range": (range(3), [0, 1, 2]),
    "a generator": ((number for number in (1, 2)), [1, 2]),
    "keys": ({"a": 1}.keys(), ["a"]),
    "an array": (array.array("I", [1, 2]), [1, 2]),
    "an ordered dict": (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "a read-only mapping": (types.MappingProxyType({"a": 1}), {"a": 1}),
    "keys that are no text": (
        {2: "a", True: "b", None: "c", 1.5: "d", AT.date(): "e", Colour.RED: "f"},
        {"2": "a", "true": "b", "null": "c", "1.5": "d", "2026-01-31": "e", "red": "f"},
    ),
    "a dataclass": (
        Client("Ada", AT.date(), [Point(1, 2)]),
        {"name": "Ada", "since": "2026-01-31", "orders": [{"x": 1, "y": 2}]},
    ),
    "an attrs class": (Attrs(), {"a": 1, "b": "red"}),
    "a struct": (Room(2, decimal.Decimal("9.50")), {"type": "room", "bedCount": 2, "price": "9.50"}),
    "a model": (
        Order(id=uuid.UUID(int=1), at=AT),
        {"id": "00000000-0000-0000-0000-000000000001", "at": "2026-01-31T09:30:00Z", "colour": "red"},
    ),
}


@pytest.mark.parametrize("name", CONVERTED)
def test_the_rule(name: str) -> None:
    value, expected = CONVERTED[name]
    found = to_json("the result", value)
    assert (type(found), found) == (type(expected), expected)
    assert codec.check_json("the result", found) == found


def _itself() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


class Failing:
    def model_dump(self, mode: str) -> Any:
        raise RuntimeError("no")


class Endless:
    def model_dump(self, mode: str) -> Any:
        return Endless()


REFUSED: dict[str, tuple[Any, str, str]] = {
    "an object": ({"items": [1, 2, 3, {"client": object()}]}, "the result at items[3].client", "type object"),
    "an object in a dataclass": (Client("a", AT.date(), [1j]), "the result at orders[0]", "type complex"),
    "a class": (Client, "the result", "type type"),
    "a function": ([len], "the result at [0]", "builtin_function_or_method"),
    "not a number": ({"a": [float("nan")]}, "the result at a[0]", "nan is not a finite number"),
    "infinity": (float("-inf"), "the result", "-inf is not a finite number"),
    "a Decimal that is none": (decimal.Decimal("NaN"), "the result", "not finite"),
    "a long number": ([2**70], "the result at [0]", "more than 64 bits"),
    "a key that is a tuple": ({(1, 2): 3}, "the result", "its key"),
    "keys that meet": ({"1": 1, 1: 2}, "the result", "two of its keys are '1'"),
    "a cycle": (_itself(), "the result at [1].again", "contains itself"),
    "a model that fails": ([Failing()], "the result at [0]", "raised RuntimeError"),
    "a model without end": (Endless(), "the result", "deeper than"),
    "an exception": (ValueError("x"), "the result", "type ValueError"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_converted_is_named_by_its_path(name: str) -> None:
    value, where, reason = REFUSED[name]
    with pytest.raises(InvalidJson) as refusal:
        to_json("the result", value)
    assert refusal.value.where == where
    assert reason in refusal.value.reason


def test_text_that_is_not_unicode_is_named_by_its_path_too() -> None:
    with pytest.raises(InvalidText) as refusal:
        to_json("the result", {"a": ["\ud800"]})
    assert refusal.value.where == "the result at a[0]"


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}, lambda value: (value,)])
def test_depth_and_number_are_bounded(wrap: Any) -> None:
    value: Any = 1
    for _ in range(limits.JSON_DEPTH):
        value = wrap(value)
    to_json("the result", value)
    with pytest.raises(InvalidJson, match="deeper than"):
        to_json("the result", wrap(value))
    with pytest.raises(InvalidJson, match="more than"):
        to_json("the result", (number for number in range(10**9)))


def test_what_was_checked_before_counts_and_is_bounded_as_if_it_were_new() -> None:
    nested: Any = 1
    for _ in range(limits.JSON_DEPTH - 1):
        nested = [nested]
    checked = CheckedJson("the result", nested, 1)
    assert to_json("the result", {"a": checked, "b": [1]}) == {"a": nested, "b": [1]}
    with pytest.raises(InvalidJson, match="deeper than"):
        to_json("the result", {"a": [checked]})
    with pytest.raises(InvalidJson, match="deeper than"):
        CheckedJson("the result", nested, 2)
    ten = CheckedJson("the result", [1] * 9, 1)
    assert to_json("the result", [ten, ten], 21) == [[1] * 9] * 2
    with pytest.raises(InvalidJson, match="more than 20"):
        to_json("the result", [ten, ten], 20)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_json)
@settings(max_examples=EXAMPLES)
def test_json_stays_as_it_is_and_is_refused_where_it_was(value: Any) -> None:
    try:
        expected = codec.check_json("it", value)
    except InvalidInput as refusal:
        with pytest.raises(type(refusal)):
            to_json("it", value)
    else:
        found = to_json("it", value)
        assert codec.encode(found) == codec.encode(expected)
        assert found is not value or not isinstance(value, list | dict)


@given(st.sets(st.integers() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_set_has_one_order(values: set[Any]) -> None:
    small = {value for value in values if type(value) is str or abs(value) < 2**62}
    backwards = frozenset(sorted(small, key=repr, reverse=True))
    assert json.dumps(to_json("it", small)) == json.dumps(to_json("it", backwards))


@pytest.mark.parametrize("case", [*hostile.OBJECTS, *hostile.STRUCTURES, *hostile.NUMBERS], ids=lambda case: case.name)
def test_whatever_it_is_there_is_json_or_a_typed_error(case: hostile.HostileCase) -> None:
    found: Any = None
    refusal: HoldfastError | None = None
    try:
        found = to_json("the result", case.make())
    except HoldfastError as error:
        refusal = error
    assert refusal is None or (isinstance(refusal, InvalidInput) and len(str(refusal)) < 2_000)
    assert codec.check_json("it", found) == found


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": 1e400}',
        '{"a": 1, "a": null}',
        '{"a": NaN}',
        '{"a": "\\ud800"}',
        f'{{"a": {"9" * 30}}}',
        '{"a": ' + "[" * 5_000,
        "null",
        '{"a": null} ?',
        "\ufeff{}",
    ],
)
def test_a_text_that_cannot_be_stored_spells_no_arguments(raw: str) -> None:
    assert not is_spelling(raw, {"a": None})
    assert raw_arguments({"a": None}, raw) is None


@given(st.dictionaries(texts, json_leaves, max_size=4), st.dictionaries(texts, json_leaves, max_size=4))
def test_a_text_spells_what_it_was_written_from_and_nothing_else(args: dict[str, Any], other: dict[str, Any]) -> None:
    raw = json.dumps(args)
    assert is_spelling(raw, args)
    assert is_spelling(raw, other) == (codec.encode(args) == codec.encode(other))
