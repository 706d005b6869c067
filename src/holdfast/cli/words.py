"""Values in words: sizes, counts, times, and text that cannot do anything to a terminal.

Law: what someone else wrote passes through `clean` before it is shown.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
)
"""Controls, escapes, separators of lines, overrides of direction, and what is invisible. The two joiners that scripts and
emoji need are not among them."""

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_DATED_AFTER = 30 * _DAY
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def clean(text: str) -> str:
    """One line of text, with every character that a terminal would obey spelled out instead."""
    return UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def clean_lines(text: str) -> list[str]:
    """The same for text of several lines, which stay several."""
    return [clean(line.removesuffix("\r").replace("\t", "    ")) for line in text.split("\n")]


def cut(text: str, chars: int) -> str:
    """The beginning of a text that is longer than this, and how much is missing."""
    return text if len(text) <= chars else f"{text[:chars]}… ({count(len(text) - chars, 'more character')})"


def short(text: str, chars: int) -> str:
    """Text on one line, at most this long."""
    line = " ".join(text[: 4 * chars].split())
    line = clean(line)
    return line if len(line) <= chars else line[: chars - 1] + "…"


def count(number: int, thing: str, things: str | None = None) -> str:
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def size(number: int) -> str:
    amount = float(number)
    for unit in _UNITS:
        if amount < 999.5 or unit == _UNITS[-1]:
            return f"{number} B" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1_000
    raise AssertionError("the last unit takes all")


def span(seconds: float) -> str:
    """A duration, in its largest unit."""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{int(seconds // unit)} {name}"
    return f"{int(seconds)} s"


def ago(time_us: int, now_us: int) -> str:
    """When something was, as seen from now; a date once that says more."""
    seconds = (now_us - time_us) / 1e6
    if abs(seconds) >= _DATED_AFTER:
        return stamp(time_us)[:10]
    if abs(seconds) < 1:
        return "just now"
    return f"{span(seconds)} ago" if seconds > 0 else f"in {span(-seconds)}"


def stamp(time_us: int) -> str:
    """A time as ISO 8601 in UTC; beyond the years that a date can have, the number."""
    try:
        whole = datetime.fromtimestamp(time_us // 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_us} us"
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{time_us % 1_000_000:06d}Z"


def local(time_us: int) -> str:
    """A time on this machine's clock, to the second."""
    try:
        return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{time_us} us"
