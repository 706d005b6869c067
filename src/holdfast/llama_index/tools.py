"""Tools of LlamaIndex whose runs are stored: each as a frame, in a thread beside the conversation.

LlamaIndex gives a tool no id of its call, and stores the call only when the turn has ended. So each run has a frame with a
call of its own; the conversation gets the call when LlamaIndex puts it there.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.tools import AsyncBaseTool, FunctionTool, ToolMetadata, ToolOutput

import holdfast
from holdfast.frameworks.engines import run_blocking
from holdfast.frameworks.tool_runs import ToolRuns, open_run


class ObservedTool(AsyncBaseTool):
    """A tool whose start is stored before it runs, and whose result is stored after."""

    def __init__(self, tool: AsyncBaseTool, session: holdfast.Session) -> None:
        self._tool = tool
        self._session = session

    @property
    def metadata(self) -> ToolMetadata:
        return self._tool.metadata

    def call(self, *args: Any, **kwargs: Any) -> ToolOutput:
        frame, call = self._open(args, kwargs)
        with frame, ToolRuns(frame).run(call) as run:
            output = self._tool.call(*args, **kwargs)
            run.finish(_clean(output.content), is_error=output.is_error)
        return output

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        frame, call = await run_blocking(self._open, args, kwargs)
        with frame, ToolRuns(frame).run(call) as run:  # the start and the result are short writes
            output = await self._tool.acall(*args, **kwargs)
            run.finish(_clean(output.content), is_error=output.is_error)
        return output

    def _open(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[holdfast.Frame, str]:
        """A frame for one run, with the call."""
        given = dict(kwargs)
        if args:
            given["args"] = [*args]
        return open_run(self._session, self.metadata.get_name(), given)


class ObservedFunctionTool(ObservedTool, FunctionTool):
    """The same for a function: agents look here whether it takes their context."""

    def __init__(self, tool: FunctionTool, session: holdfast.Session) -> None:
        vars(self).update(vars(tool))
        ObservedTool.__init__(self, tool, session)


def observe_tool(tool: AsyncBaseTool, session: holdfast.Session) -> AsyncBaseTool:
    """The tool, with its runs stored in this session."""
    return ObservedFunctionTool(tool, session) if isinstance(tool, FunctionTool) else ObservedTool(tool, session)


def _clean(text: str) -> str:
    """The text without lone surrogates: a tool that ran has not failed because of them."""
    return text.encode("utf-8", "replace").decode()
