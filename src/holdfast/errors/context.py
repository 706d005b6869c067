"""Errors about what a model is shown: what must be in it, and what may change it."""

from __future__ import annotations

from holdfast.errors.base import Conflict, InvalidInput, NotFound


class CriticalOverflow(InvalidInput):
    """What is Critical has {needed} tokens, and the budget is {budget}; Critical is never dropped. Allow at least that
    many, or give some of it a lower priority."""

    needed: int
    budget: int


class StrategyRefused(InvalidInput):
    """The compaction strategy {strategy!r} cannot be followed: {reason}. Keep what is Critical as it is, and return what is
    left of the rest in the order in which it came."""

    strategy: str
    reason: str


class StrategyUnknown(InvalidInput):
    """There is no compaction strategy {strategy!r} here. Known are {known}. Pass one of these, or the strategy itself; or
    register it by that name with open(strategies=…)."""

    strategy: str
    known: str


class BudgetTooSmall(InvalidInput):
    """A pack of {budget} tokens is too small to be of use. Allow at least {least}."""

    budget: int
    least: int


class PackNotFound(NotFound):
    """There is no pack {pack!r} in the session {session!r}. Pass the id of one that was recorded: see packs()."""

    session: str
    pack: str


class PackChanged(Conflict):
    """The pack {pack!r} cannot be had as it was: {reason}. Ask for a new one with pack(); what is left of the old one is
    in the log."""

    pack: str
    reason: str
