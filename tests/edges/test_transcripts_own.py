"""Transcripts of sessions that were recorded here: what Holdfast writes, it can read."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Image, Text, errors
from holdfast.model import limits
from holdfast.types import Body, Data, Opaque
from tests.edges.engines import EngineDesk, ManualClock
from tests.edges.transcripts import (
    HUGE,
    calls,
    export_lines,
    huge,
    payloads,
    results,
    texts,
    to_exact_json,
    values,
    write_lines,
)
from tests.property.store_tools import fast_folder
from tests.support import figure

_parts = st.lists(
    st.builds(Text, texts)
    | st.builds(Data, values)
    | st.builds(Text, huge)
    | st.builds(Data, st.lists(huge, min_size=1, max_size=1))
    | st.just(Image(url="https://example.org/a.png"))
    | st.just(Opaque("someone", "signed")),
    min_size=1,
    max_size=3,
).filter(lambda parts: parts != [Text("")] * len(parts))
_steps = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["user", "system", "assistant"]), _parts),
    st.tuples(
        st.just("call"), st.lists(st.none() | st.sampled_from(["a", "b", "c2_0", "c3_1"]), min_size=1, max_size=3)
    ),
    st.tuples(
        st.just("result"),
        st.integers(0, 2),
        values | _parts | st.binary(max_size=9) | st.none().map(lambda _: b"\xff" * 60_000),
    ),
    st.tuples(st.sampled_from(["close", "reset", "summarize", "erase"])),
)


def take(session: holdfast.Session, step: tuple[Any, ...]) -> None:
    """One step, if the session allows it."""
    match step:
        case ("say", role, parts):
            session.record(role, parts)
        case ("call", ids):
            session.record("assistant", "", tool_calls=[{"name": "look", "id": own} for own in ids])
        case ("result", which, value):
            known = [call for message in session.messages() for call in message.tool_calls]
            for call in known[which : which + 1]:
                session.result(call, value)
        case ("close",):
            session.close_calls("enough")
        case ("reset",):
            session.reset("anew")
        case ("summarize",):
            if draft := session.context.draft_summary(keep_turns=0):
                session.context.summarize(draft, "x")
        case ("erase",):
            session.erase([message.seq for message in session.messages(limit=1)], "asked to")


@settings(max_examples=figure(40, 5_000))
@given(st.lists(_steps, max_size=12))
def test_what_is_exported_of_any_session_can_be_imported_and_comes_out_equal(steps: list[tuple[Any, ...]]) -> None:
    with fast_folder() as folder, holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        for step in steps:
            with suppress(errors.Conflict, errors.InvalidInput):
                take(session, step)
        first = export_lines(engine, Path(folder, "first"))
        assert len(first) == sum(not each.erased for each in [*session.messages(), *session.evidence()])
        engine.admin.import_transcript(Path(folder, "first"), "again")
        assert to_exact_json(export_lines(engine, Path(folder, "second"), "again")) == to_exact_json(first)
        assert engine.admin.verify().ok


def parts_listed(line: dict[str, Any]) -> list[str]:
    return [part["type"] for part in line["content"]]


def test_bodies_are_written_out_as_far_as_a_line_goes(desk: EngineDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = desk.open("memory")
    session = engine.create_session("s")
    text = engine.blobs.put(HUGE.encode(), media_type="text/plain")
    loose = engine.blobs.put(b'{"b": 1, "a": 1.50}', media_type="application/json")
    noise = engine.blobs.put(b"\xff\xfe" * 100)
    session.record("user", Body(text))
    session.record("user", Body(loose))
    session.record("user", [Text("look:"), Body(text), Body(noise, "noise"), Image(engine.blobs.put(b"picture"))])
    whole, as_text, mixed = export_lines(engine, desk.folder / "out")
    assert whole["content"] == HUGE
    assert as_text["content"] == '{"b": 1, "a": 1.50}'
    assert parts_listed(mixed) == ["text", "text", "body", "image"]
    assert mixed["content"][1]["text"] == HUGE
    monkeypatch.setattr(limits, "EXPORT_LINE_BYTES", 10_000)
    lines = export_lines(engine, desk.folder / "out")
    assert [parts_listed(line) for line in (lines[0], lines[2])] == [["body"], ["text", "body", "body", "image"]]
    engine.admin.import_transcript(desk.folder / "out", "again")
    assert to_exact_json(export_lines(engine, desk.folder / "second", "again")) == to_exact_json(lines)


@pytest.mark.parametrize(
    "note",
    [
        "csv",
        {"file": "x.csv", "line": 3},
        {"line": "3"},
        {"line": 3},
        {"line": 3, "at": [7, 7], "results": [None, {"bare": True}], "calls": [None, None]},
        {"put": {"content": 1}, "drop": ["usage", "content"]},
    ],
)
def test_metadata_that_looks_like_that_of_an_import_does_no_harm(note: object, desk: EngineDesk) -> None:
    engine = desk.open("memory")
    session = engine.create_session("s")
    session.record_all([("user", "one"), ("user", "two")])
    for role in ("user", "assistant"):
        calls = [{"name": "look"}] if role == "assistant" else []
        reply = session.record(role, "three", tool_calls=calls, metadata={"import": note})
    session.result(reply.tool_calls[0], 1, metadata={"import": note})
    lines = export_lines(engine, desk.folder / "out")
    assert [line["role"] for line in lines] == ["user", "user", "user", "assistant", "tool"]
    engine.admin.import_transcript(desk.folder / "out", "again")
    assert to_exact_json(export_lines(engine, desk.folder / "second", "again")) == to_exact_json(lines)


def test_what_was_erased_is_not_exported_and_the_rest_of_its_line_is(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    lines = [{"role": "user", "content": "secret", "x": "secret"}, calls("a"), results(("z", 1), ("a", 2), at="noon")]
    session = engine.admin.import_transcript(write_lines(desk.folder / "in", lines), "s")
    secret, asked, answered = session.messages()
    [late] = session.evidence()
    session.erase([secret.seq, late.seq], "asked to")
    kept = results(("a", 2), at="noon")
    assert export_lines(engine, desk.folder / "out") == [lines[1], kept]
    assert b"secret" not in b"".join(filter(None, payloads(engine)))
    session.erase([asked.seq], "asked to")
    assert answered.seq not in {message.seq for message in session.messages() if not message.erased}
    assert export_lines(engine, desk.folder / "out") == []


def test_a_clock_that_is_far_off_keeps_nobody_from_exporting(desk: EngineDesk) -> None:
    engine = desk.open("memory", clock=ManualClock(2**40))
    engine.create_session("s").record("user", "hello")
    assert export_lines(engine, desk.folder / "out") == [{"role": "user", "content": "hello"}]


def test_what_was_said_in_frames_is_part_of_the_transcript(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    session = engine.create_session("s")
    session.record("user", "hello")
    with session.frame("look it up", budget=100) as frame:
        call = frame.record("assistant", "", tool_calls=[{"name": "look", "args": {"at": 1}}]).tool_calls[0]
        frame.run(call, lambda at: {"found": at})
        frame.record("assistant", "found it", usage=holdfast.Usage(5, 5))
    lines = export_lines(engine, desk.folder / "out")
    assert [line["role"] for line in lines] == ["user", "assistant", "tool", "assistant"]
    again = engine.admin.import_transcript(desk.folder / "out", "again")
    assert to_exact_json(export_lines(engine, desk.folder / "second", "again")) == to_exact_json(lines)
    assert again.frames.list() == []
