"""What the store does, written once for both worlds: each operation is a generator that yields what it asks of the database
and gets the rows back; the two stores only drive it.

Laws: a batch takes the straight way and leaves whatever is not straight to a transaction of its own; after a lost
connection an append is tried again only under the stream's lock, and recognised by its command's id if it was stored.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec
import psycopg

from holdfast import chain, codec, errors
from holdfast.model import limits
from holdfast.model.facts import Search
from holdfast.model.log import GENESIS, Append, Appended, FeedPage, Head, Recorded, Snapshot, Totals
from holdfast.model.names import StreamId
from holdfast.model.rows import TABLES, Among, FactRow, Order, Row
from holdfast.storage import common
from holdfast.storage.postgres.arrays import bigints, blobs, integers, texts
from holdfast.storage.postgres.connect import FOLDER
from holdfast.storage.sql import Wording, load_statements, row_of, select_rows

SQL = load_statements(FOLDER)


def _among(column: str, values: Sequence[Any]) -> tuple[str, Any]:
    if isinstance(values[0], int):
        return f"{column} = ANY (%b::bigint[])", bigints(values)
    return f"{column} = ANY (%b::text[])", texts([value for value in values if "\0" not in value])


def _unfolded(values: Sequence[Any]) -> str:
    return f"unnest(%b::{'bigint' if isinstance(values[0], int) else 'text'}[])"


WORDING = Wording("%b", _among, _unfolded)

T = TypeVar("T")
R = TypeVar("R", bound=Row)


class Ask(NamedTuple):
    """A statement for a tenant's eyes; for everyone's if `tenant` is None."""

    tenant: str | None
    statement: str
    values: Sequence[Any] = ()
    long: bool = False
    """It may take longer than STATEMENT_MS."""
    sets_tenant: bool = False
    """It says itself whose rows it sees."""


Operation: TypeAlias = Generator[Ask, list[tuple[Any, ...]], T]


class Alone(NamedTuple):
    """Not done in the batch: it needs a transaction of its own. `lost` says that it may have been stored nevertheless."""

    lost: bool = False


class Heads:
    """Where streams ended when this process last saw them. Checked under the stream's lock, so an old one does no harm."""

    def __init__(self) -> None:
        self._heads: dict[StreamId, Head] = {}

    def at(self, stream: StreamId, version: int) -> Head | None:
        if version == 0:
            return Head(stream, 0, GENESIS)
        head = self._heads.get(stream)
        return head if head is not None and head.version == version else None

    def put(self, head: Head) -> None:
        if len(self._heads) >= limits.KNOWN_HEADS:
            self._heads.clear()
        self._heads[head.stream] = head

    def drop(self, stream: StreamId) -> None:
        self._heads.pop(stream, None)


_WRITE = (texts, texts, texts, bigints, blobs, bigints, blobs)
_EVENT = (
    integers,
    bigints,
    blobs,
    integers,
    texts,
    integers,
    bigints,
    texts,
    texts,
    texts,
    blobs,
    blobs,
    blobs,
    blobs,
    blobs,
)
_KEY = (integers, texts, integers, bigints, bigints)
_SNAPSHOT = (integers, bigints, integers, blobs)
_ERASED = (integers, bigints)


class _Call:
    """The columns that the function `append` takes, gathered write by write."""

    def __init__(self) -> None:
        self._writes: list[tuple[Any, ...]] = []
        self._events: list[tuple[Any, ...]] = []
        self._keys: list[tuple[Any, ...]] = []
        self._snapshots: list[tuple[Any, ...]] = []
        self._erased: list[tuple[int, int]] = []
        self._rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}

    def write(self, before: Head, after: Head) -> int:
        key = common.stream_key(before.stream)
        self._writes.append((*key, before.version, before.hash, after.version, after.hash))
        return len(self._writes)

    def event(self, write: int, event: Recorded) -> None:
        _, seq, command, *rest = msgspec.structs.astuple(event)
        self._events.append((write, seq, bytes.fromhex(command), *rest))

    def keyed(self, write: int, events: Sequence[Recorded]) -> None:
        """A stretch of a stream that one command made."""
        if events[0].key is not None:
            self._keys.append((write, events[0].key, events[0].ordinal, events[0].seq, events[-1].seq))

    def keep(self, write: int, rows: Iterable[Row], snapshot: Snapshot | None, erase: Iterable[int]) -> None:
        self._erased += ((write, seq) for seq in erase)
        if snapshot is not None:
            self._snapshots.append((write, snapshot.version, snapshot.format, snapshot.state))
        for row in rows:  # the last of several for one place counts
            fields = {"write": write, **msgspec.structs.asdict(row)}
            self._rows.setdefault(row.table, {})[common.row_key(row)] = fields

    def ask(self, tenant: str | None, *, alone: bool) -> Ask:
        values: list[Any] = [tenant, alone]
        for rows, packers in (
            (self._writes, _WRITE),
            (self._events, _EVENT),
            (self._keys, _KEY),
            (self._snapshots, _SNAPSHOT),
            (self._erased, _ERASED),
        ):
            columns = zip(*rows, strict=True) if rows else [()] * len(packers)
            values += [pack(column) for pack, column in zip(packers, columns, strict=True)]
        values.append(_as_json(self._rows))
        return Ask(tenant, SQL["append"], values, sets_tenant=True)


