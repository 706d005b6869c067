"""What a key is about, and the words by which a sentence names it.

A sentence names `home_city` with the words of the key ("my home city is …"), or with a verb that goes with such a thing ("I
live in …"). Both are looked for by their stems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from holdfast.core.detect.words import GENERIC, KIN, word_set
from holdfast.core.stems import stem
from holdfast.core.terms import Terms, fold


def root(word: str) -> str:
    """A word as keys and clauses are compared by: `lives`, `living` and `live` are one."""
    return stem(fold(word))


_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
_SEGMENT = re.compile(r"[./:]")

_RELATED = (
    ("name surname firstname lastname", "name surname mr mrs ms miss hello hi hey dear", "call"),
    ("city town home residence country hometown location", "home city town", "live reside base resident"),
    ("address", "address", "live ship deliver send post"),
    ("employer company employment workplace", "employer company job", "work employ join"),
    ("title role position profession occupation", "job title role position", "work"),
    ("email mail", "email mail", "write reach"),
    ("phone telephone mobile cell", "phone telephone mobile cell number", "call ring text reach"),
    ("hotel accommodation lodging", "hotel accommodation", "stay book check"),
    ("flight airline", "flight", "fly"),
    ("doctor dentist physician gp", "doctor dentist physician gp", ""),
    ("car vehicle", "car vehicle", "drive"),
    ("laptop computer device", "laptop computer machine", "use work"),
    ("budget allowance", "budget allowance", "spend"),
    ("price cost rate fee rent", "price cost rate fee rent", "charge pay"),
    ("salary income wage pay", "salary income wage", "earn make"),
    ("deadline due", "deadline due", "finish deliver"),
    ("lead leader manager boss head", "lead leader manager boss head", "run manage"),
    ("owner assignee", "owner assignee", "own assign"),
    ("reviewer", "reviewer review", ""),
    ("database db", "database db", "run use store"),
    ("framework language stack tool editor", "framework language stack tool editor", "run use build"),
    ("party guest attendee seat traveler passenger rider adult ticket", "people person table group", "bring"),
    ("birthday birthdate", "birthday birthdate", "born"),
    ("language", "language", "speak"),
    ("diet allergy", "diet allergy", "eat"),
    ("school university college", "school university college", "study attend go"),
    ("password passcode pin", "password passcode pin", ""),
    ("status state", "status state", ""),
)
"""Words of keys; the nouns by which people name such a thing; and the verbs by which they say it of someone."""
_ALIKE = "party"
"""The group of keys that name each other: riders are passengers."""
_MEASURES = frozenset(
    map(root, word_set("time date day size count number amount status rate quantity level hour month year type"))
)
"""The last word of a key that a value of its kind tells by itself: `appointment time`, `party size`."""


def _lexicon() -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
    nouns = {root(word): frozenset(map(root, kin)) for word, kin in KIN.items()}
    verbs: dict[str, frozenset[str]] = {}
    for keys, named, done in _RELATED:
        alike = keys if keys.startswith(_ALIKE) else ""
        for word in map(root, keys.split()):
            nouns[word] = nouns.get(word, frozenset()) | frozenset(map(root, (*named.split(), *alike.split())))
            verbs[word] = verbs.get(word, frozenset()) | frozenset(map(root, done.split()))
    return nouns, verbs


_NOUNS, _VERBS = _lexicon()
_EMPTY = frozenset(
    map(
        root,
        GENERIC
        | word_set("default favourite preferred preference setting choice option my our user first full given family"),
    )
)
"""Words of a key that do not say what it is about."""


class Subject(msgspec.Struct, frozen=True):
    """The words by which a clause names a key."""

    words: tuple[frozenset[str], ...]
    """For each telling word of the key, the stems that stand for it, its own among them; the head comes last."""
    verbs: frozenset[str]
    own: frozenset[str]
    """The stems of all words of the key."""
    telling: frozenset[str]
    """Those of them that say what it is about."""

    def is_named(self, stems: frozenset[str]) -> bool:
        """Whether a clause with these stems names it: by its head, by two of its words, or, if its head is what any such
        value tells, by any of them."""
        if not self.words:
            return False
        count = self.count(stems)
        return not self.words[-1].isdisjoint(stems) or count > 1 or (count > 0 and self._is_measured)

    def is_meant(self, stems: frozenset[str]) -> bool:
        """Whether words with these stems may be about it: they name it, or say what is done with it."""
        return self.is_named(stems) or not self.verbs.isdisjoint(stems)

    def count(self, stems: frozenset[str]) -> int:
        """How many of its words are among these; one stem stands for one word."""
        return min(sum(not each.isdisjoint(stems) for each in self.words), len(self.nouns & stems))

    @property
    def _is_measured(self) -> bool:
        return not self.words[-1].isdisjoint(_MEASURES)

    @property
    def nouns(self) -> frozenset[str]:
        return frozenset().union(*self.words)


@lru_cache(maxsize=1 << 12)
def subject_of(key: str) -> Subject:
    parts = list(dict.fromkeys(root(norm) for part in _PART.findall(_SEGMENT.split(key)[-1]) for norm in _norms(part)))
    telling = [part for part in parts if part not in _EMPTY] or parts
    verbs = frozenset().union(*(_VERBS.get(each, frozenset()) for each in telling)) if telling else frozenset()
    words = tuple(_NOUNS.get(each, frozenset()) | {each} for each in telling)
    return Subject(words, verbs, frozenset(parts), frozenset(telling))


def _norms(part: str) -> list[str]:
    """The words of a part of a key; of a script without spaces, its letters."""
    return [part.lower()] if part.isascii() else Terms(part).norms
