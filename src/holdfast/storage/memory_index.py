"""Passages, vectors and deliveries in memory: the reference for the stores that have files."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from holdfast import codec
from holdfast.errors import VersionConflict
from holdfast.model.log import StoredEvent, StreamHead
from holdfast.model.memory.deliveries import Delivery
from holdfast.model.memory.passages import (
    IndexedPassage,
    IndexMark,
    MemorySubject,
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
from holdfast.model.memory.recall import ForgetReport
from holdfast.model.names import StreamId
from holdfast.model.rows import OutboxRow, Row
from holdfast.storage import common, passages
from holdfast.storage.vectors import find_nearest, pack_vector


class _Entry(NamedTuple):
    passage: Passage
    terms: frozenset[str]


class MemoryIndex(ABC):
    """The part of the store in memory that has the passages."""

    _streams: dict[StreamId, list[StoredEvent]]

    def __init__(self) -> None:
        self._passages: dict[StreamId, dict[tuple[int, int], _Entry]] = {}
        self._marks: dict[StreamId, IndexMark] = {}
        self._vectors: dict[str, dict[PassageKey, bytes]] = {}

    @abstractmethod
    def _open_lock(self) -> threading.RLock:
        """Return the lock of the store, if it is open."""

    @abstractmethod
    def head(self, stream: StreamId) -> StreamHead | None:
        """Return the head of a stream."""

    def index_passages(self, batch: PassageBatch) -> bool:
        with self._open_lock():
            stored = self._marks.get(batch.stream)
            if stored != batch.before:
                return False
            head = self.head(batch.stream)
            version = head.version if head else 0
            if batch.mark.version > version:
                raise VersionConflict(stream=batch.stream, expected=batch.mark.version, actual=version)
            live = {event.seq for event in self._streams[batch.stream] if event.payload is not None}
            entries = self._passages.setdefault(batch.stream, {})
            start = batch.start
            taken = {seq for (seq, _), entry in entries.items() if entry.passage.is_taken}
            for seq, part in [*entries]:
                is_replaced = start < seq <= batch.mark.version and entries[seq, part].passage.kind == "message"
                if is_replaced and seq in live:
                    self._drop(batch.stream, seq, part)
            for each in batch.passages:
                if each.passage.seq in live:
                    is_taken = each.passage.is_taken or each.passage.seq in taken
                    self._put(each, is_taken=is_taken)
            self._marks[batch.stream] = batch.mark
            return True

    def adopt_passages(self, passages: Sequence[IndexedPassage]) -> None:
        with self._open_lock():
            for each in passages:
                stream = each.passage.scope.stream
                if stream not in self._streams:
                    raise VersionConflict(stream=stream, expected=each.passage.seq, actual=0)
            for each in passages:
                self._put(each, is_taken=True)

    def index_marks(self, streams: Sequence[StreamId]) -> dict[StreamId, IndexMark]:
        with self._open_lock():
            return {stream: self._marks[stream] for stream in streams if stream in self._marks}

    def take_passages(self, span: StreamSpan, hidden: Sequence[StreamSpan] = ()) -> int:
        with self._open_lock():
            count = 0
            entries = self._passages.get(span.stream, {})
            for (seq, part), entry in entries.items():
                if span.first <= seq <= span.last and not passages.is_hidden(hidden, span.stream, seq):
                    count += 1
                    taken = msgspec.structs.replace(entry.passage, is_taken=True)
                    entries[seq, part] = entry._replace(passage=taken)
            return count

    def match_passages(self, query: PassageQuery) -> PassageMatches:
        terms = passages.check_terms(query)
        with self._open_lock():
            visible = sorted(self._visible(query.visible), key=lambda entry: _age(entry.passage))
        found: tuple[dict[str, list[int]], ...] = tuple({} for _ in range(passages.SIDES))
        for at, entry in enumerate(visible):
            for term in terms:
                if term in entry.terms:
                    found[passages.side_of(entry.passage.role)].setdefault(term, []).append(at)
        counts = {term: count for term in terms if (count := sum(len(side.get(term, ())) for side in found))}
        scores = [passages.score_rows(side, counts, len(visible)) for side in found]
        best = passages.share_limit(scores, query.limit)
        return PassageMatches(passages=tuple(visible[at].passage for at in best), counts=counts, total=len(visible))

    def passages_at(self, visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int) -> tuple[Passage, ...]:
        common.check_limit(limit)
        with self._open_lock():
            found: dict[PassageKey, Passage] = {}
            for span in places:
                at = [entry.passage for entry in self._passages.get(span.stream, {}).values()]
                near = [each for each in at if span.first <= each.place <= span.last]
                near.sort(key=lambda each: (each.place, each.seq, each.part))
                found |= {each.key: each for each in near if passages.is_visible(each, visible)}
            return tuple(found.values())[:limit]

    def read_passages(self, visible: PassageFilter, keys: Sequence[PassageKey]) -> tuple[Passage, ...]:
        with self._open_lock():
            found = (self._passages.get(key.stream, {}).get((key.seq, key.part)) for key in dict.fromkeys(keys))
            return tuple(each.passage for each in found if each and passages.is_visible(each.passage, visible))

    def recent_passages(self, visible: PassageFilter, limit: int) -> tuple[Passage, ...]:
        common.check_limit(limit)
        with self._open_lock():
            found = [entry.passage for entry in self._visible(visible)]
        return tuple(sorted(found, key=_age, reverse=True)[:limit])

    def passage_totals(self, visible: PassageFilter) -> PassageTotals:
        with self._open_lock():
            found = [entry.passage for entry in self._visible(visible)]
        return passages.total_passages((each.scope.stream, len(each.text.encode()), each.time_us) for each in found)

    def forget_passages(self, subject: MemorySubject) -> ForgetReport:
        with self._open_lock():
            gone = list(self._find_subject(subject))
            for stream, seq, part in gone:
                self._drop(stream, seq, part)
                self._marks.pop(stream, None)
            if subject.scope is not None:
                self._marks.pop(subject.scope.stream, None)
            return ForgetReport(passages=len(gone), residue=sum(1 for _ in self._find_subject(subject)))

    def unembedded_passages(self, tenant: str, embedder: str, limit: int) -> tuple[Passage, ...]:
        common.check_limit(limit)
        with self._open_lock():
            known = self._vectors.get(embedder, {})
            found = [
                entry.passage
                for stream, entries in self._passages.items()
                for entry in entries.values()
                if stream.tenant == tenant and entry.passage.is_taken and entry.passage.key not in known
            ]
        return tuple(sorted(found, key=_age)[:limit])

    def put_vectors(self, embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> None:
        with self._open_lock():
            for key, vector in vectors:
                if (key.seq, key.part) in self._passages.get(key.stream, {}):
                    self._vectors.setdefault(embedder, {})[key] = pack_vector(vector)

    def match_vectors(self, query: VectorQuery) -> tuple[tuple[Passage, float], ...]:
        common.check_limit(query.limit)
        with self._open_lock():
            known = self._vectors.get(query.embedder, {})
            visible = sorted((entry.passage for entry in self._visible(query.visible)), key=_age)
        vectors = ((at, known[each.key]) for at, each in enumerate(visible) if each.key in known)
        best = find_nearest(pack_vector(query.vector), vectors, query.limit)
        return tuple((visible[at], cosine) for cosine, at in best)

    def _erase_passages(self, stream: StreamId, seqs: Collection[int], keep_taken: Collection[int]) -> None:
        wanted, kept = {*seqs}, {*keep_taken}
        for (seq, part), entry in [*self._passages.get(stream, {}).items()]:
            if seq in wanted and not (seq in kept and entry.passage.is_taken):
                self._drop(stream, seq, part)
        self._marks.pop(stream, None)

    def _put(self, indexed: IndexedPassage, *, is_taken: bool) -> None:
        passage = msgspec.structs.replace(indexed.passage, is_taken=is_taken)
        stream = passage.scope.stream
        self._drop(stream, passage.seq, passage.part)
        terms = frozenset(filter(str.isalnum, indexed.terms))
        self._passages.setdefault(stream, {})[passage.seq, passage.part] = _Entry(passage, terms)

    def _drop(self, stream: StreamId, seq: int, part: int) -> None:
        self._passages.get(stream, {}).pop((seq, part), None)
        for known in self._vectors.values():
            known.pop(PassageKey(stream, seq, part), None)

    def _visible(self, visible: PassageFilter) -> Iterator[_Entry]:
        for stream, entries in self._passages.items():
            if stream.tenant == visible.tenant:
                yield from (entry for entry in entries.values() if passages.is_visible(entry.passage, visible))

    def _find_subject(self, subject: MemorySubject) -> Iterator[tuple[StreamId, int, int]]:
        scope = subject.scope
        for stream, entries in self._passages.items():
            if stream.tenant != subject.tenant or (scope is not None and scope.stream != stream):
                continue
            for (seq, part), entry in entries.items():
                is_wanted = scope is not None or entry.passage.user == subject.user
                if is_wanted and (not subject.seqs or seq in subject.seqs):
                    yield stream, seq, part


def _age(passage: Passage) -> tuple[int, tuple[str, str, str], int, int]:
    """The order of passages by time."""
    return passage.time_us, common.stream_key(passage.scope.stream), passage.seq, passage.part


class MemoryDeliveries(ABC):
    """The part of the store in memory that has the deliveries."""

    _rows: dict[str, dict[StreamId, dict[tuple[str | int, ...], Row]]]

    def __init__(self) -> None:
        self._deliveries: dict[tuple[str | int, ...], Delivery] = {}

    @abstractmethod
    def _open_lock(self) -> threading.RLock:
        """Return the lock of the store, if it is open."""

    def claim_offloads(
        self, tenant: str, *, owner: str, now_us: int, lease_us: int, limit: int
    ) -> tuple[Delivery, ...]:
        common.check_limit(limit)
        with self._open_lock():
            due = [each for each in self._list_deliveries(tenant) if _is_due(each, now_us)][:limit]
            claimed = tuple(
                msgspec.structs.replace(each, owner=owner, until_us=now_us + lease_us, attempts=each.attempts + 1)
                for each in due
            )
            self._deliveries |= {_delivery_key(each): each for each in claimed}
            return claimed

    def renew_offload(self, delivery: Delivery) -> bool:
        with self._open_lock():
            if not self._is_claimed(delivery):
                return False
            self._deliveries[_delivery_key(delivery)] = delivery
            return True

    def release_offload(self, delivery: Delivery) -> bool:
        with self._open_lock():
            if not self._is_claimed(delivery):
                return False
            self._deliveries[_delivery_key(delivery)] = msgspec.structs.replace(delivery, owner="", until_us=0)
            return True

    def _is_claimed(self, delivery: Delivery) -> bool:
        """Whether the worker has the entry still."""
        key = _delivery_key(delivery)
        pending = {_delivery_key(each) for each in self._list_deliveries(delivery.offload.scope.tenant)}
        stored = self._deliveries.get(key)
        if stored is None or key not in pending:
            return False
        return (stored.owner, stored.attempts) == (delivery.owner, delivery.attempts)

    def deliveries(self, tenant: str, *, set_aside: bool | None = None, limit: int) -> tuple[Delivery, ...]:
        common.check_limit(limit)
        with self._open_lock():
            found = (each for each in self._list_deliveries(tenant) if set_aside in (None, each.is_set_aside))
            return tuple(found)[:limit]

    def requeue_offload(self, delivery: Delivery, now_us: int) -> None:
        with self._open_lock():
            stored = self._deliveries.get(_delivery_key(delivery))
            if stored is not None and stored.until_us <= now_us:
                del self._deliveries[_delivery_key(delivery)]

    def _list_deliveries(self, tenant: str) -> list[Delivery]:
        """The entries that are not acknowledged, oldest first; what is known of others is dropped."""
        streams = self._rows.get(OutboxRow.table, {})
        rows = [row for rows in streams.values() for row in rows.values() if isinstance(row, OutboxRow)]
        pending = {common.row_key(row): row for row in rows if not row.done}
        for key in [key for key in self._deliveries if key not in pending]:
            del self._deliveries[key]
        own = sorted((row for row in pending.values() if row.tenant == tenant), key=_outbox_age)
        return [self._deliveries.get(common.row_key(row)) or Delivery(offload=codec.build_offload(row)) for row in own]


def _outbox_age(row: OutboxRow) -> tuple[str | int, ...]:
    return (row.at_us, *common.row_key(row))


def _delivery_key(delivery: Delivery) -> tuple[str | int, ...]:
    scope = delivery.offload.scope
    return (*scope.columns.values(), delivery.offload.entry)


def _is_due(delivery: Delivery, now_us: int) -> bool:
    return not delivery.is_set_aside and delivery.until_us <= now_us and delivery.next_us <= now_us
