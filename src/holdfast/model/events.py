"""Events: what happened, as past facts. `name` and `version` go into the stored header, so the payload has no tag.

Law: a stored event never changes. A new shape gets a higher `version` and an upcaster from the one before.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import msgspec

from holdfast.model.content import Json, Part, Role


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: ClassVar[str]
    version: ClassVar[int] = 1


class SessionCreated(_Event, frozen=True, kw_only=True):
    name = "session.created"
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)


class MessageRecorded(_Event, frozen=True, kw_only=True):
    """`tokens` is what `counter` said when the message came in; a replay never counts again."""

    name = "message.recorded"
    role: Role
    content: tuple[Part, ...]
    tokens: int
    counter: str


class SessionClosed(_Event, frozen=True, kw_only=True):
    name = "session.closed"
    reason: str


class PayloadsErased(_Event, frozen=True, kw_only=True):
    """The payloads of these earlier events of the stream are gone for good; their headers and digests stay."""

    name = "payloads.erased"
    seqs: tuple[int, ...]
    reason: str


Event: TypeAlias = SessionCreated | MessageRecorded | SessionClosed | PayloadsErased

EVENTS: dict[str, type[Event]] = {
    event.name: event for event in (SessionCreated, MessageRecorded, SessionClosed, PayloadsErased)
}
