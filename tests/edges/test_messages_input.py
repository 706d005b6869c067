"""Messages that cannot be: each a typed error, the same from every kind of engine, and nothing has changed."""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

from holdfast import BlobRef, Engine, File, Image, Text, Usage, errors
from holdfast.errors import HoldfastError
from holdfast.model import limits
from holdfast.types import Body, Data
from tests.edges.engines import FEW_KINDS, FEWER_KINDS, EngineDesk, log_of, rows_of
from tests.property.store_tools import fast_folder

NAN = float("nan")
LONG = "x" * (limits.PAYLOAD_BYTES + 1)


class Desktop(NamedTuple):
    """An engine with a session in which everything has happened once, and another in which nothing has."""

    engine: Engine
    session: Any
    answered: str
    closed: str
    one: str
    two: str
    """The ids of a call with a result, of one that was closed, and of two that wait; those have "p1" and "p2" as well."""


def laid_out(engine: Engine) -> Desktop:
    engine.create_session("other")
    session = engine.create_session("s")
    session.record("user", "hello", key="hello")
    [answered, closed] = session.record("assistant", "one", tool_calls=_calls("a", "b")).tool_calls
    session.result(answered, {"a": 1}, key="the result")
    session.close_calls("stop")
    [one, two] = session.record("assistant", "two", tool_calls=_calls("p1", "p2")).tool_calls
    return Desktop(engine, session, answered.id, closed.id, one.id, two.id)


def _calls(*ids: str) -> list[dict[str, Any]]:
    return [{"name": "read", "args": {"path": "x"}, "id": each} for each in ids]


def _kept(engine: Engine) -> object:
    """Events and rows; a row names every body that an event needs. A body that nobody names is nothing."""
    return log_of(engine), rows_of(engine)


Use: TypeAlias = Callable[[Desktop], object]
Refused: TypeAlias = dict[str, tuple[type[HoldfastError], Use]]


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


# What a message is


def _record(*message: Any, **options: Any) -> Use:
    return lambda at: at.session.record(*message, **options)


NOTHING: dict[str, Any] = {
    "nothing": None,
    "an empty text": "",
    "empty texts": ["", Text("")],
    "no parts": (),
    "a number": 5,
    "a dict": {"words": "hello"},
    "a part that is none": [{"type": "text"}],
    "bytes": b"hello",
    "an image of nothing": Image(),
    "a list in a list": [["hello"]],
}
NO_MESSAGES: Refused = {
    f"{name} by {role}": (errors.InvalidArgument, _record(role, content))
    for role in ("system", "user", "assistant")
    for name, content in NOTHING.items()
    if role != "assistant" or content not in ("", (), ["", Text("")])  # models do say nothing
}
NO_MESSAGES |= {
    "a role that is none": (errors.InvalidArgument, _record("banana", "text")),
    "a role in capitals": (errors.InvalidArgument, _record("User", "text")),
    "no role": (errors.InvalidArgument, _record(None, "text")),
    "a tool message of text": (errors.InvalidArgument, _record("tool", "text")),
    "a tool message of nothing": (errors.InvalidArgument, _record("tool", "")),
    "an answer while calls wait": (errors.CallsOpen, _record("assistant", "text")),
    "more calls while calls wait": (
        errors.CallsOpen,
        _record("assistant", "text", tool_calls=_calls("p3")),
    ),
    "1,001 parts": (errors.TooLarge, _record("user", ["x"] * (limits.CONTENT_PARTS + 1))),
    "a lone surrogate": (errors.InvalidText, _record("user", "\ud800")),
    "a lone surrogate in a long text": (
        errors.InvalidText,
        _record("user", "x" * 99_999 + "\ud800"),
    ),
    "data that is no JSON": (errors.InvalidJson, _record("user", Data(NAN))),
    "a body that is not there": (
        errors.BlobNotFound,
        lambda at: at.session.record("user", Body(BlobRef("0" * 64, 1))),
    ),
    "a body of another tenant": (
        errors.BlobNotFound,
        lambda at: at.session.record("user", File(at.engine.acting_as(tenant="other").blobs.put(b"theirs"))),
    ),
    "metadata that is no object": (errors.InvalidJson, _record("user", "x", metadata=[1])),
    "metadata that is no JSON": (errors.InvalidJson, _record("user", "x", metadata={"a": 1j})),
    "metadata with a key that is none": (
        errors.InvalidJson,
        _record("user", "x", metadata={(1, 2): "a"}),
    ),
    "metadata too large for an event": (
        errors.TooLarge,
        _record("user", "x", metadata={"a": LONG}),
    ),
}

