"""The token estimate: deterministic, without surprises, and in step with the length of any text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.tokens import EstimatingCounter
from tests.support import figure

EXAMPLES = figure(100, 20_000)
MEGABYTE = 1_000_000
COUNTER = EstimatingCounter()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
count = COUNTER.count


def test_nothing_is_no_token() -> None:
    assert count("") == 0
    assert COUNTER.name


@given(TEXTS)
@settings(max_examples=EXAMPLES)
def test_the_same_text_has_the_same_count(text: str) -> None:
    assert count(text) == EstimatingCounter().count(text) >= 0


@given(TEXTS, TEXTS)
@settings(max_examples=EXAMPLES)
def test_a_longer_text_is_about_the_sum_of_its_parts(one: str, other: str) -> None:
    """Joining may save a token where two words become one, and rounding may move one; no more than that."""
    together, apart = count(one + other), count(one) + count(other)
    assert max(count(one), count(other)) - 1 <= together
    assert apart - 3 <= together <= apart + 3


@given(TEXTS.filter(bool))
@settings(max_examples=EXAMPLES)
def test_a_text_has_at_most_about_two_tokens_a_character(text: str) -> None:
    assert count(text) <= 2 * len(text) + 1


CHARACTERS = {
    "letters": "a",
    "capitals": "A",
    "digits": "7",
    "blanks": " ",
    "line ends": "\n",
    "tabs": "\t",
    "marks": "!",
    "underscores": "_",
    "controls": "\x01",
    "NULs": "\0",
    "accents": "é",
    "combining marks": "\u0301",
    "other letters": "日",
    "emoji": "😀",
    "no-break blanks": "\u00a0",
    "zero-width": "\u200b",
    "right to left": "א",
}


@pytest.mark.parametrize("name", CHARACTERS)
def test_a_megabyte_of_one_character_is_counted_in_proportion(name: str) -> None:
    """A text that fills a window must never look like an empty one."""
    half, whole = count(CHARACTERS[name] * (MEGABYTE // 2)), count(CHARACTERS[name] * MEGABYTE)
    assert whole == pytest.approx(2 * half, rel=0.01)
    assert MEGABYTE // 200 <= whole <= 2 * MEGABYTE


@pytest.mark.parametrize("pair", ["a ", "a1", "1.", "a\n", "é!", " \n", "日a", "_a", "\0a"])
def test_a_megabyte_of_changing_characters_is_counted(pair: str) -> None:
    assert MEGABYTE // 200 <= count(pair * (MEGABYTE // 2)) <= 2 * MEGABYTE


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("hello", 1),
        ("hello world", 2),
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("def add(left: int, right: int) -> int:\n    return left + right\n", 19),
        ('{"name": "Ada", "born": 1815, "fields": ["mathematics", "computing"]}', 24),
    ],
)
def test_plain_text_is_counted_about_as_a_model_does(text: str, tokens: int) -> None:
    assert count(text) == pytest.approx(tokens, rel=0.5, abs=1)
