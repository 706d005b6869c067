"""Moving house: everything of one store into another, of whatever kind, while both are in use.

Laws: events arrive as they are, each checked against its chain, in the order of the source's feed, those of one command
together; a body is there before the event that names it; what the target has is compared and not written again, so a copy
that was cut off at any point goes on when it is repeated; a stream that has another history there is refused before
anything is written; at the end every stream is seen to be there as far as it was here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TypeAlias

import msgspec

from holdfast.core import upcast
from holdfast.errors import BlobNotFound, FileAbsent, HoldfastError, InvalidUrl, VersionConflict
from holdfast.flows import maintain
from holdfast.flows.load import StateCache
from holdfast.model import limits
from holdfast.model.content import BlobRef, blob_refs
from holdfast.model.events import parts_of
from holdfast.model.log import GENESIS, Head, Recorded
from holdfast.model.names import StreamId
from holdfast.model.rows import BlobRow
from holdfast.ports import EventStore
from holdfast.runtime.care import checked_path, put_blob
from holdfast.runtime.engine import Engine, Progress
from holdfast.runtime.opening import open
from holdfast.storage.common import stream_key

_PAGE = 500

Address: TypeAlias = str | os.PathLike[str]


class Copied(msgspec.Struct, frozen=True):
    """What a copy came to."""

    events: int
    """Taken over."""
    already_there: int
    """Events that the target had when it began."""
    streams: int
    """All of the source's; each is in the target now, as far as it was in the source."""
    bodies: int
    """Taken over."""
    body_bytes: int


def copy(source: Engine | Address, target: Engine | Address, *, progress: Progress | None = None) -> Copied:
    """Everything of all tenants from one store into another: addresses, or engines that are open. What the source held
    when it began is in the target when it ends; others may write to the source meanwhile. Repeat it to go on after an
    interruption, or to bring along what is new. `progress` is told of events."""
    with ExitStack() as opened:
        here = _engine(source, opened, make=False)
        there = _engine(target, opened, make=True)
        if _same(here.store, there.store):
            raise InvalidUrl(url=_told(target), reason="the source and the target are the same store")
        return _Move(here, there).run(progress)


def _engine(given: Engine | Address, opened: ExitStack, *, make: bool) -> Engine:
    if isinstance(given, Engine):
        return given
    address = checked_path(given)
    path = address.removeprefix("sqlite:///")
    if path in ("memory:", ":memory:"):
        raise InvalidUrl(url=address, reason="what is in memory ends with the copy")
    if not make and "://" not in path and not os.path.exists(path):
        raise FileAbsent(path=address)
    return opened.enter_context(open(address))


def _same(one: EventStore, other: EventStore) -> bool:
    """Whether they are known to be one store. One that goes by two addresses would be found to have everything."""
    path, other_path = getattr(one, "path", None), getattr(other, "path", None)
    if path is not None and other_path is not None:
        return os.path.samefile(path, other_path)
    url = getattr(one, "url", None)
    return one is other or (url is not None and url == getattr(other, "url", None))


def _told(given: Engine | Address) -> str:
    return repr(given) if isinstance(given, Engine) else os.fspath(given)


