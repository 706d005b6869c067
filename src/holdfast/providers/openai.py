"""OpenAI's replies: chat completions and responses, and the items that responses are made of."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidContent, shown
from holdfast.model.content import Source
from holdfast.model.drafts import Draft, DraftResult
from holdfast.providers.messages import Reply, message, take
from holdfast.providers.parts import result_content, shell
from holdfast.providers.plain import (
    OPENAI,
    arguments,
    fields,
    listed,
    named,
    needed,
    opaque,
    rest,
    text_at,
    word,
)
from holdfast.providers.usage import openai_usage

LOCAL_CALLS = {
    "computer_call": ("computer", ("action", "actions")),
    "local_shell_call": ("local_shell", ("action",)),
    "shell_call": ("shell", ("action",)),
    "apply_patch_call": ("apply_patch", ("operation",)),
}
"""Calls of OpenAI's own tools that the caller carries out: their names, and what they are called with."""

CALLS = frozenset({"function_call", "custom_tool_call", *LOCAL_CALLS})
OUTPUTS = frozenset(f"{kind}_output" for kind in CALLS)

HOSTED = frozenset(
    {
        "code_interpreter_call",
        "compaction",
        "file_search_call",
        "image_generation_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "reasoning",
        "tool_search_call",
        "web_search_call",
    }
)
"""What the model and the tools at the provider made: kept as it came."""

ASKED = frozenset(
    {
        "additional_tools",
        "compaction_trigger",
        "configuration_update",
        "item_reference",
        "mcp_approval_response",
        "tool_search_output",
    }
)
"""What a caller puts into the input beside messages and results."""

ITEMS = CALLS | OUTPUTS | HOSTED | ASKED


def completion(response: dict[str, Any]) -> tuple[Draft, ...]:
    choices = listed(response.get("choices"), "'choices'")
    if len(choices) != 1:
        raise InvalidContent(reason=f"the completion has {len(choices)} choices: pass the message of one of them")
    choice = needed(choices[0], "a choice")
    reply = {**needed(choice.get("message"), "the message of a choice"), "role": "assistant"}
    source = Source(OPENAI, named(response, "model"), named(response, "id"), named(choice, "finish_reason"))
    return message(reply, OPENAI, openai_usage(response.get("usage")), source)


def response(response: dict[str, Any]) -> tuple[Draft, ...]:
    status = word(response, "status")
    output = listed(response.get("output"), "'output'")
    if status in ("queued", "in_progress"):
        raise InvalidContent(reason=f"the response is {status}: record it when it is done")
    if status == "failed" and not output:
        raise InvalidContent(reason=f"the provider reported an error: {error_text(response.get('error'))}")
    why = fields(response.get("incomplete_details")) or {}
    source = Source(
        OPENAI, named(response, "model"), named(response, "id"), named(why, "reason") or named(response, "status")
    )
    reply = Reply()
    take_items(reply, output)
    usage = openai_usage(response.get("usage"))
    return (reply.draft(usage, source),)


def item(value: dict[str, Any]) -> tuple[Draft, ...]:
    """An item of a responses input list that is not a message."""
    kind = word(value, "type")
    if kind in OUTPUTS:
        return (Draft(role="tool", tool_results=(_result(value),)),)
    if kind in ASKED:
        return (Draft(role="user", content=[opaque(OPENAI, value)]),)
    return items([value])


def items(values: list[dict[str, Any]]) -> tuple[Draft, ...]:
    """Items that the model made one after the other: one reply."""
    reply = Reply()
    take_items(reply, values)
    return (reply.draft(),)


def made_by_model(value: dict[str, Any]) -> bool:
    kind = word(value, "type")
    return kind in CALLS or kind in HOSTED or (kind == "message" and word(value, "role") == "assistant")


def take_items(reply: Reply, values: list[Any]) -> None:
    """A call that the reply itself answers was the provider's own business: both are kept as they came."""
    found = [needed(value, "an item of the output") for value in values]
    answered = {_call_id(each) for each in found if word(each, "type") in OUTPUTS}
    for each in found:
        kind = text_at(each, "type")
        if kind == "message":
            if take(reply, each, OPENAI):
                raise InvalidContent(reason="the reply of a model holds a tool result")
        elif kind in CALLS and (word(each, "call_id") is None or word(each, "call_id") not in answered):
            _call(reply, each, kind)
        else:
            reply.add(opaque(OPENAI, each))


def _call(reply: Reply, value: dict[str, Any], kind: str) -> None:
    name: Any
    args: Any
    if kind in LOCAL_CALLS:
        name, keys = LOCAL_CALLS[kind]
        args = arguments({key: value[key] for key in keys if value.get(key) is not None})
        mark = rest(value, frozenset(keys))
    else:
        name = value.get("name")
        args = text_at(value, "input") if kind == "custom_tool_call" else arguments(value.get("arguments"))
        mark = rest(value, frozenset({"name", "input", "arguments"}))
    always = kind != "function_call" or bool(mark.keys() - {"type", "call_id"})
    reply.call(name, args, value.get("call_id"), (OPENAI, mark), always=always, raw=value.get("arguments"))


def _call_id(value: dict[str, Any]) -> str | None:
    """The outputs of a local shell name their call by its id alone."""
    return word(value, "call_id") or (word(value, "id") if word(value, "type") == "local_shell_call_output" else None)


def _result(value: dict[str, Any]) -> DraftResult:
    """What was understood of it beside a shell; a screenshot, or the streams of a shell, as the item that it came in."""
    output, kind = value.get("output"), word(value, "type") or ""
    failed = word(value, "status") == "failed"
    if output is None or type(output) is str or kind in ("function_call_output", "custom_tool_call_output"):
        outer = shell(value, OPENAI, "call_id", "output", plain=kind)
        return DraftResult(_call_id(value), result_content(output, OPENAI, outer), failed)
    return DraftResult(_call_id(value), [opaque(OPENAI, value)], failed)


def error_text(error: object) -> str:
    """What a provider says went wrong, in a few words."""
    said = fields(error) or {}
    inner = fields(said.get("error")) or said
    return word(said, "error") or word(inner, "message") or word(inner, "code") or word(inner, "type") or shown(error)
