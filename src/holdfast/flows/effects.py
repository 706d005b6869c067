"""The effects of a flow: a call of the event store, a call of another function, or a flow with exclusive streams.

`read`, `read_back` and `positions` read the stream of a fork as one: the events that it shares are in the streams of its
ancestors. A fork begins with an event that names them, and its first own seq is higher than 1; so a stream that is no fork
costs nothing more. `read_own` reads what is stored in the stream itself.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast import codec
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import Append, AppendResult, FeedPage, Snapshot, StoredEvent, StoreTotals, StreamHead
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
from holdfast.model.rows import BY_KEY, ColumnValues, FactRow, Row, RowOrder
from holdfast.model.sessions.forks import FORK_EVENTS, ForkOrigin, ForkSegment

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
    timeout_s: float | None = None
    """How long it may take; then TimeoutError is raised, and what it returns later is lost. None for any time."""


Effect: TypeAlias = StoreCall | ExclusiveFlow | OutsideCall
Flow: TypeAlias = Generator[Effect, Any, T]


def run_exclusively(streams: Sequence[StreamId], flow: Flow[T]) -> Flow[T]:
    answer: T = yield ExclusiveFlow(tuple(sorted(streams)), flow)
    return answer


def run_inside(flow: Flow[T]) -> Flow[T]:
    """Run a flow as an operation of its own within another: telemetry shows it as such."""
    answer: T = yield ExclusiveFlow((), flow)
    return answer


def run_outside(function: Callable[[], T], *, timeout_s: float | None = None) -> Flow[T]:
    answer: T = yield OutsideCall(function, timeout_s)
    return answer


def call_function(function: Callable[[], T]) -> T:
    """Call a function. StopIteration becomes RuntimeError: generators and futures do not pass it on."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error


def describe_timeout(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} seconds"


def append(request: Append) -> Flow[AppendResult]:
    answer: AppendResult = yield StoreCall("append", (request,))
    return answer


def adopt(
    events: Sequence[StoredEvent],
    rows: Mapping[StreamId, Sequence[Row]],
    erase: Mapping[StreamId, Sequence[int]],
    snapshots: Mapping[StreamId, Snapshot],
    bases: Mapping[StreamId, StreamHead] = MappingProxyType({}),
    keep_taken: Mapping[StreamId, Sequence[int]] = MappingProxyType({}),
) -> Flow[None]:
    yield StoreCall("adopt", (events, rows, erase, snapshots, bases, keep_taken))


def find(tenant: str, key: str) -> Flow[tuple[StoredEvent, ...]]:
    answer: tuple[StoredEvent, ...] = yield StoreCall("find", (tenant, key))
    return answer


def read_own(stream: StreamId, after: int, limit: int) -> Flow[tuple[StoredEvent, ...]]:
    """The events that are stored in this stream: those of a fork without the shared ones."""
    answer: tuple[StoredEvent, ...] = yield StoreCall("read", (stream,), {"after": after, "limit": limit})
    return answer


def read(stream: StreamId, after: int, limit: int) -> Flow[tuple[StoredEvent, ...]]:
    """Events after a seq, in order. The `stream` of an event says where it is stored."""
    own = yield from read_own(stream, after, limit)
    if not own or own[0].seq <= after + 1:
        return own
    shared: list[StoredEvent] = []
    for segment in fork_segments(own[0]):
        while after < segment.last and len(shared) < limit:
            most = min(limit - len(shared), segment.last - after)
            page = yield from read_own(segment.stream_beside(stream), after, most)
            if not page or page[0].seq != after + 1:
                return tuple(shared)  # damaged: verify reports it
            shared += page
            after = page[-1].seq
    return (*shared, *own[: limit - len(shared)])


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


def _read_own_back(
    stream: StreamId, before: int | None, limit: int, types: Sequence[str]
) -> Flow[tuple[StoredEvent, ...]]:
    answer: tuple[StoredEvent, ...] = yield StoreCall(
        "read_back", (stream,), {"before": before, "limit": limit, "types": types}
    )
    return answer


def read_back(stream: StreamId, before: int | None, limit: int, types: Sequence[str]) -> Flow[tuple[StoredEvent, ...]]:
    """Events before a seq, newest first; only of these types, if any are named."""
    wanted = (*types, *FORK_EVENTS) if types else ()
    own = yield from _read_own_back(stream, before, limit, wanted)
    found = [event for event in own if not types or event.type in types]
    if len(own) == limit and len(found) == limit:
        return own
    first = own[-1] if own else None
    if first is None and before is not None and before > 1:
        first = next(iter((yield from read_own(stream, 0, 1))), None)  # all that is wanted may be before the own events
    for segment in reversed(fork_segments(first)):
        end = segment.last + 1 if before is None else min(before, segment.last + 1)
        while len(found) < limit:
            most = limit - len(found)
            page = yield from _read_own_back(segment.stream_beside(stream), end, most, wanted)
            found += (event for event in page if not types or event.type in types)
            if len(page) < most or page[-1].type in FORK_EVENTS:
                break
            end = page[-1].seq
    return tuple(found)


