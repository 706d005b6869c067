"""Stores in memory: the complete contract without durability. For tests, and the reference for other backends."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import TypeVar, cast

import msgspec

from holdfast import chain
from holdfast.errors import (
    BlobNotFound,
    InvalidCursor,
    InvalidUrl,
    KeyConflict,
    StorageCorrupt,
    StoreClosed,
    VersionConflict,
)
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import (
    GENESIS,
    Append,
    AppendResult,
    FeedPage,
    Snapshot,
    StoredEvent,
    StoreTotals,
    StreamHead,
    StreamWrite,
)
from holdfast.model.names import StreamId
from holdfast.model.rows import BY_KEY, ColumnValues, EntryRow, FactRow, Row, RowOrder
from holdfast.storage import common
from holdfast.storage.changes import ChangeListener, ChangeListeners
from holdfast.storage.memory_index import MemoryDeliveries, MemoryIndex
from holdfast.storage.scores import is_within, rank_rows

R = TypeVar("R", bound=Row)


class MemoryStore(MemoryIndex, MemoryDeliveries):
    """An event store in memory. It ends with the process."""

    def __init__(self) -> None:
        MemoryIndex.__init__(self)
        MemoryDeliveries.__init__(self)
        self._lock = threading.RLock()
        self._streams: dict[StreamId, list[StoredEvent]] = {}
        self._order: list[tuple[StreamId, int]] = []
        self._positions: dict[StreamId, list[int]] = {}
        """The position of each event of a stream in `_order`, counted from 1."""
        self._keys: dict[tuple[str, str], tuple[tuple[StreamId, int], ...]] = {}
        self._snapshots: dict[StreamId, Snapshot] = {}
        self._rows: dict[str, dict[StreamId, dict[tuple[str | int, ...], Row]]] = {}
        self._slots: dict[StreamId, dict[str, dict[tuple[str | int, ...], FactRow]]] = {}
        self._anchors: dict[StreamId, dict[str, dict[tuple[str | int, ...], FactRow]]] = {}
        self._projection_version = 0
        self._closed = False
        self._changes = ChangeListeners()
        self.recheck_s: float | None = None

    def subscribe(self, listener: ChangeListener, stream: StreamId | None) -> None:
        self._changes.add(listener, stream)

    def unsubscribe(self, listener: ChangeListener) -> None:
        self._changes.remove(listener)

    def end_cursor(self, tenant: str | None) -> str:  # noqa: ARG002 - all tenants share the feed
        with self._open_lock():
            return str(len(self._order) or "")

    def append(self, append: Append) -> AppendResult:
        appended = self._append(append)
        self._changes.announce(write.stream for write in append.writes)
        return appended

    def _append(self, append: Append) -> AppendResult:
        common.check_append(append)
        with self._open_lock():
            if append.key is not None and (first := self.find(append.tenant, append.key)):
                return chain.answer_repeated_key(append.key, append.order, first)
            heads = []
            for write in append.writes:
                head = self.head(write.stream) or StreamHead(write.stream, 0, GENESIS)
                common.check_version(write, head)
                heads.append(head)
            events: list[StoredEvent] = []
            starts = [common.chain_start(write, head) for write, head in zip(append.writes, heads, strict=True)]
            for write, (_, recorded) in zip(append.writes, chain.chain_events(append, starts), strict=True):
                self._add_events(recorded)
                self._store_extras(write)
                events += recorded
            self._index_keys(events)
            return AppendResult(tuple(events))

    def _add_events(self, recorded: Sequence[StoredEvent]) -> None:
        for event in recorded:
            self._streams.setdefault(event.stream, []).append(event)
            self._order.append((event.stream, event.seq))
            self._positions.setdefault(event.stream, []).append(len(self._order))

    def _event(self, stream: StreamId, seq: int) -> StoredEvent:
        events = self._streams[stream]
        return events[seq - events[0].seq]

    def _index_keys(self, events: Sequence[StoredEvent]) -> None:
        for event in events:
            if event.key is not None:
                slot = (event.stream.tenant, event.key)
                self._keys[slot] = (*self._keys.get(slot, ()), (event.stream, event.seq))

    def _store_extras(self, write: StreamWrite) -> None:
        if write.erase:
            self._erase(write.stream, write.erase, write.erase if write.keeps_taken else ())
        if write.snapshot is not None:
            self._snapshots[write.stream] = write.snapshot
        self._put_rows(write.stream, write.rows)

    def _erase(self, stream: StreamId, seqs: Sequence[int], keep_taken: Sequence[int]) -> None:
        events = self._streams[stream]
        start = events[0].seq
        for at in (seq - start for seq in seqs if seq >= start):
            events[at] = msgspec.structs.replace(events[at], payload=None, salt=None)
        self._snapshots.pop(stream, None)
        self._drop_rows(stream)
        self._erase_passages(stream, seqs, keep_taken)

    def _put_rows(self, stream: StreamId, rows: Sequence[Row]) -> None:
        for row in rows:
            key = common.row_key(row)
            rows_by_key = self._rows.setdefault(type(row).table, {}).setdefault(stream, {})
            if isinstance(row, FactRow):
                slots, anchors = self._slots.setdefault(stream, {}), self._anchors.setdefault(stream, {})
                if isinstance(before := rows_by_key.get(key), FactRow):
                    del slots[before.subject][key]
                    del anchors[before.anchor][key]
                slots.setdefault(row.subject, {})[key] = row
                anchors.setdefault(row.anchor, {})[key] = row
            rows_by_key[key] = row

    def _drop_rows(self, stream: StreamId) -> None:
        self._slots.pop(stream, None)
        self._anchors.pop(stream, None)
        for table in self._rows.values():
            table.pop(stream, None)

    def _candidate_rows(
        self, table: type[Row], where: Mapping[str, str | int], wanted: Mapping[str, AbstractSet[str | int]]
    ) -> Iterator[Row]:
        """Yield the rows that can match: all, or those of the stream, the key or the anchors that the query names."""
        streams = self._rows.get(table.table, {})
        stream = find_stream(table, where)
        if stream is None:
            return (row for rows in streams.values() for row in rows.values())
        if table is FactRow and "subject" in where:
            return iter(self._slots.get(stream, {}).get(str(where["subject"]), {}).values())
        if table is FactRow and "anchor" in wanted:
            anchors = self._anchors.get(stream, {})
            return (row for anchor in anchors.keys() & wanted["anchor"] for row in anchors[str(anchor)].values())
        return iter(streams.get(stream, {}).values())

    def adopt(
        self,
        events: Sequence[StoredEvent],
        rows: Mapping[StreamId, Sequence[Row]],
        erase: Mapping[StreamId, Sequence[int]],
        snapshots: Mapping[StreamId, Snapshot] = MappingProxyType({}),
        bases: Mapping[StreamId, StreamHead] = MappingProxyType({}),
        keep_taken: Mapping[StreamId, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        with self._open_lock():
            heads: dict[StreamId, StreamHead] = {}
            keys: set[tuple[str, str]] = set()
            for event in events:
                head = heads.get(event.stream) or self.head(event.stream) or StreamHead(event.stream, 0, GENESIS)
                common.check_adoption(head, event, bases)
                slot = (event.stream.tenant, event.key or "")
                if event.ordinal == 0 and (slot in self._keys or slot in keys):
                    raise KeyConflict(tenant=event.stream.tenant, key=event.key, reason="it is used in this store")
                keys.add(slot if event.key is not None else ("", ""))
                heads[event.stream] = StreamHead(event.stream, event.seq, event.hash)
            self._add_events(events)
            self._index_keys(events)
            for stream, seqs in erase.items():
                self._erase(stream, seqs, keep_taken.get(stream, ()))
            for stream, new_rows in rows.items():
                self._put_rows(stream, new_rows)
            self._snapshots.update(snapshots)
        self._changes.announce(event.stream for event in events)

    def find(self, tenant: str, key: str) -> tuple[StoredEvent, ...]:
        with self._open_lock():
            return tuple(self._event(stream, seq) for stream, seq in self._keys.get((tenant, key), ()))

    def read(self, stream: StreamId, *, after: int = 0, limit: int) -> tuple[StoredEvent, ...]:
        common.check_limit(limit)
        with self._open_lock():
            events = self._streams.get(stream, [])
            start = max(0, after + 1 - events[0].seq) if events else 0
            return tuple(events[start : start + limit])

    def read_back(
        self, stream: StreamId, *, before: int | None = None, limit: int, types: Sequence[str] = ()
    ) -> tuple[StoredEvent, ...]:
        common.check_limit(limit)
        with self._open_lock():
            events = self._streams.get(stream, [])
            start = len(events)
            if before is not None and events:
                start = max(0, min(before - events[0].seq, len(events)))
            found: list[StoredEvent] = []
            for event in reversed(events[:start]):
                if not types or event.type in types:
                    found.append(event)
                    if len(found) == limit:
                        break
            return tuple(found)

    def feed(self, cursor: str = "", *, limit: int) -> FeedPage:
        common.check_limit(limit)
        at = common.parse_cursor(cursor)
        with self._open_lock():
            if at > len(self._order):
                raise InvalidCursor(cursor=cursor)
            page = self._order[at : at + limit]
            events = tuple(self._event(stream, seq) for stream, seq in page)
        cursors = tuple(map(str, range(at + 1, at + 1 + len(page))))
        return FeedPage(events, cursors[-1] if page else cursor, cursors)

    def positions(self, stream: StreamId, seqs: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        with self._open_lock():
            known = self._positions.get(stream, ())
            start = self._streams[stream][0].seq if known else 0
            return tuple((known[seq - start],) if 0 <= seq - start < len(known) else () for seq in seqs)

    def head(self, stream: StreamId) -> StreamHead | None:
        with self._open_lock():
            events = self._streams.get(stream)
            return StreamHead(stream, events[-1].seq, events[-1].hash) if events else None

    def heads(self, *, after: StreamId | None = None, limit: int) -> tuple[StreamHead, ...]:
        common.check_limit(limit)
        with self._open_lock():
            beyond = None if after is None else common.stream_key(after)
            streams = sorted(self._streams, key=common.stream_key)
            streams = [stream for stream in streams if beyond is None or common.stream_key(stream) > beyond]
            return tuple(head for stream in streams[:limit] if (head := self.head(stream)))

    def snapshot(self, stream: StreamId) -> Snapshot | None:
        with self._open_lock():
            return self._snapshots.get(stream)

    def rows(
        self,
        table: type[R],
        where: Mapping[str, str | int],
        *,
        after: R | None = None,
        limit: int,
        order: RowOrder = BY_KEY,
        least: Mapping[str, int] = MappingProxyType({}),
        most: Mapping[str, int] = MappingProxyType({}),
        among: ColumnValues = MappingProxyType({}),
    ) -> tuple[R, ...]:
        common.check_limit(limit)
        common.check_columns(table, (*where, *order.columns, *least, *most, *among))
        wanted = {column: {*values} for column, values in common.matching_values(table, among).items()}
        if not common.can_match(table, (where, least, most)):
            return ()
        columns = common.order_columns(table, order, {*where, *least, *most})

        def place(row: Row) -> tuple[str | int, ...]:
            return tuple(getattr(row, column) for column in columns)

        with self._open_lock():
            found = [
                row
                for row in self._candidate_rows(table, where, wanted)
                if all(getattr(row, column) == value for column, value in where.items())
                and all(getattr(row, column) in values for column, values in wanted.items())
                and all(value is not None and value >= low for value, low in _pair_bounds(row, least))
                and all(value is not None and value <= high for value, high in _pair_bounds(row, most))
            ]
        if after is not None:
            beyond = place(after)
            found = [row for row in found if (place(row) < beyond if order.backwards else place(row) > beyond)]
        return tuple(cast("R", row) for row in sorted(found, key=place, reverse=order.backwards)[:limit])

    def search(self, search: FactQuery) -> tuple[tuple[FactRow, float], ...]:
        words = common.check_search(search)
        with self._open_lock():
            tables = self._rows.get(FactRow.table, {})
            names = {common.stream_of(search.tenant, "ledger", ledger) for ledger in search.ledgers}
            facts = [cast("FactRow", row) for stream in names for row in tables.get(stream, {}).values()]
        return rank_rows([fact for fact in facts if is_within(fact, search)], words, search.limit)

    def replace_rows(self, stream: StreamId, version: int, rows: Sequence[Row]) -> None:
        with self._open_lock():
            head = self.head(stream)
            actual = head.version if head else 0
            if actual != version:
                raise VersionConflict(stream=stream, expected=version, actual=actual)
            self._drop_rows(stream)
            self._put_rows(stream, rows)

    def projection_version(self) -> int:
        with self._open_lock():
            return self._projection_version

    def set_projection_version(self, version: int) -> None:
        with self._open_lock():
            self._projection_version = version

    def check(self) -> tuple[str, ...]:
        with self._open_lock():
            return ()

    def backup(self, target: str) -> None:
        raise InvalidUrl(url=target, reason="a store in memory has no file to back up: use export()")

    def totals(self) -> StoreTotals:
        with self._open_lock():
            rows = [row for rows in self._rows.get(EntryRow.table, {}).values() for row in rows.values()]
            sizes = [row.size for row in rows if isinstance(row, EntryRow)]
            return StoreTotals(len(self._streams), len(self._order), len(self._keys), 0, len(sizes), sum(sizes))

    def close(self) -> None:
        self._closed = True
        self._changes.announce_all()

    def _open_lock(self) -> threading.RLock:
        if self._closed:
            raise StoreClosed(what="the store in memory")
        return self._lock


def find_stream(table: type[Row], where: Mapping[str, str | int]) -> StreamId | None:
    """Return the only stream whose rows can match, if the query names it."""
    tenant, ledger = where.get("tenant"), where.get("ledger")
    if tenant is None:
        return None
    if common.owner_of(table) == "ledger":
        return None if ledger is None else common.stream_of(str(tenant), "ledger", str(ledger))
    names = [where.get(column) for column in ("actor", "session", "thread")]
    return None if None in names else StreamId(str(tenant), "session", tuple(str(name) for name in names if name != ""))


def _pair_bounds(row: Row, bounds: Mapping[str, int]) -> Iterator[tuple[int | None, int]]:
    return ((getattr(row, column), bound) for column, bound in bounds.items())


class MemoryBlobs:
    """A blob store in memory. It ends with the process."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[str, str], tuple[bytes, float]] = {}

    def writer(self, tenant: str) -> _MemoryBlobWriter:
        return _MemoryBlobWriter(self._bodies, tenant)

    def chunks(self, tenant: str, ref: BlobRef) -> Iterator[bytes]:
        found = self._bodies.get((tenant, ref.digest))
        if found is None:
            raise BlobNotFound(tenant=tenant, digest=ref.digest)
        body = found[0]
        if len(body) != ref.size:
            size = f"{len(body)} bytes, not {ref.size}" if len(body) < ref.size else f"more than {ref.size} bytes"
            raise StorageCorrupt(what=f"blob {ref.digest}", reason=f"it has {size}")
        return (body[at : at + limits.BLOB_CHUNK_BYTES] for at in range(0, len(body), limits.BLOB_CHUNK_BYTES))

    def stored(self) -> Iterator[tuple[str, str, float]]:
        for (tenant, digest), (_, touched_s) in list(self._bodies.items()):
            yield tenant, digest, touched_s

    def drop(self, tenant: str, digest: str, *, unless_put_after_s: float) -> bool:
        found = self._bodies.get((tenant, digest))
        if found is not None and found[1] <= unless_put_after_s:
            del self._bodies[tenant, digest]
        return (tenant, digest) not in self._bodies

    def sweep(self, *, before_s: float) -> int:  # noqa: ARG002 - the port asks for it
        return 0


class _MemoryBlobWriter:
    def __init__(self, bodies: dict[tuple[str, str], tuple[bytes, float]], tenant: str) -> None:
        self._bodies = bodies
        self._tenant = tenant
        self._buffer = bytearray()
        self._closed = False

    def write(self, chunk: bytes) -> None:
        self._check_open()
        self._buffer += chunk

    def commit(self, media_type: str | None = None) -> BlobRef:
        self._check_open()
        self._closed = True
        body = bytes(self._buffer)
        digest = hashlib.sha256(body).hexdigest()
        self._bodies[self._tenant, digest] = (body, time.time())
        return BlobRef(digest, len(body), media_type)

    def abort(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(what="the blob writer")
