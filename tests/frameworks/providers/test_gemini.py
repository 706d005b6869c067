"""Gemini: what its client sends of a pack, and what is kept of its responses."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.model.content import Source
from holdfast.providers import read
from holdfast.render import render_gemini
from holdfast.render.gemini import UNSIGNED
from tests.frameworks.providers.loopback import Loopback
from tests.render import conversations as spoken
from tests.render.conversations import bodies_in, play, session_with
from tests.render.converse_checks import check_gemini

SIGNATURE = base64.b64encode(b"\xfb\xff signed").decode()
PARTS: list[dict[str, Any]] = [
    {"text": "They want a lamp.", "thought": True},
    {"text": "Let me look."},
    {"functionCall": {"id": "fc_1", "name": "stock", "args": {"ofWhat": "lamp"}}, "thoughtSignature": SIGNATURE},
    {"functionCall": {"id": "fc_2", "name": "stock", "args": {"ofWhat": "desk", "n": 1}}},
]
STOCK = holdfast.Tool(
    name="stock",
    description="How many are there?",
    parameters={"type": "object", "properties": {"ofWhat": {"type": "string"}}, "additionalProperties": False},
)


def response(parts: list[dict[str, Any]], stop: str = "STOP") -> dict[str, Any]:
    usage = {"promptTokenCount": 90, "candidatesTokenCount": 10, "thoughtsTokenCount": 30, "totalTokenCount": 130}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": stop, "index": 0}],
        "usageMetadata": {**usage, "cachedContentTokenCount": 64},
        "modelVersion": "gemini-3.8-flash",
        "responseId": "r1",
    }


def build_engine(engine: holdfast.Engine) -> holdfast.Session:
    session = engine.create_session("order", actor="ada")
    session.record("system", "You are the order desk.")
    session.record("user", "Are there lamps?")
    return session


def test_a_loop_with_the_real_client_sends_back_what_it_was_sent(engine: holdfast.Engine, loopback: Loopback) -> None:
    session = build_engine(engine)
    client = loopback.gemini()
    loopback.replies = [response(PARTS), response([{"text": "Twelve.", "thoughtSignature": SIGNATURE}])]
    pack = session.pack(budget=8_000, model="gemini-3.8-flash")
    message = session.record(client.models.generate_content(**pack.gemini()), pack=pack)
    assert (message.usage.input_tokens, message.usage.output_tokens) == (90, 40)  # type: ignore[union-attr]
    assert message.usage.cache_read_tokens == 64  # type: ignore[union-attr]
    assert message.source == Source("google", "gemini-3.8-flash", "r1", "STOP")
    lamp, desk = message.tool_calls
    session.result(desk, {"in": {"stock": 0}})
    session.result(lamp, "no such thing", is_error=True)
    pack = session.pack(budget=8_000, model="gemini-3.8-flash")
    reply = client.models.generate_content(**pack.gemini())
    assert session.record(reply, pack=pack).text == "Twelve."
    sent = loopback.last
    assert sent["systemInstruction"]["parts"][0]["text"].startswith("You are the order desk.")
    model, results = sent["contents"][1:3]
    assert model == {"role": "model", "parts": [_resigned(part) for part in PARTS]}
    assert results["parts"][:2] == [
        {"functionResponse": {"id": "fc_1", "name": "stock", "response": {"error": "no such thing"}}},
        {"functionResponse": {"id": "fc_2", "name": "stock", "response": {"in": {"stock": 0}}}},
    ]
    assert engine.admin.verify().ok


def _resigned(part: dict[str, Any]) -> dict[str, Any]:
    """As the client spells bytes."""
    if "thoughtSignature" not in part:
        return part
    return {**part, "thoughtSignature": part["thoughtSignature"].translate(str.maketrans("+/", "-_"))}


def test_tools_and_limits_go_where_the_client_takes_them(folder: Path, loopback: Loopback) -> None:
    brief = holdfast.Brief(prompt="Be brief.", tools=(STOCK,))
    with holdfast.open(folder / "agent.db", briefs={"desk": brief}) as engine:
        session = build_engine(engine)
        pack = session.pack(budget=8_000, model="gemini-3.8-flash", role="desk", max_output=500)
    loopback.replies = [response([{"text": "Yes."}])]
    request = pack.gemini()
    request["config"]["temperature"] = 0
    client = loopback.gemini()
    client.models.generate_content(**request)
    declared = loopback.last["tools"][0]["functionDeclarations"]
    found = {each["name"]: each["parameters_json_schema"] for each in declared}
    assert found["stock"]["properties"] == {"ofWhat": {"type": "string"}}
    assert "handle" in found["read_handle"]["properties"]
    assert loopback.last["generationConfig"] == {"temperature": 0, "maxOutputTokens": 500}
    assert types.GenerateContentConfig.model_validate(pack.gemini()["config"]).max_output_tokens == 500


def test_a_stream_reads_as_the_response_in_one_piece(file_engine: holdfast.Engine, loopback: Loopback) -> None:
    session = build_engine(file_engine)
    pieces: list[list[dict[str, Any]]] = [
        [{"text": "They want ", "thought": True}],
        [{"text": "a lamp.", "thought": True}, {"text": "Let me"}],
        [{"text": " look."}],
        [PARTS[2]],
        [PARTS[3]],
    ]
    chunks = [{**response(parts), "usageMetadata": {"promptTokenCount": 90}} for parts in pieces]
    for chunk in chunks:
        del chunk["candidates"][0]["finishReason"]
    loopback.replies = [[*chunks, {**response([]), "candidates": [{"finishReason": "STOP", "index": 0}]}]]
    deltas = holdfast.types.Deltas()
    request = session.pack(budget=8_000, model="gemini-3.8-flash").gemini()
    client = loopback.gemini()
    for event in client.models.generate_content_stream(**request):
        deltas.add(event)
    assert deltas.text == "Let me look."
    assert read(deltas) == read(response(PARTS))


def test_an_object_reads_as_its_data_in_every_spelling() -> None:
    body = response([*PARTS, {"inlineData": {"mimeType": "image/png", "data": SIGNATURE}}])
    whole = types.GenerateContentResponse.model_validate_json(msgspec.json.encode(body))
    expected = read(body)
    assert read(whole) == read(whole.model_dump()) == read(whole.model_dump(mode="json")) == expected
    assert read(whole.model_dump(by_alias=True, exclude_none=True)) == expected


def test_a_content_object_is_a_message(file_engine: holdfast.Engine) -> None:
    session = file_engine.create_session("s")
    session.record(types.Content(role="user", parts=[types.Part(text="Hi.")]))
    session.record(types.Content(role="model", parts=[types.Part.from_function_call(name="find", args={"a": 1})]))
    session.record(
        types.Content(role="user", parts=[types.Part.from_function_response(name="find", response={"result": [1, 2]})])
    )
    assert session.open_calls() == ()
    assert [each.role for each in session.messages()] == ["user", "assistant", "tool"]
    assert session.messages()[-1].tool_results[0].value == [1, 2]


@pytest.mark.parametrize(
    ("body", "skipped"),
    [
        (response([{"text": "Half"}], "MAX_TOKENS"), "length"),
        (response([], "SAFETY"), "content_filter"),
        (response([], "MALFORMED_FUNCTION_CALL"), "incomplete"),
        (response([{"text": "x", "thought": True}]), "empty"),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "content_filter"),
    ],
)
def test_a_reply_without_an_answer_is_not_shown(file_engine: holdfast.Engine, body: Any, skipped: str) -> None:
    session = build_engine(file_engine)
    whole = types.GenerateContentResponse.model_validate_json(msgspec.json.encode(body))
    assert session.record(whole).skipped == skipped
    assert [each["role"] for each in session.context.render("gemini")["contents"]] == ["user"]


def test_a_call_of_another_provider_has_a_signature_that_is_accepted(file_engine: holdfast.Engine) -> None:
    session = build_engine(file_engine)
    call = session.record("assistant", tool_calls=[{"name": "stock", "args": {}}]).tool_calls[0]
    session.result(call, {"id": 2**60})
    shown = session.context.render("gemini")["contents"]
    assert shown[1]["parts"][0] == {"function_call": {"name": "stock", "args": {}}, "thought_signature": UNSIGNED}
    assert types.Content.model_validate(shown[1]).parts[0].thought_signature == b"skip_thought_signature_validator"  # type: ignore[index]
    assert shown[2]["parts"][0]["function_response"]["response"] == {"output": '{"id":1152921504606846976}'}
    older = session.pack(budget=8_000, model="gemini-2.5-flash").gemini()["contents"][1]["parts"][0]
    assert "thought_signature" not in older


@settings(max_examples=60, deadline=None)
@given(spoken.talks(), st.lists(spoken.part, max_size=2), st.booleans())
def test_the_types_of_the_client_accept_any_history(steps: list[spoken.Step], system: list[Any], at_hand: bool) -> None:
    with session_with(system) as (engine, session):
        *_, history = play(engine, session, steps)
        made = render_gemini(history, bodies_in(engine, history, "google") if at_hand else {})
    check_gemini(made)
    for content in made["contents"]:
        kept = types.Content.model_validate(content)
        assert types.Content.model_validate_json(msgspec.json.encode(content)) == kept
        for part, shown in zip(kept.parts or (), content["parts"], strict=True):
            given_fields = part.model_dump(exclude_none=True)
            assert given_fields.keys() == shown.keys()


@settings(max_examples=60, deadline=None)
@given(st.lists(spoken.gemini_replies(), min_size=1, max_size=3))
def test_what_gemini_said_goes_back_as_it_was(replies: list[spoken.Step]) -> None:
    with session_with() as (engine, session):
        *_, history = play(engine, session, [("user", ["Hi."]), *(("reply", each, []) for each in replies)])
        made = render_gemini(history, bodies_in(engine, history, "google"), signed=False)
    shown = [_parts(each["parts"]) for each in made["contents"] if each["role"] == "model"]
    expected = [_parts(_kept(parts)) for _, parts in replies if _is_answer(parts)]
    assert shown == expected


def _kept(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blank texts are refused."""
    return [part for part in parts if part.get("text", "x").strip() or "thoughtSignature" in part]


def _is_answer(parts: list[dict[str, Any]]) -> bool:
    return any(not part.get("thought") and part.get("text", "x").strip() for part in parts)


def _parts(parts: list[dict[str, Any]]) -> list[types.Part]:
    return [types.Part.model_validate(part) for part in parts]
