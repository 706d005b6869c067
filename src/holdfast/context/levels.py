"""Compaction: what is left of pieces of context so that they fit a budget.

Laws: it never grows. What fits is left alone, unless a floor says otherwise. What is Critical is in, as it was given, or it
is an error. Order is kept. What is left, compacted again for the same budget, stays as it is. A larger budget never raises
the level, and nothing is in while something that ranks higher was dropped and would fit in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from holdfast.errors import CriticalOverflow, InvalidContent, StrategyRefused, shown
from holdfast.model.handles import SCORES, Priority
from holdfast.model.names import checked_whole
from holdfast.model.plan import LEVELS, CustomStrategy, Level, PriorityBased, SummarizeOldest, TruncateAt

__all__ = [
    "BREADCRUMB",
    "KEEP_RECENT",
    "LEVELS",
    "SUMMARY",
    "Asked",
    "Candidate",
    "Compaction",
    "Custom",
    "PriorityBased",
    "Strategy",
    "Summarizer",
    "check_strategy",
    "compact",
    "light",
]

KEEP_RECENT = 10
SUMMARY_SHARE = 4
"""A summary is asked to have one in so many of the tokens that it stands for."""

BREADCRUMB = "breadcrumb"
"""The kind that outlives everything but what is Critical: where in the work this is."""
SUMMARY = "summary"

_BREADCRUMB_RANK = SCORES["critical"] - 1


class Candidate(msgspec.Struct, frozen=True):
    """A piece of context that may be left out or made smaller."""

    id: str
    kind: str
    priority: Priority
    seq: int
    """How old it is: what has the lowest is the oldest."""
    text: str
    tokens: int
    """Its size, by the same count that compacts it."""

    @property
    def rank(self) -> int:
        """What is dropped last has the highest."""
        score = SCORES[self.priority]
        return max(score, _BREADCRUMB_RANK) if self.kind == BREADCRUMB else score


Custom: TypeAlias = Callable[[tuple[Candidate, ...], int], Sequence[Candidate]]
"""From candidates and a budget to those that stay, in order, each as it was or with another text."""
Strategy: TypeAlias = PriorityBased | SummarizeOldest | TruncateAt | Custom
"""What `compact` follows; one of one's own is the function itself."""
Asked: TypeAlias = Strategy | CustomStrategy | str
"""What a caller may pass: also the name of a strategy."""
Summarizer: TypeAlias = Callable[[Sequence[Candidate], int], str]
"""From candidates, the oldest first, and the tokens that a summary should have at most, to its text; an empty one if there
is none to be had."""


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. Sizes are those of the texts."""

    original: int
    final: int
    level: Level
    removed: tuple[str, ...] = ()
    summarised: tuple[str, ...] = ()
    """Those that one of the items now stands for."""
    items: tuple[Candidate, ...] = ()
    target_met: bool = True


def compact(
    candidates: Sequence[Candidate],
    budget: int,
    *,
    count: Callable[[str], int],
    strategy: Strategy = PriorityBased(),
    min_level: Level = "none",
    keep_recent: int = KEEP_RECENT,
    summarize: Summarizer | None = None,
) -> Compaction:
    """The candidates, or what is left of them, in the budget. All that the levels up to `min_level` can do is done in any
    case; what is beyond it, only as far as it takes. Without a summarizer nothing is summarised."""
    checked_whole("budget", budget)
    floor = _checked_level(min_level)
    check_strategy(strategy)
    recent = (
        strategy.keep_recent if isinstance(strategy, SummarizeOldest) else checked_whole("keep_recent", keep_recent)
    )
    work = _Work(candidates, budget, count, summarize, recent)
    for level in LEVELS[1 : floor + 1]:
        work.apply(level, in_full=True)
    if not work.fits:
        work.follow(strategy, floor)
    return work.result(floor)


def _checked_level(level: object) -> int:
    if level not in LEVELS:
        raise InvalidContent(reason=f"min_level is {shown(level)}, none of {', '.join(LEVELS)}")
    return LEVELS.index(level)


def check_strategy(strategy: object) -> None:
    if isinstance(strategy, SummarizeOldest):
        checked_whole("keep_recent", strategy.keep_recent)
    elif isinstance(strategy, TruncateAt):
        checked_whole("message_count", strategy.message_count)
    elif not isinstance(strategy, PriorityBased) and not callable(strategy):
        raise InvalidContent(reason=f"the strategy is {shown(strategy)}, none that we know and nothing to call")


class _Work:
    """Candidates on their way through the levels."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        budget: int,
        count: Callable[[str], int],
        summarize: Summarizer | None,
        keep_recent: int,
    ) -> None:
        self._given = tuple(candidates)
        self._items = self._given
        self._budget = budget
        self._count = count
        self._summarize = summarize
        self._keep_recent = keep_recent
        self._stands_for: dict[str, tuple[str, ...]] = {}
        if len({each.id for each in self._given}) < len(self._given):
            raise InvalidContent(reason="two candidates have the same id")
        critical = _size(each for each in self._given if each.priority == "critical")
        if critical > budget:
            raise CriticalOverflow(needed=critical, budget=budget)

    @property
    def fits(self) -> bool:
        return _size(self._items) <= self._budget

    def follow(self, strategy: Strategy, floor: int) -> None:
        """Goes on from the floor until it fits, or until there is no more that this strategy does."""
        if isinstance(strategy, PriorityBased):
            # what the last level left in full may still be too much
            self._until_it_fits(LEVELS[floor + 1 :] or LEVELS[-1:])
        elif isinstance(strategy, SummarizeOldest):
            self._until_it_fits(LEVELS[floor + 1 : LEVELS.index("moderate") + 1])
        elif isinstance(strategy, TruncateAt):
            self._until_it_fits(LEVELS[floor + 1 : LEVELS.index("light") + 1])
            if not self.fits:
                self._keep_but(self._old(strategy.message_count))
        else:
            self._items = _checked_answer(strategy, self._items, self._budget, self._count)

    def _until_it_fits(self, levels: Sequence[Level]) -> None:
        for level in levels:
            if self.fits:
                return
            self.apply(level)

    def apply(self, level: Level, in_full: bool = False) -> None:
        if level == "light":
            self._items = tuple(map(self._lighter, self._items))
        elif level == "moderate":
            self._summarise(self._old(self._keep_recent))
        elif level == "aggressive":
            self._drop(SCORES["low"], in_full)
        elif level == "critical":
            self._drop(SCORES["high"] if in_full else _BREADCRUMB_RANK, in_full)

    def _lighter(self, item: Candidate) -> Candidate:
        text = item.text if item.priority == "critical" else light(item.text)
        if text == item.text:
            return item
        tokens = self._count(text)
        return msgspec.structs.replace(item, text=text, tokens=tokens) if tokens < item.tokens else item

    def _old(self, newest: int) -> list[Candidate]:
        """What may leave and is not among so many of the newest, the oldest first."""
        movable = [each for each in self._items if each.rank < _BREADCRUMB_RANK]
        movable.sort(key=lambda each: each.seq)
        return movable[: max(0, len(movable) - newest)]

    def _keep_but(self, gone: Iterable[Candidate]) -> None:
        ids = {each.id for each in gone}
        self._items = tuple(each for each in self._items if each.id not in ids)

    def _drop(self, highest: int, in_full: bool) -> None:
        """Drops what ranks no higher than this: all of it, or the lowest and oldest until it fits. What the room that
        remains has space for stays, the highest and newest first."""
        pool = [each for each in self._items if each.rank <= highest]
        pool.sort(key=lambda each: (each.rank, each.seq))
        room = -1 if in_full else self._budget - _size(self._items) + _size(pool)
        gone: list[Candidate] = []
        for each in reversed(pool):
            if each.tokens <= room:
                room -= each.tokens
            else:
                gone.append(each)
        self._keep_but(gone)

    def _summarise(self, old: list[Candidate]) -> None:
        """One item for all of these, if there is a shorter text that says it."""
        size = _size(old)
        if self._summarize is None or size < SUMMARY_SHARE or [each.kind for each in old] == [SUMMARY]:
            return
        answer: object = self._summarize(tuple(old), size // SUMMARY_SHARE)
        if type(answer) is not str:
            raise InvalidContent(reason=f"the summarizer returned {shown(answer)}, not a text")
        text = light(answer)
        tokens = self._count(text)
        if not text.strip() or tokens >= size:
            return
        highest = max(old, key=lambda each: each.rank).priority
        summary = Candidate(self._free_id(old), SUMMARY, highest, old[-1].seq, text, tokens)
        self._stands_for[summary.id] = tuple(
            source for each in old for source in self._stands_for.get(each.id, (each.id,))
        )
        ids = {each.id for each in old}
        first = next(at for at, each in enumerate(self._items) if each.id in ids)
        behind = tuple(each for each in self._items[first:] if each.id not in ids)
        self._items = (*self._items[:first], summary, *behind)

    def _free_id(self, old: list[Candidate]) -> str:
        taken = {each.id for each in (*self._given, *self._items)}
        name = f"{SUMMARY}_{old[0].seq}_{old[-1].seq}"
        while name in taken:
            name += "_"
        return name

    def result(self, floor: int) -> Compaction:
        left = {each.id: each for each in self._items}
        summarised = {source for made, sources in self._stands_for.items() if made in left for source in sources}
        removed = [each for each in self._given if each.id not in left and each.id not in summarised]
        if any(each.rank > SCORES["low"] for each in removed):
            level: Level = "critical"
        elif removed:
            level = "aggressive"
        elif summarised:
            level = "moderate"
        else:
            level = "none" if self._items == self._given else "light"
        final = _size(self._items)
        return Compaction(
            original=_size(self._given),
            final=final,
            level=LEVELS[max(floor, LEVELS.index(level))],
            removed=tuple(each.id for each in removed),
            summarised=tuple(each.id for each in self._given if each.id in summarised),
            items=self._items,
            target_met=final <= self._budget,
        )


def _size(items: Iterable[Candidate]) -> int:
    return sum(each.tokens for each in items)


def _checked_answer(
    strategy: Custom, given: tuple[Candidate, ...], budget: int, count: Callable[[str], int]
) -> tuple[Candidate, ...]:
    """What a custom strategy makes of the candidates, with sizes that we counted ourselves."""
    name = getattr(strategy, "__name__", type(strategy).__name__)
    places = {each.id: at for at, each in enumerate(given)}
    kept: list[Candidate] = []
    last = -1
    answer: object = strategy(given, budget)
    if not isinstance(answer, list | tuple):
        raise StrategyRefused(strategy=name, reason=f"it returned {shown(answer)}, not a list")
    for each in answer:
        if type(each) is not Candidate or type(each.text) is not str:
            raise StrategyRefused(strategy=name, reason=f"it returned {shown(each)}, not a candidate")
        at = places.get(each.id)
        if at is None:
            raise StrategyRefused(strategy=name, reason=f"it invents {each.id!r}")
        if at <= last:
            raise StrategyRefused(strategy=name, reason=f"{each.id!r} is not where it was, or there twice")
        before, last = given[at], at
        if msgspec.structs.replace(before, text=each.text, tokens=each.tokens) != each:
            raise StrategyRefused(strategy=name, reason=f"it changes more of {each.id!r} than its text")
        if each.text != before.text:
            if before.priority == "critical":
                raise StrategyRefused(strategy=name, reason=f"it touches {each.id!r}, which is Critical")
            before = msgspec.structs.replace(before, text=each.text, tokens=count(each.text))
        kept.append(before)
    ids = {each.id for each in kept}
    for each in given:
        if each.priority == "critical" and each.id not in ids:
            raise StrategyRefused(strategy=name, reason=f"it drops {each.id!r}, which is Critical")
    if _size(kept) > _size(given):
        raise StrategyRefused(strategy=name, reason=f"it makes {_size(kept)} tokens of {_size(given)}")
    return tuple(kept)


_BLOB = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{200,}")
"""What no one reads: keys, digests, images as text."""
_UNBROKEN = re.compile(r"(?<![!-~])[!-~]{2000,}")
"""What was written for a machine, without a space. Scripts that know no spaces are not meant."""


def light(text: str) -> str:
    """The text without what says nothing: blanks at the ends of lines, empty lines in a row, lines that repeat the one
    before, and the inside of very long strings. Never longer; done twice, it is done once."""
    lines: list[str] = []
    for line in text.split("\n"):
        line = _BLOB.sub(lambda found: _abbreviated(found.group(), 48, 24), line.rstrip())
        line = _UNBROKEN.sub(lambda found: _abbreviated(found.group(), 600, 200), line)
        if line or (lines and lines[-1]):
            lines.append(line)
    if lines and not lines[-1]:
        lines.pop()
    return "\n".join(_unrepeated(lines))


def _abbreviated(word: str, head: int, tail: int) -> str:
    return f"{word[:head]}…[{len(word)} characters]…{word[-tail:]}"


def _unrepeated(lines: list[str]) -> list[str]:
    """Lines in a row that are the same, as one that says how often, where that is shorter. What then equals the line before
    counts as its repetition in turn, so that there is nothing left to do."""
    runs: list[tuple[str, int]] = []
    for line in lines:
        while runs and runs[-1][0] != line and _closed(runs):
            pass
        if runs and runs[-1][0] == line:
            runs[-1] = (line, runs[-1][1] + 1)
        else:
            runs.append((line, 1))
    while runs and _closed(runs):
        pass
    return [line for line, times in runs for _ in range(times)]


def _closed(runs: list[tuple[str, int]]) -> bool:
    """Writes the last run as one line, if that is shorter, and joins it with the one before if they are the same now."""
    line, times = runs[-1]
    told = f"{line} (repeated {times} times)"
    if times == 1 or len(told) >= (len(line) + 1) * times - 1:
        return False
    runs.pop()
    if runs and runs[-1][0] == told:
        runs[-1] = (told, runs[-1][1] + 1)
    else:
        runs.append((told, 1))
    return True
