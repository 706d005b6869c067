"""One-line and shortened texts."""

from __future__ import annotations

from collections.abc import Sequence

ELLIPSIS = "…"


def one_line(text: str) -> str:
    """Collapse white space, so that a text cannot imitate the lines around it."""
    return " ".join(text.split())


def join_names(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shorten(text: str, chars: int) -> str:
    """Cut a text to a number of characters, at the end of a word if possible."""
    if len(text) <= chars:
        return text
    head = text[: chars - 1]
    if not text[chars - 1].isspace():
        words = head.rsplit(None, 1)
        if len(words) > 1 and len(words[0]) * 2 > chars:
            head = words[0]
    return head.rstrip() + ELLIPSIS
