"""The ranking of facts for a query.

Laws: the same facts and query give the same order. Only the given facts count: the scores of a store's index also depend on
facts that the reader may not see, so they are not used. Words in keys and names weigh more than other words.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from holdfast.model import limits
from holdfast.model.facts.fact import Fact, fact_seq
from holdfast.text.stems import KIN_WEIGHT, Term, split_words, term_of
from holdfast.text.values import value_text
from holdfast.text.words import word_set

_COMMON_WORDS = word_set(
    "a about all am an and any are as at be been but by can could did do does for from get had has have how i if in is "
    "it its me my of on or our should so tell than that the their them then there these they this to us was we were "
    "what when where which who why will with would you your"
)
"""Words of a query that are not searched for."""
_NAME = re.compile(r"\b(?:[A-Z][\w&'-]*|\w*\d[\w.,:/%-]*)")
_READ_CHARS = 16 << 10
_SHORT_CHARS = 512
"""The terms of a text up to this length are cached: the same facts are ranked at every call."""


def query_words(query: str) -> tuple[str, ...]:
    """The words of a query, without common ones unless it has no others."""
    words = dict.fromkeys(split_words(query[:_READ_CHARS]))
    rare = [word for word in words if word not in _COMMON_WORDS]
    return tuple(rare or words)[: limits.SEARCH_WORDS]


def query_terms(query: str) -> tuple[str, ...]:
    """The index terms of a query: the stems of its words, then their kin."""
    terms = [term_of(word) for word in query_words(query)]
    stems = (*(term.stem for term in terms), *(term.kin for term in terms if term.kin))
    return tuple(dict.fromkeys(stems))[: limits.SEARCH_WORDS]


class QueryTerms(NamedTuple):
    """The terms of a query."""

    terms: frozenset[Term]
    stems: frozenset[str]
    kin: frozenset[str]


def parse_query(query: str) -> QueryTerms:
    terms = frozenset(term_of(word) for word in query_words(query))
    return QueryTerms(terms, frozenset(term.stem for term in terms), frozenset(term.kin for term in terms) - {""})


class _TextTerms(NamedTuple):
    """The terms of a text."""

    terms: tuple[Term, ...]
    different: tuple[Term, ...]
    stems: frozenset[str]
    kin: frozenset[str]


def matched_share(query: QueryTerms, text: str) -> float:
    """The share of a query's words that a text has, from 0 to 1. Kin count for less."""
    read = _terms_of(text)
    matches = sum(
        1.0 if term.stem in read.stems else KIN_WEIGHT if term.kin in read.kin else 0.0 for term in query.terms
    )
    return round(matches / len(query.terms), 6) if query.terms else 0.0


def _terms_of(text: str) -> _TextTerms:
    return _cached_terms(text) if len(text) <= _SHORT_CHARS else _read_terms(text)


def _read_terms(text: str) -> _TextTerms:
    terms = tuple(map(term_of, split_words(text)))
    different = tuple(dict.fromkeys(terms))
    kin = frozenset(term.kin for term in different) - {""}
    return _TextTerms(terms, different, frozenset(term.stem for term in different), kin)


_cached_terms = functools.lru_cache(maxsize=1 << 12)(_read_terms)


def _count_terms(query: QueryTerms, terms: Iterable[Term], counts: dict[str, float]) -> None:
    """Add the number of occurrences of each query term, kin with their weight."""
    for stem, kin in terms:
        if stem in query.stems:
            counts[stem] = counts.get(stem, 0.0) + 1
        elif kin in query.kin:
            counts[kin] = counts.get(kin, 0.0) + KIN_WEIGHT


class _FactMatch(NamedTuple):
    """What a fact has of a query."""

    counts: dict[str, float]
    """The number of occurrences of each query term, kin with their weight."""
    length: int
    """The number of its words."""
    bonus: float
    """For words of its key, and for names."""


def _match_fact(query: QueryTerms, names: Collection[str], fact: Fact) -> _FactMatch:
    text = value_text(fact.value)
    key, value = _terms_of(fact.key), _terms_of(text)
    counts: dict[str, float] = {}
    bonus = 0.0
    if names:
        lower = text[:_READ_CHARS].lower()
        bonus = sum([name in lower for name in names]) / len(names)
    if not query.stems.isdisjoint(key.stems) or not query.kin.isdisjoint(key.kin):
        _count_terms(query, key.terms, counts)
        different = counts
        if len(key.different) < len(key.terms):
            different = {}
            _count_terms(query, key.different, different)
        bonus += sum([min(count, 1.0) for count in different.values()]) / len(key.different)
    if not query.stems.isdisjoint(value.stems) or not query.kin.isdisjoint(value.kin):
        _count_terms(query, value.terms, counts)
    return _FactMatch(counts, len(key.terms) + len(value.terms), bonus)


def _score_words(matches: Sequence[_FactMatch]) -> list[float]:
    """Score facts by their words (BM25), the best with 1: a word that few facts have counts for more."""
    common = Counter(word for match in matches for word in match.counts)
    weights = {word: math.log(1 + (len(matches) - many + 0.5) / (many + 0.5)) for word, many in common.items()}
    mean = sum(match.length for match in matches) / len(matches) if matches else 1.0
    scores: list[float] = []
    for counts, length, _ in matches:
        score = 0.0
        for word in sorted(counts) if len(counts) > 1 else counts:
            score += weights[word] * (counts[word] * 2.2 / (counts[word] + 0.3 + 0.9 * length / mean))
        scores.append(score)
    best = max(scores, default=0.0) or 1.0
    return [score / best for score in scores]


def rank_facts(query: str, facts: Sequence[Fact]) -> list[tuple[int, float]]:
    """Rank facts: indexes with a score from 0 to 3, best first. Of equal scores, claims come last, newer facts first."""
    terms = parse_query(query)
    names = {name.lower().rstrip(".,:/") for name in _NAME.findall(query[:_READ_CHARS])} - _COMMON_WORDS
    matches = [_match_fact(terms, names, fact) for fact in facts]
    scores = zip(facts, matches, _score_words(matches), strict=True)
    ranks = [
        (-round(score + match.bonus, 6), bool(fact.against), -fact.at_us, -fact_seq(fact.id), index)
        for index, (fact, match, score) in enumerate(scores)
    ]
    ranks.sort()
    return [(index, -score) for score, _, _, _, index in ranks]
