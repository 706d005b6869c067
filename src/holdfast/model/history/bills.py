"""What a model call cost: its tokens, by what is paid for them. Data only."""

from __future__ import annotations

import msgspec

from holdfast.model.content import Usage
from holdfast.model.history.prices import Prices

LONG_WRITE_RATE = 2
"""What Anthropic takes for a token that stays in the cache for an hour, as a multiple of input."""


class CallBill(msgspec.Struct):
    """The tokens of one call, by what is paid for them."""

    read: int = 0
    write: int = 0
    """To a cache of the usual time."""
    long_write: int = 0
    fresh: int = 0
    output: int = 0

    @property
    def tokens(self) -> int:
        return self.read + self.write + self.long_write + self.fresh

    @property
    def written(self) -> int:
        return self.write + self.long_write

    def price(self, prices: Prices | None) -> int:
        """In picodollars; 0 without prices."""
        if prices is None:
            return 0
        return (
            self.read * prices.cache_read
            + self.write * prices.cache_write
            + self.long_write * prices.input * LONG_WRITE_RATE
            + self.fresh * prices.input
            + self.output * prices.output
        )

    def price_write(self, prices: Prices) -> float:
        """What a token cost that was written to the cache; that of input, if none was."""
        if not self.written:
            return prices.input
        long = self.long_write * prices.input * LONG_WRITE_RATE
        return (self.write * prices.cache_write + long) / self.written


def bill_usage(usage: Usage | None, long_writes: int = 0) -> CallBill | None:
    """The bill of a call by the usage that the provider reported; None if it reported none. `long_writes` are the tokens
    that were written to a cache of an hour."""
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return None
    read = min(usage.cache_read_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - read)
    long = min(long_writes, written)
    fresh = usage.input_tokens - read - written
    return CallBill(read, written - long, long, fresh, usage.output_tokens)
