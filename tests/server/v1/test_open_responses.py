"""The seven cases of Open Responses, and the shapes that it asks of responses, items and events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.protocols import Reply, Talk
from tests.server.v1.conftest import TOOL, Desk
from tests.server.v1.test_responses import PIXEL

TEXT_OR_NONE: Any = (str, type(None))
NUMBER: Any = (int, float)
RESPONSE: dict[str, Any] = {
    "id": str,
    "object": str,
    "created_at": int,
    "completed_at": (int, type(None)),
    "status": str,
    "incomplete_details": (dict, type(None)),
    "model": str,
    "previous_response_id": TEXT_OR_NONE,
    "instructions": TEXT_OR_NONE,
    "output": list,
    "error": (dict, type(None)),
    "tools": list,
    "tool_choice": (str, dict),
    "truncation": str,
    "parallel_tool_calls": bool,
    "text": dict,
    "top_p": NUMBER,
    "presence_penalty": NUMBER,
    "frequency_penalty": NUMBER,
    "top_logprobs": int,
    "temperature": NUMBER,
    "reasoning": (dict, type(None)),
    "usage": (dict, type(None)),
    "max_output_tokens": (int, type(None)),
    "max_tool_calls": (int, type(None)),
    "store": bool,
    "background": bool,
    "service_tier": str,
    "metadata": dict,
    "safety_identifier": TEXT_OR_NONE,
    "prompt_cache_key": TEXT_OR_NONE,
}
"""The fields that every response has."""
EVENTS: dict[str, dict[str, Any]] = {
    "response.created": {"response": dict},
    "response.queued": {"response": dict},
    "response.in_progress": {"response": dict},
    "response.completed": {"response": dict},
    "response.incomplete": {"response": dict},
    "response.failed": {"response": dict},
    "response.output_item.added": {"output_index": int, "item": dict},
    "response.output_item.done": {"output_index": int, "item": dict},
    "response.content_part.added": {"item_id": str, "output_index": int, "content_index": int, "part": dict},
    "response.content_part.done": {"item_id": str, "output_index": int, "content_index": int, "part": dict},
    "response.output_text.delta": {"item_id": str, "output_index": int, "content_index": int, "delta": str},
    "response.output_text.done": {"item_id": str, "output_index": int, "content_index": int, "text": str},
    "response.function_call_arguments.delta": {"item_id": str, "output_index": int, "delta": str},
    "response.function_call_arguments.done": {"item_id": str, "output_index": int, "arguments": str},
}
STATUSES = ("completed", "failed", "in_progress", "cancelled", "queued", "incomplete")


def check_shape(value: dict[str, Any], shape: dict[str, Any], where: str) -> None:
    for name, kind in shape.items():
        assert name in value, f"{where} has no {name}"
        assert isinstance(value[name], kind), f"{where}.{name} is {value[name]!r}"


def check_item(item: dict[str, Any]) -> None:
    check_shape(item, {"id": str, "type": str, "status": str}, "an item")
    if item["type"] == "message":
        check_shape(item, {"role": str, "content": list}, "a message")
        for part in item["content"]:
            check_shape(part, {"type": str, "text": str, "annotations": list, "logprobs": list}, "a part")
    if item["type"] == "function_call":
        check_shape(item, {"call_id": str, "name": str, "arguments": str}, "a call")


def check_response(response: dict[str, Any]) -> None:
    check_shape(response, RESPONSE, "the response")
    assert response["object"] == "response"
    assert response["status"] in STATUSES
    assert response["text"]["format"]["type"] == "text"
    for item in response["output"]:
        check_item(item)
    if response["status"] == "completed":
        usage = response["usage"]
        check_shape(usage, {"input_tokens": int, "output_tokens": int, "total_tokens": int}, "usage")
        assert usage["input_tokens_details"]["cached_tokens"] >= 0
        assert usage["output_tokens_details"]["reasoning_tokens"] >= 0


def ask(desk: Desk, items: list[Any], **options: Any) -> dict[str, Any]:
    answer = desk.http.post("/responses", json={"model": "m1", "input": items, **options})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    response: dict[str, Any] = answer.json()
    check_response(response)
    assert response["output"]
    return response


def stream(desk: Desk, items: list[Any], **options: Any) -> list[dict[str, Any]]:
    body = {"model": "m1", "input": items, "stream": True, **options}
    events: list[dict[str, Any]] = []
    with desk.http.stream("POST", "/responses", json=body) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                assert event["type"] == name
                events.append(event)
            else:
                assert line == ""
    for number, event in enumerate(events):
        assert event["sequence_number"] == number
        assert event["type"] in EVENTS
        check_shape(event, EVENTS[event["type"]], event["type"])
        if "response" in event:
            check_response(event["response"])
    return events


def user(content: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def weather(talk: Talk) -> Reply:
    return (
        Reply("", (("get_weather", {"location": "San Francisco, CA"}),)) if "get_weather" in talk.tools else Reply("ok")
    )


WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Say what the weather is at a place.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "a city"}},
        "required": ["location"],
    },
    "strict": False,
}


def test_basic_text(desk: Desk) -> None:
    response = ask(desk, [user("Say hello in exactly three words.")])
    assert response["status"] == "completed"
    assert response["output"][0]["role"] == "assistant"


def test_streaming(desk: Desk) -> None:
    events = stream(desk, [user("Count from 1 to 5.")])
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    final = events[-1]["response"]
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    assert final["output"][0]["content"][0]["text"] == text
    if desk.kind != "openai-responses":  # there, the events are those of the upstream
        assert [event["type"].removeprefix("response.") for event in events if "delta" not in event["type"]] == [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]


def test_system_prompt(desk: Desk) -> None:
    system = {"type": "message", "role": "system", "content": "You are a pirate."}
    response = ask(desk, [system, user("Say hello.")])
    assert response["status"] == "completed"
    assert "You are a pirate." in json.dumps(desk.sent)


def test_tool_calling(desk: Desk) -> None:
    desk.script(weather)
    response = ask(desk, [user("What is the weather like in San Francisco?")], tools=[WEATHER])
    (call,) = [item for item in response["output"] if item["type"] == "function_call"]
    assert json.loads(call["arguments"]) == {"location": "San Francisco, CA"}
    assert response["tools"] == [WEATHER]


def test_tool_calling_streaming(desk: Desk) -> None:
    desk.script(weather)
    events = stream(desk, [user("What is the weather like in San Francisco?")], tools=[WEATHER])
    added = [event for event in events if event["type"] == "response.output_item.added"]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    deltas = [event for event in events if event["type"] == "response.function_call_arguments.delta"]
    assert added[-1]["item"]["type"] == done[-1]["item"]["type"] == "function_call"
    assert "".join(event["delta"] for event in deltas) == done[-1]["item"]["arguments"]
    assert any(event["type"] == "response.function_call_arguments.done" for event in events) or (
        desk.kind == "openai-responses"
    )


def test_image_input(desk: Desk) -> None:
    content = [{"type": "input_text", "text": "What do you see?"}, {"type": "input_image", "image_url": PIXEL}]
    response = ask(desk, [user(content)])
    assert response["status"] == "completed"
    assert PIXEL.partition(",")[2] in json.dumps(desk.sent)


def test_multi_turn(desk: Desk) -> None:
    history = [
        user("My name is Alice."),
        {"type": "message", "role": "assistant", "content": "Hello Alice! How can I help you?"},
        user("What is my name?"),
    ]
    response = ask(desk, history)
    assert response["status"] == "completed"
    sent = json.dumps(desk.sent)
    assert "My name is Alice." in sent
    assert "Hello Alice!" in sent
    assert desk.model.refused == []


@pytest.mark.parametrize("streams", [False, True])
def test_several_calls_at_once(desk: Desk, *, streams: bool) -> None:
    desk.script(lambda talk: Reply("Two things.", (("look_up", {"word": "a"}), ("look_up", {"word": "b"}))))
    if streams:
        output = stream(desk, [user("go")], tools=[TOOL])[-1]["response"]["output"]
    else:
        output = ask(desk, [user("go")], tools=[TOOL])["output"]
    assert [item["type"] for item in output] == ["message", "function_call", "function_call"]
    assert [json.loads(item["arguments"])["word"] for item in output[1:]] == ["a", "b"]


def test_compaction(desk: Desk) -> None:
    history = [user("word " * 3_000), {"type": "message", "role": "assistant", "content": "ok"}] * 12
    answer = desk.http.post("/responses/compact", json={"model": "m1", "input": [*history, user("And now?")]})
    assert answer.status_code == 200, answer.text
    compacted = answer.json()
    assert compacted["object"] == "response.compaction"
    assert len(json.dumps(compacted["output"])) < len(json.dumps(history)) / 2
    response = ask(desk, [*compacted["output"], user("Go on.")])
    assert response["status"] == "completed"
    assert "And now?" in json.dumps(desk.sent)
    assert desk.model.refused == []
