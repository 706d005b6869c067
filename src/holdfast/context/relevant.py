"""Which of what was said, and of what was observed, has to do with a question.

Laws: the same items, question and facts give the same answer; an item is in or out as a whole; what is left out says why;
a call that waits for its result and a summary are never left out, and neither is the newest turn for what it tells of.
Nothing is left out for its words alone, only for what it does: it stands in an aside that the talk came back from, it only
supposes, something later or a fact says what is so instead, it replies to such a thing, or it is old and has nothing in
common with what is asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from holdfast.core import values
from holdfast.core.detect import cues
from holdfast.core.detect.words import FILLING, STOP, sentences, word_set, words
from holdfast.core.guard import MARKER
from holdfast.core.infer import text_of
from holdfast.core.stems import stem
from holdfast.model.facts import Fact
from holdfast.model.messages import Item, Summary
from holdfast.model.pack import Profile

Choice = tuple[bool, float, str]
"""In or out, how well it fits, and why, in words."""

READ_CHARACTERS = 4_000
"""Of one item: what it is about is said by then."""
NEAR_TURNS = 24
"""So many of the newest turns are in if nothing speaks against them; what is older has to fit."""
SHARED_WORDS, SHARED_PART = 2, 0.2
"""Two statements tell of the same thing if they have so many words in common, and so large a part of the earlier one's."""
SHORT_WORDS = 12
"""A statement that gives way to a later one has no more words that tell something: a longer one tells more than that."""
LEFT_WORDS = 5
"""What is left of a message without its dead statements says nothing of its own if it has no more words, and no value."""
FEW_FACTS = 20
"""So many facts are in whether they fit the question or not; and so many are at most kept together by their keys."""
FIT_PART = 0.15
"""A fact fits if it has so large a part of the question's words, rare ones for more."""
ALIKE = 5
"""Words are of one kind if they begin with the same so many letters."""
SWITCH_CHARACTERS = 200
"""From where a sentence begins: a dash that ends it may be part of the turn."""

_SPEAKER = re.compile(r"\s{0,9}\[(?P<who>[^\]\n]{1,80})\]\s?:?\s")
"""Who speaks, where several do."""
_MARKER = re.compile(rf"{MARKER.pattern}|\[…\]")
"""What the guard puts in, and what stands for something that was cut."""
_NAMED = re.compile(r"(?<=[\w,;'’)] )[A-Z]\w")
"""A name, where no sentence begins."""
_NAME = re.compile(r"\b(?:[A-Z][\w&-]{2,}|\w*\d\w{2,}|\w{2,}\d\w*)")
_COUNTED = word_set("many much per often long far")
"""Words that ask how much of something, and are not what is asked about."""
_WAS_WRONG = re.compile(
    r"\b((?:[\w'’]{1,30} ){0,2}[\w'’]{1,30}) (?:was|were|is) (?:also |both )?(?:wrong|incorrect|mistaken)\b"
)
"""Someone was wrong."""
_UPDATE = re.compile(r"\W{0,20}(?:update|correction|latest|news)\s?[:–—-]", re.IGNORECASE)
_WAS = re.compile(
    r"\b(?:original(?:ly)?|initial(?:ly)?|previous(?:ly)?|formerly|at first|used to|no longer|the old|"
    r"(?:was|were|had been)\s(?:considered|planned|going to|supposed|scheduled|set))\b",
    re.IGNORECASE,
)
"""It is told what was."""


class _Said(msgspec.Struct, frozen=True):
    """An item as it is read."""

    at: int
    turn: int
    text: str
    stems: frozenset[str]
    role: str
    """`calls` for a group of calls, and `summary`."""
    moods: tuple[cues.Mood, ...]
    speaker: str = ""
    """Who says it, where several speak."""

    @property
    def is_talk(self) -> bool:
        return self.role in ("user", "assistant")


