"""Transcripts of other systems: what goes in comes out equal, or is refused before anything is stored."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.model import limits
from holdfast.model.log import Append, AppendResult
from holdfast.ports import EventStore
from tests.edges.engines import EngineDesk, contents, log_of, replace_store, store_of
from tests.edges.transcripts import (
    HUGE,
    USAGE,
    Lines,
    calls,
    export_lines,
    payloads,
    results,
    to_exact_json,
    write_lines,
)
from tests.edges.transcripts import lines as any_lines
from tests.property.store_tools import fast_folder
from tests.support import figure


def check_pairs(session: holdfast.Session) -> None:
    """No view has a call without its result, or the reverse."""
    for unit in session.context.window(tokens=1 << 30).groups:
        calls = [call.id for message in unit.messages for call in message.tool_calls]
        results = [result.tool_call_id for message in unit.messages for result in message.tool_results]
        assert sorted(calls) == sorted(results)


def go_on(session: holdfast.Session) -> None:
    session.close_calls("the transcript ends here")
    reply = session.record("assistant", "where were we?", tool_calls=[{"name": "look", "args": {}}])
    session.result(reply.tool_calls[0], "here")
    session.record("user", "go on")


@settings(max_examples=figure(30, 5_000))
@given(st.lists(any_lines, max_size=8), st.sampled_from([1, 2, 100]))
@example([{"role": "tool", "tool_results": [{"tool_call_id": "c2_0"}]}], 100)
def test_any_transcript_comes_out_as_it_went_in_and_can_be_gone_on_with(lines: Lines, batch: int) -> None:
    with fast_folder() as folder, holdfast.open("memory:") as engine, pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.runtime.transcripts._BATCH_MESSAGES", batch)
        source, target = Path(folder, "in"), Path(folder, "out")
        session = engine.admin.import_transcript(write_lines(source, lines), "s")
        assert to_exact_json(export_lines(engine, target)) == to_exact_json(lines)
        assert engine.admin.verify().ok
        check_pairs(session)
        version = session.state().version
        engine.admin.import_transcript(source, "s")
        assert session.state().version == version, "nothing twice"
        go_on(session)
        check_pairs(session)
        assert to_exact_json(export_lines(engine, target)[: len(lines)]) == to_exact_json(lines)
        assert engine.admin.verify().ok


@settings(max_examples=figure(15, 1_000))
@given(
    lines=st.lists(any_lines, max_size=4),
    blanks=st.lists(st.sampled_from([b"", b" \t", b"\r"]), min_size=5, max_size=5),
    end=st.sampled_from([b"\n", b"\r\n", b"\n\n"]),
    last=st.sampled_from([b"", b"\n", b" "]),
    start=st.sampled_from([b"", b"\xef\xbb\xbf"]),
    ascii_only=st.booleans(),
)
def test_the_form_of_the_file_does_not_matter(
    lines: Lines, blanks: list[bytes], end: bytes, last: bytes, start: bytes, ascii_only: bool
) -> None:
    """A byte order mark, other ends of lines, blank lines, none at the end, spaces, escapes."""
    texts = [json.dumps(line, ensure_ascii=ascii_only, indent=None).encode() for line in lines]
    pieces = [piece for pair in zip(blanks, texts, strict=False) for piece in pair]
    with fast_folder() as folder, holdfast.open("memory:") as engine:
        source = Path(folder, "in")
        source.write_bytes(start + end.join(pieces) + last)
        engine.admin.import_transcript(source, "s")
        assert to_exact_json(export_lines(engine, Path(folder, "out"))) == to_exact_json(lines)


# What becomes of what

CASES: dict[str, tuple[Lines, list[str], list[str]]] = {
    "a result without a call": ([results(("x", 1))], [], ["no such call"]),
    "a result before its call": (
        [results(("a", 1)), calls("a"), results(("a", 2))],
        ["assistant a", "tool a=2"],
        ["no such call"],
    ),
    "results in another order than the calls": (
        [calls("a", "b"), results(("b", 1)), results(("a", 2))],
        ["assistant a b", "tool b=1", "tool a=2"],
        [],
    ),
    "an early result and a late one on one line": (
        [calls("a"), results(("a", 1)), calls("b"), results(("a", 2), ("b", 3), ("z", 4))],
        ["assistant a", "tool a=1", "assistant b", "tool b=3"],
        ["the call had its result", "no such call"],
    ),
    "a call that nobody answers": (
        [calls("a"), {"role": "assistant", "content": "well"}],
        ["assistant a", "tool a=No result: the log has none", "assistant"],
        [],
    ),
    "a user who speaks while a call waits": (
        [calls("a"), {"role": "user", "content": "hurry"}, results(("a", 1))],
        ["assistant a", "user", "tool a=1"],
        [],
    ),
    "one id for two calls of a message": (
        [calls("a", "a"), results(("a", 1), ("a", 2))],
        ["assistant a line-1-1", "tool a=1 line-1-1=2"],
        [],
    ),
    "an id that is used again": (
        [calls("a"), results(("a", 1)), calls("a"), results(("a", 2))],
        ["assistant a", "tool a=1", "assistant a", "tool a=2"],
        [],
    ),
    "ids that look like the session's own": (
        [calls("c2_1", "c2_0"), results(("c2_0", 1), ("c2_1", 2))],
        ["assistant line-1-0 line-1-1", "tool line-1-1=1 line-1-0=2"],
        [],
    ),
    "calls without ids": (
        [calls(None, None), results((None, 1)), results((None, 2))],
        ["assistant line-1-0 line-1-1", "tool line-1-0=1", "tool line-1-1=2"],
        [],
    ),
    "results on the user's line": (
        [calls("a"), results(("a", 1), role="user", content="and then?")],
        ["assistant a", "tool a=1", "user"],
        [],
    ),
    "results on the line of their calls": (
        [calls("a", content="let me see") | {"tool_results": results(("a", 1))["tool_results"]}],
        ["assistant a", "tool a=1"],
        [],
    ),
    "calls whose ids are made up for others": (
        [calls("line-1-1", 5), results(("line-1-1~2", 1), ("line-1-1", 2)), results((5, 3))],
        ["assistant line-1-1 line-1-1~2", "tool line-1-1=2", "tool line-1-1~2=3"],
        ["no such call"],
    ),
    "an empty message while a call waits": (
        [calls(5), {"role": "assistant", "content": ""}, results((5, 1))],
        ["assistant line-1-0", "tool line-1-0=1"],
        ["the message is empty"],
    ),
    "an empty message that was paid for": (
        [{"role": "assistant", "content": "", "usage": dict.fromkeys(USAGE, 7)}],
        [],
        ["the message is empty"],
    ),
    "errors that are no truth values": (
        [calls("a", "b"), *(results(("a", 1), is_error=value) for value in (0, 1, 1.0, None, "true"))],
        ["assistant a b", "tool a=1"],
        ["the call had its result"] * 4,
    ),
    "a tool's line without results": ([{"role": "tool", "content": "42"}], [], ["no tool call goes with it"]),
}


@pytest.mark.parametrize("name", CASES)
def test_what_breaks_the_rules_of_a_session_is_kept_beside_it(name: str, desk: EngineDesk) -> None:
    lines, transcript, evidence = CASES[name]
    engine = desk.open("memory")
    session = engine.admin.import_transcript(write_lines(desk.folder / "in", lines), "s")
    shown = []
    own: dict[str, str] = {}
    for message in session.messages():
        own |= {call.id: str(call.provider_id) for call in message.tool_calls}
        answers = [f"{own[each.tool_call_id]}={each.value}" for each in message.tool_results]
        shown.append(" ".join([str(message.role), *(own[call.id] for call in message.tool_calls), *answers]))
    assert shown == transcript
    assert [message.late for message in session.evidence()] == evidence
    assert to_exact_json(export_lines(engine, desk.folder / "out")) == to_exact_json(lines)


def test_a_transcript_is_taken_in_and_given_back_by_every_engine(engine: holdfast.Engine, desk: EngineDesk) -> None:
    lines = [*calls_and_results(250), {"role": "user", "content": HUGE}]
    session = engine.admin.import_transcript(
        write_lines(desk.folder / "in", lines), "s", metadata={"from": "elsewhere"}
    )
    assert session.state().metadata == {"from": "elsewhere"}
    assert session.messages(limit=1)[0].content[0].ref.size == len(HUGE.encode())  # type: ignore[union-attr]
    assert to_exact_json(export_lines(engine, desk.folder / "out")) == to_exact_json(lines)
    assert engine.admin.verify().ok


def calls_and_results(count: int) -> Lines:
    lines: Lines = []
    for number in range(count):
        lines += [calls(number, content=f"step {number}", usage={"input_tokens": number}), results((number, "done"))]
    return lines


def test_an_empty_file_is_a_session_without_messages(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    assert engine.admin.import_transcript(write_lines(desk.folder / "in", []), "s").state().messages == 0
    assert export_lines(engine, desk.folder / "out") == []


# Refusals

DEEP: Any = "bottom"
for _ in range(limits.JSON_DEPTH + 1):
    DEEP = [DEEP]

REFUSED: dict[str, bytes] = {
    "no JSON": b"role: user",
    "cut off": b'{"role": "user", "content": "x',
    "two on one line": b'{"role": "user"} {"role": "user"}',
    "a list": b'[{"role": "user"}]',
    "no text": b'{"role": "user", "content": "\xff"}',
    "half a character": b'{"role": "user", "content": "\\ud800"}',
    "no role": b'{"content": "x"}',
    "a role that is no text": b'{"role": 1}',
    "a role that nobody knows": b'{"role": "oracle", "content": "x"}',
    "a key twice": b'{"role": "user", "content": "a", "content": "b"}',
    "a key twice, deep inside": b'{"role": "user", "x": [{"\\"a:": 1, "\\"a:": 1}]}',
    "a key twice, in two spellings": b'{"role": "user", "a": 1, "\\u0061": 2}',
    "a number too large for any": b'{"role": "user", "content": 1e999}',
    "no number": b'{"role": "user", "content": NaN}',
    **{
        f"{what} of {where}": json.dumps({"role": "assistant", **line}).encode()
        for what, value in {"a huge number": 2**64, "depth": DEEP}.items()
        for where, line in {
            "content": {"content": value},
            "something else": {"x": value},
            "arguments": {"tool_calls": [{"name": "x", "args": {"x": value}}]},
            "an id": {"tool_calls": [{"name": "x", "id": value}]},
            "a result": {"tool_results": [{"result": value}]},
            "usage": {"content": "x", "usage": {"input_tokens": value}},
        }.items()
    },
    "depth beyond all measure": b'{"role": "user", "content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "arguments too large": json.dumps(calls("a") | {"tool_calls": [{"args": "x" * limits.PAYLOAD_BYTES}]}).encode(),
    "something else too large": json.dumps({"role": "user", "x": "x" * limits.PAYLOAD_BYTES}).encode(),
    "too many calls": json.dumps(calls(*range(limits.MESSAGE_CALLS + 1))).encode(),
    "too many results": json.dumps(results(*((n, n) for n in range(limits.MESSAGE_CALLS + 1)))).encode(),
    "too long": b'{"role": "user", "content": "' + b"x" * limits.EXPORT_LINE_BYTES + b'"}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_exactly_is_refused_by_its_line_and_nothing_is_stored(name: str, desk: EngineDesk) -> None:
    engine = desk.open("memory")
    engine.create_session("before").record("user", HUGE)
    before = contents(engine)
    source = write_lines(desk.folder / "in", [*calls_and_results(60), {"role": "user", "content": HUGE}])
    good = source.read_bytes()
    source.write_bytes(good + b"\n" + REFUSED[name] + b"\n" + good)
    with pytest.raises(errors.ImportRefused) as refusal:
        engine.admin.import_transcript(source, "s")
    assert refusal.value.line == 123
    assert contents(engine) == before


def test_more_system_messages_than_a_session_takes_are_refused_before_any_is_stored(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    lines = [{"role": "system", "content": "x"}] * (limits.PINNED_MESSAGES + 1)
    with pytest.raises(errors.ImportRefused) as refusal:
        engine.admin.import_transcript(write_lines(desk.folder / "in", lines), "s")
    assert refusal.value.line == limits.PINNED_MESSAGES + 1
    assert log_of(engine) == []


def test_a_line_that_would_not_come_out_as_it_went_in_is_refused(
    desk: EngineDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = desk.open("memory")
    monkeypatch.setattr("holdfast.runtime.transcripts.join_parts", lambda _: {"role": "user", "content": 1.0})
    source = write_lines(desk.folder / "in", [{"role": "user", "content": 1.0}, {"role": "user", "content": 1}])
    with pytest.raises(errors.ImportRefused) as refusal:
        engine.admin.import_transcript(source, "s")
    assert refusal.value.line == 2
    assert log_of(engine) == []


def test_a_file_that_cannot_be_read_is_a_typed_error(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    for source in (desk.folder / "absent", desk.folder):
        with pytest.raises(errors.StorageUnavailable):
            engine.admin.import_transcript(source, "s")
    with pytest.raises(errors.SessionNotFound):
        engine.admin.export_transcript(desk.folder / "out", "s")
    assert not list(desk.folder.glob("out*"))


# Interruptions


class Interrupted:
    """A store that does something instead of its nth append, or right after it."""

    def __init__(self, inner: EventStore, left: int, when: Literal["before", "after"]) -> None:
        self._inner = inner
        self._left = left
        self._when = when

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, append: Append) -> AppendResult:
        self._left -= 1
        if self._left == 0 and self._when == "before":
            raise KeyboardInterrupt
        appended = self._inner.append(append)
        if self._left == 0:
            raise KeyboardInterrupt
        return appended


LONG: Lines = [*calls_and_results(150), {"role": "user", "content": HUGE}, calls("a", "b"), results(("b", 1))]
"""Five appends: the session, and four batches."""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5])
def test_an_interrupted_import_goes_on_where_it_was(
    nth: int, when: Literal["before", "after"], desk: EngineDesk, tmp_path: Path
) -> None:
    source = write_lines(tmp_path / "in", LONG)
    other = desk.open("memory")
    other.admin.import_transcript(source, "s")
    engine = desk.open("memory")
    dying = cast("EventStore", Interrupted(store_of(engine), nth, when))
    with replace_store(engine, dying), pytest.raises(KeyboardInterrupt):
        engine.admin.import_transcript(source, "s")
    assert len(payloads(engine)) < len(payloads(other)) or (nth, when) == (5, "after")
    engine.admin.import_transcript(source, "s")
    assert payloads(engine) == payloads(other)
    assert to_exact_json(export_lines(engine, tmp_path / "out")) == to_exact_json(LONG)


KILLED = """
import os, sys
import holdfast
from holdfast.storage.sqlite.store import SqliteStore
path, source, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
append = SqliteStore.append

