"""Forks as flows need them: the state and the rows that a fork begins with, and the forks of a session.

Law: a fork has the state and the rows that a replay of its events gives, those that it shares included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.project import SHARED_ROWS
from holdfast.core.sessions.forks import extend_lineage
from holdfast.errors import StorageCorrupt
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.load import StateCache, load_ledger_state, load_session_state, replay_stream
from holdfast.model import limits
from holdfast.model.facts.events import LedgerForked
from holdfast.model.log import StreamHead
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import TABLES, Row, SessionRow, scope_of
from holdfast.model.sessions.events import SessionForked
from holdfast.model.sessions.forks import ForkOrigin
from holdfast.model.state import StreamState


class ForkBase(NamedTuple):
    """What a fork begins with."""

    state: StreamState
    """Of the parent, after its last shared event."""
    rows: list[Row]
    head: StreamHead
    """The last shared event."""
    origin: ForkOrigin


def read_origin(stream: StreamId) -> Flow[ForkOrigin | None]:
    """Where a stream was forked from; None if it is no fork."""
    for first in (yield from effects.read_own(stream, 0, 1)):
        event = upcast.decode_event(first)
        if first.seq > 1 and isinstance(event, SessionForked | LedgerForked):
            return ForkOrigin(parent=event.parent, cut=event.cut, lineage=event.lineage)
    return None


def load_fork_base(parent: StreamId, cut: int, fork: StreamId, cache: StateCache) -> Flow[ForkBase]:
    """What a fork of this stream begins with that shares its events up to `cut`."""
    lineage = extend_lineage((yield from read_origin(parent)), parent.key, cut)
    owner = lineage[-1].stream_beside(parent)
    load = load_ledger_state if parent.kind == "ledger" else load_session_state
    state: StreamState = yield from load(owner, cache, fresh=True)
    if state.version == cut:
        rows = yield from _copy_rows(owner, fork)
    else:
        state, rows, _ = yield from replay_stream(owner, cut, reader=fork)
        rows = [row for row in rows if isinstance(row, SHARED_ROWS)]
    events = yield from effects.read(owner, cut - 1, 1)
    if not events or state.version != cut:
        raise StorageCorrupt(what=str(owner), reason=f"it has no event {cut}")
    return ForkBase(
        state, rows, StreamHead(owner, cut, events[0].hash), ForkOrigin(parent=owner.key, cut=cut, lineage=lineage)
    )


def _copy_rows(source: StreamId, fork: StreamId) -> Flow[list[Row]]:
    """The rows of a stream, as rows of a fork of it."""
    rows: list[Row] = []
    columns = row_columns(fork)
    for table in TABLES:
        if table in SHARED_ROWS and ("ledger" in table.key) == (source.kind == "ledger"):
            last: Row | None = None
            while page := (yield from effects.rows(table, row_columns(source), last, limits.READ_EVENTS)):
                rows += (msgspec.structs.replace(row, **columns) for row in page)
                last = page[-1]
                if len(page) < limits.READ_EVENTS:
                    break
    return rows


def row_columns(stream: StreamId) -> dict[str, Any]:
    """The columns that all rows of a stream share."""
    if stream.kind == "ledger":
        return {"tenant": stream.tenant, "ledger": codec.encode_stream_key(stream)}
    return {**Scope.from_stream(stream).columns}


class Fork(NamedTuple):
    """A fork of a session, or of one of its forks."""

    row: SessionRow
    cut: int
    """The last event that it shares with the session, whether directly or through other forks."""


def find_forks(stream: StreamId) -> Flow[list[Fork]]:
    """All forks of a session, with those of its forks, parents first."""
    forks: list[Fork] = []
    queue: list[tuple[StreamId, int]] = [(stream, limits.WHOLE_NUMBER)]
    while queue:
        parent, cut = queue.pop(0)
        for row in (yield from find_children(parent)):
            fork = Fork(row, min(cut, row.cut))
            forks.append(fork)
            queue.append((scope_of(row).stream, fork.cut))
    return forks


def find_children(parent: StreamId) -> Flow[list[SessionRow]]:
    """The forks that have the last shared event in this session."""
    rows: list[SessionRow] = []
    where: dict[str, str | int] = {"tenant": parent.tenant, "parent": codec.encode_stream_key(parent)}
    while page := (yield from effects.rows(SessionRow, where, rows[-1] if rows else None, limits.READ_EVENTS)):
        rows += page
        if len(page) < limits.READ_EVENTS:
            break
    return rows
