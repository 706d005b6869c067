"""The line that stands for messages that left the view without a summary."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.shown import STILL_READABLE
from holdfast.model.messages import Item, Summary

OUTLINE_TOKENS = 40
"""What the line takes, at most, beside what earlier summaries said."""
_LEFT = " earlier messages are out of view"


def is_outline(summary: Summary) -> bool:
    """Whether a line stands for messages that left without a summary."""
    last = summary.text.rpartition("\n")[2]
    return summary.made_by == "rule" and last.startswith("(") and _LEFT in last


def outline(items: Sequence[Item]) -> str:
    """What stands for items that leave without a summary: how many there were, and what earlier summaries said."""
    count = sum(item.count for item in items)
    earlier = [line for item in items if isinstance(item, Summary) for line in item.text.splitlines()]
    kept = [line for line in earlier if _LEFT not in line]
    return "\n".join([*kept, f"({count:,}{_LEFT}{STILL_READABLE})"])