def _as_json(rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]]) -> str | None:
    if not rows:
        return None
    return codec.encode({table: list(found.values()) for table, found in rows.items()}).decode()


# Appending


def append_batch(heads: Heads, appends: Sequence[Append]) -> Operation[list[Appended | Alone]]:
    """Commands of one tenant that write to one stream each. Who is refused or doubtful is left for `append_alone`."""
    answers: list[Appended | Alone] = [Alone()] * len(appends)
    tenant = appends[0].tenant
    first: dict[StreamId, int] = {}
    for number, append in enumerate(appends):
        first.setdefault(append.writes[0].stream, number)
    unknown = [
        stream for stream, number in first.items() if heads.at(stream, appends[number].writes[0].expected) is None
    ]
    if unknown:
        for head in (yield from _heads_of(tenant, unknown)):
            heads.put(head)
    call = _Call()
    sent: list[tuple[int, Head, list[Recorded]]] = []
    for stream, number in first.items():
        append = appends[number]
        before = heads.at(stream, append.writes[0].expected)
        if before is None:
            continue
        ((after, events),) = chain.record(append, [before])
        _add(call, append, before, after, events, number=0)
        sent.append((number, after, events))
    if not sent:
        return answers
    refused = {row[0] for row in (yield call.ask(tenant, alone=False))}
    for write, (number, after, events) in enumerate(sent, 1):
        if write in refused:
            heads.drop(after.stream)
        else:
            heads.put(after)
            answers[number] = Appended(tuple(events))
    return answers


def _add(call: _Call, append: Append, before: Head, after: Head, events: list[Recorded], number: int) -> None:
    write = call.write(before, after)
    for event in events:
        call.event(write, event)
    call.keyed(write, events)
    part = append.writes[number]
    call.keep(write, part.rows, part.snapshot, part.erase)


def append_alone(append: Append, *, lost: bool) -> Operation[tuple[list[Head], Appended]]:
    """One command in a transaction of its own; the new heads of its streams, and the answer. `lost`: it was sent before,
    and nobody knows what became of it."""
    streams = [write.stream for write in append.writes]
    for _ in range(limits.REDECIDE_TRIES):
        known = {head.stream: head for head in (yield from _heads_of(append.tenant, streams))}
        before = [known.get(stream) or Head(stream, 0, GENESIS) for stream in streams]
        if append.key is not None and (first := (yield from find(append.tenant, append.key))):
            if lost and first[0].command == append.command:
                return before, Appended(first)
            return before, chain.repeated(append.key, append.order, first)
        if lost and (stored := (yield from _stored(append))):
            return before, Appended(stored)
        for write, head in zip(append.writes, before, strict=True):
            common.check_version(write, head)
        call = _Call()
        links = chain.record(append, before)
        for number, ((after, events), head) in enumerate(zip(links, before, strict=True)):
            _add(call, append, head, after, events, number)
        try:
            refused = yield call.ask(append.tenant, alone=True)
        except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            continue  # someone used the key, or made the stream, meanwhile: now it can be seen
        if not refused:
            return [after for after, _ in links], Appended(tuple(event for _, events in links for event in events))
    raise errors.StorageBusy(what=str(streams[0]), waited_ms=limits.BUSY_MS)


def _stored(append: Append) -> Operation[tuple[Recorded, ...]]:
    """The events of this command, if it was stored after all."""
    found: list[Recorded] = []
    for write in append.writes:
        after = yield from read(write.stream, write.expected, len(write.events))
        found += (event for event in after if event.command == append.command)
    return tuple(found)


def _heads_of(tenant: str | None, streams: Sequence[StreamId]) -> Operation[list[Head]]:
    keys = [common.stream_key(stream) for stream in streams]
    found = yield Ask(tenant, SQL["heads_of"], [texts(column) for column in zip(*keys, strict=True)])
    return [Head(streams[at - 1], version, digest) for at, version, digest in found]


