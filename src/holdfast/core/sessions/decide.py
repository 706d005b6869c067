"""Decisions about sessions: creation, recording, end and erasure.

Laws: a closed session stays closed, a destroyed one destroyed; a command that ends a conversation closes its open calls
first.
"""

from __future__ import annotations

import msgspec

from holdfast import errors
from holdfast.core.fold import fold_session
from holdfast.core.frames import decide as frames_decide
from holdfast.core.frames.stack import find_descendants, latest_token_expiry
from holdfast.core.sessions import messages
from holdfast.core.sessions.forks import check_own
from holdfast.model import limits
from holdfast.model.content import Usage, calling_seq
from holdfast.model.events import Event
from holdfast.model.frames.commands import CommitTokens
from holdfast.model.frames.events import FramePopped
from holdfast.model.frames.frames import FrameState
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import Scope, check_size
from holdfast.model.sessions.commands import (
    AcknowledgeOffload,
    CloseSession,
    CreateSession,
    DestroySession,
    ErasePayloads,
    ForkSession,
    RecordMessages,
    RecordModelUses,
    ResetSession,
)
from holdfast.model.sessions.events import (
    EvidenceKept,
    MessageRecorded,
    ModelUsed,
    OffloadAcknowledged,
    PayloadsErased,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionForked,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.sessions.forks import ForkOrigin
from holdfast.model.state import SessionState

FORK_REASON = (
    "this conversation was branched off before the tool returned; in the other branch the call may have taken effect"
)
"""Why the calls that were open at the cut are closed in the fork."""


def check_exists(state: SessionState, scope: Scope) -> None:
    if state.status == "absent":
        raise session_not_found(scope)
    if state.status == "destroyed":
        raise errors.SessionDestroyedError(
            tenant=scope.tenant,
            actor=scope.actor,
            session=scope.session,
            thread=scope.thread,
            reason=state.close_reason,
        )


def session_not_found(scope: Scope) -> errors.SessionNotFound:
    return errors.SessionNotFound(tenant=scope.tenant, actor=scope.actor, session=scope.session, thread=scope.thread)


def check_open(state: SessionState, scope: Scope) -> None:
    """Raises if the session does not exist, or is closed."""
    check_exists(state, scope)
    if state.status == "closed":
        raise errors.SessionClosedError(session=scope.session, reason=state.close_reason)


def decide_creation(state: SessionState, command: CreateSession) -> tuple[Event, ...]:
    if state.status != "absent":
        raise errors.SessionExists(session=command.scope.session, actor=command.scope.actor)
    created = SessionCreated(
        metadata=command.metadata,
        idle_timeout_us=command.idle_timeout_us,
        ledgers=command.ledgers,
        memory=command.memory,
    )
    return (created if command.identity is None else msgspec.structs.replace(created, identity=command.identity),)


def decide_fork(state: SessionState, command: ForkSession, inputs: DecisionInput) -> tuple[Event, ...]:
    """The first events of a fork. `state` is the state of its parent at the cut."""
    parent = command.parent.stream.key
    origin = inputs.fork or ForkOrigin(parent=parent, cut=command.cut)
    check_size("the fork", len(origin.lineage), "sessions", "FORK_DEPTH", "Fork a session that is less deep.")
    forked = SessionForked(session=command.stream.key, parent=origin.parent, cut=origin.cut, lineage=origin.lineage)
    state = fold_session(state, forked, forked.name, inputs.time_us)
    closings = messages.close_calls(state, state.open_calls, FORK_REASON, inputs)
    pops = (
        FramePopped(
            frame=frame.id,
            status="cancelled",
            cascade=tuple(each.id for each in find_descendants(state.frames, frame.id)),
            used=min(_used_tokens(state, frame), limits.WHOLE_NUMBER),
        )
        for frame in state.frames.values()
        if frame.parent is None
    )
    return (forked, *closings, *pops)


def _used_tokens(state: SessionState, frame: FrameState) -> int:
    return frame.budget.used + sum(each.budget.used for each in find_descendants(state.frames, frame.id))


def decide_recording(state: SessionState, command: RecordMessages, inputs: DecisionInput) -> tuple[Event, ...]:
    """Each message is decided on the state after those before it: a batch has the same result as one at a time."""
    frame: FrameState | None = None
    results_only = command.reservation is None and all(new.tool_results for new in command.messages)
    if command.frame is not None and not results_only:  # results go to the frames of their calls
        frame = frames_decide.check_live_frame(state, command.scope, command.frame, inputs)
    events: list[MessageRecorded | EvidenceKept] = []
    folded = 0
    for new, tokens in zip(command.messages, inputs.tokens, strict=True):
        for event in events[folded:]:
            inputs = messages.add_resolved_calls(inputs, state, event)
            state = messages.add_recorded(state, event)
        folded = len(events)
        events += messages.record_message(
            state, command.scope, new, tokens, inputs, as_found=command.as_found, frame=command.frame
        )
    if not all(isinstance(event, EvidenceKept) for event in events):  # a closed session still takes late results
        check_open(state, command.scope)
    return tuple(events) if frame is None else (*events, *_charge_usage(frame, command, inputs))


def _charge_usage(frame: FrameState, command: RecordMessages, inputs: DecisionInput) -> tuple[Event, ...]:
    """Take the usage of the messages from the frame's budget. Without any usage, the whole reservation is spent."""
    usages = [new.usage for new in command.messages if new.usage is not None]
    if not usages and command.reservation is None:
        return ()
    reserved = sum(each.amount for each in frame.reservations if each.id == command.reservation)
    tokens = min(sum(inputs.spent), limits.WHOLE_NUMBER) if usages else reserved
    usage = sum(usages, Usage()) if usages else None
    commit = CommitTokens(
        scope=command.scope, frame=frame.id, reservation=command.reservation, tokens=tokens, usage=usage
    )
    return (frames_decide.build_spend_event(frame, command.reservation, commit, inputs),)


def decide_model_uses(state: SessionState, command: RecordModelUses, inputs: DecisionInput) -> tuple[Event, ...]:
    """A closed session takes them, too: facts are extracted after its end. So does one whose frame has ended meanwhile."""
    frame = state.frames.get(command.frame or "")
    name = None if frame is None else frame.id
    uses = tuple(
        ModelUsed(purpose=use.purpose, model=use.model, prompt=use.prompt, usage=use.usage, frame=name)
        for use in command.uses
    )
    if frame is None or not uses:
        return uses
    usage = sum((use.usage for use in command.uses), Usage())
    tokens = min(sum(inputs.spent), limits.WHOLE_NUMBER)
    commit = CommitTokens(scope=command.scope, frame=frame.id, reservation=None, tokens=tokens, usage=usage)
    return (*uses, frames_decide.build_spend_event(frame, None, commit, inputs))


def decide_end(state: SessionState, command: ResetSession | CloseSession, inputs: DecisionInput) -> tuple[Event, ...]:
    closings = messages.close_calls(state, state.open_calls, command.reason, inputs)
    if isinstance(command, ResetSession):
        check_open(state, command.scope)
        return (*closings, SessionReset(reason=command.reason, keep_system=command.keep_system))
    return () if state.status == "closed" else (*closings, SessionClosed(reason=command.reason))


def decide_timeout(state: SessionState, inputs: DecisionInput) -> tuple[Event, ...]:
    """A clock that stops or goes backwards times out no session. A session that waits for a token is not idle."""
    idle_us = inputs.time_us - state.active_us
    if state.status != "open" or not state.idle_timeout_us or idle_us < state.idle_timeout_us:
        return ()
    if state.resting:
        until = latest_token_expiry(state.frames)
        if until is None or inputs.time_us < until:
            return ()
    closings = messages.close_calls(state, state.open_calls, "the session was idle for too long", inputs)
    return (*closings, SessionTimedOut(idle_us=idle_us))


def decide_destruction(state: SessionState, command: DestroySession, inputs: DecisionInput) -> tuple[Event, ...]:
    if state.status == "destroyed":
        return ()
    if inputs.forks:
        some = ", ".join(inputs.forks[:10])
        raise errors.SessionHasForks(session=command.scope.session, count=len(inputs.forks), forks=some)
    closings = messages.close_calls(state, state.open_calls, command.reason, inputs)
    return (*closings, SessionDestroyed(reason=command.reason, offload=command.offload))


def decide_acknowledgement(command: AcknowledgeOffload, inputs: DecisionInput) -> tuple[Event, ...]:
    entry = inputs.offload
    if entry is None or entry.entry != command.entry:
        raise errors.OffloadNotFound(session=command.scope.session, entry=command.entry)
    if entry.done:
        return ()
    return (
        OffloadAcknowledged(entry=entry.entry, why=entry.why, first=entry.first, last=entry.last, at_us=entry.at_us),
    )


def decide_erasure(state: SessionState, command: ErasePayloads) -> tuple[Event, ...]:
    seqs = tuple(sorted(set(command.seqs)))
    check_size("the erasure", len(seqs), "events", "ERASE_EVENTS", "Erase in several steps.")
    outside = [seq for seq in seqs if not 1 <= seq <= state.version]
    if outside:
        raise errors.InvalidArgument(
            argument="seqs", reason=f"there is no event {outside[0]}; the last one is {state.version}"
        )
    if not command.shared:
        check_own(state, seqs, command.scope.session)
    if {calling_seq(call.id) for call in state.open_calls} & {*seqs}:
        raise messages.calls_open_error(command.scope, state.open_calls, "their messages cannot be erased yet")
    return (PayloadsErased(seqs=seqs, reason=command.reason),) if seqs else ()
