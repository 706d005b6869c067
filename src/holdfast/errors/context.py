"""Errors about what a model is shown: what must be in it, and what may change it."""

from __future__ import annotations

from holdfast.errors.base import InvalidInput


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
