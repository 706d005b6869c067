"""The bodies that came last: the next one of a conversation begins with the same bytes, and only its rest is scanned.

Law: a body is read the same with and without the bodies before it. If it begins with the bytes of another one up to an
element of the list of messages, a scanner is in the same state there: so the elements before it are left out of the scan.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from holdfast.gateway.bodies import elements, is_array, open_body
from holdfast.gateway.dialects.elements import PlacedElement
from holdfast.gateway.model import Slice

_LEAST_BYTES = 64 << 10
"""Smaller bodies are scanned as quickly."""
_MOST_BYTES = 6 << 20
"""All bodies that are kept, together."""
_MOST_BODIES = 8
_SUCCESSION = 0.75
"""The share of a body's messages that its successor begins with. The successor takes its place."""


class OpenedBody(msgspec.Struct):
    """A body as its fields, and the elements of its list of messages."""

    body: bytes
    fields: dict[str, Slice]
    slots: Sequence[Slice] = ()
    """The elements of the list; none if the field is not a list."""
    placed: list[PlacedElement] = msgspec.field(default_factory=list)
    """What is known of the first elements, and later of all."""
    before: int = 0
    """The key of the body that this one continues; 0 for none."""


class RecentBodies:
    """Keeps a few bodies, those used last. Threads can share it."""

    def __init__(self, name: str, most_bytes: int = _MOST_BYTES, least_bytes: int = _LEAST_BYTES) -> None:
        self._name = name
        self._least = least_bytes
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, OpenedBody] = OrderedDict()
        self._size = 0
        self._next = 1

    def open(self, body: bytes) -> OpenedBody:
        """Scan a body: all of it, or what follows the elements that it shares with one that is kept."""
        key, kept, shared = self._find(body)
        if kept is None or shared < 2:
            fields = open_body(body)
            at = fields.get(self._name)
            return OpenedBody(body, fields, elements(body, at) if at is not None and is_array(body, at) else ())
        first, last = kept.slots[0].start, kept.slots[shared - 1].start
        rest = body[:first] + body[last:]  # the last shared element stands for all of them
        gap = last - first
        fields = open_body(rest)
        slots = [_move(slot, gap) for slot in elements(rest, fields[self._name])]
        moved = {name: at if at.end < first else _move(at, gap) for name, at in fields.items()}
        moved[self._name] = Slice(fields[self._name].start, fields[self._name].end + gap)
        is_successor = shared >= _SUCCESSION * len(kept.slots)
        return OpenedBody(
            body, moved, [*kept.slots[: shared - 1], *slots], kept.placed[:shared], key if is_successor else 0
        )

    def keep(self, opened: OpenedBody) -> None:
        """Keep a body whose elements are all read."""
        if not self._least <= len(opened.body) <= self._most or not opened.slots:
            return
        with self._lock:
            replaced = self._kept.pop(opened.before, None)
            self._size += len(opened.body) - (len(replaced.body) if replaced is not None else 0)
            self._kept[self._next] = opened
            self._next += 1
            while self._size > self._most or len(self._kept) > _MOST_BODIES:
                self._size -= len(self._kept.popitem(last=False)[1].body)

    def _find(self, body: bytes) -> tuple[int, OpenedBody | None, int]:
        """The kept body that shares most elements with this one."""
        if len(body) < self._least:
            return 0, None, 0
        with self._lock:
            kept = list(reversed(self._kept.items()))
        best: tuple[int, OpenedBody | None, int] = (0, None, 0)
        for key, each in kept:
            shared = _count_shared(body, each)
            if shared > best[2]:
                best = (key, each, shared)
            if shared >= _SUCCESSION * len(each.slots):
                break
        return best


def _count_shared(body: bytes, kept: OpenedBody) -> int:
    """How many elements both begin with, each with the bytes before it."""
    position = 0
    for number, slot in enumerate(kept.slots):
        if body[position : slot.end] != kept.body[position : slot.end]:
            return number
        position = slot.end
    return len(kept.slots)


def _move(at: Slice, gap: int) -> Slice:
    return Slice(at.start + gap, at.end + gap)
