"""What Gemini, Bedrock and LiteLLM get of single cases that random histories rarely have."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from holdfast.model.content import File, Image, Text
from holdfast.render import render_bedrock, render_gemini, render_litellm, render_openai_chat
from tests.render.conversations import PNG, REPLIES, bodies_in, history_of, session_with
from tests.render.converse_checks import check_bedrock, check_gemini


def test_two_documents_of_one_name_have_two_names_on_bedrock() -> None:
    with session_with() as (engine, session):
        for text in (b"%PDF-1", b"%PDF-2"):
            session.record("user", [File(engine.blobs.put(text, media_type="application/pdf"), "a_b.pdf")])
        history = history_of(session)
        bodies = bodies_in(engine, history, None)
    made = render_bedrock(history, bodies, 0)
    check_bedrock(made)
    names = [block["document"]["name"] for block in made["messages"][0]["content"] if "document" in block]
    assert names == ["a b pdf", "a b pdf (2)"]


def test_a_cache_point_is_behind_no_block_that_refuses_one() -> None:
    cited = {"citationsContent": {"content": [{"text": "Grass."}], "citations": [{"title": "t"}]}}
    with session_with() as (_, session):
        session.record("user", "Hi.")
        session.record(REPLIES["bedrock"]([{"text": "So."}, {"reasoningContent": {"redactedContent": b"x"}}, cited]))
        made = render_bedrock(history_of(session))
    check_bedrock(made)
    assert [next(iter(block)) for block in made["messages"][1]["content"]] == [
        "text",
        "cachePoint",
        "reasoningContent",
        "citationsContent",
    ]


def test_the_points_of_bedrock_are_where_the_next_request_finds_them() -> None:
    with session_with([Text("Be brief.")]) as (_, session):
        for number in range(3):
            session.record("user", f"Question {number}.")
            session.record("assistant", f"Answer {number}.")
        session.record("user", "And?")
        made = render_bedrock(history_of(session, frozen=2, tail=("Now.",)))
    points = [
        at for at, message in enumerate(made["messages"]) if {"cachePoint": {"type": "default"}} in message["content"]
    ]
    assert points == [1, 4, 6], "the boundary, before the last reply, and the end"
    assert made["system"][-1] == {"cachePoint": {"type": "default"}}
    assert [next(iter(block)) for block in made["messages"][-1]["content"]] == ["text", "cachePoint", "text"]


def test_an_image_of_a_result_is_behind_the_responses_of_gemini() -> None:
    with session_with() as (engine, session):
        session.record("assistant", "1", tool_calls=[{"name": "a", "args": {}}, {"name": "b", "args": {}}])
        session.result("c2_1", [Image(engine.blobs.put(PNG, media_type="image/png"))])
        session.result("c2_0", "x")
        history = history_of(session)
        made = render_gemini(history, bodies_in(engine, history, None))
    check_gemini(made)
    first, second, line, image = made["contents"][-1]["parts"]
    assert first["function_response"] == {"name": "a", "response": {"output": "x"}}
    assert second["function_response"] == {"name": "b", "response": {"output": "(shown below)"}}
    assert line == {"text": "From the result of b:"}
    assert image["inline_data"]["mime_type"] == "image/png"


def test_thinking_of_litellm_goes_back_to_it_alone() -> None:
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
    with session_with() as (_, session):
        session.record("user", "Hi.")
        session.record(REPLIES["chat"]({"content": "So.", "thinking_blocks": thinking}))
        history = history_of(session, tail=("Now.",))
    messages = render_litellm(history, {}, 4)
    assert messages[1]["thinking_blocks"] == thinking
    assert [each["role"] for each in messages] == ["user", "assistant", "user"]
    assert ["cache_control" in each for each in messages] == [True, False, False]
    for other in (render_openai_chat(history), render_gemini(history), render_bedrock(history)):
        assert "c2ln" not in str(other)


@pytest.mark.parametrize("recorded", ["reply", "content"])
def test_a_picture_that_gemini_made_goes_back_to_it(recorded: str) -> None:
    """A model that edits pictures needs its own, whether it signed it or not."""
    blob = {"mimeType": "image/png", "data": base64.b64encode(PNG).decode()}
    parts: list[dict[str, Any]] = [{"text": "Here."}, {"inlineData": blob}]
    with session_with() as (engine, session):
        session.record("user", "Draw a lamp.")
        session.record(REPLIES["gemini"](parts) if recorded == "reply" else {"role": "model", "parts": parts})
        session.record("user", "Make it blue.")
        history = history_of(session)
        made = render_gemini(history, bodies_in(engine, history, "google"))
    check_gemini(made)
    assert made["contents"][1]["parts"] == [
        {"text": "Here."},
        {"inline_data": {"mime_type": "image/png", "data": blob["data"]}},
    ]


def test_a_picture_of_another_model_is_named_to_gemini() -> None:
    with session_with() as (engine, session):
        session.record("user", "Draw a lamp.")
        session.record("assistant", [Image(engine.blobs.put(PNG, media_type="image/png"))])
        history = history_of(session)
        made = render_gemini(history, bodies_in(engine, history, "google"))
    assert [*made["contents"][1]["parts"][0]] == ["text"]


def test_a_call_that_is_marked_as_a_thought_is_shown_with_its_response() -> None:
    with session_with() as (_, session):
        session.record("user", "Hi.")
        session.record(REPLIES["gemini"]([{"functionCall": {"name": "find", "args": {}}, "thought": True}]))
        session.result(session.open_calls()[0].id, "x")
        made = render_gemini(history_of(session))
    check_gemini(made)
    assert [each["role"] for each in made["contents"]] == ["user", "model", "user"]


@pytest.mark.parametrize("signature", ["", [], 7])
def test_a_signature_that_is_none_is_no_signature(signature: object) -> None:
    call = {"functionCall": {"name": "find", "args": {}}, "thoughtSignature": signature}
    with session_with() as (_, session):
        session.record("user", "Hi.")
        session.record(REPLIES["gemini"]([call]))
        session.result(session.open_calls()[0].id, "x")
        made = render_gemini(history_of(session))
    check_gemini(made)


@pytest.mark.parametrize("name", [" ", "$PARAMETER NAME", "9" * 64, "funktion für alles", "x" * 200])
def test_a_name_that_a_model_made_up_does_not_end_the_conversation(name: str) -> None:
    """Models write names that their own provider refuses in the next request."""
    with session_with() as (_, session):
        session.record("user", "Hi.")
        session.record(REPLIES["gemini"]([{"functionCall": {"name": name, "args": {}}}]))
        session.result(session.open_calls()[0].id, "There is no such tool.", is_error=True)
        session.record(REPLIES["bedrock"]([{"toolUse": {"toolUseId": "t1", "name": name, "input": {}}}]))
        session.result(session.open_calls()[0].id, "There is no such tool.", is_error=True)
        history = history_of(session)
    check_gemini(render_gemini(history))
    check_bedrock(render_bedrock(history))


def test_a_name_that_only_gemini_accepts_goes_back_to_it() -> None:
    with session_with() as (_, session):
        session.record("user", "Hi.")
        session.record(REPLIES["gemini"]([{"functionCall": {"name": "stock.find:all", "args": {}}}]))
        session.result(session.open_calls()[0].id, "x")
        history = history_of(session)
    check_bedrock(render_bedrock(history))
    assert render_gemini(history)["contents"][1]["parts"][0]["function_call"]["name"] == "stock.find:all"


def test_a_document_that_bedrock_fetches_has_a_name_of_its_own() -> None:
    stored = {"name": "terms", "format": "pdf", "source": {"s3Location": {"uri": "s3://desk/terms.pdf"}}}
    sent = {"name": "terms", "format": "pdf", "source": {"bytes": b"%PDF-1.7"}}
    with session_with() as (engine, session):
        for document in (stored, sent, stored):
            session.record({"role": "user", "content": [{"text": "See:"}, {"document": document}]})
        session.record("assistant", "", tool_calls=[{"name": "a", "args": {}, "id": "t1"}])
        result = {"toolUseId": "t1", "content": [{"document": stored}]}
        session.record({"role": "user", "content": [{"toolResult": result}]})
        history = history_of(session)
        made = render_bedrock(history, bodies_in(engine, history, "bedrock"), 0)
    check_bedrock(made)
    shown = [block["document"] for block in made["messages"][0]["content"] if "document" in block]
    assert [each["name"] for each in shown] == ["terms", "terms (2)", "terms (3)"]
    assert shown[2]["source"] == stored["source"]
    assert made["messages"][2]["content"][0]["toolResult"]["content"][1]["document"]["name"] == "terms (4)"


@pytest.mark.parametrize("blank", ["", " \n"])
def test_litellm_gets_no_blank_text(blank: str) -> None:
    """Anthropic and Bedrock refuse it, and LiteLLM passes it on."""
    with session_with() as (_, session):
        session.record("user", [Text("Hi."), Text(" ")])
        session.record(
            REPLIES["chat"]({"content": " ", "tool_calls": [{"id": "t", "function": {"name": "f", "arguments": "{}"}}]})
        )
        session.result(session.open_calls()[0].id, blank)
        messages = render_litellm(history_of(session))
    assert messages[0]["content"] == "Hi."
    assert messages[1]["content"] is None
    assert messages[2]["content"] == "(no output)"
