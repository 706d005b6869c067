"""Folding: the oldest units become one summary, at boundaries that a rule chooses. And where a seer would have put them.

All that fold share the verbatim tail and the summarizer, so what differs is when they do it. The tail is the last turns, as
far as they take no more than a share of the window, and never less than what the model has not seen yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

import msgspec

from benchmarks.cost_recordings import Recording, count
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, PromptPiece, cold
from holdfast.core.history.draft import MIN_SUMMARY_TOKENS, SUMMARY_RATIO
from holdfast.model.history.plans import Frugal
from holdfast.model.history.prices import Prices
from holdfast.text.extract.summary import extract_summary
from holdfast.types import MessageGroup, Summary


class Shape(msgspec.Struct, frozen=True):
    """What folding leaves."""

    window: int
    turns: int
    tail_share: float
    """The most of the window that these turns may take."""
    summary_share: float
    """The most of the window that a summary may take."""

    @classmethod
    def of(cls, policy: Frugal, window: int) -> Shape:
        """As the library's planner has it."""
        return cls(window, policy.preserve_turns, policy.tail_share, policy.summary_share)

    def summary(self, tokens: int) -> int:
        """The tokens that a summary of so many may have."""
        return (
            min(round(self.summary_share * self.window), max(MIN_SUMMARY_TOKENS, tokens // SUMMARY_RATIO))
            if tokens
            else 0
        )


class FoldCosts:
    """A session under one shape: what a prompt takes with the first so many units folded."""

    def __init__(self, recording: Recording, shape: Shape, prices: Prices) -> None:
        self.recording, self.shape, self.prices = recording, shape, prices
        self.until = [0, *accumulate(recording.sizes)]
        self.cold = cold(recording, prices)

    @cached_property
    def cuts(self) -> list[int]:
        """For each call, how many units a boundary before it would have folded in all."""
        return [self._cut(call.units) for call in self.recording.calls]

    def _cut(self, units: int) -> int:
        turns = room = 0
        cut = units
        limit = self.shape.tail_share * self.shape.window
        while cut and turns < self.shape.turns:
            room += self.recording.sizes[cut - 1]
            if room > limit:
                break
            cut -= 1
            turns += self.recording.units[cut].starts_turn
        return min(cut, self.recording.seen[units])

    def folded(self, cut: int) -> int:
        """Tokens of the summary of the first so many units, as it may be."""
        return self.shape.summary(self.until[cut])

    def size(self, cut: int, units: int) -> int:
        return PREFIX_TOKENS + self.folded(cut) + self.until[units] - self.until[cut]

    def cost(self, call: int, cut: int, *, now: bool) -> int:
        """Of a call; `now`: the boundary is right before it."""
        calls, prices = self.recording.calls, self.prices
        size = self.size(cut, calls[call].units)
        if self.cold[call]:
            return prices.cache_write * size
        read = PREFIX_TOKENS if now else self.size(cut, calls[call - 1].units)
        return prices.cache_read * read + prices.cache_write * (size - read)

    def total(self, chosen: Sequence[int]) -> int:
        """Of all calls, with so many units folded at each."""
        before = [0, *chosen[:-1]]
        return sum(
            self.cost(call, cut, now=cut != last) for call, (cut, last) in enumerate(zip(chosen, before, strict=True))
        )


class Moment(msgspec.Struct, frozen=True):
    """What a rule may know: sizes and times up to now."""

    size: int
    """Tokens of the prompt as it is."""
    window: int
    saves: int
    """Tokens that a boundary now would save."""
    rewritten: int
    """Tokens that it would write anew, though they were in the last prompt; their being read included."""
    cold: bool
    rent: int
    """What was paid since the last boundary for tokens that one would have saved."""
    prices: Prices


Rule = Callable[[Moment], bool]


def choose_folds(folding: FoldCosts, rule: Rule) -> list[int]:
    """How many units are folded at each call."""
    chosen: list[int] = []
    cut = rent = 0
    calls = folding.recording.calls
    for number, call in enumerate(calls):
        new = folding.cuts[number]
        size = folding.size(cut, call.units)
        if new > cut:
            saves = size - folding.size(new, call.units)
            rent += folding.prices.cache_read * max(0, saves)
            last = calls[number - 1].units if number else 0
            moment = Moment(
                size=size,
                window=folding.shape.window,
                saves=saves,
                rewritten=folding.folded(new) + max(0, folding.until[last] - folding.until[new]),
                cold=folding.cold[number],
                rent=rent,
                prices=folding.prices,
            )
            if size > folding.shape.window or (saves > 0 and rule(moment)):
                cut, rent = new, 0
        chosen.append(cut)
    return chosen


def at_threshold(share: float) -> Rule:
    return lambda now: now.size >= share * now.window


def break_even(now: Moment) -> bool:
    """Renting against buying: the rent since the last boundary has reached the price of one."""
    return now.cold or now.rent >= (now.prices.cache_write - now.prices.cache_read) * now.rewritten


def find_optimal_folds(folding: FoldCosts) -> list[int]:
    """The cheapest choice of boundaries there is, found by looking at every one: what no rule can beat."""
    calls = folding.recording.calls
    best: dict[int, int] = {0: 0}
    came_from: list[dict[int, int]] = []
    for number, call in enumerate(calls):
        new = folding.cuts[number]
        after: dict[int, int] = {}
        origin: dict[int, int] = {}
        for cut, paid in best.items():
            if new <= cut or folding.size(cut, call.units) <= folding.shape.window:
                after[cut], origin[cut] = paid + folding.cost(number, cut, now=False), cut
        source = min((cut for cut in best if cut < new), key=lambda cut: best[cut], default=None)
        if source is not None:
            paid = best[source] + folding.cost(number, new, now=True)
            if paid < after.get(new, math.inf):
                after[new], origin[new] = paid, source
        came_from.append(origin)
        best = after
    cut = min(best, key=lambda each: best[each])
    chosen: list[int] = []
    for origin in reversed(came_from):
        chosen.append(cut)
        cut = origin[cut]
    return chosen[::-1]


class Summarizer:
    """The library's own summaries of a session, each made from the one before and what came since."""

    def __init__(self, recording: Recording, shape: Shape) -> None:
        self._recording, self._shape = recording, shape
        self._made: dict[tuple[int, ...], Summary] = {}

    def of(self, cuts: tuple[int, ...]) -> Summary:
        """The summary after boundaries that folded so many units in all, one after the other."""
        if cuts not in self._made:
            before = (self.of(cuts[:-1]),) if len(cuts) > 1 else ()
            first, last = (cuts[-2] if before else 0), cuts[-1]
            self._made[cuts] = self._new(before, self._recording.units[first:last], last)
        return self._made[cuts]

    def _new(self, before: tuple[Summary, ...], units: Sequence[MessageGroup], last: int) -> Summary:
        budget = self._shape.summary(sum(self._recording.sizes[:last]))
        text = extract_summary((*before, *units), budget, count)
        first = self._recording.units[0].seq
        end = units[-1].messages[-1].seq
        return Summary(seq=end, first=first, last=end, messages=last, text=text, tokens=count(text))


def build_prompts(recording: Recording, summarizer: Summarizer, chosen: Sequence[int]) -> Iterator[Prompt]:
    """What is sent at each call, with so many units folded."""
    whole = whole_units(recording)
    made: tuple[int, ...] = ()
    head: list[PromptPiece] = []
    for call, cut in zip(recording.calls, chosen, strict=True):
        if cut != (made[-1] if made else 0):
            made = (*made, cut)
            summary = summarizer.of(made)
            head = [PromptPiece(("summary", len(made)), summary.tokens, text=summary.shown)]
        yield head + whole[cut : call.units]


def whole_units(recording: Recording) -> list[PromptPiece]:
    return [
        PromptPiece(("unit", number), size, (2 * number, 2 * number + 1)) for number, size in enumerate(recording.sizes)
    ]
