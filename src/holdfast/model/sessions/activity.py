"""Activity: the work of a session as spans of time, for a waterfall. Data only; times are in microseconds."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

ActivityKind: TypeAlias = Literal["turn", "model", "tool", "frame", "suspension", "boundary", "recovery"]
ActivityStatus: TypeAlias = Literal[
    "done", "running", "not_started", "unknown", "failed", "suspended", "waiting", "cancelled"
]
"""Ended as it should · in progress · called for and not started · started, without a known outcome · ended with an error ·
suspended until it is resumed · waiting for a reply or for other frames · ended without a result."""


class ActivityBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The token budget of a frame."""

    total: int
    used: int
    reserved: int
    delegated: int
    overdrawn: bool


class Activity(msgspec.Struct, frozen=True, kw_only=True):
    """One span of work."""

    id: str
    """That of the model call, tool call or frame; of others, a letter and the seq of their first event: `t5` for a turn."""
    kind: ActivityKind
    parent: str = ""
    """The id of the span around it; empty for none, or if that began long before."""
    label: str = ""
    start_us: int
    end_us: int | None = None
    """None while it is open."""
    seq: int
    """The seq of the event that began it. The next page is before the last one."""
    end_seq: int = 0
    """The seq of the event that ended it; 0 while it is open, or if no single event did."""
    frame: str | None = None
    status: ActivityStatus = "done"
    key: str = ""
    """The idempotency key of a started tool call."""
    owner: str = ""
    """Who has, or had, the turn."""
    tokens: int = 0
    """Of the model calls in it, as the provider reported them; of a tool, those of its result."""
    budget: ActivityBudget | None = None
    """Of a frame."""
    resumable_by: tuple[str, ...] = ()
    expires_us: int | None = None
    """Of a suspension: when its token expires."""
    note: str = ""
