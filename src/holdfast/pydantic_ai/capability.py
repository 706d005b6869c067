"""The capability: packs before model requests, replies with their packs after them, and intents around tools.

The framework awaits; each hook is one call in a thread.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.capabilities.abstract import ValidatedToolArgs, WrapRunHandler, WrapToolExecuteHandler
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    SkipToolExecution,
    ToolFailed,
    ToolFailedError,
    ToolRetryError,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, ToolReturn, ToolReturnPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

import holdfast
from holdfast import READ_HANDLE, RECALL_MEMORY, UPDATE_SITUATION
from holdfast.errors import CallAnswered, CallsOpen, InvalidArgument, OutcomeUnknown
from holdfast.flows.sessions.tools import describe_error
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.frameworks.shadows import Shadow
from holdfast.frameworks.tool_runs import ToolRun, UnknownOutcome
from holdfast.model.names import check_options
from holdfast.pydantic_ai.conversation_log import RecentItems
from holdfast.pydantic_ai.conversations import Home, find_conversation
from holdfast.pydantic_ai.messages import clean
from holdfast.pydantic_ai.runs import ConversationRun, RunSettings
from holdfast.pydantic_ai.tools import OWN_TOOLS, build_toolset
from holdfast.runtime.options import PackOptions

_SHADOWS = 64
"""Conversations whose transcripts are remembered, so that only new messages are read."""

Name = str | Callable[[RunContext[Any]], str | None] | None
"""A name, or a function that finds it for a run."""


class CapabilityOptions(TypedDict, total=False):
    """Options of `Holdfast` that few programs need."""

    actor: str
    """The agent that the sessions belong to; the default is "main"."""
    observe: bool
    """False: read no facts from messages of the user."""
    memory: bool
    """True: new sessions have a memory, and the model gets the tool recall_memory."""
    situation: bool
    """True: the model gets the tool update_situation."""
    pack: PackOptions
    """Options of session.pack()."""


class Holdfast(AbstractCapability[Any]):
    """Runs an agent on a conversation in a Holdfast store.

        agent = Agent("openai:gpt-5.5", capabilities=[Holdfast(engine, budget=24_000)])
        result = await agent.run("Where is my order?", conversation_id="c1")

    Every model request is a pack of at most `budget` tokens; with None, the framework's messages are sent as they are.
    Replies are recorded with their pack and usage. Tools run under intents: current_call().key is the idempotency key.

    The conversation is the run's `conversation_id`, or `conversation`: an id, or a function of the run's context. It is the
    session of that name. A run without a message history goes on from the end of the session. `user` is the user of a new
    session.

    `unknown` says what happens if a call was started before and has no result: OutcomeUnknown is raised ("raise"), the
    model is told ("tell"), or it may be run again ("repeat"). Tools in `repeatable` may always be run again.
    CapabilityOptions lists the other options."""

    def __init__(
        self,
        engine: holdfast.Engine,
        *,
        budget: int | None = 24_000,
        conversation: Name = None,
        user: Name = None,
        unknown: UnknownOutcome = "raise",
        repeatable: Sequence[str] = (),
        **options: Unpack[CapabilityOptions],
    ) -> None:
        check_options("Holdfast", CapabilityOptions, options)
        if unknown not in ("raise", "tell", "repeat"):
            raise InvalidArgument(argument="unknown", reason=f"{unknown!r} is not one of raise, tell, repeat")
        self._engine = check_engine(engine)
        self._conversation = conversation
        self._user = user
        self._options = options
        pack_options: dict[str, Any] = {**options.get("pack", {})}
        self._settings = RunSettings(budget, unknown, tuple(repeatable), pack_options)
        self._shadows: RecentItems[Home, Shadow] = RecentItems(_SHADOWS)
        self._run: ConversationRun | None = None
        self._messages: list[ModelMessage] = []

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """None: an engine cannot be written into a specification."""
        return None

    def get_toolset(self) -> FunctionToolset[Any]:
        """The tools that packs offer."""
        names = [READ_HANDLE.name]
        names += [RECALL_MEMORY.name] if self._options.get("memory") else []
        names += [UPDATE_SITUATION.name] if self._options.get("situation") else []
        return build_toolset(lambda: self._require_run().session, names)

    async def for_run(self, ctx: RunContext[Any]) -> Holdfast:
        """A copy with the session of the run's conversation."""
        bound = copy.copy(self)
        name = _resolve(self._conversation, ctx) or ctx.conversation_id
        if name is None:
            raise InvalidArgument(argument="conversation", reason="the run has no conversation_id; pass one")
        bound._run = await run_blocking(
            bound._open, name, _resolve(self._user, ctx), ctx.run_id or "", bool(ctx.messages)
        )
        bound._messages = ctx.messages
        return bound

    def _open(self, name: str, user: str | None, run_id: str, has_history: bool) -> ConversationRun:
        home, session, _ = find_conversation(self._engine, name, self._options.get("actor", "main"))
        if session is None:
            session = home.create(self._engine, user=user, memory=self._options.get("memory", False))
        shadow = self._shadows.get(home)
        if shadow is None:
            shadow = Shadow(session, observe=self._options.get("observe", True))
            self._shadows.set(home, shadow)
        return ConversationRun(session, shadow, self._settings, run_id=run_id, has_history=has_history)

    def _require_run(self) -> ConversationRun:
        if self._run is None:
            raise InvalidArgument(argument="run", reason="the capability is not bound to a run of an agent")
        return self._run

    async def wrap_run(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the framework's signature
        *,
        handler: WrapRunHandler,
    ) -> AgentRunResult[Any]:
        """Record what the run added last, also if it fails."""
        run = self._require_run()
        run.begin()
        try:
            result = await handler()
        except Exception as error:
            if not (run.is_first_request and isinstance(error, CallsOpen)):  # another run is at work
                await run_blocking(run.finish, [*self._messages], is_complete=False)
            raise
        finally:
            run.end()
        await run_blocking(run.finish, result.all_messages(), is_complete=True)
        return result

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Replace the messages by a pack."""
        self._messages = ctx.messages
        messages = request_context.messages
        if not messages or not isinstance(messages[-1], ModelRequest):
            return request_context  # a response that the provider goes on with
        sent = await run_blocking(self._prepare, ctx.messages, request_context)
        return dataclasses.replace(request_context, messages=sent)

    def _prepare(self, history: list[ModelMessage], request_context: ModelRequestContext) -> list[ModelMessage]:
        run = self._require_run()
        messages = [*request_context.messages]
        if run.is_first_request:
            run.check_running()
            run.check_unknown()
            position, interrupted = run.find_interrupted(messages)
            if interrupted:
                offset = len(messages) - position
                messages[position:position] = interrupted
                history[len(history) - offset : len(history) - offset] = interrupted
        return run.prepare(messages, request_context.model_request_parameters)

    async def after_model_request(
        self,
        ctx: RunContext[Any],  # noqa: ARG002 - the framework's signature
        *,
        request_context: ModelRequestContext,  # noqa: ARG002
        response: ModelResponse,
    ) -> ModelResponse:
        """Record the reply with its pack and its usage."""
        await run_blocking(self._require_run().record_reply, response)
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,  # noqa: ARG002 - the framework's signature
        args: ValidatedToolArgs,
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Run a tool under an intent: its start is stored before, and its result after."""
        if call.tool_name in OWN_TOOLS:
            return await handler(args)
        run = self._require_run()
        try:
            task = asyncio.current_task()
            started = await run_blocking(run.start_tool, [*ctx.messages], call.tool_call_id, call.tool_name, task)
        except CallAnswered:
            recorded = await run_blocking(run.read_result, call.tool_call_id)
            return "" if recorded is None else recorded
        except OutcomeUnknown as error:
            text = await run_blocking(run.tell_unknown, error)
            if text is None:
                raise
            raise ToolFailed(text) from error
        return await self._run_tool(call, started, args, handler)

    async def _run_tool(
        self, call: ToolCallPart, started: ToolRun, args: ValidatedToolArgs, handler: WrapToolExecuteHandler
    ) -> Any:
        run = self._require_run()
        try:
            with started.bind():
                value = await handler(args)
        except (CallDeferred, ApprovalRequired):
            await run_blocking(run.defer_tool, started)
            raise
        except SkipToolExecution as skipped:
            await run_blocking(run.finish_tool, started, _describe_value(call, skipped.result))
            raise
        except (ToolRetryError, ToolFailedError) as error:
            part = error.tool_retry if isinstance(error, ToolRetryError) else error.tool_failed
            text = part.model_response_str(wrap_if_error=False) if isinstance(part, ToolReturnPart) else str(error)
            await run_blocking(run.finish_tool, started, clean(text), is_error=True)
            raise
        except Exception as error:
            await run_blocking(run.finish_tool, started, describe_error(error), is_error=True)
            raise
        except BaseException:
            run.leave_tool(started)
            raise
        await run_blocking(run.finish_tool, started, _describe_value(call, value))
        return value


def _resolve(name: Name, ctx: RunContext[Any]) -> str | None:
    return name(ctx) if callable(name) else name


def _describe_value(call: ToolCallPart, value: Any) -> str:
    """What a tool returned, as the model will read it."""
    content = value.return_value if isinstance(value, ToolReturn) else value
    part = ToolReturnPart(call.tool_name, content, tool_call_id=call.tool_call_id)
    try:
        text = part.model_response_str()
    except (ValueError, TypeError, RecursionError):
        return clean(str(content))
    files = "".join(f"\n[{file.media_type}]" for file in part.files)
    return clean(text + files)
