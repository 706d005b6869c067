"""The normal form of terms: however a value is written, it compares as the same; what differs in what it says does not."""

from __future__ import annotations

import datetime
import itertools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support import figure

from holdfast.text.guard.terms import Terms, details_agree, fold_word

EXAMPLES = settings(max_examples=figure(50, 5_000), deadline=None)


def is_same(one: str, other: str) -> bool:
    first, second = Terms(one), Terms(other)
    places, others = first.significant_indexes(), second.significant_indexes()
    return [first.norms[at] for at in places] == [second.norms[at] for at in others] and all(
        details_agree(first.details.get(at), second.details.get(of)) for at, of in zip(places, others, strict=True)
    )


SPELLINGS = {
    "a time in the morning": "9:30 am|9:30am|9:30 a.m.|9.30 am|09:30 in the morning|half past nine in the morning",
    "a time that may be either": "9:30|09:30|half past nine|half past 9|9:30 am|9:30 pm|21:30",
    "a time in the evening": "21:30|9:30 pm|9.30 PM|half past nine in the evening|9:30 in the evening|9:30 at night",
    "a quarter": "15:15|3:15 pm|quarter past three in the afternoon|3.15 p.m.",
    "a quarter to": "6:45|06:45|quarter to seven|quarter to 7",
    "an hour": "19:00|7 pm|7pm|seven pm|7 o'clock in the evening|seven in the evening",
    "noon": "noon|midday|12 pm|12:00|12 o'clock",
    "midnight": "midnight|12 am|0:00|00:00|12:00 am",
    "a date": "March 6th|March 6|Mar 6|6 March|6 Mar|6th of March|the 6th of March|6 March 2026|March 6, 2026|2026-03-06"
    "|3/6|March the 6th|06 March|the sixth of March|March sixth|MARCH 6TH",
    "a day": "the 6th|6th|sixth",
    "a weekday": "Friday|fri|next Friday|FRIDAY",
    "a weekday with a time": "Tuesday at 3 pm|Tuesday 15:00|tues, 3pm",
    "a number": "25|twenty-five|twenty five|25.0",
    "a large number": "2000|2,000|two thousand|2k|2 thousand",
    "hundreds": "350|three hundred and fifty|three hundred fifty|350.00",
    "a dozen": "12|a dozen|twelve",
    "a fraction": "1.5|1.50",
    "fifteen hundred": "1500|1,500|1.5k|fifteen hundred",
    "millions": "2000000|2,000,000|2 million|two million",
    "euros": "5,000 euros|€5,000|€ 5,000|5k euros|5000 EUR|EUR 5,000|€5k|5000€|five thousand euros|5,000",
    "dollars": "$5,000|5k dollars|5000 USD|USD 5,000|US$5,000|5,000 bucks|$5k|$5,000.00",
    "pounds": "£20|20 pounds|20 GBP|twenty pounds|GBP 20",
    "percent": "15%|15 %|15 percent|15 per cent|fifteen percent",
    "a telephone number": "+1 555 123 4567|(555) 123-4567|555.123.4567|555-123-4567|+15551234567|5551234567",
    "one with a country": "+49 30 1234567|030 1234567|+49 (0)30 1234567|+4930 1234567",
    "another country": "+44 20 7946 0958|020 7946 0958|+442079460958",
    "a URL": "https://example.com/a|http://www.example.com/a/|www.example.com/a|HTTPS://Example.com/a|https://example.com/a.",
    "an e-mail address": "ada@example.com|Ada@Example.COM",
    "an account": "DE89 3704 0044 0532 0130 00|DE89370400440532013000",
    "an address": "12 Main St|12 Main Street|12 Main St.|12, main  street|12 MAIN STREET",
    "an apartment": "12 Main St Apt 4|12 Main Street, Apartment 4|12 Main St., Apt. 4",
    "an avenue": "5 Oak Ave|5 Oak Avenue|5 oak av",
    "other roads": "7 Elm Rd|7 Elm Road",
    "boulevard": "9 Sunset Blvd|9 Sunset Boulevard",
    "lane": "3 Park Ln|3 Park Lane",
    "square": "4 Union Sq|4 Union Square",
    "drive": "6 Hill Dr|6 Hill Drive",
    "kilometers": "5 km|5km|5 kilometers|five kilometres|5 kilometre",
    "kilograms": "10 kg|10kg|10 kilos|ten kilograms",
    "hours": "2 hours|2h|2 hrs|two hours|2 hr|2 Hours",
    "minutes": "30 minutes|30 min|thirty minutes|30min",
    "nights": "5 nights|five nights|Five Nights",
    "a plural": "rooms|room|Rooms",
    "a plural with es": "boxes|box",
    "classes": "classes|class",
    "a plural with ies": "cities|city",
    "colour": "colour|color|colours|Colors",
    "organise": "organise|organize",
    "centre": "centre|center",
    "grey": "grey|gray",
    "catalogue": "catalogue|catalog",
    "travelled": "travelled|traveled",
    "analyse": "analyse|analyze",
    "favourite": "favourite|favorite",
    "defence": "defence|defense",
    "minor words": "the house on the hill|house hill|a house at the hill",
}


