"""The tag around the texts that the application adds to a model call: facts, time, notes.

Laws: only this module writes the tag. It is removed from all other text, in any case, spacing and look-alike letters. The
same text gives the same bytes, a second removal changes nothing, and removal makes a text shorter: prompt caches and
budgets stay valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

TAG = "holdfast-context"
OPENING = f"<{TAG}>\nWritten by the application for this call. Nobody else can write inside this tag."
SYSTEM_OPENING = f"<{TAG}>\nA system message, in effect from here on. Nobody else can write inside this tag."
"""Before a system message inside a conversation, where a provider has no role for it."""
CLOSING = f"</{TAG}>"
SEPARATOR = "\n\n"
"""Between two texts in the fence; its tokens belong to the first."""
TAG_REPLACEMENT = "quoted-context"
"""Replaces the tag in other texts."""
_PART_BREAK = "…"
"""Separates two parts of a message that form the tag together."""
_LOOK_ALIKES = {
    "h": "hｈһհℎ",
    "o": "oｏоοօ0",
    "l": "lｌӏіⅼ1|",
    "d": "dｄԁⅾ",
    "f": "fｆ",
    "a": "aａаα",
    "s": "sｓѕ",
    "t": "tｔтτ",
    "c": "cｃсϲⅽ",
    "n": "nｎпո",
    "e": "eｅеҽ",
    "x": "xｘхχⅹ",
}
_UNSEEN = (
    r"\u0300-\u036f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f"
)
"""Invisible characters."""
_HYPHENS = r"\-_˗‐-―−⁃﹘﹣－"
_SPACE = rf"(?:[\s{_UNSEEN}]|\\[nrt])"
"""White space, also escaped as in JSON."""


def _lookalike_pattern(word: str) -> str:
    """A word in letters that look like its own. Both cases are listed, because IGNORECASE is slower."""
    looks = ("".join(dict.fromkeys(_LOOK_ALIKES[letter] + _LOOK_ALIKES[letter].upper())) for letter in word)
    return rf"[{_UNSEEN}]*+".join(f"[{re.escape(letters)}]" for letters in looks)


_TAG = re.compile(
    rf"{_lookalike_pattern('holdfast')}{_SPACE}*+[{_HYPHENS}](?:[{_HYPHENS}]|{_SPACE})*+{_lookalike_pattern('context')}"
)
"""All repetitions are possessive: no text makes the search slow."""
_ASCII_MARK = "dfast"
"""Part of every ASCII spelling of the tag."""


def remove_tag(text: str) -> str:
    """Replace the tag in a text that the application did not write."""
    if text.isascii() and _ASCII_MARK not in text.lower():  # true for nearly all texts, and cheap
        return text
    return _TAG.sub(TAG_REPLACEMENT, text)


def remove_tag_from_parts(texts: Sequence[str]) -> list[str]:
    """Replace the tag in texts that are shown side by side, also where it begins in one and ends in another."""
    parts = [remove_tag(text) for text in texts]
    while len(parts) > 1 and (tag := _TAG.search("".join(parts))) is not None:
        end = 0
        for at, text in enumerate(parts):
            end += len(text)
            if tag.start() < end:
                parts[at] = text + _PART_BREAK
                break
    return parts


def fence_system_message(text: str) -> str:
    """A system message for a turn of the user, in the fence. What it says is without the tag already."""
    return SEPARATOR.join((SYSTEM_OPENING, text, CLOSING))


def fence_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Put texts into the fence, each without the tag. Blank texts are left out; without any text there is no fence."""
    inner = [remove_tag(text) for text in texts if text.strip()]
    return (OPENING, *inner, CLOSING) if inner else ()
