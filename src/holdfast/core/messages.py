"""Messages: what may be recorded, and how calls and results are paired.

Laws: a conversation, that of a frame or that outside of all of them, waits for the results of at most one message at a
time; a result is taken for a call that waits, once; no reply is recorded in a conversation while its calls wait. So calls
and results pair up in the log itself, and every view can rely on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from holdfast import errors
from holdfast.model import limits
from holdfast.model.commands import Fate, Given, NewMessage, NewResult
from holdfast.model.content import Json, Text, ToolCall, ToolResult
from holdfast.model.events import Event, EvidenceKept, MessageRecorded
from holdfast.model.frames import Spoken
from holdfast.model.names import Scope, check_size
from holdfast.model.state import OpenCall, SessionState

NO_SUCH_CALL = "no such call"
"""Why a result is evidence that answers nothing: whatever its id reads like, it is no call of this session."""

_CALL_ID = re.compile(r"c([1-9][0-9]{0,18})_(0|[1-9][0-9]{0,5})")


def call_id(seq: int, ordinal: int) -> str:
    """The id of a call: short, since models read it. The seq of its message makes it unique in the session."""
    return f"c{seq}_{ordinal}"


def group_of(call: str) -> int | None:
    """The seq of the message that made this call; None if it is no id of ours."""
    match = _CALL_ID.fullmatch(call)
    return int(match[1]) if match else None


def waiting_for(state: SessionState, call: str, frame: str | None = None) -> OpenCall | None:
    """The open call that goes by this id: ours, or the provider's, which is unique in one conversation only. Outside of
    all frames it may be that of a frame, if no other waits under it."""
    known = [each for each in state.open_calls if call in (each.id, each.provider_id)]
    own = [each for each in known if each.frame == frame]
    for each in (*(one for one in known if one.id == call), *own):
        return each
    return known[0] if frame is None and len(known) == 1 else None


def closing_text(reason: str, key: str = "") -> str:
    """What stands for the result of a call that was closed. If it was started, under a key, it may have taken effect."""
    doubt = f". It was started under the key {key}, and may have taken effect" if key else ""
    return f"No result: {reason}{doubt}"


def waiting_in(state: SessionState, frame: str | None) -> list[OpenCall]:
    """The calls that the conversation of a frame waits for; for None, that outside of all frames."""
    return [call for call in state.open_calls if call.frame == frame]


def closing(
    state: SessionState,
    calls: Sequence[OpenCall],
    reason: str,
    given: Given,
    metadata: dict[str, Json] | None = None,
) -> tuple[MessageRecorded, ...]:
    """What closes these calls: an error for each, so that no session is ever stuck. Those of one message stay together."""
    groups: dict[int | None, list[OpenCall]] = {}
    for call in calls:
        groups.setdefault(group_of(call.id), []).append(call)
    return tuple(
        MessageRecorded(
            role="tool",
            tool_results=tuple(
                ToolResult(call.id, (Text(closing_text(reason, call.key)),), is_error=True) for call in group
            ),
            tokens=sum(given.started_tokens if call.key else given.closing_tokens for call in group),
            counter=given.counter,
            metadata=metadata or {},
            closing=True,
            frame=live_frame(state, group[0]),
        )
        for group in groups.values()
    )


def live_frame(state: SessionState, call: OpenCall) -> str | None:
    """The frame that the result of a call belongs to, if it lives."""
    return call.frame if call.frame in state.frames else None


def record(
    state: SessionState,
    scope: Scope,
    new: NewMessage,
    tokens: int,
    given: Given,
    *,
    as_found: bool,
    frame: str | None = None,
) -> tuple[MessageRecorded | EvidenceKept, ...]:
    """What becomes of one message in this state. Results belong to the frame that their call was made in."""
    _check_shape(state, new, as_found=as_found)
    if not (new.content or new.tool_calls or new.tool_results or new.skipped):
        return (_evidence(new, (), "the message is empty", tokens, given),)
    if new.role == "tool":
        return _results(state, scope, new, tokens, given, as_found=as_found, frame=frame)
    before: tuple[MessageRecorded, ...] = ()
    waiting = waiting_in(state, frame) if new.role == "assistant" else []
    if waiting:
        if not as_found:
            raise calls_open(scope, waiting, "the model cannot have answered yet")
        before = closing(state, waiting, "the log has none", given, {"import": {"added": True}})
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
            counter=given.counter,
            usage=new.usage,
            source=new.source,
            metadata=new.metadata,
            frame=frame,
            skipped=new.skipped,
            dropped_calls=calls if new.skipped else (),
            priority=new.priority,
        ),
    )


def calls_open(scope: Scope, waiting: Sequence[OpenCall], what: str) -> errors.CallsOpen:
    calls = ", ".join(f"{call.id} {call.name}" for call in waiting[:10])
    return errors.CallsOpen(session=scope.session, count=len(waiting), calls=calls, what=what)


def with_fates(given: Given, state: SessionState, event: Event) -> Given:
    """What is known of calls, after one more event: those that it answered or closed do not wait any more."""
    if not isinstance(event, MessageRecorded) or not event.tool_results:
        return given
    answered = {result.tool_call_id for result in event.tool_results}
    fates = dict(given.fates)
    for call in state.open_calls:
        if call.id in answered:
            fates[call.id] = fates[call.provider_id or call.id] = Fate(
                "closed" if event.closing else "answered", call.id
            )
    return msgspec.structs.replace(given, fates=fates)


def _check_shape(state: SessionState, new: NewMessage, *, as_found: bool) -> None:
    if new.role != "assistant" and new.tool_calls:
        raise errors.InvalidContent(reason=f"a {new.role} message makes no tool calls")
    if (new.role == "tool") != bool(new.tool_results) and not (as_found and not new.tool_results):
        raise errors.InvalidContent(reason="tool results, and nothing else, make a message of role 'tool'")
    if new.tool_results and new.content:
        raise errors.InvalidContent(reason="a tool message has results and no other content")
    if new.skipped and (new.role != "assistant" or new.tool_results):
        raise errors.InvalidContent(reason="only a reply of the assistant is skipped")
    if not (new.content or new.tool_calls or new.tool_results or new.skipped or as_found):
        raise errors.InvalidContent(reason="a message needs content, tool calls or tool results")
    ids = [call.provider_id for call in new.tool_calls if call.provider_id is not None]
    if len(set(ids)) != len(ids):
        raise errors.InvalidContent(reason="two tool calls of one message have the same id")
    if new.role == "system":
        advice = "System messages are always in view: record notes as user messages, or reset the session."
        check_size("the session", len(state.pinned) + 1, "system messages", "PINNED_MESSAGES", advice)


def _results(
    state: SessionState,
    scope: Scope,
    new: NewMessage,
    tokens: int,
    given: Given,
    *,
    as_found: bool,
    frame: str | None,
) -> tuple[MessageRecorded | EvidenceKept, ...]:
    """Results for calls that wait are a message; for calls that were closed before, evidence."""
    if not new.tool_results:
        return (_evidence(new, (), "no tool call goes with it", tokens, given),)
    taken: list[ToolResult] = []
    answered: list[OpenCall] = []
    late: list[tuple[ToolResult, str]] = []
    for result in new.tool_results:
        call = waiting_for(state, result.call, frame)
        if call is not None and all(call.id != each.tool_call_id for each in taken):
            taken.append(ToolResult(call.id, result.content, result.is_error))
            answered.append(call)
            continue
        fate = Fate("answered", call.id) if call is not None else given.fates.get(result.call)
        reason = _why_late(scope, result, fate, as_found=as_found)
        late.append((ToolResult(fate.id if fate else result.call, result.content, result.is_error), reason))
    evidence = tuple(
        _evidence(new, (result,), reason, 0 if taken or index else tokens, given)
        for index, (result, reason) in enumerate(late)
    )
    if not taken:
        return evidence
    if len({group_of(call.id) for call in answered}) > 1:
        raise errors.InvalidContent(
            reason="the results are for calls of several messages; record those of each by themselves"
        )
    message = MessageRecorded(
        role="tool",
        tool_results=tuple(taken),
        tokens=tokens,
        counter=given.counter,
        metadata=new.metadata,
        frame=live_frame(state, answered[0]),
    )
    return (message, *evidence)


def _why_late(scope: Scope, result: NewResult, fate: Fate | None, *, as_found: bool) -> str:
    """Why a result for a call that does not wait is kept all the same; otherwise it is refused."""
    if fate is not None and fate.kind == "closed":
        return "the call was closed before"
    if as_found:
        return "the call had its result" if fate else NO_SUCH_CALL
    if fate is not None:
        raise errors.CallAnswered(session=scope.session, call=result.call)
    raise errors.CallNotFound(session=scope.session, call=result.call)


def _evidence(new: NewMessage, results: tuple[ToolResult, ...], reason: str, tokens: int, given: Given) -> EvidenceKept:
    return EvidenceKept(
        reason=reason,
        role=new.role,
        content=new.content,
        tool_results=results,
        tokens=tokens,
        counter=given.counter,
        metadata=new.metadata,
    )


def heard(spoken: Spoken, seq: int) -> Spoken:
    """One more message of a conversation, at this place."""
    gap = (spoken.last + 1, seq - 1)
    if gap[1] - gap[0] < limits.GAP_EVENTS:
        return Spoken(seq, spoken.gaps)
    return Spoken(seq, (*spoken.gaps, gap)[-limits.GAPS :])
