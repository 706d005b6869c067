"""What a provider charges, and what it says in `usage`."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

from holdfast.model.history.prices import UNKNOWN_PRICES, Prices, find_prices, with_ttl
from tests.gateway.upstreams.caches import CacheUse


@dataclasses.dataclass
class Bill:
    """Calls that were answered, and their tokens by what they cost. Money is in micro-dollars."""

    calls: int = 0
    refused: int = 0
    input: int = 0
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0
    output: int = 0
    money: Fraction = Fraction(0)

    def charge(self, prices: Prices, use: CacheUse, output: int) -> None:
        self.calls += 1
        self.input += use.fresh
        self.read += use.read
        self.write_5m += use.write_5m
        self.write_1h += use.write_1h
        self.output += output
        self.money += compute_money(prices, use, output)

    @property
    def dollars(self) -> float:
        return float(self.money / 1_000_000)

    @property
    def prompt(self) -> int:
        return self.input + self.read + self.write_5m + self.write_1h

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "money": float(self.money), "dollars": self.dollars}


def get_prices(model: str) -> Prices:
    return find_prices(model) or UNKNOWN_PRICES


def compute_money(prices: Prices, use: CacheUse, output: int) -> Fraction:
    """The price of a call in micro-dollars."""
    long_write = with_ttl(prices, 3_600).cache_write if prices.provider == "anthropic" else prices.cache_write
    total = use.fresh * prices.input + use.read * prices.cache_read + use.write_5m * prices.cache_write
    return Fraction(total + use.write_1h * long_write + output * prices.output, 1_000_000)


def build_usage(dialect: str, use: CacheUse, output: int, thought: int) -> dict[str, Any]:
    """The usage of a reply, as its API spells it."""
    if dialect == "anthropic":
        return {
            "input_tokens": use.fresh,
            "cache_creation_input_tokens": use.write_5m + use.write_1h,
            "cache_read_input_tokens": use.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": use.write_5m,
                "ephemeral_1h_input_tokens": use.write_1h,
            },
            "output_tokens": output,
            "service_tier": "standard",
        }
    counts = {"cached_tokens": use.read, "cache_write_tokens": use.write_5m}
    if dialect == "chat":
        return {
            "prompt_tokens": use.total,
            "completion_tokens": output,
            "total_tokens": use.total + output,
            "prompt_tokens_details": {**counts, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": thought, "audio_tokens": 0},
        }
    return {
        "input_tokens": use.total,
        "input_tokens_details": counts,
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": use.total + output,
    }
