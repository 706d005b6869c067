"""What speaks for and against a value in the text being the new one of a candidate. Names only: `weights` says how much."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.detect import cues
from holdfast.core.detect.reading import PERSONS, Held, Reading, Scene, akin
from holdfast.core.detect.words import FILLING, STOP, content, stem, word_set
from holdfast.core.values import Mention, name_norm, same

SHORT_WORDS = 7
CURT_WORDS = 4
ROLE_WORDS = 3
FITTING = 12
"""Values in a message that are weighed for a candidate, the first ones."""
PHRASE_WORDS = 3
"""A value in front of the word that it goes with has at most so many."""

_ASKED = {
    "time": word_set("time hour"),
    "date": word_set("date day month"),
    "number": word_set("many number size"),
    "money": word_set("much price cost budget"),
    "duration": word_set("long many duration"),
    "name": word_set("where city place location area name"),
    "text": word_set("kind type where city genre category sort"),
}
"""The words that a question for a value of some kind has."""
_AT = word_set("in near around at to from out into outside towards toward of by")
_FROM = word_set("from origin departure depart pickup start source begin leave leaving")
_TO = word_set("to destination arrival arrive dropoff end return until till checkout due deadline")
_FROM_SAID = word_set("from leaving leave depart departing starting since")
_TO_SAID = word_set("to until till towards arriving arrive through returning return going into reach")


def fits(held: Held, reading: Reading) -> Iterator[Mention]:
    """The values in a message that may stand in the place of a candidate's: of its kind, and not equal to it."""
    if held.is_sentence or held.kind == "flag":
        return
    found = [*_phrases(held, reading), *reading.names] if held.is_label else _typed(held, reading)
    seen: set[int] = set()
    for mention in found:
        if len(seen) == FITTING:
            return
        if mention.start in seen or not _is_of_kind(held, mention) or held.states(mention):
            continue
        if held.is_label and _overlaps(held, mention):
            continue
        seen.add(mention.start)
        if not reading.denies(mention):
            yield mention


def _typed(held: Held, reading: Reading) -> list[Mention]:
    return reading.mentions if held.lasts else reading.by_kind.get(held.kind, [])


def _is_of_kind(held: Held, mention: Mention) -> bool:
    return held.is_label or mention.kind == held.kind or (held.lasts and mention.kind == "duration")


def _overlaps(held: Held, mention: Mention) -> bool:
    return not mention.norm or set(mention.norm) <= set(held.norm) or set(held.norm) <= set(mention.norm)


def _phrases(held: Held, reading: Reading) -> Iterator[Mention]:
    """What stands next to a word that the old value stood next to, or that the key has, as `checking` does in `my checking
    account`."""
    behind = (held.rights | set(held.key.telling) | set(held.key.domain)) - STOP
    ahead = held.lefts
    if not reading.stems & (behind | ahead):
        return
    for at, word in enumerate(reading.words):
        if word.stem in behind and word.stem not in held.norm:
            start = at
            while start > 0 and at - start < PHRASE_WORDS and _continues(reading, start - 1):
                start -= 1
            if start < at:
                yield _phrase(reading, start, at - 1)
        if word.stem in ahead:
            end = at
            while end + 1 < len(reading.words) and end - at < PHRASE_WORDS and _continues(reading, end, end + 1):
                if end > at and reading.words[end + 1].stem in behind:
                    break
                end += 1
            if end > at:
                yield _phrase(reading, at + 1, end)


def _phrase(reading: Reading, first: int, last: int) -> Mention:
    start, end = reading.words[first].start, reading.words[last].end
    return Mention("text", start, end, name_norm(reading.text[start:end]))


def _continues(reading: Reading, at: int, taken: int | None = None) -> bool:
    """Whether the words at and behind stand in one phrase, and the one that would be taken says something."""
    word, following = reading.words[at], reading.words[at + 1]
    new = reading.words[at if taken is None else taken]
    apart = reading.text[word.end : following.start]
    return apart in {" ", "-"} and new.lower not in STOP and new.lower not in FILLING and not new.lower.isdigit()


def evidence(held: Held, mention: Mention, scene: Scene, reading: Reading) -> Iterator[str]:
    part = mention.parts[0] if len(mention.parts) == 1 else None
    yield f"kind {part.kind if part else mention.kind if held.is_label else held.kind}"
    yield from _of_words(held, mention, reading)
    yield from _of_rivals(held, mention, scene)
    yield from _of_talk(held, mention, scene)
    yield from _of_text(scene)
    if len(reading.by_kind.get(mention.kind, ())) > 1:
        yield "several"
    if reading is scene.said:
        yield from _of_statement(held, mention, scene)
    else:
        yield from _of_offer(mention, reading)


