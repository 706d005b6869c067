"""Values made of several: a day and a time of it, an amount and what it is for. They are read, and said, as one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.core.detect import cues
from holdfast.core.detect.words import STOP
from holdfast.core.values import Mention, mentions, same

AHEAD_CHARACTERS = 60
HOURS = 12
_JOIN = re.compile(r"(?:\s(?-i:UTC|GMT|Z|[A-Z]{1,4}T)\b)?\s?(?:[,@]\s?)?(?:(?:at|on|from|by|around)\s)?", re.IGNORECASE)
_RANGE = re.compile(r"\s?[-–—]\s?|\s(?:to|until|till|through)\s", re.IGNORECASE)
_HOUR = re.compile(r"\s?(?:at|@)\s", re.IGNORECASE)
_SMALL = re.compile(r"\b(?:the|at|on|in|by|of|for|about|around|from)\b", re.IGNORECASE)
_PER = re.compile(r"\s?(?:/|\b(?:an?|per|each|every)\s)\s?[^\W\d_]{1,20}\b(?:\sof\s[^\W\d_]{1,20})?", re.IGNORECASE)
"""What an amount is for: `a night`, `per person`, `/month`."""
_NOUN = re.compile(r"[\s-][^\W\d_]{1,20}\b(?!\s\w)")
"""What a share is of, or a price for: a word alone."""
_ZONE = re.compile(r"\s(?:UTC|GMT|Z|[A-Z]{1,4}T)\b")
_AMOUNTS = frozenset(("money", "percent", "number", "duration"))


def moments(text: str, found: Sequence[Mention]) -> list[Mention]:
    """Days and times, with those that belong together as one: `Thursday at 3pm`, `from 2 pm to 3 pm`."""
    groups: list[list[Mention]] = []
    for each in found:
        part = _joined(text, groups[-1], each) if groups else None
        if part is not None:
            groups[-1].append(part)
        elif each.kind in {"date", "time"}:
            groups.append([each])
    return [
        Mention(
            "moment",
            group[0].start,
            group[-1].end,
            tuple(value for part in group for value in (part.kind, *part.norm)),
            parts=tuple(group),
        )
        for group in groups
    ]


def _joined(text: str, group: list[Mention], each: Mention) -> Mention | None:
    """What follows as a part of the same moment, or None. A change from one to another is no range."""
    last, between = group[-1], text[group[-1].end : each.start]
    if each.kind == "number" and last.kind == "date" and _HOUR.fullmatch(between):
        hour = each.norm[0]
        bare = isinstance(hour, float) and 1 <= hour <= HOURS and (not each.noun or each.noun in STOP)
        return Mention("time", each.start, each.end, (float(hour or 0) * 60, "either")) if bare else None
    if each.kind not in {"date", "time"}:
        return None
    kinds = [part.kind for part in group]
    if each.kind == last.kind and _RANGE.fullmatch(between):
        ahead = text[max(0, group[0].start - AHEAD_CHARACTERS) : group[0].start]
        return each if kinds.count(each.kind) == 1 and not cues.FROM.search(ahead) else None
    return each if each.kind not in kinds and _JOIN.fullmatch(between) else None


def compound(text: str) -> Mention | None:
    """The one value of several parts that a text is, if it is one and nothing else."""
    found = mentions(text)
    groups = [each for each in moments(text, found) if len(each.parts) > 1]
    if len(groups) == 1 and _is_empty(text[: groups[0].start] + _ZONE.sub("", text[groups[0].end :])):
        return groups[0]
    for each in found[:1] if found and found[0].kind in _AMOUNTS else ():
        behind = tail(text, each)
        if behind and _is_empty(text[: each.start]) and behind == len(text):
            return each
    return None


def _is_empty(rest: str) -> bool:
    return re.search(r"\w", _SMALL.sub("", rest)) is None


def tail(text: str, amount: Mention) -> int:
    """Where an amount ends together with what it is for; 0 if nothing is said of that."""
    if amount.kind not in _AMOUNTS:
        return 0
    noun = _NOUN.match(text, amount.end) if amount.kind in {"money", "percent"} else None
    behind = _PER.match(text, amount.end) or noun
    return behind.end() if behind else 0


def states(own: Mention, said: Mention) -> bool:
    """Whether all parts of what is said are parts of a moment."""
    parts = said.parts or (said,)
    return all(any(same(part, each) for each in own.parts) for part in parts)


def extended(text: str, start: int, end: int, old: str, core: Mention) -> tuple[int, int]:
    """A new value with what stands around the old one, where that is said of it too: `a night`, `discount`, `max`."""
    if core.kind not in _AMOUNTS and not core.parts:
        return start, end
    before, behind = old[: core.start].lower(), old[core.end :].lower()
    if (
        not _is_empty(before)
        and text[:start].lower().endswith(before)
        and not text[: start - len(before)][-1:].isalnum()
    ):
        start -= len(before)
    if not behind.strip():
        return start, end
    told = (_ZONE if core.parts else _PER).match(text, end)
    if told and (core.parts or _PER.match(behind)):
        return start, told.end()
    first = re.match(r"\W*\w+", behind)
    for each in (behind.rstrip(" ."), first[0] if first else ""):
        at = end + len(each)
        if each and text[end:at].lower() == each and not text[at : at + 1].isalnum():
            return start, at
    return start, end


def completed(stated: str, said: Mention, old: str, whole: Mention) -> str:
    """A new value with what it leaves as it was: `4pm` for `Tuesday at 2pm` makes `Tuesday at 4pm`, and `300 euros` for
    `120 euros a night` is meant a night."""
    if whole.parts:
        kinds = [part.kind for part in whole.parts]
        told = [part.kind for part in said.parts]
        if set(told) < set(kinds) and len(kinds) == len(set(kinds)) and len(told) == len(set(told)):
            return _replaced(stated, said, old, whole)
    return stated if len(stated) > said.end - said.start else stated + old[whole.end :].rstrip()


def _replaced(stated: str, said: Mention, old: str, whole: Mention) -> str:
    """The old value with its parts of the kinds that are said replaced."""
    made, at = "", 0
    for part in whole.parts:
        new = next((each for each in said.parts if each.kind == part.kind), None)
        if new is not None:
            made += old[at : part.start] + stated[new.start - said.start : new.end - said.start]
            at = part.end
    return made + old[at:]
