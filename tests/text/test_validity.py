"""Periods of validity that values state: which are read, which are not, and what they amount to."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.validity import Validity, read_validity

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""A Monday."""


def us(at: datetime) -> int:
    return int(at.timestamp()) * 1_000_000


def read(value: object, now: datetime = NOW) -> Validity | None:
    return read_validity(value, us(now))  # type: ignore[arg-type]


def end_of(year: int, month: int, day: int) -> int:
    """The first moment after a day."""
    return us(datetime(year, month, day, tzinfo=UTC) + timedelta(days=1))


def start_of(year: int, month: int, day: int) -> int:
    return us(datetime(year, month, day, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "last"),
    [
        ("22% (valid through 31 January)", (2027, 1, 31)),
        ("22% (valid through 2026-01-31)", (2026, 1, 31)),
        ("22% (Valid until January 31st, 2027)", (2027, 1, 31)),
        ("22% [valid till 31.12.2026]", (2026, 12, 31)),
        ("Discount for Northwind is 22%, valid through March 15", (2026, 3, 15)),
        ("Discount for Northwind is 22%; good until the 15th of March 2026", (2026, 3, 15)),
        ("20 euros a month - valid to 2026-06-30", (2026, 6, 30)),
        ("20 euros a month – in force until 30 June.", (2026, 6, 30)),
        ("SAVE20 (expires 2025-03-01)", (2025, 3, 1)),
        ("SAVE20, expires on 1 April", (2026, 4, 1)),
        ("SAVE20 (expiry: 2026-04-01)", (2026, 4, 1)),
        ("SAVE20 (exp. 2026-04-01)", (2026, 4, 1)),
        ("expires 2026-04-01", (2026, 4, 1)),
        ("until Friday", (2026, 3, 6)),
        ("Anna stands in for Ben (until Friday)", (2026, 3, 6)),
        ("Anna stands in for Ben, until next Friday", (2026, 3, 13)),
        ("Anna stands in for Ben, through tomorrow", (2026, 3, 3)),
        ("5,000 euros (through end of Q2)", (2026, 6, 30)),
        ("through end of Q2", (2026, 6, 30)),
        ("5,000 euros (until the end of the quarter)", (2026, 3, 31)),
        ("5,000 euros (through the end of March 2027)", (2027, 3, 31)),
        ("5,000 euros (until the end of next month)", (2026, 4, 30)),
        ("5,000 euros (until the end of the week)", (2026, 3, 8)),
        ("5,000 euros (until the end of 2026)", (2026, 12, 31)),
        ("5,000 euros (through Q1 2027)", (2027, 3, 31)),
        ("5,000 euros (through April)", (2026, 4, 30)),
        ("[valid until 2026-05-31] 5,000 euros", (2026, 5, 31)),
    ],
)
def test_the_last_day_of_a_period_is_read(value: str, last: tuple[int, int, int]) -> None:
    found = read(value)
    assert found is not None
    assert found.until_us == end_of(*last)
    assert found.from_us is None


@pytest.mark.parametrize(
    ("value", "first"),
    [
        ("950 euros (effective from 1 May)", (2026, 5, 1)),
        ("950 euros (effective 1 May 2026)", (2026, 5, 1)),
        ("950 euros, from 1 May", (2026, 5, 1)),
        ("950 euros; as of 2026-05-01", (2026, 5, 1)),
        ("950 euros (starting next Monday)", (2026, 3, 9)),
        ("950 euros (valid from the beginning of Q2)", (2026, 4, 1)),
        ("950 euros (from April onwards)", (2026, 4, 1)),
        ("950 euros (effective 1 February)", (2026, 2, 1)),
        ("950 euros, with effect from 15 January", (2026, 1, 15)),
    ],
)
def test_the_first_day_of_a_period_is_read(value: str, first: tuple[int, int, int]) -> None:
    found = read(value)
    assert found is not None
    assert found.from_us == start_of(*first)
    assert found.until_us is None


@pytest.mark.parametrize(
    "value",
    [
        "18% (valid from 1 May until 30 June)",
        "18% (valid 1 May to 30 June)",
        "18% (from 1 May 2026 through 30 June 2026)",
        "18%, effective 2026-05-01 – 2026-06-30",
        "18%; valid 1 May - 30 June",
        "from 1 May until 30 June",
    ],
)
def test_both_ends_are_read(value: str) -> None:
    found = read(value)
    assert found is not None
    assert (found.from_us, found.until_us) == (start_of(2026, 5, 1), end_of(2026, 6, 30))


