"""LiteLLM: what it sends to Anthropic, OpenAI, Gemini and Bedrock of a pack, and what is kept of its responses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from hypothesis import given, settings
from hypothesis import strategies as st
from litellm.types.utils import ModelResponse

import holdfast
from holdfast.model.content import Text
from holdfast.providers import read
from holdfast.render import render_litellm
from tests.frameworks.providers import test_bedrock, test_gemini
from tests.frameworks.providers.loopback import Loopback
from tests.protocols import PARSED, ProviderMemory
from tests.render import conversations as spoken
from tests.render.conversations import bodies_in, play, session_with

CLAUDE = "anthropic/claude-sonnet-4-5"
THINKING = {"type": "thinking", "thinking": "They want a lamp.", "signature": "sealed-1"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "stock", "input": {"of": "lamp"}}


litellm.suppress_debug_info = True


def message(content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
    usage = {"input_tokens": 20, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 8, "output_tokens": 10}
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_sequence": None}
    return {**about, "content": content, "stop_reason": stop, "usage": usage}


def remembered() -> ProviderMemory:
    """The server refuses thoughts and calls that it has not made."""
    memory = ProviderMemory()
    memory.thoughts["sealed-1"] = THINKING["thinking"]
    memory.calls["toolu_1"] = ("stock", json.dumps(CALL["input"]))
    return memory


def open_order(engine: holdfast.Engine) -> holdfast.Session:
    session = engine.create_session("order", actor="ada")
    session.record("system", "You are the order desk.")
    session.record("user", "Are there lamps?")
    return session


def complete(loopback: Loopback, request: dict[str, Any], path: str = "", **more: Any) -> Any:
    return litellm.completion(**request, api_base=loopback.url + path, api_key="none", num_retries=0, **more)


def test_the_thinking_of_anthropic_goes_back_to_it(engine: holdfast.Engine, loopback: Loopback) -> None:
    session = open_order(engine)
    loopback.replies = [
        message([THINKING, {"type": "text", "text": "Let me look."}, CALL], "tool_use"),
        message([{"type": "text", "text": "Twelve."}], "end_turn"),
    ]
    pack = session.pack(budget=8_000, model=CLAUDE, max_output=500)
    reply = session.record(complete(loopback, pack.litellm()), pack=pack)
    assert reply.usage == holdfast.Usage(92, 10, 64, 8, reply.usage.reasoning_tokens)  # type: ignore[union-attr]
    session.result(reply.tool_calls[0], {"lamps": 12})
    pack = session.pack(budget=8_000, model=CLAUDE, max_output=500)
    assert session.record(complete(loopback, pack.litellm()), pack=pack).text == "Twelve."
    first, sent = (each.body for each in loopback.requests)
    PARSED["anthropic"](first, remembered())
    talk = PARSED["anthropic"](sent, remembered())
    assert sent["messages"][1]["content"][0] == THINKING
    assert talk.turns[-1].results == (("toolu_1", '{"lamps":12}'),)
    assert "cache_control" in sent["system"][-1]
    tail = sent["messages"][-1]["content"][-1]
    assert tail["type"] == "text"
    assert "cache_control" not in tail
    assert "cache_control" in sent["messages"][-1]["content"][0], "the tail is behind the mark"
    assert sent["system"][:1] == first["system"][:1], "nothing that changes with each call is at the front"
    assert engine.admin.verify().ok


def events() -> list[dict[str, Any]]:
    begun = {**message([], "end_turn"), "stop_reason": None}

    def delta(index: int, kind: str, **fields: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}

    def start(index: int, **block: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    return [
        {"type": "message_start", "message": begun},
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="They want "),
        delta(0, "thinking_delta", thinking="a lamp."),
        delta(0, "signature_delta", signature="sealed-1"),
        {"type": "content_block_stop", "index": 0},
        start(1, type="text", text=""),
        delta(1, "text_delta", text="Let me "),
        delta(1, "text_delta", text="look."),
        {"type": "content_block_stop", "index": 1},
        start(2, type="tool_use", id="toolu_1", name="stock", input={}),
        delta(2, "input_json_delta", partial_json='{"of": '),
        delta(2, "input_json_delta", partial_json='"lamp"}'),
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    ]


def test_a_stream_reads_as_the_response_in_one_piece(file_engine: holdfast.Engine, loopback: Loopback) -> None:
    session = open_order(file_engine)
    loopback.replies = [events(), message([THINKING, {"type": "text", "text": "Let me look."}, CALL], "tool_use")]
    request = session.pack(budget=8_000, model=CLAUDE, max_output=500).litellm()
    deltas = holdfast.types.Deltas()
    for chunk in complete(loopback, request, stream=True, stream_options={"include_usage": True}):
        deltas.add(chunk)
    whole = complete(loopback, request)
    assert deltas.text == "Let me look."
    (streamed,), (expected,) = read(deltas), read(whole)
    assert (streamed.content, streamed.tool_calls) == (expected.content, expected.tool_calls)
    assert streamed.usage == expected.usage


def test_the_signatures_of_gemini_go_back_to_it(file_engine: holdfast.Engine, loopback: Loopback) -> None:
    session = open_order(file_engine)
    loopback.replies = [test_gemini.response(test_gemini.PARTS), test_gemini.response([{"text": "Twelve."}])]
    pack = session.pack(budget=8_000, model="gemini/gemini-3.8-flash")
    reply = session.record(complete(loopback, pack.litellm()), pack=pack)
    for call in reply.tool_calls:
        session.result(call, "12")
    pack = session.pack(budget=8_000, model="gemini/gemini-3.8-flash")
    assert session.record(complete(loopback, pack.litellm()), pack=pack).text == "Twelve."
    contents = loopback.last["contents"]
    assert [each["role"] for each in contents[:3]] == ["user", "model", "user"]
    assert len(contents[2]["parts"]) == 2, "a response for each call"
    called = [part for part in contents[1]["parts"] if "function_call" in part or "functionCall" in part]
    assert [part.get("thoughtSignature") for part in called] == [test_gemini.SIGNATURE, None]
    assert "cachedContent" not in loopback.last


def test_openai_accepts_the_messages(file_engine: holdfast.Engine, loopback: Loopback) -> None:
    session = open_order(file_engine)
    call = {"id": "call_1", "type": "function", "function": {"name": "stock", "arguments": '{"of": "lamp"}'}}
    about = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-5.6"}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call]}}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    final = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Twelve."}}
    loopback.replies = [{**about, "choices": [each], "usage": usage} for each in (choice, final)]
    for _ in range(2):
        pack = session.pack(budget=8_000, model="openai/gpt-5.6", max_output=500)
        reply = session.record(complete(loopback, pack.litellm(), "/v1"), pack=pack)
        for each in reply.tool_calls:
            session.result(each, "12")
    assert session.messages()[-1].text == "Twelve."
    memory = remembered()
    memory.calls["call_1"] = ("stock", '{"of": "lamp"}')
    for request in loopback.requests:
        PARSED["chat"](request.body, memory)
    assert "cache_control" not in json.dumps(loopback.last)


def test_a_pack_without_tools_defines_those_that_were_called(folder: Path, loopback: Loopback) -> None:
    briefs = {"bare": holdfast.Brief(prompt="Be brief.", read_handle=False)}
    with holdfast.open(folder / "agent.db", briefs=briefs) as engine:
        session = open_order(engine)
        session.record("assistant", tool_calls=[{"name": "stock", "args": {"of": "lamp"}, "id": "toolu_1"}])
        session.result("toolu_1", "12")
        request = session.pack(budget=8_000, model=CLAUDE, role="bare").litellm()
    loopback.replies = [message([{"type": "text", "text": "Twelve."}], "end_turn")]
    complete(loopback, {**request, "max_tokens": 500})
    PARSED["anthropic"](loopback.last, remembered())


def test_bedrock_accepts_the_messages(file_engine: holdfast.Engine) -> None:
    session = open_order(file_engine)
    session.record("assistant", "Let me look.", tool_calls=[{"name": "stock", "args": {}, "id": "tooluse_1"}])
    session.result("tooluse_1", "no", is_error=True)
    request = session.pack(budget=8_000, model=f"bedrock/{test_bedrock.CLAUDE}").litellm()
    config = litellm.AmazonConverseConfig()
    options = config.map_openai_params({"tools": request["tools"]}, {}, test_bedrock.CLAUDE, drop_params=False)
    made = config.transform_request(test_bedrock.CLAUDE, request["messages"], options, {}, {})
    test_bedrock.check_shape({name: made[name] for name in ("messages", "system", "toolConfig")})
    assert [each["role"] for each in made["messages"]] == ["user", "assistant", "user"]
    assert {"cachePoint": {"type": "default"}} in made["messages"][-1]["content"]


def test_an_object_reads_as_its_data(loopback: Loopback) -> None:
    loopback.replies = [message([THINKING, {"type": "text", "text": "Hi."}], "end_turn")]
    whole = complete(loopback, {"model": CLAUDE, "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 9})
    assert type(whole) is ModelResponse
    plain: Any = whole.model_dump()  # type: ignore[no-untyped-call]  # it has no types
    assert read(whole) == read(plain) == read(json.loads(json.dumps(plain)))


def test_images_of_a_model_are_kept(file_engine: holdfast.Engine) -> None:
    session = open_order(file_engine)
    image = {"index": 0, "type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    made = litellm.Message(content="Here.", images=[image])
    recorded = session.record(litellm.ModelResponse(model="x", choices=[litellm.Choices(message=made)]))
    assert [type(part).__name__ for part in recorded.content if type(part).__name__ != "Opaque"] == ["Text", "Image"]


@settings(max_examples=60, deadline=None)
@given(
    spoken.talks(st.one_of(spoken.chat_replies(), spoken.own_replies())),
    st.lists(spoken.said.map(Text), max_size=2),
    st.booleans(),
)
def test_anthropic_and_gemini_get_any_history_through_litellm(
    steps: list[spoken.Step], system: list[Any], at_hand: bool
) -> None:
    """LiteLLM makes requests of it that have the shape of the provider: roles alternate, calls have their results."""
    with session_with(system) as (engine, session):
        list(play(engine, session, [("user", ["Hi."]), *steps]))
        history = spoken.history_of(session, 1, ("The tail.",))
        made = render_litellm(history, bodies_in(engine, history, "litellm") if at_hand else {}, 4)
    copy = json.loads(json.dumps(made))
    sent = litellm.AnthropicConfig().transform_request("claude-sonnet-4-5", copy, {"max_tokens": 9}, {}, {})
    messages = sent["messages"]
    assert [each["role"] for each in messages] == [("user", "assistant")[at % 2] for at in range(len(messages))]
    for before, after in zip(messages, [*messages[1:], {"content": []}], strict=True):
        called = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        answered = [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"]
        assert sorted(called) == sorted(answered)
    blocks = [block for each in (*messages, {"content": sent.get("system", [])}) for block in each["content"]]
    assert sum("cache_control" in block for block in blocks) <= 4
    assert "The tail." in messages[-1]["content"][-1]["text"]
    assert "The tail." not in json.dumps(sent.get("system", []))
