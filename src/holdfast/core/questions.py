"""Whether a text ends with a question to its reader.

A question is told by its mark, in any script, or by an ending that only questions have; a few requests count too ("Please
tell me your order number."). Not part of the decision: code, quoted lines, addresses, and what only closes a text (quotes,
brackets, markup, emoji, "Thanks!").

Laws: a text counts only if nothing but such closings follows the question, so one that its writer answers does not count;
the cost is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MARKS = "?？؟﹖⁇⁈⁉‽❓❔፧᥅꘏꛷"
_ENDS = frozenset("." + "!。！．…։।۔" + _MARKS)
"""What ends a sentence."""
_PAIRS = {"”": "“", "»": "«", "«": "»", "›": "‹", "」": "「", "』": "『", "’": "‘", '"': '"', "“": "„"}
"""Closing quotes with what opens them."""

_LAST_CHARS = 2_000
"""What stands further back has no say."""
_CLOSINGS = 4
"""Closing sentences that may follow a question."""
_OPTION_WORDS = 12
"""An option is no longer; what is longer may be an answer."""

_LINK = re.compile(r"\[([^\[\]\n]{0,300})\]\([^()\s]{0,500}\)")
_CODE = re.compile(r"(`{1,2})[^`\n]{1,500}\1")
_ADDRESS = re.compile(r"\b[a-z]{2,8}://[^\s?]{1,300}(?:\?(?!_)[\w%&][^\s?]{0,300})?", re.IGNORECASE)
_GREEK = re.compile(r"(?<=[\u0370-\u03ff\u1f00-\u1fff])\s?[;\u037e](?=\W|$)")
_ITEM = re.compile(r"\s{0,8}(?:[-*+•–]|\(?(?:\d{1,3}|[a-zA-Z])[.):])\s+(\S.{0,300})")
_ASIDE = re.compile(rf"(?<=[{_MARKS}])[\s*_]{{0,4}}[(\[（][^()\[\]（）\n]{{1,200}}[)\]）]\W{{0,20}}$")
_SENTENCES = re.compile(rf"(?<=[.!{_MARKS}])\s+|(?<=[.!{_MARKS}][\"”»」』)*_])\s+|(?<=[。！])|\n+")
_ENDINGS = re.compile(
    r"(?:(?<!そう)(?:です|でした|でしょう)か|(?:ます|ました|ません|ましょう)か|[吗嗎]|습니까|십니까|입니까"
    r"|(?:ไหม|มั้ย|หรือไม่|หรือเปล่า)(?:ครับ|คะ|ค่ะ)?)\W{0,20}$"
)
_YOU = re.compile(r"\b(?:you|your|yours|(?:shall|should|do|can|may)\s+(?:i|we))\b", re.IGNORECASE)
_CLOSING = re.compile(
    r"(?:(?:many )?thanks?(?: you)?(?: (?:very much|so much|in advance|a lot|again))?"
    r"|(?:please )?(?:just )?let me know(?: .{0,80})?|(?:please )?advise|no (?:rush|hurry)|take your time"
    r"|(?:please )?(?:just )?(?:reply|answer|respond|type|choose|pick|select)\b.{0,80}"
    r"|(?:i|we)(?:['’]ll| will) (?:wait|hold|pause|continue|proceed|go on|start)\b.{0,80}\byou(?:r|['’]\w+)?\b.{0,60}"
    r"|y(?:es)?\s?/\s?no?)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:(?:so|then|now|first|but|and|to \w+(?: \w+){0,6})[, ]+)?(?:(?:please|kindly)[, ]+)?(?:just )?(?:"
    r"(?:tell|send|give|show) (?:me|us)\b.{1,300}"
    r"|let (?:me|us) know (?:your|the|which|what|whether|how|when|where|who|if (?:i|we|that|this|it))\b.{0,300}"
    r"|(?:share|provide|specify|clarify|confirm) (?:your|which|what|whether|how|when|where|that|if (?:i|we|that|this))\b"
    r".{0,300})",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\b(?:if you|should you|whenever|when you|once you|in case|feel free|any (?:questions?|other)|anything else"
    r"|how it goes|how (?:i|we) can help|by clicking|on the (?:page|website|form))\b",
    re.IGNORECASE,
)
"""A request that may be left unanswered: "Let me know if you need anything else." """


def is_question(text: str) -> bool:
    """Whether a text ends with a question, or with a request for an answer."""
    lines = list(_spoken_lines(text))
    said = "\n".join(lines)[-_LAST_CHARS:].strip()
    if not said:
        return False
    if _ends_with_mark(said) or _ENDINGS.search(said) or _is_armenian_question(said):
        return True
    short = _ASIDE.sub("", said)
    if short != said and _ends_with_mark(short):
        return True
    return _offers_options(lines) or _ends_with_request(said)


def _spoken_lines(text: str) -> Iterator[str]:
    """The lines of a text without code, quoted lines and addresses."""
    fence = ""
    for line in text.splitlines():
        bare = line.strip()
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
        elif bare.startswith(("```", "~~~")):
            fence = bare[:3]
        elif bare and not bare.startswith(">"):
            if len(bare) > _LAST_CHARS:
                bare = bare[-_LAST_CHARS:]
            bare = _ADDRESS.sub("address", _CODE.sub("code", _LINK.sub(r"\1", bare)))
            yield _GREEK.sub("?", bare)


def _ends_with_mark(text: str) -> bool:
    """Whether a mark is the last to be read, and not that of a question which the sentence only quotes."""
    at = len(text) - 1
    while at >= 0 and not text[at].isalnum() and text[at] not in _MARKS:
        at -= 1
    return at >= 0 and text[at] in _MARKS and not _is_quoted(text, at)


def _is_quoted(text: str, at: int) -> bool:
    """Whether the mark at this place stands in quotes that open within a sentence."""
    close = next((char for char in text[at + 1 :] if char in _PAIRS), "")
    if not close:
        return False
    start = text.rfind("\n", 0, at) + 1
    opened = max(text.rfind(char, start, at) for char in {_PAIRS[close], "„" if close == "”" else _PAIRS[close]})
    before = text[start:opened].rstrip(" *_~") if opened >= start else ""
    return bool(before) and before[-1] not in _ENDS


def _is_armenian_question(text: str) -> bool:
    """The mark stands above a syllable there, and the sentence ends as others do."""
    return "՞" in text.rstrip("։:. \n").rpartition("։")[2]


def _offers_options(lines: Sequence[str]) -> bool:
    """Whether a question to the reader is followed by a list of short options and nothing else."""
    at = len(lines)
    while at and (item := _ITEM.fullmatch(lines[at - 1])):
        words = item[1].split()
        if len(words) > _OPTION_WORDS or item[1].rstrip("*_ ").endswith((".", "!", "。")):
            return False
        at -= 1
    return 0 < at <= len(lines) - 2 and _ends_with_mark(lines[at - 1]) and bool(_YOU.search(lines[at - 1]))


def _ends_with_request(text: str) -> bool:
    """Whether a question is followed by closing words alone, or the last sentence asks for an answer."""
    sentences = [each for each in _SENTENCES.split(text) if any(char.isalnum() for char in each)]
    for sentence in reversed(sentences[-_CLOSINGS - 1 :]):
        bare = sentence.strip(" \t*_~\"'“”»«()[].!…,;:-–—")
        if _ends_with_mark(sentence) or (_REQUEST.fullmatch(bare) and not _OFFER.search(bare)):
            return True
        if not _CLOSING.fullmatch(bare.rstrip("".join(_ENDS))) or _OFFER.search(bare):
            return False
    return False
