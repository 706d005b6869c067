"""langgraph with its savers, used as its documentation shows. Run by its own interpreter, where Holdfast is not
installed."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage, trim_messages  # type: ignore[import-not-found]
from langchain_core.messages.utils import count_tokens_approximately  # type: ignore[import-not-found]
from langgraph.checkpoint.base import BaseCheckpointSaver  # type: ignore[import-not-found]
from langgraph.checkpoint.postgres import PostgresSaver  # type: ignore[import-not-found]
from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]
from langgraph.graph import END, START, MessagesState, StateGraph  # type: ignore[import-not-found]
from psycopg.rows import tuple_row

from benchmarks.agents.workload import (
    POSTGRES_SETTINGS,
    SESSION,
    SQLITE_SETTINGS,
    WINDOW_TOKENS,
    Turn,
    marks_in,
    settings_of,
)


class Langgraph:
    """A graph of model and tools over `MessagesState` with a saver: one checkpoint for each step it takes."""

    def __init__(self, saver: BaseCheckpointSaver) -> None:
        self._script: list[Any] = []
        """The messages of the turn that runs: a question, calls, their results, and an answer."""

        def model(state: Any) -> dict[str, list[Any]]:
            asked = state["messages"][-1].type == "human"
            return {"messages": [self._script[1 if asked else -1]]}

        def tools(state: Any) -> dict[str, list[Any]]:  # noqa: ARG001 - the results are known
            return {"messages": self._script[2:-1]}

        def route(state: Any) -> str:
            return "tools" if state["messages"][-1].tool_calls else str(END)

        builder = StateGraph(MessagesState)
        builder.add_node("model", model)
        builder.add_node("tools", tools)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", route, ["tools", END])
        builder.add_edge("tools", "model")
        self._graph = builder.compile(checkpointer=saver)
        self._config = {"configurable": {"thread_id": SESSION}}
        self._graph.get_state(self._config)

    def prepared(self, turn: Turn) -> list[Any]:
        """Messages have ids here, so that one sent twice can be told."""
        calls = [{"id": call.id, "name": call.name, "args": call.args} for call in turn.calls]
        first, second, *others = turn.marks()
        results = [
            ToolMessage(text, tool_call_id=call.id, name=call.name, id=own)
            for call, text, own in zip(turn.calls, turn.results, others, strict=False)
        ]
        asked = HumanMessage(turn.question, id=first)
        return [
            asked,
            AIMessage(turn.remark, tool_calls=calls, id=second),
            *results,
            AIMessage(turn.answer, id=others[-1]),
        ]

    def append(self, turns: list[list[Any]]) -> None:
        for turn in turns:
            self._script = turn
            self._graph.invoke({"messages": turn[:1]}, self._config)

    def append_each(self, turns: list[list[Any]]) -> None:
        self.append(turns)  # every step is saved when it is taken: there is no other way

    def fill(self, turns: list[Turn]) -> None:
        """All in one step: what is loaded and saved from then on is the same as after many."""
        messages = [message for turn in turns for message in self.prepared(turn)]
        self._graph.update_state(self._config, {"messages": messages}, as_node="model")

    def read(self, kind: str, times: int) -> int:
        assert kind == "window"
        for _ in range(times):
            found = trim_messages(
                self._graph.get_state(self._config).values["messages"],
                strategy="last",
                token_counter=count_tokens_approximately,
                max_tokens=WINDOW_TOKENS,
                start_on="human",
            )
        return len(found)

    def send(self, turn: Turn, position: int) -> list[str]:
        """A turn is answered for as a whole, when its run has ended. One that was cut off is resumed where it stood."""
        if position:
            return []
        self._script = self.prepared(turn)
        state = self._graph.get_state(self._config)
        known = {message.id for message in state.values.get("messages", [])}
        if state.tasks and self._script[0].id in known:  # `next` is empty when only saving was cut off
            self._graph.invoke(None, self._config)
        elif self._script[-1].id not in known:
            self._graph.invoke({"messages": self._script[:1]}, self._config)
        return turn.marks()

    def held(self) -> list[str]:
        return marks_in(message.text for message in self._graph.get_state(self._config).values["messages"])


class OnSqlite(Langgraph):
    """A `SqliteSaver`."""

    packages = ("langgraph", "langgraph-checkpoint-sqlite")

    def __init__(self, address: str) -> None:
        self._connection = sqlite3.connect(address, check_same_thread=False)
        super().__init__(SqliteSaver(self._connection))

    def settings(self) -> dict[str, object]:
        return settings_of(self._connection.execute, SQLITE_SETTINGS)

    def close(self) -> None:
        self._connection.close()


class OnPostgres(Langgraph):
    """A `PostgresSaver` with a connection of its own."""

    packages = ("langgraph", "langgraph-checkpoint-postgres", "psycopg")

    def __init__(self, address: str) -> None:
        self._stack = ExitStack()
        self._saver = self._stack.enter_context(PostgresSaver.from_conn_string(address))
        self._saver.setup()
        super().__init__(self._saver)

    def settings(self) -> dict[str, object]:
        cursor = self._saver.conn.cursor(row_factory=tuple_row)
        return settings_of(cursor.execute, POSTGRES_SETTINGS)

    def close(self) -> None:
        self._stack.close()
