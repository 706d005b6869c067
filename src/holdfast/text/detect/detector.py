"""The default detector: rules and weights, without a model.

It only proposes changes, and its reasons quote no value. Times are in UTC, by the clock of the observation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

import msgspec

from holdfast.model.content import Json
from holdfast.model.facts.detection import DetectionRule, MessageSpan, Observation, Proposal
from holdfast.text.detect import cue_rules, cues, moments, stance
from holdfast.text.detect.answers import RESERVATION, find_answers
from holdfast.text.detect.corrections import read_corrections
from holdfast.text.detect.evidence import (
    LABEL,
    OFFER,
    VALUE,
    collect_evidence,
    compute_confidence,
    find_fitting_values,
)
from holdfast.text.detect.patterns import read_patterns, read_predicates
from holdfast.text.detect.scene import (
    DOUBTFUL,
    LIKELY,
    DetectedChange,
    MessageText,
    Scene,
    TargetFact,
    earnest_moods,
    is_earnest,
)
from holdfast.text.detect.shapes import is_no_value, read_value
from holdfast.text.detect.statements import judge_statements, read_statements
from holdfast.text.expressions import compile_late
from holdfast.text.values import DAY_US, EPOCH, LATEST_US, OPPOSITE, ValueMention, day_of
from holdfast.text.words import STOP, find_words, strip_plural, word_set

MIN_CONFIDENCE = 0.3
"""Changes with less confidence are not proposed."""
CERTAIN = 0.93
"""The confidence from evidence that is needed for a change of a fact with a domain."""
AGREEMENT = 0.95
"""The confidence from evidence that is needed for an offered value."""
UNBOUND = 0.75
"""The most confidence for a value that nothing ties to the fact: too little to apply it."""
ASIDE = 0.45
"""The most confidence for a change in a narrative, or about somebody else."""
SECOND_HAND = 0.6
"""The most confidence for a change in a message of the assistant or a tool: they repeat, offer and report."""
BINDING = word_set("key noun right failure rejection correction strong more lasts") | {
    "old in last",
    "domain said",
    "domain near",
}
"""Evidence that ties a value to a fact."""


class RuleDetector:
    """A detector with rules for English: cues, kinds of values, and the words of keys."""

    name = "rules-1"

    def detect(self, observation: Observation) -> tuple[Proposal, ...]:
        scene = Scene(observation)
        proposals = [_build_expiry(scene, *expiry) for expiry in find_expired(scene)]
        expired = {proposal.fact for proposal in proposals if proposal.confidence >= LIKELY}
        for change in _choose_changes(scene):
            if change.target.candidate.fact not in expired:
                proposals.append(_build_proposal(scene, change))
        if observation.message.role != "assistant":
            proposals += [*find_hypotheses(scene), *find_topic_switches(scene)]
            proposals += find_plain_statements(scene) if not scene.exploration_cue else ()
        return tuple(proposals)


def _choose_changes(scene: Scene) -> list[DetectedChange]:
    """Choose the change with the most confidence for each fact. A value in the text is used for one fact only."""
    if not scene.targets:
        return []
    changes: list[DetectedChange] = []
    if not scene.exploration_cue:
        statements = (
            read_statements(scene, scene.message),
            read_corrections(scene),
            read_predicates(scene),
            read_patterns(scene),
        )
        changes += judge_statements(scene, chain.from_iterable(statements))
        changes += find_answers(scene)
        for change in (*cue_rules.find_explicit_changes(scene), *find_implied_changes(scene)):
            if earnest_change := _filter_by_stance(scene, change):
                changes.append(earnest_change)
    changes = [_cap_confidence(scene, change) for change in changes if change.confidence >= MIN_CONFIDENCE]
    changes.sort(key=lambda change: (-change.confidence, change.change != "supersede"))
    chosen: dict[str, DetectedChange] = {}
    used_values: set[tuple[bool, int]] = set()
    for change in changes:
        finished = _finish_value(scene, change) if change.target.candidate.fact not in chosen else None
        if finished is None:
            continue
        value = (finished.source is not None, finished.new[0]) if finished.new else None
        if value in used_values:
            continue
        chosen[finished.target.candidate.fact] = finished
        if value:
            used_values.add(value)
    return [chosen[target.candidate.fact] for target in scene.targets if target.candidate.fact in chosen]


def _filter_by_stance(scene: Scene, change: DetectedChange) -> DetectedChange | None:
    """Check a change that was found by words only: the sentence must be in earnest, and the value complete."""
    target = change.target
    if change.source is not None:
        return change if target.domain or not RESERVATION.search(scene.message.text) else None
    at = change.new[0] if change.new else change.at
    if not target.domain and change.change == "supersede" and target.kind != "flag" and _is_named(scene, target, at):
        return None
    if change.new is None or target.shape == "statement" or target.kind == "flag":
        return change if target.domain or _is_in_earnest(scene, at, None, target) else None
    mood = scene.message.mood_at(at)
    if mood is None:
        return None
    if target.domain:
        text = scene.message.text[at : change.new[1]]
        return change if target.is_typed or not is_no_value(text) else None
    value = read_value(target, scene.message, at, mood.sentence.end, is_request=True)
    if value is None or not _is_in_earnest(scene, value.start, (value.start, value.end), target):
        return None
    confidence = change.confidence
    if scene.rivals(target)[1] != "sole" and change.cue not in {"not", "no"}:
        confidence = min(confidence, DOUBTFUL)
    span = (value.start, value.end)
    return msgspec.structs.replace(change, new=span, value=value.full_text, confidence=confidence)


def _is_named(scene: Scene, target: TargetFact, at: int) -> bool:
    """Whether the sentence names the fact: then the rules for statements have read it."""
    mood = scene.message.mood_at(at)
    if mood is None or not target.norms.isdisjoint(target.key.specific):
        return False
    return any(
        mood.sentence.start <= phrase.start < mood.sentence.end
        for phrase in scene.key_phrases(scene.message)
        if phrase.target is target
    )


def _is_in_earnest(scene: Scene, at: int, span: tuple[int, int] | None, target: TargetFact) -> bool:
    mood = scene.message.mood_at(at)
    if mood is None:
        return False
    around = stance.split_surroundings(scene.message.text, mood.sentence, at, span, span[1] if span else at)
    around = msgspec.structs.replace(around, is_dated=target.is_typed, changes=True)
    return stance.judge_stance(around).stance == "earnest"


def _finish_value(scene: Scene, change: DetectedChange) -> DetectedChange | None:
    """Extend or trim the new value; None if it is no value: words or a number of the key, or in a wrong quotation."""
    target = change.target
    if change.new is None or target.kind == "flag":
        return change
    message = change.source or scene.message
    start, end = change.new
    if message.disowns(start) or target.is_key(message.text, start, end):
        return None
    if target.core is not None:
        start, end = moments.extend_value(message.text, start, end, target.text, target.core)
    if target.is_typed:
        return msgspec.structs.replace(change, new=(start, end))
    if not cue_rules.leads_on(target.text):
        end = start + len(cue_rules.trim_phrase(message.text[start:end]))
    stems = {word.stem for word in find_words(message.text[start:end]) if word.lower not in STOP}
    if target.shape != "token" and stems <= {*target.key.words, *target.key.domain} and not stems & {*target.norm}:
        return None
    return msgspec.structs.replace(change, new=(start, end))


def _cap_confidence(scene: Scene, change: DetectedChange) -> DetectedChange:
    """Limit the confidence of hedged statements, and of facts with a domain: words alone often mean another such fact."""
    if change.target.domain and change.confidence < CERTAIN:
        change = msgspec.structs.replace(change, confidence=min(change.confidence, UNBOUND))
    at = change.new[0] if change.new and change.source is None else -1
    mood = scene.message.mood_at(at)
    if mood is None or not mood.hedged:
        return change
    return msgspec.structs.replace(change, confidence=min(change.confidence, ASIDE))


def find_implied_changes(scene: Scene) -> list[DetectedChange]:
    """Find values of the same kind that are new values of a fact by the evidence."""
    if scene.message.utterance.role != "user":
        return []
    changes: list[DetectedChange] = []
    for target in scene.targets:
        for mention, message in find_new_values(target, scene):
            is_offer = message is not scene.message
            mood = None if is_offer else scene.message.mood_at(mention.start)
            if not is_offer and (mood is None or not is_earnest(mood)):
                continue
            evidence = [*collect_evidence(target, mention, scene, message)]
            column = OFFER if is_offer else LABEL if target.is_label else VALUE
            confidence = compute_confidence(column, evidence)
            if confidence < AGREEMENT if is_offer else BINDING.isdisjoint(evidence):
                confidence = min(confidence, UNBOUND)
            if not is_offer and confidence > ASIDE and _is_aside(scene, target, mention):
                confidence = ASIDE
            cue = mood.correction if mood else ""
            rule: DetectionRule = "explicit" if cue else "implicit"
            source = message if is_offer else None
            span = (mention.start, mention.end)
            changes.append(DetectedChange(target, "supersede", rule, cue, confidence, span, source))
    return changes


def _is_aside(scene: Scene, target: TargetFact, mention: ValueMention) -> bool:
    """Whether a value is in a narrative, or about somebody or something else."""
    mood = scene.message.mood_at(mention.start)
    if mood is None or mood.correction:
        return False
    if mood.aside or (mood.whom and strip_plural(mood.whom) not in scene.previous_stems):
        return True
    return cue_rules.is_of_another(scene, target, mention)


def find_new_values(target: TargetFact, scene: Scene) -> list[tuple[ValueMention, MessageText]]:
    """Find possible new values: in the message, or in the offer that it only agrees to."""
    values = [(mention, scene.message) for mention in find_fitting_values(target, scene.message)]
    if not values and scene.last_reply is not None and cues.ASSENT.match(scene.message.text):
        values = [(mention, scene.last_reply) for mention in find_fitting_values(target, scene.last_reply)]
    return values


def _build_proposal(scene: Scene, change: DetectedChange) -> Proposal:
    candidate = change.target.candidate
    message = change.source or scene.message
    confidence = change.confidence
    if scene.message.utterance.role not in {"user", "system"}:
        confidence = min(confidence, SECOND_HAND)
    new: MessageSpan | None = None
    value: Json = None
    if change.new is not None:
        start, end = message.original_span(*change.new)
        text = message.utterance.text[start:end]
        value = change.value or _build_value(change.target, text, message, change.new[0])
        if change.source is None or message.utterance.seq in scene.known_seqs:
            new = MessageSpan(0 if change.source is None else message.utterance.seq, start, end)
    cue = f"{change.cue}: " if change.cue else ""
    effect = f"another value for {candidate.key}" if value is not None else f"{candidate.key} no longer applies"
    return Proposal(
        change=change.change,
        rule="authority" if scene.authority else change.rule,
        reason=f"{cue}{effect}",
        confidence=confidence,
        fact=candidate.fact,
        key=candidate.key,
        value=value,
        scope=candidate.scope,
        scope_id=candidate.scope_id,
        authority=scene.authority,
        old=scene.old_spans(change.target),
        new=new,
    )


def _build_value(target: TargetFact, text: str, message: MessageText, start: int) -> Json:
    """The new value as it is written, with the unchanged parts of the old one; a number if the old value is a number; the
    opposite of a boolean."""
    old = target.candidate.value
    if target.kind == "flag":
        opposite = OPPOSITE[target.text.lower()]
        return not old if isinstance(old, bool) else opposite.title() if target.text[0].isupper() else opposite
    if not isinstance(old, int | float):
        mention = next((other for other in message.by_kind.get(target.kind, ()) if other.start == start), None)
        if target.value is None or mention is None:
            return text
        return moments.complete_value(text, mention, target.text, target.value)
    numbers = target.read_numbers(text)
    if not numbers:
        return text
    return int(numbers[0]) if numbers[0].is_integer() else numbers[0]


# Expiry


def _build_expiry(scene: Scene, target: TargetFact, reason: str, confidence: float) -> Proposal:
    candidate = target.candidate
    return Proposal(
        change="expire",
        rule="temporal",
        reason=f"{reason}: {candidate.key}",
        confidence=confidence,
        fact=candidate.fact,
        key=candidate.key,
        scope=candidate.scope,
        scope_id=candidate.scope_id,
        old=scene.old_spans(target),
    )


_DEADLINE = compile_late(
    r"\b(?:deadlines?|due|expir\w+|valid|until|till|by|before|offer|window|renews?|ends?|last\sday)\b", re.IGNORECASE
)
"""Words of a fact that ends at a time."""
_EVENT = compile_late(
    r"\b(?:meeting|appointment|call|demo|event|visit|reservation|booking|flight|departure|check.?in|check.?out|pickup|"
    r"launch|delivery|interview|session|schedule\w*)\b",
    re.IGNORECASE,
)


def find_expired(scene: Scene) -> Iterator[tuple[TargetFact, str, float]]:
    """Find facts whose time is over, each with the reason and the confidence."""
    if not 0 < scene.now_us < LATEST_US:
        return
    for target in scene.targets:
        expires = target.candidate.expires_us
        if expires is not None:
            if expires <= scene.now_us:
                yield target, "it has expired", 0.97
            continue
        confidence = _expiry_confidence(target)
        dates = [mention for mention in target.inner if mention.kind == "date"] if confidence else []
        ends = [_day_end_us(mention, target.candidate.since_us) for mention in dates]
        if ends and all(end is not None and end <= scene.now_us for end in ends):
            have_years = all(mention.norm[0] == "day" and mention.norm[3] is not None for mention in dates)
            yield target, "its date has passed", confidence if have_years else min(confidence, 0.7)


def _expiry_confidence(target: TargetFact) -> float:
    text = f"{target.candidate.key.replace('_', ' ')} {target.text}"
    return 0.88 if _DEADLINE.search(text) else 0.65 if _EVENT.search(text) else 0.0


def _day_end_us(mention: ValueMention, since_us: int) -> int | None:
    """The end of the day of a date."""
    day = day_of(mention, since_us)
    return None if day is None else ((day - EPOCH).days + 1) * DAY_US


# Messages that change no fact

TOPIC_WORDS = 6
KEY_WORDS = 4
_PLAIN_STATEMENT = compile_late(
    r"\W*(?:(?:note|fyi|reminder|update)\W+)?(?:the|our|my)\s(?P<subject>(?:[\w'-]{1,30}\s){0,3}[\w'-]{1,30})\s"
    r"(?:is|are|will\sbe)\s(?:(?:at|on|in|for|by)\s)?",
    re.IGNORECASE,
)


def find_topic_switches(scene: Scene) -> Iterator[Proposal]:
    """Find a change of the topic: `back to the …`, `hold on: …`. The key is the new topic, in the words of the message."""
    for mood in scene.message.moods:
        switch = cues.find_switch(scene.message.text, mood.sentence)
        if switch is None or mood.asks:
            continue
        group = "topic" if switch["topic"] else "later_topic"
        topic = [word.lower for word in find_words(switch[group]) if word.lower not in STOP][:TOPIC_WORDS]
        if not topic:
            continue
        start = mood.sentence.start + switch.start(group)
        cue = " ".join((switch["hold"] or switch["back"] or switch["later"]).lower().split())
        yield Proposal(
            change="switch",
            rule="topic",
            reason=f"{cue}: the topic changes",
            confidence=0.7 if switch["hold"] else 0.85,
            key="_".join(topic),
            new=MessageSpan(0, *scene.message.original_span(start, start + len(switch[group].rstrip()))),
        )
        return


def find_hypotheses(scene: Scene) -> Iterator[Proposal]:
    """Find hypothetical sentences and drafts. They get their own scope and replace nothing."""
    exploration = scene.exploration_cue
    for mood in scene.message.moods:
        cue = mood.hypothetical or mood.draft or exploration
        if not cue:
            continue
        text = scene.message.text[mood.sentence.start : mood.sentence.end]
        start = mood.sentence.start + len(text) - len(text.lstrip())
        end = mood.sentence.start + len(text.rstrip())
        words = [word.lower for word in find_words(text) if word.lower not in STOP]
        if start >= end or not {*words}.difference(cue.split()):  # only a label
            continue
        start, end = scene.message.original_span(start, end)
        is_draft = bool(mood.draft) and not mood.hypothetical
        yield Proposal(
            change="assert",
            rule="draft" if is_draft else "hypothetical",
            reason=f"{cue}: only {'a draft' if is_draft else 'hypothetical'}",
            confidence=0.85,
            key="_".join(words[:KEY_WORDS]),
            value=scene.message.utterance.text[start:end],
            scope="draft" if is_draft else "hypothetical",
            new=MessageSpan(0, start, end),
        )


def find_plain_statements(scene: Scene) -> Iterator[Proposal]:
    """Find plain statements that are about no known fact: `the kickoff is on Friday`."""
    for mood in earnest_moods(scene):
        match = _PLAIN_STATEMENT.match(scene.message.text, mood.sentence.start, mood.sentence.end)
        if match is None:
            continue
        values = (*scene.message.mentions, *scene.message.names)
        value = next((mention for mention in values if mention.start == match.end()), None)
        subject = [word.stem for word in find_words(match["subject"]) if word.lower not in STOP]
        if value is None or not subject:
            continue
        if any(cue_rules.key_share(target, {*subject}) >= 0.5 or target.states(value) for target in scene.targets):
            continue
        start, end = scene.message.original_span(value.start, value.end)
        yield Proposal(
            change="assert",
            rule="stated",
            reason="a plain statement",
            confidence=0.7,
            key="_".join(subject[:KEY_WORDS]),
            value=scene.message.utterance.text[start:end],
            authority=scene.authority,
            new=MessageSpan(0, start, end),
        )
