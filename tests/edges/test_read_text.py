"""Reading back: any range is a piece of the whole, a search finds what is there, wherever the pieces of a body end."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from anthropic.types import ToolParam
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

import holdfast
from holdfast import File, Image, Session, Text, errors
from holdfast.core.history.previews import Spooling
from holdfast.flows.history import handle_text
from holdfast.model import limits
from holdfast.model.history.handles import HandleText
from holdfast.model.tools.tool import READ_HANDLE
from holdfast.types import Data, Opaque
from tests.edges.engines import LOCAL_KINDS, EngineDesk, expect_refusal
from tests.support import figure

EXAMPLES = figure(30, 3_000)


SHORT = Spooling(300, 20)
"""So that a few lines lie in the blob store already."""


NO_LIMIT = limits.PAYLOAD_BYTES


texts = st.lists(st.text("abAB ß🚀é\t\r", max_size=12), max_size=60).map("\n".join)


long_lines = st.lists(st.text("abAB ß🚀é", max_size=12) | st.sampled_from(["\n", " " * 40]), max_size=60).map("".join)


long_texts = st.builds(lambda text, times: text * times, texts, st.integers(1, 8))


def _kept(session: Session, value: Any) -> str:
    """The handle of a result."""
    call = session.record("assistant", None, tool_calls=[{"name": "cat"}]).tool_calls[0]
    return f"h{session.result(call, value).seq}_0"


@contextmanager
def _pieces_of(size: int) -> Iterator[None]:
    """Bodies come in pieces of so many bytes, and lines over that are long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BLOB_CHUNK_BYTES", size)
        yield


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """One for all examples: each adds a result."""
    with holdfast.open("memory:", spooling=SHORT) as engine:
        yield engine.create_session("s")


def _beginning_in(text: str, start: int, stop: int) -> str:
    at, found = 0, []
    for character in text:
        if start <= at < stop:
            found.append(character)
        at += len(character.encode())
    return "".join(found)


def _lines_of(text: str) -> list[str]:
    """With their ends."""
    return [line for line in re.split(r"(?<=\n)", text) if line]


# Bytes


@settings(max_examples=EXAMPLES)
@given(text=long_texts, size=st.integers(1, 40), data=st.data())
def test_a_range_of_bytes_has_the_characters_that_begin_in_it(
    session: Session, text: str, size: int, data: st.DataObject
) -> None:
    whole = len(text.encode())
    start = data.draw(st.integers(0, whole))
    stop = data.draw(st.integers(start, whole + 9))
    handle = _kept(session, text)
    with _pieces_of(size):
        found = session.handles.read(handle, start=start, stop=stop, limit=NO_LIMIT)
    assert found.text == _beginning_in(text, start, stop)
    assert text.encode()[found.start : found.stop].decode() == found.text
    assert found.size == whole
    assert (found.more == "") == (found.stop == whole)


@settings(max_examples=EXAMPLES)
@given(text=long_texts, size=st.integers(1, 40), limit=st.integers(64, 90), by_lines=st.booleans())
def test_reading_on_where_the_last_one_stopped_comes_to_the_whole(
    session: Session, text: str, size: int, limit: int, by_lines: bool
) -> None:
    handle = _kept(session, text)
    pieces: list[str] = []
    with _pieces_of(size):
        found = session.handles.read(handle, limit=limit)
        while True:
            pieces.append(found.text)
            assert len(found.text.encode()) <= limit
            if not found.more:
                break
            assert found.text
            place = re.match(r"(start|first_line)=(\d+) reads on", found.more)
            assert place
            by_lines = by_lines and text.encode()[: found.stop].endswith(b"\n")
            line = text.encode().count(b"\n", 0, found.stop) + 1
            how = {"first_line": line} if by_lines else {place[1]: int(place[2])}
            found = session.handles.read(handle, limit=limit, **how)
    assert "".join(pieces) == text


# Lines


