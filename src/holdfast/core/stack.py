"""The frames of a session: how they stand to each other, and what an event makes of them.

Laws: a grant is settled in the same step in which its frame ends, and a frame ends once; no frame lives below one that has
ended; what a parent has used is what it and all ended frames below it have used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.core.messages import heard
from holdfast.core.questions import is_question
from holdfast.model import limits
from holdfast.model.content import Body, Data, Opaque, Part, Text, text_of
from holdfast.model.events import (
    OFFLOADING,
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
    MessageRecorded,
    ResultAdded,
    TokenReissued,
    TokenRevoked,
)
from holdfast.model.frames import (
    Budget,
    Ending,
    FrameState,
    FrameStatus,
    Limits,
    Reservation,
    Suspension,
    frame_id,
    frame_seq,
    reservation_id,
)
from holdfast.model.situation import ActionRecorded, SituationUpdated
from holdfast.model.view_events import PackRecorded

Frames: TypeAlias = Mapping[str, FrameState]

_NAMED = 10
_READ = (Text, Data, Body)
"""Parts that there is something to read in; of a long body, an event has only the beginning."""


def by_age(frames: Frames) -> list[FrameState]:
    """The oldest first; a parent always comes before its children."""
    return sorted(frames.values(), key=lambda frame: (len(frame.id), frame.id))


def children_of(frames: Frames) -> dict[str | None, list[FrameState]]:
    """The live frames by their parents."""
    found: dict[str | None, list[FrameState]] = {}
    for frame in by_age(frames):
        found.setdefault(frame.parent, []).append(frame)
    return found


def names(frames: Sequence[FrameState]) -> str:
    """A few of them by their ids, for people to read."""
    more = f" and {len(frames) - _NAMED} more" if len(frames) > _NAMED else ""
    return ", ".join(each.id for each in frames[:_NAMED]) + more


def below(frames: Frames, frame: str) -> list[FrameState]:
    """All live frames below one, the deepest first."""
    if not frames[frame].children:
        return []
    children = children_of(frames)
    found: list[FrameState] = []
    level = children.get(frame, [])
    while level:
        found += level
        level = [child for each in level for child in children.get(each.id, [])]
    return found[::-1]


def all_rest(frames: Frames, frame: str) -> bool:
    """Whether a frame waits, and for nothing but frames that are suspended."""
    inner = below(frames, frame)
    return bool(inner) and all(each.suspension is not None or each.children for each in inner)


def ancestry(frames: Frames, frame: str) -> list[FrameState]:
    """From the root to this frame."""
    found: list[FrameState] = []
    at: str | None = frame
    while at is not None and at in frames:
        found.append(frames[at])
        at = frames[at].parent
    return found[::-1]


def top(frames: Frames) -> FrameState | None:
    """The frame that is at work: live, not suspended, with the newest activity; of several, the deepest and newest."""
    working = [frame for frame in frames.values() if frame.status != "suspended"]
    newest = max((frame.touched for frame in working), default=0)
    latest = (frame for frame in working if frame.touched == newest)
    return max(latest, key=lambda frame: (frame.depth, frame_seq(frame.id)), default=None)


def asks(before: bool, event: MessageRecorded) -> bool:
    """Whether a question of the assistant waits for an answer after this message: it ends with one and calls no tool. What
    says nothing in the conversation, as a reply without text or a system message, leaves it as it was `before`."""
    if event.role == "system" or event.skipped or _says_nothing(event):
        return before
    if event.role != "assistant" or event.tool_calls:
        return False
    last = next((part for part in reversed(event.content) if isinstance(part, _READ)), None)
    return isinstance(last, Text) and is_question(text_of(event.content, ""))


def _says_nothing(event: MessageRecorded) -> bool:
    """A reply that is empty, or was cut off before its first word."""
    if event.role != "assistant" or event.tool_calls:
        return False
    return all(isinstance(part, Opaque) or (isinstance(part, Text) and not part.text.strip()) for part in event.content)


def failures(before: tuple[str, ...], event: MessageRecorded) -> tuple[str, ...]:
    """What has failed since the assistant spoke last, after one more message."""
    if event.role == "assistant":
        return ()
    failed = (result.tool_call_id for result in event.tool_results if result.is_error)
    return (*before, *failed)[-limits.ERRORS_KEPT :]


def changes(frames: Frames, event: Event | None, event_type: str, seq: int, time_us: int) -> dict[str, FrameState]:
    """The frames that an event changes, as they are after it: those that end are there too, a last time."""
    if event_type in OFFLOADING:
        return _all_cancelled(frames, seq, time_us) if frames else {}
    if isinstance(event, FramePushed):
        return _pushed(frames, event, seq, time_us)
    named = getattr(event, "frame", None)
    if named is None or named not in frames:
        return {}
    steps = _Steps(frames, seq, time_us)
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
            _touch(steps, event, named)
    return steps.changed


class _Steps:
    """Frames on their way from one state to the next."""

    def __init__(self, frames: Frames, seq: int, time_us: int) -> None:
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
        """A frame ends: its reservations are void, and its parent gets back what is left of the grant."""
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
            self._settle(parent, frame, failed=status == "failed")

    def _settle(self, parent: FrameState, child: FrameState, *, failed: bool) -> None:
        budget = parent.budget
        children = parent.children - 1
        self.change(
            parent,
            budget=msgspec.structs.replace(
                budget,
                delegated=budget.delegated - child.budget.total,
                used=_sum(budget.used, child.budget.used),
            ),
            below=parent.below + child.usage + child.below,
            children=children,
            status=_status(parent.suspension, children),
            errors=(*parent.errors, child.id)[-limits.ERRORS_KEPT :] if failed else parent.errors,
        )


def _sum(one: int, other: int) -> int:
    return min(one + other, limits.WHOLE_NUMBER)


def _status(suspension: Suspension | None, children: int) -> FrameStatus:
    if suspension is not None:
        return "suspended"
    return "waiting" if children else "active"


def _pushed(frames: Frames, event: FramePushed, seq: int, time_us: int) -> dict[str, FrameState]:
    new = frame_id(seq)
    parent = frames.get(event.parent) if event.parent is not None else None
    if event.parent is not None and parent is None:
        return {}  # what it belonged to was erased
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
            parent, budget=budget, children=children, status=_status(parent.suspension, children), errors=()
        )
    return changed


def _all_cancelled(frames: Frames, seq: int, time_us: int) -> dict[str, FrameState]:
    """Nothing is left of a conversation that has ended."""
    steps = _Steps(frames, seq, time_us)
    for frame in reversed(by_age(frames)):
        steps.end(steps.get(frame.id) or frame, "cancelled")
    return steps.changed


def _pop(steps: _Steps, event: FramePopped) -> None:
    for each in (*event.cascade, event.frame):
        frame = steps.get(each)
        if frame is not None and frame.live:
            steps.end(frame, event.status if each == event.frame else "cancelled")


def _suspend(steps: _Steps, event: FrameSuspended) -> None:
    for each in (event.frame, *event.cascade):
        frame = steps.get(each)
        if frame is None or frame.suspension is not None:
            continue
        left = None if frame.deadline_us is None else max(0, frame.deadline_us - steps.time_us)
        own = each == event.frame
        suspension = Suspension(
            reason=event.reason,
            by=event.by,
            at_us=steps.time_us,
            holder=event.frame,
            digest=event.digest if own else "",
            expires_us=event.expires_us if own else None,
            resumable_by=event.resumable_by if own else (),
            remaining_us=left,
        )
        steps.change(frame, suspension=suspension, status="suspended", deadline_us=None)


def _resume(steps: _Steps, event: FrameResumed) -> None:
    """The frame wakes, and all below it that rested with it; a parent before its children, whose time is never longer, nor
    is that of those who went on meanwhile."""
    frames = steps.frames
    for frame in (frames[event.frame], *reversed(below(frames, event.frame))):
        rest = frame.suspension
        if rest is not None and rest.holder != event.frame:
            continue
        deadline = frame.deadline_us
        if rest is not None and rest.remaining_us is not None:
            deadline = steps.time_us + rest.remaining_us
        parent = steps.get(frame.parent)
        if parent is not None and parent.deadline_us is not None:
            deadline = parent.deadline_us if deadline is None else min(deadline, parent.deadline_us)
        if rest is not None:
            steps.change(frame, suspension=None, status=_status(None, frame.children), deadline_us=deadline)
        elif deadline != frame.deadline_us:
            steps.changed[frame.id] = msgspec.structs.replace(frame, deadline_us=deadline)


def _grant(steps: _Steps, event: BudgetGranted) -> None:
    frame = steps.frames[event.frame]
    steps.change(frame, budget=msgspec.structs.replace(frame.budget, total=frame.budget.total + event.amount))
    parent = steps.get(frame.parent)
    if parent is not None:
        more = msgspec.structs.replace(parent.budget, delegated=parent.budget.delegated + event.amount)
        steps.changed[parent.id] = msgspec.structs.replace(parent, budget=more)


def _spend(steps: _Steps, event: BudgetReserved | BudgetCommitted | BudgetCancelled | BudgetUsed) -> None:
    frame = steps.frames[event.frame]
    budget, kept = frame.budget, frame.reservations
    used = event.tokens if isinstance(event, BudgetCommitted | BudgetUsed) else 0
    usage = event.usage if isinstance(event, BudgetCommitted | BudgetUsed) else None
    if isinstance(event, BudgetReserved):
        kept = (*kept, Reservation(reservation_id(steps.seq), event.purpose, event.amount))
    elif not isinstance(event, BudgetUsed):
        kept = tuple(each for each in kept if each.id != event.reservation)
    budget = msgspec.structs.replace(budget, used=_sum(budget.used, used), reserved=sum(each.amount for each in kept))
    steps.change(frame, budget=budget, reservations=kept, usage=frame.usage if usage is None else frame.usage + usage)


def _touch(steps: _Steps, event: Event | None, named: str) -> None:
    frame = steps.frames[named]
    match event:
        case FrameUpdated():
            steps.change(
                frame,
                goal=frame.goal if event.goal is None else event.goal,
                inputs_at=frame.inputs_at if event.inputs is None else steps.seq,
                context_hash=event.context_hash or frame.context_hash,
            )
        case MessageRecorded():
            said = event.role != "system" and not event.skipped
            steps.change(
                frame,
                asks=asks(frame.asks, event),
                errors=frame.errors if event.skipped else failures(frame.errors, event),
                messages=frame.messages + said,
                spoken=heard(frame.spoken, steps.seq) if said else frame.spoken,
            )
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
            _token(steps, frame, event)


def _token(steps: _Steps, frame: FrameState, event: TokenReissued | TokenRevoked) -> None:
    rest = frame.suspension
    if rest is None:
        return
    if isinstance(event, TokenReissued):
        rest = msgspec.structs.replace(rest, digest=event.digest, expires_us=event.expires_us, revoked=False)
    else:
        rest = msgspec.structs.replace(rest, revoked=True)
    steps.changed[frame.id] = msgspec.structs.replace(frame, suspension=rest)


def narrower(inner: Limits, outer: Limits) -> bool:
    """Whether no limit is wider than one above it."""
    pairs = ((inner.max_tool_calls, outer.max_tool_calls), (inner.timeout_us, outer.timeout_us))
    return inner.max_subframe_depth <= outer.max_subframe_depth and all(
        wide is None or (narrow is not None and narrow <= wide) for narrow, wide in pairs
    )


def applied(frames: Frames, changed: Mapping[str, FrameState]) -> tuple[dict[str, FrameState], int, int]:
    """The live frames after these changes, how many more of them rest, and how many bytes longer their texts are."""
    after = dict(frames)
    resting = more = 0
    for name, frame in changed.items():
        before = after.pop(name) if not frame.live and name in after else after.get(name)
        if before is not None and frame.live and _same_texts(before, frame):
            after[name] = frame
            continue
        if before is not None:
            resting -= before.suspension is not None
            more -= _bulk(before)
        if frame.live:
            after[name] = frame
            resting += frame.suspension is not None
            more += _bulk(frame)
    return after, resting, more


def _same_texts(before: FrameState, after: FrameState) -> bool:
    return (
        before.goal is after.goal
        and before.suspension is after.suspension
        and before.reservations is after.reservations
        and before.errors is after.errors
    )


def _bulk(frame: FrameState) -> int:
    """About a quarter of the bytes of all in it that has no fixed size."""
    rest = frame.suspension
    named = () if rest is None else (rest.reason, *rest.resumable_by)
    reserved = sum(len(each.purpose) + 48 for each in frame.reservations)
    return len(frame.goal) + reserved + sum(len(each) + 16 for each in (*named, *frame.errors))


def rest_until(frames: Frames) -> int | None:
    """When the last token expires that still may come for one of these; None if that is never, 0 if there is none."""
    until = 0
    for frame in frames.values():
        rest = frame.suspension
        if rest is not None and rest.digest and not rest.revoked:
            if rest.expires_us is None:
                return None
            until = max(until, rest.expires_us)
    return until


def content_of(event: Event | None) -> tuple[Part, ...]:
    """What there is to read in the event that a handle points to."""
    if isinstance(event, HandleAdded | HandleReplaced):
        return event.content or ()
    if isinstance(event, FramePopped):
        return (Text(event.summary), *event.result) if event.summary else event.result
    return ()


def ending_of(event: Event | None) -> str:
    """How the child ended whose result the event has; empty if it is no child's result."""
    if isinstance(event, FramePopped):
        return event.status
    return event.result if isinstance(event, HandleReplaced) else ""
