"""The decision of a session command: which events it makes, or why it is refused.

Laws: a decision looks only at its arguments and changes nothing; a command that changes nothing makes no events.
"""

from __future__ import annotations

from holdfast.core.entries import decide as entries_decide
from holdfast.core.facts import proposals
from holdfast.core.frames import decide as frames_decide
from holdfast.core.history import boundaries, withdrawals
from holdfast.core.packs import records
from holdfast.core.sessions import forks, layers, messages, turns
from holdfast.core.sessions.decide import (
    check_exists,
    check_open,
    decide_acknowledgement,
    decide_creation,
    decide_destruction,
    decide_end,
    decide_erasure,
    decide_fork,
    decide_model_uses,
    decide_recording,
    decide_timeout,
    session_not_found,
)
from holdfast.core.situation.decide import decide as situation_decide
from holdfast.model.commands import SessionCommand
from holdfast.model.entries.commands import EntryCommand
from holdfast.model.events import Event
from holdfast.model.facts.commands import DecideProposal, ProposeFacts
from holdfast.model.frames.commands import FrameCommand, PushFrame, ResumeActor
from holdfast.model.history.commands import (
    CompactContext,
    MoveHandle,
    RedactContext,
    RestoreMessages,
    Summarize,
    WithdrawMessages,
)
from holdfast.model.inputs import DecisionInput
from holdfast.model.packs.commands import RecordPack
from holdfast.model.sessions.commands import (
    AcknowledgeOffload,
    BranchSession,
    CloseCalls,
    CloseSession,
    CreateSession,
    DestroySession,
    EndTurn,
    ErasePayloads,
    ForkSession,
    LayerCommand,
    RecordMessages,
    RecordModelUses,
    RefreshIdentity,
    ResetSession,
    StartCall,
    TimeOutSession,
    TurnCommand,
)
from holdfast.model.situation.commands import SituationCommand
from holdfast.model.state import SessionState


def decide_session(state: SessionState, command: SessionCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events that this command makes now; none if it changes nothing. Refusals are raised."""
    if isinstance(command, CreateSession | ForkSession):
        return _decide_beginning(state, command, inputs)
    if state.status == "absent":
        raise session_not_found(command.scope)
    turns.check_fence(state, command, inputs)
    match command:
        case AcknowledgeOffload():
            return decide_acknowledgement(command, inputs)
        case ErasePayloads():
            if not command.alone:  # the rest of a destroyed session may still be erased
                check_exists(state, command.scope)
            return decide_erasure(state, command)
        case DestroySession():
            return decide_destruction(state, command, inputs)
    check_exists(state, command.scope)
    match command:
        case RecordMessages():
            return decide_recording(state, command, inputs)
        case CloseCalls():
            calls = state.open_calls if command.frame is None else messages.open_calls_in(state, command.frame)
            return messages.close_calls(state, calls, command.reason, inputs)
        case Summarize():
            return boundaries.decide_summary(state, command, inputs)
        case TimeOutSession():
            return decide_timeout(state, inputs)
        case ResetSession() | CloseSession():
            return decide_end(state, command, inputs)
    return _decide_in_room(state, command, inputs)


def _decide_beginning(
    state: SessionState, command: CreateSession | ForkSession, inputs: DecisionInput
) -> tuple[Event, ...]:
    if isinstance(command, ForkSession):
        return decide_fork(state, command, inputs)
    return decide_creation(state, command)


def _decide_in_room(
    state: SessionState,
    command: BranchSession
    | RecordModelUses
    | RecordPack
    | CompactContext
    | RedactContext
    | MoveHandle
    | WithdrawMessages
    | RestoreMessages
    | ProposeFacts
    | DecideProposal
    | LayerCommand
    | SituationCommand
    | TurnCommand
    | FrameCommand
    | EntryCommand,
    inputs: DecisionInput,
) -> tuple[Event, ...]:
    """Commands of the rooms. One that starts something new needs an open session."""
    if isinstance(command, BranchSession | RecordModelUses):
        return _decide_note(state, command, inputs)
    if isinstance(command, EntryCommand):
        return entries_decide.decide(state, command, inputs)
    if isinstance(command, RecordPack):
        check_open(state, command.scope)
        return records.decide_pack(state, command, inputs)
    if isinstance(command, CompactContext | RedactContext | MoveHandle):
        check_open(state, command.scope)
        return boundaries.decide_boundary(state, command, inputs)
    if isinstance(command, WithdrawMessages | RestoreMessages):
        check_open(state, command.scope)
        return withdrawals.decide(state, command, inputs)
    if isinstance(command, ProposeFacts | DecideProposal):
        check_open(state, command.scope)
        return proposals.decide(state, command, inputs)
    if isinstance(command, LayerCommand):
        if not isinstance(command, RefreshIdentity):  # a closed session can still be read: permissions stay revocable
            check_open(state, command.scope)
        return layers.decide(state, command, inputs)
    if isinstance(command, SituationCommand):
        check_open(state, command.scope)
        return situation_decide(state, command, inputs)
    if isinstance(command, TurnCommand):
        return _decide_turn(state, command, inputs)
    if isinstance(command, PushFrame | StartCall | ResumeActor):
        check_open(state, command.scope)
    return frames_decide.decide(state, command, inputs)


def _decide_note(
    state: SessionState, command: BranchSession | RecordModelUses, inputs: DecisionInput
) -> tuple[Event, ...]:
    """What is noted in a closed session, too."""
    if isinstance(command, BranchSession):
        return forks.decide_branch(state, command)
    return decide_model_uses(state, command, inputs)


def _decide_turn(state: SessionState, command: TurnCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    """A turn is on the conversation of an open session or of a live frame; the end of either has ended it."""
    if not isinstance(command, EndTurn):
        check_open(state, command.scope)
        if command.frame is not None:
            frames_decide.check_live_frame(state, command.scope, command.frame, inputs)
    elif state.status != "open":
        return ()
    return turns.decide(state, command, inputs)
