"""Prices: a table to reckon with, found by any name of a model, and a user's own taken only if they make sense."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument, InvalidName, InvalidNumber
from holdfast.model import limits
from holdfast.model.history.prices import MAX_PRICE, PRICES, Prices, check_prices, find_prices, with_ttl
from tests.support import figure

OWN = Prices(
    provider="own", model="m", input=100, cache_read=10, cache_write=125, output=500, window=1_000, max_output=100
)


@pytest.mark.parametrize("prices", PRICES, ids=lambda prices: prices.model)
def test_every_row_is_one_that_a_user_might_have_passed(prices: Prices) -> None:
    assert check_prices(prices) is prices
    assert prices.cache_read < prices.input < prices.output
    assert prices.ttl_s >= 300


def test_the_table_has_each_model_once_and_four_providers() -> None:
    assert len({prices.model for prices in PRICES}) == len(PRICES)
    assert {prices.provider for prices in PRICES} == {"anthropic", "openai", "google", "deepseek"}


def test_what_anthropic_takes_for_writing_is_what_it_says_of_five_minutes() -> None:
    """By rule and by table: who changed one of them forgot the other."""
    for prices in PRICES:
        if prices.provider == "anthropic":
            hour = with_ttl(prices, 3_600)
            assert hour == msgspec.structs.replace(prices, cache_write=prices.input * 2, ttl_s=3_600)
            assert with_ttl(hour, 300) == prices
        elif prices.cache_write > prices.input:
            assert with_ttl(with_ttl(prices, 43_200), 1_800) == prices


def test_a_cache_that_is_free_to_write_is_free_for_any_time() -> None:
    prices = find_prices("gpt-4.1")
    assert prices is not None
    assert with_ttl(prices, 86_400) == msgspec.structs.replace(prices, ttl_s=86_400)


def test_a_time_that_no_one_sells_is_refused() -> None:
    sonnet = find_prices("claude-sonnet-5-5")
    assert sonnet is not None
    assert with_ttl(sonnet, sonnet.ttl_s) == sonnet
    for prices, ttl_s in [(sonnet, 600), (OWN, 600)]:
        with pytest.raises(InvalidArgument, match=f"{ttl_s} seconds"):
            with_ttl(prices, ttl_s)
    for other in (-1, True, 1.5):
        with pytest.raises(InvalidNumber, match="ttl_s"):
            with_ttl(sonnet, other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("openrouter/anthropic/claude-haiku-4-5:thinking", "claude-haiku-4-5"),
        ("Claude-Opus-5-5", "claude-opus-5-5"),
        ("claude-opus-5-20260724-v1:0", "claude-opus-5"),
        ("models/gemini-3.1-pro-preview", "gemini-3.1-pro"),
        ("gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("deepseek-v4-pro-0813", "deepseek-v4-pro"),
        ("gpt-5-pro", None),
        ("gpt-5.6-sol-pro", None),
        ("o3-mini", None),
        ("claude-opus-4", None),
        ("claude-opus-5-6", None),
        ("claude-opus-5x", None),
        ("claude-", None),
        ("anthropic/", None),
        ("", None),
    ],
)
def test_a_model_is_found_by_its_versions_and_no_other_is_taken_for_it(name: str, model: str | None) -> None:
    found = find_prices(name)
    assert (found and found.model) == model


def test_the_longest_known_name_wins_in_any_order() -> None:
    rows = [msgspec.structs.replace(OWN, model=name) for name in ("m", "m-preview", "m-preview-2025")]
    for table in (rows, rows[::-1]):
        found = [find_prices(name, table) for name in ("m-preview-2025:1", "m-preview-2026", "m-2025", "m", "m2025")]
        assert [each and each.model for each in found] == ["m-preview-2025", "m-preview", "m", "m", None]


@pytest.mark.parametrize(
    "name",
    [
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "global.anthropic.claude-sonnet-4-5-v1",
        "bedrock/converse/us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_a_model_is_found_by_its_name_on_bedrock(name: str) -> None:
    assert find_prices(name) == find_prices("claude-sonnet-4-5")
    assert find_prices("x.y.anthropic.claude-sonnet-4-5") is None
    assert find_prices("us.anthropic.claude-unheard-of") is None


def test_a_users_own_table_may_have_names_with_slashes() -> None:
    table = [OWN, msgspec.structs.replace(OWN, model="House/M", input=50)]
    assert find_prices("house/m-latest", table) is table[1]
    assert find_prices("other/m", table) is OWN


@settings(max_examples=figure(50, 5_000), deadline=None)
@given(st.text(), st.sampled_from(PRICES), st.sampled_from(["", "-", "@", ":", "/", "-2026", "-v1"]))
def test_any_text_has_prices_or_none_and_a_known_name_behind_a_slash_is_that_model(
    text: str, prices: Prices, between: str
) -> None:
    for name in (text, prices.model + between + text, text + between + prices.model):
        found = find_prices(name)
        assert found is None or found.model in name.lower()
    assert find_prices(f"{text}/{prices.model}") is prices


@settings(max_examples=figure(60, 10_000), deadline=None)
@given(st.data())
def test_one_figure_that_makes_no_sense_is_refused_and_any_that_make_sense_are_taken(data: st.DataObject) -> None:
    read, fresh, write = sorted(data.draw(st.lists(st.integers(0, MAX_PRICE), min_size=3, max_size=3)))
    window = data.draw(st.integers(2, limits.WINDOW_TOKENS))
    good = Prices(
        provider="p",
        model="m",
        input=fresh,
        cache_read=read,
        cache_write=write,
        output=data.draw(st.integers(0, MAX_PRICE)),
        ttl_s=data.draw(st.integers(0, limits.WHOLE_NUMBER)),
        window=window,
        max_output=data.draw(st.integers(1, window - 1)),
    )
    assert check_prices(good) is good
    field, values = data.draw(
        st.sampled_from(
            [
                ("input", (write + 1, read - 1)),
                ("cache_read", (fresh + 1,)),
                ("cache_write", (fresh - 1, MAX_PRICE + 1)),
                ("output", (MAX_PRICE + 1,)),
                ("window", (good.max_output, 1, limits.WINDOW_TOKENS + 1)),
                ("max_output", (0, window)),
                ("ttl_s", (limits.WHOLE_NUMBER + 1,)),
            ]
        )
    )
    value = data.draw(st.sampled_from([*values, -1, True, None, 1.5, "1", 1 << 200]))
    with pytest.raises((InvalidArgument, InvalidNumber)):
        check_prices(msgspec.structs.replace(good, **{field: value}))


def test_names_and_other_things_are_looked_at_too() -> None:
    for field in ("provider", "model"):
        for value in ("", "a\nb", None, 3):
            with pytest.raises(InvalidName, match=field):
                check_prices(msgspec.structs.replace(OWN, **{field: value}))
    for other in (None, {"input": 1}, 3, "gpt-5"):
        with pytest.raises(InvalidArgument, match="pass Prices"):
            check_prices(other)
