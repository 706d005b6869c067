"""The activity of a session, read from its log.

Laws: the cost follows the number of spans that are listed and how long they last, not the length of the log: no more than
READ_EVENTS are read before them, to find the turns that they belong to, and no more than ACTIVITY_EVENTS after them, to
find their ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.history.boundary_figures import BOUNDARY_TYPES
from holdfast.core.sessions.activity import ActivityFold, EventHeader
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.frames.lookup import decode_frame, session_filter
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from holdfast.model.content import ToolCall, calling_seq
from holdfast.model.events import Event
from holdfast.model.frames.events import (
    ActorResumed,
    FramePopped,
    FramePushed,
    FrameResumed,
    FrameSuspended,
    TokenReissued,
    TokenRevoked,
)
from holdfast.model.frames.frames import FrameState, frame_id, frame_seq
from holdfast.model.log import StoredEvent
from holdfast.model.names import check_whole
from holdfast.model.packs.events import PackRecorded
from holdfast.model.rows import FrameRow
from holdfast.model.sessions.activity import Activity
from holdfast.model.sessions.events import (
    CallStarted,
    EvidenceKept,
    MessageRecorded,
    SessionClosed,
    SessionTimedOut,
    TurnEnded,
    TurnTaken,
)
from holdfast.model.state import SessionState

_SPAN_TYPES = (
    MessageRecorded.name,
    PackRecorded.name,
    CallStarted.name,
    FramePushed.name,
    FrameSuspended.name,
    ActorResumed.name,
    *BOUNDARY_TYPES,
)
"""The events that can begin a span."""
_TYPES = (
    *_SPAN_TYPES,
    EvidenceKept.name,
    FramePopped.name,
    FrameResumed.name,
    TokenReissued.name,
    TokenRevoked.name,
    SessionClosed.name,
    SessionTimedOut.name,
    TurnTaken.name,
    TurnEnded.name,
)
_MIN_PAGE = 50


class _RequestStart(msgspec.Struct, frozen=True):
    as_of_us: int = 0
    model: str = ""


class _ManifestStart(msgspec.Struct, frozen=True):
    """The part of a manifest that says when its pack was built, and for which model."""

    request: _RequestStart = _RequestStart()


class _ReadEvent(msgspec.Struct, frozen=True):
    header: EventHeader
    type: str
    event: Event | None


def activity(context: SessionContext, *, before: int | None = None, limit: int = 200) -> Flow[list[Activity]]:
    """The spans of a session, newest first; with `before`, those that began before that event. What began with one event
    is never split: a page may be longer than `limit`."""
    if before is not None:
        check_whole("before", before)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    state = yield from load_session(context)
    events, is_whole = yield from _read_spans(context, before, limit)
    later = [] if before is None else (yield from _read_ends(context, state, events, before))
    read_more = 0
    while True:
        spans = yield from _fold_events(context, state, [*reversed(events), *later])
        shown = [each for each in spans if before is None or each.seq < before]
        last = shown[limit - 1].seq if len(shown) > limit else 0
        shown = [each for each in shown if each.seq >= last]
        if is_whole or read_more >= limits.READ_EVENTS or not _lacks_turn(shown, events[-1].header.seq):
            return shown
        older = yield from _read_back(context, events[-1].header.seq, limits.READ_EVENTS)
        events += older
        read_more += len(older)
        is_whole = len(older) < limits.READ_EVENTS


def _read_spans(context: SessionContext, before: int | None, limit: int) -> Flow[tuple[list[_ReadEvent], bool]]:
    """The newest events before a seq that begin so many spans, newest first; and whether there are no others."""
    events: list[_ReadEvent] = []
    size, found, end = min(limits.READ_EVENTS, max(_MIN_PAGE, 2 * limit)), 0, before
    while found <= limit:
        page = yield from _read_back(context, end, size)
        events += page
        found += sum(map(_count_spans, page))
        if len(page) < size:
            return events, True
        end = page[-1].header.seq
    return events, False


def _read_back(context: SessionContext, before: int | None, size: int) -> Flow[list[_ReadEvent]]:
    page = yield from effects.read_back(context.scope.stream, before, size, _TYPES)
    return [_read_event(stored) for stored in page]


def _read_event(stored: StoredEvent) -> _ReadEvent:
    event = upcast.decode_event(stored)
    start = _read_start(event) if isinstance(event, PackRecorded) else _RequestStart()
    header = EventHeader(stored.seq, stored.time_us, stored.command, start.as_of_us, start.model)
    return _ReadEvent(header, stored.type, event)


def _read_start(event: PackRecorded) -> _RequestStart:
    """The start of a model call. It is unknown if the manifest is in the blob store, which is not read for that."""
    if not isinstance(event.manifest, bytes):
        return _RequestStart()
    try:
        return codec.decode(codec.decompress(event.manifest, limits.PAYLOAD_BYTES), _ManifestStart).request
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _RequestStart()  # damaged: reading the pack reports it


def _count_spans(read: _ReadEvent) -> int:
    """At least how many spans an event begins: a tool begins with its start, or with its message."""
    match read.event:
        case MessageRecorded(role="user"):
            return 1
        case MessageRecorded(role="assistant"):
            return 1
        case CallStarted(attempt=1) | FramePushed() | FrameSuspended() | ActorResumed():
            return 1
        case None:
            return 0
    return int(read.type in BOUNDARY_TYPES)


def _fold_events(context: SessionContext, state: SessionState, events: Sequence[_ReadEvent]) -> Flow[list[Activity]]:
    fold = ActivityFold((yield from _read_calls(context, events)))
    for read in events:
        fold.add(read.header, read.event)
    frames = yield from _read_frames(context, state, fold.frames)
    return fold.finish(state, frames, context.engine.clock.now_us())


def _read_calls(context: SessionContext, events: Sequence[_ReadEvent]) -> Flow[dict[str, ToolCall]]:
    """The tool calls that were started here and whose messages are older."""
    first = events[0].header.seq if events else 0
    started = (read.event.call for read in events if isinstance(read.event, CallStarted))
    seqs = {seq for seq in map(calling_seq, started) if seq is not None and seq < first}
    stored = yield from effects.read_each(context.scope.stream, seqs)
    return {call.id: call for each in stored.values() for call in message_of(each).tool_calls}


def _read_frames(context: SessionContext, state: SessionState, names: Sequence[str]) -> Flow[dict[str, FrameState]]:
    """These frames as they are now: live ones from the state, others from their rows."""
    frames = {name: state.frames[name] for name in names if name in state.frames}
    ended = [frame_seq(name) for name in names if name not in frames]
    for at in range(0, len(ended), limits.READ_EVENTS):
        page = ended[at : at + limits.READ_EVENTS]
        rows = yield from effects.rows(FrameRow, session_filter(context.scope), None, len(page), among={"frame": page})
        frames |= {frame_id(row.frame): decode_frame(row) for row in rows}
    return frames


def _lacks_turn(spans: Sequence[Activity], first: int) -> bool:
    """Whether the turn around one of these may be before the first event that was read."""
    return any(
        span.kind in ("model", "tool") and span.parent == (span.frame or "") and first > frame_seq(span.frame) + 1
        for span in spans
    )


def _read_ends(
    context: SessionContext, state: SessionState, events: Sequence[_ReadEvent], before: int
) -> Flow[list[_ReadEvent]]:
    """The events from a seq on, until all that began before it has ended, or is known to be open still. The first page is
    always read: the pack of a reply is behind it."""
    command = events[0].header.command if events else ""
    fold = ActivityFold()
    for read in reversed(events):
        fold.add(read.header, read.event)
    live = {call.id for call in state.open_calls}
    resting = {frame.id for frame in state.frames.values() if frame.suspension is not None}
    later: list[_ReadEvent] = []
    after, size = before - 1, _MIN_PAGE
    while len(later) < limits.ACTIVITY_EVENTS:
        waiting = [
            name
            for name, kind, seq, frame in fold.open_spans
            if seq < before and kind != "frame" and name not in live and not (kind == "suspension" and frame in resting)
        ]
        if later and not waiting and later[-1].header.command != command:
            break
        page = yield from effects.read(context.scope.stream, after, size)
        for stored in page:
            if stored.type in _TYPES:
                later.append(_read_event(stored))
                fold.add(later[-1].header, later[-1].event)
        if len(page) < size:
            break
        after, size = page[-1].seq, limits.READ_EVENTS
    return later
