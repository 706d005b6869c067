"""Which of what was said has to do with a question.

Laws: the same items, question and facts give the same answer; an item is in or out as a whole, and a turn's reply with what
it replies to; what is left out says why. Nothing is left out for the words that it has, only for what it does: it stands
in an aside that the talk came back from, it only supposes, something later or a fact says otherwise, or it is old and has
nothing in common with what is asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.core.detect import cues
from holdfast.core.detect.words import FILLING, STOP, sentences, words
from holdfast.core.infer import text_of
from holdfast.model.facts import Fact
from holdfast.model.messages import Item, Summary
from holdfast.model.pack import Profile

Choice = tuple[bool, float, str]
"""In or out, how well it fits, and why, in words."""

READ_CHARACTERS = 4_000
"""Of one item: what it is about is said by then."""
NEAR_TURNS = 24
"""So many of the newest turns are in if nothing speaks against them; what is older has to fit."""
SHARED = 2
"""So many words in common make two statements speak of the same thing, and so large a part of the earlier one's:"""
SHARED_PART = 0.25
ALIKE = 5
"""Words are of one kind if they begin with the same so many letters."""
SAID_PART = 0.8
"""A statement is held by a fact if the fact has so large a part of its words."""

_SPEAKER = re.compile(r"\s*\[[^\]\n]{1,80}\]\s?:?\s")
"""Who speaks, where several do."""
_UPDATE = re.compile(r"\W*(?:update|correction|latest|breaking|news)\b\s?[:–—-]", re.IGNORECASE)
_WAS = re.compile(
    r"\b(?:original(?:ly)?|initial(?:ly)?|previous(?:ly)?|formerly|at first|used to|no longer|the old|earlier plan|"
    r"(?:was|were|had been) (?:considered|planned|going to|supposed|scheduled|set))\b",
    re.IGNORECASE,
)
"""It is told what was."""
_NAME = re.compile(r"#?(?:\b[A-Z]\w*[A-Z0-9]\w*|\b[A-Z][\w&'-]+|\b\w*\d[\w.%-]*)")


class _Said(msgspec.Struct, frozen=True):
    """An item as it is read."""

    at: int
    turn: int
    text: str
    stems: frozenset[str]
    role: str
    moods: tuple[cues.Mood, ...]


def relevant(items: Sequence[Item], query: str, facts: Sequence[Fact], profile: Profile) -> list[Choice]:
    """For each item: whether it is in, how well it fits the question, and why."""
    said = _read(items)
    asked = _asked(query, said, facts)
    scores = [asked.fit(each.stems) for each in said]
    last = max((each.turn for each in said), default=0)
    aside, supposed = _asides(said, scores), _supposed(said, query)
    choices: list[Choice] = []
    for item, each, score in zip(items, said, scores, strict=True):
        out = ""
        if isinstance(item, Summary):
            choices.append((True, score, "what came before, in short"))
            continue
        if item_waits(item):
            choices.append((True, score, "a call waits for its result"))
            continue
        newest = each.turn > last - profile.recent_turns
        if each.at in supposed:
            out = supposed[each.at]
        elif each.at in aside and not newest:
            out = "an aside that the talk came back from"
        elif by := _set_right(each, said):
            out = f"{by} says otherwise"
        elif fact := _past(each, facts):
            out = f"tells what was: {fact.id} says what is"
        elif each.turn <= last - NEAR_TURNS and score <= 0:
            out = "has nothing in common with the question"
        why = "one of the newest turns" if newest else f"fits the question ({score:.2f})" if score else "the same talk"
        choices.append((not out, score, out or why))
    return choices


def item_waits(item: Item) -> bool:
    return not isinstance(item, Summary) and item.open


# Reading


def _read(items: Sequence[Item]) -> list[_Said]:
    said: list[_Said] = []
    turn = 0
    for at, item in enumerate(items):
        if isinstance(item, Summary):
            text, role = item.text, "summary"
        else:
            turn += item.starts_turn
            text = "\n".join(message.text for message in item.messages)
            role = item.messages[0].role or ""
        text = _SPEAKER.sub("", text[:READ_CHARACTERS], count=1) if _SPEAKER.match(text) else text[:READ_CHARACTERS]
        moods = tuple(cues.moods(text)) if role in ("user", "assistant") else ()
        said.append(_Said(at, turn, text, frozenset(stems(text)), role, moods))
    return said


def stems(text: str) -> list[str]:
    """What a text is about: its words, without those that any may have."""
    return [
        word.stem
        for word in words(text)
        if word.lower not in STOP and word.lower not in FILLING and (len(word.stem) > 1 or word.stem.isdigit())
    ]


