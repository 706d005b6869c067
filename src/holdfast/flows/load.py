"""From the log to a state: the cache, else the snapshot, then the events behind it.

Laws: what comes out equals a replay from the first event; the price depends on the events since the last snapshot, never on
the length of the history; a state that holds something erased since is thrown away.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from holdfast import codec
from holdfast.core import ledgers, project, upcast
from holdfast.core.display import Display
from holdfast.core.fold import fold, step
from holdfast.core.shown import Shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.prepared import PreparedSummaries
from holdfast.model import limits
from holdfast.model.events import Event, PayloadsErased
from holdfast.model.facts import FactState
from holdfast.model.frames import FrameState
from holdfast.model.log import Recorded
from holdfast.model.messages import Item, Message
from holdfast.model.names import LedgerId, Scope, StreamId
from holdfast.model.rows import Row
from holdfast.model.state import LEDGER_FORMAT, SNAPSHOT_FORMAT, LedgerState, SessionState

State: TypeAlias = SessionState | LedgerState
S = TypeVar("S", SessionState, LedgerState)


class Viewed(NamedTuple):
    """What a conversation held at a version, and how it was shown then but for what a guard keeps out."""

    version: int
    start: int
    recorded: tuple[Item, ...]
    shown: tuple[Item, ...]
    """The same items."""
    tokens: int
    blocks: int
    """Of what is shown."""
    bodied: bool
    """There are images, files or large parts of a provider's own among it."""
    asked: Message | None
    """The newest message of the user, in view or folded."""
    partly: dict[int, tuple[Shown, ...]]
    """Which pieces are shown in part, by message."""

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory."""
        return 4_096 + 1_536 * self.blocks + 6 * self.tokens


_ViewKey: TypeAlias = tuple[StreamId, str | None, Display]


class ViewCache:
    """What was read of the conversations used last, so that the next look reads only what came since."""

    def __init__(self, most: int = limits.VIEWED_BYTES) -> None:
        self._most = most
        self._weight = 0
        self._views: OrderedDict[_ViewKey, Viewed] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, stream: StreamId, frame: str | None, display: Display) -> Viewed | None:
        with self._mutex:
            found = self._views.get((stream, frame, display))
            if found is not None:
                self._views.move_to_end((stream, frame, display))
            return found

    def put(self, stream: StreamId, frame: str | None, display: Display, view: Viewed) -> None:
        with self._mutex:
            self._forget((stream, frame, display))
            if view.weight > self._most:
                return
            self._views[stream, frame, display] = view
            self._weight += view.weight
            while self._weight > self._most:
                self._forget(next(iter(self._views)))

    def drop(self, stream: StreamId) -> None:
        with self._mutex:
            for each in [each for each in self._views if each[0] == stream]:
                self._forget(each)

    def _forget(self, name: _ViewKey) -> None:
        found = self._views.pop(name, None)
        if found is not None:
            self._weight -= found.weight


class StateCache:
    """The states of the streams used last, so many, and of so much weight. What it holds is always a true prefix of the
    log; one in doubt is known to be behind, most likely."""

    def __init__(self, size: int, weight: int = limits.CACHED_BYTES) -> None:
        self._size = size
        self._most = weight
        self._weight = 0
        self._states: OrderedDict[StreamId, State] = OrderedDict()
        self._doubtful: set[StreamId] = set()
        self.views = ViewCache()
        self.prepared = PreparedSummaries()
        self._mutex = threading.Lock()

    def get(self, stream: StreamId) -> State | None:
        with self._mutex:
            state = self._states.get(stream)
            if state is not None:
                self._states.move_to_end(stream)
            return state

    def put(self, stream: StreamId, state: State) -> None:
        with self._mutex:
            known = self._states.get(stream)
            if known is not None and known.version > state.version:
                return  # a slow reader comes with old news
            self._forget(stream)
            self._states[stream] = state
            self._weight += state.weight
            while len(self._states) > 1 and (len(self._states) > self._size or self._weight > self._most):
                self._forget(next(iter(self._states)))

    def drop(self, stream: StreamId) -> None:
        self.views.drop(stream)
        with self._mutex:
            self._forget(stream)

    def _forget(self, stream: StreamId) -> None:
        state = self._states.pop(stream, None)
        if state is not None:
            self._weight -= state.weight
            self._doubtful.discard(stream)

    def doubt(self, moved: Callable[[StreamId], bool] | None) -> None:
        """Others wrote to these streams, or perhaps to any: look before relying on their states."""
        with self._mutex:
            self._doubtful |= {stream for stream in self._states if moved is None or moved(stream)}

    def in_doubt(self, stream: StreamId) -> bool:
        return stream in self._doubtful


def load(stream: StreamId, cache: StateCache, *, fresh: bool) -> Flow[SessionState]:
    """A session's state; `fresh` also reads what other processes wrote since."""
    return _load(stream, cache, SessionState, fresh=fresh)


def load_ledger(stream: StreamId, cache: StateCache, *, fresh: bool) -> Flow[LedgerState]:
    """A ledger's state, which its facts are no part of."""
    return _load(stream, cache, LedgerState, fresh=fresh)


