"""Where a name or another phrase ends that is somebody's value, and whether all of it was read."""

from __future__ import annotations

import re

from holdfast.core.detect.stops import ends_sentence, is_abbreviated
from holdfast.core.detect.words import STOP, word_set

ITEM_WORDS = 3
"""A part of a list, or a remark in brackets that belongs to a name, has at most so many words."""

_LABEL_END = re.compile(
    r"(?:[,;!?\n()]|[\u2600-\u27bf\U0001f300-\U0001faff]|\.(?=\s|$)|\s[\w.]{1,30}\s?=|\s[-–—]+\s|:\s|[\"”’']?(?:\s|"
    r"^)(?:instead|now|please|pls|plz|because|since|as of|from "
    r"now|from "
    r"here|but|then|so|rather|going forward|effective|if|when|where|which|who|that|thanks|thx|thank|cheers|lol|lmao|"
    r"haha+|jk|again|"
    r"today|"
    r"after all|for me|for us|too|as well|this time|not|no longer|any ?more|while|until|before|after|ok|okay|right|yet|"
    r"already|these days|nowadays|sounds?|works?|looks?|"
    r"from|at|on|in|with|by|per|anyway|though|tho|btw|and (?:i|we|you|he|she|they|it|the|my|our|please|can|could|would|"
    r"let|"
    r"also|then|not|that|have|make|send|tell|update|change|move|set|cancel|build|book|add|remove|give|get|see|check|"
    r"keep|"
    r"use|put|is|are|was|will|should)|is|are|was|were|has|have|had|will|would|should|could|can|to|for|as|or|I|i|you|we|"
    r"he|"
    r"she|they|it|"
    r"my|your|our|their|his|her|once more|once again|last|yesterday|tomorrow|tonight|this|due to|thanks to|owing to|"
    r"starting|for good|permanently|henceforth|"
    r"onwards?|unless|except|except for|apart from|courtesy of|following|given|nobody|everyone|its|it's|that's|i'm|"
    r"we're)(?=\s|[,;.!?]|$))",
)
_AND_END = re.compile(r"\sand\s", re.IGNORECASE)
_SUFFIX = re.compile(
    r",\s(?:Inc|Ltd|LLC|LLP|Corp|Co|PLC|plc|GmbH|S\.A|M\.D|MD|Ph\.D|PhD|Jr|Sr|Esq|MBA|MSc|DDS|RN|QC|KC|MP)\b\.?"
)
"""Behind a comma, and yet a part of the name."""
_BRACKETS = re.compile(r"\s?\((?P<inner>[^()\n]{1,30})\)")
_ITEM = re.compile(r",\s(?P<item>[^,;.!?\n()]{1,40})(?=[,;.!?\n)]|$)")
_LEADS_ON = re.compile(
    r"\s(?:at|on|in|by|with|for)\s(?:the\s)?(?!(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|January|February|March|April|"
    r"May|June|July|August|September|October|November|December|I\b)[A-Z]|\s(?:or|to)\s"
)
"""A phrase goes on behind a name, and may well be a part of it: `Bar at the Park`."""
_NAME_GOES_ON = re.compile(
    r",\s(?:the\s)?(?!(?:Thanks|Thank|Please|Cheers|Not|Inc|No)\b)[A-Z\d][\w'-]{0,20}(?:\s(?:&|and|of|the|"
    r"[A-Z\d][\w'-]{0,20})){0,4}"
    r"\s?(?:[.;!?\n]|$)"
)
"""Behind a comma there is nothing but a name or a number: it may be a part, as in `Earth, Wind & Fire`."""
_LINKS = word_set("at on in with by for to from")
"""They end no phrase, where the old value has the same one inside."""
_IN_NAMES = word_set(
    "of the and de la le di del du von van der den dem da do dos am an im in on upon by sur zu y e & al bin ibn"
)
"""Words in small letters inside of names."""


class Label:
    """A phrase in a text, and whether it is all of it."""

    def __init__(self, start: int, end: int, *, whole: bool) -> None:
        self.start, self.end, self.whole = start, end, whole


def find_label(text: str, start: int, limit: int, old: str) -> Label:
    """The phrase from a place on, up to where something else begins."""
    at = start
    while (stop := _LABEL_END.search(text, at, limit)) is not None:
        goes_on = _goes_on(text, start, stop, old)
        if not goes_on:
            break
        at = goes_on
    end = stop.start() if stop else limit
    end -= 4 * text[start:end].lower().endswith(" and")
    joined = _AND_END.search(text, start, end)
    if joined and " and " not in old.lower() and "," not in old:
        behind = text[joined.end() : joined.end() + 1]
        end = joined.start() if not (behind.isupper() and text[start : start + 1].isupper()) else end
    whole = not (_LEADS_ON.match(text, end) and text[start : start + 1].isupper()) and text[end : end + 4] != " or "
    whole = whole and not (text[start : start + 1].isupper() and _NAME_GOES_ON.match(text, end))
    whole = whole and not ("," in old and text[end : end + 2] == ", " and "," not in text[start:end])
    return Label(start, end, whole=whole)


def _goes_on(text: str, start: int, stop: re.Match[str], old: str) -> int:
    """Where to look on for the end of a phrase, if it does not end here; 0 if it does."""
    at = stop.start()
    mark = stop[0][:1]
    if mark == ".":
        return 0 if ends_sentence(text, at) else stop.end()
    if mark == ",":
        suffix = _SUFFIX.match(text, at)
        if suffix is not None:
            return suffix.end() - suffix[0].endswith(".") if _closes(text, suffix.end()) else suffix.end()
        item = _ITEM.match(text, at) if "," in old and "," not in text[start:at] else None
        return item.end() if item and _is_item(item["item"]) else 0
    word = stop[0].strip().lower()
    if word in _LINKS and f" {word} " in old.lower() and f" {word} " not in text[start:at].lower():
        return stop.end()
    if mark == "(":
        inner = _BRACKETS.match(text, at)
        return inner.end() if inner and _is_item(inner["inner"]) and _closes(text, inner.end()) else 0
    return 0


def _closes(text: str, at: int) -> bool:
    return re.match(r"\s*(?:[,;.!?]|$)", text[at : at + 20]) is not None


def _is_item(stated: str) -> bool:
    words = stated.lower().split()
    return len(words) <= ITEM_WORDS and not any(word in STOP - {"no", "one", "a", "an"} for word in words)


def with_stop(text: str, start: int, end: int) -> int:
    """The end of a phrase, with the full stop or the bracket that belongs to it."""
    if text[end : end + 1] == "." and is_abbreviated(text, end):
        return end + 1
    return end + (text[end : end + 1] == ")" and "(" in text[start:end])


def is_one_name(stated: str) -> bool:
    """Whether all words are those of a name: `AWS once more` has others."""
    return all(word[:1].isupper() or not word[:1].isalpha() or word in _IN_NAMES for word in stated.split())
