"""The live state of a stream: bounded, whatever the length of its history."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json, Usage
from holdfast.model.facts.detection import Proposal
from holdfast.model.frames.frames import FrameState, MessagePositions, frame_seq
from holdfast.model.history.plans import Redaction, Reduction
from holdfast.model.history.ranges import SeqRanges
from holdfast.model.sessions.forks import ForkOrigin
from holdfast.model.sessions.layers import EnvironmentItem, Identity, WorkingItem
from holdfast.model.sessions.turns import Lease
from holdfast.model.situation.situations import SituationState

SNAPSHOT_FORMAT = 15
"""Raised whenever SessionState, or its fold, changes: streams with older snapshots are then replayed."""
LEDGER_FORMAT = 1
"""The same for LedgerState."""


class OpenCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool call that has no result yet."""

    id: str
    name: str
    provider_id: str | None = None
    frame: str | None = None
    key: str = ""
    """The idempotency key that it was started under; empty if it was not started."""
    attempts: int = 0
    """How often it was started. Without a result, its outcome is unknown."""
    turn: int = 0
    """The number of the turn in which it was started; 0 for none."""


class SummaryRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A summary in effect: its position, and the messages that it covers."""

    seq: int
    first: int
    last: int
    messages: int
    tokens: int
    frame: str | None = None
    """The frame whose conversation it is of; None for the one outside of frames."""
    replaced: int = 0
    """Tokens of the messages that it covers."""
    kept: tuple[int, ...] = ()
    """The seqs of the messages in its range that stay in view, after it, in order."""


class ViewState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a conversation is shown, beside its summaries."""

    boundary: int = 0
    """The seq of the last event that changed it."""
    reduced: tuple[Reduction, ...] = ()
    """The pieces of messages in view that are not shown as recorded, in order."""
    planned: int = 0
    """The seq up to which `calls` and `grown` count."""
    calls: int = 0
    """Model calls."""
    grown: int = 0
    """Tokens ever added."""
    redacted: tuple[Redaction, ...] = ()
    """The items in view that the guard shows differently, in order, as last settled."""
    settled_us: int = 0
    """The time of the last event that changed what was shown before it."""
    results: int = 0
    """Tool results, up to the same seq as the calls."""
    repeats: int = 0
    """How many of the results answered a repeated call, or read a stored body again."""
    left_out: tuple[tuple[str, int], ...] = ()
    """The handles that a compaction collapsed, with its event, until they come back."""
    earned: int = 0
    """The savings of boundaries so far, minus their costs, in picodollars, up to the same seq as the calls."""


_UNCHANGED_VIEW = ViewState()
_INITIAL_SITUATION = SituationState()


class UsageReport(msgspec.Struct, frozen=True):
    """The usage that a provider reported with a reply."""

    reply: int
    """The seq of the reply."""
    prompt: int
    """Tokens of the full prompt."""


