"""Runs that a framework has lost: a process was killed before the framework had stored their messages.

Law: models are told which tools have run. What a tool returned is not quoted: it is no message of the system.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Literal

import holdfast
from holdfast.model.content import ToolCall
from holdfast.model.sessions.messages import Message
from holdfast.render.entries import arguments_text
from holdfast.text.lines import shorten

_OUTCOME = "outcome"
_KEY = "key"
Outcome = Literal["not run", "unknown", "raised", "waits"]
"""Why a call has a result that its tool did not return: it did not run, it was interrupted and nobody knows, it raised, or
it waited for an answer that did not come."""
_HARMLESS = (holdfast.READ_HANDLE.name, holdfast.RECALL_MEMORY.name, holdfast.UPDATE_SITUATION.name)
_ARGUMENT_CHARS = 300
_LISTED = 20
"""The most calls that are named one by one: the newest."""


def mark_outcome(outcome: Outcome, key: str = "") -> dict[str, Any]:
    """The metadata of a result that its tool did not return, with the idempotency key of the call if it was started."""
    return {_OUTCOME: outcome, _KEY: key} if key else {_OUTCOME: outcome}


def read_outcome(result: Message) -> tuple[str, str]:
    """Why a result is not what its tool returned, and the key of the call; both are empty if the tool returned it."""
    return str(result.metadata.get(_OUTCOME) or ""), str(result.metadata.get(_KEY) or "")


def is_answer(result: Message) -> bool:
    """Whether a result is what a tool returned, as it was recorded when the tool ended; a list of the framework may bring
    others."""
    return is_of_run(result) and not result.metadata.get(_OUTCOME)


def is_of_run(result: Message) -> bool:
    """Whether a result says what came of a run of its tool: a list of the framework did not bring it, and it does not say
    that the tool did not run."""
    return not result.closing and "framework" not in result.metadata and result.metadata.get(_OUTCOME) != "not run"


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
        if is_of_run(each)
        and each.metadata.get(_OUTCOME) != "waits"
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
    outcome, key = read_outcome(result)
    if outcome == "unknown":
        return f"{named}: the outcome is unknown; it was started under the key {key}"
    return f"{named}: ended" + (" with an error" if is_error else "")
