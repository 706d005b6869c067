"""Events of ADK as records and as messages of a session. Pure.

A model's reply becomes a message of the assistant, with its calls; each response of a function becomes a message of a tool.
What a message cannot have stays in the record of the event: signatures, grounding, actions. Thoughts are kept as parts that
only their issuer is shown.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from holdfast.frameworks.accepted import accept_calls, accept_id
from holdfast.frameworks.media import bound_parts
from holdfast.frameworks.shadows import ShadowMessage

ISSUER = "google"
"""The issuer of thoughts and of other parts that Holdfast does not understand."""
CLIENT_ID = "adk-"
"""How ids begin that ADK gave to calls: it does not show them to every model."""
FRAMEWORK_CALLS = frozenset({"adk_request_credential", "adk_request_confirmation", "adk_request_input"})
"""Calls with which ADK asks its client. No model sees them."""


def encode_event(event: Event) -> bytes:
    """An event as JSON. It reads back as an equal event; text without a form in Unicode is replaced."""
    try:
        return event.model_dump_json(exclude_none=True, by_alias=True).encode()
    except (PydanticSerializationError, UnicodeError):
        cleaned = clean_json(event.model_dump(mode="python", exclude_none=True, by_alias=True))
        return Event.model_validate(cleaned).model_dump_json(exclude_none=True, by_alias=True).encode()


def decode_event(body: object) -> Event:
    """The event of a record."""
    assert isinstance(body, bytes), "events are stored as bytes"
    try:
        return Event.model_validate_json(body)
    except ValidationError:  # a newer ADK wrote a field that this one refuses
        fields = json.loads(body)
        actions = fields.get("actions", {})
        known = {field.alias or name for name, field in type(Event().actions).model_fields.items()}
        fields["actions"] = {name: value for name, value in actions.items() if name in known}
        return Event.model_validate(fields)


def clean_text(text: str) -> str:
    """Text without lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def clean_json(value: Any) -> Any:
    """A JSON value without lone surrogates; bytes and other values stay."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_json(key): clean_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [clean_json(each) for each in value]
    return value


def to_json(value: object) -> Any:
    """Any value of a program as JSON; what has no JSON form becomes its description."""
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, UnicodeError):
        return to_jsonable_python(clean_json(value), serialize_unknown=True)


def belongs_to(event: Event, branch: str, scope: str) -> bool:
    """Whether an agent in this branch and scope is shown an event. An agent without a branch sees all branches."""
    if (event.isolation_scope or "") != scope:
        return False
    return not branch or not event.branch or branch == event.branch or branch.startswith(f"{event.branch}.")


def live_events(events: Sequence[Event]) -> list[Event]:
    """The events that no rewind has annulled. A rewind names the first invocation that it annuls."""
    kept: list[Event] = []
    firsts: dict[str, int] = {}
    for number, event in enumerate(events):
        firsts.setdefault(event.invocation_id, number)
    number = len(events) - 1
    while number >= 0:
        event = events[number]
        target = event.actions.rewind_before_invocation_id
        if not target:
            kept.append(event)
        elif firsts.get(target, number) < number:
            number = firsts[target]
        number -= 1
    return kept[::-1]


def is_node_input(event: Event) -> bool:
    """Whether this is the input of an agent in a workflow: it is in the list while the agent runs, and nobody stores it."""
    return event.author == "user" and not event.invocation_id and bool(event.node_info.path)


def is_inside_call(event: Event, calls: Iterable[str]) -> bool:
    """Whether an event comes from inside one of these calls, such as one that runs an agent or reports its progress. Its
    branch has the id of the call, and the agent that called is shown the result alone. ADK's own ids are always such."""
    path = f"{event.branch or ''}."
    return f"@{CLIENT_ID}" in path or any(f"@{call}." in path for call in calls)


def is_shown(event: Event) -> bool:
    """Whether an event is a part of the conversation: it has content, and does not ask the client of ADK."""
    if event.partial or not event.content or not event.content.parts or event.actions.compaction:
        return False
    names = {call.name for call in event.get_function_calls()}
    names |= {response.name for response in event.get_function_responses()}
    return not names & FRAMEWORK_CALLS


def to_messages(event: Event, *, flat: bool = False) -> list[ShadowMessage]:
    """The messages of an event. With `flat`, calls and responses are told as text: they belong to another conversation."""
    if not is_shown(event):
        return []
    assert event.content is not None
    assert event.content.parts is not None
    parts, metadata = event.content.parts, describe_origin(event)
    responses = [part.function_response for part in parts if part.function_response]
    if flat:
        lines = [line for part in parts if (line := _describe_part(part))]
        role = "user" if event.author == "user" else "assistant"
        told = {"role": role, "content": "\n".join(lines), "metadata": metadata}
        return [ShadowMessage(event.id, told)] if lines else []
    messages: list[ShadowMessage] = []
    waiting = waiting_calls(event)
    for number, response in enumerate(responses):
        if response.id in waiting:
            continue
        name = event.id if number == 0 and len(parts) == len(responses) == 1 else f"{event.id}/{number}"
        messages.append(ShadowMessage(name, {**_read_response(response), "metadata": metadata}))
    content = bound_parts([block for part in parts if (block := read_part(part))])
    functions = [part.function_call for part in parts if part.function_call]
    calls = accept_calls((each.id, each.name, to_json(each.args or {})) for each in functions) if functions else []
    if content or calls:
        role = "assistant" if calls or event.content.role == "model" or event.author != "user" else "user"
        message: dict[str, Any] = {"role": role, "content": content, "metadata": metadata}
        if calls:
            message["tool_calls"] = calls
        if role == "assistant" and (usage := read_usage(event.usage_metadata)):
            message["usage"] = usage
        messages.append(ShadowMessage(event.id, message))
    return messages


