"""The terms of a text in normal form: typed values and words, so that two ways to write the same thing compare as equal.

Laws: case, spacing, plurals, British and American spelling, and the ways to write a number, a time, a date, an amount or a
telephone number make no difference; a term never stands within a longer word or number. One pass over the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from holdfast.core import values
from holdfast.core.detect.words import stem, word_set
from holdfast.core.wording import GAP, Layout, Words

TYPED_MENTIONS = 100_000
"""Typed values that are read in one text."""
_HALF_DAY = 720
_PHONE_TAIL = 7
_LONG_DIGITS = 10
"""So many digits in a row are compared as a telephone number is."""
_JOINTS = "-‐‑–/._&@#\\"
"""What joins letters or digits into a longer word, where no space stands beside it."""
MINOR = word_set("a an and at by for from in is of on the to")
"""Words that may stand between the terms of a value, or be left out there."""
_CURRENCIES = {"€": "eur", "euro": "eur", "eur": "eur", "£": "gbp", "pound": "gbp", "gbp": "gbp"} | dict.fromkeys(
    ("$", "dollar", "buck", "usd"), "usd"
)
_COUNT = re.compile(r"(?!an?\b)[\w.]+", re.IGNORECASE)
_CURRENCY = re.compile("|".join(map(re.escape, sorted(_CURRENCIES, key=len, reverse=True))), re.IGNORECASE)
_SHORT = {
    "st": "street",
    "str": "street",
    "rd": "road",
    "ave": "avenue",
    "av": "avenue",
    "blvd": "boulevard",
    "dr": "drive",
    "ln": "lane",
    "sq": "square",
    "apt": "apartment",
    "kilometer": "km",
    "kilometre": "km",
    "kilogram": "kg",
    "kilo": "kg",
    "gram": "g",
    "milligram": "mg",
    "meter": "m",
    "metre": "m",
    "mile": "mi",
    "hour": "h",
    "hr": "h",
    "hrs": "h",
    "minute": "min",
    "sec": "s",
    "second": "s",
    "percent": "%",
    "mum": "mom",
    "tv": "television",
    "grey": "gray",
    "programme": "program",
    "licence": "license",
    "tyre": "tire",
    "cheque": "check",
    "defence": "defense",
    "offence": "offense",
    "jewellery": "jewelry",
    "aluminium": "aluminum",
    "pyjama": "pajama",
    "cosy": "cozy",
    "storey": "story",
}
_SPELLINGS = (
    (re.compile(r"^(.{3,})our(s|ed|ing|ite|able|ful)?$"), r"\1or\2"),
    (re.compile(r"^(.{3,})is(e|es|ed|ing|ation|ations|er|ers)$"), r"\1iz\2"),
    (re.compile(r"^(.{2,})yse(s|d)?$"), r"\1yze\2"),
    (re.compile(r"^(.{2,})tre(s|d)?$"), r"\1ter\2"),
    (re.compile(r"^(.{3,})ogue(s)?$"), r"\1og\2"),
    (re.compile(r"^(.{3,})ll(ed|ing|er|ers)$"), r"\1l\2"),
)
"""British spellings, and the American ones that they are compared by."""
_BRITISH = re.compile(r"our|is|yse|tre|ogue|ll")
"""What any of them has in it; most words have none of it."""


class Detail(NamedTuple):
    """What a typed term says beyond its normal form."""

    kind: str
    exact: tuple[str | float | None, ...]


@lru_cache(maxsize=1 << 14)
def fold(word: str) -> str:
    """A word as it is compared: its stem, in American spelling, not abbreviated."""
    for pattern, spelling in _SPELLINGS if _BRITISH.search(word) else ():
        word = pattern.sub(spelling, word)
    plain = stem(word)
    return _SHORT.get(plain, plain)


class Terms:
    """The terms of a text, in order, each with the characters that it stands for."""

    def __init__(self, text: str, unread: list[tuple[int, int]] | None = None) -> None:
        self.text = text
        words = Words(text, unread or ())
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.norms: list[str] = []
        self.details: dict[int, Detail] = {}
        ahead = [(each, typed) for each in _counted(text) if (typed := _typed(text, each)) is not None][::-1]
        done = -1
        for at, norm in enumerate(words.norms):
            start, stop = words.starts[at], words.stops[at]
            while ahead and ahead[-1][0].end <= start:
                ahead.pop()
            if start < done:
                continue
            if ahead and ahead[-1][0].start <= start and norm != GAP:
                done = self._add_typed(*ahead.pop())
                continue
            self._add(start, stop, norm if norm == GAP else _number(norm) or fold(norm))

    def _add(self, start: int, stop: int, norm: str) -> None:
        self.starts.append(start)
        self.stops.append(stop)
        self.norms.append(norm)

    def _add_typed(self, mention: values.Mention, typed: tuple[str, Detail]) -> int:
        norm, self.details[len(self.norms)] = typed
        article = 4 if self.text[mention.start : mention.start + 4].lower() == "the " else 0
        self._add(mention.start + article, mention.end, norm)
        return mention.end

    def apart(self, first: int, last: int) -> bool:
        """Whether these terms are not part of a longer word or number."""
        return self._parted(first - 1, first) and self._parted(last, last + 1)

    def _parted(self, one: int, other: int) -> bool:
        if one < 0 or other >= len(self.norms) or GAP in (self.norms[one], self.norms[other]):
            return True
        between = self.text[self.stops[one] : self.starts[other]]
        if not between:
            return not (self.text[self.stops[one] - 1].isascii() and self.text[self.starts[other]].isascii())
        if len(between) > 1:
            return True
        left, right = self.text[self.stops[one] - 1], self.text[self.starts[other]]
        if between == "." and left.isdecimal() and right.isupper():
            return True  # a sentence ends there, and the space behind it is missing
        digits = left.isdecimal() and right.isdecimal()
        return between not in _JOINTS and not (digits and between in ":,")

    def significant(self) -> list[int]:
        """The places of the terms without the minor words."""
        return [at for at, norm in enumerate(self.norms) if norm not in MINOR]

    def layout(self) -> Layout:
        return Layout(self)


def _counted(text: str) -> Iterator[values.Mention]:
    """The values in a text; of a duration, its number: what it counts is a word as any other."""
    for each in values.mentions(text, TYPED_MENTIONS):
        if each.kind != "duration":
            yield each
            continue
        count = _COUNT.match(text, each.start)
        if count is not None:
            yield values.Mention("number", each.start, count.end(), each.norm[:1])


def _number(norm: str) -> str:
    """A number among words; empty for what is none."""
    return f"#{norm}" if norm[0].isdecimal() else ""


def _plain_number(value: float) -> str:
    return f"#{int(value)}" if value.is_integer() and abs(value) < 1e15 else f"#{value:g}"


def _typed(text: str, mention: values.Mention) -> tuple[str, Detail] | None:
    """The normal form of a typed value and what else it says; None for what is compared word by word."""
    stated = text[mention.start : mention.end]
    match mention.kind:
        case "email" | "url" | "iban":
            return f"={mention.norm[0]}", Detail(mention.kind, ())
        case "phone":
            digits = str(mention.norm[0])
            return f"+{digits[-_PHONE_TAIL:]}", Detail("phone", (digits,))
        case "money" | "percent" | "number":
            if stated[0] == "0" and stated.isdigit() and len(stated) > 1:
                return f"#{stated}", Detail("number", ("",))
            if stated.isdigit() and len(stated) >= _LONG_DIGITS:
                return f"+{stated[-_PHONE_TAIL:]}", Detail("phone", (stated,))
            found = _CURRENCY.search(stated) if mention.kind == "money" else None
            unit = _CURRENCIES[found[0].lower()] if found else "%" if mention.kind == "percent" else ""
            return _plain_number(float(mention.norm[0] or 0)), Detail("amount", (unit,))
        case "ordinal":
            return _plain_number(float(mention.norm[0] or 0)), Detail("ordinal", ("",))
        case "time":
            minutes, either = mention.norm
            exact = None if either else float(minutes or 0)
            return f"@{float(minutes or 0) % _HALF_DAY:g}", Detail("time", (exact,))
        case "date":
            return _date(mention)
    return None


def _date(mention: values.Mention) -> tuple[str, Detail] | None:
    kind, *parts = mention.norm
    if kind == "week" and isinstance(parts[0], float):
        return f"~w{parts[0]:g}", Detail("weekday", ())
    if kind == "day" and isinstance(parts[1], float):
        if parts[0] is None:
            return f"#{parts[1]:g}", Detail("ordinal", ("",))
        return f"~{parts[1]:g}", Detail("date", (parts[0], parts[2]))
    return None


def agree(one: Detail | None, other: Detail | None) -> bool:
    """Whether two terms with the same normal form may be the same value: a currency, a month or half of the day that both
    of them tell is the same."""
    if one is None or other is None:
        return True
    if one.kind == other.kind == "phone":
        return values.same_phone(str(one.exact[0]), str(other.exact[0]))
    told = zip(one.exact, other.exact, strict=False)
    return all(a == b or a in (None, "") or b in (None, "") for a, b in told)
