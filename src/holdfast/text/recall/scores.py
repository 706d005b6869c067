"""How well passages fit a question.

A passage scores by its words (BM25, as a share of what a passage with all words of the question could have; synonyms and
kin count for less), by its speaker, by its time, and by its similarity if an embedder was asked. Then words spread: a
passage near one that has a word of the question scores for that word too, less with each message between them. What a
passage has itself is not counted again, so that an answer next to its question, with different words, comes first.

Laws: the order of the candidates does not matter; equal scores are ordered by time, newest first, then by key. Scores
depend only on the given passages and counts, which a reader may see. Nothing spreads from one session to another, nor
across a long pause of one session.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.model.memory.passages import NeighbourSpan, Passage, PassageKey
from holdfast.model.names import Scope
from holdfast.text.recall.dates import DAY_US, fit_days
from holdfast.text.recall.question import RecallQuestion
from holdfast.text.recall.terms import find_term, passage_terms
from holdfast.text.stems import KIN_WEIGHT, split_words

SYNONYM_WEIGHT = 0.5
SPREAD_WEIGHT = 0.5
"""What a word of the message before or behind counts for."""
SPREAD_FADE = 0.9
"""And how much of it is left with each further message."""
SPREAD_PAUSE_US = DAY_US // 6
"""Nothing spreads across a longer pause."""
SPREAD_REACH = 10
"""How far around a match the neighbours are worth reading: further, less than a third of a word is left."""
SPEAKER_WEIGHT = 0.2
DAYS_WEIGHT = 0.3
SIMILARITY_WEIGHT = 1.0
OPENING_WEIGHT = 0.1
"""For the first message of a session: what is new is said first."""
HOP_WEIGHT = 0.2
"""What the terms of a second search count for, all together."""
HOP_PASSAGES = 5
HOP_TERMS = 8
_HOP_SHARE = 0.05
"""A term that more passages have does not lead to another passage."""
_SATURATION = 1.2
_LENGTH_SHARE = 0.75
"""The constants k1 and b of BM25."""


class PassageScore(NamedTuple):
    """A passage with its score, and what made it."""

    passage: Passage
    score: float
    words: tuple[str, ...] = ()
    """Its own words that the question asks for."""
    hops: tuple[str, ...] = ()
    """Its own words that the second search looked for: the best passages brought them up."""
    near: float = 0.0
    """What the words of its neighbours count for."""
    is_by_subject: bool = False
    """Who the question is about said it."""
    days: float = 0.0
    """How well its time fits the days that the question names, from 0 to 1."""
    similarity: float | None = None
    """Its similarity to the question, if an embedder was asked."""

    @property
    def reason(self) -> str:
        """Why it was recalled, in words."""
        parts = [f"has {', '.join(self.words)}"] if self.words else []
        if self.hops and not self.words:
            parts.append(f"shares {', '.join(self.hops)} with the best passages")
        if self.near > 0:
            parts.append("is near a match")
        if self.is_by_subject:
            parts.append(f"said by {self.passage.speaker or 'the ' + self.passage.role}")
        if self.days > 0.5:
            parts.append("of the days in question")
        if self.similarity is not None:
            parts.append(f"similar in meaning ({self.similarity:.2f})")
        return "; ".join(parts) or "none of the words"


class _WordHit(NamedTuple):
    """What a word of a passage is for a question."""

    term: str
    """The term of the question that it stands for."""
    weight: float


class _WordMatch(NamedTuple):
    """What a passage has of a question."""

    weights: dict[str, float]
    """The share of the question's mass that each term gives."""
    words: tuple[str, ...]
    hops: tuple[str, ...]


def score_passages(
    question: RecallQuestion,
    candidates: Iterable[Passage],
    counts: Mapping[str, int],
    total: int,
    similarities: Mapping[PassageKey, float] | None = None,
    hop_terms: Sequence[str] = (),
) -> list[PassageScore]:
    """Rank passages for a question, best first.

    `candidates` are the matches and their neighbours; one that comes twice counts once. `counts` says how many of the
    `total` visible passages have each term. `similarities` has the cosines of those that are nearest in meaning: the others
    count as the least similar of these. `hop_terms` are those of a second search."""
    passages = _order_candidates(candidates)
    keys = [passage.key for passage in passages] if similarities else []
    matches = _match_words(question, passages, counts, max(total, len(passages)), hop_terms)
    closeness = _scale_similarities(keys, similarities) if similarities else [0.0] * len(passages)
    bounds = _find_runs(passages)
    near = _spread(passages, bounds, matches, closeness)
    scores: list[PassageScore] = []
    for index, (passage, match) in enumerate(zip(passages, matches, strict=True)):
        by_subject = _is_by_subject(question, passage)
        days = max([fit_days(days, passage.time_us) for days in question.days]) if question.days else 0.0
        score = sum(match.weights.values()) + closeness[index] + near[index]
        score += SPEAKER_WEIGHT * by_subject + DAYS_WEIGHT * days + OPENING_WEIGHT * (passage.place == 1)
        cosine = similarities.get(keys[index]) if similarities else None
        scores.append(
            PassageScore(passage, round(score, 9), match.words, match.hops, near[index], by_subject, days, cosine)
        )
    order = sorted(range(len(passages)), key=lambda index: (-scores[index].score, -passages[index].time_us, index))
    return [scores[index] for index in order]


