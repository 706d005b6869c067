"""Lines of logs as Claude Code writes them."""

from __future__ import annotations

import uuid
from typing import Any


class Chat:
    """Makes the lines of a session, each following the last."""

    def __init__(self, session: str = "1c2b5f0e-0000-4000-8000-000000000001") -> None:
        self.session = session
        self.last: str | None = None
        self.count = 0

    def line(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A line with a uuid."""
        self.count += 1
        name = str(uuid.uuid4())
        line = {
            "parentUuid": self.last,
            "isSidechain": False,
            "type": kind,
            "uuid": name,
            "timestamp": f"2026-11-18T02:{self.count // 60 % 60:02}:{self.count % 60:02}.000Z",
            "sessionId": self.session,
            "cwd": "/home/ada/shop",
            "version": "2.1.326",
            **fields,
        }
        self.last = name
        return line

    def note(self, kind: str, **fields: Any) -> dict[str, Any]:
        """A line without a uuid."""
        return {"type": kind, "sessionId": self.session, **fields}

    def prompt(self, text: str, **fields: Any) -> dict[str, Any]:
        fields.setdefault("promptId", str(uuid.uuid4()))
        return self.line("user", message={"role": "user", "content": text}, **fields)

    def reply(
        self, text: str, *calls: tuple[str, str, dict[str, Any]], stop: str | None = None, **fields: Any
    ) -> list[dict[str, Any]]:
        """A line for each block of a reply."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += ({"type": "tool_use", "id": name, "name": tool, "input": args} for tool, name, args in calls)
        message = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant", "model": "claude-opus-5-5"}
        if stop is not None:
            message["stop_reason"] = stop
        usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}
        return [
            self.line("assistant", message=message | {"content": [block], "usage": usage}, **fields) for block in blocks
        ]

    def result(self, call: str, content: Any, *, is_error: bool = False, **fields: Any) -> dict[str, Any]:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
        return self.line("user", message={"role": "user", "content": [block]}, toolUseResult=content, **fields)
