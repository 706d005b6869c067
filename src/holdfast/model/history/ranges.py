"""Ranges of messages that a withdrawal takes out of a conversation, and what changes with them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.model.event import Identifier


class VisibilityChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a withdrawal takes out of a conversation, or brings back, in numbers; and how the conversation ends then."""

    messages: int = 0
    """Messages that models saw: without system messages and skipped replies."""
    tokens: int = 0
    """Of all messages, as recorded."""
    turns: int = 0
    """Messages of the user among them."""
    replies: int = 0
    """Replies among them, without skipped ones."""
    system: tuple[int, ...] = ()
    """The seqs of the system messages among them."""
    asks: bool = False
    """Whether the conversation now ends with a question of the assistant."""
    errors: Identifier[tuple[str, ...]] = ()
    """The tool calls that failed since the last reply in it."""


class LedgerFacts(msgspec.Struct, frozen=True):
    """Facts of one ledger, by their ids."""

    ledger: Identifier[tuple[str, ...]]
    """The key of its stream."""
    facts: Identifier[tuple[str, ...]]


class SeqRanges:
    """Ranges of seqs, merged and in order."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], last))
            else:
                merged.append((first, last))
        self.ranges = tuple(merged)
        self._firsts = [first for first, _ in merged]

    def __contains__(self, seq: int) -> bool:
        at = bisect.bisect_right(self._firsts, seq) - 1
        return at >= 0 and seq <= self.ranges[at][1]

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def gaps_in(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of a range that are not in them."""
        for start, end in self.ranges:
            if start <= last and first <= end:
                if first < start:
                    yield first, start - 1
                first = end + 1
        if first <= last:
            yield first, last

    def count_before(self, seq: int) -> int:
        """How many of them begin before a seq."""
        return bisect.bisect_left(self._firsts, seq)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether some seq from `first` to `last` is in them."""
        return any(start <= last and first <= end for start, end in self.ranges)


def join_seqs(seqs: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """These seqs as ranges of neighbours."""
    return SeqRanges((seq, seq) for seq in seqs).ranges


def describe_ranges(ranges: tuple[tuple[int, int], ...]) -> str:
    parts = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in ranges]
    return f"events {', '.join(parts)}"
