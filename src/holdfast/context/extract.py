"""A summary without a model: excerpts of a conversation, quoted and never put into new words. Pure.

Laws: the same items give the same text; it never has more tokens than it may; it is empty only if nothing fits or there is
nothing to say; the time is linear in what is read. A line says who said it, or which tools were called with what; no line
holds the words of two speakers. A result that is not quoted whole is named by its handle.

Selection: what the user said, failures, what the assistant decided and the statement that each turn ended with come first,
then which calls were made, with their results if those are short. The rest of the room goes to the sentences and lines
whose names are the likeliest to be needed again, for each token that they take; lines that a result repeats count for less.
Of an earlier summary among the items, the oldest entries give way first.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from holdfast.context.excerpts import (
    PREAMBLE,
    PREAMBLE_WITH_HANDLES,
    SHORT_REPLY_WORDS,
    SPEAKERS,
    Entry,
    Transcript,
)
from holdfast.model.messages import Summary, Unit

Count: TypeAlias = Callable[[str], int]

_USER_SHARE, _FAILURE_SHARE, _DECISION_SHARE, _CONCLUSION_SHARE = 0.40, 0.10, 0.10, 0.25
_DEED_SHARE, _CALL_SHARE = 0.15, 0.45
"""The most of the room that each kind takes before the rest is chosen by worth."""
_REPETITION = 0.5
"""The power of the number of calls by which a line that tells of them is ranked."""
_THRIFT = 1.0
"""The power of its length by which a text's worth is divided."""
_USER_WORD, _ASSISTANT_WORD, _COMMENT_WORD = 0.4, 0.1, 0.02
"""What a word of a statement is worth that no other chosen sentence has; least in a comment on calls."""
_TOKEN_CHARACTERS = 16
"""A text longer than this for each token does not fit; it is not counted."""
_MISSES = 24
"""Texts that did not fit, after which no more are tried."""
_WORD = re.compile(r"[^\W_]{3,}")
_CANDIDATES = 2
"""Pieces for each token of room that are compared with each other, the best ones."""


def extract(items: Sequence[Unit | Summary], tokens: int, count: Count) -> str:
    """A text of at most so many tokens that stands for these items. Empty only if nothing can be said in them."""
    if len(items) == 1 and isinstance(only := items[0], Summary) and only.text.strip() and count(only.text) <= tokens:
        return only.text  # nothing came since, so nothing has aged
    return _Selection(Transcript(items), tokens, count).text()


class _Choice(msgspec.Struct):
    """Pieces of one entry, or its head alone, and what they cost."""

    entry: Entry
    pieces: tuple[int, ...]
    cost: int


class _Candidate(msgspec.Struct):
    """A piece that may be chosen for its names. `number` is None for an entry without any of its pieces."""

    entry: Entry
    number: int | None
    text: str
    names: frozenset[str]
    words: frozenset[str] = frozenset()
    word_worth: float = 0.0
    weight: float = 1.0


