"""Looking after the log: verify, rebuild, import. All of it in pages, whatever the size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from holdfast import chain, codec
from holdfast.core import fact_rules, invariants, ledgers, upcast
from holdfast.errors import DataError, HoldfastError, VersionConflict
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import snapshot_of
from holdfast.flows.inform_facts import facts_by_id
from holdfast.flows.load import State, StateCache, fold_and_project, format_of, load, load_ledger, nothing_of, replay
from holdfast.model import limits
from holdfast.model.events import PayloadsErased
from holdfast.model.facts import FactState, fact_id
from holdfast.model.log import GENESIS, Head, Recorded, Snapshot
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import PROJECTION_VERSION, TABLES, Row
from holdfast.model.state import SessionState

Count: TypeAlias = Callable[[int], None]
"""Told now and then how many events are done."""


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong, and where."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class Report(msgspec.Struct, frozen=True):
    streams: int
    events: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(count: Count | None = None) -> Flow[Report]:
    """Read everything and compare: chains, heads, snapshots, and rows against what the log says they are."""
    problems = [Problem("the store", what) for what in (yield from effects.check())]
    streams = events = 0
    expected_rows = dict.fromkeys(TABLES, 0)
    after: StreamId | None = None
    while True:
        try:
            page = yield from effects.heads(after, limits.READ_EVENTS)
        except DataError as error:  # a stream without a readable name cannot be asked for: the report ends here
            return Report(streams, events, (*problems, Problem("the store", str(error))))
        for head in page:
            streams += 1
            try:
                found, rows = yield from _verify_stream(head, problems, count, events)
            except DataError as error:
                problems.append(Problem(str(head.stream), str(error)))
                continue
            events += found
            for row in rows:
                expected_rows[type(row)] += 1
        if len(page) < limits.READ_EVENTS:
            break
        after = page[-1].stream
    for table, expected in expected_rows.items():
        actual = yield from _count(table)
        if actual != expected:
            problems.append(Problem(table.table, f"it has {actual} rows, the log makes {expected}"))
    return Report(streams, events, tuple(problems))


def _verify_stream(
    head: Head, problems: list[Problem], count: Count | None, before: int
) -> Flow[tuple[int, list[Row]]]:
    stream = head.stream
    at = Head(stream, 0, GENESIS)
    snapshot = yield from effects.snapshot(stream)
    state: State | None = nothing_of(stream)
    facts: dict[str, FactState] = {}
    rows: dict[tuple[object, ...], Row] = {}
    gone: set[int] = set()
    named: set[int] = set()
    events = 0
    while True:
        page = yield from effects.read(stream, at.version, limits.READ_EVENTS)
        for recorded in page:
            if wrong := chain.fault(at, recorded):
                problems.append(Problem(f"event {recorded.seq} of {stream}", wrong))
            at = Head(stream, recorded.seq, recorded.hash)
            events += 1
            gone |= {recorded.seq} if recorded.payload is None else set()
            named |= _erased_by(recorded)
            state = _verify_fold(recorded, state, facts, rows, problems)
            if state is not None and snapshot is not None and state.version == snapshot.version:
                problems.extend(_verify_snapshot(stream, snapshot, state))
        if count is not None:
            count(before + events)
        if len(page) < limits.READ_EVENTS:
            break
    problems += _verify_end(head, at, snapshot)
    problems += _verify_erasures(stream, gone, named)
    if state is not None:
        broken = invariants.check(state) if isinstance(state, SessionState) else fact_rules.check(state, facts)
        problems += (Problem(str(stream), f"broken rule: {rule}") for rule in broken)
        yield from _verify_rows(stream, list(rows.values()), problems)
    return events, list(rows.values())


def _verify_end(head: Head, at: Head, snapshot: Snapshot | None) -> Iterator[Problem]:
    where = str(head.stream)
    if at.version != head.version:
        yield Problem(where, f"it ends at event {at.version}, but {head.version} were written")
    elif at.hash != head.hash:
        yield Problem(where, "its last event is not the one that its head names")
    if snapshot is not None and not 1 <= snapshot.version <= at.version:
        yield Problem(where, f"its snapshot is of version {snapshot.version}, which it never had")
    if snapshot is not None and not 1 <= snapshot.format <= format_of(head.stream):
        yield Problem(where, f"its snapshot has format {snapshot.format}, which nobody wrote")


def _verify_erasures(stream: StreamId, gone: set[int], named: set[int]) -> Iterator[Problem]:
    for seq in sorted(gone - named):
        yield Problem(f"event {seq} of {stream}", "its payload is gone, and no erasure says so")
    for seq in sorted(named - gone):
        yield Problem(f"event {seq} of {stream}", "its payload was erased, and is there")


def _erased_by(recorded: Recorded) -> frozenset[int]:
    """What an event took away; an event that cannot be read is reported by the fold."""
    if recorded.type != PayloadsErased.name:
        return frozenset()
    try:
        event = upcast.current(recorded)
    except HoldfastError:
        return frozenset()
    return frozenset(event.seqs) if isinstance(event, PayloadsErased) else frozenset()


def _verify_fold(
    recorded: Recorded,
    state: State | None,
    facts: dict[str, FactState],
    rows: dict[tuple[object, ...], Row],
    problems: list[Problem],
) -> State | None:
    """One event further, its rows added; None from the first event on that cannot be read."""
    if state is None:
        return None
    try:
        state, made = fold_and_project(recorded.stream, state, [recorded], facts)
    except HoldfastError as error:
        problems.append(Problem(f"event {recorded.seq} of {recorded.stream}", str(error)))
        return None
    for row in made:
        rows[_identity(row)] = row
    return state


def _verify_snapshot(stream: StreamId, snapshot: Snapshot, state: State) -> Iterator[Problem]:
    if snapshot.format == format_of(stream) and snapshot.state != codec.encode(state):
        yield Problem(str(stream), f"its snapshot of version {snapshot.version} is not what its events make")


def _verify_rows(stream: StreamId, expected: list[Row], problems: list[Problem]) -> Flow[None]:
    for table in TABLES:
        if ("ledger" in table.key) != (stream.kind == "ledger"):
            continue
        stored = yield from _stream_rows(table, stream)
        wanted = {_identity(row): row for row in expected if isinstance(row, table)}
        for row in stored:
            if wanted.pop(_identity(row), None) != row:
                problems.append(Problem(f"{table.table} of {stream}", f"the row {_identity(row)[1:]} is wrong"))
        for row in wanted.values():
            problems.append(Problem(f"{table.table} of {stream}", f"the row {_identity(row)[1:]} is missing"))


def _identity(row: Row) -> tuple[object, ...]:
    return (type(row).table, *(getattr(row, column) for column in type(row).key))


def _stream_rows(table: type[Row], stream: StreamId) -> Flow[list[Row]]:
    where: dict[str, str | int] = {"tenant": stream.tenant, "ledger": codec.encode_stream_key(stream)}
    if stream.kind != "ledger":
        where = {**Scope.of(stream).columns}
    return (yield from _all_rows(table, where))


def _all_rows(table: type[Row], where: dict[str, str | int]) -> Flow[list[Row]]:
    found: list[Row] = []
    while True:
        page = yield from effects.rows(table, where, found[-1] if found else None, limits.READ_EVENTS)
        found += page
        if len(page) < limits.READ_EVENTS:
            return found


def _count(table: type[Row]) -> Flow[int]:
    count = 0
    last: Row | None = None
    while True:
        page = yield from effects.rows(table, {}, last, limits.READ_EVENTS)
        count += len(page)
        if len(page) < limits.READ_EVENTS:
            return count
        last = page[-1]


def rebuild(count: Count | None = None) -> Flow[int]:
    """Drop every row and make it anew from the log, stream by stream, while others write; how many streams."""
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


def _rebuild_stream(head: Head) -> Flow[None]:
    """First as it is found; if others wrote meanwhile, again while nobody of this process does."""
    try:
        yield from _replace_rows(head.stream, head.version, 1)
    except VersionConflict as conflict:
        again = _replace_rows(head.stream, conflict.actual, limits.REBUILD_TRIES)
        yield from effects.exclusive([head.stream], again)


def _replace_rows(stream: StreamId, version: int, tries: int) -> Flow[None]:
    for tries_left in reversed(range(tries)):
        _, rows, _ = yield from replay(stream, version)
        try:
            yield from effects.replace_rows(stream, version, rows)
            return
        except VersionConflict as conflict:
            if not tries_left:
                raise
            version = conflict.actual


def rebuild_if_old() -> Flow[None]:
    """A store whose rows were made by older code gets them anew; called at every open. Rows made by newer code are left: it
    may be at work beside us."""
    if (yield from effects.projection_version()) < PROJECTION_VERSION:
        yield from rebuild()


def adopt(events: Sequence[Recorded], cache: StateCache) -> Flow[None]:
    """Take in events recorded elsewhere, with the rows they make."""
    rows: dict[StreamId, list[Row]] = {}
    erase: dict[StreamId, tuple[int, ...]] = {}
    after: dict[StreamId, tuple[int, State]] = {}
    for stream, page in _by_stream(events):
        state: State
        if stream.kind == "ledger":
            state = yield from load_ledger(stream, cache, fresh=True)
        else:
            state = yield from load(stream, cache, fresh=True)
        gone = _erased_in(page)
        if gone:
            state, rows[stream], facts = yield from replay(stream, state.version, erased=frozenset(gone))
            erase[stream] = gone
        else:
            facts = yield from _named_in(stream, page)
        before = 0 if gone else state.version
        state, made = fold_and_project(stream, state, page, facts, frozenset(gone))
        after[stream] = (before, state)
        rows.setdefault(stream, []).extend(made)
    snapshots = {
        stream: snapshot for stream, (at, state) in after.items() if (snapshot := snapshot_of(stream, at, state))
    }
    yield from effects.adopt(events, rows, erase, snapshots)
    for stream, (_, state) in after.items():
        cache.put(stream, state)


def _named_in(stream: StreamId, page: Iterable[Recorded]) -> Flow[dict[str, FactState]]:
    """The facts that these events change and that were there before them."""
    if stream.kind != "ledger":
        return {}
    named = {each for recorded in page for each in ledgers.touched(upcast.current(recorded))}
    own = {fact_id(recorded.seq) for recorded in page}
    return (yield from facts_by_id(stream, sorted(named - own)))


def _by_stream(events: Iterable[Recorded]) -> Iterable[tuple[StreamId, list[Recorded]]]:
    groups: dict[StreamId, list[Recorded]] = {}
    for event in events:
        groups.setdefault(event.stream, []).append(event)
    return groups.items()


def _erased_in(page: Iterable[Recorded]) -> tuple[int, ...]:
    events = (upcast.current(recorded) for recorded in page if recorded.type == PayloadsErased.name)
    return tuple(seq for event in events if isinstance(event, PayloadsErased) for seq in event.seqs)