USAGES: dict[str, Any] = {
    "a number": 5,
    "a list": [1, 2],
    "a key that is none": {"prompt_tokens": 5},
    "text for a number": {"input_tokens": "5"},
    "a negative number": Usage(input_tokens=-1),
    "half a token": {"output_tokens": 0.5},
    "true": {"input_tokens": True},
    "more than any model": {"input_tokens": 1 << 70},
}
NO_MESSAGES |= {
    f"usage: {name}": (errors.InvalidInput, _record("user", "x", usage=usage)) for name, usage in USAGES.items()
}

# Calls


def _called(calls: Any) -> Callable[[Desktop], object]:
    def use(at: Desktop) -> object:
        return at.engine.session("other").record("assistant", "x", tool_calls=calls)

    return use


NO_CALLS: Refused = {
    "by the user": (errors.InvalidArgument, _record("user", "x", tool_calls=_calls("p3"))),
    "by the system": (errors.InvalidArgument, _record("system", "x", tool_calls=_calls("p3"))),
    "by a tool": (errors.InvalidArgument, _record("tool", None, tool_calls=_calls("p3"))),
    "not a list": (errors.InvalidArgument, _record("assistant", tool_calls="read")),
    "a single one": (errors.InvalidArgument, _record("assistant", tool_calls={"name": "read"})),
}
CALLS: dict[str, tuple[type[HoldfastError], list[Any]]] = {
    "a name alone": (errors.InvalidArgument, ["read"]),
    "no name": (errors.InvalidArgument, [{"args": {}}]),
    "an unknown key": (errors.InvalidArgument, [{"name": "read", "arguments": {}}]),
    "an empty name": (errors.InvalidName, [{"name": ""}]),
    "a name that is none": (errors.InvalidName, [{"name": 5}]),
    "a name too long": (errors.InvalidName, [{"name": "x" * 257}]),
    "an id that is none": (errors.InvalidText, [{"name": "read", "id": 5}]),
    "an empty id": (errors.InvalidName, [{"name": "read", "id": ""}]),
    "one id twice": (errors.InvalidArgument, _calls("same", "same")),
    "args in a list": (errors.InvalidArgument, [{"name": "read", "args": ["x"]}]),
    "args of a number": (errors.InvalidArgument, [{"name": "read", "args": 5}]),
    "no args but null": (errors.InvalidArgument, [{"name": "read", "args": None}]),
    "args with a NaN": (errors.InvalidJson, [{"name": "read", "args": {"x": NAN}}]),
    "args with a set": (errors.InvalidJson, [{"name": "read", "args": {"x": {1}}}]),
    "args with a number for a key": (errors.InvalidJson, [{"name": "read", "args": {1: 2}}]),
    "args too deep": (errors.InvalidJson, [{"name": "read", "args": {"x": _nested(limits.JSON_DEPTH + 1)}}]),
    "args too large": (errors.TooLarge, [{"name": "read", "args": {"x": LONG}}]),
    "257 of them": (errors.TooLarge, [{"name": "read"}] * (limits.MESSAGE_CALLS + 1)),
}

# Results


def _answer(value: Any) -> Use:
    return lambda at: at.session.result(at.one, value)


