"""The terms of a text in normal form, so that different ways to write the same value compare as equal.

Laws: case, white space, punctuation, plurals, British and American spelling, and the ways to write a number, a time, a
date, an amount or a telephone number make no difference. A term is never part of a longer word or number. One pass over
the text, in any script.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from holdfast.text import values
from holdfast.text.words import strip_plural, word_set

GAP = "\0"
"""The norm of text that is not read. No value contains it."""
TYPED_MARKS = "#@~=+"
"""The first characters of the norms of typed values."""
MINOR_WORDS = word_set("a an and at by for from in is of on the to")
"""Words that make no difference between the terms of a value."""
TYPED_MENTIONS = 100_000
"""The number of typed values that are read in one text."""
NESTED = 4
"""The number of values that may end at one term, the longest first; any other one is part of a longer one."""

# Words

_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts without spaces between words, or with endings written onto them: there each letter is a word."""
_MARK = "\u02d0"
"""The letter that replaces combining marks before the pattern is applied."""
_MARKS = ("Mn", "Mc", "Me")
_VARIANTS = frozenset(map(chr, range(0xFE00, 0xFE10)))
_TOKEN = re.compile(
    rf"\d+(?:[.,'’\u00a0\u202f\u2009]\d+)*|(?![\W\d_])[{_SPACELESS}]{_MARK}*|[^\W\d_{_SPACELESS}]+", re.UNICODE
)
_THOUSANDS = re.compile(
    r"(\d{1,3}(?:(?:,\d{3})+|(?:['’\u00a0\u202f\u2009]\d{3})+))(?:\.(\d+))?"
    r"|(\d{1,3}(?:\.\d{3})+),(\d+)|(\d{1,3}(?:\.\d{3}){2,})",
    re.ASCII,
)
_PART = re.compile(r"[\d.]*\d", re.ASCII)
_DECIMAL = re.compile(r"(\d+)\.(\d+)", re.ASCII)
_ORDINAL = frozenset(("st", "nd", "rd", "th"))


class _Words:
    """The words of a text in lower case, with their characters. Numbers have one notation."""

    def __init__(self, text: str, unread: Iterable[tuple[int, int]]) -> None:
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.norms: list[str] = []
        is_ascii = text.isascii()
        shape = text.lower() if is_ascii else _mask_marks(text)
        cache: dict[str, str] = {}
        gaps = [*unread][::-1]
        gap_end = 0
        for token in _TOKEN.finditer(shape):
            start, stop = token.span()
            while gaps and gaps[-1][0] <= start:
                low, gap_end = gaps.pop()
                self._add(low, gap_end, GAP)
            if start < gap_end:
                continue
            if shape[start].isdecimal():
                for low, high, norm in _read_numbers(shape, start, stop):
                    self._add(low, high, norm)
                continue
            norm = token[0]
            if not is_ascii:
                word = text[start:stop]
                norm = cache[word] if word in cache else cache.setdefault(word, _fold_case(word))
            if self.stops and self.stops[-1] == start and self._extend_number(norm, stop):
                continue
            if norm:
                self._add(start, stop, norm)
        for low, high in reversed(gaps):
            self._add(low, high, GAP)

    def _add(self, start: int, stop: int, norm: str) -> None:
        self.starts.append(start)
        self.stops.append(stop)
        self.norms.append(norm)

    def _extend_number(self, norm: str, stop: int) -> bool:
        """Read 15th as 15, and 50k as 50000."""
        last = self.norms[-1]
        if not last[-1].isdecimal() or not last[0].isdecimal():
            return False
        if norm == "k" and last.count(".") < 2:
            digits, _, fraction = last.partition(".")
            self.norms[-1] = _format_decimal(digits + fraction[:3].ljust(3, "0"), fraction[3:])
        elif norm not in _ORDINAL:
            return False
        self.stops[-1] = stop
        return True


def _mask_marks(text: str) -> str:
    """Replace combining marks by letters, so that they match as part of a word. The length stays the same."""
    marks = {ord(char): _MARK for char in set(text) if unicodedata.category(char) in (*_MARKS, "Cf")}
    return text.translate(marks) if marks else text


def _fold_case(word: str) -> str:
    """The normal form of a word; empty if it has no letter."""
    if word.isascii():
        return word.lower()
    word = "".join(char for char in word if unicodedata.category(char) != "Cf" and char not in _VARIANTS)
    while word and unicodedata.category(word[0]) in _MARKS:
        word = word[1:]
    word = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    return word if any(char.isalnum() for char in word) else ""


