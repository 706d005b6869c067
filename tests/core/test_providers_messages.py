"""Messages as people keep them in their lists, as drafts."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given as having
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument, TooLarge
from holdfast.model import limits
from holdfast.model.content import Image, Opaque, Text, Usage
from holdfast.providers import CallDraft, InlineBytes, MessageDraft, ResultDraft, read
from tests.core.provider_examples import bodies

URL = "https://example.org/cat.png"
DATA_URL = "data:image/png;base64,QUJD"


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
@pytest.mark.parametrize("content", ["Hello.", ["Hello."], [{"type": "text", "text": "Hello."}], Text("Hello.")])
def test_a_message_of_text_is_one_draft(role: str, content: Any) -> None:
    assert read({"role": role, "content": content}) == (MessageDraft(role=role, content=[Text("Hello.")]),)


@having(st.sampled_from(["user", "system", "assistant", "tool", "other"]), st.text(max_size=5))
def test_a_bare_message_is_read_as_one_with_empty_fields(role: str, content: str) -> None:
    message = {"role": role, "content": content}
    assert read(message) == read(message | {"tool_calls": None, "tool_results": []})


def test_a_developer_speaks_as_the_system() -> None:
    assert read({"role": "developer", "content": "Be brief."}) == (
        MessageDraft(role="system", content=[Text("Be brief.")]),
    )


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}]])
def test_a_message_without_content_is_a_draft_without_content(content: Any) -> None:
    assert read({"role": "user", "content": content}) == (MessageDraft(role="user"),)
    assert read({"role": "user", "name": "ada", "content": content}) == (MessageDraft(role="user"),)
    assert read({"role": "user"}) == (MessageDraft(role="user"),)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "image_url", "image_url": {"url": URL}}, [Image(url=URL)]),
        ({"type": "image_url", "image_url": URL}, [Image(url=URL)]),
        ({"type": "image_url", "image_url": {"url": DATA_URL}}, [InlineBytes("image", b"ABC", "image/png")]),
        (
            {"type": "image_url", "image_url": {"url": URL, "detail": "low"}},
            [{"around": {"type": "image_url", "image_url": {"detail": "low"}}}, Image(url=URL)],
        ),
        (
            {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
            [{"around": {"type": "input_image", "detail": "auto"}}, InlineBytes("image", b"ABC", "image/png")],
        ),
        ({"type": "image", "source": {"type": "url", "url": URL}}, [Image(url=URL)]),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD", "filename": "a.pdf"}},
            [InlineBytes("file", b"ABC", "application/pdf", "a.pdf")],
        ),
        (
            {"type": "input_file", "file_data": "QUJD", "filename": "a.pdf", "prompt_cache_breakpoint": {}},
            [InlineBytes("file", b"ABC", None, "a.pdf")],
        ),
        ({"type": "file", "file": {"file_id": "file-1"}}, [{"type": "file", "file": {"file_id": "file-1"}}]),
        ({"type": "input_file", "file_url": URL}, [{"type": "input_file", "file_url": URL}]),
        ({"type": "input_image", "file_id": "f"}, [{"type": "input_image", "file_id": "f"}]),
        (
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
            [{"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}}],
        ),
        ({"type": "input_text", "text": "Hi"}, [Text("Hi")]),
    ],
)
def test_a_part_becomes_what_holdfast_has_for_it(block: dict[str, Any], expected: list[Any]) -> None:
    (draft,) = read({"role": "user", "content": [block]})
    assert bodies(draft) == expected


@having(st.binary(max_size=200), st.sampled_from(["image/png", "text/plain;charset=utf-8"]))
def test_a_data_url_comes_back_as_its_bytes(data: bytes, media_type: str) -> None:
    url = f"data:{media_type};base64,{base64.b64encode(data).decode()}"
    (draft,) = read({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]})
    assert draft.content == [InlineBytes("image", data, media_type)]


@pytest.mark.parametrize("data", ["QUJ", "QUJD\n", "QU-_", "QUJDé", "QQ=", "QR==", "QUJD=", "=", "QUI=QUJD", " QUJD"])
def test_base64_that_would_not_come_back_the_same_is_refused(data: str) -> None:
    with pytest.raises(InvalidArgument, match=r"not (canonical )?base64"):
        read({"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:;base64,{data}"}}]})


@pytest.mark.parametrize(
    "block",
    [
        {"type": "input_file", "file_data": "QUJD"},
        {"type": "document", "source": {"type": "text", "data": "abc"}},
        {"type": "document", "source": {"type": "base64", "data": "QUJD"}},
    ],
)
def test_a_file_past_the_bound_is_refused(block: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INLINE_BYTES", 2)
    with pytest.raises(TooLarge, match="INLINE_BYTES"):
        read({"role": "user", "content": [block]})


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("9:40", "9:40"),
        ("", ""),
        (None, ""),
        ({"at": "9:40"}, {"at": "9:40"}),
        ([1, 2], [1, 2]),
        ([], ""),
        ([{"type": "PushEvent"}], [{"type": "PushEvent"}]),
        ([{"type": "text", "text": "9:40"}], [Text("9:40")]),
    ],
)
def test_a_tool_message_is_a_result(content: Any, expected: Any) -> None:
    message = {"role": "tool", "tool_call_id": "call_1", "name": "find", "content": content}
    assert read(message) == (MessageDraft(role="tool", tool_results=(ResultDraft("call_1", expected),)),)


def test_an_output_item_is_a_result() -> None:
    image = {"type": "input_image", "image_url": URL}
    item = {"type": "function_call_output", "call_id": "call_1", "output": [image]}
    assert read(item) == (MessageDraft(role="tool", tool_results=(ResultDraft("call_1", [Image(url=URL)]),)),)
    patched = {"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed", "output": "no such file"}
    (draft,) = read(patched)
    (result,) = draft.tool_results
    assert result.is_error
    assert result.content[-1] == Text("no such file")


def test_our_own_form_is_taken_as_it_is() -> None:
    calls = [{"name": "find", "args": {"to": "LIS"}, "id": "x"}, {"name": "wait"}]
    (call,) = read({"role": "assistant", "tool_calls": calls, "usage": {"input_tokens": 3}, "metadata": {"a": 1}})
    expected = (CallDraft("find", {"to": "LIS"}, "x"), CallDraft("wait", {}))
    assert call == MessageDraft(role="assistant", tool_calls=expected, usage=Usage(3), metadata={"a": 1})
    results = [{"tool_call_id": "c2_0", "result": {"at": 1}}, {"tool_call_id": "x", "result": None, "is_error": True}]
    (tool,) = read({"role": "tool", "tool_results": results})
    assert tool.tool_results == (ResultDraft("c2_0", {"at": 1}), ResultDraft("x", None, is_error=True))


def test_what_people_keep_in_their_messages_becomes_metadata() -> None:
    (draft,) = read({"role": "user", "content": "Hi", "name": "ada", "sent": "9:40", "id": 7, "refusal": None})
    assert draft.metadata == {"sent": "9:40", "id": 7}
    assert bodies(draft) == [{"around": {"role": "user", "name": "ada"}}, Text("Hi")]


def test_a_block_of_a_type_that_nobody_knows_is_kept_where_its_issuer_is_known() -> None:
    new = {"type": "hologram", "beam": 1}
    with pytest.raises(InvalidArgument, match="hologram"):
        read({"role": "assistant", "content": [new]})
    known = {"type": "thinking", "thinking": "", "signature": "s"}
    (draft,) = read({"role": "assistant", "content": [new, known]})
    assert [part.issuer for part in draft.content if isinstance(part, Opaque)] == ["anthropic"] * 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "no `role`"),
        ({"type": "text", "text": "x"}, "not a message|not the type"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "Overloaded"),
        ({"error": "down"}, "down"),
        ({"object": "chat.completion.chunk", "choices": []}, "collect the events"),
        ({"type": "content_block_delta"}, "collect the events"),
        ({"type": "response.created"}, "collect the events"),
        ("text", "not a message|not the type"),
        (None, "not a message|not the type"),
        (7, "not a message|not the type"),
    ],
)
def test_what_is_no_message_is_refused_with_a_hint(value: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        read(value)