def _order_candidates(candidates: Iterable[Passage]) -> list[Passage]:
    """The candidates by session and place, each once."""
    places: dict[tuple[Scope, int, int], Passage] = {}
    for passage in candidates:
        places[passage.scope, passage.seq, passage.part] = passage
    numbers = {scope: at for at, scope in enumerate(sorted({at[0] for at in places}, key=lambda scope: scope.stream))}
    ordered = sorted((numbers[at[0]], each.place, at[1], at[2], at) for at, each in places.items())
    return [places[each[-1]] for each in ordered]


def _is_by_subject(question: RecallQuestion, passage: Passage) -> bool:
    if question.about:
        return passage.speaker.lower() in question.about
    if question.asks_assistant:
        return passage.role == "assistant"
    return question.is_about_user and passage.role == "user"


def _rarity(count: int, total: int) -> float:
    """The weight of a term: the fewer passages have it, the more it says (idf)."""
    return math.log(1 + (max(total - count, 0) + 0.5) / (count + 0.5))


_read_words = functools.lru_cache(maxsize=1 << 12)(split_words)
"""The words of a passage, for reading only. A question ranks the same passages twice, before and after their neighbours."""


def _match_words(
    question: RecallQuestion,
    passages: Sequence[Passage],
    counts: Mapping[str, int],
    total: int,
    hop_terms: Sequence[str],
) -> list[_WordMatch]:
    """Weigh the words of passages."""
    rarities = {term: _rarity(counts.get(term, 0), total) for term in question.terms}
    mass = sum(rarities.values()) or 1.0
    shares = {term: rarity / mass for term, rarity in rarities.items()}
    hops = {term: _rarity(counts.get(term, 0), total) for term in hop_terms if term not in rarities}
    hop_mass = sum(hops.values()) or 1.0
    shares |= {term: HOP_WEIGHT * rarity / hop_mass for term, rarity in hops.items()}
    texts = [_read_words(passage.text) for passage in passages]
    synonyms, kins = question.synonyms, question.kin

    def find_hit(word: str) -> _WordHit | None:
        stem, kin = find_term(word)
        if stem in shares:
            return _WordHit(stem, 1.0)
        if stem in synonyms:
            term = synonyms[stem]
            common = min(1.0, _rarity(counts.get(stem, 0), total) / (rarities[term] or 1.0))
            return _WordHit(term, SYNONYM_WEIGHT * common)
        return _WordHit(kins[kin], KIN_WEIGHT) if kin in kins else None

    hits = _WordHits(find_hit)
    mean = sum(map(len, texts)) / len(texts) if texts else 1.0
    owns = ({word: hit for word in text if (hit := hits[word]) is not None} for text in texts)
    matches = [
        _weigh_words(text, own, shares, mean or 1.0) if own else _NO_MATCH
        for text, own in zip(texts, owns, strict=True)
    ]
    return [_set_hops_apart(match, hits, hops) for match in matches] if hops else matches


class _WordHits(dict[str, "_WordHit | None"]):
    """What words are for a question. Each is looked up once."""

    def __init__(self, find: Callable[[str], _WordHit | None]) -> None:
        self._find = find

    def __missing__(self, word: str) -> _WordHit | None:
        self[word] = hit = self._find(word)
        return hit


_NO_MATCH = _WordMatch({}, (), ())


def _weigh_words(text: list[str], own: Mapping[str, _WordHit], shares: Mapping[str, float], mean: float) -> _WordMatch:
    """Weigh the words that a passage has of a question (BM25)."""
    times: dict[str, float] = {}
    for word, (term, weight) in own.items():
        times[term] = times.get(term, 0.0) + weight * text.count(word)
    length = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * len(text) / mean)
    weights = {term: shares[term] * often * (_SATURATION + 1) / (often + length) for term, often in times.items()}
    return _WordMatch(weights, tuple(own), ())


