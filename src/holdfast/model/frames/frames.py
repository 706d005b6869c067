"""Frames: nested units of work, with budgets, limits and suspensions."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json, Part, Usage
from holdfast.model.history.handles import Handle, ResultRef
from holdfast.model.names import Scope, parse_id_number

Ending: TypeAlias = Literal["completed", "failed", "cancelled"]
FrameStatus: TypeAlias = Literal["active", "waiting", "suspended", "completed", "failed", "cancelled"]
"""Active, waiting for children or suspended; or ended."""
ENDINGS: tuple[Ending, ...] = ("completed", "failed", "cancelled")
LIVE_STATUSES: tuple[FrameStatus, ...] = ("active", "waiting", "suspended")


def frame_id(seq: int) -> str:
    """The id of a frame, with the seq of the event that pushed it: short, since models read it."""
    return f"f{seq}"


def frame_seq(frame: str | None) -> int:
    """The seq in the id of a frame; 0 if it is not such an id."""
    return parse_id_number("f", frame)


def reservation_id(seq: int) -> str:
    return f"r{seq}"


def reservation_seq(reservation: str) -> int:
    return parse_id_number("r", reservation)


class TokenWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of a token of each kind in a budget, in thousandths."""

    input: int = 1_000
    """A token of the prompt that is neither read from the provider's cache nor written to it."""
    cache_read: int = 1_000
    cache_write: int = 1_000
    output: int = 1_000

    def count_spend(self, usage: Usage) -> int:
        """The tokens that a model call takes from a budget."""
        cached = usage.cache_read_tokens * self.cache_read + usage.cache_write_tokens * self.cache_write
        plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
        return -(-(plain * self.input + cached + usage.output_tokens * self.output) // 1_000)


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tokens that a frame may spend on model calls, including those of its children."""

    total: int = 0
    used: int = 0
    """Spent by the frame and by its ended children."""
    reserved: int = 0
    delegated: int = 0
    """Granted to live children."""

    @property
    def available(self) -> int:
        return max(0, self.total - self.used - self.reserved - self.delegated)

    @property
    def is_overdrawn(self) -> bool:
        """Whether more was used than the total. Usage is recorded all the same; nothing more is granted."""
        return self.used + self.reserved + self.delegated > self.total


class FrameLimits(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The limits of a frame beside its tokens, never wider than those of its parent."""

    max_subframe_depth: int = 3
    max_tool_calls: int | None = None
    timeout_us: int | None = None


class Reservation(msgspec.Struct, frozen=True):
    """Tokens reserved for a purpose until they are committed or cancelled."""

    id: str
    purpose: str
    amount: int


class Suspension(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a frame is suspended, and what resumes it."""

    reason: str
    by: str
    """The principal who suspended it."""
    at_us: int
    holder: str
    """The frame whose token resumes this one: itself, or an ancestor that was suspended with it."""
    digest: str = ""
    """The SHA-256 of its newest token; empty if the token of another frame resumes it."""
    revoked: bool = False
    """Whether that token is void."""
    expires_us: int | None = None
    resumable_by: tuple[str, ...] = ()
    remaining_us: int | None = None
    """The rest of its timeout, which is paused; None without one."""


class MessagePositions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The positions of the messages of a conversation in the stream: events between them are not read for it."""

    last: int = 0
    """The seq of the newest message."""
    gaps: tuple[tuple[int, int], ...] = ()
    """The longer ranges of seqs without messages, the newest last."""
    first: int = 0
    """The seq of the first message; 0 while there is none. System messages before it come first in every prompt."""


class FrameState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The live state of a frame. `frame.state()` returns more, from the log."""

    id: str
    parent: str | None = None
    root: str
    goal: str
    status: FrameStatus = "active"
    depth: int = 0
    budget: Budget = Budget()
    limits: FrameLimits = FrameLimits()
    usage: Usage = Usage()
    """The usage of its own model calls."""
    below: Usage = Usage()
    """The usage of all ended frames below it."""
    reservations: tuple[Reservation, ...] = ()
    children: int = 0
    """The number of live children."""
    tool_calls: int = 0
    """How many tool calls were started in it."""
    messages: int = 0
    """The messages of its own conversation, without system messages."""
    spoken: MessagePositions = MessagePositions()
    """The positions of these."""
    handles: int = 0
    results: int = 0
    created_us: int
    completed_us: int | None = None
    """When it ended; None while it is live."""
    deadline_us: int | None = None
    """When its time is over; None for never, or while it is suspended."""
    touched: int
    """The seq of the newest event in it."""
    inputs_at: int
    """The seq of the event with its inputs."""
    context_hash: str | None = None
    """The hash of the context of its last model call."""
    suspension: Suspension | None = None
    asks: bool = False
    """Whether its last message is a question of the assistant."""
    errors: tuple[str, ...] = ()
    """Tool calls and children that failed since the last reply."""
    left_out: tuple[tuple[str, int], ...] = ()
    """The handles that were collapsed when it ended, with the seq of that event; empty while it is live."""

    @property
    def is_live(self) -> bool:
        return self.completed_us is None


class FrameSpend(msgspec.Struct, frozen=True):
    """The usage of a frame and all below it, live or ended."""

    tokens: int
    """As budgets count them."""
    usage: Usage
    """As providers count them."""


class FrameRecord(FrameState, frozen=True, omit_defaults=True, kw_only=True):
    """A frame with its inputs, result and handles from the log."""

    scope: Scope
    inputs: Json = None
    summary: str = ""
    """The summary of its end."""
    result: tuple[Part, ...] = ()
    context_handles: tuple[Handle, ...] = ()
    """The newest handles, oldest first."""
    result_refs: tuple[ResultRef, ...] = ()
    """The newest results of its children, oldest first."""


PendingWorkKind: TypeAlias = Literal[
    "waiting_for_subcall",
    "tool_in_progress",
    "tool_running",
    "tool_not_started",
    "waiting_for_user",
    "unhandled_error",
]


class PendingWork(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An item of work that was pending when the process stopped."""

    kind: PendingWorkKind
    frame: str | None = None
    """None for work outside of frames."""
    description: str
    call: str | None = None
    """The tool call. If it is in progress, its outcome is unknown: check its effects before a new start. If it is running,
    the owner of a turn that is in force runs it."""
    key: str | None = None
    """The idempotency key that the call was started under."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the work when the process of a session stopped."""

    frame_stack: tuple[FrameState, ...]
    """From the root to the current frame."""
    pending_work: tuple[PendingWork, ...]
    frames_recovered: int
    last_event_seq: int
    recovery_ms: int

    @property
    def current_frame(self) -> FrameState | None:
        return self.frame_stack[-1] if self.frame_stack else None

    @property
    def pending_work_items(self) -> int:
        """The number of pending items."""
        return len(self.pending_work)

    @property
    def unknown_outcomes(self) -> tuple[PendingWork, ...]:
        """Tool calls that were started and have no result: they may have taken effect."""
        return tuple(each for each in self.pending_work if each.kind == "tool_in_progress")


class StartedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that may run now: its start is stored."""

    call: str
    name: str
    args: Json
    key: str
    """Pass it to the system that the tool changes, so that several attempts take effect once."""
    attempt: int


class SuspendedFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A suspended frame in a list, without its token."""

    scope: Scope
    frame: str
    reason: str
    by: str
    at_us: int
    expires_us: int | None
    resumable_by: tuple[str, ...]
    status: Literal["live", "expired", "revoked"]
    """The status of its token."""


class SweepResult(msgspec.Struct, frozen=True):
    """The sessions, frames and facts that a sweep ended."""

    sessions: tuple[Scope, ...] = ()
    frames: tuple[tuple[Scope, str], ...] = ()
    facts: int = 0
    """The number of expired facts."""


class SuspensionToken(str):
    """The secret that resumes a frame, once. The store has only its digest. It is a str; its repr, as in a traceback, does
    not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SuspensionToken('…')"
