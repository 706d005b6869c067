"""The live state of a stream: bounded, whatever the length of its history."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.model.content import Json, Usage
from holdfast.model.detection import Proposal
from holdfast.model.frames import FrameState, Spoken
from holdfast.model.layers import Identity, Surrounding, WorkingItem
from holdfast.model.plan import Redacted, Reduction
from holdfast.model.situation import Standing

SNAPSHOT_FORMAT = 10
"""Raised whenever SessionState, or what folding makes of it, changes: older snapshots are then replayed instead."""

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
    """How often it was started. Without a result, nobody knows what came of it."""


class SummaryRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A summary that is in effect: where it stands, and for what."""

    seq: int
    first: int
    last: int
    messages: int
    tokens: int
    frame: str | None = None
    """The frame whose conversation it is of; None for the one outside of frames."""
    replaced: int = 0
    """Tokens of the messages that it stands for."""
    kept: tuple[int, ...] = ()
    """The seqs of the messages between its ends that stay in view, behind it, in order."""


class ViewState(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a conversation is shown, beside its summaries."""

    boundary: int = 0
    """The seq of the last event that changed it."""
    reduced: tuple[Reduction, ...] = ()
    """The pieces of messages in view that are not shown as they were recorded, in order."""
    planned: int = 0
    """The seq up to which the next two figures tell."""
    calls: int = 0
    """Model calls."""
    grown: int = 0
    """Tokens that were ever added."""
    redacted: tuple[Redacted, ...] = ()
    """The items in view that the guard shows otherwise than they were recorded, in order, as it was last settled."""
    settled_us: int = 0
    """The time of the last event that changed what was shown before it."""
    results: int = 0
    """Tool results, up to the same seq as the calls."""
    repeats: int = 0
    """Of these, how many answered a call that had been made before, or read a stored body again."""
    left_out: tuple[tuple[str, int], ...] = ()
    """The handles that a compaction collapsed, with its event, until they come back."""


_AS_RECORDED = ViewState()
_AT_FIRST = Standing()


class Report(msgspec.Struct, frozen=True):
    """What a provider reported with a reply."""

    reply: int
    """The seq of the reply."""
    prompt: int
    """Tokens of the whole prompt."""


class Calibration(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the provider's figures taught about the counter's, for the model that answered last."""

    model: str = ""
    counter: str = ""
    """The counter whose figures these are."""
    report: Report | None = None
    """The newest report, until the pack that it is about is recorded."""
    prompt: int = 0
    """Tokens of the last prompt, in the provider's count; 0 when the next one cannot be compared with it."""
    estimate: int = 0
    """What the counter said of the pack that was that prompt."""
    messages: int = 0
    """How many messages that was."""
    factor: int = 1_000
    """The provider's tokens for a thousand of the counter's."""
    overhead: int = 4
    """The provider's tokens for a message, whatever it says."""
    factor_lessons: int = 0
    overhead_lessons: int = 0


class OpenProposal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change that was proposed, and waits for someone's word."""

    id: str
    ledger: tuple[str, ...]
    """The key of the stream of the ledger that it is about."""
    proposal: Proposal
    message: int = 0
    """The seq of the message that it was seen in."""


class LedgerState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a ledger is known by. Its facts are in rows: what is decided on them is looked up there."""

    version: int = 0
    facts: int = 0
    """How many were ever asserted."""
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
    """The latest time of any event: what idling counts from, also when the clock was set back."""
    messages: int = 0
    tokens: int = 0
    turns: int = 0
    """Messages of the user."""
    late: int = 0
    """Results that came after their call was closed, and what else is kept as evidence."""
    close_reason: str = ""
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    idle_timeout_us: int = 0
    open_calls: tuple[OpenCall, ...] = ()
    pinned: tuple[int, ...] = ()
    """The seqs of the system messages."""
    start: int = 0
    """What came up to here is out of view since the last reset."""
    live: int = 0
    """Messages since then outside of frames, those of the system not counted."""
    live_tokens: int = 0
    spoken: Spoken = Spoken()
    """Where these stand."""
    summaries: tuple[SummaryRef, ...] = ()
    changed: int = 0
    """The seq of the last event that changed what was there before it: a reset, an erasure or a summary."""
    views: dict[str, ViewState] = msgspec.field(default_factory=dict)
    """How conversations are shown that are not shown as they were recorded, by their frames; the session's own under the
    empty name."""
    waiting: int = 0
    """Messages and evidence that long-term memory was not offered yet."""
    offered: int = 0
    """The seq up to which it was."""
    residue: int = 0
    """Events whose content has not been erased."""
    usage: Usage = Usage()
    calibration: Calibration = Calibration()
    frames: dict[str, FrameState] = msgspec.field(default_factory=dict)
    """Those that live, by id."""
    asks: bool = False
    """The last message outside of frames is a question of the assistant."""
    errors: tuple[str, ...] = ()
    """Tool calls outside of frames that failed since the assistant spoke last."""
    resting: int = 0
    """How many of the frames are suspended."""
    bulk: int = 0
    """Bytes of the longer texts in here: metadata, goals and reasons, the working set and what is around."""
    identity: Identity = Identity()
    ledgers: tuple[tuple[str, ...], ...] = ()
    """The ledgers that it reads after its own, by the keys of their streams, in the order in which they have a say."""
    working: dict[str, WorkingItem] = msgspec.field(default_factory=dict)
    environment: dict[str, Surrounding] = msgspec.field(default_factory=dict)
    context_hash: str = ""
    """Of the last recorded pack outside of frames."""
    proposals: tuple[OpenProposal, ...] = ()
    """What a detector proposed and nobody has decided on yet."""
    standings: dict[str, Standing] = msgspec.field(default_factory=dict)
    """How conversations stand in which something was done, by their frames; the session's own under the empty name."""
    popped: int = 0
    """The seq of the newest event that popped a frame, also if that was erased since."""

    def view(self, frame: str | None) -> ViewState:
        """How the conversation of a frame is shown, or that outside of frames."""
        return self.views.get(frame or "", _AS_RECORDED)

    def collapsed(self, frame: FrameState) -> dict[str, int]:
        """The handles of a frame that a compaction collapsed, with its event."""
        return dict(self.view(frame.id).left_out if frame.live else frame.left_out)

    def standing(self, frame: str | None) -> Standing:
        """How the conversation of a frame stands, or that outside of frames."""
        return self.standings.get(frame or "", _AT_FIRST)

    def summaries_of(self, frame: str | None) -> tuple[SummaryRef, ...]:
        """Those in effect in one conversation, in order."""
        return tuple(each for each in self.summaries if each.frame == frame)

    @property
    def weight(self) -> int:
        """About how many bytes it takes in memory."""
        parts = len(self.frames) * 2_048 + (len(self.open_calls) + len(self.summaries)) * 512 + len(self.pinned) * 32
        parts += (len(self.working) + len(self.environment)) * 256 + len(self.proposals) * 2_048
        parts += sum(256 + len(each.reduced) * 512 + len(each.redacted) * 256 for each in self.views.values())
        parts += sum(len(each.left_out) for each in self.views.values()) * 64
        parts += len(self.standings) * 512 + sum(len(each.kept) for each in self.summaries) * 32
        return 2_048 + 4 * self.bulk + parts
