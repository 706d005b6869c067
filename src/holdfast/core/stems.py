"""What the forms of one word have in common: the one stemmer of Holdfast.

Laws: the same word has the same stem on every machine and for every store, since words are stemmed here before they go into
an index and before they are looked for. A word with digits, or of another script than the Latin one, is its own stem. Long
words that begin with the same letters are kin, which counts for less than being the same word.

The stems of an index are those of one version of the algorithm: a test holds some of them fast, and says what to do when
they change.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
import types
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer  # type: ignore[import-untyped]

KIN_LETTERS = 6
"""Two words that begin with the same so many letters are kin: allergic and allergies, subscribe and subscription."""
KIN_STEM_LETTERS = 5
"""A word with a shorter stem has no kin: what it has in common with others is an ending."""
KIN_WEIGHT = 0.5
"""What kin counts for, where the same word is 1."""

_POSSESSIVE = re.compile(r"(?<=[a-z])['’]s?\Z")
_LATIN = re.compile(r"[a-z]+")
_KIN_MARK = "0"
"""Behind the letters that kin have in common. A stem of letters has no digit, so the two are never mistaken."""
_PACKAGE = "holdfast_snowball"


class Term(NamedTuple):
    """What one word is compared by."""

    stem: str
    kin: str
    """What stands for all words of one kin; empty for a word that has none."""


@functools.lru_cache(maxsize=1 << 15)
def term(word: str) -> Term:
    """The stem of a lower-case word, without accents, and its kin."""
    if not word.isascii():
        bare = "".join(each for each in unicodedata.normalize("NFD", word) if not unicodedata.combining(each))
        word = bare or word
    word = _POSSESSIVE.sub("", word)
    if not _LATIN.fullmatch(word):
        return Term(word, "")
    stemmed: str = _english()().stemWord(word)  # one of its own: a stemmer has a state that threads must not share
    near = len(word) >= KIN_LETTERS and len(stemmed) >= KIN_STEM_LETTERS
    return Term(stemmed, word[:KIN_LETTERS] + _KIN_MARK if near else "")


def stem(word: str) -> str:
    return term(word).stem


def terms(words: Iterable[str]) -> list[str]:
    """What words are found by, in an index and in a query: each as its stem, and its kin behind it."""
    return [each for word in words for each in term(word) if each]


@functools.cache
def _english() -> type[EnglishStemmer]:
    """The stemmer of English alone, when the first word is stemmed: importing its package by its name would load those of
    all languages, which takes twenty times as long."""
    found = importlib.util.find_spec("snowballstemmer")
    if found is None:
        raise ImportError("snowballstemmer is not installed")
    package = types.ModuleType(_PACKAGE)
    package.__path__ = list(found.submodule_search_locations or ())
    sys.modules.setdefault(_PACKAGE, package)
    module: Any = importlib.import_module(f"{_PACKAGE}.english_stemmer")
    english: type[EnglishStemmer] = module.EnglishStemmer
    return english
