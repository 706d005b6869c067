"""Clause patterns in which a key stands elsewhere than right before its verb.

`Ines is captain again`, `for the contact take Ben`, `the venue, which was …, is …`, `volume 25%, brightness 50%`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import msgspec

from holdfast.core.detect.corrections import find_recent, value_before
from holdfast.core.detect.findings import is_current
from holdfast.core.detect.reading import Reading, Scene
from holdfast.core.detect.shapes import Value, whole_value
from holdfast.core.detect.statements import (
    FILL,
    Statement,
    compile_phrases,
    follow_verb,
    make_statement,
    sentence_at,
    text_ahead,
    value_of,
)
from holdfast.core.detect.subjects import Subject
from holdfast.core.detect.words import Sentence

SETTINGS = 12
"""Settings that a list may have."""
LIST_ITEMS = 2
"""So many items, parted by commas, make a list."""
CONTEXT_CHARACTERS = 120
"""Before an instruction to note something, in which that is looked for."""

_MODIFIER = compile_phrases(
    r"(?:, [^,.;!?\n]{1,90},|(?: that| which)? (?:we|i|you)(?:'ve|'re|'m| have| are| am)?(?: now| all)? [a-z]{2,12}"
    r"(?: [a-z]{1,12}){0,4}?)(?= (?:is|are|has|have|will|should|was|moved|changed|became|becomes)\b)"
)
"""Between a key and its verb."""
_SUCCEEDS = compile_phrases(
    r"(?P<link>(?:'s| is| are| becomes| became| has become| will be)(?P<firm>(?: now| again| officially| back| once "
    r"more| "
    r"going to be| the new| as){0,3})"
    r"|(?P<over>(?: has| have| is| just| now| will| was| got| been){0,3} (?:tak(?:es?|en|ing)|took) over(?: from "
    r"[^,.;!?\n]{1,30}?)? "
    r"as|(?: has| have| just| now| will| was){0,3} (?:replaced|replaces|replacing|succeeded|succeeds) "
    r"[^,.;!?\n]{1,30}? as"
    r"|(?: steps| stepped| comes| came| is| was) (?:up|in|back|on board) as| returns as| returned as"
    r"|(?: was| is| has been| got| has just been| is now)(?: made| named| appointed| elected| chosen as| voted| "
    r"confirmed as))"
    r")(?: the| our| my)? $"
)
"""Behind a new value, before the key."""
_AGAIN_BEHIND = compile_phrases(
    r"(?:,? (?:again|now|these days|once more|instead|from now on|as of now))+(?=[\s,.;!?]|$)"
)
_WHEN_BEHIND = compile_phrases(
    r" (?:yesterday|today|this (?:morning|week|month)|last (?:night|week|month)|on (?:mon|tues|wednes|thurs|fri|"
    r"satur|sun)day|in the end)\b"
)
_CLAUSE_END = re.compile(r"\s*(?:[,.;!?]|$)")
_FOR_AHEAD = compile_phrases(r"(?:^|[,;.] ?|\b(?:but|and|so|then|please) )(?P<link>as |for )(?:the |our |my )?$")
_TAKE_BEHIND = compile_phrases(
    r",?(?: please| let's| we'll| i'll| we| i| you can| now){0,2} (?:take|use|put|pick|choose|go with|make it|set|"
    r"enter|have|"
    r"it's|it is|say|write|note|took|chose|picked|went with)" + FILL
)
_VALUE_AHEAD = compile_phrases(
    r"(?:^|[,;:.!] )(?P<opener>(?:(?:oh|ah|ok|okay|no|nope|sorry|wait|actually|correction|scratch that|oops|whoops|"
    r"rather|"
    r"i mean|i meant|my mistake|instead|make it|make that|let's do|let's say|put|use|take|"
    r"(?:we|i|they)(?:'ve|'ll| have| will)?(?: just| finally){0,2} (?:went with|gone with|go with|chose|chosen|"
    r"picked|took|take|switched to|moved to|"
    r"settled on))[\s,:–—-]{1,3}){1,3})"
    r"(?P<value>[^,;!?\n]{1,40}?)(?: in the end| after all| finally| now)? (?:for|as|on) (?:the |our |my )?$"
)
_QUESTION_BEHIND = re.compile(r"\?{1,2}\s+(?=\S)")
_ON_AHEAD = compile_phrases(
    r"\b(?:we|i)(?:'re|'m|'ve| are| am| have)?(?: now| all| just| recently| finally| since){0,2} (?:on|run|running|"
    r"use|using|at|"
    r"upgraded to|updated to|moved to|switched to|migrated to|bumped to|went to) $"
)
_NOTE_AHEAD = compile_phrases(
    r"(?P<link>[,.;!–—-]{0,2} ?(?:so |and |please |pls |then |just |could you |can you |would you ){0,4}(?:"
    r"(?:put|note|save|record|enter|use|set|store|register|list|write) (?:that|it|this)(?: down)? as|that's|thats|"
    r"that is|"
    r"(?:chang|updat|fix|adjust|correct|amend|edit)e?)) (?:my |our |the )$"
)
_NOTE_BEHIND = compile_phrases(
    r"(?: (?:accordingly|too|now|please|then|as well|to match|on [^,.;!?\n]{1,40}|in "
    r"[^,.;!?\n]{1,40})){0,3}\s*(?:[.!]|$)"
)
_OWN = compile_phrases(r"(?:^|[\s,;(])(?:i|we|i'm|i've|i'd|we're|we've|im|ive|my|our)\b")
_PAST = compile_phrases(r"\b(?:yesterday|ago|once|used to|was|were|paid|earned|had)\b")
_INTRODUCES = compile_phrases(r"\b(?:at|to|with|in|for|an?|called|joined|is|by) (?:the )?(?=[^\W_])")
_TAKE_OFF = compile_phrases(
    r"\b(?:take|remove|drop|delete|strike|cross|scratch|leave) (?:the )?(?P<item>[^,;.!?\n]{1,40}?) (?P<off>off|"
    r"from|out of)(?: of)? $"
)
_ADD_TO = compile_phrases(r"\b(?:add|put|include) (?:an? |some |the )?(?P<item>[^,;.!?\n]{1,40}?) (?:to|on|onto) $")
_PARTED = compile_phrases(
    r"\b(?:i|we)(?:'ve| have)?(?: just| already| finally){0,2} (?:sold|returned|gave|given|scrapped|got rid of|sent|"
    r"cancell?ed|"
    r"deleted|ditched|binned|no longer have|don't have|don't own) (?:it|that|them|that one)(?: (?:away|back|any "
    r"?more|off))?\b"
)
_SEPARATES = re.compile(r"\s+(?=[\w.]{1,40}\s?=)|\s*(?:[,;\n]|\band\b|&)\s*(?:and\s)?", re.IGNORECASE)
_LEADS = compile_phrases(
    r"\W{0,4}(?:(?:please|pls|ok|okay|hi|hey|so|set|make|now|new settings|settings|update|fyi)[\s,:]{1,2}){0,3}"
)
_CLOSES = compile_phrases(r"(?: (?:please|pls|plz|thanks|thx|now|from now on|instead|ta)){0,2}\s{0,9}[.!]{0,3}\s{0,9}$")


def read_patterns(scene: Scene) -> Iterator[Statement]:
    """Statements of the message observed that have one of these patterns."""
    reading = scene.said
    yield from _read_settings(scene)
    yield from _parted(scene)
    for subject in scene.subjects(reading):
        sentence = sentence_at(reading, subject.start)
        if sentence is None or subject.foreign or not is_current(scene, subject.held):
            continue
        for read in (_modified, _succeeded, _for_key, _value_for, _asked_and_told, _running, _noted, _listed):
            yield from islice(read(reading, subject, sentence), 1)


def _modified(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`the venue, which was …, is …`, `the password we use now is …`."""
    found = _MODIFIER.match(reading.text, subject.end, sentence.end)
    if found is None:
        return
    made = follow_verb(reading, subject, found.end(), sentence)
    if made is not None:
        yield msgspec.structs.replace(made, aside=found.span())


