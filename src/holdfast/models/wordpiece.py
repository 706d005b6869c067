"""The tokens of BERT: how the local embedder reads a text. Pure Python.

Laws: no text raises, and time is linear in its length. A text is data: "[SEP]" in it is a word like any other.

The vocabulary is the one of `bert-base-uncased` (Apache License 2.0), in the order of its ids.
"""

from __future__ import annotations

import functools
import importlib.resources
import unicodedata
from collections.abc import Iterator

UNKNOWN, START, END = 100, 101, 102
"""The ids of [UNK], [CLS] and [SEP]."""
_WORD_CHARS = 100
"""A longer word is unknown."""
_INNER = "##"
"""Before a piece that does not begin its word."""
_CHARS_PER_TOKEN = 32
"""No more characters than this for each token are looked at: a long text is cut before the work."""
_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
_ASCII_SIGNS = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


@functools.cache
def load_vocabulary() -> dict[str, int]:
    """The ids of all pieces."""
    file = importlib.resources.files("holdfast.models").joinpath("data", "wordpiece.txt")
    return {piece: number for number, piece in enumerate(file.read_text(encoding="utf-8").split("\n")) if piece}


def encode_text(text: str, most: int) -> list[int]:
    """The ids of a text, with those of its start and end: at most so many. What is behind them is left out."""
    vocabulary = load_vocabulary()
    ids = [START]
    for word in _split_words(text[: most * _CHARS_PER_TOKEN]):
        ids += _split_word(word, vocabulary)
        if len(ids) >= most - 1:
            break
    return [*ids[: most - 1], END]


def _split_words(text: str) -> Iterator[str]:
    """Words and signs in small letters, without accents."""
    for part in _normalize(text).split():
        start = 0
        for at, char in enumerate(part):
            if _is_sign(char):
                if start < at:
                    yield part[start:at]
                yield char
                start = at + 1
        if start < len(part):
            yield part[start:]


def _normalize(text: str) -> str:
    if text.isascii() and text.isprintable():  # true for nearly all texts, and cheap
        return text.lower()
    spaced = "".join(map(_clean_char, text))
    plain = (char for char in unicodedata.normalize("NFD", spaced) if unicodedata.category(char) != "Mn")
    return "".join(plain).lower()


@functools.lru_cache(4_096)
def _clean_char(char: str) -> str:
    """A blank for white space, nothing for invisible characters, blanks around Chinese ones."""
    if char in "\t\n\r" or unicodedata.category(char) in ("Zs", "Zl", "Zp"):
        return " "
    if char == "\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs"):
        return ""
    is_chinese = any(first <= ord(char) <= last for first, last in _CHINESE)
    return f" {char} " if is_chinese else char


@functools.lru_cache(4_096)
def _is_sign(char: str) -> bool:
    return char in _ASCII_SIGNS or unicodedata.category(char).startswith("P")


def _split_word(word: str, vocabulary: dict[str, int]) -> list[int]:
    """The longest pieces of a word that are known, from its beginning on."""
    if word in vocabulary:
        return [vocabulary[word]]
    if len(word) > _WORD_CHARS:
        return [UNKNOWN]
    ids: list[int] = []
    start = 0
    while start < len(word):
        prefix = _INNER if start else ""
        for end in range(len(word), start, -1):
            number = vocabulary.get(prefix + word[start:end])
            if number is not None:
                break
        else:
            return [UNKNOWN]
        ids.append(number)
        start = end
    return ids
