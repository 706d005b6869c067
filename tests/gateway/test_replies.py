"""Replies read from copies of their bytes: any split gives the same reply, and the one that the official clients build."""

from __future__ import annotations

import gzip
import itertools
import json
import threading
import zlib
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.gateway.codings import BodyDecoder, Undecodable, decode_body, encode_body
from holdfast.gateway.replies import CollectedReply, EventSplitter, ReplyReader
from holdfast.providers.streams import STREAM_BYTES
from tests.gateway.raw_upstream import RawUpstream, answer_with, build_answer

TEXTS = ["Grüße ", "an 😀 ", "alle\u2028\r\n", "", "\\n\ttab"]
USAGE = {"input_tokens": 12, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0, "output_tokens": 1}


def anthropic_events() -> list[dict[str, Any]]:
    message: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": USAGE,
    }  # fmt: skip
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]

    def add(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> None:
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})

    add(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        *({"type": "thinking_delta", "thinking": text} for text in TEXTS),
        {"type": "signature_delta", "signature": "c2ln"},
    )
    add(1, {"type": "text", "text": ""}, *({"type": "text_delta", "text": text} for text in TEXTS))
    pieces = ['{"pa', 'th": "ü', '/x", "n": [1', ", 2]}"]
    add(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}},
        *({"type": "input_json_delta", "partial_json": piece} for piece in pieces),
    )
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 40},
        }
    )
    return [*events, {"type": "message_stop"}]


def chat_chunks() -> list[dict[str, Any]]:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x"}

    def chunk(delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": stop}]}

    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": text}) for text in TEXTS),
        chunk({"tool_calls": [call]}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in ('{"p":', ' "ü"}')),
        chunk({}, "tool_calls"),
        {**head, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
    ]


def responses_events() -> list[dict[str, Any]]:
    text = "".join(TEXTS)
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    call = {
        "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read", "arguments": '{"p":"ü"}',
        "status": "completed",
    }  # fmt: skip
    base = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-x", "output": [], "parallel_tool_calls": True,
        "tool_choice": "auto", "tools": [],
    }  # fmt: skip
    at = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    empty = {**part, "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**base, "status": "in_progress"}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "content": [], "status": "in_progress"},
        },
        {"type": "response.content_part.added", **at, "part": empty},
        *({"type": "response.output_text.delta", **at, "delta": each, "logprobs": []} for each in TEXTS),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**call, "arguments": "", "status": "in_progress"},
        },
        {"type": "response.output_item.done", "output_index": 1, "item": call},
        {"type": "response.completed", "response": {**base, "status": "completed", "output": [item, call]}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


STREAMS: dict[str, list[dict[str, Any]]] = {
    "anthropic": anthropic_events(),
    "chat": chat_chunks(),
    "responses": responses_events(),
}


def build_stream(dialect: str, line_end: str = "\n", *, is_odd: bool = False, is_escaped: bool = False) -> bytes:
    """A stream as a server sends it; an odd one has comments, ids, and data in several lines."""
    lines = ["\ufeff: hello", ""] if is_odd else []
    for event in STREAMS[dialect]:
        if "type" in event:
            lines.append(f"event: {event['type']}")
        data = json.dumps(event, ensure_ascii=is_escaped)
        if is_odd:
            first, comma, rest = data.partition(",")
            lines += ["id: 7", "retry:5", f"data:{first}{comma}", ": ping", f"data: {rest}", "", ": keep-alive", ""]
        else:
            lines += [f"data: {data}", ""]
    if dialect == "chat":
        lines += ["data: [DONE]", ""]
    return "".join(f"{line}{line_end}" for line in lines).encode()


def read_all(
    data: bytes, cuts: list[int], coding: str = "", kind: str = "text/event-stream; charset=utf-8"
) -> CollectedReply:
    reader = ReplyReader(kind, coding)
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    for start, end in itertools.pairwise(edges):
        reader.add(data[start:end])
    return reader.finish(has_ended=True)


CUTS = st.lists(st.integers(0, 1 << 20), max_size=40)
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
}


