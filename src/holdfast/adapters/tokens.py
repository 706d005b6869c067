"""Token counters: an estimate that needs nothing, and exact counts where a tokenizer is installed.

Laws: no counter asks the network; time is linear in the text and memory is bounded, whatever the text; the same text has
the same count on every machine, today and later: another rule gets another name.
"""

from __future__ import annotations

import importlib
import re
from operator import mul
from typing import Literal, get_args

from holdfast.errors import ExtraMissing, InvalidContent, shown

SLICE_CHARS = 1 << 16
"""How much of a text is looked at in one go."""
CUT_CHARS = 1 << 12
"""How much further than that an exact counter looks for a place where cutting changes nothing."""

ESTIMATE_ERROR = 0.10
"""The stated error of the estimate, as a share: its mean on chat, Markdown, code, JSON, tool logs and Chinese. A stretch of
a few hundred tokens may be further off: dense tables in code were counted a third too low. Where a budget is a hard limit,
count exactly."""

_TOKEN = 1_000
_FOLLOWING = bytes(range(0x80, 0xC0))
"""The bytes of a UTF-8 character after its first. Without them every character is one byte, which names its script."""


def _table(rows: dict[bytes, bytes]) -> bytes:
    return bytes(next((kind[0] for kind, members in rows.items() if byte in members), byte) for byte in range(256))


_SHAPES = _table(
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
_WORDS = _table({b"a": b"Almgrhbixo", b"z": b"kzfe", b" ": b"\n"})
"""From shapes: letters with blanks between their words, letters without, and every line end a blank."""

# What each occurrence weighs, in thousandths of a token: a fit (least absolute relative error, no weight below zero) to
# o200k over chat, Markdown, a dozen programming languages, JSON, tool logs, tables, keys and 23 human languages. Chinese
# (z, f), Cyrillic (r) and Indian scripts (i) were then lowered by hand, since manuals cost more there than conversation.
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
_WORD_WEIGHTS = {
    b" .": 1_159,
    b"0 ": 873,
    b"0a": 1_744,
    b"a ": 625,
    b"a  ": 974,
    b"aa": 173,
    b"a.": 1_413,
}
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
_OTHER_WORD_WEIGHTS = {
    b"z ": 300,
    b"z.": 1_300,
}


class EstimatingCounter:
    """An estimate of o200k tokens: characters become shapes (a letter, a capital, a digit, a mark, …), and pairs of
    shapes are counted where tokens tend to begin or end. What is appended never lowers a count."""

    name = "estimate/2"

    def count(self, text: str) -> int:
        if not text:
            return 0
        thousandths = _TOKEN
        for start in range(0, len(text), SLICE_CHARS):
            thousandths += _weight(text[start : start + SLICE_CHARS])
        return thousandths // _TOKEN


def _weight(text: str) -> int:
    shapes = text.encode("utf-8", "surrogatepass").translate(_SHAPES, _FOLLOWING)
    words = shapes.translate(_WORDS)
    total = _weighed(shapes, _SHAPE_WEIGHTS) + _weighed(words, _WORD_WEIGHTS)
    if not text.isascii():
        total += _weighed(shapes, _OTHER_SHAPE_WEIGHTS) + _weighed(words, _OTHER_WORD_WEIGHTS)
    return total


def _weighed(shapes: bytes, weights: dict[bytes, int]) -> int:
    return sum(map(mul, weights.values(), map(shapes.count, weights)))


Encoding = Literal["o200k", "cl100k"]
_CUT = re.compile(r"\S ")


class ExactCounter:
    """Exact counts of an OpenAI encoding, with the package rs-bpe (`pip install 'holdfast[tokens]'`).

    What reads like a special token (`<|endoftext|>`) is counted as the plain text it is. The package holds the
    interpreter while it counts, so a long text goes in slices. They are cut before a blank, where no token can span the
    cut; only a text without a single blank for `CUT_CHARS` is cut elsewhere, which may add a token or two to each slice
    of `SLICE_CHARS`."""

    def __init__(self, encoding: Encoding = "o200k") -> None:
        if encoding not in get_args(Encoding):
            raise InvalidContent(
                reason=f"the encoding is {shown(encoding)}, not one of {', '.join(get_args(Encoding))}"
            )
        try:
            openai = importlib.import_module("rs_bpe.bpe").openai
        except ImportError as missing:
            raise ExtraMissing(what="Counting tokens exactly", extra="tokens") from missing
        self._tokenizer = openai.o200k_base() if encoding == "o200k" else openai.cl100k_base()
        self.name = f"{encoding}/rs-bpe"

    def count(self, text: str) -> int:
        total = start = 0
        while start < len(text):
            end = _cut(text, start + SLICE_CHARS)
            total += self._counted(text[start:end])
            start = end
        return total

    def _counted(self, text: str) -> int:
        try:
            counted: int = self._tokenizer.count(text)
        except UnicodeEncodeError:
            counted = self._tokenizer.count(text.encode("utf-8", "replace").decode())
        return counted


def _cut(text: str, place: int) -> int:
    """At the place or shortly after it: between a word and a blank, or at the end, if either is near."""
    if place >= len(text):
        return len(text)
    found = _CUT.search(text, place - 1, place + CUT_CHARS)
    if found:
        return found.start() + 1
    return len(text) if place + CUT_CHARS >= len(text) else place