class _Selection:
    """The entries and pieces of a conversation that fit so many tokens."""

    def __init__(self, transcript: Transcript, tokens: int, count: Count) -> None:
        self._transcript = transcript
        self._names = transcript.names
        self._tokens = tokens
        self._count = count
        self._entries = transcript.entries
        self._order = {id(entry): place for place, entry in enumerate(self._entries)}
        self._choices: list[_Choice] = []
        """In the order in which they were made: the last ones are given up first."""
        self._chosen: dict[int, set[int]] = {}
        """The numbers of the pieces of each entry that is in, by its place."""
        self._covered: set[str] = set()
        self._words: set[str] = set()
        names_handles = any(entry.handle for entry in self._entries)
        self._room = tokens - count(f"{PREAMBLE_WITH_HANDLES if names_handles else PREAMBLE}\n")

    def text(self) -> str:
        whole = self._render({place: {*entry.pieces} for place, entry in enumerate(self._entries)})
        if not self._entries or (len(whole) <= self._tokens * _TOKEN_CHARACTERS and self._count(whole) <= self._tokens):
            return whole
        self._choose_first()
        self._choose_by_worth()
        return self._fit() or self._scrap()

    def _choose_first(self) -> None:
        """The user's words, failures, decisions, what each turn ended with, and which calls were made; each up to its
        share."""
        statements = list(reversed(self._transcript.statements))
        newest = {entry.subject or id(entry): entry for entry in self._transcript.calls}
        calls = sorted(
            self._transcript.calls,
            key=lambda entry: (
                _is_mended(entry),
                newest[entry.subject or id(entry)] is not entry,
                -math.pow(entry.calls, _REPETITION) * self._names.freshness(entry.at),
            ),
        )
        users = [entry for entry in statements if entry.speaker != SPEAKERS["assistant"] and _is_telling(entry)]
        if users:
            users.insert(0, users.pop())  # what it all began with
        conclusions = [
            entry for entry in statements if entry.concludes and self._names.find(entry.render(entry.opening))
        ]
        failing = sorted((entry for entry in calls if entry.fails), key=lambda entry: -entry.at)
        for group, share in (
            ([(entry, entry.opening) for entry in users], _USER_SHARE),
            ([(entry, entry.opening) for entry in failing], _FAILURE_SHARE),
            ([(entry, entry.decides) for entry in statements if entry.decides], _DECISION_SHARE),
            ([(entry, entry.opening) for entry in conclusions], _CONCLUSION_SHARE),
            ([(entry, entry.opening) for entry in calls if entry.whole], _DEED_SHARE),
            ([(entry, entry.opening) for entry in calls], _CALL_SHARE),
        ):
            self._choose_group(group, int(self._tokens * share), fewest=0 if share == _CALL_SHARE else 1)

    def _choose_group(self, group: Sequence[tuple[Entry, tuple[int, ...]]], share: int, fewest: int) -> None:
        """As many pieces of each entry as its group has room for, but for entries of which that is too few."""
        left = self._room - min(share, self._room)
        misses = 0
        for entry, first in group:
            pieces = first
            while not self._choose(entry, pieces, self._room - left):
                if len(pieces) <= fewest or self._room <= left:
                    misses += 1
                    break
                pieces = self._fewer(entry, pieces, fewest)
            if misses > _MISSES:
                return

    def _fewer(self, entry: Entry, pieces: tuple[int, ...], fewest: int) -> tuple[int, ...]:
        """A statement without its least piece; a call without its arguments, then with as little as may be."""
        if entry.is_call:
            return tuple(sorted(entry.whole)) if 0 < len(entry.whole) < len(pieces) else pieces[:fewest]
        least = min(pieces, key=lambda each: self._worth(entry, each))
        return tuple(number for number in pieces if number != least)

    def _worth(self, entry: Entry, number: int) -> float:
        """What a piece is worth by its names, whether they are in already or not."""
        return sum(map(self._names.worth, self._names.find(entry.pieces[number].text)))

    def _choose(self, entry: Entry, pieces: Sequence[int], room: int) -> bool:
        """Take these pieces of an entry, with the question that it answers, if there is room."""
        place = self._order[id(entry)]
        known = self._chosen.get(place)
        new = [number for number in pieces if known is None or number not in known]
        if known is not None and not new:
            return True
        text = "" if known is not None else _head_of(entry, pieces)
        text += "".join(f" … {entry.pieces[number].text}" for number in new)
        cost = self._count(text) if len(text) <= room * _TOKEN_CHARACTERS else room + 1
        if cost > room:
            return False
        if entry.question is not None and known is None:
            asking, number = entry.question
            if not self._choose(asking, (number,), room - cost):
                return False
        self._room -= cost
        self._chosen.setdefault(place, set()).update(new)
        self._choices.append(_Choice(entry, tuple(new), cost))
        self._covered |= self._names.find(text)
        if not entry.is_call:
            self._words |= _words(text)
        return True

    def _choose_by_worth(self) -> None:
        """The pieces with the most worth for what they cost, as the names that are in by then count no more."""
        heap: list[tuple[float, int, int]] = []
        candidates = self._candidates()
        worth = {name: self._names.worth(name) for name in {each for one in candidates for each in one.names}}
        for place, candidate in enumerate(candidates):
            heap.append((-self._density(candidate, worth), place, 0))
        most = max(0, self._tokens) * _CANDIDATES
        heap = heapq.nsmallest(most, heap)
        misses = 0
        while heap and misses <= _MISSES:
            loss, place, _ = heapq.heappop(heap)
            candidate = candidates[place]
            now = -self._density(candidate, worth)
            if now >= 0:
                continue
            if heap and now > loss and now > heap[0][0]:
                heapq.heappush(heap, (now, place, 0))
                continue
            numbers = () if candidate.number is None else (candidate.number,)
            misses += not self._choose(candidate.entry, numbers, self._room)

    def _candidates(self) -> list[_Candidate]:
        found: list[_Candidate] = []
        for place, entry in enumerate(self._entries):
            chosen = self._chosen.get(place)
            if entry.is_call and chosen is None:
                found.append(_Candidate(entry, None, entry.head, self._names.find(entry.head)))
            word_worth = (
                0.0
                if entry.is_call
                else _COMMENT_WORD
                if entry.comments
                else _ASSISTANT_WORD
                if entry.speaker == SPEAKERS["assistant"]
                else _USER_WORD
            )
            word_worth *= self._names.freshness(entry.at)
            for number, piece in entry.pieces.items():
                if chosen is None or number not in chosen:
                    words = frozenset() if entry.is_call else _words(piece.text)
                    names = self._names.find(piece.text)
                    found.append(_Candidate(entry, number, piece.text, names, words, word_worth, piece.weight))
        return found

    def _density(self, candidate: _Candidate, worth: dict[str, float]) -> float:
        total = sum(worth[name] for name in candidate.names if name not in self._covered)
        total = total * candidate.weight + candidate.word_worth * len(candidate.words - self._words)
        length = len(candidate.text) + 4
        if candidate.number is not None and self._order[id(candidate.entry)] not in self._chosen:
            length += len(candidate.entry.head)
        return total / math.pow(1 + length / 4, _THRIFT)

    def _render(self, chosen: dict[int, set[int]]) -> str:
        rows = [self._entries[place].render(chosen[place]) for place in sorted(chosen)]
        named = any(self._entries[place].names_handle(chosen[place]) for place in chosen)
        return "\n".join([PREAMBLE_WITH_HANDLES if named else PREAMBLE, *rows]) if rows else ""

    def _fit(self) -> str:
        """The text of what was chosen, without the last choices as long as it is too long."""
        while self._choices:
            text = self._render(self._chosen)
            over = self._count(text) - self._tokens
            if over <= 0:
                return text
            while self._choices and over > 0:
                last = self._choices.pop()
                over -= max(1, last.cost)
                place = self._order[id(last.entry)]
                self._chosen[place] -= {*last.pieces}
                if not any(each.entry is last.entry for each in self._choices):
                    del self._chosen[place]
        return ""

    def _scrap(self) -> str:
        """The beginning of the newest entry, where there is no room for more."""
        for entry in [*reversed(self._transcript.statements), *reversed(self._transcript.calls)][:8]:
            text = entry.render(entry.opening)
            while text:
                if self._count(text) <= self._tokens:
                    return text
                text = text[: len(text) // 2].rstrip()
        return ""


def _head_of(entry: Entry, pieces: Sequence[int]) -> str:
    """What a line takes beside its pieces."""
    return f"{entry.head} [{entry.handle}]\n" if entry.names_handle(pieces) else f"{entry.head}\n"


def _is_mended(entry: Entry) -> bool:
    """Whether it is about a failure that is none any more."""
    return bool(entry.failed) and not entry.fails


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


def _is_telling(entry: Entry) -> bool:
    """Whether a statement says something by itself, or with the question that it answers."""
    return (
        entry.question is not None
        or sum(len(piece.text.split()) for piece in entry.pieces.values()) > SHORT_REPLY_WORDS
    )
