"""Talk that changes no fact: turns to something else, and what is only supposed or drafted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.detect import cues
from holdfast.core.detect.findings import earnest
from holdfast.core.detect.keyed import share
from holdfast.core.detect.reading import Scene
from holdfast.core.detect.words import STOP, words
from holdfast.model.detection import Proposal, Span

TOPIC_WORDS = 6
SWITCH_CHARACTERS = 200
"""From where a sentence begins: a dash that ends it may be part of the turn."""
KEY_WORDS = 4
_STATED = re.compile(
    r"\W*(?:(?:note|fyi|reminder|update)\W+)?(?:the|our|my)\s(?P<subject>(?:[\w'-]{1,30}\s){0,3}[\w'-]{1,30})\s"
    r"(?:is|are|will\sbe)\s(?:(?:at|on|in|for|by)\s)?",
    re.IGNORECASE,
)


def switches(scene: Scene) -> Iterator[Proposal]:
    """`back to the …`, `hold on: …`: the key is what it turns to, in the words said."""
    for mood in scene.said.moods:
        text = scene.said.text[mood.sentence.start : mood.sentence.start + SWITCH_CHARACTERS]
        found = cues.SWITCH.search(text)
        if found is None or mood.asking:
            continue
        group = "topic" if found["topic"] else "later_topic"
        topic = _topic(found[group])
        if not topic:
            continue
        start = mood.sentence.start + found.start(group)
        firm = found["back"] or found["later"]
        cue = " ".join((found["hold"] or found["back"] or found["later"]).lower().split())
        yield Proposal(
            change="switch",
            rule="topic",
            reason=f"{cue}: the talk turns",
            confidence=0.85 if firm else 0.7,
            key="_".join(topic),
            new=Span(0, *scene.said.span(start, start + len(found[group].rstrip()))),
        )
        return


def _topic(text: str) -> list[str]:
    return [word.lower for word in words(text) if word.lower not in STOP][:TOPIC_WORDS]


def supposed(scene: Scene) -> Iterator[Proposal]:
    """What a sentence only supposes or drafts: it is kept apart, and replaces nothing."""
    aside = exploring(scene)
    for mood in scene.said.moods:
        cue = mood.hypothetical or mood.draft or aside
        if not cue:
            continue
        text = scene.said.text[mood.sentence.start : mood.sentence.end]
        start = mood.sentence.start + len(text) - len(text.lstrip())
        end = mood.sentence.start + len(text.rstrip())
        said = [word.lower for word in words(text) if word.lower not in STOP]
        if start >= end or not {*said}.difference(cue.split()):  # a label alone drafts nothing
            continue
        start, end = scene.said.span(start, end)
        draft = bool(mood.draft) and not mood.hypothetical
        yield Proposal(
            change="assert",
            rule="draft" if draft else "hypothetical",
            reason=f"{cue}: it is only {'a draft' if draft else 'supposed'}",
            confidence=0.85,
            key="_".join(said[:KEY_WORDS]),
            value=scene.said.said.text[start:end],
            scope="draft" if draft else "hypothetical",
            new=Span(0, start, end),
        )


def exploring(scene: Scene) -> str:
    """The phrase by which the talk became one of suppositions, unless it has come back to earnest since."""
    cue = ""
    for reading in (*scene.before, scene.said):
        if cues.EARNEST.search(reading.text):
            cue = ""
        elif opened := cues.EXPLORING.search(reading.text):
            cue = " ".join(opened[0].lower().split())
    return cue


def stated(scene: Scene) -> Iterator[Proposal]:
    """What is plainly said of something that no candidate is about: `the kickoff is on Friday`."""
    for mood in earnest(scene):
        found = _STATED.match(scene.said.text, mood.sentence.start, mood.sentence.end)
        values = [each for each in (*scene.said.mentions, *scene.said.names) if found and each.start == found.end()]
        if found is None or not values:
            continue
        subject = [word.stem for word in words(found["subject"]) if word.lower not in STOP]
        if not subject or any(share(each, {*subject}) >= 0.5 or each.states(values[0]) for each in scene.held):
            continue
        start, end = scene.said.span(values[0].start, values[0].end)
        yield Proposal(
            change="assert",
            rule="stated",
            reason="it is plainly said",
            confidence=0.7,
            key="_".join(subject[:KEY_WORDS]),
            value=scene.said.said.text[start:end],
            authority=scene.authority,
            new=Span(0, start, end),
        )
