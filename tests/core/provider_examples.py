"""What providers send, made from the types of their official clients: a type that a later client adds is tried as well.

`rejoined` puts drafts together again as the provider's own blocks. What it needs to know is all that a renderer needs to
know, so it proves that nothing was lost.
"""

from __future__ import annotations

import collections.abc
import functools
import json
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
from pydantic import BaseModel

from holdfast.model.content import Opaque, Text
from holdfast.providers import MessageDraft
from holdfast.providers.fields import ASIDES

DEPTH = 7

EXAMPLE_VALUES: dict[str, object] = {
    "data": "QUJD",
    "file_data": "QUJD",
    "arguments": '{"a": 1}',
    "partial_json": '{"a": 1}',
}
"""Fields whose text has a form that their type does not tell."""


def members(union: Any) -> list[Any]:
    """The types of a union, aliases and annotations looked through."""
    if hasattr(union, "__value__"):
        return members(union.__value__)
    if typing.get_origin(union) in (typing.Annotated, typing.Required):
        return members(typing.get_args(union)[0])
    if typing.get_origin(union) in (typing.Union, types.UnionType):
        return [member for part in typing.get_args(union) for member in members(part)]
    return [union]


def example(kind: Any, *, full: bool, depth: int = 0) -> Any:
    """A value of this type: with all fields, or only with those that must be there."""
    kind = next((member for member in members(kind) if member is not type(None)), type(None))
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return parts[0]
    if origin is dict:
        return {"key": example(parts[1], full=full, depth=depth + 1)}
    if origin is list or (isinstance(origin, type) and issubclass(origin, collections.abc.Iterable)):
        return [example(parts[0], full=full, depth=depth + 1)] if depth < DEPTH else []
    if hasattr(kind, "_is_protocol") and parts:
        return [example(parts[0], full=full, depth=depth + 1)]
    if _shape(kind) is not None:
        return _fields(kind, full=full, depth=depth)
    return {str: "text é", int: 3, float: 1.5, bool: True}.get(kind, {"any": 1})


