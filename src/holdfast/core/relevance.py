"""Which facts fit a query best.

Law: the same facts, scores and query give the same order. What a store's index scored is taken as it comes and then put
beside what the words themselves say: keys and names count for more than words that stand anywhere.
"""

from __future__ import annotations

import re
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


def query_words(query: str) -> tuple[str, ...]:
    """What of a query is looked for: its words, the common ones only if there are no others."""
    found = dict.fromkeys(words(query[:_READ_CHARS]))
    rare = [word for word in found if word not in _COMMON]
    return tuple(rare or found)[: limits.SEARCH_WORDS]


def _stem(word: str) -> str:
    """Roughly what words of one kind have in common."""
    for end in ("ings", "ing", "ies", "ed", "es", "s"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            return word[: -len(end)]
    return word


def ranking(query: str, hits: Sequence[tuple[Fact, float]]) -> list[tuple[int, float]]:
    """The places of these facts with a score from 0 to 3, the best first; of equals, claims last and the newest first."""
    most = max((score for _, score in hits), default=0.0) or 1.0
    asked = {_stem(word) for word in query_words(query)}
    names = {name.lower().rstrip(".,:/") for name in _NAME.findall(query[:_READ_CHARS])} - _COMMON
    scored = []
    for at, (fact, score) in enumerate(hits):
        key = {_stem(word) for word in words(fact.key)}
        value = text_of(fact.value)[:_READ_CHARS].lower()
        named = sum(name in value for name in names) / len(names) if names else 0.0
        scored.append((at, round(score / most + (len(key & asked) / len(key) if key else 0.0) + named, 6)))

    def place(one: tuple[int, float]) -> tuple[float, bool, int, int]:
        fact = hits[one[0]][0]
        return -one[1], fact.claim, -fact.at_us, -fact_seq(fact.id)

    return sorted(scored, key=place)
