"""What a text says of a value that it names or points at: `Meier, not Meyer`, `from Tuesday to Friday`, `make it 7 "
"pm`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from holdfast.core.detect.reading import Held, Reading, Scene
from holdfast.core.detect.shapes import Value, whole_value
from holdfast.core.detect.statements import AHEAD_CHARACTERS, FILL, Statement, compile_phrases, sentence_at

RECENT_MESSAGES = 2
MATCHES = 6
"""Places where the same thing is looked for, the first ones."""
PART_LETTERS = 2
"""A shorter part of a value is not looked for."""

_NOT_AHEAD = compile_phrases(
    r"(?P<link>(?:,? (?:and |but )?not|,? instead of|,? rather than|,? no longer|,? no more|, never) (?:the |at |on |in "
    r"|an? |for )?)[\"'“]?$"
)
_FROM_AHEAD = compile_phrases(
    r"\b(?:replac(?:e|ed|ing)|swap(?:ped|ping)?|chang(?:e|ed|ing)|switch(?:ed|ing)?|mov(?:e|ed|ing)) (?:the |it |it "
    r"from )?[\"'“]?$"
)
_FROM = compile_phrases(
    r"\b(?:chang|switch|mov|updat|revis|reschedul|postpon|push|shift|rais|lower|reduc|cut|went|extend|slip|jump|"
    r"drop)(?:e|ed|es|ing|s|ped|ping)?"
    r"(?: [\w'-]{1,20}){0,6}? from (?:the )?[\"'“]?$"
)
_NEW_BEHIND = compile_phrases(r"[\"'”]? (?:to|with|by|for|→|->|=>)" + FILL)
_BUT_BEHIND = compile_phrases(
    r"[\"'”]?(?:,| -|;|\.)?(?: but| it's| it is| that's| i meant| i mean| make it| rather| sorry|:)*" + FILL
)
_NOW_BEHIND = compile_phrases(
    r"[\"'”]? (?:is wrong|was wrong|is not right|isn't right|is now|has become|became|becomes|→|->|=>)(?:,| -|;|\.|"
    r":)?(?: it's| it is| it should be| should be| the right one is)?" + FILL
)
_OPENS = compile_phrases(
    r"(?:^|[,;:.!?\n—-] ?|\b(?:it's|it is|its|that's|is|are|be|make it|make that|use|with|called|named|say|said|meant|"
    r"mean|to|for|on|at|in|want|take|have|"
    r"as|by|no|sorry|actually|do|try|now|using|with|prefer|is called|go with) )[\"'“]?(?:the |a |an )?$"
)
_POINT = compile_phrases(
    r"\b(?P<verb>mak(?:e|ing)|chang(?:e|ed|ing)|set|mov(?:e|ed|ing)|switch(?:ed|ing)?|put|push(?:ed|ing)?|updat(?:e|ed|"
    r"ing)|reschedul(?:e|ed|ing)|"
    r"correct|bump|rais(?:e|ed)|lower|turn|shift|bring|rename|revert|reset|cut) (?:it|that|this|them|both|"
    r"everything)(?: all)?"
    r"(?: (?:back|over|up|down|forward))?(?: (?:from [^,.;!?\n]{1,40}? )?(?:to|at|on|for|into|as|be|read|say))?" + FILL
)
_IT_IS = compile_phrases(
    r"\b(?:it's|it is|it should be|it should read|it must be|it will be|it'll be|that's|that should be|now it's)" + FILL
)
_BACK = compile_phrases(
    r"\b(?:(?:go|went|gone|going|switch(?:ed|ing)?|chang(?:e|ed|ing)|return(?:ed|ing)?|mov(?:e|ed|ing)) back|"
    r"revert(?:ed|ing)?(?: back)?|back) to" + FILL
)


_SETS_RIGHT = compile_phrases(
    r"\W{0,10}(?:(?:oh|ah|hm+|um|uh|well|wait|so)\W{1,3}){0,2}(?:no|nope|nah|sorry|actually|correction|wait|my mistake|"
    r"oops|whoops|scratch that|apologies|"
    r"i meant|wrong|that's (?:wrong|not right|incorrect))\b"
)


def read_corrections(scene: Scene) -> Iterator[Statement]:
    """Statements that name no key, in the order of how plain they are."""
    reading = scene.said
    for held in scene.held:
        if held.shape in {"flag", "statement"}:
            continue
        yield from _renamed(reading, held)
        yield from _part_renamed(scene, held)
    yield from _pointed(scene)


def _renamed(reading: Reading, held: Held) -> Iterator[Statement]:
    """The old value is named, and the new one beside it."""
    for start, end in held.touched(reading)[:MATCHES]:
        found = _beside(reading, held, start, end)
        if found is not None:
            value, first, last = found
            yield Statement(held, value, first, last, "not", value.certain or held.shape != "label", changes=True)
            return


def _beside(reading: Reading, held: Held, start: int, end: int) -> tuple[Value, int, int] | None:
    text = reading.text
    sentence = sentence_at(reading, start)
    if sentence is None:
        return None
    ahead = text[max(sentence.start, start - AHEAD_CHARACTERS) : start]
    link = _NOT_AHEAD.search(ahead)
    if link is not None:
        value = _before(reading, held, sentence.start, start - len(ahead) + link.start("link"))
        if value is not None:
            return value, value.start, end
    opens = re.compile(r"(?:\bnot|\bno|isn't|n't)\s(?:the |at |on |in |an? |for )?[\"'“]?$", re.IGNORECASE).search(
        ahead
    )
    if opens is not None:
        return _behind(reading, held, _BUT_BEHIND, end, start)
    begin = _FROM_AHEAD.search(ahead) or _FROM.search(ahead)
    if begin is not None:
        found = _behind(reading, held, _NEW_BEHIND, end, start)
        return None if found is None else (found[0], start - len(ahead) + begin.start(), found[2])
    return _behind(reading, held, _NOW_BEHIND, end, start)


def _behind(reading: Reading, held: Held, link: re.Pattern[str], end: int, start: int) -> tuple[Value, int, int] | None:
    found = link.match(reading.text, end)
    if found is None or not found[0].strip():
        return None
    value = whole_value(held, reading, found.end(), min(len(reading.text), found.end() + AHEAD_CHARACTERS))
    # the old value is denied, the new one stated: the statement begins where the new one does
    return None if value is None else (value, value.start if link is _BUT_BEHIND else start, value.end)


def _before(reading: Reading, held: Held, low: int, end: int) -> Value | None:
    """The value that ends at a place, as far back as it is one."""
    text = reading.text
    stop = end - (text[end - 1 : end] == ",")
    stop -= 4 if text[:stop].lower().endswith(" now") else 0
    places = [*reading.mentions, *reading.names, *reading.by_kind.get("moment", ())]
    exact = {each.start for each in places if low <= each.start and each.end == stop and held.shape == "typed"}
    starts = [word.start for word in reading.words if max(low, stop - 60) <= word.start < stop]
    for start in sorted({*exact, *starts}):
        if start not in exact and not _OPENS.search(text[max(low, start - 24) : start]) and start != low:
            continue
        value = whole_value(held, reading, start, stop)
        if value is not None and value.end == stop:
            return value
    return None


def _part_renamed(scene: Scene, held: Held) -> Iterator[Statement]:
    """A part of the old value is named as wrong, and what takes its place: `it's 14 and not 12`."""
    reading = scene.said
    if not _is_talked_of(scene, held) or len(held.norm) < PART_LETTERS:
        return
    for part in dict.fromkeys(re.findall(r"[^\W_]+", held.text)):
        if len(part) < PART_LETTERS and not part.isdigit():
            continue
        for word in reading.words:
            if word.lower != part.lower():
                continue
            ahead = reading.text[max(0, word.start - AHEAD_CHARACTERS) : word.start]
            link = _NOT_AHEAD.search(ahead)
            if link is None:
                continue
            end = word.start - len(ahead) + link.start("link")
            new = next((each for each in reading.words if each.end == end), None)
            if new is None or new.lower[0].isdigit() != part[0].isdigit() or new.lower == part.lower():
                continue
            at = re.search(rf"(?<!\w){re.escape(part)}(?!\w)", held.text)
            if at is None:
                continue
            made = held.text[: at.start()] + reading.text[new.start : new.end] + held.text[at.end() :]
            value = Value(new.start, new.end, whole=made)
            yield Statement(held, value, new.start, word.end, "not", certain=True, changes=True)
            return


def _is_talked_of(scene: Scene, held: Held) -> bool:
    """Whether the text or what was said just before it is about a fact: it is named, or its value stated."""
    if any(each.held is held and not each.foreign for each in scene.subjects(scene.said)):
        return True
    return held in _recent(scene)


def _recent(scene: Scene) -> list[Held]:
    """The facts that the last messages name or state."""
    found = [
        each.held
        for reading in scene.before[-RECENT_MESSAGES:]
        for each in scene.subjects(reading)
        if not each.foreign and (each.share == 1 or each.head)
    ]
    low = len(scene.before) - RECENT_MESSAGES
    found += [held for held in scene.held if any(place.index >= low for place in held.places)]
    return list(dict.fromkeys(found))


def _pointed(scene: Scene) -> Iterator[Statement]:
    """`make it 7 pm`: what the text or the talk was about, if there is one such thing alone."""
    reading = scene.said
    for pattern in (_POINT, _BACK, _IT_IS):
        for found in islice(pattern.finditer(reading.text), MATCHES):
            sentence = sentence_at(reading, found.start())
            if sentence is None:
                continue
            fitting = _fitting(scene, found.start(), found.end(), sentence.end, asked=pattern is not _IT_IS)
            if not fitting:
                continue
            held, value = fitting[0]
            if (
                held.shape in {"name", "label"}
                and not value.certain
                and found["verb" if pattern is _POINT else 0].lower().startswith("mak")
            ):
                continue
            certain = len(fitting) == 1 and (value.certain or pattern is not _IT_IS)
            plain = re.search(r"\bnow\b|\bnot\b", reading.text[found.start() : value.end + 12])
            if pattern is _IT_IS and not plain and not _SETS_RIGHT.match(reading.text):
                certain = False
            yield Statement(held, value, found.start(), value.end, "it", certain, changes=True)
            break


def _fitting(scene: Scene, start: int, at: int, limit: int, *, asked: bool) -> list[tuple[Held, Value]]:
    """The facts that a pointing word may mean, with the value: those named before it in the text, or else those that the
    talk was about, or else the only ones with such a value."""
    reading = scene.said
    ahead = [each for each in scene.subjects(reading) if each.end <= start]
    others = [each for each in ahead if each.foreign]
    last = max((each.start for each in ahead if not each.foreign), default=-1)
    named = [each.held for each in ahead if each.start == last and not each.foreign]
    recent = [held for held in _recent(scene) if not held.domain]
    kinds = [named, recent] if not others else [named]
    for group in kinds:
        found = [
            (held, value)
            for held in dict.fromkeys(group)
            if (value := whole_value(held, reading, at, limit, asked=asked)) is not None
        ]
        if found:
            return found
    typed = [
        held for held in scene.held if held.shape not in {"name", "label", "statement", "flag"} and not held.domain
    ]
    if others or named or scene.before:
        return []
    return [(held, value) for held in typed if (value := whole_value(held, reading, at, limit)) is not None]
