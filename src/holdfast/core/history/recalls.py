"""What it costs that something left the view: how often a conversation reads something again, and at which price. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast import codec
from holdfast.model.history.plans import PlanFigures
from holdfast.model.history.prices import Prices
from holdfast.model.history.views import HistoryItem
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.state import ViewState

DEFAULT_RECALL_RATE = (1, 10)
"""The recalls before anything is known: so many of so many results are read again."""
READ_TOOL_NAME = "read_handle"
"""The tool that reads a stored body again."""


class Recalls(NamedTuple):
    """How often a conversation read something again."""

    results: int
    """Tool calls."""
    repeats: int
    """Of these, how many repeated an earlier call, or read a stored body."""


def count_recalls(items: Sequence[HistoryItem], view: ViewState) -> Recalls:
    """The recalls that the last boundary counted, and those since. A call is recognised by its name and arguments while
    the earlier one is in view."""
    results, repeats = view.results, view.repeats
    signatures: set[tuple[str, bytes]] = set()
    for item in items:
        for message in item.messages if isinstance(item, MessageGroup) else ():
            for call in message.tool_calls:
                signature = call.name, codec.encode(call.args)
                if message.seq > view.planned:
                    results += 1
                    repeats += call.name == READ_TOOL_NAME or signature in signatures
                signatures.add(signature)
    return Recalls(results, repeats)


def price_loss(figures: PlanFigures, pieces: int, recalls: Recalls, prices: Prices) -> int:
    """The price of a loss: each piece that leaves may be read again, and is then written again, in one more call."""
    saved = max(0, figures.before - figures.after)
    again = prices.cache_write * saved + prices.cache_read * figures.after * pieces
    return again * (recalls.repeats + DEFAULT_RECALL_RATE[0]) // (recalls.results + DEFAULT_RECALL_RATE[1])
