"""Prices of models, as data: to be checked, and to be overridden.

As of November 2026, from the providers' price lists: for text, at the standard rate, for short prompts. Long prompts
cost more at some providers: OpenAI takes twice as much from 272,000 tokens on, Gemini Pro from 200,000, and Claude
Haiku 5.5 five times as much from 100,000. Where an introductory price is about to end, the following price is listed;
of DeepSeek's two rates, that of its busy hours. Where a provider does not say how long a cache stays warm, it is the
shortest time that one would count on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model import limits
from holdfast.model.names import check_name, check_whole

MAX_PRICE = 1_000_000_000
"""The most that a million tokens may cost, in micro-dollars, so that every store can hold the cost of a window."""


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of a model, in micro-dollars for a million tokens: 3_000_000 is $3."""

    provider: str
    model: str
    input: int
    """A token of the prompt that is neither read from a cache nor written to one."""
    cache_read: int
    cache_write: int
    """The price of a new token in a cached prompt: `input`, where writing costs nothing extra."""
    output: int
    ttl_s: int = 300
    """How long an unused cache stays warm."""
    window: int
    max_output: int


UNKNOWN_PRICES = Prices(
    provider="unknown",
    model="unknown",
    input=1_000_000,
    cache_read=100_000,
    cache_write=1_000_000,
    output=5_000_000,
    window=limits.WINDOW_TOKENS,
    max_output=0,
)
"""For an unknown model: only the ratios matter."""
_CACHE_WRITE_RATES = {"anthropic": {300: 125, 3_600: 200}, "openai": {1_800: 125, 43_200: 250}}
"""Where writing to a cache costs more than input: by the seconds that it stays warm, in hundredths of input."""


def _build_rows(
    provider: str, ttl_s: int, window: int, max_output: int, rows: dict[str, tuple[int, int, int, int]]
) -> tuple[Prices, ...]:
    """Each row has input, cache read, cache write and output, in thousandths of a dollar."""
    return tuple(
        Prices(
            provider=provider,
            model=model,
            input=fresh * 1_000,
            cache_read=read * 1_000,
            cache_write=write * 1_000,
            output=output * 1_000,
            ttl_s=ttl_s,
            window=window,
            max_output=max_output,
        )
        for model, (fresh, read, write, output) in rows.items()
    )


_CLAUDE = {
    "claude-fable-5-1": (10_000, 250, 12_500, 50_000),
    "claude-fable-5": (10_000, 1_000, 12_500, 50_000),
    "claude-opus-5-5": (4_000, 200, 5_000, 20_000),
    "claude-opus-5": (5_000, 500, 6_250, 25_000),
    "claude-opus-4-8": (5_000, 500, 6_250, 25_000),
    "claude-opus-4-7": (5_000, 500, 6_250, 25_000),
    "claude-opus-4-6": (5_000, 500, 6_250, 25_000),
    "claude-sonnet-5-5": (2_000, 100, 2_500, 10_000),
    "claude-sonnet-5": (2_000, 200, 2_500, 10_000),
    "claude-sonnet-4-6": (3_000, 300, 3_750, 15_000),
    "claude-haiku-5-5": (100, 10, 125, 500),
}
_CLAUDE_4_5 = {
    "claude-opus-4-5": (5_000, 500, 6_250, 25_000),
    "claude-sonnet-4-5": (3_000, 300, 3_750, 15_000),
    "claude-haiku-4-5": (1_000, 100, 1_250, 5_000),
}
_GPT_6 = {
    "gpt-6-astra": (10_000, 1_000, 12_500, 50_000),
    "gpt-6.1-sol": (2_000, 100, 2_500, 10_000),
    "gpt-6.1-terra": (1_000, 50, 1_250, 5_000),
    "gpt-6-sol": (2_000, 200, 2_500, 10_000),
    "gpt-6-luna": (100, 10, 125, 500),
    "gpt-5.6": (4_000, 400, 5_000, 20_000),
    "gpt-5.6-sol": (4_000, 400, 5_000, 20_000),
    "gpt-5.6-terra": (2_000, 200, 2_500, 12_000),
    "gpt-5.6-luna": (200, 20, 250, 1_200),
}
_GPT_5_5 = {"gpt-5.5": (5_000, 500, 5_000, 30_000)}
_GPT_5_4 = {"gpt-5.4": (2_500, 250, 2_500, 15_000)}
_GPT_5 = {
    "gpt-5.4-mini": (750, 75, 750, 4_500),
    "gpt-5.4-nano": (200, 20, 200, 1_250),
    "gpt-5.2": (1_750, 175, 1_750, 14_000),
    "gpt-5.1": (1_250, 125, 1_250, 10_000),
    "gpt-5": (1_250, 125, 1_250, 10_000),
    "gpt-5-mini": (250, 25, 250, 2_000),
    "gpt-5-nano": (50, 5, 50, 400),
}
_GPT_4_1 = {
    "gpt-4.1": (2_000, 500, 2_000, 8_000),
    "gpt-4.1-mini": (400, 100, 400, 1_600),
    "gpt-4.1-nano": (100, 25, 100, 400),
}
_GPT_4O = {"gpt-4o": (2_500, 1_250, 2_500, 10_000), "gpt-4o-mini": (150, 75, 150, 600)}
_O = {"o3": (2_000, 500, 2_000, 8_000), "o4-mini": (1_100, 275, 1_100, 4_400)}
_GEMINI = {
    "gemini-4-argon": (4_000, 200, 4_000, 20_000),
    "gemini-3.8-flash": (1_500, 150, 1_500, 7_500),
    "gemini-3.7-flash": (1_500, 150, 1_500, 7_500),
    "gemini-3.6-flash": (1_500, 150, 1_500, 7_500),
    "gemini-3.5-flash": (1_500, 150, 1_500, 9_000),
    "gemini-3.5-flash-lite": (300, 30, 300, 2_500),
    "gemini-3.1-pro": (2_000, 200, 2_000, 12_000),
    "gemini-3.1-flash-lite": (250, 25, 250, 1_500),
    "gemini-3-flash": (500, 50, 500, 3_000),
    "gemini-2.5-pro": (1_250, 125, 1_250, 10_000),
    "gemini-2.5-flash": (300, 30, 300, 2_500),
    "gemini-2.5-flash-lite": (100, 10, 100, 400),
}
_DEEPSEEK = {
    "deepseek-flash": (300, 6, 300, 1_200),
    "deepseek-v4-flash": (300, 6, 300, 1_200),
    "deepseek-v4-pro": (1_320, 44, 1_320, 3_960),
}
PRICES: tuple[Prices, ...] = (
    *_build_rows("anthropic", 300, 1_000_000, 128_000, _CLAUDE),
    *_build_rows("anthropic", 300, 200_000, 64_000, _CLAUDE_4_5),
    *_build_rows("openai", 1_800, 1_050_000, 128_000, _GPT_6),
    *_build_rows("openai", 86_400, 1_050_000, 128_000, _GPT_5_5),
    *_build_rows("openai", 300, 1_050_000, 128_000, _GPT_5_4),
    *_build_rows("openai", 300, 400_000, 128_000, _GPT_5),
    *_build_rows("openai", 300, 1_047_576, 32_768, _GPT_4_1),
    *_build_rows("openai", 300, 128_000, 16_384, _GPT_4O),
    *_build_rows("openai", 300, 200_000, 100_000, _O),
    *_build_rows("google", 300, 1_048_576, 65_536, _GEMINI),
    *_build_rows("deepseek", 3_600, 1_000_000, 384_000, _DEEPSEEK),
)
_VERSION_SUFFIX = re.compile(r"[@:].*|-(?:\d{4,}|v\d+|latest|preview|exp)\b.*", re.DOTALL)
"""What may follow the name of a model and still name the same one. Another word, or a small number, names another
model."""

