"""What model calls cost: by the provider's figures, and under a cache model.

The cache model: the cache has the whole of the last prompt until it was unused for its time to live. A prompt reads
from it what it has in common with that one from the beginning, and writes the rest; what stands behind the
conversation and is made anew for each call is never cached. Another model has another cache.

Laws: everything here is pure. The parts of a bill add up to its tokens. Money is summed in picodollars (tokens times
micro-dollars for a million) and divided at the end. A break never costs more than its call.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from holdfast.inspector.logs.entries import ModelFigures
from holdfast.inspector.logs.reports import BreakCause, TokenBill
from holdfast.inspector.logs.traces import TraceCall
from holdfast.model.history.bills import CallBill, bill_usage
from holdfast.model.history.prices import Prices

TOLERANCE_TOKENS = 1_024
"""A cache works in blocks: fewer tokens that were not read are no break."""
TOLERANCE_SHARE = 0.02
BLOCK_TOKENS = 128
"""Where a provider says only what was read: what it caches is whole blocks of the prompt."""
LONG_TTL_S = 3_600
LATE_SHARE = 0.5
"""Less of a prompt may be in the cache because other conversations begin with the same."""
MICROS = 1_000_000


def bill_figures(figures: ModelFigures) -> CallBill | None:
    """The bill of a call by the figures of the provider; None if the log has none."""
    return bill_usage(figures.usage, figures.long_writes)


class PromptShape(msgspec.Struct, frozen=True):
    """A prompt as the cache model sees it."""

    tokens: int
    shared: int
    """Tokens at the front that the prompt before had, too."""
    passing: int = 0
    """Tokens behind the conversation that are made anew for each call."""
    floor: int = 0
    """Tokens at the front that are in the cache in any case: other conversations begin with them, too."""


def model_bills(prompts: Sequence[PromptShape], calls: Sequence[TraceCall], ttls: Sequence[int]) -> list[CallBill]:
    """The bills of prompts under the cache model, for the calls of one thread with the time to live of each."""
    bills: list[CallBill] = []
    before: TraceCall | None = None
    for prompt, call, ttl in zip(prompts, calls, ttls, strict=True):
        is_warm = before is not None and not is_idle(before, call, ttl) and before.figures.model == call.figures.model
        most = max(0, prompt.tokens - prompt.passing)
        read = min(most, max(prompt.shared if is_warm else 0, prompt.floor))
        usage = call.figures.usage
        output = usage.output_tokens if usage is not None else 0
        bills.append(CallBill(read, most - read, 0, prompt.tokens - most, output))
        before = call
    return bills


def is_idle(before: TraceCall, call: TraceCall, ttl_s: int) -> bool:
    """Whether the cache of a call was gone when the next was sent."""
    return bool(before.replied_us and call.sent_us) and call.sent_us - before.replied_us > ttl_s * MICROS


def find_ttl(calls: Sequence[TraceCall], prices: Prices | None) -> int:
    """How long the cache of a thread stays warm: an hour if the log has writes for so long, or reads after a longer
    pause than the usual time."""
    ttl = prices.ttl_s if prices is not None else 300
    if any(call.figures.long_writes for call in calls):
        return max(ttl, LONG_TTL_S)
    return max(ttl, LONG_TTL_S) if has_late_reads(calls, ttl) else ttl


def has_late_reads(calls: Sequence[TraceCall], ttl_s: int) -> bool:
    """Whether a cache was read that should have been gone: most of the prompt before, after a longer pause."""
    for before, call in itertools.pairwise(calls):
        one, other = before.figures.usage, call.figures.usage
        if one is None or other is None or not one.input_tokens or not is_idle(before, call, ttl_s):
            continue
        if other.cache_read_tokens > LATE_SHARE * one.input_tokens:
            return True
    return False


class BreakFigures(msgspec.Struct, frozen=True):
    """A break before a call, by its number."""

    call: int
    tokens: int
    pico: int
    cause: BreakCause
    why: str


def find_breaks(calls: Sequence[TraceCall], prices: Sequence[Prices | None]) -> list[BreakFigures]:
    """The breaks of a thread by the provider's figures; none if it reports no cache."""
    bills = [bill_figures(call.figures) for call in calls]
    if not any(bill is not None and bill.read + bill.written for bill in bills):
        return []
    writes = any(bill is not None and bill.written for bill in bills)
    found: list[BreakFigures] = []
    for number in range(1, len(calls)):
        before, bill = bills[number - 1], bills[number]
        if before is None or bill is None:
            continue
        cached = before.read + before.written if writes else before.tokens // BLOCK_TOKENS * BLOCK_TOKENS
        expected = min(cached, bill.tokens)
        lost = expected - bill.read
        if lost <= max(TOLERANCE_TOKENS, TOLERANCE_SHARE * expected):
            continue
        cause, why = explain_break(calls[number - 1], calls[number], find_ttl(calls, prices[number]))
        why = f"{why}; {bill.read:,} of {expected:,} cached tokens were read"
        found.append(BreakFigures(number, lost, price_break(bill, lost, prices[number]), cause, why))
    return found


def price_break(bill: CallBill, lost: int, prices: Prices | None) -> int:
    """What was paid for lost tokens, less what reading them would have cost: they are the first that were written."""
    if prices is None:
        return 0
    written = min(lost, bill.written)
    fresh = min(lost - written, bill.fresh)
    paid = written * bill.price_write(prices) + fresh * prices.input
    return max(0, round(paid) - (written + fresh) * prices.cache_read)


def explain_break(before: TraceCall, call: TraceCall, ttl: int) -> tuple[BreakCause, str]:
    """Why the cache of the call before was not read, as far as the log says."""
    one, other = before.figures, call.figures
    pause = (call.sent_us - before.replied_us) // MICROS
    causes: tuple[tuple[bool, BreakCause, str], ...] = (
        (
            bool(one.model and other.model and one.model != other.model),
            "model",
            f"{other.model} came after {one.model}",
        ),
        (call.change == "compaction", "compaction", "a summary replaced the conversation"),
        (call.change == "rewind", "rewind", "messages were taken back"),
        (is_idle(before, call, ttl), "idle", f"nothing was sent for {pause:,} s, and a cache stays warm for {ttl:,} s"),
        (one.system != other.system, "system", "the system prompt changed"),
        (one.tools != other.tools, "tools", "the tools changed"),
        (call.change == "context", "context", "the program left out or changed earlier messages"),
    )
    return next(((cause, why) for holds, cause, why in causes if holds), ("unknown", "the log does not say why"))


def add_bills(bills: Sequence[CallBill], prices: Sequence[Prices | None]) -> TokenBill:
    """The sum of bills."""
    pico = sum(bill.price(each) for bill, each in zip(bills, prices, strict=True))
    return TokenBill(
        tokens=sum(bill.tokens for bill in bills),
        cache_read=sum(bill.read for bill in bills),
        cache_write=sum(bill.written for bill in bills),
        fresh=sum(bill.fresh for bill in bills),
        output=sum(bill.output for bill in bills),
        cost=to_micros(pico),
        modelled_cost=to_micros(pico),
    )


def to_micros(pico: float) -> int:
    """Picodollars as micro-dollars, rounded."""
    return round(pico / MICROS)
