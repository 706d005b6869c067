"""Answers to an offer or a question of the assistant: `yep, do that`, `afternoon please`."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.text.detect.scene import FAIR, LIKELY, DetectedChange, MessageText, Scene, TargetFact
from holdfast.text.detect.shapes import read_value
from holdfast.text.detect.statements import compile_phrases, read_statements, sentence_at

ANSWER_WORDS = 12
"""The most words of a message that is only an answer."""
_ASSENT = compile_phrases(
    r"\W{0,10}(?:(?:oh|ah|ok(?:ay)?|great|hm+|well|sure|yes|yeah)\W{1,3}){0,2}(?:y(?:es|eah|ea|ep|up|as|ah)|"
    r"sure(?: thing)?|ok(?:ay)?|okey|perfect|great|absolutely|definitely|of course|correct|exactly|right|indeed|"
    r"go ahead|please do|do (?:it|that|so)|sounds (?:good|great|perfect|fine|right|lovely|like a plan)|works for (?:me|"
    r"us)|that works|that(?:'s| is| would be) (?:right|correct|fine|great|perfect|good|ok(?:ay)?|it)|fine(?: by me|"
    r" with me)?|let's do (?:it|that)|make it so|i'm (?:fine|good|ok(?:ay)?|happy) with (?:that|it)|confirmed|agreed|"
    r"deal|please|aye|affirmative|good idea|that'd be great|that would (?:be great|work|be perfect|do))(?!\w)"
)
RESERVATION = compile_phrases(
    r"\b(?:but|however|first|wait|not|don't|dont|no|nope|let me|later|maybe|perhaps|think|hold|until|unless|if|ask|"
    r"check|rather|instead|"
    r"though|although|actually|before|yet|sure about|can't|cannot|another|else|different|after)\b|\?"
)
_OFFER = compile_phrases(
    r"\b(?:should|shall|may|can|could|do|would|want|ought)\b|\bi(?:'ll| will| can| could)\b|\bhow about\b|\bwhat "
    r"about\b|\bso (?:i|that's|it's|your|the)\b|"
    r"\bdid you mean\b|\bdo you mean\b|\bcorrect\?|\bright\?|\bok(?:ay)?\?"
)
_OPENING = compile_phrases(
    r"\W{0,10}(?:(?:oh|ah|ok(?:ay)?|great|hm+|well|sure|yes|yeah|no|nope|sorry|actually|thanks|please|then|"
    r"in that case)\W{1,3}){0,3}(?:(?:i'd|i would|we'd|we would|i'll|i will|we'll|we will|i|we|let's|lets|let us|"
    r"please|pls|just|can we|could we)\s){0,2}(?:(?:like|want|prefer|rather have|rather|love|take|have|do|use|pick|"
    r"choose|go with|go for|stay at|stay in|be at|make it|say|book|go to|make that|change it to|put|set it to|it's|its|"
    r"it is|it should be|that's)\s){0,2}(?:(?:at|on|in|to|for|by|the|a|an|my|around)\s){0,2}"
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
    r"yeah|yes please|please do|sure)(?: please| thanks| thank you)?[\s.!]{0,5}$"
)
_WHETHER = compile_phrases(
    r"\b(?:do|would|will|are) you (?:still |really |also )?(?:want|like|need|prefer|wish|keen)|\b(?:should|shall) (?:i|"
    r"we) (?:keep|continue|include|add|send|leave|enable|turn on)"
)
_AGAINST = compile_phrases(
    r"\b(?:cancel|stop|remove|turn off|disable|without|unsubscribe|drop|skip|delete|not|no|end|quit|or|change|"
    r"different|bigger|smaller|another|else)\b|n't\b"
)
_GOES_ON = compile_phrases(r"[.!]{1,3} +(?=\S)")
_SECOND_THOUGHT = compile_phrases(r"\b(?:but|wait|actually|or|maybe|not sure|hmm+|instead|rather|unless|if)\b|\?")


def find_answers(scene: Scene) -> Iterator[DetectedChange]:
    last = scene.last_reply
    if last is None or scene.message.utterance.role != "user":
        return
    if _DENIES.match(scene.message.text) and len(scene.message.words) <= ANSWER_WORDS and "?" not in scene.message.text:
        yield from _find_correction(scene)
    if "?" not in last.text:
        return
    yield from _find_decision(scene, last)
    if _ASSENT.match(scene.message.text) and not RESERVATION.search(scene.message.text):
        offers = [*_find_agreement(scene, last)]
        yield from offers
        if not offers and len(scene.message.words) <= ANSWER_WORDS:
            yield from _find_answer(scene, last)
    elif len(scene.message.words) <= ANSWER_WORDS and "?" not in scene.message.text:
        yield from _find_answer(scene, last)


def _find_correction(scene: Scene) -> Iterator[DetectedChange]:
    """`no no, O negative!`: a new value for the only fact with such a value in the last message."""
    opening = _OPENING.match(scene.message.text)
    index = len(scene.previous) - 1
    targets = [
        target
        for target in scene.targets
        if not target.domain and any(occurrence.index == index for occurrence in target.occurrences)
    ]
    matches = []
    for target in targets:
        value = read_value(target, scene.message, opening.end(), len(scene.message.text)) if opening else None
        if value is not None and not value.doubted and _CLOSING.match(scene.message.text, value.end):
            matches.append((target, value))
    if len(matches) == 1 and matches[0][1].certain:
        target, value = matches[0]
        yield DetectedChange(
            target, "supersede", "explicit", "no", LIKELY, (value.start, value.end), value=value.full_text
        )


def _find_decision(scene: Scene, last: MessageText) -> Iterator[DetectedChange]:
    """`nope` to a yes-or-no question about a boolean."""
    answer = _YES_OR_NO.match(scene.message.text)
    question = next((mood.sentence for mood in reversed(last.moods) if mood.sentence.is_question), None)
    if answer is None or question is None or not _WHETHER.search(last.text, question.start, question.end):
        return
    if _AGAINST.search(last.text, question.start, question.end):
        return
    targets = [
        phrase.target
        for phrase in scene.key_phrases(last)
        if question.start <= phrase.start < question.end and not phrase.is_foreign and not phrase.target.domain
    ]
    flag = targets[0].value if len({*targets}) == 1 and targets[0].kind == "flag" else None
    if flag is not None and bool(flag.norm[0]) == bool(answer["no"]):
        yield DetectedChange(targets[0], "supersede", "explicit", "answered", LIKELY, answer.span())


def _find_agreement(scene: Scene, last: MessageText) -> Iterator[DetectedChange]:
    """The message agrees to what the assistant offered."""
    offers = []
    for statement in read_statements(scene, last):
        sentence = sentence_at(last, statement.start)
        if sentence is None or not sentence.is_question:
            continue
        if _OFFER.search(last.text, sentence.start, sentence.end):
            offers.append(statement)
    if len({offer.target for offer in offers}) != len(offers):
        return
    for offer in offers:
        span = None if offer.value is None else (offer.value.start, offer.value.end)
        yield DetectedChange(
            offer.target, offer.change, "explicit", "agreed", LIKELY if offer.certain else FAIR, span, last
        )


def _find_answer(scene: Scene, last: MessageText) -> Iterator[DetectedChange]:
    """The message is only a value that answers a question about one fact."""
    targets = _find_question_targets(scene, last)
    opening = _OPENING.match(scene.message.text)
    if len(targets) != 1 or opening is None:
        return
    target = targets[0]
    value = read_value(target, scene.message, opening.end(), len(scene.message.text), is_request=True)
    if value is None or value.doubted or not _is_complete(scene, target, value.end):
        return
    if value.certain or scene.message.lower[value.start : value.end] in last.lower:
        yield DetectedChange(
            target, "supersede", "explicit", "answered", LIKELY, (value.start, value.end), value=value.full_text
        )


def _find_question_targets(scene: Scene, last: MessageText) -> list[TargetFact]:
    """The facts that a question of the assistant is about."""
    targets = [
        phrase.target
        for phrase in scene.key_phrases(last)
        if not phrase.is_foreign and not phrase.target.domain and (phrase.share == 1 or phrase.has_head)
    ]
    return list(dict.fromkeys(targets))


def _is_complete(scene: Scene, target: TargetFact, end: int) -> bool:
    """Whether the text behind a value is empty or about other facts."""
    text = scene.message.text
    if _CLOSING.match(text, end):
        return True
    if not _GOES_ON.match(text, end) or _SECOND_THOUGHT.search(text, end):
        return False
    return not any(phrase.target is target and phrase.start >= end for phrase in scene.key_phrases(scene.message))
