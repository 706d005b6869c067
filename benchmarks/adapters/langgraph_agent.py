"""LangGraph with its SQLite saver, and with ours: the same agent of `create_agent`, the same fake model."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

import holdfast
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import (
    BUDGET,
    KEY,
    SESSION,
    SYSTEM,
    USER,
    CallTool,
    Model,
    Survivors,
    address,
    order,
    question,
)

CONFIG: Any = {"configurable": {"thread_id": SESSION, "user_id": USER}}


class ScriptedChat(BaseChatModel):
    """The model of the workload as a chat model of LangChain."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedChat:
        return self

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        last = next(each for each in reversed(messages) if not each.text.startswith("<holdfast-context>"))
        step = self.script.answer([shown(each) for each in messages], answers_tool=isinstance(last, ToolMessage))
        message = AIMessage(step) if isinstance(step, str) else AIMessage("", tool_calls=[call_of(step)])
        return ChatResult(generations=[ChatGeneration(message=message)])


def shown(message: BaseMessage) -> Any:
    return [message.content, [(call["name"], call["args"]) for call in getattr(message, "tool_calls", ())]]


def call_of(step: CallTool) -> Any:
    return {"name": "look_up", "args": {"number": step.order}, "id": f"call_{step.order}", "type": "tool_call"}


class GraphAgent:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        self._opened: Any
        middleware: list[Any] = []
        if side == "own":
            self._opened = sqlite3.connect(folder / "own.db", check_same_thread=False)
            saver: Any = SqliteSaver(self._opened)
        else:
            from holdfast.langchain import HoldfastMiddleware
            from holdfast.langgraph import HoldfastSaver

            self._opened = holdfast.open(folder / "ours.db")
            self._opened.ledger(user=USER).set(KEY, address(0))
            saver = HoldfastSaver(self._opened)
            middleware = [HoldfastMiddleware(self._opened, user=USER, budget=BUDGET)]

        @tool("look_up")
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

        chat = ScriptedChat(script=model)
        self._agent: Any = create_agent(
            chat, tools=[look], system_prompt=SYSTEM, checkpointer=saver, middleware=middleware
        )

    def turn(self, text: str) -> None:
        self._agent.invoke({"messages": [("user", text)]}, CONFIG)

    def close(self) -> None:
        self._opened.close()


open_agent = GraphAgent


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        return survey_session(folder / "ours.db", turns)
    connection = sqlite3.connect(folder / "own.db")
    found = SqliteSaver(connection).get_tuple(CONFIG)
    stored = "" if found is None else f"{found.checkpoint} {found.pending_writes}"  # wherever LangGraph may have them
    asked, called = question(turns - 1) in stored, f"call_{order(turns - 1)}" in stored
    return Survivors(question=asked, call=called, unknown=False)
