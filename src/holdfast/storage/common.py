"""Checks that all event stores share, so that every backend raises the same errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast import chain
from holdfast.codec import decode_stream_key, encode_stream_key
from holdfast.errors import InvalidAppend, InvalidCursor, InvalidName, StorageCorrupt, TooLarge, VersionConflict
from holdfast.model import limits
from holdfast.model.facts.fact import FactQuery
from holdfast.model.log import Append, StoredEvent, StreamHead, StreamWrite
from holdfast.model.names import StreamId, StreamKind, check_size
from holdfast.model.rows import ColumnValues, Row, RowOrder

_COMMAND_ID = re.compile(r"[0-9a-f]{32}")

_LEDGER_NAMES = {"user": (2,), "project": (2,), "organization": (2,), "session": (3, 4)}
"""The possible numbers of names in the key of a ledger's stream, its kind included."""


def check_limit(limit: int) -> None:
    """Check the size of a page."""
    if not 1 <= limit <= limits.READ_EVENTS:
        raise TooLarge(
            what="the read",
            size=limit,
            unit="events or rows",
            limit_name="READ_EVENTS",
            limit=limits.READ_EVENTS,
            advice="Read in pages of 1 or more.",
        )


def check_columns(table: type[Row], columns: Iterable[str]) -> None:
    """Check column names, since they become part of SQL."""
    for column in columns:
        if column not in table.__struct_fields__:
            raise InvalidName(
                what=f"column of {table.table}",
                value=column,
                reason="there is no such column",
                limit=limits.NAME_BYTES,
            )


def check_search(search: FactQuery) -> tuple[str, ...]:
    """Return the words to search for, each once. A word with other characters than letters and digits is in no fact."""
    check_limit(search.limit)
    check_size("the search", len(search.words), "words", "SEARCH_WORDS", "Search for fewer.")
    words = dict.fromkeys(word.lower() for word in search.words)
    return tuple(filter(str.isalnum, words))


def check_append(append: Append) -> None:
    """Check an append against the contract."""
    if not _COMMAND_ID.fullmatch(append.command):
        raise InvalidAppend(reason=f"the command id {append.command!r:.60} is not 32 hexadecimal digits")
    if not append.writes or not all(write.events for write in append.writes):
        raise InvalidAppend(reason="every write needs at least one event")
    if len(append.writes) > 1:
        _check_writes(append)
    for write in append.writes:
        check_size("the append", len(write.events), "events", "COMMAND_EVENTS", "Split the command.")
        if write.base is not None and (write.expected or write.base.stream.tenant != write.stream.tenant):
            raise InvalidAppend(reason=f"only a new stream of the same tenant can be a fork; {write.stream} is not")
        if write.erase and not all(1 <= seq <= write.expected for seq in write.erase):
            raise InvalidAppend(reason=f"only events 1 to {write.expected} of {write.stream} can be erased")
        if write.snapshot is not None:
            size = len(write.snapshot.state)
            check_size(f"the snapshot of {write.stream}", size, "bytes", "SNAPSHOT_BYTES", "Leave it out.")


def _check_writes(append: Append) -> None:
    streams = [write.stream for write in append.writes]
    if len(set(streams)) != len(streams):
        raise InvalidAppend(reason="each stream can be written once")
    if len({stream.tenant for stream in streams}) != 1:
        raise InvalidAppend(reason="all streams must belong to one tenant")
    events = sum(len(write.events) for write in append.writes)
    check_size("the append", events, "events", "COMMAND_EVENTS", "Split the command.")


def check_version(write: StreamWrite, head: StreamHead) -> None:
    """Check that a stream is at the expected version."""
    if head.version != write.expected:
        raise VersionConflict(stream=write.stream, expected=write.expected, actual=head.version)


def chain_start(write: StreamWrite, head: StreamHead) -> StreamHead:
    """Return the head that the events of a write continue: that of the stream, or the base of a new fork."""
    return head if write.base is None else StreamHead(write.stream, write.base.version, write.base.hash)


def check_adoption(head: StreamHead, event: StoredEvent, bases: Mapping[StreamId, StreamHead]) -> None:
    """Check that an event of another store continues the chain of its stream. `bases` are the starts of forks."""
    base = bases.get(event.stream) if head.version == 0 else None
    if base is not None:
        head = StreamHead(event.stream, base.version, base.hash)
    if event.seq != head.version + 1:
        raise VersionConflict(stream=event.stream, expected=event.seq - 1, actual=head.version)
    fault = chain.find_chain_fault(head, event)
    if fault is None and not _COMMAND_ID.fullmatch(event.command):
        fault = f"its command id {event.command!r:.60} is not 32 hexadecimal digits"
    if fault is not None:
        raise StorageCorrupt(what=f"event {event.seq} of {event.stream}", reason=fault)


