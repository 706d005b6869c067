"""The fake provider itself: official clients understand it, and it refuses, charges and misbehaves as it says."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.gateway.upstreams import FakeProvider, Fault, Reply, digest, say

REPLY = say(
    "Größe: 😀 looking at both files now.",
    ("read", {"path": "ä.py", "lines": [1, 2]}),
    ("ls", {}),
    thinking="First the files, 然后 the tests. " * 3,
    redacted="secret",
)
TOOLS: list[Any] = [
    {"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}} for name in ("read", "ls")
]
USER: Any = {"role": "user", "content": "Fix it."}


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider([REPLY, say("Done.")]) as server:
        yield server


def claude(provider: FakeProvider, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=provider.url, api_key="none", max_retries=0, **options)


def gpt(provider: FakeProvider, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{provider.url}/v1", api_key="none", max_retries=0, **options)


def answer_calls(content: list[dict[str, Any]]) -> dict[str, Any]:
    calls = [block["id"] for block in content if block["type"] == "tool_use"]
    return {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": call, "content": "ok"} for call in calls],
    }


@pytest.mark.parametrize("is_stream", [False, True])
def test_the_client_of_anthropic_reads_and_continues_a_reply(provider: FakeProvider, is_stream: bool) -> None:
    client = claude(provider)
    request: dict[str, Any] = {
        "model": "claude-opus-4-8",
        "max_tokens": 9,
        "tools": TOOLS,
        "thinking": {"type": "adaptive"},
    }
    messages = [USER]
    for _ in range(2):
        if is_stream:
            with client.messages.stream(**request, messages=messages) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**request, messages=messages)
        content = [block.model_dump(exclude_none=True) for block in message.content]
        messages = [*messages, {"role": "assistant", "content": content}, answer_calls(content)]
    assert message.stop_reason == "end_turn"
    assert [block["type"] for block in messages[1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert messages[1]["content"][3]["input"] == {"path": "ä.py", "lines": [1, 2]}
    assert provider.refusals == []
    assert provider.bill.calls == 2


@pytest.mark.parametrize("is_stream", [False, True])
def test_the_client_of_openai_reads_and_continues_a_chat(provider: FakeProvider, is_stream: bool) -> None:
    client = gpt(provider)
    tools: Any = [{"type": "function", "function": {"name": "read", "parameters": {}}}]
    messages: list[Any] = [{"role": "developer", "content": "Be brief."}, USER]
    for _ in range(2):
        if is_stream:
            options: Any = {"include_usage": True}
            with client.chat.completions.stream(
                model="gpt-5", messages=messages, tools=tools, stream_options=options
            ) as stream:
                completion: Any = stream.get_final_completion()
        else:
            completion = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools)
        message = completion.choices[0].message
        assert completion.usage.total_tokens > 0
        calls = message.tool_calls or []
        spelled = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in calls
        ]
        messages.append({"role": "assistant", "content": message.content, **({"tool_calls": spelled} if calls else {})})
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in calls]
    assert json.loads(messages[2]["tool_calls"][0]["function"]["arguments"]) == {"path": "ä.py", "lines": [1, 2]}
    assert messages[-1]["content"] == "Done."
    assert provider.refusals == []


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_the_client_of_openai_reads_and_continues_a_response(
    provider: FakeProvider, is_stream: bool, is_stored: bool
) -> None:
    client = gpt(provider)
    items: list[Any] = [{"role": "developer", "content": "Be brief."}, USER]
    request: dict[str, Any] = {"model": "gpt-5", "store": is_stored, "include": ["reasoning.encrypted_content"]}
    for _ in range(2):
        if is_stream:
            with client.responses.stream(**request, input=items) as stream:
                response = stream.get_final_response()
        else:
            response = client.responses.create(**request, input=items)
        results = [
            {"type": "function_call_output", "call_id": item.call_id, "output": "ok"}
            for item in response.output
            if item.type == "function_call"
        ]
        if is_stored:
            request["previous_response_id"], items = response.id, results
        else:
            output = [item.model_dump(exclude_none=True) for item in response.output]
            for item in output:
                for part in item.get("content") or []:
                    part.pop("parsed", None)
                item.pop("parsed_arguments", None)
            items = [*items, *output, *results]
    assert response.output_text == "Done."
    assert provider.refusals == []


def test_the_async_client_reads_a_stream(provider: FakeProvider) -> None:
    async def run() -> str:
        async with (
            anthropic.AsyncAnthropic(base_url=provider.url, api_key="none") as client,
            client.messages.stream(model="claude-x", max_tokens=9, messages=[USER]) as stream,
        ):
            return await stream.get_final_text()

    assert asyncio.run(run()) == REPLY.text


def test_what_agents_ask_beside_replies_is_answered(provider: FakeProvider) -> None:
    for method, path, status in (("HEAD", "/", 200), ("GET", "/v1/models", 200), ("GET", "/v1/nothing", 404)):
        connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=30)
        connection.request(method, path)
        assert connection.getresponse().status == status
        connection.close()
    count = claude(provider).messages.count_tokens(model="claude-x", messages=[USER])
    assert count.input_tokens > 0


def post(provider: FakeProvider, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    all_headers = {"x-api-key": "none", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=30)
    try:
        connection.request("POST", path, data, {**all_headers, **headers})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


CALL = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
MARK = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def text(value: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def turns(*contents: Any) -> dict[str, Any]:
    """Messages with these contents, of the user and the assistant in turn."""
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]}


REFUSED_MESSAGES: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "model: Field required"),
    "no max_tokens": ({"max_tokens": None}, "max_tokens: Field required"),
    "no messages": ({"messages": []}, "at least one message"),
    "unknown field": ({"foo": 1}, "foo: Extra inputs"),
    "assistant first": ({"messages": [{"role": "assistant", "content": "x"}]}, "first message"),
    "unknown role": ({"messages": [USER, {"role": "tool", "content": "x"}]}, "Unexpected role"),
    "system without beta": ({"messages": [USER, {"role": "system", "content": "x"}]}, "Unexpected role"),
    "call without result": (turns("x", [CALL], "y"), "without `tool_result` blocks immediately after"),
    "call at the end": (turns("x", [CALL]), "without `tool_result` blocks immediately after"),
    "late result": (turns("x", [CALL], [text(), RESULT]), "without `tool_result` blocks immediately after"),
    "result without call": (turns("x", "y", [RESULT]), "unexpected `tool_use_id`"),
    "result first": (turns([RESULT]), "unexpected `tool_use_id`"),
    "two results": (turns("x", [CALL], [RESULT, RESULT]), "single result"),
    "two calls of one id": (turns("x", [CALL, CALL], [RESULT]), "must be unique"),
    "call of the user": (turns([CALL]), "can only be in `assistant`"),
    "strange thinking": (
        turns("x", [{"type": "thinking", "thinking": "a", "signature": "b"}, text()], "y"),
        "Invalid `signature`",
    ),
    "strange redacted": (turns("x", [{"type": "redacted_thinking", "data": "QQ"}, text()], "y"), "Invalid `data`"),
    "five marks": (turns([text(cache_control=MARK)] * 5), "maximum of 4"),
    "marks in results": (
        turns([text(cache_control=MARK)] * 4, [CALL], [{**RESULT, "content": [text(cache_control=MARK)]}]),
        "maximum of 4",
    ),
    "long after short": (turns([text(cache_control=MARK), text(cache_control=LONG)]), "must not come after"),
    "long in messages": (
        {"system": [text(cache_control=MARK)], **turns([text(cache_control=LONG)])},
        "must not come after",
    ),
    "empty text": (turns([text("")]), "non-empty"),
    "blank text": (turns([text(" \n")]), "non-whitespace"),
    "empty content": (turns(""), "non-empty content"),
    "mark on empty text": (turns([text("", cache_control=MARK)]), "cannot be set for empty text"),
    "index": (turns("x", [text(index=0)], "y"), "index: Extra inputs"),
    "parsed": (turns("x", [text(parsed={})], "y"), "parsed: Extra inputs"),
    "unknown block": (turns([{"type": "hologram"}]), "does not match any"),
    "trailing blank": (turns("x", "y "), "trailing whitespace"),
    "small budget": ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "1024"),
}


@pytest.mark.parametrize("name", REFUSED_MESSAGES)
def test_anthropic_refuses(provider: FakeProvider, name: str) -> None:
    changes, reason = REFUSED_MESSAGES[name]
    body = {"model": "claude-x", "max_tokens": 9, "messages": [USER], **changes}
    body = {key: value for key, value in body.items() if value is not None}
    status, answer = post(provider, "/v1/messages", body)
    assert (status, answer["type"], answer["error"]["type"]) == (400, "error", "invalid_request_error")
    assert reason in answer["error"]["message"]
    assert provider.refusals == [answer["error"]["message"]]


def sealed_turn(provider: FakeProvider) -> list[dict[str, Any]]:
    _, message = post(provider, "/v1/messages", {"model": "claude-x", "max_tokens": 9, "messages": [USER]})
    content: list[dict[str, Any]] = message["content"]
    return content


def test_thinking_must_come_back_as_it_was(provider: FakeProvider) -> None:
    content = sealed_turn(provider)

    def send(changed: list[dict[str, Any]], **more: Any) -> str:
        messages = [USER, {"role": "assistant", "content": changed}, answer_calls(changed)]
        body = {"model": "claude-x", "max_tokens": 9_000, "messages": messages, **more}
        status, answer = post(provider, "/v1/messages", body)
        return "" if status == 200 else answer["error"]["message"]

    thinking, redacted, *rest = content
    enabled = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
    assert send(content) == send(content, **enabled) == ""
    assert "Invalid `signature`" in send([{**thinking, "thinking": thinking["thinking"] + "!"}, redacted, *rest])
    changed = redacted["data"][:-6] + ("AAAA" if redacted["data"][-6:-2] != "AAAA" else "BBBB") + redacted["data"][-2:]
    assert "Invalid `data`" in send([thinking, {**redacted, "data": changed}, *rest])
    assert "cache_control: Extra inputs" in send([{**thinking, "cache_control": MARK}, redacted, *rest])
    assert send(rest) == ""
    assert "must start with a thinking block" in send(rest, **enabled)
    assert "must start with a thinking block" in send(rest, thinking={"type": "adaptive"})
    assert send([redacted, *rest], **enabled) == ""


def test_system_messages_need_their_beta_and_their_place(provider: FakeProvider) -> None:
    def send(*messages: Any) -> int:
        body = {"model": "claude-x", "max_tokens": 9, "messages": list(messages)}
        return post(provider, "/v1/messages", body, **{"anthropic-beta": "a-1,mid-conversation-system-2026-04-07"})[0]

    system, assistant = {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "x"}
    assert send(USER, system) == send(USER, system, assistant, USER, system) == 200
    assert send(USER, system, system, assistant, USER) == 200
    assert send(system, USER) == send(USER, assistant, system) == 400
    assert send(USER, system, USER) == send(USER, system, system, USER) == 400
    assert send(USER, {"role": "assistant", "content": [CALL]}, system, {"role": "user", "content": [RESULT]}) == 400


CHAT_CALL = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
CHAT_CALLS = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}
CHAT_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "ok"}
REFUSED_CHATS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "empty": ([], "empty array"),
    "unknown role": ([{"role": "robot", "content": "x"}], "Invalid value: 'robot'"),
    "result without call": ([USER, CHAT_RESULT], "must be a response to a preceeding message"),
    "two results": ([USER, CHAT_CALLS, CHAT_RESULT, CHAT_RESULT], "must be a response to a preceeding message"),
    "call without result": ([USER, CHAT_CALLS, USER], "did not have response messages: call_1"),
    "call at the end": ([USER, CHAT_CALLS], "did not have response messages: call_1"),
    "parsed": ([USER, {"role": "assistant", "content": "x", "parsed": {}}, USER], "messages[1].parsed"),
    "index": ([USER, {**CHAT_CALLS, "tool_calls": [{**CHAT_CALL, "index": 0}]}, CHAT_RESULT], "tool_calls[0].index"),
    "nothing said": ([USER, {"role": "assistant", "content": None}, USER], "expected a string"),
}


@pytest.mark.parametrize("name", REFUSED_CHATS)
def test_chat_refuses(provider: FakeProvider, name: str) -> None:
    messages, reason = REFUSED_CHATS[name]
    status, answer = post(provider, "/v1/chat/completions", {"model": "gpt-5", "messages": messages})
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert reason in answer["error"]["message"]


ITEM_CALL = {"type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{}"}
ITEM_RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
REFUSED_RESPONSES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "result without call": ([USER, ITEM_RESULT], "No tool call found"),
    "call without result": ([USER, ITEM_CALL], "No tool output found"),
    "two results": ([USER, ITEM_CALL, ITEM_RESULT, ITEM_RESULT], "Duplicate"),
    "same id": ([{**USER, "id": "msg_1", "type": "message"}] * 2, "Duplicate item found"),
    "lone reasoning": ([USER, {"type": "reasoning", "id": "rs_1", "summary": []}, USER], "required following item"),
    "last reasoning": ([USER, {"type": "reasoning", "id": "rs_1", "summary": []}], "required following item"),
    "strange seal": (
        [USER, {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAxx"}],
        "could not be verified",
    ),
    "parsed": (
        [{"role": "assistant", "content": [{"type": "output_text", "text": "x", "parsed": 1}]}],
        "input[0].content[0].parsed",
    ),
    "unknown item": ([{"type": "hologram"}], "Invalid value: 'hologram'"),
}


@pytest.mark.parametrize("name", REFUSED_RESPONSES)
def test_responses_refuse(provider: FakeProvider, name: str) -> None:
    items, reason = REFUSED_RESPONSES[name]
    body = {"model": "gpt-5", "input": items, "store": False}
    status, answer = post(provider, "/v1/responses", body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert reason in answer["error"]["message"]


def test_an_item_is_refused_without_the_reasoning_that_it_came_after(provider: FakeProvider) -> None:
    body = {"model": "gpt-5", "input": [USER], "store": False, "include": ["reasoning.encrypted_content"]}
    output = post(provider, "/v1/responses", body)[1]["output"]
    results = [{**ITEM_RESULT, "call_id": item["call_id"]} for item in output if "call_id" in item]
    assert post(provider, "/v1/responses", {**body, "input": [USER, *output, *results]})[0] == 200
    reasoning = [item for item in output if item["type"] == "reasoning"]
    for item in reasoning[-1:]:
        rest = [each for each in output if each is not item]
        status, answer = post(provider, "/v1/responses", {**body, "input": [USER, *rest, *results]})
        assert status == 400
        assert "reasoning" in answer["error"]["message"]


def test_credentials_bodies_and_windows_have_their_own_errors() -> None:
    with FakeProvider(max_body=1_000, window=100) as provider:
        body = {"model": "claude-x", "max_tokens": 9, "messages": [USER]}
        assert post(provider, "/v1/messages", body, **{"x-api-key": ""})[0] == 401
        assert post(provider, "/v1/messages", body, **{"anthropic-version": ""})[0] == 400
        large = {**body, "messages": [{"role": "user", "content": "y" * 2_000}]}
        status, answer = post(provider, "/v1/messages", large)
        assert (status, answer["error"]["type"]) == (413, "request_too_large")
        status, answer = post(provider, "/v1/messages", {**body, "system": "word " * 150})
        assert status == 400
        assert "prompt is too long" in answer["error"]["message"]
        assert post(provider, "/v1/messages", b'{"model": "x"')[0] == 400


def ask_raw(provider: FakeProvider, fault: str = "", *, is_stream: bool = True) -> tuple[int, dict[str, str], bytes]:
    """The answer to a request, read without a client's help."""
    body = json.dumps({"model": "claude-x", "max_tokens": 9, "messages": [USER], "stream": is_stream})
    connection = http.client.HTTPConnection("127.0.0.1", provider.port, timeout=10)
    headers = {"x-api-key": "none", "anthropic-version": "2023-06-01", "x-fake-fault": fault, "x-fake-turn": "0"}
    try:
        connection.request("POST", "/v1/messages", body, headers)
        response = connection.getresponse()
        found = dict(response.getheaders())
        try:
            return response.status, found, response.read()
        except http.client.IncompleteRead as error:
            return response.status, found, error.partial
    finally:
        connection.close()


