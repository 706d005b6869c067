"""Events of situations and actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from holdfast.model.content import calling_seq
from holdfast.model.event import (
    EventBase,
    Identifier,
    OwnContent,
    Quotation,
    QuotedEvents,
    add_text,
    name_frame,
    quote_each,
)
from holdfast.model.frames.frames import frame_seq
from holdfast.model.situation.situations import RULES_AUTHOR, ActionCall, ActionMode, FieldName


class SituationUpdated(EventBase, frozen=True, kw_only=True):
    """The situation of a conversation was updated: of a frame, or outside of frames. Fields that are neither in `fields`
    nor in `cleared` do not change."""

    name = "situation.updated"
    frame: Identifier[str | None] = None
    fields: Quotation[dict[FieldName, str]] = msgspec.field(default_factory=dict)
    cleared: tuple[FieldName, ...] = ()
    iteration: int
    by: Identifier[str]
    tells: tuple[int, ...] = ()
    """For an update by rules: the seqs of the events that it quotes. When one of them is erased, this event is erased, too.
    An update by another author may quote any event before it."""

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        if self.by != RULES_AUTHOR:
            return iter([QuotedEvents(1, seq - 1)])
        return quote_each(filter(None, (*self.tells, frame_seq(self.frame))))

    def describe(self, seq: int) -> str:
        changes = [f"{name}: {text}" for name, text in self.fields.items()]
        if self.cleared:
            changes.append(f"cleared {', '.join(self.cleared)}")
        line = f"{self.by}{name_frame(self.frame)}, in iteration {self.iteration:,}"
        return add_text(line, "; ".join(changes))


class ActionRecorded(EventBase, frozen=True, kw_only=True):
    """An action of a conversation was recorded."""

    name = "action.recorded"
    frame: Identifier[str | None] = None
    iteration: int
    mode: ActionMode = "fast"
    thinking: OwnContent[str] = ""
    planning: OwnContent[str] = ""
    reflection: OwnContent[str] = ""
    approach: OwnContent[str] = ""
    tool_calls: Quotation[tuple[ActionCall, ...]] = ()

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        """The messages of its calls. Their results are erased together with them."""
        calls = (calling_seq(each.call) for each in self.tool_calls)
        return quote_each(each for each in (*calls, frame_seq(self.frame)) if each)

    def describe(self, seq: int) -> str:
        calls = ", ".join(each.name for each in self.tool_calls)
        line = f"{self.mode}{name_frame(self.frame)}, in iteration {self.iteration:,}"
        return add_text(line, calls or self.approach or self.thinking)


SituationEvent: TypeAlias = SituationUpdated | ActionRecorded
