"""Pydantic AI with its conversation store in memory, the only one that it has, and with ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.conversation_store import Conversation, InMemoryConversationStore
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

import holdfast
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import BUDGET, KEY, SESSION, SYSTEM, USER, Model, Survivors, address

LIMITS = UsageLimits(request_limit=None)
_UNSEEN = {"timestamp", "run_id", "conversation_id", "kind", "part_kind", "tool_call_id", "usage", "metadata"}


def drop_labels(value: Any) -> Any:
    """A request without what no provider is sent."""
    if isinstance(value, dict):
        return {name: drop_labels(each) for name, each in value.items() if name not in _UNSEEN}
    return [drop_labels(each) for each in value] if isinstance(value, list) else value


class PydanticDesk:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._opened: holdfast.Engine | None = None
        capabilities: list[Any] = []
        self._store: Any = InMemoryConversationStore()
        if side == "ours":
            from holdfast.pydantic_ai import Holdfast, HoldfastConversationStore

            self._opened = holdfast.open(folder / "ours.db")
            self._opened.ledger(user=USER).set(KEY, address(0))
            self._store = HoldfastConversationStore(self._opened)
            capabilities = [Holdfast(self._opened, user=USER, budget=BUDGET)]

        def ask(messages: list[Any], info: AgentInfo) -> ModelResponse:
            sent = drop_labels(ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
            is_result = any(isinstance(part, ToolReturnPart) for part in messages[-1].parts)
            step = model.answer(info.instructions, sent, answers_tool=is_result)
            if isinstance(step, str):
                return ModelResponse(parts=[TextPart(step)])
            return ModelResponse(parts=[ToolCallPart("look_up", {"number": step.order}, f"call_{step.order}")])

        self._agent: Any = Agent(FunctionModel(ask), instructions=SYSTEM, capabilities=capabilities)

        @self._agent.tool_plain(name="look_up")  # type: ignore[untyped-decorator]
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

    def turn(self, text: str) -> None:
        self._loop.run_until_complete(self._turn(text))

    async def _turn(self, text: str) -> None:
        conversation = await self._store.load(SESSION) or Conversation(conversation_id=SESSION)
        result = await self._agent.run(text, conversation=conversation, usage_limits=LIMITS)
        await self._store.save(result)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


open_agent = PydanticDesk


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        return survey_session(folder / "ours.db", turns)
    return Survivors(question=False, call=False, unknown=False)  # it was in memory
