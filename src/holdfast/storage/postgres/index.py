"""The parts of both stores on PostgreSQL, blocking and awaited, that have passages and deliveries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

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
from holdfast.storage.postgres import passages as operations
from holdfast.storage.postgres.log import Operation

T = TypeVar("T")


class PostgresIndex(ABC):
    """Passages and their vectors, and the deliveries of the outbox."""

    @abstractmethod
    def run(self, operation: Callable[[bool], Operation[T]], *, retry: bool = True) -> T:
        """Run an operation."""

    def index_passages(self, batch: PassageBatch) -> bool:
        return self.run(lambda _: operations.index_passages(batch))

    def adopt_passages(self, passages: Sequence[IndexedPassage]) -> None:
        return self.run(lambda _: operations.adopt_passages(passages))

    def index_marks(self, streams: Sequence[StreamId]) -> dict[StreamId, IndexMark]:
        return self.run(lambda _: operations.index_marks(streams))

    def take_passages(self, span: StreamSpan, hidden: Sequence[StreamSpan] = ()) -> int:
        return self.run(lambda _: operations.take_passages(span, hidden))

    def match_passages(self, query: PassageQuery) -> PassageMatches:
        return self.run(lambda _: operations.match_passages(query))

    def passages_at(self, visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int) -> tuple[Passage, ...]:
        return self.run(lambda _: operations.passages_at(visible, places, limit))

    def read_passages(self, visible: PassageFilter, keys: Sequence[PassageKey]) -> tuple[Passage, ...]:
        return self.run(lambda _: operations.read_passages(visible, keys))

    def recent_passages(self, visible: PassageFilter, limit: int) -> tuple[Passage, ...]:
        return self.run(lambda _: operations.recent_passages(visible, limit))

    def passage_totals(self, visible: PassageFilter) -> PassageTotals:
        return self.run(lambda _: operations.passage_totals(visible))

    def forget_passages(self, subject: MemorySubject) -> ForgetReport:
        return self.run(lambda _: operations.forget_passages(subject))

    def unembedded_passages(self, tenant: str, embedder: str, limit: int) -> tuple[Passage, ...]:
        return self.run(lambda _: operations.unembedded_passages(tenant, embedder, limit))

    def put_vectors(self, embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> None:
        return self.run(lambda _: operations.put_vectors(embedder, vectors))

    def match_vectors(self, query: VectorQuery) -> tuple[tuple[Passage, float], ...]:
        return self.run(lambda _: operations.match_vectors(query))

    def claim_offloads(
        self, tenant: str, *, owner: str, now_us: int, lease_us: int, limit: int
    ) -> tuple[Delivery, ...]:
        return self.run(lambda _: operations.claim_offloads(tenant, owner, now_us, lease_us, limit))

    def renew_offload(self, delivery: Delivery) -> bool:
        return self.run(lambda _: operations.renew_offload(delivery))

    def release_offload(self, delivery: Delivery) -> bool:
        return self.run(lambda _: operations.release_offload(delivery))

    def deliveries(self, tenant: str, *, set_aside: bool | None = None, limit: int) -> tuple[Delivery, ...]:
        return self.run(lambda _: operations.deliveries(tenant, set_aside, limit))

    def requeue_offload(self, delivery: Delivery, now_us: int) -> None:
        return self.run(lambda _: operations.requeue_offload(delivery, now_us))


class AsyncPostgresIndex(ABC):
    """The same methods, awaited."""

    @abstractmethod
    async def _run(self, operation: Callable[[bool], Operation[T]]) -> T:
        """Run an operation."""

    async def index_passages(self, batch: PassageBatch) -> bool:
        return await self._run(lambda _: operations.index_passages(batch))

    async def adopt_passages(self, passages: Sequence[IndexedPassage]) -> None:
        return await self._run(lambda _: operations.adopt_passages(passages))

    async def index_marks(self, streams: Sequence[StreamId]) -> dict[StreamId, IndexMark]:
        return await self._run(lambda _: operations.index_marks(streams))

    async def take_passages(self, span: StreamSpan, hidden: Sequence[StreamSpan] = ()) -> int:
        return await self._run(lambda _: operations.take_passages(span, hidden))

    async def match_passages(self, query: PassageQuery) -> PassageMatches:
        return await self._run(lambda _: operations.match_passages(query))

    async def passages_at(
        self, visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int
    ) -> tuple[Passage, ...]:
        return await self._run(lambda _: operations.passages_at(visible, places, limit))

    async def read_passages(self, visible: PassageFilter, keys: Sequence[PassageKey]) -> tuple[Passage, ...]:
        return await self._run(lambda _: operations.read_passages(visible, keys))

    async def recent_passages(self, visible: PassageFilter, limit: int) -> tuple[Passage, ...]:
        return await self._run(lambda _: operations.recent_passages(visible, limit))

    async def passage_totals(self, visible: PassageFilter) -> PassageTotals:
        return await self._run(lambda _: operations.passage_totals(visible))

    async def forget_passages(self, subject: MemorySubject) -> ForgetReport:
        return await self._run(lambda _: operations.forget_passages(subject))

    async def unembedded_passages(self, tenant: str, embedder: str, limit: int) -> tuple[Passage, ...]:
        return await self._run(lambda _: operations.unembedded_passages(tenant, embedder, limit))

    async def put_vectors(self, embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> None:
        return await self._run(lambda _: operations.put_vectors(embedder, vectors))

    async def match_vectors(self, query: VectorQuery) -> tuple[tuple[Passage, float], ...]:
        return await self._run(lambda _: operations.match_vectors(query))

    async def claim_offloads(
        self, tenant: str, *, owner: str, now_us: int, lease_us: int, limit: int
    ) -> tuple[Delivery, ...]:
        return await self._run(lambda _: operations.claim_offloads(tenant, owner, now_us, lease_us, limit))

    async def renew_offload(self, delivery: Delivery) -> bool:
        return await self._run(lambda _: operations.renew_offload(delivery))

    async def release_offload(self, delivery: Delivery) -> bool:
        return await self._run(lambda _: operations.release_offload(delivery))

    async def deliveries(self, tenant: str, *, set_aside: bool | None = None, limit: int) -> tuple[Delivery, ...]:
        return await self._run(lambda _: operations.deliveries(tenant, set_aside, limit))

    async def requeue_offload(self, delivery: Delivery, now_us: int) -> None:
        return await self._run(lambda _: operations.requeue_offload(delivery, now_us))
