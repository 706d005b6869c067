"""The benchmark of the source itself: what counts as code, and what is on the path of a call."""

from __future__ import annotations

from pathlib import Path

from benchmarks import structure_probe
from benchmarks.structure import Checkout, code_line_count, count_lines

import holdfast

SOURCE = '''"""A docstring
of two lines."""

# a comment
NAME = """a text
of two lines"""


def double(number: int) -> int:
    """Another docstring."""
    return 2 * number  # a comment behind code
'''


def test_lines_are_counted_by_room_and_code_without_comments(tmp_path: Path) -> None:
    room = tmp_path / "src" / "holdfast" / "core" / "facts"
    room.mkdir(parents=True)
    (room / "fold.py").write_text(SOURCE)
    (room.parent / "fold.py").write_text("\n")
    assert code_line_count(room / "fold.py") == 4
    assert count_lines(Checkout(tmp_path, tmp_path)) == {
        "holdfast/core": 1,
        "holdfast/core/facts": 11,
        "lines of src": 12,
        "of these code": 4,
        "files of src": 2,
        "lines of tests": 0,
        "files of tests": 0,
    }


def test_the_path_of_a_call_has_the_files_that_it_enters() -> None:
    with holdfast.open(":memory:") as engine:
        session = engine.create_session("only")
        path = structure_probe.describe_path(structure_probe.trace(lambda: session.record("user", "Hello.")))
    assert {"runtime/sessions.py", "flows/sessions/messages.py", "storage/memory.py"} <= set(path["files"])
    assert {"runtime", "flows/sessions", "storage"} <= set(path["rooms"])
    assert len(path["files"]) <= path["file_changes"] + 1 <= path["calls"]
    assert path["layer_changes"] <= path["room_changes"] <= path["file_changes"]


def test_a_facet_is_told_from_a_handle_and_a_value() -> None:
    with holdfast.open(":memory:") as engine:
        session = engine.create_session("only")
        assert structure_probe.is_facet(session.facts)
        assert not structure_probe.is_facet(session.ledger())
        assert not structure_probe.is_facet(session.scope)
