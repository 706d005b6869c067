"""Google ADK with its SQLite session service, and with ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

import holdfast
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import BUDGET, KEY, SESSION, SYSTEM, USER, Model, Survivors, address, question

APP = "desk"


class ScriptedLlm(BaseLlm):
    """The model of the workload as a model of ADK."""

    script: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        sent = [each.model_dump(mode="json", exclude_none=True) for each in llm_request.contents]
        parts = [part for content in llm_request.contents for part in content.parts or []]
        last = next(part for part in reversed(parts) if not (part.text or "").startswith("<holdfast-context>"))
        is_result = last.function_response is not None
        step = self.script.answer(llm_request.config.system_instruction, sent, answers_tool=is_result)
        if isinstance(step, str):
            part = types.Part(text=step)
        else:
            call = types.FunctionCall(id=f"call_{step.order}", name="look_up", args={"number": step.order})
            part = types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class AdkDesk:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

        look.__name__ = "look_up"
        self._loop = asyncio.new_event_loop()
        self._opened: holdfast.Engine | None = None
        plugins: list[Any] = []
        service: Any = SqliteSessionService(str(folder / "own.db"))
        if side == "ours":
            service, plugins = self._bind(folder)
        agent = LlmAgent(
            name="desk", model=ScriptedLlm(model="scripted", script=model), instruction=SYSTEM, tools=[look]
        )
        app = App(name=APP, root_agent=agent, plugins=plugins)
        self._runner = Runner(app=app, session_service=service)
        self._loop.run_until_complete(service.create_session(app_name=APP, user_id=USER, session_id=SESSION))

    def _bind(self, folder: Path) -> tuple[Any, list[Any]]:
        from holdfast.adk import Plugin, SessionService

        self._opened = holdfast.open(folder / "ours.db")
        self._opened.ledger(user=f"{APP}/{USER}").set(KEY, address(0))
        return SessionService(self._opened), [Plugin(self._opened, budget=BUDGET)]

    def turn(self, text: str) -> None:
        self._loop.run_until_complete(self._turn(text))

    async def _turn(self, text: str) -> None:
        message = types.Content(role="user", parts=[types.Part(text=text)])
        async for _ in self._runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
            pass

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


open_agent = AdkDesk


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        return survey_session(folder / "ours.db", turns)
    service = SqliteSessionService(str(folder / "own.db"))
    session = asyncio.run(service.get_session(app_name=APP, user_id=USER, session_id=SESSION))
    parts = [part for event in (session.events if session else []) for part in (event.content.parts or [])]
    asked = any(part.text == question(turns - 1) for part in parts)
    return Survivors(question=asked, call=bool(parts and parts[-1].function_call), unknown=False)
