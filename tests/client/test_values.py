"""Values on their way to a server: each arrives as the embedded engine stores it, or is refused with the same error."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.types import Data, NewEntry
from tests.client.serving import engine_server

Taker = Callable[[holdfast.Session, Any], object]


@pytest.fixture
def engines() -> Iterator[tuple[holdfast.Engine, holdfast.Engine]]:
    """An embedded engine and one of a server, both empty."""
    address, served = engine_server().open("memory:")
    with holdfast.open("memory:") as embedded, holdfast.connect(address) as remote:
        yield embedded, remote
    engine_server().close(address, served)


def outcome(engine: holdfast.Engine, name: str, take: Taker, value: Any) -> object:
    session = engine.create_session(name)
    session.record("user", "hello")
    session.record("assistant", "", tool_calls=[{"name": "look", "args": {}, "id": "p1"}])
    try:
        return take(session, value)
    except HoldfastError as error:
        return type(error), str(error)


ODD: dict[str, Any] = {
    "a set": {1, 2},
    "a date": datetime.date(2026, 11, 17),
    "a decimal": Decimal("1.50"),
    "numbers as keys": {1: "one", 2: [True, None]},
    "what looks like bytes": {"$bytes": "AAE="},
    "what looks like parts": {"$parts": []},
    "what looks like a value": {"$value": {"$bytes": "AAE="}},
    "nan": float("nan"),
    "a large number": 10**30,
    "a lone surrogate": "\ud800",
    "an object": object(),
    "a function": len,
    "text beyond the basic plane": "\U0001f680 \u2028",
}
TAKERS: dict[str, Taker] = {
    "working": lambda session, value: (session.working.set("x", value), session.working.items()["x"].value),
    "fact": lambda session, value: session.facts.set("x", value).value,
    "facts": lambda session, value: [each.value for each in session.facts.set_all([{"key": "x", "value": value}])],
    "result": lambda session, value: session.result("p1", value).tool_results[0].content,
    "entry": lambda session, value: session.entries.append("kind", "key", value).body,
    "entries": lambda session, value: [
        each.body for each in session.entries.append_all([NewEntry("kind", "key", value)])
    ],
    "inputs": lambda session, value: session.frame("work", budget=10, inputs=value).state().inputs,
    "popped": lambda session, value: session.frame("work", budget=10).pop(result=value),
    "metadata": lambda session, value: session.record("user", "x", metadata={"x": value}).metadata,
    "environment": lambda session, value: session.environment.set("x", value),
    "situation": lambda session, value: session.situation.update(value),
    "content": lambda session, value: session.record("user", value).content,
    "data": lambda session, value: session.record("user", Data(value)).content,
    "limit": lambda session, value: session.messages(limit=value),
    "key": lambda session, value: session.record("user", "x", key=value).text,
    "budget": lambda session, value: session.pack(budget=value),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_a_value_arrives_as_it_would_be_stored_or_is_refused_the_same_way(
    engines: tuple[holdfast.Engine, holdfast.Engine], taker: str
) -> None:
    for name, value in ODD.items():
        embedded, remote = (outcome(each, name, TAKERS[taker], value) for each in engines)
        assert remote == embedded, name


def test_bytes_files_and_iterators_are_streamed(engines: tuple[holdfast.Engine, holdfast.Engine]) -> None:
    large = b"line\n" * 50_000
    bodies: list[Callable[[], Any]] = [
        lambda: b"short",
        lambda: b"\xff\xfe",
        lambda: large,
        lambda: bytearray(large),
        lambda: io.BytesIO(large),
        lambda: iter([b"a", b"b"]),
        lambda: iter(["a", "ü"]),
        lambda: iter([]),
        lambda: iter([1, 2]),
        lambda: iter([b"a", "b"]),
    ]
    for number, body in enumerate(bodies):
        found: list[object] = []
        for engine in engines:
            session = engine.session(f"s{number}", create=True)
            (call,) = session.record("assistant", "", tool_calls=[{"name": "look", "args": {}}]).tool_calls
            try:
                found.append(session.result(call, body()).tool_results[0].content)
            except HoldfastError as error:
                found.append((type(error), str(error)))
        assert found[0] == found[1], number


def test_replies_with_bytes_arrive_and_go_back_as_bytes(engines: tuple[holdfast.Engine, holdfast.Engine]) -> None:
    """Of Bedrock, whose client takes and returns bytes, and of Gemini, whose signatures are bytes."""
    image = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n0000"}}}
    sealed = {"reasoningContent": {"redactedContent": b"\xfb\xff"}}
    use = {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"bytes": "AAAA"}}}
    reply = {"output": {"message": {"role": "assistant", "content": [sealed, use]}}, "stopReason": "tool_use"}
    call = {"function_call": {"name": "find", "args": {}}, "thought_signature": b"\xfb\xff"}
    response = {"candidates": [{"content": {"parts": [call]}, "finish_reason": "STOP"}]}
    shown = []
    for engine in engines:
        session = engine.create_session("s")
        session.record({"role": "user", "content": [{"text": "Look:"}, image]})
        session.record(reply)
        session.record({"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [image]}}]})
        session.record(response)
        session.result("find", "x")
        renderings = [session.context.render(to) for to in ("bedrock", "gemini", "litellm")]
        pack = session.pack(budget=8_000, model="amazon.nova-pro-v1:0")
        shown.append((renderings, pack.bedrock()["messages"][:2], pack.gemini()["contents"][:2]))
    assert shown[0] == shown[1]
    messages = shown[0][0][0]["messages"]
    assert image in messages[0]["content"]
    assert messages[1]["content"] == [sealed, use]
    assert messages[2]["content"][0]["toolResult"]["content"] == [image]
