"""Messages as they are recorded, groups of them as views move them, and drafts that are not yet checked."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from holdfast.model.content import Body, Json, Part, Role, SkipReason, Source, ToolCall, ToolResult, Usage, text_of
from holdfast.model.history.handles import PRIORITY_SCORES, Priority
from holdfast.model.names import Scope


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded message. An erased one has no role and no content."""

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
    """How long it stays in view when room is short. A system message is critical."""
    late: str = ""
    """Why it is evidence beside the transcript; empty for messages of the transcript."""
    skipped: SkipReason | None = None
    """Why models do not see this reply: the message before it still needs an answer. None for other messages."""
    dropped_calls: tuple[ToolCall, ...] = ()
    """The calls of a skipped reply: they are never open. Do not run them."""
    withdrawn: int = 0
    """The seq of the event that withdrew it from the conversation; 0 for a message that is in it."""

    @property
    def erased(self) -> bool:
        return self.role is None

    @property
    def text(self) -> str:
        """Its text, joined: texts, data as JSON, and previews of bodies in the blob store."""
        parts = (*self.content, *(part for result in self.tool_results for part in result.content))
        return text_of(parts, "" if self.role == "assistant" else "\n")  # the parts of a reply are pieces of one text

    @property
    def whole_tokens(self) -> int:
        """Its tokens with every stored body in full."""
        parts = (*self.content, *(part for result in self.tool_results for part in result.content))
        more = sum(part.whole_tokens - part.shown_tokens for part in parts if isinstance(part, Body))
        return max(0, self.tokens + more)

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.time_us / 1e6, UTC)


class MessageGroup(msgspec.Struct, frozen=True, tag="group"):
    """A call group with its results, or a single message: views, windows and compaction move it as one."""

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
        """How many messages it has."""
        return len(self.messages)

    @property
    def blocks(self) -> int:
        """How many messages show it."""
        return len(self.messages)

    @property
    def replaced(self) -> int:
        """The tokens of its messages with every stored body in full."""
        return sum(message.whole_tokens for message in self.messages)

    @property
    def priority(self) -> Priority:
        """The highest priority of its messages."""
        return max((message.priority for message in self.messages), key=PRIORITY_SCORES.__getitem__)

    @property
    def starts_turn(self) -> bool:
        return self.messages[0].role == "user"


class Offload(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the history that waits for long-term memory: events `first` to `last` of a session. It is delivered at
    least once, with the same `key` each time."""

    scope: Scope
    entry: int
    why: str
    first: int
    last: int
    at_us: int
    key: str


class InlineBytes(msgspec.Struct, frozen=True):
    """Bytes inside a message, to be stored in the blob store."""

    kind: Literal["image", "file"]
    data: bytes
    media_type: str | None = None
    name: str | None = None


class CallDraft(msgspec.Struct, frozen=True):
    """A tool call before it is checked."""

    name: Any
    args: Any
    provider_id: Any = None
    raw: str | None = None
    """The original text of the arguments, if they came as text."""


class ResultDraft(msgspec.Struct, frozen=True):
    """A tool result before it is checked."""

    call: Any
    """The id of the call: ours, or the provider's."""
    content: Any
    """A value for session.result(), or a list of parts and InlineBytes."""
    is_error: bool = False


class MessageDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A message before its names, text, JSON and references are checked."""

    role: Any
    content: Any = ()
    """Text, a part, InlineBytes, or a list of them; None for none."""
    tool_calls: tuple[CallDraft, ...] = ()
    tool_results: tuple[ResultDraft, ...] = ()
    usage: Usage | None = None
    source: Source | None = None
    metadata: Any = None
    skipped: SkipReason | None = None
    """Why models do not see this reply, as the provider said."""
    priority: Any = None
