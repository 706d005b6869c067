"""The OpenAI Agents SDK with its SQLite session, and bound to ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.models.interface import Model as AgentsModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import holdfast
from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import BUDGET, KEY, SESSION, SYSTEM, USER, Model, Survivors, address, question


class ScriptedResponses(AgentsModel):
    """The model of the workload as a model of the SDK."""

    def __init__(self, script: Model) -> None:
        self._script = script

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        items = [{"role": "user", "content": input}] if isinstance(input, str) else input
        shown = [each for each in items if each.get("role") != "developer"]
        is_result = shown[-1].get("type") == "function_call_output"
        step = self._script.answer(system_instructions, items, answers_tool=is_result)
        output: Any
        if isinstance(step, str):
            text = ResponseOutputText(type="output_text", text=step, annotations=[])
            number = len(self._script.calls)
            output = ResponseOutputMessage(
                id=f"msg_{number}", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            arguments = json.dumps({"number": step.order})
            output = ResponseFunctionToolCall(
                type="function_call", call_id=f"call_{step.order}", name="look_up", arguments=arguments
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the workload does not stream")


class RunnerAgent:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        @function_tool(name_override="look_up")
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

        self._loop = asyncio.new_event_loop()
        self._options: dict[str, Any] = {}
        config: dict[str, Any] = {"tracing_disabled": True}
        if side == "own":
            self._opened: Any = SQLiteSession(SESSION, folder / "own.db")
            self._options["session"] = self._opened
        else:
            from holdfast.openai_agents import bind

            self._opened = holdfast.open(folder / "ours.db")
            self._opened.ledger(user=USER).set(KEY, address(0))
            bound = bind(self._opened, SESSION, user=USER, budget=BUDGET)
            self._options |= {"session": bound.session, "hooks": bound.hooks}
            config["call_model_input_filter"] = bound.filter
        self._options["run_config"] = RunConfig(**config)
        self._agent = Agent(name="desk", instructions=SYSTEM, tools=[look], model=ScriptedResponses(model))

    def turn(self, text: str) -> None:
        self._loop.run_until_complete(Runner.run(self._agent, text, **self._options))

    def close(self) -> None:
        self._opened.close()


open_agent = RunnerAgent


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        return survey_session(folder / "ours.db", turns)
    items: list[Any] = asyncio.run(SQLiteSession(SESSION, folder / "own.db").get_items())
    asked = any(each.get("content") == question(turns - 1) for each in items)
    return Survivors(question=asked, call=items[-1].get("type") == "function_call", unknown=False)
