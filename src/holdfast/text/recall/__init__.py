"""Rank passages for a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from holdfast.model.memory.passages import Passage, PassageKey
from holdfast.text.relevance import query_terms
from holdfast.text.stems import split_words, stem


class Question(NamedTuple):
    terms: tuple[str, ...]


class ScoredPassage(NamedTuple):
    passage: Passage
    score: float
    reason: str


def parse_question(text: str, *, asked_us: int, user: str = "", participants: Sequence[str] = ()) -> Question:
    return Question(query_terms(text))


def score_passages(
    question: Question,
    passages: Sequence[Passage],
    counts: Mapping[str, int],
    total: int,
    similarities: Mapping[PassageKey, float],
) -> list[ScoredPassage]:
    wanted = {*question.terms}
    scored = [ScoredPassage(each, float(len(wanted & {*passage_terms(each.text)})), "words") for each in passages]
    return sorted(filter(lambda one: one.score, scored), key=lambda one: (-one.score, one.passage.key))


def find_hop_terms(
    question: Question, ranked: Sequence[ScoredPassage], counts: Mapping[str, int], total: int
) -> tuple[str, ...]:
    return ()


def choose_passages(
    question: Question, ranked: Sequence[ScoredPassage], budget: int, cost: Callable[[Passage], int]
) -> list[ScoredPassage]:
    chosen = []
    for one in ranked:
        if cost(one.passage) <= budget:
            budget -= cost(one.passage)
            chosen.append(one)
    return chosen


def split_passages(text: str) -> list[tuple[int, str]]:
    return [(start, text[start : start + 600]) for start in range(0, len(text), 600)]


def passage_terms(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in split_words(text))
