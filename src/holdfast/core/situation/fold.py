"""The situation and the actions of each conversation, folded from events.

Laws: an update changes the fields that it names and no others. Nothing is cleared unless an event says so. The rules
leave recent fields of others alone. A situation ends with its conversation. What was erased, and what it had replaced,
does not come back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.situation.events import ActionRecorded, SituationUpdated
from holdfast.model.situation.situations import (
    FIELDS,
    Action,
    FieldName,
    Situation,
    SituationField,
    SituationState,
)
from holdfast.model.state import SessionState

SITUATION_EVENTS = (SituationUpdated.name, ActionRecorded.name)


# State


def fold_reply(state: SessionState, event: MessageRecorded) -> dict[str, Any]:
    """The changes by a reply of the assistant."""
    if event.frame is not None and event.frame not in state.frames:
        return {}
    standing = state.standing(event.frame)
    return _replace_state(state, event.frame, msgspec.structs.replace(standing, replies=standing.replies + 1))


def fold_situation(state: SessionState, event: Event | None, event_type: str, time_us: int) -> dict[str, Any]:
    """The changes by an update or an action. What an erased update replaced or cleared is unknown: so that nothing
    comes back, all situations from before it are cleared."""
    if event is None:
        return _clear_all(state) if event_type == SituationUpdated.name else {}
    if not isinstance(event, SituationUpdated | ActionRecorded):
        return {}
    if event.frame is not None and event.frame not in state.frames:
        return {}  # its frame was erased
    seq = state.version + 1
    before = state.standing(event.frame)
    latest = max(before.iteration, event.iteration)
    if isinstance(event, ActionRecorded):
        actions = (*before.actions, seq)[-limits.ACTIONS_KEPT :]
        after = msgspec.structs.replace(before, iteration=latest, actions=actions, acted=before.acted + 1)
        return _replace_state(state, event.frame, after)
    written = {name: SituationField(text, event.iteration, event.by, seq) for name, text in event.fields.items()}
    left = {name: field for name, field in before.fields.items() if name not in event.cleared}
    after = msgspec.structs.replace(
        before,
        iteration=latest,
        fields=_sort_fields(left | written),
        version=seq,
        by=event.by,
        at_us=time_us,
        came_from=event.iteration,
    )
    return _replace_state(state, event.frame, after)


def _sort_fields(fields: Mapping[FieldName, SituationField]) -> dict[FieldName, SituationField]:
    return {name: fields[name] for name in FIELDS if name in fields}


def _replace_state(state: SessionState, frame: str | None, after: SituationState) -> dict[str, Any]:
    changes: dict[str, Any] = {"standings": {**state.standings, frame or "": after}}
    more = _size_of(after) - _size_of(state.standing(frame))
    return changes | {"bulk": state.bulk + more} if more else changes


def _clear_all(state: SessionState) -> dict[str, Any]:
    weight = total_size(state)
    if not weight:
        return {}
    cleared = {
        name: msgspec.structs.replace(standing, fields={}, version=0, by="", at_us=0, came_from=0)
        for name, standing in state.standings.items()
    }
    return {"standings": cleared, "bulk": state.bulk - weight}


def remove_conversations(
    standings: Mapping[str, SituationState], names: Collection[str]
) -> tuple[dict[str, SituationState], int]:
    """The situations without those of ended conversations, and the bytes that were removed."""
    left = {name: standing for name, standing in standings.items() if name not in names}
    return left, sum(_size_of(standings[name]) for name in names if name in standings)


def total_size(state: SessionState) -> int:
    """The bytes of all situations."""
    return sum(map(_size_of, state.standings.values()))


def _size_of(standing: SituationState) -> int:
    return sum(len(field.text.encode()) + len(field.by.encode()) for field in standing.fields.values())


# Views


def copy_states(state: SessionState) -> dict[str, SituationState]:
    """The situations as a copy that the caller may change."""
    return {
        name: msgspec.structs.replace(standing, fields=dict(standing.fields))
        for name, standing in state.standings.items()
    }


def build_situation(standing: SituationState) -> Situation:
    texts: dict[str, str] = {name: field.text for name, field in standing.fields.items()}
    return Situation(
        **texts,
        version=standing.version,
        iteration=standing.came_from,
        by=standing.by,
        time_us=standing.at_us,
        origins=dict(standing.fields),
    )


def build_action(event: ActionRecorded, seq: int, time_us: int) -> Action:
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
