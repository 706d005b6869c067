"""What speaks for and against a value in the text being the new one of a candidate. Names only: `weights` says how much."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.detect import cues
from holdfast.core.detect.reading import PERSONS, Held, Reading, Scene, akin
from holdfast.core.detect.values import Mention, name_norm, same
from holdfast.core.detect.words import FILLING, STOP, stem, word_set

PHRASE_WORDS = 3
"""A value in front of the word that it goes with has at most so many."""

_ASKED = {
    "time": {"time", "hour"},
    "date": {"date", "day", "month"},
    "number": {"many", "number", "size"},
    "money": {"much", "price", "cost", "budget"},
    "duration": {"long", "many", "duration"},
    "name": {"where", "city", "place", "location", "area", "name"},
    "text": {"kind", "type", "where", "city", "genre", "category", "sort"},
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
    found = [*_phrases(held, reading), *reading.names] if held.is_label else reading.mentions
    seen: set[int] = set()
    for mention in found:
        if mention.start in seen or not _is_of_kind(held, mention) or held.states(mention):
            continue
        if held.is_label and _overlaps(held, mention):
            continue
        seen.add(mention.start)
        if not reading.denies(mention):
            yield mention


def _is_of_kind(held: Held, mention: Mention) -> bool:
    return held.is_label or mention.kind == held.kind or (held.lasts and mention.kind == "duration")


def _overlaps(held: Held, mention: Mention) -> bool:
    return not mention.norm or set(mention.norm) <= set(held.norm) or set(held.norm) <= set(mention.norm)


def _phrases(held: Held, reading: Reading) -> Iterator[Mention]:
    """What stands next to a word that the old value stood next to, or that the key has, as `checking` does in `my checking
    account`."""
    behind = {place.right for place in held.places} | set(held.key.telling) | set(held.key.domain)
    ahead = {place.left for place in held.places}
    for at, word in enumerate(reading.words):
        if word.stem in behind - STOP and word.stem not in held.norm:
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
    yield f"kind {mention.kind if held.is_label else held.kind}"
    yield from _of_words(held, mention, reading)
    yield from _of_rivals(held, mention, scene)
    yield from _of_talk(held, mention, scene)
    yield from _of_mood(held, mention, scene, reading)


def _of_words(held: Held, mention: Mention, reading: Reading) -> Iterator[str]:
    mood = reading.mood_at(mention.start)
    near = _stems(reading, mood.sentence.start, mood.sentence.end) if mood else reading.stems
    if near & set(held.key.telling) - set(mention.norm):
        yield "key"
    if near & set(held.key.domain):
        yield "domain near"
    left, right = reading.around(mention.start, mention.end)
    if left and any(place.left == left for place in held.places):
        yield "left" if left not in {"a", "the", "an"} else "left article"
    if right and right not in STOP and any(place.right == right for place in held.places):
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
    role, own = _role(reading, mention), set(held.key.own)
    if role and (own & _FROM or own & _TO):
        yield "role" if own & (_FROM if role == "from" else _TO) else "other role"


def _of_sort(held: Held, mention: Mention, reading: Reading) -> Iterator[str]:
    """Whether both are places, by the key and by the word before; and whether both are written as names are."""
    before = [word for word in reading.words if word.end <= mention.start][-2:]
    located = any(word.lower in _AT for word in before[-1:]) or (
        len(before) == 2 and before[0].lower in _AT and before[1].lower in {"the", "my", "downtown", "central"}
    )
    if held.is_place:
        yield "place" if located else "no place"
    elif located:
        yield "place else"
    if held.text[:1].isupper() and reading.text[mention.start].isupper():
        yield "both names"
    elif reading.text[mention.start].isupper():
        yield "name for none"


def _stems(reading: Reading, start: int, end: int) -> frozenset[str]:
    return frozenset(word.stem for word in reading.words if start <= word.start < end)


def _role(reading: Reading, mention: Mention) -> str:
    """Whether what is stated is where something begins or where it ends, by the words before."""
    before = [word.lower for word in reading.words if mention.start - 30 < word.start < mention.start][-3:]
    for word in reversed(before):
        if word in _FROM_SAID:
            return "from"
        if word in _TO_SAID:
            return "to"
    return ""


def _of_rivals(held: Held, mention: Mention, scene: Scene) -> Iterator[str]:
    alike = [each for each in scene.held if each is not held and _alike(each, held)]
    within = [each for each in alike if each.domain == held.domain]
    yield "rivals" if within else "sole" if not alike else "sole here"
    if any(each.states(mention) for each in alike):
        yield "of a rival"
    if held.domain:
        if any(word in scene.said.stems for word in held.key.domain):
            yield "domain said"
        elif any(set(each.key.domain) & scene.said.stems for each in scene.held if each.domain != held.domain):
            yield "other domain said"
        if len({each.domain for each in scene.held}) > 1:
            yield "newest domain" if held.domain in scene.domains else "stale domain"
    if held.candidate.since_us == scene.newest_us:
        yield "newest"


def _alike(one: Held, other: Held) -> bool:
    if one.is_label != other.is_label:
        return False
    return one.is_place == other.is_place if one.is_label else one.kind == other.kind


def _of_talk(held: Held, mention: Mention, scene: Scene) -> Iterator[str]:
    last = scene.last
    if last is None:
        return
    if any(place.span.seq == last.said.seq for place in held.places):
        yield "old in last"
    if any(same(each, mention) for each in last.mentions) or (mention.norm and set(mention.norm) <= last.stems):
        yield "new in last"
    if cues.FAILURE.search(last.text):
        yield "failure"
    if cues.CONFIRMING.search(last.text):
        yield "confirming"
    questions = [_stems(last, mood.sentence.start, mood.sentence.end) for mood in last.moods if mood.sentence.question]
    asked = [stems for stems in questions if cues.OPEN_QUESTION.search(" ".join(stems))]
    if asked:
        about = _ASKED.get(held.kind, _ASKED["text"]) | set(held.key.telling)
        yield "asked" if any(stems & about for stems in asked) else "asked other"


_WISH = re.compile(
    r"\b(?:need|want|get|find|book|rent|reserve|looking\sfor|search\sfor|find\sout|like)\s"
    r"(?:me\s|us\s|to\s(?:find|get|book|rent|reserve|see|go\sto|take)\s)?(?:an?|another|some|any|the)\s"
    r"((?:[^\W\d_-]{1,30}[\s-]){0,2}?[^\W\d_]{1,30})"
    r"(?=\s(?:to|in|at|on|for|from|with|that|which|by|near|there|around|leaving|going|please|and|under|as|now)\b|"
    r"\W*$|[,.?!;])",
    re.IGNORECASE,
)
"""Something is asked for: what it is, ends in its noun."""
_CURT_WORDS = 4
_SHORT_WORDS = 7


def _of_mood(held: Held, mention: Mention, scene: Scene, reading: Reading) -> Iterator[str]:
    text = scene.said.text
    if cues.REJECTION.match(text):
        yield "rejection"
    if cues.MORE.search(text):
        yield "more"
    if len(scene.said.words) <= _SHORT_WORDS:
        yield "short"
    if sum(each.kind == mention.kind for each in reading.mentions) > 1:
        yield "several"
    if reading is scene.said:
        yield from _of_statement(held, mention, scene)
    else:
        yield from _of_offer(mention, scene, reading)


def _of_offer(mention: Mention, scene: Scene, reading: Reading) -> Iterator[str]:
    """How the other side put it, and how it was agreed to."""
    mood = reading.mood_at(mention.start)
    if mood is not None:
        if cues.OFFER.search(reading.text[mood.sentence.start : mood.sentence.end]):
            yield "offer"
        if mood.sentence.question:
            yield "offered in a question"
        if mood.sentence.end >= len(reading.text) - 2:
            yield "offered last"
    if len([each for each in scene.said.words if each.lower not in STOP]) <= _CURT_WORDS:
        yield "curt"


def _of_statement(held: Held, mention: Mention, scene: Scene) -> Iterator[str]:
    """What the sentence that states it does, and the text as a whole."""
    reading = scene.said
    mood = reading.mood_at(mention.start)
    if any(each.strong for each in reading.moods):
        yield "strong"
    elif any(each.correction for each in reading.moods):
        yield "correction"
    if mood is not None:
        yield from (name for name, so in (("also", mood.also), ("keep", mood.keep), ("asking", mood.asking)) if so)
    wished = _WISH.search(reading.text)
    if wished is not None:
        yield "wish heard" if stem(wished[1].split()[-1]) in scene.heard else "wish unheard"
    if any(held.states(each) for each in (reading.names if held.is_label else reading.mentions)):
        yield "old here"
    if cues.CLOSING.search(reading.text):
        yield "closing"
