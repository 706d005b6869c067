"""Why no command can have made an event of the situation."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from holdfast import codec, errors
from holdfast.core.situation.fold import fold_situation, total_size
from holdfast.core.situation.reasoning import ACTION_TEXTS
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.events import Event
from holdfast.model.names import check_name
from holdfast.model.situation.events import ActionRecorded, SituationUpdated
from holdfast.model.situation.situations import FIELDS
from holdfast.model.state import SessionState
from holdfast.text.lines import one_line


def situation_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    if not isinstance(event, SituationUpdated | ActionRecorded):
        return
    if not 0 <= event.iteration <= limits.WHOLE_NUMBER:
        yield "an iteration is a whole number"
    if isinstance(event, ActionRecorded):
        yield from _action_faults(state, event)
        return
    yield from _update_faults(state, event)
    if not erased:
        if not {*event.cleared} <= {*state.standing(event.frame).fields}:
            yield "a cleared field was set before"
        after = msgspec.structs.replace(state, **fold_situation(state, event, event.name, 0))
        if total_size(after) > limits.SITUATIONS_BYTES:
            yield "situations are bounded"


def _update_faults(state: SessionState, event: SituationUpdated) -> Iterator[str]:
    if not (event.fields or event.cleared) or not {*event.fields}.isdisjoint(event.cleared):
        yield "an update sets fields, or clears others"
    texts = event.fields.values()
    if not all(text and text == one_line(text) and len(text.encode()) <= limits.SITUATION_BYTES for text in texts):
        yield "a field of a situation is one line of a bounded size"
    if not _is_valid_name(event.by):
        yield "an update has an author"
    if list(event.cleared) != [name for name in FIELDS if name in event.cleared]:
        yield "cleared fields are named in order, once"
    if list(event.tells) != sorted({*event.tells}) or not all(0 < seq <= state.version for seq in event.tells):
        yield "an update names messages before it, in order"


def _action_faults(state: SessionState, event: ActionRecorded) -> Iterator[str]:
    if any(len(codec.encode(getattr(event, name))) > limits.ACTION_TEXT_BYTES for name in ACTION_TEXTS):
        yield "the texts of an action are bounded"
    if len(event.tool_calls) > limits.ACTION_CALLS:
        yield "the tool calls of an action are bounded"
    for call in event.tool_calls:
        if not call.name or len(call.result) > limits.ACTION_RESULT_CHARS:
            yield "a tool call of an action has a name, and a bounded result"
        if len(codec.encode(call.args)) > limits.ACTION_ARGS_BYTES:
            yield "the arguments of a tool call of an action are bounded"
        if call.call and not 0 < (calling_seq(call.call) or 0) <= state.version:
            yield "a tool call of an action is one of the transcript, or none"


def _is_valid_name(value: str) -> bool:
    try:
        check_name("by", value)
    except errors.InvalidInput:
        return False
    return True
