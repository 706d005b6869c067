"""Compound values: a day with a time, an amount with its unit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from holdfast.text.detect import cues
from holdfast.text.expressions import compile_late
from holdfast.text.values import ValueMention, find_mentions, is_same_mention
from holdfast.text.words import STOP

AHEAD_CHARACTERS = 60
HOURS = 12
_JOIN = compile_late(
    r"(?:\s(?-i:UTC|GMT|Z|[A-Z]{1,4}T)\b)?\s?(?:[,@]\s?)?(?:(?:at|on|from|by|around)\s)?", re.IGNORECASE
)
_RANGE = compile_late(r"\s?[-–—]\s?|\s(?:to|until|till|through)\s", re.IGNORECASE)
_HOUR = compile_late(r"\s?(?:at|@)\s", re.IGNORECASE)
_SMALL = compile_late(r"\b(?:the|at|on|in|by|of|for|about|around|from)\b", re.IGNORECASE)
_PER = compile_late(r"\s?(?:/|\b(?:an?|per|each|every)\s)\s?[^\W\d_]{1,20}\b(?:\sof\s[^\W\d_]{1,20})?", re.IGNORECASE)
"""The unit of a rate: `a night`, `per person`, `/month`."""
_NOUN = compile_late(r"[\s-][^\W\d_]{1,20}\b(?!\s\w)")
"""A single word behind a share or a price."""
_ZONE = compile_late(r"\s(?:UTC|GMT|Z|[A-Z]{1,4}T)\b")
_AMOUNTS = frozenset(("money", "percent", "number", "duration"))


def join_moments(text: str, mentions: Sequence[ValueMention]) -> list[ValueMention]:
    """Join days and times that belong together: `Thursday at 3pm`, `from 2 pm to 3 pm`."""
    groups: list[list[ValueMention]] = []
    for mention in mentions:
        part = _join_part(text, groups[-1], mention) if groups else None
        if part is not None:
            groups[-1].append(part)
        elif mention.kind in {"date", "time"}:
            groups.append([mention])
    return [
        ValueMention(
            "moment",
            group[0].start,
            group[-1].end,
            tuple(value for part in group for value in (part.kind, *part.norm)),
            parts=tuple(group),
        )
        for group in groups
    ]


def _join_part(text: str, group: list[ValueMention], mention: ValueMention) -> ValueMention | None:
    """The next part of the same moment, or None. A change from one value to another is no range."""
    last, between = group[-1], text[group[-1].end : mention.start]
    if mention.kind == "number" and last.kind == "date" and _HOUR.fullmatch(between):
        hour = mention.norm[0]
        bare = isinstance(hour, float) and 1 <= hour <= HOURS and (not mention.noun or mention.noun in STOP)
        return ValueMention("time", mention.start, mention.end, (float(hour or 0) * 60, "either")) if bare else None
    if mention.kind not in {"date", "time"}:
        return None
    kinds = [part.kind for part in group]
    if mention.kind == last.kind and _RANGE.fullmatch(between):
        ahead = text[max(0, group[0].start - AHEAD_CHARACTERS) : group[0].start]
        return mention if kinds.count(mention.kind) == 1 and not cues.FROM.search(ahead) else None
    return mention if mention.kind not in kinds and _JOIN.fullmatch(between) else None


def read_compound_value(text: str) -> ValueMention | None:
    """Read a text that is one compound value and nothing else."""
    mentions = find_mentions(text)
    groups = [mention for mention in join_moments(text, mentions) if len(mention.parts) > 1]
    if len(groups) == 1 and _is_filler(text[: groups[0].start] + _ZONE.sub("", text[groups[0].end :])):
        return groups[0]
    for mention in mentions[:1] if mentions and mentions[0].kind in _AMOUNTS else ():
        behind = amount_end(text, mention)
        if behind and _is_filler(text[: mention.start]) and behind == len(text):
            return mention
    return None


def _is_filler(text: str) -> bool:
    return re.search(r"\w", _SMALL.sub("", text)) is None


def amount_end(text: str, amount: ValueMention) -> int:
    """The end of an amount with its unit; 0 if it has none."""
    if amount.kind not in _AMOUNTS:
        return 0
    noun = _NOUN.match(text, amount.end) if amount.kind in {"money", "percent"} else None
    behind = _PER.match(text, amount.end) or noun
    return behind.end() if behind else 0


def is_part_of(moment: ValueMention, mention: ValueMention) -> bool:
    """Whether all parts of a mention are parts of a moment."""
    parts = mention.parts or (mention,)
    return all(any(is_same_mention(part, other) for other in moment.parts) for part in parts)


def extend_value(text: str, start: int, end: int, old: str, core: ValueMention) -> tuple[int, int]:
    """Extend a new value by the same words that are around the old one: `a night`, `discount`, `max`."""
    if core.kind not in _AMOUNTS and not core.parts:
        return start, end
    before, behind = old[: core.start].lower(), old[core.end :].lower()
    if (
        not _is_filler(before)
        and text[:start].lower().endswith(before)
        and not text[: start - len(before)][-1:].isalnum()
    ):
        start -= len(before)
    if not behind.strip():
        return start, end
    suffix = (_ZONE if core.parts else _PER).match(text, end)
    if suffix and (core.parts or _PER.match(behind)):
        return start, suffix.end()
    first = re.match(r"\W*\w+", behind)
    for behind_text in (behind.rstrip(" ."), first[0] if first else ""):
        at = end + len(behind_text)
        if behind_text and text[end:at].lower() == behind_text and not text[at : at + 1].isalnum():
            return start, at
    return start, end


def complete_value(text: str, mention: ValueMention, old: str, value: ValueMention) -> str:
    """Complete a new value with the unchanged parts of the old one: `4pm` for `Tuesday at 2pm` gives `Tuesday at 4pm`, and
    `300 euros` for `120 euros a night` gives `300 euros a night`."""
    if value.parts:
        kinds = [part.kind for part in value.parts]
        new_kinds = [part.kind for part in mention.parts]
        if set(new_kinds) < set(kinds) and len(kinds) == len(set(kinds)) and len(new_kinds) == len(set(new_kinds)):
            return _replace_parts(text, mention, old, value)
    return text if len(text) > mention.end - mention.start else text + old[value.end :].rstrip()


def _replace_parts(text: str, mention: ValueMention, old: str, value: ValueMention) -> str:
    """Replace the parts of the old value that a mention has too."""
    result, at = "", 0
    for part in value.parts:
        new = next((new_part for new_part in mention.parts if new_part.kind == part.kind), None)
        if new is not None:
            result += old[at : part.start] + text[new.start - mention.start : new.end - mention.start]
            at = part.end
    return result + old[at:]