def test_an_answer_is_recorded_as_it_was_sent(provider: FakeProvider) -> None:
    for fault in ("", "chunks=1", "chunks=3,1,7", "trim", "gzip", "gzip;chunks=5"):
        _, headers, data = ask_raw(provider, fault)
        exchange = provider.calls[-1]
        assert exchange.is_whole
        assert exchange.answer_digest == digest(data)
        assert exchange.usage["output_tokens"] > 0
        assert headers.get("Content-Encoding") == ("gzip" if "gzip" in fault else None)
    assert not provider.calls[3].answer.endswith(b"\n")
    assert provider.calls[0].answer.rstrip(b"\n") == provider.calls[3].answer


def test_a_stream_can_be_cut_at_any_byte(provider: FakeProvider) -> None:
    whole = ask_raw(provider, "")[2]
    usage_free = len(whole)
    for at in (0, 1, 17, 500, usage_free - 1):
        _, _, data = ask_raw(provider, f"cut={at}")
        assert len(data) == at
        assert not provider.calls[-1].is_whole
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        ask_raw(provider, "cut=-1")
    with pytest.raises(ConnectionResetError):
        ask_raw(provider, "cut=-1;resets")
    assert len(ask_raw(provider, "length=7", is_stream=False)[2]) == len(provider.calls[-1].answer)


