"""The tool calls of a conversation since its last action, read from the log."""

from __future__ import annotations

from holdfast.core.situation.reasoning import shorten_args, shorten_result
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from holdfast.model.content import ToolCall, ToolResult, calling_seq, text_of
from holdfast.model.frames.frames import frame_seq
from holdfast.model.inputs import AnsweredCall
from holdfast.model.names import StreamId
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message
from holdfast.model.situation.situations import ActionCall, ActionOutcome
from holdfast.model.state import SessionState

_TIMEOUT_PREFIX = "TimeoutError"
"""The start of a result that reports an exception of this name."""


def find_answered_calls(stream: StreamId, state: SessionState, frame: str | None) -> Flow[tuple[AnsweredCall, ...]]:
    """The tool calls of a conversation whose results came since its last action: the newest ones, oldest first, each
    with the provider's id. How far the log is searched is bounded too."""
    since = max(0, *state.standing(frame).actions[-1:], state.start, frame_seq(frame))
    results: list[tuple[ToolResult, bool]] = []
    calls: dict[str, ToolCall] = {}
    before, left = state.version + 1, limits.READ_EVENTS
    hidden = state.hidden_ranges(frame)
    while before > since + 1 and left > 0 and len(results) < limits.ACTION_CALLS:
        size = min(limits.ACTION_CALLS, left)
        page = yield from effects.read_back(stream, before, size, (MessageRecorded.name,))
        for message in (message_of(event) for event in page if event.seq > since):
            if message.frame == frame and message.seq not in hidden:
                results += ((result, message.closing) for result in reversed(message.tool_results))
                calls |= _calls_by_id(message)
        if len(page) < size:
            break
        before, left = page[-1].seq, left - len(page)
    answered: list[AnsweredCall] = []
    for result, closing in reversed(results[: limits.ACTION_CALLS]):
        if result.tool_call_id not in calls:  # the call is older than the last action
            calls |= yield from _read_calls(stream, result.tool_call_id)
        call = calls.get(result.tool_call_id)
        if call is not None:
            answered.append(AnsweredCall(_build_action_call(call, result, closing=closing), call.provider_id or ""))
    return tuple(answered)


def _read_calls(stream: StreamId, call: str) -> Flow[dict[str, ToolCall]]:
    seq = calling_seq(call) or 0
    for recorded in (yield from effects.read(stream, seq - 1, 1)) if seq else ():
        if recorded.seq == seq:
            return _calls_by_id(message_of(recorded))
    return {}


def _calls_by_id(message: Message) -> dict[str, ToolCall]:
    return {call.id: call for call in message.tool_calls}


def _build_action_call(call: ToolCall, result: ToolResult, *, closing: bool) -> ActionCall:
    text = text_of(result.content)
    return ActionCall(
        name=call.name,
        args=shorten_args(call.args),
        result=shorten_result(text),
        outcome=_outcome_of(result, text, closing=closing),
        call=call.id,
    )


def _outcome_of(result: ToolResult, text: str, *, closing: bool) -> ActionOutcome:
    if not result.is_error:
        return "success"
    return "timeout" if not closing and text.startswith(_TIMEOUT_PREFIX) else "error"
