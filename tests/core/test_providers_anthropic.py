"""What Anthropic returns, as drafts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.model.content import Opaque, Source, Text, Usage
from holdfast.providers import CallDraft, InlineBytes, MessageDraft, ResultDraft, read
from tests.core import provider_examples as given
from tests.core.provider_examples import bodies

THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"to": "LIS"}}
CITATION = {"type": "char_location", "cited_text": "c", "document_index": 0, "start_char_index": 0, "end_char_index": 1}


def test_a_message_is_an_assistant_message_with_its_usage_and_source() -> None:
    body = given.anthropic_message([THINKING, REDACTED, {"type": "text", "text": "Hi."}, TOOL_USE], "tool_use")
    (draft,) = read(given.as_message(body))
    assert draft == read(body)[0]
    assert draft.source == Source("anthropic", "claude-x", "msg_1", "tool_use")
    assert draft.usage == Usage(100, 20, 64, 8, 12)
    assert draft.tool_calls == (CallDraft("find", {"to": "LIS"}, "toolu_1"),)
    assert draft.content[0] == Opaque("anthropic", '{"signature":"c2ln","thinking":"hm","type":"thinking"}')
    assert bodies(draft)[1:] == [REDACTED, Text("Hi.")]


def test_the_text_of_a_cited_block_stands_once_and_its_citations_before_it() -> None:
    cited = {"type": "text", "text": "Grass is green.", "citations": [CITATION]}
    plain = {"type": "text", "text": " So it is.", "citations": None}
    (draft,) = read(given.anthropic_message([cited, plain]))
    around = {"around": {"type": "text", "citations": [CITATION]}}
    assert bodies(draft) == [around, Text("Grass is green."), Text(" So it is.")]
    assert json.dumps(bodies(draft)[0]).count("Grass") == 0


def test_a_call_between_parts_leaves_its_shell_in_its_place() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    blocks: list[dict[str, Any]] = [
        TOOL_USE,
        {"type": "text", "text": "And:"},
        {**TOOL_USE, "id": "toolu_2", "caller": caller},
    ]
    (draft,) = read(given.anthropic_message(blocks))
    assert bodies(draft) == [
        {"around": {"type": "tool_use", "id": "toolu_1"}},
        Text("And:"),
        {"around": {"type": "tool_use", "id": "toolu_2", "caller": caller}},
    ]


@pytest.mark.parametrize("value", [10**30, float("inf"), "\ud800"])
def test_an_input_that_cannot_be_carried_goes_by_its_text(value: Any) -> None:
    (draft,) = read(given.anthropic_message([{**TOOL_USE, "input": {"n": value}}]))
    assert draft.tool_calls == (CallDraft("find", json.dumps({"n": value}), "toolu_1"),)


def test_the_content_of_a_message_may_be_passed_on_as_people_do() -> None:
    body = given.anthropic_message([THINKING, {"type": "text", "text": "Hi."}, TOOL_USE])
    message = given.as_message(body)
    expected = MessageDraft(role="assistant", content=read(body)[0].content, tool_calls=read(body)[0].tool_calls)
    assert read({"role": "assistant", "content": message.content}) == (expected,)
    assert read(message.to_param()) == (expected,)


def test_results_come_before_what_else_the_user_said() -> None:
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "9:40", "cache_control": {"type": "ephemeral"}},
        {
            "type": "tool_result",
            "tool_use_id": "toolu_2",
            "content": [{"type": "text", "text": "no"}],
            "is_error": True,
        },
        {"type": "tool_result", "tool_use_id": "toolu_3"},
    ]
    tool, user = read({"role": "user", "content": [{"type": "text", "text": "Well?"}, *results]})
    assert tool == MessageDraft(
        role="tool",
        tool_results=(
            ResultDraft("toolu_1", "9:40"),
            ResultDraft("toolu_2", [Text("no")], is_error=True),
            ResultDraft("toolu_3", ""),
        ),
    )
    assert user == MessageDraft(role="user", content=[Text("Well?")])
    assert read({"role": "user", "content": results}) == (tool,)


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
            [InlineBytes("image", b"ABC", "image/png")],
        ),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "é"}, "title": "t"},
            [InlineBytes("file", "é".encode(), "text/plain", "t")],
        ),
        (
            {"type": "document", "source": {"type": "base64", "data": "QUJD"}, "citations": {"enabled": True}},
            [{"around": {"type": "document", "citations": {"enabled": True}}}, InlineBytes("file", b"ABC")],
        ),
        (
            {"type": "image", "source": {"type": "file", "file_id": "f"}, "cache_control": {"type": "ephemeral"}},
            [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
        ),
    ],
)
def test_images_and_documents_become_bytes_where_there_are_any(block: dict[str, Any], parts: list[Any]) -> None:
    (draft,) = read({"role": "user", "content": [block]})
    assert bodies(draft) == parts


def test_usage_counts_the_whole_prompt() -> None:
    body = given.anthropic_message([])
    body["usage"] = {"input_tokens": 5, "cache_read_input_tokens": None, "output_tokens": 2}
    assert read(body)[0].usage == Usage(5, 2)
    body["usage"] = {"input_tokens": -5, "cache_read_input_tokens": 7, "output_tokens": "many"}
    assert read(body)[0].usage == Usage(7, 0, 7)