def matching_values(table: type[Row], among: ColumnValues) -> dict[str, tuple[str | int, ...]]:
    """Return for each column the values of its type, each once."""
    return {column: tuple(dict.fromkeys(_values_of_type(table, column, some))) for column, some in among.items()}


def _values_of_type(table: type[Row], column: str, values: Sequence[str | int]) -> Sequence[str | int]:
    if not table.__annotations__[column].startswith("int"):
        return [value for value in values if type(value) is str]
    return [value for value in values if type(value) is int and abs(value) <= limits.WHOLE_NUMBER]


def can_match(table: type[Row], conditions: Iterable[Mapping[str, str | int] | Mapping[str, int]]) -> bool:
    """Whether each value has the type of its column. A value of another type matches no row, in every store."""
    for condition in conditions:
        for column, value in condition.items():
            wanted = int if table.__annotations__[column].startswith("int") else str
            if type(value) is not wanted or (isinstance(value, int) and abs(value) > limits.WHOLE_NUMBER):
                return False
    return True


def order_columns(table: type[Row], order: RowOrder, bounded: Collection[str]) -> tuple[str, ...]:
    """Return the columns that rows are ordered by; no two rows are equal in all of them.

    A column that can be NULL must be among `bounded`, so that rows without a value are left out."""
    assert not any("None" in table.__annotations__[column] for column in order.columns if column not in bounded), (
        "NULL has no order"
    )
    return (*order.columns, *(column for column in table.key if column not in order.columns))


def clamp_position(position: int) -> int:
    """Limit a position to the numbers that every store can represent."""
    return max(-limits.WHOLE_NUMBER, min(position, limits.WHOLE_NUMBER))


def seq_chunks(seqs: Iterable[int]) -> Iterator[list[int]]:
    """Yield the valid seqs, each once, in chunks for one query."""
    wanted = sorted({seq for seq in seqs if 1 <= seq <= limits.WHOLE_NUMBER})
    for start in range(0, len(wanted), limits.READ_EVENTS):
        yield wanted[start : start + limits.READ_EVENTS]


def stream_key(stream: StreamId) -> tuple[str, str, str]:
    """Return a stream as columns. Heads are ordered by them."""
    return stream.tenant, stream.kind, encode_stream_key(stream)


def owner_of(table: type[Row]) -> StreamKind:
    """Return the kind of stream that the rows of a table belong to."""
    return "ledger" if "ledger" in table.key else "session"


def row_key(row: Row) -> tuple[str | int, ...]:
    """Return the key of a row."""
    return tuple(getattr(row, column) for column in type(row).key)


def parse_cursor(cursor: str) -> int:
    """Parse the cursor of a store whose feed is numbered 1, 2, 3…"""
    if cursor == "":
        return 0
    if not is_count(cursor):
        raise InvalidCursor(cursor=cursor)
    return int(cursor)


def is_count(word: str) -> bool:
    """Whether this is a number from 1 on, in canonical form and not too large."""
    return word.isascii() and word.isdigit() and word[0] != "0" and len(word) < 19


def stream_of(tenant: str, kind: Any, key: str) -> StreamId:
    """Build a stream from its columns."""
    try:
        names = decode_stream_key(key)
    except msgspec.MsgspecError as error:
        raise StorageCorrupt(what=f"the name {key!r} in streams", reason=str(error)) from error
    if kind == "session" and len(names) not in (2, 3):
        raise StorageCorrupt(what=f"the name {key!r} in streams", reason="a session has two or three names")
    if kind == "ledger" and len(names) not in _LEDGER_NAMES.get(names[0] if names else "", ()):
        raise StorageCorrupt(what=f"the name {key!r} in streams", reason="it is not the name of a ledger")
    return StreamId(tenant, kind, names)


def parse_feed_row(row: Sequence[Any]) -> StoredEvent:
    """Build an event from a row that starts with its stream and its position."""
    return recorded_of(stream_of(*row[:3]), row[4:])


def recorded_of(stream: StreamId, row: Sequence[Any]) -> StoredEvent:
    """Build an event of a stream from a row."""
    seq, command, *rest = row
    return StoredEvent(stream, seq, command.hex(), *rest)
