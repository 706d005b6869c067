"""The part of the store on a file that has passages and deliveries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import apsw
import msgspec

from holdfast import codec
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
from holdfast.model.rows import OutboxRow
from holdfast.storage import common
from holdfast.storage.passages import check_terms
from holdfast.storage.sql import row_of
from holdfast.storage.sqlite.log import SqliteLog, read_head
from holdfast.storage.sqlite.passage_log import SQL, read_mark
from holdfast.storage.sqlite.passages import PassageReader, read_unembedded

T = TypeVar("T")


@contextmanager
def read_transaction(connection: apsw.Connection) -> Iterator[None]:
    """Have several statements see the same state of the file."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


class SqliteIndex(ABC):
    """Passages and their vectors, and the deliveries of the outbox."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[apsw.Connection]:
        """Lend a connection for one read."""

    @abstractmethod
    def _write(self, job: Callable[[SqliteLog], T]) -> T:
        """Run a job on the writing connection; block until it is durable."""

    @abstractmethod
    def _clear_log(self) -> None:
        """Remove erased content from the write-ahead log."""

    @contextmanager
    def _read_passages(self, visible: PassageFilter) -> Iterator[PassageReader]:
        """One consistent read of several statements."""
        with self._read() as connection, read_transaction(connection):
            yield PassageReader(connection, visible)

    def index_passages(self, batch: PassageBatch) -> bool:
        return self._write(lambda log: log.passages.index(batch))

    def adopt_passages(self, passages: Sequence[IndexedPassage]) -> None:
        self._write(lambda log: log.passages.adopt(passages))

    def index_marks(self, streams: Sequence[StreamId]) -> dict[StreamId, IndexMark]:
        with self._read() as connection, read_transaction(connection):
            marks = ((stream, read_mark(connection, read_head(connection, stream)[0])) for stream in streams)
            return {stream: mark for stream, mark in marks if mark is not None}

    def take_passages(self, span: StreamSpan, hidden: Sequence[StreamSpan] = ()) -> int:
        return self._write(lambda log: log.passages.take(span, hidden))

    def match_passages(self, query: PassageQuery) -> PassageMatches:
        terms = check_terms(query)
        with self._read_passages(query.visible) as reader:
            return reader.match(query, terms)

    def passages_at(self, visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int) -> tuple[Passage, ...]:
        common.check_limit(limit)
        with self._read_passages(visible) as reader:
            return reader.at(places, limit)

    def read_passages(self, visible: PassageFilter, keys: Sequence[PassageKey]) -> tuple[Passage, ...]:
        with self._read_passages(visible) as reader:
            return reader.read(keys)

    def recent_passages(self, visible: PassageFilter, limit: int) -> tuple[Passage, ...]:
        common.check_limit(limit)
        with self._read_passages(visible) as reader:
            return reader.newest(limit)

    def passage_totals(self, visible: PassageFilter) -> PassageTotals:
        with self._read_passages(visible) as reader:
            return reader.totals()

    def forget_passages(self, subject: MemorySubject) -> ForgetReport:
        report = self._write(lambda log: log.passages.forget(subject))
        self._clear_log()
        return report

    def unembedded_passages(self, tenant: str, embedder: str, limit: int) -> tuple[Passage, ...]:
        common.check_limit(limit)
        with self._read() as connection, read_transaction(connection):
            return read_unembedded(connection, tenant, embedder, limit)

    def put_vectors(self, embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> None:
        self._write(lambda log: log.passages.put_vectors(embedder, vectors))

    def match_vectors(self, query: VectorQuery) -> tuple[tuple[Passage, float], ...]:
        common.check_limit(query.limit)
        with self._read_passages(query.visible) as reader:
            return reader.nearest(query)

    # Deliveries

    def claim_offloads(
        self, tenant: str, *, owner: str, now_us: int, lease_us: int, limit: int
    ) -> tuple[Delivery, ...]:
        common.check_limit(limit)
        return self._write(lambda log: _claim(log.connection, tenant, owner, now_us, lease_us, limit))

    def renew_offload(self, delivery: Delivery) -> bool:
        values = (delivery.until_us, *_delivery_key(delivery), delivery.owner, delivery.attempts)
        return self._write(lambda log: bool(log.connection.execute(SQL["renew"], values).fetchall()))

    def release_offload(self, delivery: Delivery) -> bool:
        values = (
            *(delivery.next_us, delivery.error, int(delivery.is_set_aside)),
            *(*_delivery_key(delivery), delivery.owner, delivery.attempts),
        )
        return self._write(lambda log: bool(log.connection.execute(SQL["release"], values).fetchall()))

    def deliveries(self, tenant: str, *, set_aside: bool | None = None, limit: int) -> tuple[Delivery, ...]:
        common.check_limit(limit)
        wanted = None if set_aside is None else int(set_aside)
        with self._read() as connection:
            found = connection.execute(SQL["pending"], (tenant, wanted, None, limit))
            return tuple(map(_build_delivery, found))

    def requeue_offload(self, delivery: Delivery, now_us: int) -> None:
        self._write(lambda log: _requeue(log.connection, (*_delivery_key(delivery), now_us)))


def _claim(
    connection: apsw.Connection, tenant: str, owner: str, now_us: int, lease_us: int, limit: int
) -> tuple[Delivery, ...]:
    connection.execute(SQL["drop_ended_deliveries"], (tenant,))
    due = connection.execute(SQL["pending"], (tenant, 0, now_us, limit)).fetchall()
    claimed = tuple(
        msgspec.structs.replace(each, owner=owner, until_us=now_us + lease_us, attempts=each.attempts + 1)
        for each in map(_build_delivery, due)
    )
    for each in claimed:
        fields = (each.owner, each.until_us, each.attempts, each.next_us, each.error, int(each.is_set_aside))
        connection.execute(SQL["claim"], (*_delivery_key(each), *fields))
    return claimed


def _requeue(connection: apsw.Connection, values: tuple[Any, ...]) -> None:
    connection.execute(SQL["requeue"], values)


def _build_delivery(row: Sequence[Any]) -> Delivery:
    width = len(OutboxRow.__struct_fields__)
    owner, until_us, attempts, next_us, error, is_set_aside = row[width:]
    return Delivery(
        offload=codec.build_offload(row_of(OutboxRow, row[:width])),
        owner=owner,
        until_us=until_us,
        attempts=attempts,
        next_us=next_us,
        error=error,
        is_set_aside=bool(is_set_aside),
    )


def _delivery_key(delivery: Delivery) -> tuple[str | int, ...]:
    return (*delivery.offload.scope.columns.values(), delivery.offload.entry)
