"""Why no command can have made an event about frames."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from holdfast.core import stack
from holdfast.core.messages import group_of
from holdfast.model import limits
from holdfast.model.events import (
    BudgetCancelled,
    BudgetCommitted,
    BudgetGranted,
    BudgetReserved,
    BudgetUsed,
    CallStarted,
    Event,
    FramePopped,
    FramePushed,
    FrameResumed,
    FrameSuspended,
    FrameUpdated,
    HandleAdded,
    HandleReplaced,
    ResultAdded,
    TokenReissued,
    TokenRevoked,
)
from holdfast.model.frames import FrameState, frame_seq
from holdfast.model.handles import handle_seq
from holdfast.model.state import SessionState

_DIGEST = re.compile(r"[0-9a-f]{64}")


def frame_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    if isinstance(event, FramePushed):
        yield from _pushed(state, event, erased)
        return
    if isinstance(event, CallStarted):
        yield from _started(state, event, erased)
    named: str | None = getattr(event, "frame", None)
    if named is None or frame_seq(named) in erased:
        return
    frame = state.frames.get(named)
    if frame is None:
        yield "what happens in a frame happens while it lives"
        return
    match event:
        case FramePopped():
            yield from _popped(state, frame, event)
        case FrameUpdated(goal=str(goal)) if not goal.strip():
            yield "a frame has a goal"
        case FrameSuspended() | FrameResumed() | TokenReissued() | TokenRevoked():
            yield from _resting(state, frame, event)
        case BudgetReserved() | BudgetCommitted() | BudgetCancelled() | BudgetUsed() | BudgetGranted():
            yield from _spent(state, frame, event)
        case HandleAdded() | HandleReplaced() | ResultAdded():
            yield from _handle(state, frame, event)


def _handle(state: SessionState, frame: FrameState, event: HandleAdded | HandleReplaced | ResultAdded) -> Iterator[str]:
    if not _is_count(event.tokens) or not _DIGEST.fullmatch(event.digest):
        yield "a handle has a number of tokens and a digest"
    if isinstance(event, ResultAdded) and (event.at != state.version or not 1 <= frame_seq(event.child) < event.at):
        yield "a result comes right after its frame has ended"
    if isinstance(event, HandleReplaced):
        yield from _replaced(state, frame, event)


def _replaced(state: SessionState, frame: FrameState, event: HandleReplaced) -> Iterator[str]:
    if not 1 <= handle_seq(event.handle) <= state.version or not frame.handles:
        yield "a handle is replaced that is there"
    if not _is_count(event.size):
        yield "a handle has a size"
    if (event.content is None) == (event.at > state.version) or not 1 <= event.at <= state.version + 1:
        yield "a handle says where its content is"
    if event.residency == "resident" and (event.ref is not None or event.tier is not None):
        yield "a handle is in one place"


def _is_count(number: int) -> bool:
    return 0 <= number <= limits.WHOLE_NUMBER


def _pushed(state: SessionState, event: FramePushed, erased: Collection[int]) -> Iterator[str]:
    if not event.goal.strip() or not _is_count(event.budget):
        yield "a frame has a goal and a budget"
    bounds = (event.limits.max_subframe_depth, event.limits.max_tool_calls or 0, event.limits.timeout_us or 0)
    if not all(map(_is_count, bounds)) or not _is_count(event.deadline_us or 0) or bounds[0] > limits.FRAME_DEPTH:
        yield "limits are numbers"
    if event.parent is None or frame_seq(event.parent) in erased:
        return
    parent = state.frames.get(event.parent)
    if parent is None or parent.suspension is not None:
        yield "a parent lives, and does not rest"
        return
    if event.budget > parent.budget.available or parent.budget.overdrawn:
        yield "a parent grants what it has"
    if parent.depth >= parent.limits.max_subframe_depth or not stack.narrower(event.limits, parent.limits):
        yield "limits are never wider than above, and are kept"
    if parent.deadline_us is not None and (event.deadline_us is None or event.deadline_us > parent.deadline_us):
        yield "a frame does not last longer than the one above"


def _popped(state: SessionState, frame: FrameState, event: FramePopped) -> Iterator[str]:
    inner = stack.below(state.frames, frame.id)
    if event.cascade != tuple(each.id for each in inner):
        yield "a frame ends with all that lives below it, the deepest first"
    if event.used != min(frame.budget.used + sum(each.budget.used for each in inner), limits.WHOLE_NUMBER):
        yield "what a frame used is what it and those below it used"


def _resting(
    state: SessionState, frame: FrameState, event: FrameSuspended | FrameResumed | TokenReissued | TokenRevoked
) -> Iterator[str]:
    rest = frame.suspension
    if isinstance(event, FrameSuspended):
        inner = {each.id for each in stack.below(state.frames, frame.id) if each.suspension is None}
        if rest is not None or not {*event.cascade} <= inner:
            yield "a frame is suspended once"
    elif rest is None or rest.holder != frame.id:
        yield "a token belongs to a frame that rests"
    elif isinstance(event, FrameResumed | TokenRevoked) and rest.revoked:
        yield "a token that is void wakes nothing"
    if isinstance(event, FrameSuspended | TokenReissued):
        if not _DIGEST.fullmatch(event.digest):
            yield "a token is stored as a digest"
        if not _is_count(event.expires_us or 0):
            yield "a token expires at a time that a clock can tell"
    if isinstance(event, FrameSuspended | TokenRevoked) and not event.reason.strip():
        yield "a frame rests, and a token is taken back, for a reason"


def _spent(
    state: SessionState,
    frame: FrameState,
    event: BudgetReserved | BudgetCommitted | BudgetCancelled | BudgetUsed | BudgetGranted,
) -> Iterator[str]:
    if isinstance(event, BudgetReserved | BudgetGranted):
        giver = frame if isinstance(event, BudgetReserved) else state.frames.get(frame.parent or "")
        if not _is_count(event.amount) or (giver is not None and not _gives(giver, event.amount)):
            yield "a budget gives what it has"
        if isinstance(event, BudgetReserved) and not event.purpose:
            yield "a reservation has a purpose"
        if isinstance(event, BudgetGranted) and not _is_count(frame.budget.total + event.amount):
            yield "a budget is a number"
        return
    if isinstance(event, BudgetCommitted | BudgetUsed) and not _is_count(event.tokens):
        yield "what was used is a number of tokens"
    if not isinstance(event, BudgetUsed) and all(each.id != event.reservation for each in frame.reservations):
        yield "a reservation is settled once"


def _gives(frame: FrameState, amount: int) -> bool:
    budget = frame.budget
    return amount <= budget.available and not budget.overdrawn and frame.suspension is None


def _started(state: SessionState, event: CallStarted, erased: Collection[int]) -> Iterator[str]:
    if group_of(event.call) in erased:
        return
    for call in state.open_calls:
        if call.id == event.call:
            if event.attempt != call.attempts + 1 or (call.key or event.key) != event.key or not event.key:
                yield "a call is started under one key, and counted"
            if (call.frame or event.frame) != event.frame:
                yield "a call is started in the frame that it was made in"
            return
    yield "a call is started while it waits"
