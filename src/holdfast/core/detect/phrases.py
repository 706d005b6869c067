"""The phrase that a sentence puts forward as a value, by the frame it stands in: `make it …`, `go with …`, `is now …`."""

from __future__ import annotations

import re

from holdfast.core.detect import moments
from holdfast.core.detect.cues import Mood
from holdfast.core.detect.reading import Held, Scene
from holdfast.core.detect.words import FILLING, STOP, words
from holdfast.core.values import name_norm

Place = tuple[int, int]
"""Characters of the message observed."""

_END = (
    r"(?=\s*(?:$|[,;.!?\n(]|\b(?:instead|now|please|because|since|due to|as of|from now|but|then|so|for the|for now|"
    r"rather than|going forward|effective|if|when|where|which|that|and)\b))"
)
_PHRASE = r"(?P<new>[^,;!?\n(]{1,80}?)" + _END
_VERB = (
    r"(?:chang|switch|mov|updat|set|revert|redirect|send|ship|deliver|reschedul|push|transfer|reassign|postpon|shift|"
    r"bump|rais|lower|reduc|cut|increas|adjust|revis|amend|delay|extend)(?:e|ed|es|ing|s|t|ting)?"
)
_WE = r"(?:let's|let us|we'll|we will|we're|we are|i'll|i will|i'd|i would|please)"
_TAKE = (
    r"(?:try(?:ing)?|do(?:ing)?|us(?:e|ing)|go(?:ing)? with|proceed(?:ing)? with|prefer|pick|choose|take|adopt|"
    r"hav(?:e|ing))"
)
_BETWEEN = r"(?:(?:it|that|this|them|back|over|[\w'-]{1,20}(?: [\w'-]{1,20}){0,5}?) ){0,2}?"
_DIRECT = (
    r"\b" + _VERB + r" " + _BETWEEN + r"to " + _PHRASE,
    r"\bmake (?:it|that|them) (?:(?:for|at|on) )?" + _PHRASE,
    r"\b" + _WE + r" (?:(?:be|just|rather) )?" + _TAKE + r" " + _PHRASE,
    r"\bback to " + _PHRASE,
    r"\b(?:prefer|rather have|use|choose|take|go with) " + _PHRASE,
    r"\b(?:i'm|we're|it's|i am|we are|it is) (?P<new>[\w'-]{1,30}(?: [\w'-]{1,30}){0,3}?)(?<! for) now\b",
)
"""They put something forward."""
_STATING = (
    r"(?:\b(?:is|are|will be|should be|has been|stands at)|'s) (?:(?:now|actually|officially|currently) )?" + _PHRASE,
    r": (?:now )?" + _PHRASE,
)
"""They only say how things are."""
_FRAMES = [re.compile(each.replace(" ", r"\s"), re.IGNORECASE) for each in (*_DIRECT, *_STATING)]
_LEADING = re.compile(r"(?:now|actually|just|only|currently|officially|about|around|at|on|in|for|by)\s", re.IGNORECASE)
_LEADING_ON = re.compile(r"(?:\s+(?:at|on|in|by|for|from|to|of|with|and|or|but|as|until|than|the|an|is|are|was))+$")
_DEFINITE = re.compile(r"(?:the|our|my|this|that)\s", re.IGNORECASE)
"""What is done at a time, where a time is put forward."""
_NO_VALUE = re.compile(
    r"(?:to|it|that|this|them|me|you|us|not|all|everything|going|staying|able|sure|there|here|ahead|looking|trying|"
    r"just|onto)\b",
    re.IGNORECASE,
)


def phrase(scene: Scene, mood: Mood, *, direct: bool = False) -> Place | None:
    """Where a sentence states what it puts forward, up to a date or another value that only says when."""
    key = (mood.sentence.start, direct)
    if key not in scene.phrases:
        scene.phrases[key] = _phrase(scene, mood, direct=direct)
    return scene.phrases[key]


def _phrase(scene: Scene, mood: Mood, *, direct: bool) -> Place | None:
    sentence = mood.sentence
    text = scene.said.text[sentence.start : sentence.end]
    for frame in _FRAMES[: len(_DIRECT)] if direct else _FRAMES:
        match = frame.search(text)
        if match is None:
            continue
        start, stated = match.start("new"), match["new"]
        while leading := _LEADING.match(stated):
            start, stated = start + leading.end(), stated[leading.end() :]
        start += sentence.start
        first = _value_at(scene, start)
        cut = next((each for each in scene.said.mentions if first < each.start < start + len(stated)), None)
        if cut is not None and cut.kind in {"date", "time"} and _DEFINITE.match(stated):
            continue
        stated = trimmed((stated if cut is None else stated[: cut.start - start]).rstrip(" -–—\"'"))
        if _says_something(stated):
            return start, start + len(stated)
    return None


def _value_at(scene: Scene, start: int) -> int:
    """Where the value that begins at a place ends, with all that belongs to it; the place itself if none does."""
    for each in (*scene.said.by_kind.get("moment", ()), *scene.said.mentions):
        if each.start == start:
            return moments.tail(scene.said.text, each) or each.end
    return start


def trimmed(stated: str) -> str:
    """Without the words at the end that only lead on to something else."""
    return _LEADING_ON.sub("", stated)


def leads_on(stated: str) -> bool:
    return _LEADING_ON.search(stated) is not None


def _says_something(stated: str) -> bool:
    """Whether a phrase may be a value: no verb's infinitive, and not all filling."""
    if not stated or _NO_VALUE.match(stated):
        return False
    return any(word.lower not in STOP and word.lower not in FILLING for word in words(stated))


def repeats(scene: Scene, held: Held, new: Place) -> bool:
    """Whether a phrase says what the candidate says already."""
    stated = norms(scene, new)
    return not stated or stated <= held.norms or held.norms <= stated


def norms(scene: Scene, new: Place) -> frozenset[str]:
    """The words of a phrase, as they are compared; told once."""
    if new not in scene.norms:
        scene.norms[new] = frozenset(map(str, name_norm(scene.said.text[new[0] : new[1]])))
    return scene.norms[new]


def names_another(scene: Scene, held: Held, new: Place) -> bool:
    """Whether a phrase names the key of another candidate, as `Spanish subtitles` does that of a language of subtitles."""
    stems = {word.stem for word in scene.said.behind(*new)}
    return stems.isdisjoint(held.key.telling) and any(word in scene.telling for word in stems)
