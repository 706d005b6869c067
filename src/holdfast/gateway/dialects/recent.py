"""The bodies that came last: the next one of a conversation begins with the same bytes, and only its rest is scanned.

Laws: a body is read the same with and without the bodies before it. If it begins with the bytes of another one up to an
element of the list of messages, a scanner is in the same state there: so the elements before it are left out of the scan.
Memory is bounded by bytes, for all dialects together.
"""

from __future__ import annotations

import bisect
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.gateway.bodies import elements, is_array, open_body
from holdfast.gateway.dialects.elements import PlacedElement
from holdfast.gateway.model import ClientMessage, Dialect, Slice

_LEAST_BYTES = 32 << 10
"""Smaller lists are scanned as quickly."""
_MOST_BYTES = 2 << 20
"""All bodies that are kept, together, with what was read of them; the one used last stays."""
_LARGEST_BODY = 8 << 20
"""A larger one is not kept."""
_MOST_BODIES = 32
_ELEMENT_BYTES = 700
"""What an element takes beside its bytes, about."""
LIST_NAMES: dict[Dialect, str] = {"anthropic": "messages", "chat": "messages", "responses": "input"}
"""The fields with the messages."""
_SUCCESSION = 0.75
"""The share of a body's messages that its successor begins with. The successor takes its place."""


class KnownMessages(NamedTuple):
    """The first messages of a body, as they were read in another one."""

    messages: Sequence[ClientMessage] = ()
    chain: Sequence[bytes] = ()
    """Their hashes."""
    elements: int = 0
    """The elements of the list that they are."""


class OpenedBody(msgspec.Struct):
    """A body as its fields, and the elements of its list of messages."""

    dialect: Dialect
    body: bytes
    fields: dict[str, Slice]
    slots: Sequence[Slice] = ()
    """The elements of the list; none if the field is not a list."""
    placed: list[PlacedElement] = msgspec.field(default_factory=list)
    """What is known of the first elements, and later of all."""
    known: KnownMessages = KnownMessages()
    """What is known of the first messages, and later of all."""
    before: int = 0
    """The key of the body that this one continues; 0 for none."""

    @property
    def size(self) -> int:
        """The memory that it takes, about."""
        return len(self.body) + _ELEMENT_BYTES * len(self.slots)


class RecentBodies:
    """Keeps a few bodies, those used last. Threads can share it."""

    def __init__(self, most_bytes: int = _MOST_BYTES, least_bytes: int = _LEAST_BYTES) -> None:
        self._least = least_bytes
        self._most = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, OpenedBody] = OrderedDict()
        self._size = 0
        self._next = 1

    def open(self, dialect: Dialect, body: bytes) -> OpenedBody:
        """Scan a body: all of it, or what follows the elements that it shares with one that is kept."""
        key, kept, shared = self._find(dialect, body)
        name = LIST_NAMES[dialect]
        if kept is None or shared < 2:
            fields = open_body(body)
            at = fields.get(name)
            slots = elements(body, at) if at is not None and is_array(body, at) else ()
            return OpenedBody(dialect, body, fields, slots)
        first, last = kept.slots[0].start, kept.slots[shared - 1].start
        rest = body[:first] + body[last:]  # the last shared element stands for all of them
        gap = last - first
        fields = open_body(rest)
        new = [_move(slot, gap) for slot in elements(rest, fields[name])]
        moved = {each: at if at.end < first else _move(at, gap) for each, at in fields.items()}
        moved[name] = Slice(fields[name].start, fields[name].end + gap)
        is_successor = shared >= _SUCCESSION * len(kept.slots)
        return OpenedBody(
            dialect,
            body,
            moved,
            [*kept.slots[: shared - 1], *new],
            kept.placed[:shared],
            _cut_known(kept, shared),
            key if is_successor else 0,
        )

    def keep(self, opened: OpenedBody) -> None:
        """Keep a body whose elements are all read."""
        if not opened.slots or len(opened.body) > _LARGEST_BODY:
            return
        if opened.slots[-1].end - opened.slots[0].start < self._least:
            return
        with self._lock:
            replaced = self._kept.pop(opened.before, None)
            self._size += opened.size - (replaced.size if replaced is not None else 0)
            self._kept[self._next] = opened
            self._next += 1
            while len(self._kept) > 1 and (self._size > self._most or len(self._kept) > _MOST_BODIES):
                self._size -= self._kept.popitem(last=False)[1].size

    def _find(self, dialect: Dialect, body: bytes) -> tuple[int, OpenedBody | None, int]:
        """The kept body that shares most elements with this one."""
        if len(body) < self._least:
            return 0, None, 0
        with self._lock:
            kept = list(reversed(self._kept.items()))
        best: tuple[int, OpenedBody | None, int] = (0, None, 0)
        for key, each in kept:
            shared = _count_shared(body, each) if each.dialect == dialect else 0
            if shared > best[2]:
                best = (key, each, shared)
            if shared >= _SUCCESSION * len(each.slots):
                break
        return best


def _count_shared(body: bytes, kept: OpenedBody) -> int:
    """How many elements both begin with, each with the bytes before it."""
    start, end = kept.slots[0]
    if body[start:end] != kept.body[start:end]:  # most other conversations
        return 0
    low, high, position = 0, len(kept.slots), 0
    while low < high:
        middle = (low + high + 1) // 2
        end = kept.slots[middle - 1].end
        if body[position:end] == kept.body[position:end]:
            low, position = middle, end
        else:
            high = middle - 1
    return low


def _cut_known(kept: OpenedBody, shared: int) -> KnownMessages:
    """What is known of the messages in the first elements of a body. A reply that may go on behind them is none of them."""
    messages, chain, _ = kept.known
    end = kept.slots[shared - 1].end
    count = bisect.bisect_right(messages, end, key=lambda message: message.at.end)
    if count and kept.placed[shared - 1].element.joins:
        count -= 1
    if not count:
        return KnownMessages()
    covered = bisect.bisect_left(kept.slots, messages[count - 1].at.end, key=lambda slot: slot.start)
    return KnownMessages(messages[:count], chain[:count], covered)


def _move(at: Slice, gap: int) -> Slice:
    return Slice(at.start + gap, at.end + gap)