TOLERANT = {"a time that may be either"}
"""Only the first of these agrees with each: the others say more, and not the same."""


@pytest.mark.parametrize("spellings", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_the_ways_to_write_a_value_compare_as_one(spellings: str) -> None:
    first, *others = spellings.split("|")
    assert [each for each in others if not is_same(first, each)] == []
    assert [each for each in others if not is_same(each, first)] == []


@pytest.mark.parametrize("kind", sorted(SPELLINGS.keys() - TOLERANT - {"euros", "a date"}))
def test_any_two_of_them_do(kind: str) -> None:
    pairs = itertools.combinations(SPELLINGS[kind].split("|"), 2)
    assert [pair for pair in pairs if not is_same(*pair)] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("9:30 am", "9:30 pm"),
        ("9:30 am", "21:30"),
        ("9:30", "9:31"),
        ("noon", "midnight"),
        ("12:00 am", "12:00 pm"),
        ("10", "10:00"),
        ("March 6", "April 6"),
        ("March 6, 2025", "March 6, 2026"),
        ("March 6", "6"),
        ("5 March", "5 May"),
        ("5,000 euros", "$5,000"),
        ("£20", "20 euros"),
        ("15%", "15 euros"),
        ("1,200", "1.2"),
        ("3.5", "35"),
        ("007", "7"),
        ("+49 30 1234567", "+49 40 1234567"),
        ("555-123-4567", "555-123-4568"),
        ("CA$5,000", "US$5,000"),
        ("https://a.com/x", "https://a.com/y"),
        ("ada@a.com", "ada@b.com"),
        ("12 Main St", "121 Main St"),
        ("12 Main St", "12 Main Rd"),
        ("5 km", "5 kg"),
        ("two hours", "two days"),
        ("1st", "2nd"),
        ("gas", "ga"),
        ("our", "or"),
    ],
)
def test_what_says_something_else_does_not(one: str, other: str) -> None:
    assert not is_same(one, other)
    assert not is_same(other, one)


HOURS, MINUTES = st.integers(0, 23), st.integers(0, 59)


def clock_forms(hour: int, minute: int) -> list[str]:
    """Ways to write a time that all say the half of the day."""
    half, short = ("am", hour % 12 or 12) if hour < 12 else ("pm", hour % 12 or 12)
    forms = [f"{short}:{minute:02} {half}", f"{short}.{minute:02} {half.upper()}", f"{short:02}:{minute:02}{half}"]
    if hour > 12:
        forms.append(f"{hour}:{minute:02}")
    if not minute:
        forms += [f"{short} {half}", f"{short}{half}"]
    return forms


@EXAMPLES
@given(HOURS, MINUTES, HOURS, MINUTES)
def test_times_are_the_same_if_the_minutes_of_the_day_are(hour: int, minute: int, other: int, late: int) -> None:
    for one, two in itertools.product(clock_forms(hour, minute), clock_forms(other, late)):
        assert is_same(one, two) == ((hour, minute) == (other, late)), (one, two)
    for one in clock_forms(hour, minute):
        bare = f"{hour % 12 or 12}:{minute:02}"
        assert is_same(bare, one), (bare, one)


def date_forms(day: datetime.date) -> list[str]:
    end = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    month, short = f"{day:%B}", f"{day:%b}"
    return [
        day.isoformat(),
        f"{month} {day.day}, {day.year}",
        f"{short} {day.day} {day.year}",
        f"{day.day} {month} {day.year}",
        f"{day.day}{end} of {month} {day.year}",
        f"the {day.day}{end} of {month}, {day.year}",
    ]


DATES = st.dates(datetime.date(1990, 1, 1), datetime.date(2090, 1, 1))


@EXAMPLES
@given(DATES, DATES, st.booleans())
def test_dates_are_the_same_if_the_days_are(day: datetime.date, other: datetime.date, near: bool) -> None:
    other = day.replace(year=min(day.year + 1, 2090), day=min(day.day, 28)) if near else other
    for one, two in itertools.product(date_forms(day), date_forms(other)):
        assert is_same(one, two) == (day == other), (one, two)


