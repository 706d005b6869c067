"""Compaction strategies: what a caller asked for, by name, as data or as a function, and the function that it means."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.context import levels
from holdfast.errors import InvalidContent, InvalidName, StrategyUnknown, shown
from holdfast.flows.place import Context
from holdfast.model import limits
from holdfast.model.names import checked_name, checked_whole
from holdfast.model.plan import CustomStrategy, PriorityBased, Strategy, SummarizeOldest, TruncateAt

BUILT_IN: dict[str, Callable[[], Strategy]] = {
    "priority_based": PriorityBased,
    "summarize_oldest": SummarizeOldest,
}
_COUNTED = "truncate_at"


class Followed(NamedTuple):
    """A strategy as it is stored, and the function if it is one of the program's own."""

    asked: Strategy
    custom: levels.Custom | None = None

    @property
    def of_levels(self) -> levels.Strategy:
        """As `levels.compact` takes it."""
        if isinstance(self.asked, CustomStrategy):
            assert self.custom is not None, "it was looked up by its name"
            return self.custom
        return self.asked


def find_strategy(context: Context, strategy: object) -> Followed | None:
    """The strategy that a caller names, passes as data, or passes as a function; None for none. StrategyUnknown for a name
    that nothing is registered under."""
    if strategy is None:
        return None
    if isinstance(strategy, CustomStrategy):
        strategy = strategy.name
    if type(strategy) is str:
        return _named(context, strategy)
    match strategy:
        case SummarizeOldest(keep_recent=figure) | TruncateAt(message_count=figure):
            checked_whole("the messages to keep", figure, 0, limits.LIVE_MESSAGES)
            return Followed(strategy)
        case PriorityBased():
            return Followed(strategy)
    if callable(strategy):
        registered = (name for name, known in context.strategies.items() if known is strategy)
        return Followed(CustomStrategy(next(registered, None) or _name_of(strategy)), strategy)
    raise InvalidContent(
        reason=f"a strategy is PriorityBased(), SummarizeOldest(…), TruncateAt(…), a name or a function,"
        f" not {shown(strategy)}"
    )


def _name_of(strategy: object) -> str:
    """What a function that nobody registered is called in a manifest."""
    try:
        return checked_name("the name of a strategy", getattr(strategy, "__name__", type(strategy).__name__))
    except InvalidName:
        return "unnamed"


def _named(context: Context, name: str) -> Followed:
    if name in context.strategies:
        return Followed(CustomStrategy(name), context.strategies[name])
    if name in BUILT_IN:
        return Followed(BUILT_IN[name]())
    if name == _COUNTED:
        raise InvalidContent(reason=f"{_COUNTED} needs a number of messages: pass holdfast.TruncateAt(message_count)")
    known = ", ".join(sorted({*BUILT_IN, *context.strategies}))
    raise StrategyUnknown(strategy=name, known=known)


def checked_strategies(strategies: object) -> dict[str, levels.Custom]:
    """The strategies that a store is opened with."""
    if strategies is None:
        return {}
    if type(strategies) is not dict:
        raise InvalidContent(reason=f"{shown(strategies)} are no strategies: pass a dict from names to functions")
    for name, each in strategies.items():
        if checked_name("the name of a strategy", name) in (*BUILT_IN, _COUNTED):
            raise InvalidContent(reason=f"{shown(name)} is the name of a strategy that is built in: choose another")
        if not callable(each):
            raise InvalidContent(reason=f"the strategy {shown(name)} is {shown(each)}, nothing to call")
    return dict(strategies)
