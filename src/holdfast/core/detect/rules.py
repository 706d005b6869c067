"""The default detector: rules and weights, no model. It decides nothing, and quotes no value in its reasons."""

from __future__ import annotations

from itertools import chain

import msgspec

from holdfast.core.detect import cues, explicit, moments, phrases, stance, temporal, topics
from holdfast.core.detect.answers import RESERVE, find_answers
from holdfast.core.detect.corrections import read_corrections
from holdfast.core.detect.evidence import evidence, fits
from holdfast.core.detect.findings import DOUBTFUL, LIKELY, Finding, is_earnest
from holdfast.core.detect.keyed import is_anothers
from holdfast.core.detect.predicates import read_predicates
from holdfast.core.detect.reading import Held, Reading, Scene
from holdfast.core.detect.shapes import is_no_value, whole_value
from holdfast.core.detect.statements import judge_statements, read_statements
from holdfast.core.detect.weights import LABEL, OFFERED, VALUE, confidence
from holdfast.core.detect.words import STOP, stem, words
from holdfast.core.values import OPPOSITE, Mention
from holdfast.model.content import Json
from holdfast.model.detection import Observation, Proposal, Rule, Span

WORTH_SAYING = 0.3
"""What is less sure than this is not proposed at all."""
CERTAIN = 0.93
"""How sure the evidence must be: what it puts below is right too seldom to act on without asking."""
AGREED = 0.95
"""The same, for a value that was only agreed to."""
UNBOUND = 0.75
"""How sure a value of the right kind may be alone, with nothing that ties it to the candidate: never enough to act on."""
ASIDE = 0.45
"""How sure a change is at most that stands in a tale of the past, or is meant for someone else."""
SECOND_HAND = 0.6
"""How sure a change is at most that the other side or a tool tells of: they echo, offer and report."""
BINDING = frozenset(
    (
        "key",
        "noun",
        "right",
        "old in last",
        "failure",
        "rejection",
        "correction",
        "strong",
        "more",
        "lasts",
        "domain said",
        "domain near",
    )
)
"""Evidence that ties a value to a candidate."""


class Rules:
    """Reads plain text with rules of English: cues, kinds of values, and what a key says that it is about."""

    name = "rules-1"

    def detect(self, observation: Observation) -> tuple[Proposal, ...]:
        scene = Scene(observation)
        proposals = [_expired(scene, *each) for each in temporal.passed(scene)]
        gone = {each.fact for each in proposals if each.confidence >= LIKELY}
        for finding in _surest(scene):
            if finding.held.candidate.fact not in gone:
                proposals.append(_changed(scene, finding))
        if observation.said.role != "assistant":
            proposals += [*topics.supposed(scene), *topics.switches(scene)]
            proposals += topics.stated(scene) if not topics.exploring(scene) else ()
        return tuple(proposals)


def _surest(scene: Scene) -> list[Finding]:
    """One finding a fact, the surest; a value in the text is the new one of one fact alone."""
    if not scene.held:
        return []
    findings: list[Finding] = []
    if not topics.exploring(scene):
        read = (read_statements(scene, scene.said), read_corrections(scene), read_predicates(scene))
        findings += judge_statements(scene, chain.from_iterable(read))
        findings += find_answers(scene)
        findings += (each for found in (*explicit.found(scene), *implied(scene)) if (each := _gated(scene, found)))
    findings = [_capped(scene, each) for each in findings if each.confidence >= WORTH_SAYING]
    findings.sort(key=lambda each: (-each.confidence, each.change != "supersede"))
    chosen: dict[str, Finding] = {}
    taken: set[tuple[bool, int]] = set()
    for found in findings:
        each = _sound(scene, found) if found.held.candidate.fact not in chosen else None
        if each is None:
            continue
        place = (each.reading is not None, each.new[0]) if each.new else None
        if place in taken:
            continue
        chosen[each.held.candidate.fact] = each
        if place:
            taken.add(place)
    return [chosen[held.candidate.fact] for held in scene.held if held.candidate.fact in chosen]


