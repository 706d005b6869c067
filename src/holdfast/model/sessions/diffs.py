"""The difference between two sessions that have a common origin."""

from __future__ import annotations

import msgspec

from holdfast.model.facts.fact import Fact, FactScope
from holdfast.model.sessions.messages import Message


class FactDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A key for which the own ledgers of two sessions have different facts."""

    key: str
    scope: FactScope = "global"
    scope_id: str = ""
    ours: Fact | None = None
    """The current fact in the first session; None for none."""
    theirs: Fact | None = None
    changed_here: bool = False
    """Whether the first session changed it since the two parted."""
    changed_there: bool = False


class SessionDiff(msgspec.Struct, frozen=True, kw_only=True):
    """How two sessions differ."""

    shared: int
    """The seq of the last event that both have; 0 if they have no common origin."""
    ours: tuple[Message, ...] = ()
    """The messages that only the first session has, oldest first, without withdrawn ones."""
    theirs: tuple[Message, ...] = ()
    facts: tuple[FactDifference, ...] = ()
    """By key."""
    is_complete: bool = True
    """Whether `ours` and `theirs` have all messages, and not only the first DIFF_MESSAGES of each."""