def _set_hops_apart(match: _WordMatch, hits: Mapping[str, _WordHit | None], hops: Mapping[str, float]) -> _WordMatch:
    """The words of a question are a reason of their own: nobody asked for those of the second search."""
    of_hop = {word for word in match.words if (hit := hits[word]) is not None and hit.term in hops}
    own = tuple(word for word in match.words if word not in of_hop)
    return _WordMatch(match.weights, own, tuple(word for word in match.words if word in of_hop))


def _scale_similarities(keys: Sequence[PassageKey], similarities: Mapping[PassageKey, float]) -> list[float]:
    """Scale cosines so that the least counts for 0: embedders differ in how alike unlike texts are."""
    least = min(similarities.values())
    return [SIMILARITY_WEIGHT * max(0.0, similarities.get(key, least) - least) for key in keys]


def _find_runs(passages: Sequence[Passage]) -> list[tuple[int, int]]:
    """Find the runs of passages within which words spread: of one session, without a long pause."""
    starts = [
        index
        for index, passage in enumerate(passages)
        if not index
        or passage.scope != passages[index - 1].scope
        or abs(passage.time_us - passages[index - 1].time_us) > SPREAD_PAUSE_US
    ]
    return list(zip(starts, [*starts[1:], len(passages)], strict=False))


def _spread(
    passages: Sequence[Passage],
    runs: Iterable[tuple[int, int]],
    matches: Sequence[_WordMatch],
    closeness: Sequence[float],
) -> list[float]:
    """What the neighbours of each passage count for."""
    near = [0.0] * len(passages)
    has_closeness = any(closeness)
    for start, end in runs:
        if end - start < 2:
            continue
        steps = _measure_steps(passages[start:end])
        terms = dict.fromkeys(term for match in matches[start:end] for term in match.weights)
        for term in terms:
            _spread_values([match.weights.get(term, 0.0) for match in matches[start:end]], steps, near, start)
        if has_closeness:
            _spread_values(closeness[start:end], steps, near, start)
    return near


def _measure_steps(run: Sequence[Passage]) -> list[float]:
    """How much of a word is left between each passage and the one before it. Parts of one message share its place: all of
    them together are one message away from the next one."""
    positions = [passage.place + passage.part / (passage.part + 1) for passage in run]
    return [1.0, *(SPREAD_FADE ** abs(b - a) for a, b in itertools.pairwise(positions))]


def _spread_values(values: Sequence[float], steps: Sequence[float], near: list[float], start: int) -> None:
    """Add to each passage what its neighbours have more of than itself."""
    best = 0.0
    ahead: list[float] = []
    for value, step in zip(values, steps, strict=True):
        best *= step
        ahead.append(best)
        best = max(best, value)
    best, later = 0.0, 1.0
    for index in range(len(values) - 1, -1, -1):
        best *= later
        later = steps[index]
        gain = max(best, ahead[index]) - values[index]
        if gain > 0:
            near[start + index] += SPREAD_WEIGHT * gain
        best = max(best, values[index])


def find_neighbours(ranked: Sequence[PassageScore], most: int, reach: int = SPREAD_REACH) -> tuple[NeighbourSpan, ...]:
    """List the places around the best passages, `most` of them at most, without overlaps: their neighbours may hold the
    answer."""
    places: dict[Scope, set[int]] = {}
    for item in ranked[:most]:
        places.setdefault(item.passage.scope, set()).add(item.passage.place)
    spans: list[NeighbourSpan] = []
    for scope in sorted(places, key=lambda scope: scope.stream):
        first = last = -1
        for place in sorted(places[scope]):
            if last >= 0 and place - reach > last + 1:
                spans.append(NeighbourSpan(scope.stream, first, last))
                last = -1
            first = max(0, place - reach) if last < 0 else first
            last = place + reach
        spans.append(NeighbourSpan(scope.stream, first, last))
    return tuple(spans)


def find_hop_terms(
    question: RecallQuestion, ranked: Sequence[PassageScore], counts: Mapping[str, int], total: int
) -> tuple[str, ...]:
    """List terms for a second search, for a question that needs two passages: the rarest of the best passages.

    `counts` is of these terms too, as far as it is known; a term without a count is taken as rare."""
    known = {*question.terms, *question.synonyms, *(find_term(name).stem for name in question.about)}
    weights: dict[str, float] = {}
    for item in ranked[:HOP_PASSAGES]:
        for term in dict.fromkeys(passage_terms(item.passage.text)):
            count = counts.get(term, 1)
            if term not in known and count <= total * _HOP_SHARE:
                weights[term] = weights.get(term, 0.0) + item.score * _rarity(count, total)
    return tuple(sorted(weights, key=lambda term: (-weights[term], term))[:HOP_TERMS])