_BEDROCK_PREFIX = re.compile(r"(?:[a-z-]+\.)?anthropic\.(?=claude-)")
"""What precedes the name of a model of Anthropic on Bedrock: the region or its group, and the provider."""


def find_prices(model: str, table: Sequence[Prices] = PRICES) -> Prices | None:
    """The prices of a model: by its name, or by the longest listed name that it is a version of ("…-20250929"). The
    name of the provider may precede it, with a slash; on Bedrock, with a dot ("us.anthropic.claude-…"). None if it is not
    listed."""
    name = model.lower()
    last = name.rpartition("/")[2]
    return (
        _find_by_name(name, table)
        or _find_by_name(last, table)
        or _find_by_name(_BEDROCK_PREFIX.sub("", last, count=1), table)
    )


def _find_by_name(name: str, table: Sequence[Prices]) -> Prices | None:
    best: Prices | None = None
    for prices in table:
        listed = prices.model.lower()
        if name == listed:
            return prices
        if name.startswith(listed) and _VERSION_SUFFIX.fullmatch(name, len(listed)):
            best = prices if best is None or len(listed) > len(best.model) else best
    return best


def with_ttl(prices: Prices, ttl_s: int) -> Prices:
    """The prices for a cache that stays warm for so many seconds, where the provider sells that: Anthropic for 300 or
    3,600. Where writing to a cache costs no more than input, the price is the same for any time."""
    check_whole("ttl_s", ttl_s)
    if ttl_s == prices.ttl_s or prices.cache_write == prices.input:
        return msgspec.structs.replace(prices, ttl_s=ttl_s)
    hundredths = _CACHE_WRITE_RATES.get(prices.provider, {}).get(ttl_s)
    if hundredths is None:
        reason = f"the price of {prices.provider} for a cache that stays warm for {ttl_s} seconds is unknown"
        raise InvalidArgument(argument="ttl_s", reason=reason)
    return msgspec.structs.replace(prices, cache_write=prices.input * hundredths // 100, ttl_s=ttl_s)


def check_prices(value: object) -> Prices:
    """The value, if these are valid prices."""
    if not isinstance(value, Prices):
        raise InvalidArgument(argument="prices", reason=f"pass Prices, not {describe_value(value)}")
    check_name("prices.provider", value.provider)
    check_name("prices.model", value.model)
    for name in ("input", "cache_read", "cache_write", "output"):
        check_whole(f"prices.{name}", getattr(value, name), high=MAX_PRICE)
    check_whole("prices.ttl_s", value.ttl_s)
    check_whole("prices.window", value.window, low=2, high=limits.WINDOW_TOKENS)
    check_whole("prices.max_output", value.max_output, high=value.window - 1)
    if not value.cache_read <= value.input <= value.cache_write:
        reason = (
            f"cache_read is {value.cache_read}, input {value.input} and cache_write {value.cache_write}:"
            " each must be at least the one before"
        )
        raise InvalidArgument(argument="prices", reason=reason)
    return value