def _of_words(held: Held, mention: Mention, reading: Reading) -> Iterator[str]:
    mood = reading.mood_at(mention.start)
    near = reading.stems_of(mood) if mood else reading.stems
    if near.intersection(held.key.telling).difference(mention.norm):
        yield "key"
    if near.intersection(held.key.domain):
        yield "domain near"
    left, right = reading.around(mention.start, mention.end)
    if left in held.lefts:
        yield "left" if left not in {"a", "the", "an"} else "left article"
    if right in held.rights:
        yield "right"
    if held.kind in {"number", "ordinal", "percent"} and mention.noun and mention.noun not in STOP:
        if akin(mention.noun, held.nouns) or (mention.noun in PERSONS and held.nouns & PERSONS):
            yield "noun"
        else:
            yield "other noun"
    if held.lasts:
        yield "lasts" if mention.kind == "duration" else "lasts not"
    if held.kind == "date" and not held.differs(mention):
        yield "other form"
    if held.is_label:
        yield from _of_sort(held, mention, reading)
    begins, ends = not _FROM.isdisjoint(held.key.own), not _TO.isdisjoint(held.key.own)
    role = _role(reading, mention) if begins or ends else ""
    if role:
        yield "role" if (begins if role == "from" else ends) else "other role"


def _of_sort(held: Held, mention: Mention, reading: Reading) -> Iterator[str]:
    """Whether both are places, by the key and by the word before; and whether both are written as names are."""
    before = [word.lower for word in reading.ahead(mention.start, 2)]
    located = before[-1:] != [] and (
        before[-1] in _AT or (before[0] in _AT and before[-1] in {"the", "my", "downtown", "central"})
    )
    if held.is_place:
        yield "place" if located else "no place"
    elif located:
        yield "place else"
    if held.text[:1].isupper() and reading.text[mention.start].isupper():
        yield "both names"
    elif reading.text[mention.start].isupper():
        yield "name for none"


def _role(reading: Reading, mention: Mention) -> str:
    """Whether what is stated is where something begins or where it ends, by the words before."""
    for word in reversed(reading.ahead(mention.start, ROLE_WORDS)):
        if word.lower in _FROM_SAID:
            return "from"
        if word.lower in _TO_SAID:
            return "to"
    return ""


def _of_rivals(held: Held, mention: Mention, scene: Scene) -> Iterator[str]:
    alike, many = scene.rivals(held)
    yield many
    if not scene.staters(mention).isdisjoint(alike):
        yield "of a rival"
    if held.domain:
        if held.domain in scene.said_domains:
            yield "domain said"
        elif scene.said_domains:
            yield "other domain said"
        if len(scene.all_domains) > 1:
            yield "newest domain" if held.domain in scene.domains else "stale domain"
    if held.candidate.since_us == scene.newest_us:
        yield "newest"


def _of_talk(held: Held, mention: Mention, scene: Scene) -> Iterator[str]:
    last = scene.last
    if last is None:
        return
    if any(place.index == len(scene.before) - 1 for place in held.places):
        yield "old in last"
    if any(same(each, mention) for each in last.by_kind.get(mention.kind, ())) or (
        mention.norm and last.stems.issuperset(mention.norm)
    ):
        yield "new in last"
    if last.fails:
        yield "failure"
    if last.confirms:
        yield "confirming"
    if last.questions:
        about = _ASKED.get(held.kind, _ASKED["text"]).union(held.key.telling)
        yield "asked" if any(stems & about for stems in last.questions) else "asked other"


_WISH = re.compile(
    r"\b(?:need|want|get|find|book|rent|reserve|looking\sfor|search\sfor|find\sout|like)\s"
    r"(?:me\s|us\s|to\s(?:find|get|book|rent|reserve|see|go\sto|take)\s)?(?:an?|another|some|any|the)\s"
    r"((?:[^\W\d_-]{1,30}[\s-]){0,2}?[^\W\d_]{1,30})"
    r"(?=\s(?:to|in|at|on|for|from|with|that|which|by|near|there|around|leaving|going|please|and|under|as|now)\b|"
    r"\W*$|[,.?!;])",
    re.IGNORECASE,
)
"""Something is asked for: what it is, ends in its noun."""


def _of_text(scene: Scene) -> Iterator[str]:
    """What the text as a whole does."""
    if not scene.told:
        text = scene.said.text
        wished = _WISH.search(text)
        heard = wished is not None and stem(wished[1].split()[-1]) in scene.heard
        strong = any(each.strong for each in scene.said.moods)
        told = {
            "rejection": cues.REJECTION.match(text),
            "more": cues.MORE.search(text),
            "short": len(scene.said.words) <= SHORT_WORDS,
            "strong": strong,
            "correction": not strong and any(each.correction for each in scene.said.moods),
            "wish heard": heard,
            "wish unheard": wished is not None and not heard,
            "closing": cues.CLOSING.search(text),
            "curt": len(content(scene.said.words)) <= CURT_WORDS,
        }
        scene.told = tuple(name for name, so in told.items() if so) or ("plain",)
    yield from scene.told


def _of_offer(mention: Mention, reading: Reading) -> Iterator[str]:
    """How the other side put it."""
    mood = reading.mood_at(mention.start)
    if mood is None:
        return
    if cues.OFFER.search(reading.text, mood.sentence.start, mood.sentence.end):
        yield "offer"
    if mood.sentence.question:
        yield "offered in a question"
    if mood.sentence.end >= len(reading.text) - 2:
        yield "offered last"


def _of_statement(held: Held, mention: Mention, scene: Scene) -> Iterator[str]:
    """What the sentence that states it does."""
    reading = scene.said
    mood = reading.mood_at(mention.start)
    if mood is not None:
        yield from (name for name, so in (("also", mood.also), ("keep", mood.keep), ("asking", mood.asking)) if so)
    if held in scene.repeated:
        yield "old here"