def _alike(one: str, other: str) -> bool:
    return one == other or (len(one) >= ALIKE and len(other) >= ALIKE and one[:ALIKE] == other[:ALIKE])


def shared(one: Iterable[str], other: Iterable[str]) -> list[str]:
    """Those of the first that are of a kind with one of the second."""
    others = [*other]
    return [each for each in one if any(_alike(each, that) for that in others)]


class _Asked:
    """What is asked: the words of the question, those that few items have for more; and those of facts that fit it."""

    def __init__(self, own: frozenset[str], beside: frozenset[str], common: Counter[str], total: int) -> None:
        self._own, self._beside = own, beside
        self._common, self._total = common, total
        self._most = sum(self._weight(each) for each in sorted(own)) or 1.0

    def _weight(self, stem: str) -> float:
        return math.log(1 + (self._total + 1) / (self._common[stem] + 1))

    def fit(self, found: frozenset[str]) -> float:
        own = sum(self._weight(each) for each in sorted(self._own) if shared([each], found))
        beside = sum(self._weight(each) for each in sorted(self._beside & found))
        return round(min(1.0, (own + beside / 4) / self._most), 6)


def _asked(query: str, said: Sequence[_Said], facts: Sequence[Fact]) -> _Asked:
    own = frozenset(stems(query[:READ_CHARACTERS]))
    common = Counter(stem for each in said for stem in each.stems)
    beside: set[str] = set()
    for fact in facts:
        found = frozenset(stems(f"{fact.key.replace('_', ' ')} {text_of(fact.value)[:READ_CHARACTERS]}"))
        if own & found:
            beside |= found
    return _Asked(own, frozenset(beside - own), common, len(said))


# What speaks against an item


def _asides(said: Sequence[_Said], scores: Sequence[float]) -> set[int]:
    """What was said from `hold on …` to `back to …`, unless it fits the question better than the rest does."""
    found: set[int] = set()
    opened: list[int] | None = None
    for each in said:
        turn = _turns(each)
        if opened is not None and turn == "back":
            others = [scores[one.at] for one in said if one.at not in opened]
            if max((scores[at] for at in opened), default=0.0) <= max(others, default=0.0):
                found |= {*opened}
            opened = None
        elif turn == "hold" and each.role == "user":
            opened = [*(opened or ()), each.at]
        elif opened is not None:
            opened.append(each.at)
    return found


def _turns(each: _Said) -> str:
    """Whether the talk turns away here, or back; empty if it does neither."""
    if each.role != "user":
        return ""
    for sentence in sentences(each.text):
        found = cues.SWITCH.search(each.text[sentence.start : sentence.start + 200])
        if found is not None:
            return "hold" if found["hold"] else "back"
    return ""


def _supposed(said: Sequence[_Said], query: str) -> dict[int, str]:
    """What is only supposed or drafted, unless that is what the question is about."""
    if cues.HYPOTHETICAL.search(query) or cues.DRAFT.search(query) or cues.EXPLORING.search(query):
        return {}
    found: dict[int, str] = {}
    exploring = False
    for each in said:
        if each.role not in ("user", "assistant"):
            continue
        if cues.EARNEST.search(each.text):
            exploring = False
        elif cues.EXPLORING.search(each.text):
            exploring = True
        told = [mood for mood in each.moods if words(each.text[mood.sentence.start : mood.sentence.end])]
        if exploring:
            found[each.at] = "only supposed: the talk was of what might be"
        elif told and all(mood.hypothetical or mood.draft for mood in told):
            found[each.at] = f"only supposed: {next(mood.hypothetical or mood.draft for mood in told)}"
    return found


def _set_right(each: _Said, said: Sequence[_Said]) -> str:
    """The later item that says otherwise of the same thing; empty if none does."""
    if each.role not in ("user", "assistant"):
        return ""
    for later in said[each.at + 1 :]:
        if later.role == "user" and _UPDATE.match(later.text) and same_thing(each.stems, later.stems):
            return "a later update"
    return ""


def same_thing(earlier: Iterable[str], later: Iterable[str]) -> bool:
    """Whether two statements speak of the same thing, as far as their words tell."""
    own = [*earlier]
    common = shared(own, later)
    return len(common) >= SHARED and len(common) >= SHARED_PART * len(own)


def _past(each: _Said, facts: Sequence[Fact]) -> Fact | None:
    """The fact that says what is, where an item tells what was and what is."""
    if each.role not in ("user", "assistant") or not _WAS.search(each.text):
        return None
    lower = each.text.lower()
    for fact in facts:
        value = " ".join(text_of(fact.value)[:READ_CHARACTERS].lower().split())
        if len(value) > 2 and not fact.claim and value in lower:
            return fact
    return None
