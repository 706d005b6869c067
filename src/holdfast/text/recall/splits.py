"""How a long text is cut into passages.

Laws: the passages in order are the text, without a gap or an overlap. None is empty or longer than the bound. Cuts are at
the best boundary: a paragraph, a line, a sentence, a word.
"""

from __future__ import annotations

import re

PASSAGE_CHARS = 600
"""The most characters of a passage, about 100 to 150 tokens."""
_LEAST_CHARS = PASSAGE_CHARS // 3
"""A passage is cut no earlier, if the text goes on."""
_BOUNDARIES = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"[.!?…。！？][\"'”’»)\]*_]{0,3}\s+|[。！？]"),
    re.compile(r"\s+"),
)
"""From the best kind of boundary to the worst. A cut is behind it."""


def split_passages(text: str) -> list[tuple[int, str]]:
    """Cut a text into passages, each with the number of the character that it begins at. An empty text has none."""
    passages: list[tuple[int, str]] = []
    start = 0
    while start < len(text):
        end = _find_cut(text, start)
        passages.append((start, text[start:end]))
        start = end
    return passages


def _find_cut(text: str, start: int) -> int:
    """Find the end of the passage that begins at a character."""
    if len(text) - start <= PASSAGE_CHARS:
        return len(text)
    low, high = start + _LEAST_CHARS, start + PASSAGE_CHARS
    for boundary in _BOUNDARIES:
        cuts = [match.end() for match in boundary.finditer(text, low, high)]
        if cuts:
            return cuts[-1]
    return high