@settings(max_examples=EXAMPLES)
@given(text=long_texts, size=st.integers(1, 40), limit=st.integers(64, 200) | st.just(NO_LIMIT), data=st.data())
def test_a_range_of_lines_is_these_lines_as_far_as_they_fit(
    session: Session, text: str, size: int, limit: int, data: st.DataObject
) -> None:
    lines = _lines_of(text)
    first = data.draw(st.integers(1, max(1, len(lines))))
    last = data.draw(st.none() | st.integers(first, len(lines) + 3))
    wanted = "".join(lines[first - 1 : last])
    handle = _kept(session, text)
    with _pieces_of(size):
        found = session.handles.read(handle, first_line=first, last_line=last, limit=limit)
    assert text.encode()[found.start : found.stop].decode() == found.text
    assert found.start == len("".join(lines[: first - 1]).encode())
    if len(wanted.encode()) <= limit:
        assert found.text == wanted
    else:
        assert wanted.startswith(found.text)
        assert found.text.endswith("\n") or len(lines[first - 1].encode()) > limit
        assert len(found.text.encode()) <= limit
    shown = _lines_of(found.text)
    assert found.lines == ((first, first + len(shown) - 1) if shown else None)


@settings(max_examples=EXAMPLES)
@given(text=texts, size=st.integers(1, 40), beyond=st.integers(1, 9))
def test_a_line_that_is_not_there_is_refused_with_the_last_one_that_is(
    session: Session, text: str, size: int, beyond: int
) -> None:
    lines = len(_lines_of(text))
    assume(lines or beyond > 1)
    handle = _kept(session, text)
    with _pieces_of(size), pytest.raises(errors.InvalidNumber) as refusal:
        session.handles.read(handle, first_line=lines + beyond)
    assert (refusal.value.low, refusal.value.high) == (1, max(1, lines))


# Searching

_ROW = re.compile(r"(\d+)(?: \(byte (\d+)\))?([:-]) (.*)", re.DOTALL)


def _having(text: str, wanted: str) -> list[int]:
    rows = text.removesuffix("\n").split("\n")
    return [number for number, row in enumerate(rows, 1) if wanted.casefold() in row.casefold()]


@settings(max_examples=EXAMPLES)
@given(text=long_lines | texts, size=st.integers(1, 40), wanted=st.text("abs ß🚀é", min_size=1, max_size=3))
def test_a_search_finds_exactly_the_lines_that_have_it(session: Session, text: str, size: int, wanted: str) -> None:
    handle = _kept(session, text)
    with _pieces_of(size):
        found = session.handles.read(handle, search=wanted, limit=NO_LIMIT)
    having = _having(text, wanted)
    assert found.matches == len(having)
    rows = [_ROW.fullmatch(row) for row in found.text.split("\n") if row not in ("--", "")]
    shown = [int(row[1]) for row in rows if row and row[3] == ":"]
    assert shown == having[: handle_text.MAX_MATCHES]
    assert (found.more == "") == (len(having) <= handle_text.MAX_MATCHES)
    for row in rows:
        assert row
        number, at, sign, told = row.groups()
        whole = text.split("\n")[int(number) - 1]
        if sign == "-":
            assert told == whole or (told.endswith("…") and whole.startswith(told[:-1]))
            assert any(abs(int(number) - each) <= handle_text.CONTEXT_LINES for each in having)
        elif at is None:
            assert told == whole
        else:  # a long line: what is found lies where it is told
            assert told.strip("…") in whole
            assert text.encode()[int(at) :].decode().casefold().find(wanted.casefold()) in (0, 1)


