"""Which facts fit a query best.

Laws: the same facts and query give the same order. A store's index says what may fit, and no more: its scores tell of other
facts, which the reader may not know of. What is common is so among the facts at hand; keys and names count for more than
words that stand anywhere.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from holdfast.core.infer import text_of
from holdfast.core.ledgers import words
from holdfast.core.stems import KIN_WEIGHT, Term, term
from holdfast.model import limits
from holdfast.model.facts import Fact, fact_seq

_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a about all am an and any are as at be been but by can could did do does for from get had has have how i if in is "
        "it its me my of on or our should so tell than that the their them then there these they this to us was we were "
        "what when where which who why will with would you your",
    )
)
_NAME = re.compile(r"\b(?:[A-Z][\w&'-]*|\w*\d[\w.,:/%-]*)")
_READ_CHARS = 16 << 10
_SHORT_CHARS = 512
"""What is no longer than this is kept in mind: the same facts are ranked at every call."""


def query_words(query: str) -> tuple[str, ...]:
    """What of a query is looked for: its words, the common ones only if there are no others."""
    found = dict.fromkeys(words(query[:_READ_CHARS]))
    rare = [word for word in found if word not in _COMMON]
    return tuple(rare or found)[: limits.SEARCH_WORDS]


def query_terms(query: str) -> tuple[str, ...]:
    """What an index is asked for: the stems of these words, and then their kin."""
    found = [term(word) for word in query_words(query)]
    asked = (*(each.stem for each in found), *(each.kin for each in found if each.kin))
    return tuple(dict.fromkeys(asked))[: limits.SEARCH_WORDS]


class Asked(NamedTuple):
    """What a query asks for, as words are compared."""

    terms: frozenset[Term]
    stems: frozenset[str]
    kin: frozenset[str]


def asked_for(query: str) -> Asked:
    found = frozenset(term(word) for word in query_words(query))
    return Asked(found, frozenset(each.stem for each in found), frozenset(each.kin for each in found) - {""})


def share(asked: Asked, text: str) -> float:
    """The share of a query's words that a text has, from 0 to 1; for kin of a word it is less."""
    found = _terms(text)
    stems, near = {each.stem for each in found}, {each.kin for each in found} - {""}
    has = sum(1.0 if each.stem in stems else KIN_WEIGHT if each.kin in near else 0.0 for each in asked.terms)
    return round(has / len(asked.terms), 6) if asked.terms else 0.0


def _terms(text: str) -> tuple[Term, ...]:
    return _known_terms(text) if len(text) <= _SHORT_CHARS else tuple(map(term, words(text)))


@functools.lru_cache(maxsize=1 << 12)
def _known_terms(text: str) -> tuple[Term, ...]:
    return tuple(map(term, words(text)))


def _counted(asked: Asked, found: Iterable[Term]) -> dict[str, float]:
    """How often each word that is asked for is among these, its kin beside it."""
    counts: dict[str, float] = {}
    for each in found:
        if each.stem in asked.stems:
            counts[each.stem] = counts.get(each.stem, 0.0) + 1
        elif each.kin in asked.kin:
            counts[each.kin] = counts.get(each.kin, 0.0) + KIN_WEIGHT
    return counts


def _fits(asked: Asked, facts: Sequence[Fact]) -> list[float]:
    """How well each of them fits by its words alone, the best with 1: a word counts for more if few have it."""
    lengths, counted = [], []
    for fact in facts:
        found = (*_terms(fact.key), *_terms(text_of(fact.value)))
        counted.append(_counted(asked, found))
        lengths.append(len(found))
    common = Counter(word for each in counted for word in each)
    mean = sum(lengths) / len(lengths) if lengths else 1.0
    scores = [
        sum(
            math.log(1 + (len(facts) - common[word] + 0.5) / (common[word] + 0.5))
            * (each[word] * 2.2 / (each[word] + 0.3 + 0.9 * length / mean))
            for word in sorted(each)
        )
        for each, length in zip(counted, lengths, strict=True)
    ]
    most = max(scores, default=0.0) or 1.0
    return [score / most for score in scores]


def ranking(query: str, facts: Sequence[Fact]) -> list[tuple[int, float]]:
    """The places of these facts with a score from 0 to 3, the best first; of equals, claims last and the newest first."""
    asked = asked_for(query)
    names = {name.lower().rstrip(".,:/") for name in _NAME.findall(query[:_READ_CHARS])} - _COMMON
    scored = []
    for at, (fact, fit) in enumerate(zip(facts, _fits(asked, facts), strict=True)):
        key = {*_terms(fact.key)}
        value = text_of(fact.value)[:_READ_CHARS].lower()
        named = sum(name in value for name in names) / len(names) if names else 0.0
        named += sum(min(each, 1.0) for each in _counted(asked, key).values()) / len(key) if key else 0.0
        scored.append((at, round(fit + named, 6)))

    def place(one: tuple[int, float]) -> tuple[float, bool, int, int]:
        fact = facts[one[0]]
        return -one[1], fact.claim, -fact.at_us, -fact_seq(fact.id)

    return sorted(scored, key=place)
