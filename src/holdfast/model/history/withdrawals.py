"""Withdrawals and restorations, as their callers get them."""

from __future__ import annotations

import msgspec

from holdfast.model.history.ranges import LedgerFacts
from holdfast.model.names import Scope
from holdfast.model.sessions.messages import Message


class Withdrawal(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were taken out of a conversation. Pass it to restore() to undo that."""

    scope: Scope
    frame: str | None = None
    seq: int
    """The seq of its event."""
    messages: tuple[Message, ...]
    """The withdrawn messages, oldest first."""
    grown: bool = False
    """More was withdrawn than was asked for, so that no call is without its results."""
    facts: tuple[LedgerFacts, ...] = ()
    """The facts that only these messages state, as far as the session may read them. By policy they need a review now,
    or are retracted."""
    reason: str = ""


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that are in a conversation again."""

    scope: Scope
    frame: str | None = None
    seq: int
    """The seq of its event."""
    withdrawal: int
    """The seq of the withdrawal that it undid."""
    messages: tuple[Message, ...]
    """The messages that are in view again, oldest first."""
    facts: tuple[LedgerFacts, ...] = ()
    """The facts that are as they were before the withdrawal. Facts that were changed since stay as they are."""
    reason: str = ""
