"""How things are shown: JSON for machines, tables and colours on a terminal, plain text anywhere else.

Law: nothing is coloured that does not go to a terminal, or when NO_COLOR is set; rich is loaded only to draw.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeAlias, TypeVar

import click

from holdfast.cli.words import UNSAFE

if TYPE_CHECKING:
    from rich.console import Console

BAR_CHARS = 20
GAP = "  "
NARROWEST = 8
"""A column is not made narrower than this."""
REDRAW_S = 0.05

ROLES = {"system": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}
STATUSES = {"open": "green", "closed": "dim", "destroyed": "red"}
FRAMES = {"active": "green", "waiting": "cyan", "suspended": "yellow", "failed": "red"}
FACTS = {"current": "green", "claim": "yellow", "review": "yellow"}
TOKENS = {"live": "green", "expired": "red", "revoked": "red"}
VERDICTS = {"ok": "green", "warn": "yellow", "bad": "bold red"}

T = TypeVar("T")
Progress: TypeAlias = Callable[[int, int], None]


class Styled(NamedTuple):
    """Text that is safe to show, and how."""

    text: str
    style: str = ""


class Column(NamedTuple):
    title: str
    right: bool = False
    whole: bool = False
    """Never shortened to fit the terminal."""


def emit(document: object) -> None:
    """One JSON document on one line. It reaches terminals too, so what those would obey is escaped."""
    stdout_is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    click.echo(json_text(document, ascii_only=not stdout_is_utf8))


def json_text(document: object, *, ascii_only: bool = False) -> str:
    text = json.dumps(document, ensure_ascii=ascii_only, separators=(", ", ": "))
    return UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f", text)


def say(*pieces: str | Styled, error: bool = False) -> None:
    """One line made of these pieces."""
    styled = [Styled(piece) if isinstance(piece, str) else piece for piece in pieces]
    stream = sys.stderr if error else sys.stdout
    if _coloured(stream):
        click.echo("".join(_painted(piece) for piece in styled), err=error, color=True)
    else:
        click.echo("".join(piece.text for piece in styled).rstrip(), err=error)


def _painted(piece: Styled) -> str:
    """Without rich: a log of many lines is shown as fast as it is read."""
    wanted = piece.style.split()
    colour = next((word for word in wanted if word not in ("bold", "dim")), None)
    if not wanted:
        return piece.text
    return click.style(piece.text, fg=colour, bold="bold" in wanted or None, dim="dim" in wanted or None)


def block(lines: Iterable[str], indent: int) -> None:
    """Text of its own, indented; on a terminal it is wrapped so that it stays so."""
    if not sys.stdout.isatty():
        for line in lines:
            click.echo((" " * indent + line).rstrip())
        return
    from rich.padding import Padding  # noqa: PLC0415 - only to draw
    from rich.text import Text  # noqa: PLC0415

    _console(sys.stdout).print(Padding(Text("\n".join(lines)), (0, 0, 0, indent), expand=False))


def table(columns: Sequence[Column], rows: Iterable[Sequence[str | Styled]]) -> None:
    """Aligned columns, without lines between them. A column that is empty in every row is left out."""
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 - only to draw

    cells = [[Styled(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    used = [number for number in range(len(columns)) if any(row[number].text for row in cells)]
    shown = [columns[number] for number in used]
    lines = [[row[number] for number in used] for row in cells]
    if any(column.title for column in shown):
        lines.insert(0, [Styled(column.title, "bold") for column in shown])
    widths = _fitted([max(cell_len(line[at].text) for line in lines) for at in range(len(shown))], shown)
    for line in lines:
        pieces: list[Styled] = []
        for cell, column, width in zip(line, shown, widths, strict=True):
            fits = cell_len(cell.text) <= width
            text = cell.text if fits else set_cell_size(cell.text, width - 1) + "…"
            padding = Styled(" " * (width - cell_len(text)))
            placed = [padding, cell._replace(text=text)] if column.right else [cell._replace(text=text), padding]
            pieces += [*placed, Styled(GAP)]
        while not pieces[-1].text.strip():
            pieces.pop()
        say(*pieces)


def _fitted(widths: list[int], columns: Sequence[Column]) -> list[int]:
    """On a terminal, the widest columns give way until the line fits, or until they are as narrow as they may be."""
    if not sys.stdout.isatty():
        return widths
    room = shutil.get_terminal_size().columns - len(GAP) * (len(widths) - 1)
    flexible = [at for at, column in enumerate(columns) if not column.whole]
    while sum(widths) > room and flexible:
        widest = max(flexible, key=lambda at: widths[at])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    return widths


def bar(share: float) -> str:
    """A share of one as a bar."""
    return "█" * round(max(0.0, min(1.0, share)) * BAR_CHARS)


def tree(tops: Iterable[T], below: Callable[[T], Sequence[T]]) -> Iterator[tuple[T, str]]:
    """Each item with what leads to it, right before those below it."""
    fork, corner, bar = ("├─ ", "└─ ", "│  ") if drawable("├└│─") else ("|- ", "`- ", "|  ")
    waiting = [(item, "", "") for item in reversed([*tops])]
    while waiting:
        item, branch, lead = waiting.pop()
        yield item, branch
        for place, each in enumerate(reversed(below(item))):
            is_last = place == 0
            waiting.append((each, lead + (corner if is_last else fork), lead + ("   " if is_last else bar)))


def drawable(text: str) -> bool:
    """Whether whoever reads the output can be shown this."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _coloured(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


def _console(stream: TextIO) -> Console:
    from rich.console import Console  # noqa: PLC0415 - only to draw

    coloured = _coloured(stream)
    return Console(
        file=stream,
        color_system="auto" if coloured else None,
        markup=False,
        highlight=False,
        emoji=False,
    )


@contextmanager
def progress(label: str, *, in_bytes: bool = False) -> Iterator[Progress | None]:
    """A bar on the terminal while something takes its time; where nobody looks, None."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich import progress as rich  # noqa: PLC0415 - only to draw

    amount = rich.DownloadColumn() if in_bytes else rich.MofNCompleteColumn()
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), amount, rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=_console(sys.stderr), transient=True) as shown:
        task = shown.add_task(label, total=None)
        drawn_s = 0.0

        def advance(done: int, total: int) -> None:
            nonlocal drawn_s
            now_s = time.monotonic()
            if now_s - drawn_s >= REDRAW_S or done >= total:
                drawn_s = now_s
                shown.update(task, completed=done, total=total)

        yield advance
