"""Statements of users about themselves that are certain: `my email is ada@example.com`.

They are for ended conversations, where nobody can be asked: a few attributes of a person, stated in the present, in a
short message. Whatever may be a quotation, an example, an exercise or a matter of the moment is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.model.facts.detection import MessageSpan, Observation, Proposal
from holdfast.text.detect import cue_rules
from holdfast.text.detect.scene import MessageText, Scene, earnest_moods
from holdfast.text.expressions import compile_late
from holdfast.text.values import ValueMention
from holdfast.text.words import find_words

CONFIDENCE = 0.9
MESSAGE_CHARS = 300
"""A longer message may contain the text of somebody else."""
_NOUNS = (
    r"(?:(?:first|last|middle|full|family|maiden|preferred) )?name|surname|nickname|pronouns|"
    r"(?:(?:home|work|billing|shipping|delivery|mailing|postal|street) )?address|"
    r"(?:(?:home|work|business|private|personal) )?e-?mail(?: address)?|"
    r"(?:(?:home|work|business|mobile|cell|office) )?(?:phone|mobile|cell|telephone)(?: number)?|"
    r"birthday|birth date|date of birth|time ?zone|(?:native|preferred|first) language|nationality|home ?town|"
    r"job title|employer|zip code|zip|post ?code|postal code"
)
_OPENING = (
    r"(?:(?:hi|hello|hey|ok|okay|so|and|also|well|sure|yes|thanks|actually|btw|fyi|update|correction|by the way|"
    r"for the record|for your records|just so you know|(?:please )?(?:note|remember)(?: that)?)(?:,|:|!| -)? ){0,3}"
)
_OWN = compile_late(
    rf"\W*{_OPENING}my (?:(?:new|current) )?(?P<subject>{_NOUNS})(?: is|'s|:) (?:now |currently )?".replace(" ", r"\s"),
    re.IGNORECASE,
)
_MORE = compile_late(r"(?:,?\s(?:[A-Z][\w.'-]*|\d[\w-]*)){1,8}")
"""The rest of an address or a name."""
_END = compile_late(
    r"(?:\s(?:now|from now on|by the way|btw|please)|,?\s(?:thanks|thank you))*[\s.!)]*$".replace(
        " now on", r"\snow\son"
    ),
    re.IGNORECASE,
)
_FOREIGN_TEXT = compile_late(
    r"[\"“”„«»`<>{}|]|(?:^|\s)'|\n\s*\n|(?<![\w@.])(?:translat\w*|rewrit\w*|rephras\w*|proofread\w*|paraphras\w*|draft\w*|writ\w*|"
    r"wrote|letters?|essay|story|novel|poem|song|lyrics|script|dialog(?:ue)?|example\w*|template\w*|sample|"
    r"placeholder|dummy|pretend\w*|imagin\w*|suppos\w*|role-?play\w*|act as|hypothetical\w*|assum\w*|say|says|said|"
    r"tells?|told|reads?|claims?|claimed|quote\w*|character|fiction\w*|test\w*|transcript\w*|summar\w*|regex|json|"
    r"for (?:this|the|my next|now|today)|until|till|temporar\w*|this (?:week|month|trip|order)|at the moment|"
    r"no longer|used to|not|never|isn't|old|former|previous)(?![\w@])",
    re.IGNORECASE,
)
_DOUBT = compile_late(
    r"\b(?:or|right|correct|sure|still|wrong|is it|was it|isn't it|what|which)\b(?:[^.!?]|\.(?=\w))*\?", re.IGNORECASE
)
"""A question that may be about the statement itself."""
_INTRODUCTION = compile_late(r",?\s(?:and\s)?I(?:'\w+)?\s")
"""After a name, the speaker may go on."""


def is_doubtful(text: str) -> bool:
    """Whether a message asks whether what it states is true."""
    return bool(_DOUBT.search(text))


def find_own_statements(observation: Observation) -> tuple[Proposal, ...]:
    """Find the facts that a message of the user states about the user, and that are about no known fact."""
    message = observation.message
    if message.role != "user" or len(message.text) > MESSAGE_CHARS or _FOREIGN_TEXT.search(message.text):
        return ()
    if is_doubtful(message.text):
        return ()
    scene = Scene(observation)
    return () if scene.exploration_cue else tuple(_read_sentences(scene))


def _read_sentences(scene: Scene) -> Iterator[Proposal]:
    text = scene.message.text
    for mood in earnest_moods(scene):
        match = _OWN.match(text, mood.sentence.start, mood.sentence.end)
        value = None if match is None else _find_value(scene.message, match.end())
        if match is None or value is None:
            continue
        end = _find_end(text, value.end, mood.sentence.end, match["subject"])
        subject = find_words(match["subject"])
        if end is None or any(
            cue_rules.key_share(target, {word.stem for word in subject}) >= 0.5 or target.states(value)
            for target in scene.targets
        ):
            continue
        start, end = scene.message.original_span(value.start, end)
        yield Proposal(
            change="assert",
            rule="stated",
            reason="a statement of the user about themselves",
            confidence=CONFIDENCE,
            key="_".join(word.lower.replace("-", "") for word in subject),
            value=scene.message.utterance.text[start:end],
            new=MessageSpan(0, start, end),
        )


def _find_value(message: MessageText, start: int) -> ValueMention | None:
    values = [each for each in (*message.mentions, *message.names) if each.start == start]
    return max(values, key=lambda each: each.end, default=None)


def _find_end(text: str, end: int, last: int, subject: str) -> int | None:
    """Where the value ends; None if the sentence says more."""
    if subject.lower().endswith(("address", "name")) and (more := _MORE.match(text, end, last)):
        end = more.end()
        end -= len(text[:end]) - len(text[:end].rstrip("."))
    if subject.lower().endswith("name") and _INTRODUCTION.match(text, end, last):
        return end
    return end if _END.match(text[end:last]) else None
