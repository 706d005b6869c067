"""What stands before the messages of a request: instructions and tools, of a given size.

The recordings do not hold them. The words say nothing, so that no identifier of a session is among them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.adapters.tokens import ExactCounter

TOOLS = ("Bash", "Read", "Edit", "Grep", "TodoWrite", "Write", "Glob", "Task", "WebFetch")
MORE_TOOLS = (
    *TOOLS,
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "ExitPlanMode",
    "KillShell",
    "ListMcpResources",
    "NotebookEdit",
    "ReadMcpResource",
    "Skill",
    "SlashCommand",
    "TaskCreate",
    "TaskList",
    "TaskOutput",
    "TaskUpdate",
    "WebSearch",
)
MARK = {"type": "ephemeral"}
_WORDS = (
    "Work with care and say what was done. Read what there is before a change is made, and look at the outcome of each "
    "step before the next one is taken. Ask when the wish is not clear. "
)
SYSTEM_SHARE = 0.35
_count = ExactCounter().count


class Head(msgspec.Struct, frozen=True):
    """The fields of a request before its messages."""

    name: str
    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]

    @property
    def tokens(self) -> int:
        texts = [block["text"] for block in self.system] + [json.dumps(tool) for tool in self.tools]
        return sum(_count(text) + 4 for text in texts)


def build_head(name: str, tokens: int, tools: tuple[str, ...]) -> Head:
    """A head of about so many tokens. Two blocks of its system have cache marks, as those of Claude Code do."""
    share = round(tokens * SYSTEM_SHARE / 2)
    system: list[dict[str, Any]] = [{"type": "text", "text": "billing: a client of the benchmark"}]
    system += [{"type": "text", "text": _write(share), "cache_control": MARK} for _ in range(2)]
    each = (tokens - 2 * share) // len(tools)
    return Head(name, system, [_build_tool(tool, each) for tool in tools])


def _build_tool(name: str, tokens: int) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
    tool = {"name": name, "description": "", "input_schema": schema}
    tool["description"] = _write(tokens - _count(json.dumps(tool)) - 4)
    return tool


def _write(tokens: int) -> str:
    """A text of about so many tokens."""
    words = _WORDS.split()
    text = [words[number % len(words)] for number in range(max(1, tokens))]
    while len(text) > 1 and _count(" ".join(text)) > tokens:
        text.pop()
    return " ".join(text)


SMALL_HEAD = build_head("system and 9 tools", 2_070, TOOLS)
LARGE_HEAD = build_head("system and 24 tools, as large as those of Claude Code", 17_500, MORE_TOOLS)