def _shape(kind: Any) -> dict[str, tuple[Any, bool]] | None:
    """The fields of a model or a typed dict: their types, and whether they must be there."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {
            field.alias or name: (field.annotation, field.is_required()) for name, field in kind.model_fields.items()
        }
    if hasattr(kind, "__required_keys__"):
        hints = typing.get_type_hints(kind, include_extras=True)
        return {name: (hint, typing.get_origin(hint) is typing.Required) for name, hint in hints.items()}
    return None


def _fields(kind: Any, *, full: bool, depth: int) -> dict[str, Any]:
    found = {}
    for name, (hint, required) in (_shape(kind) or {}).items():
        if name == "type" or required or (full and depth < DEPTH):
            made = example(hint, full=full, depth=depth + 1)
            found[name] = EXAMPLE_VALUES[name] if name in EXAMPLE_VALUES and type(made) is str else made
    return found


def examples(union: Any) -> list[tuple[str, dict[str, Any]]]:
    """Each type of a union twice: bare and full."""
    found = []
    for kind in members(union):
        for full in (False, True):
            value = example(kind, full=full)
            found.append((f"{kind.__name__}-{'full' if full else 'bare'}", value))
    return found


def bodies(draft: MessageDraft) -> list[Any]:
    """The content of a draft, opaque parts decoded."""
    return [json.loads(typing.cast("str", part.body)) if isinstance(part, Opaque) else part for part in draft.content]


def rejoin_draft(draft: MessageDraft) -> list[dict[str, Any]]:
    """The blocks or items of a reply."""
    blocks: list[dict[str, Any]] = []
    calls = list(draft.tool_calls)
    around: dict[str, Any] = {}
    inside: list[dict[str, Any]] = blocks
    for part in bodies(draft):
        if isinstance(part, Text):
            key = "refusal" if around.get("type") == "refusal" else "text"
            plain = "text" if inside is blocks else "output_text"
            inside.append({"type": plain, **around, key: part.text})
            around = {}
            continue
        item = part.get("around", {})
        if item.get("type") == "message":
            inside = []
            blocks.append({**item, "role": "assistant", "content": inside})
        elif not item:
            inside = blocks
            blocks.append(part)
        elif "call_id" in item or item["type"] == "tool_use":
            inside = blocks
            blocks.append({**item, **_call_fields(item["type"], calls.pop(0))})
        else:
            around = item
    assert not around
    blocks.extend({"type": "tool_use", "id": call.provider_id, **_call_fields("tool_use", call)} for call in calls)
    return blocks


def _call_fields(kind: str, call: Any) -> dict[str, Any]:
    match kind:
        case "function_call":
            text = call.args if type(call.args) is str else json.dumps(call.args)
            return {"name": call.name, "arguments": text}
        case "custom_tool_call" | "tool_use":
            return {"name": call.name, "input": call.args}
        case _:
            return dict(call.args)


def drop_empty_fields(block: dict[str, Any]) -> dict[str, Any]:
    """A block without what says nothing."""
    inner = block.get("content")
    if block.get("type") == "message" and type(inner) is list:
        block = {**block, "content": [drop_empty_fields(part) for part in inner]}
    return {key: value for key, value in block.items() if value not in (None, "", []) and key not in ASIDES}


def chat_completion(message: dict[str, Any], stop: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": stop, "message": {"role": "assistant", "content": None, **message}}
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    about = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-x"}
    return {**about, "choices": [choice], "usage": usage}


def response(output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 12},
        "total_tokens": 120,
    }
    about = {"id": "resp_1", "object": "response", "created_at": 1.0, "model": "gpt-x", "status": "completed"}
    request = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**about, **request, "output": output, "usage": usage, **more}


def anthropic_message(content: list[dict[str, Any]], stop: str = "end_turn") -> dict[str, Any]:
    usage = {
        "input_tokens": 28,
        "cache_read_input_tokens": 64,
        "cache_creation_input_tokens": 8,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 12},
    }
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": content}
    return {**about, "stop_reason": stop, "stop_sequence": None, "usage": usage}


Body = dict[str, Any] | list[dict[str, Any]]


class RecordingTransport:
    """The official clients, with a network that answers every request with `body`: a reply, or the events of a stream."""

    def __init__(self) -> None:
        self.body: Body = {}
        network: dict[str, Any] = {"api_key": "none", "base_url": "http://localhost"}
        network["http_client"] = httpx2.Client(transport=httpx2.MockTransport(self._answer))
        self.openai = openai.OpenAI(**network)
        self.anthropic = anthropic.Anthropic(**network)

    def _answer(self, _request: httpx2.Request) -> httpx2.Response:
        if isinstance(self.body, dict):
            return httpx2.Response(200, json=self.body)
        stream = "".join(f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n" for event in self.body)
        return httpx2.Response(200, content=stream.encode(), headers={"content-type": "text/event-stream"})


_WIRE = functools.cache(RecordingTransport)


def openai_client(body: Body) -> openai.OpenAI:
    _WIRE().body = body
    return _WIRE().openai


def anthropic_client(body: Body) -> anthropic.Anthropic:
    _WIRE().body = body
    return _WIRE().anthropic


def as_completion(body: dict[str, Any]) -> Any:
    return openai_client(body).chat.completions.create(model="gpt-x", messages=[])


def as_response(body: dict[str, Any]) -> Any:
    return openai_client(body).responses.create(model="gpt-x", input="")


def as_message(body: dict[str, Any]) -> Any:
    return anthropic_client(body).messages.create(model="claude-x", max_tokens=1, messages=[])


AS_OBJECT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "chat": as_completion,
    "response": as_response,
    "anthropic": as_message,
}
"""A body as the official client gives it to its caller."""


def chunks(completion: dict[str, Any], split: Callable[[str], list[str]]) -> Iterator[dict[str, Any]]:
    """A chat completion as its stream."""
    about = {"id": completion["id"], "object": "chat.completion.chunk", "created": 1, "model": completion["model"]}

    def chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
        return {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}], "usage": None}

    choice = completion["choices"][0]
    message = choice["message"]
    yield chunk({"role": "assistant", "content": ""})
    for key in ("content", "refusal", "reasoning_content"):
        yield from (chunk({key: piece}) for piece in split(message.get(key) or ""))
    if message.get("annotations"):
        yield chunk({"annotations": message["annotations"]})
    calls = message.get("tool_calls") or []
    for index, call in enumerate(calls):
        begun = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **begun}]})
    for index, piece in interleave([split(call["function"]["arguments"]) for call in calls]):
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    yield {**about, "choices": [], "usage": completion["usage"]}


def interleave(rows: list[list[str]]) -> Iterator[tuple[int, str]]:
    """The first pieces of all, then the second ones, and so on."""
    for place in range(max(map(len, rows), default=0)):
        for index, row in enumerate(rows):
            if place < len(row):
                yield index, row[place]


def message_events(message: dict[str, Any], split: Callable[[str], list[str]]) -> Iterator[dict[str, Any]]:
    """An Anthropic message as its stream."""
    first = {**message["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None, "usage": first}}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block, split)
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _block_events(index: int, block: dict[str, Any], split: Callable[[str], list[str]]) -> Iterator[dict[str, Any]]:
    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "index": index, **more}

    def delta(kind: str, **more: Any) -> dict[str, Any]:
        return event("content_block_delta", delta={"type": kind, **more})

    match block["type"]:
        case "text":
            yield event("content_block_start", content_block={"type": "text", "text": ""})
            yield from (delta("text_delta", text=piece) for piece in split(block["text"]))
            yield from (delta("citations_delta", citation=each) for each in block.get("citations") or ())
        case "thinking":
            yield event("content_block_start", content_block={"type": "thinking", "thinking": "", "signature": ""})
            yield from (delta("thinking_delta", thinking=piece) for piece in split(block["thinking"]))
            yield delta("signature_delta", signature=block["signature"])
        case "tool_use" | "server_tool_use":
            yield event("content_block_start", content_block={**block, "input": {}})
            given = block["input"]
            spelled = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            yield from (delta("input_json_delta", partial_json=piece) for piece in split(spelled))
        case _:
            yield event("content_block_start", content_block=block)
    yield event("content_block_stop")


def response_events(whole: dict[str, Any], split: Callable[[str], list[str]]) -> Iterator[dict[str, Any]]:
    """A response as its stream."""
    numbers = iter(range(1_000_000))

    def event(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "sequence_number": next(numbers), **more}

    begun = {**whole, "output": [], "status": "in_progress", "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item.get("id", "item")}
        yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
        if item["type"] == "message":
            for number, part in enumerate(item["content"]):
                key, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
                for piece in split(part[key]):
                    yield event(f"response.{kind}.delta", **place, content_index=number, delta=piece, logprobs=[])
        if item["type"] == "function_call":
            for piece in split(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
        yield event("response.output_item.done", output_index=index, item=item)
    end = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
    yield event(end, response=whole)
