"""The laws of the renderers, on random conversations."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.model.content import Text
from holdfast.model.history.views import HistoryView
from holdfast.providers.openai import CALLS
from holdfast.render import (
    NO_BODIES,
    render_anthropic,
    render_bedrock,
    render_gemini,
    render_litellm,
    render_openai_chat,
    render_openai_responses,
    render_text,
)
from tests.render import conversations as spoken
from tests.render.conversations import SEALED, bodies_in, play, session_with, to_json
from tests.render.provider_checks import MARKS, RENDERERS, check_all, drop_cache_marks, find_cache_marks
from tests.support import figure

EXAMPLES = figure(20, 2_000)
LOOK_BACK = 20
"""Blocks before a mark in which a cache finds the end of an earlier request by itself."""
ROOT = Path(__file__).parents[2]
ISSUERS = {
    "chat": {"openai"},
    "responses": {"openai"},
    "anthropic": {"anthropic"},
    "anthropic, newer": {"anthropic"},
    "gemini": {"google"},
    "bedrock": {"bedrock"},
    "litellm": {"openai", "litellm"},
}


def histories(steps: list[spoken.Step], system: list[Any]) -> list[tuple[HistoryView, Mapping[str, bytes]]]:
    with session_with(system) as (engine, session):
        found = list(play(engine, session, steps))
        return [
            (each, {**bodies_in(engine, each, "litellm"), **bodies_in(engine, each, "anthropic")}) for each in found
        ]


systems = st.lists(spoken.part, max_size=2)


@settings(max_examples=EXAMPLES)
@given(spoken.talks(), systems, st.integers(0, 6), st.lists(spoken.texts, max_size=2).map(tuple), st.booleans())
def test_a_provider_takes_any_history(
    steps: list[spoken.Step], system: list[Any], frozen: int, tail: tuple[str, ...], at_hand: bool
) -> None:
    """Calls and results pair, ids are theirs alone, no message is empty, and the official types accept it."""
    history, bodies = histories(steps, system)[-1]
    history = msgspec.structs.replace(history, frozen=frozen, tail=tail)
    check_all(history, bodies if at_hand else NO_BODIES)


@settings(max_examples=EXAMPLES)
@given(spoken.talks(), systems)
@example([("reply", ("gemini", [{"text": "sealed by google", "thought": True}]), []), ("system", [Text(text="")])], [])
def test_a_longer_history_begins_with_the_shorter_one(steps: list[spoken.Step], system: list[Any]) -> None:
    found = histories(steps, system)
    final, bodies = found[-1]
    for history, _ in found:
        assert final.items[: len(history.items)] == history.items, "the session only grew"
        if history.system != final.system:
            assert not history.items, "a system message stands before the conversation only if there was none"
            continue
        assert render_text(final).startswith(render_text(history))
        for render in RENDERERS.values():
            before = render(history, bodies)
            assert to_json(render(final, bodies)[: len(before)]) == to_json(before)


@settings(max_examples=EXAMPLES)
@given(spoken.talks(), systems, st.lists(spoken.texts, max_size=2).map(tuple))
def test_the_tail_stands_after_everything_and_changes_nothing(
    steps: list[spoken.Step], system: list[Any], tail: tuple[str, ...]
) -> None:
    history, bodies = histories(steps, system)[-1]
    longer = msgspec.structs.replace(history, tail=tail)
    for render in RENDERERS.values():
        before, after = render(history, bodies), render(longer, bodies)
        shown = [each for each in tail if each.strip()]
        if not shown:
            assert to_json(after) == to_json(before)
            continue
        last = after[-1]
        roles = {"developer"} if render in (RENDERERS["chat"], RENDERERS["responses"]) else {"user"}
        assert last["role"] in (roles | {"system"} if render is RENDERERS["anthropic, newer"] else roles)
        assert all(to_json(each)[1:-1] in to_json(last) for each in shown)
        assert to_json(after[:-1]) == to_json(before), "a block of the last message, behind all others"
    assert find_cache_marks(render_anthropic(history, bodies)) == find_cache_marks(render_anthropic(longer, bodies))


@settings(max_examples=EXAMPLES)
@given(spoken.talks(), systems)
def test_nothing_of_another_issuer_is_shown(steps: list[spoken.Step], system: list[Any]) -> None:
    history, bodies = histories(steps, system)[-1]
    for name, render in RENDERERS.items():
        made = to_json(render(history, bodies))
        assert not [issuer for issuer, seal in SEALED.items() if issuer not in ISSUERS[name] and seal in made]
    assert "sealed by" not in render_text(history)


@settings(max_examples=EXAMPLES)
@given(spoken.talks(), systems, st.integers(0, 6), st.integers(0, MARKS))
def test_marks_stand_where_the_next_request_finds_them(
    steps: list[spoken.Step], system: list[Any], frozen: int, breakpoints: int
) -> None:
    found = histories(steps, system)
    ends: list[tuple[int, int]] = []
    for history, bodies in found:
        history = msgspec.structs.replace(history, frozen=min(frozen, len(history.items)))
        assert len(find_cache_marks(render_anthropic(history, bodies, breakpoints))) <= breakpoints
        marks = find_cache_marks(render_anthropic(history, bodies))
        before = found[len(ends) - 1][0] if ends else history
        since = history.messages[len(before.messages) :]
        if len(history.items) > len(before.items):
            behind = [each for each in _markable(render_anthropic(history, bodies)["messages"]) if each > ends[-1]]
            near = len(behind) < LOOK_BACK and not any(each.role == "assistant" for each in since)
            assert ends[-1] in marks or ends[-1] == (-1, -1) or near, "the end of what the last request was shown"
        made = render_anthropic(history, bodies)
        last = max(_markable(made["messages"]), default=(-1, -1))
        assert last in marks or last == (-1, -1), "the end of the history"
        assert not made["system"] or (-1, len(made["system"]) - 1) in marks
        cut = render_anthropic(msgspec.structs.replace(history, items=history.items[: history.frozen]), bodies)[
            "messages"
        ]
        boundary = max(_markable(cut), default=(-1, -1))
        assert boundary in marks or boundary == (-1, -1), "the last boundary"
        ends.append(last)


def _markable(messages: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [
        (number, place)
        for number, message in enumerate(messages)
        for place, block in enumerate(message["content"])
        if "thinking" not in block["type"] and not block["type"].startswith(("server_", "web_search"))
    ]


@settings(max_examples=EXAMPLES)
@given(st.lists(spoken.anthropic_replies(), min_size=1, max_size=4))
def test_what_anthropic_said_goes_back_as_it_was(replies: list[spoken.Step]) -> None:
    steps: list[spoken.Step] = [("user", ["hello"]), *(("reply", reply, []) for reply in replies)]
    history, bodies = histories(steps, [])[-1]
    made = [
        each["content"]
        for each in drop_cache_marks(render_anthropic(history, bodies)["messages"])
        if each["role"] == "assistant"
    ]
    expected = [_anthropic(spoken.REPLIES["anthropic"](content)["content"]) for _, content in replies]
    assert [[_nameless(block) for block in each] for each in made] == [each for each in expected if each]


def _anthropic(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Blank text is refused, and so is reasoning that led to nothing."""
    kept = [_nameless(block) for block in content if block.get("text", "x").strip()]
    while kept and "thinking" in kept[-1]["type"]:
        kept.pop()
    return kept


