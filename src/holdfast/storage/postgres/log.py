"""The operations of the store, for both drivers: generators that yield queries and receive rows.

Laws: a batch handles the simple case, and leaves every other command to a transaction of its own. After a lost
connection an append is repeated only under the lock of the stream, and found by the id of its command if it was
stored.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import psycopg

from holdfast import chain, codec, errors
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import GENESIS, Append, AppendResult, FeedPage, Snapshot, StoredEvent, StoreTotals, StreamHead
from holdfast.model.names import StreamId
from holdfast.model.rows import TABLES, ColumnValues, FactRow, Row, RowOrder
from holdfast.storage import common
from holdfast.storage.postgres.arrays import pack_bigints, pack_blobs, pack_integers, pack_texts
from holdfast.storage.postgres.connect import FOLDER
from holdfast.storage.sql import SqlDialect, load_statements, row_of, select_rows

SQL = load_statements(FOLDER)


def _any_condition(column: str, values: Sequence[Any]) -> tuple[str, Any]:
    if isinstance(values[0], int):
        return f"{column} = ANY (%b::bigint[])", pack_bigints(values)
    return f"{column} = ANY (%b::text[])", pack_texts([value for value in values if "\0" not in value])


def _unnest(values: Sequence[Any]) -> str:
    return f"unnest(%b::{'bigint' if isinstance(values[0], int) else 'text'}[])"


DIALECT = SqlDialect("%b", _any_condition, _unnest)

T = TypeVar("T")
R = TypeVar("R", bound=Row)


class Query(NamedTuple):
    """A statement that sees the rows of one tenant; of all tenants if `tenant` is None."""

    tenant: str | None
    statement: str
    values: Sequence[Any] = ()
    is_long: bool = False
    """It may take longer than STATEMENT_MS."""
    sets_tenant: bool = False
    """The statement itself sets the tenant."""


Operation: TypeAlias = Generator[Query, list[tuple[Any, ...]], T]


class BatchRefusal(NamedTuple):
    """A command that the batch left out: it needs its own transaction. With `lost`, it may have been stored."""

    lost: bool = False


class HeadCache:
    """The heads of streams as this process last saw them. They are checked under the lock of the stream."""

    def __init__(self) -> None:
        self._heads: dict[StreamId, StreamHead] = {}

    def at(self, stream: StreamId, version: int) -> StreamHead | None:
        if version == 0:
            return StreamHead(stream, 0, GENESIS)
        head = self._heads.get(stream)
        return head if head is not None and head.version == version else None

    def put(self, head: StreamHead) -> None:
        if len(self._heads) >= limits.KNOWN_HEADS:
            self._heads.clear()
        self._heads[head.stream] = head

    def drop(self, stream: StreamId) -> None:
        self._heads.pop(stream, None)


_WRITE_PACKERS = (pack_texts, pack_texts, pack_texts, pack_bigints, pack_blobs, pack_bigints, pack_blobs)
_EVENT_PACKERS = (
    *(pack_integers, pack_bigints, pack_blobs, pack_integers, pack_texts, pack_integers, pack_bigints),
    *(pack_texts,) * 3,
    *(pack_blobs,) * 5,
)
_KEY_PACKERS = (pack_integers, pack_texts, pack_integers, pack_bigints, pack_bigints)
_SNAPSHOT_PACKERS = (pack_integers, pack_bigints, pack_integers, pack_blobs)
_ERASURE_PACKERS = (pack_integers, pack_bigints)


class _AppendCall:
    """Collects the columns for the SQL function `append`, write by write."""

    def __init__(self) -> None:
        self._writes: list[tuple[Any, ...]] = []
        self._events: list[tuple[Any, ...]] = []
        self._keys: list[tuple[Any, ...]] = []
        self._snapshots: list[tuple[Any, ...]] = []
        self._erased: list[tuple[int, int]] = []
        self._rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
        self._kept: list[dict[str, Any]] = []
        """Erased events whose taken passages stay."""

    def keep_taken(self, stream: StreamId, seqs: Sequence[int]) -> None:
        tenant, _, key = common.stream_key(stream)
        self._kept.append({"tenant": tenant, "key": key, "seqs": [*seqs]})

    def add_write(self, before: StreamHead, after: StreamHead) -> int:
        key = common.stream_key(before.stream)
        self._writes.append((*key, before.version, before.hash, after.version, after.hash))
        return len(self._writes)

    def add_event(self, write: int, event: StoredEvent) -> None:
        _, seq, command, *fields = msgspec.structs.astuple(event)
        self._events.append((write, seq, bytes.fromhex(command), *fields))

    def add_key(self, write: int, events: Sequence[StoredEvent]) -> None:
        """Add the key of a command for its events in one stream."""
        if events[0].key is not None:
            self._keys.append((write, events[0].key, events[0].ordinal, events[0].seq, events[-1].seq))

    def add_extras(self, write: int, rows: Iterable[Row], snapshot: Snapshot | None, erase: Iterable[int]) -> None:
        self._erased += ((write, seq) for seq in erase)
        if snapshot is not None:
            self._snapshots.append((write, snapshot.version, snapshot.format, snapshot.state))
        for row in rows:  # the last of several with the same key counts
            fields = {"write": write, **msgspec.structs.asdict(row)}
            self._rows.setdefault(row.table, {})[common.row_key(row)] = fields

    def build_query(self, tenant: str | None, *, alone: bool) -> Query:
        values: list[Any] = [tenant, alone]
        for rows, packers in (
            (self._writes, _WRITE_PACKERS),
            (self._events, _EVENT_PACKERS),
            (self._keys, _KEY_PACKERS),
            (self._snapshots, _SNAPSHOT_PACKERS),
            (self._erased, _ERASURE_PACKERS),
        ):
            columns = zip(*rows, strict=True) if rows else [()] * len(packers)
            values += [pack(column) for pack, column in zip(packers, columns, strict=True)]
        values.append(_rows_json(self._rows))
        if self._kept:
            values.append(codec.encode(self._kept).decode())
            return Query(tenant, SQL["append"].rstrip(";") + SQL["append_keeping"], values, sets_tenant=True)
        return Query(tenant, SQL["append"], values, sets_tenant=True)


def _rows_json(rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]]) -> str | None:
    if not rows:
        return None
    return codec.encode({table: list(by_key.values()) for table, by_key in rows.items()}).decode()


# Appending


def append_batch(heads: HeadCache, appends: Sequence[Append]) -> Operation[list[AppendResult | BatchRefusal]]:
    """Append commands of one tenant that write to one stream each. Conflicts are left for `append_alone`."""
    answers: list[AppendResult | BatchRefusal] = [BatchRefusal()] * len(appends)
    tenant = appends[0].tenant
    first: dict[StreamId, int] = {}
    for number, append in enumerate(appends):
        first.setdefault(append.writes[0].stream, number)
    unknown = [
        stream for stream, number in first.items() if heads.at(stream, appends[number].writes[0].expected) is None
    ]
    if unknown:
        for head in (yield from _read_heads(tenant, unknown)):
            heads.put(head)
    call = _AppendCall()
    sent: list[tuple[int, StreamHead, list[StoredEvent]]] = []
    for stream, number in first.items():
        append = appends[number]
        before = heads.at(stream, append.writes[0].expected)
        if before is None:
            continue
        ((after, events),) = chain.chain_events(append, [common.chain_start(append.writes[0], before)])
        _add_write(call, append, before, after, events, number=0)
        sent.append((number, after, events))
    if not sent:
        return answers
    refused = {row[0] for row in (yield call.build_query(tenant, alone=False))}
    for write, (number, after, events) in enumerate(sent, 1):
        if write in refused:
            heads.drop(after.stream)
        else:
            heads.put(after)
            answers[number] = AppendResult(tuple(events))
    return answers


def _add_write(
    call: _AppendCall, append: Append, before: StreamHead, after: StreamHead, events: list[StoredEvent], number: int
) -> None:
    write = call.add_write(before, after)
    for event in events:
        call.add_event(write, event)
    call.add_key(write, events)
    part = append.writes[number]
    call.add_extras(write, part.rows, part.snapshot, part.erase)
    if part.keeps_taken and part.erase:
        call.keep_taken(part.stream, part.erase)


def append_alone(append: Append, *, lost: bool) -> Operation[tuple[list[StreamHead], AppendResult]]:
    """Append one command in its own transaction. Returns the new heads of its streams, and the answer.

    `lost`: it was sent before, and its outcome is unknown."""
    streams = [write.stream for write in append.writes]
    for _ in range(limits.REDECIDE_TRIES):
        current = {head.stream: head for head in (yield from _read_heads(append.tenant, streams))}
        before = [current.get(stream) or StreamHead(stream, 0, GENESIS) for stream in streams]
        if append.key is not None and (first := (yield from find(append.tenant, append.key))):
            if lost and first[0].command == append.command:
                return before, AppendResult(first)
            return before, chain.answer_repeated_key(append.key, append.order, first)
        if lost and (stored := (yield from _find_stored(append))):
            return before, AppendResult(stored)
        for write, head in zip(append.writes, before, strict=True):
            common.check_version(write, head)
        call = _AppendCall()
        starts = [common.chain_start(write, head) for write, head in zip(append.writes, before, strict=True)]
        links = chain.chain_events(append, starts)
        for number, ((after, events), head) in enumerate(zip(links, before, strict=True)):
            _add_write(call, append, head, after, events, number)
        try:
            refused = yield call.build_query(append.tenant, alone=True)
        except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            continue  # another process used the key or created the stream: read again
        if not refused:
            return [after for after, _ in links], AppendResult(tuple(event for _, events in links for event in events))
    raise errors.StorageBusy(what=str(streams[0]), waited_ms=limits.BUSY_MS)


def _find_stored(append: Append) -> Operation[tuple[StoredEvent, ...]]:
    """Return the events of this command, if it was stored."""
    found: list[StoredEvent] = []
    for write in append.writes:
        after = yield from read(write.stream, write.expected, len(write.events))
        found += (event for event in after if event.command == append.command)
    return tuple(found)


def _read_heads(tenant: str | None, streams: Sequence[StreamId]) -> Operation[list[StreamHead]]:
    keys = [common.stream_key(stream) for stream in streams]
    found = yield Query(tenant, SQL["heads_of"], [pack_texts(column) for column in zip(*keys, strict=True)])
    return [StreamHead(streams[at - 1], version, digest) for at, version, digest in found]


def adopt(
    events: Sequence[StoredEvent],
    rows: Mapping[StreamId, Sequence[Row]],
    erase: Mapping[StreamId, Sequence[int]],
    snapshots: Mapping[StreamId, Snapshot],
    bases: Mapping[StreamId, StreamHead],
    keep_taken: Mapping[StreamId, Sequence[int]] = MappingProxyType({}),
) -> Operation[None]:
    streams = list(dict.fromkeys([*(event.stream for event in events), *rows, *erase, *snapshots]))
    if not streams:
        return
    tenants = {stream.tenant for stream in streams}
    tenant = tenants.pop() if len(tenants) == 1 else None
    for _ in range(limits.REDECIDE_TRIES):
        before = {stream: StreamHead(stream, 0, GENESIS) for stream in streams}
        before.update((head.stream, head) for head in (yield from _read_heads(tenant, streams)))
        after = dict(before)
        for event in events:
            common.check_adoption(after[event.stream], event, bases)
            after[event.stream] = StreamHead(event.stream, event.seq, event.hash)
        yield from _check_keys(tenant, events)
        call = _AppendCall()
        writes = {stream: call.add_write(before[stream], after[stream]) for stream in streams}
        for event in events:
            call.add_event(writes[event.stream], event)
        for run in _group_by_command(events):
            call.add_key(writes[run[0].stream], run)
        for stream, write in writes.items():
            call.add_extras(write, rows.get(stream, ()), snapshots.get(stream), erase.get(stream, ()))
            if keep_taken.get(stream):
                call.keep_taken(stream, keep_taken[stream])
        try:
            refused = yield call.build_query(tenant, alone=True)
        except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            continue
        if not refused:
            return
    raise errors.StorageBusy(what=str(streams[0]), waited_ms=limits.BUSY_MS)


def _group_by_command(events: Iterable[StoredEvent]) -> Iterable[list[StoredEvent]]:
    """Group successive events of one command in one stream."""
    open_runs: dict[StreamId, list[StoredEvent]] = {}
    runs: list[list[StoredEvent]] = []
    for event in events:
        run = open_runs.get(event.stream)
        if run is None or run[-1].command != event.command or run[-1].ordinal + 1 != event.ordinal:
            run = open_runs[event.stream] = []
            runs.append(run)
        run.append(event)
    return runs


def _check_keys(tenant: str | None, events: Iterable[StoredEvent]) -> Operation[None]:
    """Refuse a key that another command of this store has, or that is twice among the events."""
    wanted: dict[tuple[str, str], None] = {}
    for event in events:
        if event.key is not None and event.ordinal == 0:
            slot = (event.stream.tenant, event.key)
            if slot in wanted:
                raise errors.KeyConflict(tenant=slot[0], key=slot[1], reason="it is used in this store")
            wanted[slot] = None
    if wanted:
        for in_tenant, key in (
            yield Query(tenant, SQL["used_keys"], [pack_texts(c) for c in zip(*wanted, strict=True)])
        ):
            raise errors.KeyConflict(tenant=in_tenant, key=key, reason="it is used in this store")


def replace_rows(stream: StreamId, version: int, rows: Sequence[Row]) -> Operation[None]:
    call = _AppendCall()
    call.add_extras(1, rows, None, ())
    values = (*common.stream_key(stream), version, _rows_json(call._rows))
    ((actual,),) = yield Query(stream.tenant, SQL["replace_rows"], values, sets_tenant=True)
    if actual != version:
        raise errors.VersionConflict(stream=stream, expected=version, actual=actual)


def set_projection_version(version: int) -> Operation[None]:
    yield Query(None, SQL["set_projection_version"], (version,), sets_tenant=True)


# Reading


def find(tenant: str, key: str) -> Operation[tuple[StoredEvent, ...]]:
    found = yield Query(tenant, SQL["find"], (tenant, key))
    return tuple(common.parse_feed_row(row) for row in found)


def read(stream: StreamId, after: int, limit: int) -> Operation[tuple[StoredEvent, ...]]:
    common.check_limit(limit)
    found = yield Query(
        stream.tenant, SQL["read"], (*common.stream_key(stream), stream.tenant, common.clamp_position(after), limit)
    )
    return tuple(common.recorded_of(stream, row) for row in found)


def read_back(
    stream: StreamId, before: int | None, limit: int, types: Sequence[str]
) -> Operation[tuple[StoredEvent, ...]]:
    common.check_limit(limit)
    start = common.clamp_position(before) if before is not None else limits.WHOLE_NUMBER
    values = (*common.stream_key(stream), stream.tenant, start)
    if types:
        found = yield Query(stream.tenant, SQL["read_back_types"], (*values, pack_texts(types), limit))
    else:
        found = yield Query(stream.tenant, SQL["read_back"], (*values, limit))
    return tuple(common.recorded_of(stream, row) for row in found)


def feed(cursor: str, limit: int) -> Operation[FeedPage]:
    common.check_limit(limit)
    at = _parse_cursor(cursor)
    if cursor and not (yield Query(None, SQL["at_cursor"], at)):
        raise errors.InvalidCursor(cursor=cursor)
    page = yield Query(None, SQL["feed"], (*at, limit))
    cursors = tuple(row[3] for row in page)
    return FeedPage(tuple(map(common.parse_feed_row, page)), cursors[-1] if page else cursor, cursors)


def tenant_feed(tenant: str, cursor: str, limit: int) -> Operation[FeedPage]:
    """The feed of one tenant, for any role. At the end of the feed the cursor is a transaction, era.transaction.0, so
    that the events of other tenants are not passed again with the next page."""
    common.check_limit(limit)
    is_boundary = cursor.endswith(".0")
    at = _parse_cursor(f"{cursor[:-2]}.1" if is_boundary else cursor)
    if is_boundary:
        at = (*at[:2], 0)
    ((era, end),) = yield Query(tenant, SQL["feed_end"], ())
    is_known = (at[0], int(at[1])) <= (era, int(end)) if is_boundary else (yield Query(tenant, SQL["at_cursor"], at))
    if cursor and not is_known:
        raise errors.InvalidCursor(cursor=cursor)
    page = yield Query(tenant, SQL["tenant_feed"], (tenant, *at, era, end, limit))
    cursors = tuple(row[3] for row in page)
    events = tuple(map(common.parse_feed_row, page))
    return FeedPage(events, cursors[-1] if len(page) == limit else f"{era}.{end}.0", cursors)


def end_cursor(tenant: str | None) -> Operation[str]:
    """The cursor at the end of the feed of a tenant, or of all."""
    if tenant is not None:
        ((era, end),) = yield Query(tenant, SQL["feed_end"], ())
        return f"{era}.{end}.0"
    found = yield Query(None, SQL["last_of_feed"], ())
    return str(found[0][0]) if found else ""


def _parse_cursor(cursor: str) -> tuple[int, str, int]:
    """Parse a cursor: era.transaction.position."""
    if cursor == "":
        return 0, "0", 0
    words = cursor.split(".")
    if len(words) != 3 or not all(map(common.is_count, words)):
        raise errors.InvalidCursor(cursor=cursor)
    era = int(words[0])
    if era >= 1 << 31:
        raise errors.InvalidCursor(cursor=cursor)
    return era, words[1], int(words[2])


def positions(stream: StreamId, seqs: Sequence[int]) -> Operation[tuple[tuple[int, ...], ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for chunk in common.seq_chunks(seqs):
        values = (*common.stream_key(stream), stream.tenant, pack_bigints(chunk))
        for seq, era, xid, position in (yield Query(stream.tenant, SQL["positions"], values)):
            found[seq] = (era, int(xid), position)
    return tuple(found.get(seq, ()) for seq in seqs)


def head(stream: StreamId) -> Operation[StreamHead | None]:
    for version, digest in (yield Query(stream.tenant, SQL["head"], common.stream_key(stream))):
        return StreamHead(stream, version, digest)
    return None


def heads(after: StreamId | None, limit: int) -> Operation[tuple[StreamHead, ...]]:
    common.check_limit(limit)
    if after is None:
        found = yield Query(None, SQL["heads"], (limit,))
    else:
        found = yield Query(None, SQL["heads_after"], (*common.stream_key(after), limit))
    return tuple(StreamHead(common.stream_of(*row[:3]), row[3], row[4]) for row in found)


def snapshot(stream: StreamId) -> Operation[Snapshot | None]:
    for row in (yield Query(stream.tenant, SQL["snapshot"], common.stream_key(stream))):
        return Snapshot(*row)
    return None


def rows(
    table: type[R],
    where: Mapping[str, str | int],
    after: R | None,
    limit: int,
    order: RowOrder,
    least: Mapping[str, int],
    most: Mapping[str, int],
    among: ColumnValues,
) -> Operation[tuple[R, ...]]:
    query = select_rows(table, where, after, limit, order, least, most, among, DIALECT)
    if query is None or any(isinstance(value, str) and "\0" in value for value in query[1]):
        return ()
    tenant = where.get("tenant")
    found = yield Query(tenant if isinstance(tenant, str) else None, *query)
    return tuple(row_of(table, row) for row in found)


def search(query: FactQuery) -> Operation[tuple[tuple[FactRow, float], ...]]:
    words = common.check_search(query)
    if not words or "\0" in query.tenant:
        return ()
    ledgers = [ledger for ledger in query.ledgers if "\0" not in ledger]
    scopes = [scope for scope in query.scopes if "\0" not in scope[1]]
    values = (
        int(query.live),
        query.tenant,
        pack_texts(ledgers),
        " ".join(words),
        query.tenant,
        query.tenant,
        query.tenant,
        int(query.live),
        common.clamp_position(query.now_us),
        pack_texts([scope for scope, _ in scopes]),
        pack_texts([scope_id for _, scope_id in scopes]),
        query.permissions is None,
        codec.encode([name for name in query.permissions or () if "\0" not in name]).decode(),
        query.limit,
    )
    found = yield Query(query.tenant, SQL["search"], values)
    return tuple((row_of(FactRow, row), score) for score, *row in found)


def projection_version() -> Operation[int]:
    ((version,),) = yield Query(None, SQL["projection_version"], sets_tenant=True)
    answer: int = version
    return answer


def totals() -> Operation[StoreTotals]:
    ((streams, events, keys, size, entries, entry_bytes),) = yield Query(None, SQL["totals"], is_long=True)
    return StoreTotals(streams, events, keys, size or 0, entries, entry_bytes)


def check() -> Operation[tuple[str, ...]]:
    faults: list[str] = []
    for name, text in (
        *((f"strange_{table.table}", _misplaced_row_fault(table)) for table in TABLES),
        ("strange_passages", "{}"),
        ("strange_fact_words", "fact {1} of tenant {0!r} does not match its words in the index"),
        ("lost_events", "the event at position {} belongs to no stream of its tenant"),
        ("lost_snapshots", "a snapshot for stream number {} belongs to no stream of its tenant"),
        ("disordered_events", "the event at position {} is before the event that it follows"),
        ("keyless_events", "the event at position {} is not found by its key, or more than once"),
        ("eventless_keys", "the key {1!r} of tenant {0!r} does not lead to its events"),
    ):
        for row in (yield Query(None, SQL[name], is_long=True)):
            faults.append(text.format(*row))
    return tuple(faults)


def _misplaced_row_fault(table: type[Row]) -> str:
    return f"a row of {table.table} for the {common.owner_of(table)} {{!r}} is stored with another stream"