def spelled(number: int) -> str:
    """A number in words, made in the plainest way."""
    ones = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    small = f"{ones} eighteen nineteen".split()
    tens = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
    if number < 20:
        return small[number]
    if number < 100:
        return tens[number // 10] + (f"-{small[number % 10]}" if number % 10 else "")
    if number < 1_000:
        return f"{small[number // 100]} hundred" + (f" and {spelled(number % 100)}" if number % 100 else "")
    return f"{spelled(number // 1_000)} thousand" + (f" {spelled(number % 1_000)}" if number % 1_000 else "")


@EXAMPLES
@given(st.integers(2, 9_999), st.integers(2, 9_999), st.sampled_from(("", " rooms", " euros", " percent", " hours")))
def test_numbers_are_the_same_if_their_amounts_are(number: int, other: int, unit: str) -> None:
    for one, two in itertools.product((f"{number}", f"{number:,}", spelled(number)), (f"{other}", spelled(other))):
        assert is_same(one + unit, two + unit) == (number == other), (one, two)


@EXAMPLES
@given(st.integers(1, 10**7), st.sampled_from("$€£"), st.sampled_from("$€£"))
def test_sums_are_the_same_if_their_currencies_are(number: int, one: str, other: str) -> None:
    assert is_same(f"{one}{number:,}", f"{other}{number}") == (one == other)
    words = {"$": "dollars", "€": "euros", "£": "pounds"}
    assert is_same(f"{one}{number}", f"{number:,} {words[other]}") == (one == other)
    assert is_same(f"{one}{number}", f"{number}")


@EXAMPLES
@given(st.integers(200, 999), st.integers(200, 999), st.integers(0, 9_999), st.sampled_from((1, 44, 358)))
def test_a_telephone_number_is_one_with_its_country_and_without(area: int, first: int, last: int, country: int) -> None:
    forms = [
        f"{area}-{first}-{last:04}",
        f"({area}) {first}-{last:04}",
        f"{area} {first} {last:04}",
        f"{area}{first}{last:04}",
        f"+{country} {area} {first} {last:04}",
        f"+{country}{area}{first}{last:04}",
    ]
    for one, two in itertools.product(forms, forms):
        assert is_same(one, two), (one, two)
    wrong = f"{area}-{first}-{(last + 1) % 10_000:04}"
    assert not any(is_same(wrong, each) for each in forms)


WORDS = st.text("abcdefghijklmnopqrstuvwxyzäöüß", min_size=1, max_size=12)


@EXAMPLES
@given(st.lists(WORDS, min_size=1, max_size=5), st.sampled_from((" ", "  ", ", ", "\n", "\u00a0")))
def test_case_and_spacing_count_for_nothing(words: list[str], gap: str) -> None:
    plain = " ".join(words)
    assert Terms(gap.join(words)).norms == Terms(plain).norms
    if plain.isascii():
        assert Terms(plain.upper()).norms == Terms(plain).norms
        assert Terms(plain.title()).norms == Terms(plain).norms


@EXAMPLES
@given(WORDS)
def test_to_fold_is_to_fold_once(word: str) -> None:
    assert fold_word(word) == fold_word(word)
    assert fold_word(word)


@EXAMPLES
@given(st.text(max_size=80) | st.text("0123456789.,:/+-()$€%# aptm", max_size=40))
@example("0.0/0")
def test_terms_stand_in_order_and_apart(text: str) -> None:
    terms = Terms(text)
    assert len(terms.starts) == len(terms.stops) == len(terms.norms)
    assert all(terms.norms)
    ends = [0, *terms.stops]
    for before, start, stop in zip(ends, terms.starts, terms.stops, strict=False):
        assert before <= start < stop <= len(text)
    assert Terms(text).norms == terms.norms


@pytest.mark.parametrize(
    ("text", "term", "is_apart"),
    [
        ("a 12 b", "#12", True),
        ("SD-2210", "#2210", False),
        ("10.0.0.12", "#12", False),
        ("a/12/b", "#12", False),
        ("(12)", "#12", True),
        ("12, 13", "#12", True),
        ("12:13:14", "#14", False),
        ("x12", "#12", False),
        ("It is 12.Then", "#12", True),
        ("v12.x", "#12", False),
    ],
)
def test_a_term_never_stands_within_a_longer_one(text: str, term: str, is_apart: bool) -> None:
    terms = Terms(text)
    assert is_apart == any(terms.is_apart(at, at) for at, norm in enumerate(terms.norms) if norm == term)


LENGTH = figure(20_000, 200_000)


HOSTILE = [
    "1",
    "1,",
    "1.",
    "1 ",
    "1-",
    "1:",
    "+",
    "+1",
    "(1)",
    "0",
    "@",
    "a@",
    "a.",
    "www.",
    "http://",
    "A",
    "AB12 ",
    "$",
    "$1",
]


HOSTILE += [
    "one ",
    "twenty-",
    "two hundred and ",
    "the 1st ",
    "March ",
    "half past ",
    "May 1, ",
    "a ",
    "#",
    "%",
    "[",
    "e\u0301",
    "京",
]


@pytest.mark.parametrize("unit", HOSTILE)
def test_no_text_keeps_it_busy(unit: str) -> None:
    """Whatever takes more than one pass over such a text takes longer than any test may."""
    assert Terms(unit * (LENGTH // len(unit)) + " Oslo").norms[-1] == "oslo"
