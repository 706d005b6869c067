"""The period of validity in a value: `22% (valid through 31 January)`, `until Friday`, `950 euros, from 1 May`.

Laws: the same value and time give the same period. A period must be a clause of its own: in brackets at the end or the
beginning of the text, behind a comma, semicolon or dash at its end, or the whole text. The last day belongs to the period,
and a date without a year is in the future, so no value expires earlier than its text says. All days are in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import msgspec

from holdfast.model.content import Json
from holdfast.text.values import DAY_US, EPOCH, LATEST_US, MONTHS, day_of, find_mentions

VALUE_CHARACTERS = 500
"""A longer text has several statements, and a period at its end may belong to any of them."""
CLAUSE_CHARACTERS = 80
_WEEK, _YEAR_MONTHS = 7, 12
_VALID = r"(?:valid|good|effective|applicable|applies|binding|in (?:effect|force))"
_UNTIL = r"(?:until|till?|through|thru|up to(?: and including)?)"
_FROM = r"(?:from|starting(?: from)?|beginning|as of|with effect from)"
_EXPIRES = r"(?:expires|expiring|(?:expiry|expiration)(?: date)?|exp\.)(?::| on| at)?"
_LAST, _FIRST = r"(?P<last>\w[\w .,:-]{0,40})", r"(?P<first>\w[\w .,:-]{0,40}?)"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"(?:{_VALID} (?:{_FROM} )?|{_FROM} ){_FIRST}(?: (?:{_UNTIL}|to) | ?[–—] ?| - ){_LAST}",
        rf"(?:{_VALID} )?{_UNTIL} {_LAST}",
        rf"{_VALID} to {_LAST}",
        rf"{_EXPIRES} {_LAST}",
        rf"(?P<begins>(?:{_VALID} )?{_FROM}) {_FIRST}(?P<onwards> onwards?)?",
        rf"(?:effective|in (?:effect|force)) {_FIRST}",
    )
)
_CUE = re.compile(rf"\b(?:{_VALID}|{_UNTIL}|{_FROM}|{_EXPIRES})", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;] | [-–—] ")
_SEPARATORS = 3
"""The number of separators, from the end, that may begin the clause: a date may contain a comma."""
_SEVERAL = re.compile(r"[;\n\"“”?()\[\]]|[.!] ")
"""Several statements, a question or a quotation: a period behind it may belong to something else."""
_RECURRING = re.compile(
    r"\b(?:open|opens|opening|closed|closes|hours|daily|weekly|every|each|always|"
    r"(?:mon|tues?|wed|wednes|thu|thurs?|fri|sat|satur|sun|week)(?:days?)?|weekends?)\b",
    re.IGNORECASE,
)
_MONTH = rf"(?P<month>{'|'.join(MONTHS)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
_YEAR = r"(?:,? (?P<year>\d{4}))?"
_DOTTED_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_NAMED_PERIOD = re.compile(rf"(?:{_MONTH}|q(?P<quarter>[1-4])|(?P<whole>\d{{4}})){_YEAR}", re.IGNORECASE)
_UNIT = re.compile(r"(?:the |(?:the )?(?P<next>next|following) |this |the current )?(?P<unit>week|month|quarter|year)")
_EDGE = re.compile(r"(?:the )?(?:end|beginning|start) of ", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?P<day>.{3,30}?)(?:T| |, | at )(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::\d{2})?)? ?(?P<half>[ap]m)?"
    r"(?: ?(?:UTC|Z))?",
    re.IGNORECASE,
)


class Validity(msgspec.Struct, frozen=True, kw_only=True):
    """The period for which a value is valid."""

    from_us: int | None = None
    until_us: int | None = None
    """The first moment after the period."""
    names_the_day: bool = True
    """The days are absolute, not relative to when the text was written: `5 May`, not `Friday`."""


class _DaySpan(msgspec.Struct, frozen=True):
    """The first and the last day of a period."""

    first: date
    last: date
    minute: int | None = None
    """The minute of the day, if the text has a time."""
    has_year: bool = False
    names_the_day: bool = True


def read_validity(value: Json, time_us: int) -> Validity | None:
    """Read the period of a value, relative to when the value was set; None if it has none."""
    if not isinstance(value, str) or not 0 < time_us < LATEST_US or len(value) > VALUE_CHARACTERS:
        return None
    if _CUE.search(value) is None:
        return None
    for clause, remainder in _split_clauses(value.strip()):
        if len(clause) > CLAUSE_CHARACTERS:
            continue
        period = _read_period(" ".join(clause.split()).rstrip("."), time_us)
        if period is not None:
            return period if _is_about(period, remainder) else None
    return None


def _split_clauses(text: str) -> Iterator[tuple[str, str]]:
    """Yield each clause that may be a period, and the text without it."""
    yield text, ""
    bare = text.rstrip(".")
    if bare.endswith((")", "]")):
        at = max(bare.rfind("("), bare.rfind("["))
        yield bare[at + 1 : -1], bare[: max(at, 0)]
    if bare.startswith(("(", "[")):
        at = min((index for bracket in ")]" if (index := bare.find(bracket)) > 0), default=0)
        yield bare[1:at], bare[at + 1 :]
    for separator in [*_SEPARATOR.finditer(bare)][-_SEPARATORS:]:
        yield bare[separator.end() :], bare[: separator.start()]


def _is_about(period: Validity, text: str) -> bool:
    """Whether a period can only belong to this text: one statement about one thing, and no opening hours."""
    numbers = sum(any(char.isdigit() for char in part) for part in text.split(", "))
    if numbers > 1 or _SEVERAL.search(text) is not None:
        return False
    return period.names_the_day or _RECURRING.search(text) is None


def _read_period(clause: str, time_us: int) -> Validity | None:
    today = datetime.fromtimestamp(time_us // 1_000_000, UTC).date()
    for form in _FORMS:
        match = form.fullmatch(clause)
        if match is None:
            continue
        groups = match.groupdict()
        last = _read_span(groups["last"], today) if groups.get("last") else None
        first = _read_span(groups["first"], today) if groups.get("first") else None
        if (groups.get("last") and last is None) or (groups.get("first") and first is None):
            continue
        if groups.get("begins", "").lower() == "from" and not groups.get("onwards") and _is_name(groups["first"]):
            continue
        period = _join_spans(first, last, today)
        if period is not None:
            return period
    return None


def _is_name(text: str) -> bool:
    """Whether a month may be the name of a person: `from April`."""
    match = _NAMED_PERIOD.fullmatch(text)
    return match is not None and match["month"] is not None and match["year"] is None


def _join_spans(first: _DaySpan | None, last: _DaySpan | None, today: date) -> Validity | None:
    begins = None if first is None else _first_day(first, today if last is None else last.last, latest=last is not None)
    from_us = None if first is None or begins is None else _day_us(begins) + (first.minute or 0) * 60_000_000
    until_us = None
    if last is not None:
        until_us = _day_us(last.last) + (DAY_US if last.minute is None else last.minute * 60_000_000)
    if any(time_us is not None and not 0 <= time_us < LATEST_US for time_us in (from_us, until_us)):
        return None
    if from_us is not None and until_us is not None and from_us >= until_us:
        return None
    names_the_day = all(span is None or span.names_the_day for span in (first, last))
    return Validity(from_us=from_us, until_us=until_us, names_the_day=names_the_day)


def _day_us(day: date) -> int:
    return (day - EPOCH).days * DAY_US


def _first_day(span: _DaySpan, near: date, *, latest: bool) -> date:
    """The first day of a period. Without a year, it is the one nearest to today, or the last one before a given end."""
    if span.has_year or not span.names_the_day:
        return span.first
    years = [_in_year(span.first, near.year + by) for by in (-1, 0, 1)]
    if latest:
        return max((day for day in years if day <= near), default=span.first)
    return min(years, key=lambda day: (abs(day - near), day))


def _in_year(day: date, year: int) -> date:
    try:
        return day.replace(year=year)
    except ValueError:  # 29 February
        return day.replace(year=year, day=28)


def _read_span(text: str, today: date) -> _DaySpan | None:
    """Read a text that is only a day or a period; without a year, the next one that is not over."""
    try:
        return _read_days(text.strip(), today)
    except (ValueError, OverflowError):
        return None  # there is no such day


def _read_days(text: str, today: date) -> _DaySpan | None:
    if (pointed := _DOTTED_DATE.fullmatch(text)) is not None:
        day, month, year = map(int, pointed.groups())
        return _DaySpan(date(year, month, day), date(year, month, day), has_year=True)
    edge = _EDGE.match(text)
    if edge is not None:
        unit = text[edge.end() :]
        return _read_unit(unit, today) or _read_named_period(unit, today)
    clock = _CLOCK.fullmatch(text)
    if clock is not None and (clock["minute"] or clock["half"]):
        span = _read_span(clock["day"], today)
        minute = _minute_of_day(int(clock["hour"]), int(clock["minute"] or 0), (clock["half"] or "").lower())
        return None if span is None or minute is None else msgspec.structs.replace(span, minute=minute)
    return _read_named_period(text, today) or _read_single_day(text, today)


def _minute_of_day(hour: int, minute: int, half: str) -> int | None:
    if half and not 1 <= hour <= _YEAR_MONTHS:
        return None
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    return hour * 60 + minute if hour < 24 and minute < 60 else None


def _read_unit(text: str, today: date) -> _DaySpan | None:
    """Read a week, month, quarter or year relative to today."""
    match = _UNIT.fullmatch(text.lower())
    if match is None:
        return None
    ahead = 1 if match["next"] else 0
    if match["unit"] == "week":
        first = today - timedelta(days=today.weekday()) + timedelta(days=_WEEK * ahead)
        return _DaySpan(first, first + timedelta(days=_WEEK - 1), names_the_day=False)
    months = {"month": 1, "quarter": 3, "year": 12}[match["unit"]]
    since = (today.month - 1) // months * months + months * ahead
    return msgspec.structs.replace(_month_span(today.year, since, months), names_the_day=False)


def _month_span(year: int, since: int, count: int) -> _DaySpan:
    """A span of months. `since` is the number of the first month, from 0 for January of the year."""
    first = date(year + since // _YEAR_MONTHS, since % _YEAR_MONTHS + 1, 1)
    behind = since + count
    after = date(year + behind // _YEAR_MONTHS, behind % _YEAR_MONTHS + 1, 1)
    return _DaySpan(first, after - timedelta(days=1))


def _read_named_period(text: str, today: date) -> _DaySpan | None:
    """Read a named month, quarter or year."""
    match = _NAMED_PERIOD.fullmatch(text)
    if match is None or (match["whole"] and match["year"]):
        return None
    if match["whole"]:
        return msgspec.structs.replace(_month_span(int(match["whole"]), 0, _YEAR_MONTHS), has_year=True)
    if match["quarter"]:
        since, count = 3 * (int(match["quarter"]) - 1), 3
    else:
        since = next(at for at, name in enumerate(MONTHS) if name.startswith(match["month"].lower()[:3]))
        count = 1
    if match["year"]:
        return msgspec.structs.replace(_month_span(int(match["year"]), since, count), has_year=True)
    span = _month_span(today.year, since, count)
    return span if span.last >= today else _month_span(today.year + 1, since, count)


def _read_single_day(text: str, today: date) -> _DaySpan | None:
    """One day."""
    mentions = find_mentions(text)
    if (
        len(mentions) != 1
        or mentions[0].kind != "date"
        or (mentions[0].start, mentions[0].end) != (0, len(text))
        or "/" in text
    ):
        return None
    kind, *parts = mentions[0].norm
    day = day_of(mentions[0], _day_us(today) + 1)
    if day is None:
        return None
    if kind == "week" and parts[1] == "next":  # either the coming one or the one a week later: take the later
        later = day if day - today >= timedelta(days=_WEEK) else day + timedelta(days=_WEEK)
        return _DaySpan(day, later, names_the_day=False)
    names_the_day = kind == "day" and parts[0] is not None
    return _DaySpan(day, day, has_year=names_the_day and parts[2] is not None, names_the_day=names_the_day)
