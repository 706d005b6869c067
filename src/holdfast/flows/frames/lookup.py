"""The input of a decision about frames: ended frames, tokens and handles, read from their rows."""

from __future__ import annotations

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.project import apply_collapse
from holdfast.core.sessions.messages import find_open_call
from holdfast.errors import InvalidArgument
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.events import FRAME_EVENTS, Event
from holdfast.model.frames.commands import CancelTokens, CommitTokens, PopFrame, PushFrame, ResumeFrame
from holdfast.model.frames.events import BudgetReserved, FramePopped
from holdfast.model.frames.frames import FrameState, frame_id, frame_seq, reservation_seq
from holdfast.model.history.commands import AddHandle, ReplaceHandle
from holdfast.model.history.handles import Handle, handle_seq
from holdfast.model.inputs import DecisionInput, FrameInput, HandleInput
from holdfast.model.log import StoredEvent
from holdfast.model.names import Scope, StreamId
from holdfast.model.rows import FrameRow, HandleRow, TokenRow
from holdfast.model.sessions.commands import RecordMessages, StartCall
from holdfast.model.state import SessionState


def session_filter(scope: Scope) -> dict[str, str | int]:
    """The columns that select the rows of one session."""
    return {**scope.columns}


def complete_frame_input(command: SessionCommand, inputs: DecisionInput, state: SessionState) -> Flow[DecisionInput]:
    """The input with the frame, reservation, handle or token that the command names and the state does not have."""
    frame = yield from _find_frame_input(command, inputs.frame, state)
    handle = yield from _find_handle_input(command, state)
    if frame is inputs.frame and handle is None:
        return inputs
    return msgspec.structs.replace(inputs, frame=frame, handle=handle)


def _find_frame_input(command: SessionCommand, inputs: FrameInput, state: SessionState) -> Flow[FrameInput]:
    name = _target_frame(command, state)
    if name is not None and name not in state.frames:
        ended = yield from find_stored_frame(command.scope, name)
        inputs = msgspec.structs.replace(inputs, ended_frame=ended)
        if ended is not None and isinstance(command, PopFrame):
            event = yield from read_event(command.scope.stream, ended.touched)
            if isinstance(event, FramePopped) and event.frame == name:
                inputs = msgspec.structs.replace(inputs, pop_event=event)
    if isinstance(command, RecordMessages | CommitTokens | CancelTokens) and command.reservation is not None:
        frame = state.frames.get(name or "")
        if frame is not None and (yield from _is_settled(command.scope.stream, frame, command.reservation)):
            inputs = msgspec.structs.replace(inputs, is_settled=True)
    if isinstance(command, ResumeFrame):
        token = yield from find_token_row(command.scope.tenant, command.digest)
        inputs = msgspec.structs.replace(inputs, token=token)
    return inputs


def _find_handle_input(command: SessionCommand, state: SessionState) -> Flow[HandleInput | None]:
    if isinstance(command, AddHandle) and command.source is not None:
        row = yield from find_handle_row(command.scope, frame=frame_seq(command.frame), source=command.source)
        return None if row is None else HandleInput(decode_handle(row))
    if isinstance(command, ReplaceHandle):
        row = yield from find_handle_row(command.scope, handle=handle_seq(command.handle))
        if row is not None:
            handle = apply_collapse(decode_handle(row), dict(state.view(command.frame).left_out))
            return HandleInput(handle, row.result)
    return None


def find_token_row(tenant: str, digest: str) -> Flow[TokenRow | None]:
    for row in (yield from effects.rows(TokenRow, {"tenant": tenant, "digest": digest}, None, 1)):
        return row
    return None


def _target_frame(command: SessionCommand, state: SessionState) -> str | None:
    """The frame that a command is about."""
    if isinstance(command, PushFrame):
        return command.parent
    if isinstance(command, StartCall):
        call = find_open_call(state, command.call, command.frame)
        return (call.frame if call is not None else None) or command.frame
    frame: str | None = getattr(command, "frame", None)
    return frame


def find_stored_frame(scope: Scope, frame: str) -> Flow[FrameState | None]:
    """A frame from its row; None if there is no such frame."""
    where = session_filter(scope) | {"frame": frame_seq(frame)}
    for row in (yield from effects.rows(FrameRow, where, None, 1)):
        return decode_frame(row)
    return None


def decode_frame(row: FrameRow) -> FrameState:
    return codec.decode(row.state.encode(), FrameState)


def read_event(stream: StreamId, seq: int) -> Flow[Event | None]:
    """The event of this seq; None if there is none, or it was erased."""
    for recorded in (yield from effects.read(stream, seq - 1, 1)):
        return upcast.decode_event(recorded) if recorded.seq == seq else None
    return None


def _is_settled(stream: StreamId, frame: FrameState, reservation: str) -> Flow[bool]:
    """Whether the frame had this reservation, and it has ended."""
    seq = reservation_seq(reservation)
    if not 1 <= seq <= limits.WHOLE_NUMBER or any(each.id == reservation for each in frame.reservations):
        return False
    event = yield from read_event(stream, seq)
    return isinstance(event, BudgetReserved) and event.frame == frame.id


def find_handle_row(scope: Scope, **columns: str | int) -> Flow[HandleRow | None]:
    """The row of the handle with these columns; None if there is none."""
    for row in (yield from effects.rows(HandleRow, session_filter(scope) | columns, None, 1)):
        return row
    return None


def decode_handle(row: HandleRow) -> Handle:
    """A handle from its row; `project.apply_collapse` adds the effect of a later compaction."""
    return codec.decode(row.state.encode(), Handle)


def find_tree_events(stream: StreamId, recorded: StoredEvent, event: Event) -> Flow[set[int]]:
    """All events of the frame tree of one event. A live tree is not erased."""
    scope = Scope.from_stream(stream)
    name: str = getattr(event, "frame", None) or frame_id(recorded.seq)
    frame = yield from find_stored_frame(scope, name)
    if frame is None:
        return set()
    root = frame if frame.root == frame.id else (yield from find_stored_frame(scope, frame.root))
    if root is None or root.is_live:
        reason = f"event {recorded.seq} belongs to the frame {frame.root}, which has not ended; pop that frame first"
        raise InvalidArgument(argument="seqs", reason=reason)
    tree = yield from _find_tree_frames(scope, root)
    seqs: set[int] = set()
    after = frame_seq(root.id) - 1
    while after < root.touched:
        page = yield from effects.read(stream, after, min(limits.READ_EVENTS, root.touched - after))
        for each in page:
            of = getattr(upcast.decode_event(each), "frame", None) if each.type in FRAME_EVENTS else None
            if of in tree or (each.type in FRAME_EVENTS and frame_id(each.seq) in tree):
                seqs.add(each.seq)
        after = page[-1].seq
    return seqs


def _find_tree_frames(scope: Scope, root: FrameState) -> Flow[set[str]]:
    """The frames of a tree: they were pushed while its root was live."""
    where, least, most = session_filter(scope), {"frame": frame_seq(root.id)}, {"frame": root.touched}
    frames: set[str] = set()
    last: FrameRow | None = None
    while page := (yield from effects.rows(FrameRow, where, last, limits.READ_EVENTS, least=least, most=most)):
        frames |= {frame_id(row.frame) for row in page if decode_frame(row).root == root.id}
        last = page[-1]
    return frames