RESULTS: Refused = {
    "for no call": (errors.CallNotFound, lambda at: at.session.result("c99_0", "x")),
    "for a call of a message that made none": (errors.CallNotFound, lambda at: at.session.result("c2_0", "x")),
    "for a call beyond the last": (errors.CallNotFound, lambda at: at.session.result(at.one[:-1] + "9", "x")),
    "for a provider's id that is none": (errors.CallNotFound, lambda at: at.session.result("p9", "x")),
    "for an id that is none": (errors.InvalidText, lambda at: at.session.result(None, "x")),
    "for an empty id": (errors.InvalidName, lambda at: at.session.result("", "x")),
    "for a call that has one": (errors.CallAnswered, lambda at: at.session.result(at.answered, "x")),
    "for a provider's id that has one": (errors.CallAnswered, lambda at: at.session.result("a", "x")),
    "for a call of another session": (
        errors.CallNotFound,
        lambda at: at.engine.session("other").result(at.one, "x"),
    ),
    "an error that is none": (errors.InvalidArgument, lambda at: at.session.result(at.one, "x", is_error="yes")),
    "NaN": (errors.InvalidJson, _answer(NAN)),
    "infinity in a list": (errors.InvalidJson, _answer([1, {"a": float("inf")}])),
    "a complex number in a tuple": (errors.InvalidJson, _answer((1, 1j))),
    "an object in a set": (errors.InvalidJson, _answer({1, object()})),
    "a key that is a tuple": (errors.InvalidJson, _answer({(1, 2): 3})),
    "a class": (errors.InvalidJson, _answer(dict)),
    "a number of 65 bits": (errors.InvalidJson, _answer(1 << 64)),
    "an object": (errors.InvalidJson, _answer(object())),
    "too deep": (errors.InvalidJson, _answer(_nested(limits.JSON_DEPTH + 1))),
    "without end": (errors.InvalidJson, _answer(_itself())),
    "of too many values": (errors.InvalidJson, _answer([0] * limits.JSON_VALUES)),
    "of too many parts": (errors.TooLarge, _answer([Text("x")] * (limits.CONTENT_PARTS + 1))),
    "parts and what is none": (errors.InvalidArgument, _answer([Text("x"), 5])),
    "a lone surrogate": (errors.InvalidText, _answer("\ud800")),
    "a file of text": (errors.InvalidArgument, lambda at: at.session.result(at.one, io.StringIO("x"))),
    "text, then numbers": (errors.InvalidText, lambda at: at.session.result(at.one, iter(["x", 1]))),
    "an iterator of objects": (errors.InvalidJson, lambda at: at.session.result(at.one, iter([1, object()]))),
    "bytes, then text": (errors.InvalidArgument, lambda at: at.session.result(at.one, _then_text())),
    "a body that is not there": (errors.BlobNotFound, _answer(Body(BlobRef("0" * 64, 1)))),
    "metadata that is no JSON": (
        errors.InvalidJson,
        lambda at: at.session.result(at.one, "x", metadata={"a": NAN}),
    ),
}


def _then_text() -> Iterator[Any]:
    """The first pieces are on the disk when the trouble comes."""
    yield b"x" * (2 * limits.SPOOL_BYTES)
    yield "text"


# Results, calls and content in one message, as a dict


def _said(**message: Any) -> Use:
    return lambda at: at.session.record({key: _filled(value, at) for key, value in message.items()})


def _filled(value: Any, at: Desktop) -> Any:
    """The names of the calls stand for their ids."""
    if isinstance(value, list):
        return [_filled(each, at) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, at) for key, each in value.items()}
    return getattr(at, value, value) if isinstance(value, str) else value


def _result(call: str, **more: Any) -> dict[str, Any]:
    return {"tool_call_id": call, "result": "x", **more}


MIXED: Refused = {
    "two results for one call": (
        errors.CallAnswered,
        _said(role="tool", tool_results=[_result("one"), _result("one")]),
    ),
    "two results, by our id and the provider's": (
        errors.CallAnswered,
        _said(role="tool", tool_results=[_result("one"), _result("two"), _result("p1")]),
    ),
    "a good result and one without a call": (
        errors.CallNotFound,
        _said(role="tool", tool_results=[_result("one"), _result("p9")]),
    ),
    "a good result and one that is there": (
        errors.CallAnswered,
        _said(role="tool", tool_results=[_result("one"), _result("answered")]),
    ),
    "results and content": (errors.InvalidArgument, _said(role="tool", content="x", tool_results=[_result("one")])),
    "no results": (errors.InvalidArgument, _said(role="tool", tool_results=[])),
    "a result without a result": (errors.InvalidArgument, _said(role="tool", tool_results=[{"tool_call_id": "one"}])),
    "257 results": (
        errors.TooLarge,
        _said(role="tool", tool_results=[_result(f"c{at}_0") for at in range(limits.MESSAGE_CALLS + 1)]),
    ),
    "content beside a dict": (
        errors.InvalidArgument,
        _record({"role": "user", "content": "x"}, "and more"),
    ),
    "calls beside a dict": (
        errors.InvalidArgument,
        _record({"role": "assistant", "content": "x"}, tool_calls=_calls("p3")),
    ),
}

# Batches


