"""Replies as streams: the events of each API, in the order and with the fields of the real ones, as frames of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.gateway.upstreams.replies import spell

PIECE_CHARS = 24
"""The characters of a delta."""


def cut(text: str, size: int = PIECE_CHARS) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _frame(event: dict[str, Any], *, is_named: bool = True) -> bytes:
    name = f"event: {event['type']}\n" if is_named else ""
    return f"{name}data: {spell(event)}\n\n".encode("utf-8", "surrogatepass")


def stream_message(message: dict[str, Any]) -> Iterator[bytes]:
    """The frames of a message of Anthropic."""
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _frame({"type": "message_start", "message": begun})
    for index, block in enumerate(message["content"]):
        for number, event in enumerate(_stream_block(block)):
            yield _frame({"type": event["type"], "index": index, **event})
            if index == number == 0:
                yield _frame({"type": "ping"})
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _frame({"type": "message_delta", "delta": delta, "usage": usage})
    yield _frame({"type": "message_stop"})


def _stream_block(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun: dict[str, Any]
    deltas: list[dict[str, Any]] = []
    match block["type"]:
        case "text":
            begun = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in cut(block["text"])]
        case "thinking":
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            begun = {**block, "input": {}}
            pieces = cut(spell(block["input"])) if block["input"] else []
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
        case _:
            begun = block
    yield {"type": "content_block_start", "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}


def stream_completion(completion: dict[str, Any], *, has_usage: bool) -> Iterator[bytes]:
    """The frames of a chat completion."""
    kept = ("id", "created", "model", "service_tier", "system_fingerprint")
    about = {"object": "chat.completion.chunk", **{key: completion[key] for key in kept}}
    extra: dict[str, Any] = {"usage": None} if has_usage else {}

    def chunk(delta: dict[str, Any], stop: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}
        return _frame({**about, "choices": [choice], **extra}, is_named=False)

    choice = completion["choices"][0]
    message = choice["message"]
    calls = message.get("tool_calls", [])
    yield chunk({"role": "assistant", "content": None if calls and not message["content"] else "", "refusal": None})
    for piece in cut(message["content"] or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(calls):
        function = call["function"]
        begun = {"index": index, **call, "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for piece in cut(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if has_usage:
        yield _frame({**about, "choices": [], "usage": completion["usage"]}, is_named=False)
    yield b"data: [DONE]\n\n"


def stream_response(response: dict[str, Any]) -> Iterator[bytes]:
    """The frames of a response of the Responses API."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(response["output"]):
        events.extend(_stream_item(index, item))
    events.append({"type": f"response.{response['status']}", "response": response})
    for number, event in enumerate(events):
        yield _frame({"type": event["type"], "sequence_number": number, **event})


def _stream_item(index: int, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {"item_id": item["id"], "output_index": index}
    begun = dict(item)
    if "status" in item:
        begun["status"] = "in_progress"
    match item["type"]:
        case "message":
            begun["content"] = []
            inner = _stream_text(place, item["content"][0])
        case "function_call":
            begun["arguments"] = ""
            inner = _stream_arguments(place, item["arguments"])
        case "custom_tool_call":
            begun["input"] = ""
            inner = _stream_input(place, item["input"])
        case "reasoning":
            begun["summary"] = []
            inner = _stream_summary(place, item["summary"])
        case _:
            inner = iter(())
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield from inner
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _stream_text(place: dict[str, Any], part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place = {**place, "content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    for piece in cut(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def _stream_arguments(place: dict[str, Any], arguments: str) -> Iterator[dict[str, Any]]:
    for piece in cut(arguments):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments}


def _stream_input(place: dict[str, Any], text: str) -> Iterator[dict[str, Any]]:
    for piece in cut(text):
        yield {"type": "response.custom_tool_call_input.delta", **place, "delta": piece}
    yield {"type": "response.custom_tool_call_input.done", **place, "input": text}


def _stream_summary(place: dict[str, Any], summary: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for number, part in enumerate(summary):
        spot = {**place, "summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **spot, "part": {**part, "text": ""}}
        for piece in cut(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **spot, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **spot, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **spot, "part": part}
