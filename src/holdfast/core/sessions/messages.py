"""Messages: which may be recorded, and how calls and results are paired.

Laws: a conversation waits for the results of at most one message at a time. An open call gets one result. No reply is
recorded in a conversation with open calls. So calls and results are paired in the log itself, and views rely on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast import errors
from holdfast.model import limits
from holdfast.model.content import Json, Text, ToolCall, ToolResult, call_id, calling_seq
from holdfast.model.frames.frames import MessagePositions
from holdfast.model.inputs import DecisionInput, ResolvedCall
from holdfast.model.names import Scope, check_size
from holdfast.model.sessions.commands import NewMessage, NewResult
from holdfast.model.sessions.events import NO_SUCH_CALL, EvidenceKept, MessageRecorded
from holdfast.model.state import OpenCall, SessionState


def find_open_call(state: SessionState, call: str, frame: str | None = None) -> OpenCall | None:
    """The open call with this id, ours or the provider's. A provider's id is unique in one conversation only: without a
    frame, it also finds the call of a frame if no other open call has it."""
    matches = [each for each in state.open_calls if call in (each.id, each.provider_id)]
    in_frame = (each for each in matches if each.frame == frame)
    for match in (*(each for each in matches if each.id == call), *in_frame):
        return match
    return matches[0] if frame is None and len(matches) == 1 else None


def closing_text(reason: str, key: str = "") -> str:
    """The result of a closed call. A call that was started under a key may have taken effect."""
    doubt = f". It was started under the key {key}, and may have taken effect" if key else ""
    return f"No result: {reason}{doubt}"


def open_calls_in(state: SessionState, frame: str | None) -> list[OpenCall]:
    """The open calls of a conversation: of a frame, or for None of the session outside of frames."""
    return [call for call in state.open_calls if call.frame == frame]


def close_calls(
    state: SessionState,
    calls: Sequence[OpenCall],
    reason: str,
    inputs: DecisionInput,
    metadata: dict[str, Json] | None = None,
) -> tuple[MessageRecorded, ...]:
    """The messages that close these calls with an error each. The calls of one message stay together."""
    groups: dict[int | None, list[OpenCall]] = {}
    for call in calls:
        groups.setdefault(calling_seq(call.id), []).append(call)
    return tuple(
        MessageRecorded(
            role="tool",
            tool_results=tuple(
                ToolResult(call.id, (Text(closing_text(reason, call.key)),), is_error=True) for call in group
            ),
            tokens=sum(inputs.calls.started_tokens if call.key else inputs.calls.closing_tokens for call in group),
            counter=inputs.counter,
            metadata=metadata or {},
            closing=True,
            frame=live_frame_of(state, group[0]),
        )
        for group in groups.values()
    )


def live_frame_of(state: SessionState, call: OpenCall) -> str | None:
    """The frame of a call, if it is live."""
    return call.frame if call.frame in state.frames else None


def record_message(
    state: SessionState,
    scope: Scope,
    new: NewMessage,
    tokens: int,
    inputs: DecisionInput,
    *,
    as_found: bool,
    frame: str | None = None,
) -> tuple[MessageRecorded | EvidenceKept, ...]:
    """The events of one message in this state. A result belongs to the frame of its call."""
    _check_shape(state, new, as_found=as_found)
    if not (new.content or new.tool_calls or new.tool_results or new.skipped):
        return (_build_evidence(new, (), "the message is empty", tokens, inputs),)
    if new.role == "tool":
        return _record_results(state, scope, new, tokens, inputs, as_found=as_found, frame=frame)
    before: tuple[MessageRecorded, ...] = ()
    waiting = open_calls_in(state, frame) if new.role == "assistant" else []
    if waiting:
        if not as_found:
            raise calls_open_error(scope, waiting, "the model cannot have answered yet")
        before = close_calls(state, waiting, "the log has none", inputs, {"import": {"added": True}})
    seq = state.version + len(before) + 1
    calls = tuple(
        ToolCall(call_id(seq, ordinal), call.name, call.args, call.provider_id, call.raw)
        for ordinal, call in enumerate(new.tool_calls)
    )
    return (
        *before,
        MessageRecorded(
            role=new.role,
            content=new.content,
            tool_calls=() if new.skipped else calls,
            tokens=tokens,
            counter=inputs.counter,
            usage=new.usage,
            source=new.source,
            metadata=new.metadata,
            frame=frame,
            skipped=new.skipped,
            dropped_calls=calls if new.skipped else (),
            priority=new.priority,
        ),
    )


def calls_open_error(scope: Scope, waiting: Sequence[OpenCall], what: str) -> errors.CallsOpen:
    calls = ", ".join(f"{call.id} {call.name}" for call in waiting[:10])
    return errors.CallsOpen(session=scope.session, count=len(waiting), calls=calls, what=what)


def add_recorded(state: SessionState, event: MessageRecorded | EvidenceKept) -> SessionState:
    """The state after one more event of a batch, as far as the next message is decided on it."""
    changes: dict[str, Any] = {"version": state.version + 1}
    if isinstance(event, MessageRecorded):
        changes["open_calls"] = fold_open_calls(state.open_calls, event)
        if event.role == "system":
            changes["pinned"] = (*state.pinned, state.version + 1)
    return msgspec.structs.replace(state, **changes)


def fold_open_calls(open_calls: tuple[OpenCall, ...], event: MessageRecorded) -> tuple[OpenCall, ...]:
    """The open calls after one more message."""
    if event.tool_calls:
        opened = (OpenCall(call.id, call.name, call.provider_id, event.frame) for call in event.tool_calls)
        return (*open_calls, *opened)
    if event.tool_results:
        answered = {result.tool_call_id for result in event.tool_results}
        return tuple(call for call in open_calls if call.id not in answered)
    return open_calls


def add_resolved_calls(
    inputs: DecisionInput, state: SessionState, event: MessageRecorded | EvidenceKept
) -> DecisionInput:
    """The input after one more event: the calls that it answered or closed are resolved."""
    if not isinstance(event, MessageRecorded) or not event.tool_results:
        return inputs
    ids = {result.tool_call_id for result in event.tool_results}
    resolved = dict(inputs.calls.resolved)
    for call in state.open_calls:
        if call.id in ids:
            resolution = ResolvedCall("closed" if event.closing else "answered", call.id)
            resolved[call.id] = resolved[call.provider_id or call.id] = resolution
    return msgspec.structs.replace(inputs, calls=msgspec.structs.replace(inputs.calls, resolved=resolved))


def _check_shape(state: SessionState, new: NewMessage, *, as_found: bool) -> None:
    if new.role != "assistant" and new.tool_calls:
        raise errors.InvalidArgument(argument="tool_calls", reason=f"a {new.role} message has no tool calls")
    if (new.role == "tool") != bool(new.tool_results) and not (as_found and not new.tool_results):
        raise errors.InvalidArgument(
            argument="role", reason="a message has the role 'tool' if and only if it has tool results"
        )
    if new.tool_results and new.content:
        raise errors.InvalidArgument(argument="content", reason="a tool message has results and no other content")
    if new.skipped and (new.role != "assistant" or new.tool_results):
        raise errors.InvalidArgument(argument="skipped", reason="only a reply of the assistant can be skipped")
    if not (new.content or new.tool_calls or new.tool_results or new.skipped or as_found):
        raise errors.InvalidArgument(argument="content", reason="a message needs content, tool calls or tool results")
    ids = [call.provider_id for call in new.tool_calls if call.provider_id is not None]
    if len(set(ids)) != len(ids):
        raise errors.InvalidArgument(argument="tool_calls", reason="two tool calls of one message have the same id")
    if new.role == "system":
        advice = "System messages are always in view: record notes as user messages, or reset the session."
        check_size("the session", len(state.pinned) + 1, "system messages", "PINNED_MESSAGES", advice)


def _record_results(
    state: SessionState,
    scope: Scope,
    new: NewMessage,
    tokens: int,
    inputs: DecisionInput,
    *,
    as_found: bool,
    frame: str | None,
) -> tuple[MessageRecorded | EvidenceKept, ...]:
    """Results of open calls are a message; results of closed calls are evidence."""
    if not new.tool_results:
        return (_build_evidence(new, (), "no tool call goes with it", tokens, inputs),)
    results: list[ToolResult] = []
    calls: list[OpenCall] = []
    late_results: list[tuple[ToolResult, str]] = []
    for result in new.tool_results:
        call = find_open_call(state, result.call, frame)
        if call is not None and all(call.id != each.tool_call_id for each in results):
            results.append(ToolResult(call.id, result.content, result.is_error))
            calls.append(call)
            continue
        resolution = inputs.calls.resolved.get(result.call) if call is None else ResolvedCall("answered", call.id)
        reason = _evidence_reason(scope, result, resolution, as_found=as_found)
        answer_to = resolution.id if resolution else result.call
        late_results.append((ToolResult(answer_to, result.content, result.is_error), reason))
    evidence = tuple(
        _build_evidence(new, (result,), reason, 0 if results or index else tokens, inputs)
        for index, (result, reason) in enumerate(late_results)
    )
    if not results:
        return evidence
    if len(calls) > 1 and len({calling_seq(call.id) for call in calls}) > 1:
        raise errors.InvalidArgument(
            argument="tool_results",
            reason="they answer calls of several messages; record the results of each separately",
        )
    message = MessageRecorded(
        role="tool",
        tool_results=tuple(results),
        tokens=tokens,
        counter=inputs.counter,
        metadata=new.metadata,
        frame=live_frame_of(state, calls[0]),
    )
    return (message, *evidence)


def _evidence_reason(scope: Scope, result: NewResult, resolution: ResolvedCall | None, *, as_found: bool) -> str:
    """Why a result of a call that is not open becomes evidence. Raises if it is refused."""
    if resolution is not None and resolution.kind == "closed":
        return "the call was closed before"
    if as_found:
        return "the call had its result" if resolution else NO_SUCH_CALL
    if resolution is not None:
        raise errors.CallAnswered(session=scope.session, call=result.call)
    raise errors.CallNotFound(session=scope.session, call=result.call)


def _build_evidence(
    new: NewMessage, results: tuple[ToolResult, ...], reason: str, tokens: int, inputs: DecisionInput
) -> EvidenceKept:
    return EvidenceKept(
        reason=reason,
        role=new.role,
        content=new.content,
        tool_results=results,
        tokens=tokens,
        counter=inputs.counter,
        metadata=new.metadata,
    )


def extend_positions(positions: MessagePositions, seq: int) -> MessagePositions:
    """The positions after one more message."""
    gap, first = (positions.last + 1, seq - 1), positions.first or seq
    if gap[1] - gap[0] < limits.GAP_EVENTS:
        return MessagePositions(seq, positions.gaps, first)
    return MessagePositions(seq, (*positions.gaps, gap)[-limits.GAPS :], first)
