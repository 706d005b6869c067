"""The ranking of facts for a query.

Laws: the same facts and query give the same order. Only the given facts count: the scores of a store's index also depend on
facts that the reader may not see, so they are not used. Words in keys and names weigh more than other words.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
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


def _is_in_query(query: QueryTerms, text: _TextTerms) -> bool:
    return not (query.stems.isdisjoint(text.stems) and query.kin.isdisjoint(text.kin))


def _score_words(query: QueryTerms, facts: Sequence[Fact]) -> list[float]:
    """Score facts by their words (BM25), the best with 1: a word that few facts have counts for more."""
    lengths, counts = [], []
    for fact in facts:
        count: dict[str, float] = {}
        key, value = _terms_of(fact.key), _terms_of(value_text(fact.value))
        for text in (key, value):
            if _is_in_query(query, text):
                _count_terms(query, text.terms, count)
        counts.append(count)
        lengths.append(len(key.terms) + len(value.terms))
    common = Counter(word for count in counts for word in count)
    weights = {word: math.log(1 + (len(facts) - many + 0.5) / (many + 0.5)) for word, many in common.items()}
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    scores = [
        sum(weights[word] * (count[word] * 2.2 / (count[word] + 0.3 + 0.9 * length / mean)) for word in sorted(count))
        if count
        else 0
        for count, length in zip(counts, lengths, strict=True)
    ]
    best = max(scores, default=0.0) or 1.0
    return [score / best for score in scores]


def rank_facts(query: str, facts: Sequence[Fact]) -> list[tuple[int, float]]:
    """Rank facts: indexes with a score from 0 to 3, best first. Of equal scores, claims come last, newer facts first."""
    terms = parse_query(query)
    names = {name.lower().rstrip(".,:/") for name in _NAME.findall(query[:_READ_CHARS])} - _COMMON_WORDS
    ranks = []
    for index, (fact, score) in enumerate(zip(facts, _score_words(terms, facts), strict=True)):
        key, bonus = _terms_of(fact.key), 0.0
        if names:
            value = value_text(fact.value)[:_READ_CHARS].lower()
            bonus = sum(name in value for name in names) / len(names)
        if _is_in_query(terms, key):
            counts: dict[str, float] = {}
            _count_terms(terms, key.different, counts)
            bonus += sum(min(count, 1.0) for count in counts.values()) / len(key.different)
        ranks.append((index, round(score + bonus, 6)))

    def order(rank: tuple[int, float]) -> tuple[float, bool, int, int]:
        fact = facts[rank[0]]
        return -rank[1], fact.is_claim, -fact.at_us, -fact_seq(fact.id)

    return sorted(ranks, key=order)
