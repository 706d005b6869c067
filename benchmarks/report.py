"""What was measured, as tables to read and as JSON to keep."""

from __future__ import annotations

import textwrap
from typing import Any, Literal

import msgspec

from benchmarks.harness import Spread

WIDTH = 122
"""Of a note, at most; a table is as wide as it is."""


class Goal(msgspec.Struct, frozen=True):
    """What a ratio should be. Missing it is said, never punished: a noisy neighbour is not a fault."""

    side: Literal["at most", "at least", "below"]
    value: float

    def met(self, figure: float) -> bool:
        if self.side == "at most":
            return figure <= self.value
        return figure >= self.value if self.side == "at least" else figure < self.value

    def __str__(self) -> str:
        signs = {"at most": "≤", "at least": "≥", "below": "<"}
        return f"{signs[self.side]} {self.value:g}"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    ours: str
    theirs: str = ""
    ratio: Spread | None = None
    goal: Goal | None = None
    limit: str = ""
    """Which limit of the machine was met."""

    @property
    def met(self) -> bool | None:
        if self.goal is None or self.ratio is None:
            return None
        return self.goal.met(self.ratio.median)

    def cells(self) -> tuple[str, ...]:
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        return (
            self.what,
            self.ours,
            self.theirs,
            "" if self.ratio is None else str(self.ratio),
            "" if self.goal is None else str(self.goal),
            verdict,
            self.limit,
        )


class Table(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    ours: str
    theirs: str
    lines: list[Line]
    notes: list[str] = msgspec.field(default_factory=list)
    wrong: str = ""
    """What must never be and was: this fails the run, as no missed goal does."""
    failures: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Single cases that failed, in full. They are too long for the table and are only in the JSON."""

    def __str__(self) -> str:
        head = ("what", self.ours, self.theirs, "ratio", "goal", "", "limit met")
        rows = [head, *(line.cells() for line in self.lines)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        rule = "  ".join("─" * width for width in widths)
        notes = [*self.notes, *([f"WRONG: {self.wrong}"] if self.wrong else [])]
        wrapped = [textwrap.fill(note, WIDTH, initial_indent="  ", subsequent_indent="    ") for note in notes]
        return "\n".join([f"{self.name}: {self.title}", "", text[0], rule, *text[1:], *wrapped])


class Machine(msgspec.Struct, frozen=True):
    python: str
    sqlite: str
    cores: int
    folder: str
    file_system: str
    fsync_us: Spread
    load: float
    """Processes that wanted the processor in the minute before; above the number of cores, the ratios are rough."""

    def __str__(self) -> str:
        return (
            f"Python {self.python}, SQLite {self.sqlite}, {self.cores} cores; {self.folder} on {self.file_system}, "
            f"one fsync {self.fsync_us.median:.0f} µs ({self.fsync_us.low:.0f}–{self.fsync_us.high:.0f}), "
            f"load {self.load:.1f}"
        )


class Results(msgspec.Struct, frozen=True):
    machine: Machine
    quick: bool
    tables: list[Table]
    failed: list[str]
    """Benchmarks that could not run at all, or found something wrong; a missed goal is no failure."""

    def json(self) -> bytes:
        verdicts = [
            {"table": table.name, "what": line.what, "met": line.met}
            for table in self.tables
            for line in table.lines
            if line.met is not None
        ]
        return msgspec.json.format(msgspec.json.encode(msgspec.structs.asdict(self) | {"verdicts": verdicts}))


def micros(spread: Spread) -> str:
    return f"{spread.median:,.0f} µs"


def per_second(spread: Spread) -> str:
    return f"{spread.median:,.0f}/s"
