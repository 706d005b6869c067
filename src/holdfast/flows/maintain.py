"""Maintenance of the log: verify, rebuild and import. Everything is read in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from holdfast import chain, codec
from holdfast.core import invariants, upcast
from holdfast.core.facts import fold
from holdfast.core.facts import invariants as facts_invariants
from holdfast.core.sessions.forks import find_origin_fault
from holdfast.errors import DataError, HoldfastError, VersionConflict
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import build_snapshot
from holdfast.flows.facts.lookup import read_facts
from holdfast.flows.lineage import ForkBase, load_fork_base, read_origin
from holdfast.flows.load import (
    StateCache,
    empty_state,
    fold_and_project,
    load_ledger_state,
    load_session_state,
    replay_stream,
    snapshot_format,
)
from holdfast.model import limits
from holdfast.model.facts.events import LedgerForked
from holdfast.model.facts.fact import FactState, fact_id
from holdfast.model.log import GENESIS, Snapshot, StoredEvent, StreamHead
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import PROJECTION_VERSION, TABLES, Row
from holdfast.model.sessions.events import PayloadsErased, SessionDestroyed, SessionForked
from holdfast.model.sessions.forks import FORK_EVENTS
from holdfast.model.state import LedgerState, SessionState, StreamState

CountCallback: TypeAlias = Callable[[int], None]
"""Called now and then with the number of events that are done."""


class VerificationProblem(msgspec.Struct, frozen=True):
    """One problem, and where it is."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class VerificationReport(msgspec.Struct, frozen=True):
    streams: int
    events: int
    problems: tuple[VerificationProblem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(count: CountCallback | None = None) -> Flow[VerificationReport]:
    """Read everything, and check chains, heads, snapshots and rows against the log. Others may write meanwhile."""
    written = (yield from effects.totals()).events
    problems = [VerificationProblem("the store", what) for what in (yield from effects.check())]
    streams = events = 0
    expected_rows = dict.fromkeys(TABLES, 0)
    after: StreamId | None = None
    while True:
        try:
            page = yield from effects.heads(after, limits.READ_EVENTS)
        except DataError as error:  # a stream without a readable name cannot be read: the report ends here
            return VerificationReport(streams, events, (*problems, VerificationProblem("the store", str(error))))
        for head in page:
            streams += 1
            checked, rows = yield from _verify_settled(head, problems, count, events)
            events += checked
            for row in rows:
                expected_rows[type(row)] += 1
        if len(page) < limits.READ_EVENTS:
            break
        after = page[-1].stream
    if (yield from effects.totals()).events != written:  # the numbers of rows would be of different times
        return VerificationReport(streams, events, tuple(problems))
    for table, expected in expected_rows.items():
        actual = yield from _count_rows(table)
        if actual != expected:
            problems.append(VerificationProblem(table.table, f"it has {actual} rows, but the log gives {expected}"))
    return VerificationReport(streams, events, tuple(problems))


def _verify_settled(
    head: StreamHead, problems: list[VerificationProblem], count: CountCallback | None, before: int
) -> Flow[tuple[int, list[Row]]]:
    """Verify a stream, and again if it was written meanwhile: its parts were then read at different times."""
    for _ in range(limits.REBUILD_TRIES):
        found: list[VerificationProblem] = []
        checked, rows = 0, list[Row]()
        try:
            checked, rows = yield from _verify_stream(head, found, count, before)
        except DataError as error:
            found.append(VerificationProblem(str(head.stream), str(error)))
        now = (yield from effects.head(head.stream)) if found else None
        if now is None or now == head:
            break
        head = now
    problems += found
    return checked, rows


def _verify_stream(
    head: StreamHead, problems: list[VerificationProblem], count: CountCallback | None, before: int
) -> Flow[tuple[int, list[Row]]]:
    stream = head.stream
    snapshot = yield from effects.snapshot(stream)
    at, state, rows, facts = yield from _verify_start(stream, problems)
    start = at.version
    missing: set[int] = set()
    erased: set[int] = set()
    events = 0
    while True:
        page = yield from effects.read_own(stream, at.version, limits.READ_EVENTS)
        for recorded in page:
            if fault := chain.find_chain_fault(at, recorded):
                problems.append(VerificationProblem(f"event {recorded.seq} of {stream}", fault))
            at = StreamHead(stream, recorded.seq, recorded.hash)
            events += 1
            if recorded.type in FORK_EVENTS and not 1 < recorded.seq == start + 1:
                problems.append(VerificationProblem(f"event {recorded.seq} of {stream}", "only a new stream is a fork"))
            missing |= {recorded.seq} if recorded.payload is None else set()
            erased |= {seq for seq in _read_erasure(recorded) if seq > start}
            state = _verify_fold(recorded, state, facts, rows, problems)
            if state is not None and snapshot is not None and state.version == snapshot.version:
                problems.extend(_verify_snapshot(stream, snapshot, state))
        if count is not None:
            count(before + events)
        if len(page) < limits.READ_EVENTS:
            break
    problems += _verify_end(head, at, snapshot)
    problems += _verify_erasures(stream, missing, erased)
    if state is not None:
        broken = (
            invariants.find_violations(state)
            if isinstance(state, SessionState)
            else facts_invariants.find_violations(state, facts)
        )
        problems += (VerificationProblem(str(stream), f"broken rule: {rule}") for rule in broken)
        yield from _verify_rows(stream, list(rows.values()), problems)
    return events, list(rows.values())


def _verify_start(
    stream: StreamId, problems: list[VerificationProblem]
) -> Flow[tuple[StreamHead, StreamState | None, dict[tuple[object, ...], Row], dict[str, FactState]]]:
    """The head, state, rows and facts before the first own event of a stream. Events that a fork shares are verified with
    the stream that stores them."""
    start: tuple[StreamHead, StreamState | None] = StreamHead(stream, 0, GENESIS), empty_state(stream)
    try:
        origin = yield from read_origin(stream)
    except HoldfastError:  # the fold reports it
        return *start, {}, {}
    if origin is None or not origin.lineage:
        return *start, {}, {}
    state, rows, facts = empty_state(stream), list[Row](), dict[str, FactState]()
    last: Sequence[StoredEvent] = ()
    try:
        (first,) = yield from effects.read_own(stream, 0, 1)
        before = yield from read_origin(stream.beside(origin.parent))
        if fault := find_origin_fault(stream, first.seq, upcast.decode_event(first), before):
            problems.append(VerificationProblem(f"event {first.seq} of {stream}", fault))
        state, rows, facts = yield from replay_stream(stream, origin.cut)
        last = yield from effects.read(stream, origin.cut - 1, 1)
    except HoldfastError as error:
        problems.append(VerificationProblem(str(stream), f"the events that it shares: {error}"))
    if state.version != origin.cut or not last or last[0].seq != origin.cut:
        where = VerificationProblem(
            str(stream), f"it continues event {origin.cut} of {origin.parent}, which is missing"
        )
        problems.append(where)
        return StreamHead(stream, origin.cut, GENESIS), None, {}, {}
    return StreamHead(stream, origin.cut, last[0].hash), state, {_row_key(row): row for row in rows}, facts


def _verify_end(head: StreamHead, at: StreamHead, snapshot: Snapshot | None) -> Iterator[VerificationProblem]:
    where = str(head.stream)
    if at.version != head.version:
        yield VerificationProblem(where, f"it ends at event {at.version}, but {head.version} were written")
    elif at.hash != head.hash:
        yield VerificationProblem(where, "its last event is not the one that its head names")
    if snapshot is not None and not 1 <= snapshot.version <= at.version:
        yield VerificationProblem(where, f"its snapshot is of version {snapshot.version}, which never existed")
    if snapshot is not None and not 1 <= snapshot.format <= snapshot_format(head.stream):
        yield VerificationProblem(where, f"its snapshot has the unknown format {snapshot.format}")


def _verify_erasures(stream: StreamId, missing: set[int], erased: set[int]) -> Iterator[VerificationProblem]:
    for seq in sorted(missing - erased):
        yield VerificationProblem(f"event {seq} of {stream}", "its payload is missing, and no erasure names it")
    for seq in sorted(erased - missing):
        yield VerificationProblem(f"event {seq} of {stream}", "its payload was erased, but is still stored")


def _read_erasure(recorded: StoredEvent) -> frozenset[int]:
    """The seqs that an event erased. The fold reports an event that cannot be read."""
    if recorded.type != PayloadsErased.name:
        return frozenset()
    try:
        event = upcast.decode_event(recorded)
    except HoldfastError:
        return frozenset()
    return frozenset(event.seqs) if isinstance(event, PayloadsErased) else frozenset()


def _verify_fold(
    recorded: StoredEvent,
    state: StreamState | None,
    facts: dict[str, FactState],
    rows: dict[tuple[object, ...], Row],
    problems: list[VerificationProblem],
) -> StreamState | None:
    """Fold one event, and add its rows; None from the first event that cannot be read."""
    if state is None:
        return None
    try:
        state, new_rows = fold_and_project(recorded.stream, state, [recorded], facts)
    except HoldfastError as error:
        problems.append(VerificationProblem(f"event {recorded.seq} of {recorded.stream}", str(error)))
        return None
    for row in new_rows:
        rows[_row_key(row)] = row
    return state


def _verify_snapshot(stream: StreamId, snapshot: Snapshot, state: StreamState) -> Iterator[VerificationProblem]:
    if snapshot.format == snapshot_format(stream) and snapshot.state != codec.encode(state):
        yield VerificationProblem(str(stream), f"its snapshot of version {snapshot.version} does not match its events")


def _verify_rows(stream: StreamId, expected: list[Row], problems: list[VerificationProblem]) -> Flow[None]:
    for table in TABLES:
        if ("ledger" in table.key) != (stream.kind == "ledger"):
            continue
        stored = yield from _stream_rows(table, stream)
        wanted = {_row_key(row): row for row in expected if isinstance(row, table)}
        for row in stored:
            if wanted.pop(_row_key(row), None) != row:
                problems.append(
                    VerificationProblem(f"{table.table} of {stream}", f"the row {_row_key(row)[1:]} is wrong")
                )
        for row in wanted.values():
            problems.append(
                VerificationProblem(f"{table.table} of {stream}", f"the row {_row_key(row)[1:]} is missing")
            )


def _row_key(row: Row) -> tuple[object, ...]:
    return (type(row).table, *(getattr(row, column) for column in type(row).key))


def _stream_rows(table: type[Row], stream: StreamId) -> Flow[list[Row]]:
    where: dict[str, str | int] = {"tenant": stream.tenant, "ledger": codec.encode_stream_key(stream)}
    if stream.kind != "ledger":
        where = {**Scope.from_stream(stream).columns}
    return (yield from _all_rows(table, where))


def _all_rows(table: type[Row], where: dict[str, str | int]) -> Flow[list[Row]]:
    rows: list[Row] = []
    while True:
        page = yield from effects.rows(table, where, rows[-1] if rows else None, limits.READ_EVENTS)
        rows += page
        if len(page) < limits.READ_EVENTS:
            return rows


def _count_rows(table: type[Row]) -> Flow[int]:
    count = 0
    last: Row | None = None
    while True:
        page = yield from effects.rows(table, {}, last, limits.READ_EVENTS)
        count += len(page)
        if len(page) < limits.READ_EVENTS:
            return count
        last = page[-1]


def rebuild(count: CountCallback | None = None) -> Flow[int]:
    """Rebuild every row from the log, stream by stream, while others write; returns the number of streams."""
    streams = events = 0
    after: StreamId | None = None
    while True:
        page = yield from effects.heads(after, limits.READ_EVENTS)
        for head in page:
            yield from _rebuild_stream(head)
            streams += 1
            events += head.version
            if count is not None:
                count(events)
        if len(page) < limits.READ_EVENTS:
            break
        after = page[-1].stream
    yield from effects.set_projection_version(PROJECTION_VERSION)
    return streams


def _rebuild_stream(head: StreamHead) -> Flow[None]:
    """Rebuild a stream. If others wrote meanwhile, try again while this process does not write to it."""
    try:
        yield from _replace_rows(head.stream, head.version, 1)
    except VersionConflict as conflict:
        again = _replace_rows(head.stream, conflict.actual, limits.REBUILD_TRIES)
        yield from effects.run_exclusively([head.stream], again)


def _replace_rows(stream: StreamId, version: int, tries: int) -> Flow[None]:
    for tries_left in reversed(range(tries)):
        _, rows, _ = yield from replay_stream(stream, version)
        try:
            yield from effects.replace_rows(stream, version, rows)
            return
        except VersionConflict as conflict:
            if not tries_left:
                raise
            version = conflict.actual


def rebuild_if_old() -> Flow[None]:
    """Rebuild rows of an older version; called at every open. Rows of a newer version stay: newer code may be running."""
    if (yield from effects.projection_version()) < PROJECTION_VERSION:
        yield from rebuild()


def adopt(events: Sequence[StoredEvent], cache: StateCache) -> Flow[None]:
    """Add events recorded elsewhere, with their rows. A fork begins when the events that it shares are stored, and goes on
    when its own rows are."""
    start = 0
    for at, event in enumerate(events):
        if event.type in FORK_EVENTS and event.seq > 1:
            for page in (events[start:at], events[at : at + 1]):
                if page:
                    yield from _adopt_page(page, cache)
            start = at + 1
    if events[start:]:
        yield from _adopt_page(events[start:], cache)


def _adopt_page(events: Sequence[StoredEvent], cache: StateCache) -> Flow[None]:
    rows: dict[StreamId, list[Row]] = {}
    erase: dict[StreamId, tuple[int, ...]] = {}
    after: dict[StreamId, tuple[int, StreamState]] = {}
    bases: dict[StreamId, StreamHead] = {}
    keep_taken: dict[StreamId, tuple[int, ...]] = {}
    for stream, page in _group_by_stream(events):
        state: StreamState
        if stream.kind == "ledger":
            state = yield from load_ledger_state(stream, cache, fresh=True)
        else:
            state = yield from load_session_state(stream, cache, fresh=True)
        base = yield from _find_base(stream, page[0], cache)
        if base is not None:
            bases[stream], state, rows[stream] = base.head, base.state, base.rows
        erased = _erased_seqs(page)
        if erased:
            if kept := _destroyed_seqs(page, state):
                keep_taken[stream] = kept
            state, rows[stream], facts = yield from replay_stream(stream, state.version, erased=frozenset(erased))
            erase[stream] = erased
        else:
            facts = yield from _load_touched_facts(stream, page)
        before = 0 if erased or base is not None else state.version
        state, new_rows = fold_and_project(stream, state, page, facts, frozenset(erased))
        after[stream] = (before, state)
        rows.setdefault(stream, []).extend(new_rows)
    snapshots = {
        stream: snapshot for stream, (at, state) in after.items() if (snapshot := build_snapshot(stream, at, state))
    }
    yield from effects.adopt(events, rows, erase, snapshots, bases, keep_taken)
    for stream, (_, state) in after.items():
        cache.put(stream, state)


def _find_base(stream: StreamId, first: StoredEvent, cache: StateCache) -> Flow[ForkBase | None]:
    """What a fork begins with, if this is its first own event."""
    event = upcast.decode_event(first)
    if first.seq == 1 or not isinstance(event, SessionForked | LedgerForked) or not event.lineage:
        return None
    return (yield from load_fork_base(event.lineage[-1].stream_beside(stream), event.cut, stream, cache))


def _load_touched_facts(stream: StreamId, page: Iterable[StoredEvent]) -> Flow[dict[str, FactState]]:
    """The older facts that these events change."""
    if stream.kind != "ledger":
        return {}
    needed = {each for recorded in page for each in fold.needed_facts(upcast.decode_event(recorded))}
    new = {fact_id(recorded.seq) for recorded in page}
    return (yield from read_facts(stream, sorted(needed - new)))


def _group_by_stream(events: Iterable[StoredEvent]) -> Iterable[tuple[StreamId, list[StoredEvent]]]:
    groups: dict[StreamId, list[StoredEvent]] = {}
    for event in events:
        groups.setdefault(event.stream, []).append(event)
    return groups.items()


def _destroyed_seqs(page: Sequence[StoredEvent], state: StreamState) -> tuple[int, ...]:
    """The events that were erased because their session was destroyed: long-term memory keeps what it took of them."""
    if isinstance(state, LedgerState):
        return ()
    ends = (each.seq for each in page if each.type == SessionDestroyed.name)
    end = 0 if state.status == "destroyed" else next(ends, limits.WHOLE_NUMBER)
    before = {*_erased_seqs(each for each in page if each.seq < end)}
    return tuple(seq for seq in _erased_seqs(each for each in page if each.seq > end) if seq not in before)


def _erased_seqs(page: Iterable[StoredEvent]) -> tuple[int, ...]:
    events = (upcast.decode_event(recorded) for recorded in page if recorded.type == PayloadsErased.name)
    return tuple(seq for event in events if isinstance(event, PayloadsErased) for seq in event.seqs)
