"""Messages of LangChain become messages of a session, whatever they have in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

import holdfast
from holdfast.frameworks.shadows import Shadow
from holdfast.langgraph.messages import to_shadow, to_shadows
from holdfast.model.content import Image, Opaque, Text, Usage
from holdfast.model.sessions.messages import Message


def record(*messages: BaseMessage) -> list[Message]:
    session = holdfast.open("memory:").create_session("s")
    shadow = Shadow(session, observe=False)
    shadow.follow(to_shadows(messages))
    version = session.state().version
    Shadow(session, observe=False).follow(to_shadows(messages))
    assert session.state().version == version
    return session.messages()


def test_roles_names_and_usage() -> None:
    usage: Any = {
        "input_tokens": 9,
        "output_tokens": 5,
        "total_tokens": 14,
        "input_token_details": {"cache_read": 4, "cache_creation": 2},
        "output_token_details": {"reasoning": 3},
    }
    found = record(
        SystemMessage("Be kind."),
        HumanMessage("hi", name="Bob"),
        AIMessage("hello", name="desk", usage_metadata=usage),
        ChatMessage(content="wrong", role="critic"),
        ChatMessage(content="sure", role="assistant"),
    )
    assert [message.role for message in found] == ["system", "user", "assistant", "user", "assistant"]
    assert found[2].usage == Usage(9, 5, 4, 2, 3)
    assert found[2].metadata["name"] == "desk"
    assert "Bob" in str(found[1].content[0])
    assert "critic" in str(found[3].content[0])


def test_calls_are_those_that_the_program_sees_not_those_in_the_blocks() -> None:
    blocks: Any = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "One moment."},
        {"type": "tool_use", "id": "c1", "name": "pay", "input": {"sum": 10}},
    ]
    edited = AIMessage(blocks, tool_calls=[{"name": "pay", "args": {"sum": 5}, "id": "c1"}])
    found = record(HumanMessage("pay"), edited, ToolMessage("no", tool_call_id="c1", status="error"))
    assert [(call.name, call.args, call.provider_id) for call in found[1].tool_calls] == [("pay", {"sum": 5}, "c1")]
    assert found[1].content == (
        Opaque("anthropic", '{"signature":"s","thinking":"hm","type":"thinking"}'),
        Text("One moment."),
    )
    assert found[2].tool_results[0].is_error


def test_images_are_images_and_unknown_blocks_stay_as_they_are() -> None:
    blocks: Any = [
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image", "source_type": "url", "url": "s3:image"},
        {"type": "file", "base64": "aGk=", "mime_type": "text/plain", "filename": "a.txt"},
        {"type": "text-plain", "text": "plain"},
        {"type": "weather", "degrees": 20},
        {"type": "image", "base64": "not base64", "mime_type": "image/png"},
        "words",
        {"type": "text", "text": ""},
    ]
    (message,) = record(HumanMessage(blocks))
    assert [type(part).__name__ for part in message.content] == [
        "Image",
        "Image",
        "File",
        "Text",
        "Opaque",
        "Opaque",
        "Text",
    ]
    image = message.content[0]
    assert isinstance(image, Image)
    assert image.ref is not None
    opaque = message.content[4]
    assert isinstance(opaque, Opaque)
    assert opaque == Opaque("langchain", '{"type": "weather", "degrees": 20}')
    items: Any = [{"type": "reasoning", "id": "rs_1", "summary": []}, {"type": "text", "text": "ok"}]
    (reply,) = record(AIMessage(items, response_metadata={"model_provider": "openai"}))
    assert reply.content[0] == Opaque("openai", '{"type": "reasoning", "id": "rs_1", "summary": []}')


def test_equal_messages_without_ids_are_told_apart_and_removals_are_no_messages() -> None:
    listed: list[BaseMessage] = [
        HumanMessage("again"),
        AIMessage("ok", id="a"),
        HumanMessage("again"),
        RemoveMessage(id="x"),
    ]
    shadows = to_shadows(listed)
    assert len({each.id for each in shadows}) == len(shadows) == 3
    assert to_shadow(listed[0]).id == shadows[0].id
    assert to_shadow(listed[1]).id == "a"


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("half \ud83d of a pair, and \0"),
        HumanMessage(""),
        AIMessage(""),
        AIMessage("", tool_calls=[{"name": "", "args": {"\ud83d": float("nan"), "n": 10**40}, "id": None}]),
        AIMessage("", tool_calls=[{"name": "line\nbreak" * 100, "args": {}, "id": "i" * 9_000}]),
        AIMessage("x", invalid_tool_calls=[{"name": "f", "args": "{", "id": "c", "error": "bad"}]),
        AIMessage("x", additional_kwargs={"reasoning_content": "because", "refusal": None}),
        ToolMessage("", tool_call_id=""),
        ToolMessage([{"type": "text", "text": "a"}, {"type": "odd", "x": 1}], tool_call_id="c"),
        FunctionMessage(content="x", name="f"),
        HumanMessage([{"type": "text", "text": "x" * 100_000}, {"no": "type"}]),
        HumanMessage(["x"] * 3_000),
    ],
)
def test_no_message_is_refused(message: BaseMessage) -> None:
    record(HumanMessage("first", id="1"), message, HumanMessage("last", id="2"))


json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
kinds = st.sampled_from(
    ["text", "image", "image_url", "file", "thinking", "tool_use", "reasoning", "document", "opaque", "x"]
)
blocks = st.lists(st.text(max_size=9) | st.fixed_dictionaries({"type": kinds}, optional={
    "text": json, "url": json, "base64": json, "source": json, "image_url": json, "file": json, "id": json, "input": json,
    "thinking": json, "title": json, "citations": json,
}), max_size=3)  # fmt: skip
contents = st.text(max_size=20) | blocks
listed_messages: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(HumanMessage, contents),
    st.builds(AIMessage, contents),
    st.builds(SystemMessage, contents),
    st.builds(ToolMessage, contents, tool_call_id=st.text(max_size=5)),
)


@given(st.lists(listed_messages, max_size=4))
def test_whatever_a_message_has_it_is_recorded_once(listed: list[BaseMessage]) -> None:
    record(*listed)
