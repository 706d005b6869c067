"""A file with a bit of everything in it, and the command line on it: in this process, or as a real command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast import Image
from holdfast.cli import main
from holdfast.types import Body
from tests.support import PATIENCE_S, CountingIds, SteppingClock

HOSTILE = "red \x1b[31malert\x1b[0m, title \x1b]0;pwned\x07, back\x08\x9b2J \u202edesrever\u2066 end"
LONG = 130
"""Messages of the longest session."""

COMMAND = [sys.executable, "-m", "holdfast"]


class CommandResult(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def documents(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def document(self) -> Any:
        [only] = self.documents
        return only

    @property
    def error(self) -> dict[str, Any]:
        """What went wrong, told in JSON."""
        told: dict[str, Any] = json.loads(self.err)["error"]
        return told


class CommandRunner(NamedTuple):
    """The commands on one file, run in this process."""

    path: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *args: str | Path) -> CommandResult:
        self.capture.readouterr()
        code = main(["--file", str(self.path), *map(str, args)])
        return CommandResult(code, *self.capture.readouterr())


def run_process(*args: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """The real command."""
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S, **options}
    done: subprocess.CompletedProcess[str] = subprocess.run([*COMMAND, *map(str, args)], check=False, **options)
    return done


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "TERM": "xterm-256color", **changes}


def write_history(path: Path) -> None:
    """Two tenants, several actors, a thread, calls with and without results, bodies, closed and idle sessions."""
    with holdfast.open(path, clock=SteppingClock(), ids=CountingIds()) as engine:
        trip = engine.create_session("trip", actor="ada", metadata={"goal": "Lisbon", "note": HOSTILE})
        trip.record("system", "You book flights.")
        trip.record("user", HOSTILE)
        asked = trip.record(
            "assistant",
            "Let me look.\nOne moment.",
            tool_calls=[{"name": "search", "args": {"to": "LIS"}}, {"name": "weather", "args": {}}],
            usage=holdfast.Usage(input_tokens=100, output_tokens=20, cache_read_tokens=40),
        )
        trip.result(asked.tool_calls[0], {"flights": [940]})
        closed = engine.create_session("closed", actor="ada")
        closed.record("user", "that is all")
        closed.end("all done")
        engine.create_session("idle", actor="ada", idle_timeout_s=60).record("user", "anybody there?")
        late = engine.create_session("late", actor="ada")
        call = late.record("assistant", "", tool_calls=[{"name": "slow", "args": {}}]).tool_calls[0]
        late.close_calls("gave up")
        late.result(call, "done after all")
        late.reset("new topic")
        late.record("user", "start over")
        gone = engine.create_session("gone", actor="ada")
        gone.record("user", "forget me")
        gone.destroy("asked to")
        for actor in ("bob", "eve"):
            engine.create_session("twin", actor=actor).record("user", f"I am {actor}.")
        engine.create_session("threaded", actor="bob", thread="side").record("user", "aside")
        large = engine.create_session("large")
        for number in range(LONG):
            large.record("user" if number % 2 else "assistant", f"step {number}", key=f"step {number}")
        large.record("user", [Body(engine.blobs.put(b"x" * 50_000), "xxx"), Image(url="https://example.org/a.png")])
        large.record("user", "word " * 2_000)
        engine.acting_as(tenant="acme").create_session("secret", actor="ada").record("user", "for acme only")


def copy_store(source: Path, target: Path) -> Path:
    shutil.copy(source, target)
    shutil.copytree(f"{source}.blobs", f"{target}.blobs")
    return target
