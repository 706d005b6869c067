"""Scripts for the SDK's own scripted model, and short names for what every test needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from agents.testing import ModelStep, ScriptedModel
from agents.usage import Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

from agents import TResponseInputItem

T = TypeVar("T")
Items = list[dict[str, Any]]


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def say(text: str, name: str = "msg_1") -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[], logprobs=[])
    return ResponseOutputMessage(id=name, role="assistant", type="message", status="completed", content=[content])


def call(tool: str, name: str, **arguments: object) -> ResponseFunctionToolCall:
    """A call whose arguments have a space that a canonical form would lose."""
    return ResponseFunctionToolCall(
        name=tool, call_id=name, arguments=json.dumps(arguments), type="function_call", id=f"fc_{name}"
    )


def think(name: str) -> ResponseReasoningItem:
    return ResponseReasoningItem(id=name, summary=[], type="reasoning", encrypted_content="c2VjcmV0")


def script(*steps: list[ResponseOutputItem] | Exception, usage: Usage | None = None) -> ScriptedModel:
    model = ScriptedModel(default_usage=usage)
    for step in steps:
        model.enqueue(step if isinstance(step, Exception) else ModelStep(output=step))
    return model


def sdk(items: Items) -> list[TResponseInputItem]:
    """Items with the SDK's type."""
    return cast("list[TResponseInputItem]", items)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def texts(items: object) -> list[str]:
    """The text of each item, its arguments or its output."""
    shown: list[str] = []
    for item in cast("Items", items):
        value: Any = item.get("content", item.get("output", item.get("arguments", "")))
        shown.append(value if isinstance(value, str) else "".join(part.get("text", "") for part in value))
    return shown


def without_tail(items: object) -> Items:
    """The items of a call without the text of the application at the end."""
    return [
        item
        for item in cast("Items", items)
        if not (item.get("role") == "developer" and "<holdfast-context>" in str(item.get("content")))
    ]
