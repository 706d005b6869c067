"""Faults of events about frames: why no command can have made an event."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from holdfast.core.frames.stack import find_descendants, is_narrower
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.events import Event
from holdfast.model.frames.events import (
    BudgetCancelled,
    BudgetCommitted,
    BudgetGranted,
    BudgetReserved,
    BudgetUsed,
    FramePopped,
    FramePushed,
    FrameResumed,
    FrameSuspended,
    FrameUpdated,
    ResultAdded,
    TokenReissued,
    TokenRevoked,
)
from holdfast.model.frames.frames import FrameState, frame_seq
from holdfast.model.history.events import HandleAdded, HandleReplaced
from holdfast.model.history.handles import handle_seq
from holdfast.model.sessions.events import CallStarted
from holdfast.model.state import SessionState

_DIGEST = re.compile(r"[0-9a-f]{64}")


def frame_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    if isinstance(event, FramePushed):
        yield from _push_faults(state, event, erased)
        return
    if isinstance(event, CallStarted):
        yield from _start_faults(state, event, erased)
    name: str | None = getattr(event, "frame", None)
    if name is None or frame_seq(name) in erased:
        return
    frame = state.frames.get(name)
    if frame is None:
        yield "events of a frame come while it is live"
        return
    match event:
        case FramePopped():
            yield from _pop_faults(state, frame, event)
        case FrameUpdated(goal=str(goal)) if not goal.strip():
            yield "a frame has a goal"
        case FrameSuspended() | FrameResumed() | TokenReissued() | TokenRevoked():
            yield from _suspension_faults(state, frame, event)
        case BudgetReserved() | BudgetCommitted() | BudgetCancelled() | BudgetUsed() | BudgetGranted():
            yield from _budget_faults(state, frame, event)
        case HandleAdded() | HandleReplaced() | ResultAdded():
            yield from _handle_faults(state, frame, event)


def _handle_faults(
    state: SessionState, frame: FrameState, event: HandleAdded | HandleReplaced | ResultAdded
) -> Iterator[str]:
    if not _is_count(event.tokens) or not _DIGEST.fullmatch(event.digest):
        yield "a handle has a number of tokens and a digest"
    if isinstance(event, ResultAdded) and (event.at != state.version or not 1 <= frame_seq(event.child) < event.at):
        yield "a result comes right after its frame has ended"
    if isinstance(event, HandleReplaced):
        yield from _replacement_faults(state, frame, event)


def _replacement_faults(state: SessionState, frame: FrameState, event: HandleReplaced) -> Iterator[str]:
    if not 1 <= handle_seq(event.handle) <= state.version or not frame.handles:
        yield "a replaced handle exists"
    if not _is_count(event.size):
        yield "a handle has a size"
    if (event.content is None) == (event.at > state.version) or not 1 <= event.at <= state.version + 1:
        yield "a handle says where its content is"
    if event.residency == "resident" and (event.ref is not None or event.tier is not None):
        yield "a resident handle has no reference and no tier"


def _is_count(number: int) -> bool:
    return 0 <= number <= limits.WHOLE_NUMBER


def _push_faults(state: SessionState, event: FramePushed, erased: Collection[int]) -> Iterator[str]:
    if not event.goal.strip() or not _is_count(event.budget):
        yield "a frame has a goal and a budget"
    bounds = (event.limits.max_subframe_depth, event.limits.max_tool_calls or 0, event.limits.timeout_us or 0)
    if not all(map(_is_count, bounds)) or not _is_count(event.deadline_us or 0) or bounds[0] > limits.FRAME_DEPTH:
        yield "limits are numbers"
    if event.parent is None or frame_seq(event.parent) in erased:
        return
    parent = state.frames.get(event.parent)
    if parent is None or parent.suspension is not None:
        yield "a parent is live and not suspended"
        return
    if event.budget > parent.budget.available or parent.budget.is_overdrawn:
        yield "a parent grants at most its available tokens"
    if parent.depth >= parent.limits.max_subframe_depth or not is_narrower(event.limits, parent.limits):
        yield "limits are not wider than those of the parent, and are respected"
    if parent.deadline_us is not None and (event.deadline_us is None or event.deadline_us > parent.deadline_us):
        yield "a frame does not outlast its parent"


def _pop_faults(state: SessionState, frame: FrameState, event: FramePopped) -> Iterator[str]:
    inner = find_descendants(state.frames, frame.id)
    if event.cascade != tuple(each.id for each in inner):
        yield "a frame ends with all live frames below it, the deepest first"
    if event.used != min(frame.budget.used + sum(each.budget.used for each in inner), limits.WHOLE_NUMBER):
        yield "the tokens used by a frame include those of the frames below it"


def _suspension_faults(
    state: SessionState, frame: FrameState, event: FrameSuspended | FrameResumed | TokenReissued | TokenRevoked
) -> Iterator[str]:
    suspension = frame.suspension
    if isinstance(event, FrameSuspended):
        inner = {each.id for each in find_descendants(state.frames, frame.id) if each.suspension is None}
        if suspension is not None or not {*event.cascade} <= inner:
            yield "a frame is suspended once"
    elif suspension is None or suspension.holder != frame.id:
        yield "a token belongs to a suspended frame"
    elif isinstance(event, FrameResumed | TokenRevoked) and suspension.revoked:
        yield "a void token resumes nothing"
    if isinstance(event, FrameSuspended | TokenReissued):
        if not _DIGEST.fullmatch(event.digest):
            yield "a token is stored as a digest"
        if not _is_count(event.expires_us or 0):
            yield "the expiry of a token is in range"
    if isinstance(event, FrameSuspended | TokenRevoked) and not event.reason.strip():
        yield "a suspension and a revocation have a reason"


def _budget_faults(
    state: SessionState,
    frame: FrameState,
    event: BudgetReserved | BudgetCommitted | BudgetCancelled | BudgetUsed | BudgetGranted,
) -> Iterator[str]:
    if isinstance(event, BudgetReserved | BudgetGranted):
        source = frame if isinstance(event, BudgetReserved) else state.frames.get(frame.parent or "")
        if not _is_count(event.amount) or (source is not None and not _can_give(source, event.amount)):
            yield "a budget gives at most its available tokens"
        if isinstance(event, BudgetReserved) and not event.purpose:
            yield "a reservation has a purpose"
        if isinstance(event, BudgetGranted) and not _is_count(frame.budget.total + event.amount):
            yield "a budget is a number"
        return
    if isinstance(event, BudgetCommitted | BudgetUsed) and not _is_count(event.tokens):
        yield "the usage is a number of tokens"
    if not isinstance(event, BudgetUsed) and all(each.id != event.reservation for each in frame.reservations):
        yield "a reservation is settled once"


def _can_give(frame: FrameState, amount: int) -> bool:
    budget = frame.budget
    return amount <= budget.available and not budget.is_overdrawn and frame.suspension is None


def _start_faults(state: SessionState, event: CallStarted, erased: Collection[int]) -> Iterator[str]:
    if calling_seq(event.call) in erased:
        return
    for call in state.open_calls:
        if call.id == event.call:
            if event.attempt != call.attempts + 1 or (call.key or event.key) != event.key or not event.key:
                yield "a call is started under one key, and its attempts are counted"
            if (call.frame or event.frame) != event.frame:
                yield "a call is started in its own frame"
            return
    yield "a started call is open"
