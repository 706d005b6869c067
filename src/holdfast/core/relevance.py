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
from collections.abc import Sequence

from holdfast.core.infer import text_of
from holdfast.core.ledgers import words
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


@functools.lru_cache(maxsize=1 << 14)
def stem(word: str) -> str:
    """Roughly what words of one kind have in common: ship, ships, shipped, shipping."""
    for end in ("ings", "ing", "ies", "ed", "es", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            word = word[: -len(end)]
            double = end[0] in "ie" and end != "es" and word[-1] == word[-2] not in "aeiouls"
            return word[:-1] if double else word
    return word


def _words(text: str) -> tuple[str, ...]:
    return _known_words(text) if len(text) <= _SHORT_CHARS else tuple(words(text))


@functools.lru_cache(maxsize=1 << 12)
def _known_words(text: str) -> tuple[str, ...]:
    return tuple(words(text))


def _fits(asked: set[str], facts: Sequence[Fact]) -> list[float]:
    """How well each of them fits by its words alone, the best with 1: a word counts for more if few have it."""
    begins = tuple(asked)  # a word begins with its stem, so all others need not be stemmed
    lengths, counted = [], []
    for fact in facts:
        found = (*_words(fact.key), *_words(text_of(fact.value)))
        alike = (stem(word) for word in found if word.startswith(begins))
        counted.append(Counter(each for each in alike if each in asked))
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
    asked = {stem(word) for word in query_words(query)}
    names = {name.lower().rstrip(".,:/") for name in _NAME.findall(query[:_READ_CHARS])} - _COMMON
    scored = []
    for at, (fact, fit) in enumerate(zip(facts, _fits(asked, facts), strict=True)):
        key = {stem(word) for word in _words(fact.key)}
        value = text_of(fact.value)[:_READ_CHARS].lower()
        named = sum(name in value for name in names) / len(names) if names else 0.0
        scored.append((at, round(fit + (len(key & asked) / len(key) if key else 0.0) + named, 6)))

    def place(one: tuple[int, float]) -> tuple[float, bool, int, int]:
        fact = facts[one[0]]
        return -one[1], fact.claim, -fact.at_us, -fact_seq(fact.id)

    return sorted(scored, key=place)
