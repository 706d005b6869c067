"""The frames of a session after an event.

Laws: a frame ends once, and its grant is settled in the same step. No frame is live below one that has ended. The tokens
used by a parent include those of all ended frames below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.frames.stack import (
    FrameMap,
    find_descendants,
    sort_by_age,
)
from holdfast.core.sessions.messages import extend_positions
from holdfast.model import limits
from holdfast.model.content import Body, Data, Opaque, Text, text_of
from holdfast.model.events import OFFLOAD_EVENTS, Event
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
from holdfast.model.frames.frames import (
    Budget,
    Ending,
    FrameState,
    FrameStatus,
    Reservation,
    Suspension,
    frame_id,
    reservation_id,
)
from holdfast.model.history.events import HandleAdded, HandleReplaced, MessagesRestored, MessagesWithdrawn
from holdfast.model.packs.events import PackRecorded
from holdfast.model.sessions.events import CallStarted, MessageRecorded
from holdfast.model.situation.events import ActionRecorded, SituationUpdated
from holdfast.text.questions import is_question

_READABLE_PARTS = (Text, Data, Body)
"""Parts with text; of a long body, an event has only the beginning."""


def is_question_open(before: bool, event: MessageRecorded) -> bool:
    """Whether a question of the assistant is open after this message: the reply ends with one and calls no tool. A system
    message, or a reply without text, leaves it as it was `before`."""
    if event.role == "system" or event.skipped or _has_no_text(event):
        return before
    if event.role != "assistant" or event.tool_calls:
        return False
    last = next((part for part in reversed(event.content) if isinstance(part, _READABLE_PARTS)), None)
    return isinstance(last, Text) and is_question(text_of(event.content, ""))


def _has_no_text(event: MessageRecorded) -> bool:
    """Whether the event is a reply without any text."""
    if event.role != "assistant" or event.tool_calls:
        return False
    return all(isinstance(part, Opaque) or (isinstance(part, Text) and not part.text.strip()) for part in event.content)


def add_failures(before: tuple[str, ...], event: MessageRecorded) -> tuple[str, ...]:
    """The calls that failed since the last reply, after one more message."""
    if event.role == "assistant":
        return ()
    if not event.tool_results:
        return before
    failed = (result.tool_call_id for result in event.tool_results if result.is_error)
    return (*before, *failed)[-limits.ERRORS_KEPT :]


def fold_frames(
    frames: FrameMap, event: Event | None, event_type: str, seq: int, time_us: int
) -> dict[str, FrameState]:
    """The frames that an event changes, as they are after it, including those that it ends."""
    if event_type in OFFLOAD_EVENTS:
        return _cancel_all(frames, seq, time_us) if frames else {}
    if isinstance(event, FramePushed):
        return _push(frames, event, seq, time_us)
    name = getattr(event, "frame", None)
    if name is None or name not in frames:
        return {}
    steps = _FrameChanges(frames, seq, time_us)
    match event:
        case FramePopped():
            _pop(steps, event)
        case FrameSuspended():
            _suspend(steps, event)
        case FrameResumed():
            _resume(steps, event)
        case BudgetGranted():
            _grant(steps, event)
        case BudgetReserved() | BudgetCommitted() | BudgetCancelled() | BudgetUsed():
            _spend(steps, event)
        case _:
            _update(steps, event, name)
    return steps.changed


class _FrameChanges:
    """The changes of frames by one event."""

    def __init__(self, frames: FrameMap, seq: int, time_us: int) -> None:
        self.frames = frames
        self.seq = seq
        self.time_us = time_us
        self.changed: dict[str, FrameState] = {}

    def get(self, frame: str | None) -> FrameState | None:
        if frame is None:
            return None
        return self.changed.get(frame) or self.frames.get(frame)

    def change(self, frame: FrameState, **fields: Any) -> None:
        self.changed[frame.id] = msgspec.structs.replace(frame, touched=self.seq, **fields)

    def end(self, frame: FrameState, status: Ending) -> None:
        """End a frame: its reservations are void, and its parent gets back the rest of the grant."""
        budget = msgspec.structs.replace(frame.budget, reserved=0, delegated=0)
        self.change(
            frame,
            status=status,
            budget=budget,
            reservations=(),
            completed_us=self.time_us,
            deadline_us=None,
            suspension=None,
            children=0,
        )
        parent = self.get(frame.parent)
        if parent is not None:
            self._return_budget(parent, frame, failed=status == "failed")

    def _return_budget(self, parent: FrameState, child: FrameState, *, failed: bool) -> None:
        budget = parent.budget
        children = parent.children - 1
        self.change(
            parent,
            budget=msgspec.structs.replace(
                budget,
                delegated=budget.delegated - child.budget.total,
                used=_add_tokens(budget.used, child.budget.used),
            ),
            below=parent.below + child.usage + child.below,
            children=children,
            status=_status_for(parent.suspension, children),
            errors=(*parent.errors, child.id)[-limits.ERRORS_KEPT :] if failed else parent.errors,
        )


def _add_tokens(one: int, other: int) -> int:
    return min(one + other, limits.WHOLE_NUMBER)


def _status_for(suspension: Suspension | None, children: int) -> FrameStatus:
    if suspension is not None:
        return "suspended"
    return "waiting" if children else "active"


def _push(frames: FrameMap, event: FramePushed, seq: int, time_us: int) -> dict[str, FrameState]:
    new = frame_id(seq)
    parent = frames.get(event.parent) if event.parent is not None else None
    if event.parent is not None and parent is None:
        return {}  # its parent was erased
    changed: dict[str, FrameState] = {
        new: FrameState(
            id=new,
            parent=event.parent,
            root=new if parent is None else parent.root,
            goal=event.goal,
            depth=0 if parent is None else parent.depth + 1,
            budget=Budget(event.budget),
            limits=event.limits,
            created_us=time_us,
            deadline_us=event.deadline_us,
            touched=seq,
            inputs_at=seq,
        )
    }
    if parent is not None:
        budget = msgspec.structs.replace(parent.budget, delegated=parent.budget.delegated + event.budget)
        children = parent.children + 1
        changed[parent.id] = msgspec.structs.replace(
            parent, budget=budget, children=children, status=_status_for(parent.suspension, children), errors=()
        )
    return changed


def _cancel_all(frames: FrameMap, seq: int, time_us: int) -> dict[str, FrameState]:
    """Cancel all frames: their conversation has ended."""
    steps = _FrameChanges(frames, seq, time_us)
    for frame in reversed(sort_by_age(frames)):
        steps.end(steps.get(frame.id) or frame, "cancelled")
    return steps.changed


def _pop(steps: _FrameChanges, event: FramePopped) -> None:
    for each in (*event.cascade, event.frame):
        frame = steps.get(each)
        if frame is not None and frame.is_live:
            steps.end(frame, event.status if each == event.frame else "cancelled")


def _suspend(steps: _FrameChanges, event: FrameSuspended) -> None:
    for each in (event.frame, *event.cascade):
        frame = steps.get(each)
        if frame is None or frame.suspension is not None:
            continue
        left = None if frame.deadline_us is None else max(0, frame.deadline_us - steps.time_us)
        is_holder = each == event.frame
        suspension = Suspension(
            reason=event.reason,
            by=event.by,
            at_us=steps.time_us,
            holder=event.frame,
            digest=event.digest if is_holder else "",
            expires_us=event.expires_us if is_holder else None,
            resumable_by=event.resumable_by if is_holder else (),
            remaining_us=left,
        )
        steps.change(frame, suspension=suspension, status="suspended", deadline_us=None)


def _resume(steps: _FrameChanges, event: FrameResumed) -> None:
    """Resume the frame, and all below it that were suspended with it. Parents come first: no frame below one has a later
    deadline than it."""
    frames = steps.frames
    for frame in (frames[event.frame], *reversed(find_descendants(frames, event.frame))):
        suspension = frame.suspension
        if suspension is not None and suspension.holder != event.frame:
            continue
        deadline = frame.deadline_us
        if suspension is not None and suspension.remaining_us is not None:
            deadline = steps.time_us + suspension.remaining_us
        parent = steps.get(frame.parent)
        if parent is not None and parent.deadline_us is not None:
            deadline = parent.deadline_us if deadline is None else min(deadline, parent.deadline_us)
        if suspension is not None:
            steps.change(frame, suspension=None, status=_status_for(None, frame.children), deadline_us=deadline)
        elif deadline != frame.deadline_us:
            steps.changed[frame.id] = msgspec.structs.replace(frame, deadline_us=deadline)


def _grant(steps: _FrameChanges, event: BudgetGranted) -> None:
    frame = steps.frames[event.frame]
    steps.change(frame, budget=msgspec.structs.replace(frame.budget, total=frame.budget.total + event.amount))
    parent = steps.get(frame.parent)
    if parent is not None:
        more = msgspec.structs.replace(parent.budget, delegated=parent.budget.delegated + event.amount)
        steps.changed[parent.id] = msgspec.structs.replace(parent, budget=more)


def _spend(steps: _FrameChanges, event: BudgetReserved | BudgetCommitted | BudgetCancelled | BudgetUsed) -> None:
    frame = steps.frames[event.frame]
    budget, reservations = frame.budget, frame.reservations
    used = event.tokens if isinstance(event, BudgetCommitted | BudgetUsed) else 0
    usage = event.usage if isinstance(event, BudgetCommitted | BudgetUsed) else None
    if isinstance(event, BudgetReserved):
        reservations = (*reservations, Reservation(reservation_id(steps.seq), event.purpose, event.amount))
    elif not isinstance(event, BudgetUsed):
        reservations = tuple(each for each in reservations if each.id != event.reservation)
    budget = msgspec.structs.replace(
        budget, used=_add_tokens(budget.used, used), reserved=sum(each.amount for each in reservations)
    )
    steps.change(
        frame, budget=budget, reservations=reservations, usage=frame.usage if usage is None else frame.usage + usage
    )


def _update(steps: _FrameChanges, event: Event | None, name: str) -> None:
    frame = steps.frames[name]
    match event:
        case FrameUpdated():
            steps.change(
                frame,
                goal=frame.goal if event.goal is None else event.goal,
                inputs_at=frame.inputs_at if event.inputs is None else steps.seq,
                context_hash=event.context_hash or frame.context_hash,
            )
        case MessageRecorded():
            counts = event.role != "system" and not event.skipped
            steps.change(
                frame,
                asks=is_question_open(frame.asks, event),
                errors=frame.errors if event.skipped else add_failures(frame.errors, event),
                messages=frame.messages + counts,
                spoken=extend_positions(frame.spoken, steps.seq) if counts else frame.spoken,
            )
        case MessagesWithdrawn() | MessagesRestored():
            more = event.change.messages if isinstance(event, MessagesRestored) else -event.change.messages
            change = event.change
            steps.change(frame, messages=max(0, frame.messages + more), asks=change.asks, errors=change.errors)
        case PackRecorded():
            steps.change(frame, context_hash=event.context_hash)
        case CallStarted():
            steps.change(frame, tool_calls=frame.tool_calls + 1)
        case HandleAdded():
            steps.change(frame, handles=frame.handles + 1)
        case ResultAdded():
            steps.change(frame, handles=frame.handles + 1, results=frame.results + 1)
        case HandleReplaced() | SituationUpdated() | ActionRecorded():
            steps.change(frame)
        case TokenReissued() | TokenRevoked():
            _change_token(steps, frame, event)


def _change_token(steps: _FrameChanges, frame: FrameState, event: TokenReissued | TokenRevoked) -> None:
    suspension = frame.suspension
    if suspension is None:
        return
    if isinstance(event, TokenReissued):
        suspension = msgspec.structs.replace(
            suspension, digest=event.digest, expires_us=event.expires_us, revoked=False
        )
    else:
        suspension = msgspec.structs.replace(suspension, revoked=True)
    steps.changed[frame.id] = msgspec.structs.replace(frame, suspension=suspension)


def apply_changes(frames: FrameMap, changed: Mapping[str, FrameState]) -> tuple[dict[str, FrameState], int, int]:
    """The live frames after these changes, how many more are suspended, and how many bytes longer their texts are."""
    after = dict(frames)
    resting = more = 0
    for name, frame in changed.items():
        before = after.pop(name) if not frame.is_live and name in after else after.get(name)
        if before is not None and frame.is_live and _has_same_texts(before, frame):
            after[name] = frame
            continue
        if before is not None:
            resting -= before.suspension is not None
            more -= _text_size(before)
        if frame.is_live:
            after[name] = frame
            resting += frame.suspension is not None
            more += _text_size(frame)
    return after, resting, more


def _has_same_texts(before: FrameState, after: FrameState) -> bool:
    return (
        before.goal is after.goal
        and before.suspension is after.suspension
        and before.reservations is after.reservations
        and before.errors is after.errors
    )


def _text_size(frame: FrameState) -> int:
    """The approximate size of the texts of a frame, in quarters of their bytes in memory."""
    suspension = frame.suspension
    texts = () if suspension is None else (suspension.reason, *suspension.resumable_by)
    reserved = sum(len(each.purpose) + 48 for each in frame.reservations)
    return len(frame.goal) + reserved + sum(len(each) + 16 for each in (*texts, *frame.errors))
