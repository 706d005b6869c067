"""The labelled cases of this folder: `observe` changes what it must and nothing else, and the guard hides what is outdated
and nothing else. `python -m benchmarks truth` runs the same cases and prints what became of them, by category."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from benchmarks.truth import OWN, Share, guard_shares, observe_shares
from benchmarks.truth.cases import GuardCase, ObserveCase, read_cases
from benchmarks.truth.guard_outcomes import GuardOutcome, ShownText, canonical, on_one_line, run_guard, spoken_texts
from benchmarks.truth.observe_outcomes import ObserveOutcome, judge_change, matches, run_observe
from benchmarks.truth.world import Question

OBSERVE_CASES = read_cases(OWN / "observe.jsonl", ObserveCase)
GUARD_CASES = read_cases(OWN / "guard.jsonl", GuardCase)

AT_MOST = {
    "must not change: wrongly applied": 0,
    "may ask: wrongly applied": 0,
    "must change: another value or fact applied": 0,
    "must stay: kept, but marked as outdated": 1,
}
"""How many cases may fail in this way. A change that needs a higher figure makes something worse."""
AT_LEAST = {
    "must change: applied": 32,
    "must change: applied or asked": 32,
    "must stay: kept": 84,
    "must go: hidden or marked": 43,
    "past asked for: answered and marked": 2,
    "cases without a fault": 46,
}
"""How many have to be right. A change that makes more of them right raises the figure."""


@cache
def observe_outcomes() -> list[ObserveOutcome]:
    return [run_observe(case) for case in OBSERVE_CASES]


@cache
def guard_outcomes() -> list[GuardOutcome]:
    return [run_guard(case) for case in GUARD_CASES]


def shares() -> dict[str, Share]:
    both = observe_shares(observe_outcomes()) | guard_shares(guard_outcomes())
    return {name: share for name, (share, _) in both.items()}


def failed(outcomes: Sequence[ObserveOutcome] | Sequence[GuardOutcome]) -> str:
    return ", ".join(each.case.id for each in outcomes if not each.passed)


def everything_failed() -> str:
    return f"failed: {failed(observe_outcomes())}; {failed(guard_outcomes())}"


def test_every_case_can_be_played() -> None:
    assert not [(each.case.id, each.error) for each in observe_outcomes() if each.error]
    assert not [(each.case.id, each.error) for each in guard_outcomes() if each.error]


@pytest.mark.parametrize("what", AT_MOST)
def test_no_more_than_this_goes_wrong(what: str) -> None:
    assert shares()[what].part <= AT_MOST[what], everything_failed()


@pytest.mark.parametrize("what", AT_LEAST)
def test_no_less_than_this_is_right(what: str) -> None:
    assert shares()[what].part >= AT_LEAST[what], everything_failed()


@pytest.mark.parametrize("case", OBSERVE_CASES, ids=lambda case: case.id)
def test_an_observe_case_is_well_formed(case: ObserveCase) -> None:
    forms = {"MUST_CHANGE": bool(case.expect.applied), "MAY_ASK": case.expect.at_most, "MUST_NOT": case.expect.nothing}
    assert forms[case.kind]
    assert sum(map(bool, forms.values())) == 1
    known = {fact.key: fact.value for fact in case.facts}
    for key, value in case.expect.applied.items():
        assert not matches(known[key], value), f"{key} has this value from the start"


@pytest.mark.parametrize("case", GUARD_CASES, ids=lambda case: case.id)
def test_a_guard_case_is_well_formed(case: GuardCase) -> None:
    changes = [step.change for step in case.conversation if step.change is not None]
    assert changes
    assert {change.key for change in changes} <= {fact.key for fact in case.facts_before}
    said = on_one_line(canonical("\n".join(text for step in case.conversation for text in spoken_texts(step))))
    for text in (*case.must_keep, *case.must_hide, *case.must_note):
        assert on_one_line(canonical(text)) in said, f"nobody says {text!r}"


def test_ids_are_unique() -> None:
    ids = [case.id for case in OBSERVE_CASES] + [case.id for case in GUARD_CASES]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("case", GUARD_CASES, ids=lambda case: case.id)
def test_without_a_guard_everything_is_readable(case: GuardCase) -> None:
    """The scoring sees each text where nothing hides it. The ledger answers questions about the past, guard or not."""
    outcome = run_guard(case, guard="off")
    assert set(outcome.keep.values()) <= {"kept"}
    assert set(outcome.hide.values()) <= {"exposed"}
    assert set(outcome.note.values()) <= {
        "without a note",
        "noted" if case.category == "question about the past" else "",
    }


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        ("the Hotel Mira.", "Hotel Mira", True),
        ("€1,200", "1200", True),
        (8, "8", True),
        ("3 pm", "3pm", True),
        ("Bath, BA1", "bath BA1", True),
        ("Milan", ["Rome", "Milan"], True),
        (None, [None, "none"], True),
        ("cancelled", None, False),
        (None, "none", False),
        ("12 Main Street", "21 Main Street", False),
    ],
)
def test_values_are_compared_by_what_they_mean(value: object, expected: object, same: bool) -> None:
    assert matches(value, expected) is same


@pytest.mark.parametrize(
    ("changed", "asked", "verdict"),
    [
        ({"a": "1", "b": "2"}, [], "applied"),
        ({"a": "1"}, [("b", "2")], "asked"),
        ({"a": "1"}, [], "partly"),
        ({}, [("b", "2")], "partly"),
        ({}, [("b", "7")], "asked amiss"),
        ({}, [("c", "7")], "missed"),
        ({"a": "1", "b": "7"}, [], "wrong"),
        ({"a": "1", "b": "2", "c": "3"}, [], "wrong"),
    ],
)
def test_a_change_is_judged_as_a_whole(changed: dict[str, str], asked: list[tuple[str, str]], verdict: str) -> None:
    questions = tuple(Question(key, value) for key, value in asked)
    assert judge_change({"a": "1", "b": "2"}, changed, questions) == verdict


def test_a_note_counts_where_it_stands() -> None:
    said = "gate b12, row 4. we meet [maybe earlier] at b12"
    shown = ShownText("Gate B12 [outdated: gate has a current value], row 4.\n\nWe meet [maybe earlier] at B12", said)
    first, second = shown.find("B12")
    assert shown.is_noted(first, {"gate"})
    assert not shown.is_noted(second, {"gate"}), "what somebody said in brackets is no note"
    assert shown.find("gate b12, row 4"), "notes are taken out before a text is looked for"
    assert not ShownText("Gate B123", said).find("B12"), "only whole words count"
