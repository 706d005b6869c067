"""Views of a conversation: groups and summaries, the sliding window, and the history view of a model."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.history.plans import SummaryAuthor
from holdfast.model.names import Scope
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import OpenCall

SUMMARY_LABEL = "Summary of earlier context: "


class Summary(msgspec.Struct, frozen=True, kw_only=True, tag="summary"):
    """An item of a view that replaces messages; never a message itself."""

    seq: int
    first: int
    last: int
    messages: int
    """How many it replaces."""
    text: str
    tokens: int
    replaced: int = 0
    """The tokens of those, stored bodies whole."""
    made_by: SummaryAuthor = "rule"
    """Whether the rules wrote it, or a model or the program."""

    @property
    def count(self) -> int:
        return self.messages

    @property
    def blocks(self) -> int:
        return 1

    @property
    def shown(self) -> str:
        return f"{SUMMARY_LABEL}{self.text}"


class SummaryDraft(msgspec.Struct, frozen=True, kw_only=True):
    """The messages for a summary, as they were at `version`. Summarise `items`, and pass both to `summarize`."""

    scope: Scope
    first: int
    last: int
    version: int
    items: tuple[MessageGroup | Summary, ...]
    tokens: int
    frame: str | None = None

    @property
    def text(self) -> str:
        """The items as plain text."""
        lines: list[str] = []
        for item in self.items:
            if isinstance(item, Summary):
                lines.append(item.shown)
                continue
            for message in item.messages:
                calls = " ".join(f"[calls {call.name}]" for call in message.tool_calls)
                lines.append(" ".join(filter(None, (f"{message.role}:", message.text, calls))))
        return "\n".join(lines)


HistoryItem: TypeAlias = MessageGroup | Summary


class TranscriptView(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a transcript that fits: the system messages, then the newest groups, each whole. The transcript is
    unchanged."""

    system: tuple[Message, ...] = ()
    items: tuple[HistoryItem, ...] = ()
    open_calls: tuple[OpenCall, ...] = ()
    """Calls without a result; their group is not in the view. Record the results, or close the calls, before the next
    model call."""
    late: tuple[Message, ...] = ()
    """Results that came after their call was closed: stored as evidence, newest last."""
    tokens: int = 0
    """In the provider's count, as far as it is known."""
    omitted: int = 0
    """Messages that are not in it: they did not fit, or have open calls."""

    @property
    def groups(self) -> tuple[MessageGroup, ...]:
        return tuple(item for item in self.items if isinstance(item, MessageGroup))

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.system, *(message for group in self.groups for message in group.messages))


class HistoryView(msgspec.Struct, frozen=True, kw_only=True):
    """The history view of a model: every item as it is shown since the last boundary."""

    scope: Scope
    frame: str | None = None
    version: int
    """The last event that it includes."""
    system: tuple[Message, ...] = ()
    """The system messages that came before the conversation; a later one is an item."""
    items: tuple[HistoryItem, ...] = ()
    """As shown: a reduced piece or a stored body is text with a marker that names its handle."""
    frozen: int = 0
    """The number of items that were there at the last boundary."""
    tail: tuple[str, ...] = ()
    """The texts that are built for each call, at the end."""
    open_calls: tuple[OpenCall, ...] = ()
    """Calls without a result; their group is not in the view. Record the results, or close the calls, before the next
    model call."""
    late: tuple[Message, ...] = ()
    """Results that came after their call was closed: stored as evidence, newest last."""
    tokens: int = 0
    """In the provider's count, as far as it is known."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return (
            *self.system,
            *(message for item in self.items if isinstance(item, MessageGroup) for message in item.messages),
        )
