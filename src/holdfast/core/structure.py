"""Which parts of a text are code, table or list: there a value cannot be taken out without falsifying the rest."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

LIST_ITEMS = 3
"""So many short items with commas between them are a list."""
ITEM_WORDS = 4
ITEM_CHARS = 60
"""A longer item is read from its end."""

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]{1,200}`")
_ROW = re.compile(r"^[ \t]{0,12}(?:[-*•+]|\d{1,3}[.)])[ \t]+\S")
_TABLE = re.compile(r"\|[^|\n]{0,200}\||\t")
_CODE_LINE = re.compile(
    r"^[ \t]{0,40}(?:(?:def|class|import|return|const|let|var|export|SELECT|INSERT|UPDATE)\b.*[;:(){}=*]"
    r"|[\w.\"'\[\]-]{1,80}[ \t]?=[ \t]?\S|[\w.-]{1,80}\(.*\)|.*[{};]$|\$ \S)",
    re.MULTILINE,
)
_COMMA = re.compile(r"(?<!\d),|,(?!\d{3})")
_SEPARATOR = re.compile(r"[,;]\s")
_LAST = re.compile(r"(?:and |or |& )?")

Form = Literal["prose", "rows", "code"]


class _Line(NamedTuple):
    """What is known of one line."""

    start: int
    stop: int
    is_code: bool
    is_table: bool
    is_row: bool
    lists: list[tuple[int, int]]
    """The characters of its enumerations, each of several short items one after another."""


class Structure:
    """The forms of the lines of a text. Each line is looked at once, however many values stand in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences = [each.start() for each in _FENCE.finditer(text)]
        self._inline = [each.span() for each in _INLINE.finditer(text)]
        self._ends = [at for at, each in enumerate(text) if each == "\n"] if "\n" in text else []
        self._all = text.lstrip()[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]")
        self._lines: dict[int, _Line] = {}

    def form_at(self, start: int, stop: int) -> Form:
        if self._all or bisect_right(self._fences, start) % 2 == 1:
            return "code"
        if _is_within(self._inline, start):
            return "code"
        first, last = self._line(start), self._line(stop)
        if first.is_code or last.is_code:
            return "code"
        listed = first.is_table or first.is_row or _is_within(first.lists, start)
        return "rows" if listed else "prose"

    def is_table(self, at: int) -> bool:
        """Whether a line is a row of a table, whose cells belong together."""
        return self._line(at).is_table

    def line_end(self, at: int) -> int:
        return self._line(at).stop

    def _line(self, at: int) -> _Line:
        number = bisect_left(self._ends, at)
        if number not in self._lines:
            start = self._ends[number - 1] + 1 if number else 0
            stop = self._ends[number] if number < len(self._ends) else len(self._text)
            self._lines[number] = _line_of(self._text[start:stop], start)
        return self._lines[number]


def _line_of(line: str, start: int) -> _Line:
    return _Line(
        start,
        start + len(line),
        _CODE_LINE.match(line) is not None,
        _TABLE.search(line) is not None or (len(_COMMA.findall(line)) > 1 and ", " not in line),
        _ROW.match(line) is not None,
        [(start + low, start + high) for low, high in _enumerations(line)],
    )


def _is_within(spans: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether one of these spans, which are in order, has a place in it."""
    before = bisect_right(spans, at, key=lambda span: span[0])
    return before > 0 and at < spans[before - 1][1]


def _enumerations(line: str) -> Iterator[tuple[int, int]]:
    """Where several short items follow each other: Aylin (lead), Wei (backend), Kofi (design)."""
    run: list[tuple[int, int]] = []
    start = 0
    for each in _SEPARATOR.finditer(line):
        low, start = max(start, each.start() - ITEM_CHARS), each.end()
        item = line[low : each.start()]
        if run and low != run[-1][1]:
            yield from _closed(line, run)
            run = []
        if len(item.split()) <= ITEM_WORDS or (not run and ":" in item):
            run.append((low, start))
            continue
        yield from _closed(line, run)
        run = []
    yield from _closed(line, run)


def _closed(line: str, run: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The characters of a run of items, and of the last one, which no comma ends."""
    if len(run) >= LIST_ITEMS:
        last = _LAST.match(line, run[-1][1])
        yield run[0][0], run[-1][1] + (len(last[0]) if last else 0) + 1