def relevant(items: Sequence[Item], query: str, facts: Sequence[Fact], profile: Profile) -> list[Choice]:
    """For each item, as it is shown: whether it is in, how well it fits the question, and why."""
    said = _read(items)
    asked = _asked(query, said, facts)
    scores = [asked.fit(each.stems) for each in said]
    last = max((each.turn for each in said), default=0)
    out = _given_way(said, facts) | _supposed(said, query)
    newest = {each.at for each in said if each.turn > last - profile.recent_turns}
    for at in _asides(said, scores) - newest:
        out.setdefault(at, "an aside that the talk came back from")
    for each in said:
        if each.turn <= last - NEAR_TURNS and scores[each.at] <= 0 and each.at not in newest:
            out.setdefault(each.at, "has nothing in common with the question")
    out |= _replies(said, out)
    choices: list[Choice] = []
    for item, each in zip(items, said, strict=True):
        score = scores[each.at]
        if isinstance(item, Summary):
            choices.append((True, score, "what came before, in short"))
        elif item.open:
            choices.append((True, score, "a call waits for its result"))
        elif each.at in out:
            choices.append((False, score, out[each.at]))
        elif each.at in newest:
            choices.append((True, score, "one of the newest turns"))
        else:
            choices.append((True, score, f"fits the question ({score:.2f})" if score else "belongs to the talk"))
    return choices


def outdated(signals: Sequence[tuple[str, int]]) -> list[int | None]:
    """For each thing that was observed, with the time at which it was: the place of a newer one that tells of the same
    thing; None if there is none."""
    read = [[*dict.fromkeys(stems(text[:READ_CHARACTERS]))] for text, _ in signals]
    found: list[int | None] = []
    for at, (_, seen) in enumerate(signals):
        newer = [
            other for other, (_, since) in enumerate(signals) if since > seen and same_thing(read[at], read[other])
        ]
        found.append(max(newer, key=lambda other: (signals[other][1], other), default=None))
    return found


def fitting_facts(query: str, facts: Sequence[Fact], said: Sequence[str]) -> list[str]:
    """For each fact: why it is in beside a question and what was said; empty for one that is not.

    Where there are few, all are. Of many, those are that have enough of the question's words, those that the talk tells or
    shares a name with that few of them have, and those whose keys begin as one of these does."""
    spoken = [_spoken(text[:READ_CHARACTERS]) for text in said]
    disowned = {" ".join(spoken[at][1].split()) for at in sorted(_wrong(spoken))}
    found = _fitting(query, facts, said)
    return [
        "" if " ".join(text_of(fact.value).split()) in disowned else why for fact, why in zip(facts, found, strict=True)
    ]


