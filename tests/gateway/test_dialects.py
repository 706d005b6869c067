"""Requests in all dialects: identity, side requests, marks, digests, and the drafts that a session records."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

import holdfast
from holdfast.gateway.bodies import UnreadableBody
from holdfast.gateway.dialects import build_drafts, cut_body, digest_reply, read_request, reply_message
from holdfast.gateway.dialects.recent import RecentBodies
from holdfast.gateway.model import ClientRequest, Dialect
from tests.gateway.random_requests import DIALECTS, MARK, build_request, random_messages, write_request
from tests.support import figure

_dialects = st.sampled_from(DIALECTS)
IMAGE = {"type": "image", "source": {"type": "url", "url": "u"}}
_seeds = st.integers(min_value=0, max_value=1 << 32)


def _read(dialect: Dialect, listed: list[Any], headers: dict[str, str] | None = None, **fields: Any) -> ClientRequest:
    body = json.dumps({**build_request(dialect, listed), **fields}).encode()
    return read_request(dialect, tuple((headers or {}).items()), body)


def _user(text: str = "hi") -> dict[str, Any]:
    return {"role": "user", "content": text}


# Digests


@settings(max_examples=figure(50, 2_000), deadline=None)
@given(_dialects, _seeds, _seeds)
def test_the_spelling_of_a_message_does_not_change_its_digest(dialect: Dialect, seed: int, other: int) -> None:
    messages = random_messages(dialect, random.Random(seed))
    one = read_request(dialect, (), write_request(dialect, messages, seed))
    two = read_request(dialect, (), write_request(dialect, messages, other))
    assert [message.digest for message in one.messages] == [message.digest for message in two.messages]
    assert one.head == two.head
    assert one.marks == two.marks


@settings(max_examples=figure(40, 2_000), deadline=None)
@given(_dialects, _seeds)
def test_messages_with_the_same_digest_have_the_same_pieces(dialect: Dialect, seed: int) -> None:
    pick = random.Random(seed)
    known: dict[bytes, Any] = {}
    for _ in range(5):
        for message in _read(dialect, random_messages(dialect, pick)).messages:
            shape = (
                message.role,
                message.stays,
                [(piece.kind, piece.call, piece.content is None) for piece in message.pieces],
            )
            if message.role != "tool" and all(piece.kind != "result" for piece in message.pieces):
                assert known.setdefault(message.digest, shape) == shape


def _digests(dialect: Dialect, *messages: Any) -> list[bytes]:
    return [message.digest for message in _read(dialect, list(messages)).messages]


SAME: list[tuple[Dialect, Any, Any]] = [
    ("anthropic", _user(), {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}),
    ("anthropic", _user(), {"content": [{"text": "hi", "citations": None, "type": "text"}], "role": "user"}),
    (
        "anthropic",
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x", "is_error": False}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "x"}]}],
        },
    ),
    (
        "anthropic",
        {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1.0}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": ""},
                {"type": "tool_use", "input": {"x": 1}, "id": "a", "name": "f", "caller": {"type": "direct"}},
            ],
        },
    ),
    ("chat", _user(), {"role": "user", "content": [{"type": "text", "text": "hi"}]}),
    (
        "chat",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {
            "role": "assistant",
            "content": "",
            "refusal": None,
            "annotations": [],
            "reasoning_content": "hm",
            "tool_calls": [
                {
                    "index": 0,
                    "id": "a",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}", "parsed_arguments": {}},
                }
            ],
        },
    ),
    ("responses", _user(), {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}),
    (
        "responses",
        {"role": "assistant", "content": "ok"},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}],
        },
    ),
    (
        "responses",
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "E",
        },
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "E", "status": None},
    ),
]


@pytest.mark.parametrize(("dialect", "one", "two"), SAME)
def test_what_clients_change_on_the_way_does_not_count(dialect: Dialect, one: Any, two: Any) -> None:
    assert _digests(dialect, one) == _digests(dialect, two)
    first, second = (_read(dialect, [each]).messages[0] for each in (one, two))
    assert [piece.kind for piece in first.pieces] == [piece.kind for piece in second.pieces]


def _result(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x", **fields}]}


def _call(arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments}


@pytest.mark.parametrize(
    ("dialect", "one", "two"),
    [
        ("anthropic", _user(), _user("ho")),
        ("anthropic", _user(), {"role": "assistant", "content": "hi"}),
        ("anthropic", _result(), _result(is_error=True)),
        ("anthropic", _result(), _result(content="y")),
        ("anthropic", _result(), _result(tool_use_id="b")),
        (
            "anthropic",
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {"x": None}}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
        ),
        (
            "anthropic",
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "1"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "2"}]},
        ),
        (
            "chat",
            {"role": "tool", "tool_call_id": "a", "content": "x"},
            {"role": "tool", "tool_call_id": "b", "content": "x"},
        ),
        ("chat", _user(), {"role": "user", "name": "bo", "content": "hi"}),
        ("responses", _call("{}"), _call("{ }")),
        ("responses", {"role": "user", "content": "a"}, {"role": "developer", "content": "a"}),
        (
            "responses",
            {"type": "reasoning", "summary": [], "encrypted_content": "E"},
            {"type": "reasoning", "summary": [], "encrypted_content": "F"},
        ),
    ],
)
def test_what_a_model_sees_counts(dialect: Dialect, one: Any, two: Any) -> None:
    assert _digests(dialect, one) != _digests(dialect, two)


# Replies and their echoes

_ANTHROPIC_REPLY: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srv_1",
            "content": [
                {
                    "type": "web_search_result",
                    "url": "https://e.com",
                    "title": "t",
                    "encrypted_content": "E",
                    "page_age": None,
                }
            ],
        },
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "Read",
            "input": {"path": "a", "limit": 1.0, "deep": {"x": None}},
        },
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
_CHAT_REPLY: dict[str, Any] = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m-1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": "I look.",
                "refusal": None,
                "annotations": [],
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"a": 1}'}}
                ],
            },
        }
    ],
}
_RESPONSES_REPLY: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m-1",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "read",
            "arguments": '{"a": 1}',
            "status": "completed",
        },
        {
            "type": "custom_tool_call",
            "id": "ct_1",
            "call_id": "call_2",
            "name": "patch",
            "input": "*** Begin",
            "status": "completed",
        },
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "q", "queries": ["q"], "sources": []},
        },
    ],
}


def _codex_item(item: dict[str, Any]) -> dict[str, Any]:
    """An item as Codex sends it back: it drops ids, and what it does not know, and adds the turn."""
    kept = {key: value for key, value in item.items() if key not in ("id", "status")}
    if item["type"] == "message":
        kept["content"] = [{"type": part["type"], "text": part["text"]} for part in item["content"]]
    if item["type"] == "web_search_call":
        kept["action"] = {"type": "search", "query": "q"}
    kept["internal_chat_message_metadata_passthrough"] = {"turn_id": "01a1", "content_item_kinds": ["unknown"]}
    return kept


def _dump_all(dump: Callable[[Any], Any], values: Any) -> list[Any]:
    return [dump(value) for value in values]


DUMPS: list[Callable[[Any], Any]] = [
    lambda value: value.to_dict(),
    lambda value: value.model_dump(),
    lambda value: value.model_dump(exclude_unset=True),
    lambda value: value.model_dump(mode="json", by_alias=True),
    lambda value: json.loads(value.to_json()),
]


@pytest.mark.parametrize("dump", DUMPS, ids=range(len(DUMPS)))
def test_the_digest_of_a_reply_is_that_of_its_echo_by_an_official_client(dump: Callable[[Any], Any]) -> None:
    content = _dump_all(dump, AnthropicMessage.model_validate(_ANTHROPIC_REPLY).content)
    request = _read("anthropic", [{"role": "assistant", "content": content}])
    assert request.messages[0].digest == digest_reply("anthropic", _ANTHROPIC_REPLY)
    message = dump(ChatCompletion.model_validate(_CHAT_REPLY).choices[0].message)
    assert _read("chat", [message]).messages[0].digest == digest_reply("chat", _CHAT_REPLY)
    items = _dump_all(dump, Response.model_validate(_RESPONSES_REPLY).output)
    (echo,) = _read("responses", items).messages
    assert echo.digest == digest_reply("responses", _RESPONSES_REPLY)
    assert [piece.kind for piece in echo.pieces] == ["reasoning", "text", "call", "call", "other"]


def test_the_digest_of_a_reply_is_that_of_its_echo_by_codex() -> None:
    items = [_codex_item(item) for item in _RESPONSES_REPLY["output"]]
    output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
    messages = _read("responses", [_user(), *items, output, output]).messages
    assert [message.role for message in messages] == ["user", "assistant", "tool", "tool"]
    assert messages[1].digest == digest_reply("responses", _RESPONSES_REPLY)


def test_empty_fields_may_be_missing_in_an_echo() -> None:
    reply = {**_ANTHROPIC_REPLY, "content": [{"type": "text", "text": "x", "citations": None}]}
    content = [block.model_dump(exclude_none=True) for block in AnthropicMessage.model_validate(reply).content]
    assert _digests("anthropic", {"role": "assistant", "content": content}) == [digest_reply("anthropic", reply)]
    message = ChatCompletion.model_validate(_CHAT_REPLY).choices[0].message.model_dump(exclude_none=True)
    assert _digests("chat", message) == [digest_reply("chat", _CHAT_REPLY)]
    items = [item.model_dump(exclude_none=True) for item in Response.model_validate(_RESPONSES_REPLY).output]
    assert _digests("responses", *items) == [digest_reply("responses", _RESPONSES_REPLY)]


def test_digests_are_stored_so_they_stay_as_they_are() -> None:
    replies = (_ANTHROPIC_REPLY, _CHAT_REPLY, _RESPONSES_REPLY)
    digests = [digest_reply(dialect, reply).hex()[:16] for dialect, reply in zip(DIALECTS, replies, strict=True)]
    assert digests == ["6d81d10357216d00", "dc1f7ab7b3608fed", "33fe647a0329030f"]


def test_the_canonical_message_of_a_reply_has_what_the_model_said() -> None:
    assert reply_message("chat", _CHAT_REPLY)["content"] == [{"type": "text", "text": "I look."}]
    assert [block["type"] for block in reply_message("anthropic", _ANTHROPIC_REPLY)["content"]][-1] == "tool_use"
    assert len(reply_message("responses", _RESPONSES_REPLY)["items"]) == 5


@pytest.mark.parametrize(
    "reply", [{}, {"content": 1}, {"choices": []}, {"output": [1]}, {"output": [{"type": 1}]}, {"content": [[]]}]
)
def test_a_reply_of_another_shape_is_refused(reply: dict[str, Any]) -> None:
    for dialect in DIALECTS:
        with pytest.raises(UnreadableBody):
            digest_reply(dialect, reply)


# Identity and side requests


def test_claude_code_names_the_session_and_the_sub_agent() -> None:
    headers = {
        "x-claude-code-session-id": "s-1",
        "x-claude-code-agent-id": "a-1",
        "x-claude-code-parent-agent-id": "p-1",
    }
    request = _read("anthropic", [_user()], headers)
    assert (request.client, request.family, request.agent, request.parent_agent) == ("claude", "s-1", "a-1", "p-1")
    user = json.dumps({"device_id": "d", "account_uuid": "", "session_id": "s-2"})
    assert _read("anthropic", [_user()], metadata={"user_id": user}).family == "s-2"
    old = "user_abc_account__session_0f2e1a3c-aaaa-bbbb-cccc-ddddeeeeffff"
    assert _read("anthropic", [_user()], metadata={"user_id": old}).family == "0f2e1a3c-aaaa-bbbb-cccc-ddddeeeeffff"


def test_codex_names_the_session_and_the_thread() -> None:
    main = {"session-id": "t-1", "thread-id": "t-1", "x-codex-window-id": "t-1:0"}
    request = _read("responses", [_user()], main, prompt_cache_key="t-1")
    assert (request.client, request.family, request.agent) == ("codex", "t-1", "")
    request = _read("responses", [_user()], {**main, "thread-id": "t-2", "x-codex-parent-thread-id": "t-1"})
    assert (request.family, request.agent, request.parent_agent) == ("t-1", "t-2", "")
    request = _read("responses", [_user()], {"originator": "codex_exec", "conversation_id": "t-3"})
    assert (request.client, request.family) == ("codex", "t-3")


def test_other_clients_name_a_conversation_in_several_places() -> None:
    assert _read("chat", [_user()], {"x-session-id": "a"}).family == "a"
    shared = _read("chat", [_user()], prompt_cache_key="b")
    assert (shared.family, shared.cache_key) == ("", "b"), "it can stand for many conversations"
    assert _read("responses", [_user()], metadata={"conversation_id": "c"}).family == "c"
    assert _read("chat", [_user()]).family == ""
    strange = _read("chat", [_user()], {"x-session-id": "a/../b\n" * 100}).family
    assert len(strange) == 32
    assert strange.isalnum()


@pytest.mark.parametrize(
    ("dialect", "fields", "side"),
    [
        ("anthropic", {}, ""),
        ("anthropic", {"tools": []}, "no tools"),
        ("anthropic", {"max_tokens": 0}, "asks for no output"),
        ("anthropic", {"messages": []}, "no messages"),
        ("anthropic", {"thread": {"type": "create"}}, "has its conversation at the provider"),
        (
            "anthropic",
            {"thread": {"type": "continue", "previous_message_id": "m"}},
            "has its conversation at the provider",
        ),
        ("anthropic", {"thread": None}, ""),
        ("chat", {"n": 2}, "asks for several replies"),
        ("chat", {"tools": None}, "no tools"),
        ("chat", {"tools": [], "functions": [{"name": "f"}]}, ""),
        ("responses", {"previous_response_id": "r"}, "continues a state at the provider"),
        ("responses", {"previous_response_id": None}, ""),
        ("responses", {"conversation": "c"}, "continues a state at the provider"),
        ("responses", {"background": True}, "runs in the background"),
        ("responses", {"input": [{"type": "item_reference", "id": "x"}]}, "refers to items at the provider"),
        ("responses", {"input": "text"}, ""),
        ("responses", {"tools": None}, "no tools"),
        ("responses", {"tools": None, "input": [{"type": "additional_tools", "tools": [{"type": "custom"}]}]}, ""),
    ],
)
def test_side_requests_say_why(dialect: Dialect, fields: dict[str, Any], side: str) -> None:
    assert _read(dialect, [_user()], **fields).side == side


def test_a_request_without_a_limit_of_output_counts_tokens() -> None:
    request = build_request("anthropic", [_user()])
    del request["max_tokens"]
    assert read_request("anthropic", (), json.dumps(request).encode()).side == "counts tokens"


# Head and marks


def test_the_head_is_the_model_the_tools_and_the_system() -> None:
    billing = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1.a1;"}
    other = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1.b2;"}
    prompt = {"type": "text", "text": "You are."}
    base = _read("anthropic", [_user()], system=[billing, prompt])
    assert base.head == _read("anthropic", [_user("x")], system=[other, {**prompt, "cache_control": MARK}]).head
    assert base.head != _read("anthropic", [_user()], system=[billing, {"type": "text", "text": "You were."}]).head
    assert base.head != _read("anthropic", [_user()], system=[billing, prompt], model="m-2").head
    assert base.head != _read("anthropic", [_user()], system=[billing, prompt], tools=[{"name": "other"}]).head
    assert base.head_bytes > 100
    system = {"role": "system", "content": "You are."}
    assert _read("chat", [system, _user()]).head == _read("chat", [system, _user("x")]).head
    assert _read("chat", [system, _user()]).head != _read("chat", [_user()]).head


def test_marks_are_counted_where_they_stand() -> None:
    hour = {"type": "ephemeral", "ttl": "1h"}
    inner = {
        "type": "tool_result",
        "tool_use_id": "a",
        "content": [{"type": "text", "text": "x", "cache_control": MARK}],
    }
    noise = {"type": "tool_use", "id": "b", "name": "f", "input": {"cache_control": MARK}}
    request = _read(
        "anthropic",
        [_user(), {"role": "assistant", "content": [noise]}, {"role": "user", "content": [inner]}],
        system=[{"type": "text", "text": "s", "cache_control": hour}],
        tools=[{"name": "f", "cache_control": MARK}],
    )
    assert (request.marks, request.ttl_s) == (3, 3600)
    assert json.loads(request.mark) == MARK
    plain = _read("anthropic", [_user()])
    assert (plain.marks, plain.ttl_s, plain.mark) == (0, None, b"")
    automatic = _read("anthropic", [_user()], cache_control=hour)
    assert (automatic.marks, automatic.ttl_s, json.loads(automatic.mark)) == (1, 3600, hour)


# What stays


@pytest.mark.parametrize(
    ("dialect", "message", "stays"),
    [
        ("anthropic", {"role": "system", "content": "x"}, True),
        ("anthropic", _result(content=[IMAGE]), False),
        ("anthropic", {"role": "user", "content": [_result()["content"][0], IMAGE]}, False),
        ("anthropic", {"role": "user", "content": [{"type": "search_result", "content": []}]}, False),
        ("anthropic", {"role": "assistant", "content": [{"type": "text", "text": "x"}]}, False),
        ("anthropic", {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, False),
        ("anthropic", {"role": "assistant", "content": [{"type": "compaction", "content": "x"}]}, True),
        ("anthropic", {"role": "user", "content": [{"type": "novelty", "x": 1}]}, True),
        ("anthropic", _result(content=[{"type": "tool_reference", "tool_name": "t"}]), True),
        ("chat", {"role": "developer", "content": "x"}, True),
        ("chat", {"role": "user", "content": [{"type": "novelty"}]}, True),
        ("responses", {"type": "compaction", "encrypted_content": "x"}, True),
        ("responses", {"type": "novelty_call"}, True),
        ("responses", {"type": "web_search_call", "id": "w"}, False),
        ("responses", {"role": "system", "content": "x"}, True),
    ],
)
def test_only_what_is_understood_may_leave(dialect: Dialect, message: Any, stays: bool) -> None:
    assert _read(dialect, [message]).messages[0].stays is stays


@pytest.mark.parametrize(
    ("dialect", "part"),
    [
        ("anthropic", IMAGE),
        ("anthropic", {"type": "document", "source": {"type": "url", "url": "u"}}),
        ("chat", {"type": "image_url", "image_url": {"url": "u"}}),
        ("chat", {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}),
        ("chat", {"type": "file", "file": {"file_id": "f"}}),
        ("responses", {"type": "input_image", "image_url": "u"}),
        ("responses", {"type": "input_file", "file_id": "f"}),
        ("responses", {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}),
    ],
)
def test_what_a_summary_cannot_quote_stays(dialect: Dialect, part: dict[str, Any]) -> None:
    text = {"type": "input_text" if dialect == "responses" else "text", "text": "What is this?"}
    for content in ([part], [text, part], [part, text]):
        assert _read(dialect, [{"role": "user", "content": content}]).messages[0].stays
    assert not _read(dialect, [{"role": "user", "content": [text]}]).messages[0].stays


# Drafts


@settings(max_examples=figure(20, 2_000), deadline=None)
@given(_dialects, _seeds)
def test_a_session_records_the_drafts_and_they_have_every_piece_once(dialect: Dialect, seed: int) -> None:
    body = write_request(dialect, random_messages(dialect, random.Random(seed)), seed)
    request = read_request(dialect, (), body)
    messages = []
    for number, message in enumerate(request.messages):
        drafts = build_drafts(request, cut_body(request, body, 0), number)
        assert sorted(piece for draft in drafts for piece in draft.pieces) == list(range(len(message.pieces)))
        for draft in drafts:
            for piece in (message.pieces[place] for place in draft.pieces):
                if piece.kind == "result":
                    assert draft.message["tool_call_id"] == piece.call
        messages += [draft.message for draft in drafts]
    assert b'cache_control":{"type' not in json.dumps(messages, default=str).encode()
    with holdfast.open(":memory:") as engine:
        recorded = engine.create_session("s").record_all(messages, as_found=True)
    assert len(recorded) >= len(messages)


def test_results_keep_errors_and_images() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}
    body = json.dumps(
        build_request("anthropic", [call, _result(content=[{"type": "text", "text": "x"}, image], is_error=True)])
    )
    request = read_request("anthropic", (), body.encode())
    (draft,) = build_drafts(request, cut_body(request, body.encode(), 0), 1)
    assert (draft.message["role"], draft.message["is_error"]) == ("tool", True)
    with holdfast.open(":memory:") as engine:
        session = engine.create_session("s")
        (draft_of_call,) = build_drafts(request, cut_body(request, body.encode(), 0), 0)
        recorded = session.record_all([draft_of_call.message, draft.message], as_found=True)
        (result,) = recorded[1].tool_results
        assert result.is_error
        assert len(result.content) == 2


# Bodies that came before


@settings(max_examples=figure(50, 2_000), deadline=None)
@given(_dialects, _seeds)
def test_a_body_is_read_the_same_after_others(dialect: Dialect, seed: int) -> None:
    pick = random.Random(seed)
    recent, messages = RecentBodies(least_bytes=0), random_messages(dialect, pick)
    for _ in range(6):
        body = write_request(dialect, messages, seed)
        if pick.random() < 0.2:
            damaged = bytearray(body)
            damaged[pick.randrange(len(body))] = pick.choice(b'"{}[],:x \xff')
            body = bytes(damaged)
        assert _open(recent, dialect, body) == _open(RecentBodies(), dialect, body)
        messages = messages[: pick.randrange(1, len(messages) + 1)] if pick.random() < 0.3 else messages
        messages = [*messages, *random_messages(dialect, pick, turns=1)]


def _open(recent: RecentBodies, dialect: Dialect, body: bytes) -> object:
    try:
        opened = recent.open(dialect, body)
    except UnreadableBody:
        return None
    known = len(opened.placed)
    opened.placed = [*opened.placed, *([None] * (len(opened.slots) - known))]  # type: ignore[list-item]
    recent.keep(opened)
    return opened.fields, [tuple(slot) for slot in opened.slots]


def test_threads_read_requests_at_once() -> None:
    bodies = [
        write_request(dialect, random_messages(dialect, random.Random(seed), turns=40), seed)
        for dialect in DIALECTS
        for seed in range(4)
    ]
    dialects = [dialect for dialect in DIALECTS for _ in range(4)]
    expected = [read_request(dialect, (), body) for dialect, body in zip(dialects, bodies, strict=True)]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(3):
            found = threads.map(lambda number: read_request(dialects[number], (), bodies[number]), range(len(bodies)))
            assert list(found) == expected