def _load(stream: StreamId, cache: StateCache, kind: type[S], *, fresh: bool) -> Flow[S]:
    found = cache.get(stream)
    state = found if isinstance(found, kind) else None
    if state is not None and not fresh and not cache.in_doubt(stream):
        return state
    while True:
        if state is None:
            state = yield from _from_snapshot(stream, kind)
        tail = yield from _fold_tail(stream, state)
        if tail is not None:
            if tail.version:
                cache.put(stream, tail)
            return tail
        cache.drop(stream)
        state = None


def format_of(stream: StreamId) -> int:
    """How snapshots of such a stream are written today."""
    return LEDGER_FORMAT if stream.kind == "ledger" else SNAPSHOT_FORMAT


def nothing_of(stream: StreamId) -> State:
    """What there is before the first event."""
    return LedgerState() if stream.kind == "ledger" else SessionState()


def _from_snapshot(stream: StreamId, kind: type[S]) -> Flow[S]:
    snapshot = yield from effects.snapshot(stream)
    if snapshot is None or snapshot.format != format_of(stream):
        return kind()
    try:
        state = codec.decode(snapshot.state, kind)
    except (msgspec.MsgspecError, ValueError):
        return kind()  # damaged: the events say the same, and verify tells
    return state if state.version == snapshot.version else kind()


def _fold_tail(stream: StreamId, base: S) -> Flow[S | None]:
    """The state after all events behind `base`; None if one of them erased something that `base` was made of."""
    state: S = base
    while True:
        page = yield from effects.read(stream, state.version, limits.READ_EVENTS)
        for recorded in page:
            event = upcast.current(recorded)
            if recorded.type == PayloadsErased.name and _touches(event, base):
                return None
            state = _further(state, event, recorded)
        if len(page) < limits.READ_EVENTS:
            return state


def _further(state: S, event: Event | None, recorded: Recorded) -> S:
    if isinstance(state, LedgerState):
        return ledgers.step(state, recorded.type, recorded.time_us)  # type: ignore[return-value]
    return fold(state, event, recorded.type, recorded.time_us)


def _touches(erasure: Event | None, base: State) -> bool:
    """Whether the state was made of something that this took away; if it was itself erased, nobody can tell."""
    if not isinstance(erasure, PayloadsErased):
        return base.version > 0
    return erasure.seqs[0] <= base.version


def replay(
    stream: StreamId, version: int, *, erased: Collection[int] = ()
) -> Flow[tuple[State, list[Row], dict[str, FactState]]]:
    """State, rows and facts from the first event to this version, as if the payloads of `erased` were gone already."""
    state = nothing_of(stream)
    facts: dict[str, FactState] = {}
    rows: dict[tuple[object, ...], Row] = {}
    while state.version < version:
        limit = min(limits.READ_EVENTS, version - state.version)
        page = yield from effects.read(stream, state.version, limit)
        if not page:
            break
        state, made = fold_and_project(stream, state, page, facts, erased)
        for row in made:
            rows[(type(row), *(getattr(row, column) for column in type(row).key))] = row
    return state, list(rows.values()), facts


def fold_and_project(
    stream: StreamId,
    state: State,
    page: Iterable[Recorded],
    facts: dict[str, FactState],
    erased: Collection[int] = (),
) -> tuple[State, list[Row]]:
    """The state after these events, and the rows that they make. `facts` are those of a ledger that the events name: they
    are kept up to date."""
    events = (
        (None if recorded.seq in erased else upcast.current(recorded), recorded.type, recorded.time_us)
        for recorded in page
    )
    if isinstance(state, LedgerState):
        return ledger_stepped(LedgerId.of(stream), state, events, facts)
    return stepped(Scope.of(stream), state, events)


def stepped(
    scope: Scope, state: SessionState, events: Iterable[tuple[Event | None, str, int]]
) -> tuple[SessionState, list[Row]]:
    """The state after these events, and the rows that they make: those of frames and of the session once, at the end."""
    rows: list[Row] = []
    changed: dict[str, FrameState] = {}
    for event, event_type, time_us in events:
        before = state
        state, frames = step(before, event, event_type, time_us)
        rows += project.rows_of(scope, before, event, event_type, time_us, frames)
        changed |= frames
    rows += (project.frame_row(scope, frame) for frame in changed.values())
    session = project.session_row(scope, state)
    return state, rows if session is None else [*rows, session]


def ledger_stepped(
    ledger: LedgerId,
    state: LedgerState,
    events: Iterable[tuple[Event | None, str, int]],
    facts: dict[str, FactState],
) -> tuple[LedgerState, list[Row]]:
    """The same for a ledger: the rows of each fact once, at the end."""
    before: dict[str, FactState | None] = {}
    rows: list[Row] = []
    for event, event_type, time_us in events:
        changed = ledgers.applied(facts, event, state.version + 1, time_us)
        rows += ledgers.depend_rows(ledger, changed, facts)
        for each in changed:
            before.setdefault(each, facts.get(each))
        facts |= changed
        state = ledgers.step(state, event_type, time_us)
    known = {each: one for each, one in before.items() if one is not None}
    rows += ledgers.fact_rows(ledger, {each: facts[each] for each in before}, known)
    return state, [*rows, ledgers.ledger_row(ledger, state)] if state.version else rows
