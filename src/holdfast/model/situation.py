"""How things stand in a conversation, in five fields, and what was done in it, step by step."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec

from holdfast.model.content import Json
from holdfast.model.tools import Tool

Field: TypeAlias = Literal["goal", "progress", "current_approach", "key_findings", "next_focus"]
FIELDS: tuple[Field, ...] = get_args(Field)

Mode: TypeAlias = Literal["fast", "deep"]
MODES: tuple[Mode, ...] = get_args(Mode)

Outcome: TypeAlias = Literal["success", "failure", "error", "timeout"]
"""It did what it was for · it ran, and did not · it broke, or nobody knows what came of it · it took too long."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

RULES = "rules"
"""Who wrote a field that no model and no person did."""

WRAPPED = "summary_update"
"""A model may put its update under this name, beside what else it says."""

QUESTIONS: dict[Field, str] = {
    "goal": "What is the main objective?",
    "progress": "What has been accomplished so far?",
    "current_approach": "What strategy are we using?",
    "key_findings": "What important information have we discovered?",
    "next_focus": "What should be the next priority?",
}

UPDATE_SITUATION = Tool(
    name="update_situation",
    description=(
        "Keep the summary of where things stand. It is shown again at every step, so say in a sentence or two what someone "
        "would need who knows nothing else. Pass the fields that changed; the others stay as they are."
    ),
    parameters={
        "type": "object",
        "properties": {name: {"type": "string", "description": question} for name, question in QUESTIONS.items()},
        "additionalProperties": False,
    },
)


class Stated(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one field of a situation says, and since when."""

    text: str
    iteration: int = 0
    by: str = ""
    seq: int = 0
    """Of the event that it came with."""


class Standing(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the live state keeps of how a conversation stands."""

    replies: int = 0
    """Of the assistant, since the conversation began."""
    iteration: int = 0
    """The highest that was named."""
    fields: dict[Field, Stated] = msgspec.field(default_factory=dict)
    version: int = 0
    """The seq of the last update."""
    by: str = ""
    at_us: int = 0
    came_from: int = 0
    """The iteration of the last update."""
    actions: tuple[int, ...] = ()
    """The seqs of the latest, oldest first: what they say is in the log."""
    acted: int = 0
    """How many there were."""

    @property
    def now(self) -> int:
        """The iteration that it is, as far as is known: as many as the assistant has replied, or as was said."""
        return max(self.replies, self.iteration)


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """How things stand in a conversation. What is empty, nobody has said."""

    goal: str = ""
    progress: str = ""
    current_approach: str = ""
    key_findings: str = ""
    next_focus: str = ""
    version: int = 0
    """The seq of the event that brought it; 0 if there never was one."""
    iteration: int = 0
    """The one that this version came from."""
    by: str = ""
    """Who wrote this version: a model, rules, or whoever gave his name."""
    time_us: int = 0
    stated: dict[Field, Stated] = msgspec.field(default_factory=dict)
    """Where each field comes from."""

    @property
    def fields(self) -> tuple[tuple[Field, str], ...]:
        """What is not empty, in order."""
        return tuple((name, text) for name in FIELDS if (text := getattr(self, name)))

    def __str__(self) -> str:
        return "; ".join(f"{name}: {text}" for name, text in self.fields)


class SituationUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an update."""

    situation: Situation
    """As it is now."""
    changed: tuple[Field, ...] = ()
    cleared: tuple[Field, ...] = ()
    ignored: tuple[str, ...] = ()
    """Keys that are no field of a situation."""
    cut: tuple[Field, ...] = ()
    """Fields that were too long, and end with an ellipsis."""
    kept: tuple[Field, ...] = ()
    """Fields that rules would have written, and left to who wrote them."""


class ActionCall(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A tool call of an action."""

    name: str
    args: Json = None
    """As text, and cut, if they are long."""
    result: str = ""
    """Its beginning, if it is long."""
    outcome: Outcome = "success"
    call: str = ""
    """Its id in the transcript; empty if it is not from there."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a conversation: what was thought, and what was done."""

    seq: int
    iteration: int
    time_us: int
    frame: str | None = None
    mode: Mode = "fast"
    thinking: str = ""
    planning: str = ""
    reflection: str = ""
    approach: str = ""
    tool_calls: tuple[ActionCall, ...] = ()

    @property
    def timestamp(self) -> str:
        return datetime.fromtimestamp(self.time_us / 1e6, UTC).isoformat()


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: ClassVar[str]
    version: ClassVar[int] = 1


class SituationUpdated(_Event, frozen=True, kw_only=True):
    """How a conversation stands is put otherwise: that of a frame, or the one outside of frames. What `fields` has not, and
    `cleared` does not name, is as it was."""

    name = "situation.updated"
    frame: str | None = None
    fields: dict[Field, str] = msgspec.field(default_factory=dict)
    cleared: tuple[Field, ...] = ()
    iteration: int
    by: str
    tells: tuple[int, ...] = ()
    """The seqs of the events whose words rules took: who erases one of them erases this. What others wrote may tell of
    anything before it."""


class ActionRecorded(_Event, frozen=True, kw_only=True):
    """A step of a conversation was taken."""

    name = "action.recorded"
    frame: str | None = None
    iteration: int
    mode: Mode = "fast"
    thinking: str = ""
    planning: str = ""
    reflection: str = ""
    approach: str = ""
    tool_calls: tuple[ActionCall, ...] = ()
