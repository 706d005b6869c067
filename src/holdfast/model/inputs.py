"""The input of a decision: facts from outside the state, read once and then stored with the events.

Law: a replay needs none of it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from holdfast.model.entries.entry import ChunkRef
from holdfast.model.facts.fact import FactState
from holdfast.model.frames.events import FramePopped
from holdfast.model.frames.frames import FrameState
from holdfast.model.history.handles import Handle
from holdfast.model.history.ranges import VisibilityChange
from holdfast.model.policy import Policy
from holdfast.model.rows import EntryRow, OutboxRow, TokenRow
from holdfast.model.sessions.forks import ForkOrigin
from holdfast.model.sessions.turns import TurnFence
from holdfast.model.situation.situations import ActionCall, FieldName


class ResolvedCall(msgspec.Struct, frozen=True):
    """A tool call that is no longer open: it has its result, or Holdfast closed it."""

    kind: Literal["answered", "closed"]
    id: str


class CallInput(msgspec.Struct, frozen=True, kw_only=True):
    """About tool calls."""

    resolved: dict[str, ResolvedCall] = msgspec.field(default_factory=dict)
    """The calls that the command names and that are no longer open, by the name it uses: read from the log."""
    closing_tokens: int = 0
    """Tokens of the text that closes a call."""
    started_tokens: int = 0
    """Tokens of the text that closes a call which was started."""


class SummaryInput(msgspec.Struct, frozen=True, kw_only=True):
    """About the messages that a summary covers: read from the log."""

    tokens: int
    """As they are shown."""
    messages: int = 0
    whole_tokens: int = 0
    """Of all messages, those under earlier summaries included."""
    kept: tuple[int, ...] = ()
    """The messages that the summary leaves in view."""


class WithdrawalInput(msgspec.Struct, frozen=True, kw_only=True):
    """About the messages that a withdrawal takes out of a conversation, or that a restoration brings back: read from the
    log."""

    seqs: tuple[int, ...]
    """The messages that are in view before and not after, or the reverse."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Where they are, without the results that close open calls."""
    change: VisibilityChange = VisibilityChange()
    grown: bool = False
    fields: dict[FieldName, str] = msgspec.field(default_factory=dict)
    """The fields of the situation that get the text of another time."""
    cleared: tuple[FieldName, ...] = ()
    """The fields of the situation that were not set at that time."""


class FrameInput(msgspec.Struct, frozen=True, kw_only=True):
    """About frames, their reservations and their tokens."""

    ended_frame: FrameState | None = None
    """The frame that the command names, if it has ended: read from its row."""
    pop_event: FramePopped | None = None
    """The event that ended it: read from the log. None if it ended together with another frame."""
    is_settled: bool = False
    """Whether the reservation that the command names existed and is over: read from the log."""
    token: TokenRow | None = None
    """The suspension token that the command brings: read from its row."""
    digest: str = ""
    """Of a new suspension token, or of the text that ends a frame."""


class HandleInput(msgspec.Struct, frozen=True):
    """The handle that the command names, or that has the same source: read from its row."""

    handle: Handle
    result: str = ""
    """The ending of the child frame that added it; empty for other handles."""


class AnsweredCall(NamedTuple):
    """A tool call whose result came since the last action."""

    call: ActionCall
    provider_id: str


class ActionInput(msgspec.Struct, frozen=True):
    """About an action."""

    calls: tuple[AnsweredCall, ...] = ()
    """Read from the log, oldest first."""


class FactWriter(msgspec.Struct, frozen=True, kw_only=True):
    """On whose behalf facts are written, as the authenticated channel says."""

    identity: str = ""
    authority: str = "policy"
    """The highest authority that may be claimed."""
    default: str = "peer"
    """The authority if none is claimed."""
    permissions: tuple[str, ...] | None = None
    """None for a writer who may read and do everything."""


class LedgerSlice(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a ledger that a command can touch: read from rows."""

    facts: dict[str, FactState] = msgspec.field(default_factory=dict)
    named: dict[str, str] = msgspec.field(default_factory=dict)
    """The fact ids that the names in the command mean."""
    ends: dict[str, str] = msgspec.field(default_factory=dict)
    """The last facts of long chains, by the fact that each was followed from."""
    below: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The live dependents of each fact, at all depths."""
    due: tuple[str, ...] = ()
    """Live facts that have expired."""


class LedgerInput(msgspec.Struct, frozen=True, kw_only=True):
    """About a ledger and the writer of its facts."""

    writer: FactWriter = FactWriter()
    policy: Policy = Policy()
    slice: LedgerSlice = LedgerSlice()


class ProposalInput(msgspec.Struct, frozen=True):
    """About proposals that were settled in the same batch."""

    refusals: list[list[str]] = msgspec.field(default_factory=list)
    """For each settled proposal, why it could not be applied; empty if it was."""


class EntryInput(msgspec.Struct, frozen=True, kw_only=True):
    """About entries: read from rows."""

    rows: dict[str, EntryRow] = msgspec.field(default_factory=dict)
    """The entries that exist under the keys of the command, by key."""
    are_new: bool = False
    """No entry exists under these keys: they are random."""
    chunks: dict[str, ChunkRef] = msgspec.field(default_factory=dict)
    """The chunks of the command that are stored, by digest."""
    erased: tuple[int, ...] = ()
    """The events that a deletion erases."""


class DecisionInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision needs beside the state and the command."""

    time_us: int
    principal: str = ""
    counter: str = ""
    tokens: tuple[int, ...] = ()
    """Of each message, or of the summary."""
    spent: tuple[int, ...] = ()
    """The amount that the usage of each message takes from a budget."""
    message: int = 0
    """The seq of the first message that the same batch recorded; 0 for none."""
    calls: CallInput = CallInput()
    summary: SummaryInput | None = None
    """None if the summary does not begin and end where call groups do."""
    frame: FrameInput = FrameInput()
    handle: HandleInput | None = None
    ledger: LedgerInput = LedgerInput()
    proposals: ProposalInput = ProposalInput()
    actions: ActionInput = ActionInput()
    turn: TurnFence | None = None
    """The turn under which the command is executed."""
    entries: EntryInput = EntryInput()
    withdrawal: WithdrawalInput | None = None
    """None if there is no such message."""
    fork: ForkOrigin | None = None
    """Where the events of a new fork are."""
    forks: tuple[str, ...] = ()
    """The names of the forks of a session that is to be destroyed: read from rows."""
    offload: OutboxRow | None = None
    """The outbox entry that the command names: read from its row."""
