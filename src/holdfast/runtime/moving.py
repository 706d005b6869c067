"""Moving house: everything of one store into another, of whatever kind, while both are in use.

Laws: events arrive as they are, each checked against its chain, in the order of the source's feed, those of one command
together; a body is there before the event that names it; what the target has is compared and not written again, so a copy
that was cut off at any point goes on when it is repeated; a stream that has another history there is refused before
anything is written; at the end every stream is seen to be there as far as it was here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TypeAlias

import msgspec

from holdfast.core import upcast
from holdfast.errors import (
    BlobNotFound,
    Conflict,
    Diverged,
    FileAbsent,
    HoldfastError,
    InvalidUrl,
    StorageCorrupt,
)
from holdfast.flows import maintain
from holdfast.flows.load import StateCache, nothing_of
from holdfast.flows.maintain import Count
from holdfast.model import limits
from holdfast.model.addresses import POSTGRES, shown_address
from holdfast.model.content import BlobRef
from holdfast.model.log import GENESIS, Head, Recorded
from holdfast.model.names import StreamId
from holdfast.model.needs import refs_of
from holdfast.model.rows import BlobRow
from holdfast.ports import EventStore
from holdfast.runtime.care import checked_path, put_blob
from holdfast.runtime.engine import Engine, Progress
from holdfast.runtime.opening import open
from holdfast.storage.common import stream_key

_PAGE = 500
_PAUSES_S = (0.0, 0.01, 0.1, 1.0)
"""How long a feed is waited for that does not show yet what its streams have."""

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
            name = getattr(there.store, "path", None) or shown_address(getattr(there.store, "url", "memory:"))
            raise InvalidUrl(url=name, reason="the source and the target are the same store")
        return _Move(here, there).run(progress)


def _engine(given: Engine | Address, opened: ExitStack, *, make: bool) -> Engine:
    if isinstance(given, Engine):
        return given
    address = checked_path(given)
    if address in ("memory:", ":memory:"):
        raise InvalidUrl(url=address, reason="what is in memory ends with the copy")
    if not make:
        _check_present(address)
    return opened.enter_context(open(address))


def _check_present(address: str) -> None:
    """Opening what is not there would make it."""
    if not address.startswith(POSTGRES):
        path = address.removeprefix("sqlite:///")
        if "://" not in path and not os.path.exists(path):
            raise FileAbsent(path=address)
        return
    try:
        from holdfast.storage.postgres.migrate import present  # noqa: PLC0415 - an extra
    except ImportError:
        return  # opening it tells what is missing
    if not present(address):
        raise FileAbsent(path=shown_address(address))


def _same(one: EventStore, other: EventStore) -> bool:
    """Whether they are known to be one store. One that goes by two addresses would be found to have everything."""
    path, other_path = getattr(one, "path", None), getattr(other, "path", None)
    if path is not None and other_path is not None:
        return os.path.samefile(path, other_path)
    url = getattr(one, "url", None)
    return one is other or (url is not None and url == getattr(other, "url", None))


class _Move:
    def __init__(self, source: Engine, target: Engine) -> None:
        self._source = source
        self._target = target
        self._cache = StateCache(limits.CACHED_STREAMS)
        self._put: set[tuple[str, str]] = set()
        self._ends: dict[StreamId, Head] = {}
        """Of streams in the target, as seen last."""
        self._new_there = False
        """Whether the target had none of the source's streams."""
        self._cursor = ""
        self._count: Count | None = None
        self._done = 0
        self._events = self._bodies = self._body_bytes = 0

    def run(self, progress: Progress | None) -> Copied:
        self._count = self._source._counting(progress)
        streams = lacking = already_there = 0
        for streams, (here, there) in enumerate(self._heads(), 1):  # noqa: B007 - how many there were
            behind = self._behind(here, there)
            lacking += behind
            already_there += here.version - behind
        self._new_there = not already_there
        if lacking:
            self._follow()
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
        """Every stream is compared once more: only then it is known that the feed has shown everything."""
        streams = 0
        behind: list[Head] = []
        for streams, (here, there) in enumerate(self._heads(), 1):  # noqa: B007 - how many there were
            if self._behind(here, there):
                behind.append(here)
            if len(behind) == limits.CACHED_STREAMS:
                self._catch_up(behind)
                behind = []
        self._catch_up(behind)
        return streams

    def _catch_up(self, heads: Sequence[Head]) -> None:
        """Take these streams as far as this. A feed may be held back by someone's long transaction: it is given a moment,
        since it has the order, and then each stream is read by itself."""
        for pause_s in _PAUSES_S:
            if not heads:
                return
            time.sleep(pause_s)
            self._follow()
            heads = [head for head in heads if self._behind(head, self._target.store.head(head.stream))]
        for head in heads:
            self._take_stream(head)

    def _take_stream(self, here: Head) -> None:
        there = self._target.store.head(here.stream)
        after = there.version if there is not None else 0
        while page := self._source.store.read(here.stream, after=after, limit=_PAGE):
            self._take(page)
            after = page[-1].seq
            if len(page) < _PAGE:
                break
        if self._behind(here, self._target.store.head(here.stream)):
            reason = f"the log ends at event {after}, but {here.version} were written"
            raise StorageCorrupt(what=f"{here.stream} of the source", reason=reason)

    # Events

    def _follow(self) -> None:
        """Walk the feed until it has caught up."""
        for page in self._pages():
            self._take(page)
            self._done += len(page)
            if self._count is not None:
                self._count(self._done)

    def _pages(self) -> Iterator[list[Recorded]]:
        """The feed from where we are, cut between commands: what one of them wrote is never there in part."""
        held: list[Recorded] = []
        while True:
            page = self._source.store.feed(self._cursor, limit=_PAGE)
            self._cursor = page.cursor
            events = [*held, *page.events]
            caught_up = len(page.events) < _PAGE
            end = len(events) if caught_up else _end_of_commands(events)
            if end:
                yield events[:end]
            if caught_up:
                return
            held = events[end:]

    def _take(self, page: Sequence[Recorded]) -> None:
        """What the target lacks of these. If others wrote there as well, another look tells what is left to do."""
        lacking = self._lacking(page)
        while lacking:
            try:
                self._target._drive(maintain.adopt([self._with_bodies(event) for event in lacking], self._cache))
            except Conflict:
                self._new_there = False
                self._ends.clear()
                left = self._lacking(page)
                if len(left) == len(lacking):
                    raise
                lacking = left
            else:
                self._ends.update((event.stream, Head(event.stream, event.seq, event.hash)) for event in lacking)
                self._events += len(lacking)
                break
        self._put.clear()

    def _lacking(self, page: Sequence[Recorded]) -> list[Recorded]:
        lacking: list[Recorded] = []
        for event in page:
            end = self._ends.get(event.stream) or self._end_there(event)
            if event.seq == end.version and event.hash != end.hash:
                raise _diverged(event.stream, event.seq, end.version)
            if event.seq > end.version:
                lacking.append(event)
        return lacking

    def _end_there(self, event: Recorded) -> Head:
        """Where a stream ends in the target. That is asked once: what does not continue the stream is refused there."""
        stream = event.stream
        head = None if self._new_there and event.seq == 1 else self._target.store.head(stream)
        end = head or Head(stream, 0, GENESIS)
        state = self._cache.get(stream)
        if head is None:
            self._cache.put(stream, nothing_of(stream))
        elif state is not None and state.version != end.version:
            self._cache.drop(stream)
        if len(self._ends) >= limits.CACHED_STREAMS:
            self._ends.clear()
        self._ends[stream] = end
        return end

    # Bodies

    def _with_bodies(self, event: Recorded) -> Recorded:
        """The event, its bodies in the target. One that was erased since it was read may have lost them, and has no more
        need of them."""
        try:
            for ref in refs_of(upcast.current(event)):
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


def _end_of_commands(events: Sequence[Recorded]) -> int:
    """Where the last command begins, of which more may follow; the end, if it has all that a command can have."""
    end = len(events)
    while end and events[end - 1].command == events[-1].command:
        end -= 1
    return end if len(events) - end < limits.COMMAND_EVENTS else len(events)


def _diverged(stream: StreamId, here: int, there: int) -> HoldfastError:
    return Diverged(stream=stream, here=here, there=there)
