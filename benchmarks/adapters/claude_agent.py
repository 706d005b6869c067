"""The Claude Agent SDK and the command that it carries, against a server on this machine: with the log on the disk alone,
which is its default, and with our session store and hooks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage, create_sdk_mcp_server, tool
from tests.frameworks.messages_api import call, fake_api, text

import holdfast
from benchmarks.adapters.messages_api import results_of, shown_in
from benchmarks.adapters.survivors import survey_session
from benchmarks.adapters.workload import KEY, SYSTEM, USER, Model, Survivors, address, order, question

LOOK_UP = "mcp__desk__look_up"


class ClaudeDesk:
    """One client for the whole conversation; the tool runs in this process."""

    def __init__(self, side: str, folder: Path, model: Model, look_up: Callable[[str], str]) -> None:
        @tool("look_up", "Look an order up.", {"number": str})
        async def look(arguments: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": look_up(arguments["number"])}]}

        def script(request: dict[str, Any]) -> list[dict[str, Any]]:
            is_result = f"toolu_{order(model.turn)}" in results_of(request)
            step = model.answer(shown_in(request), answers_tool=is_result)
            return [text(step) if isinstance(step, str) else call(LOOK_UP, f"toolu_{step.order}", number=step.order)]

        self._resources = contextlib.ExitStack()
        api = self._resources.enter_context(fake_api(script, keep=False))
        os.environ["CLAUDE_CONFIG_DIR"] = str(folder / "config")
        more = self._bind(folder) if side == "ours" else {}
        options = ClaudeAgentOptions(
            system_prompt=SYSTEM,
            tools=[],
            mcp_servers={"desk": create_sdk_mcp_server("desk", tools=[look])},
            allowed_tools=[LOOK_UP],
            setting_sources=[],
            cwd=folder,
            env={
                "ANTHROPIC_BASE_URL": api.url,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
            **more,
        )
        self._loop = asyncio.new_event_loop()
        self._client = ClaudeSDKClient(options)
        self._loop.run_until_complete(self._client.connect())

    def _bind(self, folder: Path) -> dict[str, Any]:
        from holdfast.claude import HoldfastSessionStore

        engine = self._resources.enter_context(holdfast.open(folder / "ours.db"))
        engine.ledger(user=USER).set(KEY, address(0))
        store = HoldfastSessionStore(engine, user=USER)
        return {"session_store": store, "session_store_flush": "eager", "hooks": store.hooks(context=True)}

    def turn(self, words: str) -> None:
        self._loop.run_until_complete(self._turn(words))

    async def _turn(self, words: str) -> None:
        await self._client.query(words)
        async for message in self._client.receive_response():
            if isinstance(message, ResultMessage) and message.is_error:
                raise RuntimeError(f"Claude Code failed: {message.result}")

    def close(self) -> None:
        self._loop.run_until_complete(self._client.disconnect())
        self._resources.close()


open_agent = ClaudeDesk


def survey(side: str, folder: Path, turns: int) -> Survivors:
    if side == "ours":
        return survey_session(folder / "ours.db", turns)
    logs = "".join(each.read_text() for each in (folder / "config" / "projects").rglob("*.jsonl"))
    return Survivors(question=question(turns - 1) in logs, call=f"toolu_{order(turns - 1)}" in logs, unknown=False)
