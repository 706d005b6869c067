"""The line in place of messages that left the view without a summary. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model.history.handles import piece_id
from holdfast.model.history.plans import READS_RESULTS
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.sessions.messages import MessageGroup

OUTLINE_TOKENS = 60
"""The most tokens of an outline, beside the texts of earlier summaries."""
_MAX_HANDLES = 4
"""The handles that an outline names: those of the newest results."""
_OUT_OF_VIEW = " earlier messages are out of view"


def is_outline(summary: Summary) -> bool:
    """Whether this is an outline: a line for messages that left the view without a summary."""
    last = summary.text.rpartition("\n")[2]
    return summary.made_by == "rule" and last.startswith("(") and _OUT_OF_VIEW in last


def build_outline(items: Sequence[HistoryItem]) -> str:
    """The text for items that leave without a summary: how many there were, what earlier summaries said, and the
    handles of the newest results."""
    count = sum(item.count for item in items)
    earlier = [line for item in items if isinstance(item, Summary) for line in item.text.splitlines()]
    lines = [line for line in earlier if _OUT_OF_VIEW not in line]
    handles = [
        piece_id(message.seq, number)
        for item in items
        for message in (item.messages if isinstance(item, MessageGroup) else ())
        for number in range(len(message.tool_results))
    ]
    named = ", ".join([*(["…"] if len(handles) > _MAX_HANDLES else []), *handles[-_MAX_HANDLES:]])
    return "\n".join([*lines, f"({count:,}{_OUT_OF_VIEW}{READS_RESULTS + named if named else ''})"])
