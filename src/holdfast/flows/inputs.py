"""The input of a decision about a session, completed from the log and the rows, so that the state can stay small."""

from __future__ import annotations

import msgspec

from holdfast.core.history.views import critical_seqs, has_whole_groups
from holdfast.core.sessions.messages import find_open_call
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.entries.lookup import complete_append, find_entry_seqs
from holdfast.flows.frames.lookup import complete_frame_input, session_filter
from holdfast.flows.history.visibility import measure_restoration, measure_withdrawal
from holdfast.flows.lineage import find_children
from holdfast.flows.sessions.erasure import find_erased_seqs
from holdfast.flows.sessions.transcript import message_of, read_results, read_stretch
from holdfast.flows.situation.lookup import find_answered_calls
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import ToolCall, calling_seq
from holdfast.model.entries.commands import AppendEntries, DeleteEntries
from holdfast.model.history.commands import RestoreMessages, Summarize, WithdrawMessages
from holdfast.model.inputs import ActionInput, DecisionInput, EntryInput, ResolvedCall, SummaryInput
from holdfast.model.names import StreamId
from holdfast.model.rows import OutboxRow
from holdfast.model.sessions.commands import (
    AcknowledgeOffload,
    DestroySession,
    ErasePayloads,
    RecordMessages,
    StartCall,
)
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message
from holdfast.model.situation.commands import RecordAction
from holdfast.model.state import SessionState, SummaryRef


def complete_input(
    command: SessionCommand, inputs: DecisionInput, state: SessionState
) -> Flow[tuple[SessionCommand, DecisionInput]]:
    """The command and its input, completed."""
    if not isinstance(command, RecordMessages) or command.frame is not None or command.reservation is not None:
        inputs = yield from complete_frame_input(command, inputs, state)
    stream = command.scope.stream
    match command:
        case RecordMessages():
            return command, _add_resolved_calls(inputs, (yield from _find_resolved_calls(command, state)))
        case StartCall() if find_open_call(state, command.call) is None:
            call = yield from _find_resolved_call(stream, command.call, state.version)
            return command, _add_resolved_calls(inputs, {} if call is None else {command.call: call})
        case Summarize():
            return command, msgspec.structs.replace(inputs, summary=(yield from _measure_summary(command, state)))
        case WithdrawMessages():
            return command, msgspec.structs.replace(inputs, withdrawal=(yield from measure_withdrawal(command, state)))
        case RestoreMessages():
            return command, msgspec.structs.replace(inputs, withdrawal=(yield from measure_restoration(command, state)))
        case AcknowledgeOffload():
            return command, msgspec.structs.replace(inputs, offload=(yield from _find_outbox_row(command)))
        case RecordAction(tool_calls=None):
            calls = yield from find_answered_calls(stream, state, command.frame)
            return command, msgspec.structs.replace(inputs, actions=ActionInput(calls))
        case AppendEntries():
            return command, (yield from complete_append(command, inputs))
        case ErasePayloads(alone=False) | DeleteEntries() | DestroySession():
            return (yield from _complete_removal(command, inputs))
    return command, inputs


def _complete_removal(
    command: ErasePayloads | DeleteEntries | DestroySession, inputs: DecisionInput
) -> Flow[tuple[SessionCommand, DecisionInput]]:
    """The events that are erased together; the forks that need the session."""
    stream = command.scope.stream
    if isinstance(command, DestroySession):
        forks = yield from find_children(stream)
        return command, msgspec.structs.replace(inputs, forks=tuple(row.session for row in forks if not row.gone))
    if isinstance(command, ErasePayloads):
        seqs = yield from find_erased_seqs(stream, command.seqs)
        return msgspec.structs.replace(command, seqs=tuple(sorted(seqs))), inputs
    seqs = yield from find_erased_seqs(stream, (yield from find_entry_seqs(command)))
    return command, msgspec.structs.replace(inputs, entries=EntryInput(erased=tuple(sorted(seqs))))


def _add_resolved_calls(inputs: DecisionInput, resolved: dict[str, ResolvedCall]) -> DecisionInput:
    if not resolved:
        return inputs
    return msgspec.structs.replace(inputs, calls=msgspec.structs.replace(inputs.calls, resolved=resolved))


def _find_resolved_calls(command: RecordMessages, state: SessionState) -> Flow[dict[str, ResolvedCall]]:
    """The calls that results of the command name and that are no longer open."""
    resolved: dict[str, ResolvedCall] = {}
    new_calls: set[str | None] = set()
    for new in command.messages:
        new_calls |= {call.provider_id for call in new.tool_calls}
        for result in new.tool_results:
            name = result.call
            if name in new_calls or name in resolved or find_open_call(state, name, command.frame):
                continue
            call = yield from _find_resolved_call(command.scope.stream, name, state.version, command.frame)
            if call is not None:
                resolved[name] = call
    return resolved


def _find_resolved_call(
    stream: StreamId, name: str, version: int, frame: str | None = None
) -> Flow[ResolvedCall | None]:
    """Our own id of a call says where it is. An id of the provider is searched among the newest messages only."""
    seq = calling_seq(name)
    if seq is None:
        for recorded in (yield from effects.read_back(stream, None, limits.READ_EVENTS, (MessageRecorded.name,))):
            message = message_of(recorded)
            for call in message.tool_calls if frame in (None, message.frame) else ():
                if call.provider_id == name:
                    return (yield from _resolve_call(stream, call, recorded.seq, version))
        return None
    if seq <= version:
        for recorded in (yield from effects.read(stream, seq - 1, 1)):
            for call in message_of(recorded).tool_calls:
                if call.id == name:
                    return (yield from _resolve_call(stream, call, seq, version))
    return None


def _resolve_call(stream: StreamId, call: ToolCall, seq: int, version: int) -> Flow[ResolvedCall | None]:
    for message in (yield from read_results(stream, seq, version)):
        if any(result.tool_call_id == call.id for result in message.tool_results):
            return ResolvedCall("closed" if message.closing else "answered", call.id)
    return None


def _measure_summary(command: Summarize, state: SessionState) -> Flow[SummaryInput | None]:
    """The size of the messages that the summary covers; None if it begins or ends inside a call group."""
    if command.replaces or not state.start < command.first <= command.last <= state.version:
        return None
    stretch = yield from read_stretch(command.scope.stream, state, command.frame, command.first, command.last)
    if stretch is None or not has_whole_groups(each for each in stretch if isinstance(each, Message)):
        return None
    tokens = messages = whole_tokens = 0
    kept = critical_seqs(stretch)
    for each in stretch:
        if isinstance(each, Message) and each.seq in kept:
            continue
        tokens += each.tokens
        messages += each.messages if isinstance(each, SummaryRef) else 1
        whole_tokens += each.replaced if isinstance(each, SummaryRef) else each.whole_tokens
    return SummaryInput(tokens=tokens, messages=messages, whole_tokens=whole_tokens, kept=tuple(sorted(kept)))


def _find_outbox_row(command: AcknowledgeOffload) -> Flow[OutboxRow | None]:
    where = session_filter(command.scope) | {"entry": command.entry}
    for row in (yield from effects.rows(OutboxRow, where, None, 1)):
        return row
    return None
