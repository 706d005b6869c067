"""Events of frames, their budgets and their suspension tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from holdfast.model.content import Json, Part, Usage
from holdfast.model.event import (
    EventBase,
    FrameTreeEvent,
    Identifier,
    OwnContent,
    Quotation,
    QuotedEvents,
    add_text,
    count_noun,
    format_json,
    quote_each,
)
from holdfast.model.frames.frames import Ending, FrameLimits, frame_id, reservation_id
from holdfast.model.history.handles import handle_id


class FramePushed(FrameTreeEvent, frozen=True, kw_only=True):
    """A frame begins. Its parent, if it has one, grants its budget."""

    name = "frame.pushed"
    goal: OwnContent[str]
    inputs: OwnContent[Json] = None
    parent: Identifier[str | None] = None
    budget: int
    limits: FrameLimits
    deadline_us: int | None = None

    def describe(self, seq: int) -> str:
        parent = f" under {self.parent}" if self.parent else ""
        return add_text(f"{frame_id(seq)}{parent}, {count_noun(self.budget, 'token')}", self.goal)


class FrameUpdated(FrameTreeEvent, frozen=True, kw_only=True):
    """A frame changed: fields that are not None are new."""

    name = "frame.updated"
    frame: Identifier[str]
    goal: OwnContent[str | None] = None
    inputs: OwnContent[Json] = None
    context_hash: OwnContent[str | None] = None

    def describe(self, seq: int) -> str:
        fields: dict[str, Json] = {"goal": self.goal, "inputs": self.inputs, "context_hash": self.context_hash}
        changes = (f"{name} {format_json(value)}" for name, value in fields.items() if value is not None)
        return add_text(self.frame, ", ".join(changes))


class FramePopped(FrameTreeEvent, frozen=True, kw_only=True):
    """A frame ends, and its grant is settled: the usage of its subtree counts for the parent, which gets back the rest.
    `cascade` names the frames below it that are cancelled with it, the deepest first."""

    name = "frame.popped"
    version = 2
    frame: Identifier[str]
    status: Ending
    summary: OwnContent[str] = ""
    result: OwnContent[tuple[Part, ...]] = ()
    cascade: Identifier[tuple[str, ...]] = ()
    used: int = 0

    def describe(self, seq: int) -> str:
        used = count_noun(self.used, "token")
        return add_text(f"{self.frame} {self.status}, {used} used{_count_cascade(self.cascade)}", self.summary)


class FrameSuspended(FrameTreeEvent, frozen=True, kw_only=True):
    """A frame is suspended until the token with this SHA-256 is presented. `cascade` names the frames below it that are
    suspended with it."""

    name = "frame.suspended"
    frame: Identifier[str]
    reason: OwnContent[str]
    digest: Identifier[str]
    by: Identifier[str]
    expires_us: int | None = None
    resumable_by: Identifier[tuple[str, ...]] = ()
    cascade: Identifier[tuple[str, ...]] = ()

    def describe(self, seq: int) -> str:
        return add_text(f"{self.frame}{_count_cascade(self.cascade)}, by {self.by}", self.reason)


class FrameResumed(FrameTreeEvent, frozen=True, kw_only=True):
    """A frame is resumed; its token is used up."""

    name = "frame.resumed"
    frame: Identifier[str]
    by: Identifier[str]

    def describe(self, seq: int) -> str:
        return f"{self.frame}, by {self.by}"


class TokenReissued(FrameTreeEvent, frozen=True, kw_only=True):
    """A suspended frame has a new token; the old one is void."""

    name = "token.reissued"
    frame: Identifier[str]
    digest: Identifier[str]
    by: Identifier[str]
    expires_us: int | None = None

    def describe(self, seq: int) -> str:
        return f"{self.frame}, by {self.by}"


class TokenRevoked(FrameTreeEvent, frozen=True, kw_only=True):
    """The token of a suspended frame is void; the frame stays suspended."""

    name = "token.revoked"
    frame: Identifier[str]
    reason: OwnContent[str]

    def describe(self, seq: int) -> str:
        return add_text(self.frame, self.reason)


class ResultAdded(FrameTreeEvent, frozen=True, kw_only=True):
    """The result of a child becomes a handle of its parent. The content is in event `at`, the child's `frame.popped`."""

    name = "frame.result_added"
    frame: Identifier[str]
    child: Identifier[str]
    status: Ending
    at: int
    title: Quotation[str] = ""
    tokens: int
    counter: Identifier[str]
    digest: Quotation[str]

    def quoted_events(self, seq: int) -> Iterator[QuotedEvents]:
        return quote_each([self.at])

    def describe(self, seq: int) -> str:
        return add_text(f"{self.frame} {handle_id(seq)}, {self.child} {self.status}", self.title)


class BudgetReserved(FrameTreeEvent, frozen=True, kw_only=True):
    """Tokens are reserved for a purpose. The seq of this event is in the id of the reservation."""

    name = "budget.reserved"
    frame: Identifier[str]
    purpose: OwnContent[str]
    amount: int

    def describe(self, seq: int) -> str:
        return add_text(f"{self.frame} {reservation_id(seq)}, {count_noun(self.amount, 'token')}", self.purpose)


class BudgetCommitted(FrameTreeEvent, frozen=True, kw_only=True):
    """A reservation ends with this many tokens used; `usage` is the report of the provider, if any."""

    name = "budget.committed"
    frame: Identifier[str]
    reservation: Identifier[str]
    tokens: int
    usage: Usage | None = None

    def describe(self, seq: int) -> str:
        return f"{self.frame} {self.reservation}, {count_noun(self.tokens, 'token')}"


class BudgetCancelled(FrameTreeEvent, frozen=True, kw_only=True):
    """A reservation ends, and nothing was used."""

    name = "budget.cancelled"
    frame: Identifier[str]
    reservation: Identifier[str]

    def describe(self, seq: int) -> str:
        return f"{self.frame} {self.reservation}"


class BudgetUsed(FrameTreeEvent, frozen=True, kw_only=True):
    """Tokens were used without a reservation."""

    name = "budget.used"
    frame: Identifier[str]
    tokens: int
    usage: Usage | None = None

    def describe(self, seq: int) -> str:
        return f"{self.frame}, {count_noun(self.tokens, 'token')}"


class BudgetGranted(FrameTreeEvent, frozen=True, kw_only=True):
    """A frame gets more tokens, from its parent if it has one."""

    name = "budget.granted"
    frame: Identifier[str]
    amount: int

    def describe(self, seq: int) -> str:
        return f"{self.frame}, {count_noun(self.amount, 'token')}"


class ActorResumed(EventBase, frozen=True, kw_only=True):
    """The session is resumed: its live frames, and the pending work."""

    name = "actor.resumed"
    frames: Identifier[tuple[str, ...]] = ()
    pending: Identifier[dict[str, int]] = msgspec.field(default_factory=dict)

    def describe(self, seq: int) -> str:
        pending = (f"{number:,} {kind}" for kind, number in self.pending.items())
        return ", ".join([count_noun(len(self.frames), "frame"), *pending])


def _count_cascade(cascade: tuple[str, ...]) -> str:
    return f", with {len(cascade):,} below it" if cascade else ""


FrameEvent: TypeAlias = (
    FramePushed
    | FrameUpdated
    | FramePopped
    | FrameSuspended
    | FrameResumed
    | TokenReissued
    | TokenRevoked
    | ResultAdded
    | BudgetReserved
    | BudgetCommitted
    | BudgetCancelled
    | BudgetUsed
    | BudgetGranted
    | ActorResumed
)
