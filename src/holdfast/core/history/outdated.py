"""Tool results that later ones make outdated: what was read again, written anew or deleted since. Pure.

Law: only what is certain is outdated. A reading is, if the same call was made again, if its whole file was read again, or
if its file was written as a whole or deleted since. An edit of some lines makes no result outdated: the others may still be
needed. A call that failed, or only said that nothing changed, changes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from holdfast.core.history.views import has_stored_body
from holdfast.model.content import ToolCall, ToolResult, text_of
from holdfast.model.history.plans import PieceForm
from holdfast.model.history.views import HistoryItem
from holdfast.model.sessions.messages import MessageGroup
from holdfast.text.tool_actions import (
    COMMANDS,
    ToolAction,
    find_subject,
    is_failure_text,
    is_unchanged_note,
    read_action,
)

_LINE_NUMBER = re.compile(r"[ \t]*(\d{1,9})(?:→|\t|\| ?|: )")
"""Before a line of a file, as tools show it."""
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")
"""In a command that may change the folder of later ones."""


class _CallResult(NamedTuple):
    """A tool call with its result."""

    call: ToolCall
    result: ToolResult
    message: int
    piece: int
    subject: str


class _PastReading(NamedTuple):
    action: ToolAction
    tool: str
    arguments: int
    message: int
    piece: int
    text: str


def find_outdated(items: Sequence[HistoryItem]) -> dict[tuple[int, int], PieceForm]:
    """The outdated tool results of a view, by message and piece, with the form in which each may be shown."""
    results = [*_list_results(items)]
    times = Counter(each.subject for each in results)
    outdated: dict[tuple[int, int], PieceForm] = {}
    readings: dict[str, list[_PastReading]] = {}
    folder = 0
    for each in results:
        if times[each.subject] > 1 and each.subject:
            _settle(each, folder, readings.setdefault(each.subject, []), outdated)
        folder += _may_move(each.call)
    return outdated


def _list_results(items: Sequence[HistoryItem]) -> Iterator[_CallResult]:
    """In the order of the results."""
    for item in items:
        if not isinstance(item, MessageGroup):
            continue
        calls = {call.id: call for message in item.messages for call in message.tool_calls}
        for message in item.messages:
            for number, result in enumerate(message.tool_results):
                call = calls.get(result.tool_call_id)
                if call is not None:
                    yield _CallResult(call, result, message.seq, number, find_subject(call.args))


def _settle(
    new: _CallResult, folder: int, readings: list[_PastReading], outdated: dict[tuple[int, int], PieceForm]
) -> None:
    """Note what a result makes outdated, and the result itself, if it is a reading."""
    action = read_action(new.call.name, new.call.args, folder)
    if action.kind == "other" or new.result.is_error or has_stored_body(new.result.content):
        return
    text = text_of(new.result.content)
    if is_failure_text(text):
        return
    if action.kind == "read":
        if not text.strip() or is_unchanged_note(text):
            return
        arguments = len(new.call.args) if isinstance(new.call.args, dict) else 0
        reading = _PastReading(action, new.call.name, arguments, new.message, new.piece, text)
        gone = [each for each in readings if _is_read_again(each, reading)]
        form: PieceForm = "reread"
    else:
        is_whole = action.kind == "delete" or action.content is not None
        gone = [each for each in readings if is_whole and each.action.target == action.target]
        reading, form = None, "rewritten"
    outdated.update({(each.message, each.piece): form for each in gone})
    readings[:] = [each for each in readings if each not in gone]
    if reading is not None:
        readings.append(reading)


def _is_read_again(old: _PastReading, new: _PastReading) -> bool:
    if old.action.key == new.action.key:
        return True
    is_whole = bool(new.action.target) and new.arguments == 1
    if not is_whole or not old.action.is_part or old.tool != new.tool:
        return False
    before, after = _line_range(old.text), _line_range(new.text)
    return before is not None and after is not None and after[0] <= before[0] and before[1] <= after[1]


def _line_range(text: str) -> tuple[int, int] | None:
    """The numbers of the first and the last line of a file that a result shows; None if it shows no numbers."""
    lines = [line for line in (text[:200].split("\n", 1)[0], *text[-2_000:].split("\n")) if _LINE_NUMBER.match(line)]
    if len(lines) < 2:
        return None
    first, last = _LINE_NUMBER.match(lines[0]), _LINE_NUMBER.match(lines[-1])
    return None if first is None or last is None else (int(first[1]), int(last[1]))


def _may_move(call: ToolCall) -> bool:
    args = call.args if isinstance(call.args, dict) else {}
    return any(isinstance(args.get(each), str) and _MOVES.search(str(args[each])) for each in COMMANDS)
