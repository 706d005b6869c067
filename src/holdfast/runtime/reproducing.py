"""A recorded pack, made again: from the log as it was, in a store of its own.

Laws: nothing is written; what comes out shows the same bytes as the pack that was recorded, or it is an error that says
what has changed since. In that store, events of different streams keep the order that they have in the log.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from holdfast.core import upcast
from holdfast.errors import HoldfastError, PackChanged
from holdfast.flows import effects, maintain, manifests
from holdfast.flows.effects import Flow
from holdfast.flows.load import StateCache
from holdfast.flows.place import Place
from holdfast.model import limits
from holdfast.model.events import PayloadsErased
from holdfast.model.log import Recorded
from holdfast.model.names import StreamId
from holdfast.model.pack import Manifest, PackRecord
from holdfast.runtime.drive import Turns, drive
from holdfast.storage.memory import MemoryStore

if TYPE_CHECKING:
    from holdfast.render.packs import Pack

_NAMED = 5
"""How many of the events that were erased are named."""


class _Standing:
    """A clock that stands."""

    def __init__(self, at_us: int) -> None:
        self._at_us = at_us

    def now_us(self) -> int:
        return self._at_us


class _LogReader:
    """Reads the events that a pack was made from: those of all its streams, in the order that they have in the log."""

    def __init__(self, pack: str, manifest: Manifest) -> None:
        self._pack = pack
        self._versions = dict(_streams(manifest))
        self._read = dict.fromkeys(self._versions, 0)
        self._waiting: dict[StreamId, list[tuple[tuple[int, ...], Recorded]]] = {each: [] for each in self._versions}
        """Events with their positions that were read and may have to come after events of another stream."""
        self._page_size = max(1, limits.READ_EVENTS // len(self._versions))

    def next_page(self) -> Flow[list[Recorded]]:
        """The next events, as far as every stream was read; none at the end."""
        for stream, waiting in self._waiting.items():
            if not waiting:
                self._waiting[stream] = yield from self._read_on(stream)
        unfinished = [
            waiting[-1][0] for stream, waiting in self._waiting.items() if self._read[stream] < self._versions[stream]
        ]
        last = min(unfinished, default=None)
        ready = []
        for stream, waiting in self._waiting.items():
            first = [each for each in waiting if last is None or each[0] <= last]
            self._waiting[stream] = waiting[len(first) :]
            ready += first
        return [event for _, event in sorted(ready, key=lambda each: each[0])]

    def _read_on(self, stream: StreamId) -> Flow[list[tuple[tuple[int, ...], Recorded]]]:
        at, version = self._read[stream], self._versions[stream]
        if at == version:
            return []
        page = yield from effects.read(stream, at, min(self._page_size, version - at))
        if not page:
            raise PackChanged(pack=self._pack, reason=f"{stream} ends at event {at}, before event {version}")
        positions = yield from effects.positions(stream, [event.seq for event in page])
        self._read[stream] = page[-1].seq
        return list(zip(positions, page, strict=True))


def reproduce(place: Place, pack: PackRecord | str) -> Flow[Pack]:
    """A recorded pack, made again from the log as it was then: the same bytes, whatever happened since. PackChanged if that
    cannot be: something that it shows was erased, or this engine counts or judges otherwise."""
    from holdfast.flows import packing  # noqa: PLC0415 - a good part of the time of an import

    record, manifest, brief = yield from manifests.read(place, pack)
    store, turns = MemoryStore(), Turns()
    cache = StateCache(len(manifest.ledgers) + 1)
    events = _LogReader(record.id, manifest)
    while page := (yield from events.next_page()):
        yield from effects.outside(functools.partial(drive, maintain.adopt(page, cache), store, turns))
    clock = _Standing(manifest.request.as_of_us)
    there = Place(msgspec.structs.replace(place.context, cache=cache, clock=clock), manifest.scope, manifest.frame)
    try:
        made = yield from effects.outside(lambda: drive(packing.again(there, manifest, brief), store, turns))
    except HoldfastError as error:
        gone = yield from _erased(manifest)
        if not gone:
            raise
        raise PackChanged(pack=record.id, reason=gone) from error
    if made.manifest.context_hash != manifest.context_hash:
        gone = yield from _erased(manifest)
        raise PackChanged(pack=record.id, reason=gone or _otherwise(made.manifest, manifest))
    return made


def _streams(manifest: Manifest) -> list[tuple[StreamId, int]]:
    return [(manifest.scope.stream, manifest.version), *((each.stream, version) for each, version in manifest.ledgers)]


def _erased(manifest: Manifest) -> Flow[str]:
    """What of the log was erased since the pack was made; empty for nothing."""
    for stream, version in _streams(manifest):
        found: set[int] = set()
        before: int | None = None
        while page := (yield from effects.read_back(stream, before, limits.READ_EVENTS, (PayloadsErased.name,))):
            for recorded in page:
                event = upcast.current(recorded) if recorded.seq > version else None
                found |= {seq for seq in event.seqs if seq <= version} if isinstance(event, PayloadsErased) else set()
            before = page[-1].seq
            if before <= version:
                break
        if found:
            named = ", ".join(map(str, sorted(found)[:_NAMED]))
            more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
            return f"of {stream}, the content of event {named}{more} was erased since"
    return ""


def _otherwise(now: Manifest, then: Manifest) -> str:
    """What this engine does otherwise than the one that made the pack."""
    if now.renderer != then.renderer:
        return f"it was laid out by {then.renderer}, and this Holdfast has {now.renderer}"
    if now.counter != then.counter:
        return f"its tokens were counted by {then.counter!r}, and this engine counts by {now.counter!r}"
    if now.policy != then.policy:
        return "this engine has other policies"
    if now.brief != then.brief:
        return "its brief is another one"
    return "the log makes another one now; a strategy of one's own is not kept"
