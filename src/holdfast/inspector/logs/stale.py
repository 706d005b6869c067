"""Find tool results that later entries of a log make outdated, while they are still in the context.

Laws:
- Only lines that something newer contradicts are outdated: lines that an edit took out, that a new version of the
file does not have, or that the same call no longer returns. A line that is still there is a repetition, and accuses
nothing.
- A call that failed changes nothing, and its result is no reading. A part of a file is compared
  with the same part alone, and without its ends, where lines come and go as others move.
- What left the context is forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import msgspec

from holdfast.inspector.logs.entries import LogEntry, LogResult
from holdfast.inspector.logs.tools import Replacement, ToolAction, read_action
from holdfast.text.tool_actions import is_failure_text, is_unchanged_note

HELD_CHARS = 64 << 20
"""Characters of results that are compared with later ones; the oldest beyond them are forgotten."""
_NUMBERED = re.compile(r"^\s*\d+(?:→|\t|\| ?|: )", re.MULTILINE)
_LOCATED = re.compile(r"^([^\s:]+):\d+(?::\d+)?([:-])", re.MULTILINE)
"""A match of a search: the number of its line may change while the line is still there."""
_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_TIMES = re.compile(
    r"\b\d+(?:\.\d+)?\s?(?:ns|µs|ms|s|sec|secs|seconds|m|min|minutes)\b|\b\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?\b"
)
_ANCHOR_CHARS = 8
"""Shorter lines, such as a bracket, are in many places."""
_JSON_CHARS = 1 << 20
"""A longer result is compared by its lines."""


class StaleText(msgspec.Struct, kw_only=True):
    """Outdated lines of a tool result."""

    what: str
    at: int
    """The index of the entry with the result."""
    died_at: int
    """The index of the entry that made the first lines outdated."""
    by: str
    tokens: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """At which entry how many tokens became outdated."""


class _Reading(msgspec.Struct):
    """A result that is in the context."""

    action: ToolAction
    at: int
    lines: list[str]
    """Those that nothing contradicts so far."""
    text: str
    chars: int
    stale: StaleText | None = None


class StaleFinder:
    """Reads the entries of one thread in their order."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._actions: dict[str, ToolAction] = {}
        """By the ids of calls without a result."""
        self._readings: list[_Reading] = []
        self._chars = 0
        self._folder = 0
        self.found: list[StaleText] = []

    def add(self, entry: LogEntry, index: int) -> None:
        """Take an entry of the conversation."""
        for call in entry.calls:
            action = read_action(call, self._folder)
            self._actions[call.id] = action
            self._folder += action.moves
        for result in entry.results:
            action = self._actions.pop(result.call, ToolAction())
            if not is_failure(result) and action.kind != "other":
                self._settle(action, result.text, index)

    def keep(self, indexes: set[int]) -> None:
        """Forget what left the context."""
        self._readings = [each for each in self._readings if each.at in indexes]
        self._chars = sum(each.chars for each in self._readings)

    def _settle(self, action: ToolAction, result: str, index: int) -> None:
        if action.kind == "read":
            self._add_reading(action, result, index)
            return
        for reading in self._readings:
            if reading.action.target == action.target:
                gone = reading.lines if action.kind == "delete" else _find_gone(reading, action)
                self._end_lines(reading, gone, index, action.label)

    def _add_reading(self, action: ToolAction, result: str, index: int) -> None:
        text = _REMINDER.sub("", result)
        if not text.strip() or is_unchanged_note(text):
            return
        lines = split_lines(text, action.is_check)
        present = {*lines}
        for reading in self._readings:
            if reading.action.key == action.key:
                gone = find_missing(reading.lines, present, is_part=action.is_part)
                self._end_lines(reading, gone, index, f"the same call again: {action.label}")
        self._readings.append(_Reading(action, index, lines, "\n".join(lines), len(text)))
        self._chars += len(text)
        while self._chars > HELD_CHARS:
            self._chars -= self._readings.pop(0).chars

    def _end_lines(self, reading: _Reading, gone: list[str], index: int, by: str) -> None:
        if not any(line.strip() for line in gone):
            return
        if reading.stale is None:
            reading.stale = StaleText(what=reading.action.label, at=reading.at, died_at=index, by=by)
            self.found.append(reading.stale)
        reading.stale.tokens.append((index, max(1, self._count("\n".join(gone)))))
        left = _Counter(gone)
        reading.lines = [line for line in reading.lines if not left.take(line)]
        reading.text = "\n".join(reading.lines)


