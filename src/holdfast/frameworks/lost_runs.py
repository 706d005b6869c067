"""Runs that a framework has lost: a process was killed before the framework had stored their messages.

Law: models are told which tools have run. What a tool returned is not quoted: it is no message of the system.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import holdfast
from holdfast.model.content import ToolCall
from holdfast.model.sessions.messages import Message
from holdfast.render.entries import arguments_text
from holdfast.text.lines import shorten

_OUTCOME = "outcome"
_KEY = "key"
_NOT_RUN = "not run"
_UNKNOWN = "unknown"
_HARMLESS = (holdfast.READ_HANDLE.name, holdfast.RECALL_MEMORY.name, holdfast.UPDATE_SITUATION.name)
_ARGUMENT_CHARS = 300
_LISTED = 20
"""The most calls that are named one by one: the newest."""


def mark_not_run() -> dict[str, Any]:
    """The metadata of a result that says that the tool did not run."""
    return {_OUTCOME: _NOT_RUN}


def mark_unknown(key: str) -> dict[str, Any]:
    """The metadata of a result that says that the outcome is unknown, with the idempotency key of the call."""
    return {_OUTCOME: _UNKNOWN, _KEY: key}


def is_not_run(result: Message) -> bool:
    """Whether a result says that the tool did not run."""
    return result.metadata.get(_OUTCOME) == _NOT_RUN


def describe_lost(withdrawn: Sequence[Message], listed: Set[object] = frozenset()) -> str:
    """What models are told of the tools that ran in withdrawn messages, for a message of the system. Empty if none ran, if
    the messages end with a reply, which is then taken back on purpose, or if the calls are in `listed`.

    A tool has run if its result was recorded when it ended, not by a list of the framework."""
    said = [each for each in withdrawn if each.role in ("assistant", "tool")]
    if not said or not (said[-1].tool_calls or said[-1].tool_results):
        return ""
    calls = {call.id: call for each in said for call in each.tool_calls if (call.provider_id or call.id) not in listed}
    results = [(each, result) for each in said for result in each.tool_results if result.tool_call_id in calls]
    lines = [
        _describe_call(calls[result.tool_call_id], each, is_error=result.is_error)
        for each, result in results
        if not each.closing
        and "framework" not in each.metadata
        and not is_not_run(each)
        and calls[result.tool_call_id].name not in _HARMLESS
    ]
    if not lines:
        return ""
    earlier = len(lines) - _LISTED
    shown = [*([f"- {earlier} more, before these"] if earlier > 0 else []), *lines[-_LISTED:]]
    return "\n".join(
        [
            "An earlier run was interrupted, and its messages are lost. It had called these tools:",
            *shown,
            "Each call may have taken effect. Find out before you repeat it.",
        ]
    )


def _describe_call(call: ToolCall, result: Message, *, is_error: bool) -> str:
    named = f"- {call.name}({shorten(arguments_text(call), _ARGUMENT_CHARS)})"
    if result.metadata.get(_OUTCOME) == _UNKNOWN:
        return f"{named}: the outcome is unknown; it was started under the key {result.metadata.get(_KEY)}"
    return f"{named}: ended" + (" with an error" if is_error else "")
