"""What is counted of the guard in dialogues: values are found in their usual forms, and nothing hidden goes unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.dialogues import Change, Turn
from benchmarks.guard_dialogues import NamedDialogue, align, check, describe, play, run
from benchmarks.harness import Bench
from benchmarks.loose_values import find_mentions, is_bare_number

TALK = NamedDialogue(
    [
        Turn(
            "user",
            "Book a table for two at Luigi's, at half past 6 in the evening.",
            {"time": "half past 6 in the evening"},
        ),
        Turn("system", "A table for two at 6:30 pm. Is that right?", {}),
        Turn("user", "Make it 8 pm.", {"time": "8 pm"}),
        Turn("system", "8 pm it is.", {}),
    ],
    [Change(2, "time")],
    "one",
)


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ("half past 6 in the evening", "dinner at 6:30 pm, please", ["6:30 pm"]),
        ("18:15", "quarter past six in the evening", ["quarter past six in the evening"]),
        ("quarter to 12 in the morning", "It is at 11:45am.", ["11:45am"]),
        ("6 in the evening", "6 people at 6 am, row 6", []),
        ("2nd of March", "on the 2nd, or March 2nd", ["2nd", "march 2nd"]),
        ("March 2nd", "on April 2nd", []),
        ("next Monday", "Monday next week", ["monday next week"]),
        ("3", "three rooms, 13 beds, 3rd floor, at 3:15", ["three"]),
        ("Fresno, CA", "from Fresno to San Jose", ["fresno"]),
        ("Kitchen speaker", "the kitchen speakers", ["kitchen speakers"]),
    ],
)
def test_a_value_is_found_in_its_usual_forms(value: str, text: str, found: list[str]) -> None:
    assert [text.lower()[start:end] for start, end in find_mentions(value, text)] == found


def test_a_bare_number_is_told_from_other_values() -> None:
    assert [is_bare_number(value) for value in ("3", "three", "3 pm", "San Jose")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("shown", "hidden"),
    [
        ("I live in Rome.", []),
        ("I live in [outdated: city].", ["Rome"]),
        ("[outdated: city].", ["I live in Rome"]),
        ("I live in Rome [outdated: city].", [""]),
        ("I lived in Rome.", None),
    ],
)
def test_what_is_hidden_is_found(shown: str, hidden: list[str] | None) -> None:
    said = "I live in Rome."
    spans = align(said, shown)
    assert (None if spans is None else [said[start:end] for start, end in spans]) == hidden


def test_without_a_guard_a_dead_value_is_readable_and_nothing_is_hidden() -> None:
    first, last = play(TALK, guard="off")
    for view in (first, last):
        check(view)
        assert [(fault.kind, fault.turn) for fault in view.faults] == [("readable", 0)]
        assert view.counts["messages changed"] == 0
    assert (first.turn, last.turn) == (2, 3)


def test_another_text_in_place_of_what_was_said_is_a_fault() -> None:
    *_, view = play(TALK, guard="off")
    view.shown[0] = "Book a table for [outdated: time] at Luigi's, at half past 6 in the evening."
    view.shown[1] = "A table for two at 6:30 pm [outdated: time]. Is that right?"
    view.shown[3] = "[outdated: time] it is."
    check(view)
    kinds = [(fault.kind, fault.turn, fault.text) for fault in view.faults]
    assert ("hidden", 0, "two") in kinds
    assert ("hidden", 3, "8 pm") in kinds, "what is newer than the change is not dead"
    assert not any(turn == 1 for _, turn, _ in kinds)
    assert "DEAD VALUES\n- time: 'half past 6 in the evening'" in describe(view)


def test_missing_data_is_said(tmp_path: Path) -> None:
    table = run(Bench(tmp_path, quick=True, data=tmp_path / "none"))
    assert not table.lines
    assert "There is no data" in table.notes[0]
