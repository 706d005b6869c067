"""Compaction: what is left fits or says so, what is Critical is in, and nothing goes that need not."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.context.levels import (
    BREADCRUMB,
    LEVELS,
    SUMMARY,
    Candidate,
    Compaction,
    PriorityBased,
    Strategy,
    Summarizer,
    compact,
    light,
)
from holdfast.errors import CriticalOverflow, InvalidContent, InvalidNumber, StrategyRefused
from holdfast.model.handles import SCORES, Priority
from holdfast.model.plan import Level, SummarizeOldest, TruncateAt
from tests.support import figure

EXAMPLES = figure(80, 5_000)
Count = Callable[[str], int]


def words(text: str) -> int:
    return len(text.split())


def odd(text: str) -> int:
    """Some counter: what is shorter may have more tokens."""
    return zlib.crc32(text.encode()) % 40


PRIORITIES: tuple[Priority, ...] = tuple(SCORES)
LINES = st.sampled_from(["", "  ", "one", "one ", "two words", "a longer line of several words", "x" * 250])
TEXTS = st.one_of(
    st.integers(1, 12).map(lambda each: " ".join(["word"] * each)),
    st.integers(1, 12).map(lambda each: "the same line\n" * each),
    st.lists(LINES, max_size=4).map("\n".join),
)
KINDS = st.sampled_from(["message", "message", "message", BREADCRUMB, SUMMARY])


@st.composite
def candidates(draw: st.DrawFn, count: Count = words) -> list[Candidate]:
    """In any order of age, with ties: what stands in a prompt does not stand there by age alone."""
    drawn = draw(st.lists(st.tuples(KINDS, st.sampled_from(PRIORITIES), st.integers(1, 9), TEXTS), max_size=10))
    return [Candidate(f"h{at}", *each, count(each[-1])) for at, each in enumerate(drawn)]


@st.composite
def cases(draw: st.DrawFn, count: Count = words) -> tuple[list[Candidate], int]:
    """Candidates, and a budget that has room for what is Critical and for some of the rest."""
    drawn = draw(candidates(count))
    needed = size(critical(drawn))
    return drawn, draw(st.integers(needed, max(needed, size(drawn))))


def brief(old: Sequence[Candidate], limit: int) -> str:
    return " ".join(["word"] * limit)


def chatty(old: Sequence[Candidate], limit: int) -> str:
    return " ".join(each.text + " and so on" for each in old)


def silent(old: Sequence[Candidate], limit: int) -> str:
    return " \n"


def halved(given: tuple[Candidate, ...], budget: int) -> list[Candidate]:
    """A custom strategy that keeps to the rules."""
    return [
        each if each.priority == "critical" else replace(each, text=each.text[: len(each.text) // 2], tokens=-5)
        for each in given
        if each.priority == "critical" or each.seq % 2
    ]


SUMMARIZERS: st.SearchStrategy[Summarizer | None] = st.sampled_from([None, brief, chatty, silent])
OURS = st.one_of(
    st.just(PriorityBased()),
    st.builds(SummarizeOldest, st.integers(0, 5)),
    st.builds(TruncateAt, st.integers(0, 5)),
)
STRATEGIES: st.SearchStrategy[Strategy] = st.one_of(OURS, st.just(halved))
FLOORS = st.sampled_from(LEVELS)


def critical(given_: Sequence[Candidate]) -> list[Candidate]:
    return [each for each in given_ if each.priority == "critical"]


def size(items: Sequence[Candidate]) -> int:
    return sum(each.tokens for each in items)


def above(level: Level) -> int:
    return LEVELS.index(level)


def told(result: Compaction) -> Compaction:
    """What it says that it did, without what it did."""
    return replace(result, items=(), original=0, final=0)


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(st.data(), st.integers(0, 100), STRATEGIES, FLOORS, SUMMARIZERS, st.integers(0, 5))
def test_what_is_left_is_accounted_for(
    data: st.DataObject, budget: int, strategy: Strategy, floor: Level, summarize: Summarizer | None, recent: int
) -> None:
    """It never grows, sizes are those of texts, order is kept, every candidate is in one place, what is Critical is as it
    was, or there is an error that says what it takes."""
    count = data.draw(st.sampled_from([len, words, odd]), label="count")
    given_ = data.draw(candidates(count), label="candidates")
    needed = size(critical(given_))
    if needed > budget:
        with pytest.raises(CriticalOverflow) as overflow:
            compact(given_, budget, count=count, strategy=strategy, min_level=floor, summarize=summarize)
        assert (overflow.value.needed, overflow.value.budget) == (needed, budget)
        return
    try:
        result = compact(
            given_,
            budget,
            count=count,
            strategy=strategy,
            min_level=floor,
            keep_recent=recent,
            summarize=summarize,
        )
    except StrategyRefused:
        assert count is odd  # half of a text may have more tokens by that
        return
    assert result.original == size(given_)
    assert result.final == sum(count(each.text) for each in result.items) == size(result.items) <= result.original
    assert result.target_met == (result.final <= budget)
    assert result.target_met or not isinstance(strategy, PriorityBased)
    assert above(result.level) >= above(floor)
    by_id = {each.id: each for each in given_}
    kept = [each for each in result.items if each.id in by_id]
    made = [each for each in result.items if each.id not in by_id]
    assert sorted([*(each.id for each in kept), *result.removed, *result.summarised]) == sorted(by_id)
    for ids in ([each.id for each in kept], result.removed, result.summarised):
        assert sorted(ids, key=lambda each: int(each[1:])) == list(ids)
    assert [each for each in kept if each.priority == "critical"] == critical(given_)
    for each in kept:
        before = by_id[each.id]
        assert replace(each, text=before.text, tokens=before.tokens) == before
        assert strategy is halved or each.text in (before.text, light(before.text))
    assert [each.kind for each in made] == [SUMMARY] * bool(result.summarised)
    assert all(each.text.strip() for each in made)


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases(), OURS, FLOORS, st.sampled_from([None, brief, brief, silent]), st.integers(0, 5))
def test_done_twice_it_is_done_once(
    case: tuple[list[Candidate], int],
    strategy: Strategy,
    floor: Level,
    summarize: Summarizer | None,
    recent: int,
) -> None:
    given_, budget = case

    def again(items: Sequence[Candidate]) -> Compaction:
        return compact(
            items,
            budget,
            count=words,
            strategy=strategy,
            min_level=floor,
            keep_recent=recent,
            summarize=summarize,
        )

    first = again(given_)
    second = again(first.items)
    assert second.items == first.items
    assert (second.final, second.removed, second.summarised) == (first.final, (), ())
    assert again(given_) == first


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases(), st.integers(0, 20), OURS, FLOORS, SUMMARIZERS)
def test_a_larger_budget_never_raises_the_level(
    case: tuple[list[Candidate], int], more: int, strategy: Strategy, floor: Level, summarize: Summarizer | None
) -> None:
    given_, budget = case
    tight, wide = (
        compact(given_, each, count=words, strategy=strategy, min_level=floor, keep_recent=3, summarize=summarize)
        for each in (budget, budget + more)
    )
    assert above(wide.level) <= above(tight.level)
    assert wide.target_met or not tight.target_met


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(cases())
def test_nothing_is_in_while_something_higher_or_newer_would_fit_in_its_place(
    case: tuple[list[Candidate], int],
) -> None:
    given_, budget = case
    result = compact(given_, budget, count=words)
    room = budget - result.final
    dropped = [replace(each, tokens=words(light(each.text))) for each in given_ if each.id in result.removed]
    for out in dropped:
        for kept in result.items:
            if kept.priority != "critical" and (out.rank, out.seq) > (kept.rank, kept.seq):
                assert room + kept.tokens < out.tokens
    # nor does anything go that need not: what is dropped at this level would not fit beside what stays
    highest = {"aggressive": ("low", "background"), "critical": ("high", "medium")}.get(result.level, ())
    assert all(each.tokens > room for each in dropped if each.priority in highest)


@settings(max_examples=EXAMPLES, deadline=None)
@given(cases(), SUMMARIZERS)
def test_the_first_level_that_fits_wins(case: tuple[list[Candidate], int], summarize: Summarizer | None) -> None:
    """Said anew, from what each level is for."""
    given_, budget = case
    result = compact(given_, budget, count=words, keep_recent=3, summarize=summarize)
    in_full = {
        level: compact(given_, 1 << 30, count=words, min_level=level, keep_recent=3, summarize=summarize)
        for level in LEVELS
    }
    fitting = [level for level in LEVELS if in_full[level].final <= budget]
    assert result.level == (fitting[0] if fitting else "critical")
    if above(result.level) <= above("moderate"):
        assert told(result) == told(in_full[result.level])
        assert result.items == in_full[result.level].items
    assert list(in_full["none"].items) == given_
    assert not [each for each in in_full["aggressive"].items if each.rank <= SCORES["low"]]
    assert all(each.priority == "critical" or each.kind == BREADCRUMB for each in in_full["critical"].items)
    assert in_full["critical"].removed == tuple(
        each.id for each in given_ if each.priority != "critical" and each.kind != BREADCRUMB
    )
    for lower, higher in pairwise(LEVELS):
        assert in_full[higher].final <= in_full[lower].final


@settings(max_examples=EXAMPLES, deadline=None)
@given(candidates(), st.integers(0, 5))
def test_the_newest_are_left_by_a_summary_and_by_a_cut(given_: list[Candidate], newest: int) -> None:
    asked: list[tuple[Sequence[Candidate], int]] = []

    def note(old: Sequence[Candidate], limit: int) -> str:
        asked.append((old, limit))
        return brief(old, limit)

    budget = size(critical(given_))
    movable = sorted((each for each in given_ if each.rank < 99), key=lambda each: each.seq)
    old = [each.id for each in movable[: max(0, len(movable) - newest)]]
    strategy = SummarizeOldest(newest)
    result = compact(given_, budget, count=words, strategy=strategy, keep_recent=0, summarize=note)
    assert result.removed == ()
    assert len(asked) <= 1
    for seen, limit in asked:
        assert [each.id for each in seen] == old
        assert sorted(result.summarised) == sorted(old)
        assert limit == size(seen) // 4
        (summary,) = (each for each in result.items if each.id not in {one.id for one in given_})
        assert (summary.seq, summary.rank) == (seen[-1].seq, max(each.rank for each in seen))
        first = min(int(each[1:]) for each in old)
        assert result.items.index(summary) == first  # where the first of them stood
    cut = compact(given_, budget, count=words, strategy=TruncateAt(newest), summarize=note)
    if cut.removed:
        assert sorted(cut.removed) == sorted(old)
    assert cut.removed or cut.target_met or not old


def test_what_a_summary_stands_for_is_gone_when_the_summary_goes() -> None:
    given_ = [Candidate(f"h{at}", "message", "medium", at, "one two three four", 4) for at in range(4)]
    result = compact(given_, 4, count=words, keep_recent=1, summarize=brief)
    assert [each.id for each in result.items] == ["h3"]
    assert (result.removed, result.summarised) == (("h0", "h1", "h2"), ())
    kept = compact(given_, 7, count=words, keep_recent=1, summarize=brief)
    assert [each.text for each in kept.items] == ["word word word", "one two three four"]
    assert (kept.level, kept.removed, kept.summarised) == ("moderate", (), ("h0", "h1", "h2"))


def test_a_summary_is_not_summarised_again_but_with_what_came_after_it() -> None:
    given_ = [Candidate(f"h{at}", "message", "low", at, " ".join(["one"] * 20), 20) for at in range(6)]
    first = compact(given_, 200, count=words, min_level="moderate", keep_recent=2, summarize=brief)
    assert [each.tokens for each in first.items] == [20, 20, 20]
    assert compact(first.items, 200, count=words, min_level="moderate", keep_recent=2, summarize=brief).summarised == ()
    later = [*first.items, replace(given_[0], id="h9", seq=9)]
    second = compact(later, 200, count=words, min_level="moderate", keep_recent=2, summarize=brief)
    assert second.summarised == (first.items[0].id, "h4")


def test_a_summary_takes_no_name_that_is_taken() -> None:
    given_ = [
        Candidate("summary_1_2", "message", "critical", 9, "one", 1),
        Candidate("h1", "message", "low", 1, "one two three", 3),
        Candidate("h2", "message", "low", 2, "one two three", 3),
    ]
    result = compact(given_, 2, count=words, keep_recent=0, summarize=brief)
    assert result.level == "moderate"
    assert len({each.id for each in result.items}) == len(result.items) == 2


@pytest.mark.parametrize("floor", LEVELS)
def test_breadcrumbs_outlive_all_but_what_is_critical_and_the_newest_outlive_the_rest(floor: Level) -> None:
    given_ = [
        Candidate("root", BREADCRUMB, "low", 1, "one two", 2),
        Candidate("system", "message", "critical", 2, "one two three", 3),
        Candidate("leaf", BREADCRUMB, "background", 3, "one two", 2),
        Candidate("said", "message", "high", 4, "one", 1),
    ]
    for budget, left in [
        (7, {"root", "system", "leaf"}),
        (6, {"system", "leaf"}),
        (5, {"system", "leaf"}),
        (3, {"system"}),
    ]:
        result = compact(given_, budget, count=words, min_level=floor)
        assert {each.id for each in result.items} - {"said"} == left
        assert (result.level, result.target_met) == ("critical", True)


def _grow(given_: tuple[Candidate, ...]) -> object:
    return [replace(each, text=each.text + " and more", tokens=0) if each.seq == 2 else each for each in given_]


CHEATS: dict[str, Callable[[tuple[Candidate, ...]], object]] = {
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
        Candidate("c", "message", "critical", 1, "one", 1),
        Candidate("a", "message", "low", 2, "one two three", 3),
        Candidate("b", "message", "high", 3, "one two three", 3),
    ]

    def cheat(items: tuple[Candidate, ...], budget: int) -> list[Candidate]:
        assert (list(items), budget) == (given_, 5)
        return CHEATS[reason](items)  # type: ignore[return-value]

    with pytest.raises(StrategyRefused, match=re.escape(reason)) as refused:
        compact(given_, 5, count=words, strategy=cheat)
    assert refused.value.strategy == "cheat"
    assert compact(given_, 7, count=words, strategy=cheat).items == tuple(given_)  # what fits, it is not asked about


def test_a_custom_strategy_is_not_believed_about_sizes() -> None:
    given_ = [Candidate("a", "message", "low", 1, "one two three", 3)]
    result = compact(given_, 2, count=words, strategy=lambda items, _: [replace(items[0], text="one two", tokens=0)])
    assert (result.final, result.level, result.target_met) == (2, "light", True)
    lies = compact(given_, 2, count=words, strategy=lambda items, _: [replace(items[0], tokens=0)])
    assert (lies.final, lies.level, lies.target_met) == (3, "none", False)


def test_what_cannot_be_meant_is_refused() -> None:
    one = Candidate("a", "message", "low", 1, "one two three four", 4)
    for number in (-1, True, 1.5, None):
        with pytest.raises(InvalidNumber, match="budget"):
            compact([], number, count=words)  # type: ignore[arg-type]
        with pytest.raises(InvalidNumber, match="keep_recent"):
            compact([], 0, count=words, keep_recent=number)  # type: ignore[arg-type]
        with pytest.raises(InvalidNumber, match="keep_recent"):
            compact([], 0, count=words, strategy=SummarizeOldest(number))  # type: ignore[arg-type]
        with pytest.raises(InvalidNumber, match="message_count"):
            compact([], 0, count=words, strategy=TruncateAt(number))  # type: ignore[arg-type]
    for level in ("heavy", "", None, 3):
        with pytest.raises(InvalidContent, match="min_level"):
            compact([], 0, count=words, min_level=level)  # type: ignore[arg-type]
    for strategy in ("priority_based", None):
        with pytest.raises(InvalidContent, match="the strategy is"):
            compact([], 0, count=words, strategy=strategy)  # type: ignore[arg-type]
    with pytest.raises(InvalidContent, match="same id"):
        compact([one, one], 9, count=words)
    with pytest.raises(InvalidContent, match="summarizer returned None"):
        compact([one], 1, count=words, keep_recent=0, summarize=lambda *_: None)  # type: ignore[arg-type]


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
    lighter = light(text)
    assert len(lighter) <= len(text)
    assert light(lighter) == lighter


REPEATED = re.compile(r"(.*) \(repeated (\d+) times\)", re.DOTALL)


@settings(max_examples=EXAMPLES * 2, deadline=None)
@given(st.lists(st.sampled_from(["", " ", "a", "a ", "  a", "a b\r", "a line of some length", "another"]), max_size=20))
def test_no_line_is_lost_but_those_that_repeat_the_one_before(lines: list[str]) -> None:
    said: list[str] = []
    for line in light("\n".join(lines)).split("\n"):
        found = REPEATED.fullmatch(line)
        said += [found[1]] * int(found[2]) if found else [line]
    kept = [line.rstrip() for line in lines]
    kept = [line for at, line in enumerate(kept) if line or (at and kept[at - 1])]
    while kept and not kept[-1]:
        kept.pop()
    assert said == (kept or [""])


def test_light_by_example() -> None:
    assert light("\n\n  one  \n\n\n\ntwo\t\n\n") == "  one\n\ntwo"
    assert light("working...\n" * 40) == "working... (repeated 40 times)"
    assert light("}\n}\n}") == "}\n}\n}"
    line = "a line that says something"
    again = f"{line} (repeated 2 times)"
    assert light(f"{again}\n{line}\n{line}\n{again}") == f"{again} (repeated 3 times)"
    key = "QUJD" * 500
    assert light(f'{{"image": "{key}", "n": 1}}') == f'{{"image": "{key[:48]}…[2000 characters]…{key[-24:]}", "n": 1}}'
    digest = "0123456789abcdef" * 8
    minified = ",".join(f'"k{at}":{at}' for at in range(300))
    words_without_spaces = "漢字" * 2_000
    assert light(digest) == digest
    assert light(minified) == f"{minified[:600]}…[{len(minified)} characters]…{minified[-200:]}"
    assert light(words_without_spaces) == words_without_spaces
    assert light("") == light(" \n\t\n") == ""


def test_what_becomes_a_repetition_counts_as_one() -> None:
    line = "a line that says something"
    tower = [line, line]
    for _ in range(figure(60, 300)):
        line += " (repeated 2 times)"
        tower.append(line)
    assert light("\n".join(tower)) == light("\n".join(tower[::-1])) == line + " (repeated 2 times)"
