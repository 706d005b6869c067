"""Custom compaction strategies keep the rules or are refused; a lighter text says the same in less."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.history.levels import (
    BREADCRUMB_KIND,
    CompactionCandidate,
    compact,
    lighten,
)
from holdfast.errors import CriticalOverflow, StrategyRefused
from holdfast.model.history.handles import PRIORITY_SCORES, Priority
from tests.support import figure

EXAMPLES = figure(40, 5_000)


Count = Callable[[str], int]


def words(text: str) -> int:
    return len(text.split())


def odd(text: str) -> int:
    """Some counter: what is shorter may have more tokens."""
    return zlib.crc32(text.encode()) % 40


PRIORITIES: tuple[Priority, ...] = tuple(PRIORITY_SCORES)


LINES = st.sampled_from(["", "  ", "one", "one ", "two words", "a longer line of several words", "x" * 250])


TEXTS = st.one_of(
    st.integers(1, 12).map(lambda each: " ".join(["word"] * each)),
    st.integers(1, 12).map(lambda each: "the same line\n" * each),
    st.lists(LINES, max_size=4).map("\n".join),
)


KINDS = st.sampled_from(["message", "message", "message", BREADCRUMB_KIND])


@st.composite
def candidates(draw: st.DrawFn, count: Count = words) -> list[CompactionCandidate]:
    """In any order of age, with ties: what stands in a prompt does not stand there by age alone."""
    drawn = draw(st.lists(st.tuples(KINDS, st.sampled_from(PRIORITIES), st.integers(1, 9), TEXTS), max_size=10))
    return [CompactionCandidate(f"h{at}", *each, count(each[-1])) for at, each in enumerate(drawn)]


def halved(given: tuple[CompactionCandidate, ...], budget: int) -> list[CompactionCandidate]:
    """A custom strategy that keeps to the rules."""
    return [
        each if each.priority == "critical" else replace(each, text=each.text[: len(each.text) // 2], tokens=-5)
        for each in given
        if each.priority == "critical" or each.seq % 2
    ]


def critical(given_: Sequence[CompactionCandidate]) -> list[CompactionCandidate]:
    return [each for each in given_ if each.priority == "critical"]


def size(items: Sequence[CompactionCandidate]) -> int:
    return sum(each.tokens for each in items)


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(st.data(), st.integers(0, 100))
def test_what_a_custom_strategy_leaves_is_accounted_for(data: st.DataObject, budget: int) -> None:
    """It never grows, sizes are those of texts, order is kept, what is Critical is as it was, or the error says
    what it takes."""
    count = data.draw(st.sampled_from([len, words, odd]), label="count")
    given_ = data.draw(candidates(count), label="candidates")
    needed = size(critical(given_))
    if needed > budget:
        with pytest.raises(CriticalOverflow) as overflow:
            compact(given_, budget, count=count, strategy=halved)
        assert (overflow.value.needed, overflow.value.budget) == (needed, budget)
        return
    try:
        result = compact(given_, budget, count=count, strategy=halved)
    except StrategyRefused:
        assert count is odd  # half of a text may have more tokens by that
        return
    if size(given_) <= budget:
        assert result == (tuple(given_), "none")
        return
    assert [(each.id, each.text) for each in result.items] == [
        (each.id, each.text) for each in halved(tuple(given_), budget)
    ]
    assert size(result.items) == sum(count(each.text) for each in result.items) <= size(given_)
    left = {each.id for each in result.items}
    lost = [each for each in given_ if each.id not in left]
    worst = "aggressive" if lost else "light" if list(result.items) != given_ else "none"
    assert result.level == ("critical" if any(each.rank > PRIORITY_SCORES["low"] for each in lost) else worst)


def _grow(given_: tuple[CompactionCandidate, ...]) -> object:
    return [replace(each, text=each.text + " and more", tokens=0) if each.seq == 2 else each for each in given_]


CHEATS: dict[str, Callable[[tuple[CompactionCandidate, ...]], object]] = {
    "it makes 9 tokens of 7": _grow,
    "it drops 'c', which is Critical": lambda given_: given_[1:],
    "it touches 'c', which is Critical": lambda given_: [replace(given_[0], text="")],
    "it invents 'z'": lambda given_: [*given_, replace(given_[1], id="z")],
    "'a' is not where it was": lambda given_: [given_[0], given_[2], given_[1]],
    "'b' is not where it was, or there twice": lambda given_: [*given_, given_[2]],
    "it changes more of 'a'": lambda given_: [given_[0], replace(given_[1], priority="critical")],
    "it changes more of 'c'": lambda given_: [replace(given_[0], priority="low", text="")],
    "it returned None, not a list": lambda given_: None,
    "it returned a value of type generator": lambda given_: (each for each in given_),
    "it returned 'c', not a candidate": lambda given_: ["c"],
    "not a candidate": lambda given_: [given_[0], replace(given_[1], text=None)],
}


@pytest.mark.parametrize("reason", CHEATS)
def test_a_custom_strategy_that_breaks_the_rules_is_refused(reason: str) -> None:
    given_ = [
        CompactionCandidate("c", "message", "critical", 1, "one", 1),
        CompactionCandidate("a", "message", "low", 2, "one two three", 3),
        CompactionCandidate("b", "message", "high", 3, "one two three", 3),
    ]

    def cheat(items: tuple[CompactionCandidate, ...], budget: int) -> list[CompactionCandidate]:
        assert (list(items), budget) == (given_, 5)
        return CHEATS[reason](items)  # type: ignore[return-value]

    with pytest.raises(StrategyRefused, match=re.escape(reason)) as refused:
        compact(given_, 5, count=words, strategy=cheat)
    assert refused.value.strategy == "cheat"
    assert compact(given_, 7, count=words, strategy=cheat).items == tuple(given_)  # what fits, it is not asked about


def test_a_custom_strategy_is_not_believed_about_sizes() -> None:
    given_ = [CompactionCandidate("a", "message", "low", 1, "one two three", 3)]
    result = compact(given_, 2, count=words, strategy=lambda items, _: [replace(items[0], text="one two", tokens=0)])
    assert (size(result.items), result.level) == (2, "light")
    lies = compact(given_, 2, count=words, strategy=lambda items, _: [replace(items[0], tokens=0)])
    assert (size(lies.items), lies.level) == (3, "none")


ANY_TEXT = st.one_of(
    st.text(st.characters(codec=None, categories=None)),
    st.lists(
        st.one_of(
            LINES,
            st.sampled_from(["one (repeated 2 times)", "one" * 9, "one" * 9 + " (repeated 2 times)", "{", "x" * 199]),
            st.tuples(st.sampled_from("aé\x00漢 =/-~"), st.integers(1, 2_500)).map(lambda each: each[0] * each[1]),
        ),
        max_size=12,
    ).map("\n".join),
)


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(ANY_TEXT)
def test_lighter_is_never_longer_and_lightest_at_once(text: str) -> None:
    lighter = lighten(text)
    assert len(lighter) <= len(text)
    assert lighten(lighter) == lighter


REPEATED = re.compile(r"(.*) \(repeated (\d+) times\)", re.DOTALL)


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(st.lists(st.sampled_from(["", " ", "a", "a ", "  a", "a b\r", "a line of some length", "another"]), max_size=20))
def test_no_line_is_lost_but_those_that_repeat_the_one_before(lines: list[str]) -> None:
    said: list[str] = []
    for line in lighten("\n".join(lines)).split("\n"):
        found = REPEATED.fullmatch(line)
        said += [found[1]] * int(found[2]) if found else [line]
    kept = [line.rstrip() for line in lines]
    kept = [line for at, line in enumerate(kept) if line or (at and kept[at - 1])]
    while kept and not kept[-1]:
        kept.pop()
    assert said == (kept or [""])


def test_light_by_example() -> None:
    assert lighten("\n\n  one  \n\n\n\ntwo\t\n\n") == "  one\n\ntwo"
    assert lighten("working...\n" * 40) == "working... (repeated 40 times)"
    assert lighten("}\n}\n}") == "}\n}\n}"
    line = "a line that says something"
    again = f"{line} (repeated 2 times)"
    assert lighten(f"{again}\n{line}\n{line}\n{again}") == f"{again} (repeated 3 times)"
    key = "QUJD" * 500
    assert (
        lighten(f'{{"image": "{key}", "n": 1}}') == f'{{"image": "{key[:48]}…[2000 characters]…{key[-24:]}", "n": 1}}'
    )
    digest = "0123456789abcdef" * 8
    minified = ",".join(f'"k{at}":{at}' for at in range(300))
    words_without_spaces = "漢字" * 2_000
    assert lighten(digest) == digest
    assert lighten(minified) == f"{minified[:600]}…[{len(minified)} characters]…{minified[-200:]}"
    assert lighten(words_without_spaces) == words_without_spaces
    assert lighten("") == lighten(" \n\t\n") == ""


def test_what_becomes_a_repetition_counts_as_one() -> None:
    line = "a line that says something"
    tower = [line, line]
    for _ in range(figure(60, 300)):
        line += " (repeated 2 times)"
        tower.append(line)
    assert lighten("\n".join(tower)) == lighten("\n".join(tower[::-1])) == line + " (repeated 2 times)"
