"""What a policy costs: an ideal cache, a provider's prices, and what of the context the next call could stand on.

The cache holds the whole of the last prompt until it was unused for its time to live. A prompt reads from it what it has in
common with that one from the beginning, unit for unit, and writes the rest. Replies cost the same under every policy, so
they are left out. All prompts begin with the same instructions and tools.

Lost information has a price: a call that needs an identifier which its context lacks must read it again. That takes one
further call, which reads the context from the cache, and for each missing identifier the tokens of the smallest earlier
tool result that held it (the smallest message, if no result did), written to the cache. Two identifiers of one text are
read together. It is charged at every call that lacks something, whatever was read again before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

from benchmarks.cost_grounding import present
from benchmarks.cost_recordings import MICROS, Recording
from holdfast.model.history.prices import Prices

PREFIX_TOKENS = 2_000
"""Instructions and tools, which the recordings do not hold."""


class PromptPiece(msgspec.Struct, frozen=True):
    """A piece of a prompt. Equal pieces are equal bytes."""

    key: tuple[str, int]
    tokens: int
    texts: tuple[int, ...] = ()
    """Which texts of the recording it shows."""
    text: str = ""
    """What else it says."""
    passing: bool = False
    """It stands behind all else and is gone at the next call, so nobody puts it into a cache."""


Prompt = Sequence[PromptPiece]


class CacheScore(msgspec.Struct):
    """Sums over calls; those of several sessions add up."""

    cost: int = 0
    """In picodollars: micro-dollars for a million tokens, times tokens."""
    read: int = 0
    sent: int = 0
    calls: int = 0
    grounded: float = 0.0
    judged: int = 0
    """Calls that name anything that was there before."""
    boundaries: int = 0
    """Requests that did not begin with all of the last one."""

    @classmethod
    def total(cls, scores: Iterable[Self]) -> Self:
        rows = [msgspec.structs.astuple(each) for each in scores]
        return cls(*map(sum, zip(*rows, strict=True)))

    @property
    def hits(self) -> float:
        return self.read / self.sent if self.sent else 0.0

    @property
    def grounding(self) -> float:
        return self.grounded / self.judged if self.judged else 1.0


class Score(CacheScore):
    over: int = 0
    """Prompts that the window does not hold."""
    rereading: int = 0
    """What reading missing information again would cost, in picodollars."""

    @property
    def total_cost(self) -> int:
        """The input, and what was lost of it at its price."""
        return self.cost + self.rereading


def cold(recording: Recording, prices: Prices) -> list[bool]:
    """Before which calls the cache is lost."""
    replied = [None, *(call.replied_us for call in recording.calls)]
    return [
        before is None or call.sent_us - before > prices.ttl_s * MICROS
        for before, call in zip(replied, recording.calls, strict=False)
    ]


class Meter:
    """What prompts cost, one after the other."""

    def __init__(self, prices: Prices, window: int) -> None:
        self.found = Score()
        self._prices, self._window = prices, window
        self._before: Prompt = []

    def take(self, prompt: Prompt, *, lost: bool) -> int:
        """The tokens that are sent; `lost`: the cache is."""
        found, prices = self.found, self._prices
        common = _common(self._before, prompt)
        found.boundaries += common < len(self._before)
        sent = PREFIX_TOKENS + tokens_of(prompt)
        read = 0 if lost else PREFIX_TOKENS + tokens_of(prompt[:common])
        passing = tokens_of([each for each in prompt if each.passing])
        found.cost += prices.cache_read * read + prices.cache_write * (sent - passing - read) + prices.input * passing
        found.read += read
        found.sent += sent
        found.calls += 1
        found.over += sent > self._window
        self._before = [each for each in prompt if not each.passing]
        return sent


def score(recording: Recording, prompts: Iterable[Prompt], window: int, prices: Prices) -> Score:
    meter = Meter(prices, window)
    found = meter.found
    for call, prompt, lost in zip(recording.calls, prompts, cold(recording, prices), strict=True):
        sent = meter.take(prompt, lost=lost)
        if call.wanted:
            missing = _find_missing(recording, prompt, call.wanted)
            found.judged += 1
            found.grounded += 1 - len(missing) / len(call.wanted)
            if missing:
                found.rereading += prices.cache_read * sent
                found.rereading += prices.cache_write * reread_tokens(recording, missing, call.units)
    return found


def tokens_of(prompt: Prompt) -> int:
    return sum(each.tokens for each in prompt)


def _common(before: Prompt, after: Prompt) -> int:
    if after[: len(before)] == before:
        return len(before)
    differing = (at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    return next(differing, min(len(before), len(after)))


def reread_tokens(recording: Recording, missing: Iterable[str], units: int) -> int:
    """Tokens of the smallest texts of the first so many units that hold these identifiers, each text once."""
    return sum(recording.text_sizes[text] for text in {_smallest(recording, each, units) for each in missing})


def _smallest(recording: Recording, identifier: str, units: int) -> int:
    holding = [text for text in recording.index.holding(identifier) if text < 2 * units]
    results = [text for text in holding if text % 2]
    return min(results or holding, key=lambda text: recording.text_sizes[text])


def _find_missing(recording: Recording, prompt: Prompt, wanted: Iterable[str]) -> list[str]:
    shown = {text for each in prompt for text in each.texts}
    others = [each.text for each in prompt if each.text]
    return [
        identifier
        for identifier in wanted
        if shown.isdisjoint(recording.index.holding(identifier))
        and not any(present(identifier, text) for text in others)
    ]
