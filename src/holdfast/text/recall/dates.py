"""Dates that a question names, as ranges of days.

Laws: a date is resolved against the time of asking, never against a clock. A date without a year is the last one that is
not in the future. All days are days of UTC. A date that no calendar has is none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1).toordinal()
FADE_DAYS = 14
"""People speak of an event for some days after it: the fit of a later passage falls to 1/e in this time."""
PLAN_DAYS = 7
"""And of a plan before it."""
_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}
_WEEKDAYS = {
    name: number for number, name in enumerate("monday tuesday wednesday thursday friday saturday sunday".split())
}
_NUMBERS = {name: number for number, name in enumerate("one two three four five six seven eight nine ten".split(), 1)}
_NUMBERS |= {"a": 1, "an": 1, "couple": 2, "a couple of": 2, "few": 3, "a few": 3}
_UNIT_DAYS = {"day": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_COUNT = r"\d{1,3}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True))
_DAY_OR_YEAR = r"\.?,?\s(?:of\s|the\s)?(?:\d{1,2}(?:st|nd|rd|th)?|(?:19|20)\d\d)\b"
"""Behind a month: it is a part of a longer date."""
_DATE = re.compile(
    rf"\b(?P<iso>(?:19|20)\d\d-\d\d-\d\d)\b"
    rf"|\b(?P<day1>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<month1>{_MONTH})\b\.?(?:,?\s(?P<year1>(?:19|20)\d\d)\b)?"
    rf"|\b(?P<month2>{_MONTH})\.?\s(?:the\s)?(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s(?P<year2>(?:19|20)\d\d)\b)?"
    rf"|\b(?P<month3>{_MONTH})\.?,?\s(?:of\s)?(?P<year3>(?:19|20)\d\d)\b"
    rf"|\b(?:in|during|since|of|last|this|early|late|mid|by)\s(?P<month4>{_MONTH})\b(?!{_DAY_OR_YEAR})"
    rf"|\b(?P<year5>(?:19|20)\d\d)\b"
    rf"|\b(?P<day6>today|yesterday|tonight|this morning|last night)\b"
    rf"|\b(?P<count7>{_COUNT})\s(?P<unit7>day|week|month|year)s?\sago\b"
    rf"|\b(?:last|past)\s(?P<count8>{_COUNT})\s(?P<unit8>day|week|month|year)s\b"
    rf"|\b(?P<which9>last|past|this|previous)\s(?P<unit9>week|weekend|month|year)\b"
    rf"|\b(?:last|on|this|past)\s(?P<weekday>{'|'.join(_WEEKDAYS)})\b",
)
_READ_CHARS = 4_096


class DayRange(NamedTuple):
    """Days from `first` to `last`, both included, as numbers since 1970."""

    first: int
    last: int


def find_days(text: str, asked_us: int) -> tuple[DayRange, ...]:
    """List the days that a text names, in order of the text."""
    asked = asked_us // DAY_US
    found = (_read_days(match, asked) for match in _DATE.finditer(" ".join(text[:_READ_CHARS].lower().split())))
    return tuple(dict.fromkeys(days for days in found if days is not None))


def fit_days(days: DayRange, time_us: int) -> float:
    """How well a time fits some days, from 0 to 1: best within them, then for what is said soon after or just before."""
    day = time_us // DAY_US
    if day > days.last:
        return math.exp((days.last - day) / FADE_DAYS)
    return 1.0 if day >= days.first else math.exp((day - days.first) / PLAN_DAYS)


def _read_days(match: re.Match[str], asked: int) -> DayRange | None:
    part = match.groupdict()
    if part["iso"]:
        year, month, day = map(int, part["iso"].split("-"))
        return _find_day(year, month, day)
    for at in "12":
        if part["day" + at]:
            return _find_last_day(part["year" + at], _MONTHS[part["month" + at]], int(part["day" + at]), asked)
    if part["month3"] or part["month4"]:
        return _find_month(part["year3"], _MONTHS[part["month3"] or part["month4"]], asked)
    if part["year5"]:
        year = int(part["year5"])
        return DayRange(_count_days(date(year, 1, 1)), _count_days(date(year, 12, 31)))
    return _read_distance(part, asked)


def _read_distance(part: dict[str, str | None], asked: int) -> DayRange:
    """Read days by their distance from the time of asking."""
    if part["day6"]:
        back = 1 if part["day6"] in ("yesterday", "last night") else 0
        return DayRange(asked - back, asked - back)
    if part["weekday"]:
        today = (asked + 3) % 7  # 1970 began on a Thursday
        back = (today - _WEEKDAYS[part["weekday"]]) % 7 or 7
        return DayRange(asked - back, asked - back)
    if part["unit7"]:
        unit = _UNIT_DAYS[part["unit7"]]
        back = _read_count(part["count7"]) * unit
        return DayRange(asked - back - unit // 2, asked - back + unit // 2)
    if part["unit8"]:
        return DayRange(asked - _read_count(part["count8"]) * _UNIT_DAYS[part["unit8"]], asked)
    unit = _UNIT_DAYS[part["unit9"] or "week"]
    return DayRange(asked - unit, asked) if part["which9"] == "this" else DayRange(asked - 2 * unit, asked - 1)


def _read_count(text: str | None) -> int:
    text = text or "a"
    return int(text) if text.isdecimal() else _NUMBERS[text]


def _count_days(day: date) -> int:
    return day.toordinal() - _EPOCH


def _find_day(year: int, month: int, day: int) -> DayRange | None:
    try:
        number = _count_days(date(year, month, day))
    except ValueError:
        return None
    return DayRange(number, number)


def _years_before(year: str | None, asked: int) -> Iterator[int]:
    """The years that a date may be of: the named one; or that of asking and those before it, a leap year among them."""
    if year:
        yield int(year)
        return
    newest = date.fromordinal(min(max(asked + _EPOCH, 1), date.max.toordinal())).year
    yield from range(newest, max(newest - 9, 0), -1)


def _find_last_day(year: str | None, month: int, day: int, asked: int) -> DayRange | None:
    found = (_find_day(number, month, day) for number in _years_before(year, asked))
    return next((days for days in found if days is not None and (year or days.first <= asked)), None)


def _find_month(year: str | None, month: int, asked: int) -> DayRange | None:
    for number in _years_before(year, asked):
        first = date(number, month, 1)
        last = date(number, 12, 31) if month == 12 else date(number, month + 1, 1) - timedelta(days=1)
        if year or _count_days(first) <= asked:
            return DayRange(_count_days(first), _count_days(last))
    return None
