"""openai-agents, used as its documentation shows. Run by its own interpreter, where Holdfast is not installed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from typing import Any

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine  # type: ignore[import-not-found]

from agents import SQLiteSession
from benchmarks.agents.workload import (
    POSTGRES_SETTINGS,
    SESSION,
    SQLITE_SETTINGS,
    TAIL_MESSAGES,
    Turn,
    mark,
    marks_in,
    settings_of,
)

FILL_TURNS = 50


class OpenaiAgents:
    """A session: `add_items` with all items of a turn, or of a message; `get_items(limit)` for the newest."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._loop = asyncio.Runner()

    def prepared(self, turn: Turn) -> list[list[dict[str, Any]]]:
        """The items of each message: a call is an item of its own."""
        calls = [
            {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
            for call in turn.calls
        ]
        results = [
            [{"type": "function_call_output", "call_id": call.id, "output": text}]
            for call, text in zip(turn.calls, turn.results, strict=True)
        ]
        asked = {"role": "user", "content": turn.question}
        return [[asked], [assistant_item(turn.remark), *calls], *results, [assistant_item(turn.answer)]]

    def append(self, turns: list[list[list[dict[str, Any]]]]) -> None:
        self._add([list(itertools.chain.from_iterable(turn)) for turn in turns])

    def append_each(self, turns: list[list[list[dict[str, Any]]]]) -> None:
        self._add([message for turn in turns for message in turn])

    def fill(self, turns: list[Turn]) -> None:
        for start in range(0, len(turns), FILL_TURNS):
            messages = [each for turn in turns[start : start + FILL_TURNS] for each in self.prepared(turn)]
            self._add([list(itertools.chain.from_iterable(messages))])

    def read(self, kind: str, times: int) -> int:
        assert kind == "tail"

        async def read() -> int:
            for _ in range(times):
                found = await self._session.get_items(limit=TAIL_MESSAGES)
            return len(found)

        return self._loop.run(read())

    def send(self, turn: Turn, position: int) -> list[str]:
        self._add([self.prepared(turn)[position]])
        return [mark(turn.number, position)]

    def held(self) -> list[str]:
        items = self._loop.run(self._session.get_items())
        return marks_in(text for item in items for text in texts_of(item))

    def _add(self, batches: Iterable[list[dict[str, Any]]]) -> None:
        async def add() -> None:
            for batch in batches:
                await self._session.add_items(batch)

        self._loop.run(add())


class OnSqlite(OpenaiAgents):
    """`SQLiteSession`."""

    packages = ("openai-agents",)

    def __init__(self, address: str) -> None:
        super().__init__(SQLiteSession(SESSION, address))

    def settings(self) -> dict[str, object]:
        def ask() -> dict[str, object]:
            return settings_of(self._session._get_connection().execute, SQLITE_SETTINGS)

        async def read() -> dict[str, object]:
            return await asyncio.to_thread(ask)  # connections belong to the threads that the loop works with

        return self._loop.run(read())

    def close(self) -> None:
        self._session.close()
        self._loop.close()


class OnPostgres(OpenaiAgents):
    """`SQLAlchemySession` with the driver that its documentation names."""

    packages = ("openai-agents", "sqlalchemy", "asyncpg")

    def __init__(self, address: str) -> None:
        self._engine = create_async_engine(address.replace("postgresql://", "postgresql+asyncpg://", 1))
        super().__init__(SQLAlchemySession(SESSION, engine=self._engine, create_tables=True))

    def settings(self) -> dict[str, object]:
        async def read() -> dict[str, object]:
            async with self._engine.connect() as connection:
                return {
                    name: (await connection.exec_driver_sql(query)).scalar()
                    for name, query in POSTGRES_SETTINGS.items()
                }

        return self._loop.run(read())

    def close(self) -> None:
        self._loop.run(self._engine.dispose())
        self._loop.close()


def assistant_item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def texts_of(item: dict[str, Any]) -> list[str]:
    if "output" in item:
        return [item["output"]]
    content = item.get("content", [])
    return [content] if isinstance(content, str) else [part["text"] for part in content]
