"""Custom compaction strategies, and lighter texts.

Laws of a custom strategy: it is called only if the candidates do not fit. It never grows the context, keeps the order, and
leaves Critical candidates as they are; else it is refused. Its sizes are not trusted, but counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.errors import CriticalOverflow, StrategyRefused, describe_value
from holdfast.model.history.handles import PRIORITY_SCORES, Priority
from holdfast.model.history.plans import CustomStrategy, Level, PriorityBased, SummarizeOldest, TruncateAt

KEEP_RECENT = 10
BREADCRUMB_KIND = "breadcrumb"
_LONG_CHARS = 200
_LONG_WORD = re.compile(rf"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{{{_LONG_CHARS},}}")
"""Keys, digests, images as text: nobody reads these."""
_UNBROKEN_TEXT = re.compile(r"(?<![!-~])[!-~]{2000,}")
"""Text for machines, without a space. Scripts that have no spaces are not meant."""


class CompactionCandidate(msgspec.Struct, frozen=True):
    """A piece of context that a strategy may leave out or shorten."""

    id: str
    kind: str
    priority: Priority
    seq: int
    """Its age: the lowest is the oldest."""
    text: str
    tokens: int

    @property
    def rank(self) -> int:
        """Higher for what should stay longer."""
        score = PRIORITY_SCORES[self.priority]
        return max(score, PRIORITY_SCORES["critical"] - 1) if self.kind == BREADCRUMB_KIND else score


CustomFunction: TypeAlias = Callable[[tuple[CompactionCandidate, ...], int], Sequence[CompactionCandidate]]
"""From candidates and a budget to those that stay, in order, each as it was or with another text."""
StrategyArgument: TypeAlias = PriorityBased | SummarizeOldest | TruncateAt | CustomFunction | CustomStrategy | str
"""What a caller may pass as a strategy: also its name."""


class Compaction(NamedTuple):
    """The candidates that a strategy left, and the level of the loss."""

    items: tuple[CompactionCandidate, ...]
    level: Level


def compact(
    candidates: Sequence[CompactionCandidate], budget: int, *, count: Callable[[str], int], strategy: CustomFunction
) -> Compaction:
    """Apply a custom strategy to candidates that do not fit the budget."""
    before = tuple(candidates)
    critical = _total_tokens([candidate for candidate in before if candidate.priority == "critical"])
    if critical > budget:
        raise CriticalOverflow(needed=critical, budget=budget)
    if _total_tokens(before) <= budget:
        return Compaction(before, "none")
    items = _check_answer(strategy, before, budget, count)
    left = {item.id for item in items}
    removed = [candidate for candidate in before if candidate.id not in left]
    level: Level = "none" if items == before else "light"
    if removed:
        is_low = all(candidate.rank <= PRIORITY_SCORES["low"] for candidate in removed)
        level = "aggressive" if is_low else "critical"
    return Compaction(items, level)


def _total_tokens(items: Sequence[CompactionCandidate]) -> int:
    return sum(item.tokens for item in items)


def _check_answer(
    strategy: CustomFunction, before: tuple[CompactionCandidate, ...], budget: int, count: Callable[[str], int]
) -> tuple[CompactionCandidate, ...]:
    """The answer of a strategy, with sizes that are counted here; StrategyRefused if it breaks a law."""
    name = getattr(strategy, "__name__", type(strategy).__name__)

    def refuse(reason: str) -> StrategyRefused:
        return StrategyRefused(strategy=name, reason=reason)

    positions = {candidate.id: at for at, candidate in enumerate(before)}
    items: list[CompactionCandidate] = []
    last = -1
    answer: object = strategy(before, budget)
    if not isinstance(answer, list | tuple):
        raise refuse(f"it returned {describe_value(answer)}, not a list")
    for item in answer:
        if type(item) is not CompactionCandidate or type(item.text) is not str:
            raise refuse(f"it returned {describe_value(item)}, not a candidate")
        at = positions.get(item.id)
        if at is None:
            raise refuse(f"it invents {item.id!r}")
        if at <= last:
            raise refuse(f"{item.id!r} is not where it was, or there twice")
        last = at
        items.append(_check_item(before[at], item, count, refuse))
    left = {item.id for item in items}
    for candidate in before:
        if candidate.priority == "critical" and candidate.id not in left:
            raise refuse(f"it drops {candidate.id!r}, which is Critical")
    if _total_tokens(items) > _total_tokens(before):
        raise refuse(f"it makes {_total_tokens(items)} tokens of {_total_tokens(before)}")
    return tuple(items)


def _check_item(
    before: CompactionCandidate,
    after: CompactionCandidate,
    count: Callable[[str], int],
    refuse: Callable[[str], StrategyRefused],
) -> CompactionCandidate:
    if msgspec.structs.replace(before, text=after.text, tokens=after.tokens) != after:
        raise refuse(f"it changes more of {after.id!r} than its text")
    if after.text == before.text:
        return before
    if before.priority == "critical":
        raise refuse(f"it touches {after.id!r}, which is Critical")
    return msgspec.structs.replace(before, text=after.text, tokens=count(after.text))


# Lighter texts


def lighten(text: str) -> str:
    """The text without trailing blanks, repeated empty lines, lines that repeat the one before, and the inside of very long
    strings. Never longer; a second call changes nothing."""
    if len(text) < _LONG_CHARS and "\n" not in text:
        return text.rstrip()
    lines: list[str] = []
    for line in text.split("\n"):
        line = _LONG_WORD.sub(lambda match: _abbreviate(match.group(), 48, 24), line.rstrip())
        line = _UNBROKEN_TEXT.sub(lambda match: _abbreviate(match.group(), 600, 200), line)
        if line or (lines and lines[-1]):
            lines.append(line)
    if lines and not lines[-1]:
        lines.pop()
    return "\n".join(_collapse_repeats(lines))


def _abbreviate(word: str, head: int, tail: int) -> str:
    return f"{word[:head]}…[{len(word)} characters]…{word[-tail:]}"


def _collapse_repeats(lines: list[str]) -> list[str]:
    """Repeated lines as one line that says how often, where that is shorter. A result that equals the line before it counts
    as a repetition too, so that a second call finds nothing."""
    runs: list[tuple[str, int]] = []
    for line in lines:
        while runs and runs[-1][0] != line and _close_run(runs):
            pass
        if runs and runs[-1][0] == line:
            runs[-1] = (line, runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    while runs and _close_run(runs):
        pass
    return [line for line, times in runs for _ in range(times)]


def _close_run(runs: list[tuple[str, int]]) -> bool:
    """Write the last run as one line, if that is shorter, and join it with the one before if they are the same now."""
    line, times = runs[-1]
    joined = f"{line} (repeated {times} times)"
    if times == 1 or len(joined) >= (len(line) + 1) * times - 1:
        return False
    runs.pop()
    if runs and runs[-1][0] == joined:
        runs[-1] = (joined, runs[-1][1] + 1)
    else:
        runs.append((joined, 1))
    return True
