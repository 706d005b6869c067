"""The tools that packs offer, as tools of Pydantic AI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai.tools import Tool
from pydantic_ai.toolsets import FunctionToolset

import holdfast
from holdfast import READ_HANDLE, RECALL_MEMORY, UPDATE_SITUATION
from holdfast.frameworks.engines import run_blocking

_FUNCTIONS: dict[str, Callable[[holdfast.Session], Callable[..., str]]] = {
    READ_HANDLE.name: lambda session: session.handles.tool(),
    RECALL_MEMORY.name: lambda session: session.recall_tool(),
    UPDATE_SITUATION.name: lambda session: session.situation.tool(),
}
OWN_TOOLS = frozenset(_FUNCTIONS)
"""The names of these tools. They need no intent: running one again does no harm."""


def build_toolset(open_session: Callable[[], holdfast.Session], names: Sequence[str]) -> FunctionToolset[Any]:
    """A toolset of the tools with these names. They work on the session that the function opens."""
    described = {tool.name: tool for tool in (READ_HANDLE, RECALL_MEMORY, UPDATE_SITUATION)}
    return FunctionToolset([_build_tool(open_session, described[name]) for name in names], id="holdfast")


def _build_tool(open_session: Callable[[], holdfast.Session], tool: holdfast.Tool) -> Tool[Any]:
    async def run(**arguments: Any) -> str:
        return await run_blocking(lambda: _FUNCTIONS[tool.name](open_session())(**arguments))

    return Tool.from_schema(run, tool.name, tool.description, dict(tool.parameters))
