"""Where the guard changed a text, in the characters of what is shown: for readers of a pack, not for packs.

Law: nothing that the reader may not know has a placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from holdfast.model.packs.pack import GuardMode
from holdfast.model.packs.redactions import RedactionMode
from holdfast.text.guard import finder
from holdfast.text.guard.patterns import GuardStatement


class GuardPlacement(NamedTuple):
    """A superseded value in a text, or the marker in its place."""

    at: int
    call: str
    part: int
    start: int
    stop: int
    facts: tuple[str, ...]
    """The index of their ledger and their ids: `0:k7`."""
    mode: RedactionMode
    shown: str = ""
    """The text that it is in, as it is shown."""


def place_statements(
    text: str, guarded: Sequence[GuardStatement], left: Sequence[GuardStatement], policy: GuardMode
) -> Iterator[tuple[GuardStatement, int, int, RedactionMode]]:
    """The characters of each statement in a text after its edits. `guarded` are the statements that the guard redacts or
    annotates, and `left` those that it leaves."""
    edits = finder.list_edits(text, guarded, policy)
    shifts = [(stop, len(new) - (stop - start)) for (start, stop), new in edits.items()]
    for statement in (*guarded, *left):
        if statement.action == "withhold":
            continue
        start = statement.start + sum(shift for stop, shift in shifts if stop <= statement.start)
        marker = edits.get((statement.start, statement.stop)) if statement in guarded else None
        if marker is not None:
            yield statement, start, start + len(marker), "redacted"
        else:
            mode: RedactionMode = "exposed" if statement in left else "annotated"
            yield statement, start, start + statement.stop - statement.start, mode


def move_into_json(placements: Sequence[GuardPlacement], encoded: str) -> list[GuardPlacement]:
    """Placements in the texts of a JSON value, in the characters of the value as JSON. They come in its order."""
    moved: list[GuardPlacement] = []
    position, last = 0, ""
    for each in placements:
        inner = _write_inner(each.shown)
        if each.shown != last or not moved:
            found = encoded.find(inner, position)
            position, last = (found, each.shown) if found >= 0 else (position, last)
        start = position + len(_write_inner(each.shown[: each.start]))
        length = len(_write_inner(each.shown[each.start : each.stop]))
        moved.append(each._replace(start=start, stop=min(start + length, len(encoded)), shown=encoded))
    return moved


def _write_inner(text: str) -> str:
    """A text as JSON writes it, without its quotes."""
    return msgspec.json.encode(text).decode()[1:-1]


def split_into_parts(placements: Sequence[GuardPlacement], texts: Sequence[str]) -> list[GuardPlacement]:
    """Placements in joined texts, each in the characters of the text that it begins in."""
    split: list[GuardPlacement] = []
    for each in placements:
        first, part = 0, 0
        while part < len(texts) - 1 and each.start >= first + len(texts[part]):
            first += len(texts[part])
            part += 1
        stop = min(each.stop - first, len(texts[part]))
        split.append(each._replace(part=each.part + part, start=each.start - first, stop=stop, shown=texts[part]))
    return split
