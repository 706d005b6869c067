"""Figures as texts for people: counts, sizes and durations."""

from __future__ import annotations

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def format_count(number: int, thing: str, things: str | None = None) -> str:
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def format_size(number: int) -> str:
    amount = float(number)
    for unit in _UNITS:
        if amount < 999.5 or unit == _UNITS[-1]:
            return f"{number} B" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1_000
    raise AssertionError("the loop returns at the last unit")


def format_duration(seconds: float) -> str:
    """Format a duration in its largest unit."""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{int(seconds)} s"
