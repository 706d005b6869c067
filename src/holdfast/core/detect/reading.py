"""A message as it was read, and a candidate with the places where messages state it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection
from datetime import date
from functools import cached_property

import msgspec

from holdfast.core.detect import cues, moments
from holdfast.core.detect.days import day_of
from holdfast.core.detect.foreign import blank_foreign
from holdfast.core.detect.shapes import Shape, shape_of
from holdfast.core.detect.subjects import Subject, find_subjects
from holdfast.core.detect.words import (
    BEFORE_CHARACTERS,
    BEFORE_MESSAGES,
    FACTS,
    GENERIC,
    KIN,
    LAST_CHARACTERS,
    READ_CHARACTERS,
    STOP,
    VALUE_CHARACTERS,
    Key,
    Word,
    excerpt,
    key_of,
    stem,
    word_set,
    words,
)
from holdfast.core.guard import find_statements
from holdfast.core.patterns import Stated
from holdfast.core.values import Kind, Mention, Norm, mentions, name_norm, names, same, whole
from holdfast.model.detection import Candidate, Observation, Said, Span

CLAUSE_CHARACTERS = 80
"""Before a value, in which something may deny it."""
_STOPS = re.compile(r"[.!?;\n]")
_CLAUSE = re.compile(r"[.,;:!?\n]|\b(?:but|instead|so|because|and)\b", re.IGNORECASE)
BEHIND_WORDS = 8
PLACES_LOOKED_AT = 12
"""Of the places that state a value: the words around these are kept, and of the others only where they are."""
RECENT_MESSAGES = 2
RIVALS = 20
"""Others of the same sort that a value is compared with."""
LABEL_WORDS = 5
"""A value of more words is a sentence: it is compared by what it holds, never as a whole."""
_REMARK = re.compile(r"\s?[(\[][^)\]]{0,80}[)\]]\s?")
PERSONS = word_set(
    "people person guest seat ticket passenger traveler traveller rider adult party head table attendee visitor "
    "player member"
)
"""What is counted when people are."""
PLACES = word_set(
    "city location area place address venue destination origin town country state region neighborhood station "
    "airport site office room building warehouse departure arrival where"
)
"""Words of a key whose value is where something is."""
PLAIN_NUMBER = 31
"""A number up to this one may count anything; one above it says the same wherever it stands."""
LASTING = word_set("day night week month year hour minute length stay duration period term")


class Reading:
    """A message: its words and values, found once."""

    def __init__(self, said: Said, first: int, last: int = 0) -> None:
        self.said = said
        text, self._behind, self._further = excerpt(said.text, first, last)
        self.text = blank_foreign(text.replace("’", "'")) if last else text.replace("’", "'")
        self.lower = self.text.lower()
        if len(self.lower) != len(self.text):
            self.lower = self.text  # a few letters change their length, and then places would be wrong
        self.words: list[Word] = words(self.text)
        self.mentions: list[Mention] = mentions(self.text)
        self.stems = frozenset(word.stem for word in self.words)
        self.by_kind: dict[str, list[Mention]] = {}
        for each in self.mentions:
            self.by_kind.setdefault(each.kind, []).append(each)
        if "date" in self.by_kind or "time" in self.by_kind:
            self.by_kind["moment"] = moments.moments(self.text, self.mentions)
        self._starts = [word.start for word in self.words]
        self._stems: dict[int, frozenset[str]] = {}
        self._denied: dict[int, bool] = {}

    @cached_property
    def moods(self) -> list[cues.Mood]:
        return cues.moods(self.text)

    @cached_property
    def names(self) -> list[Mention]:
        """Those that are no date or other value, and not just the first word of a sentence."""
        starts = {
            self.words[at].start for mood in self.moods if (at := self._index(mood.sentence.start)) < len(self.words)
        }
        return [
            found
            for each in names(self.text)
            if (found := self._without_opening(each, starts)) is not None
            and not any(other.start < found.end and found.start < other.end for other in self.mentions)
        ] + [each for each in self.mentions if each.kind == "name"]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of what was read stands in the message."""
        further = self._further if start >= self._behind else 0
        return start + further, end + further

    def _index(self, at: int) -> int:
        """Of the first word that begins there or behind."""
        return bisect_left(self._starts, at)

    def inside(self, mood: cues.Mood) -> list[Word]:
        """The words of a sentence."""
        return self.words[self._index(mood.sentence.start) : self._index(mood.sentence.end)]

    def stems_of(self, mood: cues.Mood) -> frozenset[str]:
        start = mood.sentence.start
        if start not in self._stems:
            self._stems[start] = frozenset(word.stem for word in self.inside(mood))
        return self._stems[start]

    def behind(self, at: int, end: int) -> list[Word]:
        """The next words behind a place, up to another."""
        index = self._index(at)
        return self.words[index : min(index + BEHIND_WORDS, self._index(end))]

    def ahead(self, at: int, count: int) -> list[Word]:
        """The last words before a place."""
        index = self._index(at)
        return self.words[max(0, index - count) : index]

    def _without_opening(self, found: Mention, starts: set[int]) -> Mention | None:
        stated = self.text[found.start : found.end]
        first, _, rest = stated.partition(" ")
        if stem(first) in STOP or first.lower() in STOP or (found.start in starts and first.lower() in OPENING):
            if not rest:
                return None
            at = found.start + len(first) + 1
            return self._without_opening(Mention("name", at, found.end, name_norm(rest)), starts)
        if found.start in starts and not rest:
            return None if first.lower() in OPENING else found
        return found

    @cached_property
    def fails(self) -> bool:
        """Whether it says that something could not be done."""
        return cues.FAILURE.search(self.text) is not None

    @cached_property
    def confirms(self) -> bool:
        return cues.CONFIRMING.search(self.text) is not None

    @cached_property
    def questions(self) -> list[frozenset[str]]:
        """The words of each question that is open, not one for yes or no."""
        return [
            self.stems_of(mood)
            for mood in self.moods
            if mood.sentence.question and cues.OPEN_QUESTION.search(self.text, mood.sentence.start, mood.sentence.end)
        ]

    def mood_at(self, at: int) -> cues.Mood | None:
        index = bisect_right(self._sentence_starts, at) - 1
        return self.moods[index] if index >= 0 and at < self.moods[index].sentence.end else None

    @cached_property
    def _sentence_starts(self) -> list[int]:
        return [mood.sentence.start for mood in self.moods]

    def denies(self, mention: Mention) -> bool:
        """Whether it is said that it is not this one: `not on Friday`, `don't move it to Friday`."""
        at = mention.start
        if at not in self._denied:
            ahead = self.text[max(0, at - CLAUSE_CHARACTERS) : at]
            denied = cues.NEGATED.search(ahead) or cues.DENIED.search(_CLAUSE.split(ahead)[-1])
            self._denied[at] = denied is not None or self.disowns(at)
        return self._denied[at]

    def disowns(self, at: int) -> bool:
        """Whether a place is in a quotation of what is called wrong, or of what was."""
        return any(start <= at < end for start, end in self._wrong)

    @cached_property
    def _wrong(self) -> list[tuple[int, int]]:
        if not any(mark in self.text for mark in "\"“‘'"):
            return []
        return [
            found.span()
            for found in cues.QUOTED.finditer(self.text)
            if cues.WRONG_BEHIND.match(self.text[found.end() : found.end() + CLAUSE_CHARACTERS])
            or cues.WRONG_BEFORE.search(self.text[max(0, found.start() - CLAUSE_CHARACTERS) : found.start()])
        ]

    def around(self, start: int, end: int) -> tuple[str, str]:
        """The stems of the words before and behind, within the sentence."""
        before, behind = self.ahead(start, 1), self._index(end)
        left = before[-1].stem if before and not _STOPS.search(self.text, before[-1].end, start) else ""
        if behind == len(self.words) or _STOPS.search(self.text, end, self.words[behind].start):
            return left, ""
        return left, self.words[behind].stem


