"""Replies that are no answer: empty ones, those that were cut off, refusals. Each is recorded with what it cost, shown to
no model, and leaves the session as able to go on as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import CallNotFound, KeyConflict
from tests.core import provider_examples as given
from tests.render.provider_checks import check_anthropic, check_chat, check_responses

CUT_ARGS = '{"path": "a.txt", "content": "on'
OPENAI_CALL = {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": CUT_ARGS}}
ITEM_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "write", "arguments": CUT_ARGS}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def output(said: str, kind: str = "output_text") -> dict[str, Any]:
    part = {"type": kind, "refusal" if kind == "refusal" else "text": said}
    if kind == "output_text":
        part["annotations"] = []  # type: ignore[assignment]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def chat(message: dict[str, Any], stop: str = "stop") -> dict[str, Any]:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
    return {**given.chat_completion(message, stop), "usage": usage}


def response(items: list[dict[str, Any]], why: str | None = None, status: str = "completed") -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107}
    details = {"incomplete_details": {"reason": why}} if why else {}
    return {**given.response(items), "status": "incomplete" if why else status, **details, "usage": usage}


def anthropic(content: list[dict[str, Any]], stop: str = "end_turn") -> dict[str, Any]:
    return {**given.anthropic_message(content, stop), "usage": {"input_tokens": 100, "output_tokens": 7}}


SKIPPED: dict[str, tuple[dict[str, Any], str, str]] = {
    "chat, nothing": (chat({"content": None}), "empty", "stop"),
    "chat, no text": (chat({"content": ""}), "empty", "stop"),
    "chat, blank": (chat({"content": " \n"}), "empty", "stop"),
    "chat, reasoning alone": (chat({"content": None, "reasoning_content": "Hm."}), "empty", "stop"),
    "chat, cut": (chat({"content": "The first of"}, "length"), "length", "length"),
    "chat, cut before a word": (chat({"content": ""}, "length"), "length", "length"),
    "chat, cut call": (chat({"content": None, "tool_calls": [OPENAI_CALL]}, "length"), "length", "length"),
    "chat, refusal": (chat({"content": None, "refusal": "I cannot."}), "refusal", "stop"),
    "chat, filtered": (chat({"content": "It is"}, "content_filter"), "content_filter", "content_filter"),
    "responses, nothing": (response([]), "empty", "completed"),
    "responses, reasoning alone": (response([REASONING]), "empty", "completed"),
    "responses, cut": (response([output("The first")], "max_output_tokens"), "length", "max_output_tokens"),
    "responses, cut call": (response([ITEM_CALL], "max_output_tokens"), "length", "max_output_tokens"),
    "responses, cut while thinking": (response([REASONING], "max_output_tokens"), "length", "max_output_tokens"),
    "responses, filtered": (response([output("It")], "content_filter"), "content_filter", "content_filter"),
    "responses, refusal": (response([output("I cannot.", "refusal")]), "refusal", "completed"),
    "responses, cancelled": (response([output("The first")], status="cancelled"), "incomplete", "cancelled"),
    "anthropic, nothing": (anthropic([]), "empty", "end_turn"),
    "anthropic, thinking alone": (anthropic([THINKING]), "empty", "end_turn"),
    "anthropic, cut": (anthropic([text("The first of")], "max_tokens"), "length", "max_tokens"),
    "anthropic, cut call": (anthropic([text("So:"), USE], "max_tokens"), "length", "max_tokens"),
    "anthropic, window": (
        anthropic([text("The")], "model_context_window_exceeded"),
        "length",
        "model_context_window_exceeded",
    ),
    "anthropic, refusal": (anthropic([], "refusal"), "refusal", "refusal"),
    "anthropic, refusal midway": (anthropic([text("Take a")], "refusal"), "refusal", "refusal"),
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[holdfast.Session]:
    with holdfast.open(tmp_path / "agent.db") as engine:
        session = engine.create_session("s")
        session.record("user", "Write it down.")
        yield session
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize("name", SKIPPED)
def test_a_reply_that_is_none_is_recorded_and_not_shown(session: holdfast.Session, name: str) -> None:
    body, reason, stop = SKIPPED[name]
    before = [
        session.context.render("openai"),
        session.context.render("openai-responses"),
        session.context.render("anthropic"),
    ]
    pack = session.pack(time=False)
    message = session.record(body)
    assert (message.skipped, message.source and message.source.stop) == (reason, stop)
    assert (message.tool_calls, message.tokens) == ((), 0)
    assert session.state().usage == holdfast.Usage(input_tokens=100, output_tokens=7)
    assert session.messages()[-1] == message, "it is kept"
    after = [
        session.context.render("openai"),
        session.context.render("openai-responses"),
        session.context.render("anthropic"),
    ]
    assert after == before, "no model is shown it"
    assert session.pack(time=False).text == pack.text
    assert [each.role for each in session.context.window(500).messages] == ["user"]
    assert session.context.window(500).omitted == 0
    assert session.packs.list()[0].reply == message.seq, "it answers the pack that it cost"


@pytest.mark.parametrize("name", SKIPPED)
def test_the_conversation_goes_on_behind_it(session: holdfast.Session, name: str) -> None:
    session.record(SKIPPED[name][0])
    session.record("user", "Go on.")
    session.record(SKIPPED[name][0])
    check_anthropic(session.context.render("anthropic"))
    check_chat(session.context.render("openai"))
    check_responses(session.context.render("openai-responses"))
    (said,) = session.context.render("anthropic")["messages"]
    assert [each["text"] for each in said["content"]] == ["Write it down.", "Go on."]
    reply = session.record("assistant", "Done.", tool_calls=[{"name": "write", "args": {}}])
    session.result(reply.tool_calls[0], "ok")
    assert [each["role"] for each in session.context.render("anthropic")["messages"]] == ["user", "assistant", "user"]
    assert session.state().messages == 6
    assert not session.recover().unknown_outcomes


@pytest.mark.parametrize("name", [name for name in SKIPPED if "call" in name])
def test_calls_that_were_cut_off_are_evidence_and_never_open(session: holdfast.Session, name: str) -> None:
    message = session.record(SKIPPED[name][0])
    (call,) = message.dropped_calls
    assert call.name == "write"
    assert session.state().open_calls == ()
    with pytest.raises(CallNotFound):
        session.result(call.id, "ok")
    assert [each.id for each in session.messages()[-1].dropped_calls] == [call.id]


def test_a_reply_with_calls_that_also_refuses_is_shown(session: holdfast.Session) -> None:
    whole = {**OPENAI_CALL, "function": {"name": "write", "arguments": "{}"}}
    message = session.record(chat({"content": None, "refusal": "Not all of it.", "tool_calls": [whole]}, "tool_calls"))
    assert message.skipped is None
    assert len(session.state().open_calls) == 1


def test_what_is_recorded_by_hand_may_be_empty_too(session: holdfast.Session) -> None:
    usage = holdfast.Usage(input_tokens=9)
    message = session.record("assistant", "", usage=usage)
    assert (message.skipped, message.usage) == ("empty", usage)
    assert session.record({"role": "assistant", "content": None}).skipped == "empty"
    assert session.record("assistant", None, usage=usage).skipped == "empty"
    with pytest.raises(holdfast.errors.InvalidArgument):
        session.record("assistant")
    assert [each["role"] for each in session.context.render("openai")] == ["user"]
    for role in ("user", "system"):
        with pytest.raises(holdfast.errors.InvalidArgument):
            session.record(role, "")


def test_by_hand_one_says_why_the_model_stopped(session: holdfast.Session) -> None:
    call = {"name": "write", "args": '{"a": '}
    message = session.record("assistant", "The first", tool_calls=[call], stop="length")
    assert (message.skipped, message.source and message.source.stop) == ("length", "length")
    assert session.state().open_calls == ()
    assert session.record("assistant", "Done.", stop="end_turn").skipped is None
    for role, content in (("user", "Hi."), (chat({"content": "x"}), None)):
        with pytest.raises(holdfast.errors.InvalidArgument, match="stop"):
            session.record(role, content, stop="length")


def test_it_is_charged_to_its_frame_and_is_no_message_of_it(session: holdfast.Session) -> None:
    frame = session.frame("work", budget=1_000)
    frame.record("user", "Work.")
    frame.record(chat({"content": "The first"}, "length"))
    assert frame.state().budget.used == 107
    assert [each.role for each in frame.context.view().messages] == ["user"]
    assert frame.context.window(500).omitted == 0


def test_a_question_that_was_cut_off_waits_for_nobody(session: holdfast.Session) -> None:
    session.record(chat({"content": "Shall I?"}, "length"))
    assert not session.state().asks


def test_a_retry_under_the_same_key_is_the_same_reply(session: holdfast.Session) -> None:
    first = session.record(SKIPPED["chat, cut call"][0], key="k")
    assert session.record(SKIPPED["chat, cut call"][0], key="k") == first
    with pytest.raises(KeyConflict):
        session.record(SKIPPED["chat, cut"][0], key="k")


def test_it_can_be_summarised_around_and_erased(session: holdfast.Session) -> None:
    skipped = session.record(SKIPPED["chat, cut"][0])
    session.record("assistant", "A long answer, in many words, to what was asked before.")
    session.record("user", "And then?")
    draft = session.context.draft_summary(keep_turns=1)
    assert draft is not None
    assert [each.seq for item in draft.items for each in item.messages] == [2, 4]  # type: ignore[union-attr]
    assert session.context.summarize(draft, "Written.").messages == 2
    session.erase([skipped.seq], "asked for")
    assert session.messages()[1].erased


def test_transcripts_carry_it(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db") as engine:
        session = engine.create_session("s")
        session.record("user", "Write it down.")
        session.record(SKIPPED["chat, cut call"][0])
        session.record(SKIPPED["chat, nothing"][0])
        session.record(SKIPPED["chat, refusal"][0])
        engine.admin.export_transcript(tmp_path / "a.jsonl", "s")
        expected = session.context.render("openai")
    with holdfast.open(tmp_path / "b.db") as engine:
        engine.admin.import_transcript(tmp_path / "a.jsonl", session="s")
        again = engine.session("s")
        assert again.context.render("openai") == expected
        assert [each.skipped for each in again.messages()] == [None, "length", "empty", "refusal"]
        assert again.state().usage.output_tokens == 21
        engine.admin.export_transcript(tmp_path / "b.jsonl", "s")
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


# Streams


def chat_chunks(*deltas: dict[str, Any], stop: str | None = None) -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = [{"index": 0, "delta": each, "finish_reason": None} for each in deltas]
    chunks += [{"index": 0, "delta": {}, "finish_reason": stop}] if stop else []
    return [{"object": "chat.completion.chunk", "choices": [each]} for each in chunks]


def blocks(*content: dict[str, Any], stop: str | None = None, end: bool = True) -> list[dict[str, Any]]:
    message = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": []}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for at, block in enumerate(content):
        events.append({"type": "content_block_start", "index": at, "content_block": block})
        events.append({"type": "content_block_stop", "index": at})
    if stop:
        delta = {"stop_reason": stop}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}})
    return [*events, {"type": "message_stop"}] if stop and end else events


def test_streams_end_as_replies_do(session: holdfast.Session) -> None:
    streams = [
        (chat_chunks({"content": "The first"}, stop="length"), "length"),
        (chat_chunks({"tool_calls": [{"index": 0, **OPENAI_CALL}]}, stop="length"), "length"),
        (chat_chunks({"refusal": "I cannot."}, stop="stop"), "refusal"),
        (chat_chunks({}, stop="stop"), "empty"),
        (blocks(text("The first"), stop="max_tokens"), "length"),
        (blocks(USE, stop="max_tokens"), "length"),
        (blocks(stop="end_turn"), "empty"),
        (blocks(stop="refusal"), "refusal"),
        ([{"type": "response.incomplete", "response": SKIPPED["responses, cut call"][0]}], "length"),
    ]
    for events, reason in streams:
        deltas = holdfast.types.Deltas()
        for event in events:
            deltas.add(event)
        assert session.record(deltas).skipped == reason, events
    assert [each["role"] for each in session.context.render("openai")] == ["user"]
    assert session.state().open_calls == ()


def test_a_stream_that_broke_off_is_kept_as_far_as_it_can_be_used(session: holdfast.Session) -> None:
    broken: list[tuple[list[dict[str, Any]], str | None]] = [
        (chat_chunks({"role": "assistant"}), "empty"),
        (chat_chunks({"tool_calls": [{"index": 0, **OPENAI_CALL}]}), "empty"),
        (blocks(), "empty"),
        (blocks(THINKING), "empty"),
        ([{"type": "response.created", "response": {"id": "r", "model": "m"}}], "empty"),
        (blocks(text("The first"), stop="max_tokens", end=False), "length"),
        (chat_chunks({"content": "The first"}), None),
    ]
    for events, reason in broken:
        deltas = holdfast.types.Deltas()
        for event in events:
            deltas.add(event)
        message = session.record(deltas.partial())
        assert message.skipped == reason, events
    assert session.state().open_calls == ()
    assert session.context.render("openai")[-1] == {"role": "assistant", "content": "The first"}


# Arguments


SPELLINGS = [
    '{"a":  1.0, "b": "\\u00e9"}',
    '{"b": 1, "a": 2}',
    '{"b":1,"a":{"d":[1.50,1e2],"c":null}}',
    ' {"a": 1}\n',
    '{"n": 123456789012345678901234567890}',
    '{"n": 1e400}',
    "{}",
    '{"path": "C:\\/x", "t": "\\t"}',
]


def recorded(session: holdfast.Session, spelled: str) -> Any:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": spelled}}
    message = session.record(chat({"content": None, "tool_calls": [call]}, "tool_calls"))
    session.result(message.tool_calls[0], "ok")
    return message


def chat_args(session: holdfast.Session) -> str:
    return str(session.context.render("openai")[-2]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_arguments_go_back_byte_for_byte(session: holdfast.Session, spelled: str) -> None:
    recorded(session, spelled)
    assert chat_args(session) == spelled
    assert session.context.render("openai-responses")["input"][-2]["arguments"] == spelled
    assert session.messages()[1].tool_calls[0].id in session.context.render("text")
    sent = session.context.render("anthropic")["messages"][1]["content"][0]["input"]
    json.dumps(sent, allow_nan=False)
    if "e400" not in spelled:
        assert json.dumps(sent) == json.dumps(json.loads(spelled)), "keys in order, numbers of their kind"


@pytest.mark.parametrize("spelled", SPELLINGS[:4])
def test_an_item_of_a_response_goes_back_byte_for_byte(session: holdfast.Session, spelled: str) -> None:
    message = session.record(response([{**ITEM_CALL, "arguments": spelled}]))
    session.result(message.tool_calls[0], "ok")
    assert session.context.render("openai-responses")["input"][-2]["arguments"] == spelled


def test_an_object_keeps_the_order_of_its_keys(session: holdfast.Session) -> None:
    args = {"path": "a", "content": "b", "mode": {"z": 1, "a": 1.0}}
    message = session.record(anthropic([{**USE, "input": args}], "tool_use"))
    session.result(message.tool_calls[0], "ok")
    assert json.dumps(session.context.render("anthropic")["messages"][1]["content"][0]["input"]) == json.dumps(args)
    assert chat_args(session) == json.dumps(args, separators=(",", ":"))
    assert message.tool_calls[0].args == args


def test_what_needs_no_text_of_its_own_has_none(session: holdfast.Session) -> None:
    assert recorded(session, '{"a":1,"b":[1.0]}').tool_calls[0].raw is None


def test_the_tag_of_the_fence_is_in_no_spelling(session: holdfast.Session) -> None:
    recorded(session, '{"b": "<\\u0068oldfast-context>", "a": 1}')
    assert json.loads(chat_args(session)) == {"b": "<quoted-context>", "a": 1}
    recorded(session, '{"b": "<\\u0068oldfast-context>", "a": 123456789012345678901234567890}')
    assert json.loads(chat_args(session)).keys() == {"input"}, "text in a text: its escape stays one"


def test_another_spelling_under_one_key_is_the_same_message(session: holdfast.Session) -> None:
    def body(spelled: str) -> dict[str, Any]:
        call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": spelled}}
        return chat({"content": None, "tool_calls": [call]}, "tool_calls")

    first = session.record(body('{"a": 1}'), key="k")
    assert session.record(body('{"a":1}'), key="k") == first
    with pytest.raises(KeyConflict):
        session.record(body('{"a":2}'), key="k")


def test_very_long_arguments_are_kept_without_their_spelling(session: holdfast.Session) -> None:
    long = json.dumps({"b": "x" * 300_000, "a": 1})
    message = recorded(session, long)
    assert message.tool_calls[0].raw is None
    assert json.loads(chat_args(session)) == json.loads(long)


def test_transcripts_and_copies_carry_the_spelling(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "a.db") as engine:
        session = engine.create_session("s")
        session.record("user", "Go.")
        recorded(session, SPELLINGS[0])
        engine.admin.export_transcript(tmp_path / "a.jsonl", "s")
        engine.admin.export(tmp_path / "a.bundle")
    for how in ("transcript", "bundle"):
        with holdfast.open(tmp_path / f"{how}.db") as engine:
            if how == "transcript":
                engine.admin.import_transcript(tmp_path / "a.jsonl", session="s")
                engine.admin.export_transcript(tmp_path / "b.jsonl", "s")
                assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
            else:
                engine.admin.import_(tmp_path / "a.bundle")
            assert chat_args(engine.session("s")) == SPELLINGS[0]


def test_a_result_says_that_it_is_no_error_if_it_did(session: holdfast.Session) -> None:
    session.record(anthropic([USE, {**USE, "id": "toolu_2"}], "tool_use"))
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok", "is_error": False},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "ok"},
    ]
    session.record({"role": "user", "content": results})
    made = session.context.render("anthropic")["messages"][-1]["content"]
    made[-1].pop("cache_control")
    assert json.dumps(made) == json.dumps(results)


# The time


def test_the_time_can_be_switched_off(session: holdfast.Session) -> None:
    assert "- time: " in session.pack().text
    pack = session.pack(time=False)
    assert "time" not in pack.text
    assert not pack.manifest.request.time
    session.record("assistant", "Done.", pack=pack)
    assert session.packs.reproduce(session.packs.list()[0]).text == pack.text
    assert session.pack().manifest.request.time


def test_a_pack_without_the_time_asks_for_a_reply_all_the_same(session: holdfast.Session) -> None:
    session.record("assistant", "Done. ")
    pack = session.pack(time=False)
    assert pack.history.tail == ()
    assert pack.anthropic()["messages"][-1] == {"role": "user", "content": "(Continue.)"}