class _Move:
    def __init__(self, source: Engine, target: Engine) -> None:
        self._source = source
        self._target = target
        self._cache = StateCache(limits.CACHED_STREAMS)
        self._put: set[tuple[str, str]] = set()
        self._events = self._bodies = self._body_bytes = 0

    def run(self, progress: Progress | None) -> Copied:
        count = self._source._counting(progress)
        streams = lacking = already_there = 0
        for streams, (here, there) in enumerate(self._heads(), 1):  # noqa: B007 - how many there were
            behind = self._behind(here, there)
            lacking += behind
            already_there += here.version - behind
        if lacking:
            done = 0
            for page in _pages(self._source.store):
                self._take(page)
                done += len(page)
                if count is not None:
                    count(done)
            streams = self._settle()
        return Copied(self._events, already_there, streams, self._bodies, self._body_bytes)

    # Streams

    def _heads(self) -> Iterator[tuple[Head, Head | None]]:
        """Every stream of the source, and where it ends in the target. Both tell theirs in the same order."""
        others = _all_heads(self._target.store)
        other = next(others, None)
        for head in _all_heads(self._source.store):
            while other is not None and stream_key(other.stream) < stream_key(head.stream):
                other = next(others, None)
            yield head, other if other is not None and other.stream == head.stream else None

    def _behind(self, here: Head, there: Head | None) -> int:
        """How many events of a stream the target lacks, whose own must be the same as far as both go."""
        if there is None:
            return here.version
        shared = min(here.version, there.version)
        if _hash_at(self._source.store, here, shared) != _hash_at(self._target.store, there, shared):
            raise _diverged(here.stream, here.version, there.version)
        return here.version - shared

    def _settle(self) -> int:
        """Every stream is compared, and what the feed did not show yet is read from the stream itself: a feed may be held
        back by a transaction that has nothing to do with us."""
        streams = 0
        for here, there in self._heads():
            streams += 1
            if not self._behind(here, there):
                continue
            after = there.version if there is not None else 0
            while page := self._source.store.read(here.stream, after=after, limit=_PAGE):
                self._take(page)
                after = page[-1].seq
                if len(page) < _PAGE:
                    break
            there = self._target.store.head(here.stream)
            if self._behind(here, there):
                raise _diverged(here.stream, here.version, there.version if there is not None else 0)
        return streams

    # Events

    def _take(self, page: Sequence[Recorded]) -> None:
        """What the target lacks of these. If another copy was first, another look tells what is left to do."""
        for tries_left in reversed(range(limits.REBUILD_TRIES)):
            lacking = [self._with_bodies(event) for event in self._lacking(page)]
            try:
                if lacking:
                    self._target._drive(maintain.adopt(lacking, self._cache))
            except VersionConflict:
                if not tries_left:
                    raise
            else:
                self._events += len(lacking)
                self._put.clear()
                return

    def _lacking(self, page: Sequence[Recorded]) -> list[Recorded]:
        heads: dict[StreamId, Head] = {}
        lacking: list[Recorded] = []
        for event in page:
            head = heads.get(event.stream)
            if head is None:
                head = heads[event.stream] = self._head_there(event.stream)
            if event.seq == head.version and event.hash != head.hash:
                raise _diverged(event.stream, event.seq, head.version)
            if event.seq > head.version:
                lacking.append(event)
        return lacking

    def _head_there(self, stream: StreamId) -> Head:
        """Asked anew for each page: others may write to the target as well, and a state from before would mislead."""
        head = self._target.store.head(stream) or Head(stream, 0, GENESIS)
        state = self._cache.get(stream)
        if state is not None and state.version != head.version:
            self._cache.drop(stream)
        return head

    # Bodies

    def _with_bodies(self, event: Recorded) -> Recorded:
        """The event, its bodies in the target. One that was erased since it was read may have lost them, and has no more
        need of them."""
        try:
            for ref in blob_refs(parts_of(upcast.current(event))):
                self._bring(event.stream.tenant, ref)
        except BlobNotFound:
            for now in self._source.store.read(event.stream, after=event.seq - 1, limit=1):
                if now.payload is None:
                    return now
            raise
        return event

    def _bring(self, tenant: str, ref: BlobRef) -> None:
        if (tenant, ref.digest) in self._put or self._is_kept(tenant, ref):
            return
        put_blob(self._target.blobs, tenant, self._source.blobs.chunks(tenant, ref), None)
        self._put.add((tenant, ref.digest))
        self._bodies += 1
        self._body_bytes += ref.size

    def _is_kept(self, tenant: str, ref: BlobRef) -> bool:
        """Whether the target has a body and has an event that names it. One that none names may be collected any moment:
        it is put again, which keeps it."""
        if not self._target.store.rows(BlobRow, {"tenant": tenant, "digest": ref.digest}, limit=1):
            return False
        try:
            self._target.blobs.chunks(tenant, ref)
        except BlobNotFound:
            return False
        return True


def _all_heads(store: EventStore) -> Iterator[Head]:
    after: StreamId | None = None
    while page := store.heads(after=after, limit=limits.READ_EVENTS):
        yield from page
        after = page[-1].stream


def _hash_at(store: EventStore, head: Head, version: int) -> bytes | None:
    """The hash of an event of a stream that ends with this head."""
    if head.version == version:
        return head.hash
    return next((event.hash for event in store.read(head.stream, after=version - 1, limit=1)), None)


def _pages(store: EventStore) -> Iterator[list[Recorded]]:
    """The feed until it has caught up, cut between commands: what one of them wrote is never there in part."""
    cursor = ""
    held: list[Recorded] = []
    while True:
        page = store.feed(cursor, limit=_PAGE)
        events = [*held, *page.events]
        caught_up = len(page.events) < _PAGE
        end = len(events) if caught_up else _end_of_commands(events)
        if end:
            yield events[:end]
        if caught_up:
            return
        held = events[end:]
        cursor = page.cursor


def _end_of_commands(events: Sequence[Recorded]) -> int:
    """Where the last command begins, of which more may follow; the end, if it has all that a command can have."""
    end = len(events)
    while end and events[end - 1].command == events[-1].command:
        end -= 1
    return end if len(events) - end < limits.COMMAND_EVENTS else len(events)


def _diverged(stream: StreamId, here: int, there: int) -> HoldfastError:
    return VersionConflict(stream=stream, expected=here, actual=there)
