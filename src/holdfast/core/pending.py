"""What a session has left to do, told from its state alone."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core import stack
from holdfast.model.frames import FrameState, Pending
from holdfast.model.state import OpenCall, SessionState


def found(state: SessionState) -> list[Pending]:
    """Frames come in the order of their age, what is outside of all of them last, and the tool calls at the end."""
    children = stack.children_of(state.frames)
    pending: list[Pending] = []
    for frame in stack.by_age(state.frames):
        if frame.children:
            what = f"'{frame.goal}' waits for {stack.names(children[frame.id])}"
            pending.append(Pending(kind="waiting_for_subcall", frame=frame.id, description=what))
        pending += _resting(frame)
        pending += _failed(frame.id, frame.errors)
    if state.asks:
        pending.append(Pending(kind="waiting_for_user", description="the assistant asked, and nobody answered"))
    pending += _failed(None, state.errors)
    pending += map(_call, state.open_calls)
    return pending


def _resting(frame: FrameState) -> Iterator[Pending]:
    rest = frame.suspension
    if rest is not None and rest.holder == frame.id:
        what = f"'{frame.goal}' is suspended: {rest.reason}"
        yield Pending(kind="waiting_for_user", frame=frame.id, description=what)
    elif rest is None and frame.asks and not frame.children:
        what = f"in '{frame.goal}' the assistant asked, and nobody answered"
        yield Pending(kind="waiting_for_user", frame=frame.id, description=what)


def _failed(frame: str | None, errors: tuple[str, ...]) -> Iterator[Pending]:
    for each in errors:
        what = f"{each} failed, and the model has not been told"
        yield Pending(
            kind="unhandled_error", frame=frame, description=what, call=each if each.startswith("c") else None
        )


def _call(call: OpenCall) -> Pending:
    if call.attempts:
        what = f"{call.name} was started and has no result: its outcome is unknown"
        return Pending(kind="tool_in_progress", frame=call.frame, description=what, call=call.id, key=call.key)
    what = f"{call.name} was called for and not started"
    return Pending(kind="tool_not_started", frame=call.frame, description=what, call=call.id)
