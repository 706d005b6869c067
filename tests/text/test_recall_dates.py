"""The days that a question names."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.recall.dates import DAY_US, DayRange, find_days, fit_days

ASKED = datetime(2026, 3, 18, 12, tzinfo=UTC)  # a Wednesday
ASKED_US = int(ASKED.timestamp()) * 1_000_000
EPOCH = date(1970, 1, 1)


def days(first: str, last: str | None = None) -> DayRange:
    return DayRange(*((date.fromisoformat(text) - EPOCH).days for text in (first, last or first)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What did I order on 7 May 2023?", days("2023-05-07")),
        ("the parcel of May 7th, 2023", days("2023-05-07")),
        ("the parcel of the 7th of May", days("2025-05-07")),
        ("Did it rain on March 1?", days("2026-03-01")),
        ("Did it rain on Mar. 20?", days("2025-03-20")),
        ("Who called on 2025-12-31?", days("2025-12-31")),
        ("Where was I in February 2024?", days("2024-02-01", "2024-02-29")),
        ("Where was I in April?", days("2025-04-01", "2025-04-30")),
        ("Where was I in December?", days("2025-12-01", "2025-12-31")),
        ("Which books came out in 2021?", days("2021-01-01", "2021-12-31")),
        ("What did we have for lunch yesterday?", days("2026-03-17")),
        ("What did she say last Friday?", days("2026-03-13")),
        ("What did she say on Wednesday?", days("2026-03-11")),
        ("the invoice of two weeks ago", days("2026-03-01", "2026-03-07")),
        ("the invoice of 3 days ago", days("2026-03-15")),
        ("How often did I run in the last 2 weeks?", days("2026-03-04", "2026-03-18")),
        ("Which call did I miss last week?", days("2026-03-04", "2026-03-17")),
        ("How much did I spend this month?", days("2026-02-16", "2026-03-18")),
        ("29 February", days("2024-02-29")),
    ],
)
def test_a_date_is_resolved_against_the_time_of_asking(text: str, expected: DayRange) -> None:
    assert find_days(text, ASKED_US) == (expected,)


@pytest.mark.parametrize(
    "text", ["", "May I march on?", "31 February 2023", "2023-02-30", "at 7", "route 66", "99 May", "an august body"]
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert find_days(text, ASKED_US) == ()


def test_several_dates_are_listed_once_each() -> None:
    assert find_days("on 7 May 2023, in June 2023, and on May 7, 2023", ASKED_US) == (
        days("2023-05-07"),
        days("2023-06-01", "2023-06-30"),
    )


def test_a_time_fits_best_within_the_days_then_soon_after_then_just_before() -> None:
    span = days("2026-01-10", "2026-01-12")
    inside, after, before, long_after = (
        fit_days(span, days(text).first * DAY_US) for text in ("2026-01-11", "2026-01-17", "2026-01-05", "2026-06-01")
    )
    assert inside == 1.0
    assert 1 > after > before > long_after > 0


@given(st.text(max_size=200), st.integers(-(2**62), 2**62))
def test_any_text_at_any_time_is_read(text: str, asked_us: int) -> None:
    for span in find_days(text, asked_us):
        assert span.first <= span.last
        assert 0 <= fit_days(span, asked_us) <= 1


@given(st.integers(1, 12), st.integers(1, 31), st.integers(0, 40_000))
def test_a_date_without_a_year_is_not_in_the_future(month: int, day: int, asked: int) -> None:
    name = date(2024, month, 1).strftime("%B")
    for span in find_days(f"on {day} {name}", asked * DAY_US):
        assert asked - 9 * 366 < span.first == span.last <= asked
