"""Answers to what the other side has just offered or asked: `yep, do that`, `afternoon please`."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.detect.findings import FAIR, LIKELY, Finding
from holdfast.core.detect.reading import Held, Reading, Scene
from holdfast.core.detect.shapes import whole_value
from holdfast.core.detect.statements import compile_phrases, read_statements, sentence_at

ANSWER_WORDS = 12
"""A longer text is more than an answer."""

_ASSENT = compile_phrases(
    r"\W{0,10}(?:(?:oh|ah|ok(?:ay)?|great|hm+|well|sure|yes|yeah)\W{1,3}){0,2}(?:"
    r"y(?:es|eah|ea|ep|up|as|ah)|sure(?: thing)?|ok(?:ay)?|okey|perfect|great|absolutely|definitely|of course|correct|"
    r"exactly|right|"
    r"indeed|go ahead|please do|do (?:it|that|so)|sounds (?:good|great|perfect|fine|right|lovely|like a plan)|works for "
    r"(?:me|us)|that works|"
    r"that(?:'s| is| would be) (?:right|correct|fine|great|perfect|good|ok(?:ay)?|it)|fine(?: by me| with me)?|let's do "
    r"(?:it|that)|"
    r"make it so|i'm (?:fine|good|ok(?:ay)?|happy) with (?:that|it)|confirmed|agreed|deal|please|aye|affirmative|good "
    r"idea|that'd be great|"
    r"that would (?:be great|work|be perfect|do))(?!\w)"
)
RESERVE = compile_phrases(
    r"\b(?:but|however|first|wait|not|don't|dont|no|nope|let me|later|maybe|perhaps|think|hold|until|unless|if|ask|"
    r"check|rather|instead|"
    r"though|although|actually|before|yet|sure about|can't|cannot|another|else|different|after)\b|\?"
)
_OFFERING = compile_phrases(
    r"\b(?:should|shall|may|can|could|do|would|want|ought)\b|\bi(?:'ll| will| can| could)\b|\bhow about\b|\bwhat "
    r"about\b|\bso (?:i|that's|it's|your|the)\b|"
    r"\bdid you mean\b|\bdo you mean\b|\bcorrect\?|\bright\?|\bok(?:ay)?\?"
)
_OPENING = compile_phrases(
    r"\W{0,10}(?:(?:oh|ah|ok(?:ay)?|great|hm+|well|sure|yes|yeah|no|nope|sorry|actually|thanks|please|then|in that "
    r"case)\W{1,3}){0,3}"
    r"(?:(?:i'd|i would|we'd|we would|i'll|i will|we'll|we will|i|we|let's|lets|let us|please|pls|just|can we|could "
    r"we)\s){0,2}"
    r"(?:(?:like|want|prefer|rather have|rather|love|take|have|do|use|pick|choose|go with|go for|stay at|stay in|be at|"
    r"make it|say|book|"
    r"go to|make that|change it to|put|set it to|it's|its|it is|it should be|that's)\s){0,2}"
    r"(?:(?:at|on|in|to|for|by|the|a|an|my|around)\s){0,2}"
)
_CLOSING = compile_phrases(
    r"[\s.,!]*(?:(?:please|pls|plz|thanks|thank you|thx|cheers|ta|then|instead|now|for me|works best|is fine|is better|"
    r"would be great|would be better|"
    r"sounds good|it is|if possible|if you can|that works|would work|suits me(?: better)?)[\s.,!]*){0,3}$"
)


def find_answers(scene: Scene) -> Iterator[Finding]:
    last = scene.last
    if last is None or "?" not in last.text or scene.said.said.role != "user":
        return
    if _ASSENT.match(scene.said.text) and not RESERVE.search(scene.said.text):
        yield from _agreed(scene, last)
    elif len(scene.said.words) <= ANSWER_WORDS and "?" not in scene.said.text:
        yield from _answered(scene, last)


def _agreed(scene: Scene, last: Reading) -> Iterator[Finding]:
    """What was offered is agreed to."""
    offers = []
    for statement in read_statements(scene, last):
        sentence = sentence_at(last, statement.start)
        if sentence is None or not sentence.question:
            continue
        if _OFFERING.search(last.text, sentence.start, sentence.end):
            offers.append(statement)
    if len({each.held for each in offers}) != len(offers):
        return
    for each in offers:
        place = None if each.value is None else (each.value.start, each.value.end)
        yield Finding(each.held, each.change, "explicit", "agreed", LIKELY if each.certain else FAIR, place, last)


def _answered(scene: Scene, last: Reading) -> Iterator[Finding]:
    """A value of the right shape and nothing else, in answer to a question about one fact."""
    asked = _asked_for(scene, last)
    opening = _OPENING.match(scene.said.text)
    if len(asked) != 1 or opening is None:
        return
    held = asked[0]
    value = whole_value(held, scene.said, opening.end(), len(scene.said.text), asked=True)
    if value is None or not _CLOSING.match(scene.said.text, value.end):
        return
    if value.certain or scene.said.lower[value.start : value.end] in last.lower:
        yield Finding(held, "supersede", "explicit", "answered", LIKELY, (value.start, value.end), value=value.whole)


def _asked_for(scene: Scene, last: Reading) -> list[Held]:
    """The facts that a question is about."""
    found = [
        each.held
        for each in scene.subjects(last)
        if not each.foreign and not each.held.domain and (each.share == 1 or each.head)
    ]
    return list(dict.fromkeys(found))
