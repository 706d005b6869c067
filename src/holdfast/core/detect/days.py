"""Which day of the calendar is meant, seen from a moment. All in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from holdfast.core.values import Mention

LATEST_US = 253_370_764_800_000_000
"""The year 9999: what lies behind it is no time that a calendar can tell."""
_AHEAD = {"today": 0, "tonight": 0, "tomorrow": 1, "day after tomorrow": 2, "yesterday": -1}


def day_of(mention: Mention, seen_us: int) -> date | None:
    """The day that a date names: one that tells its year, or else the first such day from when it was said."""
    kind, *parts = mention.norm
    told = kind == "day" and isinstance(parts[2], float)
    if mention.kind != "date" or not (told or 0 < seen_us < LATEST_US):
        return None
    seen = datetime.fromtimestamp(seen_us // 1_000_000, UTC).date() if 0 < seen_us < LATEST_US else date(1970, 1, 1)
    if kind == "day":
        return _day(seen, *parts)
    if kind == "week" and isinstance(parts[0], float):
        ahead = (int(parts[0]) - seen.weekday()) % 7
        return seen + timedelta(days=ahead + (7 if parts[1] == "next" and ahead < 2 else 0))
    if parts and parts[0] in _AHEAD:
        return seen + timedelta(days=_AHEAD[str(parts[0])])
    return None


def _day(seen: date, month: object, day: object, year: object) -> date | None:
    if not isinstance(day, float) or (month is not None and not isinstance(month, float)):
        return None
    try:
        if isinstance(year, float):
            return date(int(year), seen.month if month is None else int(month), int(day))
        meant = date(seen.year, seen.month if month is None else int(month), int(day))
        if meant >= seen:
            return meant
        if month is not None:
            return date(seen.year + 1, int(month), int(day))
        return date(seen.year + seen.month // 12, seen.month % 12 + 1, int(day))
    except ValueError:
        return None