OPENING = word_set(
    "actually alright also and any anything are as book but can change check confirm could did do find for get give "
    "go good great he hello hey hi hold how i i'd i'll i'm i've if in is it it's just keep let let's look make "
    "maybe my no nope not note now ok okay on one our per play please reserve right same schedule search send set "
    "she show so sorry sure switch tell thank thanks that that's the there they this to try two three four update "
    "use wait we we'll we're well what what's when where which who why will with would yeah yep yes you your from "
    "at keep change cancel great perfect sounds hmm oh uh um well firstly first alternatively unfortunately "
    "remember based according correction reminder approved then only instead something somewhere"
)
"""Words that often begin a sentence, and are no names there."""


class Place(msgspec.Struct, frozen=True):
    """Where a message states a candidate's value, and the words around."""

    span: Span
    index: int
    """The message's, among those before."""
    left: str
    right: str
    role: str
    rest: tuple[str, ...] = ()
    """The stems behind it, up to the end of the sentence, that say something."""


class Held:
    """A candidate as rules look at it."""

    def __init__(self, candidate: Candidate, now_us: int) -> None:
        self.candidate = candidate
        self.now_us = now_us
        self.key: Key = key_of(candidate.key)
        text = candidate.text[:VALUE_CHARACTERS].replace("’", "'")
        bare = _REMARK.sub(" ", text).strip()
        self.text = bare or text.strip()
        self.whole = whole(self.text) or moments.compound(self.text)
        self.inner = mentions(self.text) if self.whole is None else [*(self.whole.parts or (self.whole,))]
        self.norm = name_norm(self.text)
        self.norms = frozenset(map(str, self.norm))
        self.kind: Kind = self.whole.kind if self.whole is not None else "text"
        self.is_label = (self.whole is None and 0 < len(self.norm) <= LABEL_WORDS) or self.kind in {"name", "code"}
        self.is_typed = self.whole is not None and self.kind not in {"name", "code", "flag"}
        self.is_sentence = self.whole is None and not self.is_label
        self.core = self.whole or (self.inner[0] if len(self.inner) == 1 else None)
        """The one value that its text is, or that stands in it."""
        self.places: list[Place] = []
        self._found: tuple[Reading, list[tuple[int, int]]] | None = None
        self.domain = ".".join(self.key.domain)
        self.is_place = bool(PLACES & {*self.key.own})
        self.lasts = self.kind == "number" and bool(LASTING & {*self.key.own})
        """Whether its number is that of days or other units of time."""

    @cached_property
    def shape(self) -> Shape:
        """What a new value has to look like."""
        return shape_of(self)

    @cached_property
    def lefts(self) -> frozenset[str]:
        """The words that stood before it, where it was stated."""
        return frozenset(place.left for place in self.places if place.left)

    @cached_property
    def rights(self) -> frozenset[str]:
        return frozenset(place.right for place in self.places if place.right) - STOP

    @cached_property
    def kin(self) -> frozenset[str]:
        """The words of its key, and those that people use for them."""
        return frozenset(self.key.own).union(*(KIN.get(word, ()) for word in self.key.own))

    @cached_property
    def nouns(self) -> frozenset[str]:
        """What its number counts: by its key, and by what stood behind it before."""
        return (frozenset(self.key.own) - GENERIC - STOP) | self.rights

    def states(self, mention: Mention) -> bool:
        """Whether a mention says the same value."""
        if self.whole is not None and self.kind == "moment":
            return moments.states(self.whole, mention)
        if self.whole is not None and self.kind != "name":
            if self.lasts and mention.kind == "duration":
                return self.whole.norm[0] == mention.norm[0]
            return same(self.whole, mention)
        return same(
            Mention("name", 0, 0, self.norm), Mention("name", 0, 0, mention.norm if mention.kind == "name" else ())
        )

    def differs(self, mention: Mention) -> bool:
        """Whether a mention says another value for certain: a weekday and a date may well be the same day."""
        if self.whole is None or self.states(mention):
            return False
        return self.kind != "date" or self.whole.norm[0] == mention.norm[0] or self._days(mention) is not None

    def _days(self, mention: Mention) -> tuple[date, date] | None:
        """The day that is meant by the value and by a mention, if both can be told."""
        if self.whole is None or not self.now_us:
            return None
        own, other = day_of(self.whole, self.candidate.since_us), day_of(mention, self.now_us)
        return None if own is None or other is None else (own, other)

    @staticmethod
    def numbers(stated: str) -> list[float]:
        """What a statement amounts to, for a value that is kept as a number."""
        kinds = {"number", "money", "percent", "duration", "ordinal"}
        return [
            float(each.norm[0])
            for each in mentions(stated)
            if each.kind in kinds and isinstance(each.norm[0], int | float)
        ]

    def find(self, reading: Reading, index: int) -> None:
        """Look where a message states it; the index is the message's among those before."""
        for start, end in self.found(reading):
            if len(self.places) >= PLACES_LOOKED_AT:
                self.places.append(Place(Span(reading.said.seq, start, end), index, "", "", reading.said.role))
                continue
            left, right = reading.around(start, end)
            mood = reading.mood_at(start) if self.is_label else None
            behind = reading.behind(end, mood.sentence.end) if mood else []
            rest = tuple(word.stem for word in behind if word.lower not in STOP)
            self.places.append(Place(Span(reading.said.seq, start, end), index, left, right, reading.said.role, rest))

    def found(self, reading: Reading) -> list[tuple[int, int]]:
        """Where a message states it; looked up once for the message at hand."""
        if self._found is None or self._found[0] is not reading:
            self._found = (reading, self._look(reading))
        return self._found[1]

    def _look(self, reading: Reading) -> list[tuple[int, int]]:
        if self.is_typed:
            stated = reading.mentions if self.lasts else reading.by_kind.get(self.kind, [])
            return [(each.start, each.end) for each in stated if self._is(each) and self._counts(each)]
        sought = self.text.lower()
        found: list[tuple[int, int]] = []
        at = reading.lower.find(sought) if len(sought) > 1 and self.kind != "flag" else -1
        while at >= 0:
            end = at + len(sought)
            if _is_apart(reading.lower, at, end):
                found.append((at, end))
            at = reading.lower.find(sought, end)
        return found

    def _is(self, mention: Mention) -> bool:
        """Whether a mention says the whole value, and not just a part of it."""
        return self.states(mention) and (self.whole is None or len(mention.parts) >= len(self.whole.parts))

    def touched(self, reading: Reading) -> list[tuple[int, int]]:
        """Where a message states it, or a part of it."""
        if self.kind != "moment":
            return self.found(reading)
        return [(each.start, each.end) for each in reading.by_kind.get("moment", ()) if self.states(each)]

    def may_count(self, mention: Mention) -> bool:
        """Whether a number counts what this one does, as far as the word behind it tells."""
        if self.kind not in {"number", "ordinal"} or not mention.noun or mention.noun in STOP:
            return True
        return akin(mention.noun, self.nouns) or (mention.noun in PERSONS and bool(self.nouns & PERSONS))

    def _counts(self, mention: Mention) -> bool:
        """A bare number is stated wherever it counts the same, not wherever it happens to stand."""
        if self.kind not in {"number", "ordinal"} or mention.kind == "duration":
            return True
        own = frozenset(self.key.own)
        if not mention.noun or mention.noun in STOP or float(mention.norm[0] or 0) > PLAIN_NUMBER:
            return True
        return akin(mention.noun, own) or (mention.noun in PERSONS and (bool(own & PERSONS) or not self.key.telling))


