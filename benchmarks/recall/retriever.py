"""A retriever for `recall_at_budget.py`: the ranking of recall over a small inverted index.

The candidates come as a store gives them: the passages with the most and the rarest terms of the question, at most
`CANDIDATES` of them, then the neighbours of the best ones by their places. Nothing else is ranked.

Environment: RECALL_SESSIONS=one puts all sessions of a chat into one; RECALL_COSINES names a pickle of cosines by embedder,
chat and question, RECALL_EMBEDDER one of its embedders.
"""

from __future__ import annotations

import functools
import math
import os
import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.adapters.tokens import ExactCounter
from holdfast.model.content import Role
from holdfast.model.memory.passages import Passage, PassageKey, PlaceSpan
from holdfast.model.names import Scope, StreamId
from holdfast.text.recall.choice import choose_passages
from holdfast.text.recall.question import RecallQuestion, parse_question
from holdfast.text.recall.scores import HOP_PASSAGES, PassageScore, find_hop_terms, find_neighbours, score_passages
from holdfast.text.recall.splits import split_passages
from holdfast.text.recall.terms import passage_terms

CANDIDATES = 400
VECTOR_CANDIDATES = 200
NEIGHBOURS_OF = 60
DATED = 150
HEADING_TOKENS = 8
"""What the evaluator takes for the date above the passages of a session, at most."""
DAY_US = 86_400_000_000