@pytest.mark.parametrize("kind", LOCAL_KINDS)
def test_what_lies_across_two_pieces_of_a_very_long_line_is_found_once(kind: str, desk: EngineDesk) -> None:
    session = desk.open(kind).create_session("s")
    for before in range(2 * limits.BLOB_CHUNK_BYTES - 24, 2 * limits.BLOB_CHUNK_BYTES + 4, 2):
        line = "é" * (before // 2) + "Needle" + "x" * limits.BLOB_CHUNK_BYTES + "needle"
        handle = _kept(session, f"first\n{line}\nlast\n")
        found = session.handles.read(handle, search="nEEDLE")
        assert found.matches == 1
        row = _ROW.fullmatch(found.text.split("\n")[1])
        assert row
        assert (row[1], int(row[2])) == ("2", len(f"first\n{'é' * (before // 2)}".encode()))
        assert "Needle" in row[4]
        assert found.text.split("\n")[0] == "1- first"
        assert found.text.split("\n")[-1] == "3- last"


def test_a_search_is_bounded_and_counts_what_it_does_not_show(session: Session) -> None:
    handle = _kept(session, "".join(f"row {number} {'x' * 300}\n" for number in range(500)))
    found = session.handles.read(handle, search="ROW", limit=2_000)
    assert len(found.text.encode()) <= 2_000
    assert found.matches == 500
    shown = sum(1 for row in found.text.split("\n") if ": row" in row)
    assert 0 < shown < 7
    assert found.more == f"{500 - shown} more lines match: search for more words, or first_line={shown + 1} reads on"


def test_a_very_long_line_counts_once_when_nothing_more_is_shown(session: Session) -> None:
    rest = "x" * limits.BLOB_CHUNK_BYTES
    handle = _kept(session, "a needle\n" * 30 + f"needle {rest} Needle {rest} needle {rest}\nneedle\nno\n" * 2)
    found = session.handles.read(handle, search="needle")
    assert found.matches == 34
    assert found.more.startswith(f"{34 - handle_text.MAX_MATCHES} more lines")


# What a handle stands for


def test_a_piece_of_a_message_is_read_by_its_number_its_results_first(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    calls = session.record("assistant", ["one", "two"], tool_calls=[{"name": "a"}, {"name": "b"}])
    assert [session.handles.read(f"h{calls.seq}_{number}").text for number in range(2)] == ["one", "two"]
    large = "".join(f"line {number}\n" for number in range(20_000))
    image = engine.blobs.put(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    first = session.result(calls.tool_calls[0], large)
    parts = [Text("a"), Data({"b": [1, 2]}), Image(image), Opaque("x", "y"), Image(url="https://example.org/i.png")]
    second = session.result(calls.tool_calls[1], parts)
    assert session.handles.read(f"h{first.seq}_0", first_line=19_999).text == "line 19998\nline 19999\n"
    assert session.handles.read(f"h{first.seq}_0", search="line 19999").matches == 1
    found = session.handles.read(f"h{second.seq}_0")
    assert found.text == 'a\n{"b":[1,2]}\n[image/png, 8 bytes]\nhttps://example.org/i.png'
    assert found == HandleText(
        handle=f"h{second.seq}_0", text=found.text, size=len(found.text), start=0, stop=found.stop
    )
    frame = session.frame("look", budget=10)
    handle = frame.handles.add("document", large.encode())
    for reader in (session, frame):
        assert reader.handles.read(handle, start=5, stop=6).text == "0"
        assert reader.handles.read(handle.id, first_line=2, last_line=2).text == "line 1\n"
    session.close_calls("enough")
    assert session.state().open_calls == ()


def test_a_late_result_is_read_like_any_other(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    call = session.record("assistant", None, tool_calls=[{"name": "a"}]).tool_calls[0]
    session.close_calls("no time")
    late = session.result(call, "at last")
    assert late.late
    assert session.handles.read(f"h{late.seq}_0").text == "at last"


def test_bytes_are_shown_as_digits_and_only_by_ranges(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    body = bytes(range(256)) * 500
    handle = _kept(session, body)
    file = session.record("user", [File(engine.blobs.put(b"GIF89a\xff", media_type="image/gif"), "x.gif")])
    found = session.handles.read(handle, start=250, stop=260)
    assert (found.text, found.is_binary) == (body[250:260].hex(), True)
    assert session.handles.read(f"h{file.seq}_0").text == b"GIF89a\xff".hex()
    pieces, at = [], 0
    while at < len(body):
        found = session.handles.read(handle, start=at, limit=40_000)
        assert len(found.text) <= 40_000
        pieces.append(bytes.fromhex(found.text))
        at = found.stop
    assert b"".join(pieces) == body
    for how in ({"search": "x"}, {"first_line": 1}):
        with expect_refusal(engine, errors.InvalidArgument):
            session.handles.read(handle, **how)


def test_a_text_that_is_none_further_on_is_read_with_marks_in_place(session: Session) -> None:
    body = b"line\n" * 20_000 + b"\xff\xfe needle\n" + b"\xff" * 200
    handle = _kept(session, body)
    found = session.handles.read(handle, start=100_000, limit=90)
    assert found.text.startswith("\ufffd\ufffd needle\n\ufffd")
    assert len(found.text.encode()) <= 90
    assert session.handles.read(handle, search="needle").text.endswith(
        "20001: \ufffd\ufffd needle\n20002- " + "\ufffd" * 200
    )
    assert session.handles.read(handle, first_line=20_001, last_line=20_001).lines == (20_001, 20_001)


# Refusals


def test_what_is_not_there_is_not_found(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    handle = _kept(session, "text")
    seq = int(handle[1:-2])
    for nowhere in ("h999_0", f"h{seq}_1", f"h{seq - 1}_0", "h1_0", f"h{seq}", "h999", "h" + "9" * 18 + "_0"):
        with expect_refusal(engine, errors.HandleNotFound, session="s", handle=nowhere):
            session.handles.read(nowhere)
    other = engine.create_session("t")
    with expect_refusal(engine, errors.HandleNotFound, session="t"):
        other.handles.read(handle)
    session.erase([seq], "asked to")
    with expect_refusal(engine, errors.HandleNotFound, session="s", handle=handle):
        session.handles.read(handle)
    session.destroy()
    with expect_refusal(engine, errors.SessionDestroyedError):
        session.handles.read(handle)


@pytest.mark.parametrize(
    "handle", ["", "x", "h", "h0_1", "h1_", "h1_x", "_1", "h1_01", "h1_-1", "h1_1_1", "\ud800", 5, None, b"h1_0"]
)
def test_what_is_no_handle_is_refused(handle: Any, engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    with expect_refusal(engine, errors.InvalidName, what="handle"):
        session.handles.read(handle)


_BAD: dict[str, tuple[type[errors.HoldfastError], dict[str, Any]]] = {
    "two ways": (errors.InvalidArgument, {"start": 0, "first_line": 1}),
    "three ways": (errors.InvalidArgument, {"stop": 1, "last_line": 1, "search": "x"}),
    "backwards": (errors.InvalidNumber, {"start": 3, "stop": 2}),
    "before the start": (errors.InvalidNumber, {"stop": -1}),
    "backwards from the end": (errors.InvalidNumber, {"start": -1, "stop": 2}),
    "lines backwards from the end": (errors.InvalidNumber, {"first_line": -1, "last_line": 0}),
    "far before the start": (errors.InvalidNumber, {"start": -(1 << 80)}),
    "beyond the end": (errors.InvalidNumber, {"start": 5}),
    "lines backwards": (errors.InvalidNumber, {"first_line": 3, "last_line": 2}),
    "line 0": (errors.InvalidNumber, {"first_line": 0}),
    "not whole": (errors.InvalidNumber, {"start": 1.5}),
    "true": (errors.InvalidNumber, {"start": True}),
    "text": (errors.InvalidNumber, {"last_line": "1"}),
    "huge": (errors.InvalidNumber, {"stop": 1 << 80}),
    "nothing to find": (errors.InvalidArgument, {"search": ""}),
    "two lines to find": (errors.InvalidArgument, {"search": "a\nb"}),
    "no text to find": (errors.InvalidText, {"search": 5}),
    "half a character to find": (errors.InvalidText, {"search": "\ud800"}),
    "much to find": (errors.TooLarge, {"search": "x" * (limits.BRIEF_BYTES + 1)}),
    "no room": (errors.InvalidNumber, {"limit": 0}),
    "too much room": (errors.InvalidNumber, {"limit": limits.PAYLOAD_BYTES + 1}),
}


@pytest.mark.parametrize("case", _BAD)
def test_what_cannot_be_meant_is_refused(case: str, engine: holdfast.Engine) -> None:
    kind, how = _BAD[case]
    session = engine.create_session("s")
    handle = _kept(session, "text")
    with expect_refusal(engine, kind):
        session.handles.read(handle, **how)


def test_a_providers_own_part_is_not_read(session: Session) -> None:
    message = session.record("assistant", [Opaque("anthropic", "signed"), "said"])
    with pytest.raises(errors.InvalidArgument, match="own part"):
        session.handles.read(f"h{message.seq}_0")
    assert session.handles.read(f"h{message.seq}_1").text == "said"


# The body itself


_TO_THE_END: tuple[dict[str, Any], ...] = (
    {"start": 999_000},
    {"first_line": 1, "limit": NO_LIMIT},
    {"last_line": 1, "limit": NO_LIMIT},
    {"search": "nowhere"},
)


@pytest.mark.parametrize(
    ("letters", "ways"), [(b"ab", _TO_THE_END), (b"\xfe\xff", _TO_THE_END[:1])], ids=["text", "bytes"]
)
def test_a_body_that_is_another_one_is_noticed_at_its_end(
    letters: bytes, ways: tuple[dict[str, Any], ...], desk: EngineDesk
) -> None:
    session = desk.open("sqlite").create_session("s")
    handles = [_kept(session, bytes([letter]) * 999_999 + b"\n") for letter in letters]
    one, two = sorted(desk.folder.rglob("*.zst"))
    os.replace(one, two)
    found = 0
    for handle in handles:
        for how in ({}, *ways):
            try:
                shown = session.handles.read(handle, **how)
            except (errors.StorageCorrupt, errors.BlobNotFound) as error:
                found += isinstance(error, errors.StorageCorrupt)
            else:
                assert shown.more  # the end was not reached
    assert found == len(ways)


@pytest.mark.parametrize(
    "how",
    [{"start": (16 << 20) - 20}, {"first_line": (1 << 20) - 1}, {"search": "nowhere"}, {"search": "line 0000000"}],
    ids=["bytes", "lines", "search", "search for what is there"],
)
def test_memory_does_not_depend_on_the_length_of_a_body(how: dict[str, Any], desk: EngineDesk) -> None:
    session = desk.open("sqlite").create_session("s")
    handle = _kept(
        session,
        (b"".join(b"line %010d\n" % number for number in range(at, at + 4_096)) for at in range(0, 1 << 20, 4_096)),
    )
    session.handles.read(handle, start=0, stop=9)
    tracemalloc.start()
    try:
        found = session.handles.read(handle, **how)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.size == 16 << 20
    assert peak < 6 << 20


# The tool


def _asked(session: Session, **arguments: Any) -> holdfast.ToolCall:
    return session.record("assistant", None, tool_calls=[{"name": "read_handle", "args": arguments}]).tool_calls[0]


def test_a_model_reads_with_the_tool_and_is_told_what_it_sees(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    handle = _kept(session, "".join(f"line {number}\n" for number in range(20_000)))
    for arguments, answer in (
        ({"start": 7, "stop": 14}, f"line 1\n[{handle}: bytes 7 to 14 of 208890; start=14 reads on]"),
        ({"first_line": 20_000}, f"line 19999\n[{handle}: lines 20000 to 20000, bytes 208879 to 208890 of 208890]"),
        ({"search": "LINE 19999"}, f"20000: line 19999\n[{handle}: 1 line matches; 208890 bytes in all]"),
        (
            {"start": "7", "stop": 14.0, "search": None},
            f"line 1\n[{handle}: bytes 7 to 14 of 208890; start=14 reads on]",
        ),
    ):
        frame = session.frame("look", budget=10)
        for held in (session, frame):
            call = _asked(held, handle=handle, **arguments)  # type: ignore[arg-type]
            message = held.run(call, held.handles.tool())
            assert message.tool_results[0].value.endswith(answer)  # type: ignore[union-attr]
            assert not message.tool_results[0].is_error
    whole = session.run(_asked(session, handle=f' "{handle}" '), session.handles.tool()).text
    assert whole.startswith("line 0\nline 1\n")
    assert handle_text.DEFAULT_BYTES < len(whole) < handle_text.DEFAULT_BYTES + 200


def test_what_the_tool_says_is_never_spooled_in_its_turn(desk: EngineDesk) -> None:
    for threshold in (600, 2_000, 17_000, 0):
        session = desk.open("memory", spooling=Spooling(threshold, 100)).create_session("s")
        handle = _kept(session, "x" * 2_000_000)
        for arguments in ({}, {"first_line": 1}, {"search": "x"}):
            message = session.run(_asked(session, handle=handle, **arguments), session.handles.tool())
            [part] = message.tool_results[0].content
            assert isinstance(part, Text)
            assert len(part.text) > 64


def test_what_is_wrong_with_the_arguments_is_told_to_the_model(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    handle = _kept(session, "text")
    for arguments, words in (
        ({}, "the handle is missing"),
        ({"handle": "h99_0"}, "there is no handle h99_0"),
        ({"handle": "nonsense"}, "'nonsense' is not a handle"),
        ({"handle": handle, "start": 9}, "start is 9; it must be a whole number from 0 to 4"),
        ({"handle": handle, "start": 1, "search": "x"}, "not several of these"),
        ({"handle": handle, "offset": 1}, "no argument 'offset': use handle, start, stop"),
        ({"handle": handle, "self": 1, "place": 2}, "no argument"),
    ):
        message = session.run(_asked(session, **arguments), session.handles.tool())
        [result] = message.tool_results
        assert str(result.value).startswith("Error: ")
        assert words in str(result.value)
        assert not result.is_error


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["h3_0", "h3", "7", "0x1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=EXAMPLES)
@given(
    arguments=st.dictionaries(st.sampled_from(sorted(READ_HANDLE.parameters["properties"])) | st.text(), _anything)
    | st.fixed_dictionaries({"handle": st.just("h3_0")}, optional=dict.fromkeys(["start", "last_line"], _anything))
)
def test_whatever_a_model_writes_it_gets_an_answer(session: Session, arguments: dict[str, Any]) -> None:
    if not session.messages():
        _kept(session, "text")
    answer = session.handles.tool()(**arguments)
    assert answer.startswith("Error: ") or answer.endswith("]")
    answer.encode()


def test_the_tool_is_described_as_each_provider_wants_it() -> None:
    made = {
        ChatCompletionFunctionToolParam: READ_HANDLE.openai(),
        FunctionToolParam: READ_HANDLE.openai_responses(),
        ToolParam: READ_HANDLE.anthropic(),
    }
    for kind, definition in made.items():
        assert TypeAdapter(kind).validate_python(definition, strict=True) == definition
    schemas = [made[ChatCompletionFunctionToolParam]["function"]["parameters"], made[FunctionToolParam]["parameters"]]
    assert schemas == [READ_HANDLE.parameters] * 2
    assert made[ToolParam]["input_schema"] == READ_HANDLE.parameters
    taken = set(inspect.signature(handle_text.read_text).parameters) - {"context", "limit"}
    assert set(READ_HANDLE.parameters["properties"]) == taken


def test_the_description_of_the_tool_has_the_same_bytes_always() -> None:
    """A change to it costs every user the cache of their prompts: it is made on purpose, or not at all."""
    ways = (READ_HANDLE.openai, READ_HANDLE.openai_responses, READ_HANDLE.anthropic)
    before = [json.dumps(way()) for way in ways]
    READ_HANDLE.openai()["function"]["parameters"]["properties"].clear()
    READ_HANDLE.anthropic()["input_schema"].clear()
    assert [json.dumps(way()) for way in ways] == before
    assert hashlib.sha256("\n".join(before).encode()).hexdigest()[:16] == "d68309336f8cce59"
