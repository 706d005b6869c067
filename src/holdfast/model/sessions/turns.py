"""Turns: leases on conversations, so that one owner at a time works on one."""

from __future__ import annotations

import msgspec

from holdfast.model.names import Scope


class TurnWaiter(msgspec.Struct, frozen=True):
    """An owner who waits for a turn."""

    ticket: int
    """The seq of the event that put it in the queue."""
    owner: str
    until_us: int
    """It waits no longer than this."""


class Lease(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lease on one conversation, and those who wait for it."""

    number: int = 0
    """The seq of the event that took the turn: it only rises."""
    owner: str = ""
    """Empty if nobody has the turn."""
    until_us: int = 0
    """When the turn ends if it is not renewed."""
    free_us: int = 0
    """When the last turn was given back."""
    waiters: tuple[TurnWaiter, ...] = ()
    """In the order in which they came."""

    def is_held(self, now_us: int) -> bool:
        return bool(self.owner) and now_us < self.until_us

    @property
    def free_since_us(self) -> int:
        """The time from which the next owner may take the turn."""
        return self.until_us if self.owner else self.free_us


NO_LEASE = Lease()


class TurnFence(msgspec.Struct, frozen=True):
    """The turn under which commands are executed: they are refused once it is over."""

    scope: Scope
    frame: str | None
    number: int
    lease_us: int
