"""Units: what views, windows and compaction move. A group of calls with its results, or a single message.

Law: grouping messages and laying the groups end to end loses none and repeats none; a unit is cut nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.messages import group_of
from holdfast.model.messages import Item, Message, Summary, Unit
from holdfast.model.state import SessionState


def group_seq(message: Message) -> int:
    """The seq of the first message of the unit that this one belongs to."""
    for result in message.tool_results:
        return group_of(result.tool_call_id) or message.seq
    return message.seq


def grouped(entries: Iterable[Message | Summary], state: SessionState) -> list[Item]:
    """Messages and summaries, in order, as items in the order of their first messages. A result whose call is not among
    them is left out, and so are erased messages and skipped replies."""
    waiting = {group_of(call.id) for call in state.open_calls}
    groups: dict[int, list[Message] | Summary] = {}
    for entry in entries:
        if isinstance(entry, Summary):
            groups[-entry.first] = entry  # what it leaves in view may have the same seq
        elif not entry.erased and not entry.skipped:
            seq = group_seq(entry)
            group = groups.get(seq)
            if seq == entry.seq:
                groups[seq] = [entry]
            elif isinstance(group, list):
                group.append(entry)
    return [
        group if isinstance(group, Summary) else Unit(tuple(group), open=seq in waiting)
        for seq, group in groups.items()
    ]


def kept_seqs(entries: Iterable[object]) -> frozenset[int]:
    """The seqs of the messages among these that no summary stands for: those of the units that are Critical."""
    messages = [each for each in entries if isinstance(each, Message)]
    critical = {group_seq(each) for each in messages if each.priority == "critical"}
    return frozenset(each.seq for each in messages if group_seq(each) in critical)


def whole(messages: Iterable[Message]) -> bool:
    """Whether every call among these messages has its result among them, and the reverse."""
    calls: set[str] = set()
    results: set[str] = set()
    for message in messages:
        calls |= {call.id for call in message.tool_calls}
        results |= {result.tool_call_id for result in message.tool_results}
    return calls == results


def fitting(items: Sequence[Item], sizes: Sequence[int], budget: int) -> int:
    """How many of the newest of these items fit, each whole. Where a turn begins is the better cut, if it keeps at least
    half of what would fit."""
    used = count = 0
    for size in reversed(sizes):
        if used + size > budget:
            break
        used += size
        count += 1
    if count == len(items):
        return count
    left = used
    for dropped, (item, size) in enumerate(zip(items[len(items) - count :], sizes[len(items) - count :], strict=True)):
        if isinstance(item, Summary) or item.starts_turn:
            return count - dropped
        left -= size
        if left * 2 < used:
            break
    return count
