"""LlamaIndex with its memory on SQLite, and with ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.memory import Memory

import holdfast
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import BUDGET, KEY, SESSION, SYSTEM, USER, Model, Survivors, address, question


class LlamaDesk:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

        def answer(messages: Any, **options: Any) -> ChatMessage:
            sent = [[block.model_dump() for block in message.blocks] for message in messages]
            step = model.answer(sent, answers_tool=messages[-1].role == "tool")
            if isinstance(step, str):
                return ChatMessage(role="assistant", content=step)
            call = ToolCallBlock(
                tool_call_id=f"call_{step.order}", tool_name="look", tool_kwargs={"number": step.order}
            )
            return ChatMessage(role="assistant", blocks=[call])

        self._loop = asyncio.new_event_loop()
        self._opened: holdfast.Engine | None = None
        tools: Any = [look]
        if side == "own":
            self._memory: Any = Memory.from_defaults(
                session_id=SESSION, async_database_uri=f"sqlite+aiosqlite:///{folder / 'own.db'}"
            )
        else:
            from holdfast.llama_index import HoldfastMemory

            self._opened = holdfast.open(folder / "ours.db")
            self._opened.ledger(user=USER).set(KEY, address(0))
            self._memory = HoldfastMemory(self._opened, SESSION, user=USER, budget=BUDGET)
            tools = self._memory.observe_tools(tools)
        llm = MockFunctionCallingLLM(response_generator=answer)
        self._agent = FunctionAgent(llm=llm, tools=tools, system_prompt=SYSTEM, streaming=False)

    def turn(self, text: str) -> None:
        self._loop.run_until_complete(self._turn(text))

    async def _turn(self, text: str) -> None:
        await self._agent.run(text, memory=self._memory)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


open_agent = LlamaDesk


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        kept = survey_session(folder / "ours.db", turns)
        with holdfast.open(folder / "ours.db") as engine:
            unknown = engine.session(SESSION, thread="tools").recover().unknown_outcomes
        return Survivors(question=kept.question, call=bool(unknown), unknown=bool(unknown and unknown[0].key))
    memory = Memory.from_defaults(session_id=SESSION, async_database_uri=f"sqlite+aiosqlite:///{folder / 'own.db'}")
    messages = asyncio.run(memory.aget_all())
    asked = any(message.content == question(turns - 1) for message in messages)
    has_call = any(isinstance(block, ToolCallBlock) for block in (messages[-1].blocks if messages else []))
    return Survivors(question=asked, call=has_call, unknown=False)
