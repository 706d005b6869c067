"""Replies of a scripted model with calls of the gateway's tool, as streams and in one piece, in every dialect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from holdfast.gateway.model import Dialect
from holdfast.gateway.read_back import READ_TOOL

Piece: TypeAlias = tuple[str, str]
"""A text, some reasoning, a call of the client's tool, or one of the gateway's, and its content."""
texts = st.text(min_size=1, max_size=12)
_shown = st.tuples(st.sampled_from(["text", "reasoning"]), texts)
_client = st.tuples(st.just("call"), texts)
_own = st.tuples(st.just("own"), texts)
own_rounds = st.builds(lambda a, b: [*a, *b], st.lists(_shown, max_size=2), st.lists(_own, min_size=1, max_size=2))
"""A round that only reads."""
last_rounds = st.lists(_shown | _client | _own, min_size=1, max_size=4).filter(
    lambda pieces: any(kind != "own" for kind, _ in pieces)
)
"""A last round: with calls of the gateway only beside those of the client."""


@st.composite
def scripts(draw: st.DrawFn) -> list[list[Piece]]:
    """The rounds of one reply."""
    rounds = draw(st.lists(own_rounds, max_size=3))
    last = draw(last_rounds)
    if not any(kind == "call" for kind, _ in last):
        last = [piece for piece in last if piece[0] != "own"]
    return [*rounds, last]


def build_reply(dialect: Dialect, pieces: Sequence[Piece], number: int) -> dict[str, Any]:
    """A reply in one piece."""
    return {"anthropic": _build_message, "chat": _build_completion, "responses": _build_response}[dialect](
        pieces, number
    )


def _is_call(piece: Piece) -> bool:
    return piece[0] in ("call", "own")


def _name(piece: Piece) -> str:
    return READ_TOOL if piece[0] == "own" else "lookup"


def _arguments(piece: Piece) -> dict[str, str]:
    return {"handle" if piece[0] == "own" else "key": piece[1]}


def _build_message(pieces: Sequence[Piece], number: int) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for at, piece in enumerate(pieces):
        if piece[0] == "text":
            blocks.append({"type": "text", "text": piece[1]})
        elif piece[0] == "reasoning":
            blocks.append({"type": "thinking", "thinking": piece[1], "signature": f"sig{number}{at}"})
        else:
            call = {"id": f"toolu_{number}_{at}", "name": _name(piece), "input": _arguments(piece)}
            blocks.append({"type": "tool_use", **call})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": blocks,
        "stop_reason": "tool_use" if any(map(_is_call, pieces)) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10 + number, "cache_read_input_tokens": 100, "output_tokens": 7},
    }


def _build_completion(pieces: Sequence[Piece], number: int) -> dict[str, Any]:
    content = "".join(text for kind, text in pieces if kind == "text")
    calls = [
        {
            "id": f"call_{number}_{at}",
            "type": "function",
            "function": {"name": _name(piece), "arguments": json.dumps(_arguments(piece))},
        }
        for at, piece in enumerate(pieces)
        if _is_call(piece)
    ]
    message = {"role": "assistant", "content": content or None, **({"tool_calls": calls} if calls else {})}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_000 + number,
        "model": "gpt-5",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": 10 + number, "completion_tokens": 7, "total_tokens": 17 + number},
    }


def _build_response(pieces: Sequence[Piece], number: int) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for at, piece in enumerate(pieces):
        name = f"{number}_{at}"
        if piece[0] == "text":
            content = [{"type": "output_text", "text": piece[1], "annotations": []}]
            said = {"id": f"msg_{name}", "role": "assistant", "status": "completed", "content": content}
            items.append({"type": "message", **said})
        elif piece[0] == "reasoning":
            items.append({"type": "reasoning", "id": f"rs_{name}", "summary": [], "encrypted_content": piece[1]})
        else:
            call = {"id": f"fc_{name}", "call_id": f"call_{name}", "name": _name(piece), "status": "completed"}
            items.append({"type": "function_call", **call, "arguments": json.dumps(_arguments(piece))})
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_000 + number,
        "model": "gpt-5",
        "status": "completed",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10 + number,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 17 + number,
        },
    }


def write_stream(dialect: Dialect, reply: dict[str, Any]) -> bytes:
    """The same as events."""
    events = {"anthropic": _stream_message, "chat": _stream_completion, "responses": _stream_response}[dialect](reply)
    if dialect == "chat":
        return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events) + b"data: [DONE]\n\n"
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode()) for event in events
    )


def _halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def _stream_message(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    usage = {**reply["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None, "usage": usage}}
    for index, block in enumerate(reply["content"]):
        deltas: list[dict[str, Any]]
        if block["type"] == "text":
            begin: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
        elif block["type"] == "thinking":
            begin = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            begin = {**block, "input": {}}
            halves = _halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        yield {"type": "content_block_start", "index": index, "content_block": begin}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": reply["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _stream_completion(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    (choice,) = reply["choices"]
    shared = {
        "id": reply["id"],
        "object": "chat.completion.chunk",
        "created": reply["created"],
        "model": reply["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for half in _halves(choice["message"]["content"] or ""):
        if half:
            yield chunk({"content": half})
    for index, call in enumerate(choice["message"].get("tool_calls", ())):
        first, second = _halves(call["function"]["arguments"])
        function = {"name": call["function"]["name"], "arguments": first}
        yield chunk({"tool_calls": [{"index": index, **call, "function": function}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": second}}]})
    yield chunk({}, choice["finish_reason"])
    yield {**shared, "choices": [], "usage": reply["usage"]}


def _stream_response(reply: dict[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**reply, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")
    ]
    for index, item in enumerate(reply["output"]):
        where = {"output_index": index}
        started = {**item, **({"status": "in_progress"} if "status" in item else {})}
        inner: list[dict[str, Any]] = []
        if item["type"] == "message":
            started["content"] = []
            at = {**where, "item_id": item["id"], "content_index": 0}
            (part,) = item["content"]
            inner.append({"type": "response.content_part.added", **at, "part": {**part, "text": ""}})
            for half in _halves(part["text"]):
                inner.append({"type": "response.output_text.delta", **at, "delta": half, "logprobs": []})
            inner.append({"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []})
            inner.append({"type": "response.content_part.done", **at, "part": part})
        elif item["type"] == "function_call":
            started["arguments"] = ""
            at = {**where, "item_id": item["id"]}
            for half in _halves(item["arguments"]):
                inner.append({"type": "response.function_call_arguments.delta", **at, "delta": half})
            done = {"arguments": item["arguments"], "name": item["name"]}
            inner.append({"type": "response.function_call_arguments.done", **at, **done})
        events.append({"type": "response.output_item.added", **where, "item": started})
        events += inner
        events.append({"type": "response.output_item.done", **where, "item": item})
    events.append({"type": "response.completed", "response": reply})
    for number, event in enumerate(events):
        yield {**event, "sequence_number": number}