def _read_numbers(text: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """Split digits and separators into numbers: 1,200.00 is one, and so is 10.0.0.1; 3,4 are two."""
    digits = text[start:stop]
    if digits.isdigit() and digits.isascii():
        yield start, stop, digits
        return
    digits = "".join(str(unicodedata.decimal(char, char)) for char in digits)
    is_list = "," in digits and (text[start - 1 : start] == "[" or text[stop : stop + 1] == "]")
    thousands = None if is_list else _THOUSANDS.fullmatch(digits)
    if thousands is not None:
        groups = next(group for group in thousands.group(1, 3, 5) if group)
        yield start, stop, _format_decimal("".join(filter(str.isdigit, groups)), thousands[2] or thousands[4] or "")
        return
    for part in _PART.finditer(digits):
        decimal = _DECIMAL.fullmatch(part[0])
        yield start + part.start(), start + part.end(), _format_decimal(*decimal.groups()) if decimal else part[0]


def _format_decimal(digits: str, fraction: str) -> str:
    fraction = fraction.rstrip("0")
    return f"{digits}.{fraction}" if fraction else digits


# Terms

_HALF_DAY = 720
_PHONE_TAIL = 7
_LONG_DIGITS = 10
"""From this many digits in a row, a number is compared as a telephone number."""
_JOINTS = "-‐‑–/._&@#\\"
"""Characters that join letters or digits into a longer word."""
_CURRENCIES = {"€": "eur", "euro": "eur", "eur": "eur", "£": "gbp", "pound": "gbp", "gbp": "gbp"} | dict.fromkeys(
    ("$", "dollar", "buck", "usd"), "usd"
)
_CURRENCY = re.compile("|".join(map(re.escape, sorted(_CURRENCIES, key=len, reverse=True))), re.IGNORECASE)
_COUNT = re.compile(r"(?!an?\b)[\w.]+", re.IGNORECASE)
_ABBREVIATIONS = {
    word: full
    for full, words in {
        "street": "st str", "road": "rd", "avenue": "ave av", "boulevard": "blvd", "drive": "dr", "lane": "ln",
        "square": "sq", "apartment": "apt", "km": "kilometer kilometre", "kg": "kilogram kilo", "g": "gram",
        "mg": "milligram", "m": "meter metre", "mi": "mile", "h": "hour hr hrs", "min": "minute", "s": "sec second",
        "%": "percent", "mom": "mum", "television": "tv", "gray": "grey", "program": "programme", "license": "licence",
        "tire": "tyre", "check": "cheque", "defense": "defence", "offense": "offence", "jewelry": "jewellery",
        "aluminum": "aluminium", "pajama": "pyjama", "cozy": "cosy", "story": "storey",
    }.items()
    for word in words.split()
}  # fmt: skip
_SPELLINGS = (
    (re.compile(r"^(.{3,})our(s|ed|ing|ite|able|ful)?$"), r"\1or\2"),
    (re.compile(r"^(.{3,})is(e|es|ed|ing|ation|ations|er|ers)$"), r"\1iz\2"),
    (re.compile(r"^(.{2,})yse(s|d)?$"), r"\1yze\2"),
    (re.compile(r"^(.{2,})tre(s|d)?$"), r"\1ter\2"),
    (re.compile(r"^(.{3,})ogue(s)?$"), r"\1og\2"),
    (re.compile(r"^(.{3,})ll(ed|ing|er|ers)$"), r"\1l\2"),
)
"""British spellings and their American forms."""
_BRITISH = re.compile(r"our|is|yse|tre|ogue|ll")
"""Part of every British spelling; most words have none."""


class TermDetail(NamedTuple):
    """The part of a typed value that its norm leaves out, such as its currency, month or half of the day."""

    kind: str
    exact: tuple[str | float | None, ...]


@lru_cache(maxsize=1 << 14)
def fold_word(word: str) -> str:
    """The normal form of a word: singular, American spelling, one form for an abbreviation and the full word."""
    for pattern, spelling in _SPELLINGS if _BRITISH.search(word) else ():
        word = pattern.sub(spelling, word)
    plain = strip_plural(word)
    return _ABBREVIATIONS.get(plain, plain)


class Terms:
    """The terms of a text in order, each with its characters. `unread` are spans to skip."""

    def __init__(self, text: str, unread: Sequence[tuple[int, int]] = ()) -> None:
        self.text = text
        words = _Words(text, unread)
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.norms: list[str] = []
        self.details: dict[int, TermDetail] = {}
        typed = [
            (value, normal) for value in _read_values(text) if (normal := _normalise_typed(text, value)) is not None
        ]
        typed.reverse()
        last_end = -1
        for at, norm in enumerate(words.norms):
            start, stop = words.starts[at], words.stops[at]
            while typed and typed[-1][0].end <= start:
                typed.pop()
            if start < last_end:
                continue
            if typed and typed[-1][0].start <= start and norm != GAP:
                value = typed.pop()
                if not self.stops or value[0].start >= self.stops[-1]:  # in 1.2/3, 2/3 is no date
                    last_end = self._add_typed(*value)
                    continue
            self._add(start, stop, norm if norm == GAP else _number_norm(norm) or fold_word(norm))

    def _add(self, start: int, stop: int, norm: str) -> None:
        self.starts.append(start)
        self.stops.append(stop)
        self.norms.append(norm)

    def _add_typed(self, mention: values.ValueMention, typed: tuple[str, TermDetail]) -> int:
        norm, self.details[len(self.norms)] = typed
        article = 4 if self.text[mention.start : mention.start + 4].lower() == "the " else 0
        self._add(mention.start + article, mention.end, norm)
        return mention.end

    def is_apart(self, first: int, last: int) -> bool:
        """Whether these terms are not part of a longer word or number."""
        return self._is_separated(first - 1, first) and self._is_separated(last, last + 1)

    def _is_separated(self, one: int, other: int) -> bool:
        if one < 0 or other >= len(self.norms) or GAP in (self.norms[one], self.norms[other]):
            return True
        between = self.text[self.stops[one] : self.starts[other]]
        if not between:
            return not (self.text[self.stops[one] - 1].isascii() and self.text[self.starts[other]].isascii())
        if len(between) > 1:
            return True
        left, right = self.text[self.stops[one] - 1], self.text[self.starts[other]]
        if between == "." and left.isdecimal() and right.isupper():
            return True  # the end of a sentence, with no space behind it
        is_number = left.isdecimal() and right.isdecimal()
        return between not in _JOINTS and not (is_number and between in ":,")

    def significant_indexes(self) -> list[int]:
        """The indexes of the terms except minor words."""
        return [at for at, norm in enumerate(self.norms) if norm not in MINOR_WORDS]


def _read_values(text: str) -> Iterator[values.ValueMention]:
    """The values in a text; of a duration only its number, because its unit is compared as a word."""
    for mention in values.find_mentions(text, TYPED_MENTIONS):
        if mention.kind != "duration":
            yield mention
            continue
        count = _COUNT.match(text, mention.start)
        if count is not None:
            yield values.ValueMention("number", mention.start, count.end(), mention.norm[:1])


def _number_norm(norm: str) -> str:
    """The norm of a number among words; empty for another word."""
    return f"#{norm}" if norm[0].isdecimal() else ""


def _format_number(value: float) -> str:
    return f"#{int(value)}" if value.is_integer() and abs(value) < 1e15 else f"#{value:g}"


def _normalise_typed(text: str, mention: values.ValueMention) -> tuple[str, TermDetail] | None:
    """The normal form and the detail of a typed value; None for a value that is compared word by word."""
    value = text[mention.start : mention.end]
    match mention.kind:
        case "email" | "url" | "iban":
            return f"={mention.norm[0]}", TermDetail(mention.kind, ())
        case "phone":
            digits = str(mention.norm[0])
            return f"+{digits[-_PHONE_TAIL:]}", TermDetail("phone", (digits,))
        case "money" | "percent" | "number":
            if value[0] == "0" and value.isdigit() and len(value) > 1:
                return f"#{value}", TermDetail("number", ("",))
            if value.isdigit() and len(value) >= _LONG_DIGITS:
                return f"+{value[-_PHONE_TAIL:]}", TermDetail("phone", (value,))
            currency = _CURRENCY.search(value) if mention.kind == "money" else None
            unit = _CURRENCIES[currency[0].lower()] if currency else "%" if mention.kind == "percent" else ""
            return _format_number(float(mention.norm[0] or 0)), TermDetail("amount", (unit,))
        case "ordinal":
            return _format_number(float(mention.norm[0] or 0)), TermDetail("ordinal", ("",))
        case "time":
            minutes, either = mention.norm
            exact = None if either else float(minutes or 0)
            return f"@{float(minutes or 0) % _HALF_DAY:g}", TermDetail("time", (exact,))
        case "date":
            return _normalise_date(mention)
    return None


def _normalise_date(mention: values.ValueMention) -> tuple[str, TermDetail] | None:
    kind, *parts = mention.norm
    if kind == "week" and isinstance(parts[0], float):
        return f"~w{parts[0]:g}", TermDetail("weekday", ())
    if kind == "day" and isinstance(parts[1], float):
        if parts[0] is None:
            return f"#{parts[1]:g}", TermDetail("ordinal", ("",))
        return f"~{parts[1]:g}", TermDetail("date", (parts[0], parts[2]))
    return None


def details_agree(one: TermDetail | None, other: TermDetail | None) -> bool:
    """Whether two terms with the same norm may be the same value: neither contradicts the other's currency, month or half
    of the day."""
    if one is None or other is None:
        return True
    if one.kind == other.kind == "phone":
        return values.is_same_phone(str(one.exact[0]), str(other.exact[0]))
    pairs = zip(one.exact, other.exact, strict=False)
    return all(a == b or a in (None, "") or b in (None, "") for a, b in pairs)


# Clauses

_BREAK = re.compile(
    r"(?P<full>\n|(?=[.!?…])(?<!\b[DM]r)(?<!\bMrs)(?<!\bMs)(?<!\bSt)(?<!\bProf)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)"
    r"[.!?…](?=[\"'”’)\]]*+(?:\s|\Z))|[。！？])|(?<!\d),|,(?!\d)|[;|\t，；、]|\s[-–—]++(?=\s)|—"
    r"|(?P<word>\b(?:and|but|or|while|whereas|because|although|though|instead|however)\b)",
    re.IGNORECASE,
)
"""The end of a clause; with `full`, of a sentence. The full stop of an abbreviation ends nothing."""


class ClauseLayout:
    """The clauses and sentences of a text, by the indexes of its terms. A conjunction is a clause by itself."""

    def __init__(self, terms: Terms) -> None:
        self.clauses: list[int] = []
        self.sentences: list[int] = []
        self.clause_firsts: list[int] = []
        self.sentence_firsts: list[int] = []
        breaks: list[tuple[int, bool]] = []
        for match in _BREAK.finditer(terms.text):
            breaks.append((match.start(), match["full"] is not None))
            if match["word"] is not None:
                breaks.append((match.end(), False))
        breaks.append((len(terms.text) + 1, True))
        next_break, new_clause, new_sentence = 0, True, True
        for at, start in enumerate(terms.starts):
            while breaks[next_break][0] <= start:
                new_clause, new_sentence = True, new_sentence or breaks[next_break][1]
                next_break += 1
            if new_clause:
                self.clause_firsts.append(at)
            if new_sentence:
                self.sentence_firsts.append(at)
            self.clauses.append(len(self.clause_firsts) - 1)
            self.sentences.append(len(self.sentence_firsts) - 1)
            new_clause = new_sentence = False
        count = len(terms.starts)
        self.clause_lasts = [first - 1 for first in (*self.clause_firsts[1:], count)] if count else []
        self.sentence_lasts = [first - 1 for first in (*self.sentence_firsts[1:], count)] if count else []


# Search


class TermSequence(Protocol):
    """A sequence of terms to search in."""

    norms: list[str]

    def is_apart(self, first: int, last: int) -> bool: ...


def find_occurrences(
    terms: TermSequence, patterns: Sequence[tuple[str, ...]], limit: int
) -> Iterator[tuple[int, int, int]]:
    """Find patterns in a sequence: the first term, the last term and the index of the pattern. Of the patterns that end at
    one term, the longest are found, up to the limit. One pass for all patterns (Aho-Corasick)."""
    if not patterns:
        return
    edges, ends = _build_trie(patterns)
    fallbacks, shorter = [0] * len(edges), [0] * len(edges)
    queue = [*edges[0].values()]
    for node in queue:
        for word, child in edges[node].items():
            fallback = fallbacks[node]
            while fallback and word not in edges[fallback]:
                fallback = fallbacks[fallback]
            fallbacks[child] = edges[fallback].get(word, 0)
            shorter[child] = fallbacks[child] if ends[fallbacks[child]] >= 0 else shorter[fallbacks[child]]
            queue.append(child)
    node = 0
    for last, word in enumerate(terms.norms):
        while node and word not in edges[node]:
            node = fallbacks[node]
        node = edges[node].get(word, 0)
        at = node if ends[node] >= 0 else shorter[node]
        left = limit
        while at and left:
            first = last + 1 - len(patterns[ends[at]])
            if terms.is_apart(first, last):
                left -= 1
                yield first, last, ends[at]
            at = shorter[at]


def _build_trie(patterns: Sequence[tuple[str, ...]]) -> tuple[list[dict[str, int]], list[int]]:
    """The edges of each node, and the pattern that ends there or -1."""
    edges: list[dict[str, int]] = [{}]
    ends = [-1]
    for at, pattern in enumerate(patterns):
        node = 0
        for word in pattern:
            node = edges[node].setdefault(word, len(edges))
            if node == len(edges):
                edges.append({})
                ends.append(-1)
        ends[node] = at
    return edges, ends
