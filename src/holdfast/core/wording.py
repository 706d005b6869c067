"""The words of a text as they are compared with others, and the clauses and sentences that they stand in.

Laws: case, white space, signs and punctuation between words count for nothing, nor do the ways to write a number. One pass,
whatever a text is made of.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

SENTENCE_WORDS = 60
"""A longer sentence is read clause by clause, and a longer clause only for what stands in it word for word."""
NESTED = 4
"""Values that end at one word, the longest first; those left out lie within one that is not."""
_WITHIN = "-‐‑–/:."
"""What joins two numbers into a longer one: a date, a time, a telephone number."""
GAP = "\0"
"""Stands among the words for what is not read: no value has it in it."""

_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\ua000-\ua4cf\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts that put no space between words, or hang endings onto them: there each letter counts as a word."""
_LETTER = re.compile(f"[{_SPACELESS}]")
_MARK = "\u02d0"
"""A letter that stands for whatever belongs to the letter before it."""
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


_BREAK = re.compile(
    r"(?P<full>\n|(?=[.!?…])(?<!\b[DM]r)(?<!\bMrs)(?<!\bMs)(?<!\bSt)(?<!\bProf)(?<!\bvs)(?<!\be\.g)(?<!\bi\.e)"
    r"[.!?…](?=[\"'”’)\]]*+(?:\s|\Z))|[。！？])|(?<!\d),|,(?!\d)|[;|\t，；、]|\s[-–—]++(?=\s)|—"
    r"|(?P<word>\b(?:and|but|or|while|whereas|because|although|though|instead|however)\b)",
    re.IGNORECASE,
)
"""Where a clause ends; with `full`, a sentence does. The stop of a title or an abbreviation ends nothing."""


