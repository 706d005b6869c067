"""A summary without a model: quotations from a conversation, never rephrased.

Laws: the same items give the same text. It never exceeds its tokens, and is empty only if nothing fits or there is no text.
The time is linear in the length of the items. A line has one speaker, or names tools with their arguments. A result that is
not quoted whole is named by its handle.

Selection: statements of the user, failures, decisions of the assistant and the last statement of each turn come first, then
calls, with short results. The remaining tokens go to the fragments with the most worth per token, by their names; lines
that a result repeats count for less. Of an earlier summary, the oldest entries are dropped first.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from holdfast.model.history.views import Summary
from holdfast.model.sessions.messages import MessageGroup
from holdfast.text.extract.transcript import (
    CLIENT_SPEAKER,
    PREAMBLE,
    PREAMBLE_WITH_HANDLES,
    SHORT_REPLY_WORDS,
    SPEAKERS,
    Transcript,
    TranscriptEntry,
)

TokenCount: TypeAlias = Callable[[str], int]
_USER_SHARE, _FAILURE_SHARE, _DECISION_SHARE, _CONCLUSION_SHARE = 0.40, 0.10, 0.10, 0.25
_DEED_SHARE, _CALL_SHARE = 0.15, 0.45
"""The largest share of the tokens for each group, before other fragments are chosen by worth."""
_REPETITION = 0.5
"""The exponent of the number of calls in the rank of their entry."""
_THRIFT = 1.0
"""The exponent of the length that divides the worth of a text."""
_USER_WORD, _ASSISTANT_WORD, _COMMENT_WORD = 0.4, 0.1, 0.02
"""The worth of a word that no chosen sentence has, by who wrote it; comments on calls are worth least."""
_TOKEN_CHARACTERS = 16
"""A text with more characters per token of room does not fit; its tokens are not counted."""
_MAX_MISSES = 24
"""The search ends after this many texts that did not fit."""
_WORD = re.compile(r"[^\W_]{3,}")
_CANDIDATES = 2
"""The number of fragments to compare, for each token of room."""


def extract_summary(items: Sequence[MessageGroup | Summary], tokens: int, count: TokenCount) -> str:
    """Summarise items in at most this many tokens. The text is empty only if nothing fits."""
    if len(items) == 1 and isinstance(only := items[0], Summary) and only.text.strip() and count(only.text) <= tokens:
        return only.text
    return _ExcerptSelection(Transcript(items), tokens, count).build_text()


class _ChosenFragments(msgspec.Struct):
    """Fragments of one entry, or only its head, with their cost in tokens."""

    entry: TranscriptEntry
    fragments: tuple[int, ...]
    cost: int


class _FragmentCandidate(msgspec.Struct):
    """A fragment that may be chosen by worth. `number` is None for an entry without fragments."""

    entry: TranscriptEntry
    number: int | None
    text: str
    names: frozenset[str]
    words: frozenset[str] = frozenset()
    word_worth: float = 0.0
    weight: float = 1.0


class _ExcerptSelection:
    """The selection of entries and fragments for a number of tokens."""

    def __init__(self, transcript: Transcript, tokens: int, count: TokenCount) -> None:
        self._transcript = transcript
        self._names = transcript.names
        self._tokens = tokens
        self._count = count
        self._entries = transcript.entries
        self._order = {id(entry): index for index, entry in enumerate(self._entries)}
        self._choices: list[_ChosenFragments] = []
        """In order; the last ones are dropped first."""
        self._chosen: dict[int, set[int]] = {}
        """The numbers of the chosen fragments, by the index of their entry."""
        self._covered: set[str] = set()
        self._words: set[str] = set()
        names_handles = any(entry.handle for entry in self._entries)
        self._room = tokens - count(f"{PREAMBLE_WITH_HANDLES if names_handles else PREAMBLE}\n")

    def build_text(self) -> str:
        text = self._render({index: {*entry.fragments} for index, entry in enumerate(self._entries)})
        if not self._entries or (len(text) <= self._tokens * _TOKEN_CHARACTERS and self._count(text) <= self._tokens):
            return text
        self._choose_first()
        self._choose_by_worth()
        return self._fit() or self._cut_newest()

    def _choose_first(self) -> None:
        """Choose statements of the user, failures, decisions, conclusions and calls, each group up to its share."""
        statements = list(reversed(self._transcript.statements))
        newest = {entry.subject or id(entry): entry for entry in self._transcript.calls}
        calls = sorted(
            self._transcript.calls,
            key=lambda entry: (
                _is_resolved(entry),
                newest[entry.subject or id(entry)] is not entry,
                -math.pow(entry.calls, _REPETITION) * self._names.freshness(entry.at),
            ),
        )
        others = (SPEAKERS["assistant"], CLIENT_SPEAKER)
        users = [entry for entry in statements if entry.speaker not in others and _is_informative(entry)]
        if users:
            users.insert(0, users.pop())  # the first request comes first
        conclusions = [
            entry for entry in statements if entry.concludes and self._names.find(entry.render(entry.opening))
        ]
        failing = sorted((entry for entry in calls if entry.fails), key=lambda entry: -entry.at)
        for group, share in (
            ([(entry, entry.opening) for entry in users], _USER_SHARE),
            ([(entry, entry.opening) for entry in failing], _FAILURE_SHARE),
            ([(entry, entry.decides) for entry in statements if entry.decides], _DECISION_SHARE),
            ([(entry, entry.opening) for entry in conclusions], _CONCLUSION_SHARE),
            ([(entry, entry.opening) for entry in calls if entry.result], _DEED_SHARE),
            ([(entry, entry.opening) for entry in calls], _CALL_SHARE),
        ):
            self._choose_group(group, int(self._tokens * share), fewest=0 if share == _CALL_SHARE else 1)

    def _choose_group(self, group: Sequence[tuple[TranscriptEntry, tuple[int, ...]]], share: int, fewest: int) -> None:
        """Choose as many fragments of each entry as its group has room for; skip entries with fewer than `fewest`."""
        left = self._room - min(share, self._room)
        misses = 0
        for entry, first in group:
            fragments = first
            while not self._choose(entry, fragments, self._room - left):
                if len(fragments) <= fewest or self._room <= left:
                    misses += 1
                    break
                fragments = self._drop_least(entry, fragments, fewest)
            if misses > _MAX_MISSES:
                return

    def _drop_least(self, entry: TranscriptEntry, fragments: tuple[int, ...], fewest: int) -> tuple[int, ...]:
        """Drop the fragment of a statement with the least worth; of a call, first the arguments, then all but `fewest`."""
        if entry.is_call:
            return tuple(sorted(entry.result)) if 0 < len(entry.result) < len(fragments) else fragments[:fewest]
        least = min(fragments, key=lambda number: self._worth(entry, number))
        return tuple(number for number in fragments if number != least)

    def _worth(self, entry: TranscriptEntry, number: int) -> float:
        """The worth of a fragment by all its names, chosen or not."""
        return math.fsum(map(self._names.worth, self._names.find(entry.fragments[number].text)))

    def _choose(self, entry: TranscriptEntry, fragments: Sequence[int], room: int) -> bool:
        """Choose fragments of an entry, and the question that it answers, if there is room."""
        index = self._order[id(entry)]
        numbers = self._chosen.get(index)
        new = [number for number in fragments if numbers is None or number not in numbers]
        if numbers is not None and not new:
            return True
        text = "" if numbers is not None else _head_of(entry, fragments)
        text += "".join(f" … {entry.fragments[number].text}" for number in new)
        cost = self._count(text) if len(text) <= room * _TOKEN_CHARACTERS else room + 1
        if cost > room:
            return False
        if entry.question is not None and numbers is None:
            question, number = entry.question
            if not self._choose(question, (number,), room - cost):
                return False
        self._room -= cost
        self._chosen.setdefault(index, set()).update(new)
        self._choices.append(_ChosenFragments(entry, tuple(new), cost))
        self._covered |= self._names.find(text)
        if not entry.is_call:
            self._words |= _word_set(text)
        return True

    def _choose_by_worth(self) -> None:
        """Choose the fragments with the most worth per token. Names that are already chosen have no worth."""
        heap: list[tuple[float, int, int]] = []
        candidates = self._build_candidates()
        names = frozenset[str]().union(*(candidate.names for candidate in candidates))
        worth = {name: self._names.worth(name) for name in names}
        for index, candidate in enumerate(candidates):
            heap.append((-self._density(candidate, worth), index, 0))
        most = max(0, self._tokens) * _CANDIDATES
        heap = heapq.nsmallest(most, heap)
        misses = 0
        while heap and misses <= _MAX_MISSES:
            loss, index, _ = heapq.heappop(heap)
            candidate = candidates[index]
            now = -self._density(candidate, worth)
            if now >= 0:
                continue
            if heap and now > loss and now > heap[0][0]:
                heapq.heappush(heap, (now, index, 0))
                continue
            numbers = () if candidate.number is None else (candidate.number,)
            misses += not self._choose(candidate.entry, numbers, self._room)

    def _build_candidates(self) -> list[_FragmentCandidate]:
        candidates: list[_FragmentCandidate] = []
        for index, entry in enumerate(self._entries):
            chosen = self._chosen.get(index)
            if entry.is_call and chosen is None:
                candidates.append(_FragmentCandidate(entry, None, entry.head, self._names.find(entry.head)))
            word_worth = _word_worth(entry) * self._names.freshness(entry.at)
            for number, fragment in entry.fragments.items():
                if chosen is None or number not in chosen:
                    words = frozenset() if entry.is_call else _word_set(fragment.text)
                    names = self._names.find(fragment.text)
                    candidates.append(
                        _FragmentCandidate(entry, number, fragment.text, names, words, word_worth, fragment.weight)
                    )
        return candidates

    def _density(self, candidate: _FragmentCandidate, worth: dict[str, float]) -> float:
        total = math.fsum(worth[name] for name in candidate.names if name not in self._covered)
        total = total * candidate.weight + candidate.word_worth * len(candidate.words - self._words)
        length = len(candidate.text) + 4
        if candidate.number is not None and self._order[id(candidate.entry)] not in self._chosen:
            length += len(candidate.entry.head)
        return total / math.pow(1 + length / 4, _THRIFT)

    def _render(self, chosen: dict[int, set[int]]) -> str:
        rows = [self._entries[index].render(chosen[index]) for index in sorted(chosen)]
        names_handles = any(self._entries[index].names_handle(chosen[index]) for index in chosen)
        return "\n".join([PREAMBLE_WITH_HANDLES if names_handles else PREAMBLE, *rows]) if rows else ""

    def _fit(self) -> str:
        """Render the choices; drop the last ones until the text fits."""
        while self._choices:
            text = self._render(self._chosen)
            over = self._count(text) - self._tokens
            if over <= 0:
                return text
            while self._choices and over > 0:
                last = self._choices.pop()
                over -= max(1, last.cost)
                index = self._order[id(last.entry)]
                self._chosen[index] -= {*last.fragments}
                if not any(choice.entry is last.entry for choice in self._choices):
                    del self._chosen[index]
        return ""

    def _cut_newest(self) -> str:
        """The beginning of the newest entry, if nothing else fits."""
        for entry in [*reversed(self._transcript.statements), *reversed(self._transcript.calls)][:8]:
            text = entry.render(entry.opening)
            while text:
                if self._count(text) <= self._tokens:
                    return text
                text = text[: len(text) // 2].rstrip()
        return ""


def _head_of(entry: TranscriptEntry, fragments: Sequence[int]) -> str:
    """The text of a line without its fragments."""
    return f"{entry.head} [{entry.handle}]\n" if entry.names_handle(fragments) else f"{entry.head}\n"


def _word_worth(entry: TranscriptEntry) -> float:
    if entry.is_call:
        return 0.0
    if entry.comments or entry.speaker == CLIENT_SPEAKER:
        return _COMMENT_WORD
    return _ASSISTANT_WORD if entry.speaker == SPEAKERS["assistant"] else _USER_WORD


def _is_resolved(entry: TranscriptEntry) -> bool:
    """Whether an entry reports a failure that a later call resolved."""
    return bool(entry.failed) and not entry.fails


def _word_set(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _is_informative(entry: TranscriptEntry) -> bool:
    """Whether a statement has content by itself, or together with the question that it answers."""
    return (
        entry.question is not None
        or sum(len(fragment.text.split()) for fragment in entry.fragments.values()) > SHORT_REPLY_WORDS
    )
