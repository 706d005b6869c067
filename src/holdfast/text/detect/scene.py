"""The input of the rules (messages, target facts, and the scene of both) and their output, the detected change."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection
from datetime import date
from functools import cached_property

import msgspec

from holdfast.model.facts.detection import DetectionRule, FactCandidate, FactChange, MessageSpan, Observation, Utterance
from holdfast.text.detect import cues, moments
from holdfast.text.detect.cues import Mood
from holdfast.text.detect.key_phrases import KeyPhrase, find_key_phrases
from holdfast.text.detect.quotations import blank_quotations
from holdfast.text.detect.shapes import LABEL_WORDS, Shape, shape_of
from holdfast.text.expressions import compile_late
from holdfast.text.guard.finder import find_statements
from holdfast.text.guard.patterns import GuardFact
from holdfast.text.values import (
    Norm,
    ValueKind,
    ValueMention,
    day_of,
    find_mentions,
    find_names,
    is_same_mention,
    normalise_name,
    read_whole_value,
)
from holdfast.text.words import (
    GENERIC,
    KEY_CHARACTERS,
    STOP,
    KeyWords,
    Word,
    cut_excerpt,
    find_words,
    read_key,
    strip_plural,
    word_set,
)

READ_CHARACTERS = 6_000
LAST_CHARACTERS = 2_000
"""The characters of the observed message that are read, at its beginning and at its end."""
PREVIOUS_MESSAGES = 8
PREVIOUS_CHARACTERS = 1_500
"""The number of previous messages, and the characters of each that are read."""
CANDIDATES = 200
CANDIDATE_CHARACTERS = 400
"""The number of facts, and the characters of each value that are read. No sentence replaces a longer value."""
CLAUSE_CHARACTERS = 80
"""The characters before a value that are searched for a denial."""
_STOPS = compile_late(r"[.!?;\n]")
_CLAUSE = compile_late(r"[.,;:!?\n]|\b(?:but|instead|so|because|and)\b", re.IGNORECASE)
BEHIND_WORDS = 8
OCCURRENCES = 12
"""The number of occurrences of a value that are stored with the words around them."""
RECENT_MESSAGES = 2
RIVALS = 20
"""The number of rivals that a fact is compared with."""
_REMARK = compile_late(r"\s?[(\[][^)\]]{0,80}[)\]]\s?")
PERSON_WORDS = word_set(
    "people person guest seat ticket passenger traveler traveller rider adult party head table attendee visitor "
    "player member"
)
"""Nouns that count people."""
PLACE_WORDS = word_set(
    "city location area place address venue destination origin town country state region neighborhood station "
    "airport site office room building warehouse departure arrival where"
)
"""Words of a key whose value is a place."""
PLAIN_NUMBER = 31
"""Up to this number, the noun behind it decides what it counts."""
DURATION_WORDS = word_set("day night week month year hour minute length stay duration period term")


class MessageText:
    """A message with its words and values."""

    def __init__(self, utterance: Utterance, first: int, last: int = 0) -> None:
        self.utterance = utterance
        text, self._tail_start, self._tail_shift = cut_excerpt(utterance.text, first, last)
        self.text = blank_quotations(text.replace("’", "'")) if last else text.replace("’", "'")
        self.lower = self.text.lower()
        if len(self.lower) != len(self.text):
            self.lower = self.text  # some letters change their length: positions would be wrong
        self._stems: dict[int, frozenset[str]] = {}
        self._denials: dict[int, bool] = {}

    # Read when a rule asks for it: without facts, few rules ask anything of earlier messages.

    @cached_property
    def words(self) -> list[Word]:
        return find_words(self.text)

    @cached_property
    def mentions(self) -> list[ValueMention]:
        return find_mentions(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in self.words)

    @cached_property
    def by_kind(self) -> dict[str, list[ValueMention]]:
        by_kind: dict[str, list[ValueMention]] = {}
        for mention in self.mentions:
            by_kind.setdefault(mention.kind, []).append(mention)
        if "date" in by_kind or "time" in by_kind:
            by_kind["moment"] = moments.join_moments(self.text, self.mentions)
        return by_kind

    @cached_property
    def _starts(self) -> list[int]:
        return [word.start for word in self.words]

    @cached_property
    def moods(self) -> list[cues.Mood]:
        return cues.read_moods(self.text)

    @cached_property
    def names(self) -> list[ValueMention]:
        """The names in the message, without other values and capitalised first words of sentences."""
        starts = {
            self.words[at].start for mood in self.moods if (at := self._index(mood.sentence.start)) < len(self.words)
        }
        return [
            name
            for run in find_names(self.text)
            if (name := self._strip_opening(run, starts)) is not None
            and not any(other.start < name.end and name.start < other.end for other in self.mentions)
        ] + [mention for mention in self.mentions if mention.kind == "name"]

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """The characters in the stored message, for characters of the excerpt."""
        shift = self._tail_shift if start >= self._tail_start else 0
        return start + shift, end + shift

    def _index(self, at: int) -> int:
        """The index of the first word at or behind a position."""
        return bisect_left(self._starts, at)

    def words_of(self, mood: cues.Mood) -> list[Word]:
        return self.words[self._index(mood.sentence.start) : self._index(mood.sentence.end)]

    def stems_of(self, mood: cues.Mood) -> frozenset[str]:
        start = mood.sentence.start
        if start not in self._stems:
            self._stems[start] = frozenset(word.stem for word in self.words_of(mood))
        return self._stems[start]

    def words_behind(self, at: int, end: int) -> list[Word]:
        """The next words behind a position, up to an end."""
        index = self._index(at)
        return self.words[index : min(index + BEHIND_WORDS, self._index(end))]

    def words_ahead(self, at: int, count: int) -> list[Word]:
        """The last words before a position."""
        index = self._index(at)
        return self.words[max(0, index - count) : index]

    def _strip_opening(self, name: ValueMention, starts: set[int]) -> ValueMention | None:
        """Remove words from the beginning of a name that are capitalised only as the first word of a sentence."""
        first, _, remainder = self.text[name.start : name.end].partition(" ")
        is_opening = name.start in starts and first.lower() in OPENING_WORDS
        if not is_opening and strip_plural(first) not in STOP and first.lower() not in STOP:
            return name
        if not remainder:
            return None
        at = name.start + len(first) + 1
        return self._strip_opening(ValueMention("name", at, name.end, normalise_name(remainder)), starts)

    @cached_property
    def reports_failure(self) -> bool:
        """Whether it says that something failed."""
        return cues.FAILURE.search(self.text) is not None

    @cached_property
    def asks_confirmation(self) -> bool:
        return cues.CONFIRMATION.search(self.text) is not None

    @cached_property
    def open_questions(self) -> list[frozenset[str]]:
        """The stems of each question except yes-or-no questions."""
        return [
            self.stems_of(mood)
            for mood in self.moods
            if mood.sentence.is_question
            and cues.OPEN_QUESTION.search(self.text, mood.sentence.start, mood.sentence.end)
        ]

    def mood_at(self, at: int) -> cues.Mood | None:
        index = bisect_right(self._sentence_starts, at) - 1
        return self.moods[index] if index >= 0 and at < self.moods[index].sentence.end else None

    @cached_property
    def _sentence_starts(self) -> list[int]:
        return [mood.sentence.start for mood in self.moods]

    def denies(self, mention: ValueMention) -> bool:
        """Whether the message denies a value: `not on Friday`, `don't move it to Friday`."""
        at = mention.start
        if at not in self._denials:
            ahead = self.text[max(0, at - CLAUSE_CHARACTERS) : at]
            denial = cues.NEGATION.search(ahead) or cues.DENIAL.search(_CLAUSE.split(ahead)[-1])
            self._denials[at] = denial is not None or self.disowns(at)
        return self._denials[at]

    def disowns(self, at: int) -> bool:
        """Whether a position is in a quotation that the message calls wrong or outdated."""
        return any(start <= at < end for start, end in self._wrong_quotations)

    @cached_property
    def _wrong_quotations(self) -> list[tuple[int, int]]:
        if not any(mark in self.text for mark in "\"“‘'"):
            return []
        return [
            quote.span()
            for quote in cues.QUOTATION.finditer(self.text)
            if cues.WRONG_BEHIND.match(self.text[quote.end() : quote.end() + CLAUSE_CHARACTERS])
            or cues.WRONG_BEFORE.search(self.text[max(0, quote.start() - CLAUSE_CHARACTERS) : quote.start()])
        ]

    def neighbour_stems(self, start: int, end: int) -> tuple[str, str]:
        """The stems of the words before and behind a value, within the sentence."""
        before, behind = self.words_ahead(start, 1), self._index(end)
        left = before[-1].stem if before and not _STOPS.search(self.text, before[-1].end, start) else ""
        if behind == len(self.words) or _STOPS.search(self.text, end, self.words[behind].start):
            return left, ""
        return left, self.words[behind].stem


OPENING_WORDS = word_set(
    "actually alright also and any anything are as book but can change check confirm could did do find for get give "
    "go good great he hello hey hi hold how i i'd i'll i'm i've if in is it it's just keep let let's look make "
    "maybe my no nope not note now ok okay on one our per play please reserve right same schedule search send set "
    "she show so sorry sure switch tell thank thanks that that's the there they this to try two three four update "
    "use wait we we'll we're well what what's when where which who why will with would yeah yep yes you your from "
    "at keep change cancel great perfect sounds hmm oh uh um well firstly first alternatively unfortunately "
    "remember based according correction reminder approved then only instead something somewhere"
)
"""First words of sentences that are no names."""


class ValueOccurrence(msgspec.Struct, frozen=True):
    """A position where a previous message states the value of a fact, with the words around it."""

    span: MessageSpan
    index: int
    """The index of the previous message."""
    left: str
    right: str
    role: str
    following: tuple[str, ...] = ()
    """The stems of the content words behind it, up to the end of the sentence."""


_KEY_JOINT = r"[\W_]{1,3}"
"""What may stand between the words of a key."""


class TargetFact:
    """A live fact that the message may change."""

    def __init__(self, candidate: FactCandidate, now_us: int) -> None:
        self.candidate = candidate
        self.now_us = now_us
        self.key: KeyWords = read_key(candidate.key)
        text = candidate.text[:CANDIDATE_CHARACTERS].replace("’", "'")
        self.text = _REMARK.sub(" ", text).strip() or text.strip()
        self.value = read_whole_value(self.text) or moments.read_compound_value(self.text)
        self.inner = find_mentions(self.text) if self.value is None else [*(self.value.parts or (self.value,))]
        self.norm = normalise_name(self.text)
        self.norms = frozenset(map(str, self.norm))
        self.kind: ValueKind = self.value.kind if self.value is not None else "text"
        self.is_label = (self.value is None and 0 < len(self.norm) <= LABEL_WORDS) or self.kind in {"name", "code"}
        self.is_typed = self.value is not None and self.kind not in {"name", "code", "flag"}
        self.is_sentence = self.value is None and not self.is_label
        self.core = self.value or (self.inner[0] if len(self.inner) == 1 else None)
        """The only value in its text."""
        self.occurrences: list[ValueOccurrence] = []
        self._spans: tuple[MessageText, list[tuple[int, int]]] | None = None
        self.domain = ".".join(self.key.domain)
        self.is_place = bool(PLACE_WORDS & {*self.key.words})
        self.is_duration = self.kind == "number" and bool(DURATION_WORDS & {*self.key.words})
        """Whether its number counts days or other units of time."""

    @cached_property
    def shape(self) -> Shape:
        """The shape that a new value must have."""
        return shape_of(self)

    def is_key(self, text: str, start: int, end: int) -> bool:
        """Whether a span of a text is a part of the fact's whole key, as the 2 in "line 2 speed is 40"."""
        return any(match.start() <= start and end <= match.end() for match in self._key_pattern.finditer(text))

    @cached_property
    def _key_pattern(self) -> re.Pattern[str]:
        parts = re.findall(r"[^\W_]+", self.candidate.key[:KEY_CHARACTERS])
        return re.compile(rf"\b{_KEY_JOINT.join(parts)}\b" if len(parts) > 1 else r"(?!)", re.IGNORECASE)

    @cached_property
    def left_stems(self) -> frozenset[str]:
        """The stems before the value in previous messages."""
        return frozenset(occurrence.left for occurrence in self.occurrences if occurrence.left)

    @cached_property
    def right_stems(self) -> frozenset[str]:
        """The stems behind the value in previous messages."""
        return frozenset(occurrence.right for occurrence in self.occurrences if occurrence.right) - STOP

    @cached_property
    def nouns(self) -> frozenset[str]:
        """The nouns that its number counts, by its key and by previous messages."""
        return (frozenset(self.key.words) - GENERIC - STOP) | self.right_stems

    def states(self, mention: ValueMention) -> bool:
        """Whether a mention has the same value."""
        if self.value is not None and self.kind == "moment":
            return moments.is_part_of(self.value, mention)
        if self.value is not None and self.kind != "name":
            if self.is_duration and mention.kind == "duration":
                return self.value.norm[0] == mention.norm[0]
            return is_same_mention(self.value, mention)
        return is_same_mention(
            ValueMention("name", 0, 0, self.norm),
            ValueMention("name", 0, 0, mention.norm if mention.kind == "name" else ()),
        )

    def differs(self, mention: ValueMention) -> bool:
        """Whether a mention certainly has another value: a weekday and a date may be the same day."""
        if self.value is None or self.states(mention):
            return False
        return self.kind != "date" or self.value.norm[0] == mention.norm[0] or self._compare_days(mention) is not None

    def _compare_days(self, mention: ValueMention) -> tuple[date, date] | None:
        """The calendar days of the value and of a mention, if both are known."""
        if self.value is None or not self.now_us:
            return None
        day, other = day_of(self.value, self.candidate.since_us), day_of(mention, self.now_us)
        return None if day is None or other is None else (day, other)

    @staticmethod
    def read_numbers(text: str) -> list[float]:
        """The numbers in a text, for a value that is stored as a number."""
        kinds = {"number", "money", "percent", "duration", "ordinal"}
        return [
            float(mention.norm[0])
            for mention in find_mentions(text)
            if mention.kind in kinds and isinstance(mention.norm[0], int | float)
        ]

    def add_occurrences(self, message: MessageText, index: int) -> None:
        """Add the occurrences of the value in the previous message with this index."""
        role = message.utterance.role
        for start, end in self.spans_in(message):
            span = MessageSpan(message.utterance.seq, start, end)
            if len(self.occurrences) >= OCCURRENCES:
                self.occurrences.append(ValueOccurrence(span, index, "", "", role))
                continue
            left, right = message.neighbour_stems(start, end)
            mood = message.mood_at(start) if self.is_label else None
            behind = message.words_behind(end, mood.sentence.end) if mood else []
            following = tuple(word.stem for word in behind if word.lower not in STOP)
            self.occurrences.append(ValueOccurrence(span, index, left, right, role, following))

    def spans_in(self, message: MessageText) -> list[tuple[int, int]]:
        """The characters of a message that state the value. The result for the last message is cached."""
        if self._spans is None or self._spans[0] is not message:
            self._spans = (message, self._find_spans(message))
        return self._spans[1]

    def _find_spans(self, message: MessageText) -> list[tuple[int, int]]:
        if self.is_typed:
            mentions = message.mentions if self.is_duration else message.by_kind.get(self.kind, [])
            return [
                (mention.start, mention.end)
                for mention in mentions
                if self._is_complete(mention) and self._counts(mention)
            ]
        text = self.text.lower()
        spans: list[tuple[int, int]] = []
        at = message.lower.find(text) if len(text) > 1 and self.kind != "flag" else -1
        while at >= 0:
            end = at + len(text)
            if _is_separate(message.lower, at, end):
                spans.append((at, end))
            at = message.lower.find(text, end)
        return spans

    def _is_complete(self, mention: ValueMention) -> bool:
        """Whether a mention has the whole value, not only a part of it."""
        return self.states(mention) and (self.value is None or len(mention.parts) >= len(self.value.parts))

    def partial_spans_in(self, message: MessageText) -> list[tuple[int, int]]:
        """The characters of a message that state the value or a part of it."""
        if self.kind != "moment":
            return self.spans_in(message)
        moments_in_text = message.by_kind.get("moment", ())
        return [(moment.start, moment.end) for moment in moments_in_text if self.states(moment)]

    def may_count(self, mention: ValueMention) -> bool:
        """Whether a number may count the same thing, by the noun behind it."""
        if self.kind not in {"number", "ordinal"} or not mention.noun or mention.noun in STOP:
            return True
        return is_akin(mention.noun, self.nouns) or (mention.noun in PERSON_WORDS and bool(self.nouns & PERSON_WORDS))

    def _counts(self, mention: ValueMention) -> bool:
        """Whether a small number counts the same thing: only then it states the value."""
        if self.kind not in {"number", "ordinal"} or mention.kind == "duration":
            return True
        words = frozenset(self.key.words)
        if not mention.noun or mention.noun in STOP or float(mention.norm[0] or 0) > PLAIN_NUMBER:
            return True
        return is_akin(mention.noun, words) or (
            mention.noun in PERSON_WORDS and (bool(words & PERSON_WORDS) or not self.key.specific)
        )


