"""The pending work of a session, found from its state."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.frames.stack import format_ids, group_by_parent, sort_by_age
from holdfast.core.sessions.turns import find_running_lease
from holdfast.model.frames.frames import FrameState, PendingWork
from holdfast.model.state import OpenCall, SessionState


def find_pending_work(state: SessionState, now_us: int, turn: int = 0) -> list[PendingWork]:
    """The pending work: of frames, oldest first; then of the session outside of frames; then tool calls. `turn` is the
    number of the caller's own turn."""
    children = group_by_parent(state.frames)
    pending: list[PendingWork] = []
    for frame in sort_by_age(state.frames):
        if frame.children:
            what = f"'{frame.goal}' waits for {format_ids(children[frame.id])}"
            pending.append(PendingWork(kind="waiting_for_subcall", frame=frame.id, description=what))
        pending += _suspension_work(frame)
        pending += _failure_work(frame.id, frame.errors)
    if state.asks:
        pending.append(PendingWork(kind="waiting_for_user", description="the assistant asked, and nobody answered"))
    pending += _failure_work(None, state.errors)
    pending += (_call_work(state, call, now_us, turn) for call in state.open_calls)
    return pending


def _suspension_work(frame: FrameState) -> Iterator[PendingWork]:
    suspension = frame.suspension
    if suspension is not None and suspension.holder == frame.id:
        what = f"'{frame.goal}' is suspended: {suspension.reason}"
        yield PendingWork(kind="waiting_for_user", frame=frame.id, description=what)
    elif suspension is None and frame.asks and not frame.children:
        what = f"in '{frame.goal}' the assistant asked, and nobody answered"
        yield PendingWork(kind="waiting_for_user", frame=frame.id, description=what)


def _failure_work(frame: str | None, errors: tuple[str, ...]) -> Iterator[PendingWork]:
    for each in errors:
        what = f"{each} failed, and the model has not seen it"
        yield PendingWork(
            kind="unhandled_error", frame=frame, description=what, call=each if each.startswith("c") else None
        )


def _call_work(state: SessionState, call: OpenCall, now_us: int, turn: int) -> PendingWork:
    running = find_running_lease(state, call, now_us)
    if running is not None and running.number != turn:
        what = f"{call.name} is running in the turn of {running.owner}"
        return PendingWork(kind="tool_running", frame=call.frame, description=what, call=call.id, key=call.key)
    if call.attempts:
        what = f"{call.name} was started and has no result: its outcome is unknown"
        return PendingWork(kind="tool_in_progress", frame=call.frame, description=what, call=call.id, key=call.key)
    what = f"{call.name} was called for and not started"
    return PendingWork(kind="tool_not_started", frame=call.frame, description=what, call=call.id)
