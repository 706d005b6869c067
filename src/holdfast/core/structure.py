"""Which parts of a text are code, table or list: there a value cannot be taken out without falsifying the rest."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal, NamedTuple

LIST_ITEMS = 3
"""So many short items with commas between them are a list."""
ITEM_WORDS = 4

_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]{1,200}`")
_ROW = re.compile(r"^[ \t]{0,12}(?:[-*•+]|\d{1,3}[.)])[ \t]+\S")
_TABLE = re.compile(r"\|[^|\n]{0,200}\||\t")
_CODE_LINE = re.compile(
    r"^[ \t]{0,40}(?:(?:def|class|import|return|const|let|var|export|SELECT|INSERT|UPDATE)\b.*[;:(){}=*]"
    r"|[\w.\"'\[\]-]{1,80}[ \t]?=[ \t]?\S|[\w.-]{1,80}\(.*\)|.*[{};]$|\$ \S)",
    re.MULTILINE,
)
_ITEM = re.compile(r"[^,;\n]{1,60}[,;]\s")

Form = Literal["prose", "rows", "code"]


class Region(NamedTuple):
    start: int
    stop: int
    form: Form


class Structure:
    """The forms of the lines of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences = [each.start() for each in _FENCE.finditer(text)]
        self._inline = [each.span() for each in _INLINE.finditer(text)]
        self._all = text.lstrip()[:1] in ("{", "[") and text.rstrip()[-1:] in ("}", "]")

    def form_at(self, start: int, stop: int) -> Form:
        if self._all or bisect_right(self._fences, start) % 2 == 1:
            return "code"
        if any(low <= start < high for low, high in self._inline):
            return "code"
        line = self._text[self._line_start(start) : self.line_end(stop)]
        if _CODE_LINE.match(line):
            return "code"
        return "rows" if self.is_table(start) or _ROW.search(line) or self._is_enumeration(line, start) else "prose"

    def is_table(self, at: int) -> bool:
        """Whether a line is a row of a table, whose cells belong together."""
        line = self._text[self._line_start(at) : self.line_end(at)]
        return _TABLE.search(line) is not None or (line.count(",") > 1 and ", " not in line)

    def line_end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _is_enumeration(self, line: str, start: int) -> bool:
        """Whether the value is one of several short items: Aylin (lead), Wei (backend), Kofi (design)."""
        offset = self._line_start(start)
        items = list(_ITEM.finditer(line))
        run = longest = 0
        inside = False
        for each in items:
            short = len(each[0].split()) <= ITEM_WORDS or (run == 0 and ":" in each[0])
            run = run + 1 if short else 0
            inside = (inside and run > 0) or (run > 0 and each.start() <= start - offset < each.end())
            longest = max(longest, run if inside else 0)
        return longest >= LIST_ITEMS