def _batch(*last: Any) -> Use:
    """Good messages, results among them, and then a bad one."""

    def use(at: Desktop) -> object:
        good = [("user", "hurry"), {"role": "tool", "tool_results": [_result(at.one), _result(at.two)]}]
        return at.session.record_all([*good, ("assistant", "done"), *(_filled(each, at) for each in last)])

    return use


BATCHES: Refused = {
    "not a list": (errors.InvalidArgument, lambda at: at.session.record_all("user")),
    "an iterator": (errors.InvalidArgument, lambda at: at.session.record_all(iter([("user", "x")]))),
    "empty": (errors.InvalidArgument, lambda at: at.session.record_all([])),
    "of roles alone": (errors.InvalidArgument, lambda at: at.session.record_all(["user"])),
    "of triples": (errors.InvalidArgument, lambda at: at.session.record_all([("user", "x", "y")])),
    "401 messages": (
        errors.TooLarge,
        lambda at: at.session.record_all([("user", "x")] * (limits.BATCH_MESSAGES + 1)),
    ),
    "the last says nothing": (errors.InvalidArgument, _batch(("user", ""))),
    "the last has no such role": (errors.InvalidArgument, _batch(("banana", "x"))),
    "the last is the tool's, and text": (errors.InvalidArgument, _batch(("tool", "x"))),
    "the last is no message": (errors.InvalidArgument, _batch(5)),
    "the last answers nothing": (errors.CallNotFound, _batch({"role": "tool", "tool_results": [_result("p9")]})),
    "the last answers again": (errors.CallAnswered, _batch({"role": "tool", "tool_results": [_result("one")]})),
    "the last answers what the batch asked, twice": (
        errors.CallAnswered,
        _batch(
            {"role": "assistant", "tool_calls": _calls("p7")},
            {"role": "tool", "tool_results": [_result("p7")]},
            {"role": "tool", "tool_results": [_result("p7")]},
        ),
    ),
    "the last comes too soon": (
        errors.CallsOpen,
        _batch({"role": "assistant", "tool_calls": _calls("p7")}, ("assistant", "x")),
    ),
    "the last is too large": (
        errors.TooLarge,
        _batch({"role": "user", "content": "x", "metadata": {"a": LONG}}),
    ),
}

# Keys and versions

KEYS: Refused = {
    "of another text": (errors.KeyConflict, _record("user", "bye", key="hello")),
    "of another role": (errors.KeyConflict, _record("system", "hello", key="hello")),
    "of a message, for a batch": (
        errors.KeyConflict,
        lambda at: at.session.record_all([("user", "hello"), ("user", "hello")], key="hello"),
    ),
    "of another result": (errors.KeyConflict, lambda at: at.session.result(at.answered, {"a": 2}, key="the result")),
    "of a result, as an error": (
        errors.KeyConflict,
        lambda at: at.session.result(at.answered, {"a": 1}, is_error=True, key="the result"),
    ),
    "of a result, for another call": (
        errors.KeyConflict,
        lambda at: at.session.result(at.one, {"a": 1}, key="the result"),
    ),
    "of a result, for a reset": (errors.KeyConflict, lambda at: at.session.reset(key="the result")),
    "of a message, for closing calls": (errors.KeyConflict, lambda at: at.session.close_calls("x", key="hello")),
    "of a message, in another session": (
        errors.KeyConflict,
        lambda at: at.engine.create_session("new", key="hello"),
    ),
    "that is none": (errors.InvalidName, _record("user", "x", key="")),
    "that is too long": (errors.InvalidName, lambda at: at.session.result(at.one, "x", key="x" * 257)),
}

STALE: dict[str, Callable[..., object]] = {
    "record": lambda at, version: at.session.record("user", "x", expect=version),
    "record_all": lambda at, version: at.session.record_all([("user", "x")], expect=version),
    "result": lambda at, version: at.session.result(at.one, "x", expect=version),
    "close_open_calls": lambda at, version: at.session.close_calls("x", expect=version),
    "reset": lambda at, version: at.session.reset(expect=version),
    "close": lambda at, version: at.session.end(expect=version),
}
VERSIONS: Refused = {
    f"{name} at {version}": (kind, functools.partial(use, version=version))
    for (name, use), (version, kind) in itertools.product(
        STALE.items(),
        [
            (0, errors.VersionConflict),
            (5, errors.VersionConflict),
            (99, errors.VersionConflict),
            (-1, errors.InvalidNumber),
            ("6", errors.InvalidNumber),
        ],
    )
}

