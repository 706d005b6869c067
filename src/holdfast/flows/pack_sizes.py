"""What the parts of a pack take, what happened to its conversation, and by which strategy it is to be shortened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from holdfast.context import levels
from holdfast.core.display import stored_bodies
from holdfast.core.previews import is_text
from holdfast.core.shown import Shown
from holdfast.core.wording import Memory
from holdfast.errors import CriticalOverflow
from holdfast.flows.place import Place
from holdfast.flows.strategies import Followed
from holdfast.model import limits
from holdfast.model.handles import piece_id
from holdfast.model.messages import SUMMARY_LABEL, Item, Summary, Unit
from holdfast.model.names import check_size
from holdfast.model.pack import Request
from holdfast.model.plan import Level, SummarizeOldest, TruncateAt

_COUNTED: Memory[int] = Memory(8 << 20)
"""Tokens of texts, by the counter's name: most of a pack was in the one before."""
_ENTRY_BYTES = 128
_COUNTED_CHARS = 4_096
"""What is longer is counted each time."""


def counted(place: Place, text: str) -> int:
    """Tokens of a text that is likely to come again."""
    counter = place.context.counter
    if len(text) > _COUNTED_CHARS:
        return counter.count(text)
    name = f"{counter.name} {text}"
    known = _COUNTED.get(name)
    if known is None:
        known = counter.count(text)
        _COUNTED.put(name, known, _ENTRY_BYTES)
    return known


def asked_strategy(request: Request, strategy: Followed | None, *, fits: bool) -> Followed | None:
    """What the view is to be shortened by now: a strategy that keeps so many messages, whatever there is room for; another
    one if all does not fit; and at the least what the least compaction says."""
    if strategy is not None and (not fits or isinstance(strategy.asked, SummarizeOldest | TruncateAt)):
        return strategy
    if levels.LEVELS.index(request.min_compaction) >= levels.LEVELS.index("moderate"):
        return Followed(SummarizeOldest(levels.KEEP_RECENT))
    return None


def tokens_of(place: Place, items: Sequence[Item], measure: Callable[[int, int], int]) -> int:
    tokens = sum(each.tokens for each in items) + label_tokens(place, items)
    return measure(tokens, sum(each.blocks for each in items))


def label_tokens(place: Place, items: Sequence[Item]) -> int:
    """Of the words that say that a summary is one."""
    return counted(place, SUMMARY_LABEL) * sum(isinstance(each, Summary) for each in items)


def level_of(items: Sequence[Item], partly: Mapping[int, Sequence[Shown]]) -> Level:
    """What happened to the conversation: `moderate` if messages of it are summarised, or shown in part, by an excerpt since
    a boundary or by the preview that the budget has room for. What is no text is never shown whole, and is no loss."""
    for item in items:
        if isinstance(item, Summary):
            if item.seq != item.first:
                return "moderate"
        elif any(each.text for message in item.messages for each in partly.get(message.seq, ())):
            return "moderate"
    return "none"


def check_critical(items: Sequence[Item], budget: int) -> None:
    """Critical text that is larger than any body that is shown whole makes a pack impossible."""
    for unit, message, number, body in stored_bodies(items):
        if unit.priority == "critical" and is_text(body.ref) and body.ref.size > limits.WHOLE_BYTES:
            if body.whole_tokens > budget:
                raise CriticalOverflow(needed=body.whole_tokens, budget=budget)
            check_size(piece_id(message.seq, number), body.ref.size, "bytes", "WHOLE_BYTES", "It is Critical.")


def critical_tokens(items: Sequence[Item], measure: Callable[[int, int], int]) -> int:
    critical = [item for item in items if isinstance(item, Unit) and item.priority == "critical"]
    return measure(sum(item.tokens for item in critical), sum(item.blocks for item in critical))