class Memory(Generic[T]):
    """What was found in texts, up to so many bytes. All is forgotten when it gets too much: it is soon there again."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._found: dict[str, T] = {}

    def get(self, text: str) -> T | None:
        return self._found.get(text)

    def put(self, text: str, found: T, weight: int) -> None:
        self._left -= len(text) + weight
        if self._left < 0:
            self._found.clear()
            self._left = self._most - len(text) - weight
        if self._left >= 0:
            self._found[text] = found


class Words:
    """The words of a text as they are compared, and where each stands."""

    def __init__(self, text: str, unread: Iterable[tuple[int, int]] = ()) -> None:
        self.text = text
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.norms: list[str] = []
        touching: list[int] = []
        plain = text.isascii()
        shape = text.lower() if plain else _shape(text)
        folded: dict[str, str] = {}
        skipped = [*unread][::-1]
        after = 0
        for found in _TOKEN.finditer(shape):
            start, stop = found.span()
            while skipped and skipped[-1][0] <= start:
                low, after = skipped.pop()
                self._add(low, after, GAP)
            if start < after:
                continue
            if shape[start].isdecimal():
                for low, high, norm in _numbers(shape, start, stop):
                    self._add(low, high, norm)
                continue
            norm = found[0]
            if not plain:
                word = text[start:stop]
                norm = folded[word] if word in folded else folded.setdefault(word, _folded(word))
            if self.stops and self.stops[-1] == start:
                if self._ends_number(norm, stop):
                    continue
                if is_spaceless(norm) and is_spaceless(self.norms[-1]):
                    touching.append(len(self.norms))
            if norm:
                self._add(start, stop, norm)
        for low, high in reversed(skipped):
            self._add(low, high, GAP)
        self.touching = frozenset(touching)
        """Those that are letters of one word."""

    def _add(self, start: int, stop: int, norm: str) -> None:
        self.starts.append(start)
        self.stops.append(stop)
        self.norms.append(norm)

    def _ends_number(self, norm: str, stop: int) -> bool:
        """15th is told as 15 is, and 50k as 50,000."""
        last = self.norms[-1]
        if not last[-1].isdecimal() or not last[0].isdecimal():
            return False
        if norm == "k" and last.count(".") < 2:
            whole, _, part = last.partition(".")
            self.norms[-1] = _plain(whole + part[:3].ljust(3, "0"), part[3:])
        elif norm not in _ORDINAL:
            return False
        self.stops[-1] = stop
        return True

    def apart(self, first: int, last: int) -> bool:
        """Whether these words are not part of a longer word or number."""
        return self._parted(first - 1, first) and self._parted(last, last + 1)

    def _parted(self, one: int, other: int) -> bool:
        if one < 0 or other == len(self.norms):
            return True
        left, right = self.norms[one], self.norms[other]
        between = self.starts[other] - self.stops[one]
        if between == 0:
            return left == GAP or right == GAP or is_spaceless(left[-1]) or is_spaceless(right)
        joint = self.text[self.stops[one]]
        return not (between == 1 and joint in _WITHIN and left[-1].isdecimal() and right[0].isdecimal())


def is_spaceless(word: str) -> bool:
    return word > "\u0dff" and _LETTER.match(word) is not None


def _shape(text: str) -> str:
    """A text of the same length in which whatever belongs to a letter is one, for the pattern to see."""
    kinds = {ord(each): _MARK for each in set(text) if unicodedata.category(each) in (*_MARKS, "Cf")}
    return text.translate(kinds) if kinds else text


def _folded(word: str) -> str:
    """A word as it is compared; empty, if there is no letter in it."""
    if word.isascii():
        return word.lower()
    word = "".join(each for each in word if unicodedata.category(each) != "Cf" and each not in _VARIANTS)
    while word and unicodedata.category(word[0]) in _MARKS:
        word = word[1:]
    word = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold())
    return word if any(each.isalnum() for each in word) else ""


def _numbers(text: str, start: int, stop: int) -> Iterator[tuple[int, int, str]]:
    """The numbers that digits and what stands between them make: 1,200.00 is one, and so is 10.0.0.1; 3,4 are two."""
    digits = text[start:stop]
    if digits.isdigit() and digits.isascii():
        yield start, stop, digits
        return
    digits = "".join(str(unicodedata.decimal(each, each)) for each in digits)
    listed = "," in digits and (text[start - 1 : start] == "[" or text[stop : stop + 1] == "]")
    grouped = None if listed else _THOUSANDS.fullmatch(digits)
    if grouped is not None:
        whole = next(each for each in grouped.group(1, 3, 5) if each)
        yield start, stop, _plain("".join(filter(str.isdigit, whole)), grouped[2] or grouped[4] or "")
        return
    for part in _PART.finditer(digits):
        decimal = _DECIMAL.fullmatch(part[0])
        yield start + part.start(), start + part.end(), _plain(*decimal.groups()) if decimal else part[0]


def _plain(whole: str, part: str) -> str:
    part = part.rstrip("0")
    return f"{whole}.{part}" if part else whole


class Placed(Protocol):
    """Words, or terms, of a text."""

    text: str
    starts: list[int]


class Layout:
    """The clauses and sentences that the words of a text stand in. A conjunction is a clause of its own."""

    def __init__(self, found: Placed) -> None:
        self.clauses: list[int] = []
        self.sentences: list[int] = []
        self.clause_firsts: list[int] = []
        self.sentence_firsts: list[int] = []
        breaks: list[tuple[int, bool]] = []
        for each in _BREAK.finditer(found.text):
            breaks.append((each.start(), each["full"] is not None))
            if each["word"] is not None:
                breaks.append((each.end(), False))
        breaks.append((len(found.text) + 1, True))
        behind, clause, sentence = 0, True, True
        for at, start in enumerate(found.starts):
            while breaks[behind][0] <= start:
                clause, sentence = True, sentence or breaks[behind][1]
                behind += 1
            if clause:
                self.clause_firsts.append(at)
            if sentence:
                self.sentence_firsts.append(at)
            self.clauses.append(len(self.clause_firsts) - 1)
            self.sentences.append(len(self.sentence_firsts) - 1)
            clause = sentence = False
        count = len(found.starts)
        self.clause_lasts = [each - 1 for each in (*self.clause_firsts[1:], count)] if count else []
        self.sentence_lasts = [each - 1 for each in (*self.sentence_firsts[1:], count)] if count else []

    def region(self, first: int, last: int) -> tuple[int, int]:
        """The clauses from one word to another; if they are of several sentences, those."""
        one, other = self.sentences[first], self.sentences[last]
        if one != other:
            return self.sentence_firsts[one], self.sentence_lasts[other]
        return self.clause_firsts[self.clauses[first]], self.clause_lasts[self.clauses[last]]

    def is_whole(self, first: int, last: int) -> bool:
        """Whether these words are one or more sentences."""
        one, other = self.sentences[first], self.sentences[last]
        return self.sentence_firsts[one] == first and self.sentence_lasts[other] == last

    def is_long(self, first: int, last: int) -> bool:
        """Whether a sentence of these words is too long to be read as one statement."""
        return any(
            self.sentence_lasts[each] - self.sentence_firsts[each] >= SENTENCE_WORDS
            for each in (self.sentences[first], self.sentences[last])
        )

    def units(self) -> Iterator[tuple[int, int]]:
        """What is read as one statement: the first and the last word of each sentence, or clause if it is long."""
        for first, last in zip(self.sentence_firsts, self.sentence_lasts, strict=True):
            if last - first < SENTENCE_WORDS:
                yield first, last
                continue
            for clause in range(self.clauses[first], self.clauses[last] + 1):
                if self.clause_lasts[clause] - self.clause_firsts[clause] < SENTENCE_WORDS:
                    yield self.clause_firsts[clause], self.clause_lasts[clause]


def occurrences(found: Words, patterns: Sequence[tuple[str, ...]], most: int) -> Iterator[tuple[int, int, int]]:
    """Where the words of these stand in their order: the first word, the last, and which it is; of those that end at one
    word, so many, the longest first. All are looked for at once, in one pass (Aho and Corasick)."""
    if not patterns:
        return
    edges, ends = _tree(patterns)
    falls, shorter = [0] * len(edges), [0] * len(edges)
    ahead = [*edges[0].values()]
    for node in ahead:
        for word, after in edges[node].items():
            fall = falls[node]
            while fall and word not in edges[fall]:
                fall = falls[fall]
            falls[after] = edges[fall].get(word, 0)
            shorter[after] = falls[after] if ends[falls[after]] >= 0 else shorter[falls[after]]
            ahead.append(after)
    node = 0
    for last, word in enumerate(found.norms):
        while node and word not in edges[node]:
            node = falls[node]
        node = edges[node].get(word, 0)
        at = node if ends[node] >= 0 else shorter[node]
        left = most
        while at and left:
            first = last + 1 - len(patterns[ends[at]])
            if found.apart(first, last):
                left -= 1
                yield first, last, ends[at]
            at = shorter[at]


def _tree(patterns: Sequence[tuple[str, ...]]) -> tuple[list[dict[str, int]], list[int]]:
    """The words that lead on from each beginning of a pattern, and which pattern it is if it is one."""
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
