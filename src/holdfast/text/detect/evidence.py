"""Evidence for and against a value in the text as the new value of a fact, and the confidence from it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from holdfast.text.detect import cues
from holdfast.text.detect.scene import PERSON_WORDS, MessageText, Scene, TargetFact, is_akin
from holdfast.text.expressions import compile_late
from holdfast.text.values import ValueMention, is_same_mention, normalise_name
from holdfast.text.words import FILLING, STOP, content_stems, strip_plural, word_set

SHORT_WORDS = 7
CURT_WORDS = 4
ROLE_WORDS = 3
FITTING_VALUES = 12
"""The number of values in a message that are weighed for a fact."""
PHRASE_WORDS = 3
"""The most words of a value next to a word of its key."""
_QUESTION_WORDS = {
    "time": word_set("time hour"),
    "date": word_set("date day month"),
    "number": word_set("many number size"),
    "money": word_set("much price cost budget"),
    "duration": word_set("long many duration"),
    "name": word_set("where city place location area name"),
    "text": word_set("kind type where city genre category sort"),
}
"""Words of a question for a value, by its kind."""
_AT = word_set("in near around at to from out into outside towards toward of by")
_FROM = word_set("from origin departure depart pickup start source begin leave leaving")
_TO = word_set("to destination arrival arrive dropoff end return until till checkout due deadline")
_FROM_CUES = word_set("from leaving leave depart departing starting since")
_TO_CUES = word_set("to until till towards arriving arrive through returning return going into reach")


def find_fitting_values(target: TargetFact, message: MessageText) -> Iterator[ValueMention]:
    """Find the values in a message that may replace the value of a fact: of the same kind, and not equal to it."""
    if target.is_sentence or target.kind == "flag":
        return
    mentions = [*_find_phrases(target, message), *message.names] if target.is_label else _find_typed(target, message)
    starts: set[int] = set()
    for mention in mentions:
        if len(starts) == FITTING_VALUES:
            return
        if mention.start in starts or not _is_of_kind(target, mention) or target.states(mention):
            continue
        if target.is_label and _overlaps(target, mention):
            continue
        starts.add(mention.start)
        if not message.denies(mention):
            yield mention


def _find_typed(target: TargetFact, message: MessageText) -> list[ValueMention]:
    return message.mentions if target.is_duration else message.by_kind.get(target.kind, [])


def _is_of_kind(target: TargetFact, mention: ValueMention) -> bool:
    return target.is_label or mention.kind == target.kind or (target.is_duration and mention.kind == "duration")


def _overlaps(target: TargetFact, mention: ValueMention) -> bool:
    return not mention.norm or set(mention.norm) <= set(target.norm) or set(target.norm) <= set(mention.norm)


def _find_phrases(target: TargetFact, message: MessageText) -> Iterator[ValueMention]:
    """Find phrases next to a word of the key, or to a word that was next to the old value: `checking` in `my checking
    account`."""
    behind = (target.right_stems | set(target.key.specific) | set(target.key.domain)) - STOP
    ahead = target.left_stems
    if not message.stems & (behind | ahead):
        return
    for at, word in enumerate(message.words):
        if word.stem in behind and word.stem not in target.norm:
            start = at
            while start > 0 and at - start < PHRASE_WORDS and _continues(message, start - 1):
                start -= 1
            if start < at:
                yield _build_phrase(message, start, at - 1)
        if word.stem in ahead:
            end = at
            while end + 1 < len(message.words) and end - at < PHRASE_WORDS and _continues(message, end, end + 1):
                if end > at and message.words[end + 1].stem in behind:
                    break
                end += 1
            if end > at:
                yield _build_phrase(message, at + 1, end)


def _build_phrase(message: MessageText, first: int, last: int) -> ValueMention:
    start, end = message.words[first].start, message.words[last].end
    return ValueMention("text", start, end, normalise_name(message.text[start:end]))


def _continues(message: MessageText, at: int, added: int | None = None) -> bool:
    """Whether a word and the next one are in one phrase, and the added word is a content word."""
    word, following = message.words[at], message.words[at + 1]
    new = message.words[at if added is None else added]
    between = message.text[word.end : following.start]
    return between in {" ", "-"} and new.lower not in STOP and new.lower not in FILLING and not new.lower.isdigit()


def collect_evidence(target: TargetFact, mention: ValueMention, scene: Scene, message: MessageText) -> Iterator[str]:
    """Yield the names of the evidence about a value in a message."""
    part = mention.parts[0] if len(mention.parts) == 1 else None
    yield f"kind {part.kind if part else mention.kind if target.is_label else target.kind}"
    yield from _word_evidence(target, mention, message)
    yield from _rival_evidence(target, mention, scene)
    yield from _talk_evidence(target, mention, scene)
    yield from _text_evidence(scene)
    if len(message.by_kind.get(mention.kind, ())) > 1:
        yield "several"
    if message is scene.message:
        yield from _statement_evidence(mention, scene)
    else:
        yield from _offer_evidence(mention, message)


def _word_evidence(target: TargetFact, mention: ValueMention, message: MessageText) -> Iterator[str]:
    mood = message.mood_at(mention.start)
    near = message.stems_of(mood) if mood else message.stems
    if near.intersection(target.key.specific).difference(mention.norm):
        yield "key"
    if near.intersection(target.key.domain):
        yield "domain near"
    left, right = message.neighbour_stems(mention.start, mention.end)
    if left in target.left_stems:
        yield "left" if left not in {"a", "the", "an"} else "left article"
    if right in target.right_stems:
        yield "right"
    if target.kind in {"number", "ordinal", "percent"} and mention.noun and mention.noun not in STOP:
        if is_akin(mention.noun, target.nouns) or (mention.noun in PERSON_WORDS and target.nouns & PERSON_WORDS):
            yield "noun"
        else:
            yield "other noun"
    if target.is_duration and mention.kind == "duration":
        yield "lasts"
    if target.kind == "date" and not target.differs(mention):
        yield "other form"
    if target.is_label:
        yield from _sort_evidence(target, mention, message)
    begins, ends = not _FROM.isdisjoint(target.key.words), not _TO.isdisjoint(target.key.words)
    role = _find_role(message, mention) if begins or ends else ""
    if role:
        yield "role" if (begins if role == "from" else ends) else "other role"


def _sort_evidence(target: TargetFact, mention: ValueMention, message: MessageText) -> Iterator[str]:
    """Whether both values are places, by the key and by the words before; and whether both are capitalised."""
    before = [word.lower for word in message.words_ahead(mention.start, 2)]
    is_place = before[-1:] != [] and (
        before[-1] in _AT or (before[0] in _AT and before[-1] in {"the", "my", "downtown", "central"})
    )
    if target.is_place:
        yield "place" if is_place else "no place"
    elif is_place:
        yield "place else"
    if target.text[:1].isupper() and message.text[mention.start].isupper():
        yield "both names"
    elif message.text[mention.start].isupper():
        yield "name for none"


def _find_role(message: MessageText, mention: ValueMention) -> str:
    """`from` or `to` if the words before a value say that something begins or ends there."""
    for word in reversed(message.words_ahead(mention.start, ROLE_WORDS)):
        if word.lower in _FROM_CUES:
            return "from"
        if word.lower in _TO_CUES:
            return "to"
    return ""


def _rival_evidence(target: TargetFact, mention: ValueMention, scene: Scene) -> Iterator[str]:
    rivals, rivalry = scene.rivals(target)
    yield rivalry
    if not scene.targets_stating(mention).isdisjoint(rivals):
        yield "of a rival"
    if target.domain:
        if target.domain in scene.named_domains:
            yield "domain said"
        elif scene.named_domains:
            yield "other domain said"
        if len(scene.all_domains) > 1:
            yield "newest domain" if target.domain in scene.domains else "stale domain"
    if target.candidate.since_us == scene.newest_us:
        yield "newest"


def _talk_evidence(target: TargetFact, mention: ValueMention, scene: Scene) -> Iterator[str]:
    last = scene.last_reply
    if last is None:
        return
    if any(occurrence.index == len(scene.previous) - 1 for occurrence in target.occurrences):
        yield "old in last"
    if any(is_same_mention(other, mention) for other in last.by_kind.get(mention.kind, ())) or (
        mention.norm and last.stems.issuperset(mention.norm)
    ):
        yield "new in last"
    if last.reports_failure:
        yield "failure"
    if last.asks_confirmation:
        yield "confirming"
    if last.open_questions:
        about = _QUESTION_WORDS.get(target.kind, _QUESTION_WORDS["text"]).union(target.key.specific)
        yield "asked" if any(stems & about for stems in last.open_questions) else "asked other"


_WISH = compile_late(
    r"\b(?:need|want|get|find|book|rent|reserve|looking\sfor|search\sfor|find\sout|like)\s(?:me\s|us\s|to\s(?:find|get|"
    r"book|rent|reserve|see|go\sto|take)\s)?(?:an?|another|some|any|"
    r"the)\s((?:[^\W\d_-]{1,30}[\s-]){0,2}?[^\W\d_]{1,30})(?=\s(?:to|in|at|on|for|from|with|that|which|by|near|there|"
    r"around|leaving|going|please|and|under|as|now)\b|\W*$|[,.?!;])",
    re.IGNORECASE,
)
"""A wish; the group ends with its noun."""


def _text_evidence(scene: Scene) -> Iterator[str]:
    """The evidence from the whole message."""
    if not scene.text_evidence:
        text = scene.message.text
        wish = _WISH.search(text)
        is_known_wish = wish is not None and strip_plural(wish[1].split()[-1]) in scene.previous_stems
        strong = any(mood.strong for mood in scene.message.moods)
        evidence = {
            "rejection": cues.REJECTION.match(text),
            "more": cues.MORE.search(text),
            "short": len(scene.message.words) <= SHORT_WORDS,
            "strong": strong,
            "correction": not strong and any(mood.correction for mood in scene.message.moods),
            "wish heard": is_known_wish,
            "wish unheard": wish is not None and not is_known_wish,
            "closing": cues.CLOSING.search(text),
            "curt": len(content_stems(scene.message.words)) <= CURT_WORDS,
        }
        scene.text_evidence = tuple(name for name, is_present in evidence.items() if is_present) or ("plain",)
    yield from scene.text_evidence


def _offer_evidence(mention: ValueMention, message: MessageText) -> Iterator[str]:
    """How the assistant offered the value."""
    mood = message.mood_at(mention.start)
    if mood is None:
        return
    if cues.OFFER.search(message.text, mood.sentence.start, mood.sentence.end):
        yield "offer"
    if mood.sentence.end >= len(message.text) - 2:
        yield "offered last"


def _statement_evidence(mention: ValueMention, scene: Scene) -> Iterator[str]:
    """The evidence from the sentence of the value."""
    mood = scene.message.mood_at(mention.start)
    if mood is not None:
        evidence = {"also": mood.also, "keep": mood.keep, "asking": mood.asks}
        yield from (name for name, is_present in evidence.items() if is_present)


VALUE, LABEL, OFFER = range(3)
"""The columns of the weights: numbers, dates and amounts · names and free text · values that the assistant offered."""
_WEIGHTS: Mapping[str, tuple[float, float, float]] = {
    "bias": (-2.0, -5.7, -7.1),
    "also": (-1.2, -0.8, 0.0),
    "asked": (-2.0, 0.0, 0.0),
    "asked other": (0.4, -0.8, -0.3),
    "asking": (-1.3, -0.7, 0.0),
    "both names": (0.0, 1.9, -2.2),
    "closing": (-2.4, -1.8, 0.2),
    "confirming": (1.8, 0.0, -1.1),
    "correction": (1.0, -0.7, 0.0),
    "curt": (0.2, -0.4, -0.5),
    "domain said": (0.4, -0.2, -0.6),
    "failure": (2.1, 1.8, 2.9),
    "keep": (0.3, -1.0, 0.0),
    "key": (3.4, 1.7, -0.9),
    "kind date": (-0.5, 0.0, -1.1),
    "kind moment": (1.2, 0.0, 0.0),
    "kind name": (0.0, -0.6, -0.7),
    "kind number": (-0.7, 0.0, -0.9),
    "kind text": (0.0, 0.6, -1.2),
    "kind time": (1.2, 0.0, 4.0),
    "lasts": (1.1, 0.0, 0.0),
    "left": (1.1, 1.6, 1.5),
    "left article": (0.0, 0.7, 0.0),
    "more": (2.3, 1.8, 0.0),
    "name for none": (0.0, 1.4, 2.0),
    "new in last": (-0.8, -1.1, 0.3),
    "newest": (1.0, 1.0, -0.2),
    "newest domain": (-0.6, 0.0, 0.0),
    "no place": (0.0, -1.2, -1.7),
    "noun": (3.3, 0.0, 0.3),
    "of a rival": (-0.9, -0.4, -1.3),
    "offer": (0.0, 0.0, 0.7),
    "offered last": (0.0, 0.0, 1.1),
    "old in last": (1.1, 1.2, -0.7),
    "other domain said": (-1.0, -1.2, -0.2),
    "other form": (0.5, 0.0, -1.0),
    "other noun": (-3.0, 0.0, -0.7),
    "other role": (-2.8, -0.3, 0.2),
    "place": (0.0, 0.7, -1.1),
    "place else": (0.0, 0.0, 0.5),
    "plain": (-0.9, -0.9, -0.2),
    "rejection": (1.2, 1.4, 0.0),
    "right": (0.7, 2.7, 1.0),
    "rivals": (0.2, -0.5, -1.3),
    "role": (0.9, 0.5, 0.0),
    "several": (0.4, 0.0, -1.6),
    "short": (-0.6, -1.0, 1.1),
    "sole": (0.2, 0.9, 1.0),
    "sole here": (-0.4, -0.4, 0.2),
    "stale domain": (-5.2, -2.9, -2.6),
    "strong": (1.2, 1.0, 0.5),
    "wish heard": (-0.2, 0.4, -0.4),
    "wish unheard": (-2.4, -0.5, 0.4),
}
"""The weight of each piece of evidence in logits, fitted on recorded dialogues."""
_NO_WEIGHT = (0.0, 0.0, 0.0)


def compute_confidence(column: int, evidence: Iterable[str]) -> float:
    """The confidence from the sum of the weights, as a logistic function."""
    total = _WEIGHTS["bias"][column] + sum(_WEIGHTS.get(name, _NO_WEIGHT)[column] for name in evidence)
    return round(1 / (1 + math.exp(-max(-30.0, min(30.0, total)))), 3)
