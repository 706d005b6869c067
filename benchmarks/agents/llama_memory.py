"""llama-index, used as its documentation shows. Run by its own interpreter, where Holdfast is not installed."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from llama_index.core.base.llms.types import TextBlock, ToolCallBlock  # type: ignore[import-not-found]
from llama_index.core.llms import ChatMessage  # type: ignore[import-not-found]
from llama_index.core.memory import Memory  # type: ignore[import-not-found]
from llama_index.core.storage.chat_store.sql import MessageStatus  # type: ignore[import-not-found]

from benchmarks.agents.workload import SESSION, SQLITE_SETTINGS, WINDOW_TOKENS, Turn, mark, marks_in

FILL_TURNS = 50
PUT_TURNS = 10


class LlamaIndex:
    """`Memory` on a SQLite file, of as many tokens as the window: it archives by itself what no longer fits."""

    packages = ("llama-index-core",)

    def __init__(self, path: str) -> None:
        self._memory = Memory.from_defaults(
            session_id=SESSION, token_limit=WINDOW_TOKENS, async_database_uri=f"sqlite+aiosqlite:///{path}"
        )
        self._loop = asyncio.Runner()
        self.read("window", 1)

    def settings(self) -> dict[str, object]:
        async def read() -> dict[str, object]:
            async with self._memory.sql_store._async_engine.connect() as connection:
                return {
                    name: (await connection.exec_driver_sql(query)).scalar() for name, query in SQLITE_SETTINGS.items()
                }

        return self._loop.run(read())

    def prepared(self, turn: Turn) -> list[Any]:
        calls = [ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=call.args) for call in turn.calls]
        results = [
            ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": call.id})
            for call, text in zip(turn.calls, turn.results, strict=True)
        ]
        return [
            ChatMessage(role="user", content=turn.question),
            ChatMessage(role="assistant", blocks=[TextBlock(text=turn.remark), *calls]),
            *results,
            ChatMessage(role="assistant", content=turn.answer),
        ]

    def append(self, turns: list[list[Any]]) -> None:
        async def put() -> None:
            for turn in turns:
                await self._memory.aput_messages(turn)

        self._loop.run(put())

    def append_each(self, turns: list[list[Any]]) -> None:
        async def put() -> None:
            for message in itertools.chain.from_iterable(turns):
                await self._memory.aput(message)

        self._loop.run(put())

    def fill(self, turns: list[Turn]) -> None:
        """The older ones as already archived, the newest as put: what putting them all would have left."""
        old, new = turns[:-PUT_TURNS], turns[-PUT_TURNS:]

        async def add() -> None:
            for start in range(0, len(old), FILL_TURNS):
                messages = [each for turn in old[start : start + FILL_TURNS] for each in self.prepared(turn)]
                await self._memory.sql_store.add_messages(SESSION, messages, status=MessageStatus.ARCHIVED)

        self._loop.run(add())
        self.append([self.prepared(turn) for turn in new])

    def read(self, kind: str, times: int) -> int:
        assert kind == "window"

        async def read() -> int:
            for _ in range(times):
                found = await self._memory.aget()
            return len(found)

        return self._loop.run(read())

    def send(self, turn: Turn, position: int) -> list[str]:
        self.append_each([[self.prepared(turn)[position]]])
        return [mark(turn.number, position)]

    def held(self) -> list[str]:
        return marks_in(message.content or "" for message in self._loop.run(self._memory.aget_all()))

    def close(self) -> None:
        self._loop.run(self._memory.sql_store._async_engine.dispose())
        self._loop.close()
