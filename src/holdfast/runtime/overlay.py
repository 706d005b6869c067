"""A store in memory on top of a stored one: what is written stays in memory, and everything else is read below.

Laws: nothing is written to the store below. A stream that is written to continues in memory from where it was below; what
others add to it below from then on is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast import chain
from holdfast.errors import BlobNotFound, VersionConflict
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Effect, ExclusiveFlow, Flow, StoreCall
from holdfast.flows.lineage import row_columns
from holdfast.flows.load import StateCache
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import Append, AppendResult, Snapshot, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import StreamId
from holdfast.model.rows import BY_KEY, TABLES, FactRow, Row
from holdfast.ports import BlobAccess, BlobWriter
from holdfast.runtime.bodies import VerifiedBodies
from holdfast.runtime.overlay_index import OverlayIndex
from holdfast.storage import common
from holdfast.storage.memory import MemoryBlobs, MemoryStore, find_stream

T = TypeVar("T")
D = TypeVar("D", bound=Callable[..., Any])

_CACHED_STREAMS = 64
_AFTER_ALL = limits.WHOLE_NUMBER
"""Events in memory come after all events below."""


class Overlay:
    """Answers the store calls of flows from memory, and from the store below."""

    def __init__(self) -> None:
        self._memory = MemoryStore()
        self._bases: dict[StreamId, StreamHead] = {}
        """Where the streams that are in memory continue those below; version 0 for new ones."""
        self._erased: dict[StreamId, set[int]] = {}
        """Events below that are erased here."""
        self._methods: dict[str, Callable[..., Flow[Any]]] = {
            "append": self._append,
            "find": self._find,
            "read": self._read,
            "read_back": self._read_back,
            "positions": self._find_positions,
            "head": self._find_head,
            "snapshot": self._find_snapshot,
            "rows": self._find_rows,
            "search": self._search,
            **OverlayIndex(self._memory, self._bases, self._erased).methods,
        }

    def wrap(self, flow: Flow[T]) -> Flow[T]:
        """The same flow, with its store calls answered here."""
        try:
            effect = next(flow)
            while True:
                try:
                    answer = yield from self._answer(effect)
                except BaseException as error:  # noqa: BLE001 - the flow may clean up or handle it
                    effect = flow.throw(error)
                else:
                    effect = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def wrap_driver(self, drive: D) -> D:
        """A driver, blocking or awaited, that runs flows over this overlay."""
        return lambda flow: drive(self.wrap(flow))  # type: ignore[return-value]

    def _answer(self, effect: Effect) -> Flow[Any]:
        if isinstance(effect, StoreCall):
            return (yield from self._methods[effect.method](*effect.args, **effect.kwargs))
        if isinstance(effect, ExclusiveFlow):
            effect = ExclusiveFlow(effect.streams, self.wrap(effect.flow))
        return (yield effect)

    def _append(self, append: Append) -> Flow[AppendResult]:
        if append.key is not None and (first := (yield from self._find(append.tenant, append.key))):
            return chain.answer_repeated_key(append.key, append.order, first)
        writes: list[StreamWrite] = []
        bases: dict[StreamId, StreamHead] = {}
        for write in append.writes:
            if write.stream not in self._bases:
                head: StreamHead | None = yield StoreCall("head", (write.stream,))
                bases[write.stream] = head or StreamHead(write.stream, 0, b"")
                if head is not None:
                    write = yield from self._continue_stream(write, head)
            writes.append(write)
        stored = self._memory.append(msgspec.structs.replace(append, writes=tuple(writes)))
        self._bases |= bases
        for write in writes:
            if write.erase:
                self._erased.setdefault(write.stream, set()).update(write.erase)
        return stored

    def _continue_stream(self, write: StreamWrite, head: StreamHead) -> Flow[StreamWrite]:
        """A write that brings the rows of its stream along: it is the first one in memory."""
        if write.expected != head.version or write.base is not None:
            raise VersionConflict(stream=write.stream, expected=write.expected, actual=head.version)
        rows: list[Row] = []
        for table in TABLES if not write.erase else ():
            if common.owner_of(table) == write.stream.kind:
                last: Row | None = None
                where = row_columns(write.stream)
                while page := (yield _rows_call(table, where, last)):
                    rows += page
                    last = page[-1]
        rows += write.rows
        return msgspec.structs.replace(write, expected=0, rows=tuple(rows), base=head)

    def _find(self, tenant: str, key: str) -> Flow[tuple[StoredEvent, ...]]:
        found = self._memory.find(tenant, key)
        if not found:
            found = yield StoreCall("find", (tenant, key))
        return found

    def _read(self, stream: StreamId, *, after: int, limit: int) -> Flow[tuple[StoredEvent, ...]]:
        base = self._bases.get(stream)
        below: tuple[StoredEvent, ...] = ()
        if base is None or after < base.version:
            below = yield StoreCall("read", (stream,), {"after": after, "limit": limit})
        if base is None:
            return below
        shown = self._show(stream, (event for event in below if event.seq <= base.version))
        if len(shown) == limit:
            return shown
        return (*shown, *self._memory.read(stream, after=max(after, base.version), limit=limit - len(shown)))

    def _read_back(
        self, stream: StreamId, *, before: int | None, limit: int, types: tuple[str, ...]
    ) -> Flow[tuple[StoredEvent, ...]]:
        base = self._bases.get(stream)
        own = () if base is None else self._memory.read_back(stream, before=before, limit=limit, types=types)
        if len(own) == limit or (base is not None and not base.version):
            return own
        end = before if base is None else min(before or _AFTER_ALL, base.version + 1)
        below: tuple[StoredEvent, ...] = yield StoreCall(
            "read_back", (stream,), {"before": end, "limit": limit - len(own), "types": types}
        )
        return (*own, *self._show(stream, below))

    def _show(self, stream: StreamId, events: Any) -> tuple[StoredEvent, ...]:
        """Events below, without the payloads that are erased here."""
        erased = self._erased.get(stream, ())
        return tuple(
            msgspec.structs.replace(event, payload=None, salt=None) if event.seq in erased else event
            for event in events
        )

    def _find_positions(self, stream: StreamId, seqs: tuple[int, ...]) -> Flow[tuple[tuple[int, ...], ...]]:
        base = self._bases.get(stream)
        if base is None:
            below: tuple[tuple[int, ...], ...] = yield StoreCall("positions", (stream, seqs))
            return below
        own = [(_AFTER_ALL, *position) if position else () for position in self._memory.positions(stream, seqs)]
        if base.version and not all(own):
            below = yield StoreCall("positions", (stream, seqs))
            pairs = zip(seqs, own, below, strict=True)
            own = [mine or (theirs if seq <= base.version else ()) for seq, mine, theirs in pairs]
        return tuple(own)

    def _find_head(self, stream: StreamId) -> Flow[StreamHead | None]:
        if stream in self._bases:
            return self._memory.head(stream)
        below: StreamHead | None = yield StoreCall("head", (stream,))
        return below

    def _find_snapshot(self, stream: StreamId) -> Flow[Snapshot | None]:
        base = self._bases.get(stream)
        own = self._memory.snapshot(stream)
        if own is not None or stream in self._erased or (base is not None and not base.version):
            return own
        below: Snapshot | None = yield StoreCall("snapshot", (stream,))
        return below if base is None or below is None or below.version <= base.version else None

    def _find_rows(self, table: type[Row], where: Mapping[str, Any], **options: Any) -> Flow[tuple[Row, ...]]:
        stream = find_stream(table, where)
        if stream is not None and stream in self._bases:
            return self._memory.rows(table, where, **options)
        rows: tuple[Row, ...] = yield StoreCall("rows", (table, where), options)
        if stream is not None or not self._bases:
            return rows
        limit: int = options["limit"]
        below = [*rows]
        while len(rows) == limit and len(self._without_own(table, below)) < limit:
            rows = yield StoreCall("rows", (table, where), options | {"after": rows[-1]})
            below += rows
        order = options.get("order", BY_KEY)
        columns = (*order.columns, *table.key)
        merged = [*self._without_own(table, below), *self._memory.rows(table, where, **options)]
        merged.sort(key=lambda row: tuple(getattr(row, each) for each in columns), reverse=order.backwards)
        return tuple(merged[:limit])

    def _without_own(self, table: type[Row], rows: list[Row]) -> list[Row]:
        """Rows below, without those of streams that are in memory."""
        return [row for row in rows if find_stream(table, msgspec.structs.asdict(row)) not in self._bases]

    def _search(self, query: FactQuery) -> Flow[tuple[tuple[FactRow, float], ...]]:
        own = {key for key in query.ledgers if common.stream_of(query.tenant, "ledger", key) in self._bases}
        others = tuple(key for key in query.ledgers if key not in own)
        found: list[tuple[FactRow, float]] = []
        if others or not own:
            found += yield StoreCall("search", (msgspec.structs.replace(query, ledgers=others),))
        if own:
            found += self._memory.search(msgspec.structs.replace(query, ledgers=tuple(sorted(own))))
        return tuple(sorted(found, key=lambda match: -match[1])[: query.limit])


def _rows_call(table: type[Row], where: Mapping[str, Any], last: Row | None) -> StoreCall:
    return StoreCall("rows", (table, where), {"after": last, "limit": limits.READ_EVENTS})


class _OverlayBlobs:
    """Bodies that are put stay in memory; others are read below."""

    def __init__(self, below: BlobAccess) -> None:
        self._memory = MemoryBlobs()
        self._below = below

    def writer(self, tenant: str) -> BlobWriter:
        return self._memory.writer(tenant)

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        try:
            return self._memory.chunks(tenant, ref)
        except BlobNotFound:
            return self._below.chunks(tenant, ref)

    def stored(self) -> Iterator[tuple[str, str, float]]:
        return self._memory.stored()

    def drop(self, tenant: str, digest: str, *, unless_put_after_s: float) -> bool:
        return self._memory.drop(tenant, digest, unless_put_after_s=unless_put_after_s)

    def sweep(self, *, before_s: float) -> int:
        return self._memory.sweep(before_s=before_s)


def derive_ephemeral(engine: EngineContext) -> EngineContext:
    """The context for flows over an overlay: caches and bodies of its own."""
    bodies = VerifiedBodies(_OverlayBlobs(engine.bodies), engine.spooling)
    return msgspec.structs.replace(engine, cache=StateCache(_CACHED_STREAMS), bodies=bodies, turn=None)
