"""Commands of sessions: lifecycle, messages, tool calls and layers."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.command import SessionCommandBase
from holdfast.model.content import Json, Part, Role, SkipReason, Source, Usage
from holdfast.model.history.handles import Priority
from holdfast.model.names import Scope
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.model_uses import ModelUse


class NewCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call to record; the session assigns its id."""

    name: str
    args: Json
    provider_id: str | None = None
    raw: str | None = None


class NewResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool result to record."""

    call: str
    """The id of the call: ours, or the provider's."""
    content: tuple[Part, ...]
    is_error: bool = False


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message to record."""

    role: Role
    content: tuple[Part, ...] = ()
    tool_calls: tuple[NewCall, ...] = ()
    tool_results: tuple[NewResult, ...] = ()
    usage: Usage | None = None
    source: Source | None = None
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    skipped: SkipReason | None = None
    priority: Priority = "medium"


class CreateSession(SessionCommandBase, frozen=True, kw_only=True, tag="create_session"):
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0
    """0 for never."""
    identity: Identity | None = None
    """None if it is unknown."""
    ledgers: tuple[tuple[str, ...], ...] = ()
    memory: bool = False


class ForkSession(SessionCommandBase, frozen=True, kw_only=True, tag="fork_session"):
    """Begin a session with the events of another one, up to `cut`."""

    parent: Scope
    cut: int


class BranchSession(SessionCommandBase, frozen=True, kw_only=True, tag="branch_session"):
    """Note that a session is forked from this one, so that both are changed together."""

    fork: Scope
    cut: int


class RecordMessages(SessionCommandBase, frozen=True, kw_only=True, tag="record_messages"):
    messages: tuple[NewMessage, ...]
    as_found: bool = False
    """They are imported: a message that breaks the rules becomes evidence instead of an error."""
    frame: str | None = None
    """The frame of the messages. Their usage is taken from its budget."""
    reservation: str | None = None
    """The reservation of the frame that the usage of these messages settles."""


class CloseCalls(SessionCommandBase, frozen=True, kw_only=True, tag="close_calls"):
    reason: str
    frame: str | None = None
    """Only the calls of this frame; None for all."""


class ResetSession(SessionCommandBase, frozen=True, kw_only=True, tag="reset_session"):
    reason: str
    keep_system: bool = True


class CloseSession(SessionCommandBase, frozen=True, kw_only=True, tag="close_session"):
    reason: str


class TimeOutSession(SessionCommandBase, frozen=True, kw_only=True, tag="time_out_session"):
    pass


class DestroySession(SessionCommandBase, frozen=True, kw_only=True, tag="destroy_session"):
    reason: str
    offload: bool = True


class AcknowledgeOffload(SessionCommandBase, frozen=True, kw_only=True, tag="acknowledge_offload"):
    entry: int


class ErasePayloads(SessionCommandBase, frozen=True, kw_only=True, tag="erase_payloads"):
    seqs: tuple[int, ...]
    reason: str
    alone: bool = False
    """Erase only these events: the caller names all that belong together."""
    shared: bool = False
    """The events are erased in the session that stores them, too, or the fork that shares them is destroyed."""


class StartCall(SessionCommandBase, frozen=True, kw_only=True, tag="start_call"):
    call: str
    key: str | None = None
    again: bool = False
    """Start it although it was started before, with an unknown outcome."""
    frame: str | None = None


class TakeTurn(SessionCommandBase, frozen=True, kw_only=True, tag="take_turn"):
    owner: str
    lease_us: int
    wait_us: int = 0
    """How long to wait in the queue; 0 to be refused if the turn is taken."""
    ticket: int = 0
    """The place in the queue, if the owner has one."""
    frame: str | None = None


class RenewTurn(SessionCommandBase, frozen=True, kw_only=True, tag="renew_turn"):
    number: int
    lease_us: int
    frame: str | None = None


class EndTurn(SessionCommandBase, frozen=True, kw_only=True, tag="end_turn"):
    number: int
    frame: str | None = None


class RecordModelUses(SessionCommandBase, frozen=True, kw_only=True, tag="record_model_uses"):
    """Record what models used beside the conversation. A live frame is charged for it."""

    uses: tuple[ModelUse, ...]
    frame: str | None = None


class RefreshIdentity(SessionCommandBase, frozen=True, kw_only=True, tag="refresh_identity"):
    """Replace the identity of the session."""

    identity: Identity


class SetWorking(SessionCommandBase, frozen=True, kw_only=True, tag="set_working"):
    item: str
    value: Json
    ttl_us: int | None = None
    """None for until the conversation ends."""


class ClearWorking(SessionCommandBase, frozen=True, kw_only=True, tag="clear_working"):
    items: tuple[str, ...] = ()
    """Empty for all items."""


class ObserveEnvironment(SessionCommandBase, frozen=True, kw_only=True, tag="observe_environment"):
    item: str
    value: Json
    observed_us: int | None = None
    """None for now."""
    ttl_us: int | None = None
    expires_us: int | None = None


class ClearEnvironment(SessionCommandBase, frozen=True, kw_only=True, tag="clear_environment"):
    items: tuple[str, ...] = ()
    """Empty for all items."""


LayerCommand: TypeAlias = RefreshIdentity | SetWorking | ClearWorking | ObserveEnvironment | ClearEnvironment

TurnCommand: TypeAlias = TakeTurn | RenewTurn | EndTurn