def dying(self, request):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), 9)
    return append(self, request)

SqliteStore.append = dying
with holdfast.open(path) as engine:
    engine.admin.import_transcript(source, "s")
"""


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_an_import_whose_process_was_killed_goes_on_where_it_was(nth: int, desk: EngineDesk) -> None:
    source = write_lines(desk.folder / "in", LONG)
    path = desk.path("sqlite")
    command = [sys.executable, "-c", KILLED, str(path), str(source), str(nth)]
    assert subprocess.run(command, check=False, timeout=60).returncode == -9
    engine = desk.open("sqlite")
    begun = len(log_of(engine))
    session = engine.admin.import_transcript(source, "s")
    assert begun < session.state().version == len(log_of(engine))
    assert to_exact_json(export_lines(engine, desk.folder / "out")) == to_exact_json(LONG)
    assert engine.admin.verify().ok


def test_a_session_is_made_from_one_file_and_a_file_may_make_several(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    source = write_lines(desk.folder / "in", LONG)
    engine.admin.import_transcript(source, "s")
    before = contents(engine)
    engine.admin.import_transcript(source, "s")
    with pytest.raises(errors.SessionExists):
        engine.admin.import_transcript(source, "s", metadata={"other": 1})
    with pytest.raises(errors.SessionExists):
        engine.admin.import_transcript(write_lines(desk.folder / "other", LONG[:-1]), "s")
    assert contents(engine) == before
    engine.admin.import_transcript(source, "t")
    engine.admin.import_transcript(source, "s", thread="side")
    engine.admin.import_transcript(source, "s", actor="ada")
    assert len(log_of(engine)) == 4 * len(before[0])
    assert to_exact_json(export_lines(engine, desk.folder / "out", "t")) == to_exact_json(LONG)


class Growing(Interrupted):
    """Another process adds to the file while it is being imported."""

    def __init__(self, inner: EventStore, path: Path) -> None:
        super().__init__(inner, 0, "before")
        self._path = path

    def append(self, append: Append) -> AppendResult:
        with self._path.open("ab") as file:
            file.write(b'{"role": "user", "content": "one mo')
        return super().append(append)


def test_what_is_added_to_the_file_meanwhile_is_not_imported(desk: EngineDesk) -> None:
    engine = desk.open("memory")
    source = write_lines(desk.folder / "in", LONG)
    with replace_store(engine, Growing(store_of(engine), source)):
        engine.admin.import_transcript(source, "s")
    assert to_exact_json(export_lines(engine, desk.folder / "out")) == to_exact_json(LONG)
