"""The engine's own tools, as tools of the SDK."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agents.tool_context import ToolContext

import holdfast
from agents import FunctionTool
from holdfast.frameworks.engines import run_blocking
from holdfast.model.tools.tool import READ_HANDLE, RECALL_MEMORY


def build_tools(session: holdfast.Session) -> list[FunctionTool]:
    """read_handle, and recall_memory if the session has a memory."""
    tools = [_build_tool(READ_HANDLE, session.handles.tool())]
    if session.state().has_memory:
        tools.append(_build_tool(RECALL_MEMORY, session.recall_tool()))
    return tools


def _build_tool(tool: holdfast.Tool, function: Callable[..., str]) -> FunctionTool:
    async def invoke(_: ToolContext[Any], arguments: str) -> str:
        try:
            fields = json.loads(arguments) if arguments else {}
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            return f"Error: the arguments of {tool.name} are not a JSON object."
        return await run_blocking(function, **fields)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
