"""The values of facts as they are looked for in texts, and what is found of them there."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.core.infer import text_of
from holdfast.core.strength import Strength, strength_of
from holdfast.core.terms import Detail, Terms
from holdfast.core.wording import GAP
from holdfast.model.content import Json

KEY_CHARS = 80
"""A longer key is not named in a marker."""
FLAGS = {"yes": "true", "true": "yes", "no": "false", "false": "no", "none": "none", "null": "null"}
"""Values that say whether something is so, and in which other way that is said."""
Action: TypeAlias = Literal["redact", "annotate", "withhold"]
_STOP_INSIDE = re.compile(r"[.!?\n]\s*\S")
_NAMEABLE = re.compile(r"[\w .:/@'-]+")


class Stated(msgspec.Struct, frozen=True):
    """A fact that the guard knows of."""

    id: str
    key: str
    value: Json
    standing: Literal["live", "dead", "withheld"]
    replaced: bool = False
    """Whether something else holds in its place now."""


class Statement(NamedTuple):
    """Characters of a text that state what is superseded, or withheld."""

    start: int
    stop: int
    ids: tuple[str, ...]
    key: str
    """The key to name; empty where none is to be named."""
    action: Action
    certain: bool
    replaced: bool
    note_at: int
    """Where a note stands: right behind the value, or at the end of a line of code."""


class Span(NamedTuple):
    """Characters of a text that state a fact, as its provenance says."""

    start: int
    stop: int
    id: str


def leaves(value: Json) -> list[str]:
    """The values that a value is made of, as text."""
    found, ahead = [], [value]
    while ahead:
        each = ahead.pop()
        if isinstance(each, dict):
            ahead += [each[name] for name in sorted(each, reverse=True)]
        elif isinstance(each, list):
            ahead += reversed(each)
        else:
            found.append(text_of(each))
    return found


class Leaf(NamedTuple):
    norms: tuple[str, ...]
    details: tuple[Detail | None, ...]
    strength: Strength
    capital: bool
    """Written with a capital letter."""
    stops: bool
    """With what looks like the end of a sentence in it."""


@lru_cache(maxsize=1 << 12)
def leaf_of(value: str) -> Leaf | None:
    terms = Terms(value)
    places = terms.significant() or range(len(terms.norms))
    norms = tuple(terms.norms[at] for at in places)
    if not norms or GAP in norms:
        return None
    details = tuple(terms.details.get(at) for at in places)
    capital = details[0] is None and value[terms.starts[places[0]]].isupper()
    return Leaf(norms, details, strength_of(value), capital, _STOP_INSIDE.search(value) is not None)


class Pattern(NamedTuple):
    """One way in which the value of a fact may stand in a text."""

    fact: Stated
    leaf: Leaf
    day: bool = False
    """A day of a month, where either the text or the value tells no month."""


def first_line(value: str) -> str:
    """The first part of an address, which may stand for all of it; empty for any other value."""
    first, _, rest = value.partition(",")
    return first if rest and strength_of(first) is Strength.DISTINCTIVE else ""


def _leaves_of(fact: Stated) -> Iterator[Leaf]:
    """A value as it may be written: whole, or, of an address, its first line; yes for true."""
    for value in leaves(fact.value):
        other = FLAGS.get(value.lower(), "")
        short = first_line(value) if fact.standing != "live" else ""
        yield from filter(None, (leaf_of(each) for each in (value, short, other) if each))


class Known:
    """Facts as they are looked for."""

    def __init__(self, facts: Sequence[Stated]) -> None:
        self.facts = facts
        self.gone = {each.id: each for each in facts if each.standing != "live"}
        self.patterns: dict[tuple[str, ...], list[Pattern]] = {}
        self.current: dict[str, list[tuple[str, ...]]] = {}
        """The values that hold, by their keys."""
        for fact in facts:
            for leaf in _leaves_of(fact):
                if fact.standing == "live":
                    self.current.setdefault(fact.key, []).append(leaf.norms)
                self.patterns.setdefault(leaf.norms, []).append(Pattern(fact, leaf))
                if len(leaf.norms) == 2 and all(leaf.details):  # Friday 5 pm, or 5 pm on Friday
                    turned = leaf._replace(norms=leaf.norms[::-1], details=leaf.details[::-1])
                    self.patterns.setdefault(turned.norms, []).append(Pattern(fact, turned))
                if len(leaf.norms) == 1 and leaf.details[0] and leaf.details[0].kind in ("date", "ordinal"):
                    other = ("#" if leaf.norms[0][0] == "~" else "~") + leaf.norms[0][1:]
                    self.patterns.setdefault((other,), []).append(Pattern(fact, leaf, day=True))
        self._nameable: dict[str, bool] = {}

    def is_nameable(self, key: str) -> bool:
        """Whether a marker may name a key: short and plain, and without a value that may not be shown."""
        if key not in self._nameable:
            norms = frozenset(Terms(key[:KEY_CHARS]).norms)
            values = (
                each
                for each, patterns in self.patterns.items()
                if any(not is_live(one) and one.leaf.strength > Strength.COMMON for one in patterns)
            )
            plain = len(key) <= KEY_CHARS and _NAMEABLE.fullmatch(key) is not None
            self._nameable[key] = plain and not any(map(norms.issuperset, values))
        return self._nameable[key]


def is_live(pattern: Pattern) -> bool:
    return pattern.fact.standing == "live"


class Cover:
    """Stretches of terms, to be asked whether one of them has another one inside."""

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        longest: dict[int, int] = {}
        for first, last in stretches:
            longest[first] = max(last, longest.get(first, last))
        self._longest = longest
        self._firsts = sorted(longest)
        self._reach = list(accumulate((longest[first] for first in self._firsts), max))

    def exceeds(self, first: int, last: int) -> bool:
        """Whether one of them is longer than this stretch and holds all of it."""
        before = bisect_left(self._firsts, first)
        return self._longest.get(first, last) > last or (before > 0 and self._reach[before - 1] >= last)
