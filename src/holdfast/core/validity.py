"""Periods of validity that values state: `22% (valid through 31 January)`, `until Friday`, `950 euros, from 1 May`.

Laws: the same value and time give the same period. A period is read only where a text states it apart from the rest, in
brackets at its end or beginning, or behind a comma, a semicolon or a dash at its end, or where it is all that the text
says; and only if the clause is a period and nothing else. The last day of a period belongs to it, and without a year it
lies ahead, so nothing ends sooner than its text says. All days are days in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import msgspec

from holdfast.model.content import Json

VALUE_CHARACTERS = 500
"""A longer text tells more than one thing: what a period at its end belongs to is not certain."""
CLAUSE_CHARACTERS = 80
_LATEST_US = 253_370_764_800_000_000
"""The year 9999: what lies behind it is no time that a calendar can tell."""
_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1)
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
"""So many from the end may begin the clause: a date may have a comma of its own."""
_SEVERAL = re.compile(r"[;\n\"“”?()\[\]]|[.!] ")
"""More than one statement, or none that is the speaker's own: it is not certain what a period behind it belongs to."""
_RECURRING = re.compile(
    r"\b(?:open|opens|opening|closed|closes|hours|daily|weekly|every|each|always|"
    r"(?:mon|tues?|wed|wednes|thu|thurs?|fri|sat|satur|sun|week)(?:days?)?|weekends?)\b",
    re.IGNORECASE,
)

_MONTH_NAMES = re.findall(
    r"\w+", "january february march april may june july august september october november december"
)
_MONTH = rf"(?P<month>{'|'.join(_MONTH_NAMES)}|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?"
_YEAR = r"(?:,? (?P<year>\d{4}))?"
_POINTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_NAMED = re.compile(rf"(?:{_MONTH}|q(?P<quarter>[1-4])|(?P<whole>\d{{4}})){_YEAR}", re.IGNORECASE)
_UNIT = re.compile(r"(?:the |(?:the )?(?P<next>next|following) |this |the current )?(?P<unit>week|month|quarter|year)")
_EDGE = re.compile(r"(?:the )?(?:end|beginning|start) of ", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?P<day>.{3,30}?)(?:T| |, | at )(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::\d{2})?)? ?(?P<half>[ap]m)?"
    r"(?: ?(?:UTC|Z))?",
    re.IGNORECASE,
)


class Validity(msgspec.Struct, frozen=True, kw_only=True):
    """For how long a value says that it is valid."""

    from_us: int | None = None
    until_us: int | None = None
    """The first moment at which it is over."""
    names_the_day: bool = True
    """The text tells the day itself, and not as seen from when it was written: `5 May`, not `Friday`."""


class _Span(msgspec.Struct, frozen=True):
    """The days that a text names, from the first to the last."""

    first: date
    last: date
    minute: int | None = None
    """The minute of the day, if a time is told."""
    has_year: bool = False
    names_the_day: bool = True


def read_validity(value: Json, time_us: int) -> Validity | None:
    """The period that a value states, as seen from when it was asserted; None if it states none."""
    if not isinstance(value, str) or not 0 < time_us < _LATEST_US or len(value) > VALUE_CHARACTERS:
        return None
    if _CUE.search(value) is None:
        return None
    for clause, rest in _clauses(value.strip()):
        found = _period(" ".join(clause.split()).rstrip("."), time_us) if len(clause) <= CLAUSE_CHARACTERS else None
        if found is not None:
            return found if _is_about(found, rest) else None
    return None


def _clauses(text: str) -> Iterator[tuple[str, str]]:
    """What may state a period, and the text without it."""
    yield text, ""
    bare = text.rstrip(".")
    if bare.endswith((")", "]")):
        at = max(bare.rfind("("), bare.rfind("["))
        yield bare[at + 1 : -1], bare[: max(at, 0)]
    if bare.startswith(("(", "[")):
        at = min((place for each in ")]" if (place := bare.find(each)) > 0), default=0)
        yield bare[1:at], bare[at + 1 :]
    for found in [*_SEPARATOR.finditer(bare)][-_SEPARATORS:]:
        yield bare[found.end() :], bare[: found.start()]


def _is_about(found: Validity, rest: str) -> bool:
    """Whether a period can only mean the rest of the text: one statement, about one thing, and no hours of opening."""
    listed = sum(any(sign.isdigit() for sign in part) for part in rest.split(", "))
    if listed > 1 or _SEVERAL.search(rest) is not None:
        return False
    return found.names_the_day or _RECURRING.search(rest) is None


