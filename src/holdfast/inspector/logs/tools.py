"""What a tool call of a log does to what other tool calls have read."""

from __future__ import annotations

from holdfast.inspector.logs.entries import LogCall
from holdfast.text import tool_actions
from holdfast.text.tool_actions import Replacement, ToolAction, clean_path

__all__ = ["Replacement", "ToolAction", "clean_path", "read_action"]


def read_action(call: LogCall, folder: int = 0) -> ToolAction:
    """What a tool call does. `folder` counts the changes of a shell's folder before it."""
    return tool_actions.read_action(call.name, call.args, folder)
