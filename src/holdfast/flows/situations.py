"""How a conversation stands, and what was done in it: written by a model, by a program or by rules, and read again.

Laws: what a model wrote is taken as far as it can be, and what is left of it is told; reading changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast import codec
from holdfast.context import reasoning
from holdfast.context.reasoning import Derived, Ground
from holdfast.context.redaction import Watch, guard_text, withholds
from holdfast.conversion import to_json
from holdfast.core import situation as core
from holdfast.core import upcast
from holdfast.core.sessions import check_there
from holdfast.errors import InvalidContent
from holdfast.errors import shown as told_value
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.frames import one_of
from holdfast.flows.inform_actions import answered
from holdfast.flows.ingest import checked_object
from holdfast.flows.load import load
from holdfast.flows.place import Place, given_to, order, together
from holdfast.model import limits
from holdfast.model.commands import RecordAction, UpdateSituation
from holdfast.model.content import Json
from holdfast.model.events import Event
from holdfast.model.frames import frame_seq
from holdfast.model.log import Appended
from holdfast.model.messages import Item
from holdfast.model.names import check_size, checked_name, checked_whole
from holdfast.model.situation import (
    FIELDS,
    MODES,
    OUTCOMES,
    RULES,
    WRAPPED,
    Action,
    ActionCall,
    ActionRecorded,
    Field,
    Mode,
    Outcome,
    Situation,
    SituationUpdate,
    SituationUpdated,
)
from holdfast.model.state import SessionState

_FENCED = re.compile(r"\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_CALL_KEYS = ("name", "args", "result", "outcome")


# The situation


def situation(place: Place) -> Flow[Situation]:
    """How things stand in the session's own conversation, or in that of the frame: what was stored last, and where each
    field comes from. A conversation that was reset, or whose frame has ended, stands nowhere."""
    found = yield from _there(place)
    return core.situation_of(found.standing(place.frame))


def update_situation(
    place: Place,
    update: dict[str, Any] | str | None = None,
    *,
    iteration: int | None = None,
    by: str = "model",
    clear: Sequence[Field] = (),
    key: str | None = None,
    cause: str | None = None,
) -> Flow[SituationUpdate]:
    """Say how things stand: any of goal, progress, current_approach, key_findings and next_focus. What is blank or left out
    stays as it is; `clear` names the fields to empty.

    `update` is a dict, or the JSON that a model wrote, also under `summary_update` and in a code fence. Keys that are no
    field are left alone, and the answer names them; so it does with the fields that were too long, and were cut at a word.
    `iteration` is the one that it came from: as many as the assistant has replied, unless you count otherwise."""
    fields, ignored, cut = _read(place, update)
    emptied = _checked_fields(clear)
    for name in emptied:
        if name in fields:
            raise InvalidContent(reason=f"{name} is both set and cleared")
    command = UpdateSituation(
        scope=place.scope,
        frame=place.frame,
        fields=fields,
        clear=emptied,
        iteration=None if iteration is None else checked_whole("iteration", iteration),
        by=_checked_author(by),
    )
    appended = yield from order(place, command, key=key, cause=cause)
    made = yield from _answer(place, appended)
    return msgspec.structs.replace(made, ignored=ignored, cut=cut)


def refresh_situation(
    place: Place, *, iteration: int | None = None, key: str | None = None, cause: str | None = None
) -> Flow[SituationUpdate]:
    """Say how things stand without a model: what was asked, done, found and left open, as the log has it.

    A field that somebody else wrote is left to him for SITUATION_AGE iterations, 5 of them, counted from the one that it
    came from; then rules write it anew, if they have something to say. What they wrote themselves they change, and empty,
    as things go."""
    from holdfast.flows.guard import show_guarded  # noqa: PLC0415 - only this needs it
    from holdfast.flows.history import in_view  # noqa: PLC0415 - the same
    from holdfast.flows.views import steady  # noqa: PLC0415 - the same

    asked = None if iteration is None else checked_whole("iteration", iteration)

    def made(state: SessionState) -> Flow[Derived]:
        items = yield from in_view(place, state)
        guarded = yield from show_guarded(
            place, state, items, turn=0, deferring=False
        )  # what is written now comes after
        return (yield from _derived(place, state, guarded.items))

    found = yield from steady(place, made)
    fields: dict[Field, str] = dict(found.fields)
    command = UpdateSituation(
        scope=place.scope,
        frame=place.frame,
        fields=fields,
        clear=tuple(name for name in FIELDS if name not in fields),
        iteration=asked,
        by=RULES,
        tells=found.tells,
        rules=True,
    )
    part = Part(command, given_to(place.context))
    bound = codec.encode(["refresh_situation", place.scope, place.frame, asked])
    appended = yield from together(place.context, [part], key=key, cause=cause, bound=bound)
    answer = yield from _answer(place, appended)
    stated = answer.situation.stated
    kept = tuple(name for name in fields if name in stated and stated[name].by != RULES)
    return msgspec.structs.replace(answer, kept=kept)


def _derived(place: Place, state: SessionState, items: Sequence[Item]) -> Flow[Derived]:
    frame = state.frames.get(place.frame or "")
    standing = state.standing(place.frame)
    latest = yield from _latest(place, standing.actions[-1:])
    watch = yield from _watch(place, state, [(each.seq, each.approach) for each in latest])
    found = reasoning.derived(
        Ground(
            goal="" if frame is None else frame.goal,
            goal_at=frame_seq(place.frame),
            items=tuple(items),
            replies=standing.replies,
            actions=tuple(_guard_action(watch, each) for each in latest),
            open_calls=tuple(call for call in state.open_calls if call.frame == place.frame),
        )
    )
    count = place.context.counter.count
    cut = ((name, core.fitted(text, count)) for name, text in found.fields)
    return Derived(tuple((name, text) for name, text in cut if text), found.tells)


def _answer(place: Place, appended: Appended) -> Flow[SituationUpdate]:
    found = yield from load(place.scope.stream, place.context.cache, fresh=False)
    now = core.situation_of(found.standing(place.frame))
    for recorded in appended.events:
        event = upcast.current(recorded)
        if isinstance(event, SituationUpdated):
            changed = tuple(name for name in FIELDS if name in event.fields)
            return SituationUpdate(situation=now, changed=changed, cleared=event.cleared)
    return SituationUpdate(situation=now)


def _there(place: Place) -> Flow[SessionState]:
    found = yield from load(place.scope.stream, place.context.cache, fresh=True)
    check_there(found, place.scope)
    return found


# What comes in


def _read(place: Place, update: object) -> tuple[dict[Field, str], tuple[str, ...], tuple[Field, ...]]:
    """The fields of an update that say something, the keys that are none, and the fields that had to be cut."""
    given = _as_object(update)
    ignored: list[str] = []
    if WRAPPED in given:
        ignored = [name for name in given if name != WRAPPED]
        inner = given[WRAPPED]
        given = _as_object(inner) if inner is not None else {}
    ignored += [name for name in given if name not in FIELDS]
    fields: dict[Field, str] = {}
    cut: list[Field] = []
    for name in FIELDS:
        text = core.one_line(core.as_text(given.get(name)))
        short = core.fitted(text, place.context.counter.count)
        if short:
            fields[name] = short
        if short != text:
            cut.append(name)
    return fields, tuple(ignored), tuple(cut)


def _as_object(update: object) -> dict[str, Json]:
    """A mapping as it is, or the JSON object that a text is."""
    if update is None:
        return {}
    if type(update) is str:
        text = codec.checked_text("the update", update)
        fenced = _FENCED.fullmatch(text)
        update = _decoded(text if fenced is None else fenced[1])
    if update is None:
        return {}
    if type(update) is not dict:
        reason = f"an update of the situation is an object with any of {', '.join(FIELDS)}, not {told_value(update)}"
        raise InvalidContent(reason=reason)
    return checked_object("the update", update)


def _decoded(text: str) -> object:
    if not text.strip():
        return {}
    try:
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidContent(reason=f"the update of the situation is no JSON: {error}") from error
    return value


def _checked_author(by: object) -> str:
    name = checked_name("by", by)
    if name == RULES:
        raise InvalidContent(reason=f"{RULES!r} is who refresh_situation() writes as: take another name")
    return name


def _checked_fields(names: object) -> tuple[Field, ...]:
    if type(names) not in (list, tuple, set, frozenset):
        raise InvalidContent(reason=f"clear= names fields in a list, not {told_value(names)}")
    listed: Iterable[object] = names  # type: ignore[assignment]
    known = {one_of("field", name, FIELDS) for name in listed}
    return tuple(name for name in FIELDS if name in known)


# Actions


def act(
    place: Place,
    mode: Mode = "fast",
    *,
    thinking: str = "",
    planning: str = "",
    reflection: str = "",
    approach: str = "",
    tool_calls: Sequence[dict[str, Any] | ActionCall] | None = None,
    outcomes: dict[str, Outcome] | None = None,
    iteration: int | None = None,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Action]:
    """Keep one step: what was thought, planned, reflected on and tried, and what the tools did.

    Without `tool_calls` they are taken from the transcript: those whose results came since the step before, the newest 64.
    A result that says that it is an error has the outcome error, or timeout if it stands for a TimeoutError; `outcomes`
    says otherwise, by the ids of calls: {"c4_0": "timeout"}. A list of calls has `name`, `args`, `result` and `outcome`
    of each. Of a result its first 1000 characters are kept, of long arguments the beginning."""
    calls = None if tool_calls is None else _checked_calls(tool_calls)
    if calls is not None and outcomes:
        raise InvalidContent(reason="each call of a list says its own outcome: leave outcomes= out")
    command = RecordAction(
        scope=place.scope,
        frame=place.frame,
        iteration=None if iteration is None else checked_whole("iteration", iteration),
        mode=one_of("mode", mode, MODES),
        thinking=_checked_words("thinking", thinking),
        planning=_checked_words("planning", planning),
        reflection=_checked_words("reflection", reflection),
        approach=_checked_words("approach", approach),
        tool_calls=calls,
        outcomes=_checked_outcomes({} if outcomes is None else outcomes),
    )
    for recorded in (yield from order(place, command, key=key, cause=cause)).events:
        event = upcast.current(recorded)
        if isinstance(event, ActionRecorded):
            return core.action_of(event, recorded.seq, recorded.time_us)
    raise InvalidContent(reason="what was done under this key was erased since")


def _checked_words(what: str, text: object) -> str:
    checked = codec.checked_text(what, text)
    check_size(what, len(codec.encode(checked)), "bytes", "ACTION_TEXT_BYTES", "Keep the whole in the transcript.")
    return checked


def _checked_calls(calls: object) -> tuple[ActionCall, ...]:
    if type(calls) not in (list, tuple):
        raise InvalidContent(reason=f"tool_calls is a list of calls, not {told_value(calls)}")
    listed: Sequence[object] = calls  # type: ignore[assignment]
    check_size("the action", len(listed), "tool calls", "ACTION_CALLS", "Record several actions.")
    return tuple(_checked_call(each) for each in listed)


def _checked_call(call: object) -> ActionCall:
    if type(call) is ActionCall:
        call = {name: getattr(call, name) for name in _CALL_KEYS}
    if type(call) is not dict or not {*call} <= {*_CALL_KEYS} or "name" not in call:
        raise InvalidContent(reason=f"a tool call has {', '.join(_CALL_KEYS)}; this is {told_value(call)}")
    result = call.get("result")
    text = result if type(result) is str else core.as_text(to_json("the result", result))
    return ActionCall(
        name=checked_name("tool", call["name"]),
        args=core.bounded_args(to_json("the arguments", call.get("args"))),
        result=core.bounded_result(codec.checked_text("the result", text)),
        outcome=one_of("outcome", call.get("outcome", OUTCOMES[0]), OUTCOMES),
    )


def _checked_outcomes(outcomes: object) -> dict[str, Outcome]:
    named = checked_object("outcomes", outcomes)
    check_size("the action", len(named), "outcomes", "ACTION_CALLS", "Record several actions.")
    return {name: one_of("outcome", each, OUTCOMES) for name, each in named.items()}


def actions(place: Place, *, before: int | None = None, limit: int = 10) -> Flow[list[Action]]:
    """The last actions of the session's own conversation, or of the frame's, oldest first; with `before`, the last ones
    before that seq."""
    if before is not None:
        checked_whole("before", before)
    checked_whole("limit", limit, 1, limits.READ_EVENTS)
    yield from _there(place)
    found: list[Action] = []
    while len(found) < limit:
        page = yield from effects.read_back(place.scope.stream, before, limits.ACTION_CALLS, (ActionRecorded.name,))
        for recorded in page:
            event = upcast.current(recorded)
            if isinstance(event, ActionRecorded) and event.frame == place.frame:
                found.append(core.action_of(event, recorded.seq, recorded.time_us))
        if len(page) < limits.ACTION_CALLS or page[-1].seq < frame_seq(place.frame):
            break
        before = page[-1].seq
    return found[:limit][::-1]


def _latest(place: Place, seqs: Iterable[int]) -> Flow[tuple[Action, ...]]:
    """The actions of these seqs, those left out that were erased meanwhile."""
    found: list[Action] = []
    for seq in seqs:
        for recorded in (yield from effects.read(place.scope.stream, seq - 1, 1)):
            event: Event | None = upcast.current(recorded) if recorded.seq == seq else None
            if isinstance(event, ActionRecorded):
                found.append(core.action_of(event, seq, recorded.time_us))
    return tuple(found)


def reasoning_context(place: Place, mode: Mode = "fast", *, max_history: int = 3) -> Flow[str]:
    """What a model is to reason on, in words. Fast: the situation, and what the latest tools returned. Deep: the situation,
    and all that is known of the latest action.

    Where no situation is stored, the `max_history` actions before the latest stand for it, in short, each call with its
    arguments and the beginning of its result, and the latest is told in full; where nothing was done either, a sentence
    says so. Superseded values are redacted or marked, as they are in a history; situation() and actions() have what was
    said."""
    one_of("mode", mode, MODES)
    most = checked_whole("max_history", max_history, 0, limits.READ_EVENTS - 1)
    found = yield from _there(place)
    standing = found.standing(place.frame)
    situation = core.situation_of(standing)
    fields = situation.fields
    if most < limits.ACTIONS_KEPT:
        latest = yield from _latest(place, standing.actions)
    else:
        listed = yield from actions(place, limit=most + 1)
        latest = tuple(each for each in listed if each.seq > found.start)
    results = [call for call, _ in (yield from answered(place.scope.stream, found, place.frame))]
    now = found.version + 1  # the newest results are of the current turn
    origins = [situation.stated[name].seq if name in situation.stated else situation.version for name, _ in fields]
    texts = [(seq, text) for seq, (_, text) in zip(origins, fields, strict=True)]
    texts += [(each.seq, getattr(each, name)) for each in latest for name in core.TEXTS]
    calls = [(now, call) for call in results] + [(each.seq, call) for each in latest for call in each.tool_calls]
    texts += [(seq, text) for seq, call in calls for text in (call.result, core.args_text(call))]
    watch = yield from _watch(place, found, texts)
    return reasoning.told(
        mode,
        [(name, guard_text(watch, text, seq)) for seq, (name, text) in zip(origins, fields, strict=True)],
        [_guard_action(watch, each) for each in latest],
        [_guard_call(watch, each, now) for each in results],
        most,
    )


def _watch(place: Place, state: SessionState, texts: Sequence[tuple[int, str]]) -> Flow[Watch]:
    """What the guard has to know to show these texts."""
    from holdfast.flows.guard import watch  # noqa: PLC0415 - only this needs it

    policy, now_us = place.context.policy.guard, place.context.clock.now_us()
    return (yield from watch(place, state, (), texts, policy=policy, as_of_us=now_us, deferring=False))


def _guard_action(watch: Watch, action: Action) -> Action:
    texts = {name: guard_text(watch, getattr(action, name), action.seq) for name in core.TEXTS}
    calls = tuple(_guard_call(watch, each, action.seq) for each in action.tool_calls)
    return msgspec.structs.replace(action, **texts, tool_calls=calls)


def _guard_call(watch: Watch, call: ActionCall, seq: int) -> ActionCall:
    """Arguments are shown as they are, unless the reader may not see what they state."""
    args = "[withheld]" if withholds(watch, core.args_text(call)) else call.args
    return msgspec.structs.replace(call, args=args, result=guard_text(watch, call.result, seq))