def is_akin(noun: str, others: Collection[str]) -> bool:
    """Whether a noun is one of the others, or begins with one, as `bedroom` with `bed`."""
    return any(noun == other or (min(len(noun), len(other)) > 2 and noun.startswith(other)) for other in others)


def _is_separate(text: str, start: int, end: int) -> bool:
    return not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())


class Scene:
    """The observed message, the previous messages and the facts: the input of every rule."""

    def __init__(self, observation: Observation) -> None:
        self.now_us = observation.now_us
        self.message = MessageText(observation.message, READ_CHARACTERS, LAST_CHARACTERS)
        previous = observation.previous[-PREVIOUS_MESSAGES:]
        self.previous = [MessageText(utterance, PREVIOUS_CHARACTERS) for utterance in previous]
        self.targets = [TargetFact(fact, observation.now_us) for fact in observation.facts[:CANDIDATES]]
        for target in self.targets:
            for index, message in enumerate(self.previous):
                target.add_occurrences(message, index)
        self.last_reply = (
            self.previous[-1] if self.previous and self.previous[-1].utterance.role == "assistant" else None
        )
        """The reply of the assistant directly before the message, if any."""
        self.newest_us = max((target.candidate.since_us for target in self.targets), default=0)
        self.domains = {target.domain for target in self.targets if target.candidate.since_us == self.newest_us}
        """The domains of the newest facts: the current topic."""
        self.named_domains = {target.domain for target in self.targets if self.message.stems & set(target.key.domain)}
        self.all_domains = {target.domain for target in self.targets}
        seqs = Counter(utterance.seq for utterance in observation.previous)
        self.known_seqs = {seq for seq, count in seqs.items() if seq and count == 1}
        """The messages that a span can refer to."""
        self.key_words = {word for target in self.targets for word in target.key.specific}
        self.phrases: dict[tuple[int, bool], tuple[int, int] | None] = {}
        """The phrase that each sentence offers as a value; a cache of `cue_rules`."""
        self.phrase_norms: dict[tuple[int, int], frozenset[str]] = {}
        """The words of each phrase; a cache of `cue_rules`."""
        self.sentence_values: dict[tuple[int, str], list[ValueMention]] = {}
        """The values in a sentence by kind; a cache of `cue_rules`."""
        self.text_evidence: tuple[str, ...] = ()
        """The evidence from the whole message; a cache of `evidence`."""

    @cached_property
    def previous_stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(message.stems for message in self.previous))

    @cached_property
    def exploration_cue(self) -> str:
        """The phrase with which the conversation began to explore options, unless it has ended that since."""
        cue = ""
        for message in (*self.previous, self.message):
            if cues.EARNEST.search(message.text):
                cue = ""
            elif exploration := cues.EXPLORATION.search(message.text):
                cue = " ".join(exploration[0].lower().split())
        return cue

    def key_phrases(self, message: MessageText) -> list[KeyPhrase]:
        """The phrases of a message that name facts."""
        if message not in self._key_phrases:
            self._key_phrases[message] = find_key_phrases(self.targets, message)
        return self._key_phrases[message]

    @cached_property
    def _key_phrases(self) -> dict[MessageText, list[KeyPhrase]]:
        return {}

    @cached_property
    def authority(self) -> str:
        return cues.find_authority(self.message.text)

    @cached_property
    def latest(self) -> list[TargetFact]:
        """The facts that the last messages state, or else the newest facts."""
        recent = len(self.previous) - RECENT_MESSAGES
        facts = [
            target for target in self.targets if any(occurrence.index >= recent for occurrence in target.occurrences)
        ]
        return facts or [target for target in self.targets if target.candidate.since_us == self.newest_us]

    def rivals(self, target: TargetFact) -> tuple[list[TargetFact], str]:
        """The other facts with a value of the same sort, and the name of this evidence."""
        if target not in self._rivals:
            rivals = [other for other in self.targets if other is not target and _is_same_sort(other, target)]
            in_domain = any(rival.domain == target.domain for rival in rivals)
            self._rivals[target] = (rivals[:RIVALS], "rivals" if in_domain else "sole" if not rivals else "sole here")
        return self._rivals[target]

    def targets_stating(self, mention: ValueMention) -> set[TargetFact]:
        """The facts whose value a mention states."""
        key = (mention.kind, mention.norm)
        if key not in self._targets_stating:
            self._targets_stating[key] = {target for target in self.targets if target.states(mention)}
        return self._targets_stating[key]

    @cached_property
    def _targets_stating(self) -> dict[tuple[str, Norm], set[TargetFact]]:
        return {}

    @cached_property
    def _rivals(self) -> dict[TargetFact, tuple[list[TargetFact], str]]:
        return {}

    def old_spans(self, target: TargetFact) -> tuple[MessageSpan, ...]:
        """The spans of messages that state the value of a fact, without those where it has another meaning."""
        candidate = target.candidate
        fact = GuardFact(candidate.fact, candidate.key, candidate.value, "dead")
        utterances = [message.utterance for message in self.previous]
        lengths = {utterance.seq: len(utterance.text) for utterance in utterances}
        spans = {
            span
            for span in candidate.spans
            if 0 <= span.start < span.end <= lengths.get(span.seq, span.end) and span.seq != 0
        }
        for utterance in (
            self.message.utterance,
            *(previous for previous in utterances if previous.seq in self.known_seqs),
        ):
            for statement in find_statements(utterance.text[:READ_CHARACTERS], [fact]):
                if statement.certain:
                    spans.add(MessageSpan(utterance.seq, statement.start, statement.stop))
        return tuple(sorted(spans))