def _nameless(block: dict[str, Any]) -> dict[str, Any]:
    """Without the id of a call, which is ours if another call had it before."""
    return {key: value for key, value in block.items() if key != "id" or block["type"] != "tool_use"}


@settings(max_examples=EXAMPLES)
@given(st.lists(spoken.responses_replies(), min_size=1, max_size=4))
def test_what_openai_said_goes_back_as_it_was(replies: list[spoken.Step]) -> None:
    replies = [("responses", [_numbered(item, at) for item in output]) for at, (_, output) in enumerate(replies)]
    history, bodies = histories([("reply", reply, []) for reply in replies], [])[-1]
    made = [item for item in render_openai_responses(history, bodies)["input"] if not _is_answer(item)]
    shown = (output for _, output in replies if not _is_refusal(output))
    expected = [item for output in shown for item in _responses(output) if not _is_answer(item)]
    assert [_anonymous(item) for item in made] == [_anonymous(item) for item in expected]


def _is_answer(item: dict[str, Any]) -> bool:
    return str(item.get("type")).endswith("_output")


def _numbered(item: dict[str, Any], at: int) -> dict[str, Any]:
    """With an id that no other response has."""
    return {**item, "id": f"{item['id']}_{at}"} if "id" in item else item


def _is_refusal(output: list[dict[str, Any]]) -> bool:
    """One that calls no tool: that is not shown again."""
    parts = (part for item in output if item["type"] == "message" for part in item["content"])
    answered = {item.get("call_id") for item in output if _is_answer(item)}
    called = any(item["type"] in CALLS and item["call_id"] not in answered for item in output)
    return not called and any(part["type"] == "refusal" for part in parts)