def _succeeded(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`Ines is captain again`, `Farid has replaced Beth as lead`."""
    ahead, low = text_ahead(reading, subject, sentence)
    found = _SUCCEEDS.search(
        ahead if subject.bare else ahead + reading.text[subject.start : subject.start + 4].split(" ")[0] + " "
    )
    if found is None or not subject.head:
        return
    again = _AGAIN_BEHIND.match(reading.text, subject.end)
    new = re.search(r"\bnew\b", reading.text[subject.start : subject.end], re.IGNORECASE)
    firm = bool(found["over"] or (found["firm"] or "").strip() or again or new)
    if found["over"] and again is None:
        again = _WHEN_BEHIND.match(reading.text, subject.end)
    if not firm or not _CLAUSE_END.match(reading.text, again.end() if again else subject.end):
        return
    value = value_before(reading, subject.held, sentence.start, low + found.start("link"))
    if value is not None and (value.certain or not subject.bare):
        yield make_statement(subject, value, value.start, "", "succeeds", changes=True)


def _for_key(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`for billing contact take Sunniva`."""
    ahead, low = text_ahead(reading, subject, sentence)
    start = _FOR_AHEAD.search(ahead + ("" if subject.bare else "the "))
    found = _TAKE_BEHIND.match(reading.text, subject.end, sentence.end) if start else None
    if start is None or found is None:
        return
    value = value_of(reading, subject, found.end(), sentence.end, asked=True)
    if value is not None and (value.certain or value.end == len(reading.text.rstrip(" .!"))):
        yield make_statement(
            subject, value, min(low + start.start("link"), subject.start), found["fill"], "for", changes=True
        )


def _value_for(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`sorry, 10:30 for the yoga class`."""
    ahead, low = text_ahead(reading, subject, sentence)
    found = _VALUE_AHEAD.search(ahead + ("" if subject.bare else "the "))
    if found is None or not _CLAUSE_END.match(reading.text, subject.end):
        return
    value = value_of(reading, subject, low + found.start("value"), low + found.end("value"), asked=True)
    if value is not None and value.end == low + found.end("value"):
        yield make_statement(subject, value, value.start, "", "for", changes=True)


def _asked_and_told(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`The new treasurer? Beth.`"""
    found = _QUESTION_BEHIND.match(reading.text, subject.end)
    new = re.search(r"\bnew\b", reading.text[subject.start : subject.end], re.IGNORECASE)
    there = sentence_at(reading, found.end()) if found else None
    if found is None or new is None or there is None or reading.text[sentence.start : subject.start].strip(" \n"):
        return
    value = value_of(reading, subject, found.end(), there.end)
    if value is None or not value.certain or reading.text[value.end : there.end].strip(" .!\n"):
        return
    if len(reading.text[value.start : value.end].split()) <= len(subject.held.text.split()):
        yield make_statement(subject, value, value.start, "", "told", changes=True)


def _running(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`we're on postgres 16.2`: a word of the key, and the value right behind it."""
    ahead, low = text_ahead(reading, subject, sentence)
    found = _ON_AHEAD.search(ahead)
    if found is None or subject.held.shape not in {"typed", "code", "quantity", "token"}:
        return
    at = subject.end + len(re.match(r"\s(?:v(?=\d)|version\s)?", reading.text[subject.end : subject.end + 9] + " ")[0])  # type: ignore[index]
    value = whole_value(subject.held, reading, at, sentence.end)
    if value is not None and value.certain and subject.rivals == 0:
        yield Statement(subject.held, value, low + found.start(), value.end, "on", certain=True, changes=True)


def _noted(reading: Reading, subject: Subject, _: Sentence) -> Iterator[Statement]:
    """`I'm at the Larch Clinic now, so put that down as my workplace`."""
    low = max(0, subject.start - CONTEXT_CHARACTERS)
    ahead = reading.text[low : subject.start] + ("" if subject.bare else "the ")
    link = _NOTE_AHEAD.search(ahead)
    if link is None or subject.bare or not _NOTE_BEHIND.match(reading.text, subject.end):
        return
    stop = low + link.start("link")
    there = sentence_at(reading, max(0, stop - 1))
    if (
        there is None
        or not _OWN.search(reading.text, there.start, stop)
        or _PAST.search(reading.text, there.start, stop)
    ):
        return
    found = [*_values_within(reading, subject, there.start, stop)]
    if len(found) == 1:
        value = found[0]
        made = make_statement(subject, value, value.start, "", "noted", changes=True)
        yield msgspec.structs.replace(made, stop=value.end)


def _values_within(reading: Reading, subject: Subject, low: int, stop: int) -> Iterator[Value]:
    """The values that a clause states for a fact."""
    held = subject.held
    if held.shape == "typed":
        places = {each.start for each in reading.by_kind.get(held.kind, ()) if low <= each.start < stop}
    elif held.shape in {"name", "label", "code", "token", "address"}:
        places = {each.end() for each in _INTRODUCES.finditer(reading.text, low, stop)}
    else:
        return
    seen: set[int] = set()
    for at in sorted(places):
        value = whole_value(held, reading, at, stop)
        if (
            value is None
            or value.start in seen
            or value.doubted
            or (held.shape == "name" and not value.certain and not reading.text.islower())
        ):
            continue
        seen.add(value.start)
        yield value


def _listed(reading: Reading, subject: Subject, sentence: Sentence) -> Iterator[Statement]:
    """`take the stove off the packing list`: a list with one item less, or one more."""
    ahead, low = text_ahead(reading, subject, sentence)
    found = _TAKE_OFF.search(ahead) or _ADD_TO.search(ahead)
    items = [each.strip() for each in subject.held.text.split(",")]
    if found is None or len(items) < LIST_ITEMS or subject.rivals or subject.share < 1:
        return
    item = found["item"].strip()
    rest = [each for each in items if each.lower() != item.lower()]
    if "off" in found.groupdict():
        if len(rest) != len(items) - 1:
            return
    elif len(rest) == len(items) and not re.search(r"\s(?:and|or)\s", item):
        rest.append(item)
    else:
        return
    start = low + found.start("item")
    value = Value(start, start + len(item), whole=", ".join(rest))
    yield Statement(subject.held, value, low + found.start(), subject.end, "list", certain=True, changes=True)


def _parted(scene: Scene) -> Iterator[Statement]:
    """`I sold it last week`: what the other side has just spoken of, if that is one thing alone."""
    reading = scene.said
    found = _PARTED.search(reading.text)
    recent = [held for held in find_recent(scene) if not held.domain and held.kind != "flag"]
    if found is None or len(recent) != 1 or scene.last is None or scene.subjects(reading):
        return
    yield Statement(recent[0], None, found.start(), found.end(), "parted", certain=True, changes=True, change="retract")


def _read_settings(scene: Scene) -> Iterator[Statement]:
    """`volume 25%, brightness 50%`: keys with their values and nothing else."""
    reading = scene.said
    subjects = {
        each.start: each
        for each in reversed(scene.subjects(reading))
        if each.share == 1 and (each.joined or not each.foreign)
    }
    at = _LEADS.match(reading.text).end()  # type: ignore[union-attr]
    made: list[Statement] = []
    for _ in range(SETTINGS):
        subject = subjects.get(at)
        if subject is None or subject.rivals or not is_current(scene, subject.held):
            return
        begins = subject.end + len(re.match(r"\s?[:=]?\s?", reading.text[subject.end :])[0])  # type: ignore[index]
        value = value_of(reading, subject, begins, len(reading.text), asked=True)
        if value is None or value.doubted:
            return
        made.append(make_statement(subject, value, subject.start, "", "setting", changes=True))
        closes = _CLOSES.match(reading.text, value.end)
        if closes is not None:
            if len(made) > 1 or closes[0].strip(" .!"):
                yield from made
            return
        separates = _SEPARATES.match(reading.text, value.end)
        if separates is None:
            return
        at = separates.end()
