"""The names in a conversation: paths, ids, codes and proper names, and how likely each is needed again. Pure.

The worth of a name was measured on recorded sessions: it rises if the user or the arguments of a call had the name, if it
was said often and lately; it is far smaller for a number or a path that only ever stood in results.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import msgspec

# Letters and digits of the scripts that put blanks between words.
_LETTER = r"[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff]"
_TOKEN = re.compile(rf"(?:(?<!/)(?:~|\.{{1,2}})?/|[.@$#])?{_LETTER}+(?:[./@:+#~$-]{{1,3}}{_LETTER}+)*")
_PLACE = re.compile(r"(\S*[^\s/.]\.[A-Za-z]\w{0,9}):\d+(?::.*)?")
_NUMBER = re.compile(r"(?!\d{4}-\d\d-\d\d$)[\d.,:/+#$-]+")  # but for days, which are named
_CODE = re.compile(r"\d|_|[^\W_][./@:#][^\W_]|[a-z][A-Z]|[A-Z]{2}")
_KEY = re.compile(r'"([^\W\d]{3,40})"\s?:')
_OPENING = re.compile(r"(?:\A|[.!?:\n])[^\w\n]{0,8}([A-Z]\w+)")
_INITIALS = re.compile(r"[^\W_](?:\.[^\W_])*")
_JOINTS = re.compile(r"[./@:+#~$-]+")

USER, ASSISTANT, ARGUMENT, LONG_ARGUMENT, RESULT = 1, 2, 4, 8, 16
"""Who used a name."""
NUMBER, PATH, CODE, CAPITALS, WORD = "number", "path", "code", "capitals", "word"
LONGEST_NAME = 200

_SOURCES = {USER: 3.0, ASSISTANT: 1.5, ARGUMENT: 2.2, LONG_ARGUMENT: 2.0}
"""The factor for each who used a name."""
_KINDS = {NUMBER: (0.6, 0.05), WORD: (0.8, 0.05), CAPITALS: (0.8, 0.3), PATH: (1.5, 0.1), CODE: (1.0, 1.0)}
"""The factor for each kind: if somebody used the name, and if it only ever stood in results."""
_REPETITION = 0.3
"""The power of the number of mentions."""
_AGE = 16_000
"""Characters after which a mention is worth about a third less."""


class _Name(msgspec.Struct):
    kind: str
    times: int = 0
    sources: int = 0
    at: int = 0


class Names:
    """The names that were mentioned so far. `at` counts the characters that were read."""

    def __init__(self) -> None:
        self.at = 0
        self._names: dict[str, _Name] = {}
        self._plain: set[str] = set()
        """Words that are no names, as they were written."""
        self._keys: set[str] = set()
        """Keys of JSON objects: they say what a value is called, not what it is."""
        self._known: dict[str, tuple[str, str | None]] = {}

    def add(self, text: str, source: int) -> None:
        """Read a text that someone wrote, or a tool returned."""
        self.at += len(text)
        if source == RESULT:
            self._keys.update(_KEY.findall(text))
        opening = Counter(_OPENING.findall(text)) if source != RESULT and " " in text else {}
        for token, times in Counter(_TOKEN.findall(text)).items():
            spelling, kind = self._classify(token)
            if kind == WORD and times <= opening.get(token, 0):
                continue  # its capital is the sentence's
            if kind is None:
                self._plain.add(spelling)
                continue
            name = self._names.get(spelling)
            if name is None:
                self._names[spelling] = name = _Name(kind)
            name.times += times
            name.sources |= source
            name.at = self.at

    def find(self, text: str) -> frozenset[str]:
        """The known names in a text, and the names that those are made of."""
        found: set[str] = set()
        for token in _TOKEN.findall(text):
            spelling, _ = self._classify(token)
            found.update(each for each in (spelling, *_JOINTS.split(token)) if each in self._names)
        return frozenset(found)

    def has_code(self, text: str) -> bool:
        """Whether a text names a path or a code."""
        return any(self._classify(token)[1] in (PATH, CODE) for token in _TOKEN.findall(text))

    def worth(self, spelling: str) -> float:
        name = self._names[spelling]
        if name.kind in (WORD, CAPITALS) and spelling.lower() in self._plain:
            return 0.0
        kind = WORD if spelling in self._keys else name.kind
        worth = math.pow(name.times, _REPETITION) * self.freshness(name.at) * _KINDS[kind][name.sources == RESULT]
        for source, factor in _SOURCES.items():
            if name.sources & source:
                worth *= factor
        return worth

    def freshness(self, at: int) -> float:
        """1 for what was read last, less for what is older."""
        return 1 / math.sqrt(1 + max(0, self.at - at) / _AGE)

    def _classify(self, token: str) -> tuple[str, str | None]:
        """The name in a token, without a line number behind a file's name, and its kind; None for a plain word."""
        known = self._known.get(token)
        if known is None:
            place = _PLACE.fullmatch(token)
            spelling = place[1] if place else token
            self._known[token] = known = spelling, _kind_of(spelling)
        return known


def _kind_of(token: str) -> str | None:
    if len(token) < 3 or len(token) > LONGEST_NAME:
        return None
    if _NUMBER.fullmatch(token):
        return NUMBER
    if token.isalpha() and (token.isupper() or not _CODE.search(token)):
        return CAPITALS if token.isupper() else WORD if token[0].isupper() else None
    if "/" in token:
        return PATH
    return CODE if _CODE.search(token) and not _INITIALS.fullmatch(token) else None
