"""What a flow may ask for: one call on the event store, or to run another flow while nobody else writes its streams."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast.model.facts import Search
from holdfast.model.log import Append, Appended, FeedPage, Head, Recorded, Snapshot, Totals
from holdfast.model.names import StreamId
from holdfast.model.rows import IN_ORDER_OF_KEY, Among, FactRow, Order, Row

T = TypeVar("T")
R = TypeVar("R", bound=Row)


class Call(msgspec.Struct, frozen=True):
    """A method of the event store. Made only by the functions below, which know its types."""

    method: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}


class Exclusive(msgspec.Struct, frozen=True):
    """Run the flow while this process holds these streams: commands on one stream take turns instead of colliding."""

    streams: tuple[StreamId, ...]
    flow: Any


class Outside(msgspec.Struct, frozen=True):
    """Something that may take a while and is not the event store's."""

    function: Callable[[], Any]


Effect: TypeAlias = Call | Exclusive | Outside
Flow: TypeAlias = Generator[Effect, Any, T]


def exclusive(streams: Sequence[StreamId], flow: Flow[T]) -> Flow[T]:
    answer: T = yield Exclusive(tuple(sorted(streams)), flow)
    return answer


def outside(function: Callable[[], T]) -> Flow[T]:
    answer: T = yield Outside(function)
    return answer


def called(function: Callable[[], T]) -> T:
    """No generator and no future takes a StopIteration from elsewhere: a task would wait for it for ever."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("StopIteration") from error


def append(request: Append) -> Flow[Appended]:
    answer: Appended = yield Call("append", (request,))
    return answer


def adopt(
    events: Sequence[Recorded],
    rows: Mapping[StreamId, Sequence[Row]],
    erase: Mapping[StreamId, Sequence[int]],
    snapshots: Mapping[StreamId, Snapshot],
) -> Flow[None]:
    yield Call("adopt", (events, rows, erase, snapshots))


def find(tenant: str, key: str) -> Flow[tuple[Recorded, ...]]:
    answer: tuple[Recorded, ...] = yield Call("find", (tenant, key))
    return answer


def read(stream: StreamId, after: int, limit: int) -> Flow[tuple[Recorded, ...]]:
    answer: tuple[Recorded, ...] = yield Call("read", (stream,), {"after": after, "limit": limit})
    return answer


def read_back(stream: StreamId, before: int | None, limit: int, types: Sequence[str]) -> Flow[tuple[Recorded, ...]]:
    answer: tuple[Recorded, ...] = yield Call(
        "read_back", (stream,), {"before": before, "limit": limit, "types": types}
    )
    return answer


def feed(cursor: str, limit: int) -> Flow[FeedPage]:
    answer: FeedPage = yield Call("feed", (cursor,), {"limit": limit})
    return answer


def positions(stream: StreamId, seqs: Sequence[int]) -> Flow[tuple[tuple[int, ...], ...]]:
    answer: tuple[tuple[int, ...], ...] = yield Call("positions", (stream, seqs))
    return answer


def head(stream: StreamId) -> Flow[Head | None]:
    answer: Head | None = yield Call("head", (stream,))
    return answer


def heads(after: StreamId | None, limit: int) -> Flow[tuple[Head, ...]]:
    answer: tuple[Head, ...] = yield Call("heads", (), {"after": after, "limit": limit})
    return answer


def snapshot(stream: StreamId) -> Flow[Snapshot | None]:
    answer: Snapshot | None = yield Call("snapshot", (stream,))
    return answer


def rows(
    table: type[R],
    where: Mapping[str, str | int],
    after: R | None,
    limit: int,
    *,
    order: Order = IN_ORDER_OF_KEY,
    least: Mapping[str, int] = MappingProxyType({}),
    most: Mapping[str, int] = MappingProxyType({}),
    among: Among = MappingProxyType({}),
) -> Flow[tuple[R, ...]]:
    options = {"after": after, "limit": limit, "order": order, "least": least, "most": most, "among": among}
    answer: tuple[R, ...] = yield Call("rows", (table, where), options)
    return answer


def search(asked: Search) -> Flow[tuple[tuple[FactRow, float], ...]]:
    answer: tuple[tuple[FactRow, float], ...] = yield Call("search", (asked,))
    return answer


def replace_rows(stream: StreamId, version: int, new: Sequence[Row]) -> Flow[None]:
    yield Call("replace_rows", (stream, version, new))


def projection_version() -> Flow[int]:
    answer: int = yield Call("projection_version")
    return answer


def set_projection_version(version: int) -> Flow[None]:
    yield Call("set_projection_version", (version,))


def check() -> Flow[tuple[str, ...]]:
    answer: tuple[str, ...] = yield Call("check")
    return answer


def totals() -> Flow[Totals]:
    answer: Totals = yield Call("totals")
    return answer
