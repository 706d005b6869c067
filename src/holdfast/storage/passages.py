"""What the stores of passages share: which passages may be seen, and which of them are candidates for a query.

Laws: what may not be seen is neither counted nor ranked. The user's words and all others are two sides: each has its half
of the candidates, so that long replies never displace what the user said.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.model.content import Role
from holdfast.model.memory.passages import (
    Passage,
    PassageFilter,
    PassageKind,
    PassageQuery,
    PassageTotals,
    StreamSpan,
)
from holdfast.model.names import StreamId, check_size
from holdfast.storage import common

COMMON_ROWS = 1_000
"""A term that more passages of one side have is common: it adds to scores, but finds no candidates of its own."""
COUNT_SHARE = 16
"""If only counts are wanted, they stop at one in so many passages: a word that more of them have leads nowhere."""
SCAN_ROWS = 20_000
"""How many passages with a term are looked at, newest first, where each has to be compared with a filter."""
SIDES = 2


def side_of(role: Role) -> int:
    """0 for the words of the user, 1 for all others."""
    return 0 if role == "user" else 1


def check_terms(query: PassageQuery) -> tuple[str, ...]:
    """Return the terms to search for, each once. One with other characters than letters and digits is in no passage."""
    if query.limit:
        common.check_limit(query.limit)
    check_size("the search", len(query.terms), "terms", "SEARCH_WORDS", "Search for fewer.")
    return tuple(filter(str.isalnum, dict.fromkeys(query.terms)))


def is_visible(passage: Passage, visible: PassageFilter) -> bool:
    """Whether a filter lets this passage through."""
    scope, stream = passage.scope, passage.scope.stream
    is_own = bool(visible.user) and passage.is_taken and passage.user == visible.user
    return (
        scope.tenant == visible.tenant
        and (is_own or _is_within(visible.spans, stream, passage.seq))
        and not _is_within(visible.hidden, stream, passage.seq)
        and allows(visible, passage.role, passage.kind, passage.requires)
        and (not visible.sessions or scope.session in visible.sessions)
        and (visible.since_us is None or passage.time_us >= visible.since_us)
        and (visible.until_us is None or passage.time_us <= visible.until_us)
    )


def allows(visible: PassageFilter, role: str, kind: str, requires: Iterable[str]) -> bool:
    """Whether a filter lets passages of this role and kind through that need these permissions."""
    return (
        (not visible.roles or role in visible.roles)
        and (not visible.kinds or kind in visible.kinds)
        and (visible.permissions is None or all(name in visible.permissions for name in requires))
    )


def _is_within(spans: Iterable[StreamSpan], stream: StreamId, seq: int) -> bool:
    return any(span.first <= seq <= span.last and span.stream == stream for span in spans)


class Shelf(NamedTuple):
    """Passages that every reader sees alike, by number in a database: taken ones of a user, or others of one stream."""

    number: int
    stream_no: int
    """0 for taken ones."""
    role: Role
    kind: PassageKind
    user: str
    requires: tuple[str, ...]
    size: int
    """How many passages are on it."""


def build_shelf(row: Sequence[Any]) -> Shelf:
    """Build a shelf from its row, which has the permissions as JSON."""
    number, stream_no, role, kind, user, requires, size = row
    return Shelf(number, stream_no, role, kind, user, tuple(msgspec.json.decode(requires)) if requires else (), size)


class Sight:
    """A filter with the numbers of a database in place of names."""

    def __init__(
        self,
        visible: PassageFilter,
        numbers: Mapping[StreamId, int],
        shelves: Iterable[Shelf],
        sessions: Collection[int] | None,
    ) -> None:
        """`numbers` has the streams of the filter that exist; `sessions` those with the wanted names, None for all."""
        self.visible = visible
        self.shelves = {each.number: each for each in shelves if allows(visible, each.role, each.kind, each.requires)}
        self.spans = _group_spans(visible.spans, numbers)
        self.hidden = _group_spans(visible.hidden, numbers)
        self.sessions = sessions
        self.has_bounds = sessions is not None or visible.since_us is not None or visible.until_us is not None
        """Passages of the shelves have to be looked at one by one."""

    def is_open(self, shelf: Shelf) -> bool:
        """Whether all of a shelf may be seen, as far as it is not hidden and within the bounds."""
        return bool(self.visible.user) and not shelf.stream_no and shelf.user == self.visible.user

    def sees(self, shelf_no: int, stream_no: int, seq: int, time_us: int) -> bool:
        shelf, visible = self.shelves.get(shelf_no), self.visible
        return (
            shelf is not None
            and (self.is_open(shelf) or _has(self.spans, stream_no, seq))
            and not _has(self.hidden, stream_no, seq)
            and (self.sessions is None or stream_no in self.sessions)
            and (visible.since_us is None or time_us >= visible.since_us)
            and (visible.until_us is None or time_us <= visible.until_us)
        )


def _group_spans(spans: Iterable[StreamSpan], numbers: Mapping[StreamId, int]) -> dict[int, list[tuple[int, int]]]:
    grouped: dict[int, list[tuple[int, int]]] = {}
    for span in spans:
        if span.stream in numbers:
            grouped.setdefault(numbers[span.stream], []).append((span.first, span.last))
    return grouped


def _has(spans: Mapping[int, Sequence[tuple[int, int]]], stream_no: int, seq: int) -> bool:
    return any(first <= seq <= last for first, last in spans.get(stream_no, ()))


def weigh_term(count: int, total: int) -> float:
    """What a term is worth that so many of all passages have."""
    return math.log(1 + max(total, count) / max(count, 1))


def score_rows(found: Mapping[str, Iterable[int]], counts: Mapping[str, int], total: int) -> dict[int, float]:
    """Return the score of each row that has any of the terms; `found` has the rows of each."""
    scores: dict[int, float] = {}
    for term, rows in found.items():
        worth = weigh_term(counts[term], total)
        for row in rows:
            scores[row] = scores.get(row, 0.0) + worth
    return scores


def keep_best(scores: dict[int, float], limit: int) -> dict[int, float]:
    """Return the rows with the best scores; the newest among equals."""
    if len(scores) <= limit or not limit:
        return scores if limit else {}
    least = sorted(scores.values())[-limit]
    best = {row: score for row, score in scores.items() if score > least}
    equal = (row for row, score in scores.items() if score == least)
    return best | dict.fromkeys(heapq.nlargest(limit - len(best), equal), least)


def share_limit(sides: Sequence[Mapping[int, float]], limit: int) -> list[int]:
    """Return the best rows of both sides, best first. Each side has half; what one does not need goes to the other."""
    ordered = [sorted(scores, key=lambda row, of=scores: (-of[row], -row)) for scores in sides]  # type: ignore[misc]
    halves = [-(-limit // SIDES), limit // SIDES]
    spare = [max(0, half - len(rows)) for half, rows in zip(halves, ordered, strict=True)]
    chosen = [rows[: half + other] for rows, half, other in zip(ordered, halves, reversed(spare), strict=True)]
    every = {row: scores[row] for rows, scores in zip(chosen, sides, strict=True) for row in rows}
    return sorted(every, key=lambda row: (-every[row], -row))


def total_passages(rows: Iterable[tuple[Any, int, int]]) -> PassageTotals:
    """Add up passages: of each its stream, its size in bytes, its time."""
    streams: set[Any] = set()
    count = size = 0
    times: list[int] = []
    for stream, text_bytes, time_us in rows:
        streams.add(stream)
        count += 1
        size += text_bytes
        times.append(time_us)
    return PassageTotals(
        passages=count,
        sessions=len(streams),
        text_bytes=size,
        oldest_us=min(times, default=None),
        newest_us=max(times, default=None),
    )


def is_hidden(hidden: Iterable[StreamSpan], stream: StreamId, seq: int) -> bool:
    """Whether an event is in one of these spans."""
    return _is_within(hidden, stream, seq)


def chunk(values: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield a sequence in parts."""
    for at in range(0, len(values), size):
        yield values[at : at + size]


def count_limit(total: int) -> int:
    """Where a count stops if only counts are wanted."""
    return min(SCAN_ROWS, max(COMMON_ROWS, total // COUNT_SHARE))
