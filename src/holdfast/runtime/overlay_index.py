"""Passages and deliveries of an overlay: those of its new streams are in memory, all others are read below.

Laws: nothing is taken, forgotten or delivered in the store below. Only the index of a stream that is below is caught up
there: it follows the log, and says nothing that the log below does not say. What a stream below gets in memory is not
searched, and what is erased of it in memory is not found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.flows.effects import Flow, StoreCall
from holdfast.model.log import StreamHead
from holdfast.model.memory.passages import (
    IndexMark,
    NeighbourSpan,
    Passage,
    PassageBatch,
    PassageFilter,
    PassageKey,
    PassageMatches,
    PassageQuery,
    PassageTotals,
    StreamSpan,
    VectorQuery,
)
from holdfast.model.names import StreamId
from holdfast.storage.memory import MemoryStore


class OverlayIndex:
    """Answers the calls of PassageIndex and DeliveryQueue over a store below."""

    def __init__(
        self,
        memory: MemoryStore,
        bases: Mapping[StreamId, StreamHead],
        erased: Mapping[StreamId, Collection[int]],
    ) -> None:
        """`bases` are where the streams in memory continue those below, `erased` the events below that are erased here."""
        self._memory = memory
        self._bases = bases
        self._erased = erased
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

    def _is_new(self, stream: StreamId) -> bool:
        return stream in self._bases and not self._bases[stream].version

    def _below(self, visible: PassageFilter) -> PassageFilter:
        """What may be seen below: nothing that is erased here."""
        spans = tuple(span for span in visible.spans if not self._is_new(span.stream))
        erased = (StreamSpan(stream, seq, seq) for stream, seqs in self._erased.items() for seq in sorted(seqs))
        return msgspec.structs.replace(visible, spans=spans, hidden=(*visible.hidden, *erased))

    def _index(self, batch: PassageBatch) -> Flow[bool]:
        if self._is_new(batch.stream):
            return self._memory.index_passages(batch)
        last = self._bases[batch.stream].version if batch.stream in self._bases else batch.mark.version
        if batch.before is not None and batch.before.version >= last:
            return True
        below = msgspec.structs.replace(
            batch,
            mark=msgspec.structs.replace(batch.mark, version=min(batch.mark.version, last)),
            passages=tuple(one for one in batch.passages if one.passage.seq <= last),
        )
        stored: bool = yield StoreCall("index_passages", (below,))
        return stored

    def _find_marks(self, streams: Sequence[StreamId]) -> Flow[dict[StreamId, IndexMark]]:
        others = [stream for stream in streams if not self._is_new(stream)]
        below: dict[StreamId, IndexMark] = (yield StoreCall("index_marks", (others,))) if others else {}
        return below | self._memory.index_marks([stream for stream in streams if self._is_new(stream)])

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
        self, visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int
    ) -> Flow[tuple[Passage, ...]]:
        others = [span for span in places if not self._is_new(span.stream)]
        own = self._memory.passages_at(visible, [span for span in places if self._is_new(span.stream)], limit)
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
    "renew_offload",
    "release_offload",
    "deliveries",
    "requeue_offload",
)
"""What changes long-term memory, or works for it: over an overlay, it knows the streams in memory alone."""