@given(
    dialect=st.sampled_from(list(STREAMS)),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    is_odd=st.booleans(),
    is_escaped=st.booleans(),
    has_end=st.booleans(),
    coding=st.sampled_from(list(ENCODERS)),
    cuts=CUTS,
)
@settings(max_examples=60)
def test_any_split_gives_the_same_reply(
    dialect: str, line_end: str, is_odd: bool, is_escaped: bool, has_end: bool, coding: str, cuts: list[int]
) -> None:
    expected = read_all(build_stream(dialect), [])
    assert expected.is_complete
    stream = build_stream(dialect, line_end, is_odd=is_odd, is_escaped=is_escaped)
    data = ENCODERS[coding](stream if has_end else stream.rstrip(b"\r\n"))
    assert read_all(data, cuts, coding) == expected
    reader = ReplyReader("text/event-stream", coding)
    for at in range(len(data)):
        reader.add(data[at : at + 1])
    assert reader.finish(has_ended=True) == expected


@given(dialect=st.sampled_from(list(STREAMS)), size=st.integers(0, 4_000), cuts=CUTS)
def test_any_part_of_a_stream_is_a_reply_or_none(dialect: str, size: int, cuts: list[int]) -> None:
    stream = build_stream(dialect)
    part = stream[:size]
    read = read_all(part, cuts)
    assert read == read_all(part, [])
    whole = read_all(stream, [])
    if not read.is_complete and read.reply is not None:
        assert json.dumps(read.reply)
    elif read.is_complete and dialect != "chat":  # there, the usage may still be on its way
        assert read == whole


@given(data=st.binary(max_size=300), kind=st.sampled_from(["text/event-stream", "application/json", "", "text/html"]))
def test_no_bytes_raise(data: bytes, kind: str) -> None:
    for coding in (*ENCODERS, "br", "odd", "gzip, br"):
        for has_ended in (True, False):
            reader = ReplyReader(kind, coding)
            reader.add(data)
            reader.add(b'\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n')
            assert reader.finish(has_ended=has_ended).is_complete in (True, False)


@pytest.mark.parametrize("dialect", STREAMS)
def test_half_a_character_loses_nothing_else(dialect: str) -> None:
    """Servers in JavaScript may cut a text between the halves of a character, which is no Unicode for most readers."""
    whole = read_all(build_stream(dialect), [])
    escaped = build_stream(dialect, is_escaped=True)
    for half, shown in (
        (r"\ud83d", "\ufffd"),
        (r"\ude00", "\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\\\ud83d", "\\\ufffd"),
    ):
        read = read_all(escaped.replace(rb"\ud83d\ude00", half.encode()), [])
        assert (read.is_complete, read.error) == (True, "")
        assert read.reply == json.loads(json.dumps(whole.reply).replace(r"\ud83d\ude00", json.dumps(shown)[1:-1]))
    raw = build_stream(dialect).replace("😀".encode(), b"\xed\xa0\xbd")
    assert read_all(raw, []).is_complete
    data = json.dumps(whole.reply).replace(r"\ude00", "").encode()
    assert read_all(data, [], "", "application/json").is_complete


def test_an_error_in_a_stream_keeps_what_came_before() -> None:
    head = build_stream("anthropic").partition(b"event: message_delta")[0]
    error = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    read = read_all(head + error, [])
    assert (read.is_complete, read.reply is not None) == (False, True)
    assert "Overloaded" in read.error


def test_a_reply_in_one_piece() -> None:
    reply = {"type": "message", "content": [{"type": "text", "text": "ü"}]}
    data = json.dumps(reply, ensure_ascii=False).encode()
    for kind in ("application/json", "application/json; charset=utf-8", "application/problem+json", ""):
        for coding, encode in ENCODERS.items():
            assert read_all(encode(data), [1, 5], coding, kind) == CollectedReply(reply, True)
    cut = ReplyReader("application/json", "")
    cut.add(data[:9])
    assert cut.finish(has_ended=False).reply is None
    assert read_all(data, [], "", "text/html").reply is None


