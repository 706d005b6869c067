"""Read a message of OpenAI, Anthropic, LangChain or Holdfast as an entry of a log.

The formats overlap, so a message is read field by field, without a guess at its format. Law: any object gives an
entry or None, never an error. Images and files become a marker; reasoning, which later calls are not shown, is left
out.
"""

from __future__ import annotations

import json
from typing import Any

from holdfast.inspector.logs.entries import (
    LogCall,
    LogEntry,
    LogResult,
    ModelFigures,
    clean_args,
    clean_name,
    clean_text,
    read_time,
)
from holdfast.model.content import Usage
from holdfast.providers.usage import read_anthropic_usage, read_openai_usage

_ROLES = {
    "user": "prompt",
    "human": "prompt",
    "assistant": "reply",
    "ai": "reply",
    "aimessagechunk": "reply",
    "model": "reply",
    "system": "system",
    "developer": "system",
    "tool": "result",
    "function": "result",
}
_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "AIMessageChunk": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
}
_TIMES = ("at", "timestamp", "created_at", "createdAt", "time", "created", "date")
_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_CALLS = frozenset({"tool_use", "function_call", "tool_call", "server_tool_use"})
_RESULTS = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_ITEM_CALLS = frozenset({"function_call", "custom_tool_call"})


def unwrap_message(value: dict[str, Any]) -> dict[str, Any]:
    """A message of LangChain without its wrapping: the constructor form, and `type` with `data`."""
    kwargs, path = value.get("kwargs"), value.get("id")
    if value.get("lc") is not None and type(kwargs) is dict and type(path) is list and path:
        return {**kwargs, "type": _CLASSES.get(str(path[-1]), kwargs.get("type"))}
    data = value.get("data")
    if type(data) is dict and type(value.get("type")) is str and "content" in data:
        return {**data, "type": value["type"]}
    return value


def find_type(value: dict[str, Any]) -> str:
    """The `type` of an object; empty if it has none."""
    kind = value.get("type")
    return kind if type(kind) is str else ""


def find_role(value: dict[str, Any]) -> str:
    """The kind of entry that a message is; empty if it is none."""
    for name in ("role", "type"):
        role = value.get(name)
        if type(role) is str and role.lower() in _ROLES:
            return _ROLES[role.lower()]
    kind = find_type(value)
    if kind in _ITEM_CALLS:
        return "reply"
    return "result" if kind in _RESULTS else ""


def read_message(value: dict[str, Any], line: int) -> LogEntry | None:
    """The entry of a message; None if it has none that a model sees."""
    message = unwrap_message(value)
    role = find_role(message)
    if not role:
        return None
    parts = _Parts()
    if find_type(message) in _ITEM_CALLS | _RESULTS and "role" not in message:
        parts.add_block(message)
    else:
        parts.add_fields(message, role)
    kind: Any = "result" if parts.results and not parts.calls else role
    if kind == "result" and not parts.results:
        return None
    text = "\n".join(parts.texts)
    if not (text.strip() or parts.calls or parts.results):
        return None
    return LogEntry(
        kind=kind,
        line=line,
        text=text,
        calls=parts.calls if kind == "reply" else [],
        results=parts.results,
        time_us=find_time(message),
        figures=read_figures(message) if kind == "reply" else ModelFigures(),
    )