class ChatIndex:
    """The passages of a chat, by their terms and by their places."""

    def __init__(self, chat: dict[str, Any], *, one_session: bool = False) -> None:
        self.chat_id: str = chat["id"]
        self.turns: dict[PassageKey, str] = {}
        self.parts: Counter[str] = Counter()
        """How many passages each turn has."""
        self.questions: dict[str, RecallQuestion] = {}
        self.passages: list[Passage] = []
        self.postings: dict[str, list[int]] = defaultdict(list)
        self.by_place: dict[StreamId, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.speakers = sorted({turn["speaker"] for turn in chat["turns"]} - {"user", "assistant", "User", "Assistant"})
        places: Counter[str] = Counter()
        for turn in chat["turns"]:
            session = "all" if one_session else str(turn["session"])
            places[session] += 1
            for part, (start, text) in enumerate(split_passages(turn["text"])):
                self._add(turn, session, places[session], part, start, text)
        self.asked_us = max(passage.time_us for passage in self.passages) + DAY_US
        self.text_bytes = sum(len(passage.text.encode()) for passage in self.passages)

    def _add(self, turn: dict[str, Any], session: str, place: int, part: int, start: int, text: str) -> None:
        role: Role = turn["role"] if turn["role"] in ("user", "assistant", "tool") else "user"
        passage = Passage(
            scope=Scope("bench", "chat", f"{self.chat_id}-{session}"),
            seq=place,
            part=part,
            role=role,
            speaker=turn["speaker"],
            user="reader",
            time_us=read_time(turn["time"]),
            place=place,
            start=start,
            text=text,
        )
        number = len(self.passages)
        self.passages.append(passage)
        self.turns[passage.key] = turn["id"]
        self.parts[turn["id"]] += 1
        for term in set(passage_terms(text)):
            self.postings[term].append(number)
        self.by_place[passage.scope.stream][place].append(number)

    def count(self, terms: Iterable[str]) -> dict[str, int]:
        return {term: len(self.postings[term]) for term in terms if term in self.postings}

    def match(self, terms: Sequence[str], limit: int) -> list[Passage]:
        """The passages with the most and the rarest terms."""
        weights: dict[int, float] = defaultdict(float)
        for term in terms:
            numbers = self.postings.get(term, ())
            for number in numbers:
                weights[number] += math.log(1 + len(self.passages) / len(numbers))
        best = sorted(weights, key=lambda number: (-weights[number], -number))[:limit]
        return [self.passages[number] for number in best]

    def read(self, spans: Iterable[PlaceSpan]) -> list[Passage]:
        found: list[Passage] = []
        for span in spans:
            places = self.by_place[span.stream]
            for place in range(span.first, span.last + 1):
                found += [self.passages[number] for number in places.get(place, ())]
        return found


def read_time(text: str | None) -> int:
    when = datetime.fromisoformat(text) if text else datetime(1970, 1, 1, tzinfo=UTC)
    return int(when.replace(tzinfo=UTC).timestamp()) * 1_000_000


def rank_chat(
    chat: ChatIndex, question: RecallQuestion, cosines: dict[str, float] | None = None, *, hop: bool = True
) -> list[PassageScore]:
    """Rank the passages of a chat for a question, as recall does."""
    similarities: dict[PassageKey, float] = {}
    nearest: list[Passage] = []
    if cosines:
        keyed = sorted((-cosines[chat.turns[passage.key]], number) for number, passage in enumerate(chat.passages))
        nearest = [chat.passages[number] for _, number in keyed[:VECTOR_CANDIDATES]]
        similarities = {passage.key: cosines[chat.turns[passage.key]] for passage in nearest}
    counts, total = chat.count(question.search_terms), len(chat.passages)
    found = [*chat.match(question.search_terms, CANDIDATES), *nearest]
    for since_us, until_us in question.time_spans:
        found += [passage for passage in chat.passages if since_us <= passage.time_us < until_us][-DATED:]
    ranked = score_passages(question, found, counts, total, similarities)
    found += chat.read(find_neighbours(ranked, NEIGHBOURS_OF))
    terms: tuple[str, ...] = ()
    if hop:
        counts |= chat.count(term for item in ranked[:HOP_PASSAGES] for term in passage_terms(item.passage.text))
        terms = find_hop_terms(question, ranked, counts, total)
        found += chat.match(terms, CANDIDATES // 4)
    return score_passages(question, found, counts, total, similarities, terms)


_INDEXES: dict[str, ChatIndex] = {}
_RANKED: dict[tuple[str, str], list[PassageScore]] = {}
_HOP = os.environ.get("RECALL_HOP", "1") == "1"
_COSINES: dict[str, Any] = {}
_COUNTER = ExactCounter()
PURE_MS: list[float] = []
if os.environ.get("RECALL_COSINES"):
    _COSINES = pickle.loads(Path(os.environ["RECALL_COSINES"]).read_bytes())[os.environ["RECALL_EMBEDDER"]]


def index(chat: dict[str, Any]) -> None:
    _INDEXES[chat["id"]] = ChatIndex(chat, one_session=os.environ.get("RECALL_SESSIONS") == "one")


def retrieve(chat: dict[str, Any], question_text: str, budget_tokens: int) -> list[Any]:
    """The turns for a question, best first. A part of a long turn is a piece."""
    known = _INDEXES[chat["id"]]
    key = (chat["id"], question_text)
    if key not in _RANKED:
        question = parse_question(question_text, asked_us=known.asked_us, participants=known.speakers)
        cosines = _COSINES[chat["id"]][("I", question_text)] if _COSINES else None
        start = time.process_time()
        known.questions[question_text] = question
        _RANKED[key] = rank_chat(known, question, cosines, hop=_HOP)
        PURE_MS.append((time.process_time() - start) * 1000)
    chosen = choose_passages(
        _RANKED[key],
        budget_tokens,
        lambda passage: _count_tokens(f"{passage.speaker}: {passage.text}\n"),
        heading=lambda passage: HEADING_TOKENS,  # noqa: ARG005
        asks_assistant=known.questions[question_text].asks_assistant,
    )
    items: list[Any] = []
    for item in chosen:
        turn = known.turns[item.passage.key]
        items.append(turn if known.parts[turn] == 1 else {"text": item.passage.text, "turns": [turn]})
    return items


@functools.lru_cache(maxsize=1 << 14)
def _count_tokens(text: str) -> int:
    return _COUNTER.count(text)


def drop(chat: dict[str, Any]) -> None:
    del _INDEXES[chat["id"]]
