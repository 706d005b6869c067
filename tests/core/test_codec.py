"""The codec: the same value always gives the same bytes, and nothing comes in that would not come out again."""

from __future__ import annotations

import copy
import json
import math
import struct
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import codec
from holdfast.errors import InvalidInput, InvalidJson, InvalidText, TooLarge
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import Text
from holdfast.model.events import EVENTS, Event
from holdfast.model.facts.commands import LedgerCommand
from holdfast.model.names import Scope, StreamId
from holdfast.model.sessions.commands import CloseSession
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.state import SessionState
from tests.core import fact_strategies, json_strategies, strategies
from tests.core.struct_strategies import structs
from tests.support import figure

EXAMPLES = figure(40, 5_000)
COMMANDS: tuple[type[SessionCommand], ...] = SessionCommand.__args__


def _exactly(value: Any) -> Any:
    """The value in a form where 1, 1.0, True, 0.0 and -0.0 are all different."""
    if isinstance(value, list):
        return [_exactly(item) for item in value]
    if isinstance(value, dict):
        return {key: _exactly(item) for key, item in value.items()}
    return type(value), struct.pack("d", value) if isinstance(value, float) else value


@given(json_strategies.json_values)
@settings(max_examples=EXAMPLES)
def test_a_json_value_comes_back_as_it_went_in(value: Any) -> None:
    checked = codec.check_json("value", value)
    assert _exactly(checked) == _exactly(value)
    assert _exactly(codec.decode_object(codec.encode({"value": checked}))["value"]) == _exactly(value)


def _spoil(value: Any) -> None:
    """Change everything in it that can be changed."""
    for item in list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []:
        _spoil(item)
    if isinstance(value, list):
        value.append("spoilt")
    elif isinstance(value, dict):
        value["spoilt"] = True


@given(json_strategies.json_objects)
@settings(max_examples=EXAMPLES)
def test_what_was_checked_is_a_copy_all_the_way_down(value: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    checked = codec.check_json("value", value)
    _spoil(value)
    assert _exactly(checked) == _exactly(before)


@given(json_strategies.json_values)
@settings(max_examples=EXAMPLES)
def test_other_json_readers_read_the_same(value: Any) -> None:
    assert _exactly(json.loads(codec.encode(codec.check_json("value", value)))) == _exactly(value)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@given(json_strategies.json_objects)
@settings(max_examples=EXAMPLES)
def test_the_order_of_a_dict_does_not_show_in_the_bytes(value: dict[str, Any]) -> None:
    assert codec.encode(_reversed(value)) == codec.encode(value)


@given(strategies.events)
@settings(max_examples=EXAMPLES)
def test_every_event_comes_back_from_its_bytes(event: Event) -> None:
    payload = codec.encode_event(event)
    assert codec.decode(payload, type(event)) == event
    assert codec.encode_event(codec.decode(payload, type(event))) == payload
    assert codec.convert(codec.decode_object(payload), type(event)) == event


@given(strategies.commands() | fact_strategies.commands())
@settings(max_examples=EXAMPLES)
def test_every_command_comes_back_from_its_bytes(command: SessionCommand) -> None:
    assert codec.decode(codec.encode_commands([command]), type(command)) == command


@given(strategies.commands() | fact_strategies.commands(), strategies.commands() | fact_strategies.commands())
@settings(max_examples=EXAMPLES)
def test_two_commands_have_the_same_bytes_only_if_they_are_the_same(one: SessionCommand, other: SessionCommand) -> None:
    assert (codec.encode_commands([one]) == codec.encode_commands([other])) == (
        type(one) is type(other) and one == other and repr(one) == repr(other)
    )


def test_the_strategies_make_every_kind_of_event_and_command() -> None:
    def made(strategy: Any) -> set[type]:
        kinds: set[type] = set()
        for branch in strategy.branches:

            @given(branch)
            @settings(max_examples=1, database=None, derandomize=True)
            def collect(value: Any) -> None:
                kinds.add(type(value))

            collect()
        return kinds

    assert made(strategies.commands()) == {*COMMANDS}
    assert made(fact_strategies.commands()) == {*get_args(LedgerCommand)}
    assert made(strategies.events) <= {*EVENTS.values()}
    assert made(st.one_of([structs(kind) for kind in EVENTS.values()])) == {*EVENTS.values()}


@given(strategies.states)
@settings(max_examples=EXAMPLES)
def test_a_state_comes_back_from_its_bytes(state: SessionState) -> None:
    assert codec.decode(codec.encode(state), SessionState) == state


@given(st.lists(json_strategies.names, max_size=4).map(tuple), st.lists(json_strategies.names, max_size=4).map(tuple))
@settings(max_examples=EXAMPLES)
def test_keys_of_streams_never_meet(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    first, second = (codec.encode_stream_key(StreamId("t", "session", key)) for key in (one, other))
    assert codec.decode_stream_key(first) == one
    assert (first == second) == (one == other)


@pytest.mark.parametrize("make", [lambda inner: [inner], lambda inner: {"key": inner}], ids=["lists", "dicts"])
def test_nesting_is_bounded(make: Any) -> None:
    value: Any = 1
    for _ in range(limits.JSON_DEPTH):
        value = make(value)
    assert codec.check_json("value", value) == value
    with pytest.raises(InvalidJson, match="deeper"):
        codec.check_json("value", make(value))


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63) + 1, 0, -1])
def test_numbers_of_sixty_four_bits_are_kept(number: int) -> None:
    assert codec.decode_object(codec.encode({"n": codec.check_json("n", number)})) == {"n": number}


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**64), 10**400, math.nan, math.inf, -math.inf, b"", {1}, ..., 1j, {1: 2}, {None: 1}, {"a": {2: 1}}],
    ids=ascii,
)
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(InvalidJson):
        codec.check_json("value", [value])


