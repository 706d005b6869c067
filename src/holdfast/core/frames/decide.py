"""Decisions about frames: push, pop, suspension, budget, handles and tool calls.

Laws: no more than the available tokens are granted or reserved, and a refusal changes nothing; usage is always recorded,
also beyond the budget; nothing new begins in a frame that has ended, is suspended, or is out of time; a token resumes a
frame once.
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast import codec, errors
from holdfast.core.frames import recovery
from holdfast.core.frames.stack import find_ancestry, find_descendants, find_top, format_ids
from holdfast.core.sessions import messages, turns
from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.frames.commands import (
    CancelTokens,
    CommitTokens,
    FrameCommand,
    GrantTokens,
    PopFrame,
    PushFrame,
    ReissueToken,
    ReserveTokens,
    ResumeActor,
    ResumeFrame,
    RevokeToken,
    SuspendFrame,
    TimeOutFrame,
    UpdateFrame,
)
from holdfast.model.frames.events import (
    ActorResumed,
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
from holdfast.model.frames.frames import Budget, Ending, FrameLimits, FrameState, Suspension
from holdfast.model.history.commands import AddHandle, ReplaceHandle
from holdfast.model.history.events import HandleAdded, HandleReplaced
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import Scope, check_size
from holdfast.model.sessions.commands import StartCall
from holdfast.model.sessions.events import CallStarted
from holdfast.model.state import OpenCall, SessionState

_LiveFrameCommand: TypeAlias = (
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
"""Commands about a live frame."""


OUT_OF_TIME = "The frame was out of time."


FRAME_ENDED = "the frame has ended"


def decide(state: SessionState, command: FrameCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events that this command makes now; none if it changes nothing. Refusals are raised."""
    match command:
        case PushFrame():
            return _push(state, command, inputs)
        case StartCall():
            return _start_call(state, command, inputs)
        case ResumeActor():
            return _resume_actor(state, inputs)
        case PopFrame():
            return _pop(state, command, inputs)
        case TimeOutFrame():
            return _time_out(state, command, inputs)
        case ResumeFrame():
            return _resume(state, command, inputs)
    return _decide_in_frame(state, check_live_frame(state, command.scope, command.frame, inputs), command, inputs)


def _decide_in_frame(
    state: SessionState, frame: FrameState, command: _LiveFrameCommand, inputs: DecisionInput
) -> tuple[Event, ...]:
    match command:
        case SuspendFrame():
            return _suspend(state, frame, command, inputs)
        case ReissueToken() | RevokeToken():
            return _change_token(frame, command, inputs)
        case AddHandle():
            return _add_handle(frame, command, inputs)
        case ReplaceHandle():
            return _replace_handle(state, frame, command, inputs)
        case UpdateFrame():
            return _update(frame, command)
        case ReserveTokens() | CommitTokens() | CancelTokens():
            return _spend(frame, command, inputs)
        case GrantTokens():
            return _grant(state, frame, command, inputs)


def check_live_frame(state: SessionState, scope: Scope, frame: str, inputs: DecisionInput) -> FrameState:
    """The frame of this id, if it has not ended."""
    live = state.frames.get(frame)
    if live is not None:
        return live
    ended = inputs.frame.ended_frame
    if ended is not None:
        raise errors.AlreadyTerminal(frame=frame, status=ended.status)
    raise errors.FrameNotFound(session=scope.session, frame=frame)


def check_active(frame: FrameState, inputs: DecisionInput) -> None:
    """Raises if nothing new may begin in the frame."""
    if frame.suspension is not None:
        raise errors.FrameSuspendedError(frame=frame.id, reason=frame.suspension.reason)
    if frame.deadline_us is not None and inputs.time_us >= frame.deadline_us:
        raise errors.DeadlinePassed(frame=frame.id, late_us=inputs.time_us - frame.deadline_us)


def _check_available(frame: FrameState, amount: int) -> None:
    budget: Budget = frame.budget
    if amount > budget.available or budget.is_overdrawn:
        raise errors.InsufficientTokens(frame=frame.id, requested=amount, available=budget.available)


def _push(state: SessionState, command: PushFrame, inputs: DecisionInput) -> tuple[Event, ...]:
    check_size("the session", len(state.frames) + 1, "live frames", "LIVE_FRAMES", "Pop those that are done.")
    parent: FrameState | None = None
    if command.parent is not None:
        parent = state.frames.get(command.parent)
        if parent is None and inputs.frame.ended_frame is None:
            raise errors.ParentFrameNotFound(session=command.scope.session, frame=command.parent)
        parent = check_live_frame(state, command.scope, command.parent, inputs)
        check_active(parent, inputs)
        if parent.depth >= parent.limits.max_subframe_depth:
            limit = parent.limits.max_subframe_depth
            raise errors.MaxDepthExceeded(frame=parent.id, depth=parent.depth + 1, limit=limit)
        _check_available(parent, command.budget)
    bounds = _narrow_limits(command, None if parent is None else parent.limits)
    deadline = None if bounds.timeout_us is None else inputs.time_us + bounds.timeout_us
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


