"""Events: what happened, as past facts. `name` and `version` go into the stored header, so the payload has no tag.

Law: a stored event never changes. A new shape gets a higher `version` and an upcaster from the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, TypeAlias

import msgspec

from holdfast.model.content import Json, Part, Role, Source, ToolCall, ToolResult, Usage


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: ClassVar[str]
    version: ClassVar[int] = 1


class SessionCreated(_Event, frozen=True, kw_only=True):
    """A session begins. `idle_timeout_us` is how long it may be idle; 0 for ever."""

    name = "session.created"
    version = 2
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0


class MessageRecorded(_Event, frozen=True, kw_only=True):
    """`tokens` is what `counter` said when the message came in; a replay never counts again."""

    name = "message.recorded"
    version = 2
    role: Role
    content: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    tokens: int
    counter: str
    usage: Usage | None = None
    source: Source | None = None
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    closing: bool = False


class EvidenceKept(_Event, frozen=True, kw_only=True):
    """What is no part of the transcript and must not be lost: above all, the result of a call that was closed before."""

    name = "evidence.kept"
    reason: str
    role: Role
    content: tuple[Part, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    tokens: int
    counter: str
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)


class SummaryRecorded(_Event, frozen=True, kw_only=True):
    """The messages from `first` to `last` are shown as `text` from now on."""

    name = "summary.recorded"
    first: int
    last: int
    messages: int
    text: str
    tokens: int
    counter: str


class SessionReset(_Event, frozen=True, kw_only=True):
    """The conversation starts anew. What was said before is offered to long-term memory."""

    name = "session.reset"
    reason: str
    keep_system: bool = True


class SessionClosed(_Event, frozen=True, kw_only=True):
    """The session takes no more messages. What was said is offered to long-term memory."""

    name = "session.closed"
    reason: str


class SessionTimedOut(_Event, frozen=True, kw_only=True):
    """The session was idle for too long, and is closed."""

    name = "session.timed_out"
    idle_us: int


class SessionDestroyed(_Event, frozen=True, kw_only=True):
    """Nobody sees it any more. Its content is erased once long-term memory has it, or at once if that shall not have it."""

    name = "session.destroyed"
    reason: str
    offload: bool = True


class OffloadAcknowledged(_Event, frozen=True, kw_only=True):
    """Long-term memory has this piece of history."""

    name = "offload.acknowledged"
    entry: int
    why: str
    first: int
    last: int
    at_us: int


class PayloadsErased(_Event, frozen=True, kw_only=True):
    """The payloads of these earlier events of the stream are gone for good; their headers and digests stay."""

    name = "payloads.erased"
    seqs: tuple[int, ...]
    reason: str


Event: TypeAlias = (
    SessionCreated
    | MessageRecorded
    | EvidenceKept
    | SummaryRecorded
    | SessionReset
    | SessionClosed
    | SessionTimedOut
    | SessionDestroyed
    | OffloadAcknowledged
    | PayloadsErased
)

_ALL: tuple[type[Event], ...] = Event.__args__

EVENTS: dict[str, type[Event]] = {event.name: event for event in _ALL}

OFFLOADING = {SessionReset.name, SessionClosed.name, SessionTimedOut.name, SessionDestroyed.name}
"""What ends a conversation: the history since the last such event becomes an entry of the outbox."""


BARE = {PayloadsErased.name, OffloadAcknowledged.name, SessionDestroyed.name}
"""What stays when a session is destroyed: it tells that, and nothing of what was said."""


def parts_of(event: Event | None) -> Iterator[Part]:
    """All parts in an event, wherever they stand in it."""
    if isinstance(event, MessageRecorded | EvidenceKept):
        yield from event.content
        for result in event.tool_results:
            yield from result.content
