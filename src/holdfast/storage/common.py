"""What every event store checks in the same way, so that every backend gives the same typed answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast import chain
from holdfast.codec import decode_stream_key, encode_stream_key
from holdfast.errors import InvalidAppend, InvalidCursor, InvalidName, StorageCorrupt, TooLarge, VersionConflict
from holdfast.model import limits
from holdfast.model.facts import Search
from holdfast.model.log import Append, Head, Recorded, StreamWrite
from holdfast.model.names import StreamId, StreamKind, check_size
from holdfast.model.rows import Among, Order, Row

_COMMAND_ID = re.compile(r"[0-9a-f]{32}")

_LEDGER_NAMES = {"user": (2,), "project": (2,), "organization": (2,), "session": (3, 4)}
"""How many names a ledger's stream may have, its kind counted."""


def check_limit(limit: int) -> None:
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
    """Column names reach SQL as text, so only a table's own are let through."""
    for column in columns:
        if column not in table.__struct_fields__:
            raise InvalidName(
                what=f"the column of {table.table}",
                value=column,
                reason="there is no such column",
                limit=limits.NAME_BYTES,
            )


def searched(search: Search) -> tuple[str, ...]:
    """The words that are looked for, each once. What is more than letters and digits is in no fact."""
    check_limit(search.limit)
    check_size("the search", len(search.words), "words", "SEARCH_WORDS", "Look for fewer.")
    words = dict.fromkeys(word.lower() for word in search.words)
    return tuple(filter(str.isalnum, words))


def check_append(append: Append) -> None:
    if not _COMMAND_ID.fullmatch(append.command):
        raise InvalidAppend(reason=f"the command id {append.command!r:.60} is not 32 hexadecimal digits")
    if not append.writes or not all(write.events for write in append.writes):
        raise InvalidAppend(reason="every write needs at least one event")
    if len(append.writes) > 1:
        _check_several(append)
    for write in append.writes:
        check_size("the append", len(write.events), "events", "COMMAND_EVENTS", "Split the command.")
        if write.erase and not all(1 <= seq <= write.expected for seq in write.erase):
            raise InvalidAppend(reason=f"only events 1 to {write.expected} of {write.stream} can be erased")
        if write.snapshot is not None:
            size = len(write.snapshot.state)
            check_size(f"the snapshot of {write.stream}", size, "bytes", "SNAPSHOT_BYTES", "Leave it out.")


def _check_several(append: Append) -> None:
    streams = [write.stream for write in append.writes]
    if len(set(streams)) != len(streams):
        raise InvalidAppend(reason="a stream may be written once")
    if len({stream.tenant for stream in streams}) != 1:
        raise InvalidAppend(reason="all streams must belong to one tenant")
    events = sum(len(write.events) for write in append.writes)
    check_size("the append", events, "events", "COMMAND_EVENTS", "Split the command.")


def check_version(write: StreamWrite, head: Head) -> None:
    if head.version != write.expected:
        raise VersionConflict(stream=write.stream, expected=write.expected, actual=head.version)


def check_adopted(head: Head, event: Recorded) -> None:
    """An event recorded elsewhere may only go where its chain continues."""
    if event.seq != head.version + 1:
        raise VersionConflict(stream=event.stream, expected=event.seq - 1, actual=head.version)
    wrong = chain.fault(head, event)
    if wrong is None and not _COMMAND_ID.fullmatch(event.command):
        wrong = f"its command id {event.command!r:.60} is not 32 hexadecimal digits"
    if wrong is not None:
        raise StorageCorrupt(what=f"event {event.seq} of {event.stream}", reason=wrong)


def matching(table: type[Row], among: Among) -> dict[str, tuple[str | int, ...]]:
    """For each column the values that are of its kind, each once."""
    return {
        column: tuple(dict.fromkeys(value for value in values if can_match(table, ({column: value},))))
        for column, values in among.items()
    }


def can_match(table: type[Row], conditions: Iterable[Mapping[str, str | int] | Mapping[str, int]]) -> bool:
    """Whether each value is of its column's kind: another equals nothing, on every store."""
    for condition in conditions:
        for column, value in condition.items():
            wanted = int if table.__annotations__[column].startswith("int") else str
            if type(value) is not wanted or (isinstance(value, int) and abs(value) > limits.WHOLE_NUMBER):
                return False
    return True


def order_columns(table: type[Row], order: Order, bounded: Collection[str]) -> tuple[str, ...]:
    """What rows are laid out by: never two of them at one place. A column that may hold nothing is among `bounded`, so that
    rows without it are left out."""
    assert not any("None" in table.__annotations__[column] for column in order.columns if column not in bounded), (
        "what is not there has no place"
    )
    return (*order.columns, *(column for column in table.key if column not in order.columns))


def bounded(position: int) -> int:
    """A position as every store can hold it; beyond, all are equally far away."""
    return max(-limits.WHOLE_NUMBER, min(position, limits.WHOLE_NUMBER))


def seq_chunks(seqs: Iterable[int]) -> Iterator[list[int]]:
    """The seqs that an event can have, each once, as many at a time as one query takes."""
    wanted = sorted({seq for seq in seqs if 1 <= seq <= limits.WHOLE_NUMBER})
    for start in range(0, len(wanted), limits.READ_EVENTS):
        yield wanted[start : start + limits.READ_EVENTS]


def stream_key(stream: StreamId) -> tuple[str, str, str]:
    """A stream as columns: what stores keep, and what orders their heads."""
    return stream.tenant, stream.kind, encode_stream_key(stream)


def owner_of(table: type[Row]) -> StreamKind:
    """What the rows of a table belong to."""
    return "ledger" if "ledger" in table.key else "session"


def row_key(row: Row) -> tuple[str | int, ...]:
    return tuple(getattr(row, column) for column in type(row).key)


def position_of(cursor: str) -> int:
    """Cursors of stores whose feed is numbered 1, 2, 3…"""
    if cursor == "":
        return 0
    if not is_count(cursor):
        raise InvalidCursor(cursor=cursor)
    return int(cursor)


def is_count(word: str) -> bool:
    """Whether a store wrote this: a number from 1 on, as it is written, not too large."""
    return word.isascii() and word.isdigit() and word[0] != "0" and len(word) < 19


def stream_of(tenant: str, kind: Any, key: str) -> StreamId:
    try:
        names = decode_stream_key(key)
    except msgspec.MsgspecError as error:
        raise StorageCorrupt(what=f"the name {key!r} in streams", reason=str(error)) from error
    if kind == "session" and len(names) not in (2, 3):
        raise StorageCorrupt(what=f"the name {key!r} in streams", reason="a session has two or three")
    if kind == "ledger" and len(names) not in _LEDGER_NAMES.get(names[0] if names else "", ()):
        raise StorageCorrupt(what=f"the name {key!r} in streams", reason="it is no ledger's")
    return StreamId(tenant, kind, names)


def placed(row: Sequence[Any]) -> Recorded:
    """An event from a row that begins with its stream and its position."""
    return recorded_of(stream_of(*row[:3]), row[4:])


def recorded_of(stream: StreamId, row: Sequence[Any]) -> Recorded:
    seq, command, *rest = row
    return Recorded(stream, seq, command.hex(), *rest)
