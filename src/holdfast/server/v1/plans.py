"""A request for a response, read and checked before anything is stored."""

from __future__ import annotations

from typing import Any

import msgspec

import holdfast
from holdfast.errors import describe_value
from holdfast.server.v1.bodies import (
    Fields,
    digest_fields,
    get_fields,
    get_flag,
    get_list,
    get_metadata,
    get_number,
    get_text,
    get_whole,
    wrong_type,
)
from holdfast.server.v1.errors import invalid
from holdfast.server.v1.items import INPUT_ITEMS, read_items
from holdfast.server.v1.upstreams import Question

TOOLS = 128
"""The most tools of a request."""
MODEL_CHARS = 256
TEXT_CHARS = 512
"""The most characters of a short field, such as `user`."""
OUTPUT_TOKENS = 10_000_000
_UNDIGESTED = ("stream", "stream_options")
_ECHOED = ("max_tool_calls", "context_management", "prompt_cache_retention")
_CHOICES = ("auto", "none", "required")


class ResponsePlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a request asks for."""

    question: Question
    instructions: str | None = None
    values: list[Any]
    """The input items, as the client sent them."""
    items: list[Any]
    """The same, as session.record_all() takes them."""
    conversation: str | None = None
    previous: str | None = None
    store: bool = True
    stream: bool = False
    background: bool = False
    truncation: str = "disabled"
    echo: Fields
    """The fields of the request, as the response repeats them."""
    digest: str = ""
    """Of all that makes it this request and no other; how it is answered is no part of it."""

    @property
    def brief(self) -> holdfast.Brief:
        """What stands first in the pack."""
        tools = tuple(
            holdfast.Tool(
                name=tool["name"],
                description=tool.get("description") or "",
                parameters=tool.get("parameters") or {"type": "object"},
                strict=tool.get("strict") is True,
            )
            for tool in self.question.tools
            if tool["type"] == "function"
        )
        return holdfast.Brief(prompt=self.instructions or "", tools=tools)


def read_plan(body: Fields) -> ResponsePlan:
    """Check a request."""
    model = get_text(body, "model")
    if not model or len(model) > MODEL_CHARS:
        raise invalid("'model' is missing: name the model of the upstream. Nothing was stored.", "model")
    if body.get("prompt") is not None:
        raise invalid("'prompt' is not supported: this server stores no prompts. Nothing was stored.", "prompt")
    values = read_values(body)
    conversation, previous = read_conversation(body), get_text(body, "previous_response_id")
    if conversation is not None and previous is not None:
        raise invalid(
            "Pass 'conversation' or 'previous_response_id', not both. Nothing was stored.", "previous_response_id"
        )
    if not values and conversation is None and previous is None:
        raise invalid("'input' is missing: pass a text or items. Nothing was stored.", "input")
    truncation = get_text(body, "truncation", "disabled") or "disabled"
    if truncation not in ("auto", "disabled"):
        raise invalid(f"Invalid 'truncation': {describe_value(truncation)} is not 'auto' or 'disabled'.", "truncation")
    store, background = get_flag(body, "store", True), get_flag(body, "background", False)
    if background and not store:
        raise invalid("A response in the background must be stored: leave out 'store'. Nothing was stored.", "store")
    question = _read_question(body, model)
    echo = _build_echo(body, question, conversation) | {
        "store": store,
        "background": background,
        "truncation": truncation,
        "metadata": get_metadata(body),
        "previous_response_id": previous,
    }
    digested = {key: value for key, value in body.items() if key not in _UNDIGESTED}
    return ResponsePlan(
        question=question,
        instructions=get_text(body, "instructions"),
        values=values,
        items=read_items(values, "input", INPUT_ITEMS),
        conversation=conversation,
        previous=previous,
        store=store,
        stream=get_flag(body, "stream", False),
        background=background,
        truncation=truncation,
        echo=echo,
        digest=digest_fields(digested),
    )


def read_values(body: Fields) -> list[Any]:
    """The input of a request, as a list of items."""
    value = body.get("input")
    if value is None:
        return []
    if type(value) is str:
        if not value.strip():
            raise invalid("'input' is empty: pass a text or items. Nothing was stored.", "input")
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    if type(value) is not list:
        raise wrong_type("input", value, "a string or an array of items")
    return value


def read_conversation(body: Fields) -> str | None:
    """The id of the conversation: a text, or an object with it."""
    value = body.get("conversation")
    if isinstance(value, dict):
        value = value.get("id")
    if value is not None and type(value) is not str:
        raise wrong_type("conversation", value, "an id, or an object with an id")
    return value


def _read_question(body: Fields, model: str) -> Question:
    tools = tuple(_read_tool(tool, f"tools[{number}]") for number, tool in enumerate(get_list(body, "tools")))
    if len(tools) > TOOLS:
        raise invalid(f"'tools' has {len(tools)} tools; at most {TOOLS} are accepted. Nothing was stored.", "tools")
    choice = body.get("tool_choice")
    if choice is not None and choice not in _CHOICES and not (type(choice) is dict and type(choice.get("type")) is str):
        raise invalid(f"Invalid 'tool_choice': {describe_value(choice)}. Nothing was stored.", "tool_choice")
    include = get_list(body, "include")
    if any(type(each) is not str for each in include):
        raise wrong_type("include", include, "an array of strings")
    short: dict[str, Any] = {}
    for name in ("user", "safety_identifier", "prompt_cache_key", "service_tier"):
        short[name] = get_text(body, name)
        if short[name] is not None and len(short[name]) > TEXT_CHARS:
            raise invalid(f"'{name}' has more than {TEXT_CHARS} characters. Nothing was stored.", name)
    return Question(
        model=model,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=None
        if body.get("parallel_tool_calls") is None
        else get_flag(body, "parallel_tool_calls", True),
        temperature=get_number(body, "temperature", 0, 2),
        top_p=get_number(body, "top_p", 0, 1),
        top_logprobs=get_whole(body, "top_logprobs", 0, 20),
        max_output_tokens=get_whole(body, "max_output_tokens", 16, OUTPUT_TOKENS),
        text=_read_text_config(body),
        reasoning=get_fields(body, "reasoning"),
        include=tuple(include),
        **short,
    )


def _read_text_config(body: Fields) -> Fields | None:
    text = get_fields(body, "text")
    text_format = get_fields(text or {}, "format")
    if text_format is None:
        return text
    if text_format.get("type") not in ("text", "json_object", "json_schema"):
        raise invalid(f"Invalid 'text.format.type': {describe_value(text_format.get('type'))}.", "text.format.type")
    if text_format["type"] == "json_schema":
        if not get_text(text_format, "name"):
            raise invalid("'text.format.name' is missing: a schema needs a name.", "text.format.name")
        if get_fields(text_format, "schema") is None:
            raise invalid("'text.format.schema' is missing.", "text.format.schema")
    return text


def _read_tool(tool: object, where: str) -> Fields:
    if type(tool) is not dict or type(tool.get("type")) is not str:
        raise wrong_type(where, tool, "a tool with a type")
    fields: Fields = tool
    if fields["type"] in ("function", "custom"):
        if not get_text(fields, "name"):
            raise invalid(f"'{where}.name' is missing. Nothing was stored.", f"{where}.name")
        get_text(fields, "description")
        get_fields(fields, "parameters")
    return fields


def _build_echo(body: Fields, question: Question, conversation: str | None) -> Fields:
    text = question.text or {}
    reasoning = question.reasoning or {}
    echo: Fields = {
        "model": question.model,
        "instructions": body.get("instructions"),
        "tools": list(question.tools),
        "tool_choice": "auto" if question.tool_choice is None else question.tool_choice,
        "parallel_tool_calls": question.parallel_tool_calls is not False,
        "temperature": 1.0 if question.temperature is None else question.temperature,
        "top_p": 1.0 if question.top_p is None else question.top_p,
        "top_logprobs": question.top_logprobs or 0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "max_output_tokens": question.max_output_tokens,
        "max_tool_calls": None,
        "text": {"format": {"type": "text"}, **{key: value for key, value in text.items() if value is not None}},
        "reasoning": {"effort": None, "summary": None, **reasoning},
        "service_tier": question.service_tier or "default",
        "user": question.user,
        "safety_identifier": question.safety_identifier,
        "prompt_cache_key": question.prompt_cache_key,
        "conversation": None if conversation is None else {"id": conversation},
        "include": list(question.include),
    }
    return echo | {name: body[name] for name in _ECHOED if body.get(name) is not None}