def _is_same_sort(one: TargetFact, other: TargetFact) -> bool:
    if one.is_label != other.is_label:
        return False
    return one.is_place == other.is_place if one.is_label else one.kind == other.kind


SURE, LIKELY, FAIR, DOUBTFUL = 0.93, 0.86, 0.82, 0.65
"""The confidence of rules, by how often they were right in recorded dialogues. From FAIR on, changes are applied."""


class DetectedChange(msgspec.Struct, frozen=True):
    """A change of a fact that a rule found."""

    target: TargetFact
    change: FactChange
    rule: DetectionRule
    cue: str
    confidence: float
    new: tuple[int, int] | None = None
    source: MessageText | None = None
    """The message with the new value; None for the observed message."""
    at: int = 0
    """The position of the change, if it has no new value."""
    value: str = ""
    """The full new value, if the text states only a part of it."""


def earnest_moods(scene: Scene) -> list[Mood]:
    """The sentences that may change a fact: no question, hypothesis or draft."""
    return [mood for mood in scene.message.moods if is_earnest(mood)]


def is_earnest(mood: Mood) -> bool:
    return not (mood.asks or mood.hypothetical or mood.draft)


def is_current(scene: Scene, target: TargetFact) -> bool:
    """Whether a fact belongs to the current topic. Facts without a domain always do."""
    return not target.domain or target.domain in scene.domains