class _Counter:
    """Takes each line as often as it is there."""

    def __init__(self, lines: list[str]) -> None:
        self._counts: dict[str, int] = {}
        for line in lines:
            self._counts[line] = self._counts.get(line, 0) + 1

    def take(self, line: str) -> bool:
        count = self._counts.get(line, 0)
        if count:
            self._counts[line] = count - 1
        return bool(count)


def is_failure(result: LogResult) -> bool:
    """Whether a tool says that it failed."""
    return result.is_error or is_failure_text(result.text)


def split_lines(text: str, is_check: bool = False) -> list[str]:
    """The lines of a result, without the numbers that tools put before them; of a command, without times."""
    if len(_NUMBERED.findall(text)) * 2 > text.count("\n") + 1:
        text = _NUMBERED.sub("", text)
    if text.lstrip()[:1] in ("{", "[") and (leaves := _split_json(text)) is not None:
        return leaves
    text = _LOCATED.sub(r"\1\2", text)
    if is_check:
        text = _TIMES.sub("…", text).replace("(cached)", "…")
    return [line.rstrip() for line in text.splitlines()]


def _split_json(text: str) -> list[str] | None:
    """The values in a JSON text, each with its place, so that one that changes is one line; None for any other text."""
    try:
        value = json.loads(text) if len(text) <= _JSON_CHARS else None
        return list(_list_leaves("", value)) if type(value) in (dict, list) else None
    except (ValueError, RecursionError):
        return None


def _list_leaves(place: str, value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _list_leaves(f"{place}.{name}" if place else name, inner)
    elif isinstance(value, list) and value:
        for inner in value:  # without a number: an element may move
            yield from _list_leaves(f"{place}[]", inner)
    else:
        yield f"{place}: {json.dumps(value, ensure_ascii=False)}"


def find_missing(lines: list[str], present: set[str], *, is_part: bool = False) -> list[str]:
    """The lines that a newer result does not have. Of a part, only those between lines that it still has: at its
    ends, lines may have moved out of it."""
    if not is_part:
        return [line for line in lines if line not in present]
    anchors = [at for at, line in enumerate(lines) if len(line.strip()) >= _ANCHOR_CHARS and line in present]
    if not anchors:
        return []
    return [line for line in lines[anchors[0] : anchors[-1]] if line not in present]


def _find_gone(reading: _Reading, action: ToolAction) -> list[str]:
    """The lines of a reading that a write took out."""
    if action.content is not None:
        present = {line.rstrip() for line in action.content.splitlines()}
        return [line for line in reading.lines if line.strip() and line not in present]
    gone: list[str] = []
    for replacement in action.replacements:
        gone += find_replaced(reading.text, replacement)
    return gone


def find_replaced(text: str, replacement: Replacement) -> list[str]:
    """The lines of a text that a replacement changes: whole lines, without those that it leaves as they are."""
    old = "\n".join(line.rstrip() for line in replacement.old.split("\n"))
    start = text.find(old) if old.strip() else -1
    found: list[str] = []
    while start >= 0:
        end = start + len(old)
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        last = len(text) if last < 0 else last
        before = text[first:last].split("\n")
        new = "\n".join(line.rstrip() for line in replacement.new.split("\n"))
        present = _Counter((text[first:start] + new + text[end:last]).split("\n"))
        found += [line for line in before if line.strip() and not present.take(line)]
        start = text.find(old, end) if replacement.everywhere else -1
    return found
