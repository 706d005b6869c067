"""Rows from events and the states around them. Pure, so that a rebuild gives the same bytes.

Law: each event is folded once; the same pass gives the next state and the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from holdfast import codec
from holdfast.core.fold import find_offload, fold_session_with_frames
from holdfast.core.frames.stack import latest_token_expiry
from holdfast.core.history.views import piece_size
from holdfast.model.entries.events import EntryAppended, EntryChunksStored
from holdfast.model.events import Event, event_blob_refs
from holdfast.model.frames.events import FrameResumed, ResultAdded, TokenReissued
from holdfast.model.frames.frames import FrameState, Suspension, frame_seq
from holdfast.model.history.events import ContextCompacted, HandleAdded, HandleMoved, HandleReplaced
from holdfast.model.history.handles import Handle, Priority, handle_id, handle_seq, piece_id
from holdfast.model.history.plans import Reduction, Residency
from holdfast.model.names import Scope, hash_long_name
from holdfast.model.rows import (
    BlobRow,
    ChunkRow,
    DependRow,
    EntryRow,
    FactRow,
    FrameRow,
    HandleRow,
    MentionRow,
    OutboxRow,
    PageRow,
    Row,
    SessionRow,
    TokenRow,
)
from holdfast.model.sessions.events import MessageRecorded, OffloadAcknowledged
from holdfast.model.state import SessionState

SHARED_ROWS = (FrameRow, HandleRow, PageRow, EntryRow, ChunkRow, FactRow, DependRow, MentionRow)
"""The rows that a fork has of the events that it shares. Bodies, tokens and the outbox are the business of the session that
stores the events."""


class SessionFold:
    """The state and the rows of a session, folded event by event."""

    def __init__(self, scope: Scope, state: SessionState) -> None:
        self.state = state
        self._scope = scope
        self._event_rows: list[Row] = []
        self._frames: dict[str, FrameState] = {}

    def add(self, event: Event | None, event_type: str, time_us: int, *, shared: bool = False) -> None:
        """Fold one more event; `event` is None if its payload was erased. A fork has `shared` events, which are stored in
        another session: of their rows it has those that its own events may need."""
        before = self.state
        self.state, frames = fold_session_with_frames(before, event, event_type, time_us)
        rows = project_event(self._scope, before, event, event_type, time_us, frames)
        self._event_rows += (row for row in rows if isinstance(row, SHARED_ROWS)) if shared else rows
        self._frames |= frames

    def build_rows(self) -> list[Row]:
        """The rows of all events; those of the frames and of the session once, as they are after the last event."""
        session = session_row(self._scope, self.state)
        return [
            *self._event_rows,
            *(frame_row(self._scope, frame) for frame in self._frames.values()),
            *(() if session is None else (session,)),
        ]


def project_event(
    scope: Scope,
    before: SessionState,
    event: Event | None,
    event_type: str,
    time_us: int,
    frames: Mapping[str, FrameState],
) -> Iterator[Row]:
    """The rows of one event, except those of its session and of the frames that it changes."""
    seq = before.version + 1
    for ref in dict.fromkeys(event_blob_refs(event)):
        yield BlobRow(**scope.columns, digest=ref.digest, seq=seq, size=ref.size)
    if not isinstance(event, MessageRecorded):  # most events
        yield from _handle_rows(scope, before, event)
        yield from _entry_rows(scope, seq, event, time_us)
    if frames:
        yield from _frame_token_rows(scope, before, event, frames)
    stretch = find_offload(before, event, event_type)
    if stretch is not None:
        entry, why, at_us, done = seq, event_type.removeprefix("session."), time_us, 0
    elif isinstance(event, OffloadAcknowledged):
        stretch = (event.first, event.last)
        entry, why, at_us, done = event.entry, event.why, event.at_us, 1
    else:
        return
    yield OutboxRow(
        **scope.columns,
        entry=entry,
        why=why,
        first=stretch[0],
        last=stretch[1],
        at_us=at_us,
        done=done,
    )


def _frame_token_rows(
    scope: Scope, before: SessionState, event: Event | None, frames: Mapping[str, FrameState]
) -> Iterator[Row]:
    """The tokens of these frames."""
    for frame in frames.values():
        yield from _token_rows(scope, before.frames.get(frame.id), frame, event)


def _handle_rows(scope: Scope, before: SessionState, event: Event | None) -> Iterator[HandleRow | PageRow]:
    """The handle that an event adds or changes, and the pieces of messages that it takes out of view or brings back."""
    match event:
        case HandleAdded() | ResultAdded() | HandleReplaced() if event.frame in before.frames:
            handle = handle_from_event(event, before.version + 1)
            result = _result_status(event)
            yield HandleRow(
                **scope.columns,
                handle=handle_seq(handle.id),
                frame=frame_seq(handle.frame),
                source=None if result else handle.source,
                result=result,
                state=codec.encode(handle).decode(),
            )
        case HandleMoved():
            yield page_row(scope, event.frame, event.piece, event.residency)
        case ContextCompacted():
            for each in event.reduced:
                yield page_row(scope, event.frame, each, "spooled_out")


def _entry_rows(scope: Scope, seq: int, event: Event | None, time_us: int) -> Iterator[EntryRow | ChunkRow]:
    match event:
        case EntryChunksStored(chunks=chunks):
            for at, chunk in enumerate(chunks):
                yield ChunkRow(**scope.columns, digest=chunk.digest, seq=seq, at=at)
        case EntryAppended():
            full = (event.kind, event.key, event.parent or "")
            kind, key, parent = (name and hash_long_name(name) for name in full)
            yield EntryRow(
                **scope.columns,
                entry=key,
                kind=kind,
                parent=parent,
                seq=seq,
                at_us=time_us,
                size=event.size,
                digest=event.digest,
                names="" if (kind, key, parent) == full else codec.encode(full).decode(),
            )


def _result_status(event: HandleAdded | ResultAdded | HandleReplaced) -> str:
    """The ending of the child frame that added the handle; empty for other handles."""
    if isinstance(event, ResultAdded):
        return event.status
    return event.result if isinstance(event, HandleReplaced) else ""


def page_row(scope: Scope, frame: str | None, piece: Reduction, residency: Residency) -> PageRow:
    handle = piece_handle(piece, frame, residency)
    return PageRow(
        **scope.columns,
        message=piece.message,
        piece=piece.piece,
        frame=frame_seq(frame),
        residency=residency,
        state=codec.encode(handle).decode(),
    )


def piece_handle(piece: Reduction, frame: str | None, residency: Residency, priority: Priority = "medium") -> Handle:
    """The handle of a piece of a message. It has no priority: an event does not contain that of the message group."""
    return Handle(
        id=piece_id(piece.message, piece.piece),
        frame=frame,
        kind="tool_result" if piece.source is not None else "memory_page",
        source=piece.source,
        priority=priority,
        tokens=piece.whole or piece.tokens,
        digest=piece.digest,
        at=piece.message,
        residency=residency,
        tier=piece.tier if residency == "paged_out" else None,
        locator=f"event:{piece.message}" if piece.ref is None else f"blob:{piece.ref.digest}",
        size=piece.size,
    )


def frame_row(scope: Scope, frame: FrameState) -> FrameRow:
    return FrameRow(
        **scope.columns,
        frame=frame_seq(frame.id),
        parent=frame_seq(frame.parent),
        ended=None if frame.is_live else frame.status,
        deadline_us=frame.deadline_us,
        state=codec.encode(frame).decode(),
    )


def handle_from_event(event: HandleAdded | ResultAdded | HandleReplaced, seq: int) -> Handle:
    """The handle that event `seq` adds or changes."""
    if isinstance(event, ResultAdded):
        return Handle(
            id=handle_id(seq),
            frame=event.frame,
            kind="sub_agent_join",
            title=event.title,
            source=event.child,
            tokens=event.tokens,
            digest=event.digest,
            at=event.at,
            locator=f"event:{event.at}",
        )
    handle = Handle(
        id=handle_id(seq),
        frame=event.frame,
        kind="sub_agent_join" if isinstance(event, HandleReplaced) and event.result else event.kind,
        priority=event.priority,
        title=event.title,
        source=event.source,
        tokens=event.tokens,
        digest=event.digest,
        at=seq,
        metadata=event.metadata,
        locator=f"event:{seq}",
        size=0 if event.content is None else piece_size(event.content),
    )
    if isinstance(event, HandleAdded):
        return handle
    return msgspec.structs.replace(
        handle,
        id=event.handle,
        at=event.at,
        residency=event.residency,
        tier=event.tier,
        locator=f"event:{event.at}" if event.ref is None else f"blob:{event.ref.digest}",
        size=event.size or handle.size,
    )


def apply_collapse(handle: Handle, collapsed: Mapping[str, int]) -> Handle:
    """A handle from its row, with the effect of a later compaction, which names ids and writes no rows."""
    if handle.residency != "resident" or handle.at > collapsed.get(handle.id, 0):
        return handle
    return msgspec.structs.replace(handle, residency="collapsed")


def _token_rows(scope: Scope, before: FrameState | None, after: FrameState, event: Event | None) -> Iterator[TokenRow]:
    """The rows of the old and of the new token of a frame."""
    old = before.suspension if before is not None else None
    new = after.suspension
    if old is new:
        return
    if old is not None and old.digest and (new is None or new.digest != old.digest):
        status: Literal["consumed", "replaced", "revoked", "ended"] = "ended"
        if old.revoked:
            status = "revoked"
        elif isinstance(event, FrameResumed):
            status = "consumed"
        elif isinstance(event, TokenReissued):
            status = "replaced"
        yield _token_row(scope, after.id, old, status, suspended=False)
    if new is not None and new.digest:
        yield _token_row(scope, after.id, new, "revoked" if new.revoked else "live", suspended=True)


def _token_row(
    scope: Scope,
    frame: str,
    suspension: Suspension,
    status: Literal["live", "consumed", "replaced", "revoked", "ended"],
    *,
    suspended: bool,
) -> TokenRow:
    return TokenRow(
        **scope.columns,
        digest=suspension.digest,
        frame=frame_seq(frame),
        status=status,
        suspended=int(suspended),
        state=codec.encode(suspension).decode(),
    )


def session_row(scope: Scope, state: SessionState) -> SessionRow | None:
    """The row of the session itself."""
    if state.status == "absent":
        return None
    return SessionRow(
        **scope.columns,
        status=state.status,
        version=state.version,
        messages=state.messages,
        tokens=state.tokens,
        open_calls=len(state.open_calls),
        input_tokens=state.usage.input_tokens,
        cache_read_tokens=state.usage.cache_read_tokens,
        output_tokens=state.usage.output_tokens,
        created_us=state.created_us,
        updated_us=state.updated_us,
        expires_us=_expiry_us(state),
        residue=state.residue,
        gone=int(state.status == "destroyed"),
        parent="" if state.origin is None else codec.encode(state.origin.parent).decode(),
        cut=0 if state.origin is None else state.origin.cut,
    )


def _expiry_us(state: SessionState) -> int | None:
    """When the session times out if nothing happens before; not while a token of one of its frames is valid."""
    if not state.idle_timeout_us or state.status != "open":
        return None
    idle = state.active_us + state.idle_timeout_us
    if not state.resting:
        return idle
    until = latest_token_expiry(state.frames)
    return None if until is None else max(idle, until)
