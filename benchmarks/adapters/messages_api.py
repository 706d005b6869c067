"""Requests of the Messages API, as far as a model is shown them."""

from __future__ import annotations

from typing import Any

from benchmarks.adapters.workload import strings_in


def shown_in(request: dict[str, Any]) -> list[Any]:
    """The texts, calls and results of a request, with its system prompt, and without what is only a label."""
    system = request.get("system") or []
    return [_read(system), *(_read(each["content"]) for each in request["messages"])]


def results_of(request: dict[str, Any]) -> dict[str, str]:
    """The results of tools in a request, as text, by the ids of their calls."""
    return {
        block["tool_use_id"]: "\n".join(strings_in(_read_block(block)))
        for message in request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    }


def _read(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [_read_block(block) for block in content]


def _read_block(block: dict[str, Any]) -> Any:
    match block["type"]:
        case "text":
            return block["text"]
        case "tool_use":
            return [block["name"], block["input"]]
        case "tool_result":
            return _read(block.get("content") or "")
    raise AssertionError(f"the script has no {block['type']!r}")