def _narrow_limits(command: PushFrame, outer: FrameLimits | None) -> FrameLimits:
    """The limits of the command, within those of the parent."""
    wide = outer or FrameLimits()
    depth = command.max_subframe_depth
    if depth is None:
        depth = wide.max_subframe_depth
    elif outer is not None:
        depth = min(depth, outer.max_subframe_depth)
    return FrameLimits(
        max_subframe_depth=depth,
        max_tool_calls=_smaller(command.max_tool_calls, wide.max_tool_calls),
        timeout_us=_smaller(command.timeout_us, wide.timeout_us),
    )


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _update(frame: FrameState, command: UpdateFrame) -> tuple[Event, ...]:
    goal = None if command.goal == frame.goal else command.goal
    context = None if command.context_hash == frame.context_hash else command.context_hash
    if goal is None and context is None and command.inputs is None:
        return ()
    return (FrameUpdated(frame=frame.id, goal=goal, inputs=command.inputs, context_hash=context),)


def _pop(state: SessionState, command: PopFrame, inputs: DecisionInput) -> tuple[Event, ...]:
    frame = state.frames.get(command.frame)
    if frame is None and inputs.frame.ended_frame is not None and _is_same_ending(command, inputs):
        return ()
    frame = check_live_frame(state, command.scope, command.frame, inputs)
    inner = find_descendants(state.frames, frame.id)
    if inner and not command.cascade:
        children = [each for each in inner if each.parent == frame.id]
        raise errors.ChildrenActive(frame=frame.id, children=frame.children, some=format_ids(children))
    return _end_frame(state, frame, command.status, command, inputs)


def _is_same_ending(command: PopFrame, inputs: DecisionInput) -> bool:
    """Whether the frame has already ended in the same way."""
    ended, event = inputs.frame.ended_frame, inputs.frame.pop_event
    if ended is None or ended.status != command.status:
        return False
    if event is None:  # it ended together with another frame, without a summary or a result of its own
        return not command.summary and not command.result
    return (event.summary, event.result) == (command.summary, command.result)


def _end_frame(
    state: SessionState, frame: FrameState, status: Ending, command: PopFrame, inputs: DecisionInput
) -> tuple[Event, ...]:
    inner = find_descendants(state.frames, frame.id)
    ending = {frame.id, *(each.id for each in inner)}
    idle = [call for call in state.open_calls if call.frame in ending and not call.attempts]
    # A call that was started stays open: its outcome is unknown.
    closings = messages.close_calls(state, idle, FRAME_ENDED, inputs)
    pop_event = FramePopped(
        frame=frame.id,
        status=status,
        summary=command.summary,
        result=command.result,
        cascade=tuple(each.id for each in inner),
        used=min(frame.budget.used + sum(each.budget.used for each in inner), limits.WHOLE_NUMBER),
    )
    if frame.parent is None or frame.parent not in state.frames:
        return (*closings, pop_event)
    return (
        *closings,
        pop_event,
        ResultAdded(
            frame=frame.parent,
            child=frame.id,
            status=status,
            at=state.version + len(closings) + 1,
            title=frame.goal,
            tokens=inputs.tokens[0],
            counter=inputs.counter,
            digest=command.digest,
        ),
    )


def _time_out(state: SessionState, command: TimeOutFrame, inputs: DecisionInput) -> tuple[Event, ...]:
    """A clock that stops or goes backwards ends no frame."""
    frame = state.frames.get(command.frame)
    if frame is None or frame.deadline_us is None or inputs.time_us < frame.deadline_us:
        return ()
    pop = PopFrame(
        scope=command.scope, frame=frame.id, status="failed", summary=OUT_OF_TIME, digest=inputs.frame.digest
    )
    return _end_frame(state, frame, "failed", pop, inputs)


def _suspend(state: SessionState, frame: FrameState, command: SuspendFrame, inputs: DecisionInput) -> tuple[Event, ...]:
    if frame.suspension is not None:
        raise errors.AlreadySuspended(frame=frame.id, reason=frame.suspension.reason)
    _check_expiry(command.expires_us, inputs)
    inner = find_descendants(state.frames, frame.id) if command.cascade else []
    return (
        FrameSuspended(
            frame=frame.id,
            reason=command.reason,
            digest=inputs.frame.digest,
            by=inputs.principal,
            expires_us=command.expires_us,
            resumable_by=command.resumable_by,
            cascade=tuple(each.id for each in inner if each.suspension is None),
        ),
    )


