"""The effects of a flow: a call of the event store, a call of another function, or a flow with exclusive streams."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import Append, AppendResult, FeedPage, Snapshot, StoredEvent, StoreTotals, StreamHead
from holdfast.model.names import StreamId
from holdfast.model.rows import BY_KEY, ColumnValues, FactRow, Row, RowOrder

T = TypeVar("T")
R = TypeVar("R", bound=Row)
_SEQ_GAP = 16
"""Events between two that are needed are read too, up to this number, rather than in another call."""


class StoreCall(msgspec.Struct, frozen=True):
    """A call of a method of the event store. Built only by the functions below, which have its types."""

    method: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


class ExclusiveFlow(msgspec.Struct, frozen=True):
    """Run a flow while no other flow of this process writes these streams, so that commands do not collide."""

    streams: tuple[StreamId, ...]
    flow: Any


class OutsideCall(msgspec.Struct, frozen=True):
    """A call of another function that may take a while."""

    function: Callable[[], Any]


Effect: TypeAlias = StoreCall | ExclusiveFlow | OutsideCall
Flow: TypeAlias = Generator[Effect, Any, T]


def run_exclusively(streams: Sequence[StreamId], flow: Flow[T]) -> Flow[T]:
    answer: T = yield ExclusiveFlow(tuple(sorted(streams)), flow)
    return answer


def run_inside(flow: Flow[T]) -> Flow[T]:
    """Run a flow as an operation of its own within another: telemetry shows it as such."""
    answer: T = yield ExclusiveFlow((), flow)
    return answer


def run_outside(function: Callable[[], T]) -> Flow[T]:
    answer: T = yield OutsideCall(function)
    return answer


def call_function(function: Callable[[], T]) -> T:
    """Call a function. StopIteration becomes RuntimeError: generators and futures do not pass it on."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error


def append(request: Append) -> Flow[AppendResult]:
    answer: AppendResult = yield StoreCall("append", (request,))
    return answer


def adopt(
    events: Sequence[StoredEvent],
    rows: Mapping[StreamId, Sequence[Row]],
    erase: Mapping[StreamId, Sequence[int]],
    snapshots: Mapping[StreamId, Snapshot],
) -> Flow[None]:
    yield StoreCall("adopt", (events, rows, erase, snapshots))


def find(tenant: str, key: str) -> Flow[tuple[StoredEvent, ...]]:
    answer: tuple[StoredEvent, ...] = yield StoreCall("find", (tenant, key))
    return answer


def read(stream: StreamId, after: int, limit: int) -> Flow[tuple[StoredEvent, ...]]:
    answer: tuple[StoredEvent, ...] = yield StoreCall("read", (stream,), {"after": after, "limit": limit})
    return answer


def read_each(stream: StreamId, seqs: Iterable[int]) -> Flow[dict[int, StoredEvent]]:
    """Read these events, by seq, in few calls; those that do not exist are not among them."""
    wanted = {*seqs}
    events: dict[int, StoredEvent] = {}
    for first, last in _group_seqs(sorted(wanted)):
        for recorded in (yield from read(stream, first - 1, last - first + 1)):
            if recorded.seq in wanted:
                events[recorded.seq] = recorded
    return events


def _group_seqs(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Ranges that cover these, with small gaps only."""
    first = last = 0
    for seq in seqs:
        if first and (seq - last > _SEQ_GAP or seq - first >= limits.READ_EVENTS):
            yield first, last
            first = 0
        first, last = first or seq, seq
    if first:
        yield first, last


def read_back(stream: StreamId, before: int | None, limit: int, types: Sequence[str]) -> Flow[tuple[StoredEvent, ...]]:
    answer: tuple[StoredEvent, ...] = yield StoreCall(
        "read_back", (stream,), {"before": before, "limit": limit, "types": types}
    )
    return answer


def feed(cursor: str, limit: int) -> Flow[FeedPage]:
    answer: FeedPage = yield StoreCall("feed", (cursor,), {"limit": limit})
    return answer


def tenant_feed(tenant: str, cursor: str, limit: int) -> Flow[FeedPage]:
    """Only for a store that has it: see ports.TenantFeed."""
    answer: FeedPage = yield StoreCall("tenant_feed", (tenant, cursor), {"limit": limit})
    return answer


def end_cursor(tenant: str | None) -> Flow[str]:
    """Only for a store that has it: see ports.ChangeSource."""
    answer: str = yield StoreCall("end_cursor", (tenant,))
    return answer


def positions(stream: StreamId, seqs: Sequence[int]) -> Flow[tuple[tuple[int, ...], ...]]:
    answer: tuple[tuple[int, ...], ...] = yield StoreCall("positions", (stream, seqs))
    return answer


def head(stream: StreamId) -> Flow[StreamHead | None]:
    answer: StreamHead | None = yield StoreCall("head", (stream,))
    return answer


def heads(after: StreamId | None, limit: int) -> Flow[tuple[StreamHead, ...]]:
    answer: tuple[StreamHead, ...] = yield StoreCall("heads", (), {"after": after, "limit": limit})
    return answer


def snapshot(stream: StreamId) -> Flow[Snapshot | None]:
    answer: Snapshot | None = yield StoreCall("snapshot", (stream,))
    return answer


def rows(
    table: type[R],
    where: Mapping[str, str | int],
    after: R | None,
    limit: int,
    *,
    order: RowOrder = BY_KEY,
    least: Mapping[str, int] = MappingProxyType({}),
    most: Mapping[str, int] = MappingProxyType({}),
    among: ColumnValues = MappingProxyType({}),
) -> Flow[tuple[R, ...]]:
    options = {"after": after, "limit": limit, "order": order, "least": least, "most": most, "among": among}
    answer: tuple[R, ...] = yield StoreCall("rows", (table, where), options)
    return answer


def search(query: FactQuery) -> Flow[tuple[tuple[FactRow, float], ...]]:
    answer: tuple[tuple[FactRow, float], ...] = yield StoreCall("search", (query,))
    return answer


def replace_rows(stream: StreamId, version: int, new: Sequence[Row]) -> Flow[None]:
    yield StoreCall("replace_rows", (stream, version, new))


def projection_version() -> Flow[int]:
    answer: int = yield StoreCall("projection_version")
    return answer


def set_projection_version(version: int) -> Flow[None]:
    yield StoreCall("set_projection_version", (version,))


def check() -> Flow[tuple[str, ...]]:
    answer: tuple[str, ...] = yield StoreCall("check")
    return answer


def totals() -> Flow[StoreTotals]:
    answer: StoreTotals = yield StoreCall("totals")
    return answer
