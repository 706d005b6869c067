"""The command line on contexts: what a model is shown, what planning would make of it, and what lies behind a handle."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import holdfast
from holdfast.cli import main
from holdfast.cli.output import UNSAFE, escape
from holdfast.model.history.plans import format_cost
from holdfast.types import SummarizeOldest
from tests.edges.cli import HOSTILE, CommandResult, CommandRunner, copy_store
from tests.edges.test_cli_process import on_a_terminal
from tests.support import SHARED_MEMORY, figure

MODEL = "gpt-5.5"
"""Its cache stays warm for a day: longer than any run of these tests."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")
LINES = 1_000
SPOOLED = "".join(
    f"line {number} of {LINES}: {'ERROR' if number == 400 else 'fine'} {'.' * 40}\n" for number in range(LINES)
)
"""Larger than what is shown whole."""
LARGEST = "h14_0"
"""The handle of that."""
WORDS = "word " * 900
TOOL = "\u202edaer"
"""A name that every store takes, and that a terminal would turn around."""
REPLY = {
    "object": "chat.completion",
    "model": MODEL,
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Now it works."}}],
    "usage": {"prompt_tokens": 9_000, "completion_tokens": 5},
}


def calls(conversation: Any, number: int, result: object) -> None:
    call = {"name": TOOL, "args": {"n": number}}
    reply = conversation.record("assistant", f"step {number}", tool_calls=[call])
    conversation.result(reply.tool_calls[0], result)


def write_contexts(path: Path) -> None:
    """A long conversation that was folded and cut, one that no model has answered, a frame's own, one in a thread, and
    none at all."""
    with holdfast.open(path) as engine:
        long = engine.create_session("long", actor="ada")
        long.record("system", "You look after a shop.")
        long.record("user", HOSTILE)
        for number in range(4):
            calls(long, number, WORDS)
        long.context.compact(strategy=SummarizeOldest(keep_recent=2), window=60_000)
        calls(long, 4, SPOOLED)
        calls(long, 5, {"found": WORDS})
        calls(long, 6, WORDS)
        long.handles.page_out(long.handles.list()[-1])
        long.record("user", "And now?")
        long.record(REPLY)
        quiet = engine.create_session("quiet", actor="ada")
        quiet.record("user", "Is anybody there?")
        with quiet.frame("Look", budget=9_000) as frame:
            frame.record("user", "only of the frame")
            frame.handles.add("document", HOSTILE, title="notes")
        crowded = engine.create_session("crowded", actor="ada")
        crowded.record("user", WORDS)
        for number in range(2):
            calls(crowded, number, WORDS * 5)
        engine.create_session("empty", actor="ada")
        calls(engine.create_session("odd name", actor="bob", thread="side"), 0, "aside")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once; who changes it takes a copy."""
    path = tmp_path_factory.mktemp("contexts") / "agent.db"
    write_contexts(path)
    return path


@pytest.fixture
def cli(written: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    return CommandRunner(written, capsys)


@pytest.fixture
def own(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    """For who changes something."""
    return CommandRunner(copy_store(written, tmp_path / "agent.db"), capsys)


@contextlib.contextmanager
def reading(path: Path, session: str = "long") -> Iterator[holdfast.Session]:
    with holdfast.open(path) as engine:
        yield engine.session(session, actor="ada")


class Screen(io.StringIO):
    """What takes what is written to it for a terminal's."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def drawn(path: Path, columns: int, *args: str) -> CommandResult:
    """What a person would see on a terminal so wide."""
    out, err = Screen(), Screen()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(["--file", str(path), *args])
    return CommandResult(code, out.getvalue(), err.getvalue())


def tokens_in(text: str) -> dict[str, int]:
    """The table on top: a name, and so many tokens."""
    top = text.split("\n\n", 1)[0]
    return {
        name: int(tokens.replace(",", "")) for name, tokens in re.findall(r"^(\w[\w ]*?) +([\d,]+) ", top, re.MULTILINE)
    }


# What is in view