def _gated(scene: Scene, finding: Finding) -> Finding | None:
    """A finding of a rule that looks at words alone, if the sentence is meant in earnest and the value is a whole one."""
    held = finding.held
    if finding.reading is not None:
        return finding if held.domain or not RESERVE.search(scene.said.text) else None
    place = finding.new or (finding.at, finding.at + 1)
    if not held.domain and finding.change == "supersede" and held.kind != "flag" and _is_named(scene, held, place[0]):
        return None
    if finding.new is None or held.shape == "statement" or held.kind == "flag":
        at = finding.at if finding.new is None else finding.new[0]
        return finding if held.domain or _is_meant(scene, at, None, held) else None
    mood = scene.said.mood_at(finding.new[0])
    if mood is None:
        return None
    if held.domain:
        stated = scene.said.text[finding.new[0] : finding.new[1]]
        return finding if held.is_typed or not is_no_value(stated) else None
    value = whole_value(held, scene.said, finding.new[0], mood.sentence.end, asked=True)
    if value is None or not _is_meant(scene, value.start, (value.start, value.end), held):
        return None
    sure = (
        finding.confidence
        if scene.rivals(held)[1] == "sole" or finding.cue in {"not", "no"}
        else min(finding.confidence, DOUBTFUL)
    )
    return msgspec.structs.replace(finding, new=(value.start, value.end), value=value.whole, confidence=sure)


def _is_named(scene: Scene, held: Held, at: int) -> bool:
    """Whether the sentence names the fact: then what it says of it was read as a statement, or is none."""
    mood = scene.said.mood_at(at)
    if mood is None or not held.norms.isdisjoint(held.key.telling):
        return False
    return any(
        mood.sentence.start <= each.start < mood.sentence.end
        for each in scene.subjects(scene.said)
        if each.held is held
    )


def _is_meant(scene: Scene, at: int, place: tuple[int, int] | None, held: Held) -> bool:
    mood = scene.said.mood_at(at)
    if mood is None:
        return False
    around = stance.surround(scene.said.text, mood.sentence, at, place, place[1] if place else at)
    return stance.judge(msgspec.structs.replace(around, dated=held.is_typed, changes=True)).stance == "earnest"


def _sound(scene: Scene, finding: Finding) -> Finding | None:
    """With all of the new value and nothing else; None if what it found is no value: a word of the key, or what is quoted
    as wrong."""
    held = finding.held
    if finding.new is None or held.kind == "flag":
        return finding
    reading = finding.reading or scene.said
    start, end = finding.new
    if reading.disowns(start):
        return None
    if held.core is not None:
        start, end = moments.extended(reading.text, start, end, held.text, held.core)
    if held.is_typed:
        return msgspec.structs.replace(finding, new=(start, end))
    if not phrases.leads_on(held.text):
        end = start + len(phrases.trimmed(reading.text[start:end]))
    said = {word.stem for word in words(reading.text[start:end]) if word.lower not in STOP}
    if said <= {*held.key.own, *held.key.domain} and not said & {*held.norm}:
        return None
    return msgspec.structs.replace(finding, new=(start, end))


def _capped(scene: Scene, finding: Finding) -> Finding:
    """Less sure, where the text itself is not, or where a slot of a task is set right in passing: of what is told there by
    words alone, too much is meant for another slot."""
    if finding.held.domain and finding.confidence < CERTAIN:
        finding = msgspec.structs.replace(finding, confidence=min(finding.confidence, UNBOUND))
    at = finding.new[0] if finding.new and finding.reading is None else -1
    mood = scene.said.mood_at(at)
    if mood is None or not mood.hedged:
        return finding
    return msgspec.structs.replace(finding, confidence=min(finding.confidence, ASIDE))


