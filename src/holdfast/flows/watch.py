"""What a watch reads: the next events of one stream, of a tenant, or of all, each with the cursor after it.

Laws: events come in the order of the feed, none twice and none left out. The cursor in a stream is the seq of the last
event; the cursor in the feed is that of the store.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.core.sessions.decide import session_not_found
from holdfast.errors import InvalidCursor, describe_value
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.log import FeedEvent, FeedPage, StoredEvent
from holdfast.model.names import Scope, StreamId

MAX_SEQ_DIGITS = 18


class WatchTarget(msgspec.Struct, frozen=True):
    """What a watch follows: a stream; or the events of a tenant; or, without either, all events."""

    stream: StreamId | None = None
    tenant: str | None = None
    scope: Scope | None = None
    """The session that the stream belongs to: it must exist."""
    has_tenant_feed: bool = False
    """The store has `tenant_feed`."""
    has_end_cursor: bool = False
    """The store has `end_cursor`."""


class WatchPage(msgspec.Struct, frozen=True):
    """Events, and the cursor where the next page starts."""

    events: tuple[FeedEvent, ...]
    cursor: str
    is_end: bool
    """The log has no more events now."""


def check_after(after: object, *, in_stream: bool) -> str | None:
    """Check the position to start after, and return it as a cursor; None for the end."""
    if after is None:
        return None
    if in_stream and type(after) is int and 0 <= after <= limits.WHOLE_NUMBER:
        return str(after or "")
    is_seq = type(after) is str and (
        after == "" or (after.isascii() and after.isdigit() and len(after) <= MAX_SEQ_DIGITS)
    )
    if type(after) is not str or (in_stream and not is_seq):
        raise InvalidCursor(cursor=after if type(after) is str else describe_value(after))
    return after


def start(target: WatchTarget, after: str | None) -> Flow[str]:
    """Return the cursor to start from. Raises SessionNotFound, and InvalidCursor for a cursor beyond the stream."""
    if target.stream is None:
        return (yield from _find_end(target)) if after is None else after
    head = yield from effects.head(target.stream)
    if head is None and target.scope is not None:
        raise session_not_found(target.scope)
    version = 0 if head is None else head.version
    if after is None:
        return str(version or "")
    if int(after or 0) > version:
        raise InvalidCursor(cursor=after)
    return after


def _find_end(target: WatchTarget) -> Flow[str]:
    if target.has_end_cursor:
        return (yield from effects.end_cursor(target.tenant))
    cursor = ""
    while (page := (yield from effects.feed(cursor, limits.READ_EVENTS))).events:
        cursor = page.cursor
    return cursor


def read_page(target: WatchTarget, cursor: str) -> Flow[WatchPage]:
    """Read the next events after a cursor."""
    if target.stream is not None:
        events = yield from effects.read(target.stream, int(cursor or 0), limits.WATCH_EVENTS)
        page = FeedPage(events, str(events[-1].seq) if events else cursor, tuple(str(event.seq) for event in events))
    elif target.tenant is not None and target.has_tenant_feed:
        page = yield from effects.tenant_feed(target.tenant, cursor, limits.WATCH_EVENTS)
    else:
        page = yield from effects.feed(cursor, limits.WATCH_EVENTS)
    if len(page.cursors) < len(page.events):  # the store does not say where each event ends: one at a time
        page = yield from effects.feed(cursor, 1)
        page = FeedPage(page.events, page.cursor, (page.cursor,) * len(page.events))
    pairs = zip(page.events, page.cursors, strict=True)
    return WatchPage(tuple(_add_cursors(pairs, target)), page.cursor, is_end=not page.events)


def _add_cursors(pairs: Iterable[tuple[StoredEvent, str]], target: WatchTarget) -> Iterable[FeedEvent]:
    for event, cursor in pairs:
        if target.tenant in (None, event.stream.tenant):
            yield FeedEvent(**msgspec.structs.asdict(event), cursor=cursor)
