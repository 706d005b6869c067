"""Build a stored pack again: replay the log up to its version into a store in memory, and assemble it there.

Laws: nothing is written to the store of the session. The result has the same bytes as the stored pack; otherwise an
error says what has changed. In the replay, events of different streams keep the order of the log.
"""

from __future__ import annotations

import functools

import msgspec

import holdfast
from holdfast.core import upcast
from holdfast.errors import HoldfastError, PackChanged
from holdfast.flows import effects, maintain
from holdfast.flows.context import SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.load import StateCache
from holdfast.flows.packs import records
from holdfast.model import limits
from holdfast.model.log import StoredEvent
from holdfast.model.names import StreamId
from holdfast.model.packs.pack import Manifest, PackRecord
from holdfast.model.sessions.events import PayloadsErased
from holdfast.runtime.driver import StreamLocks, drive
from holdfast.storage.memory import MemoryStore

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


def reproduce(context: SessionContext, pack: PackRecord | str) -> Flow[holdfast.Pack]:
    """Build a stored pack again."""
    from holdfast.flows.packs import assembly  # noqa: PLC0415 - slow to load
    from holdfast.flows.packs.recall import read_stored_recall  # noqa: PLC0415 - the same

    record, manifest, brief = yield from records.read_pack(context, pack)
    recall = yield from read_stored_recall(context, record.id, manifest)
    store, locks = MemoryStore(), StreamLocks()
    cache = StateCache(len(manifest.ledgers) + 1)
    reader = _LogReader(record.id, manifest)
    while page := (yield from reader.next_page()):
        yield from effects.run_outside(functools.partial(drive, maintain.adopt(page, cache), store, locks))
    engine = msgspec.structs.replace(context.engine, cache=cache, clock=_FixedClock(manifest.request.as_of_us))
    replayed = SessionContext(engine, manifest.scope, manifest.frame)
    try:
        rebuilt = yield from effects.run_outside(
            lambda: drive(assembly.reproduce_pack(replayed, manifest, brief, recall), store, locks)
        )
    except HoldfastError as error:
        erasure = yield from _describe_erasure(manifest)
        if not erasure:
            raise
        raise PackChanged(pack=record.id, reason=erasure) from error
    if rebuilt.manifest.context_hash != manifest.context_hash:
        erasure = yield from _describe_erasure(manifest)
        raise PackChanged(pack=record.id, reason=erasure or _describe_difference(rebuilt.manifest, manifest))
    return rebuilt


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