def adopt(
    events: Sequence[Recorded],
    rows: Mapping[StreamId, Sequence[Row]],
    erase: Mapping[StreamId, Sequence[int]],
    snapshots: Mapping[StreamId, Snapshot],
) -> Operation[None]:
    streams = list(dict.fromkeys([*(event.stream for event in events), *rows, *erase, *snapshots]))
    if not streams:
        return
    tenants = {stream.tenant for stream in streams}
    tenant = tenants.pop() if len(tenants) == 1 else None
    for _ in range(limits.REDECIDE_TRIES):
        before = {stream: Head(stream, 0, GENESIS) for stream in streams}
        before.update((head.stream, head) for head in (yield from _heads_of(tenant, streams)))
        after = dict(before)
        for event in events:
            common.check_adopted(after[event.stream], event)
            after[event.stream] = Head(event.stream, event.seq, event.hash)
        yield from _check_keys(tenant, events)
        call = _Call()
        writes = {stream: call.write(before[stream], after[stream]) for stream in streams}
        for event in events:
            call.event(writes[event.stream], event)
        for stretch in _stretches(events):
            call.keyed(writes[stretch[0].stream], stretch)
        for stream, write in writes.items():
            call.keep(write, rows.get(stream, ()), snapshots.get(stream), erase.get(stream, ()))
        try:
            refused = yield call.ask(tenant, alone=True)
        except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
            continue
        if not refused:
            return
    raise errors.StorageBusy(what=str(streams[0]), waited_ms=limits.BUSY_MS)


def _stretches(events: Iterable[Recorded]) -> Iterable[list[Recorded]]:
    """Events of one command in one stream, one after the other."""
    open_: dict[StreamId, list[Recorded]] = {}
    done: list[list[Recorded]] = []
    for event in events:
        stretch = open_.get(event.stream)
        if stretch is None or stretch[-1].command != event.command or stretch[-1].ordinal + 1 != event.ordinal:
            stretch = open_[event.stream] = []
            done.append(stretch)
        stretch.append(event)
    return done


def _check_keys(tenant: str | None, events: Iterable[Recorded]) -> Operation[None]:
    """A key that is in use here, or twice in what is adopted, is refused."""
    wanted: dict[tuple[str, str], None] = {}
    for event in events:
        if event.key is not None and event.ordinal == 0:
            slot = (event.stream.tenant, event.key)
            if slot in wanted:
                raise errors.KeyConflict(tenant=slot[0], key=slot[1], reason="it is in use here")
            wanted[slot] = None
    if wanted:
        for in_tenant, key in (yield Ask(tenant, SQL["used_keys"], [texts(c) for c in zip(*wanted, strict=True)])):
            raise errors.KeyConflict(tenant=in_tenant, key=key, reason="it is in use here")


def replace_rows(stream: StreamId, version: int, rows: Sequence[Row]) -> Operation[None]:
    call = _Call()
    call.keep(1, rows, None, ())
    values = (*common.stream_key(stream), version, _as_json(call._rows))
    ((actual,),) = yield Ask(stream.tenant, SQL["replace_rows"], values, sets_tenant=True)
    if actual != version:
        raise errors.VersionConflict(stream=stream, expected=version, actual=actual)


def set_projection_version(version: int) -> Operation[None]:
    yield Ask(None, SQL["set_projection_version"], (version,), sets_tenant=True)


# Reading


def find(tenant: str, key: str) -> Operation[tuple[Recorded, ...]]:
    found = yield Ask(tenant, SQL["find"], (tenant, key))
    return tuple(common.placed(row) for row in found)


def read(stream: StreamId, after: int, limit: int) -> Operation[tuple[Recorded, ...]]:
    common.check_limit(limit)
    found = yield Ask(
        stream.tenant, SQL["read"], (*common.stream_key(stream), stream.tenant, common.bounded(after), limit)
    )
    return tuple(common.recorded_of(stream, row) for row in found)


def read_back(
    stream: StreamId, before: int | None, limit: int, types: Sequence[str]
) -> Operation[tuple[Recorded, ...]]:
    common.check_limit(limit)
    start = common.bounded(before) if before is not None else limits.WHOLE_NUMBER
    place = (*common.stream_key(stream), stream.tenant, start)
    if types:
        found = yield Ask(stream.tenant, SQL["read_back_types"], (*place, texts(types), limit))
    else:
        found = yield Ask(stream.tenant, SQL["read_back"], (*place, limit))
    return tuple(common.recorded_of(stream, row) for row in found)


