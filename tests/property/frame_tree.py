"""One session's frames in plain Python: a tree, and what is found out by looking at it.

Law: what a frame has used, has delegated and waits for is never kept, but counted anew from the tree each time it is asked
for; so each grant settles once, and what a tree has used is its root's, by the way it is counted.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

WEIGHTS = {"input": Fraction(1), "read": Fraction(1, 10), "write": Fraction(5, 4), "output": Fraction(5)}
"""What a token of each kind counts."""

Usage = tuple[int, int, int, int, int]
NOTHING: Usage = (0, 0, 0, 0, 0)


class FrameRefusal(Exception):
    """The command meets this error, with this data in it."""

    def __init__(self, error: str, **data: object) -> None:
        super().__init__(error, data)
        self.error = error
        self.data = data


@dataclasses.dataclass
class Rest:
    reason: str
    by: str
    at: int
    holder: str
    token: str | None
    """The newest one; None if another frame's token wakes this one. A name of ours, as the real one is secret."""
    revoked: bool = False
    expires: int | None = None
    resumable_by: tuple[str, ...] = ()
    remaining: int | None = None


@dataclasses.dataclass
class Frame:
    seq: int
    parent: str | None
    goal: str
    inputs: Any
    total: int
    depth: int
    limits: tuple[int, int | None, int | None]
    created: int
    deadline: int | None
    touched: int
    status: str = ""
    """How it ended; empty while it lives."""
    completed: int | None = None
    said: tuple[str, str | None] | None = None
    """Summary and result; None if it ended with another, or has not."""
    spent: int = 0
    usage: Usage = NOTHING
    reserved: dict[str, tuple[str, int]] = dataclasses.field(default_factory=dict)
    tool_calls: int = 0
    kept: list[tuple[str, str, str | None, str]] = dataclasses.field(default_factory=list)
    """Handles: id, kind, source, and what is to be read there."""
    results: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    """What children brought: child, how it ended, handle."""
    context: str | None = None
    rest: Rest | None = None
    asks: bool = False
    errors: list[str] = dataclasses.field(default_factory=list)

    @property
    def id(self) -> str:
        return f"f{self.seq}"

    @property
    def live(self) -> bool:
        return not self.status


@dataclasses.dataclass
class Call:
    id: str
    frame: str | None
    key: str | None = None
    attempts: int = 0


class Session:
    """One session: the figures of its frames are all found out by looking at the tree."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 1
        self.closed = ""
        self.frames: dict[str, Frame] = {}
        self.calls: list[Call] = []
        self.fates: dict[str, str] = {}
        self.asks = False
        self.errors: list[str] = []
        self.reserved: dict[str, str] = {}
        """Every reservation there ever was, and its frame."""
        self.settled: dict[int, int] = {}
        """For every event that popped a frame, what its tree had used."""

    def next(self) -> int:
        self.version += 1
        return self.version

    # What the tree says

    def children(self, frame: Frame) -> list[Frame]:
        return [each for each in self.frames.values() if each.parent == frame.id]

    def live_children(self, frame: Frame) -> list[Frame]:
        return [each for each in self.children(frame) if each.live]

    def below(self, frame: Frame) -> Iterator[Frame]:
        for each in self.live_children(frame):
            yield from self.below(each)
            yield each

    def ancestry(self, frame: Frame) -> list[Frame]:
        above = [] if frame.parent is None else self.ancestry(self.frames[frame.parent])
        return [*above, frame]

    def used(self, frame: Frame) -> int:
        return frame.spent + sum(self.used(each) for each in self.children(frame) if not each.live)

    def usage_below(self, frame: Frame) -> Usage:
        total = NOTHING
        for each in self.children(frame):
            if not each.live:
                total = add_usage(add_usage(total, each.usage), self.usage_below(each))
        return total

    def budget(self, frame: Frame) -> tuple[int, int, int, int]:
        reserved = sum(amount for _, amount in frame.reserved.values())
        delegated = sum(each.total for each in self.live_children(frame))
        return frame.total, self.used(frame), reserved, delegated

    def status(self, frame: Frame) -> str:
        if frame.status:
            return frame.status
        if frame.rest is not None:
            return "suspended"
        return "waiting" if self.live_children(frame) else "active"

    def stack(self) -> list[Frame]:
        working = [frame for frame in self.frames.values() if frame.live and frame.rest is None]
        return self.ancestry(max(working, key=lambda each: (each.touched, each.depth, each.seq))) if working else []

    def pending(self) -> list[tuple[str, str | None, str | None, str | None]]:
        """Kind, frame, call and key of what is left to do."""
        found: list[tuple[str, str | None, str | None, str | None]] = []
        for frame in self.frames.values():
            if not frame.live:
                continue
            children = self.live_children(frame)
            if children:
                found.append(("waiting_for_subcall", frame.id, None, None))
            asks = frame.asks and not children and frame.rest is None
            if asks or (frame.rest is not None and frame.rest.holder == frame.id):
                found.append(("waiting_for_user", frame.id, None, None))
            found += _unhandled_errors(frame.id, frame.errors)
        if self.asks:
            found.append(("waiting_for_user", None, None, None))
        found += _unhandled_errors(None, self.errors)
        for call in self.calls:
            kind = "tool_in_progress" if call.attempts else "tool_not_started"
            found.append((kind, call.frame, call.id, call.key if call.attempts else None))
        return found

    # What may not be

    def check_open(self) -> None:
        if self.closed:
            raise FrameRefusal("SessionClosedError", session=self.name, reason=self.closed)

    def living(self, frame: str) -> Frame:
        found = self.frames.get(frame)
        if found is None:
            raise FrameRefusal("FrameNotFound", session=self.name, frame=frame)
        if not found.live:
            raise FrameRefusal("AlreadyTerminal", frame=frame, status=found.status)
        return found

    def check_working(self, frame: Frame, now: int) -> None:
        if frame.rest is not None:
            raise FrameRefusal("FrameSuspendedError", frame=frame.id, reason=frame.rest.reason)
        if frame.deadline is not None and now >= frame.deadline:
            raise FrameRefusal("DeadlinePassed", frame=frame.id, late_us=now - frame.deadline)

    def check_available(self, frame: Frame, amount: int) -> None:
        total, *parts = self.budget(frame)
        if amount > total - sum(parts):
            raise FrameRefusal(
                "InsufficientTokens", frame=frame.id, requested=amount, available=max(0, total - sum(parts))
            )

    def check_reserved(self, frame: Frame, reservation: str) -> None:
        if reservation not in frame.reserved:
            had = self.reserved.get(reservation) == frame.id
            kind = "ReservationSettled" if had else "ReservationNotFound"
            raise FrameRefusal(kind, frame=frame.id, reservation=reservation)


def _unhandled_errors(frame: str | None, errors: list[str]) -> list[tuple[str, str | None, str | None, str | None]]:
    return [("unhandled_error", frame, each if each.startswith("c") else None, None) for each in errors]


def add_usage(one: Usage, other: Usage) -> Usage:
    a, b, c, d, e = (mine + theirs for mine, theirs in zip(one, other, strict=True))
    return a, b, c, d, e


def spend(usage: Usage) -> int:
    given, output, read, write, _ = usage
    plain = max(0, given - read - write)
    return math.ceil(
        plain * WEIGHTS["input"] + read * WEIGHTS["read"] + write * WEIGHTS["write"] + output * WEIGHTS["output"]
    )
