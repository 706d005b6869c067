"""Sessions: what a command makes happen.

Laws: `decide` looks only at its arguments and changes nothing; a closed session stays closed, a destroyed one destroyed;
what ends a conversation closes the calls that wait first.
"""

from __future__ import annotations

import msgspec

from holdfast import errors
from holdfast.core import boundaries, frames, layers, messages, packs, proposals, situation, stack, summaries
from holdfast.core.fold import fold
from holdfast.model import limits
from holdfast.model.commands import (
    AcknowledgeOffload,
    CloseCalls,
    CloseSession,
    Command,
    CommitTokens,
    CompactContext,
    CreateSession,
    DecideProposal,
    DestroySession,
    ErasePayloads,
    FrameCommand,
    Given,
    LayerCommand,
    MoveHandle,
    ProposeFacts,
    PushFrame,
    RecordMessages,
    RecordPack,
    RedactContext,
    RefreshIdentity,
    ResetSession,
    ResumeActor,
    SituationCommand,
    StartCall,
    Summarize,
    TimeOutSession,
)
from holdfast.model.content import Usage
from holdfast.model.events import (
    Event,
    EvidenceKept,
    OffloadAcknowledged,
    PayloadsErased,
    SessionClosed,
    SessionCreated,
    SessionDestroyed,
    SessionReset,
    SessionTimedOut,
)
from holdfast.model.frames import FrameState
from holdfast.model.names import Scope, check_size
from holdfast.model.state import SessionState


def decide(state: SessionState, command: Command, given: Given) -> tuple[Event, ...]:
    """The events that this command makes now; none if it changes nothing. Refusals are raised."""
    if isinstance(command, CreateSession):
        return _create(state, command)
    if state.status == "absent":
        raise not_found(command.scope)
    match command:
        case AcknowledgeOffload():
            return _acknowledge(command, given)
        case ErasePayloads():
            if not command.alone:  # who has it whole, the session itself, may still be erased when it was destroyed
                check_there(state, command.scope)
            return _erase(state, command)
        case DestroySession():
            return _destroy(state, command, given)
    check_there(state, command.scope)
    match command:
        case RecordMessages():
            return _record(state, command, given)
        case CloseCalls():
            calls = state.open_calls if command.frame is None else messages.waiting_in(state, command.frame)
            return messages.closing(state, calls, command.reason, given)
        case Summarize():
            return summaries.record(state, command, given)
        case TimeOutSession():
            return _time_out(state, given)
        case ResetSession() | CloseSession():
            return _end(state, command, given)
    return _in_layers_or_frames(state, command, given)


def _in_layers_or_frames(
    state: SessionState,
    command: RecordPack
    | CompactContext
    | RedactContext
    | MoveHandle
    | ProposeFacts
    | DecideProposal
    | LayerCommand
    | SituationCommand
    | FrameCommand,
    given: Given,
) -> tuple[Event, ...]:
    """What begins nothing new in a frame needs one that lives, and says so if none does."""
    if isinstance(command, RecordPack):
        check_open(state, command.scope)
        return packs.record(state, command, given)
    if isinstance(command, CompactContext | RedactContext | MoveHandle):
        check_open(state, command.scope)
        return boundaries.decide(state, command, given)
    if isinstance(command, ProposeFacts | DecideProposal):
        check_open(state, command.scope)
        return proposals.decide(state, command, given)
    if isinstance(command, LayerCommand):
        if not isinstance(command, RefreshIdentity):  # a closed session can still be read: permissions stay revocable
            check_open(state, command.scope)
        return layers.decide(state, command, given)
    if isinstance(command, SituationCommand):
        check_open(state, command.scope)
        return situation.decide(state, command, given)
    if isinstance(command, PushFrame | StartCall | ResumeActor):
        check_open(state, command.scope)
    return frames.decide(state, command, given)


def check_there(state: SessionState, scope: Scope) -> None:
    if state.status == "absent":
        raise not_found(scope)
    if state.status == "destroyed":
        raise errors.SessionDestroyed(
            tenant=scope.tenant,
            actor=scope.actor,
            session=scope.session,
            thread=scope.thread,
            reason=state.close_reason,
        )


def not_found(scope: Scope) -> errors.SessionNotFound:
    return errors.SessionNotFound(tenant=scope.tenant, actor=scope.actor, session=scope.session, thread=scope.thread)


def check_open(state: SessionState, scope: Scope) -> None:
    """Raises if the session is not there, or takes no more."""
    check_there(state, scope)
    if state.status == "closed":
        raise errors.SessionClosed(session=scope.session, reason=state.close_reason)


