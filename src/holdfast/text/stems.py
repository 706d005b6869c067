"""The stemmer of the search index.

Laws: a word has the same stem on every machine and in every store, because words are stemmed here both before they are
indexed and before they are searched. A word with digits or in another script than Latin is its own stem. Long words that
begin with the same letters are kin: a weaker match than the same stem.

Indexes store stems. A test fixes some of them and says what to do when another version of the algorithm changes them.
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


_WORD = re.compile(r"[^\W_]+")
_WORD_CHARS = 64
_READ_CHARS = 64 << 10


def split_words(text: str) -> list[str]:
    """Split a text into words for the search: letters and digits, lower case."""
    words: list[str] = _WORD.findall(text[:_READ_CHARS].lower())
    if words and max(map(len, words)) > _WORD_CHARS:
        return [word[:_WORD_CHARS] for word in words]
    return words


KIN_LETTERS = 6
"""Words that begin with the same letters, this many, are kin: allergic and allergies, subscribe and subscription."""
KIN_STEM_LETTERS = 5
"""A word with a shorter stem has no kin."""
KIN_WEIGHT = 0.5
"""The weight of a kin match; the same stem has weight 1."""
_POSSESSIVE = re.compile(r"(?<=[a-z])['’]s?\Z")
_LATIN = re.compile(r"[a-z]+")
_KIN_MARK = "0"
"""Ends a kin term. Stems of Latin words have no digit, so the two never collide."""
_PACKAGE = "holdfast_snowball"


class Term(NamedTuple):
    """The two index terms of a word."""

    stem: str
    kin: str
    """Shared by all words of one kin; empty if the word has no kin."""


@functools.lru_cache(maxsize=1 << 15)
def term_of(word: str) -> Term:
    """Compute the stem and the kin of a lower-case word, without accents."""
    if not word.isascii():
        bare = "".join(char for char in unicodedata.normalize("NFD", word) if not unicodedata.combining(char))
        word = bare or word
    word = _POSSESSIVE.sub("", word)
    if not _LATIN.fullmatch(word):
        return Term(word, "")
    word_stem: str = _load_stemmer()().stemWord(word)  # a new stemmer each time: threads must not share its state
    has_kin = len(word) >= KIN_LETTERS and len(word_stem) >= KIN_STEM_LETTERS
    return Term(word_stem, word[:KIN_LETTERS] + _KIN_MARK if has_kin else "")


def stem(word: str) -> str:
    return term_of(word).stem


def index_terms(words: Iterable[str]) -> list[str]:
    """List the index terms of words: the stem of each, then its kin."""
    return [term for word in words for term in term_of(word) if term]


@functools.cache
def _load_stemmer() -> type[EnglishStemmer]:
    """Load the English stemmer only. `import snowballstemmer` loads all languages, which takes twenty times as long."""
    spec = importlib.util.find_spec("snowballstemmer")
    if spec is None:
        raise ImportError("snowballstemmer is not installed")
    package = types.ModuleType(_PACKAGE)
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules.setdefault(_PACKAGE, package)
    module: Any = importlib.import_module(f"{_PACKAGE}.english_stemmer")
    english: type[EnglishStemmer] = module.EnglishStemmer
    return english
