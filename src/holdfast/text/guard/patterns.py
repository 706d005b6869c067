"""The patterns that the guard searches for: the values of facts, and how distinctive each value is."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.model.content import Json
from holdfast.text.guard.terms import GAP, TYPED_MARKS, TermDetail, Terms
from holdfast.text.values import value_text
from holdfast.text.words import STOP, word_set

KEY_CHARS = 80
"""Markers name no longer key."""
FLAGS = {"yes": "true", "true": "yes", "no": "false", "false": "no", "none": "none", "null": "null"}
"""Boolean values and the other way to write each."""
GuardAction: TypeAlias = Literal["redact", "annotate", "withhold"]
_INNER_SENTENCE_END = re.compile(r"[.!?\n]\s*\S")
_NAMEABLE = re.compile(r"[\w .:/@'-]+")


class GuardFact(msgspec.Struct, frozen=True):
    """A fact for the guard."""

    id: str
    key: str
    value: Json
    status: Literal["live", "dead", "withheld"]
    replaced: bool = False
    """Whether its key has a newer value."""


class GuardStatement(NamedTuple):
    """Characters of a text that state superseded or withheld facts."""

    start: int
    stop: int
    ids: tuple[str, ...]
    key: str
    """The key for the marker; empty if the marker names none."""
    action: GuardAction
    certain: bool
    replaced: bool
    note_at: int
    """The position of a note: behind the value, or at the end of a line of code."""


class ValueSpan(NamedTuple):
    """Characters of a text that state a fact, by its provenance."""

    start: int
    stop: int
    id: str


def leaf_texts(value: Json) -> list[str]:
    """The texts of the scalars in a value, those of objects in the order of their keys."""
    leaves, stack = [], [value]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack += [part[name] for name in sorted(part, reverse=True)]
        elif isinstance(part, list):
            stack += reversed(part)
        else:
            leaves.append(value_text(part))
    return leaves


class ValueLeaf(NamedTuple):
    """A scalar in normal form."""

    norms: tuple[str, ...]
    details: tuple[TermDetail | None, ...]
    strength: Strength
    capital: bool
    """It begins with a capital letter."""
    stops: bool
    """It contains the end of a sentence."""


@lru_cache(maxsize=1 << 12)
def leaf_of(value: str) -> ValueLeaf | None:
    terms = Terms(value)
    indexes = terms.significant_indexes() or range(len(terms.norms))
    norms = tuple(terms.norms[at] for at in indexes)
    if not norms or GAP in norms:
        return None
    details = tuple(terms.details.get(at) for at in indexes)
    capital = details[0] is None and value[terms.starts[indexes[0]]].isupper()
    return ValueLeaf(norms, details, strength_of(value), capital, _INNER_SENTENCE_END.search(value) is not None)


class ValuePattern(NamedTuple):
    """One way to write the value of a fact."""

    fact: GuardFact
    leaf: ValueLeaf
    day: bool = False
    """A day of a month, without the month either in the text or in the value."""


def first_address_line(value: str) -> str:
    """The first part of an address, which identifies it; empty for any other value."""
    first, _, remainder = value.partition(",")
    return first if remainder and strength_of(first) is Strength.DISTINCTIVE else ""


def _leaves_of(fact: GuardFact) -> Iterator[ValueLeaf]:
    """The ways to write a value: as it is, the first line of an address, yes for true."""
    for value in leaf_texts(fact.value):
        other = FLAGS.get(value.lower(), "")
        short = first_address_line(value) if fact.status != "live" else ""
        yield from filter(None, (leaf_of(text) for text in (value, short, other) if text))


class FactPatterns:
    """The patterns of facts, by their norms."""

    def __init__(self, facts: Sequence[GuardFact]) -> None:
        self.not_live = {fact.id: fact for fact in facts if fact.status != "live"}
        self.patterns: dict[tuple[str, ...], list[ValuePattern]] = {}
        self.live_values: dict[str, list[tuple[str, ...]]] = {}
        """The norms of live values, by key."""
        for fact in facts:
            for leaf in _leaves_of(fact):
                if fact.status == "live":
                    self.live_values.setdefault(fact.key, []).append(leaf.norms)
                self.patterns.setdefault(leaf.norms, []).append(ValuePattern(fact, leaf))
                if len(leaf.norms) == 2 and all(leaf.details):  # Friday 5 pm, or 5 pm on Friday
                    turned = leaf._replace(norms=leaf.norms[::-1], details=leaf.details[::-1])
                    self.patterns.setdefault(turned.norms, []).append(ValuePattern(fact, turned))
                if len(leaf.norms) == 1 and leaf.details[0] and leaf.details[0].kind in ("date", "ordinal"):
                    other = ("#" if leaf.norms[0][0] == "~" else "~") + leaf.norms[0][1:]
                    self.patterns.setdefault((other,), []).append(ValuePattern(fact, leaf, day=True))
        self._nameable: dict[str, bool] = {}

    def is_nameable(self, key: str) -> bool:
        """Whether a marker may name a key: it is short and plain, and contains no superseded or withheld value."""
        if key not in self._nameable:
            norms = frozenset(Terms(key[:KEY_CHARS]).norms)
            values = (
                value
                for value, patterns in self.patterns.items()
                if any(not is_live(pattern) and pattern.leaf.strength > Strength.COMMON for pattern in patterns)
            )
            plain = len(key) <= KEY_CHARS and _NAMEABLE.fullmatch(key) is not None
            self._nameable[key] = plain and not any(map(norms.issuperset, values))
        return self._nameable[key]


def is_live(pattern: ValuePattern) -> bool:
    return pattern.fact.status == "live"


class StretchCover:
    """A set of term ranges, to look up whether one contains another."""

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        longest: dict[int, int] = {}
        for first, last in stretches:
            longest[first] = max(last, longest.get(first, last))
        self._longest = longest
        self._firsts = sorted(longest)
        self._reach = list(accumulate((longest[first] for first in self._firsts), max))

    def is_within_longer(self, first: int, last: int) -> bool:
        """Whether one of the ranges is longer than this one and contains it."""
        before = bisect_left(self._firsts, first)
        return self._longest.get(first, last) > last or (before > 0 and self._reach[before - 1] >= last)


LONG_CHARS = 8
"""The letters and digits that make a value of words and numbers distinctive."""
LONG_NUMBER_DIGITS = 3
"""The digits of a number that make such a value distinctive."""
SENTENCE_TERMS = 4
"""A value of this many terms is distinctive if half of them are not common words."""
COMMON_WORDS = STOP | word_set(
    "yes no true false null none nil ok okay on off unknown n na other all any high low medium normal new old open closed "
    "active inactive done pending enabled disabled default good bad am pm"
)
"""Words that occur in any text."""
_UNIT_WORDS = word_set("km kg g mg m mi h min s % day week month year night people person mb gb tb euro")
_EXACT_MARKS = "=+"
YEAR = re.compile(r"#(?:19|20)\d\d")
_INNER_CAPITAL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_LARGE_SUM = 100
_LARGE_NUMBER = 1_000


class Strength(IntEnum):
    """How distinctive a value is: the rule that separates a statement of a fact from a coincidence.

    COMMON: a short or everyday value (yes, 3, green). It states the fact only next to its key.
    NAME: one capitalised word. It states the fact in a clause that names the key; beside "I" or "our" it gets a note.
    TYPED: a precise time, date or amount, a name of several words or with inner capitals (MySQL). It gets a note anywhere.
    DISTINCTIVE: an e-mail address, URL, telephone or account number; a long enough mix of letters and digits; four or more
    terms. It states the fact anywhere."""

    COMMON = 0
    NAME = 1
    TYPED = 2
    DISTINCTIVE = 3


@lru_cache(maxsize=1 << 12)
def strength_of(value: str) -> Strength:
    terms = Terms(value)
    words = [at for at, norm in enumerate(terms.norms) if norm[0] not in TYPED_MARKS]
    typed = [at for at, norm in enumerate(terms.norms) if norm[0] in TYPED_MARKS]
    if any(terms.norms[at][0] in _EXACT_MARKS or terms.norms[at].count(".") > 1 for at in typed):
        return Strength.DISTINCTIVE
    content = [norm for norm in terms.norms if norm not in COMMON_WORDS]
    if len(terms.significant_indexes()) >= SENTENCE_TERMS and len(content) >= SENTENCE_TERMS // 2:
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
    """Whether letters and digits together are distinctive: 12 Main Street, SD-2210, TP 571."""
    joined = any(_is_joined(terms, at) for at in words if terms.norms[at] not in _UNIT_WORDS)
    digits = max(sum(map(str.isdigit, terms.norms[at])) for at in typed)
    size = sum(map(str.isalnum, "".join(terms.norms)))  # 5 Oak Ave is as long as 5 Oak Avenue
    return (capital or joined) and (
        size >= LONG_CHARS or (digits >= LONG_NUMBER_DIGITS and size > LONG_NUMBER_DIGITS + 1)
    )


def _is_joined(terms: Terms, at: int) -> bool:
    """Whether a word is joined to a number: SD-2210, korallenriff77."""
    for one, other in ((at - 1, at), (at, at + 1)):
        if one < 0 or other >= len(terms.norms) or "#" not in (terms.norms[one][0], terms.norms[other][0]):
            continue
        between = terms.text[terms.stops[one] : terms.starts[other]]
        if len(between) < 2 and between != " ":
            return True
    return False


def _is_precise(terms: Terms) -> bool:
    """Whether typed values are too precise for a coincidence: a time with minutes, a day of a month, a large amount, or two
    values together."""
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