def test_overload_has_the_shapes_of_the_provider(provider: FakeProvider) -> None:
    provider.faults.extend([Fault(status=429, retry_after="3"), Fault(status=529), Fault(status=500)])
    status, headers, data = ask_raw(provider)
    assert (status, headers["Retry-After"], json.loads(data)["error"]["type"]) == (429, "3", "rate_limit_error")
    status, _, data = ask_raw(provider)
    assert (status, json.loads(data)["error"]["type"]) == (529, "overloaded_error")
    status, headers, data = ask_raw(provider)
    assert (status, headers["Content-Type"], data[:6]) == (500, "text/html", b"<html>")
    assert ask_raw(provider)[0] == 200


def test_a_stall_ends_when_the_test_says_so(provider: FakeProvider) -> None:
    provider.faults.extend([Fault(stall=60), Fault(stall=60, stall_at=30)])

    async def run() -> list[int]:
        found = []
        for _ in range(2):
            answer = asyncio.create_task(asyncio.to_thread(ask_raw, provider))
            await asyncio.to_thread(provider.stalled.wait, 30)
            assert not answer.done()
            provider.resume()
            found.append((await answer)[0])
        return found

    assert asyncio.run(run()) == [200, 200]


def test_equal_turns_have_equal_ids_and_replies_can_be_named(provider: FakeProvider) -> None:
    body = {"model": "claude-x", "max_tokens": 9, "messages": [USER]}
    provider.replies["recorded"] = Reply(say("Recorded.").parts)
    first = post(provider, "/v1/messages", body, **{"x-fake-turn": "0", "x-fake-line": "a"})[1]
    again = post(provider, "/v1/messages", body, **{"x-fake-turn": "0", "x-fake-line": "a"})[1]
    assert first["content"] == again["content"]
    assert first["id"] == again["id"] != post(provider, "/v1/messages", body, **{"x-fake-line": "b"})[1]["id"]
    named = post(provider, "/v1/messages", body, **{"x-fake-reply": "recorded"})[1]
    assert named["content"] == [{"type": "text", "text": "Recorded."}]
