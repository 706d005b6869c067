"""A model of Strands that answers as a script says, and keeps what it was sent."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from strands.models import Model
from strands.types.content import Messages
from strands.types.streaming import StreamEvent

Reply = str | dict[str, Any] | list[dict[str, Any]] | Exception


def use(call: str, name: str, **arguments: object) -> dict[str, Any]:
    """A tool call."""
    return {"toolUseId": call, "name": name, "input": arguments}


class ScriptedModel(Model):
    """Answers with the replies of a script, in their order: texts, tool calls, or errors."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = [*replies]
        self.requests: list[Messages] = []
        self.prompts: list[str | None] = []
        self.tools: list[list[str]] = []

    def update_config(self, **model_config: Any) -> None:
        """There is nothing to configure."""

    def get_config(self) -> dict[str, Any]:
        return {"model_id": "scripted"}

    async def structured_output(
        self, output_model: Any, prompt: Messages, system_prompt: str | None = None, **kwargs: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        yield {"output": output_model()}

    async def stream(
        self, messages: Messages, tool_specs: Any = None, system_prompt: str | None = None, **kwargs: Any
    ) -> AsyncGenerator[StreamEvent, None]:
        self.requests.append(copy.deepcopy(messages))
        self.prompts.append(system_prompt)
        self.tools.append([spec["name"] for spec in tool_specs or ()])
        reply = self.replies.pop(0) if self.replies else "Done."
        if isinstance(reply, Exception):
            raise reply
        yield {"messageStart": {"role": "assistant"}}
        calls = [reply] if isinstance(reply, dict) else [] if isinstance(reply, str) else reply
        if isinstance(reply, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": reply}}}
            yield {"contentBlockStop": {}}
        for call in calls:
            yield {"contentBlockStart": {"start": {"toolUse": {"name": call["name"], "toolUseId": call["toolUseId"]}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(call["input"])}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}
        yield {
            "metadata": {
                "usage": {"inputTokens": 100, "outputTokens": 10, "totalTokens": 110},
                "metrics": {"latencyMs": 1},
            }
        }


def texts(messages: Messages) -> list[tuple[str, str]]:
    """Who says what in these messages, with tool calls and results as text."""
    return [(message["role"], "|".join(map(_read_block, message["content"]))) for message in messages]


def _read_block(block: Any) -> str:
    if "toolUse" in block:
        return f"call {block['toolUse']['toolUseId']} {block['toolUse']['name']}"
    if "toolResult" in block:
        content: Sequence[Any] = block["toolResult"]["content"]
        return f"result {block['toolResult']['toolUseId']} " + "".join(each.get("text", str(each)) for each in content)
    return str(block.get("text", block))
