"""Loose comparison of values in text: numbers in words, times, dates and weekdays in their usual forms.

This is for measuring, and independent of how Holdfast itself compares values: what both miss would not be seen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_UNITS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
NUMBERS = {word: str(number) for number, word in enumerate(_UNITS)}
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
MONTHS = {name: number for number, name in enumerate(_MONTHS, 1)}
WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_HOUR = rf"\d{{1,2}}|{'|'.join(_UNITS[1:13])}"
_PART = r"morning|afternoon|evening|night"
_TIME = re.compile(
    rf"(?:\b(?P<before>{_PART})\s+(?:at\s+)?)?"
    rf"(?:\b(?P<shift>half past|quarter past|quarter to)\s+)?"
    rf"\b(?P<hour>{_HOUR})(?::(?P<minute>\d{{2}}))?(?![\w:])"
    rf"(?:\s*(?P<half>[ap]\.?m\b\.?|o'clock))?"
    rf"(?:\s+(?:in the|at)\s+(?P<after>{_PART}))?"
)
_TIGHT_TIME = re.compile(r"\b(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?P<half>[ap]m)\b")
_DATE = re.compile(
    rf"\b(?P<month>{'|'.join(MONTHS)})\s+(?:the\s+)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b"
    rf"|\b(?P<first>\d{{1,2}})(?:st|nd|rd|th)(?:\s+(?:of\s+)?(?:(?P<then>{'|'.join(MONTHS)})|this month))?\b"
)
_WEEKDAY = re.compile(rf"\b(?:(?:this|next|coming)\s+)?(?P<name>{WEEKDAYS})(?:\s+(?:this|next)\s+week)?\b")
_WORD = re.compile(r"\w+(?:[:.,'&/-]\w+)*")
_SHIFTS = {"half past": 30, "quarter past": 15, "quarter to": -15}
HALF_DAY = 720
"""Minutes."""


class Span(NamedTuple):
    start: int
    end: int


class Time(NamedTuple):
    minutes: int
    """Past noon or midnight."""
    half: str
    """am, pm, or nothing if it is not said."""

    def agrees(self, other: Time) -> bool:
        return self.minutes == other.minutes and (not self.half or not other.half or self.half == other.half)


class Day(NamedTuple):
    month: int
    """0 if it is not said."""
    day: int

    def agrees(self, other: Day) -> bool:
        return self.day == other.day and (not self.month or not other.month or self.month == other.month)


def find_mentions(value: str, text: str) -> list[Span]:
    """Where a text has a value, in any of its usual forms."""
    text, value = text.lower(), value.lower().strip()
    times = list(find_times(value))
    if times and covers(times[0][0], value):
        return [span for span, time in find_times(text) if time.agrees(times[0][1])]
    days = list(find_days(value))
    if days and covers(days[0][0], value):
        return [span for span, day in find_days(text) if day.agrees(days[0][1])]
    weekday = _WEEKDAY.fullmatch(value)
    if weekday:
        found = _WEEKDAY.finditer(text)
        return [Span(*each.span()) for each in found if each["name"] == weekday["name"]]
    return find_words(value, text)


def is_bare_number(value: str) -> bool:
    """A number alone, which may mean anything in a text."""
    return NUMBERS.get(value.lower().strip(), value.strip()).isdigit()


def covers(span: Span, value: str) -> bool:
    """The span is all of the value, but for an article or a preposition."""
    rest = value[: span.start] + value[span.end :]
    return rest.strip() in {"", "the", "at", "on", "on the", "at the"}


def find_times(text: str) -> Iterator[tuple[Span, Time]]:
    for pattern in (_TIME, _TIGHT_TIME):
        for found in pattern.finditer(text):
            time = read_time(found.groupdict())
            if time is not None:
                yield Span(*found.span()), time


def read_time(parts: dict[str, str | None]) -> Time | None:
    """None for a number that nothing around it makes a time."""
    said = [parts.get(name) for name in ("before", "shift", "minute", "half", "after")]
    hour = int(NUMBERS.get(parts["hour"] or "", parts["hour"] or "0"))
    if not any(said) or hour > 24:
        return None
    half = (parts.get("half") or "").replace(".", "")
    part = parts.get("before") or parts.get("after")
    if half not in ("am", "pm"):
        half = "" if part is None else "am" if part == "morning" else "pm"
    if hour > 12:
        half = "pm"
    shift = _SHIFTS.get(parts.get("shift") or "", 0)
    return Time((hour * 60 + int(parts.get("minute") or 0) + shift) % HALF_DAY, half)


def find_days(text: str) -> Iterator[tuple[Span, Day]]:
    for found in _DATE.finditer(text):
        month = MONTHS.get(found["month"] or found["then"] or "", 0)
        yield Span(*found.span()), Day(month, int(found["day"] or found["first"]))


def find_words(value: str, text: str) -> list[Span]:
    """Where the words of a value stand one after another; of "Fresno, CA", the first part is enough."""
    wanted = [plain_word(found.group()) for found in _WORD.finditer(value.partition(",")[0])]
    words = list(_WORD.finditer(text))
    plain = [plain_word(found.group()) for found in words]
    if not wanted:
        return []
    return [
        Span(words[at].start(), words[at + len(wanted) - 1].end())
        for at in range(len(words) - len(wanted) + 1)
        if plain[at : at + len(wanted)] == wanted
    ]


def plain_word(word: str) -> str:
    """A word without plural and possessive, a number as digits."""
    word = NUMBERS.get(word, word).removesuffix("'s")
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
