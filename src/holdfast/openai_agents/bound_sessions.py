"""One object for a conversation: the session, the hooks and the filter of the SDK."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Unpack, cast

from agents.tool_context import ToolContext

from agents import FunctionTool, RunConfig, RunContextWrapper
from holdfast import Engine, Pack, Session
from holdfast.errors import TurnBusy
from holdfast.model.names import check_options
from holdfast.model.sessions.messages import Message
from holdfast.openai_agents.conversations import ItemConversation
from holdfast.openai_agents.filters import HoldfastInputFilter
from holdfast.openai_agents.hooks import HoldfastRunHooks
from holdfast.openai_agents.items import Item
from holdfast.openai_agents.sessions import HoldfastSession, HoldfastSessionOptions, run_to_end
from holdfast.openai_agents.tools import build_tools
from holdfast.runtime.base import TurnBlock
from holdfast.types import Recovery, StartedCall

_TURN_PAUSE_S = 0.05
"""The pause before a turn is asked for again."""


class BindOptions(HoldfastSessionOptions, total=False):
    """Options of bind()."""

    agent_budget: int | None
    """How many tokens each agent may use in a run; the default is any number."""


def bind(
    engine: Engine,
    session_id: str,
    *,
    user: str | None = None,
    actor: str = "main",
    budget: int = 24_000,
    model: str | None = None,
    pack_options: dict[str, Any] | None = None,
    **options: Unpack[BindOptions],
) -> BoundSession:
    """Open or create a session, for the runner of the SDK.

        hf = bind(engine, "order-1", user="ada", budget=24_000)
        await Runner.run(agent, "Where is my order?", session=hf.session, hooks=hf.hooks, run_config=hf.config())

    `budget` is the most tokens of a model call, and `pack_options` are further options of session.pack(). `user` applies if
    the session is new. BindOptions lists all options."""
    check_options("bind", BindOptions, options)
    agent_budget = options.pop("agent_budget", None)
    session = HoldfastSession(
        engine,
        session_id,
        user=user,
        actor=actor,
        window=budget,
        model=model,
        **cast("HoldfastSessionOptions", options),
    )
    input_filter = HoldfastInputFilter(session.conversation, budget=budget, model=model, options=pack_options or {})
    return BoundSession(session, HoldfastRunHooks(session.conversation, input_filter, agent_budget), input_filter)


class BoundSession:
    """What bind() returns."""

    def __init__(self, session: HoldfastSession, hooks: HoldfastRunHooks, input_filter: HoldfastInputFilter) -> None:
        self.session = session
        """For `Runner.run(…, session=…)`."""
        self.hooks = hooks
        """For `Runner.run(…, hooks=…)`."""
        self.filter = input_filter
        """For `RunConfig(call_model_input_filter=…)`."""

    @property
    def holdfast(self) -> Session:
        """The session of Holdfast: packs, facts, frames, recovery."""
        return self._conversation.session

    @functools.cached_property
    def tools(self) -> list[FunctionTool]:
        """The engine's tools for the agent: read_handle, and recall_memory in a session with a memory."""
        return build_tools(self.holdfast)

    def config(self, **fields: Any) -> RunConfig:
        """A RunConfig with the filter, and these fields."""
        return RunConfig(call_model_input_filter=self.filter, **fields)

    def why(self) -> str:
        """What the last model call of this process was shown, and why."""
        last = self.filter.last
        return "There was no model call yet." if last is None else last.pack.explain()

    @property
    def last_pack(self) -> Pack | None:
        """The pack of the last model call of this process."""
        return None if self.filter.last is None else self.filter.last.pack

    @property
    def last_input(self) -> list[Item]:
        """The items that the last model call of this process was sent."""
        return [] if self.filter.last is None else list(self.filter.last.items)

    def recover(self) -> Recovery:
        """What was in progress when a process stopped. Look at `unknown_outcomes` first."""
        return self.holdfast.recover()

    def call(self, context: RunContextWrapper[Any]) -> StartedCall | None:
        """The tool call that runs in this context, inside a tool. Its `key` is the idempotency key."""
        return self._conversation.started_call(context.tool_call_id) if isinstance(context, ToolContext) else None

    @contextlib.asynccontextmanager
    async def turn(self, *, wait_s: float = 30, lease_s: float = 60) -> AsyncIterator[None]:
        """Take the turn on the conversation: runs inside such blocks come one after another, in all processes.

            async with hf.turn():
                await Runner.run(agent, text, session=hf.session, hooks=hf.hooks, run_config=hf.config())

        It is session.turn() for a loop. If another one has the turn for longer than `wait_s`, TurnBusy is raised. The turn
        of a process that died is free after `lease_s`."""
        deadline = time.monotonic() + wait_s
        block = await self._take_turn(lease_s)
        while block is None:
            await asyncio.sleep(_TURN_PAUSE_S)
            block = await self._take_turn(lease_s, is_last=time.monotonic() >= deadline)
        try:
            yield
        finally:
            await run_to_end(block.__exit__, None, None, None)

    async def _take_turn(self, lease_s: float, *, is_last: bool = False) -> TurnBlock[Session] | None:
        """The turn, if it is free; no thread waits for it, so that the others have theirs."""
        block = self.holdfast.turn(lease_s=lease_s, wait_s=0)
        taken: list[Session] = []
        try:
            await run_to_end(lambda: taken.append(block.__enter__()))
        except TurnBusy:
            if is_last:
                raise
            return None
        except asyncio.CancelledError:
            if taken:
                await run_to_end(block.__exit__, None, None, None)
            raise
        return block

    def erase(self, messages: Sequence[Message], reason: str) -> None:
        """Erase messages for good, together with the items that they came from."""
        self._conversation.erase(messages, reason)

    @property
    def _conversation(self) -> ItemConversation:
        return self.session.conversation

    def __repr__(self) -> str:
        return f"<BoundSession {self.session.session_id!r}>"
