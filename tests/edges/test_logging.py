"""The logger `holdfast` at DEBUG tells what an engine does, and nothing of contents."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.support import SteppingClock

SECRET = "xylophone"
"""Part of every text that is recorded here."""


def use_engine(folder: Path) -> None:
    with holdfast.open(folder / "agent.db", clock=SteppingClock()) as engine:
        session = engine.create_session("chat", user="ada", idle_timeout_s=1e-6)
        message = session.record("user", f"I live in {SECRET} street")
        for _ in range(3):
            session.record("user", f"And next to {SECRET} square")
        reply = session.record("assistant", SECRET, tool_calls=[{"name": "look", "args": {"for": SECRET}}])
        session.run(reply.tool_calls[0], lambda **_: f"{SECRET} " * 50_000)
        session.facts.set("street", SECRET)
        session.pack(SECRET, budget=4_000, brief=holdfast.Brief(prompt=f"Know {SECRET}."))
        session.context.compact(strategy=holdfast.types.TruncateAt(1))
        session.recover()
        session.erase([message.seq], SECRET)
        engine.admin.sweep()


async def use_async_engine(folder: Path) -> None:
    async with await holdfast.open_async(folder / "agent.db", clock=SteppingClock()) as engine:
        session = await engine.create_session("chat", user="ada", idle_timeout_s=1e-6)
        message = await session.record("user", f"I live in {SECRET} street")
        for _ in range(3):
            await session.record("user", f"And next to {SECRET} square")
        reply = await session.record("assistant", SECRET, tool_calls=[{"name": "look", "args": {"for": SECRET}}])
        await session.run(reply.tool_calls[0], lambda **_: f"{SECRET} " * 50_000)
        await session.facts.set("street", SECRET)
        await session.pack(SECRET, budget=4_000, brief=holdfast.Brief(prompt=f"Know {SECRET}."))
        await session.context.compact(strategy=holdfast.types.TruncateAt(1))
        await session.recover()
        await session.erase([message.seq], SECRET)
        await engine.admin.sweep()


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("holdfast")]


@pytest.mark.parametrize("awaited", [False, True], ids=["blocking", "awaited"])
def test_the_log_tells_what_happens_and_nothing_of_contents(
    awaited: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "holdfast"):
        asyncio.run(use_async_engine(tmp_path)) if awaited else use_engine(tmp_path)
    lines = log_lines(caplog)
    text = "\n".join(lines)
    for wanted in (
        f"engine opened on SqliteStore {tmp_path / 'agent.db'}",
        "appended to session default/main/chat: version 1 (session.created)",
        "appended to session default/main/chat: version 2 (message.recorded)",
        "blob put for tenant default: ",
        "(fact.asserted)",
        "pack built for session default/main/chat: ",
        " of 4000 tokens (",
        "history of session default/main/chat compacted by event ",
        "session recovered: 0 frames, 0 pending items, 0 calls of unknown outcome",
        "(payloads.erased)",
        "swept: 1 sessions and 0 frames ended, 0 facts expired",
    ):
        assert wanted in text, f"{wanted!r} is not in:\n{text}"
    assert SECRET not in text
    assert len(lines) < 60


def test_a_conflict_is_logged_and_the_command_is_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with holdfast.open(tmp_path / "a.db") as ours, holdfast.open(tmp_path / "a.db") as theirs:
        session = ours.create_session("chat")
        theirs.session("chat").record("user", "theirs")
        with caplog.at_level(logging.DEBUG, "holdfast"):
            session.record("user", "ours")
    first, second = log_lines(caplog)
    assert first.startswith("conflict on session default/main/chat: decided at version 1, but the stream is at 2")
    assert second == "appended to session default/main/chat: version 3 (message.recorded)"


def test_nothing_is_logged_by_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "holdfast"):
        use_engine(tmp_path)
    assert log_lines(caplog) == []


def test_logging_is_not_imported_for_a_program_that_does_not_use_it() -> None:
    code = """
import sys, holdfast
with holdfast.open("memory:") as engine:
    engine.create_session("s").record("user", "hello")
print("logging" in sys.modules)
"""
    run: Any = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
