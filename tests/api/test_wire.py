"""Arguments and answers on the wire: what is sent is what arrives."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.api.operations import OPERATIONS, ApiOperation
from holdfast.api.packs import PackDocument, PackReceipt, describe_pack, receive_pack
from holdfast.api.requests import (
    arrange_call,
    build_request,
    decode_json,
    read_arguments,
    read_turn,
    unquote_name,
)
from holdfast.api.signatures import ApiParameter, read_signature
from holdfast.api.wire import (
    _REFERENCES,
    SessionAddress,
    answer_type,
    decode_answer,
    decode_argument,
    decode_bytes,
    encode_answer,
    encode_argument,
    wire_type,
    write_turn,
)
from holdfast.errors import InvalidJson
from holdfast.flows.frames.frames import FrameReference
from holdfast.model.entries.entry import Entry
from holdfast.model.frames.frames import SuspensionToken
from holdfast.model.history.plans import Classic, Faithful, Frugal
from holdfast.model.names import Scope
from holdfast.model.sessions.turns import TurnFence
from holdfast.model.situation.situations import ActionCall
from holdfast.model.tools.tool import FunctionTool
from holdfast.render.pack import Pack
from holdfast.runtime.base import ContextHolder
from holdfast.runtime.facets import SituationFacet
from tests.api.values import TEXT, VALUES, WHOLE, values_of
from tests.support import figure

LEFT_OUT: frozenset[Any] = frozenset(
    {*_REFERENCES, Faithful, Frugal, Classic, Pack, FunctionTool, FrameReference, SuspensionToken}
)
"""What is sent as something else: as an id, a name, or a receipt."""
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=20)
SOME = settings(
    max_examples=figure(3, 100), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
DISTINCT_REQUESTS = list({f"{each.owner.__name__}.{each.method}": each for each in OPERATIONS}.values())
DISTINCT_ANSWERS = list({str(read_signature(each).answer): each for each in OPERATIONS}.values())


def is_plain(parameter: ApiParameter) -> bool:
    """Whether a parameter takes data, not an object that stands for something."""
    kind = parameter.annotation
    return not (kind in (Pack, str) or (isinstance(kind, type) and issubclass(kind, ContextHolder)))


def draw_arguments(data: st.DataObject, operation: ApiOperation) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for parameter in read_signature(operation).parameters:
        if parameter.place == "header":
            value = data.draw(WHOLE.map(abs) if parameter.name == "expect" else NAMES)
        elif parameter.place == "path":
            value = data.draw(
                st.integers(0, 10**6) if int in _members(parameter) and str not in _members(parameter) else NAMES
            )
        elif parameter.annotation is str:
            value = data.draw(TEXT)
        elif not is_plain(parameter):
            continue
        else:
            value = data.draw(values_of(parameter.annotation, leave_out=LEFT_OUT))
        arguments[parameter.name] = value
    return arguments


def _members(parameter: ApiParameter) -> tuple[Any, ...]:
    return getattr(parameter.annotation, "__args__", (parameter.annotation,))


@pytest.mark.parametrize("operation", DISTINCT_REQUESTS, ids=lambda each: each.name)
@given(data=st.data())
@SOME
def test_the_arguments_of_a_request_arrive_as_they_were(operation: ApiOperation, data: st.DataObject) -> None:
    sent = draw_arguments(data, operation)
    place = {
        name: data.draw(NAMES) for name in ("session", "frame", "kind", "ledger") if f"{{{name}}}" in operation.path
    }
    in_path = {each.name for each in read_signature(operation).parameters if each.place == "path"}
    request = build_request(operation, {name: value for name, value in place.items() if name not in in_path}, sent)
    names = dict(zip(_names(operation.path), map(unquote_name, _split(operation.path, request.path)), strict=True))
    body = None if request.body is None else decode_json(msgspec.json.encode(request.body), "the body")
    received = read_arguments(operation, names, dict(request.query), request.headers.get, body)
    expected = {name: value for name, value in sent.items() if value is not None or name in received}
    assert {name: encode_argument(name, value) for name, value in received.items()} == {
        name: encode_argument(name, value) for name, value in expected.items()
    }
    for parameter in read_signature(operation).parameters:
        if parameter.name in received and "Any" not in str(wire_type(parameter.annotation)):
            assert _to_lists(received[parameter.name]) == _to_lists(expected[parameter.name])
    arrange_call(operation, received)


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _split(template: str, path: str) -> list[str]:
    pairs = zip(template.split("/"), path.split("/"), strict=True)
    return [part for name, part in pairs if name.startswith("{")]


def _to_lists(value: Any) -> Any:
    """The same value with lists in place of tuples, which JSON does not have, and with the names of structs."""
    if isinstance(value, msgspec.Struct):
        return {"": type(value).__name__, **{name: _to_lists(getattr(value, name)) for name in value.__struct_fields__}}
    if isinstance(value, dict):
        return {name: _to_lists(each) for name, each in value.items()}
    return [_to_lists(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("operation", DISTINCT_ANSWERS, ids=lambda each: each.name)
@given(data=st.data())
@SOME
def test_an_answer_arrives_as_it_was(operation: ApiOperation, data: st.DataObject) -> None:
    answer = read_signature(operation).answer
    if answer is None or answer is Pack or (isinstance(answer, type) and issubclass(answer, ContextHolder | str)):
        return
    value = data.draw(values_of(answer_type(answer)))
    sent = [encode_answer(each) for each in value] if isinstance(value, list | tuple) else encode_answer(value)
    assert _to_lists(decode_answer(msgspec.json.encode(sent), answer)) == _to_lists(value)


@given(VALUES)
@settings(max_examples=figure(200, 5_000), deadline=None)
def test_bytes_anywhere_in_a_value_keep_their_form(value: Any) -> None:
    sent = msgspec.json.encode(encode_argument("value", value))
    assert decode_bytes(decode_json(sent, "the value")) == value


@given(st.lists(VALUES, max_size=3))
@settings(max_examples=figure(50, 1_000), deadline=None)
def test_entries_with_any_body(bodies: list[Any]) -> None:
    entries = [
        Entry(kind="k", key=str(number), body=body, parent=None, seq=number, at_us=0, size=0)
        for number, body in enumerate(bodies, 1)
    ]
    sent = msgspec.json.encode([encode_answer(each) for each in entries])
    assert decode_answer(sent, list[Entry]) == entries


@given(st.integers(0, 10**15), st.integers(1, 10**15), st.none() | NAMES)
def test_a_turn_in_a_header(number: int, lease_us: int, frame: str | None) -> None:
    turn = TurnFence(Scope("t", "a", "s"), frame, number, lease_us)
    assert read_turn(write_turn(turn), turn.scope) == turn


@given(VALUES)
@settings(max_examples=figure(200, 5_000), deadline=None)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    encoded = encode_argument("value", value)
    assert decode_json(msgspec.json.encode(encoded), "it") == encoded


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '[{"x":{"b":1,"b":2}}]', '{"a:":1,"a:":2}', '{"\\u0061":1,"a":2}'])
def test_the_same_name_twice_is_refused(text: str) -> None:
    with pytest.raises(InvalidJson):
        decode_json(text.encode(), "it")


def test_a_pack_renders_the_same_bytes_elsewhere() -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s", user="ada")
        session.record("user", "Where is my order?")
        source = {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}
        session.record("user", ["Look:", {"type": "image", "source": source}])
        session.facts.set("address", "123 Main St")

        def find_order(order: int) -> str:
            """Find an order."""
            return str(order)

        brief = holdfast.Brief(prompt="You are the desk.", tools=(holdfast.Tool.from_function(find_order),))
        pack = session.pack(budget=8_000, brief=brief, max_output=500)
        received = receive_pack(msgspec.json.decode(msgspec.json.encode(describe_pack(pack)), type=PackDocument))
        assert received.anthropic() == pack.anthropic()
        assert received.openai() == pack.openai()
        assert received.openai_responses() == pack.openai_responses()
        assert received.gemini() == pack.gemini()
        assert received.bedrock() == pack.bedrock()
        assert received.litellm() == pack.litellm()
        assert (received.text, received.manifest) == (pack.text, pack.manifest)
        receipt = msgspec.convert(encode_argument("pack", pack), PackReceipt)
        assert receipt.manifest == pack.manifest
        for to in ("anthropic", "bedrock", "gemini", "litellm", "openai", "openai-responses", "text"):
            assert msgspec.json.encode(describe_pack(pack, to).rendered), "bytes are base64"


def test_a_message_inside_of_another_value_is_sent_with_all_that_it_has() -> None:
    call = holdfast.ToolCall("c1_0", "find_order", {"id": 7})
    assert encode_argument("call", call) == "c1_0"
    assert encode_argument("tool_calls", [call])[0]["name"] == "find_order"


def test_calls_of_an_action_arrive_as_objects_that_mean_the_same() -> None:
    annotation = inspect.signature(SituationFacet.act, eval_str=True).parameters["tool_calls"].annotation
    calls: list[Any] = [ActionCall(name="find", args={"id": 7}, outcome="failure"), {"name": "find", "args": {"id": 8}}]
    received = decode_argument(
        "tool_calls", msgspec.json.decode(msgspec.json.encode(encode_argument("", calls))), annotation
    )
    assert [type(each) for each in received] == [dict, dict], "JSON cannot tell them apart"
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        stored = [session.situation.act(tool_calls=each).tool_calls for each in (calls, received)]
    assert stored[0] == stored[1]


def test_what_stands_for_a_session_has_its_scope() -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        assert encode_argument("other", session) == msgspec.to_builtins(SessionAddress(session.scope))