def _responses(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = list(output)
    while kept and kept[-1]["type"] == "reasoning":
        kept.pop()
    return kept


def _anonymous(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "call_id" or item["type"] not in CALLS}


@settings(max_examples=EXAMPLES)
@given(st.lists(spoken.chat_replies(), min_size=1, max_size=4))
def test_what_openai_said_in_chat_goes_back_as_it_was(replies: list[spoken.Step]) -> None:
    history, bodies = histories([("reply", reply, []) for reply in replies], [])[-1]
    made = [message for message in render_openai_chat(history, bodies) if message["role"] == "assistant"]
    shown = [came for _, came in replies if came.get("tool_calls") or came["content"].strip()]
    assert len(made) == len(shown), "blank replies are not shown again"
    for message, came in zip(made, shown, strict=True):
        assert (message["content"] or "") == (came["content"] or "")
        assert message.get("reasoning_content") == came.get("reasoning_content")
        assert len(message.get("tool_calls", [])) == len(came.get("tool_calls", []))


@settings(max_examples=EXAMPLES)
@given(spoken.talks(), systems)
def test_a_tool_cannot_pass_for_anyone_in_plain_text(steps: list[spoken.Step], system: list[Any]) -> None:
    """The headings of the text are those that Holdfast wrote, whatever anyone says."""
    history, _ = histories(steps, system)[-1]
    lines = render_text(history).splitlines()
    systems = [line for line in lines if line.startswith("[system]")]
    assert len(systems) <= sum(message.role == "system" for message in history.messages)
    answered = sum(len(message.tool_results) for message in history.messages)
    assert sum(line.startswith("[tool]") for line in lines) == answered


def test_another_process_renders_the_same_bytes() -> None:
    env = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", "tests.render.conversations"]
    other = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == spoken.render_digest()


@pytest.mark.parametrize(
    "render",
    [render_openai_chat, render_openai_responses, render_anthropic, render_gemini, render_bedrock, render_litellm],
)
def test_what_is_rendered_belongs_to_the_caller(render: Callable[[HistoryView], Any]) -> None:
    """Whoever changes it changes neither the history nor the next rendering."""
    steps: list[spoken.Step] = [("reply", ("own", ["So."], [{"name": "find", "args": {"a": [1]}, "id": None}]), [])]
    history, _ = histories(steps, [])[-1]
    before = to_json(render(history))
    _spoil(render(history))
    assert to_json(render(history)) == before


def _spoil(value: Any) -> None:
    if isinstance(value, dict):
        for each in value.values():
            _spoil(each)
        value.clear()
    elif isinstance(value, list):
        for each in value:
            _spoil(each)
        value.clear()
