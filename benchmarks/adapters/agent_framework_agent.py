"""The Microsoft Agent Framework with its history on files, and with ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FileHistoryProvider,
    FunctionInvocationLayer,
    Message,
    tool,
)

import holdfast
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import BUDGET, KEY, SESSION, SYSTEM, USER, Model, Survivors, address, question


class ScriptedClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc, type-arg]
    """The model of the workload as a chat client."""

    script: Any = None

    async def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> ChatResponse:
        last = next(each for each in reversed(messages) if not each.text.startswith("<holdfast-context>"))
        is_result = any(content.type == "function_result" for content in last.contents)
        sent = [[seen(content) for content in message.contents] for message in messages]
        step = self.script.answer(options.get("instructions"), sent, answers_tool=is_result)
        if isinstance(step, str):
            contents = [Content.from_text(step)]
        else:
            arguments = {"number": step.order}
            contents = [Content.from_function_call(f"call_{step.order}", "look_up", arguments=arguments)]
        return ChatResponse(messages=[Message("assistant", contents)])


def seen(content: Content) -> Any:
    """What a provider is sent of a content."""
    return [content.text, content.name, content.arguments, content.result]


class FrameworkDesk:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        @tool(name="look_up", approval_mode="never_require")
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

        self._loop = asyncio.new_event_loop()
        self._opened: holdfast.Engine | None = None
        client = ScriptedClient()
        client.script = model
        options: dict[str, Any] = {"context_providers": [FileHistoryProvider(folder / "own")]}
        if side == "ours":
            options = self._bind(folder)
        self._agent = Agent(client=client, instructions=SYSTEM, tools=[look], **options)
        self._session = AgentSession(session_id=SESSION)

    def _bind(self, folder: Path) -> dict[str, Any]:
        self._opened = holdfast.open(folder / "ours.db")
        self._opened.ledger(user=USER).set(KEY, address(0))
        from holdfast.agent_framework import HoldfastHistoryProvider

        return {"context_providers": [HoldfastHistoryProvider(self._opened, user=USER, budget=BUDGET)]}

    def turn(self, text: str) -> None:
        self._loop.run_until_complete(self._agent.run(text, session=self._session))

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


open_agent = FrameworkDesk


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        return survey_session(folder / "ours.db", turns)
    messages = asyncio.run(FileHistoryProvider(folder / "own").get_messages(SESSION))
    asked = any(message.text == question(turns - 1) for message in messages)
    has_call = bool(messages) and any(content.type == "function_call" for content in messages[-1].contents)
    return Survivors(question=asked, call=has_call, unknown=False)
