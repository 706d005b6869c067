"""The tools that packs offer, as tools of Strands, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from strands.tools import PythonAgentTool
from strands.types.tools import AgentTool, ToolResult, ToolSpec, ToolUse

import holdfast


def engine_tools(session: holdfast.Session) -> list[AgentTool]:
    """The tools by which a model reads what a pack shows only in part, and what was said earlier."""
    tools = [_build_tool(session.handles.tool())]
    if session.state().has_memory:
        tools.append(_build_tool(session.recall_tool()))
    return tools


def describe_specs(specs: Sequence[ToolSpec]) -> tuple[holdfast.Tool, ...]:
    """The tools of a model call, as a brief has them."""
    return tuple(
        holdfast.Tool(
            name=spec["name"],
            description=str(spec.get("description") or ""),
            parameters=json.loads(json.dumps(_read_schema(spec), default=str)),
        )
        for spec in specs
    )


def _read_schema(spec: ToolSpec) -> dict[str, Any]:
    schema: Any = spec.get("inputSchema") or {}
    return cast("dict[str, Any]", schema.get("json", schema))


def _build_tool(function: Any) -> AgentTool:
    def run(tool: ToolUse, **_: Any) -> ToolResult:
        text = function(**(tool["input"] if isinstance(tool["input"], dict) else {}))
        return {"toolUseId": tool["toolUseId"], "status": "success", "content": [{"text": text}]}

    spec: ToolSpec = {
        "name": function.name,
        "description": function.description,
        "inputSchema": {"json": function.parameters},
    }
    return PythonAgentTool(function.name, spec, run)