class _Parts:
    """What a message has."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.calls: list[LogCall] = []
        self.results: list[LogResult] = []

    def add_fields(self, message: dict[str, Any], role: str) -> None:
        content = message.get("content")
        if role == "result" and "tool_results" not in message:
            call = message.get("tool_call_id") or message.get("name")
            is_error = message.get("is_error") is True or message.get("status") == "error"
            if content is not None and not _has_results(content):
                self.results.append(LogResult(clean_name(call, "call"), read_text(content), is_error))
                return
        if type(content) is str:
            self.texts += [clean_text(content)] if content else []
        for block in content if type(content) is list else ():
            self.add_block(block)
        for call in _list_of(message.get("tool_calls")):
            self._add_call(call)
        legacy = message.get("function_call")
        if type(legacy) is dict:
            self._add_call({"id": legacy.get("name"), **legacy})
        for result in _list_of(message.get("tool_results")):
            text = read_text(result.get("result", result.get("content")))
            is_error = result.get("is_error") is True
            self.results.append(LogResult(clean_name(result.get("tool_call_id"), "call"), text, is_error))

    def add_block(self, block: object) -> None:
        if type(block) is str:
            self.texts.append(clean_text(block))
            return
        if type(block) is not dict:
            return
        kind = find_type(block)
        if kind in _CALLS or kind in _ITEM_CALLS:
            self._add_call(block)
        elif kind in _RESULTS:
            call = block.get("tool_use_id") or block.get("call_id") or block.get("tool_call_id")
            text = read_text(block.get("content", block.get("output")))
            self.results.append(LogResult(clean_name(call, "call"), text, block.get("is_error") is True))
        elif kind not in _REASONING:
            self.texts.append(_read_block(block))

    def _add_call(self, call: dict[str, Any]) -> None:
        function = call.get("function") if type(call.get("function")) is dict else call.get("custom")
        body: dict[str, Any] = function if type(function) is dict else call
        name = clean_name(body.get("name"), "unknown")
        args = next((body[field] for field in ("args", "arguments", "input") if field in body), None)
        call_id = clean_name(call.get("call_id") or call.get("id"), f"call-{len(self.calls)}")
        if all(each.id != call_id for each in self.calls):  # LangChain repeats its calls as blocks of the content
            self.calls.append(LogCall(call_id, name, clean_args(args)))


def _list_of(value: object) -> list[dict[str, Any]]:
    return [each for each in value if type(each) is dict] if type(value) is list else []


def _has_results(content: object) -> bool:
    return type(content) is list and any(type(each) is dict and find_type(each) in _RESULTS for each in content)


def _read_block(block: dict[str, Any]) -> str:
    if find_type(block) in _TEXTS or type(block.get("text")) is str:
        return clean_text(block.get("text", block.get("refusal")))
    return f"[{clean_name(block.get('type'), 'part')}]"


def read_text(content: object) -> str:
    """Content as text: of parts, their text; of any other value, its JSON."""
    if content is None:
        return ""
    if type(content) is str:
        return clean_text(content)
    if type(content) is list and content and all(type(each) is dict and "type" in each for each in content):
        return "\n".join(_read_block(each) for each in content)
    try:
        return clean_text(json.dumps(content, ensure_ascii=False, default=str))
    except (ValueError, RecursionError):
        return ""


def find_time(message: dict[str, Any]) -> int:
    """When a message was written; 0 if it does not say."""
    return next((time for name in _TIMES if (time := read_time(message.get(name)))), 0)


def read_figures(message: dict[str, Any]) -> ModelFigures:
    """The model, the usage and the id of a reply."""
    about = message.get("response_metadata")
    about = about if type(about) is dict else {}
    names = (message.get("model"), about.get("model_name"), about.get("model"), message.get("model_name"))
    model = next((name for name in names if type(name) is str and name), "")
    usage = message.get("usage") or about.get("token_usage") or about.get("usage")
    found = read_usage(usage) or _read_langchain_usage(message.get("usage_metadata"))
    if type(message.get("usage_metadata")) is dict:
        found = _read_langchain_usage(message["usage_metadata"]) or found
    return ModelFigures(
        model=clean_name(model, ""), usage=found, long_writes=read_long_writes(usage), reply=_read_id(message)
    )


def _read_id(message: dict[str, Any]) -> str:
    reply = message.get("id")
    return reply if type(reply) is str else ""


def read_usage(usage: object) -> Usage | None:
    """Usage as OpenAI, Anthropic or Holdfast write it."""
    if type(usage) is not dict:
        return None
    if "cache_read_tokens" in usage or "cache_write_tokens" in usage:
        figures = [usage.get(name, 0) for name in Usage.__struct_fields__]
        return Usage(*(figure if type(figure) is int and figure >= 0 else 0 for figure in figures))
    if "prompt_tokens" in usage or "input_tokens_details" in usage:
        return read_openai_usage(usage)
    return read_anthropic_usage(usage)


def read_long_writes(usage: object) -> int:
    """The tokens that Anthropic wrote to its cache for an hour."""
    written = usage.get("cache_creation") if type(usage) is dict else None
    figure = written.get("ephemeral_1h_input_tokens") if type(written) is dict else None
    return figure if type(figure) is int and figure > 0 else 0


def _read_langchain_usage(usage: object) -> Usage | None:
    """LangChain's `usage_metadata`, whose input includes cached tokens."""
    if type(usage) is not dict or type(usage.get("input_tokens")) is not int:
        return None
    details = usage.get("input_token_details")
    details = details if type(details) is dict else {}
    figures = (
        usage["input_tokens"],
        usage.get("output_tokens"),
        details.get("cache_read"),
        details.get("cache_creation"),
    )
    return Usage(*(figure if type(figure) is int and figure >= 0 else 0 for figure in figures))
