"""The situation of a conversation, in five fields, and its actions, step by step."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeAlias, get_args

import msgspec

from holdfast.model.content import Json
from holdfast.model.tools.tool import Tool

FieldName: TypeAlias = Literal["goal", "progress", "current_approach", "key_findings", "next_focus"]
FIELDS: tuple[FieldName, ...] = get_args(FieldName)
ActionMode: TypeAlias = Literal["fast", "deep"]
ACTION_MODES: tuple[ActionMode, ...] = get_args(ActionMode)
ActionOutcome: TypeAlias = Literal["success", "failure", "error", "timeout"]
"""It succeeded · it ran without success · it raised an error, or its outcome is unknown · it took too long."""
ACTION_OUTCOMES: tuple[ActionOutcome, ...] = get_args(ActionOutcome)
RULES_AUTHOR = "rules"
"""The author of a field that the rules wrote."""
UPDATE_KEY = "summary_update"
"""A model may put its update under this key, beside other fields."""
FIELD_QUESTIONS: dict[FieldName, str] = {
    "goal": "What is the main objective?",
    "progress": "What has been accomplished so far?",
    "current_approach": "What strategy are we using?",
    "key_findings": "What important information have we discovered?",
    "next_focus": "What should be the next priority?",
}
UPDATE_SITUATION = Tool(
    name="update_situation",
    description=(
        "Update the summary of the current situation. It is shown again at every step, so write in a sentence or two what "
        "a reader without any other context needs. Pass the fields that changed; the others stay as they are."
    ),
    parameters={
        "type": "object",
        "properties": {name: {"type": "string", "description": question} for name, question in FIELD_QUESTIONS.items()},
        "additionalProperties": False,
    },
)


class SituationField(msgspec.Struct, frozen=True, omit_defaults=True):
    """The text of one field of a situation, and its origin."""

    text: str
    iteration: int = 0
    by: str = ""
    seq: int = 0
    """Of its event."""


class SituationState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The situation of a conversation in the live state."""

    replies: int = 0
    """Of the assistant, since the conversation began."""
    iteration: int = 0
    """The highest that was passed."""
    fields: dict[FieldName, SituationField] = msgspec.field(default_factory=dict)
    version: int = 0
    """The seq of the last update."""
    by: str = ""
    at_us: int = 0
    came_from: int = 0
    """The iteration of the last update."""
    actions: tuple[int, ...] = ()
    """The seqs of the latest actions, oldest first: their texts are in the log."""
    acted: int = 0
    """The number of all actions."""

    @property
    def current_iteration(self) -> int:
        """The current iteration: as many as the assistant has replied, or as was passed."""
        return max(self.replies, self.iteration)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The situation of a conversation. An empty field has not been written."""

    goal: str = ""
    progress: str = ""
    current_approach: str = ""
    key_findings: str = ""
    next_focus: str = ""
    version: int = 0
    """The seq of its last event; 0 if there was none."""
    iteration: int = 0
    """The iteration of this version."""
    by: str = ""
    """The author of this version: a model, the rules, or another name."""
    time_us: int = 0
    origins: dict[FieldName, SituationField] = msgspec.field(default_factory=dict)
    """The origin of each field."""

    @property
    def fields(self) -> tuple[tuple[FieldName, str], ...]:
        """The fields with a text, in order."""
        return tuple((name, text) for name in FIELDS if (text := getattr(self, name)))

    def __str__(self) -> str:
        return "; ".join(f"{name}: {text}" for name, text in self.fields)


class SituationUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an update."""

    situation: Situation
    """As it is now."""
    changed: tuple[FieldName, ...] = ()
    cleared: tuple[FieldName, ...] = ()
    ignored: tuple[str, ...] = ()
    """Keys that are no field of a situation."""
    truncated: tuple[FieldName, ...] = ()
    """Fields that were too long, and end with an ellipsis."""
    preserved: tuple[FieldName, ...] = ()
    """Fields that the rules left to their author."""


class ActionCall(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tool call of an action."""

    name: str
    args: Json = None
    """As cut text, if they are long."""
    result: str = ""
    """Its start, if it is long."""
    outcome: ActionOutcome = "success"
    call: str = ""
    """Its id in the transcript; empty if it is not from there."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a conversation: thoughts and tool calls."""

    seq: int
    iteration: int
    time_us: int
    frame: str | None = None
    mode: ActionMode = "fast"
    thinking: str = ""
    planning: str = ""
    reflection: str = ""
    approach: str = ""
    tool_calls: tuple[ActionCall, ...] = ()

    @property
    def timestamp(self) -> str:
        return datetime.fromtimestamp(self.time_us / 1e6, UTC).isoformat()
