"""What deciding about frames needs to know of those that have ended, and of tokens and handles: looked up in their rows."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.messages import waiting_for
from holdfast.core.project import with_residency
from holdfast.errors import InvalidContent
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.commands import (
    AddHandle,
    CancelTokens,
    Command,
    CommitTokens,
    Given,
    PopFrame,
    PushFrame,
    RecordMessages,
    ReplaceHandle,
    ResumeFrame,
    StartCall,
)
from holdfast.model.events import OF_FRAMES, BudgetReserved, Event, FramePopped
from holdfast.model.frames import FrameState, frame_id, frame_seq, reservation_seq
from holdfast.model.handles import Handle, handle_seq
from holdfast.model.log import Recorded
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import FrameRow, HandleRow, TokenRow
from holdfast.model.state import SessionState


def session_where(scope: Scope) -> dict[str, str | int]:
    """What finds the rows of one session."""
    return {**scope.columns}


def about_frames(command: Command, given: Given, state: SessionState) -> Flow[Given]:
    """What is given with a command, completed by what it names and the state does not hold."""
    known: dict[str, Any] = {}
    named = _frame_of(command, state)
    if named is not None and named not in state.frames:
        ended = yield from frame_in_rows(command.scope, named)
        known["ended"] = ended
        if ended is not None and isinstance(command, PopFrame):
            event = yield from event_at(command.scope.stream, ended.touched)
            known["popped"] = event if isinstance(event, FramePopped) and event.frame == named else None
    if isinstance(command, RecordMessages | CommitTokens | CancelTokens) and command.reservation is not None:
        frame = state.frames.get(named or "")
        known["settled"] = frame is not None and (yield from _settled(command.scope.stream, frame, command.reservation))
    if isinstance(command, AddHandle) and command.source is not None:
        known["handle"] = yield from handle_from(command.scope, command.frame, command.source)
    if isinstance(command, ReplaceHandle):
        where = session_where(command.scope) | {"handle": handle_seq(command.handle)}
        for row in (yield from effects.rows(HandleRow, where, None, 1)):
            found = with_residency(handle_of(row), dict(state.view(command.frame).left_out))
            known |= {"handle": found, "result": row.result}
    if isinstance(command, ResumeFrame):
        known["token"] = yield from token_row(command.scope.tenant, command.digest)
    return msgspec.structs.replace(given, **known) if known else given


def token_row(tenant: str, digest: str) -> Flow[TokenRow | None]:
    for row in (yield from effects.rows(TokenRow, {"tenant": tenant, "digest": digest}, None, 1)):
        return row
    return None


def _frame_of(command: Command, state: SessionState) -> str | None:
    """The frame that a command is about."""
    if isinstance(command, PushFrame):
        return command.parent
    if isinstance(command, StartCall):
        call = waiting_for(state, command.call, command.frame)
        return (call.frame if call is not None else None) or command.frame
    frame: str | None = getattr(command, "frame", None)
    return frame


def frame_in_rows(scope: Scope, frame: str) -> Flow[FrameState | None]:
    """A frame as its row has it; None if there is none of that id."""
    where = session_where(scope) | {"frame": frame_seq(frame)}
    for row in (yield from effects.rows(FrameRow, where, None, 1)):
        return state_of(row)
    return None


def state_of(row: FrameRow) -> FrameState:
    return codec.decode(row.state.encode(), FrameState)


def event_at(stream: StreamId, seq: int) -> Flow[Event | None]:
    """The event of this seq; None if there is none, or it was erased."""
    for recorded in (yield from effects.read(stream, seq - 1, 1)):
        return upcast.current(recorded) if recorded.seq == seq else None
    return None


def _settled(stream: StreamId, frame: FrameState, reservation: str) -> Flow[bool]:
    """Whether the frame had this reservation, and has it no more."""
    seq = reservation_seq(reservation)
    if not 1 <= seq <= limits.WHOLE_NUMBER or any(each.id == reservation for each in frame.reservations):
        return False
    event = yield from event_at(stream, seq)
    return isinstance(event, BudgetReserved) and event.frame == frame.id


def handle_from(scope: Scope, frame: str, source: str) -> Flow[Handle | None]:
    """What a frame has from a source."""
    where = session_where(scope) | {"frame": frame_seq(frame), "source": source}
    for row in (yield from effects.rows(HandleRow, where, None, 1)):
        return handle_of(row)
    return None


def handle_of(row: HandleRow) -> Handle:
    """A handle as its row has it: `project.with_residency` knows whether a compaction has collapsed it since."""
    return codec.decode(row.state.encode(), Handle)


def whole_tree(recorded: Recorded, event: Event) -> Flow[set[int]]:
    """All events of the tree that one of them belongs to. What lives is not erased."""
    scope = Scope.of(recorded.stream)
    named: str = getattr(event, "frame", None) or frame_id(recorded.seq)
    frame = yield from frame_in_rows(scope, named)
    if frame is None:
        return set()
    root = frame if frame.root == frame.id else (yield from frame_in_rows(scope, frame.root))
    if root is None or root.live:
        reason = f"event {recorded.seq} belongs to the frame {frame.root}, which has not ended; pop that first"
        raise InvalidContent(reason=reason)
    tree = yield from _frames_of(scope, root)
    found: set[int] = set()
    after = frame_seq(root.id) - 1
    while after < root.touched:
        page = yield from effects.read(recorded.stream, after, min(limits.READ_EVENTS, root.touched - after))
        for each in page:
            of = getattr(upcast.current(each), "frame", None) if each.type in OF_FRAMES else None
            if of in tree or (each.type in OF_FRAMES and frame_id(each.seq) in tree):
                found.add(each.seq)
        after = page[-1].seq
    return found


def _frames_of(scope: Scope, root: FrameState) -> Flow[set[str]]:
    """The frames of a tree: they were pushed while its root lived."""
    where, least, most = session_where(scope), {"frame": frame_seq(root.id)}, {"frame": root.touched}
    found: set[str] = set()
    last: FrameRow | None = None
    while page := (yield from effects.rows(FrameRow, where, last, limits.READ_EVENTS, least=least, most=most)):
        found |= {frame_id(row.frame) for row in page if state_of(row).root == root.id}
        last = page[-1]
    return found