def _create(state: SessionState, command: CreateSession) -> tuple[Event, ...]:
    if state.status != "absent":
        raise errors.SessionExists(session=command.scope.session, actor=command.scope.actor)
    created = SessionCreated(
        metadata=command.metadata, idle_timeout_us=command.idle_timeout_us, ledgers=command.ledgers
    )
    return (created if command.identity is None else msgspec.structs.replace(created, identity=command.identity),)


def _record(state: SessionState, command: RecordMessages, given: Given) -> tuple[Event, ...]:
    """Each message is decided on what the ones before it made of the state: a batch is as good as one at a time."""
    frame: FrameState | None = None
    bare = command.reservation is None and all(new.tool_results for new in command.messages)  # those go to their calls
    if command.frame is not None and not bare:
        frame = frames.live(state, command.scope, command.frame, given)
    events: list[Event] = []
    folded = 0
    for new, tokens in zip(command.messages, given.tokens, strict=True):
        for event in events[folded:]:
            given = messages.with_fates(given, state, event)
            state = fold(state, event, event.name, given.time_us)
        folded = len(events)
        events += messages.record(
            state, command.scope, new, tokens, given, as_found=command.as_found, frame=command.frame
        )
    if not all(
        isinstance(event, EvidenceKept) for event in events
    ):  # a late result is news of the past: it may come in
        check_open(state, command.scope)
    return tuple(events) if frame is None else (*events, *_charged(frame, command, given))


def _charged(frame: FrameState, command: RecordMessages, given: Given) -> tuple[Event, ...]:
    """What the messages say of usage, taken from the frame's budget. If they say nothing, what was reserved stands for
    it."""
    said = [new.usage for new in command.messages if new.usage is not None]
    if not said and command.reservation is None:
        return ()
    reserved = sum(each.amount for each in frame.reservations if each.id == command.reservation)
    tokens = min(sum(given.spent), limits.WHOLE_NUMBER) if said else reserved
    usage = sum(said, Usage()) if said else None
    what = CommitTokens(
        scope=command.scope, frame=frame.id, reservation=command.reservation, tokens=tokens, usage=usage
    )
    return (frames.spent(frame, command.reservation, what, given),)


def _end(state: SessionState, command: ResetSession | CloseSession, given: Given) -> tuple[Event, ...]:
    closed = messages.closing(state, state.open_calls, command.reason, given)
    if isinstance(command, ResetSession):
        check_open(state, command.scope)
        return (*closed, SessionReset(reason=command.reason, keep_system=command.keep_system))
    return () if state.status == "closed" else (*closed, SessionClosed(reason=command.reason))


def _time_out(state: SessionState, given: Given) -> tuple[Event, ...]:
    """A clock that stands still or runs backwards times nobody out, and what waits for a token is not idle."""
    idle_us = given.time_us - state.active_us
    if state.status != "open" or not state.idle_timeout_us or idle_us < state.idle_timeout_us:
        return ()
    if state.resting:
        until = stack.rest_until(state.frames)
        if until is None or given.time_us < until:
            return ()
    closed = messages.closing(state, state.open_calls, "the session was idle for too long", given)
    return (*closed, SessionTimedOut(idle_us=idle_us))


def _destroy(state: SessionState, command: DestroySession, given: Given) -> tuple[Event, ...]:
    if state.status == "destroyed":
        return ()
    closed = messages.closing(state, state.open_calls, command.reason, given)
    return (*closed, SessionDestroyed(reason=command.reason, offload=command.offload))


def _acknowledge(command: AcknowledgeOffload, given: Given) -> tuple[Event, ...]:
    entry = given.offload
    if entry is None or entry.entry != command.entry:
        raise errors.OffloadNotFound(session=command.scope.session, entry=command.entry)
    if entry.done:
        return ()
    return (
        OffloadAcknowledged(entry=entry.entry, why=entry.why, first=entry.first, last=entry.last, at_us=entry.at_us),
    )


def _erase(state: SessionState, command: ErasePayloads) -> tuple[Event, ...]:
    seqs = tuple(sorted(set(command.seqs)))
    check_size("the erasure", len(seqs), "events", "ERASE_EVENTS", "Erase in several steps.")
    outside = [seq for seq in seqs if not 1 <= seq <= state.version]
    if outside:
        raise errors.InvalidContent(reason=f"there is no event {outside[0]} to erase; the last is {state.version}")
    if {messages.group_of(call.id) for call in state.open_calls} & {*seqs}:
        raise messages.calls_open(command.scope, state.open_calls, "what made them cannot be erased yet")
    return (PayloadsErased(seqs=seqs, reason=command.reason),) if seqs else ()