@given(st.text(st.characters(categories=["Cs"]), min_size=1), json_strategies.texts, json_strategies.texts)
@settings(max_examples=EXAMPLES)
def test_a_lone_surrogate_is_found_wherever_it_stands(surrogates: str, before: str, after: str) -> None:
    for spoilt in (before + surrogates + after, {"key": [surrogates]}, {surrogates: 1}):
        with pytest.raises(InvalidText):
            codec.check_json("value", spoilt)
    with pytest.raises(InvalidText):
        codec.check_text("value", before + surrogates + after)


@given(st.text())
@settings(max_examples=EXAMPLES)
def test_text_is_accepted_exactly_when_it_is_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        with pytest.raises(InvalidText):
            codec.check_text("text", text)
    else:
        assert codec.check_text("text", text) == text


@given(st.binary(max_size=60) | st.binary(max_size=9).map(lambda data: b'{"reason":"' + data + b'"}'))
@settings(max_examples=2 * EXAMPLES)
def test_reading_garbage_raises_only_what_callers_expect(data: bytes) -> None:
    for kind in (*EVENTS.values(), *COMMANDS, *get_args(LedgerCommand), SessionState):
        try:
            codec.decode(data, kind)
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue


def test_an_event_over_the_limit_is_refused_with_its_size() -> None:
    def event(size: int) -> MessageRecorded:
        return MessageRecorded(role="user", content=(Text("x" * size),), tokens=1, counter="c")

    around = limits.PAYLOAD_BYTES - len(codec.encode_event(event(0)))
    assert len(codec.encode_event(event(around))) == limits.PAYLOAD_BYTES
    with pytest.raises(TooLarge) as refusal:
        codec.encode_event(event(around + 1))
    assert refusal.value.size == limits.PAYLOAD_BYTES + 1


def test_a_surrogate_that_slipped_in_is_a_typed_error() -> None:
    scope = Scope("t", "a", "s")
    with pytest.raises(InvalidInput):
        codec.encode_commands([CloseSession(scope=scope, reason="\ud800")])
    with pytest.raises(InvalidInput):
        codec.encode_event(MessageRecorded(role="user", content=(Text("\udfff"),), tokens=1, counter="c"))
