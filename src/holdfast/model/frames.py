"""Frames: nested units of work, their budgets, and what keeps them waiting."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json, Part, Usage
from holdfast.model.handles import Handle, ResultRef
from holdfast.model.names import Scope, number_in

Ending: TypeAlias = Literal["completed", "failed", "cancelled"]
FrameStatus: TypeAlias = Literal["active", "waiting", "suspended", "completed", "failed", "cancelled"]
"""Active, waiting for children, suspended; or ended, for good."""

ENDINGS: tuple[Ending, ...] = ("completed", "failed", "cancelled")
LIVE: tuple[FrameStatus, ...] = ("active", "waiting", "suspended")


def frame_id(seq: int) -> str:
    """The id of a frame: short, since models read it. The seq of the event that pushed it makes it unique."""
    return f"f{seq}"


def frame_seq(frame: str | None) -> int:
    """The seq in the id of a frame; 0 if it is no such id."""
    return number_in("f", frame)


def reservation_id(seq: int) -> str:
    return f"r{seq}"


def reservation_seq(reservation: str) -> int:
    return number_in("r", reservation)


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What a token of each kind counts against a budget, in thousandths."""

    input: int = 1_000
    """A token of the prompt that is neither read from the provider's cache nor written to it."""
    cache_read: int = 1_000
    cache_write: int = 1_000
    output: int = 1_000

    def spend(self, usage: Usage) -> int:
        """The tokens that a model call takes from a budget."""
        cached = usage.cache_read_tokens * self.cache_read + usage.cache_write_tokens * self.cache_write
        plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
        return -(-(plain * self.input + cached + usage.output_tokens * self.output) // 1_000)


class Budget(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens that a frame may spend on model calls over its whole life, its children's included."""

    total: int = 0
    used: int = 0
    """Spent by it, and by its children that have ended."""
    reserved: int = 0
    delegated: int = 0
    """Granted to children that have not ended."""

    @property
    def available(self) -> int:
        return max(0, self.total - self.used - self.reserved - self.delegated)

    @property
    def overdrawn(self) -> bool:
        """More was used than there was: it has happened, so it is recorded; nothing more is granted."""
        return self.used + self.reserved + self.delegated > self.total


class Limits(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What bounds a frame beside its tokens. A child's are never wider than its parent's."""

    max_subframe_depth: int = 3
    max_tool_calls: int | None = None
    timeout_us: int | None = None


class Reservation(msgspec.Struct, frozen=True):
    """Tokens kept for a purpose until they are committed or cancelled, once."""

    id: str
    purpose: str
    amount: int


class Suspension(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a frame rests, and what wakes it."""

    reason: str
    by: str
    """The principal who suspended it."""
    at_us: int
    holder: str
    """The frame whose token wakes this one: itself, or an ancestor that was suspended with all below it."""
    digest: str = ""
    """The SHA-256 of its newest token; empty if another frame's token wakes it."""
    revoked: bool = False
    """That token is void."""
    expires_us: int | None = None
    resumable_by: tuple[str, ...] = ()
    remaining_us: int | None = None
    """What is left of its timeout, which pauses meanwhile; None without one."""


class Spoken(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where the messages of a conversation stand among the events of all: what lies between is not read for it."""

    last: int = 0
    """The seq of the newest."""
    gaps: tuple[tuple[int, int], ...] = ()
    """The longer stretches between them, from one seq to another, the newest last."""


class FrameState(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where a frame stands. `state()` of a frame has more: what is read from the log."""

    id: str
    parent: str | None = None
    root: str
    goal: str
    status: FrameStatus = "active"
    depth: int = 0
    budget: Budget = Budget()
    limits: Limits = Limits()
    usage: Usage = Usage()
    """Of its own model calls."""
    below: Usage = Usage()
    """Of all frames below it that have ended."""
    reservations: tuple[Reservation, ...] = ()
    children: int = 0
    """How many of them live."""
    tool_calls: int = 0
    """How often a tool was started in it."""
    messages: int = 0
    """Those of its own conversation, those of the system not counted."""
    spoken: Spoken = Spoken()
    """Where these stand."""
    handles: int = 0
    results: int = 0
    created_us: int
    completed_us: int | None = None
    """When it ended; None while it lives."""
    deadline_us: int | None = None
    """When it is out of time; None for never, or while it is suspended."""
    touched: int
    """The seq of the newest event in it."""
    inputs_at: int
    """The seq of the event with its inputs."""
    context_hash: str | None = None
    """Of the context that its last model call was given."""
    suspension: Suspension | None = None
    asks: bool = False
    """The last message in it is a question of the assistant."""
    errors: tuple[str, ...] = ()
    """Tool calls and children that failed since the assistant spoke last."""
    left_out: tuple[tuple[str, int], ...] = ()
    """The handles that were collapsed when it ended, with the event that did it; empty while it lives."""

    @property
    def live(self) -> bool:
        return self.completed_us is None


class Spend(msgspec.Struct, frozen=True):
    """What a frame and all below it have used so far, live or ended."""

    tokens: int
    """As budgets count them."""
    usage: Usage
    """As providers count them."""


class FrameRecord(FrameState, frozen=True, omit_defaults=True, kw_only=True):
    """A frame with all that the log has of it."""

    scope: Scope
    inputs: Json = None
    summary: str = ""
    """What was said of it when it ended."""
    result: tuple[Part, ...] = ()
    context_handles: tuple[Handle, ...] = ()
    """The newest ones, oldest first."""
    result_refs: tuple[ResultRef, ...] = ()
    """What its children brought: the newest ones, oldest first."""


PendingKind: TypeAlias = Literal[
    "waiting_for_subcall", "tool_in_progress", "tool_not_started", "waiting_for_user", "unhandled_error"
]


class Pending(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that was not done when everything stopped."""

    kind: PendingKind
    frame: str | None = None
    """None for what was done outside of any frame."""
    description: str
    call: str | None = None
    """The tool call; if it is in progress, its outcome is unknown: look before it is started again."""
    key: str | None = None
    """The idempotency key under which that call was started."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What a session was at when it was left, whatever ended the process."""

    frame_stack: tuple[FrameState, ...]
    """From the root to the current frame."""
    pending_work: tuple[Pending, ...]
    frames_recovered: int
    last_event_seq: int
    recovery_ms: int

    @property
    def current_frame(self) -> FrameState | None:
        return self.frame_stack[-1] if self.frame_stack else None

    @property
    def pending_work_items(self) -> int:
        """How many items of work are pending."""
        return len(self.pending_work)

    @property
    def unknown(self) -> tuple[Pending, ...]:
        """Tool calls that were started and have no result: whether they took effect, nobody knows."""
        return tuple(each for each in self.pending_work if each.kind == "tool_in_progress")


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that may run now: the log says so."""

    call: str
    name: str
    args: Json
    key: str
    """Pass it on to whatever the tool changes, so that it takes effect once however often it is tried."""
    attempt: int


class Suspended(msgspec.Struct, frozen=True, kw_only=True):
    """A suspended frame, as lists show it: never with its token."""

    scope: Scope
    frame: str
    reason: str
    by: str
    at_us: int
    expires_us: int | None
    resumable_by: tuple[str, ...]
    status: Literal["live", "expired", "revoked"]
    """Of its token."""


class Swept(msgspec.Struct, frozen=True):
    """What a sweep ended."""

    sessions: tuple[Scope, ...] = ()
    frames: tuple[tuple[Scope, str], ...] = ()
    facts: int = 0
    """How many facts had run out."""


class SuspensionToken(str):
    """What resumes a frame, once. Kept by whoever is to do that; the store has only its digest. As text it is whole, but it
    does not show itself where objects are shown, such as in a traceback."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "SuspensionToken('…')"