# Ends and summaries

REASONS: dict[str, tuple[type[HoldfastError], Any]] = {
    "empty": (errors.InvalidArgument, ""),
    "none": (errors.InvalidText, None),
    "a number": (errors.InvalidText, 5),
    "a lone surrogate": (errors.InvalidText, "\ud800"),
    "too large": (errors.TooLarge, LONG),
}


def _end(end: str, reason: Any) -> Use:
    return lambda at: getattr(at.session, end)(reason)


ENDS: Refused = {
    f"{end}, the reason {name}": (kind, _end(end, reason))
    for end, (name, (kind, reason)) in itertools.product(("reset", "end", "destroy", "close_calls"), REASONS.items())
}


def _summarised(text: Any) -> Use:
    return lambda at: at.session.context.summarize(_draft(at), text)


def _draft(at: Desktop) -> Any:
    return at.session.context.draft_summary(keep_turns=0)


SUMMARIES: Refused = {
    "without a draft": (errors.InvalidArgument, lambda at: at.session.context.summarize(None, "x")),
    "of another session": (
        errors.InvalidArgument,
        lambda at: at.engine.session("other").context.summarize(_draft(at), "x"),
    ),
    "empty": (errors.InvalidArgument, _summarised("")),
    "blank": (errors.InvalidArgument, _summarised(" \n")),
    "not text": (errors.InvalidText, _summarised(5)),
    "longer than what it stands for": (errors.InvalidArgument, _summarised("word " * 1_000)),
    "too large": (errors.TooLarge, _summarised("x" * (limits.SPOOL_BYTES + 1))),
    "of no tokens": (errors.InvalidNumber, lambda at: at.session.context.window(0)),
    "of tokens that are none": (errors.InvalidNumber, lambda at: at.session.context.window("many")),
    "of fewer tokens than there are": (errors.WindowTooSmall, lambda at: at.session.context.window(1)),
    "of turns that are none": (errors.InvalidNumber, lambda at: at.session.context.draft_summary(-1)),
}

ALL: dict[str, tuple[type[HoldfastError], Use]] = {
    f"{topic}: {name}": case
    for topic, cases in {
        "message": NO_MESSAGES,
        "calls": NO_CALLS | {name: (kind, _called(calls)) for name, (kind, calls) in CALLS.items()},
        "result": RESULTS,
        "mixed": MIXED,
        "batch": BATCHES,
        "key": KEYS,
        "version": VERSIONS,
        "end": ENDS,
        "summary": SUMMARIES,
    }.items()
    for name, case in cases.items()
}


@pytest.fixture(scope="module")
def desktops() -> Iterator[dict[str, Desktop]]:
    """One of each kind. What is refused changes nothing, so they serve again and again."""
    with fast_folder() as folder:
        desk = EngineDesk(Path(folder))
        try:
            yield {kind: laid_out(desk.open(kind)) for kind in FEW_KINDS}
        finally:
            desk.close()


@pytest.mark.parametrize("name", ALL)
def test_what_cannot_be_is_refused_alike_everywhere_and_changes_nothing(
    name: str, desktops: dict[str, Desktop]
) -> None:
    expected, use = ALL[name]
    said: dict[str, str] = {}
    for kind, at in desktops.items():
        before = _kept(at.engine)
        with pytest.raises(expected) as refused:
            use(at)
        said[kind] = f"{type(refused.value).__name__}: {refused.value}"
        assert _kept(at.engine) == before
        assert at.session.state().open_calls
        assert at.engine.admin.verify().ok
    assert len(set(said.values())) == 1


@pytest.mark.parametrize("tokens", [1 << 40, limits.WHOLE_NUMBER // 2, limits.WHOLE_NUMBER])
def test_usage_adds_up_or_is_refused_alike_everywhere_however_much_it_is(tokens: int, desk: EngineDesk) -> None:
    """The rows of a store hold the sums, and no store counts without end."""
    kept: dict[str, int] = {}
    for kind in FEWER_KINDS:
        engine = desk.open(kind)
        session = engine.create_session("s")
        for _ in range(9):
            with suppress(errors.InvalidInput):
                session.record("assistant", "text", usage=Usage(tokens, tokens))
        kept[kind] = session.state().usage.input_tokens
        assert kept[kind] == engine.sessions()[0].input_tokens
        assert engine.admin.verify().ok
    assert len(set(kept.values())) == 1
