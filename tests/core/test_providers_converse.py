"""What Gemini and Bedrock return, as drafts: in one piece, in pieces, and as messages of an application."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given as having
from hypothesis import settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument, InvalidInput, TooLarge
from holdfast.model.content import Data, Opaque, Source, Text, Usage
from holdfast.providers import CallDraft, Deltas, InlineBytes, MessageDraft, ResultDraft, read, read_all, streams
from tests.core.converse_examples import (
    BEDROCK_CONTENT,
    EVENTS,
    GEMINI_PARTS,
    SAMPLES,
    SIGNATURE,
    converse_response,
    gemini_response,
    sample,
)
from tests.support import figure


def bodies(draft: MessageDraft) -> list[Any]:
    """The content of a draft, opaque parts decoded."""
    return [json.loads(str(part.body)) if isinstance(part, Opaque) else part for part in draft.content]


def collected(events: list[dict[str, Any]]) -> Deltas:
    return add_all(Deltas(), events)


def add_all(deltas: Deltas, events: list[dict[str, Any]]) -> Deltas:
    for event in events:
        deltas.add(event)
    return deltas


# Gemini


def test_a_response_of_gemini_is_an_assistant_message_with_its_usage_and_source() -> None:
    (draft,) = read(SAMPLES["gemini"])
    assert draft.source == Source("google", "gemini-x", "r1", "STOP")
    assert draft.usage == Usage(100, 20, 64, 0, 12)
    assert draft.tool_calls == (CallDraft("find", {"toPlace": "é", "n": [1, None]}, "a"), CallDraft("wait", {}, "wait"))
    assert bodies(draft) == [
        {"type": "thought", "text": "Well, hm.", "thought": True},
        Text("Wait, please."),
        {"around": {"type": "function_call", "id": "a", "thought_signature": SIGNATURE}},
        {"around": {"type": "function_call"}},
        {"type": "executable_code", "executable_code": {"code": "1", "language": "PYTHON"}},
        {"around": {"type": "image"}},
        InlineBytes("image", b"ABC", "image/png"),
        {"around": {"type": "text", "thought_signature": SIGNATURE}},
        Text(""),
    ]


def test_calls_without_ids_are_named_after_their_tool_and_found_by_it() -> None:
    calls: list[dict[str, Any]] = [{"functionCall": {"name": name, "args": {}}} for name in ("find", "wait", "find")]
    (draft,) = read({"role": "model", "parts": calls})
    assert [call.provider_id for call in draft.tool_calls] == ["find", "wait", "find#2"]
    answers = [
        {"functionResponse": {"name": name, "response": {"output": n}}} for n, name in enumerate(["find", "find"])
    ]
    (results,) = read({"role": "user", "parts": answers})
    assert results.tool_results == (ResultDraft("find", 0), ResultDraft("find#2", 1))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"response": {"output": "x"}}, ResultDraft("find", "x")),
        ({"response": {"result": [1]}}, ResultDraft("find", [1])),
        ({"response": {"error": "no"}}, ResultDraft("find", "no", is_error=True)),
        ({"response": {"output": 1, "error": None}}, ResultDraft("find", {"output": 1, "error": None})),
        ({"response": {"camelCase": 1}}, ResultDraft("find", {"camelCase": 1})),
        ({}, ResultDraft("find", {})),
        (
            {
                "id": "a",
                "response": {"output": {"b": 1}},
                "parts": [{"inlineData": {"mimeType": "image/png", "data": "QUJD"}}],
            },
            ResultDraft("a", [Data({"b": 1}), InlineBytes("image", b"ABC", "image/png")]),
        ),
    ],
)
def test_a_function_response_is_a_result(response: dict[str, Any], expected: ResultDraft) -> None:
    parts = [{"text": "And?"}, {"functionResponse": {"name": "find", **response}}]
    tool, user = read({"role": "user", "parts": parts})
    assert tool == MessageDraft(role="tool", tool_results=(expected,))
    assert user == MessageDraft(role="user", content=[Text("And?")])


def test_both_spellings_of_a_field_are_read() -> None:
    part = {"function_call": {"name": "find", "args": {"toPlace": 1}}, "thought_signature": b"\xfb\xff signed"}
    snake = {"candidates": [{"content": {"parts": [part]}, "finish_reason": "STOP"}]}
    camel = {"functionCall": {"name": "find", "args": {"toPlace": 1}}, "thoughtSignature": "-_8gc2lnbmVk"}
    assert read(snake) == read({"candidates": [{"content": {"parts": [camel]}, "finishReason": "STOP"}]})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"candidates": [{}, {}]}, "2 candidates"),
        ({"candidates": [{"content": {"parts": ["x"]}}]}, "not an object"),
        ({"candidates": [{"content": {"parts": [{"functionResponse": {"name": "x"}}]}}]}, "a tool result"),
        ({"role": "king", "parts": []}, "role"),
        (gemini_response([{"functionCall": {"name": "x", "willContinue": True}}]), "in pieces"),
        (gemini_response([{"inlineData": {"data": "?"}}]), "base64"),
        ({"messageStart": {"role": "assistant"}}, "Deltas"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(value: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        read(value)


def test_messages_of_a2a_are_not_taken_for_gemini() -> None:
    with pytest.raises(InvalidInput):
        read({"kind": "message", "parts": [{"kind": "text", "text": "x"}]})


# Bedrock


def test_a_response_of_bedrock_is_an_assistant_message_with_its_usage_and_source() -> None:
    (draft,) = read(SAMPLES["bedrock"])
    assert draft.source == Source("bedrock", None, "req-1", "tool_use")
    assert draft.usage == Usage(100, 20, 64, 8)
    assert draft.tool_calls == (CallDraft("find", {"to": "é", "n": [1, 2]}, "a"), CallDraft("wait", {}, "b"))
    assert bodies(draft) == [
        {"type": "reasoningContent", **BEDROCK_CONTENT[0]},
        {"type": "reasoningContent", "reasoningContent": {"redactedContent": "+/8="}},
        Text("Wait, please."),
        {"around": {"type": "citationsContent", "citations": BEDROCK_CONTENT[3]["citationsContent"]["citations"]}},
        Text("Grass."),
    ]


def test_what_bedrock_ran_itself_is_kept_as_it_is() -> None:
    use = {"toolUse": {"toolUseId": "s", "name": "search", "input": {}, "type": "server_tool_use"}}
    result = {"toolResult": {"toolUseId": "s", "content": [{"text": "x"}], "type": "search_result"}}
    (draft,) = read(converse_response([use, result, {"hologram": {"bytes": b"x"}}, {"text": "So."}], "end_turn"))
    assert draft.tool_calls == ()
    kept = [{"type": "toolUse", **use}, {"type": "toolResult", **result}]
    assert bodies(draft) == [*kept, {"type": "hologram", "hologram": {"bytes": "eA=="}}, Text("So.")]


def test_results_of_bedrock_come_before_what_else_the_user_said() -> None:
    image = {"image": {"format": "png", "source": {"bytes": b"ABC"}}}
    results = [
        {"toolResult": {"toolUseId": "a", "content": [{"json": {"x": 1}}]}},
        {"toolResult": {"toolUseId": "b", "content": [{"text": "no"}, image], "status": "error"}},
        {"toolResult": {"toolUseId": "c", "content": []}},
    ]
    tool, user = read({"role": "user", "content": [{"text": "And?"}, {"cachePoint": {"type": "default"}}, *results]})
    assert tool.tool_results == (
        ResultDraft("a", {"x": 1}),
        ResultDraft("b", [Text("no"), InlineBytes("image", b"ABC", "image/png")], is_error=True),
        ResultDraft("c", ""),
    )
    assert user == MessageDraft(role="user", content=[Text("And?")])
    assert read_all([{"role": "user", "content": results}]) == (tool,)


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (
            {"document": {"format": "pdf", "name": "n", "source": {"bytes": b"ABC"}, "context": "c"}},
            [{"around": {"type": "document", "context": "c"}}, InlineBytes("file", b"ABC", "application/pdf", "n")],
        ),
        (
            {"document": {"name": "n", "source": {"text": "é"}}},
            [InlineBytes("file", "é".encode(), "text/plain", "n")],
        ),
        (
            {"guardContent": {"text": {"text": "x", "qualifiers": ["query"]}}},
            [{"around": {"type": "guardContent", "qualifiers": ["query"]}}, Text("x")],
        ),
        (
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/a.png"}}}},
            [{"type": "image", "image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/a.png"}}}}],
        ),
        (
            {"video": {"format": "mp4", "source": {"bytes": b"ABC"}}},
            [{"type": "video", "video": {"format": "mp4", "source": {"bytes": "QUJD"}}}],
        ),
    ],
)
def test_blocks_of_a_user_become_parts_where_there_are_any(block: dict[str, Any], parts: list[Any]) -> None:
    (draft,) = read({"role": "user", "content": [block]})
    assert bodies(draft) == parts


@pytest.mark.parametrize("content", [[{"text": "x", "image": {}}], ["x"], [{}], 7])
def test_a_reply_of_bedrock_that_cannot_be_read_is_refused(content: Any) -> None:
    with pytest.raises(InvalidArgument):
        read(converse_response(content))


# Streams

pieces = st.text(max_size=8)
gemini_parts = st.one_of(
    pieces.map(lambda text: {"text": text}),
    pieces.map(lambda text: {"text": text, "thought": True}),
    pieces.map(lambda text: {"text": text, "thoughtSignature": SIGNATURE}),
    st.sampled_from(GEMINI_PARTS[2:]),
)
bedrock_blocks = st.one_of(pieces.filter(bool).map(lambda text: {"text": text}), st.sampled_from(BEDROCK_CONTENT))
cuts = st.integers(1, 5)


@settings(max_examples=figure(100, 5_000))
@having(st.lists(gemini_parts, max_size=6), cuts)
def test_a_stream_of_gemini_reads_as_the_response_in_one_piece(parts: list[dict[str, Any]], size: int) -> None:
    whole = gemini_response(parts)
    deltas = collected(list(EVENTS["gemini"](whole, lambda text: _pieces(text, size))))
    (streamed,), (expected,) = read(deltas), read(whole)
    assert streamed.tool_calls == expected.tool_calls
    assert streamed.usage == expected.usage
    assert streamed.source == expected.source
    assert _joined(bodies(streamed)) == _joined(bodies(expected))
    assert deltas.text == "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))


@settings(max_examples=figure(100, 5_000))
@having(st.lists(bedrock_blocks, max_size=6), cuts)
def test_a_stream_of_bedrock_reads_as_the_response_in_one_piece(content: list[dict[str, Any]], size: int) -> None:
    whole = {**converse_response(content), "ResponseMetadata": {}}
    deltas = collected(list(EVENTS["bedrock"](whole, lambda text: _pieces(text, size))))
    assert read(deltas) == read(whole)


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _joined(content: list[Any]) -> list[Any]:
    """Texts that follow each other are one: pieces of a stream do not say where a part ends. A signature stays."""
    joined: list[Any] = []
    for at, part in enumerate(content):
        signed = at > 0 and isinstance(content[at - 1], dict) and "around" in content[at - 1]
        last = joined[-1] if joined else None
        if isinstance(part, Text) and isinstance(last, Text) and not signed:
            joined[-1] = Text(last.text + part.text)
        elif isinstance(part, dict) and isinstance(last, dict) and part.get("type") == last.get("type") == "thought":
            joined[-1] = {**last, "text": last["text"] + part["text"]}
        elif not (isinstance(part, dict) and part.get("type") == "thought" and not part["text"]):
            joined.append(part)
    return joined


@pytest.mark.parametrize("provider", EVENTS)
def test_any_beginning_of_a_stream_can_be_recorded(provider: str) -> None:
    events = sample(provider)
    untouched = copy.deepcopy(events)
    for count in range(1, len(events) + 1):
        deltas = collected(events[:count])
        (draft,) = read(deltas.partial())
        assert draft.role == "assistant"
        if not deltas.complete:
            assert draft.source is not None
            assert draft.source.stop == "partial"
            with pytest.raises(InvalidArgument, match="not complete"):
                deltas.response()
    assert events == untouched
    assert [len(read(collected(events[:count]).partial())[0].tool_calls) for count in (1, len(events))] == [0, 2]


@pytest.mark.parametrize("provider", EVENTS)
def test_reasoning_that_led_to_nothing_is_left_out(provider: str) -> None:
    count = 2 if provider == "gemini" else 4
    assert read(collected(sample(provider)[:count]).partial())[0].content == ()


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([{"throttlingException": {"message": "Too many"}}], "Too many"),
        ([{"modelStreamErrorException": {}}], "modelStreamErrorException"),
        ([{"error": {"code": 429, "message": "Quota"}}], "Quota"),
        ([sample("gemini")[0], sample("bedrock")[0]], "another kind of stream"),
        ([{"contentBlockStop": {"contentBlockIndex": 3}}], "did not start"),
        ([{"candidates": [{"index": 1, "content": {"parts": [{"text": "x"}]}}]}], "several candidates"),
        ([SAMPLES["bedrock"]], "record it directly"),
    ],
)
def test_an_event_that_reports_an_error_or_does_not_belong_is_refused(events: list[Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        collected(events)


def test_a_prompt_that_was_blocked_ends_its_stream() -> None:
    deltas = collected([{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 5}}])
    (draft,) = read(deltas)
    assert (draft.skipped, draft.usage) == ("content_filter", Usage(5))


AT = {"contentBlockIndex": 0}
ENDLESS: dict[str, dict[str, Any]] = {
    "gemini text": {"candidates": [{"content": {"parts": [{"text": "é" * 9}]}}]},
    "gemini calls": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "x"}}]}}]},
    "gemini signatures": {"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "AA=="}]}}]},
    "bedrock text": {"contentBlockDelta": {"delta": {"text": "x" * 9}, **AT}},
    "bedrock blocks": {"contentBlockStart": {"start": {}}},
    "bedrock input": {"contentBlockDelta": {"delta": {"toolUse": {"input": "["}}, **AT}},
    "bedrock reasoning": {"contentBlockDelta": {"delta": {"reasoningContent": {"text": "x"}}, **AT}},
    "bedrock redacted": {"contentBlockDelta": {"delta": {"reasoningContent": {"redactedContent": b"x"}}, **AT}},
    "bedrock citations": {"contentBlockDelta": {"delta": {"citation": {"title": "x"}}, **AT}},
    "bedrock results": {"contentBlockDelta": {"delta": {"toolResult": [{"text": "x"}]}, **AT}},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_stream_that_never_ends_is_refused_past_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAM_BYTES", 2_000)
    deltas = Deltas()
    with pytest.raises(TooLarge, match="STREAM_BYTES"):
        add_all(deltas, [ENDLESS[name]] * 4_000)
    read(deltas.partial())


# LiteLLM


def test_what_litellm_keeps_for_a_provider_is_kept_once() -> None:
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
    message = {
        "role": "assistant",
        "content": "Hi.",
        "thinking_blocks": thinking,
        "provider_specific_fields": {"thinking_blocks": thinking, "citations": None, "tool_results": [1]},
    }
    (draft,) = read({"object": "chat.completion", "choices": [{"index": 0, "message": message}]})
    kept = {"role": "assistant", "thinking_blocks": thinking, "provider_specific_fields": {"tool_results": [1]}}
    assert bodies(draft) == [{"around": kept}, Text("Hi.")]
    assert draft.content[0].issuer == "litellm"
    assert draft.metadata is None


def test_thinking_in_pieces_is_put_together() -> None:
    found = [
        {"type": "thinking", "thinking": "h"},
        {"type": "thinking", "thinking": "m", "signature": ""},
        {"type": "thinking", "thinking": "", "signature": "a"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "so", "signature": "b"},
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"thinking_blocks": [each]}}]} for each in found]
    chunks.append({"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]})
    reply = collected(chunks).response()["choices"][0]["message"]
    assert reply["thinking_blocks"] == [
        {"type": "thinking", "thinking": "hm", "signature": "a"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "thinking", "thinking": "so", "signature": "b"},
    ]


def test_a_start_behind_its_first_delta_loses_nothing() -> None:
    deltas = Deltas()
    for event in (
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": '{"a":'}}}},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": {"toolUseId": "t", "name": "find"}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"toolUse": {"input": "1}"}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"messageStop": {"stopReason": "tool_use"}},
    ):
        deltas.add(event)
    (draft,) = read(deltas)
    assert [(call.name, call.args) for call in draft.tool_calls] == [("find", {"a": 1})]
