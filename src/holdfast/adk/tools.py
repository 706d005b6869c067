"""The tools that packs offer, as tools of ADK: read_handle, and recall_memory for a session with a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

import holdfast
from holdfast.frameworks.engines import run_blocking


class PackTool(BaseTool):
    """A tool of Holdfast that reads the conversation. It changes nothing, so it has no intent."""

    def __init__(self, tool: holdfast.Tool, function: Callable[..., str]) -> None:
        super().__init__(name=tool.name, description=tool.description)
        self._parameters = tool.parameters
        self._function = function

    @classmethod
    def of(cls, session: holdfast.Session) -> list[PackTool]:
        """The tools for a session."""
        tools = [cls(holdfast.READ_HANDLE, session.handles.tool())]
        if session.state().has_memory:
            tools.append(cls(holdfast.RECALL_MEMORY, session.recall_tool()))
        return tools

    @override
    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._parameters
        )

    @override
    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Read what the model asks for."""
        return {"result": await run_blocking(self._function, **args)}
