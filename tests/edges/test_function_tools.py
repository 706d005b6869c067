"""Tools made of functions, run: arguments converted on the way in, values on the way out, and every call gets a result."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Brief, Engine, Text, Tool, errors
from holdfast.types import Body, Data
from tests.edges.engines import KINDS, EngineDesk, expect_refusal

AWAITED = tuple(kind for kind in KINDS if kind.endswith("awaited"))
BLOCKING = tuple(kind for kind in KINDS if not kind.endswith("awaited"))


@dataclasses.dataclass
class Trip:
    to: str
    on: datetime.date
    days: int = 1


def book(trip: Trip, seats: int = 1) -> Trip:
    """Book a trip.

    Args:
        trip: Where to go, and when.
        seats: How many.
    """
    assert isinstance(trip, Trip)
    return dataclasses.replace(trip, days=trip.days + seats)


def price(to: str) -> decimal.Decimal:
    """The price of a trip."""
    return decimal.Decimal("9.50")


async def later(trip: Trip) -> datetime.date:
    """Book it later."""
    return trip.on + datetime.timedelta(1)


TRIP = {"to": "Rome", "on": "2026-01-31"}


def called(session: Any, name: str, args: Any) -> Any:
    return session.record("assistant", "", tool_calls=[{"name": name, "args": args}]).tool_calls[0]


def ran(session: Any, tools: Any, name: str, args: Any, **options: Any) -> tuple[bool, Any]:
    result = session.run(called(session, name, args), tools, **options).tool_results[0]
    assert session.state().open_calls == ()
    return result.is_error, result.value


@pytest.mark.parametrize(
    "tools",
    [Tool.from_function(book), [book, price], [Tool.from_function(book), price], {"book": Tool.from_function(book)}],
    ids=["a tool", "functions", "a tool and a function", "a mapping"],
)
def test_arguments_arrive_as_annotated_and_what_is_returned_is_converted(engine: Engine, tools: Any) -> None:
    session = engine.create_session("s")
    found = ran(session, tools, "book", {"trip": TRIP, "seats": 2})
    assert found == (False, {"to": "Rome", "on": "2026-01-31", "days": 3})


def test_a_function_alone_gets_the_arguments_as_they_came(engine: Engine) -> None:
    session = engine.create_session("s")
    assert ran(session, lambda trip: type(trip).__name__, "book", {"trip": TRIP}) == (False, "dict")
    assert ran(session, {"book": lambda trip: trip["to"]}, "book", {"trip": TRIP}) == (False, "Rome")


WRONG: dict[str, tuple[str, Any, str]] = {
    "a tool that is not there": ("fly", {}, "Error: there is no tool 'fly'. The tools are: book, price"),
    "a missing argument": ("book", {}, "Error: invalid arguments of book: Object missing required field `trip`"),
    "an unknown argument": ("price", {"to": "Rome", "from": "Pisa"}, "unknown field `from`"),
    "one of another type": ("book", {"trip": {**TRIP, "days": "two"}}, "Expected `int`, got `str` - at `$.trip.days`"),
    "a date that is none": ("book", {"trip": {"to": "a", "on": "soon"}}, "encoded date - at `$.trip.on`"),
    "no object": ("book", "[1", "Error: the arguments are not an object"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_model_asks_wrongly_it_is_told_and_the_loop_goes_on(engine: Engine, name: str) -> None:
    session = engine.create_session("s")
    tool, args, said = WRONG[name]
    is_error, value = ran(session, [book, price], tool, args)
    assert is_error
    assert said in value
    assert ran(session, [book, price], "price", {"to": "Rome"}) == (False, "9.50")


def test_a_key_is_given_to_a_parameter_that_no_model_is_told_of(engine: Engine) -> None:
    keys: list[str] = []

    def pay(to: str, key: str) -> str:
        keys.append(key)
        return to

    session = engine.create_session("s")
    tool = Tool.from_function(pay, exclude=["key"])
    assert ran(session, tool, "pay", {"to": "Rossi"}, key_as="key") == (False, "Rossi")
    is_error, value = ran(session, tool, "pay", {"to": "Rossi", "key": "mine"}, key_as="key")
    assert (is_error, len(keys), len(keys[0])) == (True, 1, 32)
    assert "unknown field `key`" in value


def test_a_brief_takes_functions(engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "Book a trip.")
    tools: Any = [book, Tool.from_function(price), session.handles.tool()]
    request = session.pack(brief=Brief(prompt="You book trips.", tools=tools)).openai()
    described = {each["function"]["name"]: each["function"] for each in request["tools"]}
    assert {"book", "price", "read_handle"} <= described.keys()
    assert described["book"]["parameters"]["required"] == ["trip"]
    assert ran(session, tools, "price", {"to": "Rome"}) == (False, "9.50")
    is_error, value = ran(session, tools, "read_handle", {"handle": "h9_9"})
    assert (is_error, value.startswith("Error: ")) == (False, True)
    with expect_refusal(engine, errors.InvalidTool, parameter="value"):
        session.pack(brief=Brief(tools=(lambda_with_a_name,)))  # type: ignore[arg-type]


def lambda_with_a_name(value):  # type: ignore[no-untyped-def]
    return value


@pytest.mark.parametrize("kind", AWAITED)
def test_coroutine_functions_are_tools_where_they_can_be_awaited(kind: str, desk: EngineDesk) -> None:
    session = desk.open(kind).create_session("s")
    assert ran(session, [later, book], "later", {"trip": TRIP}) == (False, "2026-02-01")
    assert ran(session, Tool.from_function(later), "later", {"trip": TRIP}) == (False, "2026-02-01")


@pytest.mark.parametrize("kind", BLOCKING)
def test_coroutine_functions_are_refused_before_anything_is_stored_where_they_cannot(
    kind: str, desk: EngineDesk
) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s")
    call = called(session, "later", {"trip": TRIP})
    given: list[Any] = [later, Tool.from_function(later), [book, later], {"later": later}]
    for tools in given:
        with expect_refusal(engine, errors.InvalidArgument):
            session.run(call, tools)


def test_what_is_no_tool_is_refused_and_nothing_is_stored(engine: Engine) -> None:
    session = engine.create_session("s")
    call = called(session, "book", {})
    given: list[Any] = [5, None, "book", {"book": 5}, [book, book]]
    for tools in given:
        with expect_refusal(engine, errors.InvalidArgument):
            session.run(call, tools)
    with expect_refusal(engine, errors.InvalidTool):
        session.run(call, [5])  # type: ignore[list-item]


def test_a_value_that_cannot_be_converted_is_a_result_that_says_where(engine: Engine) -> None:
    session = engine.create_session("s")
    done: list[int] = []

    def pay() -> Any:
        done.append(1)
        return {"items": [1, {"client": object()}]}

    is_error, value = ran(session, pay, "pay", {})
    assert (is_error, done) == (True, [1])
    lead = "The tool has run, but its return value cannot be stored: "
    assert value.startswith(f"{lead}Invalid JSON in the result at items[1].client")
    call = called(session, "pay", {})
    with expect_refusal(engine, errors.InvalidJson, where="the result at items[1].client"):
        session.result(call, pay())
    session.result(call, "paid")


def _texts() -> Iterator[str]:
    yield "one, "
    yield "two"


def test_what_a_tool_may_return_in_pieces(engine: Engine) -> None:
    session = engine.create_session("s")
    returned: list[tuple[Any, Any]] = [
        (_texts, Text("one, two")),
        (lambda: iter([b"one", b"two"]), Text("onetwo")),
        (lambda: (number for number in (1, 2)), Data([1, 2])),
        (lambda: iter(()), Text("")),
        (lambda: datetime.date(2026, 1, 31), Text("2026-01-31")),
        (lambda: b"text", Text("text")),
        (lambda: {1, 2}, Data([1, 2])),
    ]
    for function, expected in returned:
        result = session.run(called(session, "a", {}), function).tool_results[0]
        assert (result.is_error, result.content) == (False, (expected,))
    (part,) = session.run(called(session, "a", {}), lambda: b"\xff\xfe").tool_results[0].content
    assert isinstance(part, Body)
    assert engine.blobs.read(part.ref) == b"\xff\xfe"


def test_facts_the_working_set_and_more_take_the_same_values(engine: Engine) -> None:
    session = engine.create_session("s", metadata={"since": datetime.date(2026, 1, 31)})
    trip = Trip("Rome", datetime.date(2026, 1, 31))
    plain = {"to": "Rome", "on": "2026-01-31", "days": 1}
    session.working.set("trip", trip)
    session.environment.set("rate", decimal.Decimal("1.10"))
    assert session.ledger().set("trip", trip).value == plain
    state = session.state()
    assert (state.working["trip"].value, state.environment["rate"].value) == (plain, "1.10")
    assert state.metadata == {"since": "2026-01-31"}
    frame = session.frame("work", budget=1_000, inputs={"trip": trip})
    assert frame.state().inputs == {"trip": plain}
    frame.pop("completed", "done", result=[trip])
    with expect_refusal(engine, errors.InvalidJson, where="the value at trip"):
        session.working.set("a", {"trip": object()})