class Calibration(msgspec.Struct, frozen=True, omit_defaults=True):
    """The provider's token counts compared with the counter's, for the model of the last reply."""

    model: str = ""
    counter: str = ""
    """The counter whose figures these are."""
    report: UsageReport | None = None
    """The newest report, until the pack that it is about is recorded."""
    prompt: int = 0
    """Tokens of the last prompt, in the provider's count; 0 when the next one cannot be compared with it."""
    estimate: int = 0
    """The counter's tokens of the pack of that prompt."""
    messages: int = 0
    """The number of messages of that prompt."""
    factor: int = 1_000
    """The provider's tokens for a thousand of the counter's."""
    overhead: int = 4
    """The provider's tokens for each message, beside its content."""
    factor_lessons: int = 0
    overhead_lessons: int = 0

    def measure(self, tokens: int, messages: int) -> int:
        """What the provider will count for so many tokens of the counter in so many messages."""
        return -(-self.factor * tokens // 1_000) + self.overhead * messages


class OpenProposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A proposed change that waits for a decision."""

    id: str
    ledger: tuple[str, ...]
    """The key of the stream of the ledger that it is about."""
    proposal: Proposal
    message: int = 0
    """The seq of the message that it was detected in; of a merge, the last event that both sessions share."""


class WithdrawalRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A withdrawal in effect, with all that it took out of the state: a restoration puts it back."""

    seq: int
    frame: str | None
    ranges: tuple[tuple[int, int], ...]
    """The messages of its conversation in these ranges are withdrawn."""
    summaries: tuple[SummaryRef, ...] = ()
    """The summaries that are void because they tell of a withdrawn message."""
    reduced: tuple[Reduction, ...] = ()
    redacted: tuple[Redaction, ...] = ()
    proposals: tuple[OpenProposal, ...] = ()
    """The proposals that a detector read in the withdrawn messages."""
    pinned: tuple[int, ...] = ()
    """The seqs of the withdrawn system messages, without erased ones."""
    actions: tuple[int, ...] = ()
    """The seqs of the actions since the first withdrawn message."""


class LedgerState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a ledger without its facts, which are in rows."""

    version: int = 0
    facts: int = 0
    """How many facts were ever asserted."""
    created_us: int = 0
    updated_us: int = 0

    @property
    def weight(self) -> int:
        return 512


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int = 0
    status: Literal["absent", "open", "closed", "destroyed"] = "absent"
    created_us: int = 0
    updated_us: int = 0
    active_us: int = 0
    """The latest time of any event, also when the clock was set back. Idle time counts from here."""
    messages: int = 0
    tokens: int = 0
    turns: int = 0
    """Messages of the user."""
    late: int = 0
    """Late results and other evidence."""
    close_reason: str = ""
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0
    open_calls: tuple[OpenCall, ...] = ()
    pinned: tuple[int, ...] = ()
    """The seqs of the system messages."""
    start: int = 0
    """Events up to this seq are out of view since the last reset."""
    live: int = 0
    """Messages since then outside of frames, without system messages."""
    live_tokens: int = 0
    spoken: MessagePositions = MessagePositions()
    """The positions of these."""
    summaries: tuple[SummaryRef, ...] = ()
    changed: int = 0
    """The seq of the last event that changed earlier messages: a reset, an erasure or a summary."""
    views: dict[str, ViewState] = msgspec.field(default_factory=dict)
    """The views of conversations that are not shown as recorded, by frame; the session's own under the empty name."""
    waiting: int = 0
    """Messages and evidence that were not yet offered to long-term memory."""
    offered: int = 0
    """The seq up to which they were offered."""
    residue: int = 0
    """Events whose content has not been erased."""
    usage: Usage = Usage()
    calibration: Calibration = Calibration()
    frames: dict[str, FrameState] = msgspec.field(default_factory=dict)
    """The live frames, by id."""
    asks: bool = False
    """The last message outside of frames is a question of the assistant."""
    errors: tuple[str, ...] = ()
    """Tool calls outside of frames that failed since the last reply."""
    resting: int = 0
    """How many of the frames are suspended."""
    bulk: int = 0
    """Bytes of the longer texts in the state: metadata, goals and reasons, working set and environment."""
    identity: Identity = Identity()
    ledgers: tuple[tuple[str, ...], ...] = ()
    """The ledgers that it reads after its own, by the keys of their streams, in order of precedence."""
    working: dict[str, WorkingItem] = msgspec.field(default_factory=dict)
    environment: dict[str, EnvironmentItem] = msgspec.field(default_factory=dict)
    context_hash: str = ""
    """Of the last recorded pack outside of frames."""
    proposals: tuple[OpenProposal, ...] = ()
    """Proposals of a detector that wait for a decision."""
    standings: dict[str, SituationState] = msgspec.field(default_factory=dict)
    """The situations of conversations, by frame; the session's own under the empty name."""
    leases: dict[str, Lease] = msgspec.field(default_factory=dict)
    """The leases on conversations, by frame; on the session's own under the empty name."""
    popped: int = 0
    """The seq of the newest event that popped a frame, also if it was erased since."""

    withdrawals: tuple[WithdrawalRef, ...] = ()
    """The withdrawals in effect in live conversations, oldest first."""
    withdrawn: int = 0
    """The seq of the newest event that withdrew or restored messages; 0 if there is none."""
    origin: ForkOrigin | None = None
    """Where it was forked from; None if it is no fork."""
    has_memory: bool = False
    """Its packs recall what left the view, and what earlier sessions of the user said."""

    def hidden_ranges(self, frame: str | None) -> SeqRanges:
        """Where the withdrawn messages of a live conversation are."""
        return SeqRanges(each for one in self.withdrawals if one.frame == frame for each in one.ranges)

    def view(self, frame: str | None) -> ViewState:
        """The view of the conversation of a frame, or of the one outside of frames."""
        return self.views.get(frame or "", _UNCHANGED_VIEW)

    def collapsed_handles(self, frame: FrameState) -> dict[str, int]:
        """The handles of a frame that a compaction collapsed, with the seq of its event."""
        return dict(self.view(frame.id).left_out if frame.is_live else frame.left_out)

    def start_of(self, frame: str | None) -> int:
        """The last seq before a conversation: that of the last reset, or of the event that pushed its frame."""
        return self.start if frame is None else max(self.start, frame_seq(frame))

    def standing(self, frame: str | None) -> SituationState:
        """The situation of the conversation of a frame, or of the one outside of frames."""
        return self.standings.get(frame or "", _INITIAL_SITUATION)

    def summaries_of(self, frame: str | None) -> tuple[SummaryRef, ...]:
        """The summaries in effect in one conversation, in order."""
        return tuple(each for each in self.summaries if each.frame == frame)

    @property
    def weight(self) -> int:
        """The approximate size in memory, in bytes."""
        parts = len(self.frames) * 2_048 + (len(self.open_calls) + len(self.summaries)) * 512 + len(self.pinned) * 32
        parts += (len(self.working) + len(self.environment)) * 256 + len(self.proposals) * 2_048
        parts += len(self.standings) * 512
        for view in self.views.values():
            parts += 256 + len(view.reduced) * 512 + len(view.redacted) * 256 + len(view.left_out) * 64
        for lease in self.leases.values():
            parts += 256 + len(lease.waiters) * 128
        for summary in self.summaries:
            parts += len(summary.kept) * 32
        for each in self.withdrawals:
            parts += 256 + (len(each.ranges) + len(each.actions)) * 64 + len(each.proposals) * 2_048
            parts += (len(each.summaries) + len(each.reduced) + len(each.redacted)) * 512
        return 2_048 + 4 * self.bulk + parts


StreamState: TypeAlias = SessionState | LedgerState
