"""Corrections without a key: `Meier, not Meyer`, `from Tuesday to Friday`, `make it 7 pm`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from holdfast.text.detect.scene import RECENT_MESSAGES, MessageText, Scene, TargetFact
from holdfast.text.detect.shapes import ValueMatch, read_value
from holdfast.text.detect.statements import AHEAD_CHARACTERS, FILL, FactStatement, compile_phrases, sentence_at
from holdfast.text.expressions import compile_late

MATCHES = 6
"""The number of matches of one pattern that are read."""
PART_LETTERS = 2
"""The shortest part of a value that is searched for."""
_NOT_AHEAD = compile_phrases(
    r"(?P<link>(?:,? (?:and |but )?not|,? instead of|,? rather than|,? no longer|,? no more|, never) (?:the |at |on |"
    r"in |an? |for )?)[\"'“]?$"
)
_DENIED_AHEAD = compile_late(
    r"(?:\bnot|\bno|isn't|n't|\bno longer|\b(?:is|was|are)nt)\s(?:the |at |on |in |an? |for )?[\"'“]?$", re.IGNORECASE
)
_FROM_AHEAD = compile_phrases(
    r"\b(?:replac(?:e|ed|ing)|swap(?:ped|ping)?|chang(?:e|ed|ing)|switch(?:ed|ing)?|mov(?:e|ed|ing)) (?:the |it |it "
    r"from )?[\"'“]?$"
)
_FROM = compile_phrases(
    r"\b(?:chang|switch|mov|updat|revis|reschedul|postpon|push|shift|rais|lower|reduc|cut|went|extend|slip|jump|"
    r"drop)(?:e|ed|es|ing|s|ped|ping)?(?: [\w'-]{1,20}){0,6}? from (?:the )?[\"'“]?$"
)
_NEW_BEHIND = compile_phrases(r"[\"'”]? (?:to|with|by|for|→|->|=>)" + FILL)
_BUT_BEHIND = compile_phrases(
    r"[\"'”]?(?: any ?more| any longer)?(?:,| -|;|\.)?(?: but| it's| its| it is| that's| i meant| i mean| make it| "
    r"rather| sorry|:)*" + FILL
)
_NOW_BEHIND = compile_phrases(
    r"[\"'”]?,? (?:(?:was|has been|got|is|were|is being)(?: now| just| recently)? replaced (?:by|with)|is wrong|was "
    r"wrong|is not right|isn't right|is now|has become|became|becomes|→|->|=>)(?:,| -|;|\.|"
    r":)?(?: it's| it is| it should be| should be| the right one is)?" + FILL
)
_OPENS = compile_phrases(
    r"(?:^|[,;:.!?\n—-] ?|\b(?:it's|it is|its|that's|is|are|be|make it|make that|use|with|called|named|say|said|meant|"
    r"mean|to|for|on|at|in|want|take|have|"
    r"as|by|no|sorry|actually|do|try|now|using|with|prefer|is called|go with) )[\"'“]?(?:the |a |an )?$"
)
_POINT = compile_phrases(
    r"\b(?P<verb>mak(?:e|ing)|chang(?:e|ed|ing)|set|mov(?:e|ed|ing)|switch(?:ed|ing)?|put|push(?:ed|ing)?|updat(?:e|ed|"
    r"ing)|reschedul(?:e|ed|ing)|correct(?:ed)?|bump(?:ed)?|rais(?:e|ed)|lower(?:ed)?|turn(?:ed)?|shift(?:ed)?|bring|"
    r"brought|renamed?|revert(?:ed)?|reset|cut|increased?|reduced?|upgraded?|adjust(?:ed)?) (?:it|that|this|them|both|"
    r"everything)(?: all)?(?: (?:back|over|up|down|forward))?(?: (?:from [^,.;!?\n]{1,40}? )?(?:to|at|on|for|into|as|"
    r"be|read|say))?" + FILL
)
_IT_IS = compile_phrases(
    r"\b(?:it's|it is|it should be|it should read|it must be|it will be|it'll be|that's|that should be|now it's)" + FILL
)
_OUGHT = compile_phrases(
    r"(?:^|[,.;!] )(?:(?:no|nope|hm+|actually|sorry|it|that|this)[\s,]{1,2}){0,2}(?:should|must|needs to|has to|"
    r"ought to) (?:be|read|say)" + FILL
)
_BACK = compile_phrases(
    r"\b(?:(?:go|went|gone|going|switch(?:ed|ing)?|chang(?:e|ed|ing)|return(?:ed|ing)?|mov(?:e|ed|ing)) back|"
    r"revert(?:ed|ing)?(?: back)?|back) to" + FILL
)
_IMPERATIVE = compile_phrases(
    r"(?:use|take|put|make|set|go|try|pick|choose|switch|change|move|let|book|send|call|please|keep|add|have|get|give|"
    r"we|i|it|that|there|my|our|the|with) "
)
_REPLACES = compile_phrases(
    r"(?: has| have| just| now){0,2} (?:replaced|replaces|succeeded|succeeds) (?:the )?[\"'“]?$"
)
_APPOSITION = compile_late(r",\s(?:the|my|our)\s[\w' -]{1,30}$", re.IGNORECASE)
"""An apposition between a new value and the old one."""
_IT_IS_BEHIND = compile_phrases(r"\b(?:but|it's|its|it is|rather|i meant|i mean)\b")
_SETS_RIGHT = compile_phrases(
    r"\W{0,10}(?:(?:oh|ah|hm+|um|uh|well|wait|so)\W{1,3}){0,2}(?:no|nope|nah|sorry|actually|correction|wait|my mistake|"
    r"oops|whoops|scratch that|apologies|i meant|wrong|that's (?:wrong|not right|incorrect))\b"
)


def read_corrections(scene: Scene) -> Iterator[FactStatement]:
    """Read the corrections of the observed message, the plainest first."""
    message = scene.message
    for target in scene.targets:
        if target.shape in {"flag", "statement"}:
            continue
        yield from _read_replacement(message, target)
        yield from _read_part_replacement(scene, target)
    yield from _read_pronoun(scene)


def _read_replacement(message: MessageText, target: TargetFact) -> Iterator[FactStatement]:
    """The old value is stated, and the new one beside it."""
    for start, end in target.partial_spans_in(message)[:MATCHES]:
        replacement = _find_new_value(message, target, start, end)
        if replacement is not None:
            value, first, last = replacement
            is_explicit = first < start or _IT_IS_BEHIND.search(message.text, end, value.start)
            certain = value.certain or target.shape != "label" or bool(is_explicit)
            yield FactStatement(target, value, first, last, "not", certain, changes=True)
            return


def _find_new_value(
    message: MessageText, target: TargetFact, start: int, end: int
) -> tuple[ValueMatch, int, int] | None:
    text = message.text
    sentence = sentence_at(message, start)
    if sentence is None:
        return None
    ahead = text[max(sentence.start, start - AHEAD_CHARACTERS) : start]
    link = _NOT_AHEAD.search(ahead)
    if link is not None:
        value = read_value_before(
            message, target, sentence.start, start - len(ahead) + link.start("link"), is_request=True
        )
        if value is not None:
            return value, value.start, end
    if _DENIED_AHEAD.search(ahead) is not None:
        return _find_value_behind(message, target, _BUT_BEHIND, end, start)
    successor = _REPLACES.search(ahead)
    if successor is not None:
        value = read_value_before(message, target, sentence.start, start - len(ahead) + successor.start())
        if value is not None and value.certain and re.match(r"[\"'”]?\s*(?:[.,;!?]|$)", text[end : end + 9]):
            return value, value.start, end
    begin = _FROM_AHEAD.search(ahead) or _FROM.search(ahead)
    if begin is not None:
        new_value = _find_value_behind(message, target, _NEW_BEHIND, end, start)
        return None if new_value is None else (new_value[0], start - len(ahead) + begin.start(), new_value[2])
    return _find_value_behind(message, target, _NOW_BEHIND, end, start)


def _find_value_behind(
    message: MessageText, target: TargetFact, link: re.Pattern[str], end: int, start: int
) -> tuple[ValueMatch, int, int] | None:
    match = link.match(message.text, end)
    if match is None or not match[0].strip():
        return None
    limit = min(len(message.text), match.end() + AHEAD_CHARACTERS)
    value = read_value(target, message, match.end(), limit, is_request=link is _NEW_BEHIND)
    # behind a denial of the old value, the statement begins with the new one
    return None if value is None else (value, value.start if link is _BUT_BEHIND else start, value.end)


def read_value_before(
    message: MessageText, target: TargetFact, low: int, end: int, *, is_request: bool = False
) -> ValueMatch | None:
    """The longest value that ends at a position."""
    text = message.text
    stop = end - (text[end - 1 : end] == ",")
    stop -= 4 if text[:stop].lower().endswith(" now") else 0
    nouns = [
        word for word in message.words if word.end == stop and word.stem in target.key.words and target.kind == "number"
    ]
    stop -= nouns[0].end - nouns[0].start + 1 if nouns else 0
    mentions = [*message.mentions, *message.names, *message.by_kind.get("moment", ())]
    exact = {
        mention.start
        for mention in mentions
        if low <= mention.start and mention.end == stop and target.shape == "typed"
    }
    starts = [word.start for word in message.words if max(low, stop - 60) <= word.start < stop]
    for start in sorted({*exact, *starts}):
        if start == low and _IMPERATIVE.match(text, start, stop):
            continue
        if start not in exact and not _OPENS.search(text[max(low, start - 24) : start]) and start != low:
            continue
        value = read_value(target, message, start, stop, is_request=is_request)
        if value is not None and value.end == stop:
            return value
    apposition = _APPOSITION.search(text[max(low, stop - 40) : stop])
    return read_value_before(message, target, low, stop - len(apposition[0])) if apposition else None


def _read_part_replacement(scene: Scene, target: TargetFact) -> Iterator[FactStatement]:
    """A part of the old value is replaced: `it's 14 and not 12`."""
    message = scene.message
    if not _is_recent(scene, target) or len(target.norm) < PART_LETTERS:
        return
    for part in dict.fromkeys(re.findall(r"[^\W_]+", target.text)):
        if len(part) < PART_LETTERS and not part.isdigit():
            continue
        for word in message.words:
            if word.lower != part.lower():
                continue
            ahead = message.text[max(0, word.start - AHEAD_CHARACTERS) : word.start]
            link = _NOT_AHEAD.search(ahead)
            if link is None:
                continue
            end = word.start - len(ahead) + link.start("link")
            new = next((other for other in message.words if other.end == end), None)
            if new is None or new.lower[0].isdigit() != part[0].isdigit() or new.lower == part.lower():
                continue
            at = re.search(rf"(?<!\w){re.escape(part)}(?!\w)", target.text)
            if at is None:
                continue
            full_text = target.text[: at.start()] + message.text[new.start : new.end] + target.text[at.end() :]
            value = ValueMatch(new.start, new.end, full_text=full_text)
            yield FactStatement(target, value, new.start, word.end, "not", certain=True, changes=True)
            return


def _is_recent(scene: Scene, target: TargetFact) -> bool:
    """Whether the observed message names a fact, or the last messages name or state it."""
    if any(phrase.target is target and not phrase.is_foreign for phrase in scene.key_phrases(scene.message)):
        return True
    return target in find_recent_targets(scene)


def find_recent_targets(scene: Scene) -> list[TargetFact]:
    """Find the facts that the last messages name or state."""
    targets = [
        phrase.target
        for message in scene.previous[-RECENT_MESSAGES:]
        for phrase in scene.key_phrases(message)
        if not phrase.is_foreign and (phrase.share == 1 or phrase.has_head)
    ]
    low = len(scene.previous) - RECENT_MESSAGES
    targets += [target for target in scene.targets if any(occurrence.index >= low for occurrence in target.occurrences)]
    return list(dict.fromkeys(targets))


def _read_pronoun(scene: Scene) -> Iterator[FactStatement]:
    """`make it 7 pm`: a new value for the only fact that the pronoun can mean."""
    message = scene.message
    for pattern in (_POINT, _BACK, _OUGHT, _IT_IS):
        for match in islice(pattern.finditer(message.text), MATCHES):
            sentence = sentence_at(message, match.start())
            if sentence is None:
                continue
            fitting = _find_referents(scene, match.start(), match.end(), sentence.end, is_request=pattern is not _IT_IS)
            if not fitting:
                continue
            target, value = fitting[0]
            if (
                target.shape in {"name", "label"}
                and not value.certain
                and match["verb" if pattern is _POINT else 0].lower().startswith("mak")
            ):
                continue
            certain = len(fitting) == 1 and (value.certain or pattern is not _IT_IS)
            near = message.text[max(sentence.start, match.start() - 14) : value.end + 12]
            plain = re.search(r"\b(?:now|not|these days|nowadays)\b", near, re.IGNORECASE)
            if pattern is _IT_IS and not plain and not _SETS_RIGHT.match(message.text):
                certain = False
            yield FactStatement(target, value, match.start(), value.end, "it", certain, changes=True)
            break


def _find_referents(
    scene: Scene, start: int, at: int, limit: int, *, is_request: bool
) -> list[tuple[TargetFact, ValueMatch]]:
    """The facts that a pronoun may mean, each with the new value: those named before it in the message, or else in the last
    messages, or else the only ones with such a value."""
    message = scene.message
    ahead = [phrase for phrase in scene.key_phrases(message) if phrase.end <= start]
    others = [phrase for phrase in ahead if phrase.is_foreign]
    last = max((phrase.start for phrase in ahead if not phrase.is_foreign), default=-1)
    named_targets = [phrase.target for phrase in ahead if phrase.start == last and not phrase.is_foreign]
    recent = [target for target in find_recent_targets(scene) if not target.domain]
    kinds = [named_targets, recent] if not others else [named_targets]
    for group in kinds:
        matches = [
            (target, value)
            for target in dict.fromkeys(group)
            if (value := read_value(target, message, at, limit, is_request=is_request)) is not None
        ]
        if matches:
            return matches
    typed = [
        target
        for target in scene.targets
        if target.shape not in {"name", "label", "statement", "flag"} and not target.domain
    ]
    if others or named_targets or scene.previous:
        return []
    return [(target, value) for target in typed if (value := read_value(target, message, at, limit)) is not None]