def test_the_parts_of_a_context_add_up_to_what_is_in_view_and_what_is_not(cli: CommandRunner) -> None:
    ran = cli("context", "long")
    with reading(cli.path) as session:
        taken, history = session.context.occupancy(), session.context.view()
    parts = tokens_in(ran.out)
    assert parts["system"] + parts["messages"] + parts["summaries"] == taken.tokens == history.tokens
    assert parts["paged out"] == taken.paged_tokens > 0
    assert parts["collapsed"] == taken.collapsed_tokens > 0
    assert ran.out.startswith(f"in view  {taken.tokens:,} tokens, {taken.handles} handles\n")
    assert f"of {taken.folded} messages" in ran.out


def test_items_say_what_they_are_and_a_line_divides_what_is_new(cli: CommandRunner) -> None:
    lines = cli("context", "long").out.split("\n\n")[1].splitlines()
    assert lines[0].split() == ["EVENT", "ROLE", "TOKENS", "TEXT"]
    assert re.match(r" +3-9 +summary ", lines[1])
    assert "alert" in lines[2], "the question that waits for an answer stays"
    with reading(cli.path) as session:
        frozen = session.context.view().frozen
    assert [number for number, line in enumerate(lines) if "after the last boundary" in line] == [1 + frozen]
    assert f"step 6 [{escape(TOOL)}]" in lines[frozen]
    assert "And now?" in lines[frozen + 2]
    assert lines[-1].endswith("Now it works.")


def test_handles_say_where_they_are_and_of_which_tool(cli: CommandRunner) -> None:
    ran = cli("context", "long")
    where = dict(re.findall(r"^(h\d+_0) +(\w+) ", ran.out, re.MULTILINE))
    with reading(cli.path) as session:
        pieces = {each.id: each for each in session.handles.list()}
    assert [*where.items()] == [(name, each.residency) for name, each in pieces.items()]
    assert {*where.values()} == {"resident", "spooled_out", "paged_out"}
    assert f"{escape(TOOL)} {pieces[LARGEST].source}" in ran.out
    assert ran.err == f"holdfast handle long {LARGEST}  reads a handle.\n"


def test_of_many_the_newest_items_are_shown_and_the_largest_handles(cli: CommandRunner) -> None:
    ran = cli("context", "long", "-n", "1")
    assert "… 7 earlier items. --limit 0 shows all." in ran.out
    assert "Now it works." in ran.out
    assert "after the last boundary" not in ran.out
    assert re.findall(r"^h\d+_\d+", ran.out, re.MULTILINE) == [LARGEST]
    assert ran.err.startswith("… and 3 smaller. --limit 0 shows all.\n")
    assert "earlier item" not in cli("context", "long", "-n", "0").out


def test_a_window_gives_the_bars_their_measure(cli: CommandRunner) -> None:
    taken = cli("context", "long", "--json").document["tokens"]
    assert f"{taken:,} tokens of {2 * taken:,} (50%)" in cli("context", "long", "--window", str(2 * taken)).out
    shown = cli("context", "long", "--window", str(1_000 * taken)).out
    assert "█" not in shown.split("\n\n")[0]
    assert "▏" in shown.split("\n\n")[0]
    over = cli("context", "long", "--window", "1").out.splitlines()
    assert {line.count("█") for line in over[2:4]} == {20}, "what is too large fills its bar, and no more"


def test_a_context_without_anything_in_it_is_told_in_a_line(cli: CommandRunner) -> None:
    assert cli("context", "empty") == CommandResult(0, "in view  0 tokens, 0 handles\n", "")


def test_a_frame_and_a_thread_have_contexts_of_their_own(cli: CommandRunner) -> None:
    with reading(cli.path, "quiet") as session:
        (frame,) = session.frames.list()
    assert "only of the frame" not in cli("context", "quiet").out
    own = cli("context", "quiet", "--frame", frame.id)
    assert "only of the frame" in own.out
    assert "Is anybody there?" not in own.out
    aside = cli("context", "odd name", "--thread", "side")
    assert "step 0" in aside.out
    assert aside.err == "holdfast handle 'odd name' h3_0 --thread side  reads a handle.\n"
    assert cli("context", "quiet", "--frame", "f99", "--json").error["type"] == "FrameNotFound"
    assert cli("context", "nosuch").code == 3


