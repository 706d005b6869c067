"""The tools of Holdfast as tools of LangChain. They work on the session of the run that calls them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

import holdfast
from holdfast.frameworks.engines import run_blocking

_REMEMBERED = 512

OpenSession = Callable[[Any], holdfast.Session]
"""Opens the session of a run, from its config."""


def build_tools(open_session: OpenSession, *, situation: bool, memory: bool) -> list[BaseTool]:
    """The tools that read and change the session of a run."""
    tools = [_build(holdfast.READ_HANDLE, open_session, lambda session: session.handles.tool())]
    if situation:
        tools.append(_build(holdfast.UPDATE_SITUATION, open_session, lambda session: session.situation.tool()))
    if memory:
        tools.append(_build(holdfast.RECALL_MEMORY, open_session, lambda session: session.recall_tool()))
    return tools


def _build(
    tool: holdfast.Tool, open_session: OpenSession, find: Callable[[holdfast.Session], Callable[..., str]]
) -> BaseTool:
    def run(**arguments: Any) -> str:
        given = {name: value for name, value in arguments.items() if value is not None}
        return find(open_session(get_config()))(**given)

    async def run_async(**arguments: Any) -> str:
        return await run_blocking(run, **arguments)

    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=tool.parameters, func=run, coroutine=run_async
    )


class ToolDescriptions:
    """The tools of an agent as a brief has them, so that packs count them."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[object, holdfast.Tool | None]] = OrderedDict()

    def describe(self, tools: Sequence[BaseTool | dict[str, Any]]) -> tuple[holdfast.Tool, ...]:
        """The tools that run here. A tool of the provider has no description."""
        described = {tool.name: tool for each in tools if (tool := self._describe_one(each)) is not None}
        return tuple(described.values())

    def _describe_one(self, tool: BaseTool | dict[str, Any]) -> holdfast.Tool | None:
        known = self._known.get(id(tool))
        if known is not None and known[0] is tool:
            return known[1]
        described = _convert(tool)
        self._known[id(tool)] = (tool, described)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return described


def _convert(tool: BaseTool | dict[str, Any]) -> holdfast.Tool | None:
    try:
        function = convert_to_openai_tool(tool)["function"]
        return holdfast.Tool(
            name=str(function["name"]),
            description=str(function.get("description") or ""),
            parameters=function.get("parameters") or {"type": "object", "properties": {}},
        )
    except Exception:  # noqa: BLE001 - what cannot be described is not counted; LangChain offers it all the same
        return None
