"""What a provider's figures teach: slowly, within bounds, one model at a time, and only from what can be compared."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.calibrate import HIGHEST, LOWEST, THOUSAND, calibrated, factor, learn
from holdfast.model.content import Source, Usage
from holdfast.model.state import Calibration
from tests.support import figure

EXAMPLES = figure(300, 10_000)

_counts = st.integers(0, 10**9)
_models = st.sampled_from([None, Source(), Source(model="a"), Source(model="b")])
_lessons = st.lists(st.tuples(_counts, _models, _counts), max_size=30)

A = Source(provider="p", model="a")


def taught(lessons: list[tuple[int, Source | None, int]], before: Calibration | None = None) -> Calibration:
    known = before or Calibration()
    for billed, source, estimate in lessons:
        known = learn(known, Usage(input_tokens=billed), source, estimate)
    return known


def _conversation(ratio: float, prompts: int, step: int = 1_000, hidden: int = 0) -> Calibration:
    """Prompts that grow by `step` tokens each, of which the provider counts `ratio` times as many, and some on top."""
    return taught([(hidden + round(step * at * ratio), A, step * at) for at in range(1, prompts + 1)])


@given(_lessons)
@settings(max_examples=EXAMPLES)
def test_whatever_was_taught_counts_stay_within_bounds(lessons: list[tuple[int, Source | None, int]]) -> None:
    assert LOWEST <= factor(taught(lessons)) <= HIGHEST


@given(_lessons, _counts, _counts)
@settings(max_examples=EXAMPLES)
def test_more_tokens_never_count_less_and_none_count_as_none(
    lessons: list[tuple[int, Source | None, int]], one: int, other: int
) -> None:
    known = taught(lessons)
    low, high = sorted((one, other))
    assert calibrated(0, known) == 0
    assert calibrated(low, known) <= calibrated(high, known)
    assert calibrated(one + other, known) <= calibrated(one, known) + calibrated(other, known)
    assert calibrated(one, known) * THOUSAND >= one * factor(known)


@given(_counts)
def test_who_was_taught_nothing_counts_as_he_did(tokens: int) -> None:
    assert calibrated(tokens, Calibration()) == tokens


@given(st.integers(2, 200), st.integers(1, 5_000), _counts)
@settings(max_examples=EXAMPLES)
def test_a_counter_that_is_right_stays_as_it_is_whatever_is_hidden_in_the_prompt(
    prompts: int, step: int, hidden: int
) -> None:
    assert factor(_conversation(1, prompts, step, hidden)) == THOUSAND


@pytest.mark.parametrize("ratio", [0.7, 0.9, 1.1, 1.5, 2.0])
def test_a_counter_that_is_wrong_is_put_right_in_time(ratio: float) -> None:
    off = [abs(factor(_conversation(ratio, prompts)) - ratio * THOUSAND) for prompts in (1, 2, 5, 20, 200)]
    assert off == sorted(off, reverse=True)
    assert off[0] == pytest.approx(abs(1 - ratio) * THOUSAND)
    assert off[-1] < 0.02 * THOUSAND


@given(_lessons, st.sampled_from([Usage(), Usage(output_tokens=9), Usage(cache_read_tokens=9)]), _models, _counts)
def test_figures_without_a_prompt_teach_nothing(
    lessons: list[tuple[int, Source | None, int]], usage: Usage, source: Source | None, estimate: int
) -> None:
    known = taught(lessons)
    assert learn(known, usage, source, estimate) == known


@given(_lessons, _counts, _counts)
def test_one_prompt_alone_teaches_nothing(
    lessons: list[tuple[int, Source | None, int]], billed: int, estimate: int
) -> None:
    fresh = taught([(billed + 1, Source(model="another"), estimate)], taught(lessons))
    assert factor(fresh) == THOUSAND


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
@settings(max_examples=EXAMPLES)
def test_what_is_no_matter_of_counting_teaches_nothing(prompt: int, estimate: int, billed: int, counted: int) -> None:
    """A prompt that shrank, or grew out of all proportion, was another prompt."""
    before = taught([(prompt + 10**6, A, estimate + 10**6)])
    after = taught([(prompt + 10**6 + billed, A, estimate + 10**6 + counted)], before)
    sane = counted > 0 and LOWEST * counted <= billed * THOUSAND <= HIGHEST * counted
    assert (factor(after) != factor(before)) <= sane
    assert (after.prompt, after.estimate) == (prompt + 10**6 + billed, estimate + 10**6 + counted)


@given(_lessons)
def test_what_one_model_taught_is_not_held_against_another(lessons: list[tuple[int, Source | None, int]]) -> None:
    after = taught([(5_000, Source(model="z"), 1_000), (7_000, Source(model="z"), 3_000)], taught(lessons))
    assert after == taught([(5_000, Source(model="z"), 1_000), (7_000, Source(model="z"), 3_000)])
