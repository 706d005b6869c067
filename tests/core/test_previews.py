"""Previews: never longer than asked, always whole characters, and shown only where they save something."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import codec
from holdfast.core.history import previews
from holdfast.core.history.previews import (
    RESULT_TAIL,
    SAMPLE_HANDLE,
    Preview,
    Spooling,
    cut_ends,
    cut_start,
    detect_media_type,
    marker_line,
    outline_json,
    outline_json_start,
    preview_ends,
)
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body
from tests.support import figure

EXAMPLES = figure(30, 10_000)

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
leaves = scalars | texts | texts.map(lambda text: text * 40) | st.tuples(scalars | texts).map(lambda one: [*one] * 50)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=8) | st.dictionaries(texts, inner, max_size=8), max_leaves=15
)
structures = st.lists(values, max_size=8) | st.dictionaries(texts, values, max_size=8)


# The seed's own examples


def test_plan_spool_keeps_small_output_inline() -> None:
    assert previews.preview_text("small", Spooling(50, 16)) is None
    assert previews.preview_text("x" * 1_000, Spooling(0, 16)) is None  # threshold 0 disables spooling


def test_plan_spool_previews_large_output() -> None:
    output = "y" * 1_000
    preview = previews.preview_text(output, Spooling(100, 32))
    assert preview == ("y" * 32, 0)
    told = previews.show_body(Body(BlobRef("0" * 64, 1_000, "text/plain"), preview.text), "h12_0")
    assert told.startswith(preview.text)
    assert "1000 bytes total" in told
    assert "spooled" in told
    assert len(told) < len(output)


def test_plan_spool_truncates_on_char_boundary() -> None:
    preview = previews.preview_text("🚀" * 100, Spooling(50, 10))
    assert preview == ("🚀🚀", 0)
    assert "400 bytes total" in marker_line(400, 8, "h12_0")


# When something is spooled


@settings(max_examples=EXAMPLES)
@given(text=texts, times=st.integers(1, 60), threshold=st.integers(0, 1_000), preview=st.integers(0, 300))
def test_a_text_is_spooled_if_it_is_over_the_threshold_and_what_is_shown_is_shorter(
    text: str, times: int, threshold: int, preview: int
) -> None:
    text *= times
    size = len(text.encode())
    shown = previews.preview_text(text, Spooling(threshold, preview))
    if not 0 < threshold < size:
        assert shown is None
        return
    body = text.encode()
    outline = outline_json_start(body, preview)
    instead = Preview(outline) if outline is not None else cut_ends(body, body, size, preview, RESULT_TAIL)
    whole = len(previews.add_marker(*instead, size, SAMPLE_HANDLE).encode())
    assert shown == (instead if whole < size else None)


@settings(max_examples=EXAMPLES)
@given(value=values, threshold=st.integers(0, 500), preview=st.integers(0, 100))
def test_a_value_is_spooled_by_the_same_rule(value: Any, threshold: int, preview: int) -> None:
    size = len(codec.encode(value))
    shown = previews.preview_json(value, size, Spooling(threshold, preview))
    if not 0 < threshold < size:
        assert shown is None
    elif shown is None:
        instead = outline_json(value, preview)
        assert len(f"{instead}\n{marker_line(size, len(instead.encode()), SAMPLE_HANDLE)}".encode()) >= size
    else:
        assert shown == (outline_json(value, preview), 0)


@pytest.mark.parametrize("threshold", [0, limits.PAYLOAD_BYTES])
@pytest.mark.parametrize("text", ["x" * limits.PAYLOAD_BYTES, "é" * (limits.PAYLOAD_BYTES // 2), "\0" * (200 << 10)])
def test_what_the_log_cannot_hold_is_spooled_whatever_the_policy(text: str, threshold: int) -> None:
    assert previews.preview_text(text, Spooling(threshold)) is not None
    short = text[: (previews.EVENT_TEXT_BYTES // 6) - 1]
    assert previews.preview_text(short, Spooling(threshold)) is None
    assert len(codec.encode(short)) <= previews.EVENT_TEXT_BYTES
    assert previews.preview_json([text], len(codec.encode([text])), Spooling(threshold)) is not None


@settings(max_examples=EXAMPLES)
@given(threshold=st.integers(0, limits.PAYLOAD_BYTES), preview=st.integers(0, limits.SPOOL_BYTES))
def test_what_is_longer_than_enough_is_always_spooled(threshold: int, preview: int) -> None:
    spooling = Spooling(threshold, preview)
    shown = previews.preview_text("x" * (spooling.certain_bytes + 1), spooling)
    assert shown is not None
    assert preview - 2 <= len(shown.text.encode()) <= preview
    assert preview <= spooling.sample < spooling.certain_bytes <= limits.PAYLOAD_BYTES  # what is read ahead of a stream


# Texts


@settings(max_examples=EXAMPLES)
@given(text=texts, limit=st.integers(0, 100))
def test_a_preview_of_a_text_is_as_much_of_its_beginning_as_fits(text: str, limit: int) -> None:
    shown = cut_start(text, limit)
    assert text.startswith(shown)
    assert len(shown.encode()) <= limit
    assert shown == text or len((shown + text[len(shown)]).encode()) > limit
    assert cut_start(text.encode(), limit) == shown


@settings(max_examples=EXAMPLES)
@given(start=st.binary(max_size=200), limit=st.integers(0, 100))
def test_any_bytes_have_a_preview(start: bytes, limit: int) -> None:
    assert len(cut_start(start, limit).encode()) <= limit
    assert len(preview_ends(start, start, len(start), Spooling(preview=limit)).text.encode()) <= limit


def test_bytes_are_known_by_their_beginning_unless_they_are_text() -> None:
    known = {
        b"\x89PNG\r\n\x1a\n\0\0": "image/png",
        b"\xff\xd8\xff\xe0": "image/jpeg",
        b"GIF89a\xff": "image/gif",
        b"GIF87a\xff": "image/gif",
        b"RIFF\xff\xff\xff\xffWEBPVP8 ": "image/webp",
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3": "application/pdf",
        b"PK\x03\x04\xff": "application/zip",
        b"\x1f\x8b\x08\0": "application/gzip",
        b"\xff\xfe": None,
        b"": "text/plain",
        "é".encode(): "text/plain",
        b"GIF89a is what a file begins with": "text/plain",
    }
    assert {start: detect_media_type(start) for start in known} == known
    assert detect_media_type("é".encode()[:1]) == "text/plain"
    assert detect_media_type("é".encode()[:1], whole=True) is None


# JSON


@settings(max_examples=EXAMPLES)
@given(value=values, limit=st.integers(0, 400))
def test_an_outline_is_never_longer_than_asked_and_the_same_for_the_same_value(value: Any, limit: int) -> None:
    outline = outline_json(value, limit)
    assert len(outline.encode()) <= limit
    again = json.loads(codec.encode(value))
    assert outline_json(again, limit) == outline


@settings(max_examples=EXAMPLES)
@given(value=values)
def test_a_value_that_fits_is_shown_whole(value: Any) -> None:
    whole = json.dumps(value, ensure_ascii=False)
    outline = outline_json(value, 8 * len(whole.encode()) + 8)
    assert codec.decode(outline.encode(), object) == codec.decode(codec.encode(value), object)


@settings(max_examples=EXAMPLES)
@given(value=structures, limit=st.integers(0, 400), spaces=st.sampled_from([None, 1, 4]))
def test_the_whole_of_a_text_that_is_json_is_outlined_like_its_value(
    value: Any, limit: int, spaces: int | None
) -> None:
    ordered = json.loads(codec.encode(value))
    text = json.dumps(ordered, indent=spaces, ensure_ascii=spaces is None)
    assert outline_json_start(text.encode(), limit) == outline_json(ordered, limit)


@settings(max_examples=EXAMPLES)
@given(value=structures, data=st.data())
def test_the_beginning_of_json_is_outlined_wherever_it_is_cut(value: Any, data: st.DataObject) -> None:
    """What is shown of a beginning is JSON but for the marks where something is left out."""
    body = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode()
    start = body[: data.draw(st.integers(1, len(body)))]
    outline = outline_json_start(start, 10 * len(body) + 50)
    assert outline is not None
    assert outline[:1] == body[:1].decode()
    assert outline[-1:] == {"{": "}", "[": "]"}[outline[:1]]
    if start != body:
        assert "…" in outline


def test_an_outline_shows_keys_lengths_and_first_items() -> None:
    value: Any = {"rows": [{"n": number, "text": "x" * 900} for number in range(1_000)], "total": 1_000, "next": None}
    outline = outline_json(value, 400)
    for piece in ('"rows": [{"n": 0, "text": "xxx', "characters)", "more)]", '"total": 1000', '"next": null'):
        assert piece in outline
    assert '"n": 2' not in outline_json(value, 160)
    assert outline_json([[[[[[1]]]]], "x" * 99], 20).startswith("[[")
    shown = outline_json(list(range(1_000)), 40)
    numbers = shown.removeprefix("[").partition(", …")[0].split(", ")
    assert numbers == [str(number) for number in range(len(numbers))]
    assert shown.endswith(f"… (+{1_000 - len(numbers)} more)]")


def test_a_long_string_inside_the_beginning_of_json_is_shown() -> None:
    start = b'{"path": "notes.txt", "content": "' + b"word \\n" * 9_000
    outline = outline_json_start(start, 300)
    assert outline is not None
    assert outline.startswith('{"path": "notes.txt", "content": "word \\nword')
    assert outline.endswith('"…, …}')
    for half in ('["' + "x" * 50 + "\\ud83d", '["' + "x" * 50 + "\\u00", '["' + "x" * 50 + "\\"):
        assert outline_json_start(half.encode(), 100) == '["' + "x" * 50 + '"…, …]'


@pytest.mark.parametrize(
    "text",
    [
        "[INFO] started",
        '{"a": 1}\n{"a": 2}',
        "[1] a footnote",
        "{{template}}",
        "[" * 200,
        "}{",
        '{"a": 1]',
        "[,]",
        "12",
    ],
)
def test_what_is_not_json_is_shown_as_text(text: str) -> None:
    assert outline_json_start(text.encode(), 100) is None


def test_a_marker_tells_the_size_what_is_shown_and_how_to_read_it() -> None:
    line = marker_line(5_242_880, 2_048, "h12_0")
    assert line == (
        '[… tool result spooled: 5242880 bytes total, preview of 2048 bytes shown; read_handle("h12_0") reads all of it]'
    )
    assert marker_line(9_000, 20, "h1_0", tail=10) == (
        "[… tool result spooled: 9000 bytes total, the first 20 and the last 10 bytes shown; "
        'read_handle("h1_0") reads all of it]'
    )
    binary = previews.show_body(Body(BlobRef("0" * 64, 70_000, "image/png")), "h3_1", "text")
    assert binary == "[… text: 70000 bytes, binary (image/png); it cannot be shown as text]"
