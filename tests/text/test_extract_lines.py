"""Lines that stay of an old tool result: literal, in order, within their room, and with the names that nothing else has."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.history.views import find_line_spans, show_lines
from holdfast.text.extract.lines import CHARACTERS, SHORT_LINE, choose_lines, find_names

NAMES = st.sampled_from(["load_user", "src/app/main.py", "HTTPServer", "x", "the", "v1.2.3", "42", "ERROR", "}", ""])
LINES = st.lists(st.lists(NAMES, max_size=5).map(" ".join), max_size=40)


@example(["42", "load_user x", "load_user"], frozenset(), 6)  # the line between only fills the gap
@given(LINES, st.frozensets(st.sampled_from(["load_user", "ERROR"])), st.integers(0, 200))
def test_lines_are_ranges_in_order_within_their_room(lines: list[str], known: frozenset[str], tokens: int) -> None:
    text = "\n".join(lines)
    ranges = choose_lines(text, known, tokens)
    ends = [end for each in ranges for end in each]
    assert all(one < two for one, two in itertools.pairwise(ends))
    assert not ends or 0 <= ends[0] < ends[-1] <= len(lines)
    shown = {number for first, end in ranges for number in range(first, end)}
    between = {
        number for number in shown if shown >= {number - 1, number + 1} and len(lines[number].strip()) <= SHORT_LINE
    }
    named = [lines[number] for number in shown - between if find_names(lines[number]) - known]
    assert sum(len(line.strip()) for line in named) <= tokens * CHARACTERS
    assert ranges == choose_lines(text, known, tokens)
    spans = find_line_spans(text, ranges)
    assert [text[start:end] for start, end in spans] == ["\n".join(lines[first:end]) for first, end in ranges]
    literal = [each.text for each in show_lines(text, ranges) if each.start >= 0]
    assert literal == [text[start:end] for start, end in spans]


@given(LINES)
def test_with_enough_room_every_name_that_is_not_known_stays(lines: list[str]) -> None:
    text = "\n".join(lines)
    ranges = choose_lines(text, frozenset(), 10_000)
    shown = "\n".join(line for first, end in ranges for line in lines[first:end])
    assert find_names(text) == find_names(shown)


def test_what_is_known_is_not_quoted_again_and_failures_are_quoted_first() -> None:
    text = "def load_user():\n    pass\n\ndef save_user():\n    pass\nError: no such column: age_of_user"
    assert choose_lines(text, {"load_user"}, 14) == ((5, 6),)
    assert choose_lines(text, {"load_user"}, 100) == ((3, 6),)
    assert choose_lines(text, {"load_user", "save_user", "age_of_user"}, 14) == ((5, 6),)


def test_single_short_lines_between_two_are_quoted_with_them() -> None:
    text = "open_file()\n}\nclose_file()\nnothing to be seen in this line\nmove_file()"
    assert choose_lines(text, frozenset(), 100) == ((0, 3), (4, 5))


def test_a_short_line_stays_for_its_number_behind_those_with_names() -> None:
    text = "   941→\tload_user(user)\n   942→}\n   943→\n   944→\tload_user(other)\n   945→\tsave_user(user)"
    known = {"load_user", "#941", "#944"}
    assert choose_lines(text, known, 8) == ((4, 5),)
    assert choose_lines(text, known, 14) == ((1, 3), (4, 5))
    assert choose_lines(text, known | {"#942"}, 14) == ((2, 3), (4, 5))