def akin(noun: str, others: Collection[str]) -> bool:
    """Whether it is one of them, or one is made of the other, as a bedroom is of a bed."""
    return any(noun == each or (min(len(noun), len(each)) > 2 and noun.startswith(each)) for each in others)


def _is_apart(text: str, start: int, end: int) -> bool:
    return not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())


class Scene:
    """Everything a rule looks at."""

    def __init__(self, observation: Observation) -> None:
        self.now_us = observation.now_us
        self.said = Reading(observation.said, READ_CHARACTERS, LAST_CHARACTERS)
        self.before = [Reading(each, BEFORE_CHARACTERS) for each in observation.before[-BEFORE_MESSAGES:]]
        self.held = [Held(each, observation.now_us) for each in observation.facts[:FACTS]]
        for held in self.held:
            for index, reading in enumerate(self.before):
                held.find(reading, index)
        self.last = self.before[-1] if self.before and self.before[-1].said.role == "assistant" else None
        """What the other side has just said, if it was the last to speak."""
        self.newest_us = max((each.candidate.since_us for each in self.held), default=0)
        self.domains = {each.domain for each in self.held if each.candidate.since_us == self.newest_us}
        """What was talked of last, as far as keys have domains."""
        self.said_domains = {each.domain for each in self.held if self.said.stems & set(each.key.domain)}
        self.all_domains = {each.domain for each in self.held}
        self.heard = frozenset[str]().union(*(each.stems for each in self.before))
        seqs = Counter(each.seq for each in observation.before)
        self.known = {seq for seq, count in seqs.items() if seq and count == 1}
        """Messages that a span can name."""
        self.telling = Counter(word for each in self.held for word in each.key.telling)
        """In how many keys each word stands."""
        self.phrases: dict[tuple[int, bool], tuple[int, int] | None] = {}
        """What each sentence puts forward; told by `phrases` once."""
        self.norms: dict[tuple[int, int], frozenset[str]] = {}
        """The words of such a phrase."""
        self.stated: dict[tuple[int, str], list[Mention]] = {}
        """The values of a kind that a sentence states; told by `keyed` once."""
        self.told: tuple[str, ...] = ()
        """What the text as a whole does; told by `evidence` once."""

    def subjects(self, reading: Reading) -> list[Subject]:
        """The phrases of a message that name facts; found once."""
        if reading not in self._subjects:
            self._subjects[reading] = find_subjects(self.held, reading)
        return self._subjects[reading]

    @cached_property
    def _subjects(self) -> dict[Reading, list[Subject]]:
        return {}

    @cached_property
    def authority(self) -> str:
        return cues.authority_in(self.said.text)

    @cached_property
    def latest(self) -> list[Held]:
        """What the talk was about just before: stated in the last messages, or else the newest."""
        recent = len(self.before) - RECENT_MESSAGES
        stated = [each for each in self.held if any(place.index >= recent for place in each.places)]
        return stated or [each for each in self.held if each.candidate.since_us == self.newest_us]

    def rivals(self, held: Held) -> tuple[list[Held], str]:
        """Others that hold a value of the same sort, and how many in a word."""
        if held not in self._rivals:
            alike = [each for each in self.held if each is not held and _alike(each, held)]
            within = any(each.domain == held.domain for each in alike)
            self._rivals[held] = (alike[:RIVALS], "rivals" if within else "sole" if not alike else "sole here")
        return self._rivals[held]

    def staters(self, mention: Mention) -> set[Held]:
        """The candidates whose value a mention states."""
        key = (mention.kind, mention.norm)
        if key not in self._staters:
            self._staters[key] = {each for each in self.held if each.states(mention)}
        return self._staters[key]

    @cached_property
    def _staters(self) -> dict[tuple[str, Norm], set[Held]]:
        return {}

    @cached_property
    def repeated(self) -> set[Held]:
        """The candidates whose value the text states, in whatever way."""
        stated = (*self.said.mentions, *self.said.names, *self.said.by_kind.get("moment", ()))
        return {each for mention in stated for each in self.staters(mention)}

    @cached_property
    def _rivals(self) -> dict[Held, tuple[list[Held], str]]:
        return {}

    def old(self, held: Held) -> tuple[Span, ...]:
        """Where its value is stated, and not only repeated with another meaning, as far as a span can name the place."""
        candidate = held.candidate
        fact = Stated(candidate.fact, candidate.key, candidate.value, "dead")
        lengths = {each.said.seq: len(each.said.text) for each in self.before}
        spans = {
            span
            for span in candidate.stated
            if 0 <= span.start < span.end <= lengths.get(span.seq, span.end) and span.seq != 0
        }
        for said in (self.said.said, *(each.said for each in self.before if each.said.seq in self.known)):
            for each in find_statements(said.text[:READ_CHARACTERS], [fact]):
                spans |= {Span(said.seq, each.start, each.stop)} if each.certain else set()
        return tuple(sorted(spans))


def _alike(one: Held, other: Held) -> bool:
    if one.is_label != other.is_label:
        return False
    return one.is_place == other.is_place if one.is_label else one.kind == other.kind