def feed(cursor: str, limit: int) -> Operation[FeedPage]:
    common.check_limit(limit)
    at = _place_of(cursor)
    if cursor and not (yield Ask(None, SQL["at_cursor"], at)):
        raise errors.InvalidCursor(cursor=cursor)
    page = yield Ask(None, SQL["feed"], (*at, limit))
    return FeedPage(tuple(common.placed(row) for row in page), page[-1][3] if page else cursor)


def _place_of(cursor: str) -> tuple[int, str, int]:
    """era.transaction.position"""
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
        values = (*common.stream_key(stream), stream.tenant, bigints(chunk))
        for seq, era, xid, position in (yield Ask(stream.tenant, SQL["positions"], values)):
            found[seq] = (era, int(xid), position)
    return tuple(found.get(seq, ()) for seq in seqs)


def head(stream: StreamId) -> Operation[Head | None]:
    for version, digest in (yield Ask(stream.tenant, SQL["head"], common.stream_key(stream))):
        return Head(stream, version, digest)
    return None


def heads(after: StreamId | None, limit: int) -> Operation[tuple[Head, ...]]:
    common.check_limit(limit)
    if after is None:
        found = yield Ask(None, SQL["heads"], (limit,))
    else:
        found = yield Ask(None, SQL["heads_after"], (*common.stream_key(after), limit))
    return tuple(Head(common.stream_of(*row[:3]), row[3], row[4]) for row in found)


def snapshot(stream: StreamId) -> Operation[Snapshot | None]:
    for row in (yield Ask(stream.tenant, SQL["snapshot"], common.stream_key(stream))):
        return Snapshot(*row)
    return None


def rows(
    table: type[R],
    where: Mapping[str, str | int],
    after: R | None,
    limit: int,
    order: Order,
    least: Mapping[str, int],
    most: Mapping[str, int],
    among: Among,
) -> Operation[tuple[R, ...]]:
    query = select_rows(table, where, after, limit, order, least, most, among, WORDING)
    if query is None or any(isinstance(value, str) and "\0" in value for value in query[1]):
        return ()
    tenant = where.get("tenant")
    found = yield Ask(tenant if isinstance(tenant, str) else None, *query)
    return tuple(row_of(table, row) for row in found)


def search(asked: Search) -> Operation[tuple[tuple[FactRow, float], ...]]:
    words = common.searched(asked)
    if not words or "\0" in asked.tenant:
        return ()
    ledgers = [ledger for ledger in asked.ledgers if "\0" not in ledger]
    scopes = [scope for scope in asked.scopes if "\0" not in scope[1]]
    values = (
        int(asked.live),
        asked.tenant,
        texts(ledgers),
        " ".join(words),
        asked.tenant,
        asked.tenant,
        asked.tenant,
        int(asked.live),
        common.bounded(asked.now_us),
        texts([scope for scope, _ in scopes]),
        texts([scope_id for _, scope_id in scopes]),
        asked.permissions is None,
        codec.encode([each for each in asked.permissions or () if "\0" not in each]).decode(),
        asked.limit,
    )
    found = yield Ask(asked.tenant, SQL["search"], values)
    return tuple((row_of(FactRow, row), score) for score, *row in found)


def projection_version() -> Operation[int]:
    ((version,),) = yield Ask(None, SQL["projection_version"], sets_tenant=True)
    answer: int = version
    return answer


def totals() -> Operation[Totals]:
    ((streams, events, keys, size),) = yield Ask(None, SQL["totals"], long=True)
    return Totals(streams, events, keys, size or 0)


def check() -> Operation[tuple[str, ...]]:
    faults: list[str] = []
    for name, told in (
        *((f"strange_{table.table}", _strange(table)) for table in TABLES),
        ("strange_fact_words", "fact {1} of tenant {0!r} and the words that it is found by do not belong together"),
        ("lost_events", "the event at position {} belongs to no stream of its tenant"),
        ("lost_snapshots", "a snapshot for stream number {} belongs to no stream of its tenant"),
        ("disordered_events", "the event at position {} stands before the one it follows"),
        ("keyless_events", "the event at position {} is not found by its key, or more than once"),
        ("eventless_keys", "the key {1!r} of tenant {0!r} does not lead to its events"),
    ):
        for row in (yield Ask(None, SQL[name], long=True)):
            faults.append(told.format(*row))
    return tuple(faults)


def _strange(table: type[Row]) -> str:
    return f"a row of {table.table} for the {common.owner_of(table)} {{!r}} is laid at another stream's door"
