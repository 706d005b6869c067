"""How well a value is known by itself, wherever it stands: the rule by which the guard tells a fact from a coincidence."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from holdfast.core.detect.words import STOP, word_set
from holdfast.core.terms import Terms

LONG_CHARS = 8
"""Letters and digits that make a value of words and numbers distinctive."""
LONG_NUMBER = 3
"""… or so many digits in its number."""
SENTENCE_TERMS = 4
"""A value of so many terms is distinctive, if half of them say something."""
COMMON_WORDS = STOP | word_set(
    "yes no true false null none nil ok okay on off unknown n na other all any high low medium normal new old open closed "
    "active inactive done pending enabled disabled default good bad am pm"
)
"""Words that stand in any text, whatever it is about."""
_UNITS = word_set("km kg g mg m mi h min s % day week month year night people person mb gb tb euro")
_TYPED, _EXACT = "#@~=+", "=+"
YEAR = re.compile(r"#(?:19|20)\d\d")
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_LARGE_SUM = 100
_LARGE_NUMBER = 1_000


class Strength(IntEnum):
    """How well a value is known by itself.

    COMMON: a short or everyday value (yes, 3, green). It states the fact only next to its key.
    NAME: one capitalised word. It states the fact in a clause that names the key; beside "I" or "our" it gets a note.
    TYPED: a precise time, date or amount, a name of several words or with capitals inside (MySQL). It gets a note anywhere.
    DISTINCTIVE: an e-mail address, URL, telephone or account number; letters with digits, long enough; four or more terms.
    It states the fact anywhere."""

    COMMON = 0
    NAME = 1
    TYPED = 2
    DISTINCTIVE = 3


@lru_cache(maxsize=1 << 12)
def strength_of(value: str) -> Strength:
    terms = Terms(value)
    words = [at for at, norm in enumerate(terms.norms) if norm[0] not in _TYPED]
    typed = [at for at, norm in enumerate(terms.norms) if norm[0] in _TYPED]
    if any(terms.norms[at][0] in _EXACT or terms.norms[at].count(".") > 1 for at in typed):
        return Strength.DISTINCTIVE
    telling = [norm for norm in terms.norms if norm not in COMMON_WORDS]
    if len(terms.significant()) >= SENTENCE_TERMS and len(telling) >= SENTENCE_TERMS // 2:
        return Strength.DISTINCTIVE
    capitals = [at for at in words if value[terms.starts[at]].isupper()]
    if typed:
        if words and _is_code(terms, words, typed, bool(capitals)):
            return Strength.DISTINCTIVE
        return Strength.TYPED if _is_precise(terms) or len(capitals) > 1 else Strength.COMMON
    if len(capitals) > 1 or _INNER_CAPITAL.search(value):
        return Strength.TYPED
    return Strength.NAME if capitals and terms.norms[capitals[0]] not in COMMON_WORDS else Strength.COMMON


def _is_code(terms: Terms, words: list[int], typed: list[int], capital: bool) -> bool:
    """Whether letters and digits together are enough to know a value by: 12 Main Street, SD-2210, TP 571."""
    joined = any(_is_joined(terms, at) for at in words if terms.norms[at] not in _UNITS)
    digits = max(sum(map(str.isdigit, terms.norms[at])) for at in typed)
    size = sum(map(str.isalnum, "".join(terms.norms)))  # 5 Oak Ave is as long as 5 Oak Avenue
    return (capital or joined) and (size >= LONG_CHARS or (digits >= LONG_NUMBER and size > LONG_NUMBER + 1))


def _is_joined(terms: Terms, at: int) -> bool:
    """Whether a word is written together with a number: SD-2210, korallenriff77."""
    for one, other in ((at - 1, at), (at, at + 1)):
        if one < 0 or other >= len(terms.norms) or "#" not in (terms.norms[one][0], terms.norms[other][0]):
            continue
        between = terms.text[terms.stops[one] : terms.starts[other]]
        if len(between) < 2 and between != " ":
            return True
    return False


def _is_precise(terms: Terms) -> bool:
    """Whether typed values say enough to be told from others by chance: a time with minutes, a day of a month, a large
    amount, or two of them together."""
    if len(terms.details) > 1:
        return True
    for at, detail in terms.details.items():
        norm = terms.norms[at]
        if detail.kind == "date" or (detail.kind == "time" and (":" in terms.text or detail.exact[0] is not None)):
            return True
        if detail.kind == "amount":
            unit = detail.exact[0]
            least = _LARGE_SUM if unit not in ("", "%") else _LARGE_NUMBER
            return float(norm[1:]) >= least and not (unit == "" and YEAR.fullmatch(norm))
    return False
