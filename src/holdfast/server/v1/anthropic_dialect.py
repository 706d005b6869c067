"""An upstream that speaks Anthropic's messages.

Thinking is shown as a reasoning item. Its signed block is sealed in that item, and goes back in front of the calls that
followed it, as Anthropic requires.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

import holdfast
from holdfast.model.content import BlobRef, Opaque
from holdfast.model.sessions.messages import Message
from holdfast.providers.fields import get_text
from holdfast.providers.usage import read_anthropic_usage
from holdfast.server.v1.bodies import Fields
from holdfast.server.v1.errors import invalid
from holdfast.server.v1.output import OutputBuilder
from holdfast.server.v1.upstreams import Question, ReplyEnd, StreamReader, check_choice_type, upstream_error

VERSION = "2023-06-01"
SEAL = "anthropic."
"""The start of a sealed block of thinking."""
OBJECT_TEXT = "Answer with one JSON object and nothing else: no text around it."
"""Anthropic has no format for any JSON object: the model is told."""
_STOPS = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "refusal": "content_filter",
}
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_THINKING = ("thinking", "redacted_thinking")


class AnthropicDialect:
    """POST /messages."""

    path = "/messages"

    def build_headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": VERSION} | ({"x-api-key": key} if key else {})

    def check(self, question: Question) -> None:
        check_choice_type(question)
        for tool in question.tools:
            _convert_tool(tool)

    def build_request(self, pack: holdfast.Pack, question: Question, engine_tools: tuple[holdfast.Tool, ...]) -> Fields:
        body = pack.anthropic()
        body["model"] = question.model
        if question.max_output_tokens is not None:
            body["max_tokens"] = question.max_output_tokens
        tools = [_convert_tool(tool) for tool in question.tools] + [tool.anthropic() for tool in engine_tools]
        body.pop("tools", None)
        body.pop("tool_choice", None)
        if tools:
            body["tools"] = tools
            body |= _convert_choice(question)
        effort = _EFFORTS.get(str((question.reasoning or {}).get("effort")))
        thinks = effort is not None
        if thinks:
            body["thinking"] = {"type": "adaptive"}
            restore_thinking(pack, body["messages"])
        elif question.temperature is not None:
            body["temperature"] = min(1.0, question.temperature)
        elif question.top_p is not None:
            body["top_p"] = question.top_p
        if _asks_for_object(question.text):
            body["system"] = [*body.get("system", ()), {"type": "text", "text": OBJECT_TEXT}]
        config = ({"effort": effort} if thinks else {}) | _convert_format(question.text)
        user = question.safety_identifier or question.user
        return body | ({"output_config": config} if config else {}) | ({"metadata": {"user_id": user}} if user else {})

    def mark_stream(self, body: Fields) -> None:
        body["stream"] = True

    def read_reply(self, reply: Fields, output: OutputBuilder) -> ReplyEnd:
        if not isinstance(reply.get("content"), list):
            raise upstream_error(502, "its answer has no content")
        reader = _AnthropicReader(output)
        reader.begin(reply)
        for number, block in enumerate(reply["content"]):
            reader.begin_block(number, block)
            if block.get("type") == "tool_use":
                output.add_arguments(number, json.dumps(block.get("input") or {}, ensure_ascii=False))
            reader.end_block()
        reader.stop = get_text(reply, "stop_reason") or "end_turn"
        end = reader.end()
        assert end is not None, "it has a stop reason"
        output.end_round("completed" if end.stop == "completed" else "incomplete")
        return end

    def read_stream(self, output: OutputBuilder) -> StreamReader:
        return _AnthropicReader(output)


class _AnthropicReader:
    def __init__(self, output: OutputBuilder) -> None:
        self._output = output
        self._usage: Fields = {}
        self._model = ""
        self._block: Fields = {}
        self.stop: str | None = None

    def begin(self, message: Fields) -> None:
        self._model = get_text(message, "model") or ""
        self._usage |= message.get("usage") or {}

    def begin_block(self, place: int, block: Fields) -> None:
        self._block = dict(block)
        kind = block.get("type")
        if kind == "text":
            self._output.add_text(str(block.get("text", "")))
        elif kind == "thinking":
            self._output.add_text(str(block.get("thinking", "")), "reasoning_text")
        elif kind == "tool_use":
            self._output.begin_call(place, get_text(block, "id") or "", str(block.get("name", "")))

    def end_block(self) -> None:
        block, self._block = self._block, {}
        if block.get("type") in _THINKING:
            text = json.dumps(block, ensure_ascii=False, separators=(",", ":"))
            self._output.seal_reasoning(SEAL + base64.b64encode(text.encode()).decode())

    def add(self, event: Fields) -> None:
        match get_text(event, "type"):
            case "message_start":
                self.begin(event.get("message") or {})
            case "content_block_start":
                self.begin_block(event["index"], event.get("content_block") or {})
            case "content_block_delta":
                self._add_delta(event["index"], event.get("delta") or {})
            case "content_block_stop":
                self.end_block()
            case "message_delta":
                self._usage |= event.get("usage") or {}
                self.stop = get_text(event.get("delta") or {}, "stop_reason") or self.stop

    def _add_delta(self, place: int, delta: Fields) -> None:
        match get_text(delta, "type"):
            case "text_delta":
                self._output.add_text(str(delta.get("text", "")))
            case "thinking_delta":
                text = str(delta.get("thinking", ""))
                self._block["thinking"] = str(self._block.get("thinking", "")) + text
                self._output.add_text(text, "reasoning_text")
            case "signature_delta":
                self._block["signature"] = delta.get("signature")
            case "input_json_delta":
                self._output.add_arguments(place, str(delta.get("partial_json", "")))

    def end(self) -> ReplyEnd | None:
        if self.stop is None:
            return None
        return ReplyEnd(_STOPS.get(self.stop, "completed"), read_anthropic_usage(self._usage), self._model)


def restore_thinking(pack: holdfast.Pack, messages: list[Fields]) -> None:
    """Put signed thinking back in front of the calls that followed it."""
    sealed: dict[str, list[Fields]] = {}
    for message in pack.history.messages:
        if message.role == "assistant" and message.tool_calls:
            blocks = _read_sealed(message, pack._bodies)
            sealed |= {call.provider_id: blocks for call in message.tool_calls if call.provider_id and blocks}
    for shown in messages:
        content = shown.get("content")
        if shown.get("role") != "assistant" or not isinstance(content, list):
            continue
        names = (block.get("id") for block in content if block.get("type") == "tool_use")
        thoughts = next((sealed[name] for name in names if name in sealed), None)
        if thoughts and content[0].get("type") not in _THINKING:
            shown["content"] = [*thoughts, *content]


def _read_sealed(message: Message, bodies: Any) -> list[Fields]:
    blocks: list[Fields] = []
    for part in message.content:
        if not isinstance(part, Opaque):
            continue
        body = bodies.get(part.body.digest, b"") if isinstance(part.body, BlobRef) else part.body.encode()
        if SEAL.encode() not in body:
            continue
        try:
            seal = json.loads(body).get("encrypted_content", "")
            if seal.startswith(SEAL):
                blocks.append(json.loads(base64.b64decode(seal.removeprefix(SEAL), validate=True)))
        except (ValueError, AttributeError, binascii.Error):
            continue
    return blocks


def _convert_tool(tool: Fields) -> Fields:
    if tool.get("type") != "function":
        raise invalid(f"The upstream has no tool of type {str(tool.get('type'))[:100]!r}. Use function tools.", "tools")
    schema = tool.get("parameters") or {"type": "object"}
    about = {"description": tool["description"]} if tool.get("description") else {}
    return {"name": tool.get("name"), **about, "input_schema": {"type": "object", **schema}}


def _convert_choice(question: Question) -> Fields:
    choice = question.tool_choice
    if not question.tools:
        return {}
    converted: Fields = {"type": "auto"}
    if choice == "required":
        converted = {"type": "any"}
    elif choice == "none":
        return {"tool_choice": {"type": "none"}}
    elif isinstance(choice, dict) and choice.get("name"):
        converted = {"type": "tool", "name": choice["name"]}
    if question.parallel_tool_calls is False:
        converted["disable_parallel_tool_use"] = True
    return {"tool_choice": converted} if len(converted) > 1 or converted["type"] != "auto" else {}


def _asks_for_object(text: Fields | None) -> bool:
    text_format = (text or {}).get("format")
    return isinstance(text_format, dict) and text_format.get("type") == "json_object"


def _convert_format(text: Fields | None) -> Fields:
    text_format = (text or {}).get("format")
    if isinstance(text_format, dict) and text_format.get("type") == "json_schema":
        return {"format": {"type": "json_schema", "schema": text_format.get("schema")}}
    return {}
