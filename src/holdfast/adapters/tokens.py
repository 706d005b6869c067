"""Token counters: an estimate without dependencies, and exact counts with an installed tokenizer.

Laws: no counter uses the network. Time is linear in the text, and memory is bounded. The same text has the same
count on every machine and in every version: a counter with another rule has another name.
"""

from __future__ import annotations

import functools
import importlib
import re
from operator import mul
from typing import Literal, get_args
from zlib import adler32

from holdfast.errors import ExtraMissing, InvalidArgument, describe_value

SLICE_CHARS = 1 << 16
"""The most characters that are counted at a time."""
CUT_CHARS = 1 << 12
"""How far beyond that an exact counter looks for a place where a cut changes nothing."""

SHORT_CHARS = 64
SHORT_TEXTS = 1_024
"""How many short texts are remembered with their weight: names of tools and the like come again and again."""

ESTIMATE_ERROR = 0.10
"""The mean error of the estimate on chat, Markdown, code, JSON, tool logs and Chinese. For a few hundred tokens it
can be larger: dense tables in code were counted a third too low. If a budget is a hard limit, use an exact counter."""

_TOKEN = 1_000
_FOLLOWING = bytes(range(0x80, 0xC0))
"""The bytes of a UTF-8 character after its first. Without them, each character is one byte that shows its script."""


def _build_table(rows: dict[bytes, bytes]) -> bytes:
    return bytes(next((kind[0] for kind, members in rows.items() if byte in members), byte) for byte in range(256))


_SHAPES = _build_table(
    {
        b"a": bytes(range(ord("a"), ord("z") + 1)),
        b"A": bytes(range(ord("A"), ord("Z") + 1)),
        b"0": b"0123456789",
        b".": bytes(code for code in range(0x21, 0x7F) if not chr(code).isalnum()),
        b" ": b" \t",
        b"\n": b"\n\r",
        b"?": bytes([*range(0x20), 0x7F]),
        b"s": b"\xc2",  # signs of Latin-1
        b"l": b"\xc3",  # letters of Latin-1
        b"m": bytes(range(0xC4, 0xCE)),  # the other Latin letters, combining marks
        b"g": b"\xce\xcf",  # Greek
        b"r": b"\xd0\xd1\xd2\xd3",  # Cyrillic
        b"h": b"\xd4\xd5\xd6\xd7",  # Armenian, Hebrew
        b"b": bytes(range(0xD8, 0xE0)),  # Arabic
        b"i": b"\xe0",  # the scripts of India, Thai
        b"x": b"\xe1",  # Vietnamese, Georgian and more
        b"y": b"\xe2",  # dashes, arrows, boxes
        b"k": b"\xe3",  # kana, full stops
        b"z": bytes(range(0xE4, 0xEA)),  # Chinese
        b"o": b"\xea\xeb\xec\xed",  # Korean
        b"f": b"\xee\xef",  # wide forms
        b"e": bytes(range(0xF0, 0x100)),  # emoji
    }
)
_WORDS = _build_table({b"a": b"Almgrhbixo", b"z": b"kzfe", b" ": b"\n"})
"""From shapes: letters with blanks between their words, letters without, and every line end a blank."""

# The weight of each occurrence in thousandths of a token: a fit (least absolute relative error, no weight below zero) to
# o200k over chat, Markdown, a dozen programming languages, JSON, tool logs, tables, keys and 23 human languages. Chinese
# (z, f), Cyrillic (r) and Indian scripts (i) were then lowered by hand: manuals need more tokens there than conversation.
_SHAPE_WEIGHTS = {
    b"0": 233,
    b" ": 12,
    b"\n": 593,
    b" 0": 1_166,
    b"0.": 1_752,
    b"A0": 2_000,
    b"aA": 799,
    b"..": 32,
    b"?": 1_000,
}
_WORD_WEIGHTS = {b" .": 1_159, b"0 ": 873, b"0a": 1_744, b"a ": 625, b"a  ": 974, b"aa": 173, b"a.": 1_413}
_OTHER_SHAPE_WEIGHTS = {
    b"s": 1_200,
    b"l": 1_036,
    b"m": 50,
    b"g": 237,
    b"r": 107,
    b"h": 224,
    b"b": 166,
    b"i": 180,
    b"x": 20,
    b"y": 1_600,
    b"k": 556,
    b"z": 700,
    b"o": 453,
    b"f": 1_000,
    b"e": 1_477,
    b"am": 1_880,
    b"0y": 507,
    b"kz": 1_034,
}
_OTHER_WORD_WEIGHTS = {b"z ": 300, b"z.": 1_300}

# The common weights in one pass. Every two characters that follow each other become one byte: the kind of the first in its
# low half, that of the second in its high half. Each such pair has a weight: of its first shape, and of both together.
_KINDS = b"#aA0. \n?m"
"""The shapes that the common weights tell apart: "m" is every other letter, "#" all the rest."""
_RUNS = (b"..", b"aa", b"a  ")
"""Words that pairs do not tell: in a run of three, only the first two are a pair of their own."""


def _build_pairs() -> tuple[list[int], bytes, bytes]:
    """Return the weight of each pair, the pairs of two marks, and those of two blanks."""
    weights, runs = [0] * 256, {b"..": bytearray(), b"  ": bytearray()}
    for first, kind in enumerate(_KINDS):
        for second, next_kind in enumerate(_KINDS):
            shapes = bytes([kind, next_kind])
            words = shapes.translate(_WORDS)
            pair = first | second << 4
            weights[pair] = _SHAPE_WEIGHTS.get(shapes[:1], 0)
            weights[pair] += sum(
                table.get(both, 0)
                for table, both in ((_SHAPE_WEIGHTS, shapes), (_WORD_WEIGHTS, words))
                if both not in _RUNS
            )
            if words in runs:
                runs[words].append(pair)
    return weights, bytes(runs[b".."]), bytes(runs[b"  "])


