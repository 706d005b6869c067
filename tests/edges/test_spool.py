"""Spooling: what is over the threshold is kept whole in the blob store and shown by a preview, however it came in."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Engine, Message, Session, Text, errors
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.core.history import previews
from holdfast.core.history.previews import Spooling
from holdfast.model import limits
from holdfast.model.content import Part
from holdfast.types import Body, Data
from tests.edges.engines import EngineDesk
from tests.support import figure

EXAMPLES = figure(30, 3_000)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
structures = st.lists(texts | st.integers(0, 9), max_size=9) | st.dictionaries(
    texts, texts | st.integers(0, 9), max_size=9
)
bodies = st.builds(lambda text, times: text * times, texts, st.integers(1, 30)) | structures.map(json.dumps)


def _result(session: Session, value: Any) -> Message:
    call = session.record("assistant", None, tool_calls=[{"name": "cat"}]).tool_calls[0]
    return session.result(call, value)


def _part(message: Message) -> Part:
    [part] = message.tool_results[0].content
    return part


@settings(max_examples=EXAMPLES)
@given(text=bodies, threshold=st.integers(0, 400), preview=st.integers(0, 200), size=st.integers(1, 50))
def test_a_body_is_kept_the_same_however_it_came_in_and_is_read_back_whole(
    text: str, threshold: int, preview: int, size: int
) -> None:
    spooling = Spooling(threshold, preview)
    body = text.encode()
    with holdfast.open("memory:", spooling=spooling) as engine:
        session = engine.create_session("s")
        message = _result(session, text)
        part = _part(message)
        pieces = (body[at : at + size] for at in range(0, len(body), size))
        for way in (body, io.BytesIO(body), pieces):
            assert _part(_result(session, way)) == part
        shown = previews.preview_text(text, spooling)
        if shown is None:
            assert part == Text(text)
        else:
            assert isinstance(part, Body)
            assert ((part.preview, part.tail), part.ref.size, part.ref.media_type) == (shown, len(body), "text/plain")
            assert engine.blobs.read(part.ref) == body
            assert len(previews.show_body(part, f"h{message.seq}_0").encode()) < len(body)


@settings(max_examples=EXAMPLES)
@given(value=structures, threshold=st.integers(0, 100), preview=st.integers(0, 60))
def test_a_value_is_kept_whole_and_shown_by_its_structure(value: Any, threshold: int, preview: int) -> None:
    with holdfast.open("memory:", spooling=Spooling(threshold, preview)) as engine:
        part = _part(_result(engine.create_session("s"), value))
        if isinstance(part, Body):
            assert part.ref.size > threshold > 0
            assert part.preview == previews.outline_json(value, preview)
            assert json.loads(engine.blobs.read(part.ref)) == value
        else:
            assert part == Data(value)


def test_a_large_value_is_shown_by_its_structure_as_text_or_as_json(engine: Engine) -> None:
    session = engine.create_session("s")
    value = {"rows": [{"n": number, "text": "x" * 50} for number in range(2_000)], "total": 2_000}
    of_value, of_text = _part(_result(session, value)), _part(_result(session, json.dumps(value, indent=1)))
    assert isinstance(of_value, Body)
    assert isinstance(of_text, Body)
    assert (of_value.ref.media_type, of_text.ref.media_type) == ("application/json", "text/plain")
    assert '"total": 2000' in of_value.preview
    for part in (of_value, of_text):
        assert part.preview.startswith('{"rows": [{"n": 0, "text": "xxx')
        assert limits.PREVIEW_BYTES // 2 < len(part.preview.encode()) <= limits.PREVIEW_BYTES
    assert json.loads(engine.blobs.read(of_text.ref)) == value


def test_bytes_that_are_known_are_named_and_those_that_are_not_are_not(engine: Engine) -> None:
    session = engine.create_session("s")
    for start, kind in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\x1f\x8b\x08\xff", "application/gzip"),
        (b"\xfe", None),
    ):
        for body in (start, start + b"\xff" * 100_000):
            part = _part(_result(session, body))
            assert isinstance(part, Body)
            assert (part.ref.media_type, part.preview) == (kind, "")


@pytest.mark.parametrize("place", [previews.SAMPLE_BYTES + 1, limits.SPOOL_BYTES + 1, 99_999])
def test_what_a_body_is_does_not_depend_on_the_pieces_it_comes_in(place: int, engine: Engine) -> None:
    session = engine.create_session("s")
    body = b"x" * place + b"\xff" * 10
    kept = {
        _part(_result(session, way))
        for way in (body, iter([body]), (body[at : at + 99] for at in range(0, len(body), 99)))
    }
    assert len(kept) == 1


def test_what_is_counted_is_what_is_shown(engine: Engine) -> None:
    session = engine.create_session("s")
    counter = EstimatingCounter()
    for value in ("word " * 100_000, {"a": ["b" * 90_000]}, b"\xff" * 100_000):
        message = _result(session, value)
        part = _part(message)
        assert isinstance(part, Body)
        assert message.tokens == counter.count(previews.show_body(part, previews.SAMPLE_HANDLE))
        assert abs(message.tokens - counter.count(previews.show_body(part, f"h{message.seq}_0"))) <= 4


# The policy


@pytest.mark.parametrize("kind", ["memory", "sqlite awaited"])
def test_a_threshold_of_0_leaves_everything_in_the_log_but_what_it_cannot_hold(kind: str, desk: EngineDesk) -> None:
    session = desk.open(kind, spooling=Spooling(0)).create_session("s")
    assert _part(_result(session, "x" * 900_000)) == _part(_result(session, b"x" * 900_000)) == Text("x" * 900_000)
    assert _part(_result(session, ["x" * 900_000])) == Data(["x" * 900_000])
    for value in (
        "x" * limits.PAYLOAD_BYTES,
        b"x" * limits.PAYLOAD_BYTES,
        ["x" * limits.PAYLOAD_BYTES],
        "\0" * 250_000,
    ):
        part = _part(_result(session, value))
        assert isinstance(part, Body)
        assert 0 < len(part.preview.encode()) <= limits.PREVIEW_BYTES


@pytest.mark.parametrize("kind", ["sqlite", "memory awaited"])
def test_a_threshold_of_ones_own_holds_for_messages_and_handles_alike(kind: str, desk: EngineDesk) -> None:
    session = desk.open(kind, spooling=Spooling(1_000, 100)).create_session("s")
    text = "é" * 2_000
    frame = session.frame("look", budget=10)
    [said] = session.record("user", text).content
    handle = frame.handles.add("document", text)
    [kept] = frame.handles.parts(handle)
    assert _part(_result(session, text)) == kept
    assert isinstance(said, Body)
    assert isinstance(kept, Body)
    assert (said.preview, said.tail) == ("é" * 24 + "\n…\n" + "é" * 23, 23)
    assert (kept.preview, kept.tail) == ("é" * 32 + "\n…\n" + "é" * 15, 15)
    assert session.record("user", "é" * 500).content == (Text("é" * 500),)


_BAD: dict[str, tuple[type[errors.HoldfastError], object]] = {
    "another thing": (errors.InvalidArgument, 51_200),
    "below 0": (errors.InvalidNumber, Spooling(-1)),
    "no number": (errors.InvalidNumber, Spooling("many")),  # type: ignore[arg-type]
    "true": (errors.InvalidNumber, Spooling(True)),
    "more than the log holds": (errors.InvalidNumber, Spooling(limits.PAYLOAD_BYTES + 1)),
    "a preview below 0": (errors.InvalidNumber, Spooling(1, -1)),
    "a long preview": (errors.InvalidNumber, Spooling(1, limits.SPOOL_BYTES + 1)),
}


@pytest.mark.parametrize("case", _BAD)
def test_a_policy_that_cannot_be_meant_is_refused_before_anything_is_opened(case: str, desk: EngineDesk) -> None:
    kind, spooling = _BAD[case]
    path: Any = desk.folder / "agent.db"
    with pytest.raises(kind):
        holdfast.open(path, spooling=spooling)  # type: ignore[arg-type]
    with pytest.raises(kind):
        asyncio.run(holdfast.open_async(path, spooling=spooling))  # type: ignore[arg-type]
    assert not path.exists()
