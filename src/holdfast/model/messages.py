"""The transcript as a reader sees it: messages, the units that views move, and views."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from holdfast.model.content import Body, Json, Part, Role, SkipReason, Source, ToolCall, ToolResult, Usage, text_of
from holdfast.model.handles import SCORES, Priority
from holdfast.model.names import Scope
from holdfast.model.plan import MadeBy
from holdfast.model.state import OpenCall


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was recorded. Once erased, it has no role and no content any more."""

    id: str
    seq: int
    role: Role | None = None
    content: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    tokens: int = 0
    usage: Usage | None = None
    source: Source | None = None
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    time_us: int
    principal: str
    closing: bool = False
    """Written by Holdfast to close calls that never got a result."""
    frame: str | None = None
    """The frame that it belongs to, if any."""
    priority: Priority = "medium"
    """How long it stays in view when room is short. A system message is Critical."""
    late: str = ""
    """Why this is no part of the transcript but kept as evidence; empty for what is."""
    skipped: SkipReason | None = None
    """Why this reply is not shown to models: the message before it still waits for an answer. None for what is shown."""
    dropped_calls: tuple[ToolCall, ...] = ()
    """The calls of a skipped reply: kept as evidence, never open, not to be run."""

    @property
    def erased(self) -> bool:
        return self.role is None

    @property
    def text(self) -> str:
        """What there is to read in it, joined: texts, data as JSON; of bodies kept as blobs, the preview."""
        parts = (*self.content, *(part for result in self.tool_results for part in result.content))
        return text_of(parts, "" if self.role == "assistant" else "\n")  # a reply comes in pieces of one text

    @property
    def whole_tokens(self) -> int:
        """Its tokens with every stored body whole, wherever those bodies are now."""
        parts = (*self.content, *(part for result in self.tool_results for part in result.content))
        more = sum(part.whole_tokens - part.shown_tokens for part in parts if isinstance(part, Body))
        return max(0, self.tokens + more)

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.time_us / 1e6, UTC)


class Unit(msgspec.Struct, frozen=True):
    """What views, windows and compaction move: a group of calls with its results, or a single message."""

    messages: tuple[Message, ...]
    open: bool = False
    """Some of its calls have no result yet."""

    @property
    def seq(self) -> int:
        return self.messages[0].seq

    @property
    def tokens(self) -> int:
        return sum(message.tokens for message in self.messages)

    @property
    def first(self) -> int:
        return self.seq

    @property
    def last(self) -> int:
        return self.messages[-1].seq

    @property
    def count(self) -> int:
        """How many messages it stands for."""
        return len(self.messages)

    @property
    def blocks(self) -> int:
        """As how many messages it is shown."""
        return len(self.messages)

    @property
    def replaced(self) -> int:
        """The tokens of what it stands for, stored bodies whole."""
        return sum(message.whole_tokens for message in self.messages)

    @property
    def priority(self) -> Priority:
        """The highest of its messages'."""
        return max((message.priority for message in self.messages), key=SCORES.__getitem__)

    @property
    def starts_turn(self) -> bool:
        return self.messages[0].role == "user"


SUMMARY_LABEL = "Summary of earlier context: "


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a view that stands for messages; never a message itself."""

    seq: int
    first: int
    last: int
    messages: int
    """How many it stands for."""
    text: str
    tokens: int
    replaced: int = 0
    """Tokens of those, stored bodies whole."""
    made_by: MadeBy = "rule"
    """Whether the rules made it, or a model or the program."""

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
    """What a summary would stand for, as it was at `version`. Summarise `items`, and hand both to `summarize`."""

    scope: Scope
    first: int
    last: int
    version: int
    items: tuple[Unit | Summary, ...]
    tokens: int
    frame: str | None = None

    @property
    def text(self) -> str:
        """The items as plain text: something to summarise."""
        lines: list[str] = []
        for item in self.items:
            if isinstance(item, Summary):
                lines.append(item.shown)
                continue
            for message in item.messages:
                calls = " ".join(f"[calls {call.name}]" for call in message.tool_calls)
                lines.append(" ".join(filter(None, (f"{message.role}:", message.text, calls))))
        return "\n".join(lines)


Item: TypeAlias = Unit | Summary


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What of a transcript fits: the system messages, then the newest units, each whole. Nothing was removed by it."""

    system: tuple[Message, ...] = ()
    items: tuple[Item, ...] = ()
    open_calls: tuple[OpenCall, ...] = ()
    """Calls without a result; their unit is not in the view. Record results, or close them, before the next call."""
    late: tuple[Message, ...] = ()
    """Results that came after their call was closed: kept as evidence, newest last."""
    tokens: int = 0
    """As far as is known, in the provider's own count."""
    omitted: int = 0
    """Messages that are not in it: they did not fit, or wait for results."""

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(item for item in self.items if isinstance(item, Unit))

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.system, *(message for unit in self.units for message in unit.messages))


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The view of a conversation that goes to a model, whole: as it is shown, piece by piece, since the last boundary."""

    scope: Scope
    frame: str | None = None
    version: int
    """The last event that it tells of."""
    system: tuple[Message, ...] = ()
    items: tuple[Item, ...] = ()
    """As shown: what is reduced or lies in the blob store is text with a marker that names its handle."""
    frozen: int = 0
    """How many of the items were there at the last boundary."""
    tail: tuple[str, ...] = ()
    """What is made anew for each call, and stands after everything."""
    open_calls: tuple[OpenCall, ...] = ()
    """Calls without a result; their unit is not in the view. Record results, or close them, before the next call."""
    late: tuple[Message, ...] = ()
    """Results that came after their call was closed: kept as evidence, newest last."""
    tokens: int = 0
    """As far as is known, in the provider's own count."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return (*self.system, *(each for item in self.items if isinstance(item, Unit) for each in item.messages))


class Offload(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of history that waits for long-term memory: events `first` to `last` of a session. Delivered at least once;
    `key` is the same each time."""

    scope: Scope
    entry: int
    why: str
    first: int
    last: int
    at_us: int
    key: str