_KIND_OF_BYTE = bytes(
    _KINDS.find(shape if shape in _KINDS else b"m" if _WORDS[shape] == ord("a") else b"#") for shape in _SHAPES
)
_WORD_OF_KIND = _KINDS.translate(_WORDS).ljust(256, b"#")
_PAIR_WEIGHTS, _MARK_PAIRS, _BLANK_PAIRS = _build_pairs()
_LIGHT_PAIRS = bytes(pair for pair in range(256) if not _PAIR_WEIGHTS[pair] and pair not in _MARK_PAIRS)
_DIGITS = [(place, bytes(weight >> place & 63 for weight in _PAIR_WEIGHTS)) for place in (0, 6)]
"""The digits of the weights to the base of 64."""
_ADDED_BYTES = 1 << 10
"""So many digits have a sum that an Adler checksum holds exactly: it begins with the sum of all bytes and 1."""


class EstimatingCounter:
    """Estimates o200k tokens. Characters become shapes (letter, capital, digit, mark, …), and pairs of shapes are
    counted where tokens tend to begin or end. Appended text never lowers the count."""

    name = "estimate/2"

    def count(self, text: str) -> int:
        if not text:
            return 0
        if len(text) <= SHORT_CHARS:
            return (_TOKEN + _weigh_short(text)) // _TOKEN
        thousandths = _TOKEN
        for start in range(0, len(text), SLICE_CHARS):
            thousandths += _weigh(text[start : start + SLICE_CHARS])
        return thousandths // _TOKEN


def _weigh(text: str) -> int:
    data = text.encode("utf-8", "surrogatepass")
    kinds = data.translate(_KIND_OF_BYTE, _FOLLOWING)
    words = kinds.translate(_WORD_OF_KIND)
    total = _WORD_WEIGHTS[b"aa"] * words.count(b"aa")
    number = int.from_bytes(kinds, "little")
    pairs = (number | number >> 4).to_bytes(len(kinds), "little").translate(None, _LIGHT_PAIRS)
    for start in range(0, len(pairs), _ADDED_BYTES):
        part = pairs[start : start + _ADDED_BYTES]
        for place, digits in _DIGITS:
            total += ((adler32(part.translate(digits)) & 0xFFFF) - 1) << place
    if any(map(pairs.__contains__, _MARK_PAIRS)):
        total += _SHAPE_WEIGHTS[b".."] * words.count(b"..")
    if any(map(pairs.__contains__, _BLANK_PAIRS)):
        total += _WORD_WEIGHTS[b"a  "] * words.count(b"a  ")
    if not text.isascii():
        shapes = data.translate(_SHAPES, _FOLLOWING)
        total += _sum_weights(shapes, _OTHER_SHAPE_WEIGHTS)
        total += _sum_weights(shapes.translate(_WORDS), _OTHER_WORD_WEIGHTS)
    return total


_weigh_short = functools.lru_cache(SHORT_TEXTS)(_weigh)


def _sum_weights(shapes: bytes, weights: dict[bytes, int]) -> int:
    return sum(map(mul, weights.values(), map(shapes.count, weights)))


Encoding = Literal["o200k", "cl100k"]
_CUT_PATTERN = re.compile(r"\S ")


class ExactCounter:
    """Counts the tokens of an OpenAI encoding exactly, with the package rs-bpe (`pip install 'holdfast[tokens]'`).

    Special tokens such as `<|endoftext|>` are counted as plain text. A long text is counted in slices, because the
    package blocks other threads while it counts. Slices are cut before a blank, where no token can span the cut.
    Only a text without any blank for `CUT_CHARS` is cut elsewhere, which can add a token or two to each slice of
    `SLICE_CHARS`."""

    def __init__(self, encoding: Encoding = "o200k") -> None:
        if encoding not in get_args(Encoding):
            reason = f"{describe_value(encoding)} is not one of {', '.join(get_args(Encoding))}"
            raise InvalidArgument(argument="encoding", reason=reason)
        try:
            openai = importlib.import_module("rs_bpe.bpe").openai
        except ImportError as missing:
            raise ExtraMissing(what="An exact token counter", extra="tokens") from missing
        self._tokenizer = openai.o200k_base() if encoding == "o200k" else openai.cl100k_base()
        self.name = f"{encoding}/rs-bpe"

    def count(self, text: str) -> int:
        total = start = 0
        while start < len(text):
            end = _find_cut(text, start + SLICE_CHARS)
            total += self._count_slice(text[start:end])
            start = end
        return total

    def _count_slice(self, text: str) -> int:
        try:
            counted: int = self._tokenizer.count(text)
        except UnicodeEncodeError:
            counted = self._tokenizer.count(text.encode("utf-8", "replace").decode())
        return counted


def _find_cut(text: str, at: int) -> int:
    """Return where to cut: at this position or shortly after it, between a word and a blank, or at the end of the
    text."""
    if at >= len(text):
        return len(text)
    match = _CUT_PATTERN.search(text, at - 1, at + CUT_CHARS)
    if match:
        return match.start() + 1
    return len(text) if at + CUT_CHARS >= len(text) else at
