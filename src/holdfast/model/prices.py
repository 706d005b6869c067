"""What models cost, as data: to be checked, and to be overridden.

As of November 2026, from the providers' price lists: for text, at the standard rate, in prompts that are short.
Long ones cost more with some: OpenAI takes twice as much from 272,000 tokens on, Gemini Pro from 200,000, and Claude Haiku
5.5 five times as much from 100,000. Where an introductory price is about to end, the one that follows stands here; of
DeepSeek's two rates, that of its busy hours. Where a provider does not say how long a cache stays warm, it is the shortest
time that one would count on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from holdfast.errors import InvalidContent, shown
from holdfast.model import limits
from holdfast.model.names import checked_name, checked_whole
from holdfast.model.plan import Prices

HIGHEST = 1_000_000_000
"""The most that a million tokens may cost, in micro-dollars: so what a window costs is a number that stores can hold."""

UNKNOWN = Prices(
    provider="unknown",
    model="unknown",
    input=1_000_000,
    cache_read=100_000,
    cache_write=1_000_000,
    output=5_000_000,
    window=limits.WINDOW_TOKENS,
    max_output=0,
)
"""For a model of which nothing is known: only what is dearer than what counts."""

_WRITES = {
    "anthropic": {300: 125, 3_600: 200},
    "openai": {1_800: 125, 43_200: 250},
}
"""Where writing to a cache costs more than input: by seconds that it is to stay warm, how many hundredths of it."""


def _table(
    provider: str, ttl_s: int, window: int, max_output: int, rows: dict[str, tuple[int, int, int, int]]
) -> tuple[Prices, ...]:
    """Rows have input, what is read from the cache, what is written to it, and output, in thousandths of a dollar."""
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
    *_table("anthropic", 300, 1_000_000, 128_000, _CLAUDE),
    *_table("anthropic", 300, 200_000, 64_000, _CLAUDE_4_5),
    *_table("openai", 1_800, 1_050_000, 128_000, _GPT_6),
    *_table("openai", 86_400, 1_050_000, 128_000, _GPT_5_5),
    *_table("openai", 300, 1_050_000, 128_000, _GPT_5_4),
    *_table("openai", 300, 400_000, 128_000, _GPT_5),
    *_table("openai", 300, 1_047_576, 32_768, _GPT_4_1),
    *_table("openai", 300, 128_000, 16_384, _GPT_4O),
    *_table("openai", 300, 200_000, 100_000, _O),
    *_table("google", 300, 1_048_576, 65_536, _GEMINI),
    *_table("deepseek", 3_600, 1_000_000, 384_000, _DEEPSEEK),
)

_VERSION = re.compile(r"[@:].*|-(?:\d{4,}|v\d+|latest|preview|exp)\b.*", re.DOTALL)
"""What may follow the name of a model and still mean the same. Another word, or a small number, makes it another model."""


def prices_of(model: str, table: Sequence[Prices] = PRICES) -> Prices | None:
    """What a model costs: by its name, or by the longest known one that it is a version of ("…-20250929"). Who provides it
    may stand before a slash."""
    name = model.lower()
    return _named(name, table) or _named(name.rpartition("/")[2], table)


def _named(name: str, table: Sequence[Prices]) -> Prices | None:
    best: Prices | None = None
    for prices in table:
        known = prices.model.lower()
        if name == known:
            return prices
        if name.startswith(known) and _VERSION.fullmatch(name, len(known)):
            best = prices if best is None or len(known) > len(best.model) else best
    return best


def with_ttl(prices: Prices, ttl_s: int) -> Prices:
    """The same for a cache that stays warm for so many seconds, where the provider sells that: Anthropic for 300 or 3,600.
    Where writing to a cache costs no more than input, it costs that for any time."""
    checked_whole("ttl_s", ttl_s)
    if ttl_s == prices.ttl_s or prices.cache_write == prices.input:
        return msgspec.structs.replace(prices, ttl_s=ttl_s)
    hundredths = _WRITES.get(prices.provider, {}).get(ttl_s)
    if hundredths is None:
        reason = f"what {prices.provider} takes for a cache that stays warm for {ttl_s} seconds is not known"
        raise InvalidContent(reason=reason)
    return msgspec.structs.replace(prices, cache_write=prices.input * hundredths // 100, ttl_s=ttl_s)


def checked_prices(value: object) -> Prices:
    """The value, if these are prices that can be reckoned with."""
    if not isinstance(value, Prices):
        raise InvalidContent(reason=f"the prices are {shown(value)}, not Prices")
    checked_name("provider", value.provider)
    checked_name("model", value.model)
    for what in ("input", "cache_read", "cache_write", "output"):
        checked_whole(what, getattr(value, what), high=HIGHEST)
    checked_whole("ttl_s", value.ttl_s)
    checked_whole("window", value.window, low=2, high=limits.WINDOW_TOKENS)
    checked_whole("max_output", value.max_output, low=1, high=value.window - 1)
    if not value.cache_read <= value.input <= value.cache_write:
        reason = (
            f"reading from a cache costs {value.cache_read}, input {value.input} and writing to a cache"
            f" {value.cache_write}: each must be at least the one before"
        )
        raise InvalidContent(reason=reason)
    return value
