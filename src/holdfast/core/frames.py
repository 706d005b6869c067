"""Frames: what a command about them makes happen.

Laws: more than is available is never granted or reserved, and a refusal changes nothing; what was used is recorded, also
when it is more than there was; nothing new begins in a frame that has ended, rests, or is out of time; a token wakes a
frame once.
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast import codec, errors
from holdfast.core import messages, pending, stack
from holdfast.model import limits
from holdfast.model.commands import (
    AddHandle,
    CancelTokens,
    CommitTokens,
    FrameCommand,
    Given,
    GrantTokens,
    PopFrame,
    PushFrame,
    ReissueToken,
    ReplaceHandle,
    ReserveTokens,
    ResumeActor,
    ResumeFrame,
    RevokeToken,
    StartCall,
    SuspendFrame,
    TimeOutFrame,
    UpdateFrame,
)
from holdfast.model.events import (
    ActorResumed,
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
from holdfast.model.frames import Budget, Ending, FrameState, Limits, Suspension
from holdfast.model.names import Scope, check_size
from holdfast.model.state import OpenCall, SessionState

_Inside: TypeAlias = (
    SuspendFrame
    | ReissueToken
    | RevokeToken
    | AddHandle
    | ReplaceHandle
    | UpdateFrame
    | ReserveTokens
    | CommitTokens
    | CancelTokens
    | GrantTokens
)
"""What is about a frame that lives."""

OUT_OF_TIME = "The frame was out of time."
ENDED = "the frame has ended"


def decide(state: SessionState, command: FrameCommand, given: Given) -> tuple[Event, ...]:
    """The events that this command makes now; none if it changes nothing. Refusals are raised."""
    match command:
        case PushFrame():
            return _push(state, command, given)
        case StartCall():
            return _start(state, command, given)
        case ResumeActor():
            return _take_up(state)
        case PopFrame():
            return _pop(state, command, given)
        case TimeOutFrame():
            return _time_out(state, command, given)
        case ResumeFrame():
            return _resume(state, command, given)
    return _inside(state, live(state, command.scope, command.frame, given), command, given)


def _inside(state: SessionState, frame: FrameState, command: _Inside, given: Given) -> tuple[Event, ...]:
    match command:
        case SuspendFrame():
            return _suspend(state, frame, command, given)
        case ReissueToken() | RevokeToken():
            return _token(frame, command, given)
        case AddHandle():
            return _add_handle(frame, command, given)
        case ReplaceHandle():
            return _replace_handle(state, frame, command, given)
        case UpdateFrame():
            return _update(frame, command)
        case ReserveTokens() | CommitTokens() | CancelTokens():
            return _spend(frame, command, given)
        case GrantTokens():
            return _grant(state, frame, command, given)


def live(state: SessionState, scope: Scope, frame: str, given: Given) -> FrameState:
    """The frame of this id, if it has not ended."""
    found = state.frames.get(frame)
    if found is not None:
        return found
    if given.ended is not None:
        raise errors.AlreadyTerminal(frame=frame, status=given.ended.status)
    raise errors.FrameNotFound(session=scope.session, frame=frame)


def check_working(frame: FrameState, given: Given) -> None:
    """Raises if nothing new may begin in it."""
    if frame.suspension is not None:
        raise errors.FrameSuspended(frame=frame.id, reason=frame.suspension.reason)
    if frame.deadline_us is not None and given.time_us >= frame.deadline_us:
        raise errors.DeadlinePassed(frame=frame.id, late_us=given.time_us - frame.deadline_us)


def _check_available(frame: FrameState, amount: int) -> None:
    budget: Budget = frame.budget
    if amount > budget.available or budget.overdrawn:
        raise errors.InsufficientTokens(frame=frame.id, requested=amount, available=budget.available)


def _push(state: SessionState, command: PushFrame, given: Given) -> tuple[Event, ...]:
    check_size("the session", len(state.frames) + 1, "live frames", "LIVE_FRAMES", "Pop those that are done.")
    parent: FrameState | None = None
    if command.parent is not None:
        parent = state.frames.get(command.parent)
        if parent is None and given.ended is None:
            raise errors.ParentFrameNotFound(session=command.scope.session, frame=command.parent)
        parent = live(state, command.scope, command.parent, given)
        check_working(parent, given)
        if parent.depth >= parent.limits.max_subframe_depth:
            limit = parent.limits.max_subframe_depth
            raise errors.MaxDepthExceeded(frame=parent.id, depth=parent.depth + 1, limit=limit)
        _check_available(parent, command.budget)
    bounds = _bounds(command, None if parent is None else parent.limits)
    deadline = None if bounds.timeout_us is None else given.time_us + bounds.timeout_us
    if parent is not None and parent.deadline_us is not None:
        deadline = parent.deadline_us if deadline is None else min(deadline, parent.deadline_us)
    return (
        FramePushed(
            goal=command.goal,
            inputs=command.inputs,
            parent=command.parent,
            budget=command.budget,
            limits=bounds,
            deadline_us=deadline,
        ),
    )


def _bounds(command: PushFrame, outer: Limits | None) -> Limits:
    """What was asked for, within the parent's."""
    wide = outer or Limits()
    depth = command.max_subframe_depth
    if depth is None:
        depth = wide.max_subframe_depth
    elif outer is not None:
        depth = min(depth, outer.max_subframe_depth)
    return Limits(
        max_subframe_depth=depth,
        max_tool_calls=_narrower(command.max_tool_calls, wide.max_tool_calls),
        timeout_us=_narrower(command.timeout_us, wide.timeout_us),
    )


