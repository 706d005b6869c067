"""Decisions about the situation and about actions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast import errors
from holdfast.core.frames import decide as frames_decide
from holdfast.core.situation.fold import fold_situation, total_size
from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import check_size
from holdfast.model.situation.commands import RecordAction, SituationCommand, UpdateSituation
from holdfast.model.situation.events import ActionRecorded, SituationUpdated
from holdfast.model.situation.situations import (
    FIELDS,
    RULES_AUTHOR,
    ActionCall,
    ActionOutcome,
    FieldName,
    SituationField,
    SituationState,
)
from holdfast.model.state import SessionState


def decide(state: SessionState, command: SituationCommand, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events of this command; none if it changes nothing. Raises if it is refused."""
    if command.frame is not None:
        frames_decide.check_live_frame(state, command.scope, command.frame, inputs)
    standing = state.standing(command.frame)
    iteration = standing.current_iteration if command.iteration is None else command.iteration
    if isinstance(command, UpdateSituation):
        return _update_situation(state, standing, command, iteration)
    return (_build_action_event(command, inputs, iteration),)


def _update_situation(
    state: SessionState, standing: SituationState, command: UpdateSituation, iteration: int
) -> tuple[SituationUpdated, ...]:
    fields = {
        name: command.fields[name]
        for name in FIELDS
        if command.fields.get(name) and _is_new(standing.fields.get(name), command, name, iteration)
    }
    cleared = tuple(name for name in FIELDS if name in command.clear and _may_clear(standing, command, name))
    if not fields and not cleared:
        return ()
    event = SituationUpdated(
        frame=command.frame, fields=fields, cleared=cleared, iteration=iteration, by=command.by, tells=command.tells
    )
    after = fold_situation(state, event, event.name, 0)
    size = total_size(msgspec.structs.replace(state, standings=after["standings"]))
    check_size("the situations of the session", size, "bytes", "SITUATIONS_BYTES", "Pop finished frames.")
    return (event,)


def _is_new(current: SituationField | None, command: UpdateSituation, name: FieldName, iteration: int) -> bool:
    if current is None:
        return True
    if not command.rules:
        return (current.text, current.iteration, current.by) != (command.fields[name], iteration, command.by)
    return not is_left_to_author(current, iteration) and current.text != command.fields[name]


def is_left_to_author(current: SituationField | None, iteration: int) -> bool:
    """Whether rules must not change a field, because another author wrote it recently."""
    return current is not None and current.by != RULES_AUTHOR and iteration - current.iteration < limits.SITUATION_AGE


def _may_clear(standing: SituationState, command: UpdateSituation, name: FieldName) -> bool:
    current = standing.fields.get(name)
    return current is not None and (not command.rules or current.by == RULES_AUTHOR)


def _build_action_event(command: RecordAction, inputs: DecisionInput, iteration: int) -> ActionRecorded:
    calls = command.tool_calls
    if calls is None:
        calls = tuple(_set_outcome(call, provider, command.outcomes) for call, provider in inputs.actions.calls)
        names = {name for call, provider in inputs.actions.calls for name in (call.call, provider)}
        for name in command.outcomes:
            if name not in names:
                reason = f"no tool call {errors.describe_value(name)} got a result since the last action"
                raise errors.InvalidArgument(argument="outcomes", reason=reason)
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


def _set_outcome(call: ActionCall, provider: str, outcomes: Mapping[str, ActionOutcome]) -> ActionCall:
    outcome = outcomes.get(call.call) or outcomes.get(provider)
    return call if outcome is None else msgspec.structs.replace(call, outcome=outcome)
