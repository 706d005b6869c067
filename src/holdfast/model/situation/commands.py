"""Commands about situations and actions."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.command import SessionCommandBase
from holdfast.model.situation.situations import ActionCall, ActionMode, ActionOutcome, FieldName


class UpdateSituation(SessionCommandBase, frozen=True, kw_only=True, tag="update_situation"):
    """Set and clear fields of a situation."""

    frame: str | None = None
    fields: dict[FieldName, str]
    clear: tuple[FieldName, ...] = ()
    iteration: int | None = None
    """None for the current one."""
    by: str
    tells: tuple[int, ...] = ()
    rules: bool = False
    """An update by rules: it leaves recent fields of other authors alone."""


class RecordAction(SessionCommandBase, frozen=True, kw_only=True, tag="record_action"):
    """Record an action."""

    frame: str | None = None
    iteration: int | None = None
    mode: ActionMode
    thinking: str = ""
    planning: str = ""
    reflection: str = ""
    approach: str = ""
    tool_calls: tuple[ActionCall, ...] | None = None
    """None for the calls that got a result since the last action."""
    outcomes: dict[str, ActionOutcome] = msgspec.field(default_factory=dict)
    """The outcomes of some calls, by their ids or the provider's ids."""


SituationCommand: TypeAlias = UpdateSituation | RecordAction