def implied(scene: Scene) -> list[Finding]:
    """Another value of the same kind, where the evidence says that it stands for the same thing."""
    if scene.said.said.role != "user":
        return []
    found: list[Finding] = []
    for held in scene.held:
        for mention, where in pairs(held, scene):
            mood = scene.said.mood_at(mention.start) if where is scene.said else None
            if where is scene.said and (mood is None or not is_earnest(mood)):
                continue
            told = [*evidence(held, mention, scene, where)]
            weights = OFFERED if where is not scene.said else LABEL if held.is_label else VALUE
            sure = confidence(weights, told)
            if (where is not scene.said and sure < AGREED) or (where is scene.said and not BINDING & {*told}):
                sure = min(sure, UNBOUND)
            if where is scene.said and sure > ASIDE and _is_aside(scene, held, mention):
                sure = min(sure, ASIDE)
            other = None if where is scene.said else where
            cue = mood.correction if mood else ""
            rule: Rule = "explicit" if cue else "implicit"
            found.append(Finding(held, "supersede", rule, cue, sure, (mention.start, mention.end), other))
    return found


def _is_aside(scene: Scene, held: Held, mention: Mention) -> bool:
    mood = scene.said.mood_at(mention.start)
    if mood is None or mood.correction:
        return False
    if mood.aside or (mood.whom and stem(mood.whom) not in scene.heard):
        return True
    return is_anothers(scene, held, mention)


def pairs(held: Held, scene: Scene) -> list[tuple[Mention, Reading]]:
    """Values that may be the new one: in the text, or, where the text just agrees, in what it agrees to."""
    found = [(each, scene.said) for each in fits(held, scene.said)]
    if not found and scene.last is not None and cues.ASSENT.match(scene.said.text):
        found = [(each, scene.last) for each in fits(held, scene.last)]
    return found


def _changed(scene: Scene, finding: Finding) -> Proposal:
    candidate = finding.held.candidate
    where = finding.reading or scene.said
    authority = scene.authority
    sure = finding.confidence if scene.said.said.role in {"user", "system"} else min(finding.confidence, SECOND_HAND)
    new: Span | None = None
    value: Json = None
    if finding.new is not None:
        start, end = where.span(*finding.new)
        value = finding.value or _value(finding.held, where.said.text[start:end], where, finding.new[0])
        if finding.reading is None or where.said.seq in scene.known:
            new = Span(0 if finding.reading is None else where.said.seq, start, end)
    told = f"{finding.cue}: " if finding.cue else ""
    return Proposal(
        change=finding.change,
        rule="authority" if authority else finding.rule,
        reason=f"{told}{'another value for' if value is not None else 'it ends'} {candidate.key}",
        confidence=sure,
        fact=candidate.fact,
        key=candidate.key,
        value=value,
        scope=candidate.scope,
        scope_id=candidate.scope_id,
        authority=authority,
        old=scene.old(finding.held),
        new=new,
    )


def _value(held: Held, stated: str, where: Reading, start: int) -> Json:
    """As it stands there, with the parts of the old one that it leaves alone; a number where the old one is a number, and
    yes for no."""
    old = held.candidate.value
    if held.kind == "flag":
        opposite = OPPOSITE[held.text.lower()]
        return not old if isinstance(old, bool) else opposite.title() if held.text[0].isupper() else opposite
    if not isinstance(old, int | float):
        said = next((each for each in where.by_kind.get(held.kind, ()) if each.start == start), None)
        return stated if held.whole is None or said is None else moments.completed(stated, said, held.text, held.whole)
    numbers = held.numbers(stated)
    if not numbers:
        return stated
    return int(numbers[0]) if numbers[0].is_integer() else numbers[0]


def _expired(scene: Scene, held: Held, told: str, sure: float) -> Proposal:
    candidate = held.candidate
    return Proposal(
        change="expire",
        rule="temporal",
        reason=f"{told}: {candidate.key}",
        confidence=sure,
        fact=candidate.fact,
        key=candidate.key,
        scope=candidate.scope,
        scope_id=candidate.scope_id,
        old=scene.old(held),
    )
