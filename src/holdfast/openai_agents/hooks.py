"""The hooks for the runner of the SDK: replies, tools and agents are stored when they happen."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Coroutine
from typing import Any

from agents.tool_context import ToolContext
from agents.usage import Usage

import holdfast
from agents import Agent, ItemHelpers, ModelResponse, RunContextWrapper, RunHooks, Tool
from holdfast.frameworks.engines import run_blocking
from holdfast.frameworks.tool_runs import announce_call
from holdfast.openai_agents.conversations import ItemConversation
from holdfast.openai_agents.filters import HoldfastInputFilter
from holdfast.openai_agents.items import Item, clean_text
from holdfast.openai_agents.sessions import run_to_end

_FRAME_MARK = "openai_agents"


class HoldfastRunHooks(RunHooks[Any]):
    """The hooks for `Runner.run(…, hooks=…)`: `hf.hooks`.

    A reply is recorded with its pack and its usage when the model ends. The intent of a tool is stored before the tool
    runs, and its result when it ends. With `agent_budget`, each agent works in a frame with that many tokens."""

    def __init__(
        self, conversation: ItemConversation, input_filter: HoldfastInputFilter, agent_budget: int | None = None
    ) -> None:
        self._conversation = conversation
        self._filter = input_filter
        self._packs: dict[int, tuple[object, holdfast.Pack]] = {}
        """The pack of the call that a run is making, by its context."""
        self._agent_budget = agent_budget
        self._frame: holdfast.Frame | None = None
        self._lock = threading.Lock()

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: str | None, input_items: Any) -> None:  # noqa: ARG002 - the SDK's signature
        """Note the pack of the call. Raises InsufficientTokens if the agent has no tokens left."""
        pack = self._filter.take_pack(input_items)
        with self._lock:
            self._packs.pop(id(context), None)
            if pack is not None:
                self._packs[id(context)] = (context, pack)
        if self._agent_budget is not None:
            await run_blocking(self._check_budget)

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """Record the reply, with the pack that it answers."""
        with self._lock:
            _, pack = self._packs.pop(id(context), (context, None))
        items: list[Item] = [dict(item) for item in response.to_input_items()]
        usage = convert_usage(response.usage)
        await run_to_end(self._record_reply, items, agent.name, usage, pack)

    def on_tool_start(  # it is called in the task of the tool, and awaited in another one
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],  # noqa: ARG002 - the SDK's signature
        tool: Tool,
    ) -> Coroutine[Any, Any, None]:
        """Store that a tool is about to run. Raises OutcomeUnknown if the call was started before and has no result."""
        started = functools.partial(self._conversation.started_call, getattr(context, "tool_call_id", ""))
        is_agent = getattr(tool, "_is_agent_tool", False)  # the tools of that agent are not called in this session
        announce_call(_no_call if is_agent else started)
        return self._start_tool(context, tool, asyncio.current_task())

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:  # noqa: ARG002 - the SDK's signature
        """Store the result of a tool."""
        if isinstance(context, ToolContext):
            output = show_output(context, result)
            await run_to_end(self._conversation.finish_tool, context.tool_call_id, output)

    async def _start_tool(self, context: RunContextWrapper[Any], tool: Tool, task: asyncio.Task[Any] | None) -> None:
        if isinstance(context, ToolContext):
            await run_to_end(self._conversation.start_tool, context.tool_call_id, tool.name, task)

    async def on_agent_start(self, context: Any, agent: Any) -> None:  # noqa: ARG002 - the SDK's signature
        """An agent begins: with a budget, in a frame of its own."""
        if self._agent_budget is not None:
            await run_to_end(self._begin, agent.name)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:  # noqa: ARG002 - the SDK's signature
        """An agent has its final output."""
        if self._agent_budget is not None:
            await run_to_end(self._end, clean_text(str(output)))

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:  # noqa: ARG002 - the SDK's signature
        """An agent hands the conversation over to another."""
        if self._agent_budget is not None:
            await run_to_end(self._end, f"Handed off to {to_agent.name}.")

    def _record_reply(self, items: list[Item], agent: str, usage: holdfast.Usage, pack: holdfast.Pack | None) -> None:
        self._conversation.record_reply(items, agent, usage, pack)
        with self._lock:
            if self._frame is not None and usage != holdfast.Usage():
                self._frame.budget.use(usage)

    def _check_budget(self) -> None:
        with self._lock:
            if self._frame is not None:
                budget = self._frame.budget
                budget.cancel(budget.reserve("model call", 1))

    def _begin(self, agent: str) -> None:
        assert self._agent_budget is not None, "only called with a budget"
        session = self._conversation.session
        with self._lock:
            for left in session.frames.list(status="live"):  # of a run that broke off
                frame = session.frames.get(left.id)
                inputs = frame.state().inputs
                if isinstance(inputs, dict) and inputs.get("by") == _FRAME_MARK:
                    frame.pop("failed", "The run broke off.", cascade=True)
            goal = clean_text(f"Agent {agent}")
            self._frame = session.frame(goal, budget=self._agent_budget, inputs={"by": _FRAME_MARK, "agent": agent})

    def _end(self, summary: str) -> None:
        with self._lock:
            frame, self._frame = self._frame, None
            if frame is not None:
                frame.pop("completed", summary[:2_000])


def _no_call() -> None:
    """The call of a tool that has none."""


def convert_usage(usage: Usage) -> holdfast.Usage:
    """The tokens of a call, as Holdfast counts them."""
    read = usage.input_tokens_details
    return holdfast.Usage(
        input_tokens=max(0, usage.input_tokens or 0),
        output_tokens=max(0, usage.output_tokens or 0),
        cache_read_tokens=max(0, getattr(read, "cached_tokens", 0) or 0),
        cache_write_tokens=max(0, getattr(read, "cache_write_tokens", 0) or 0),
        reasoning_tokens=max(0, getattr(usage.output_tokens_details, "reasoning_tokens", 0) or 0),
    )


def show_output(context: ToolContext[Any], result: object) -> Item:
    """The result of a tool as an item, as the SDK shows it to the model."""
    call = context.tool_call
    if call is not None and getattr(call, "type", "") == "function_call":
        return dict(ItemHelpers.tool_call_output_item(call, result))
    return {"type": "function_call_output", "call_id": context.tool_call_id, "output": str(result)}
