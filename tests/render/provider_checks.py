"""What every rendering has to keep, whoever reads it: the official clients' types, and the laws that providers enforce."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from anthropic.types import MessageParam, TextBlockParam
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from holdfast.model.history.views import HistoryView
from holdfast.render import (
    render_anthropic,
    render_bedrock,
    render_gemini,
    render_litellm,
    render_openai_chat,
    render_openai_responses,
)
from holdfast.render.item_ids import REFERRING_ITEMS
from tests.render.converse_checks import check_bedrock, check_gemini, drop_cache_points

CHAT = TypeAdapter(list[ChatCompletionMessageParam])


INPUT = TypeAdapter(list[ResponseInputItemParam])


SYSTEM = TypeAdapter(list[TextBlockParam])


MESSAGES = TypeAdapter(list[MessageParam])


MARKS = 4


NEWER = "claude-opus-4-8"
"""A model that takes system messages inside a conversation."""


def check_type(adapter: TypeAdapter[Any], value: Any) -> None:
    """What the official client's type says to a value. It looks at lists when they are read, so they are."""
    _read(adapter.validate_python(value))


def _read(value: Any) -> None:
    if isinstance(value, dict):
        for each in value.values():
            _read(each)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for each in value:
            _read(each)


# Anthropic


def check_anthropic(made: dict[str, Any]) -> None:
    check_type(SYSTEM, made["system"])
    check_type(MESSAGES, made["messages"])
    messages = made["messages"]
    roles = [each["role"] for each in messages]
    for at, role in enumerate(roles):
        if role == "system":
            assert at, "the first message is a user's"
            assert roles[at - 1] == "user"
            assert roles[at + 1 : at + 2] in ([], ["assistant"])
            assert all(block["type"] == "text" for block in messages[at]["content"])
    spoken = [role for role in roles if role != "system"]
    assert spoken == [("user", "assistant")[at % 2] for at in range(len(spoken))]
    ids: list[str] = []
    for place, message in enumerate(messages):
        assert message["content"]
        blocks = message["content"]
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results come first"
        assert not calls or message["role"] == "assistant"
        if calls:
            answers = messages[place + 1]
            assert answers["role"] == "user"
            given = [each["tool_use_id"] for each in answers["content"] if each["type"] == "tool_result"]
            assert sorted(given) == sorted(calls)
        if results:
            before = [block["id"] for block in messages[place - 1]["content"] if block["type"] == "tool_use"]
            assert sorted(before) == sorted(results)
        for block in blocks:
            if block.get("is_error"):
                content = block.get("content")
                assert content, "an error says something"
                assert isinstance(content, str) or all(each["type"] == "text" for each in content)
        ids += calls
        if message["role"] == "assistant":
            assert blocks[-1]["type"] not in ("thinking", "redacted_thinking")
    assert len(set(ids)) == len(ids)
    assert all(set(each) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") for each in ids)
    marked = [block for block in _blocks(made) if "cache_control" in block]
    assert len(marked) <= MARKS
    assert all(block["type"] not in ("thinking", "redacted_thinking") for block in marked)
    assert all(block.get("text", "x") for block in marked)


def _blocks(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [*made["system"], *(block for message in made["messages"] for block in message["content"])]


def find_cache_marks(made: dict[str, Any]) -> set[tuple[int, int]]:
    """Where marks stand: which message, -1 for the system's, and which block of it."""
    lists = [made["system"], *(message["content"] for message in made["messages"])]
    return {
        (number - 1, place)
        for number, blocks in enumerate(lists)
        for place, block in enumerate(blocks)
        if "cache_control" in block
    }


def drop_cache_marks(value: Any) -> Any:
    """Without the marks."""
    if isinstance(value, dict):
        return {key: drop_cache_marks(each) for key, each in value.items() if key != "cache_control"}
    return [drop_cache_marks(each) for each in value] if isinstance(value, list) else value


def split_blocks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each block as a message of its own."""
    return [{**message, "content": [block]} for message in messages for block in message["content"]]


# OpenAI


def check_chat(messages: list[dict[str, Any]]) -> None:
    check_type(CHAT, messages)
    waiting: list[str] = []
    ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "a group of results is not interrupted"
        calls = message.get("tool_calls", [])
        assert message["content"] or calls or message.get("audio")
        waiting = [call["id"] for call in calls]
        ids += waiting
        for call in calls:
            if call["type"] == "function":
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
    assert not waiting
    assert len(set(ids)) == len(ids)


def check_responses(made: dict[str, Any]) -> None:
    assert made["instructions"] is None or made["instructions"]
    check_type(INPUT, made["input"])
    waiting: list[str] = []
    for item in made["input"]:
        kind = item.get("type", "message")
        if kind.endswith("_call_output"):
            waiting.remove(item["id"] if kind == "local_shell_call_output" else item["call_id"])
        elif "call_id" in item:
            assert item["call_id"] not in waiting
            waiting.append(item["call_id"])
        elif kind == "message":
            assert item["content"]
            assert not waiting or item["role"] == "assistant"
    assert not waiting
    ids = [
        (item["type"], item["id"]) for item in made["input"] if "id" in item and item.get("type") not in REFERRING_ITEMS
    ]
    assert len({*ids}) == len(ids), "an item stands once"


def check_all(history: HistoryView, bodies: Mapping[str, bytes]) -> None:
    check_chat(render_openai_chat(history, bodies))
    check_responses(render_openai_responses(history, bodies))
    made = render_anthropic(history, bodies)
    assert not [each for each in made["messages"] if each["role"] == "system"], "not every model takes it"
    check_anthropic(made)
    check_anthropic(render_anthropic(history, bodies, model=NEWER))
    check_gemini(render_gemini(history, bodies))
    check_bedrock(render_bedrock(history, bodies))
    check_litellm(render_litellm(history, bodies, 4))


def check_litellm(messages: list[dict[str, Any]]) -> None:
    """A chat with marks, and no message of a developer, which LiteLLM would move."""
    check_chat(drop_cache_marks(messages))
    assert not [each for each in messages if each["role"] == "developer"]
    parts = [part for each in messages if isinstance(each["content"], list) for part in each["content"]]
    assert sum("cache_control" in each for each in (*messages, *parts)) <= MARKS


RENDERERS: dict[str, Callable[[HistoryView, Mapping[str, bytes]], list[Any]]] = {
    "chat": render_openai_chat,
    "responses": lambda history, bodies: [
        render_openai_responses(history, bodies)["instructions"],
        *render_openai_responses(history, bodies)["input"],
    ],
    "anthropic": lambda history, bodies: [
        drop_cache_marks(render_anthropic(history, bodies)["system"]),
        *drop_cache_marks(split_blocks(render_anthropic(history, bodies)["messages"])),
    ],
    "anthropic, newer": lambda history, bodies: [
        drop_cache_marks(render_anthropic(history, bodies, model=NEWER)["system"]),
        *drop_cache_marks(split_blocks(render_anthropic(history, bodies, model=NEWER)["messages"])),
    ],
    "gemini": lambda history, bodies: [
        render_gemini(history, bodies)["system_instruction"],
        *(
            {"role": content["role"], "parts": [part]}
            for content in render_gemini(history, bodies)["contents"]
            for part in content["parts"]
        ),
    ],
    "bedrock": lambda history, bodies: [
        drop_cache_points(render_bedrock(history, bodies)["system"]),
        *(
            {"role": message["role"], "content": [block]}
            for message in render_bedrock(history, bodies)["messages"]
            for block in drop_cache_points(message["content"])
        ),
    ],
    "litellm": render_litellm,
}
"""Each rendering as one list, in which what stands first is sent first; of Anthropic's, block by block: a message of the
user may grow."""
