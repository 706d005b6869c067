"""Whether a text ends with a question to its reader.

A question has a question mark, in any script, or an ending that only questions have. Some requests count too ("Please tell
me your order number."). Ignored: code, quoted lines, addresses, and closings (quotes, brackets, markup, emoji, "Thanks!").

Laws: only closings may follow the question, so a question that its writer answers does not count. The cost is linear in
the length of the text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

_MARKS = "?？؟﹖⁇⁈⁉‽❓❔፧᥅꘏꛷"
_ENDS = frozenset("." + "!。！．…։।۔" + _MARKS)
"""Marks at the end of a sentence."""
_PAIRS = {"”": "“", "»": "«", "«": "»", "›": "‹", "」": "「", "』": "『", "’": "‘", '"': '"', "“": "„"}
"""Closing quotes, with the opening one."""
_LAST_CHARS = 2_000
"""Only the end of a text is read."""
_ENDING_CHARS = 64
"""More than the longest ending that only questions have."""
_CLOSINGS = 4
"""Closing sentences that may follow a question."""
_SENTENCE_CHARS = 150
"""How much of the end of a text is searched first for its last sentence."""
_OPTION_WORDS = 12
"""The longest option; a longer item may be an answer."""
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
    r"(?:(?:many )?thanks?(?: you)?(?: (?:very much|so much|in advance|a lot|again))?|"
    r"(?:please )?(?:just )?let me know(?: .{0,80})?|(?:please )?advise|no (?:rush|hurry)|take your time|"
    r"(?:please )?(?:just )?(?:reply|answer|respond|type|choose|pick|select)\b.{0,80}|(?:i|we)(?:['’]ll| will) (?:wait|"
    r"hold|pause|continue|proceed|go on|start)\b.{0,80}\byou(?:r|['’]\w+)?\b.{0,60}|y(?:es)?\s?/\s?no?)",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"(?:(?:so|then|now|first|but|and|to \w+(?: \w+){0,6})[, ]+)?(?:(?:please|kindly)[, ]+)?(?:just )?(?:(?:tell|send|"
    r"give|show) (?:me|us)\b.{1,300}|let (?:me|us) know (?:your|the|which|what|whether|how|when|where|who|if (?:i|we|"
    r"that|this|it))\b.{0,300}|(?:share|provide|specify|clarify|confirm) (?:your|which|what|whether|how|when|where|"
    r"that|if (?:i|we|that|this))\b.{0,300})",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"\b(?:if you|should you|whenever|when you|once you|in case|feel free|any (?:questions?|other)|anything else"
    r"|how it goes|how (?:i|we) can help|by clicking|on the (?:page|website|form))\b",
    re.IGNORECASE,
)
"""A request that needs no answer: "Let me know if you need anything else." """


def is_question(text: str) -> bool:
    """Whether a text ends with a question, or with a request for an answer."""
    lines = list(_prose_lines(text))
    whole = "\n".join(lines)
    prose = whole[-_LAST_CHARS:].strip()
    if not prose:
        return False
    if whole.isascii() and "?" not in whole:  # most replies
        return _ends_with_request(prose)
    if _ends_with_mark(prose) or _ENDINGS.search(prose[-_ENDING_CHARS:]) or _is_armenian_question(prose):
        return True
    short = _ASIDE.sub("", prose) if ")" in prose or "]" in prose or "）" in prose else prose
    if short != prose and _ends_with_mark(short):
        return True
    return _offers_options(lines) or _ends_with_request(prose)


def _prose_lines(text: str) -> Iterator[str]:
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
            yield _remove_markup(bare)


def _remove_markup(line: str) -> str:
    """A line without links, code and addresses, and with Greek question marks as others. Each pattern is tried only if the
    line has a sign that it needs: this is done for every reply."""
    if "](" in line:
        line = _LINK.sub(r"\1", line)
    if "`" in line:
        line = _CODE.sub("code", line)
    if "://" in line:
        line = _ADDRESS.sub("address", line)
    return _GREEK.sub("?", line) if ";" in line or "\u037e" in line else line


def _ends_with_mark(text: str) -> bool:
    """Whether a text ends with a question mark that is not part of a quotation."""
    at = len(text) - 1
    while at >= 0 and not text[at].isalnum() and text[at] not in _MARKS:
        at -= 1
    return at >= 0 and text[at] in _MARKS and not _is_quoted(text, at)


def _is_quoted(text: str, at: int) -> bool:
    """Whether the mark is in quotes that open within a sentence."""
    close = next((char for char in text[at + 1 :] if char in _PAIRS), "")
    if not close:
        return False
    start = text.rfind("\n", 0, at) + 1
    opening = max(text.rfind(char, start, at) for char in {_PAIRS[close], "„" if close == "”" else _PAIRS[close]})
    before = text[start:opening].rstrip(" *_~") if opening >= start else ""
    return bool(before) and before[-1] not in _ENDS


def _is_armenian_question(text: str) -> bool:
    """Whether the last sentence has an Armenian question mark, which is inside a word."""
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
    """Whether only closings follow a question, or the last sentence is a request."""
    for sentence in itertools.islice(_iter_sentences_back(text), _CLOSINGS + 1):
        bare = sentence.strip(" \t*_~\"'“”»«()[].!…,;:-–—")
        if _ends_with_mark(sentence) or (_REQUEST.fullmatch(bare) and not _OFFER.search(bare)):
            return True
        if not _CLOSING.fullmatch(bare.rstrip("".join(_ENDS))) or _OFFER.search(bare):
            return False
    return False


def _iter_sentences_back(text: str) -> Iterator[str]:
    """The sentences of a text that have a letter or a digit, the last one first. The text is read as far as needed."""
    end, size = len(text), _SENTENCE_CHARS
    while end:
        start = max(0, end - size)
        while start and text[start].isspace():  # blanks between two sentences are not cut
            start -= 1
        cuts = [match.span() for match in _SENTENCES.finditer(text, start, end)]
        if not start:
            cuts.insert(0, (0, 0))
        for before, after in reversed(cuts):
            if any(map(str.isalnum, text[after:end])):
                yield text[after:end]
            end = before
        size *= 2
