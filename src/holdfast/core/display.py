"""What is shown of stored bodies, for a pack of so many tokens.

Laws: whether a body is shown whole depends on the budget and the body alone, so between boundaries each rendering extends
the one before; no more of a body is read than is shown, or its preview is made from; tokens are counted on what is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.core.previews import (
    MESSAGE_TAIL,
    RESULT_TAIL,
    SOME_HANDLE,
    Spooling,
    bytes_to_read,
    fits_whole,
    is_text,
    longer_preview,
    shown_as,
)
from holdfast.core.shown import Shown, by_message, item_shown, pieces_of, reduced_text, stored_in
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Part, Text, ToolResult, text_of
from holdfast.model.handles import piece_id
from holdfast.model.messages import Item, Message, Unit
from holdfast.model.plan import Reduction

_READ_BUDGETS = 4
"""Bodies of so many budgets are read whole, the newest first: what is beyond does not fit, however it is counted."""
_MARKER_BYTES = 110
"""About what a marker takes: a preview that leaves out less makes nothing shorter."""


class Display(msgspec.Struct, frozen=True):
    """For what a conversation is shown."""

    budget: int | None = None
    """The tokens of the pack; None shows each stored body by its stored preview."""
    readable: bool = True
    """The tool that reads handles is at hand."""


class Amount(NamedTuple):
    """How much of a stored body is to be read."""

    ref: BlobRef
    size: int
    whole: bool
    """It is shown whole; else a preview is made of what was read."""


Amounts: TypeAlias = Mapping[tuple[int, int, str], Amount]
"""By message, piece and digest; what has none is shown by its stored preview."""


class Presented(NamedTuple):
    """Items with their stored bodies as a pack shows them."""

    items: tuple[Item, ...]
    """As if they had been recorded like this."""
    reduced: tuple[Reduction, ...]
    """How pieces of them are shown since a boundary, with figures that fit these items."""
    stored: dict[tuple[int, int], tuple[Part, ...]]
    """The recorded parts of the pieces that hold stored bodies."""


class Displayer:
    """Decides what is shown of stored bodies, says what has to be read for that, and shows it."""

    def __init__(
        self, display: Display, spooling: Spooling, count: Callable[[str], int], reduced: Sequence[Reduction] = ()
    ) -> None:
        self.display = display
        self._spooling = spooling
        self._count = count
        self._reduced = by_message(reduced)
        self._limit = 0 if display.budget is None else spooling.preview_bytes(display.budget)

    # Deciding

    def amounts(self, items: Sequence[Item]) -> Amounts:
        """What has to be read of which body."""
        left = _READ_BUDGETS * (self.display.budget or 0)
        found: dict[tuple[int, int, str], Amount] = {}
        for unit, message, number, body in stored_bodies(items):
            amount = self._amount(message, number, body, left, critical=unit.priority == "critical")
            if amount is not None:
                found[message.seq, number, body.ref.digest] = amount
                left -= body.whole_tokens if amount.whole else 0
        return found

    def _amount(self, message: Message, number: int, body: Body, left: int, *, critical: bool) -> Amount | None:
        how = self._reduced.get(message.seq, {}).get(number)
        if how is not None and how.form == "whole":
            return Amount(body.ref, body.ref.size, True)
        if self.display.budget is None or (how is not None and how.form in ("spool", "page")):
            return None
        if critical and is_text(body.ref) and body.ref.size <= limits.WHOLE_BYTES:
            return Amount(body.ref, body.ref.size, True)  # whole, or nothing fits
        share = self._spooling.result_share if message.tool_results else self._spooling.message_share
        return self.amount(body, share if left > 0 else 0)

    def amount(self, body: Body, share: float) -> Amount | None:
        """How much is read of a body that may take this share of the budget to be whole."""
        if self.display.budget is None:
            return None
        short = is_text(body.ref) and body.ref.size <= self._limit + _MARKER_BYTES
        if short or fits_whole(body, int(self.display.budget * share)):
            return Amount(body.ref, body.ref.size, True)
        size = bytes_to_read(body, self._spooling, self._limit)
        return Amount(body.ref, size, False) if size else None

    # Showing

    def present(self, items: Sequence[Item], amounts: Amounts, read: Mapping[str, bytes]) -> Presented:
        """The items with what was read of their bodies, by digest."""
        stored: dict[tuple[int, int], tuple[Part, ...]] = {}
        reduced: list[Reduction] = []
        new: list[Item] = []
        for item in items:
            if not isinstance(item, Unit):
                new.append(item)
                continue
            messages = tuple(self._message(each, amounts, read, stored, reduced) for each in item.messages)
            same = all(one is two for one, two in zip(messages, item.messages, strict=True))
            new.append(item if same else Unit(messages, item.open))
        return Presented(tuple(new), tuple(reduced), stored)

    def show(self, presented: Presented) -> tuple[tuple[Item, ...], dict[int, tuple[Shown, ...]]]:
        """The items as a model reads them; and by message, which of its pieces are shown in part."""
        reductions = by_message(presented.reduced)
        partly: dict[int, tuple[Shown, ...]] = {}
        items = tuple(item_shown(item, reductions, self.display.readable, partly) for item in presented.items)
        return items, partly

    def _message(
        self,
        message: Message,
        amounts: Amounts,
        read: Mapping[str, bytes],
        stored: dict[tuple[int, int], tuple[Part, ...]],
        reduced: list[Reduction],
    ) -> Message:
        known = self._reduced.get(message.seq, {})
        pieces = {number: parts for number, parts, _ in pieces_of(message)}
        what = "tool result" if message.tool_results else "text"
        more = 0
        for number, parts in pieces.items():
            how = known.get(number)
            if how is not None and how.form == "whole":
                reduced.append(msgspec.structs.replace(how, saved=0))  # as it is presented here, it is whole
                how = None
            if not stored_in(parts):
                reduced += () if how is None else (how,)
                continue
            stored[message.seq, number] = parts
            own = {digest: each for (seq, at, digest), each in amounts.items() if (seq, at) == (message.seq, number)}
            taken = {digest: (read[digest][: each.size], each.whole) for digest, each in own.items()}
            tail = RESULT_TAIL if message.tool_results else MESSAGE_TAIL
            shown, tokens, added = self._parts(parts, taken, piece_id(message.seq, number), what, tail)
            more += added
            pieces[number] = shown
            if how is not None:
                reduced.append(self._fitted(how, shown, tokens, self._beside(parts)))
        if all(pieces[number] is parts for number, parts, _ in pieces_of(message)):
            return message
        first = len(message.tool_results)
        return msgspec.structs.replace(
            message,
            tool_results=tuple(
                ToolResult(each.tool_call_id, pieces[number], each.is_error)
                for number, each in enumerate(message.tool_results)
            ),
            content=tuple(part for number in range(first, len(pieces)) for part in pieces[number]),
            tokens=max(0, message.tokens + more),
        )

    def _parts(
        self, parts: tuple[Part, ...], read: Mapping[str, tuple[bytes, bool]], handle: str, what: str, tail_share: float
    ) -> tuple[tuple[Part, ...], int, int]:
        """The parts as they are shown, the tokens of their bodies, and how many more these are than as recorded."""
        new: list[Part] = []
        tokens = recorded = 0
        for part in parts:
            made: Part = part
            if isinstance(part, Body):
                now = before = part.preview_tokens or self._count(shown_as(part, SOME_HANDLE))
                if part.ref.digest in read:
                    made, now = self.part(part, *read[part.ref.digest], handle, what, tail_share)
                tokens, recorded = tokens + now, recorded + before
            new.append(made)
        same = all(one is two for one, two in zip(new, parts, strict=True))
        return (parts if same else tuple(new)), tokens, tokens - recorded

    def part(
        self, body: Body, start: bytes, whole: bool, handle: str, what: str, tail_share: float = RESULT_TAIL
    ) -> tuple[Part, int]:
        """A stored body of which this was read, as it is shown, and its tokens."""
        if whole:
            text = start.decode("utf-8", "replace")
            exact = body.tokens if body.ref.size <= limits.COUNTED_BYTES else 0
            return Text(text), exact or self._count(text)
        preview = longer_preview(body, start, self._spooling, self._limit, tail_share)
        shown = msgspec.structs.replace(body, preview=preview.text, tail=preview.tail)
        tokens = self._count(shown_as(shown, handle, what, readable=self.display.readable))
        return msgspec.structs.replace(shown, preview_tokens=tokens), tokens

    def _beside(self, parts: tuple[Part, ...]) -> int:
        """Tokens of the parts of a piece that are no stored bodies: each by itself, as they were counted when recorded."""
        texts = (text_of([part]) for part in parts if not isinstance(part, Body))
        return sum(self._count(text) for text in texts if text)

    def _fitted(self, how: Reduction, parts: tuple[Part, ...], bodies: int, others: int) -> Reduction:
        """A reduction with figures for these parts: it may have been planned for another budget."""
        base = bodies + others
        text = reduced_text(parts, how, piece_id(how.message, how.piece), self.display.readable)
        return msgspec.structs.replace(how, tokens=base, saved=base - self._count(text))


def stored_bodies(items: Sequence[Item]) -> Iterator[tuple[Unit, Message, int, Body]]:
    """The stored bodies in these items, newest first, each with its unit, its message and the number of its piece."""
    for item in reversed(items):
        if not isinstance(item, Unit):
            continue
        for message in reversed(item.messages):
            for number, parts, _ in pieces_of(message):
                for part in parts:
                    if isinstance(part, Body):
                        yield item, message, number, part
