"""The event store contract on PostgreSQL, for callers who block."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import psycopg
import psycopg_pool

from holdfast import errors
from holdfast.model import limits
from holdfast.model.facts import Search
from holdfast.model.log import Append, Appended, FeedPage, Head, Recorded, Snapshot, StreamWrite, Totals
from holdfast.model.names import StreamId
from holdfast.model.rows import IN_ORDER_OF_KEY, Among, FactRow, Order, Row
from holdfast.storage import common
from holdfast.storage.group import Group, Request
from holdfast.storage.postgres import log
from holdfast.storage.postgres.connect import Address, address_of, lost, typed, typed_errors
from holdfast.storage.postgres.hints import Hints
from holdfast.storage.postgres.log import SQL, Alone, Ask, Heads, Operation
from holdfast.storage.postgres.migrate import prepare, shipped
from holdfast.storage.sql import Migration

R = TypeVar("R", bound=Row)
T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what it has to say reaches callers as errors


class PostgresStore:
    """Threads share it; a forked process opens its own."""

    def __init__(self, url: str, *, migrations: Sequence[Migration] | None = None) -> None:
        """`migrations` is for tests of what comes after the ones shipped."""
        self.url = url
        self.address = address_of(url)
        self.standing = prepare(self.address, migrations or shipped())
        self.info = self.address.info if self.standing.durable else _durable(self.address.info)
        self._pid = os.getpid()
        self._closed = False
        self._heads = Heads()
        self._lent: set[Connection] = set()
        self._group = Group(self.address.what, self._commit)
        self._hints: Hints | None = None
        self._pool = psycopg_pool.ConnectionPool(
            self.info,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=self.address.pool,
            timeout=limits.POOL_WAIT_MS / 1_000,
            num_workers=1,
            reconnect_timeout=limits.CONNECT_S,  # then the next call tries anew, rather than wait ever longer
            reconnect_failed=_try_on,
            open=True,
        )

    def listen(self, heed: Callable[[frozenset[str] | None], None]) -> None:
        """Have `heed` told of streams that other processes wrote to, by their tokens; None if it may be any. A hint: it may
        come late or never."""
        self._hints = Hints(self.info, self.address.schema, heed)

    # Writing

    def append(self, append: Append) -> Appended:
        common.check_append(append)
        self._check_open()
        answer: Appended | Alone = Alone()
        if len(append.writes) == 1 and not append.writes[0].erase:
            answer = self._group.run(append)
        if isinstance(answer, Alone):
            answer = self._append_alone(append, answer.lost)
        return answer

    def _commit(self, batch: list[Request]) -> None:
        for requests in batches(batch):
            appends = [request.job for request in requests]
            for request in requests:
                request.committing = True
            try:
                with self._borrow() as connection:
                    answers = self._drive(log.append_batch(self._heads, appends), connection)
            except (psycopg.Error, UnicodeError) as error:
                forget(self._heads, appends)
                answers = [Alone(lost(error))] * len(requests)
            except errors.HoldfastError as error:
                for request in requests:
                    request.fail(error)
                continue
            for request, answer in zip(requests, answers, strict=True):
                request.answer(answer)
            self.wrote(append for append, answer in zip(appends, answers, strict=True) if isinstance(answer, Appended))

    def _append_alone(self, append: Append, was_lost: bool) -> Appended:
        heads, answer = self.run(lambda again: log.append_alone(append, lost=was_lost or again))
        for head in heads:
            self._heads.put(head)
        self.wrote([append])
        return answer

    def wrote(self, appends: Iterator[Append] | Sequence[Append]) -> None:
        hints = self._hints
        if hints is not None:
            hints.wrote(write.stream for append in appends for write in append.writes)

    def adopt(
        self,
        events: Sequence[Recorded],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
    ) -> None:
        self.run(lambda _: log.adopt(events, rows, erase, snapshots), retry=False)

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        self.run(lambda _: log.replace_rows(stream, version, rows))

    def set_projection_version(self, version: int) -> None:
        self.run(lambda _: log.set_projection_version(version))

    # Reading

    def find(self, tenant: str, key: str) -> tuple[Recorded, ...]:
        return self.run(lambda _: log.find(tenant, key))

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[Recorded, ...]:
        return self.run(lambda _: log.read(stream, after, limit))

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[Recorded, ...]:
        return self.run(lambda _: log.read_back(stream, before, limit, types))

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        return self.run(lambda _: log.feed(cursor, limit))

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        return self.run(lambda _: log.positions(stream, seqs))

    def head(self, stream: StreamId) -> Head | None:
        return self.run(lambda _: log.head(stream))

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[Head, ...]:
        return self.run(lambda _: log.heads(after, limit))

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        return self.run(lambda _: log.snapshot(stream))

    def rows(
        self,
        table: type[R],
        where: Mapping[str, str | int],
        *,
        after: R | None = None,
        limit: int,
        order: Order = IN_ORDER_OF_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: Among = MappingProxyType({}),
    ) -> tuple[R, ...]:
        return self.run(lambda _: log.rows(table, where, after, limit, order, least, most, among))

    def search(self, search: Search) -> tuple[tuple[FactRow, float], ...]:
        return self.run(lambda _: log.search(search))

    def projection_version(self) -> int:
        return self.run(lambda _: log.projection_version())

    def check(self) -> tuple[str, ...]:
        return self.run(lambda _: log.check())

    def backup(self, target: str) -> None:
        raise errors.InvalidUrl(
            url=target,
            reason="PostgreSQL is backed up by its own tools (pg_dump); or copy it to a file with holdfast copy",
        )

    def totals(self) -> Totals:
        return self.run(lambda _: log.totals())

    def close(self) -> None:
        self._check_process()
        self._closed = True
        hints, self._hints = self._hints, None
        if hints is not None:
            hints.close()
        self._group.close(self._pool.close)

    # Driving

    def run(self, operation: Callable[[bool], Operation[T]], *, retry: bool = True) -> T:
        """Drive an operation, again on another connection if one is lost under it; it is told so."""
        self._check_open()
        for tries_left in reversed(range(limits.RECONNECT_TRIES if retry else 1)):
            again = tries_left < limits.RECONNECT_TRIES - 1
            try:
                with self._borrow() as connection:
                    return self._drive(operation(again), connection)
            except (psycopg.Error, UnicodeError) as error:
                if tries_left and lost(error):
                    self._pool.check()
                    continue
                if tries_left and not again and isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                    self._pool.drain()  # who connects now may be allowed to write
                    continue
                with typed_errors(self.address.what):
                    raise
        raise AssertionError("the last try returns or raises")

    def _drive(self, operation: Operation[T], connection: Connection) -> T:
        try:
            ask = next(operation)
            while True:
                check_breadth(self, ask)
                try:
                    found = _answer(connection, ask)
                except psycopg.Error as error:
                    ask = operation.throw(error)
                else:
                    ask = operation.send(found)
        except StopIteration as stop:
            result: T = stop.value
            return result

    @contextmanager
    def _borrow(self) -> Iterator[Connection]:
        try:
            connection = self._pool.getconn()
        except psycopg_pool.PoolTimeout:
            raise no_connection(self.address, self.info, len(self._lent)) from None
        except psycopg_pool.PoolClosed as error:
            raise typed(self.address.what, error) from error
        self._lent.add(connection)
        try:
            yield connection
        finally:
            self._lent.discard(connection)
            self._pool.putconn(connection)

    def _check_open(self) -> None:
        self._check_process()
        if self._closed:
            raise errors.StoreClosed(what=self.address.what)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.ForkedHandle(what=self.address.what, opener=self._pid, user=os.getpid())


def _try_on(pool: psycopg_pool.ConnectionPool[Connection]) -> None:
    """The pool gives up after a while, also on those who wait already."""
    if pool.get_stats().get("requests_waiting"):
        pool.check()


def _answer(connection: Connection, ask: Ask) -> list[tuple[Any, ...]]:
    """In one round trip, and so in one transaction, which ends with the pipeline."""
    if ask.sets_tenant:
        cursor = connection.execute(ask.statement, ask.values, binary=True)
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []
    with connection.pipeline():
        connection.execute(SQL["act_for_long" if ask.long else "act_for"], (ask.tenant,))
        cursor = connection.execute(ask.statement, ask.values, binary=True)
    return cursor.fetchall()


def check_breadth(store: PostgresStore, ask: Ask) -> None:
    """What concerns every tenant is only for a role that may see them all: it would find nothing, and say all is well."""
    if ask.tenant is None and not ask.sets_tenant and not store.standing.maintains:
        raise errors.RoleTooNarrow(what=store.address.what, role=store.standing.role)


def batches(batch: Sequence[Request]) -> Iterator[list[Request]]:
    """Commands of one tenant each, not too many bytes at a time."""
    tenants: dict[str, list[Request]] = {}
    for request in batch:
        tenants.setdefault(request.job.tenant, []).append(request)
    for requests in tenants.values():
        part: list[Request] = []
        size = 0
        for request in requests:
            weight = sum(map(_weight, request.job.writes))
            if part and size + weight > limits.BATCH_BYTES:
                yield part
                part, size = [], 0
            part.append(request)
            size += weight
        yield part


def _weight(write: StreamWrite) -> int:
    """About as many bytes as it takes on its way to the server."""
    payloads = sum(len(event.payload) for event in write.events)
    states = sum(len(getattr(row, "state", "")) for row in write.rows)
    return payloads + states + (len(write.snapshot.state) if write.snapshot else 0)


def forget(heads: Heads, appends: Sequence[Append]) -> None:
    for append in appends:
        for write in append.writes:
            heads.drop(write.stream)


def no_connection(address: Address, info: str, lent: int) -> errors.HoldfastError:
    """Why the pool had none to give: all in use, or the server cannot be reached."""
    try:
        psycopg.connect(info).close()
    except psycopg.Error as error:
        return typed(address.what, error)
    if lent < address.pool:
        return errors.StorageUnavailable(what=address.what, reason="no connection could be made until just now")
    return errors.PoolExhausted(what=address.what, limit=address.pool, waited_ms=limits.POOL_WAIT_MS)


def _durable(info: str) -> str:
    """The server's default does not wait for the disk: ask for it."""
    options = psycopg.conninfo.conninfo_to_dict(info)["options"]
    return psycopg.conninfo.make_conninfo(info, options=f"{options} -c synchronous_commit=on")
