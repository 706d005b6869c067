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
    r"indeed|go ahead|please do|do (?:it|that|so)|sounds (?:good|great|perfect|fine|right|lovely|like a plan)|works "
    r"for "
    r"(?:me|us)|that works|"
    r"that(?:'s| is| would be) (?:right|correct|fine|great|perfect|good|ok(?:ay)?|it)|fine(?: by me| with me)?|"
    r"let's do "
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
    r"(?: ones?\b)?[\s.,!]*(?:(?:please|pls|plz|thanks|thank you|thx|cheers|ta|then|instead|now|for me|works best|"
    r"(?:is|would be|will be|works|sounds|suits|seems) (?:best|better|great|good|fine|perfect|ideal|nice|me|us)|"
    r"sounds good|it is|if possible|if you can|that works|would work|suits me(?: better)?)[\s.,!]*){0,3}$"
)


_DENIES = compile_phrases(
    r"\W{0,10}(?:no|nope|nah|wrong|incorrect|not quite|actually|sorry|correction|oops|that's wrong|that's not "
    r"right)(?!\w)"
)
_YES_OR_NO = compile_phrases(
    r"\W{0,10}(?:(?P<no>no|nope|nah|no thanks|no thank you|not any ?more|no longer|please don't|rather not)|yes|yep|"
    r"yeah|yes "
    r"please|please do|sure)(?: please| thanks| thank you)?[\s.!]{0,5}$"
)
_WHETHER = compile_phrases(
    r"\b(?:do|would|will|are) you (?:still |really |also )?(?:want|like|need|prefer|wish|keen)|\b(?:should|shall) "
    r"(?:i|we) "
    r"(?:keep|continue|include|add|send|leave|enable|turn on)"
)
_AGAINST = compile_phrases(
    r"\b(?:cancel|stop|remove|turn off|disable|without|unsubscribe|drop|skip|delete|not|no|end|quit|or|change|"
    r"different|bigger|"
    r"smaller|another|else)\b|n't\b"
)
_GOES_ON = compile_phrases(r"[.!]{1,3} +(?=\S)")
_RETHINKS = compile_phrases(r"\b(?:but|wait|actually|or|maybe|not sure|hmm+|instead|rather|unless|if)\b|\?")


def find_answers(scene: Scene) -> Iterator[Finding]:
    last = scene.last
    if last is None or scene.said.said.role != "user":
        return
    if _DENIES.match(scene.said.text) and len(scene.said.words) <= ANSWER_WORDS and "?" not in scene.said.text:
        yield from _set_right(scene)
    if "?" not in last.text:
        return
    yield from _decided(scene, last)
    if _ASSENT.match(scene.said.text) and not RESERVE.search(scene.said.text):
        offers = [*_agreed(scene, last)]
        yield from offers
        if not offers and len(scene.said.words) <= ANSWER_WORDS:
            yield from _answered(scene, last)
    elif len(scene.said.words) <= ANSWER_WORDS and "?" not in scene.said.text:
        yield from _answered(scene, last)


def _set_right(scene: Scene) -> Iterator[Finding]:
    """`no no, O negative!`: another value for the one thing with such a value that was just stated."""
    opening = _OPENING.match(scene.said.text)
    index = len(scene.before) - 1
    stated = [held for held in scene.held if not held.domain and any(each.index == index for each in held.places)]
    found = []
    for held in stated:
        value = whole_value(held, scene.said, opening.end(), len(scene.said.text)) if opening else None
        if value is not None and not value.doubted and _CLOSING.match(scene.said.text, value.end):
            found.append((held, value))
    if len(found) == 1 and found[0][1].certain:
        held, value = found[0]
        yield Finding(held, "supersede", "explicit", "no", LIKELY, (value.start, value.end), value=value.whole)


def _decided(scene: Scene, last: Reading) -> Iterator[Finding]:
    """`nope` to whether something is to be so."""
    found = _YES_OR_NO.match(scene.said.text)
    question = next((mood.sentence for mood in reversed(last.moods) if mood.sentence.question), None)
    if found is None or question is None or not _WHETHER.search(last.text, question.start, question.end):
        return
    if _AGAINST.search(last.text, question.start, question.end):
        return
    asked = [
        each.held
        for each in scene.subjects(last)
        if question.start <= each.start < question.end and not each.foreign and not each.held.domain
    ]
    flag = asked[0].whole if len({*asked}) == 1 and asked[0].kind == "flag" else None
    if flag is not None and bool(flag.norm[0]) == bool(found["no"]):
        yield Finding(asked[0], "supersede", "explicit", "answered", LIKELY, found.span())


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
    if value is None or value.doubted or not _is_all(scene, held, value.end):
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


def _is_all(scene: Scene, held: Held, end: int) -> bool:
    """Whether nothing behind a value takes it back: it ends the text, or the rest is about other things."""
    text = scene.said.text
    if _CLOSING.match(text, end):
        return True
    if not _GOES_ON.match(text, end) or _RETHINKS.search(text, end):
        return False
    return not any(each.held is held and each.start >= end for each in scene.subjects(scene.said))
