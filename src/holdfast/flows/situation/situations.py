"""The situation of a conversation and its actions: written by a model, a program or the rules, and read.

Laws: of an update by a model, everything usable is stored, and the answer names the rest. Reading changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import upcast
from holdfast.core.history.guard import GuardInput, guard_text, has_withheld
from holdfast.core.situation import fold as core
from holdfast.core.situation import reasoning
from holdfast.core.situation.reasoning import (
    ACTION_TEXTS,
    DerivedSituation,
    SituationSource,
    fit_field,
    format_args,
    format_value,
    shorten_args,
    shorten_result,
)
from holdfast.errors import InvalidArgument, describe_value
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, build_input, execute_command, execute_commands, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.history.guard import load_guard_input, load_guarded_items
from holdfast.flows.history.views import read_view, with_steady_state
from holdfast.flows.load import load_session_state
from holdfast.flows.sessions.ingest import check_object
from holdfast.flows.situation.lookup import find_answered_calls
from holdfast.model import limits
from holdfast.model.content import Json
from holdfast.model.events import Event
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.views import HistoryItem
from holdfast.model.log import AppendResult
from holdfast.model.names import check_choice, check_name, check_size, check_whole
from holdfast.model.situation.commands import RecordAction, UpdateSituation
from holdfast.model.situation.events import ActionRecorded, SituationUpdated
from holdfast.model.situation.situations import (
    ACTION_MODES,
    ACTION_OUTCOMES,
    FIELDS,
    RULES_AUTHOR,
    UPDATE_KEY,
    Action,
    ActionCall,
    ActionMode,
    ActionOutcome,
    FieldName,
    Situation,
    SituationUpdate,
)
from holdfast.model.state import SessionState
from holdfast.text.lines import one_line

_FENCE_PATTERN = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
CALL_KEYS = ("name", "args", "result", "outcome")


# The situation


def situation(context: SessionContext) -> Flow[Situation]:
    """The stored situation of the conversation, and the origin of each field."""
    state = yield from load_session(context)
    return core.build_situation(state.standing(context.frame))


def update_situation(
    context: SessionContext,
    update: dict[str, Any] | str | None = None,
    *,
    iteration: int | None = None,
    by: str = "model",
    clear: Sequence[FieldName] = (),
    key: str | None = None,
    cause: str | None = None,
) -> Flow[SituationUpdate]:
    """Update any fields of the situation. Blank or missing ones stay as they are; `clear` empties fields."""
    fields, ignored, cut = _read_update(context, update)
    cleared = _check_fields(clear)
    for name in cleared:
        if name in fields:
            raise InvalidArgument(argument="clear", reason=f"{name} is also set by the update")
    command = UpdateSituation(
        scope=context.scope,
        frame=context.frame,
        fields=fields,
        clear=cleared,
        iteration=None if iteration is None else check_whole("iteration", iteration),
        by=_check_author(by),
    )
    appended = yield from execute_command(context, command, key=key, cause=cause)
    result = yield from _build_update(context, appended)
    return msgspec.structs.replace(result, ignored=ignored, truncated=cut)


def refresh_situation(
    context: SessionContext, *, iteration: int | None = None, key: str | None = None, cause: str | None = None
) -> Flow[SituationUpdate]:
    """Have the rules write the situation from the log, without a model.

    A field of another author stays for SITUATION_AGE iterations after the one that it came from; then the rules replace
    it, if they have something to say. Their own fields they change and clear as needed."""
    current = None if iteration is None else check_whole("iteration", iteration)

    def derive(state: SessionState) -> Flow[DerivedSituation]:
        items = yield from read_view(context, state)
        # what is written now comes after the end of every superseded fact
        guarded = yield from load_guarded_items(context, state, items, turn=0, deferring=False)
        return (yield from _derive(context, state, guarded.items))

    derived = yield from with_steady_state(context, derive)
    fields: dict[FieldName, str] = dict(derived.fields)
    command = UpdateSituation(
        scope=context.scope,
        frame=context.frame,
        fields=fields,
        clear=tuple(name for name in FIELDS if name not in fields),
        iteration=current,
        by=RULES_AUTHOR,
        tells=derived.tells,
        rules=True,
    )
    part = CommandRequest(command, build_input(context.engine))
    bound = codec.encode(["refresh_situation", context.scope, context.frame, current])
    appended = yield from execute_commands(context.engine, [part], key=key, cause=cause, key_content=bound)
    result = yield from _build_update(context, appended)
    origins = result.situation.origins
    preserved = tuple(name for name in fields if name in origins and origins[name].by != RULES_AUTHOR)
    return msgspec.structs.replace(result, preserved=preserved)


def _derive(context: SessionContext, state: SessionState, items: Sequence[HistoryItem]) -> Flow[DerivedSituation]:
    frame = state.frames.get(context.frame or "")
    standing = state.standing(context.frame)
    latest = yield from _read_actions(context, standing.actions[-1:])
    guard_input = yield from _load_guard(context, state, [(action.seq, action.approach) for action in latest])
    derived = reasoning.derive_situation(
        SituationSource(
            goal="" if frame is None else frame.goal,
            goal_at=frame_seq(context.frame),
            items=tuple(items),
            replies=standing.replies,
            actions=tuple(_guard_action(guard_input, action) for action in latest),
            open_calls=tuple(call for call in state.open_calls if call.frame == context.frame),
        )
    )
    count = context.engine.counter.count
    fitted = ((name, fit_field(text, count)) for name, text in derived.fields)
    return DerivedSituation(tuple((name, text) for name, text in fitted if text), derived.tells)


def _build_update(context: SessionContext, appended: AppendResult) -> Flow[SituationUpdate]:
    state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=False)
    now = core.build_situation(state.standing(context.frame))
    for recorded in appended.events:
        event = upcast.decode_event(recorded)
        if isinstance(event, SituationUpdated):
            changed = tuple(name for name in FIELDS if name in event.fields)
            return SituationUpdate(situation=now, changed=changed, cleared=event.cleared)
    return SituationUpdate(situation=now)


# Arguments of an update


def _read_update(
    context: SessionContext, update: object
) -> tuple[dict[FieldName, str], tuple[str, ...], tuple[FieldName, ...]]:
    """The fields of an update with a text, its other keys, and the fields that had to be cut."""
    values = _parse_object(update)
    ignored: list[str] = []
    if UPDATE_KEY in values:
        ignored = [name for name in values if name != UPDATE_KEY]
        inner = values[UPDATE_KEY]
        values = _parse_object(inner) if inner is not None else {}
    ignored += [name for name in values if name not in FIELDS]
    fields: dict[FieldName, str] = {}
    cut: list[FieldName] = []
    for name in FIELDS:
        text = one_line(format_value(values.get(name)))
        short = fit_field(text, context.engine.counter.count)
        if short:
            fields[name] = short
        if short != text:
            cut.append(name)
    return fields, tuple(ignored), tuple(cut)


def _parse_object(update: object) -> dict[str, Json]:
    """A mapping as it is, or the JSON object of a text."""
    if update is None:
        return {}
    if type(update) is str:
        text = codec.check_text("the update", update)
        fenced = _FENCE_PATTERN.fullmatch(text)
        update = _decode_json(text if fenced is None else fenced[1])
    if update is None:
        return {}
    if type(update) is not dict:
        reason = f"pass an object with any of {', '.join(FIELDS)}, not {describe_value(update)}"
        raise InvalidArgument(argument="update", reason=reason)
    return check_object("the update", update)


def _decode_json(text: str) -> object:
    if not text.strip():
        return {}
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidArgument(argument="update", reason=f"it is not JSON: {error}") from error
    return value


def _check_author(by: object) -> str:
    name = check_name("by", by)
    if name == RULES_AUTHOR:
        reason = f"{RULES_AUTHOR!r} is the author of situation.refresh(): use another name"
        raise InvalidArgument(argument="by", reason=reason)
    return name


def _check_fields(names: object) -> tuple[FieldName, ...]:
    if type(names) not in (list, tuple, set, frozenset):
        raise InvalidArgument(argument="clear", reason=f"pass a list of field names, not {describe_value(names)}")
    listed: Iterable[object] = names  # type: ignore[assignment]
    checked = {check_choice("clear", name, FIELDS) for name in listed}
    return tuple(name for name in FIELDS if name in checked)


# Actions


def act(
    context: SessionContext,
    mode: ActionMode = "fast",
    *,
    thinking: str = "",
    planning: str = "",
    reflection: str = "",
    approach: str = "",
    tool_calls: Sequence[dict[str, Any] | ActionCall] | None = None,
    outcomes: dict[str, ActionOutcome] | None = None,
    iteration: int | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Action]:
    """Record one step: thoughts, plan, reflection and approach, and what the tools did. Without `tool_calls`, those of
    the transcript whose results came since the last action are recorded."""
    calls = None if tool_calls is None else _check_calls(tool_calls)
    if calls is not None and outcomes:
        reason = "each call of tool_calls has its own outcome: leave outcomes= out"
        raise InvalidArgument(argument="outcomes", reason=reason)
    command = RecordAction(
        scope=context.scope,
        frame=context.frame,
        iteration=None if iteration is None else check_whole("iteration", iteration),
        mode=check_choice("mode", mode, ACTION_MODES),
        thinking=_check_text("thinking", thinking),
        planning=_check_text("planning", planning),
        reflection=_check_text("reflection", reflection),
        approach=_check_text("approach", approach),
        tool_calls=calls,
        outcomes=_check_outcomes({} if outcomes is None else outcomes),
    )
    for recorded in (yield from execute_command(context, command, key=key, cause=cause)).events:
        event = upcast.decode_event(recorded)
        if isinstance(event, ActionRecorded):
            return core.build_action(event, recorded.seq, recorded.time_us)
    raise InvalidArgument(argument="key", reason="the action of this key was erased since")


def _check_text(argument: str, text: object) -> str:
    checked = codec.check_text(argument, text)
    check_size(argument, len(codec.encode(checked)), "bytes", "ACTION_TEXT_BYTES", "Keep it in the transcript.")
    return checked


def _check_calls(calls: object) -> tuple[ActionCall, ...]:
    if type(calls) not in (list, tuple):
        raise InvalidArgument(argument="tool_calls", reason=f"pass a list of calls, not {describe_value(calls)}")
    listed: Sequence[object] = calls  # type: ignore[assignment]
    check_size("the action", len(listed), "tool calls", "ACTION_CALLS", "Record several actions.")
    return tuple(_check_call(f"tool_calls[{number}]", call) for number, call in enumerate(listed))


def _check_call(argument: str, call: object) -> ActionCall:
    if type(call) is ActionCall:
        call = {name: getattr(call, name) for name in CALL_KEYS}
    if type(call) is not dict or not {*call} <= {*CALL_KEYS} or "name" not in call:
        reason = f"pass a dict with {', '.join(CALL_KEYS)}, not {describe_value(call)}"
        raise InvalidArgument(argument=argument, reason=reason)
    result = call.get("result")
    text = result if type(result) is str else format_value(to_json("the result", result))
    return ActionCall(
        name=check_name("tool", call["name"]),
        args=shorten_args(to_json("the arguments", call.get("args"))),
        result=shorten_result(codec.check_text("the result", text)),
        outcome=check_choice("outcome", call.get("outcome", ACTION_OUTCOMES[0]), ACTION_OUTCOMES),
    )


def _check_outcomes(outcomes: object) -> dict[str, ActionOutcome]:
    named = check_object("outcomes", outcomes)
    check_size("the action", len(named), "outcomes", "ACTION_CALLS", "Record several actions.")
    return {name: check_choice("outcome", outcome, ACTION_OUTCOMES) for name, outcome in named.items()}


def actions(context: SessionContext, *, before: int | None = None, limit: int = 10) -> Flow[list[Action]]:
    """The last actions of the conversation, oldest first; with `before`, the last ones before that seq."""
    if before is not None:
        check_whole("before", before)
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    yield from load_session(context)
    listed: list[Action] = []
    while len(listed) < limit:
        page = yield from effects.read_back(context.scope.stream, before, limits.ACTION_CALLS, (ActionRecorded.name,))
        for recorded in page:
            event = upcast.decode_event(recorded)
            if isinstance(event, ActionRecorded) and event.frame == context.frame:
                listed.append(core.build_action(event, recorded.seq, recorded.time_us))
        if len(page) < limits.ACTION_CALLS or page[-1].seq < frame_seq(context.frame):
            break
        before = page[-1].seq
    return listed[:limit][::-1]


def _read_actions(context: SessionContext, seqs: Iterable[int]) -> Flow[tuple[Action, ...]]:
    """The actions of these seqs, without those that were erased meanwhile."""
    listed: list[Action] = []
    for seq in seqs:
        for recorded in (yield from effects.read(context.scope.stream, seq - 1, 1)):
            event: Event | None = upcast.decode_event(recorded) if recorded.seq == seq else None
            if isinstance(event, ActionRecorded):
                listed.append(core.build_action(event, seq, recorded.time_us))
    return tuple(listed)


def reasoning_context(context: SessionContext, mode: ActionMode = "fast", *, max_history: int = 3) -> Flow[str]:
    """The text for a model to reason on: the situation, and the latest results (fast) or all of the latest action (deep).
    Without a situation, the `max_history` actions before the latest are shown instead, in short. Superseded values are
    redacted or marked."""
    check_choice("mode", mode, ACTION_MODES)
    most = check_whole("max_history", max_history, 0, limits.READ_EVENTS - 1)
    state = yield from load_session(context)
    standing = state.standing(context.frame)
    situation = core.build_situation(standing)
    if most < limits.ACTIONS_KEPT:
        latest = yield from _read_actions(context, standing.actions)
    else:
        listed = yield from actions(context, limit=most + 1)
        latest = tuple(action for action in listed if action.seq > state.start)
    results = [call for call, _ in (yield from find_answered_calls(context.scope.stream, state, context.frame))]
    now = state.version + 1  # the newest results are of the current turn
    origins = situation.origins
    fields = [
        (origins[name].seq if name in origins else situation.version, name, text) for name, text in situation.fields
    ]
    calls = [(now, call) for call in results] + [(action.seq, call) for action in latest for call in action.tool_calls]
    texts = [
        *((seq, text) for seq, _, text in fields),
        *((action.seq, getattr(action, name)) for action in latest for name in ACTION_TEXTS),
        *((seq, text) for seq, call in calls for text in (call.result, format_args(call))),
    ]
    guard_input = yield from _load_guard(context, state, texts)
    return reasoning.render_reasoning_context(
        mode,
        [(name, guard_text(guard_input, text, seq)) for seq, name, text in fields],
        [_guard_action(guard_input, action) for action in latest],
        [_guard_call(guard_input, call, now) for call in results],
        most,
    )


def _load_guard(context: SessionContext, state: SessionState, texts: Sequence[tuple[int, str]]) -> Flow[GuardInput]:
    policy, now_us = context.engine.policy.guard, context.engine.clock.now_us()
    return (yield from load_guard_input(context, state, (), texts, policy=policy, as_of_us=now_us, deferring=False))


def _guard_action(guard_input: GuardInput, action: Action) -> Action:
    texts = {name: guard_text(guard_input, getattr(action, name), action.seq) for name in ACTION_TEXTS}
    calls = tuple(_guard_call(guard_input, call, action.seq) for call in action.tool_calls)
    return msgspec.structs.replace(action, **texts, tool_calls=calls)


def _guard_call(guard_input: GuardInput, call: ActionCall, seq: int) -> ActionCall:
    """Arguments are shown as they are, unless the reader may not see what they state."""
    args = "[withheld]" if has_withheld(guard_input, format_args(call)) else call.args
    return msgspec.structs.replace(call, args=args, result=guard_text(guard_input, call.result, seq))
