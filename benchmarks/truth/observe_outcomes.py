"""What became of an observe case: which facts changed, what was asked, and whether that is right."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from benchmarks.truth.cases import ObserveCase
from benchmarks.truth.world import Question, World

Verdict = Literal["applied", "asked", "partly", "asked amiss", "missed", "wrong", "nothing", "error"]
"""For a change that must be made: all of it applied · the rest asked with the right value · some of it · asked with another
value · not seen · another fact or another value was applied. For the others: wrong, asked, nothing. An error is a case that
could not be played."""


_LEADING = re.compile(r"(?:(?:on|at|to|in|by|from|the|a|an|for|is|as)\s+)+")


_GROUPING = re.compile(r"(?<=\d),(?=\d{3}\b)")


_CURRENCY = re.compile(r"[€£$]\s*|\s*[€£$]")


_HALF_OF_DAY = re.compile(r"(\d)\s+(am|pm)\b")


_SEPARATOR = re.compile(r"\s*,\s*|\s+")


_EDGES = " .,;:!?\"'“”‘’"


class ObserveOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    case: ObserveCase
    verdict: Verdict
    changed: dict[str, Any] = {}
    """The known facts whose value changed, with the new one."""
    asked: tuple[Question, ...] = ()
    new: tuple[str, ...] = ()
    """Keys that were not known."""
    error: str = ""

    @property
    def passed(self) -> bool:
        wanted = {"applied", "asked"} if self.case.kind == "MUST_CHANGE" else {"asked", "nothing"}
        return self.verdict in wanted


def normalize(value: Any) -> str:
    """A value without what makes no difference here: case, grouping of digits, currency signs, first words, end marks."""
    text = _GROUPING.sub("", str(value).strip().lower().strip(_EDGES))
    text = _HALF_OF_DAY.sub(r"\1\2", _CURRENCY.sub("", text))
    text = _SEPARATOR.sub(" ", text)
    leading = _LEADING.match(text)
    return text[leading.end() :] if leading else text


def matches(value: Any, expected: Any) -> bool:
    """The value is the expected one, or one of the expected ones."""
    options = expected if isinstance(expected, list) else [expected]
    if value is None:
        return None in options
    return any(option is not None and normalize(value) == normalize(option) for option in options)


def is_same(before: Any, after: Any) -> bool:
    if before is None or after is None:
        return before is after
    return normalize(before) == normalize(after)


def run_observe(case: ObserveCase) -> ObserveOutcome:
    """Play one case. Any error is part of the outcome."""
    try:
        with World() as world:
            for fact in case.facts:
                for value in (*fact.was, fact.value):
                    world.assert_fact(fact, value)
            for turn in case.talk_before:
                world.say(turn.role, turn.text)
            keys = world.find_keys()
            before = {fact.key: world.find_value(fact.key) for fact in case.facts}
            asked = tuple(world.observe(case.text))
            after = {key: world.find_value(key) for key in before}
            new = tuple(sorted(world.find_keys() - keys - before.keys()))
    except Exception as error:  # noqa: BLE001 - one case that fails takes no other with it
        return ObserveOutcome(case, "error", error=f"{type(error).__name__}: {error}")
    changed = {key: value for key, value in after.items() if not is_same(before[key], value)}
    return ObserveOutcome(case, judge(case, changed, asked, new), changed, asked, new)


def judge(case: ObserveCase, changed: dict[str, Any], asked: tuple[Question, ...], new: tuple[str, ...]) -> Verdict:
    if case.kind == "MUST_CHANGE":
        return judge_change(case.expect.applied, changed, asked)
    if changed or (new and not case.new_ok):
        return "wrong"
    return "asked" if asked else "nothing"


def judge_change(expected: dict[str, Any], changed: dict[str, Any], asked: tuple[Question, ...]) -> Verdict:
    if any(key not in expected or not matches(value, expected[key]) for key, value in changed.items()):
        return "wrong"
    applied = expected.keys() & changed.keys()
    open_keys = expected.keys() - applied
    questions = {each.key for each in asked if each.key in open_keys and matches(each.value, expected[each.key])}
    if not open_keys:
        return "applied"
    if questions == open_keys:
        return "asked"
    if applied or questions:
        return "partly"
    return "asked amiss" if any(each.key in expected for each in asked) else "missed"
