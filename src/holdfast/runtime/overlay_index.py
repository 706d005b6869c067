"""Passages and deliveries of an overlay: those of its own streams are in memory, all others are read below.

Laws: nothing is taken, forgotten or delivered in the store below. Only the index of a stream that is not in memory is
caught up there: it follows the log, and says nothing that the log below does not say.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from holdfast.flows.effects import Flow, StoreCall
from holdfast.model import limits
from holdfast.model.memory.passages import (
    IndexMark,
    Passage,
    PassageBatch,
    PassageFilter,
    PassageKey,
    PassageMatches,
    PassageQuery,
    PassageTotals,
    PlaceSpan,
    StreamSpan,
    VectorQuery,
)
from holdfast.model.names import StreamId
from holdfast.storage.memory import MemoryStore


class OverlayIndex:
    """Answers the calls of PassageIndex and DeliveryQueue over a store below."""

    def __init__(self, memory: MemoryStore, own: Collection[StreamId]) -> None:
        """`own` are the streams that are in memory; it grows."""
        self._memory = memory
        self._own = own
        self.methods: dict[str, Callable[..., Flow[Any]]] = {
            "index_passages": self._index,
            "index_marks": self._find_marks,
            "match_passages": self._match,
            "passages_at": self._find_neighbours,
            "read_passages": self._read,
            "recent_passages": self._find_recent,
            "passage_totals": self._add_totals,
            "match_vectors": self._match_vectors,
            **{name: self._answer_in_memory(name) for name in _OWN_METHODS},
        }

    def _answer_in_memory(self, name: str) -> Callable[..., Flow[Any]]:
        def answer(*args: Any, **kwargs: Any) -> Flow[Any]:
            yield from ()
            return getattr(self._memory, name)(*args, **kwargs)

        return answer

    def _below(self, visible: PassageFilter) -> PassageFilter:
        """What may be seen below: nothing of the streams in memory."""
        spans = tuple(span for span in visible.spans if span.stream not in self._own)
        replaced = tuple(StreamSpan(stream, 0, limits.WHOLE_NUMBER) for stream in self._own if stream.kind == "session")
        return msgspec.structs.replace(visible, spans=spans, hidden=(*visible.hidden, *replaced))

    def _index(self, batch: PassageBatch) -> Flow[bool]:
        if batch.stream in self._own:
            return self._memory.index_passages(batch)
        stored: bool = yield StoreCall("index_passages", (batch,))
        return stored

    def _find_marks(self, streams: Sequence[StreamId]) -> Flow[dict[StreamId, IndexMark]]:
        others = [stream for stream in streams if stream not in self._own]
        below: dict[StreamId, IndexMark] = (yield StoreCall("index_marks", (others,))) if others else {}
        return below | self._memory.index_marks([stream for stream in streams if stream in self._own])

    def _match(self, query: PassageQuery) -> Flow[PassageMatches]:
        own = self._memory.match_passages(query)
        below: PassageMatches = yield StoreCall(
            "match_passages", (msgspec.structs.replace(query, visible=self._below(query.visible)),)
        )
        pairs = itertools.zip_longest(own.passages, below.passages)
        merged = [each for pair in pairs for each in pair if each is not None]
        terms = own.counts.keys() | below.counts.keys()
        return PassageMatches(
            passages=tuple(merged[: query.limit]),
            counts={term: own.counts.get(term, 0) + below.counts.get(term, 0) for term in terms},
            total=own.total + below.total,
        )

    def _find_neighbours(
        self, visible: PassageFilter, places: Sequence[PlaceSpan], limit: int
    ) -> Flow[tuple[Passage, ...]]:
        others = [span for span in places if span.stream not in self._own]
        own = self._memory.passages_at(visible, [span for span in places if span.stream in self._own], limit)
        below: tuple[Passage, ...] = ()
        if others:
            below = yield StoreCall("passages_at", (self._below(visible), others, limit))
        return (*own, *below)[:limit]

    def _read(self, visible: PassageFilter, keys: Sequence[PassageKey]) -> Flow[tuple[Passage, ...]]:
        below: tuple[Passage, ...] = yield StoreCall("read_passages", (self._below(visible), keys))
        found = {each.key: each for each in (*below, *self._memory.read_passages(visible, keys))}
        return tuple(found[key] for key in dict.fromkeys(keys) if key in found)

    def _find_recent(self, visible: PassageFilter, limit: int) -> Flow[tuple[Passage, ...]]:
        below: tuple[Passage, ...] = yield StoreCall("recent_passages", (self._below(visible), limit))
        every = (*below, *self._memory.recent_passages(visible, limit))
        return tuple(sorted(every, key=lambda each: -each.time_us)[:limit])

    def _add_totals(self, visible: PassageFilter) -> Flow[PassageTotals]:
        below: PassageTotals = yield StoreCall("passage_totals", (self._below(visible),))
        own = self._memory.passage_totals(visible)
        times = [time for time in (below.oldest_us, below.newest_us, own.oldest_us, own.newest_us) if time is not None]
        return PassageTotals(
            passages=own.passages + below.passages,
            sessions=own.sessions + below.sessions,
            text_bytes=own.text_bytes + below.text_bytes,
            oldest_us=min(times, default=None),
            newest_us=max(times, default=None),
        )

    def _match_vectors(self, query: VectorQuery) -> Flow[tuple[tuple[Passage, float], ...]]:
        other = msgspec.structs.replace(query, visible=self._below(query.visible))
        below: tuple[tuple[Passage, float], ...] = yield StoreCall("match_vectors", (other,))
        every = (*below, *self._memory.match_vectors(query))
        return tuple(sorted(every, key=lambda match: -match[1])[: query.limit])


_OWN_METHODS = (
    "adopt_passages",
    "take_passages",
    "forget_passages",
    "unembedded_passages",
    "put_vectors",
    "claim_offloads",
    "release_offload",
    "deliveries",
    "requeue_offload",
)
"""What changes long-term memory, or works for it: over an overlay, it knows the streams in memory alone."""
