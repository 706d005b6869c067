"""Strands with its session manager on files, and with ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model as StrandsModel
from strands.session.file_session_manager import FileSessionManager

import holdfast
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import BUDGET, KEY, SESSION, SYSTEM, USER, Model, Survivors, address, question


class ScriptedStream(StrandsModel):
    """The model of the workload as a model of Strands."""

    def __init__(self, script: Model) -> None:
        self._script = script

    def update_config(self, **model_config: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the workload has no structured output")

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        is_result = any("toolResult" in block for block in messages[-1]["content"])
        step = self._script.answer(system_prompt, messages, answers_tool=is_result)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(step, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": step}}}
        else:
            start = {"toolUse": {"name": "look_up", "toolUseId": f"call_{step.order}"}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"number": step.order})}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(step, str) else "tool_use"}}


class StrandsDesk:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        @tool(name="look_up")
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

        self._opened: holdfast.Engine | None = None
        options: dict[str, Any] = {"session_manager": FileSessionManager(SESSION, storage_dir=str(folder / "own"))}
        options["conversation_manager"] = NullConversationManager()
        if side == "ours":
            options = self._bind(folder)
        self._agent = Agent(
            model=ScriptedStream(model), tools=[look], system_prompt=SYSTEM, callback_handler=None, **options
        )

    def _bind(self, folder: Path) -> dict[str, Any]:
        self._opened = holdfast.open(folder / "ours.db")
        self._opened.ledger(user=USER).set(KEY, address(0))
        from holdfast.strands import HoldfastSessionManager, PackedConversationManager

        manager = HoldfastSessionManager(self._opened, SESSION, user=USER, budget=BUDGET)
        return {"session_manager": manager, "conversation_manager": PackedConversationManager()}

    def turn(self, text: str) -> None:
        self._agent(text)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


open_agent = StrandsDesk


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        return survey_session(folder / "ours.db", turns)
    manager = FileSessionManager(SESSION, storage_dir=str(folder / "own"))
    messages = [each.message for each in manager.list_messages(SESSION, "default")]
    asked = any(block.get("text") == question(turns - 1) for each in messages for block in each["content"])
    return Survivors(question=asked, call=any("toolUse" in block for block in messages[-1]["content"]), unknown=False)
