"""What every event class declares: nothing can be forgotten when one is added or changed.

The types of fields are read here by msgspec's own inspection, and in the library by `typing`: neither can hide a gap of the
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import inspect

from holdfast import codec
from holdfast.model.content import BlobRef, Part
from holdfast.model.event import EventBase, FrameTreeEvent, Identifier, OwnContent, Quotation, TextOrigin
from holdfast.model.events import EVENTS, QUOTING_EVENTS, Event, event_blob_refs, event_parts
from holdfast.model.structs import field_types, find_values
from tests.core import strategies
from tests.core.struct_strategies import structs

CLASSES = pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def test_every_event_class_is_registered_under_a_name_of_its_own() -> None:
    concrete = [
        each for each in subclasses(EventBase) if each.__module__.startswith("holdfast.") and "name" in vars(each)
    ]
    assert {each.__name__ for each in concrete} == {each.__name__ for each in EVENTS.values()}
    assert len(concrete) == len(EVENTS)


# Whose text a field holds


def undeclared(kind: type) -> list[str]:
    """The fields of an event, and of the structs in them, that can hold text or a body, and do not say whose."""
    return [path for name, declared in field_types(kind).items() for path in _undeclared(declared, name)]


def _undeclared(declared: Any, path: str) -> Iterator[str]:
    if any(isinstance(each, TextOrigin) for each in getattr(declared, "__metadata__", ())):
        return
    match inspect.type_info(declared):
        case inspect.StructType(cls=cls) if cls is not BlobRef:
            for name, inner in field_types(cls).items():
                yield from _undeclared(inner, f"{path}.{name}")
        case inspect.UnionType() | inspect.VarTupleType() | inspect.TupleType() | inspect.DictType():
            for inner in declared.__args__:
                if inner is not Ellipsis:
                    yield from _undeclared(inner, path)
        case inspect.IntType() | inspect.FloatType() | inspect.BoolType() | inspect.NoneType() | inspect.LiteralType():
            return
        case _:
            yield path


@CLASSES
def test_every_field_that_can_hold_text_says_whose_text_it_is(event: type[Event]) -> None:
    assert undeclared(event) == []


class Inner(msgspec.Struct):
    figure: int
    word: str
    label: Identifier[str]


class Careless(EventBase, frozen=True, kw_only=True):
    """An event that forgets to declare something in each way there is."""

    text: str
    value: Any
    data: bytes
    maybe: str | None = None
    pairs: tuple[tuple[int, str], ...] = ()
    table: dict[str, int] = msgspec.field(default_factory=dict)
    body: BlobRef | None = None
    parts: tuple[Part, ...] = ()
    inner: Inner | None = None
    number: int = 0
    choice: OwnContent[str] = ""
    deep: Quotation[Inner | None] = None


def test_a_field_that_does_not_say_whose_text_it_holds_is_found() -> None:
    found = [path.partition(".")[0] if path.startswith("parts") else path for path in undeclared(Careless)]
    assert list(dict.fromkeys(found)) == [
        "text",
        "value",
        "data",
        "maybe",
        "pairs",
        "table",
        "body",
        "parts",
        "inner.word",
    ]


# Which events it repeats


def has_quotation(kind: type) -> bool:
    return TextOrigin.QUOTATION in find_origins(kind)


def find_origins(kind: type) -> set[object]:
    return {each for declared in field_types(kind).values() for each in _origins(declared)}


def _origins(declared: Any) -> Iterator[object]:
    yield from getattr(declared, "__metadata__", ())
    for inner in getattr(declared, "__args__", ()):
        yield from _origins(inner)


@CLASSES
def test_an_event_with_quotations_says_which_events_it_quotes(event: type[Event]) -> None:
    assert has_quotation(event) == ("quoted_events" in vars(event)) == (event.name in QUOTING_EVENTS)


def test_a_quotation_is_found_wherever_it_is() -> None:
    assert has_quotation(Careless)
    assert not has_quotation(Inner)


@CLASSES
def test_what_belongs_to_one_frame_is_erased_with_its_tree(event: type[Event]) -> None:
    """Events of a conversation name a frame or none; those that frames are made of always name one, or begin one."""
    frame = {each.name: each for each in msgspec.structs.fields(event)}.get("frame")
    needs = event.name == "frame.pushed" if frame is None else frame.required
    assert issubclass(event, FrameTreeEvent) == needs


# Bodies in the blob store


REF: dict[str, Any] = {"digest": "ab" * 32, "size": 7}


def places_of(declared: inspect.Type) -> Iterator[Any]:
    """Plain values of a type, one for each place in it where a reference to a body can be."""
    match declared:
        case inspect.StructType(cls=cls) if cls is BlobRef:
            yield REF
        case inspect.StructType(fields=fields):
            for field in fields:
                for value in places_of(field.type):
                    yield {**plain(declared), field.encode_name: value}
        case inspect.UnionType(types=types):
            for each in types:
                yield from places_of(each)
        case inspect.VarTupleType(item_type=item):
            yield from ([value] for value in places_of(item))
        case inspect.TupleType(item_types=items):
            for at, item in enumerate(items):
                for value in places_of(item):
                    yield [*map(plain, items[:at]), value, *map(plain, items[at + 1 :])]
        case inspect.DictType(value_type=inner):
            yield from ({"key": value} for value in places_of(inner))


def plain(declared: inspect.Type) -> Any:
    """The least value of a type."""
    match declared:
        case inspect.StructType(fields=fields, tag=tag, tag_field=tag_field):
            given = {each.encode_name: plain(each.type) for each in fields if each.required}
            return given | ({tag_field: tag} if tag_field else {})
        case inspect.UnionType(types=types):
            return plain(types[0])
        case inspect.TupleType(item_types=items):
            return list(map(plain, items))
        case inspect.LiteralType(values=values):
            return values[0]
    return {inspect.StrType: "", inspect.BytesType: "", inspect.VarTupleType: [], inspect.DictType: {}}.get(
        type(declared), 0
    )


@CLASSES
def test_a_body_is_found_wherever_an_event_can_name_it(event: type[Event]) -> None:
    for value in places_of(inspect.type_info(event)):
        made = codec.decode(msgspec.json.encode(value), event)
        assert BlobRef(**REF) in event_blob_refs(made), value


def test_there_are_places_for_bodies() -> None:
    number = {name: len(list(places_of(inspect.type_info(event)))) for name, event in EVENTS.items()}
    assert number["message.recorded"] == number["evidence.kept"] == 8, "four kinds of parts, in two fields"
    assert number["pack.recorded"] == 2
    assert number["handle.replaced"] == 5
    assert number["frame.compacted"] == number["handle.moved"] == 1
    assert number["fact.asserted"] == 0


def test_values_are_found_in_every_kind_of_collection() -> None:
    class Deep(msgspec.Struct):
        number: int
        refs: dict[str, tuple[list[BlobRef] | None, ...]]
        anything: Any
        one: OwnContent[BlobRef | None] = None

    one, other, unseen = (BlobRef(str(number), number) for number in range(3))
    assert find_values(Deep(1, {"a": ([one], None, [other])}, unseen, one), (BlobRef,)) == [one, other, one]


@given(strategies.events)
def test_nothing_is_missed_by_looking_only_where_types_allow_it(event: Event) -> None:

    def walk(value: Any, kind: type) -> Iterator[Any]:
        if isinstance(value, kind):
            yield value
        elif isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                yield from walk(getattr(value, name), kind)
        elif isinstance(value, dict | tuple | list):
            for each in value.values() if isinstance(value, dict) else value:
                yield from walk(each, kind)

    assert event_blob_refs(event) == list(walk(event, BlobRef))
    assert len(event_parts(event)) == sum(1 for kind in Part.__args__ for _ in walk(event, kind))


# Its line on the command line


@CLASSES
def test_every_event_describes_itself(event: type[Event]) -> None:
    assert "describe" in vars(event)


@given(st.sampled_from(list(EVENTS.values())).flatmap(structs), st.integers(1, 10**9))
def test_whatever_is_in_an_event_it_can_be_described(event: Event, seq: int) -> None:
    assert isinstance(event.describe(seq), str)