def test_a_context_in_json_is_what_the_session_says(cli: CommandRunner) -> None:
    document = cli("context", "long", "--json").document
    with reading(cli.path) as session:
        history, taken, pieces = session.context.view(), session.context.occupancy(), session.handles.list()
    assert document["session"] == "long"
    assert document["frame"] is None
    sums = ("tokens", "resident_tokens", "non_resident_tokens", "total_tokens", "boundary", "folded")
    assert [document[name] for name in sums] == [getattr(taken, name) for name in sums]
    assert document["frozen"] == history.frozen
    assert [each["tokens"] for each in document["items"]] == [item.tokens for item in history.items]
    assert document["items"][0] == {"first": 3, "last": 9, "role": "summary", "tokens": history.items[0].tokens}
    assert [each["id"] for each in document["handles"]] == [each.id for each in pieces]


# On a terminal

SAID = st.text(max_size=200) | st.just(HOSTILE) | st.just("漢字 and \u200b" * 30) | st.just("x" * 300)
STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "answer", "call", "call", "fold", "out"]), SAID), min_size=1, max_size=8
)


@settings(max_examples=figure(8, 400), deadline=None)
@given(STEPS, st.integers(60, 140), st.integers(0, 3))
@example([("call", HOSTILE), ("call", "x" * 300), ("fold", ""), ("call", "y"), ("out", ""), ("answer", "z")], 80, 0)
def test_whatever_was_said_a_context_and_a_plan_fit_the_terminal_and_change_nothing(
    steps: list[tuple[str, str]], columns: int, limit: int
) -> None:
    with TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        path = Path(folder, "agent.db")
        with holdfast.open(path) as engine:
            session = engine.create_session("s", actor="ada")
            for number, (step, text) in enumerate(steps):
                take(session, number, step, text)
            version = session.state().version
        for args in (["context", "s", "-n", str(limit), "--window", "9000"], ["plan", "s", "--window", "500"]):
            ran = drawn(path, columns, *args)
            assert ran.code == 0, ran.err
            for line in (ran.out + ran.err).splitlines():
                plain = COLOUR.sub("", line)
                assert not UNSAFE.search(plain), plain
                assert cell_len(plain) <= columns, plain
        with holdfast.open(path) as engine:
            assert engine.session("s", actor="ada").state().version == version


def take(session: holdfast.Session, number: int, step: str, text: str) -> None:
    with contextlib.suppress(holdfast.errors.InvalidArgument):  # nothing was said
        if step == "call":
            calls(session, number, text * 3)
        elif step == "fold":
            session.context.compact(strategy=SummarizeOldest(keep_recent=1), window=60_000)
        elif step == "out":
            for piece in session.handles.list()[:1]:
                session.handles.page_out(piece)
        else:
            session.record("user" if step == "say" else "assistant", text)


def test_on_a_real_terminal_parts_are_coloured_and_without_colours_the_same_is_said(written: Path) -> None:
    seen, code = on_a_terminal("--file", written, "context", "long")
    assert code == 0
    for colour, text in (("33", "spooled_out"), ("36", "summary"), ("35", "paged_out")):
        assert f"\x1b[{colour}m{text}" in seen
    plain, _ = on_a_terminal("--file", written, "context", "long", NO_COLOR="1")
    assert "\x1b[" not in plain
    assert [line.rstrip() for line in COLOUR.sub("", seen).splitlines()] == [
        line.rstrip() for line in plain.splitlines()
    ]


def test_where_bars_cannot_be_drawn_they_are_spelled(written: Path) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="replace")
    with contextlib.redirect_stdout(out):
        assert main(["--file", str(written), "context", "long"]) == 0
    out.seek(0)
    shown = out.read()
    assert re.search(r"^messages +[\d,]+ +#+ ", shown, re.MULTILINE)
    assert re.search(r"^ +-{9} +after the last boundary", shown, re.MULTILINE)


# Plans


def test_a_plan_is_explained_and_changes_nothing(cli: CommandRunner) -> None:
    with reading(cli.path) as session:
        plan = session.context.plan(window=1_500)
    ran = cli("plan", "long", "--window", "1500")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(plan.explain())
    document = cli("plan", "long", "--window", "1500", "--json").document
    assert document["explained"] == plan.explain()
    assert document["why"] == plan.why == "forced"
    assert document["net"] == plan.figures.net
    assert document["at"] is None
    with reading(cli.path) as session:
        assert session.context.plan(window=1_500).version == plan.version


