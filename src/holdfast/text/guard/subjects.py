"""The subject of a key: the nouns and verbs with which a sentence names it.

A sentence names `home_city` with the words of the key ("my home city is …") or with a related verb ("I live in …"). Words
are compared by their stems.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from holdfast.text.guard.terms import Terms, fold_word
from holdfast.text.stems import stem
from holdfast.text.words import GENERIC, KEY_PART, KEY_SEPARATOR, SYNONYMS


def root_of(word: str) -> str:
    """The root of a word, by which keys and clauses are compared: `lives`, `living` and `live` have one root."""
    return stem(fold_word(word))


def root_set(text: str) -> frozenset[str]:
    return frozenset(map(root_of, text.split()))


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
"""Words of keys, with the nouns and the verbs with which people state such a fact."""
_PEOPLE_GROUP = "party"
"""The row whose key words are synonyms of each other."""
_MEASURES = root_set("time date day size count number amount status rate quantity level hour month year type")
"""Last words of keys that a clause may leave out, because the value implies them: `appointment time`, `party size`."""


def _build_lexicon() -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
    nouns = {root_of(word): frozenset(map(root_of, synonyms)) for word, synonyms in SYNONYMS.items()}
    verbs: dict[str, frozenset[str]] = {}
    for key_words, related_nouns, related_verbs in _RELATED:
        synonyms = key_words if key_words.startswith(_PEOPLE_GROUP) else ""
        row_nouns = root_set(f"{related_nouns} {synonyms}")
        for word in map(root_of, key_words.split()):
            nouns[word] = nouns.get(word, frozenset()) | row_nouns
            verbs[word] = verbs.get(word, frozenset()) | root_set(related_verbs)
    return nouns, verbs


_NOUNS, _VERBS = _build_lexicon()
_EMPTY_WORDS = frozenset(map(root_of, GENERIC)) | root_set(
    "default favourite preferred preference setting choice option my our user first full given family"
)
"""Words of a key that do not say what it is about."""


class KeySubject(msgspec.Struct, frozen=True):
    """The stems with which a clause names a key."""

    words: tuple[frozenset[str], ...]
    """For each specific word of the key, its stem and those of its synonyms; the head is the last one."""
    nouns: frozenset[str]
    """All of these."""
    verbs: frozenset[str]
    stems: frozenset[str]
    """The stems of all words of the key."""
    specific: frozenset[str]
    """The stems without generic words."""

    def is_named(self, stems: frozenset[str]) -> bool:
        """Whether a clause with these stems names the key: by its head, by two of its words, or by any word if the value
        implies the head."""
        if not self.words or self.nouns.isdisjoint(stems):
            return False
        if not self.words[-1].isdisjoint(stems):
            return True
        count = self.count(stems)
        return count > 1 or (count > 0 and self._is_measured)

    def may_be_meant(self, stems: frozenset[str]) -> bool:
        """Whether a clause with these stems may be about the key: it names the key or has a related verb."""
        return self.is_named(stems) or not self.verbs.isdisjoint(stems)

    def count(self, stems: frozenset[str]) -> int:
        """The number of words of the key that a clause has; each stem counts for one word."""
        words = 0
        for synonyms in self.words:
            words += not synonyms.isdisjoint(stems)
        return min(words, len(self.nouns & stems)) if words > 1 else words

    @property
    def _is_measured(self) -> bool:
        return not self.words[-1].isdisjoint(_MEASURES)


@lru_cache(maxsize=1 << 12)
def subject_of(key: str) -> KeySubject:
    parts = KEY_PART.findall(KEY_SEPARATOR.split(key)[-1])
    stems = list(dict.fromkeys(root_of(norm) for part in parts for norm in _split_part(part)))
    specific = [word for word in stems if word not in _EMPTY_WORDS] or stems
    verbs = frozenset[str]().union(*(_VERBS.get(word, frozenset()) for word in specific))
    words = tuple(_NOUNS.get(word, frozenset()) | {word} for word in specific)
    return KeySubject(words, frozenset[str]().union(*words), verbs, frozenset(stems), frozenset(specific))


def _split_part(part: str) -> list[str]:
    """The words of a part of a key; in a script without spaces, its letters."""
    return [part.lower()] if part.isascii() else Terms(part).norms
