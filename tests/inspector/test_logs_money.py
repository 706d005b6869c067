"""Bills, the cache model and cache breaks, as pure functions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.inspector.logs import money
from holdfast.inspector.logs.entries import ModelFigures
from holdfast.inspector.logs.money import PromptShape
from holdfast.inspector.logs.traces import TraceCall
from holdfast.model.content import Usage
from holdfast.model.history.bills import CallBill
from holdfast.model.history.prices import find_prices

PRICES = find_prices("claude-opus-4-5")
assert PRICES is not None
SECOND = 1_000_000


def call(read: int, write: int, at_s: int, *, fresh: int = 0, model: str = "m", **fields: object) -> TraceCall:
    usage = Usage(read + write + fresh, 10, read, write)
    figures = ModelFigures(model=model, usage=usage, **fields)  # type: ignore[arg-type]
    return TraceCall(0, figures, 0, 0, at_s * SECOND, at_s * SECOND)


def find(*calls: TraceCall) -> list[money.BreakFigures]:
    return money.find_breaks(calls, [PRICES] * len(calls))


def test_a_cache_that_is_read_again_is_kept() -> None:
    assert find(call(0, 50_000, 10), call(50_000, 900, 20), call(50_900, 400, 30)) == []


def test_a_break_costs_what_writing_costs_more_than_reading() -> None:
    (found,) = find(call(0, 50_000, 1_000), call(20_000, 30_500, 1_060))
    assert found.tokens == 30_000
    assert found.pico == 30_000 * (6_250_000 - 500_000)
    assert found.cause == "unknown"


def test_the_causes_that_a_log_shows() -> None:
    first = call(0, 50_000, 1_000)
    assert find(first, call(0, 50_500, 1_400))[0].cause == "idle"
    assert find(first, call(0, 50_500, 1_010, model="n"))[0].cause == "model"
    assert find(call(0, 50_000, 1_000, system="a"), call(0, 50_500, 1_010, system="b"))[:0] == []
    later = call(9_000, 3_000, 1_010)
    later.change = "compaction"
    assert find(first, later)[0].cause == "compaction"
    kept = call(0, 50_000, 1_000, system="a", tools="t")
    warm = [call(0, 50_500, 1_010, system="b", tools="t"), call(50_500, 90, 1_020)]
    assert find(kept, *warm)[0].cause == "system"
    assert find(kept, call(0, 50_500, 1_010, system="a", tools="u"), warm[1])[0].cause == "tools"


def test_an_hour_of_cache_is_not_idle_after_six_minutes() -> None:
    first = call(0, 50_000, 1_000, long_writes=50_000)
    (found,) = find(first, call(10, 50_500, 1_400, long_writes=50_500))
    assert found.cause == "unknown"
    bill = money.bill_figures(first.figures)
    assert bill is not None
    assert bill.price(PRICES) == 50_000 * 10_000_000 + 10 * 25_000_000


def test_a_cache_that_was_read_late_stays_warm_for_an_hour() -> None:
    first, late = call(0, 50_000, 1_000), call(50_000, 500, 1_900)
    assert money.find_ttl([first, late], PRICES) == 3_600
    assert money.find_ttl([first, call(9_000, 41_500, 1_900)], PRICES) == 300
    (found,) = find(first, late, call(0, 51_000, 2_400))
    assert found.cause == "unknown"


def test_a_provider_without_figures_of_a_cache_has_no_breaks() -> None:
    assert find(call(0, 0, 10, fresh=50_000), call(0, 0, 20, fresh=60_000)) == []


def test_a_provider_that_says_only_what_was_read() -> None:
    calls = [call(0, 0, 10, fresh=50_000), call(49_920, 0, 20, fresh=900), call(1_024, 0, 30, fresh=51_000)]
    (found,) = money.find_breaks(calls, [PRICES] * 3)
    assert (found.call, found.tokens) == (2, 50_816 - 1_024)


def test_the_cache_model_reads_what_two_prompts_share_until_it_is_cold() -> None:
    calls = [call(0, 1, at) for at in (10, 20, 900)]
    prompts = [PromptShape(1_000, 0), PromptShape(1_500, 1_000, 200), PromptShape(1_600, 1_300, 200, 400)]
    bills = money.model_bills(prompts, calls, [300] * 3)
    assert [(bill.read, bill.write, bill.fresh) for bill in bills] == [
        (0, 1_000, 0),
        (1_000, 300, 200),
        (400, 1_000, 200),
    ]


FIGURES = st.integers(0, 300_000)


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES, st.integers(0, 900)), max_size=12))
def test_breaks_and_bills_are_bounded(rows: list[tuple[int, int, int, int]]) -> None:
    at = 0
    calls = []
    for read, write, fresh, pause in rows:
        at += pause
        calls.append(call(read, write, at, fresh=fresh))
    for found in money.find_breaks(calls, [PRICES] * len(calls)):
        bill = money.bill_figures(calls[found.call].figures)
        assert bill is not None
        assert 0 < found.tokens <= bill.tokens - bill.read
        assert 0 <= found.pico <= bill.price(PRICES)


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES, FIGURES), max_size=8))
def test_the_parts_of_a_modelled_bill_add_up(rows: list[tuple[int, int, int, int]]) -> None:
    prompts = [PromptShape(*row) for row in rows]
    calls = [call(0, 1, 10 * number) for number in range(len(rows))]
    for prompt, bill in zip(prompts, money.model_bills(prompts, calls, [300] * len(rows)), strict=True):
        assert bill.tokens == prompt.tokens
        assert min(bill.read, bill.write, bill.fresh) >= 0


@given(FIGURES, FIGURES, FIGURES, FIGURES)
def test_a_bill_of_usage_has_all_its_tokens(whole: int, read: int, write: int, long: int) -> None:
    bill = money.bill_figures(ModelFigures(usage=Usage(whole, 1, read, write), long_writes=long))
    assert bill is not None
    assert bill.tokens == whole
    assert CallBill().price(PRICES) == 0