def _check_expiry(expires_us: int | None, inputs: DecisionInput) -> None:
    if expires_us is not None and expires_us <= inputs.time_us:
        raise errors.InvalidArgument(
            argument="expires_at", reason=f"it is {inputs.time_us - expires_us} microseconds in the past"
        )


def _change_token(frame: FrameState, command: ReissueToken | RevokeToken, inputs: DecisionInput) -> tuple[Event, ...]:
    suspension = frame.suspension
    if suspension is None or suspension.holder != frame.id:
        raise errors.NotSuspended(frame=frame.id, status=frame.status)
    if isinstance(command, RevokeToken):  # anyone may revoke a token that is in the wrong hands
        return () if suspension.revoked else (TokenRevoked(frame=frame.id, reason=command.reason),)
    _check_principal(frame, suspension, inputs)
    _check_expiry(command.expires_us, inputs)
    expires_us = command.expires_us
    if expires_us is None and suspension.expires_us is not None and suspension.expires_us > inputs.time_us:
        expires_us = suspension.expires_us
    return (TokenReissued(frame=frame.id, digest=inputs.frame.digest, by=inputs.principal, expires_us=expires_us),)


def _check_principal(frame: FrameState, suspension: Suspension, inputs: DecisionInput) -> None:
    if inputs.principal != suspension.by and inputs.principal not in suspension.resumable_by:
        raise errors.TokenForbidden(frame=frame.id, principal=inputs.principal)


def _resume(state: SessionState, command: ResumeFrame, inputs: DecisionInput) -> tuple[Event, ...]:
    token = inputs.frame.token
    if token is None or token.digest != command.digest:
        raise errors.TokenInvalid(tenant=command.scope.tenant)
    frame = state.frames.get(command.frame)
    suspension = None if frame is None else frame.suspension
    if frame is None or suspension is None or suspension.digest != command.digest or suspension.revoked:
        raise _void_token_error(command.frame, token.status)
    _check_principal(frame, suspension, inputs)
    if suspension.expires_us is not None and inputs.time_us >= suspension.expires_us:
        raise errors.TokenExpired(frame=frame.id, late_us=inputs.time_us - suspension.expires_us)
    return (FrameResumed(frame=frame.id, by=inputs.principal),)


def _void_token_error(frame: str, status: str) -> errors.Conflict:
    match status:
        case "consumed":
            return errors.TokenConsumed(frame=frame)
        case "replaced":
            return errors.TokenRevokedError(frame=frame, reason="another was issued in its place")
        case "revoked":
            return errors.TokenRevokedError(frame=frame, reason="it was taken back")
        case _:
            return errors.TokenRevokedError(frame=frame, reason="the frame has ended")


def _add_handle(frame: FrameState, command: AddHandle, inputs: DecisionInput) -> tuple[Event, ...]:
    if inputs.handle is not None:
        current = inputs.handle.handle
        if (current.kind, current.digest) != (command.kind, command.digest):
            raise errors.HandleExists(frame=frame.id, source=current.source, handle=current.id)
        return ()
    return (
        HandleAdded(
            frame=frame.id,
            kind=command.kind,
            priority=command.priority,
            title=command.title,
            source=command.source,
            content=command.content,
            tokens=inputs.tokens[0],
            counter=inputs.counter,
            digest=command.digest,
            metadata=command.metadata,
        ),
    )


def _replace_handle(
    state: SessionState, frame: FrameState, command: ReplaceHandle, inputs: DecisionInput
) -> tuple[Event, ...]:
    """Fields that the command leaves out stay the same. If nothing changes, there is no event."""
    if inputs.handle is None or inputs.handle.handle.frame != frame.id:
        raise errors.HandleNotFound(session=command.scope.session, handle=command.handle)
    current = inputs.handle.handle
    new = command.content is not None
    residency = command.residency or current.residency
    priority = command.priority or current.priority
    if residency == "collapsed" and priority == "critical":
        residency = "resident"  # critical content is always in
    event = HandleReplaced(
        frame=frame.id,
        handle=current.id,
        kind=current.kind,
        priority=priority,
        title=current.title if command.title is None else command.title,
        source=current.source,
        content=command.content,
        tokens=inputs.tokens[0] if new else current.tokens,
        counter=inputs.counter,
        digest=command.digest if new else current.digest,
        at=state.version + 1 if new else current.at,
        metadata=current.metadata if command.metadata is None else command.metadata,
        residency=residency,
        tier=(command.tier or current.tier) if residency == "paged_out" else None,
        ref=command.ref,
        size=command.size if new else command.size or current.size,
        result=inputs.handle.result,
    )
    before = current.priority, current.title, current.digest, current.metadata, current.residency, current.tier
    if before == (event.priority, event.title, event.digest, event.metadata, event.residency, event.tier):
        return ()
    return (event,)


