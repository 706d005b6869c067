"""Output: JSON for machines, tables and colours on a terminal, plain text anywhere else.

Laws: colours go to a terminal only, and to none if NO_COLOR is set; rich is imported only to draw; text from the
store passes through `escape`, so it cannot control a terminal.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeAlias, TypeVar

import click

from holdfast.runtime import figures

if TYPE_CHECKING:
    from rich.console import Console

BAR_CHARS = 20
GAP = "  "
MIN_COLUMN_CHARS = 8
"""The minimum width of a column."""
READABLE_CHARS = 36
"""A column marked `below` that would be narrower than this moves below its row."""
REDRAW_S = 0.05
ROLE_STYLES = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}
SESSION_STYLES = {"open": "green", "closed": "dim", "destroyed": "red"}
FRAME_STYLES = {"active": "green", "waiting": "cyan", "suspended": "yellow", "failed": "red"}
FACT_STYLES = {"current": "green", "claim": "yellow", "review": "yellow"}
TOKEN_STYLES = {"live": "green", "expired": "red", "revoked": "red"}
VERDICT_STYLES = {"ok": "green", "warn": "yellow", "bad": "bold red"}
T = TypeVar("T")
ProgressCallback: TypeAlias = Callable[[int, int], None]


class StyledText(NamedTuple):
    """Text that is safe to print, with its style."""

    text: str
    style: str = ""


class TableColumn(NamedTuple):
    """A column of a table, and what happens to it on a narrow terminal. By default its texts are cut."""

    title: str
    right: bool = False
    whole: bool = False
    """Never made narrower."""
    wrap: bool = False
    """Wrapped, not cut."""
    below: bool = False
    """Wrapped; where too little room is left, moved to a line of its own below the row."""


def print_json(document: object) -> None:
    """Print one JSON document on one line. Characters that control a terminal are escaped."""
    stdout_is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json_text(document, ascii_only=not stdout_is_utf8))


def json_text(document: object, *, ascii_only: bool = False) -> str:
    text = json.dumps(document, ensure_ascii=ascii_only, separators=(", ", ": "), default=_spell_bytes)
    return UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f", text)


def _spell_bytes(value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return base64.b64encode(value).decode()


def print_line(*pieces: str | StyledText, error: bool = False) -> None:
    """Print one line that consists of these pieces."""
    styled = [StyledText(piece) if isinstance(piece, str) else piece for piece in pieces]
    stream = sys.stderr if error else sys.stdout
    if _has_colour(stream):
        click.echo("".join(_paint(piece) for piece in styled), err=error, color=True)
    else:
        click.echo("".join(piece.text for piece in styled).rstrip(), err=error)


def discard_output(stream: TextIO) -> None:
    """Discard the buffered output of a stream, so that Python does not fail to write it when it exits."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def _paint(piece: StyledText) -> str:
    """Style a piece without rich, which is too slow for a long log."""
    words = piece.style.split()
    colour = next((word for word in words if word not in ("bold", "dim")), None)
    if not words:
        return piece.text
    return click.style(piece.text, fg=colour, bold="bold" in words or None, dim="dim" in words or None)


def print_block(lines: Iterable[str], indent: int) -> None:
    """Print indented lines. On a terminal, wrapped lines are indented too."""
    if not sys.stdout.isatty():
        for line in lines:
            click.echo((" " * indent + line).rstrip())
        return
    from rich.padding import Padding  # noqa: PLC0415 - only to draw
    from rich.text import Text  # noqa: PLC0415

    _open_console(sys.stdout).print(Padding(Text("\n".join(lines)), (0, 0, 0, indent), expand=False))


