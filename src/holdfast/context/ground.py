"""What plans are made on, with, and from: data only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from holdfast.model.content import Part
from holdfast.model.handles import Handle
from holdfast.model.messages import Item
from holdfast.model.names import Scope
from holdfast.model.plan import Figures, Op, Prices, Reduction
from holdfast.model.state import ViewState

Measure: TypeAlias = Callable[[int, int], int]
"""What the provider will count for so many of our tokens in so many messages."""
Summarize: TypeAlias = Callable[[Sequence[Item], int], str]
"""A text of at most so many tokens that stands for these items."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan is made on: the conversation with its stored bodies as this window shows them, how its pieces are
    reduced, and what is told from outside."""

    scope: Scope
    frame: str | None = None
    version: int
    system: int = 0
    """Tokens of the system messages and whatever else stands before the conversation."""
    items: tuple[Item, ...] = ()
    """As they were recorded, but for stored bodies: those are as this window shows them."""
    view: ViewState = ViewState()
    window: int
    """The tokens that all of it may have."""
    prices: Prices
    now_us: int = 0
    cold: bool = False
    """The cache is known to be lost: another model, other tools."""
    unread: bool = False
    """There is more behind these items than can be looked at: they must be folded, whatever it costs."""
    stored: Mapping[tuple[int, int], tuple[Part, ...]] = msgspec.field(default_factory=dict)
    """The recorded parts of pieces that hold stored bodies, by message and piece: the items have them as they are shown."""
    handles: tuple[Handle, ...] = ()
    """What packs may show of the frame's handles, if a strategy is asked about them."""
    flexible: bool = False
    """Whether some of `system` gives way if there is no room for it, as the tail of a pack does."""


class Tools(msgspec.Struct, frozen=True):
    """What a plan is made with."""

    measure: Measure
    count: Callable[[str], int]
    summarize: Summarize | None = None
    """None leaves the text of a summary for later: it counts with the most that it may take; see `filled`."""
    summarizing: Callable[[int, int], int] = lambda _tokens, _summary: 0
    """What a summary of so many tokens, made of so many, costs."""


class Choice(msgspec.Struct, frozen=True):
    """Something that could be done."""

    op: Op
    figures: Figures
    saved: int
    reduce: tuple[Reduction, ...] = ()
    fold: tuple[int, int] | None = None
