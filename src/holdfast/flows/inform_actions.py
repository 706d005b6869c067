"""What was done in a conversation since its last action: looked up in the log."""

from __future__ import annotations

from holdfast.core.messages import group_of
from holdfast.core.situation import bounded_args, bounded_result
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.read import message
from holdfast.model import limits
from holdfast.model.content import ToolCall, ToolResult, text_of
from holdfast.model.events import MessageRecorded
from holdfast.model.frames import frame_seq
from holdfast.model.messages import Message
from holdfast.model.names import StreamId
from holdfast.model.situation import ActionCall, Outcome
from holdfast.model.state import SessionState

_TIMEOUT = "TimeoutError"
"""How a result begins that stands for an exception of this name."""


def answered(stream: StreamId, state: SessionState, frame: str | None) -> Flow[tuple[tuple[ActionCall, str], ...]]:
    """The tool calls of a conversation whose results came since its last action: the newest ones, oldest first, each with
    the provider's id. What is looked through is bounded too."""
    since = max(0, *state.standing(frame).actions[-1:], state.start, frame_seq(frame))
    results: list[tuple[ToolResult, bool]] = []
    calls: dict[str, ToolCall] = {}
    before, left = state.version + 1, limits.READ_EVENTS
    while before > since + 1 and left > 0 and len(results) < limits.ACTION_CALLS:
        size = min(limits.ACTION_CALLS, left)
        page = yield from effects.read_back(stream, before, size, (MessageRecorded.name,))
        for said in (message(each) for each in page if each.seq > since):
            if said.frame == frame:
                results += ((each, said.closing) for each in reversed(said.tool_results))
                calls |= _calls(said)
        if len(page) < size:
            break
        before, left = page[-1].seq, left - len(page)
    found: list[tuple[ActionCall, str]] = []
    for result, closing in reversed(results[: limits.ACTION_CALLS]):
        if result.tool_call_id not in calls:  # it was made before the action that its result came after
            calls |= yield from _called(stream, result.tool_call_id)
        call = calls.get(result.tool_call_id)
        if call is not None:
            found.append((_done(call, result, closing=closing), call.provider_id or ""))
    return tuple(found)


def _called(stream: StreamId, call: str) -> Flow[dict[str, ToolCall]]:
    seq = group_of(call) or 0
    for recorded in (yield from effects.read(stream, seq - 1, 1)) if seq else ():
        if recorded.seq == seq:
            return _calls(message(recorded))
    return {}


def _calls(said: Message) -> dict[str, ToolCall]:
    return {call.id: call for call in said.tool_calls}


def _done(call: ToolCall, result: ToolResult, *, closing: bool) -> ActionCall:
    text = text_of(result.content)
    return ActionCall(
        name=call.name,
        args=bounded_args(call.args),
        result=bounded_result(text),
        outcome=_outcome(result, text, closing=closing),
        call=call.id,
    )


def _outcome(result: ToolResult, text: str, *, closing: bool) -> Outcome:
    if not result.is_error:
        return "success"
    return "timeout" if not closing and text.startswith(_TIMEOUT) else "error"