@pytest.mark.parametrize(
    ("value", "until"),
    [
        ("22% (valid until 2026-03-05 18:00 UTC)", datetime(2026, 3, 5, 18, 0, tzinfo=UTC)),
        ("22% (valid until 2026-03-05T18:00Z)", datetime(2026, 3, 5, 18, 0, tzinfo=UTC)),
        ("22% (until 5 March at 6 pm)", datetime(2026, 3, 5, 18, 0, tzinfo=UTC)),
    ],
)
def test_a_time_of_the_day_is_read(value: str, until: datetime) -> None:
    found = read(value)
    assert found is not None
    assert found.until_us == us(until)


@pytest.mark.parametrize(
    "value",
    [
        "open until 18:00",
        "open until 18:00 on Fridays",
        "Open (until 18:00)",
        "Open Monday to Friday, until 6 pm",
        "Monday through Friday",
        "Mon through Fri, 9 to 5",
        "Opening hours: Monday (through Friday)",
        "open Tuesday, through Sunday",
        "every week (Monday until Friday)",
        "Valid Street 5",
        "5 Valid Street, Springfield",
        "Expires Road 12",
        "Until (a band)",
        "Until Tomorrow (album)",
        "valid",
        "valid credentials required",
        "effective",
        "(valid)",
        "an effective treatment, from Dr. May",
        "from Berlin to Hamburg",
        "Berlin (from Hamburg)",
        "June (from accounting)",
        "April",
        "31 January",
        "2026-01-31",
        "The certificate of the server expires 2026-04-01 and has to be renewed",
        "postponed until Friday",
        "Deadline 31 March, extended until 5 April",
        "not valid until 1 May",
        "22% (not valid until 1 May)",
        "22% (valid until further notice)",
        "22% (valid until revoked)",
        "22% (valid through)",
        "22% (valid through 31 February)",
        "22% (valid through 03/04/2026)",
        "22% (valid through 31 January or so)",
        "22% (valid from 30 June 2026 until 1 May 2026)",
        "22% until 2026-01-31?",
        "Plan A 20%, Plan B 30% (until Friday)",
        "Plan A 20%; Plan B 30%, until Friday",
        "Plan A is 20% (until Friday). Plan B is 30% (until Monday)",
        "Ask Ben.\nHe knows, until Friday",
        'He wrote "22%, valid through 31 January"',
        "Is it 22% (valid through 31 January)?",
        "",
        " ",
        None,
        True,
        20260131,
        ["22% (valid through 31 January)"],
        {"rate": "22% (valid through 31 January)"},
    ],
)
def test_what_is_no_plain_period_is_left_alone(value: object) -> None:
    assert read(value) is None


@pytest.mark.parametrize(
    ("value", "resolved"),
    [("until Friday", False), ("20 (until the end of the month)", False), ("20 (until 5 May)", True)],
)
def test_it_is_known_whether_the_text_tells_the_day_itself(value: str, resolved: bool) -> None:
    found = read(value)
    assert found is not None
    assert found.names_the_day is resolved


DAYS = st.dates(date(1971, 1, 1), date(2099, 12, 31))


MOMENTS = DAYS.map(lambda day: datetime(day.year, day.month, day.day, 9, 30, tzinfo=UTC))


@given(last=DAYS, now=MOMENTS)
def test_a_day_with_its_year_is_that_day_whenever_it_is_read(last: date, now: datetime) -> None:
    for written in (last.isoformat(), f"{last.day} {last:%B} {last.year}", f"{last:%b} {last.day}, {last.year}"):
        found = read(f"20 (valid through {written})", now)
        assert found is not None
        assert found.until_us == end_of(last.year, last.month, last.day)


@given(now=MOMENTS, day=st.sampled_from(["Monday", "3 May", "Q3"]))
def test_without_a_year_a_period_never_ends_in_the_past(now: datetime, day: str) -> None:
    found = read(f"20 (until {day})", now)
    assert found is not None
    assert found.until_us is not None
    assert us(now) < found.until_us <= us(now + timedelta(days=367))


@given(st.text(max_size=200))
def test_any_text_gives_a_sound_period_or_none(text: str) -> None:
    for value in (text, f"20 ({text})", f"20, until {text}", f"valid from {text} to {text}"):
        found = read(value)
        assert found == read(value)
        if found is not None:
            assert found.from_us is not None or found.until_us is not None
            assert found.from_us is None or found.until_us is None or 0 <= found.from_us < found.until_us


@pytest.mark.parametrize(
    "text", ["(" * 60_000, "valid " * 10_000, ", until " * 8_000, "(until 1 " * 8_000, " - " * 20_000]
)
def test_no_text_keeps_it_busy(text: str) -> None:
    began = time.thread_time()
    for value in (text, f"{text})", f"{text}Friday", f"20 ({text})"):
        read(value)
    assert time.thread_time() - began < 1.0


@pytest.mark.parametrize("now_us", [0, -1, 1 << 62, 253_370_764_800_000_000])
def test_a_clock_that_no_calendar_knows_reads_nothing(now_us: int) -> None:
    assert read_validity("20 (until Friday)", now_us) is None