def fork_segments(first: StoredEvent | None) -> tuple[ForkSegment, ...]:
    """Where the events before the first own event of a stream are; empty if it is no fork, or has a copy of them."""
    if first is None or first.type not in FORK_EVENTS or first.seq == 1 or first.payload is None:
        return ()
    try:
        return codec.decode(first.payload, ForkOrigin).lineage
    except ValueError:
        return ()  # damaged: verify reports it


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
    if all(answer):
        return answer
    found = {seq: position for seq, position in zip(seqs, answer, strict=True) if position}
    start = 0
    for segment in fork_segments(next(iter((yield from read_own(stream, 0, 1))), None)):
        shared = [seq for seq in dict.fromkeys(seqs) if start < seq <= segment.last]
        start = segment.last
        if shared:
            more: tuple[tuple[int, ...], ...] = yield StoreCall("positions", (segment.stream_beside(stream), shared))
            found |= zip(shared, more, strict=True)
    return tuple(found.get(seq, ()) for seq in seqs)


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


# Passages and deliveries: only for a store that has them, see ports.PassageIndex and ports.DeliveryQueue


def index_passages(batch: PassageBatch) -> Flow[bool]:
    answer: bool = yield StoreCall("index_passages", (batch,))
    return answer


def index_marks(streams: Sequence[StreamId]) -> Flow[dict[StreamId, IndexMark]]:
    answer: dict[StreamId, IndexMark] = yield StoreCall("index_marks", (streams,))
    return answer


def take_passages(span: StreamSpan, hidden: Sequence[StreamSpan] = ()) -> Flow[int]:
    answer: int = yield StoreCall("take_passages", (span, hidden))
    return answer


def match_passages(query: PassageQuery) -> Flow[PassageMatches]:
    answer: PassageMatches = yield StoreCall("match_passages", (query,))
    return answer


def passages_at(visible: PassageFilter, places: Sequence[NeighbourSpan], limit: int) -> Flow[tuple[Passage, ...]]:
    answer: tuple[Passage, ...] = yield StoreCall("passages_at", (visible, places, limit))
    return answer


def read_passages(visible: PassageFilter, keys: Sequence[PassageKey]) -> Flow[tuple[Passage, ...]]:
    answer: tuple[Passage, ...] = yield StoreCall("read_passages", (visible, keys))
    return answer


def recent_passages(visible: PassageFilter, limit: int) -> Flow[tuple[Passage, ...]]:
    answer: tuple[Passage, ...] = yield StoreCall("recent_passages", (visible, limit))
    return answer


def passage_totals(visible: PassageFilter) -> Flow[PassageTotals]:
    answer: PassageTotals = yield StoreCall("passage_totals", (visible,))
    return answer


def forget_passages(subject: MemorySubject) -> Flow[ForgetReport]:
    answer: ForgetReport = yield StoreCall("forget_passages", (subject,))
    return answer


def unembedded_passages(tenant: str, embedder: str, limit: int) -> Flow[tuple[Passage, ...]]:
    answer: tuple[Passage, ...] = yield StoreCall("unembedded_passages", (tenant, embedder, limit))
    return answer


def put_vectors(embedder: str, vectors: Sequence[tuple[PassageKey, Sequence[float]]]) -> Flow[None]:
    yield StoreCall("put_vectors", (embedder, vectors))


def match_vectors(query: VectorQuery) -> Flow[tuple[tuple[Passage, float], ...]]:
    answer: tuple[tuple[Passage, float], ...] = yield StoreCall("match_vectors", (query,))
    return answer


def adopt_passages(passages: Sequence[IndexedPassage]) -> Flow[None]:
    yield StoreCall("adopt_passages", (passages,))


def claim_offloads(tenant: str, *, owner: str, now_us: int, lease_us: int, limit: int) -> Flow[tuple[Delivery, ...]]:
    options = {"owner": owner, "now_us": now_us, "lease_us": lease_us, "limit": limit}
    answer: tuple[Delivery, ...] = yield StoreCall("claim_offloads", (tenant,), options)
    return answer


def renew_offload(delivery: Delivery) -> Flow[bool]:
    answer: bool = yield StoreCall("renew_offload", (delivery,))
    return answer


def release_offload(delivery: Delivery) -> Flow[bool]:
    answer: bool = yield StoreCall("release_offload", (delivery,))
    return answer


def deliveries(tenant: str, *, set_aside: bool | None = None, limit: int) -> Flow[tuple[Delivery, ...]]:
    answer: tuple[Delivery, ...] = yield StoreCall("deliveries", (tenant,), {"set_aside": set_aside, "limit": limit})
    return answer


def requeue_offload(delivery: Delivery, now_us: int) -> Flow[None]:
    yield StoreCall("requeue_offload", (delivery, now_us))
