"""The memory tool of Anthropic's client, on files as the client has it, and on ours.

Each question begins a new conversation, so the memory is all that the model has of the ones before: it looks there first.
The customer tells the desk of every other move, and the model corrects its memory. The other moves are made on the page of
the customer's account: the application sets the fact, and the desk is not told.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anthropic import Anthropic, beta_tool
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from tests.frameworks.messages_api import call, fake_api, text

import holdfast
from benchmarks.adapters.messages_api import results_of, shown_in
from benchmarks.adapters.workload import (
    ADDRESSES,
    KEY,
    MOVES_EVERY,
    SYSTEM,
    USER,
    CallTool,
    Model,
    address,
    correction,
)

NOTE, FACT = f"/memories/{KEY}.md", f"/memories/facts/{KEY}.md"


def is_told(turn: int) -> bool:
    """Whether the move of this turn is told to the desk."""
    return bool(correction(turn)) and turn // MOVES_EVERY % 2 == 1


class Script:
    """What the model does in a turn: list the memory, read the address, correct it if the customer moved, look the order
    up, reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._conversation: dict[str, Any] = {}

    def __call__(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Answer a request. The client sends what is new: the server has what came before."""
        if request["thread"]["type"] == "create":
            self._conversation = {"system": request["system"], "messages": []}
        messages = self._conversation["messages"]
        messages += request["messages"]
        blocks = self._reply(shown_in(self._conversation), [*results_of(self._conversation).values()])
        messages.append({"role": "assistant", "content": blocks})
        return blocks

    def _reply(self, shown: list[Any], results: list[str]) -> list[dict[str, Any]]:
        turn, step = self._model.turn, len(results)
        if (prepares := 2 + is_told(turn)) > step:
            self._model.note(shown)
            return [call("memory", f"toolu_{turn}_{step}", **self._use_memory(turn, results))]
        reply = self._model.answer(shown, answers_tool=step > prepares)
        if isinstance(reply, CallTool):
            return [call("look_up", f"toolu_{turn}_{step}", number=reply.order)]
        return [text(reply)]

    def _use_memory(self, turn: int, results: list[str]) -> dict[str, str]:
        if not results:
            return {"command": "view", "path": "/memories"}
        if len(results) == 1:
            return {"command": "view", "path": FACT if "/memories/facts/" in results[0] else NOTE}
        path = FACT if FACT in results[1] else NOTE
        [known] = [each for each in ADDRESSES if each in results[1]]
        return {"command": "str_replace", "path": path, "old_str": known, "new_str": address(turn)}


class MemoryAgent:
    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        @beta_tool(name="look_up")
        def look(number: str) -> str:
            """Look an order up."""
            return look_up(number)

        self._model = model
        self._resources = contextlib.ExitStack()
        api = self._resources.enter_context(fake_api(Script(model), keep=False))
        self._client = self._resources.enter_context(Anthropic(base_url=api.url, api_key="none"))
        self._ledger: holdfast.Ledger | None = None
        memory: Any = self._bind(folder) if side == "ours" else self._write_note(folder)
        self._tools: Any = [memory, look]

    def _write_note(self, folder: Path) -> Any:
        memory = BetaLocalFilesystemMemoryTool(str(folder))
        memory.call({"command": "create", "path": NOTE, "file_text": f"{address(0)}\n"})
        return memory

    def _bind(self, folder: Path) -> Any:
        from holdfast.anthropic import MemoryTool

        engine = self._resources.enter_context(holdfast.open(folder / "ours.db"))
        self._ledger = engine.ledger(user=USER)
        self._ledger.set(KEY, address(0))
        return MemoryTool(engine, user=USER, authority="peer")  # the customer speaks for themselves

    def turn(self, words: str) -> None:
        turn = self._model.turn
        if correction(turn) and not is_told(turn):
            words = words.removeprefix(correction(turn))
            if self._ledger is not None:
                self._ledger.set(KEY, address(turn))
        self._client.beta.messages.tool_runner(
            model="claude-sonnet-5",
            max_tokens=1_000,
            system=SYSTEM,
            messages=[{"role": "user", "content": words}],
            tools=self._tools,
        ).until_done()

    def close(self) -> None:
        self._resources.close()


open_agent = MemoryAgent
