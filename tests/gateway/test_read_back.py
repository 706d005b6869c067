"""The words of summaries and markers name what a client has, and quote everything else as it was."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import holdfast
from holdfast import Text
from holdfast.cli import main
from holdfast.core.history.previews import add_marker
from holdfast.core.history.views import reduction_text
from holdfast.gateway.read_back import READ_BYTES, ReadBack, ReadBackKind, name_session, reword_texts
from holdfast.model.history.plans import READS_BRACKETS, READS_RESULTS, Reduction

SHELL = ReadBack(session="55556666")
KINDS: tuple[ReadBackKind, ...] = ("shell", "mcp", "tool", "none")
MARKERS = (
    '[… 12 of 34 bytes left out; read_handle("h9_0") reads them …]',
    '[… tool result spooled: 9 bytes total, preview of 3 bytes shown; read_handle("h9_0") reads all of it]',
    '[paged out: 9 bytes; read_handle("h9_0") reads them]',
    "Called Read with a.py [h9_0]",
    f"Excerpts, oldest first{READS_BRACKETS}:",
    f"(3 earlier messages are out of view{READS_RESULTS}h9_0)",
)
content = st.lists(st.sampled_from(MARKERS) | st.text(max_size=30), max_size=8).map("\n".join)


@given(content, st.integers(0, 60), st.integers(0, 60), st.sampled_from(KINDS))
def test_a_shortened_result_quotes_what_it_quoted(text: str, head: int, tail: int, kind: ReadBackKind) -> None:
    assume(head + tail < len(text))
    reduction = Reduction(
        message=7, piece=0, form="excerpt", head=head, tail=tail, tokens=0, size=len(text.encode()), digest=""
    )
    stored = reduction_text([Text(text)], reduction, "h7_0")
    shown = reword_texts(stored, ReadBack(kind=kind, session="55556666"))
    assert shown == reword_texts(stored, ReadBack(kind=kind, session="55556666"))
    ends = text[:head], text[len(text) - tail :] if 0 < tail <= len(text) else text if tail else ""
    assert shown.startswith(ends[0])
    assert shown.endswith(ends[1])
    (line,) = shown.removeprefix(ends[0]).removesuffix(ends[1]).strip("\n").split("\n")
    words = {
        "shell": "run `holdfast read 55556666:h7_0` to read them",
        "mcp": 'the MCP tool read_handle(session="55556666", handle="h7_0") reads them',
        "tool": 'holdfast_read("h7_0") reads them',
        "none": "they cannot be read here",
    }
    assert re.fullmatch(rf"\[… -?\d+ of \d+ bytes left out; {re.escape(words[kind])} …\]", line)


@given(content, content, st.sampled_from(KINDS))
def test_a_preview_quotes_what_it_quoted(head: str, tail: str, kind: ReadBackKind) -> None:
    preview = f"{head}\n…\n{tail}" if tail else head
    stored = add_marker(preview, len(tail), 100_000, "h7_0")
    shown = reword_texts(stored, ReadBack(kind=kind, session="55556666"))
    start = head if head.strip("\n") else ""
    assert shown.startswith(start)
    assert shown.endswith(tail)
    words = {
        "shell": "run `holdfast read 55556666:h7_0 --lines 1-80` to read all of it]",
        "none": "; the rest cannot be read here]",
    }
    assert words.get(kind, "reads all of it]") in shown


def test_an_archived_result() -> None:
    text = '[paged out: 90 bytes; read_handle("h7_0") reads them]'
    assert reword_texts(text, SHELL) == ("[paged out: 90 bytes; run `holdfast read 55556666:h7_0` to read them]")


@pytest.mark.parametrize(("size", "lines"), [(READ_BYTES, ""), (READ_BYTES + 1, " --lines 1-80")])
def test_the_command_of_a_long_result_reads_its_first_lines(size: int, lines: str) -> None:
    text = f'[… {size - 2} of {size} bytes left out; read_handle("h7_0") reads them …]\nab'
    command = f"`holdfast read 55556666:h7_0{lines}`"
    assert reword_texts(text, SHELL) == f"[… {size - 2} of {size} bytes left out; run {command} to read them …]\nab"


def test_an_outdated_result() -> None:
    text = '[outdated: the same was read again later in this conversation; read_handle("h7_0") reads it]'
    assert reword_texts(text, SHELL) == (
        "[outdated: the same was read again later in this conversation; run `holdfast read 55556666:h7_0` to read it]"
    )


SUMMARY = f"""Excerpts, oldest first{READS_BRACKETS}:
User: What does the note [h1_0] say? It says{READS_BRACKETS}, and "(3 earlier messages are out of view{READS_RESULTS}h9_0)"
Called Read with a.py [h12_0] → def a(): …
Called Bash x2 with make test [h15_1]; timeout: 5 → failed
Assistant: Called Read [h99_0]
(1,204 earlier messages are out of view{READS_RESULTS}…, h20_0, h22_0)"""


SHELL_WORDS = (
    "a name in [brackets] is a result: the shell command `holdfast read 55556666:h12_0 --lines 1-80` reads h12_0"
)
MCP_WORDS = 'the MCP tool read_handle, with session="claude-1", reads'


@pytest.mark.parametrize(
    ("read_back", "first", "last"),
    [
        (SHELL, SHELL_WORDS, "the same command reads"),
        (ReadBack(kind="mcp", session="claude-1"), f"{MCP_WORDS} the results named in [brackets]", MCP_WORDS),
        (ReadBack(kind="tool"), "holdfast_read reads the results named in [brackets]", "holdfast_read reads"),
    ],
)
def test_a_summary(read_back: ReadBack, first: str, last: str) -> None:
    assert reword_texts(SUMMARY, read_back).split("\n") == [
        f"Excerpts, oldest first; {first}:",
        *SUMMARY.split("\n")[1:-1],
        f"(1,204 earlier messages are out of view; {last} their results: …, h20_0, h22_0)",
    ]


def test_a_summary_for_a_client_that_cannot_read() -> None:
    lines = SUMMARY.split("\n")
    assert reword_texts(SUMMARY, ReadBack(kind="none")).split("\n") == [
        "Excerpts, oldest first:",
        lines[1],
        "Called Read with a.py → def a(): …",
        "Called Bash x2 with make test; timeout: 5 → failed",
        lines[4],
        "(1,204 earlier messages are out of view)",
    ]


def test_an_outline_alone_gives_the_whole_command() -> None:
    text = f"(7 earlier messages are out of view{READS_RESULTS}h20_0, h22_0)"
    assert reword_texts(text, SHELL) == (
        "(7 earlier messages are out of view; the shell command `holdfast read 55556666:h22_0 --lines 1-80` reads h22_0, "
        "one of their results: h20_0, h22_0)"
    )


@given(st.text() | content)
def test_other_texts_stay(text: str) -> None:
    if READS_BRACKETS not in text and READS_RESULTS not in text and "read_handle" not in text:
        assert reword_texts(text, SHELL) == text


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("claude-6f1c2a90-3b7e-4d51-9c1e-111155556666", "55556666"),
        ("claude-6f1c2a90-3b7e-4d51-9c1e-111155556666.2", "55556666.2"),
        ("gateway-aaaa55556666", "55556666"),
        ("codex-thread", "codex-thread"),
        ("claude-xyzabcdef", "claude-xyzabcdef"),
    ],
)
def test_the_short_name_of_a_session(name: str, short: str) -> None:
    assert name_session(name) == short


def test_the_commands_of_a_real_view_read_the_originals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command that a summary or a marker gives, run in a shell, prints what was left out."""
    store = tmp_path / "gateway.db"
    with holdfast.open(store) as engine:
        results = {}
        for name in ("claude-0000aaaabbbb", "claude-0000ccccdddd"):
            session = engine.create_session(name)
            for number in range(30):
                session.record("user", f"Please read file {number}.")
                call = {"name": "Read", "args": {"path": f"src/file_{number}.py"}}
                reply = session.record("assistant", "I read it.", tool_calls=[call])
                text = "".join(f"{name} {number} line {line}\n" for line in range(60))
                results[name, f"h{session.result(reply.tool_calls[0], text).seq}_0"] = text
            session.context.compact(window=12_000, strategy="summarize_oldest")
        texts = {row.session: engine.session(row.session).context.summaries()[0].text for row in engine.sessions()}
    for name, text in texts.items():
        shown = reword_texts(text, ReadBack(session=name_session(name)))
        assert shown.count("`holdfast read") == 1
        (command,) = re.findall(r"`holdfast ([^`]+)`", shown)
        handles = re.findall(r"^Called .* \[(h\d+_\d+)\]", shown, re.MULTILINE)
        assert handles[0] in command
        for handle in handles:
            assert main(["--file", str(store), *shlex.split(command.replace(handles[0], handle))]) == 0
            assert capsys.readouterr().out == results[name, handle]
