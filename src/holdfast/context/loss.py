"""The price of what is forgotten: what reading it again costs, by how likely it is asked for again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast import codec
from holdfast.model.messages import Item, Unit
from holdfast.model.plan import Figures, Prices
from holdfast.model.state import ViewState

RATE = (1, 10)
"""What is assumed before anything is known: so many of so many results are asked for again."""
READ_TOOL = "read_handle"
"""The tool that reads a stored body again."""


class Recalls(NamedTuple):
    """How often a conversation asked for something again."""

    results: int
    """Tool calls."""
    repeats: int
    """Of these, how many had been made before, or read a stored body."""


def count_recalls(items: Sequence[Item], view: ViewState) -> Recalls:
    """Those that the last boundary counted, and those since. A call is known again by its name and arguments while the one
    before it is in view."""
    results, repeats = view.results, view.repeats
    known: set[tuple[str, bytes]] = set()
    for item in items:
        for message in item.messages if isinstance(item, Unit) else ():
            for call in message.tool_calls:
                signature = call.name, codec.encode(call.args)
                if message.seq > view.planned:
                    results += 1
                    repeats += call.name == READ_TOOL or signature in known
                known.add(signature)
    return Recalls(results, repeats)


def price_of_loss(figures: Figures, pieces: int, recalls: Recalls, prices: Prices) -> int:
    """Each piece that leaves may be asked for again, and is then written anew, in one more call."""
    saved = max(0, figures.before - figures.after)
    again = prices.cache_write * saved + prices.cache_read * figures.after * pieces
    return again * (recalls.repeats + RATE[0]) // (recalls.results + RATE[1])
