"""Outdated tool results: each accusation is true, and what is not certain accuses nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.inspector.logs.entries import LogCall, LogEntry, LogResult
from holdfast.inspector.logs.stale import StaleFinder, StaleText, find_missing, find_replaced, split_lines
from holdfast.inspector.logs.tools import Replacement, read_action

CODE = "     1→import boats\n     2→\n     3→PORT = 8080\n     4→def rent():\n     5→    return boats.first()"


def run(*steps: tuple[str, dict[str, Any], str]) -> list[StaleText]:
    """Run tool calls one after the other: the name, the arguments and the result of each. A result "!…" is an error."""
    finder = StaleFinder(lambda text: len(text.split()))
    for number, (name, args, result) in enumerate(steps):
        finder.add(LogEntry(kind="reply", line=1, calls=[LogCall(f"c{number}", name, args)]), 2 * number)
        results = [LogResult(f"c{number}", result.removeprefix("!"), result.startswith("!"))]
        finder.add(LogEntry(kind="result", line=1, results=results), 2 * number + 1)
    return finder.found


READ = ("Read", {"file_path": "/a/boats.py"}, CODE)
EDIT = {"file_path": "/a/boats.py", "old_string": "PORT = 8080", "new_string": "PORT = 9090"}


def test_an_edit_ends_the_lines_that_it_changes() -> None:
    (stale,) = run(READ, ("Edit", EDIT, "The file was updated."))
    assert (stale.at, stale.died_at, stale.tokens) == (1, 3, [(3, 3)])
    assert stale.what == "Read /a/boats.py"


def test_several_edits_end_one_reading_step_by_step() -> None:
    edits = [
        {"old_string": "import boats", "new_string": "import ships"},
        {"old_string": "first", "new_string": "last"},
    ]
    (stale,) = run(READ, ("Edit", EDIT, "ok"), ("MultiEdit", {"file_path": "/a/boats.py", "edits": edits}, "ok"))
    assert stale.tokens == [(3, 3), (5, 4)]


@pytest.mark.parametrize(
    "later",
    [
        ("Edit", EDIT, "!The file was not found."),
        ("Edit", EDIT, "<tool_use_error>String not found</tool_use_error>"),
        ("Edit", {**EDIT, "file_path": "/b/boats.py"}, "ok"),
        ("Edit", {**EDIT, "old_string": "PORT = 1"}, "ok"),
        ("Edit", {**EDIT, "new_string": "PORT = 8080\nHOST = 'oslo'"}, "ok"),
        ("Write", {"file_path": "/a/boats.py", "content": "\n".join(split_lines(CODE)) + "\nmore"}, "ok"),
        ("Read", {"file_path": "/a/boats.py"}, CODE),
        ("Read", {"file_path": "/a/boats.py"}, CODE + "\n<system-reminder>Be careful.</system-reminder>"),
        ("Read", {"file_path": "/a/boats.py"}, "File unchanged since last read."),
        ("Read", {"file_path": "/a/boats.py", "offset": 3, "limit": 1}, "     3→PORT = 9090"),
        ("Read", {"file_path": "/a/boats.py"}, "!Permission denied"),
        ("append_file", {"path": "/a/boats.py", "content": "x"}, "ok"),
        ("update_record", {"path": "/a/boats.py", "status": "done"}, "ok"),
        ("get_or_update", {"path": "/a/boats.py", "content": "x"}, "ok"),
    ],
)  # fmt: skip
def test_what_contradicts_nothing_accuses_nothing(later: tuple[str, dict[str, Any], str]) -> None:
    assert run(READ, later) == []


def test_a_new_version_ends_the_lines_that_it_lacks() -> None:
    (stale,) = run(READ, ("Write", {"file_path": "/a/boats.py", "content": "import boats\n"}, "ok"))
    assert stale.tokens == [(3, 7)]
    (stale,) = run(
        ("read_file", {"path": "x.md"}, "one\ntwo"), ("write_file", {"path": "./x.md", "content": "one"}, "ok")
    )
    assert stale.tokens == [(3, 1)]
    (stale,) = run(("read_file", {"path": "x.md"}, "one\ntwo"), ("delete_file", {"path": "x.md"}, "ok"))
    assert stale.tokens == [(3, 2)]


def test_a_patch_ends_the_lines_that_it_removes() -> None:
    patch = "*** Begin Patch\n*** Update File: x.md\n-two\n+three\n*** End Patch"
    (stale,) = run(("read_file", {"path": "x.md"}, "one\ntwo"), ("apply_patch", {"input": patch}, "ok"))
    assert stale.tokens == [(3, 1)]


def test_the_same_call_with_another_result_ends_what_is_missing() -> None:
    call = ("get_booking", {"id": "B7"})
    (stale,) = run((*call, '{"status": "open", "boat": "Fram"}'), (*call, '{"boat": "Fram", "status": "paid"}'))
    assert stale.tokens == [(3, 2)]
    assert run((*call, '{"status": "open"}'), ("get_booking", {"id": "B8"}, '{"status": "paid"}')) == []


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("WebSearch", {"query": "boats"}),
        ("Task", {"prompt": "find boats"}),
        ("BashOutput", {"bash_id": "1"}),
        ("send_message", {"text": "hi"}),
        ("book_boat", {"id": 7}),
        ("list_boats", {"page": 2}),
        ("Grep", {"pattern": "boat", "head_limit": 5}),
        ("Bash", {"command": "git log --oneline -5"}),
        ("Bash", {"command": "make test | tail -5"}),
        ("Bash", {"command": "deploy --now"}),
        ("Bash", {"command": "cat $(ls)"}),
        ("Bash", {"command": "ls > files.txt"}),
    ],
)
def test_calls_that_may_answer_differently_accuse_nothing(name: str, args: dict[str, Any]) -> None:
    assert run((name, args, "first answer here"), (name, args, "second answer there")) == []


def test_commands_that_look_are_compared_without_times() -> None:
    call = ("Bash", {"command": "go test ./..."})
    assert run((*call, "ok boats 0.41s"), (*call, "ok boats 0.52s")) == []
    assert len(run((*call, "FAIL boats 0.41s"), (*call, "ok boats 0.52s"))) == 1


def test_a_command_in_another_folder_looks_at_something_else() -> None:
    move = ("Bash", {"command": "cd boats"}, "")
    assert run(("Bash", {"command": "ls"}, "a.py"), move, ("Bash", {"command": "ls"}, "b.py")) == []
    assert len(run(("Bash", {"command": "ls"}, "a.py"), ("Bash", {"command": "ls"}, "b.py"))) == 1


def test_a_search_hit_that_only_moved_is_still_there() -> None:
    call = ("Grep", {"pattern": "rent"})
    assert run((*call, "boats.py:12:def rent():"), (*call, "boats.py:19:def rent():")) == []


def test_what_left_the_context_is_forgotten() -> None:
    finder = StaleFinder(len)
    finder.add(LogEntry(kind="reply", line=1, calls=[LogCall("a", "Read", {"file_path": "/x"})]), 0)
    finder.add(LogEntry(kind="result", line=1, results=[LogResult("a", "old text")]), 1)
    finder.keep(set())
    finder.add(LogEntry(kind="reply", line=1, calls=[LogCall("b", "Read", {"file_path": "/x"})]), 2)
    finder.add(LogEntry(kind="result", line=1, results=[LogResult("b", "new text")]), 3)
    assert finder.found == []


def test_the_ends_of_a_part_prove_nothing() -> None:
    old = ["first line of it", "second line of it", "third line of it", "fourth line of it"]
    assert find_missing(old, {*old[1:], "a fifth line"}, is_part=True) == []
    assert find_missing(old, {old[0], "another line", *old[2:]}, is_part=True) == [old[1]]


LINES = st.lists(st.text(alphabet="abc {}", max_size=12), max_size=12)


@given(LINES, LINES)
def test_only_lines_that_the_newer_text_lacks_are_missing(old: list[str], new: list[str]) -> None:
    for is_part in (False, True):
        missing = find_missing(old, {*new}, is_part=is_part)
        assert not {*missing} & {*new}
        assert {*missing} <= {*old}
    assert find_missing(old, {*old}) == []


@given(LINES, st.text(alphabet="abc \n", max_size=10), st.text(alphabet="abc \n", max_size=10), st.booleans())
def test_replaced_lines_are_lines_of_the_text(lines: list[str], old: str, new: str, everywhere: bool) -> None:
    text = "\n".join(line.rstrip() for line in lines)
    found = find_replaced(text, Replacement(old, new, everywhere))
    assert {*found} <= {*text.split("\n")}
    assert find_replaced(text, Replacement(old, old, everywhere)) == []


@given(st.text(max_size=40), st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4))
def test_any_call_has_an_action(name: str, args: dict[str, str]) -> None:
    for tool in (name, "Bash", "Edit", "apply_patch", "read_file"):
        action = read_action(LogCall("c", tool, args))
        assert action.kind in ("read", "write", "delete", "other")