def test_steps_are_listed_when_there_are_several(cli: CommandRunner) -> None:
    assert "FROM ITEM" not in cli("plan", "long", "--window", "1500").out
    with reading(cli.path, "crowded") as session:
        plan = session.context.plan(window=2_000)
    assert len(plan.steps) > 1
    rows = re.findall(
        r"^(\w+) +(\d+) +([\d,]+) +([\d,]+)$", cli("plan", "crowded", "--window", "2000").out, re.MULTILINE
    )
    assert [int(first) for _, first, _, _ in rows] == [step.first_changed_index for step in plan.steps]
    assert [(before, after) for *_, before, after in rows] == [(f"{s.before:,}", f"{s.after:,}") for s in plan.steps]


def test_what_could_be_done_is_listed_with_what_it_costs_and_saves(own: CommandRunner) -> None:
    with reading(own.path) as session:
        for number in range(8):
            calls(session, number, WORDS * 3)
        session.record("user", "And?")
        session.record("assistant", "Nothing.")
        asked_for: dict[str, Any] = {"window": 100_000, "policy": "frugal"}
        cold, warm = session.context.plan(**asked_for, cold=True), session.context.plan(**asked_for)
    assert len(cold.considered) == 2
    for plan, asked in ((cold, ["--cold"]), (warm, [])):
        table = (
            own("plan", "long", "--policy", "frugal", "--window", "100000", *asked).out.split("\n\n")[1].splitlines()
        )
        assert table[0].split() == ["OPTION", "FREES", "COSTS", "SAVES"]
        for line, (name, figures) in zip(table[1:], plan.considered, strict=False):
            costs = figures.rewriting + figures.summarizing
            cells = [name, f"{figures.before - figures.after:,}", format_cost(costs), format_cost(figures.earns)]
            assert line.split()[:4] == cells
            chosen = bool(plan.steps) and plan.steps[0].op.__struct_config__.tag == name
            note = "planned" if chosen else "does not pay" if figures.net > 0 else "pays less"
            assert line.endswith(note)


def test_a_model_a_policy_and_what_stands_before_reach_the_plan(cli: CommandRunner) -> None:
    other = cli("plan", "long", "--model", "claude-sonnet-4-5", "--json").document
    assert other["prices"]["provider"] == "anthropic"
    assert cli("plan", "long", "--json").document["prices"]["model"] == MODEL, "the one that answered last"
    before = cli("plan", "long", "--before", "777", "--json").document["figures"]["before"]
    assert before == cli("plan", "long", "--json").document["figures"]["before"] + 777
    assert cli("plan", "long", "--policy", "classic", "--json").document["policy"] == "classic"


def test_applying_a_plan_is_one_event_and_then_there_is_nothing_to_do(own: CommandRunner) -> None:
    with reading(own.path) as session:
        version, said = session.state().version, session.messages(limit=1_000)
    ran = own("plan", "long", "--window", "1500", "--apply")
    assert ran.out.endswith(f"Applied: event {version + 1}.\n")
    assert own("plan", "long", "--window", "1500", "--apply").out.endswith("Nothing was changed.\n")
    with reading(own.path) as session:
        assert session.state().version == version + 1
        assert session.messages(limit=1_000) == said
        assert session.context.view().tokens <= 1_500
    assert "frame.compacted" in own("log", "long").out


def test_without_a_model_that_is_known_a_plan_says_which_options_help(cli: CommandRunner) -> None:
    ran = cli("plan", "quiet")
    assert ran.code == 3
    assert "no model has answered yet: pass --window or --model" in ran.err
    assert cli("plan", "quiet", "--json").error["type"] == "InvalidArgument"
    assert "the prices of 'what-1' are unknown: pass --window" in cli("plan", "quiet", "--model", "what-1").err
    assert cli("plan", "quiet", "--window", "0").code == 2


# What lies behind a handle