def print_table(columns: Sequence[TableColumn], rows: Iterable[Sequence[str | StyledText]]) -> None:
    """Print aligned columns, without lines between them. A column that is empty in every row is left out.

    On a terminal that is too narrow, the widest columns become narrower: those marked `wrap` or `below` are wrapped, the
    others are cut. A column marked `below` that gets too little room moves to a line of its own below each row.
    """
    from rich.cells import cell_len  # noqa: PLC0415 - only to draw

    cells = [[StyledText(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    used = [number for number in range(len(columns)) if any(row[number].text for row in cells)]
    if not used:
        return
    lines = [[row[number] for number in used] for row in cells]
    shown = [columns[number] for number in used]
    if any(column.title for column in shown):
        lines.insert(0, [StyledText(column.title, "bold") for column in shown])
    widths = [max(cell_len(line[at].text) for line in lines) for at in range(len(shown))]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    fit = _fit_widths([*widths], shown, room)
    below = [at for at, column in enumerate(shown) if column.below and at and fit[at] < min(widths[at], READABLE_CHARS)]
    beside = [at for at in range(len(shown)) if at not in below]
    grid = [shown[at] for at in beside]
    widths = _fit_widths([widths[at] for at in beside], grid, room)
    indent = _find_indent(widths, grid)
    for line in lines:
        _print_row([line[at] for at in beside], grid, widths)
        for at in below:
            for text in _wrap(line[at].text, max(MIN_COLUMN_CHARS, (room or 0) - indent)):
                print_line(" " * indent, line[at]._replace(text=text))


def _print_row(cells: Sequence[StyledText], columns: Sequence[TableColumn], widths: Sequence[int]) -> None:
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - only to draw

    texts: list[list[str]] = []
    for cell, column, width in zip(cells, columns, widths, strict=True):
        if cell_len(cell.text) <= width:
            texts.append([cell.text])
        else:
            texts.append(
                _wrap(cell.text, width) if column.wrap or column.below else [set_cell_size(cell.text, width - 1) + "…"]
            )
    for number in range(max(map(len, texts), default=0)):
        pieces: list[StyledText] = []
        for cell, column, width, parts in zip(cells, columns, widths, texts, strict=True):
            text = parts[number] if number < len(parts) else ""
            padding = StyledText(" " * (width - cell_len(text)))
            piece = cell._replace(text=text)
            pieces += [*((padding, piece) if column.right else (piece, padding)), StyledText(GAP)]
        while pieces and not pieces[-1].text.strip():
            pieces.pop()
        print_line(*pieces)


def _wrap(text: str, width: int) -> list[str]:
    """Break text into lines of at most `width` cells, between words where possible."""
    from rich.text import Text  # noqa: PLC0415 - only to draw

    if not text:
        return []
    return [line.plain.rstrip() for line in Text(text).wrap(_open_console(sys.stdout), width, overflow="fold")]


def _find_indent(widths: Sequence[int], columns: Sequence[TableColumn]) -> int:
    """Where a line below a row starts: under the first column that may be cut, or else under the second."""
    first = next((at for at, column in enumerate(columns) if not column.whole), 1)
    return sum(width + len(GAP) for width in widths[: first or 1])


def _fit_widths(widths: list[int], columns: Sequence[TableColumn], room: int | None) -> list[int]:
    """On a terminal, make the widest columns narrower until the line fits, or until they have the minimum width."""
    if room is None:
        return widths
    room -= len(GAP) * (len(widths) - 1)
    flexible = [at for at, column in enumerate(columns) if not column.whole]
    while sum(widths) > room and flexible:
        widest = max(flexible, key=lambda at: widths[at])
        if widths[widest] <= MIN_COLUMN_CHARS:
            break
        widths[widest] -= 1
    return widths


def print_more(text: str, *, error: bool = True) -> None:
    """Print that a list is incomplete; `text` names the missing part."""
    print_line(StyledText(f"… {text}. --limit 0 shows all.", "dim"), error=error)


def draw_bar(share: float, chars: int = BAR_CHARS) -> str:
    """Draw a share of one as a bar, in ASCII where the output has no blocks. Every share has a mark, however small."""
    full, least = ("█", "▏") if is_drawable("█▏") else ("#", ".")
    return full * round(max(0.0, min(1.0, share)) * chars) or least


def walk_tree(tops: Iterable[T], below: Callable[[T], Sequence[T]]) -> Iterator[tuple[T, str]]:
    """Yield each item with its branch of the tree, followed by the items below it."""
    fork, corner, bar = ("├─ ", "└─ ", "│  ") if is_drawable("├└│─") else ("|- ", "`- ", "|  ")
    waiting = [(item, "", "") for item in reversed([*tops])]
    while waiting:
        item, branch, lead = waiting.pop()
        yield item, branch
        for number, child in enumerate(reversed(below(item))):
            is_last = number == 0
            waiting.append((child, lead + (corner if is_last else fork), lead + ("   " if is_last else bar)))


def is_drawable(text: str) -> bool:
    """Whether the encoding of the output has these characters."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _has_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def _open_console(stream: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 - only to draw

    coloured = _has_colour(stream)
    return Console(
        file=stream,
        color_system="auto" if coloured else None,
        markup=False,
        highlight=False,
        emoji=False,
    )


@contextmanager
def show_progress(label: str, *, in_bytes: bool = False) -> Iterator[ProgressCallback | None]:
    """Show a progress bar on a terminal, and yield its callback; elsewhere yield None."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich import progress as rich  # noqa: PLC0415 - only to draw

    amount = rich.DownloadColumn() if in_bytes else rich.MofNCompleteColumn()
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), amount, rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=_open_console(sys.stderr), transient=True) as shown:
        task = shown.add_task(label, total=None)
        drawn_s = 0.0

        def advance(done: int, total: int) -> None:
            nonlocal drawn_s
            now_s = time.monotonic()
            if now_s - drawn_s >= REDRAW_S or done >= total:
                drawn_s = now_s
                shown.update(task, completed=done, total=total)

        yield advance


UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
)
"""Control characters, line separators, changes of text direction, and invisible characters. The two joiners that scripts
and emoji need are not among them."""


_DATED_AFTER = 30 * 86_400
format_count, format_duration, format_size = figures.format_count, figures.format_duration, figures.format_size


def escape(text: str) -> str:
    """Return text on one line, with every character that controls a terminal as an escape sequence."""
    return UNSAFE.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]


def escape_lines(text: str) -> list[str]:
    """Escape each line of a text."""
    return [escape(line.removesuffix("\r").replace("\t", "    ")) for line in text.split("\n")]


def truncate(text: str, chars: int) -> str:
    """Cut a text after `chars` characters, and append how many are missing."""
    return text if len(text) <= chars else f"{text[:chars]}… ({format_count(len(text) - chars, 'more character')})"


def shorten(text: str, chars: int) -> str:
    """Return text on one line, with at most `chars` characters."""
    line = " ".join(text[: 4 * chars].split())
    line = escape(line)
    return line if len(line) <= chars else line[: chars - 1] + "…"


def format_age(time_us: int, now_us: int) -> str:
    """Format a time relative to now; a date if it is more than 30 days away."""
    seconds = (now_us - time_us) / 1e6
    if abs(seconds) >= _DATED_AFTER:
        return format_timestamp(time_us)[:10]
    if abs(seconds) < 1:
        return "just now"
    return f"{format_duration(seconds)} ago" if seconds > 0 else f"in {format_duration(-seconds)}"


def format_timestamp(time_us: int) -> str:
    """Format a time as ISO 8601 in UTC; as a number if it is outside the range of dates."""
    try:
        whole = datetime.fromtimestamp(time_us // 1_000_000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_us} us"
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{time_us % 1_000_000:06d}Z"


def format_local_time(time_us: int) -> str:
    """Format a time in the time zone of this machine, to the second."""
    try:
        return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return f"{time_us} us"
