"""Commands: orders, which may be refused. Their canonical bytes are what an idempotency key is bound to."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import BlobRef, Json, Part, Role, SkipReason, Source, Usage
from holdfast.model.detection import Proposal, Settled
from holdfast.model.events import FramePopped
from holdfast.model.facts import FactScope, FactSource, FactState, MemoryType, Mention
from holdfast.model.frames import Ending, FrameState
from holdfast.model.handles import Handle, HandleKind, Priority
from holdfast.model.layers import Identity
from holdfast.model.names import LedgerId, Scope, StreamId
from holdfast.model.plan import Figures, Fold, Level, Op, Redacted, RedactionWhy, Reduction, Residency, Tier, Why
from holdfast.model.policy import Policy
from holdfast.model.rows import OutboxRow, TokenRow
from holdfast.model.situation import ActionCall, Field, Mode, Outcome


class NewCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call on its way in; the session gives it its id."""

    name: str
    args: Json
    provider_id: str | None = None
    raw: str | None = None


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
    skipped: SkipReason | None = None
    priority: Priority = "medium"


class _Command(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    scope: Scope

    @property
    def stream(self) -> StreamId:
        return self.scope.stream


class CreateSession(_Command, frozen=True, kw_only=True, tag="create_session"):
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0
    """0 for never."""
    identity: Identity | None = None
    """None for one of whom nothing is known."""
    ledgers: tuple[tuple[str, ...], ...] = ()


class RecordMessages(_Command, frozen=True, kw_only=True, tag="record_messages"):
    messages: tuple[NewMessage, ...]
    as_found: bool = False
    """They come from a log that exists already: what breaks the rules is kept as evidence instead of being refused."""
    frame: str | None = None
    """Where they belong. What they say of usage is charged to it."""
    reservation: str | None = None
    """Of the frame: over with these messages, whose usage it was made for."""


class CloseCalls(_Command, frozen=True, kw_only=True, tag="close_calls"):
    reason: str
    frame: str | None = None
    """Only those of this frame; None for all."""


class Summarize(_Command, frozen=True, kw_only=True, tag="summarize"):
    first: int
    last: int
    version: int
    text: str
    frame: str | None = None


class CompactContext(_Command, frozen=True, kw_only=True, tag="compact_context"):
    """Show a conversation otherwise from now on, as it was planned at `version`."""

    frame: str | None = None
    version: int
    policy: str
    why: Why
    ops: tuple[Op, ...]
    reduced: tuple[Reduction, ...]
    fold: Fold | None
    first_changed: int | None
    original: int
    final: int
    level: Level
    target_met: bool
    figures: Figures
    handles: tuple[str, ...] = ()


class RedactContext(_Command, frozen=True, kw_only=True, tag="redact_context"):
    """Show these items of a conversation otherwise from now on, as the guard saw it at `version`."""

    frame: str | None = None
    version: int
    redacted: tuple[Redacted, ...]
    why: RedactionWhy
    first_changed: int | None
    original: int
    final: int


class MoveHandle(_Command, frozen=True, kw_only=True, tag="move_handle"):
    """Take a piece of a message out of view, or bring it back."""

    frame: str | None = None
    residency: Residency
    piece: Reduction


class RecordPack(_Command, frozen=True, kw_only=True, tag="record_pack"):
    """Keep what a model was called with, together with the messages before it in the same order, or alone."""

    frame: str | None = None
    at: int
    context_hash: str
    budget: int
    used: int
    counted: int = 0
    messages: int = 0
    counter: str = ""
    level: Level
    query: str
    shown: tuple[tuple[int, int], ...]
    manifest: BlobRef | bytes
    brief: BlobRef | None = None
    reply: int = 0
    """Which of them answers it, counted from 1; 0 for none."""
    reservation: str | None = None


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


class PushFrame(_Command, frozen=True, kw_only=True, tag="push_frame"):
    goal: str
    inputs: Json = None
    parent: str | None = None
    budget: int
    max_subframe_depth: int | None = None
    max_tool_calls: int | None = None
    timeout_us: int | None = None


class _OfFrame(_Command, frozen=True, kw_only=True):
    frame: str


class UpdateFrame(_OfFrame, frozen=True, kw_only=True, tag="update_frame"):
    goal: str | None = None
    inputs: Json = None
    context_hash: str | None = None


class PopFrame(_OfFrame, frozen=True, kw_only=True, tag="pop_frame"):
    status: Ending
    summary: str = ""
    result: tuple[Part, ...] = ()
    digest: str
    cascade: bool = False


class TimeOutFrame(_OfFrame, frozen=True, kw_only=True, tag="time_out_frame"):
    pass


class SuspendFrame(_OfFrame, frozen=True, kw_only=True, tag="suspend_frame"):
    reason: str
    expires_us: int | None = None
    resumable_by: tuple[str, ...] = ()
    cascade: bool = False


class ReissueToken(_OfFrame, frozen=True, kw_only=True, tag="reissue_token"):
    expires_us: int | None = None


class RevokeToken(_OfFrame, frozen=True, kw_only=True, tag="revoke_token"):
    reason: str


class ResumeFrame(_OfFrame, frozen=True, kw_only=True, tag="resume_frame"):
    digest: str


class AddHandle(_OfFrame, frozen=True, kw_only=True, tag="add_handle"):
    kind: HandleKind
    priority: Priority
    title: str
    source: str | None
    content: tuple[Part, ...]
    digest: str
    metadata: dict[str, Json]


class ReplaceHandle(_OfFrame, frozen=True, kw_only=True, tag="replace_handle"):
    """None for what stays as it is."""

    handle: str
    priority: Priority | None = None
    title: str | None = None
    content: tuple[Part, ...] | None = None
    digest: str = ""
    metadata: dict[str, Json] | None = None
    residency: Residency | None = None
    tier: Tier | None = None
    ref: BlobRef | None = None
    size: int = 0


class ReserveTokens(_OfFrame, frozen=True, kw_only=True, tag="reserve_tokens"):
    purpose: str
    amount: int


class CommitTokens(_OfFrame, frozen=True, kw_only=True, tag="commit_tokens"):
    reservation: str | None
    """None for what nobody reserved."""
    tokens: int
    usage: Usage | None = None


class CancelTokens(_OfFrame, frozen=True, kw_only=True, tag="cancel_tokens"):
    reservation: str


class GrantTokens(_OfFrame, frozen=True, kw_only=True, tag="grant_tokens"):
    amount: int


class StartCall(_Command, frozen=True, kw_only=True, tag="start_call"):
    call: str
    key: str | None = None
    again: bool = False
    """Although it was started before, and nobody knows what came of it."""
    frame: str | None = None


class ResumeActor(_Command, frozen=True, kw_only=True, tag="resume_actor"):
    pass


class RefreshIdentity(_Command, frozen=True, kw_only=True, tag="refresh_identity"):
    """Replace the identity of the session, as the authenticated channel gives it now."""

    identity: Identity


class SetWorking(_Command, frozen=True, kw_only=True, tag="set_working"):
    item: str
    value: Json
    ttl_us: int | None = None
    """None for as long as the session."""


class ClearWorking(_Command, frozen=True, kw_only=True, tag="clear_working"):
    items: tuple[str, ...] = ()
    """Without any, all of them."""


class ObserveEnvironment(_Command, frozen=True, kw_only=True, tag="observe_environment"):
    item: str
    value: Json
    observed_us: int | None = None
    """None for now."""
    ttl_us: int | None = None
    expires_us: int | None = None


class ClearEnvironment(_Command, frozen=True, kw_only=True, tag="clear_environment"):
    items: tuple[str, ...] = ()
    """Without any, all of them."""


class ProposeFacts(_Command, frozen=True, kw_only=True, tag="propose_facts"):
    detector: str
    message: int
    """0 for the one that is recorded together with them."""
    proposals: tuple[tuple[tuple[str, ...], Proposal], ...]
    why: tuple[str, ...] = ()
    settled: tuple[Settled, ...] = ()


class DecideProposal(_Command, frozen=True, kw_only=True, tag="decide_proposal"):
    proposal: str
    accepted: bool


class UpdateSituation(_Command, frozen=True, kw_only=True, tag="update_situation"):
    frame: str | None = None
    fields: dict[Field, str]
    clear: tuple[Field, ...] = ()
    iteration: int | None = None
    """None for the one that it is."""
    by: str
    tells: tuple[int, ...] = ()
    rules: bool = False
    """What others wrote not long ago is left to them."""


class RecordAction(_Command, frozen=True, kw_only=True, tag="record_action"):
    frame: str | None = None
    iteration: int | None = None
    mode: Mode
    thinking: str = ""
    planning: str = ""
    reflection: str = ""
    approach: str = ""
    tool_calls: tuple[ActionCall, ...] | None = None
    """None for those whose results came since the action before."""
    outcomes: dict[str, Outcome] = msgspec.field(default_factory=dict)
    """What is known of the outcome of some of those, by their ids or the provider's."""


class _OnLedger(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="command"):
    ledger: LedgerId

    @property
    def stream(self) -> StreamId:
        return self.ledger.stream


class AssertFact(_OnLedger, frozen=True, kw_only=True, tag="assert_fact"):
    """None for what is to be told from the source and the text."""

    key: str
    value: Json
    ref: str = ""
    source: FactSource | None = None
    authority: str | None = None
    memory_type: MemoryType | None = None
    scope: FactScope | None = None
    scope_id: str = ""
    valid_from_us: int | None = None
    expires_us: int | None = None
    ttl_us: int | None = None
    """How long it holds from now on, instead of until when."""
    supersedes: tuple[str, ...] = ()
    """Facts by their ids, their names outside, or their keys."""
    depends_on: tuple[str, ...] = ()
    is_constraint: bool | None = None
    constraint_type: str | None = None
    requires: tuple[str, ...] = ()
    provenance: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    old_mentions: tuple[Mention, ...] = ()
    """Where what it supersedes is stated."""
    time_sensitive: bool | None = None
    reason: str = ""


class _OnFact(_OnLedger, frozen=True, kw_only=True):
    fact: str
    """By its id, its name outside, or its key."""
    reason: str = ""


class SupersedeFact(_OnFact, frozen=True, kw_only=True, tag="supersede_fact"):
    by: str


class RetractFact(_OnFact, frozen=True, kw_only=True, tag="retract_fact"):
    mentions: tuple[Mention, ...] = ()


class ExpireFact(_OnFact, frozen=True, kw_only=True, tag="expire_fact"):
    pass


class PromoteFact(_OnFact, frozen=True, kw_only=True, tag="promote_fact"):
    scope: FactScope = "global"
    scope_id: str = ""


class EndorseFact(_OnFact, frozen=True, kw_only=True, tag="endorse_fact"):
    authority: str | None = None
    """None for all that the endorser has."""


class ConfirmFact(_OnFact, frozen=True, kw_only=True, tag="confirm_fact"):
    pass


class ReinstateFact(_OnFact, frozen=True, kw_only=True, tag="reinstate_fact"):
    pass


class ExpireFacts(_OnLedger, frozen=True, kw_only=True, tag="expire_facts"):
    """Those whose time has run out, so many at most."""

    limit: int


class EraseFacts(_OnLedger, frozen=True, kw_only=True, tag="erase_facts"):
    facts: tuple[str, ...] = ()
    seqs: tuple[int, ...] = ()
    """Events that go as they are: for a ledger that ends with its session."""
    reason: str


OnFact: TypeAlias = SupersedeFact | RetractFact | ExpireFact | PromoteFact | EndorseFact | ConfirmFact | ReinstateFact

LedgerCommand: TypeAlias = AssertFact | OnFact | ExpireFacts | EraseFacts

FrameCommand: TypeAlias = (
    PushFrame
    | UpdateFrame
    | PopFrame
    | TimeOutFrame
    | SuspendFrame
    | ReissueToken
    | RevokeToken
    | ResumeFrame
    | AddHandle
    | ReplaceHandle
    | ReserveTokens
    | CommitTokens
    | CancelTokens
    | GrantTokens
    | StartCall
    | ResumeActor
)

LayerCommand: TypeAlias = RefreshIdentity | SetWorking | ClearWorking | ObserveEnvironment | ClearEnvironment

SituationCommand: TypeAlias = UpdateSituation | RecordAction

Command: TypeAlias = (
    CreateSession
    | RecordMessages
    | CloseCalls
    | Summarize
    | CompactContext
    | RedactContext
    | MoveHandle
    | RecordPack
    | ResetSession
    | CloseSession
    | TimeOutSession
    | DestroySession
    | AcknowledgeOffload
    | ErasePayloads
    | ProposeFacts
    | DecideProposal
    | LayerCommand
    | SituationCommand
    | FrameCommand
)
"""What is about a session. What is about a ledger is a `LedgerCommand`."""


class Writer(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf facts are written, as the channel knows."""

    identity: str = ""
    authority: str = "policy"
    """The most that may be claimed."""
    default: str = "peer"
    """What counts if nothing is claimed."""
    permissions: tuple[str, ...] | None = None
    """None for one who may know, and do, everything."""


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a ledger that a command can touch: read from rows."""

    facts: dict[str, FactState] = msgspec.field(default_factory=dict)
    named: dict[str, str] = msgspec.field(default_factory=dict)
    """What the names in the command mean, by fact id."""
    ends: dict[str, str] = msgspec.field(default_factory=dict)
    """Where long chains lead, by the fact that they were walked from."""
    below: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Who depends on whom: the live dependents of each fact, as far down as it goes."""
    due: tuple[str, ...] = ()
    """Live facts whose time has run out."""


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
    started_tokens: int = 0
    """Of the text that closes one that was started."""
    counter: str = ""
    fates: dict[str, Fate] = msgspec.field(default_factory=dict)
    """Of the calls that results name and that do not wait, if they ever were: read from the log."""
    replaced_tokens: int | None = None
    """Of what the summary stands for; None if its ends are not where units end: read from the log."""
    replaced_messages: int = 0
    replaced_whole: int = 0
    """Tokens of all messages that it stands for, those of summaries that it takes in among them."""
    kept: tuple[int, ...] = ()
    """The messages that the summary leaves in view: read from the log."""
    offload: OutboxRow | None = None
    """The entry of the outbox: read from its row."""
    principal: str = ""
    spent: tuple[int, ...] = ()
    """What the usage of each message takes from a budget."""
    digest: str = ""
    """Of a new suspension token, or of the text that ends a frame."""
    ended: FrameState | None = None
    """The frame that the command is about, if it has ended: read from its row."""
    popped: FramePopped | None = None
    """What ended it: read from the log. None if it ended together with another."""
    settled: bool = False
    """The reservation that the command is about was there, and is over: read from the log."""
    handle: Handle | None = None
    """What the frame has from the same source already: read from its row."""
    result: str = ""
    """How the child ended that brought it, if one did."""
    token: TokenRow | None = None
    """The token that the command comes with: read from its row."""
    answered: tuple[tuple[ActionCall, str], ...] = ()
    """Tool calls whose results came since the last action, each with the provider's id: read from the log."""
    writer: Writer = Writer()
    policy: Policy = Policy()
    message: int = 0
    """The seq of the message that is recorded together with a fact; 0 for none."""
    slice: Slice = Slice()
    refusals: list[list[str]] = msgspec.field(default_factory=list)
    """Why those of the settled proposals could not be applied that could not, each with its reasons."""
