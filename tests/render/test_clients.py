"""Every block and item of the official clients' types goes back to its provider as it came, and to no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import ContentBlock
from anthropic.types.beta import BetaContentBlock
from openai.types.responses import ResponseOutputItem
from pydantic import ValidationError

import holdfast
from holdfast.providers.openai import OUTPUTS
from holdfast.render import render_anthropic, render_openai_chat, render_openai_responses
from tests.core import provider_examples as given
from tests.render.conversations import bodies_in, history_of, session_with, to_json
from tests.render.provider_checks import (
    CHAT,
    INPUT,
    MESSAGES,
    check_anthropic,
    check_chat,
    check_responses,
    check_type,
    drop_cache_marks,
)

BLOCKS = given.examples(ContentBlock) + given.examples(BetaContentBlock)
ITEMS = given.examples(ResponseOutputItem)
LOCAL = {"computer_call", "shell_call"}
"""What a text is no result for."""


def ids(cases: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [name for name, _ in cases]


def answered(session: holdfast.Session, reply: dict[str, Any], result: object = "done") -> None:
    session.record("user", "hello")
    for call in session.record(reply).tool_calls:
        session.result(call, result)


def seen(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What blocks or items say, whatever the spelling of their arguments."""
    found = [given.drop_empty_fields(each) for each in blocks]
    return [
        {**each, "arguments": json.loads(each["arguments"])} if each.get("type") == "function_call" else each
        for each in found
    ]


@pytest.mark.parametrize(("_name", "block"), BLOCKS, ids=ids(BLOCKS))
def test_every_anthropic_block_goes_back_as_it_came(_name: str, block: dict[str, Any]) -> None:
    if block["type"] == "tool_use":
        block = {**block, "id": "toolu_1"}
    content = [{"type": "text", "text": "before"}, block, {"type": "text", "text": "after"}]
    with session_with() as (engine, session):
        answered(session, given.anthropic_message(content))
        history = history_of(session)
        made = render_anthropic(history, bodies_in(engine, history, "anthropic"))
    assert seen(drop_cache_marks(made["messages"])[1]["content"]) == seen(content)
    check_chat(render_openai_chat(history))
    check_responses(render_openai_responses(history))
    if block["type"] not in ("text", "tool_use"):
        assert "text é" not in to_json([render_openai_chat(history), render_openai_responses(history)])


@pytest.mark.parametrize(("_name", "item"), ITEMS, ids=ids(ITEMS))
def test_every_responses_item_goes_back_as_it_came(_name: str, item: dict[str, Any]) -> None:
    text = {"type": "output_text", "text": "x"}
    message = {"type": "message", "role": "assistant", "id": "msg_2", "status": "completed", "content": [text]}
    kind = item["type"]
    after = {**message, "id": "msg_3"}
    output = [message, after] if kind in OUTPUTS else [message, item, after]
    with session_with() as (engine, session):
        answered(session, given.response([message, item, after]))
        history = history_of(session)
        made = render_openai_responses(history, bodies_in(engine, history, "openai"))["input"][1:]
    if kind in LOCAL:
        assert [made[1]["type"], made[3]["type"]] == ["function_call", "function_call_output"]
    else:
        assert seen(made[: len(output)]) == seen(output), "a result without its call is left out"
    check_chat(render_openai_chat(history))
    check_anthropic(render_anthropic(history))
    if kind not in ("message", "function_call", "custom_tool_call", *LOCAL, "local_shell_call", "apply_patch_call"):
        assert "text é" not in to_json([render_openai_chat(history), render_anthropic(history)])


@pytest.mark.parametrize("kind", ["computer_call", "shell_call", "local_shell_call", "apply_patch_call"])
def test_a_call_of_openais_own_tools_goes_back_with_its_own_output(kind: str) -> None:
    found = {value["type"]: value for name, value in ITEMS if name.endswith("-full")}
    item, output = found[kind], found[f"{kind}_output"]
    own = "id" if kind == "local_shell_call" else "call_id"
    with session_with() as (_, session):
        session.record(given.response([item]))
        session.record({**output, own: item["call_id"]})
        history = history_of(session)
    made = render_openai_responses(history)
    check_responses(made)
    assert seen(made["input"]) == seen([item, {**output, own: item["call_id"]}])


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hello."},
        {"content": "So:", "reasoning_content": "Hm.", "reasoning_details": [{"type": "x", "data": "y"}]},
        {"content": "See", "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}]},
        {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"a": 1}'}}]},
        {
            "content": "Both.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}},
                {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
                {
                    "id": "call_3__sig+/=",
                    "type": "function",
                    "function": {"name": "find.it", "arguments": "{}", "extra": 1},
                    "extra_content": {"google": {"thought_signature": "abc"}},
                },
                {"id": "call_4", "type": "function", "function": {"name": "find", "arguments": "{}"}},
            ],
        },
    ],
)
def test_every_chat_message_goes_back_as_it_came(message: dict[str, Any]) -> None:
    body = given.chat_completion(message)
    with session_with() as (_, session):
        answered(session, body)
        history = history_of(session)
    made = render_openai_chat(history)
    check_chat(made)
    assert [each["role"] for each in made[:2]] == ["user", "assistant"]
    read = holdfast.providers.read
    assert [_alike(draft) for draft in read(made[1])] == [_alike(draft) for draft in read(body)]
    for call, came in zip(made[1].get("tool_calls", []), message.get("tool_calls", []), strict=True):
        assert call == came
    check_anthropic(render_anthropic(history))
    check_responses(render_openai_responses(history))


def _alike(draft: Any) -> tuple[Any, Any]:
    return draft.content, draft.tool_calls


@pytest.mark.parametrize(
    ("adapter", "value"),
    [
        (CHAT, [{"role": "user", "content": [{"type": "text"}]}]),
        (CHAT, [{"role": "tool", "content": "x"}]),
        (CHAT, [{"role": "assistant", "tool_calls": [{"id": "x", "type": "function"}]}]),
        (INPUT, [{"type": "function_call", "call_id": "x"}]),
        (
            INPUT,
            [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [{"type": "?"}]}],
        ),
        (MESSAGES, [{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}]),
        (MESSAGES, [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]),
        (MESSAGES, [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": [{}]}]}]),
    ],
)
def test_the_types_of_the_clients_refuse_what_is_wrong(adapter: Any, value: Any) -> None:
    with pytest.raises(ValidationError):
        check_type(adapter, value)
