"""Load states from the cache, else from the snapshot and the events after it. Here are also the caches of an engine.

Laws: a loaded state equals a replay from the first event. The cost depends on the events since the last snapshot, not on
the length of the history. A state with content that was erased since is dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.facts import fold as facts_fold
from holdfast.core.facts.project import LedgerFold
from holdfast.core.fold import fold_session
from holdfast.core.history.views import Display, PartialPiece
from holdfast.core.project import SessionFold
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.packs.memory import PackMemory
from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.facts.fact import FactState
from holdfast.model.history.views import HistoryItem
from holdfast.model.log import StoredEvent
from holdfast.model.names import LedgerId, Scope, StreamId
from holdfast.model.rows import Row
from holdfast.model.sessions.events import PayloadsErased
from holdfast.model.sessions.messages import Message
from holdfast.model.state import LEDGER_FORMAT, SNAPSHOT_FORMAT, LedgerState, SessionState, StreamState

S = TypeVar("S", SessionState, LedgerState)


class CachedView(NamedTuple):
    """The items of a conversation at a version, as recorded and as shown, before the guard."""

    version: int
    start: int
    recorded: tuple[HistoryItem, ...]
    shown: tuple[HistoryItem, ...]
    """The same items as shown."""
    tokens: int
    blocks: int
    """The number of messages shown."""
    bodied: bool
    """Whether there are images, files or large opaque parts."""
    asked: Message | None
    """The newest user message, in view or folded."""
    partly: dict[int, tuple[PartialPiece, ...]]
    """The pieces that are shown in part, by message."""

    @property
    def weight(self) -> int:
        """The approximate size in memory, in bytes."""
        return 4_096 + 1_536 * self.blocks + 6 * self.tokens


_ViewKey: TypeAlias = tuple[StreamId, str | None, Display]


class ViewCache:
    """The views of the conversations used last, so that the next read loads only newer events."""

    def __init__(self, most: int = limits.VIEWED_BYTES) -> None:
        self._most = most
        self._weight = 0
        self._views: OrderedDict[_ViewKey, CachedView] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, stream: StreamId, frame: str | None, display: Display) -> CachedView | None:
        with self._mutex:
            view = self._views.get((stream, frame, display))
            if view is not None:
                self._views.move_to_end((stream, frame, display))
            return view

    def put(self, stream: StreamId, frame: str | None, display: Display, view: CachedView) -> None:
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
            for key in [key for key in self._views if key[0] == stream]:
                self._forget(key)

    def _forget(self, key: _ViewKey) -> None:
        view = self._views.pop(key, None)
        if view is not None:
            self._weight -= view.weight


class StateCache:
    """The states of the streams used last, limited in number and weight. A cached state is always a true prefix of the log;
    a state in doubt is probably behind it."""

    def __init__(self, size: int, weight: int = limits.CACHED_BYTES) -> None:
        self._size = size
        self._most = weight
        self._weight = 0
        self._states: OrderedDict[StreamId, tuple[StreamState, int]] = OrderedDict()
        """Each with its weight."""
        self._doubtful: set[StreamId] = set()
        self.views = ViewCache()
        self.prepared = PreparedSummaries()
        self.packs = UnansweredPacks()
        self.last_packs = PackMemory()
        self.embedder_pause_us = 0
        """Until when no question waits for the embedder, since it failed."""
        self._mutex = threading.Lock()

    def get(self, stream: StreamId) -> StreamState | None:
        with self._mutex:
            cached = self._states.get(stream)
            if cached is None:
                return None
            self._states.move_to_end(stream)
            return cached[0]

    def put(self, stream: StreamId, state: StreamState) -> None:
        weight = state.weight
        with self._mutex:
            cached = self._states.get(stream)
            if cached is not None and cached[0].version > state.version:
                return  # a slow reader has an older state
            if isinstance(state, LedgerState):
                self.last_packs.drop(stream)
            self._forget(stream)
            self._states[stream] = (state, weight)
            self._weight += weight
            while len(self._states) > 1 and (len(self._states) > self._size or self._weight > self._most):
                self._forget(next(iter(self._states)))

    def drop(self, stream: StreamId) -> None:
        self.views.drop(stream)
        self.last_packs.drop(stream)
        with self._mutex:
            self._forget(stream)

    def _forget(self, stream: StreamId) -> None:
        cached = self._states.pop(stream, None)
        if cached is not None:
            self._weight -= cached[1]
            self._doubtful.discard(stream)

    def doubt(self, moved: Callable[[StreamId], bool] | None) -> None:
        """Note that other processes wrote to these streams, or perhaps to any: check their states before use."""
        with self._mutex:
            self._doubtful |= {stream for stream in self._states if moved is None or moved(stream)}

    def in_doubt(self, stream: StreamId) -> bool:
        return stream in self._doubtful


def load_session_state(stream: StreamId, cache: StateCache, *, fresh: bool) -> Flow[SessionState]:
    """The state of a session; `fresh` also reads newer events of other processes."""
    return _load_state(stream, cache, SessionState, fresh=fresh)


def load_ledger_state(stream: StreamId, cache: StateCache, *, fresh: bool) -> Flow[LedgerState]:
    """The state of a ledger, without its facts."""
    return _load_state(stream, cache, LedgerState, fresh=fresh)


def _load_state(stream: StreamId, cache: StateCache, kind: type[S], *, fresh: bool) -> Flow[S]:
    cached = cache.get(stream)
    state = cached if isinstance(cached, kind) else None
    if state is not None and not fresh and not cache.in_doubt(stream):
        return state
    while True:
        if state is None:
            state = yield from _load_snapshot(stream, kind)
        tail = yield from _fold_tail(stream, state)
        if tail is not None:
            if tail.version:
                cache.put(stream, tail)
            return tail
        cache.drop(stream)
        state = None


def snapshot_format(stream: StreamId) -> int:
    """The current format of snapshots of such a stream."""
    return LEDGER_FORMAT if stream.kind == "ledger" else SNAPSHOT_FORMAT


def empty_state(stream: StreamId) -> StreamState:
    """The state before the first event."""
    return LedgerState() if stream.kind == "ledger" else SessionState()


def _load_snapshot(stream: StreamId, kind: type[S]) -> Flow[S]:
    snapshot = yield from effects.snapshot(stream)
    if snapshot is None or snapshot.format != snapshot_format(stream):
        return kind()
    try:
        state = codec.decode(snapshot.state, kind)
    except (msgspec.MsgspecError, ValueError):
        return kind()  # damaged: the events are complete, and verify reports it
    return state if state.version == snapshot.version else kind()


def _fold_tail(stream: StreamId, base: S) -> Flow[S | None]:
    """The state after all events that follow `base`; None if one of them erased an event of `base`, or one that was read
    here before it was erased."""
    state: S = base
    hidden: set[int] | None = None
    folded: set[int] = set()
    """The events of earlier pages that had their payloads."""
    while True:
        page = yield from effects.read(stream, state.version, limits.READ_EVENTS)
        if hidden is None and page and page[0].stream != stream:  # after the page: its erasures are known then
            hidden = yield from find_hidden_seqs(stream)
        for recorded in page:
            event = None if hidden and recorded.seq in hidden else upcast.decode_event(recorded)
            if recorded.type == PayloadsErased.name and _erases_part_of(event, base, folded):
                return None
            state = _fold_stored(state, event, recorded)
        if len(page) < limits.READ_EVENTS:
            return state
        folded.update(recorded.seq for recorded in page if recorded.payload is not None)
        folded -= hidden or set()


def _fold_stored(state: S, event: Event | None, recorded: StoredEvent) -> S:
    if isinstance(state, LedgerState):
        return facts_fold.step(state, recorded.type, recorded.time_us)  # type: ignore[return-value]
    return fold_session(state, event, recorded.type, recorded.time_us)


def _erases_part_of(erasure: Event | None, base: StreamState, folded: set[int]) -> bool:
    """Whether an erasure concerns events of the state; assumed if the erasure itself was erased."""
    if not isinstance(erasure, PayloadsErased):
        return base.version > 0
    return erasure.seqs[0] <= base.version or not folded.isdisjoint(erasure.seqs)


def replay_stream(
    stream: StreamId, version: int, *, erased: Collection[int] = (), reader: StreamId | None = None
) -> Flow[tuple[StreamState, list[Row], dict[str, FactState]]]:
    """State, rows and facts from the first event to this version, without the payloads of `erased`. The rows are those of
    `reader`, if it is to become a fork of the stream."""
    state = empty_state(stream)
    erased = {*erased, *(yield from find_hidden_seqs(stream))}
    facts: dict[str, FactState] = {}
    rows: dict[tuple[object, ...], Row] = {}
    while state.version < version:
        limit = min(limits.READ_EVENTS, version - state.version)
        page = yield from effects.read(stream, state.version, limit)
        if not page:
            break
        state, new_rows = fold_and_project(reader or stream, state, page, facts, erased)
        for row in new_rows:
            rows[(type(row), *(getattr(row, column) for column in type(row).key))] = row
    return state, list(rows.values()), facts


def find_hidden_seqs(stream: StreamId) -> Flow[set[int]]:
    """The shared events of a fork that were erased for the fork. It was destroyed, or they were erased in the session that
    stores them."""
    hidden: set[int] = set()
    for first in (yield from effects.read_own(stream, 0, 1)):
        if first.seq == 1:
            break
        before: int | None = None
        while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, (PayloadsErased.name,))):
            for recorded in page:
                event = upcast.decode_event(recorded)
                if isinstance(event, PayloadsErased):
                    hidden.update(seq for seq in event.seqs if seq < first.seq)
            before = page[-1].seq
            if before <= first.seq:
                break
    return hidden


def fold_and_project(
    stream: StreamId,
    state: StreamState,
    page: Iterable[StoredEvent],
    facts: dict[str, FactState],
    erased: Collection[int] = (),
) -> tuple[StreamState, list[Row]]:
    """The state after these events, and their rows. `facts` are the facts of a ledger that the events name: they are
    updated. Events of another stream are those that a fork shares."""
    fold = start_fold(stream, state, facts)
    for recorded in page:
        event = None if recorded.seq in erased else upcast.decode_event(recorded)
        fold.add(event, recorded.type, recorded.time_us, shared=recorded.stream != stream)
    return fold.state, fold.build_rows()


def start_fold(stream: StreamId, state: StreamState, facts: dict[str, FactState]) -> SessionFold | LedgerFold:
    """A fold for the events after this state. `facts` are the facts of a ledger that the events name."""
    if isinstance(state, LedgerState):
        return LedgerFold(LedgerId.from_stream(stream), state, facts)
    return SessionFold(Scope.from_stream(stream), state)


class PreparedSummary(msgspec.Struct, frozen=True):
    """A summary of the messages up to event `last`."""

    version: int
    """The version of the session that it was built from."""
    last: int
    digest: str
    """Of the messages, as the summarizer read them."""
    text: str


class PreparedSummaries:
    """Summaries prepared before the boundary that uses them: in memory, one for each of the conversations used last.

    Law: a prepared summary covers exactly the messages it was built from, as they were shown then. If one of them is shown
    differently now, the summary is not used.
    """

    def __init__(self, most: int = limits.PREPARED_SUMMARIES) -> None:
        self._most = most
        self._summaries: OrderedDict[tuple[StreamId, str | None], PreparedSummary] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, stream: StreamId, frame: str | None, since: int) -> PreparedSummary | None:
        """The summary of a conversation whose view changed last at event `since`; an older summary is dropped."""
        with self._mutex:
            summary = self._summaries.get((stream, frame))
            if summary is not None and summary.version < since:
                del self._summaries[stream, frame]
                return None
            return summary

    def put(self, stream: StreamId, frame: str | None, summary: PreparedSummary) -> None:
        with self._mutex:
            self._summaries[stream, frame] = summary
            self._summaries.move_to_end((stream, frame))
            while len(self._summaries) > self._most:
                self._summaries.popitem(last=False)


class UnansweredPacks:
    """The newest pack without a reply of each of the conversations used last."""

    def __init__(self, most: int = limits.UNANSWERED_PACKS) -> None:
        self._most = most
        self._packs: OrderedDict[tuple[StreamId, str | None], Any] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, stream: StreamId, frame: str | None) -> Any | None:
        with self._mutex:
            return self._packs.get((stream, frame))

    def put(self, stream: StreamId, frame: str | None, pack: object) -> None:
        with self._mutex:
            self._packs[stream, frame] = pack
            self._packs.move_to_end((stream, frame))
            while len(self._packs) > self._most:
                self._packs.popitem(last=False)

    def drop(self, stream: StreamId, frame: str | None) -> None:
        """Remove the pack of a conversation that is not what the pack shows any more."""
        with self._mutex:
            self._packs.pop((stream, frame), None)

    def remove(self, stream: StreamId, frame: str | None, pack: object) -> None:
        """Remove a pack that was answered. A newer pack stays."""
        with self._mutex:
            for key in ((stream, frame), (stream, None)):
                if self._packs.get(key) is pack:
                    del self._packs[key]


def digest_items(items: Sequence[HistoryItem]) -> str:
    return codec.digest(tuple(items))
