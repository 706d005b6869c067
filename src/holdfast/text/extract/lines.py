"""Lines of a tool result that stay when the rest of it leaves the view: those with names that nothing else in view has.

A name is a path, an identifier or a code, as in summaries. Lines are literal. A number counts for little: it is often the
number of a line, and then says where to read on. So an empty line of a listing, or one with a bracket, may stay for its
number: blocks begin and end there, and it takes few tokens. A line that reports a failure counts for more.

Laws: the same text, names and tokens give the same lines. They have no more characters than the tokens allow, but for
single short lines between two of them. With enough tokens, every name stays, except those of lines that are longer than
_LONGEST_LINE. The time is linear in the text, but for a logarithm.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import TypeAlias

from holdfast.model.content import Data, Json, Text, ToolResult
from holdfast.model.history.views import Summary
from holdfast.model.sessions.messages import MessageGroup
from holdfast.text.extract.transcript import (
    CAPITALS,
    CODE,
    FAILURE,
    FILE_LINE,
    JOINTS,
    NUMBER,
    PATH,
    TOKEN,
    iter_arguments,
    kind_of,
)

LineRanges: TypeAlias = tuple[tuple[int, int], ...]
"""Numbers of lines from 0, each range from one up to another; rising, with a gap between two."""
CHARACTERS = 3.5
"""Of a token."""
_NUMBER_MARK = "#"
"""The start of a number as a name."""
_NUMBER_WORTH, _FAILURE_WORTH = 0.1, 2.0
"""In names."""
_GAP_CHARACTERS = 4
"""What a line may cost beside its own characters."""
SHORT_LINE = 16
"""Characters of a line that is not worth a gap."""
_LONGEST_LINE = 1_000
"""A longer line is data, and not quoted."""


def find_names(text: str) -> set[str]:
    """The names in a text, those that are parts of others, and numbers."""
    names: set[str] = set()
    for token in set(TOKEN.findall(text)):
        names.update(_names_of(token))
    return names


@functools.lru_cache(maxsize=1 << 11)
def _names_of(token: str) -> tuple[str, ...]:
    names: set[str] = set()
    file = FILE_LINE.fullmatch(token)
    name = file[1] if file else token
    for part in (name, *name.split("/"), *JOINTS.split(token)):
        kind = kind_of(part)
        if kind in (PATH, CODE, CAPITALS):
            names.add(part)
        elif kind == NUMBER or (part.isdigit() and len(part) > 1):
            names.add(_NUMBER_MARK + part)
    return tuple(names)


def find_item_names(item: MessageGroup | Summary, without: Iterable[tuple[int, int]] = ()) -> set[str]:
    """The names in an item of a view, except those in some of its tool results, by message and number."""
    if isinstance(item, Summary):
        return find_names(item.text)
    left_out = {*without}
    names: set[str] = set()
    for message in item.messages:
        for part in message.content:
            names |= _part_names(part)
        for call in message.tool_calls:
            names |= _value_names(call.args)
        for number, result in enumerate(message.tool_results):
            names |= set() if (message.seq, number) in left_out else _result_names(result)
    return names


def _result_names(result: ToolResult) -> set[str]:
    return set[str]().union(*map(_part_names, result.content))


def _part_names(part: object) -> set[str]:
    match part:
        case Text(text):
            return find_names(text)
        case Data(value):
            return _value_names(value)
    return set()


def _value_names(value: Json) -> set[str]:
    return set[str]().union(*(find_names(text) for _, text in iter_arguments(value)))


def choose_lines(text: str, known: Set[str], tokens: int) -> LineRanges:
    """The lines of a text that have the most names beside the known ones, for about so many tokens."""
    room = tokens * CHARACTERS
    lines = text.split("\n")
    names: dict[int, set[str]] = {}
    heap: list[tuple[float, int]] = []
    for number, line in enumerate(lines):
        if len(line) > _LONGEST_LINE:
            continue
        names[number] = find_names(line) - known
        worth = _worth_of(names[number], line)
        if worth:
            heap.append((-worth / _cost_of(line), number))
    heapq.heapify(heap)
    shown: set[str] = set()
    chosen: list[int] = []
    while heap and room > 0:
        _, number = heapq.heappop(heap)
        line = lines[number]
        names[number] -= shown
        worth = _worth_of(names[number], line)
        rank = -worth / _cost_of(line)
        if worth and heap and rank > heap[0][0]:
            heapq.heappush(heap, (rank, number))
        elif worth and _cost_of(line) <= room:
            room -= _cost_of(line)
            shown |= names[number]
            chosen.append(number)
    return _join_numbers(_fill_gaps(sorted(chosen), lines))


def select_unknown(text: str, ranges: LineRanges, known: Set[str]) -> LineRanges:
    """Of these lines of a text, those with a name that is not known, and those that report a failure."""
    lines = text.split("\n")
    numbers = (number for first, end in ranges for number in range(first, end))
    chosen = [number for number in numbers if FAILURE.match(lines[number]) or find_names(lines[number]) - known]
    return _join_numbers(_fill_gaps(chosen, lines))


def _worth_of(names: Set[str], line: str) -> float:
    numbers = sum(name.startswith(_NUMBER_MARK) for name in names)
    worth = len(names) - numbers + numbers * _NUMBER_WORTH
    return worth + _FAILURE_WORTH if FAILURE.match(line) else worth


def _cost_of(line: str) -> int:
    return len(line.strip()) + _GAP_CHARACTERS


def _fill_gaps(numbers: Sequence[int], lines: Sequence[str]) -> Iterator[int]:
    """The numbers, and those of single short lines between two of them, such as a bracket: what is left reads better."""
    before = -1
    for number in numbers:
        if before >= 0 and number == before + 2 and len(lines[number - 1].strip()) <= SHORT_LINE:
            yield number - 1
        yield number
        before = number


def _join_numbers(numbers: Iterable[int]) -> LineRanges:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1] = ranges[-1][0], number + 1
        else:
            ranges.append((number, number + 1))
    return tuple(ranges)
