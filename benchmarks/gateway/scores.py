"""What the requests of a contender cost, by one price model, and what of the next call they held.

The cache holds the blocks of the last request, without cache marks, for as long as the provider keeps it after the last
reply. A request reads the blocks that it has in common with that one from the beginning on, and writes the rest. Replies
are left out: they cost the same for all. Beside it is the bill of the fake provider, which caches only at marks and looks
back 20 blocks from each.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cost_grounding import present
from benchmarks.cost_score import CacheScore
from benchmarks.gateway.material import ReplayCall
from benchmarks.gateway.upstream import MICROS, Receipt, SentBlock, bill, count_common
from holdfast.model.history.prices import Prices


class SessionScore(CacheScore):
    """Those over the calls of a session."""

    billed: int = 0
    """By the fake provider, without replies, in picodollars."""
    changed: int = 0
    """Requests that came to the provider with other bytes."""
    streams: int = 0
    """Answers whose first byte came before their last one was sent."""
    intact: int = 0
    """Answers that came byte for byte."""
    resent: int = 0
    """Calls that came to the provider more than once."""
    failed: int = 0


class Scorer:
    """Prices the requests of one session, one after the other."""

    def __init__(self, prices: Prices) -> None:
        self.score = SessionScore()
        self._prices = prices
        self._before: Sequence[SentBlock] = ()
        self._replied_us: int | None = None

    def add(self, call: ReplayCall, receipt: Receipt, sent_us: int, replied_us: int) -> None:
        score, prices, blocks = self.score, self._prices, receipt.blocks
        common = count_common(self._before, blocks)
        is_warm = self._replied_us is not None and sent_us - self._replied_us <= prices.ttl_s * MICROS
        sent = sum(block.tokens for block in blocks)
        read = sum(block.tokens for block in blocks[:common]) if is_warm else 0
        score.cost += prices.cache_read * read + prices.cache_write * (sent - read)
        score.billed += bill(receipt.usage, prices)
        score.read += read
        score.sent += sent
        score.calls += 1
        score.boundaries += common < len(self._before)
        self._before, self._replied_us = blocks, replied_us
        if call.wanted:
            text = "\n".join(block.text for block in blocks)
            score.judged += 1
            score.grounded += sum(present(each, text) for each in call.wanted) / len(call.wanted)
