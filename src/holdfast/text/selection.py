"""Selection of history items, facts and observations for a query.

Laws: the same items, query and facts give the same selection. An item is included or omitted whole, with a reason. An open
call, a summary and the newest turns are never omitted for lack of relevance. An item is omitted only for its role in the
conversation: it belongs to a digression that ended, is hypothetical, is superseded by a later message or a fact, replies to
an omitted message, or is old and shares no word with the query.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from holdfast.model.facts.fact import Fact
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.packs.pack import Profile
from holdfast.text import values
from holdfast.text.detect import cues
from holdfast.text.guard.finder import MARKER
from holdfast.text.stems import stem
from holdfast.text.values import value_text
from holdfast.text.words import FILLING, STOP, find_words, split_sentences, word_set

ItemChoice = tuple[bool, float, str]
"""Whether the item is included, its score, and the reason."""
READ_CHARACTERS = 4_000
"""Only the beginning of an item is read."""
NEAR_TURNS = 24
"""The newest turns, this many, are included by default; older items must match the query."""
SHARED_WORDS, SHARED_RATIO = 2, 0.2
"""Two statements have the same subject if they share this many words, and this part of the words of the earlier one."""
SHORT_WORDS = 12
"""The most content words of a statement that a later one supersedes; a longer one says more than the later one."""
LEFT_WORDS = 5
"""A redacted message with at most this many content words, and no value, has nothing left to say."""
FEW_FACTS = 20
"""Up to this many facts, all are included. Groups of facts by key prefix are at most this large."""
FIT_RATIO = 0.15
"""A fact matches the query if it has this share of its words, weighted by how rare they are."""
ALIKE_LETTERS = 5
"""Words are similar if they begin with the same letters, this many."""
_SPEAKER = re.compile(r"\s{0,9}\[(?P<who>[^\]\n]{1,80})\]\s?:?\s")
"""The speaker, in a conversation of several people."""
_MARKER = re.compile(rf"{MARKER.pattern}|\[…\]")
"""A marker of the guard, or an omission."""
_INNER_NAME = re.compile(r"(?<=[\w,;'’)] )[A-Z]\w")
"""A name that does not begin a sentence."""
_NAME = re.compile(r"\b(?:[A-Z][\w&-]{2,}|\w*\d\w{2,}|\w{2,}\d\w*)")
_QUANTITY_WORDS = word_set("many much per often long far")
"""Words of a query that ask for a quantity and are not its subject."""
_WAS_WRONG = re.compile(
    r"\b((?:[\w'’]{1,30} ){0,2}[\w'’]{1,30}) (?:was|were|is) (?:also |both )?(?:wrong|incorrect|mistaken)\b"
)
"""A statement that somebody was wrong."""
_UPDATE = re.compile(r"\W{0,20}(?:update|correction|latest|news)\s?[:–—-]", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:original(?:ly)?|initial(?:ly)?|previous(?:ly)?|formerly|at first|used to|no longer|the old|"
    r"(?:was|were|had been)\s(?:considered|planned|going to|supposed|scheduled|set))\b",
    re.IGNORECASE,
)
"""A statement about the past."""


class _ItemText(msgspec.Struct, frozen=True):
    """The text of a history item, with what was read from it."""

    at: int
    turn: int
    text: str
    stems: frozenset[str]
    role: str
    """The role of the message, `calls` for a group of calls, or `summary`."""
    moods: tuple[cues.Mood, ...]
    speaker: str = ""
    """The speaker, in a conversation of several people."""

    @property
    def is_statement(self) -> bool:
        return self.role in ("user", "assistant")


def select_items(items: Sequence[HistoryItem], query: str, facts: Sequence[Fact], profile: Profile) -> list[ItemChoice]:
    """Decide for each item whether it is included, with its score and the reason."""
    texts = _read_items(items)
    question = _read_question(query, texts, facts)
    scores = [question.score(text.stems) for text in texts]
    last = max((text.turn for text in texts), default=0)
    reasons = _find_superseded(texts, facts) | _find_hypothetical(texts, query)
    newest = {text.at for text in texts if text.turn > last - profile.recent_turns}
    for at in _find_digressions(texts, scores) - newest:
        reasons.setdefault(at, "a digression that the conversation returned from")
    for text in texts:
        if text.turn <= last - NEAR_TURNS and scores[text.at] <= 0 and text.at not in newest:
            reasons.setdefault(text.at, "has nothing in common with the question")
    reasons |= _find_replies(texts, reasons)
    choices: list[ItemChoice] = []
    for item, text in zip(items, texts, strict=True):
        score = scores[text.at]
        if isinstance(item, Summary):
            choices.append((True, score, "summary of earlier messages"))
        elif item.open:
            choices.append((True, score, "a call waits for its result"))
        elif text.at in reasons:
            choices.append((False, score, reasons[text.at]))
        elif text.at in newest:
            choices.append((True, score, "one of the newest turns"))
        else:
            choices.append((True, score, f"fits the question ({score:.2f})" if score else "part of the conversation"))
    return choices


def find_newer(signals: Sequence[tuple[str, int]]) -> list[int | None]:
    """Find for each observation (text, time) the index of the newest later one with the same subject, if any."""
    stems = [[*dict.fromkeys(topic_stems(text[:READ_CHARACTERS]))] for text, _ in signals]
    newest: list[int | None] = []
    for at, (_, time) in enumerate(signals):
        newer = [
            other
            for other, (_, since) in enumerate(signals)
            if since > time and is_same_subject(stems[at], stems[other])
        ]
        newest.append(max(newer, key=lambda other: (signals[other][1], other), default=None))
    return newest


def select_facts(query: str, facts: Sequence[Fact], messages: Sequence[str]) -> list[str]:
    """The reason to include each fact; empty for a fact that is omitted.

    A few facts are all included. Of many, those are included that match the query, that the conversation states, that share
    a rare name with the conversation, or whose key has the same prefix as one of these."""
    statements = [_split_speaker(text[:READ_CHARACTERS]) for text in messages]
    wrong = {" ".join(statements[at][1].split()) for at in sorted(_find_wrong(statements))}
    reasons = _find_reasons(query, facts, messages)
    return [
        "" if " ".join(value_text(fact.value).split()) in wrong else reason
        for fact, reason in zip(facts, reasons, strict=True)
    ]


def _find_reasons(query: str, facts: Sequence[Fact], messages: Sequence[str]) -> list[str]:
    if len(facts) <= FEW_FACTS:
        return ["there are few facts"] * len(facts)
    texts = [_fact_text(fact) for fact in facts]
    stems = [frozenset(topic_stems(text)) for text in texts]
    counts = Counter(stem for fact_stems in stems for stem in fact_stems)
    question = _QuestionTerms({*topic_stems(query)} - _QUANTITY_WORDS, (), counts, len(facts))
    name_counts = Counter(name for text in texts for name in _find_names(text))
    message_stems = [frozenset(topic_stems(text[:READ_CHARACTERS])) for text in messages]
    rare_names = {
        name for text in messages for name in _find_names(text[:READ_CHARACTERS]) if name_counts[name] <= FEW_FACTS // 4
    }
    reasons: list[str] = []
    for fact, text, fact_stems in zip(facts, texts, stems, strict=True):
        value_stems = {*topic_stems(value_text(fact.value)[:READ_CHARACTERS])}
        score = question.score(fact_stems)
        if score >= FIT_RATIO:
            reasons.append(f"fits the question ({score:.2f})")
        elif value_stems and any(value_stems <= words for words in message_stems):
            reasons.append("stated in the conversation")
        elif names := sorted(_find_names(text) & rare_names):
            reasons.append(f"the conversation mentions {names[0]}")
        else:
            reasons.append("")
    prefixes = Counter(_key_prefix(fact.key) for fact in facts)
    selected = {_key_prefix(fact.key) for fact, reason in zip(facts, reasons, strict=True) if reason}
    for at, fact in enumerate(facts):
        prefix = _key_prefix(fact.key)
        if not reasons[at] and prefix in selected and prefixes[prefix] <= FEW_FACTS:
            reasons[at] = f"belongs with other facts under {prefix}"
    return reasons


def _fact_text(fact: Fact) -> str:
    return f"{fact.key.replace('_', ' ')} {value_text(fact.value)[:READ_CHARACTERS]}"


def _find_names(text: str) -> set[str]:
    """Names and numbers, in lower case."""
    return {word.lower() for word in _NAME.findall(text) if word.lower() not in STOP}


def _key_prefix(key: str) -> str:
    """The first word of a key."""
    return next((part for part in re.split(r"[\W_]+", key.lower()) if part), "")


def _read_items(items: Sequence[HistoryItem]) -> list[_ItemText]:
    texts: list[_ItemText] = []
    turn = 0
    for at, item in enumerate(items):
        if isinstance(item, Summary):
            text, role = item.text, "summary"
        else:
            turn += item.starts_turn
            text = "\n".join(message.text for message in item.messages)
            calls = any(message.tool_calls or message.tool_results for message in item.messages)
            role = "calls" if calls else item.messages[0].role or ""
        speaker, text = _split_speaker(text[:READ_CHARACTERS])
        moods = tuple(cues.read_moods(text)) if role in ("user", "assistant") else ()
        texts.append(_ItemText(at, turn, text, frozenset(topic_stems(_MARKER.sub(" ", text))), role, moods, speaker))
    return texts


def _split_speaker(text: str) -> tuple[str, str]:
    """Split the name of the speaker, if there is one, from a text."""
    match = _SPEAKER.match(text)
    if match is None or _MARKER.match(text, match.start("who") - 1) is not None:
        return "", text
    return match["who"].strip(), text[match.end() :]


def topic_stems(text: str) -> list[str]:
    """The stems of the words that say what a text is about."""
    words = (word.lower for word in find_words(text) if word.lower not in STOP and word.lower not in FILLING)
    return [root for root in map(stem, words) if len(root) > 1 or root.isdigit()]


def _are_alike(one: str, other: str) -> bool:
    return one == other or (
        len(one) >= ALIKE_LETTERS and len(other) >= ALIKE_LETTERS and one[:ALIKE_LETTERS] == other[:ALIKE_LETTERS]
    )


def is_same_subject(earlier: Collection[str], later: Collection[str]) -> bool:
    """Whether two statements, given by their stems, have the same subject. The earlier one must be short."""
    if len(earlier) > SHORT_WORDS:
        return False
    common = sum(any(_are_alike(word, other) for other in later) for word in earlier)
    return common >= SHARED_WORDS and common >= SHARED_RATIO * len(earlier)


class _QuestionTerms:
    """The weighted stems of a query, and of facts that share a word with it. Rare stems weigh more."""

    def __init__(self, stems: Iterable[str], fact_stems: Iterable[str], counts: Counter[str], total: int) -> None:
        self._weights = {word: math.log(1 + (total + 1) / (counts[word] + 1)) for word in sorted({*stems})}
        self._fact_weights = {
            word: math.log(1 + (total + 1) / (counts[word] + 1)) / 4 for word in sorted({*fact_stems})
        }
        self._most = sum(self._weights.values()) or 1.0

    def score(self, stems: frozenset[str]) -> float:
        """The score of a text by its stems, from 0 to 1."""
        total = sum(weight for word, weight in self._weights.items() if any(_are_alike(word, other) for other in stems))
        facts = sum(weight for word, weight in self._fact_weights.items() if word in stems)
        return round(min(1.0, (total + facts) / self._most), 6)


def _read_question(query: str, texts: Sequence[_ItemText], facts: Sequence[Fact]) -> _QuestionTerms:
    stems = {*topic_stems(query[:READ_CHARACTERS])}
    counts = Counter(word for text in texts for word in text.stems)
    fact_stems: set[str] = set()
    for fact in facts:
        words = {*topic_stems(_fact_text(fact))}
        fact_stems |= words if stems & words else set()
    return _QuestionTerms(stems, fact_stems - stems, counts, len(texts))


# Reasons to omit an item


def _find_digressions(texts: Sequence[_ItemText], scores: Sequence[float]) -> set[int]:
    """Messages from `hold on …` to `back to …`, unless they match the query better than all others."""
    digressions: set[int] = set()
    digression: set[int] = set()
    for text in texts:
        switch = _find_topic_switch(text) if text.role == "user" else ""
        if digression and switch == "back":
            best_other = max((scores[other.at] for other in texts if other.at not in digression), default=0.0)
            digressions |= digression if max(scores[at] for at in digression) <= best_other else set()
            digression = set()
        elif digression or switch == "hold":
            digression.add(text.at)
    return digressions


def _find_topic_switch(text: _ItemText) -> str:
    """`hold` if the conversation leaves its topic here, `back` if it returns, else empty."""
    for sentence in split_sentences(text.text):
        switch = cues.find_switch(text.text, sentence)
        if switch is not None:
            return "hold" if switch["hold"] else "back"
    return ""


def _find_hypothetical(texts: Sequence[_ItemText], query: str) -> dict[int, str]:
    """Hypothetical messages and drafts, unless the query is about such."""
    if any(cue.search(query) for cue in (cues.HYPOTHETICAL, cues.DRAFT, cues.EXPLORATION)):
        return {}
    reasons: dict[int, str] = {}
    exploring = False
    for text in (text for text in texts if text.is_statement):
        if cues.EARNEST.search(text.text):
            exploring = False
        elif cues.EXPLORATION.search(text.text):
            exploring = True
        moods = [mood for mood in text.moods if find_words(text.text[mood.sentence.start : mood.sentence.end])]
        if exploring:
            reasons[text.at] = "hypothetical: the conversation explored options"
        elif moods and all(mood.hypothetical or mood.draft for mood in moods):
            reasons[text.at] = f"hypothetical ({moods[0].hypothetical or moods[0].draft})"
    return reasons


def _find_superseded(texts: Sequence[_ItemText], facts: Sequence[Fact]) -> dict[int, str]:
    """Messages that a later message or a fact contradicts."""
    values_by_fact = [
        (fact, " ".join(value_text(fact.value)[:READ_CHARACTERS].lower().split()))
        for fact in facts
        if not fact.is_claim
    ]
    updates = [text for text in texts if text.role == "user" and _UPDATE.match(text.text)]
    wrong = _find_wrong([(text.speaker, text.text) for text in texts])
    reasons: dict[int, str] = {}
    for text in (text for text in texts if text.is_statement):
        if _is_empty_after_redaction(text):
            reasons[text.at] = "what it stated is outdated"
        elif text.at in wrong:
            reasons[text.at] = f"{text.speaker} was wrong, as a later message says"
        elif any(later.at > text.at and is_same_subject(text.stems, later.stems) for later in updates):
            reasons[text.at] = "a later update says otherwise"
        elif _PAST.search(text.text):
            lower = " ".join(text.text.lower().split())
            current = next((fact for fact, value in values_by_fact if len(value) > 2 and value in lower), None)
            reasons |= {} if current is None else {text.at: f"about the past: {current.id} has the current value"}
    return reasons


def _find_wrong(statements: Sequence[tuple[str, str]]) -> set[int]:
    """The indexes of statements (speaker, text) whose speaker is later called wrong by another one."""
    wrong: set[int] = set()
    for at, (speaker, text) in enumerate(statements):
        names = {name for name in re.split(r"['’\s]", " ".join(_WAS_WRONG.findall(text))) if name[:1].isupper()}
        if names:
            earlier = enumerate(who for who, _ in statements[:at])
            wrong |= {index for index, who in earlier if who and who != speaker and who.split()[0] in names}
    return wrong


def _is_empty_after_redaction(text: _ItemText) -> bool:
    """Whether the guard redacted a message, and the remaining text, such as `so do it`, has no content."""
    remainder, cuts = _MARKER.subn(" ", text.text)
    if not cuts or len(text.stems) > LEFT_WORDS:
        return False
    return not values.find_mentions(remainder) and not _INNER_NAME.search(remainder)


def _find_replies(texts: Sequence[_ItemText], reasons: dict[int, str]) -> dict[int, str]:
    """Replies to omitted messages."""
    omitted = {text.turn for text in texts if text.role == "user" and text.at in reasons}
    questions = {text.turn: text.at for text in texts if text.role == "user"}
    return {
        text.at: "reply to an omitted message"
        for text in texts
        if text.role == "assistant"
        and text.turn in omitted
        and questions[text.turn] < text.at
        and text.at not in reasons
    }
