"""Stable ids for the items of a rendering: m<seq>_<number>, from the message and the piece of it that an item shows.

Laws: an id of Holdfast depends on the stored message alone, never on the view, the budget or the process. An id that came
with an item is kept. No two items have the same id: of several that brought the same one, the first in view keeps it.

The pieces of a message are numbered as handles are: its results, then the parts of its content; then its calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from holdfast.core.sessions.message_ids import is_own_id, item_id
from holdfast.model.content import ToolCall
from holdfast.model.sessions.messages import Message
from holdfast.render.entries import ForeignPart, OwnBlock, RenderEntry, ShownPart

REFERRING_ITEMS = frozenset({"item_reference", "local_shell_call_output"})
"""Items whose id is that of another one."""


class ItemName(NamedTuple):
    """What an item can be called: by the piece that it shows, or by the id that a client brought."""

    piece: str
    brought: object = None


TAIL = ItemName("tail")
"""The item with the text of the application, which is in no message."""


def name_summary(seq: int) -> ItemName:
    """The name of a summary, by the event that made it."""
    return ItemName(f"s{seq}")


def name_result(seq: int, number: int) -> ItemName:
    return ItemName(item_id(seq, number))


def name_entry(entry: RenderEntry, brought: object = None) -> ItemName:
    """The name of the piece that an entry shows."""
    return ItemName(f"m{entry.handle[1:]}" if isinstance(entry, ShownPart | OwnBlock | ForeignPart) else "", brought)


def name_call(message: Message, call: ToolCall) -> ItemName:
    number = next(at for at, each in enumerate(message.tool_calls) if each.id == call.id)
    return ItemName(item_id(message.seq, len(message.tool_results) + len(message.content) + number))


def add_item_ids(items: Iterable[dict[str, Any]], names: Iterable[ItemName]) -> list[dict[str, Any]]:
    """The items, each with an id of its own."""
    used: set[str] = set()
    shown: list[dict[str, Any]] = []
    for item, name in zip(items, names, strict=True):
        if item.get("type") in REFERRING_ITEMS:
            shown.append(item)
            continue
        chosen, number = name.piece, 1
        for brought in (item.get("id"), name.brought):
            if isinstance(brought, str) and brought and brought not in used and not is_own_id(brought):
                chosen = brought
                break
        while chosen in used:  # a message that is shown as several items
            number += 1
            chosen = f"{name.piece}_{number}"
        used.add(chosen)
        shown.append({**item, "id": chosen})
    return shown
