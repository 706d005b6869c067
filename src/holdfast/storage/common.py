"""What every event store checks in the same way, so that every backend gives the same typed answer."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import InvalidAppend, InvalidCursor, InvalidName, TooLarge, VersionConflict
from holdfast.model import limits
from holdfast.model.log import Append, Head, StreamWrite
from holdfast.model.rows import Row


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


def check_columns(table: type[Row], where: Mapping[str, str | int]) -> None:
    """Column names reach SQL as text, so only a table's own are let through."""
    for column in where:
        if column not in table.__struct_fields__:
            raise InvalidName(
                what=f"the column of {table.table}",
                value=column,
                reason="there is no such column",
                limit=limits.NAME_BYTES,
            )


def check_append(append: Append) -> None:
    streams = [write.stream for write in append.writes]
    events = sum(len(write.events) for write in append.writes)
    if not streams or not all(write.events for write in append.writes):
        raise InvalidAppend(reason="every write needs at least one event")
    if len(set(streams)) != len(streams):
        raise InvalidAppend(reason="a stream may be written once")
    if len({stream.tenant for stream in streams}) != 1:
        raise InvalidAppend(reason="all streams must belong to one tenant")
    if events > limits.COMMAND_EVENTS:
        raise TooLarge(
            what="the append",
            size=events,
            unit="events",
            limit_name="COMMAND_EVENTS",
            limit=limits.COMMAND_EVENTS,
            advice="Split the command.",
        )
    for write in append.writes:
        if write.snapshot is not None and len(write.snapshot.state) > limits.SNAPSHOT_BYTES:
            raise TooLarge(
                what=f"the snapshot of {write.stream}",
                size=len(write.snapshot.state),
                unit="bytes",
                limit_name="SNAPSHOT_BYTES",
                limit=limits.SNAPSHOT_BYTES,
                advice="Append without a snapshot.",
            )


def check_version(write: StreamWrite, head: Head) -> None:
    if head.version != write.expected:
        raise VersionConflict(stream=write.stream, expected=write.expected, actual=head.version)


def row_key(row: Row) -> tuple[str | int, ...]:
    return tuple(getattr(row, column) for column in type(row).key)


def position_of(cursor: str) -> int:
    """Cursors of stores whose feed is numbered 1, 2, 3…"""
    if cursor == "":
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise InvalidCursor(cursor=cursor)
    return int(cursor)
