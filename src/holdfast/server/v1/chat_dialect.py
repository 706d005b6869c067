"""An upstream that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, llama.cpp and many others."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.providers.fields import get_text
from holdfast.providers.usage import read_openai_usage
from holdfast.server.v1.bodies import Fields
from holdfast.server.v1.errors import invalid
from holdfast.server.v1.output import OutputBuilder
from holdfast.server.v1.upstreams import Question, ReplyEnd, StreamReader, check_choice_type, upstream_error
from holdfast.text.fence import SEPARATOR, fence_system_message

_STOPS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_REASONING = ("reasoning_content", "reasoning")
"""Where compatible servers put the reasoning of a model."""
_PASSED = (
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "user",
)


class ChatDialect:
    """POST /chat/completions."""

    path = "/chat/completions"

    def __init__(self, *, is_openai: bool) -> None:
        self._is_openai = is_openai

    def build_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def check(self, question: Question) -> None:
        check_choice_type(question)
        for tool in question.tools:
            _convert_tool(tool)

    def build_request(self, pack: holdfast.Pack, question: Question, engine_tools: tuple[holdfast.Tool, ...]) -> Fields:
        body = pack.openai()
        body.pop("max_completion_tokens", None)
        if question.max_output_tokens is not None:
            name = "max_completion_tokens" if self._is_openai else "max_tokens"
            body[name] = question.max_output_tokens
        body["model"] = question.model
        if not self._is_openai:
            body["messages"] = _plain_messages(body["messages"])
        tools = [_convert_tool(tool) for tool in question.tools] + [tool.openai() for tool in engine_tools]
        body.pop("tools", None)
        if tools:
            body["tools"] = tools
        if question.tools and question.tool_choice is not None:
            body["tool_choice"] = _convert_choice(question.tool_choice)
        for name in _PASSED:
            if (value := getattr(question, name)) is not None and (tools or name != "parallel_tool_calls"):
                body[name] = value
        if question.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": question.top_logprobs}
        effort = (question.reasoning or {}).get("effort")
        return body | ({"reasoning_effort": effort} if effort else {}) | _convert_text(question.text)

    def mark_stream(self, body: Fields) -> None:
        body |= {"stream": True, "stream_options": {"include_usage": True}}

    def read_reply(self, reply: Fields, output: OutputBuilder) -> ReplyEnd:
        choice = _first_choice(reply)
        message = choice.get("message") if choice else None
        if choice is None or not isinstance(message, dict):
            raise upstream_error(502, "its answer has no message")
        _add_texts(message, output)
        for number, call in enumerate(message.get("tool_calls") or ()):
            function = call.get("function") or {}
            output.begin_call(number, get_text(call, "id") or "", str(function.get("name", "")))
            output.add_arguments(number, get_text(function, "arguments") or "{}")
        stop = _STOPS.get(str(choice.get("finish_reason")), "completed")
        output.end_round("completed" if stop == "completed" else "incomplete")
        return ReplyEnd(stop, read_openai_usage(reply.get("usage")), get_text(reply, "model") or "")

    def read_stream(self, output: OutputBuilder) -> StreamReader:
        return _ChatReader(output)


class _ChatReader:
    def __init__(self, output: OutputBuilder) -> None:
        self._output = output
        self._stop: str | None = None
        self._usage: Any = None
        self._model = ""
        self._key = 0
        self._ids: dict[int, str] = {}

    def add(self, event: Fields) -> None:
        self._model = self._model or get_text(event, "model") or ""
        if event.get("usage"):
            self._usage = event["usage"]
        choice = _first_choice(event)
        if choice is None:
            return
        delta = choice.get("delta")
        if isinstance(delta, dict):
            _add_texts(delta, self._output)
            for piece in delta.get("tool_calls") or ():
                self._add_call(piece)
        if choice.get("finish_reason"):
            self._stop = _STOPS.get(str(choice["finish_reason"]), "completed")

    def _add_call(self, piece: Fields) -> None:
        """Add a piece of a call. Some servers give every call the same index: another id is another call."""
        index, name = piece.get("index"), get_text(piece, "id")
        place = index if type(index) is int else self._key
        function = piece.get("function") or {}
        if not self._output.has_call(place) or (name and self._ids.get(place) not in (None, "", name)):
            place = place if not self._output.has_call(place) else max(self._ids) + 1
            self._ids[place] = name or ""
            self._output.begin_call(place, name or "", str(function.get("name") or ""))
        self._key = place
        self._output.add_arguments(place, get_text(function, "arguments") or "")

    def end(self) -> ReplyEnd | None:
        if self._stop is None:
            return None
        return ReplyEnd(self._stop, read_openai_usage(self._usage), self._model)


def _fence_system(message: Fields) -> Fields:
    if message["role"] != "system":
        return message
    content = message["content"]
    text = content if isinstance(content, str) else SEPARATOR.join(part["text"] for part in content)
    return {"role": "user", "content": fence_system_message(text)}


def _plain_messages(messages: list[Fields]) -> list[Fields]:
    """The messages for a server whose template may know one system message only, the first: several become one, those
    inside the conversation are texts of the user in the fence, and the text of the application for this call goes to the
    end of the last message of the user."""
    at = next((number for number, each in enumerate(messages) if each["role"] != "system"), len(messages))
    system, rest = messages[:at], [_fence_system(each) for each in messages[at:]]
    texts = [each["content"] for each in system]
    if len(texts) > 1 and all(isinstance(text, str) for text in texts):
        system = [{**system[0], "content": "\n\n".join(texts)}]
    if rest and rest[-1]["role"] == "developer":
        tail = rest.pop()["content"]
        content = rest[-1]["content"] if rest and rest[-1]["role"] == "user" else None
        if isinstance(content, str):
            rest[-1] = {**rest[-1], "content": f"{content}\n\n{tail}"}
        elif isinstance(content, list):
            rest[-1] = {**rest[-1], "content": [*content, {"type": "text", "text": tail}]}
        else:
            rest.append({"role": "user", "content": tail})
    return [*system, *rest]


def _first_choice(event: Fields) -> Fields | None:
    choices = event.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def _add_texts(message: Fields, output: OutputBuilder) -> None:
    for name in _REASONING:
        if text := get_text(message, name):
            output.add_text(text, "reasoning_text")
            break
    content = message.get("content")
    if isinstance(content, str):
        output.add_text(content)
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict) and part.get("type") == "text":
                output.add_text(str(part.get("text", "")))
    if refused := get_text(message, "refusal"):
        output.add_text(refused, "refusal")


def _convert_tool(tool: Fields) -> Fields:
    kind = tool.get("type")
    if kind == "function":
        function = {key: value for key, value in tool.items() if key != "type" and value is not None}
        return {"type": "function", "function": function}
    raise invalid(f"The upstream has no tool of type {str(kind)[:100]!r}. Use function tools.", "tools")


def _convert_choice(choice: Any) -> Any:
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return choice


def _convert_text(text: Fields | None) -> Fields:
    """The format of the answer."""
    converted: Fields = {}
    text_format = (text or {}).get("format")
    if isinstance(text_format, dict) and text_format.get("type") == "json_schema":
        schema = {key: value for key, value in text_format.items() if key != "type" and value is not None}
        converted["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif isinstance(text_format, dict) and text_format.get("type") == "json_object":
        converted["response_format"] = {"type": "json_object"}
    if text and text.get("verbosity"):
        converted["verbosity"] = text["verbosity"]
    return converted
