"""Read replies of OpenAI: chat completions and responses, and the items of responses."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model.content import Source
from holdfast.model.sessions.messages import MessageDraft, ResultDraft
from holdfast.providers.fields import (
    OPENAI,
    build_opaque,
    get_name,
    get_text,
    invalid_message,
    read_arguments,
    read_fields,
    read_list,
    remaining_fields,
    require_fields,
    require_text,
)
from holdfast.providers.messages import ReplyBuilder, add_message, read_message, result_in_reply_error
from holdfast.providers.parts import build_shell, read_result_content
from holdfast.providers.usage import read_openai_usage

LOCAL_CALLS = {
    "computer_call": ("computer", ("action", "actions")),
    "local_shell_call": ("local_shell", ("action",)),
    "shell_call": ("shell", ("action",)),
    "apply_patch_call": ("apply_patch", ("operation",)),
}
"""Calls of OpenAI's own tools that the caller runs: the name of the tool, and the fields with the arguments."""

CALLS = frozenset({"function_call", "custom_tool_call", *LOCAL_CALLS})
OUTPUTS = frozenset(f"{kind}_output" for kind in CALLS)

HOSTED_ITEMS = frozenset(
    """
    code_interpreter_call compaction file_search_call image_generation_call mcp_approval_request mcp_call
    mcp_list_tools program program_output reasoning tool_search_call web_search_call
    """.split()
)
"""Items of the model and of tools that the provider runs. They are kept as they are."""

CALLER_ITEMS = frozenset(
    """
    additional_tools compaction_trigger configuration_update item_reference mcp_approval_response
    tool_search_output
    """.split()
)
"""Items of the caller beside messages and results."""

ITEMS = CALLS | OUTPUTS | HOSTED_ITEMS | CALLER_ITEMS


def read_completion(response: dict[str, Any]) -> tuple[MessageDraft, ...]:
    """Read a chat completion with one choice."""
    choices = read_list(response.get("choices"), "'choices'")
    if len(choices) != 1:
        raise invalid_message(f"the completion has {len(choices)} choices: pass the message of one of them")
    choice = require_fields(choices[0], "a choice")
    reply = {**require_fields(choice.get("message"), "the message of a choice"), "role": "assistant"}
    source = Source(OPENAI, get_name(response, "model"), get_name(response, "id"), get_name(choice, "finish_reason"))
    return read_message(reply, OPENAI, read_openai_usage(response.get("usage")), source)


def read_response(response: dict[str, Any]) -> tuple[MessageDraft, ...]:
    """Read a response of the Responses API."""
    status = get_text(response, "status")
    output = read_list(response.get("output"), "'output'")
    if status in ("queued", "in_progress"):
        raise invalid_message(f"the response is {status}: record it when it is complete")
    if status == "failed" and not output:
        raise provider_error(response.get("error"))
    details = read_fields(response.get("incomplete_details")) or {}
    stop = get_name(details, "reason") or get_name(response, "status")
    source = Source(OPENAI, get_name(response, "model"), get_name(response, "id"), stop)
    reply = ReplyBuilder()
    add_items(reply, output)
    usage = read_openai_usage(response.get("usage"))
    return (reply.build_draft(usage, source),)


def read_item(value: dict[str, Any]) -> tuple[MessageDraft, ...]:
    """Read an item of a responses list that is not a message."""
    kind = get_text(value, "type")
    if kind in OUTPUTS:
        return (MessageDraft(role="tool", tool_results=(_read_result(value),)),)
    if kind in CALLER_ITEMS:
        return (MessageDraft(role="user", content=[build_opaque(OPENAI, value)]),)
    return read_items([value])


def read_items(values: list[dict[str, Any]]) -> tuple[MessageDraft, ...]:
    """Read successive items of a model as one reply."""
    reply = ReplyBuilder()
    add_items(reply, values)
    return (reply.build_draft(),)


def is_from_model(value: dict[str, Any]) -> bool:
    """Whether an item is from the model."""
    kind = get_text(value, "type")
    return kind in CALLS or kind in HOSTED_ITEMS or (kind == "message" and get_text(value, "role") == "assistant")


def add_items(reply: ReplyBuilder, values: list[Any]) -> None:
    """Add items to a reply. A call with its result in the same reply was run by the provider: both are kept as they
    are."""
    items = [require_fields(value, "an item of the output") for value in values]
    answered = {_result_call_id(item) for item in items if get_text(item, "type") in OUTPUTS}
    for item in items:
        kind = require_text(item, "type")
        if kind == "message":
            if add_message(reply, item, OPENAI):
                raise result_in_reply_error()
        elif kind in CALLS and (get_text(item, "call_id") is None or get_text(item, "call_id") not in answered):
            _add_call(reply, item, kind)
        else:
            reply.add(build_opaque(OPENAI, item))


def _add_call(reply: ReplyBuilder, value: dict[str, Any], kind: str) -> None:
    name: Any
    args: Any
    if kind in LOCAL_CALLS:
        name, keys = LOCAL_CALLS[kind]
        args = read_arguments({key: value[key] for key in keys if value.get(key) is not None})
        mark = remaining_fields(value, frozenset(keys))
    else:
        name = value.get("name")
        args = require_text(value, "input") if kind == "custom_tool_call" else read_arguments(value.get("arguments"))
        mark = remaining_fields(value, frozenset({"name", "input", "arguments"}))
    always = kind != "function_call" or bool(mark.keys() - {"type", "call_id"})
    reply.add_call(name, args, value.get("call_id"), (OPENAI, mark), always=always, raw=value.get("arguments"))


def _result_call_id(value: dict[str, Any]) -> str | None:
    """Return the id of the call that a result is for. The output of a local shell has it in `id`."""
    return get_text(value, "call_id") or (
        get_text(value, "id") if get_text(value, "type") == "local_shell_call_output" else None
    )


def _read_result(value: dict[str, Any]) -> ResultDraft:
    """Read a result. A screenshot, or the output of a shell, is kept as the original item."""
    output, kind = value.get("output"), get_text(value, "type") or ""
    failed = get_text(value, "status") == "failed"
    if output is None or type(output) is str or kind in ("function_call_output", "custom_tool_call_output"):
        outer = build_shell(value, OPENAI, "call_id", "output", plain=kind)
        return ResultDraft(_result_call_id(value), read_result_content(output, OPENAI, outer), failed)
    return ResultDraft(_result_call_id(value), [build_opaque(OPENAI, value)], failed)


def provider_error(error: object, argument: str = "message") -> InvalidArgument:
    """Build the error for an error that the provider reported."""
    return InvalidArgument(argument=argument, reason=f"the provider reported an error: {describe_error(error)}")


def describe_error(error: object) -> str:
    """Return the message of a provider's error, or its code or type."""
    outer = read_fields(error) or {}
    inner = read_fields(outer.get("error")) or outer
    return (
        get_text(outer, "error")
        or get_text(inner, "message")
        or get_text(inner, "code")
        or get_text(inner, "type")
        or describe_value(error)
    )
