"""A reply that arrives in pieces reads as it would have in one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given as having
from hypothesis import settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument, TooLarge
from holdfast.model.content import Text, Usage
from holdfast.providers import CallDraft, Deltas, read, streams
from tests.core import provider_examples as given

Events = Callable[[dict[str, Any], Callable[[str], list[str]]], Iterator[dict[str, Any]]]

EVENTS: dict[str, Events] = {
    "chat": given.chunks,
    "response": given.response_events,
    "anthropic": given.message_events,
}

text = st.text(max_size=20)
args = st.dictionaries(text, st.one_of(st.none(), st.booleans(), st.integers(-9, 9), text), max_size=3)
names = st.sampled_from(["find", "book"])


def ids(prefix: str) -> st.SearchStrategy[list[str]]:
    return st.integers(0, 3).map(lambda count: [f"{prefix}{number}" for number in range(count)])


@st.composite
def completions(draw: st.DrawFn) -> dict[str, Any]:
    calls = [
        {"id": call, "type": "function", "function": {"name": draw(names), "arguments": draw(spelled)}}
        for call in draw(ids("call_"))
    ]
    message = {
        "content": draw(st.none() | text),
        "refusal": draw(st.none() | text),
        "reasoning_content": draw(st.none() | text),
        "annotations": draw(st.lists(st.fixed_dictionaries({"type": st.just("url_citation")}), max_size=2)),
        "tool_calls": calls or None,
    }
    return given.chat_completion({key: value for key, value in message.items() if value is not None}, draw(names))


spelled = st.one_of(args.map(lambda value: json.dumps(value, ensure_ascii=False)), text)
citations = st.lists(st.fixed_dictionaries({"type": st.just("char_location"), "cited_text": text}), max_size=2)
blocks = st.lists(
    st.one_of(
        st.fixed_dictionaries({"type": st.just("text"), "text": text, "citations": citations | st.none()}),
        st.fixed_dictionaries({"type": st.just("thinking"), "thinking": text, "signature": text}),
        st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": text}),
        st.fixed_dictionaries({"type": st.just("tool_use"), "id": text, "name": names, "input": args}),
        st.fixed_dictionaries({"type": st.just("server_tool_use"), "id": text, "name": names, "input": args}),
        st.fixed_dictionaries({"type": st.just("web_search_tool_result"), "tool_use_id": text, "content": st.just([])}),
    ),
    max_size=5,
)
spoken = st.one_of(
    st.fixed_dictionaries({"type": st.just("output_text"), "text": text, "annotations": st.just([])}),
    st.fixed_dictionaries({"type": st.just("refusal"), "refusal": text}),
)
items = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("message"), "role": st.just("assistant"), "content": st.lists(spoken, max_size=3)}
        ),
        st.fixed_dictionaries({"type": st.just("reasoning"), "id": text, "encrypted_content": text}),
        st.fixed_dictionaries(
            {"type": st.just("function_call"), "id": text, "call_id": text, "name": names, "arguments": spelled}
        ),
    ),
    max_size=5,
)
REPLIES = {
    "chat": completions(),
    "response": st.builds(
        lambda output, status: given.response(output, status=status),
        items,
        st.sampled_from(["completed", "incomplete"]),
    ),
    "anthropic": st.builds(given.anthropic_message, blocks, names),
}


def splitter(draw: st.DataObject) -> Callable[[str], list[str]]:
    """Cuts a text anywhere between its code points, empty pieces included."""

    def split(whole: str) -> list[str]:
        cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
        return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    return split


def add_all(deltas: Deltas, events: Any) -> Deltas:
    for event in events:
        deltas.add(event)
    return deltas


def collected(events: Any) -> Deltas:
    return add_all(Deltas(), events)


def spoken_text(drafts: tuple[Any, ...]) -> str:
    return "".join(part.text for part in drafts[0].content if isinstance(part, Text))


@pytest.mark.parametrize("provider", EVENTS)
@settings(max_examples=150)
@having(st.data())
def test_pieces_add_up_to_the_whole_wherever_they_were_cut(provider: str, data: st.DataObject) -> None:
    whole = data.draw(REPLIES[provider])
    deltas = collected(EVENTS[provider](whole, splitter(data)))
    assert deltas.complete
    assert read(deltas) == read(deltas.partial()) == read(whole)
    assert deltas.text == spoken_text(read(whole))


@pytest.mark.parametrize("provider", EVENTS)
@settings(max_examples=150)
@having(st.data())
def test_a_stream_that_breaks_off_leaves_the_beginning_of_its_text_and_whole_calls(
    provider: str, data: st.DataObject
) -> None:
    whole = data.draw(REPLIES[provider])
    events = list(EVENTS[provider](whole, splitter(data)))
    deltas = collected(events[: data.draw(st.integers(1, len(events)))])
    (expected,) = read(whole)
    (found,) = read(deltas.partial())
    assert spoken_text((expected,)).startswith(deltas.text)
    assert deltas.text == spoken_text((found,))
    if not deltas.complete:
        assert found.source is not None
        reason = events[-2].get("delta", {}).get("stop_reason") if provider == "anthropic" else None
        assert found.source.stop in ("partial", reason), "the reason may have come before the end of the stream"
        calls = {(call.name, str(call.args)) for call in expected.tool_calls}
        assert {(call.name, str(call.args)) for call in found.tool_calls} <= calls
        with pytest.raises(InvalidArgument, match="not complete"):
            read(deltas)


CITED = {"type": "char_location", "cited_text": "c", "document_index": 0, "start_char_index": 0, "end_char_index": 1}
CALLS = [
    {"id": name, "type": "function", "function": {"name": "find", "arguments": '{"to": "é"}'}} for name in ("a", "b")
]
SAMPLES: dict[str, dict[str, Any]] = {
    "chat": given.chat_completion({"content": "Wait, please.", "tool_calls": CALLS}, "tool_calls"),
    "response": given.response(
        [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Wait, please.", "annotations": []}],
            },
            {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "find", "arguments": "{}"},
        ]
    ),
    "anthropic": given.anthropic_message(
        [
            {"type": "thinking", "thinking": "Well, hm.", "signature": "c2ln"},
            {"type": "text", "text": "Wait, please.", "citations": [CITED]},
            {"type": "tool_use", "id": "a", "name": "find", "input": {"to": "é", "n": [1, 2]}},
            {"type": "tool_use", "id": "b", "name": "wait", "input": {}},
        ],
        "tool_use",
    ),
}


def halves(whole: str) -> list[str]:
    return [whole[: len(whole) // 2], whole[len(whole) // 2 :]]


def sample(provider: str) -> list[dict[str, Any]]:
    return list(EVENTS[provider](SAMPLES[provider], halves))


def chat_stream(events: list[dict[str, Any]]) -> Any:
    return given.openai_client(events).chat.completions.create(model="gpt-x", messages=[], stream=True)


def response_stream(events: list[dict[str, Any]]) -> Any:
    return given.openai_client(events).responses.create(model="gpt-x", input="", stream=True)


def message_stream(events: list[dict[str, Any]]) -> Any:
    return given.anthropic_client(events).messages.create(model="claude-x", max_tokens=1, messages=[], stream=True)


STREAMS = {"chat": chat_stream, "response": response_stream, "anthropic": message_stream}


@pytest.mark.parametrize("provider", STREAMS)
def test_the_events_of_the_official_clients_add_up(provider: str) -> None:
    assert read(collected(STREAMS[provider](sample(provider)))) == read(SAMPLES[provider])


def chat_helper(events: list[dict[str, Any]]) -> Any:
    return given.openai_client(events).chat.completions.stream(model="gpt-x", messages=[])


def response_helper(events: list[dict[str, Any]]) -> Any:
    return given.openai_client(events).responses.stream(model="gpt-x", input="")


def message_helper(events: list[dict[str, Any]]) -> Any:
    return given.anthropic_client(events).messages.stream(model="claude-x", max_tokens=1, messages=[])


HELPERS = {
    "chat": (chat_helper, "get_final_completion"),
    "response": (response_helper, "get_final_response"),
    "anthropic": (message_helper, "get_final_message"),
}


@pytest.mark.parametrize("provider", HELPERS)
def test_the_stream_helpers_of_the_official_clients_add_up(provider: str) -> None:
    """Their own events repeat the text; the final reply that they put together reads the same."""
    helper, final = HELPERS[provider]
    with helper(sample(provider)) as stream:
        deltas = collected(stream)
        assert read(deltas) == read(getattr(stream, final)()) == read(SAMPLES[provider])


@pytest.mark.parametrize("provider", STREAMS)
def test_usage_comes_from_whatever_event_carries_it(provider: str) -> None:
    (draft,) = read(collected(sample(provider)))
    assert draft.usage == Usage(100, 20, 64, 8, 12)


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}], "Overloaded"),
        ([{"type": "error", "code": "x", "message": "Too slow", "sequence_number": 1}], "Too slow"),
        ([{"error": {"message": "No credit"}}], "No credit"),
        ([{"type": "response.failed", "response": {"error": {"message": "Broken"}}}], "Broken"),
        ([sample("chat")[0], sample("anthropic")[0]], "another kind of stream"),
        ([sample("anthropic")[0], sample("anthropic")[0]], "a second message"),
        ([{"type": "message_stop"}], "message_start"),
        ([sample("anthropic")[0], {"type": "content_block_stop", "index": 9}], "did not start"),
        ([{"choices": [{"index": 1, "delta": {"content": "x"}}]}], "several choices"),
        ([SAMPLES["chat"]], "record it directly"),
        ([SAMPLES["response"]], "record it directly"),
        ([SAMPLES["anthropic"]], "record it directly"),
        (["data: [DONE]"], "not an event"),
        ([None], "not an event"),
    ],
)
def test_an_event_that_reports_an_error_or_does_not_belong_is_refused(events: list[Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        collected(events)


def test_what_arrived_before_an_error_can_still_be_had() -> None:
    events = sample("anthropic")
    deltas = collected(events[:9])
    with pytest.raises(InvalidArgument, match="Overloaded"):
        deltas.add({"type": "error", "error": {"message": "Overloaded"}})
    (draft,) = read(deltas.partial())
    assert deltas.text == "Wait, "
    assert [type(part).__name__ for part in draft.content] == ["Opaque", "Text"]


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    for provider, count in (("anthropic", 7), ("response", 5)):
        (draft,) = read(collected(sample(provider)[:count]).partial())
        assert draft.content == ()


def test_events_of_unknown_types_are_passed_over() -> None:
    unknown = [{"type": "content_block_hologram", "index": 0}, {"type": "ping"}, {"type": "response.hologram"}, {}]
    for provider in STREAMS:
        mixed = [each for event in sample(provider) for each in (event, *unknown)]
        assert read(collected(mixed)) == read(SAMPLES[provider])


def test_nothing_is_nothing() -> None:
    deltas = Deltas()
    assert (deltas.text, deltas.complete) == ("", False)
    for take in (deltas.response, deltas.partial):
        with pytest.raises(InvalidArgument, match="no event"):
            take()


def chat_call(**piece: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": None}]}


@pytest.mark.parametrize("index", [{}, {"index": None}, {"index": 0}])
def test_calls_without_a_useful_index_are_told_apart_by_their_ids(index: dict[str, Any]) -> None:
    calls = [chat_call(**index, id=name, function={"name": "find", "arguments": "{}"}) for name in ("a", "b")]
    (draft,) = read(collected(calls).partial())
    assert draft.tool_calls == (CallDraft("find", {}, "a"), CallDraft("find", {}, "b"))


def test_a_name_that_is_repeated_in_every_piece_is_taken_once() -> None:
    calls = [chat_call(index=0, id="a", function={"name": "find", "arguments": piece}) for piece in ("{", "}")]
    (draft,) = read(collected(calls).partial())
    assert draft.tool_calls == (CallDraft("find", {}, "a"),)


def test_spoken_replies_add_up_too() -> None:
    pieces = [
        {"id": "audio_1", "transcript": "Wa"},
        {"data": "QU", "transcript": "it"},
        {"data": "JD", "expires_at": 9},
    ]
    events = [{"choices": [{"index": 0, "delta": {"audio": piece}}]} for piece in pieces]
    (draft,) = read(collected(events).partial())
    audio = {"id": "audio_1", "transcript": "Wait", "data": "QUJD", "expires_at": 9}
    assert given.bodies(draft) == [{"around": {"role": "assistant", "audio": audio}}]


def test_items_serve_where_the_last_event_leaves_the_output_empty() -> None:
    events = sample("response")
    events[-1] = {**events[-1], "response": {**SAMPLES["response"], "output": []}}
    assert read(collected(events)) == read(SAMPLES["response"])


def started(block: dict[str, Any], delta: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    return sample("anthropic")[0], start, {"type": "content_block_delta", "index": 0, "delta": delta}


TEXT = {"type": "text", "text": ""}
ENDLESS = {
    "chat text": (sample("chat")[0], {"choices": [{"index": 0, "delta": {"content": "é" * 99}}]}),
    "chat fields": (sample("chat")[0], {"choices": [{"index": 0, "delta": {"reasoning_details": [{"a": "b"}]}}]}),
    "chat audio": (sample("chat")[0], {"choices": [{"index": 0, "delta": {"audio": {"data": "AAAA"}}}]}),
    "chat calls": (chat_call(index=0, function={"arguments": "x" * 9}),),
    "responses text": ({"type": "response.output_text.delta", "delta": "x" * 9},),
    "responses items": ({"type": "response.output_item.done", "item": {"type": "reasoning"}},),
    "anthropic blocks": (*started(TEXT, {})[:1], {"type": "content_block_start", "content_block": TEXT}),
    "anthropic text": started(TEXT, {"type": "text_delta", "text": "x" * 9}),
    "anthropic thinking": started({"type": "thinking"}, {"type": "thinking_delta", "thinking": "x" * 9}),
    "anthropic signatures": started({"type": "thinking"}, {"type": "signature_delta", "signature": "x"}),
    "anthropic input": started({"type": "tool_use"}, {"type": "input_json_delta", "partial_json": "["}),
    "anthropic citations": started(TEXT, {"type": "citations_delta", "citation": {}}),
    "anthropic compaction": started({"type": "compaction"}, {"type": "compaction_delta", "content": "x"}),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_stream_that_never_ends_is_refused_past_the_bound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAM_BYTES", 2_000)
    *opening, repeated = ENDLESS[name]
    deltas = collected(opening)
    with pytest.raises(TooLarge, match="STREAM_BYTES"):
        add_all(deltas, [repeated] * 4_000)
    read(deltas.partial())


def test_the_events_themselves_are_left_as_they_were() -> None:
    for provider in STREAMS:
        events = sample(provider)
        copy = json.loads(json.dumps(events))
        collected(events).response()
        assert events == copy
