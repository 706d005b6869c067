"""The gateway's own tool calls never reach the client, and everything else does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.gateway.dialects import read_request
from holdfast.gateway.edits import splice
from holdfast.gateway.injected import add_tool, extend_request, restore_reads
from holdfast.gateway.model import Dialect
from holdfast.gateway.read_back import READ_TOOL
from holdfast.gateway.replies import ReplyReader
from holdfast.gateway.splitters import HiddenRead, ReadReply, make_splitter
from tests.gateway.own_replies import Piece, build_reply, scripts, write_stream

DIALECTS: tuple[Dialect, ...] = ("anthropic", "chat", "responses")
KINDS = {"anthropic": "messages", "chat": "messages", "responses": "input"}


class Client(NamedTuple):
    """What a client got, and what the provider got for it."""

    data: bytes
    additions: list[bytes]
    hidden: list[HiddenRead]
    stored: ReadReply


def run_script(
    dialect: Dialect, script: Sequence[Sequence[Piece]], *, is_stream: bool, cuts: Sequence[int] = (), rounds: int = 3
) -> Client:
    """Let a scripted model reply through a splitter. `cuts` are the sizes of the pieces in which its bytes come."""
    splitter = make_splitter(dialect, is_stream=is_stream, rounds=rounds)
    out, additions = b"", []
    for number, pieces in enumerate(script):
        reply = build_reply(dialect, pieces, number)
        data = write_stream(dialect, reply) if is_stream else json.dumps(reply).encode()
        at = 0
        for size in (*cuts, len(data)):
            out += splitter.feed(data[at : at + size])
            at += size
        end = splitter.finish()
        results = [f"result of {call.arguments['handle']}" for call in end.calls]
        if end.goes_on:
            additions.append(splitter.answer(results))
            continue
        if end.calls:
            assert splitter.answer(results) == b""
        assert number == len(script) - 1, "the reply ends with its last round"
        out += end.data
    return Client(out, additions, splitter.hidden, splitter.read_reply())


def expect_reply(dialect: Dialect, script: Sequence[Sequence[Piece]]) -> dict[str, Any]:
    """The reply of a model that has no tool of the gateway."""
    replies = [build_reply(dialect, pieces, number) for number, pieces in enumerate(script)]
    merged = {**replies[-1], "id": replies[0]["id"]}
    if dialect == "chat":
        texts = [reply["choices"][0]["message"]["content"] for reply in replies]
        (choice,) = merged["choices"]
        message = {**choice["message"], "content": "\n\n".join(filter(None, texts)) or None}
        message["tool_calls"] = [
            call for call in message.get("tool_calls", ()) if call["function"]["name"] != READ_TOOL
        ] or None
        merged["choices"] = [{**choice, "message": message}]
    else:
        name = "content" if dialect == "anthropic" else "output"
        merged[name] = [piece for reply in replies for piece in reply[name] if piece.get("name") != READ_TOOL]
    return merged


def summarize(dialect: Dialect, reply: dict[str, Any]) -> Any:
    """What a client makes of a reply, as the objects of the official clients show it."""
    usage = reply["usage"]
    if dialect == "anthropic":
        blocks = [
            {name: block[name] for name in ("text", "thinking", "signature", "name", "id", "input") if block.get(name)}
            for block in reply["content"]
        ]
        return reply["id"], blocks, reply["stop_reason"], usage["input_tokens"], usage["output_tokens"]
    if dialect == "chat":
        (choice,) = reply["choices"]
        calls = [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in choice["message"].get("tool_calls") or ()
        ]
        text = choice["message"]["content"] or ""
        return reply["id"], text, calls, choice["finish_reason"], usage["prompt_tokens"], usage["completion_tokens"]
    names = ("type", "id", "call_id", "name", "arguments", "encrypted_content")
    items = [{name: item[name] for name in names if item.get(name)} for item in reply["output"]]
    said = [part["text"] for item in reply["output"] for part in item.get("content") or ()]
    return reply["id"], items, said, reply["status"], usage["input_tokens"], usage["output_tokens"]


def parse_officially(dialect: Dialect, data: bytes, *, is_stream: bool) -> dict[str, Any]:
    """The reply as the official client gives it to its caller, with its stream helper."""
    kind = "text/event-stream" if is_stream else "application/json"
    answer = httpx2.Response(200, headers={"content-type": kind}, content=data)
    transport = httpx2.MockTransport(lambda _: answer)
    reply: Any
    if dialect == "anthropic":
        client = anthropic.Anthropic(api_key="x", max_retries=0, http_client=httpx2.Client(transport=transport))
        asked: Any = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "?"}]}
        if is_stream:
            with client.messages.stream(**asked) as stream:
                reply = stream.get_final_message()
        else:
            reply = client.messages.create(**asked)
        return reply.model_dump()  # type: ignore[no-any-return]
    openai_client = openai.OpenAI(api_key="x", max_retries=0, http_client=httpx2.Client(transport=transport))
    if dialect == "chat":
        asked = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        if is_stream:
            with openai_client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as events:
                reply = events.get_final_completion()
        else:
            reply = openai_client.chat.completions.create(**asked)
        return reply.model_dump()  # type: ignore[no-any-return]
    if is_stream:
        with openai_client.responses.stream(model="m", input="?") as outputs:
            reply = outputs.get_final_response()
    else:
        reply = openai_client.responses.create(model="m", input="?")
    return reply.model_dump()  # type: ignore[no-any-return]


cut_lists = st.lists(st.integers(1, 400), max_size=12)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(script=scripts(), cuts=cut_lists, is_stream=st.booleans())
@settings(max_examples=60)
def test_a_client_gets_one_reply_without_the_gateways_calls(
    dialect: Dialect, script: list[list[Piece]], cuts: list[int], is_stream: bool
) -> None:
    got = run_script(dialect, script, is_stream=is_stream, cuts=cuts)
    assert READ_TOOL.encode() not in got.data
    wanted = expect_reply(dialect, script)
    count = len(script)
    names = ("prompt_tokens", "completion_tokens") if dialect == "chat" else ("input_tokens", "output_tokens")
    wanted["usage"] = {names[0]: 10 * count + sum(range(count)), names[1]: 7 * count}
    parsed = parse_officially(dialect, got.data, is_stream=is_stream)
    assert summarize(dialect, parsed) == summarize(dialect, wanted)
    reader = ReplyReader("text/event-stream" if is_stream else "application/json", "")
    reader.add(got.data)
    read = reader.finish(has_ended=True)
    assert read.is_complete
    assert read.reply is not None
    assert summarize(dialect, read.reply) == summarize(dialect, wanted)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(script=scripts(), cuts=cut_lists, is_stream=st.booleans())
@settings(max_examples=30)
def test_a_reply_without_such_calls_comes_out_byte_for_byte(
    dialect: Dialect, script: list[list[Piece]], cuts: list[int], is_stream: bool
) -> None:
    pieces = [piece for piece in script[-1] if piece[0] != "own"]
    reply = build_reply(dialect, pieces, 0)
    data = write_stream(dialect, reply) if is_stream else json.dumps(reply).encode()
    assert run_script(dialect, [pieces], is_stream=is_stream, cuts=cuts).data == data
    assert run_script(dialect, [pieces], is_stream=is_stream, cuts=[1] * 300).data == data


@given(script=scripts(), cuts=cut_lists)
@settings(max_examples=30)
def test_items_and_events_of_responses_are_numbered_without_gaps(script: list[list[Piece]], cuts: list[int]) -> None:
    got = run_script("responses", script, is_stream=True, cuts=cuts)
    events = [json.loads(line[5:]) for line in got.data.splitlines() if line.startswith(b"data:")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == list(range(len(added)))
    assert [event["type"] for event in events].count("response.created") == 1
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_texts_are_not_held_back(dialect: Dialect) -> None:
    splitter = make_splitter(dialect, is_stream=True)
    data = write_stream(dialect, build_reply(dialect, [("text", "Let me look."), ("own", "h1_0")], 0))
    assert b"k." in splitter.feed(data[: data.index(READ_TOOL.encode())])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("is_stream", [True, False])
def test_a_model_that_reads_without_end_is_stopped(dialect: Dialect, is_stream: bool) -> None:
    script = [[("text", f"again {number}"), ("own", "h1_0")] for number in range(3)]
    got = run_script(dialect, script, is_stream=is_stream, rounds=2)
    assert len(got.additions) == 2
    reply = parse_officially(dialect, got.data, is_stream=is_stream)
    assert READ_TOOL.encode() not in got.data
    reason = {
        "anthropic": lambda: reply["stop_reason"] == "end_turn",
        "chat": lambda: reply["choices"][0]["finish_reason"] == "stop",
        "responses": lambda: reply["status"] == "completed",
    }
    assert reason[dialect]()
    assert "again 2" in json.dumps(reply)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refused_continuation_is_an_error_for_the_client(dialect: Dialect) -> None:
    splitter = make_splitter(dialect, is_stream=True)
    out = splitter.feed(write_stream(dialect, build_reply(dialect, [("text", "Hm."), ("own", "h1_0")], 0)))
    assert splitter.finish().goes_on
    splitter.answer(["text"])
    out += splitter.fail(529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
    with pytest.raises((anthropic.APIError, openai.APIError), match="Overloaded"):
        parse_officially(dialect, out, is_stream=True)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_cut_stream_stays_cut(dialect: Dialect) -> None:
    splitter = make_splitter(dialect, is_stream=True)
    data = write_stream(dialect, build_reply(dialect, [("text", "Hm."), ("own", "h1_0")], 0))
    splitter.feed(data[: data.index(READ_TOOL.encode()) + 40])
    end = splitter.finish()
    assert not end.calls
    assert b"message_stop" not in end.data
    assert b"[DONE]" not in end.data


# Requests


def build_request(dialect: Dialect) -> dict[str, Any]:
    question = {"role": "user", "content": "What did it say?"}
    tool: dict[str, Any] = {"name": "lookup", "description": "Look up."}
    schema = {"type": "object", "properties": {}}
    if dialect == "anthropic":
        return {
            "model": "claude-sonnet-4-5",
            "max_tokens": 9,
            "tools": [{**tool, "input_schema": schema}],
            "messages": [question],
        }
    if dialect == "chat":
        tools = [{"type": "function", "function": {**tool, "parameters": schema}}]
        return {"model": "gpt-5", "tools": tools, "messages": [question]}
    return {"model": "gpt-5", "tools": [{"type": "function", **tool, "parameters": schema}], "input": [question]}


def send_back(dialect: Dialect, reply: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages with which a client goes on: the reply, the results of its calls, and a question."""
    question = {"role": "user", "content": "And then?"}
    if dialect == "anthropic":
        calls = [block["id"] for block in reply["content"] if block["type"] == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call, "content": "done"} for call in calls]
        answer = {"role": "user", "content": results} if results else question
        return [{"role": "assistant", "content": reply["content"]}, answer]
    if dialect == "chat":
        message = reply["choices"][0]["message"]
        message = {name: value for name, value in message.items() if value is not None} | {
            "content": message["content"]
        }
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in message.get("tool_calls", ())
        ]
        return [message, *(results or [question])]
    calls = [item["call_id"] for item in reply["output"] if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": call, "output": "done"} for call in calls]
    return [*reply["output"], *(results or [question])]


@pytest.mark.parametrize("dialect", DIALECTS)
@given(script=scripts(), is_stream=st.booleans())
@settings(max_examples=60)
def test_a_later_request_has_the_reads_where_they_stood(
    dialect: Dialect, script: list[list[Piece]], is_stream: bool
) -> None:
    try:
        read_request(dialect, (), json.dumps(build_request(dialect)).encode())
    except KeyError:
        pytest.skip("the dialect is not readable yet")
    got = run_script(dialect, script, is_stream=is_stream)
    reader = ReplyReader("text/event-stream" if is_stream else "application/json", "")
    reader.add(got.data)
    reply = reader.finish(has_ended=True).reply
    assert reply is not None
    first = build_request(dialect)
    second = {**first, KINDS[dialect]: [*first[KINDS[dialect]], *send_back(dialect, reply)]}
    body = json.dumps(second).encode()
    request = read_request(dialect, (), body)
    stored = got.stored
    (index,) = [number for number, message in enumerate(request.messages) if message.role == "assistant"]
    restored = json.loads(splice(body, restore_reads(body, request, index, stored)))
    assert {**restored, KINDS[dialect]: None} == {**second, KINDS[dialect]: None}
    assert_pairs(dialect, restored)
    sent = json.dumps(first).encode()
    for addition in got.additions:
        sent = extend_request(dialect, sent, addition)
    if got.hidden and got.additions and dialect != "chat" and script[0][0][0] != "call":
        continued = json.loads(sent)[KINDS[dialect]]
        assert _flatten(dialect, restored[KINDS[dialect]])[: len(_flatten(dialect, continued))] == _flatten(
            dialect, continued
        )
    reads = [piece for pieces in script for piece in pieces if piece[0] == "own"]
    assert json.dumps(restored).count(f'"{READ_TOOL}"') == len(reads)
    edited = ReadReply(stored.shown + 1, (*stored.calls, "another"), stored.reads)
    assert restore_reads(body, request, index, edited) == []


def _flatten(dialect: Dialect, messages: list[dict[str, Any]]) -> list[Any]:
    if dialect != "anthropic":
        return messages
    flat: list[Any] = []
    for message in messages:
        content = message["content"]
        flat += [message["role"], *([{"type": "text", "text": content}] if isinstance(content, str) else content)]
    return flat


def assert_pairs(dialect: Dialect, body: dict[str, Any]) -> None:
    """Every call is answered in the place where the provider wants that."""
    messages = body[KINDS[dialect]]
    if dialect == "responses":
        calls = [item["call_id"] for item in messages if item.get("type") == "function_call"]
        assert sorted(calls) == sorted(
            item["call_id"] for item in messages if item.get("type") == "function_call_output"
        )
        return
    for at, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if dialect == "anthropic":
            calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            behind = messages[at + 1]["content"] if calls else []
            assert sorted(calls) == sorted(block["tool_use_id"] for block in behind if block["type"] == "tool_result")
        else:
            calls = [call["id"] for call in message.get("tool_calls", ())]
            behind = messages[at + 1 : at + 1 + len(calls)]
            assert sorted(calls) == sorted(each["tool_call_id"] for each in behind)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_tool_stands_behind_those_of_the_client(dialect: Dialect) -> None:
    first = build_request(dialect)
    body = json.dumps(first, indent=1).encode()
    added = splice(body, add_tool(dialect, body))
    assert added.startswith(body[: body.index(b'"messages"' if dialect != "responses" else b'"input"') - 20])
    tools = json.loads(added)["tools"]
    assert tools[:-1] == first["tools"]
    assert READ_TOOL in json.dumps(tools[-1])
    assert len(json.dumps(tools[-1])) < 520
    assert add_tool(dialect, added) == []
    text: dict[str, Any] = {KINDS[dialect]: "text"}
    others: list[dict[str, Any]] = [{"tools": []}, {"tools": None}, text, {"n": 2}, {"previous_response_id": "r"}]
    others.append({"thread": {"type": "create"}})
    for fields in others:
        other = json.dumps({**first, **fields}).encode()
        assert add_tool(dialect, other) == []
