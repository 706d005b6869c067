"""Small logs of each kind, written for these tests, and a way to inspect them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from holdfast.inspector.logs import LogClock, LogReport, open_scratch, replay_log

MODEL = "claude-opus-4-5"
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 9_000, "output_tokens": 20}


def write_lines(path: Path, lines: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def inspect(path: Path, tmp_path: Path, **options: Any) -> LogReport:
    clock = LogClock()
    with open_scratch(tmp_path / "scratch.db", clock) as engine:
        return replay_log(path, engine, clock=clock, **options)


class ClaudeLines:
    """Writes lines as Claude Code does, ten seconds apart."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.parent: str | None = None
        self.seconds = 0
        self.prompt = 9_000

    def add(self, type_: str, message: dict[str, Any], **fields: Any) -> str:
        self.seconds += 10
        uuid = f"u{len(self.lines)}"
        stamp = f"2026-03-01T{self.seconds // 3600:02}:{self.seconds // 60 % 60:02}:{self.seconds % 60:02}Z"
        line = {"type": type_, "uuid": uuid, "parentUuid": self.parent, "sessionId": "s1", "timestamp": stamp}
        self.lines.append({**line, "message": message, **fields})
        self.parent = uuid
        return uuid

    def say(self, text: str, **fields: Any) -> str:
        return self.add("user", {"role": "user", "content": text}, **fields)

    def reply(self, *blocks: dict[str, Any], read: int | None = None, **fields: Any) -> str:
        number = sum(line["type"] == "assistant" for line in self.lines)
        read = self.prompt if read is None and number else read or 0
        usage = {
            "input_tokens": 10,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": self.prompt + 500 - read,
            "output_tokens": 30,
        }
        self.prompt += 500
        message = {"id": f"msg_{number}", "role": "assistant", "model": MODEL, "content": list(blocks), "usage": usage}
        return self.add("assistant", message, **fields)

    def text(self, text: str, **fields: Any) -> str:
        return self.reply({"type": "text", "text": text}, **fields)

    def call(self, name: str, result: str, *, is_error: bool = False, read: int | None = None, **args: Any) -> str:
        """A reply with a call, and its result."""
        call = f"t{len(self.lines)}"
        self.reply({"type": "tool_use", "id": call, "name": name, "input": args}, read=read)
        block = {"type": "tool_result", "tool_use_id": call, "content": result, "is_error": is_error}
        return self.add("user", {"role": "user", "content": [block]})
