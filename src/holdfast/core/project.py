"""From events and the states around them to rows. Pure, so that a rebuild gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from holdfast import codec
from holdfast.core import stack
from holdfast.core.fold import offers
from holdfast.core.shown import size_of
from holdfast.model.events import (
    Event,
    FrameResumed,
    HandleAdded,
    HandleMoved,
    HandleReplaced,
    OffloadAcknowledged,
    ResultAdded,
    TokenReissued,
)
from holdfast.model.frames import FrameState, Suspension, frame_seq
from holdfast.model.handles import Handle, Priority, handle_id, handle_seq, piece_id
from holdfast.model.names import Scope
from holdfast.model.needs import refs_of
from holdfast.model.plan import Reduction, Residency
from holdfast.model.rows import BlobRow, FrameRow, HandleRow, OutboxRow, PageRow, Row, SessionRow, TokenRow
from holdfast.model.state import SessionState
from holdfast.model.view_events import ContextCompacted


def rows_of(
    scope: Scope,
    before: SessionState,
    event: Event | None,
    event_type: str,
    time_us: int,
    frames: Mapping[str, FrameState],
) -> Iterator[Row]:
    """The rows that one event puts in place, beside those of its session and of the frames that it changes."""
    seq = before.version + 1
    for ref in dict.fromkeys(refs_of(event)):
        yield BlobRow(**scope.columns, digest=ref.digest, seq=seq, size=ref.size)
    yield from _handle_rows(scope, before, event)
    if frames:
        yield from _beside(scope, before, event, frames)
    stretch = offers(before, event, event_type)
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


def _beside(scope: Scope, before: SessionState, event: Event | None, frames: Mapping[str, FrameState]) -> Iterator[Row]:
    """The tokens of these frames."""
    for frame in frames.values():
        yield from _token_rows(scope, before.frames.get(frame.id), frame, event)


def _handle_rows(scope: Scope, before: SessionState, event: Event | None) -> Iterator[HandleRow | PageRow]:
    """The handle that an event makes or changes, and the pieces of messages that it takes out of view or brings back."""
    match event:
        case HandleAdded() | ResultAdded() | HandleReplaced() if event.frame in before.frames:
            handle = handle_of(event, before.version + 1)
            result = _result(event)
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


def _result(event: HandleAdded | ResultAdded | HandleReplaced) -> str:
    """How the child ended that brought it; empty if none did."""
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
    """The handle of a piece of a message; its priority is that of the unit, which an event does not tell."""
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
        ended=None if frame.live else frame.status,
        deadline_us=frame.deadline_us,
        state=codec.encode(frame).decode(),
    )


def handle_of(event: HandleAdded | ResultAdded | HandleReplaced, seq: int) -> Handle:
    """The handle that event `seq` makes, or changes."""
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
        size=0 if event.content is None else size_of(event.content),
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


def with_residency(handle: Handle, collapsed: Mapping[str, int]) -> Handle:
    """A handle as its row has it, with what a later compaction says about it: that names ids, and writes no rows."""
    if handle.residency != "resident" or handle.at > collapsed.get(handle.id, 0):
        return handle
    return msgspec.structs.replace(handle, residency="collapsed")


def _token_rows(scope: Scope, before: FrameState | None, after: FrameState, event: Event | None) -> Iterator[TokenRow]:
    """The token that a frame had, and the one that it has now."""
    had = before.suspension if before is not None else None
    has = after.suspension
    if had is has:
        return
    if had is not None and had.digest and (has is None or has.digest != had.digest):
        status: Literal["consumed", "replaced", "revoked", "ended"] = "ended"
        if had.revoked:
            status = "revoked"
        elif isinstance(event, FrameResumed):
            status = "consumed"
        elif isinstance(event, TokenReissued):
            status = "replaced"
        yield _token_row(scope, after.id, had, status, suspended=False)
    if has is not None and has.digest:
        yield _token_row(scope, after.id, has, "revoked" if has.revoked else "live", suspended=True)


def _token_row(
    scope: Scope,
    frame: str,
    rest: Suspension,
    status: Literal["live", "consumed", "replaced", "revoked", "ended"],
    *,
    suspended: bool,
) -> TokenRow:
    return TokenRow(
        **scope.columns,
        digest=rest.digest,
        frame=frame_seq(frame),
        status=status,
        suspended=int(suspended),
        state=codec.encode(rest).decode(),
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
        expires_us=_expiry(state),
        residue=state.residue,
        gone=int(state.status == "destroyed"),
    )


def _expiry(state: SessionState) -> int | None:
    """When it is to be timed out, if nothing happens before: not while a token may come for one of its frames."""
    if not state.idle_timeout_us or state.status != "open":
        return None
    idle = state.active_us + state.idle_timeout_us
    if not state.resting:
        return idle
    until = stack.rest_until(state.frames)
    return None if until is None else max(idle, until)
