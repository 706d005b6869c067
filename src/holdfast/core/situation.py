"""How conversations stand, and what was done in them.

Laws: an update changes the fields that it names and no others; nothing is cleared unless someone says so; rules leave to
others what those wrote not long ago; a situation goes with its conversation; what was erased, and what it had replaced,
does not come back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from holdfast import codec, errors
from holdfast.core import frames
from holdfast.core.messages import group_of
from holdfast.model import limits
from holdfast.model.commands import Given, RecordAction, SituationCommand, UpdateSituation
from holdfast.model.content import Json
from holdfast.model.events import Event, MessageRecorded
from holdfast.model.frames import frame_seq
from holdfast.model.names import check_size, checked_name
from holdfast.model.situation import (
    FIELDS,
    RULES,
    Action,
    ActionCall,
    ActionRecorded,
    Field,
    Outcome,
    Situation,
    SituationUpdated,
    Standing,
    Stated,
)
from holdfast.model.state import SessionState

OF_SITUATIONS = (SituationUpdated.name, ActionRecorded.name)

TEXTS = ("thinking", "planning", "reflection", "approach")
"""What an action says."""
_ELLIPSIS = "…"


# Words


def one_line(text: str) -> str:
    """A text whose lines are one: what it says can then not pass for what stands around it."""
    return " ".join(text.split())


def as_text(value: Json) -> str:
    """What was written for a field as text, whatever it is: a list of findings is one, too."""
    if value is None:
        return ""
    if type(value) is list:
        return "; ".join(filter(None, (_as_json(each) if type(each) is list else as_text(each) for each in value)))
    return value if type(value) is str else _as_json(value)


def _as_json(value: Json) -> str:
    return codec.encode(value).decode()


def shortened(text: str, chars: int) -> str:
    """The beginning of a text, up to a word if there is one to end at."""
    if len(text) <= chars:
        return text
    head = text[: chars - 1]
    if not text[chars - 1].isspace():
        words = head.rsplit(None, 1)
        if len(words) > 1 and len(words[0]) * 2 > chars:
            head = words[0]
    return head.rstrip() + _ELLIPSIS


def fitted(text: str, count: Callable[[str], int]) -> str:
    """As much of a field as a situation holds: cut at a word, if there is one to cut at. What is cut ends with an
    ellipsis, unless nothing fits at all."""
    if _fits(text, count):
        return text
    start = text.encode()[: limits.SITUATION_BYTES].decode("utf-8", "ignore")
    words = start.split(" ")
    torn = len(start) < len(text) and text[len(start)] != " "  # the last of these is not all of a word
    whole = _most(len(words) - torn, lambda n: _fits(" ".join(words[:n]) + _ELLIPSIS, count))
    if whole:
        return " ".join(words[:whole]) + _ELLIPSIS
    chars = _most(len(words[0]), lambda n: _fits(words[0][:n] + _ELLIPSIS, count))
    return words[0][:chars] + _ELLIPSIS if chars else ""


def _fits(text: str, count: Callable[[str], int]) -> bool:
    return len(text.encode()) <= limits.SITUATION_BYTES and count(text) <= limits.SITUATION_TOKENS


def _most(top: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `top` that fits, as far as what fits has all that is smaller fit too; 0 for none."""
    low, high = 0, top
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def bounded_args(args: Json) -> Json:
    """Arguments as an action keeps them: as they are, or the beginning of how they read."""
    text = codec.encode(args)
    if len(text) <= limits.ACTION_ARGS_BYTES:
        return args
    return shortened(text.decode(), limits.ACTION_ARGS_BYTES // 8)


def args_text(call: ActionCall) -> str:
    """The arguments of a call, to be read."""
    return "" if call.args is None else _as_json(call.args)


def bounded_result(text: str) -> str:
    return shortened(text, limits.ACTION_RESULT_CHARS)


# What commands make happen


def decide(state: SessionState, command: SituationCommand, given: Given) -> tuple[Event, ...]:
    if command.frame is not None:
        frames.live(state, command.scope, command.frame, given)
    standing = state.standing(command.frame)
    iteration = standing.now if command.iteration is None else command.iteration
    if isinstance(command, UpdateSituation):
        return _update(state, standing, command, iteration)
    return (_acted(command, given, iteration),)


def _update(
    state: SessionState, standing: Standing, command: UpdateSituation, iteration: int
) -> tuple[SituationUpdated, ...]:
    fields = {
        name: command.fields[name]
        for name in FIELDS
        if command.fields.get(name) and _is_news(standing.fields.get(name), command, name, iteration)
    }
    cleared = tuple(name for name in FIELDS if name in command.clear and _may_clear(standing, command, name))
    if not fields and not cleared:
        return ()
    event = SituationUpdated(
        frame=command.frame, fields=fields, cleared=cleared, iteration=iteration, by=command.by, tells=command.tells
    )
    after = folded(state, event, event.name, 0)
    size = weight_of(msgspec.structs.replace(state, standings=after["standings"]))
    check_size("what the session holds of situations", size, "bytes", "SITUATIONS_BYTES", "Pop frames that are done.")
    return (event,)


def _is_news(there: Stated | None, command: UpdateSituation, name: Field, iteration: int) -> bool:
    if there is None:
        return True
    if not command.rules:
        return (there.text, there.iteration, there.by) != (command.fields[name], iteration, command.by)
    return not left_to(there, iteration) and there.text != command.fields[name]


def left_to(there: Stated | None, iteration: int) -> bool:
    """Whether rules leave a field to who wrote it."""
    return there is not None and there.by != RULES and iteration - there.iteration < limits.SITUATION_AGE


def _may_clear(standing: Standing, command: UpdateSituation, name: Field) -> bool:
    there = standing.fields.get(name)
    return there is not None and (not command.rules or there.by == RULES)


def _acted(command: RecordAction, given: Given, iteration: int) -> ActionRecorded:
    calls = command.tool_calls
    if calls is None:
        calls = tuple(_with_outcome(call, provider, command.outcomes) for call, provider in given.answered)
        known = {name for call, provider in given.answered for name in (call.call, provider)}
        for name in command.outcomes:
            if name not in known:
                reason = f"no result of a call {errors.shown(name)} came since the last action"
                raise errors.InvalidContent(reason=reason)
    return ActionRecorded(
        frame=command.frame,
        iteration=iteration,
        mode=command.mode,
        thinking=command.thinking,
        planning=command.planning,
        reflection=command.reflection,
        approach=command.approach,
        tool_calls=calls,
    )


def _with_outcome(call: ActionCall, provider: str, outcomes: Mapping[str, Outcome]) -> ActionCall:
    told = outcomes.get(call.call) or outcomes.get(provider)
    return call if told is None else msgspec.structs.replace(call, outcome=told)


# What events make of a state


def replied(state: SessionState, event: MessageRecorded) -> dict[str, Any]:
    """What a reply of the assistant changes."""
    if event.frame is not None and event.frame not in state.frames:
        return {}
    standing = state.standing(event.frame)
    return _with(state, event.frame, msgspec.structs.replace(standing, replies=standing.replies + 1))


def folded(state: SessionState, event: Event | None, event_type: str, time_us: int) -> dict[str, Any]:
    """What an update or an action changes. Of an update that was erased nobody knows what it replaced or cleared, nor
    where: so that nothing comes back, no situation from before it counts any more."""
    if event is None:
        return _emptied(state) if event_type == SituationUpdated.name else {}
    if not isinstance(event, SituationUpdated | ActionRecorded):
        return {}
    if event.frame is not None and event.frame not in state.frames:
        return {}  # what it belonged to was erased
    seq = state.version + 1
    before = state.standing(event.frame)
    latest = max(before.iteration, event.iteration)
    if isinstance(event, ActionRecorded):
        kept = (*before.actions, seq)[-limits.ACTIONS_KEPT :]
        after = msgspec.structs.replace(before, iteration=latest, actions=kept, acted=before.acted + 1)
        return _with(state, event.frame, after)
    new = {name: Stated(text, event.iteration, event.by, seq) for name, text in event.fields.items()}
    left = {name: each for name, each in before.fields.items() if name not in event.cleared}
    after = msgspec.structs.replace(
        before,
        iteration=latest,
        fields=_in_order(left | new),
        version=seq,
        by=event.by,
        at_us=time_us,
        came_from=event.iteration,
    )
    return _with(state, event.frame, after)


def _in_order(fields: Mapping[Field, Stated]) -> dict[Field, Stated]:
    return {name: fields[name] for name in FIELDS if name in fields}


def _with(state: SessionState, frame: str | None, after: Standing) -> dict[str, Any]:
    changes: dict[str, Any] = {"standings": {**state.standings, frame or "": after}}
    more = _size(after) - _size(state.standing(frame))
    return changes | {"bulk": state.bulk + more} if more else changes


def _emptied(state: SessionState) -> dict[str, Any]:
    weight = weight_of(state)
    if not weight:
        return {}
    none = {
        name: msgspec.structs.replace(each, fields={}, version=0, by="", at_us=0, came_from=0)
        for name, each in state.standings.items()
    }
    return {"standings": none, "bulk": state.bulk - weight}


def without(standings: Mapping[str, Standing], names: Collection[str]) -> tuple[dict[str, Standing], int]:
    """What is left when these conversations are over, and how many bytes went with them."""
    left = {name: each for name, each in standings.items() if name not in names}
    return left, sum(_size(standings[name]) for name in names if name in standings)


def weight_of(state: SessionState) -> int:
    """The bytes of all situations."""
    return sum(map(_size, state.standings.values()))


def _size(standing: Standing) -> int:
    return sum(len(each.text.encode()) + len(each.by.encode()) for each in standing.fields.values())


# What readers see


def own_standings(state: SessionState) -> dict[str, Standing]:
    """How conversations stand, for someone who may do with it as he likes."""
    return {name: msgspec.structs.replace(each, fields=dict(each.fields)) for name, each in state.standings.items()}


def situation_of(standing: Standing) -> Situation:
    texts: dict[str, str] = {name: each.text for name, each in standing.fields.items()}
    return Situation(
        **texts,
        version=standing.version,
        iteration=standing.came_from,
        by=standing.by,
        time_us=standing.at_us,
        stated=dict(standing.fields),
    )


def action_of(event: ActionRecorded, seq: int, time_us: int) -> Action:
    return Action(
        seq=seq,
        iteration=event.iteration,
        time_us=time_us,
        frame=event.frame,
        mode=event.mode,
        thinking=event.thinking,
        planning=event.planning,
        reflection=event.reflection,
        approach=event.approach,
        tool_calls=event.tool_calls,
    )


def told_by(event: SituationUpdated | ActionRecorded) -> Collection[int] | None:
    """The seqs of the events whose words are in this one; None if they may be those of any before it, as in a summary."""
    if isinstance(event, SituationUpdated) and event.by != RULES:
        return None
    named = event.tells if isinstance(event, SituationUpdated) else [group_of(each.call) for each in event.tool_calls]
    return {seq for seq in (*named, frame_seq(event.frame)) if seq}


# What no command can have made


def situation_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    if not isinstance(event, SituationUpdated | ActionRecorded):
        return
    if not 0 <= event.iteration <= limits.WHOLE_NUMBER:
        yield "an iteration is a whole number"
    if isinstance(event, ActionRecorded):
        yield from _of_action(state, event)
        return
    yield from _of_update(state, event)
    if not erased:
        if not {*event.cleared} <= {*state.standing(event.frame).fields}:
            yield "what is cleared was there"
        after = msgspec.structs.replace(state, **folded(state, event, event.name, 0))
        if weight_of(after) > limits.SITUATIONS_BYTES:
            yield "situations are bounded"


def _of_update(state: SessionState, event: SituationUpdated) -> Iterator[str]:
    if not (event.fields or event.cleared) or not {*event.fields}.isdisjoint(event.cleared):
        yield "an update sets fields, or clears others"
    texts = event.fields.values()
    if not all(text and text == one_line(text) and len(text.encode()) <= limits.SITUATION_BYTES for text in texts):
        yield "a field of a situation is one line of a bounded size"
    if not _is_name(event.by):
        yield "an update is by someone who has a name"
    if list(event.cleared) != [name for name in FIELDS if name in event.cleared]:
        yield "what is cleared is named in order, once"
    if list(event.tells) != sorted({*event.tells}) or not all(0 < seq <= state.version for seq in event.tells):
        yield "an update tells of messages before it, in order"


def _of_action(state: SessionState, event: ActionRecorded) -> Iterator[str]:
    if any(len(codec.encode(getattr(event, name))) > limits.ACTION_TEXT_BYTES for name in TEXTS):
        yield "what an action says is bounded"
    if len(event.tool_calls) > limits.ACTION_CALLS:
        yield "an action has so many tool calls at most"
    for each in event.tool_calls:
        if not each.name or len(each.result) > limits.ACTION_RESULT_CHARS:
            yield "a tool call of an action has a name, and the beginning of a result"
        if len(codec.encode(each.args)) > limits.ACTION_ARGS_BYTES:
            yield "the arguments that an action keeps are bounded"
        if each.call and not 0 < (group_of(each.call) or 0) <= state.version:
            yield "a tool call of an action is one of the transcript, or none"


def _is_name(value: str) -> bool:
    try:
        checked_name("by", value)
    except errors.InvalidInput:
        return False
    return True
