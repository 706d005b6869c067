"""Copy a store into another store of any kind, while both are in use: `holdfast.copy()`.

Laws: events are copied unchanged, in the order of the source's feed, and each is checked against its hash chain. The
events of one command are copied together. A body is copied before the event that refers to it. What the target has
is compared and not written again, so an interrupted copy continues when it is repeated. A stream with a different
history in the target is refused before anything is written. At the end, every stream is compared once more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TypeAlias

import msgspec

from holdfast.core import upcast
from holdfast.errors import BlobNotFound, Conflict, Diverged, FileAbsent, HoldfastError, InvalidUrl, StorageCorrupt
from holdfast.flows import maintain
from holdfast.flows.load import StateCache, empty_state
from holdfast.flows.maintain import CountCallback
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.events import event_blob_refs
from holdfast.model.log import GENESIS, StoredEvent, StreamHead
from holdfast.model.names import StreamId
from holdfast.model.rows import BlobRow
from holdfast.ports import EventStore
from holdfast.runtime.admin import Progress
from holdfast.runtime.bodies import put_blob
from holdfast.runtime.engine import Engine
from holdfast.runtime.factory import open
from holdfast.runtime.maintenance import check_path
from holdfast.runtime.store_features import find_index
from holdfast.runtime.taken_passages import copy_taken
from holdfast.storage.addresses import POSTGRES_SCHEMES, mask_address
from holdfast.storage.common import stream_key

_PAGE = 500
_FEED_PAUSES_S = (0.0, 0.01, 0.1, 1.0)
"""How long to wait for events that are stored but not in the feed yet."""

StoreAddress: TypeAlias = str | os.PathLike[str]


class CopyReport(msgspec.Struct, frozen=True):
    """The result of a copy."""

    events: int
    """The events that were copied."""
    already_there: int
    """The events that the target had before."""
    streams: int
    """The streams of the source. All of them are in the target now."""
    bodies: int
    """The bodies that were copied."""
    body_bytes: int


def copy(
    source: Engine | StoreAddress, target: Engine | StoreAddress, *, progress: Progress | None = None
) -> CopyReport:
    """Copy all tenants of a store into another store: `holdfast.copy("agent.db", "postgresql://…")`.

    `source` and `target` are addresses or open engines, of any kind. Everything that the source had at the start is
    in the target at the end; others may write to the source meanwhile. Repeat the copy after an interruption, or to
    add new events. `progress` is called with the number of events done and the total."""
    with ExitStack() as stack:
        source_engine = _open_engine(source, stack, create=False)
        target_engine = _open_engine(target, stack, create=True)
        store = target_engine.store
        if _is_same_store(source_engine.store, store):
            name = getattr(store, "path", None) or mask_address(getattr(store, "url", "memory:"))
            raise InvalidUrl(url=name, reason="the source and the target are the same store")
        return _StoreCopier(source_engine, target_engine).run(progress)


def _open_engine(store: Engine | StoreAddress, stack: ExitStack, *, create: bool) -> Engine:
    if isinstance(store, Engine):
        return store
    address = check_path(store)
    if address in ("memory:", ":memory:"):
        raise InvalidUrl(url=address, reason="a store in memory ends with the copy: pass an open engine")
    if not create:
        _check_exists(address)
    return stack.enter_context(open(address))


def _check_exists(address: str) -> None:
    """Refuse a store that does not exist: opening it would create it."""
    if not address.startswith(POSTGRES_SCHEMES):
        path = address.removeprefix("sqlite:///")
        if "://" not in path and not os.path.exists(path):
            raise FileAbsent(path=address)
        return
    try:
        from holdfast.storage.postgres.migrate import has_store  # noqa: PLC0415 - an extra
    except ImportError:
        return  # open() reports the missing package
    if not has_store(address):
        raise FileAbsent(path=mask_address(address))


def _is_same_store(one: EventStore, other: EventStore) -> bool:
    """Whether these are known to be one store. A store under two addresses is not detected: nothing is missing then."""
    path, other_path = getattr(one, "path", None), getattr(other, "path", None)
    if path is not None and other_path is not None:
        return os.path.samefile(path, other_path)
    url = getattr(one, "url", None)
    return one is other or (url is not None and url == getattr(other, "url", None))


class _StoreCopier:
    def __init__(self, source: Engine, target: Engine) -> None:
        self._source = source
        self._target = target
        self._cache = StateCache(limits.CACHED_STREAMS)
        self._copied_digests: set[tuple[str, str]] = set()
        self._target_heads: dict[StreamId, StreamHead] = {}
        """The heads of streams in the target, as they were last seen."""
        self._is_target_new = False
        """Whether the target had no stream of the source."""
        self._cursor = ""
        self._count: CountCallback | None = None
        self._done = 0
        self._events = self._bodies = self._body_bytes = 0

    def run(self, progress: Progress | None) -> CopyReport:
        self._count = self._source.admin._count_events(progress)
        streams = missing = already_there = 0
        for streams, (here, there) in enumerate(self._pair_heads(), 1):  # noqa: B007 - counted
            behind = self._count_missing(here, there)
            missing += behind
            already_there += here.version - behind
        self._is_target_new = not already_there
        if missing:
            self._copy_feed()
            streams = self._check_streams()
        self._copy_passages()
        return CopyReport(self._events, already_there, streams, self._bodies, self._body_bytes)

    def _copy_passages(self) -> None:
        """Copy what long-term memory has taken. Of a destroyed session, no event has these words any more."""
        source, target = find_index(self._source.store), find_index(self._target.store)
        if source is not None and target is not None:
            copy_taken(self._target._drive, source, target, (head.stream for head in _read_heads(self._source.store)))

    # Streams

    def _pair_heads(self) -> Iterator[tuple[StreamHead, StreamHead | None]]:
        """Yield the head of every stream of the source, with its head in the target. Both stores list them in one
        order."""
        targets = _read_heads(self._target.store)
        target = next(targets, None)
        for head in _read_heads(self._source.store):
            while target is not None and stream_key(target.stream) < stream_key(head.stream):
                target = next(targets, None)
            yield head, target if target is not None and target.stream == head.stream else None

    def _count_missing(self, here: StreamHead, there: StreamHead | None) -> int:
        """Count the events of a stream that the target lacks. The common part must be the same."""
        if there is None:
            return here.version
        shared = min(here.version, there.version)
        if _read_hash(self._source.store, here, shared) != _read_hash(self._target.store, there, shared):
            raise _divergence_error(here.stream, here.version, there.version)
        return here.version - shared

    def _check_streams(self) -> int:
        """Compare every stream once more, since the feed may have left something out. Returns the number of streams."""
        streams = 0
        behind: list[StreamHead] = []
        for streams, (here, there) in enumerate(self._pair_heads(), 1):  # noqa: B007 - counted
            if self._count_missing(here, there):
                behind.append(here)
            if len(behind) == limits.CACHED_STREAMS:
                self._catch_up(behind)
                behind = []
        self._catch_up(behind)
        return streams

    def _catch_up(self, heads: Sequence[StreamHead]) -> None:
        """Copy these streams up to these heads.

        A long transaction can hold back the feed. Wait a moment for it, since it has the order; then read each
        stream."""
        for pause_s in _FEED_PAUSES_S:
            if not heads:
                return
            time.sleep(pause_s)
            self._copy_feed()
            heads = [head for head in heads if self._count_missing(head, self._target.store.head(head.stream))]
        for head in heads:
            self._copy_stream(head)

    def _copy_stream(self, here: StreamHead) -> None:
        there = self._target.store.head(here.stream)
        after = there.version if there is not None else 0
        while page := self._source.store.read(here.stream, after=after, limit=_PAGE):
            self._copy_events(page)
            after = page[-1].seq
            if len(page) < _PAGE:
                break
        if self._count_missing(here, self._target.store.head(here.stream)):
            reason = f"the log ends at event {after}, but {here.version} were written"
            raise StorageCorrupt(what=f"{here.stream} of the source", reason=reason)

    # Events

    def _copy_feed(self) -> None:
        """Copy the feed up to its end."""
        for page in self._read_pages():
            self._copy_events(page)
            self._done += len(page)
            if self._count is not None:
                self._count(self._done)

    def _read_pages(self) -> Iterator[list[StoredEvent]]:
        """Yield the rest of the feed in pages that end between commands."""
        incomplete: list[StoredEvent] = []
        while True:
            page = self._source.store.feed(self._cursor, limit=_PAGE)
            self._cursor = page.cursor
            events = [*incomplete, *page.events]
            caught_up = len(page.events) < _PAGE
            end = len(events) if caught_up else _find_command_end(events)
            if end:
                yield events[:end]
            if caught_up:
                return
            incomplete = events[end:]

    def _copy_events(self, page: Sequence[StoredEvent]) -> None:
        """Copy the events that the target lacks. If another writer adds some of them, look again what is missing."""
        missing = self._find_missing(page)
        while missing:
            try:
                self._target._drive(maintain.adopt([self._copy_bodies(event) for event in missing], self._cache))
            except Conflict:
                self._is_target_new = False
                self._target_heads.clear()
                remaining = self._find_missing(page)
                if len(remaining) == len(missing):
                    raise
                missing = remaining
            else:
                self._target_heads.update(
                    (event.stream, StreamHead(event.stream, event.seq, event.hash)) for event in missing
                )
                self._events += len(missing)
                break
        self._copied_digests.clear()

    def _find_missing(self, page: Sequence[StoredEvent]) -> list[StoredEvent]:
        missing: list[StoredEvent] = []
        for event in page:
            end = self._target_heads.get(event.stream) or self._find_target_head(event)
            if event.seq == end.version and event.hash != end.hash:
                raise _divergence_error(event.stream, event.seq, end.version)
            if event.seq > end.version:
                missing.append(event)
        return missing

    def _find_target_head(self, event: StoredEvent) -> StreamHead:
        """Return the head of a stream in the target. It is read once: the store refuses events that do not continue
        it."""
        stream = event.stream
        head = None if self._is_target_new and event.seq == 1 else self._target.store.head(stream)
        end = head or StreamHead(stream, 0, GENESIS)
        state = self._cache.get(stream)
        if head is None:
            self._cache.put(stream, empty_state(stream))
        elif state is not None and state.version != end.version:
            self._cache.drop(stream)
        if len(self._target_heads) >= limits.CACHED_STREAMS:
            self._target_heads.clear()
        self._target_heads[stream] = end
        return end

    # Bodies

    def _copy_bodies(self, event: StoredEvent) -> StoredEvent:
        """Copy the bodies of an event, and return the event. If it was erased meanwhile, return the erased event."""
        try:
            for ref in event_blob_refs(upcast.decode_event(event)):
                self._copy_body(event.stream.tenant, ref)
        except BlobNotFound:
            for current in self._source.store.read(event.stream, after=event.seq - 1, limit=1):
                if current.payload is None:
                    return current
            raise
        return event

    def _copy_body(self, tenant: str, ref: BlobRef) -> None:
        if (tenant, ref.digest) in self._copied_digests or self._is_stored(tenant, ref):
            return
        put_blob(self._target._blob_store, tenant, self._source._blob_store.chunks(tenant, ref), None)
        self._copied_digests.add((tenant, ref.digest))
        self._bodies += 1
        self._body_bytes += ref.size

    def _is_stored(self, tenant: str, ref: BlobRef) -> bool:
        """Whether the target has a body, and an event that refers to it. Otherwise the body may be collected at any
        moment, and must be put again."""
        if not self._target.store.rows(BlobRow, {"tenant": tenant, "digest": ref.digest}, limit=1):
            return False
        try:
            self._target._blob_store.chunks(tenant, ref)
        except BlobNotFound:
            return False
        return True


def _read_heads(store: EventStore) -> Iterator[StreamHead]:
    after: StreamId | None = None
    while page := store.heads(after=after, limit=limits.READ_EVENTS):
        yield from page
        after = page[-1].stream


def _read_hash(store: EventStore, head: StreamHead, version: int) -> bytes | None:
    """Return the hash of the event with this version, of the stream with this head."""
    if head.version == version:
        return head.hash
    return next((event.hash for event in store.read(head.stream, after=version - 1, limit=1)), None)


def _find_command_end(events: Sequence[StoredEvent]) -> int:
    """Return where the last command begins, since more of its events may follow; the end if it is complete."""
    end = len(events)
    while end and events[end - 1].command == events[-1].command:
        end -= 1
    return end if len(events) - end < limits.COMMAND_EVENTS else len(events)


def _divergence_error(stream: StreamId, here: int, there: int) -> HoldfastError:
    return Diverged(stream=stream, here=here, there=there)