def test_a_handle_is_read_by_bytes_by_lines_and_by_what_is_in_it(cli: CommandRunner) -> None:
    whole = cli("handle", "long", LARGEST, "--limit", "1000000")
    assert whole == CommandResult(0, SPOOLED, f"{LARGEST}: {len(SPOOLED) / 1_000:.3g} kB in all.\n")
    rows = SPOOLED.splitlines()
    some = cli("handle", "long", LARGEST, "--lines", "3:4")
    assert some.out.splitlines() == rows[2:4]
    assert some.err.endswith("in all. --lines 5: reads on\n")
    assert cli("handle", "long", LARGEST, "--lines", f"{LINES}:").out.splitlines() == rows[-1:]
    start = cli("handle", "long", LARGEST, "--bytes", ":70")
    assert start.out == SPOOLED[:70] + "\n"
    assert start.err.endswith("in all. --bytes 70: reads on\n")
    found = cli("handle", "long", LARGEST, "--search", "error")
    assert f"401: {rows[400]}" in found.out
    assert found.err.endswith("in all. 1 matching line.\n")
    many = cli("handle", "long", LARGEST, "--search", "FINE")
    assert re.search(r"999 matching lines\. \d+ more lines match: .* or --lines \d+: reads on\n$", many.err)
    assert cli("handle", "long", LARGEST, "--search", "nowhere") == CommandResult(
        0, "", f"{LARGEST}: {len(SPOOLED) / 1_000:.3g} kB in all. 0 matching lines.\n"
    )


def test_a_handle_is_read_by_its_call(cli: CommandRunner) -> None:
    (found,) = [each for each in cli("context", "long", "--json").document["handles"] if each["id"] == LARGEST]
    ran = cli("handle", "long", found["source"], "--lines", "1:2")
    assert (ran.code, ran.out) == (0, cli("handle", "long", LARGEST, "--lines", "1:2").out)


def test_a_handle_is_read_to_its_end_by_what_each_reading_says(cli: CommandRunner) -> None:
    read, option = "", "0:"
    while option:
        ran = cli("handle", "long", LARGEST, "--bytes", option, "--limit", "9000", "--json")
        read += ran.document["text"]
        told = cli("handle", "long", LARGEST, "--bytes", option, "--limit", "9000").err
        more = re.search(r"--bytes (\d+:) reads on", told)
        option = more[1] if more else ""
    assert read == SPOOLED


def test_what_is_out_of_view_and_what_frames_have_can_be_read(cli: CommandRunner) -> None:
    with reading(cli.path) as session:
        out = next(each for each in session.handles.list() if each.residency == "paged_out")
    assert cli("handle", "long", out.id).out == WORDS.rstrip() + "\n"
    assert cli("handle", "long", "h5_0").out == WORDS.rstrip() + "\n", "folded into the summary long ago"
    with reading(cli.path, "quiet") as session:
        (frame,) = session.frames.list()
        (notes,) = session.frames.get(frame.id).handles.attachments()
    shown = cli("handle", "quiet", notes.id).out
    assert shown == escape(HOSTILE) + "\n"
    assert cli("handle", "quiet", notes.id, "--json").document["text"] == HOSTILE


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        ([LARGEST, "--lines", "7"], 2, "--lines takes two numbers, such as 10:20, not '7'"),
        ([LARGEST, "--bytes", "a:b"], 2, "--bytes takes two numbers"),
        ([LARGEST, "--bytes", "٣:4"], 2, "--bytes takes two numbers"),
        ([LARGEST, "--bytes", "-1:3"], 2, "--bytes takes two numbers"),
        ([LARGEST, "--lines", HOSTILE], 2, escape(HOSTILE)[:20]),
        ([LARGEST, "--lines", "1:2", "--search", "x"], 3, "not several of these"),
        ([LARGEST, "--lines", "9000:"], 3, "first_line"),
        ([LARGEST, "--limit", "3"], 2, "64"),
        (["h14_9"], 3, "There is no handle 'h14_9'"),
        (["nonsense"], 3, "There is no handle 'nonsense'"),
        ([HOSTILE], 3, "There is no handle"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(cli: CommandRunner, args: list[str], code: int, told: str) -> None:
    ran = cli("handle", "long", *args)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err
    assert not UNSAFE.search(ran.err.replace("\n", ""))
