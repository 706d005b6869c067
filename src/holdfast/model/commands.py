"""Commands: orders, which may be refused. Their canonical bytes are what an idempotency key is bound to."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json, Part, Role, Source, Usage
from holdfast.model.names import Scope
from holdfast.model.rows import OutboxRow


class NewCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call on its way in; the session gives it its id."""

    name: str
    args: Json
    provider_id: str | None = None


class NewResult(msgspec.Struct, frozen=True, omit_defaults=True):
    call: str
    """The id that the session gave, or the provider's own."""
    content: tuple[Part, ...]
    is_error: bool = False


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message on its way in."""

    role: Role
    content: tuple[Part, ...] = ()
    tool_calls: tuple[NewCall, ...] = ()
    tool_results: tuple[NewResult, ...] = ()
    usage: Usage | None = None
    source: Source | None = None
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)


class _Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    scope: Scope


class CreateSession(_Command, frozen=True, kw_only=True, tag="create_session"):
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0
    """0 for never."""


class RecordMessages(_Command, frozen=True, kw_only=True, tag="record_messages"):
    messages: tuple[NewMessage, ...]
    as_found: bool = False
    """They come from a log that exists already: what breaks the rules is kept as evidence instead of being refused."""


class CloseCalls(_Command, frozen=True, kw_only=True, tag="close_calls"):
    reason: str


class Summarize(_Command, frozen=True, kw_only=True, tag="summarize"):
    first: int
    last: int
    version: int
    text: str


class ResetSession(_Command, frozen=True, kw_only=True, tag="reset_session"):
    reason: str
    keep_system: bool = True


class CloseSession(_Command, frozen=True, kw_only=True, tag="close_session"):
    reason: str


class TimeOutSession(_Command, frozen=True, kw_only=True, tag="time_out_session"):
    pass


class DestroySession(_Command, frozen=True, kw_only=True, tag="destroy_session"):
    reason: str
    offload: bool = True


class AcknowledgeOffload(_Command, frozen=True, kw_only=True, tag="acknowledge_offload"):
    entry: int


class ErasePayloads(_Command, frozen=True, kw_only=True, tag="erase_payloads"):
    seqs: tuple[int, ...]
    reason: str
    alone: bool = False
    """Do not look for what goes with them: the caller sees to it."""


Command: TypeAlias = (
    CreateSession
    | RecordMessages
    | CloseCalls
    | Summarize
    | ResetSession
    | CloseSession
    | TimeOutSession
    | DestroySession
    | AcknowledgeOffload
    | ErasePayloads
)


class Fate(msgspec.Struct, frozen=True):
    """What became of a call that does not wait: it has its result, or Holdfast closed it."""

    kind: Literal["answered", "closed"]
    id: str


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What comes from outside, once, and is then stored: a replay never asks again."""

    time_us: int
    tokens: tuple[int, ...] = ()
    """Of each message, or of the summary."""
    closing_tokens: int = 0
    """Of the text that closes a call."""
    counter: str = ""
    fates: dict[str, Fate] = msgspec.field(default_factory=dict)
    """Of the calls that results name and that do not wait, if they ever were: read from the log."""
    replaced_tokens: int | None = None
    """Of what the summary stands for; None if its ends are not where units end: read from the log."""
    replaced_messages: int = 0
    offload: OutboxRow | None = None
    """The entry of the outbox: read from its row."""