def _narrower(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _update(frame: FrameState, command: UpdateFrame) -> tuple[Event, ...]:
    goal = None if command.goal == frame.goal else command.goal
    context = None if command.context_hash == frame.context_hash else command.context_hash
    if goal is None and context is None and command.inputs is None:
        return ()
    return (FrameUpdated(frame=frame.id, goal=goal, inputs=command.inputs, context_hash=context),)


def _pop(state: SessionState, command: PopFrame, given: Given) -> tuple[Event, ...]:
    frame = state.frames.get(command.frame)
    if frame is None and given.ended is not None and _same_way(command, given):
        return ()
    frame = live(state, command.scope, command.frame, given)
    inner = stack.below(state.frames, frame.id)
    if inner and not command.cascade:
        children = [each for each in inner if each.parent == frame.id]
        raise errors.ChildrenActive(frame=frame.id, children=frame.children, some=stack.names(children))
    return _ended(state, frame, command.status, command, given)


def _same_way(command: PopFrame, given: Given) -> bool:
    """Whether the frame ended just as it is to end now."""
    if given.ended is None or given.ended.status != command.status:
        return False
    if given.popped is None:  # it ended with another, and there is nothing said of it
        return not command.summary and not command.result
    return (given.popped.summary, given.popped.result) == (command.summary, command.result)


def _ended(
    state: SessionState, frame: FrameState, status: Ending, command: PopFrame, given: Given
) -> tuple[Event, ...]:
    inner = stack.below(state.frames, frame.id)
    ending = {frame.id, *(each.id for each in inner)}
    idle = [call for call in state.open_calls if call.frame in ending and not call.attempts]
    closed = messages.closing(state, idle, ENDED, given)  # what was started stays open: nobody knows what came of it
    popped = FramePopped(
        frame=frame.id,
        status=status,
        summary=command.summary,
        result=command.result,
        cascade=tuple(each.id for each in inner),
        used=min(frame.budget.used + sum(each.budget.used for each in inner), limits.WHOLE_NUMBER),
    )
    if frame.parent is None or frame.parent not in state.frames:
        return (*closed, popped)
    return (
        *closed,
        popped,
        ResultAdded(
            frame=frame.parent,
            child=frame.id,
            status=status,
            at=state.version + len(closed) + 1,
            title=frame.goal,
            tokens=given.tokens[0],
            counter=given.counter,
            digest=command.digest,
        ),
    )


def _time_out(state: SessionState, command: TimeOutFrame, given: Given) -> tuple[Event, ...]:
    """A clock that stands still or runs backwards ends nothing."""
    frame = state.frames.get(command.frame)
    if frame is None or frame.deadline_us is None or given.time_us < frame.deadline_us:
        return ()
    pop = PopFrame(scope=command.scope, frame=frame.id, status="failed", summary=OUT_OF_TIME, digest=given.digest)
    return _ended(state, frame, "failed", pop, given)


def _suspend(state: SessionState, frame: FrameState, command: SuspendFrame, given: Given) -> tuple[Event, ...]:
    if frame.suspension is not None:
        raise errors.AlreadySuspended(frame=frame.id, reason=frame.suspension.reason)
    _check_expiry(command.expires_us, given)
    inner = stack.below(state.frames, frame.id) if command.cascade else []
    return (
        FrameSuspended(
            frame=frame.id,
            reason=command.reason,
            digest=given.digest,
            by=given.principal,
            expires_us=command.expires_us,
            resumable_by=command.resumable_by,
            cascade=tuple(each.id for each in inner if each.suspension is None),
        ),
    )


def _check_expiry(expires_us: int | None, given: Given) -> None:
    if expires_us is not None and expires_us <= given.time_us:
        raise errors.InvalidContent(
            reason=f"a token that expired {given.time_us - expires_us} microseconds ago is no use"
        )


def _token(frame: FrameState, command: ReissueToken | RevokeToken, given: Given) -> tuple[Event, ...]:
    rest = frame.suspension
    if rest is None or rest.holder != frame.id:
        raise errors.NotSuspended(frame=frame.id, status=frame.status)
    if isinstance(command, RevokeToken):  # by whoever knows that it is in wrong hands
        return () if rest.revoked else (TokenRevoked(frame=frame.id, reason=command.reason),)
    _check_principal(frame, rest, given)
    _check_expiry(command.expires_us, given)
    expires_us = command.expires_us
    if expires_us is None and rest.expires_us is not None and rest.expires_us > given.time_us:
        expires_us = rest.expires_us
    return (TokenReissued(frame=frame.id, digest=given.digest, by=given.principal, expires_us=expires_us),)


def _check_principal(frame: FrameState, rest: Suspension, given: Given) -> None:
    if given.principal != rest.by and given.principal not in rest.resumable_by:
        raise errors.TokenForbidden(frame=frame.id, principal=given.principal)


def _resume(state: SessionState, command: ResumeFrame, given: Given) -> tuple[Event, ...]:
    token = given.token
    if token is None or token.digest != command.digest:
        raise errors.TokenInvalid(tenant=command.scope.tenant)
    frame = state.frames.get(command.frame)
    rest = None if frame is None else frame.suspension
    if frame is None or rest is None or rest.digest != command.digest or rest.revoked:
        raise _void(command.frame, token.status)
    _check_principal(frame, rest, given)
    if rest.expires_us is not None and given.time_us >= rest.expires_us:
        raise errors.TokenExpired(frame=frame.id, late_us=given.time_us - rest.expires_us)
    return (FrameResumed(frame=frame.id, by=given.principal),)


def _void(frame: str, status: str) -> errors.Conflict:
    match status:
        case "consumed":
            return errors.TokenConsumed(frame=frame)
        case "replaced":
            return errors.TokenRevoked(frame=frame, reason="another was issued in its place")
        case "revoked":
            return errors.TokenRevoked(frame=frame, reason="it was taken back")
        case _:
            return errors.TokenRevoked(frame=frame, reason="the frame has ended")


def _add_handle(frame: FrameState, command: AddHandle, given: Given) -> tuple[Event, ...]:
    found = given.handle
    if found is not None:
        if (found.kind, found.digest) != (command.kind, command.digest):
            raise errors.HandleExists(frame=frame.id, source=found.source, handle=found.id)
        return ()
    return (
        HandleAdded(
            frame=frame.id,
            kind=command.kind,
            priority=command.priority,
            title=command.title,
            source=command.source,
            content=command.content,
            tokens=given.tokens[0],
            counter=given.counter,
            digest=command.digest,
            metadata=command.metadata,
        ),
    )


def _replace_handle(state: SessionState, frame: FrameState, command: ReplaceHandle, given: Given) -> tuple[Event, ...]:
    """What is not said stays as it was. A handle that changes in nothing is not replaced."""
    found = given.handle
    if found is None or found.frame != frame.id:
        raise errors.HandleNotFound(session=command.scope.session, handle=command.handle)
    new = command.content is not None
    residency = command.residency or found.residency
    priority = command.priority or found.priority
    if residency == "collapsed" and priority == "critical":
        residency = "resident"  # what is Critical is always in
    event = HandleReplaced(
        frame=frame.id,
        handle=found.id,
        kind=found.kind,
        priority=priority,
        title=found.title if command.title is None else command.title,
        source=found.source,
        content=command.content,
        tokens=given.tokens[0] if new else found.tokens,
        counter=given.counter,
        digest=command.digest if new else found.digest,
        at=state.version + 1 if new else found.at,
        metadata=found.metadata if command.metadata is None else command.metadata,
        residency=residency,
        tier=(command.tier or found.tier) if residency == "paged_out" else None,
        ref=command.ref,
        size=command.size if new else command.size or found.size,
        result=given.result,
    )
    kept = found.priority, found.title, found.digest, found.metadata, found.residency, found.tier
    if kept == (event.priority, event.title, event.digest, event.metadata, event.residency, event.tier):
        return ()
    return (event,)


def _spend(frame: FrameState, command: ReserveTokens | CommitTokens | CancelTokens, given: Given) -> tuple[Event, ...]:
    if isinstance(command, ReserveTokens):
        check_working(frame, given)
        advice = "Commit or cancel some first."
        check_size("the frame", len(frame.reservations) + 1, "reservations", "RESERVATIONS", advice)
        _check_available(frame, command.amount)
        return (BudgetReserved(frame=frame.id, purpose=command.purpose, amount=command.amount),)
    if isinstance(command, CancelTokens):
        check_reserved(frame, command.reservation, given)
        return (BudgetCancelled(frame=frame.id, reservation=command.reservation),)
    return (spent(frame, command.reservation, command, given),)


def spent(frame: FrameState, reservation: str | None, what: CommitTokens, given: Given) -> BudgetCommitted | BudgetUsed:
    """Tokens were used, for a reservation or without one. However many they are: it has happened."""
    if reservation is None:
        return BudgetUsed(frame=frame.id, tokens=what.tokens, usage=what.usage)
    check_reserved(frame, reservation, given)
    return BudgetCommitted(frame=frame.id, reservation=reservation, tokens=what.tokens, usage=what.usage)


def check_reserved(frame: FrameState, reservation: str, given: Given) -> None:
    if any(each.id == reservation for each in frame.reservations):
        return
    if given.settled:
        raise errors.ReservationSettled(frame=frame.id, reservation=reservation)
    raise errors.ReservationNotFound(frame=frame.id, reservation=reservation)


def _grant(state: SessionState, frame: FrameState, command: GrantTokens, given: Given) -> tuple[Event, ...]:
    check_size("the budget", frame.budget.total + command.amount, "tokens", "WHOLE_NUMBER", "Grant less.")
    if frame.parent is not None:
        parent = state.frames[frame.parent]
        check_working(parent, given)
        _check_available(parent, command.amount)
    return (BudgetGranted(frame=frame.id, amount=command.amount),) if command.amount else ()


def _start(state: SessionState, command: StartCall, given: Given) -> tuple[Event, ...]:
    call = messages.waiting_for(state, command.call, command.frame)
    if call is None:
        session = command.scope.session
        if command.call in given.fates:
            raise errors.CallAnswered(session=session, call=command.call)
        raise errors.CallNotFound(session=session, call=command.call)
    where = call.frame or command.frame
    if call.attempts and not command.again:
        raise errors.OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
    if where is not None:
        _check_tools(live(state, command.scope, where, given), given)
    key = call.key or command.key or call_key(command.scope, call)
    return (CallStarted(call=call.id, key=key, attempt=call.attempts + 1, frame=where),)


def _check_tools(frame: FrameState, given: Given) -> None:
    check_working(frame, given)
    most = frame.limits.max_tool_calls
    if most is not None and frame.tool_calls >= most:
        raise errors.ToolCallsExceeded(frame=frame.id, used=frame.tool_calls, limit=most)


def call_key(scope: Scope, call: OpenCall) -> str:
    """The key of a call if nobody names one: the same whoever asks, another for every call there is."""
    return codec.digest([scope.tenant, scope.actor, scope.session, scope.thread, call.id])[:32]


def _take_up(state: SessionState) -> tuple[Event, ...]:
    current = stack.top(state.frames)
    frames = () if current is None else tuple(each.id for each in stack.ancestry(state.frames, current.id))
    counts: dict[str, int] = {}
    for each in pending.found(state):
        counts[each.kind] = counts.get(each.kind, 0) + 1
    return (ActorResumed(frames=frames, pending=counts),)