def _spend(
    frame: FrameState, command: ReserveTokens | CommitTokens | CancelTokens, inputs: DecisionInput
) -> tuple[Event, ...]:
    if isinstance(command, ReserveTokens):
        check_active(frame, inputs)
        advice = "Commit or cancel some first."
        check_size("the frame", len(frame.reservations) + 1, "reservations", "RESERVATIONS", advice)
        _check_available(frame, command.amount)
        return (BudgetReserved(frame=frame.id, purpose=command.purpose, amount=command.amount),)
    if isinstance(command, CancelTokens):
        check_reservation(frame, command.reservation, inputs)
        return (BudgetCancelled(frame=frame.id, reservation=command.reservation),)
    return (build_spend_event(frame, command.reservation, command, inputs),)


def build_spend_event(
    frame: FrameState, reservation: str | None, commit: CommitTokens, inputs: DecisionInput
) -> BudgetCommitted | BudgetUsed:
    """The usage of tokens, for a reservation or without one. It is recorded however large it is."""
    if reservation is None:
        return BudgetUsed(frame=frame.id, tokens=commit.tokens, usage=commit.usage)
    check_reservation(frame, reservation, inputs)
    return BudgetCommitted(frame=frame.id, reservation=reservation, tokens=commit.tokens, usage=commit.usage)


def check_reservation(frame: FrameState, reservation: str, inputs: DecisionInput) -> None:
    if any(each.id == reservation for each in frame.reservations):
        return
    if inputs.frame.is_settled:
        raise errors.ReservationSettled(frame=frame.id, reservation=reservation)
    raise errors.ReservationNotFound(frame=frame.id, reservation=reservation)


def _grant(state: SessionState, frame: FrameState, command: GrantTokens, inputs: DecisionInput) -> tuple[Event, ...]:
    check_size("the budget", frame.budget.total + command.amount, "tokens", "WHOLE_NUMBER", "Grant less.")
    if frame.parent is not None:
        parent = state.frames[frame.parent]
        check_active(parent, inputs)
        _check_available(parent, command.amount)
    return (BudgetGranted(frame=frame.id, amount=command.amount),) if command.amount else ()


def _start_call(state: SessionState, command: StartCall, inputs: DecisionInput) -> tuple[Event, ...]:
    call = messages.find_open_call(state, command.call, command.frame)
    if call is None:
        session = command.scope.session
        if command.call in inputs.calls.resolved:
            raise errors.CallAnswered(session=session, call=command.call)
        raise errors.CallNotFound(session=session, call=command.call)
    where = call.frame or command.frame
    running = turns.find_running_lease(state, call, inputs.time_us)
    if running is not None and (inputs.turn is None or inputs.turn.number != running.number):
        raise turns.busy_error(command.scope, command.frame, running.owner, running.until_us, len(running.waiters))
    if call.attempts and not command.again:
        raise errors.OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
    if where is not None:
        _check_tool_limit(check_live_frame(state, command.scope, where, inputs), inputs)
    key = call.key or command.key or default_call_key(command.scope, call)
    turn = 0 if inputs.turn is None else inputs.turn.number
    return (CallStarted(call=call.id, key=key, attempt=call.attempts + 1, frame=where, turn=turn),)


def _check_tool_limit(frame: FrameState, inputs: DecisionInput) -> None:
    check_active(frame, inputs)
    most = frame.limits.max_tool_calls
    if most is not None and frame.tool_calls >= most:
        raise errors.ToolCallsExceeded(frame=frame.id, used=frame.tool_calls, limit=most)


def default_call_key(scope: Scope, call: OpenCall) -> str:
    """The key of a call if the caller names none: always the same for one call, and different for every other."""
    return codec.digest([scope.tenant, scope.actor, scope.session, scope.thread, call.id])[:32]


def _resume_actor(state: SessionState, inputs: DecisionInput) -> tuple[Event, ...]:
    current = find_top(state.frames)
    frames = () if current is None else tuple(each.id for each in find_ancestry(state.frames, current.id))
    counts: dict[str, int] = {}
    turn = 0 if inputs.turn is None else inputs.turn.number
    for each in recovery.find_pending_work(state, inputs.time_us, turn):
        counts[each.kind] = counts.get(each.kind, 0) + 1
    return (ActorResumed(frames=frames, pending=counts),)