def test_memory_is_bounded() -> None:
    for kind in ("application/json", "text/event-stream"):
        reader = ReplyReader(kind, "")
        for _ in range(STREAM_BYTES // (1 << 20) + 1):
            reader.add(b"x" * (1 << 20))
        assert reader.finish(has_ended=True)[:2] == (None, False)
        assert reader._body == b""
    bomb = ReplyReader("application/json", "gzip")
    bomb.add(gzip.compress(bytes(STREAM_BYTES + 1)))
    assert bomb.finish(has_ended=True).reply is None


@given(data=st.binary(max_size=2_000), cuts=CUTS)
def test_codings_go_both_ways(data: bytes, cuts: list[int]) -> None:
    for coding in ("gzip", "x-gzip", "deflate", "zstd"):
        encoded = encode_body(coding, data)
        assert encoded is not None
        assert encoded == encode_body(coding, data)
        assert decode_body(coding, encoded + encoded, 1 << 20) == data + data
        with pytest.raises(Undecodable):
            decode_body(coding, encoded[:-1], 1 << 20)
        if data:
            with pytest.raises(Undecodable):
                decode_body(coding, encoded, len(data) - 1)
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    assert decode_body("deflate", raw.compress(data) + raw.flush(), 1 << 20) == data
    assert encode_body("br", data) is None


def test_an_unknown_coding_is_refused() -> None:
    with pytest.raises(Undecodable):
        BodyDecoder("odd", 10)


def test_events_are_split_as_the_standard_says() -> None:
    splitter = EventSplitter()
    assert splitter.add(b"data\n\ndata: a\ndata:  b\nother: c\r\rdata:d\r\n") == [b"a\n b"]
    assert splitter.add(b"\r\n") == [b"d"]
    assert splitter.end() == []


class Served:
    """An upstream that answers with one stream."""

    def __init__(self, dialect: str) -> None:
        headers = "Content-Type: text/event-stream\r\n"
        answer = build_answer(build_stream(dialect), headers=headers, is_chunked=True)
        self.upstream = RawUpstream(answer_with(answer))

    def __enter__(self) -> str:
        return self.upstream.url

    def __exit__(self, *_error: object) -> None:
        self.upstream.close()


def test_the_reply_of_anthropic_is_that_of_its_client() -> None:
    reply = read_all(build_stream("anthropic"), []).reply
    with Served("anthropic") as url:
        client = anthropic.Anthropic(api_key="k", base_url=url, max_retries=0)
        with (
            client,
            client.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as stream,
        ):
            final = stream.get_final_message()
    built = anthropic.types.Message.model_validate(reply)
    assert built.model_dump(mode="json", exclude_none=True) == final.model_dump(mode="json", exclude_none=True)
    assert (built.stop_reason, built.usage.output_tokens) == ("tool_use", 40)


def test_the_reply_of_chat_is_that_of_its_client() -> None:
    reply = read_all(build_stream("chat"), []).reply
    assert reply is not None
    with Served("chat") as url:
        client = openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        with client, client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "x"}]) as stream:
            final = stream.get_final_completion()
    message, built = reply["choices"][0]["message"], final.choices[0].message
    assert message["content"] == built.content
    assert built.tool_calls is not None
    assert [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]
    ] == [(call.id, call.function.name, call.function.arguments) for call in built.tool_calls]
    assert reply["choices"][0]["finish_reason"] == final.choices[0].finish_reason
    assert final.usage is not None
    assert reply["usage"]["total_tokens"] == final.usage.total_tokens


def test_the_reply_of_responses_is_that_of_its_client() -> None:
    reply = read_all(build_stream("responses"), []).reply
    assert reply is not None
    with Served("responses") as url:
        client = openai.OpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0)
        with client, client.responses.stream(model="m", input="x") as stream:
            final = stream.get_final_response()
    built = openai.types.responses.Response.model_validate(reply)
    assert built.output_text == final.output_text
    assert [item.model_dump(exclude={"parsed_arguments", "content"}) for item in built.output] == [
        item.model_dump(exclude={"parsed_arguments", "content"}) for item in final.output
    ]


def test_a_reader_ends_in_another_thread() -> None:
    reader = ReplyReader("text/event-stream", "")
    reader.add(build_stream("anthropic"))
    found: list[CollectedReply] = []
    thread = threading.Thread(target=lambda: found.append(reader.finish(has_ended=True)))
    thread.start()
    thread.join()
    assert found[0].is_complete
