"""What a provider's figures teach: step by step, within bounds, of one model and counter, from what can be compared."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.packs.calibration import (
    FACTOR_BOUNDS,
    FACTOR_STEPS,
    LARGE_MESSAGE_TOKENS,
    OVERHEAD_BOUNDS,
    OVERHEAD_STEPS,
    learn_from_pack,
    note_usage_report,
)
from holdfast.model.content import Source, Usage
from holdfast.model.state import Calibration
from tests.support import figure

EXAMPLES = figure(150, 10_000)


A = Source(provider="p", model="a")


_counts = st.integers(0, 10**9)


_models = st.sampled_from([None, Source(), A, Source(model="b")])


_lessons = st.lists(st.tuples(_counts, _models, _counts, st.integers(0, 10**6)), max_size=30)


Lesson = tuple[int, Source | None, int, int]
"""The prompt as reported, by whom, and the pack's own count: tokens, in so many messages."""


def taught(lessons: list[Lesson], known: Calibration | None = None, counter: str = "c") -> Calibration:
    known = known or Calibration()
    for seq, (prompt, source, estimate, messages) in enumerate(lessons, 1):
        known = learn_from_pack(
            note_usage_report(known, Usage(input_tokens=prompt), source, seq), seq, counter, estimate, messages
        )
    return known


def conversation(factor: float, overhead: int, prompts: int, step: int, hidden: int = 0) -> Calibration:
    """Two messages of `step` tokens between two prompts, in the count of a provider with this factor and overhead."""
    said = ((round(2 * at * (step * factor + overhead)), A, 2 * step * at, 2 * at) for at in range(1, prompts + 1))
    return taught([(hidden + prompt, *rest) for prompt, *rest in said])  # type: ignore[misc]


@given(_lessons)
@settings(max_examples=EXAMPLES)
def test_whatever_was_taught_both_figures_stay_within_bounds(
    lessons: list[Lesson],
) -> None:
    known = taught(lessons)
    assert FACTOR_BOUNDS[0] <= known.factor <= FACTOR_BOUNDS[1]
    assert OVERHEAD_BOUNDS[0] <= known.overhead <= OVERHEAD_BOUNDS[1]


@given(_lessons, _counts, st.integers(0, 10**6))
@settings(max_examples=EXAMPLES)
def test_whatever_was_taught_nothing_counts_less_than_the_counter_says(
    lessons: list[Lesson], tokens: int, messages: int
) -> None:
    assert taught(lessons).measure(tokens, messages) >= Calibration().measure(tokens, messages)


@given(_lessons, st.tuples(_counts, _models, _counts, st.integers(0, 10**6)))
@settings(max_examples=EXAMPLES)
def test_a_lesson_moves_one_figure_by_one_step_however_large_the_surprise(lessons: list[Lesson], last: Lesson) -> None:
    before = taught(lessons)
    after = taught([last], before)
    if after.model == before.model:
        moved = (abs(after.factor - before.factor), abs(after.overhead - before.overhead))
        assert moved[0] <= FACTOR_STEPS[0]
        assert moved[1] <= OVERHEAD_STEPS[0]
        assert 0 in moved


@given(_lessons, _counts, _counts, st.integers(0, 1_000), st.integers(0, 1_000))
@settings(max_examples=EXAMPLES)
def test_more_never_counts_less_and_nothing_counts_as_nothing(
    lessons: list[Lesson], one: int, other: int, some: int, more: int
) -> None:
    known = taught(lessons)
    assert known.measure(0, 0) == 0
    assert known.measure(one, some) <= known.measure(one + other, some + more)
    together = known.measure(one + other, some + more)
    assert together <= known.measure(one, some) + known.measure(other, more)


@pytest.mark.parametrize("factor", [0.7, 0.9, 1.0, 1.1, 1.5, 2.0])
@pytest.mark.parametrize("hidden", [0, 20_000])
def test_a_factor_is_learned_from_long_messages_whatever_is_hidden_in_the_prompt(factor: float, hidden: int) -> None:
    known = conversation(factor, Calibration().overhead, 200, 5 * LARGE_MESSAGE_TOKENS, hidden)
    assert known.factor == pytest.approx(max(factor, 1) * 1_000, abs=2 * FACTOR_STEPS[1])


@pytest.mark.parametrize("overhead", [0, 12, 58, 150])
def test_an_overhead_is_learned_from_short_messages(overhead: int) -> None:
    known = conversation(1.0, overhead, 200, LARGE_MESSAGE_TOKENS // 10)
    assert known.overhead == pytest.approx(max(overhead, OVERHEAD_BOUNDS[0]), abs=2 * OVERHEAD_STEPS[1])


@given(
    _lessons,
    st.sampled_from(
        [Usage(), Usage(output_tokens=9), Usage(cache_read_tokens=9), Usage(input_tokens=5, cache_read_tokens=9)]
    ),
    _counts,
)
def test_figures_without_a_whole_prompt_teach_nothing(lessons: list[Lesson], usage: Usage, estimate: int) -> None:
    known = taught(lessons)
    assert learn_from_pack(note_usage_report(known, usage, None, 99), 99, "c", estimate, 7) == known


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 100), st.integers(0, 10**6))
def test_a_prompt_that_shrank_is_another_prompt(prompt: int, estimate: int, messages: int, less: int) -> None:
    estimate = min(estimate, prompt)
    before = taught([(prompt + less + 1, A, estimate, messages)])
    after = taught([(prompt, A, estimate + 1, messages + 2)], before)
    assert (after.factor, after.overhead) == (before.factor, before.overhead)
    assert (after.prompt, after.estimate, after.messages) == (prompt, estimate + 1, messages + 2)


@given(_lessons)
def test_what_one_model_taught_is_not_held_against_another(lessons: list[Lesson]) -> None:
    other: list[Lesson] = [(5_000, Source(model="z"), 1_000, 1), (7_000, Source(model="z"), 3_000, 3)]
    assert taught(other, taught(lessons)) == taught(other)


@given(_lessons)
def test_what_was_taught_of_one_counter_is_not_held_against_another(lessons: list[Lesson]) -> None:
    other: list[Lesson] = [(5_000, A, 1_000, 1), (9_000, A, 3_000, 3)]
    assert taught(other, taught(lessons), "d") == taught(other, Calibration(model="a"), "d")


@given(_lessons, _counts, _counts)
def test_a_reply_that_answers_no_known_pack_teaches_nothing(lessons: list[Lesson], prompt: int, estimate: int) -> None:
    known = taught(lessons)
    heard = note_usage_report(known, Usage(input_tokens=prompt), None, 40)
    assert (heard.factor, heard.overhead, heard.prompt) == (known.factor, known.overhead, known.prompt)
    assert learn_from_pack(heard, 41, "c", estimate, 7) == heard
    assert learn_from_pack(heard, 0, "c", estimate, 7) == heard


@pytest.mark.parametrize("prompt", [1, 499, 1_249, 1_000 + 4 * 1_000 + 2 * 400 + 1, 10**9])
def test_absurd_figures_teach_nothing(prompt: int) -> None:
    before = taught([(1_000, A, 1_000, 4)])
    after = taught([(prompt, A, 2_000, 6)], before)
    assert (after.factor, after.overhead) == (before.factor, before.overhead)
