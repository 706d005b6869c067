"""The line that stands for messages that left the view without a summary."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.shown import READS_RESULTS
from holdfast.model.handles import piece_id
from holdfast.model.messages import Item, Summary, Unit

OUTLINE_TOKENS = 60
"""What the line takes, at most, beside what earlier summaries said."""
_LEFT = " earlier messages are out of view"
_HANDLES = 4
"""The handles that the line names: those of the newest results."""


def is_outline(summary: Summary) -> bool:
    """Whether a line stands for messages that left without a summary."""
    last = summary.text.rpartition("\n")[2]
    return summary.made_by == "rule" and last.startswith("(") and _LEFT in last


def outline(items: Sequence[Item]) -> str:
    """What stands for items that leave without a summary: how many there were, what earlier summaries said, and where the
    newest results can be read."""
    count = sum(item.count for item in items)
    earlier = [line for item in items if isinstance(item, Summary) for line in item.text.splitlines()]
    kept = [line for line in earlier if _LEFT not in line]
    handles = [
        piece_id(message.seq, number)
        for item in items
        for message in (item.messages if isinstance(item, Unit) else ())
        for number in range(len(message.tool_results))
    ]
    named = ", ".join([*(["…"] if len(handles) > _HANDLES else []), *handles[-_HANDLES:]])
    return "\n".join([*kept, f"({count:,}{_LEFT}{READS_RESULTS + named if named else ''})"])