def waiting_calls(event: Event) -> set[str]:
    """The calls that wait for a confirmation or a credential: what an event has as their response is no result yet."""
    return {*event.actions.requested_tool_confirmations, *event.actions.requested_auth_configs}


def describe_origin(event: Event) -> dict[str, Any]:
    """What a message remembers of its event beside the content."""
    origin = {
        "author": event.author,
        "invocation": event.invocation_id,
        "branch": event.branch,
        "transfer": event.actions.transfer_to_agent,
        "long_running": sorted(event.long_running_tool_ids or ()) or None,
    }
    return {"adk": {name: clean_json(value) for name, value in origin.items() if value}}


def read_part(part: types.Part) -> dict[str, Any] | None:
    """A part as a block of a message; None for calls, responses and empty parts."""
    if part.function_call or part.function_response:
        return None
    if part.thought:
        body = part.model_dump_json(exclude_none=True, by_alias=True)
        return {"type": "opaque", "issuer": ISSUER, "body": body}
    if part.text:
        return {"type": "text", "text": clean_text(part.text)}
    if part.inline_data and part.inline_data.data:
        return _read_bytes(part.inline_data)
    if part.file_data and part.file_data.file_uri:
        uri = part.file_data.file_uri
        if (part.file_data.mime_type or "").startswith("image/") and uri.startswith(("http:", "https:")):
            return {"type": "image_url", "image_url": {"url": uri}}
        return {"type": "text", "text": f"[file {uri}]"}
    if part.executable_code and part.executable_code.code:
        return {"type": "text", "text": f"```\n{clean_text(part.executable_code.code)}\n```"}
    if part.code_execution_result and part.code_execution_result.output:
        return {"type": "text", "text": f"[output of the code]\n{clean_text(part.code_execution_result.output)}"}
    if part.thought_signature or part.tool_call or part.tool_response:
        return {"type": "opaque", "issuer": ISSUER, "body": part.model_dump_json(exclude_none=True, by_alias=True)}
    return None


def _read_bytes(blob: types.Blob) -> dict[str, Any]:
    data = base64.b64encode(blob.data or b"").decode()
    media_type = blob.mime_type or "application/octet-stream"
    url = f"data:{media_type.split(';')[0]};base64,{data}"
    if media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file": {"filename": blob.display_name or "file", "file_data": url}}


def _read_response(response: types.FunctionResponse) -> dict[str, Any]:
    value = clean_json(to_json(response.response or {}))
    is_error = isinstance(value, dict) and set(value) == {"error"}
    return {
        "role": "tool",
        "tool_call_id": accept_id(response.id),
        "content": json.dumps(value, ensure_ascii=False, sort_keys=True),
        "is_error": is_error,
    }


def _describe_part(part: types.Part) -> str:
    """A part as a line of text, for a conversation that it does not belong to."""
    if part.thought:
        return ""
    if part.function_call:
        args = json.dumps(clean_json(to_json(part.function_call.args or {})), ensure_ascii=False, sort_keys=True)
        return f"[called `{clean_text(part.function_call.name or '')}` with {args}]"
    if part.function_response:
        result = json.dumps(
            clean_json(to_json(part.function_response.response or {})), ensure_ascii=False, sort_keys=True
        )
        return f"[`{clean_text(part.function_response.name or '')}` returned {result}]"
    block = read_part(part)
    if block is None or block["type"] == "opaque":
        return ""
    return str(block["text"]) if block["type"] == "text" else f"[{block['type'].removesuffix('_url')}]"


def read_usage(usage: types.GenerateContentResponseUsageMetadata | None) -> dict[str, int]:
    """The tokens of a model call; empty if the model did not count them."""
    if usage is None:
        return {}
    thoughts = usage.thoughts_token_count or 0
    figures = {
        "input_tokens": (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        "output_tokens": (usage.candidates_token_count or 0) + thoughts,
        "cache_read_tokens": usage.cached_content_token_count or 0,
        "reasoning_tokens": thoughts,
    }
    return {name: figure for name, figure in figures.items() if figure > 0}


def call_ids(events: Iterable[Event]) -> set[str]:
    """The ids of all calls in these events."""
    return {call.id for event in events for call in event.get_function_calls() if call.id}
