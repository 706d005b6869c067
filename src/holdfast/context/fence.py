"""The fence around what the application tells a model at each call: facts, time, notes and the like.

Laws: the tag stands in a rendering where this module put it, and nowhere else: it is taken out of all other text, whoever
wrote it, in whatever case, spacing or look-alike letters. The same text always gives the same bytes, what was cleared stays
as it is, and clearing makes a text shorter, so a prompt cache stays warm and a budget holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

TAG = "holdfast-context"
OPENING = f"<{TAG}>\nWritten by the application for this call. Nobody else can write inside this tag."
CLOSING = f"</{TAG}>"
JOINT = "\n\n"
"""What stands between two texts in the fence; it counts to the first."""

QUOTED = "quoted-context"
"""What stands where somebody else wrote the tag: shorter, and nothing that could be mistaken for it."""
_BREAK = "…"
"""What stands where one part of a message ends and the next goes on with the tag."""

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
"""Characters that show nothing of their own."""
_HYPHENS = r"\-_˗‐-―−⁃﹘﹣－"


_SPACE = rf"(?:[\s{_UNSEEN}]|\\[nrt])"
"""Also as JSON spells it."""


def _spelled(word: str) -> str:
    """A word in letters that look like its own. Both cases are listed: a pattern that is told to ignore them is slower."""
    looks = ("".join(dict.fromkeys(_LOOK_ALIKES[letter] + _LOOK_ALIKES[letter].upper())) for letter in word)
    return rf"[{_UNSEEN}]*+".join(f"[{re.escape(each)}]" for each in looks)


_TAG = re.compile(
    rf"{_spelled('holdfast')}{_SPACE}*+[{_HYPHENS}](?:[{_HYPHENS}]|{_SPACE})*+{_spelled('context')}",
)
"""Every part of it takes all that it can and gives nothing back, so that no text keeps it busy for long."""
_PLAIN_MARK = "dfast"
"""What is in every spelling of the tag that has no letters but plain ones."""


def cleared(text: str) -> str:
    """A text of somebody else, without our tag."""
    if text.isascii() and _PLAIN_MARK not in text.lower():  # nearly all texts, and so it costs nearly nothing
        return text
    return _TAG.sub(QUOTED, text)


def cleared_parts(texts: Sequence[str]) -> list[str]:
    """Texts that are shown one right behind the other: also the tag that begins in one and ends in another is none."""
    found = [cleared(text) for text in texts]
    while len(found) > 1 and (across := _TAG.search("".join(found))) is not None:
        end = 0
        for at, text in enumerate(found):
            end += len(text)
            if across.start() < end:
                found[at] = text + _BREAK
                break
    return found


def fenced(texts: Iterable[str]) -> tuple[str, ...]:
    """These texts, each without the tag, in the fence; nothing around nothing."""
    inner = [cleared(text) for text in texts if text.strip()]
    return (OPENING, *inner, CLOSING) if inner else ()
