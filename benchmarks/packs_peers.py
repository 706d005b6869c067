"""What others give to a model next, from the same history: a process of its own, since its environment has no Holdfast.

langchain trims a list that is in memory to so many tokens; openai-agents reads its session from its own file, whole. Orders
come as lines of JSON, and each is answered with one. Standard library only, apart from the two.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, cast

from langchain_core.messages import (  # type: ignore[import-not-found]
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)

from agents import SQLiteSession
from benchmarks.agents.workload import Turn
from benchmarks.packs_conversation import ANSWER, BUDGET, PROMPT, QUESTION, history

FILLED_AT_ONCE = 500


class TrimmedConversation:
    """A conversation that is a list of messages, and the newest of it that fit, as langchain's documentation shows."""

    def __init__(self, messages: int) -> None:
        self._messages: list[BaseMessage] = [SystemMessage(PROMPT)]
        for turn in history(messages):
            self._messages += _langchain(turn)
        self._messages.append(HumanMessage(QUESTION))

    def trim(self, times: int) -> list[float]:
        def work() -> None:
            for _ in range(times):
                kept = trim_messages(
                    self._messages,
                    max_tokens=BUDGET,
                    strategy="last",
                    token_counter="approximate",
                    include_system=True,
                    start_on="human",
                )
            assert len(kept) > 1, "the prompt and the question fit"

        return measure_time(work)


def _langchain(turn: Turn) -> Iterator[BaseMessage]:
    calls = [{"id": call.id, "name": call.name, "args": call.args} for call in turn.calls]
    yield HumanMessage(turn.question)
    yield AIMessage(turn.remark, tool_calls=calls)
    for call, text in zip(turn.calls, turn.results, strict=True):
        yield ToolMessage(text, tool_call_id=call.id, name=call.name)
    yield AIMessage(turn.answer)


class StoredConversation:
    """A session in a file, and all of its items, as an agent's run reads them."""

    def __init__(self, messages: int, path: str) -> None:
        self._session = cast("Any", SQLiteSession("only", path))
        self._loop = asyncio.Runner()
        items: list[dict[str, Any]] = []
        for turn in history(messages):
            items += _items(turn)
            if len(items) >= FILLED_AT_ONCE:
                self._loop.run(self._session.add_items(items))
                items = []
        self._loop.run(self._session.add_items([*items, {"role": "user", "content": QUESTION}]))

    def read(self, times: int) -> list[float]:
        async def work() -> None:
            for _ in range(times):
                assert await self._session.get_items()

        return measure_time(lambda: self._loop.run(work()))

    def step(self, times: int) -> list[float]:
        """A question is kept, all is read, an answer is kept. What that added is taken away again."""

        async def work() -> None:
            for _ in range(times):
                await self._session.add_items([{"role": "user", "content": QUESTION}])
                assert await self._session.get_items()
                await self._session.add_items([_assistant_item(ANSWER)])

        async def undo() -> None:
            for _ in range(2 * times):
                await self._session.pop_item()

        taken = measure_time(lambda: self._loop.run(work()))
        self._loop.run(undo())
        return taken


def _items(turn: Turn) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": turn.question}
    yield _assistant_item(turn.remark)
    for call in turn.calls:
        yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
    for call, text in zip(turn.calls, turn.results, strict=True):
        yield {"type": "function_call_output", "call_id": call.id, "output": text}
    yield _assistant_item(turn.answer)


def _assistant_item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


def measure_time(work: Callable[[], object]) -> list[float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return [time.perf_counter() - wall, time.process_time() - cpu]


def main() -> None:
    trimmed: dict[int, TrimmedConversation] = {}
    kept: dict[int, StoredConversation] = {}

    def fill(messages: int, path: str) -> None:
        trimmed[messages] = TrimmedConversation(messages)
        kept[messages] = StoredConversation(messages, path)

    orders: dict[str, Callable[..., object]] = {
        "about": lambda: {name: version(name) for name in ("langchain-core", "openai-agents")},
        "fill": fill,
        "trim": lambda messages, times: trimmed[messages].trim(times),
        "read": lambda messages, times: kept[messages].read(times),
        "step": lambda messages, times: kept[messages].step(times),
    }
    for line in sys.stdin:
        order, *given = _parse_order(line)
        print(json.dumps(orders[order](*given)), flush=True)


def _parse_order(line: str) -> Sequence[Any]:
    told: list[Any] = json.loads(line)
    return told


if __name__ == "__main__":
    main()