def _fitting(query: str, facts: Sequence[Fact], said: Sequence[str]) -> list[str]:
    if len(facts) <= FEW_FACTS:
        return ["there are few"] * len(facts)
    texts = [f"{fact.key.replace('_', ' ')} {text_of(fact.value)[:READ_CHARACTERS]}" for fact in facts]
    read = [frozenset(stems(text)) for text in texts]
    asked = _Asked({*stems(query)} - _COUNTED, (), Counter(one for each in read for one in each), len(facts))
    common = Counter(name for text in texts for name in _names(text))
    told = [frozenset(stems(text[:READ_CHARACTERS])) for text in said]
    named = {name for text in said for name in _names(text[:READ_CHARACTERS]) if common[name] <= FEW_FACTS // 4}
    found: list[str] = []
    for fact, text, each in zip(facts, texts, read, strict=True):
        own = {*stems(text_of(fact.value)[:READ_CHARACTERS])}
        fit = asked.fit(each)
        if fit >= FIT_PART:
            found.append(f"fits the question ({fit:.2f})")
        elif own and any(own <= one for one in told):
            found.append("told in the conversation")
        elif names := sorted(_names(text) & named):
            found.append(f"{names[0]} is named in the conversation")
        else:
            found.append("")
    kinds = Counter(_kind(fact.key) for fact in facts)
    wanted = {_kind(fact.key) for fact, why in zip(facts, found, strict=True) if why}
    for at, fact in enumerate(facts):
        kind = _kind(fact.key)
        if not found[at] and kind in wanted and kinds[kind] <= FEW_FACTS:
            found[at] = f"kept with others under {kind}"
    return found


def _names(text: str) -> set[str]:
    """Names and numbers, as they are compared."""
    return {word.lower() for word in _NAME.findall(text) if word.lower() not in STOP}


def _kind(key: str) -> str:
    """What keys that belong together begin with."""
    return next((part for part in re.split(r"[\W_]+", key.lower()) if part), "")


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
            calls = any(message.tool_calls or message.tool_results for message in item.messages)
            role = "calls" if calls else item.messages[0].role or ""
        speaker, text = _spoken(text[:READ_CHARACTERS])
        moods = tuple(cues.moods(text)) if role in ("user", "assistant") else ()
        said.append(_Said(at, turn, text, frozenset(stems(_MARKER.sub(" ", text))), role, moods, speaker))
    return said


def _spoken(text: str) -> tuple[str, str]:
    """Who says a text, if it says so, and what."""
    found = _SPEAKER.match(text)
    if found is None or _MARKER.match(text, found.start("who") - 1) is not None:
        return "", text
    return found["who"].strip(), text[found.end() :]


def stems(text: str) -> list[str]:
    """What a text is about: its words, without those that any may have."""
    telling = (word.lower for word in words(text) if word.lower not in STOP and word.lower not in FILLING)
    return [found for found in map(stem, telling) if len(found) > 1 or found.isdigit()]


def _alike(one: str, other: str) -> bool:
    return one == other or (len(one) >= ALIKE and len(other) >= ALIKE and one[:ALIKE] == other[:ALIKE])


def same_thing(earlier: Collection[str], later: Collection[str]) -> bool:
    """Whether a statement tells of the same thing as an earlier, short one, as far as their words say."""
    if len(earlier) > SHORT_WORDS:
        return False
    common = sum(any(_alike(each, other) for other in later) for each in earlier)
    return common >= SHARED_WORDS and common >= SHARED_PART * len(earlier)


class _Asked:
    """What is asked: the words of the question, those that few items have for more; and those of facts that fit it."""

    def __init__(self, own: Iterable[str], beside: Iterable[str], common: Counter[str], total: int) -> None:
        self._own = {each: math.log(1 + (total + 1) / (common[each] + 1)) for each in sorted({*own})}
        self._beside = {each: math.log(1 + (total + 1) / (common[each] + 1)) / 4 for each in sorted({*beside})}
        self._most = sum(self._own.values()) or 1.0

    def fit(self, found: frozenset[str]) -> float:
        own = sum(worth for each, worth in self._own.items() if any(_alike(each, other) for other in found))
        beside = sum(worth for each, worth in self._beside.items() if each in found)
        return round(min(1.0, (own + beside) / self._most), 6)


def _asked(query: str, said: Sequence[_Said], facts: Sequence[Fact]) -> _Asked:
    own = {*stems(query[:READ_CHARACTERS])}
    common = Counter(one for each in said for one in each.stems)
    beside: set[str] = set()
    for fact in facts:
        found = {*stems(f"{fact.key.replace('_', ' ')} {text_of(fact.value)[:READ_CHARACTERS]}")}
        beside |= found if own & found else set()
    return _Asked(own, beside - own, common, len(said))


# What speaks against an item


def _asides(said: Sequence[_Said], scores: Sequence[float]) -> set[int]:
    """What was said from `hold on …` to `back to …`, unless it fits the question better than the rest does."""
    found: set[int] = set()
    opened: set[int] = set()
    for each in said:
        turn = _turns(each) if each.role == "user" else ""
        if opened and turn == "back":
            others = max((scores[one.at] for one in said if one.at not in opened), default=0.0)
            found |= opened if max(scores[at] for at in opened) <= others else set()
            opened = set()
        elif opened or turn == "hold":
            opened.add(each.at)
    return found


def _turns(each: _Said) -> str:
    """Whether the talk turns away here, or back; empty if it does neither."""
    for sentence in sentences(each.text):
        found = cues.SWITCH.search(each.text[sentence.start : sentence.start + SWITCH_CHARACTERS])
        if found is not None:
            return "hold" if found["hold"] else "back"
    return ""


def _supposed(said: Sequence[_Said], query: str) -> dict[int, str]:
    """What is only supposed or drafted, unless that is what the question is about."""
    if any(cue.search(query) for cue in (cues.HYPOTHETICAL, cues.DRAFT, cues.EXPLORING)):
        return {}
    found: dict[int, str] = {}
    exploring = False
    for each in (one for one in said if one.is_talk):
        if cues.EARNEST.search(each.text):
            exploring = False
        elif cues.EXPLORING.search(each.text):
            exploring = True
        told = [mood for mood in each.moods if words(each.text[mood.sentence.start : mood.sentence.end])]
        if exploring:
            found[each.at] = "only supposed: the talk was of what might be"
        elif told and all(mood.hypothetical or mood.draft for mood in told):
            found[each.at] = f"only supposed ({told[0].hypothetical or told[0].draft})"
    return found


def _given_way(said: Sequence[_Said], facts: Sequence[Fact]) -> dict[int, str]:
    """Where something later, or a fact, says what is so instead."""
    known = [
        (fact, " ".join(text_of(fact.value)[:READ_CHARACTERS].lower().split())) for fact in facts if not fact.claim
    ]
    updates = [each for each in said if each.role == "user" and _UPDATE.match(each.text)]
    wrong = _wrong([(each.speaker, each.text) for each in said])
    found: dict[int, str] = {}
    for each in (one for one in said if one.is_talk):
        if _is_spent(each):
            found[each.at] = "what it stated is outdated"
        elif each.at in wrong:
            found[each.at] = f"{each.speaker} was wrong, as a later message says"
        elif any(later.at > each.at and same_thing(each.stems, later.stems) for later in updates):
            found[each.at] = "a later update says otherwise"
        elif _WAS.search(each.text):
            lower = " ".join(each.text.lower().split())
            now = next((fact for fact, value in known if len(value) > 2 and value in lower), None)
            found |= {} if now is None else {each.at: f"tells what was: {now.id} says what is"}
    return found


def _wrong(spoken: Sequence[tuple[str, str]]) -> set[int]:
    """The places of what someone said, where several speak, of whom another says later that they were wrong."""
    wrong: set[int] = set()
    for at, (speaker, text) in enumerate(spoken):
        told = " ".join(_WAS_WRONG.findall(text))
        names = {name for name in re.split(r"['’\s]", told) if name[:1].isupper()}
        if names:
            earlier = enumerate(who for who, _ in spoken[:at])
            wrong |= {place for place, who in earlier if who and who != speaker and who.split()[0] in names}
    return wrong


def _is_spent(each: _Said) -> bool:
    """Whether its statements were cut out, and what is left, `so do it`, says nothing of its own."""
    left, cuts = _MARKER.subn(" ", each.text)
    return cuts > 0 and len(each.stems) <= LEFT_WORDS and not values.mentions(left) and not _NAMED.search(left)


def _replies(said: Sequence[_Said], out: dict[int, str]) -> dict[int, str]:
    """Answers to what is left out."""
    gone = {each.turn for each in said if each.role == "user" and each.at in out}
    asked = {each.turn: each.at for each in said if each.role == "user"}
    return {
        each.at: "replies to what is left out"
        for each in said
        if each.role == "assistant" and each.turn in gone and asked[each.turn] < each.at and each.at not in out
    }
