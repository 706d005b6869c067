"""Build a stored pack again: replay the log up to its version into a store in memory, and assemble it there, as it was or
with other options.

Laws: nothing is written to the store of the session, and no model is asked. Without other options, the result has the same
bytes as the stored pack; otherwise an error says what has changed. In the replay, events of different streams keep the
order of the log. What the reader of the session may not know now is not shown of a pack that was built before.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

import holdfast
from holdfast.core import upcast
from holdfast.core.history.guard_trace import GuardPlacement
from holdfast.errors import HoldfastError, PackChanged
from holdfast.flows import effects, maintain
from holdfast.flows.context import LedgerContext, SessionContext, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.facts import queries
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.facts.queries import ledgers_of
from holdfast.flows.load import StateCache
from holdfast.flows.packs import records
from holdfast.flows.packs.recall import PackRecall
from holdfast.flows.packs.request import vary_arguments
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.facts.fact import Fact
from holdfast.model.history.plans import PlanPolicy, PolicyName, check_policy
from holdfast.model.inputs import FactWriter
from holdfast.model.log import StoredEvent
from holdfast.model.names import LedgerId, StreamId
from holdfast.model.packs.pack import Brief, Manifest, PackRecord
from holdfast.model.packs.redactions import FactEnding, PackRedaction
from holdfast.model.sessions.events import PayloadsErased
from holdfast.runtime.driver import StreamLocks, drive
from holdfast.storage.memory import MemoryStore

T = TypeVar("T")
_MAX_NAMED = 5
"""The most erased events that an error names."""


class _FixedClock:
    """A clock that always shows the same time."""

    def __init__(self, at_us: int) -> None:
        self._at_us = at_us

    def now_us(self) -> int:
        return self._at_us


class _LogReader:
    """Reads the events that a pack was built from, of all its streams, in the order of the log."""

    def __init__(self, pack: str, manifest: Manifest) -> None:
        self._pack = pack
        self._versions = dict(_list_streams(manifest))
        self._read = dict.fromkeys(self._versions, 0)
        self._waiting: dict[StreamId, list[tuple[tuple[int, ...], StoredEvent]]] = {
            stream: [] for stream in self._versions
        }
        """Events that were read, with their positions; an event of another stream may come before them."""
        self._page_size = max(1, limits.READ_EVENTS // len(self._versions))

    def next_page(self) -> Flow[list[StoredEvent]]:
        """Return the next events, as far as every stream was read; an empty list at the end."""
        for stream, waiting in self._waiting.items():
            if not waiting:
                self._waiting[stream] = yield from self._read_stream(stream)
        unfinished = [
            waiting[-1][0] for stream, waiting in self._waiting.items() if self._read[stream] < self._versions[stream]
        ]
        last = min(unfinished, default=None)
        ready = []
        for stream, waiting in self._waiting.items():
            first = [entry for entry in waiting if last is None or entry[0] <= last]
            self._waiting[stream] = waiting[len(first) :]
            ready += first
        return [event for _, event in sorted(ready, key=lambda entry: entry[0])]

    def _read_stream(self, stream: StreamId) -> Flow[list[tuple[tuple[int, ...], StoredEvent]]]:
        at, version = self._read[stream], self._versions[stream]
        if at == version:
            return []
        page = yield from effects.read(stream, at, min(self._page_size, version - at))
        if not page:
            raise PackChanged(pack=self._pack, reason=f"{stream} ends at event {at}, before event {version}")
        positions = yield from effects.positions(stream, [event.seq for event in page])
        self._read[stream] = page[-1].seq
        return list(zip(positions, page, strict=True))


class _Replay(NamedTuple):
    """A stored pack, and a copy of its log up to its version."""

    record: PackRecord
    manifest: Manifest
    brief: Brief
    recall: PackRecall
    store: MemoryStore
    locks: StreamLocks
    context: SessionContext
    """The session in the copy, at the time of the pack."""

    def run(self, flow: Flow[T]) -> Flow[T]:
        """Run a flow on the copy."""
        return effects.run_outside(lambda: drive(flow, self.store, self.locks))


def reproduce(context: SessionContext, pack: PackRecord | str) -> Flow[holdfast.Pack]:
    """Build a stored pack again."""
    replay = yield from _replay_log(context, pack)
    return (yield from _rebuild(replay))


def list_redactions(context: SessionContext, pack: PackRecord | str) -> Flow[tuple[PackRedaction, ...]]:
    """What the guard did to the history of a stored pack, as far as the reader of the session may know it now."""
    replay = yield from _replay_log(context, pack)
    rebuilt = yield from _rebuild(replay, is_traced=True)
    placements = rebuilt._assembled.placements
    if not placements:
        return ()
    state = yield from load_session(context)
    writer = writer_for(context.engine, state.identity)
    ledgers, homes = ledgers_of(context.scope, state), ledgers_of(replay.manifest.scope, state)
    endings: dict[str, _FactEnd | None] = {}
    for name in dict.fromkeys(name for each in placements for name in each.facts):
        number, _, fact = name.partition(":")
        ledger = homes[int(number)] if int(number) < len(homes) else None
        known = None
        if ledger is not None:
            known = yield from queries.read_by_id(LedgerContext(context.engine, ledger, writer), fact, absent_ok=True)
        if ledger is None or known is None:  # it was erased, or the reader may not know it: there is no trace of it
            endings[name] = None
            continue
        ended = yield from replay.run(
            queries.read_by_id(LedgerContext(replay.context.engine, ledger, writer), fact, absent_ok=True)
        )
        current = yield from _find_current(context, ledgers, writer, known)
        endings[name] = None if ended is None else _FactEnd(ledger, ended, current)
    return tuple(_describe_placements(placements, endings, replay.manifest.request.as_of_us))


def vary(
    context: SessionContext, pack: PackRecord | str, *, policy: PlanPolicy | PolicyName | None = None, **changes: object
) -> Flow[holdfast.Pack]:
    """Build a stored pack again with other options. Nothing is stored."""
    from holdfast.flows.packs import assembly  # noqa: PLC0415 - slow to load
    from holdfast.runtime.overlay import derive_ephemeral  # noqa: PLC0415 - few programs need it

    compaction = check_policy(policy, context.engine.compaction)
    given = {name: value for name, value in changes.items() if value is not None}
    replay = yield from _replay_log(context, pack)
    arguments = vary_arguments(replay.context, replay.manifest.request, given)
    if policy is None and not given:
        return (yield from _rebuild(replay))
    engine = derive_ephemeral(replay.context.engine)
    engine = msgspec.structs.replace(engine, compaction=compaction, summarizer=None)
    varied = msgspec.structs.replace(replay.context, engine=engine)
    flow = assembly.vary_pack(varied, replay.manifest, replay.brief, replay.recall, arguments)
    try:
        return (yield from replay.run(flow))
    except HoldfastError as error:
        yield from _raise_erasure(replay, error)
        raise


def _replay_log(context: SessionContext, pack: PackRecord | str) -> Flow[_Replay]:
    """Copy the log up to the version of a stored pack into a store in memory."""
    from holdfast.flows.packs.recall import read_stored_recall  # noqa: PLC0415 - slow to load

    record, manifest, brief = yield from records.read_pack(context, pack)
    recall = yield from read_stored_recall(context, record.id, manifest)
    store, locks = MemoryStore(), StreamLocks()
    cache = StateCache(len(manifest.ledgers) + 1)
    reader = _LogReader(record.id, manifest)
    while page := (yield from reader.next_page()):
        yield from effects.run_outside(functools.partial(drive, maintain.adopt(page, cache), store, locks))
    clock = _FixedClock(manifest.request.as_of_us)
    engine = msgspec.structs.replace(context.engine, cache=cache, clock=clock, turn=None)
    replayed = SessionContext(engine, manifest.scope, manifest.frame)
    return _Replay(record, manifest, brief, recall, store, locks, replayed)


def _rebuild(replay: _Replay, *, is_traced: bool = False) -> Flow[holdfast.Pack]:
    """Build the pack of a replay, and check that it has the same bytes."""
    from holdfast.flows.packs import assembly  # noqa: PLC0415 - slow to load

    manifest = replay.manifest
    flow = assembly.reproduce_pack(replay.context, manifest, replay.brief, replay.recall, is_traced=is_traced)
    try:
        rebuilt = yield from replay.run(flow)
    except HoldfastError as error:
        yield from _raise_erasure(replay, error)
        raise
    if rebuilt.manifest.context_hash != manifest.context_hash:
        erasure = yield from _describe_erasure(manifest)
        raise PackChanged(pack=replay.record.id, reason=erasure or _describe_difference(rebuilt.manifest, manifest))
    return rebuilt


def _raise_erasure(replay: _Replay, error: HoldfastError) -> Flow[None]:
    """Raise PackChanged if an erasure explains an error."""
    erasure = yield from _describe_erasure(replay.manifest)
    if erasure:
        raise PackChanged(pack=replay.record.id, reason=erasure) from error


class _FactEnd(NamedTuple):
    """A superseded fact as it was in a pack, and the current value of its key."""

    ledger: LedgerId
    fact: Fact
    current: Json


def _find_current(context: SessionContext, ledgers: Sequence[LedgerId], writer: FactWriter, fact: Fact) -> Flow[Json]:
    """The current value of the key of a fact: in the first ledger of the session that has one."""
    for ledger in ledgers:
        reader = LedgerContext(context.engine, ledger, writer)
        current = yield from queries.get_current(reader, fact.key, scope=fact.scope, scope_id=fact.scope_id)
        if current is not None:
            return current.value
    return None


def _describe_placements(
    placements: Sequence[GuardPlacement], endings: Mapping[str, _FactEnd | None], as_of_us: int
) -> Iterator[PackRedaction]:
    for each in placements:
        for name in each.facts:
            end = endings[name]
            if end is None:
                continue
            fact = end.fact
            ended, ended_by = _describe_ending(fact, as_of_us)
            yield PackRedaction(
                at=each.at,
                part=each.part,
                call=each.call,
                start=each.start,
                end=each.stop,
                value=fact.value,
                mode=each.mode,
                ledger=end.ledger.stream.key,
                fact=fact.id,
                key=fact.key,
                ended_by=ended_by,
                ended=ended,
                current=end.current,
            )


def _describe_ending(fact: Fact, as_of_us: int) -> tuple[FactEnding, str]:
    """How a fact ended, and by which fact or event."""
    if fact.status == "superseded" and fact.superseded_by is not None:
        return "superseded", fact.superseded_by
    if fact.status in ("live", "expired") and fact.has_expired(as_of_us):
        return "expired", ""
    return "superseded" if fact.status == "superseded" else "retracted", str(fact.ended_seq or "")


def _list_streams(manifest: Manifest) -> list[tuple[StreamId, int]]:
    ledgers = ((ledger.stream, version) for ledger, version in manifest.ledgers)
    return [(manifest.scope.stream, manifest.version), *ledgers]


def _describe_erasure(manifest: Manifest) -> Flow[str]:
    """Describe which events of the pack were erased since; empty for none."""
    for stream, version in _list_streams(manifest):
        erased: set[int] = set()
        before: int | None = None
        while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, (PayloadsErased.name,))):
            for stored in page:
                event = upcast.decode_event(stored) if stored.seq > version else None
                erased |= {seq for seq in event.seqs if seq <= version} if isinstance(event, PayloadsErased) else set()
            before = page[-1].seq
            if before <= version:
                break
        if erased:
            seqs = ", ".join(map(str, sorted(erased)[:_MAX_NAMED]))
            more = f" and {len(erased) - _MAX_NAMED:,} more" if len(erased) > _MAX_NAMED else ""
            return f"the content of event {seqs}{more} of {stream} was erased since"
    return ""


def _describe_difference(now: Manifest, then: Manifest) -> str:
    """Describe how this engine differs from the one that built the pack."""
    if now.renderer != then.renderer:
        return f"the renderer {then.renderer} built it, and this Holdfast has {now.renderer}"
    if now.counter != then.counter:
        return f"the token counter {then.counter!r} was used, and this engine has {now.counter!r}"
    if now.policy != then.policy:
        return "this engine has other policies"
    if now.brief != then.brief:
        return "its brief is different"
    return "the log now gives another pack; the result of a custom strategy is not stored"