def _period(clause: str, time_us: int) -> Validity | None:
    seen = datetime.fromtimestamp(time_us // 1_000_000, UTC).date()
    for form in _FORMS:
        match = form.fullmatch(clause)
        if match is None:
            continue
        told = match.groupdict()
        last = _span(told["last"], seen) if told.get("last") else None
        first = _span(told["first"], seen) if told.get("first") else None
        if (told.get("last") and last is None) or (told.get("first") and first is None):
            continue
        if told.get("begins", "").lower() == "from" and not told.get("onwards") and _is_a_name(told["first"]):
            continue
        found = _joined(first, last, seen)
        if found is not None:
            return found
    return None


def _is_a_name(text: str) -> bool:
    """`from April` may be a letter of hers."""
    named = _NAMED.fullmatch(text)
    return named is not None and named["month"] is not None and named["year"] is None


def _joined(first: _Span | None, last: _Span | None, seen: date) -> Validity | None:
    begins = None if first is None else _begin(first, seen if last is None else last.last, latest=last is not None)
    from_us = None if first is None or begins is None else _us(begins) + (first.minute or 0) * 60_000_000
    until_us = None
    if last is not None:
        until_us = _us(last.last) + (_DAY_US if last.minute is None else last.minute * 60_000_000)
    if any(each is not None and not 0 <= each < _LATEST_US for each in (from_us, until_us)):
        return None
    if from_us is not None and until_us is not None and from_us >= until_us:
        return None
    named = all(each is None or each.names_the_day for each in (first, last))
    return Validity(from_us=from_us, until_us=until_us, names_the_day=named)


def _us(day: date) -> int:
    return (day - _EPOCH).days * _DAY_US


def _begin(span: _Span, near: date, *, latest: bool) -> date:
    """The first day of a period. Without a year it is the one closest to when it was said; or the last one before the end
    of the period, if that is told."""
    if span.has_year or not span.names_the_day:
        return span.first
    years = [_moved(span.first, near.year + by) for by in (-1, 0, 1)]
    if latest:
        return max((each for each in years if each <= near), default=span.first)
    return min(years, key=lambda each: (abs(each - near), each))


def _moved(day: date, year: int) -> date:
    try:
        return day.replace(year=year)
    except ValueError:  # the 29th of February
        return day.replace(year=year, day=28)


# Days


def _span(text: str, seen: date) -> _Span | None:
    """The days that a text names, and nothing else; without a year, the first of them that are not over."""
    try:
        return _days(text.strip(), seen)
    except (ValueError, OverflowError):
        return None  # there is no such day


def _days(text: str, seen: date) -> _Span | None:
    if (pointed := _POINTED.fullmatch(text)) is not None:
        day, month, year = map(int, pointed.groups())
        return _Span(date(year, month, day), date(year, month, day), has_year=True)
    edge = _EDGE.match(text)
    if edge is not None:
        rest = text[edge.end() :]
        return _unit(rest, seen) or _named(rest, seen)
    clock = _CLOCK.fullmatch(text)
    if clock is not None and (clock["minute"] or clock["half"]):
        day_told = _span(clock["day"], seen)
        minute = _minute(int(clock["hour"]), int(clock["minute"] or 0), (clock["half"] or "").lower())
        return None if day_told is None or minute is None else msgspec.structs.replace(day_told, minute=minute)
    return _named(text, seen) or _single(text, seen)


def _minute(hour: int, minute: int, half: str) -> int | None:
    if half and not 1 <= hour <= _YEAR_MONTHS:
        return None
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    return hour * 60 + minute if hour < 24 and minute < 60 else None


def _unit(text: str, seen: date) -> _Span | None:
    """A week, month, quarter or year, seen from a day."""
    found = _UNIT.fullmatch(text.lower())
    if found is None:
        return None
    ahead = 1 if found["next"] else 0
    if found["unit"] == "week":
        first = seen - timedelta(days=seen.weekday()) + timedelta(days=_WEEK * ahead)
        return _Span(first, first + timedelta(days=_WEEK - 1), names_the_day=False)
    months = {"month": 1, "quarter": 3, "year": 12}[found["unit"]]
    since = (seen.month - 1) // months * months + months * ahead
    return msgspec.structs.replace(_months(seen.year, since, months), names_the_day=False)


def _months(year: int, since: int, count: int) -> _Span:
    """So many months, from the one with this number on, counted from 0 at the beginning of a year."""
    first = date(year + since // _YEAR_MONTHS, since % _YEAR_MONTHS + 1, 1)
    behind = since + count
    after = date(year + behind // _YEAR_MONTHS, behind % _YEAR_MONTHS + 1, 1)
    return _Span(first, after - timedelta(days=1))


def _named(text: str, seen: date) -> _Span | None:
    """A month, a quarter or a year that is named."""
    found = _NAMED.fullmatch(text)
    if found is None or (found["whole"] and found["year"]):
        return None
    if found["whole"]:
        return msgspec.structs.replace(_months(int(found["whole"]), 0, _YEAR_MONTHS), has_year=True)
    if found["quarter"]:
        since, count = 3 * (int(found["quarter"]) - 1), 3
    else:
        since = next(at for at, name in enumerate(_MONTH_NAMES) if name.startswith(found["month"].lower()[:3]))
        count = 1
    if found["year"]:
        return msgspec.structs.replace(_months(int(found["year"]), since, count), has_year=True)
    span = _months(seen.year, since, count)
    return span if span.last >= seen else _months(seen.year + 1, since, count)


def _single(text: str, seen: date) -> _Span | None:
    """One day."""
    from holdfast.core.detect.days import day_of  # noqa: PLC0415 - few values state a period
    from holdfast.core.values import mentions  # noqa: PLC0415 - the same

    found = mentions(text)
    if len(found) != 1 or found[0].kind != "date" or (found[0].start, found[0].end) != (0, len(text)) or "/" in text:
        return None
    kind, *parts = found[0].norm
    day = day_of(found[0], _us(seen) + 1)
    if day is None:
        return None
    if kind == "week" and parts[1] == "next":  # this week's or the one of the week after: the later cannot be too soon
        later = day if day - seen >= timedelta(days=_WEEK) else day + timedelta(days=_WEEK)
        return _Span(day, later, names_the_day=False)
    names_the_day = kind == "day" and parts[0] is not None
    return _Span(day, day, has_year=names_the_day and parts[2] is not None, names_the_day=names_the_day)
