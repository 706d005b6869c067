"""Middleware of the Agent Framework: what happens before each model call, and around each tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_framework import (
    AgentSession,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    Message,
    MiddlewareFailure,
    MiddlewareTermination,
    ResponseStream,
    UserInputRequiredException,
)
from agent_framework import _sessions as framework_sessions

from holdfast.agent_framework.messages import read_contents, read_usage
from holdfast.agent_framework.transcripts import HistoryTranscript, ReplyContext
from holdfast.errors import OutcomeUnknown
from holdfast.flows.sessions.tools import describe_error
from holdfast.frameworks import current_call
from holdfast.frameworks.accepted import accept_id, accept_text
from holdfast.frameworks.engines import run_blocking
from holdfast.frameworks.tool_runs import ToolRun, ToolRuns, finish_run

if TYPE_CHECKING:
    import holdfast
    from holdfast.agent_framework.providers import HoldfastHistoryProvider


class PackMiddleware(ChatMiddleware):
    """Stores what a model call shows and answers, and gives the model a pack. One for each run."""

    def __init__(self, provider: HoldfastHistoryProvider, transcript: HistoryTranscript, after: int) -> None:
        self._provider = provider
        self._transcript = transcript
        self._after = after

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Build the pack of a model call, and record its reply."""
        pack = await run_blocking(self._prepare, context)
        await call_next()
        result = context.result

        async def finish(response: ChatResponse[Any]) -> ChatResponse[Any]:
            async def persist() -> None:
                await run_blocking(self._record, response, pack)

            if not defer(persist):
                await persist()
            return response

        if isinstance(result, ResponseStream):
            context.result = result.with_result_hook(finish)
        elif result is not None:
            await finish(result)

    def _prepare(self, context: ChatContext) -> holdfast.Pack | None:
        own, foreign = split_sources(context.messages, self._provider.source_id)
        self._transcript.add(own, after=self._after, is_saved=False)
        options = dict(context.options or {})
        packed = self._provider.build_pack(self._transcript, foreign, options)
        if packed is None:
            return None
        context.messages = [*foreign, *packed.messages]
        if packed.instructions:
            given = options.get("instructions")
            texts = [given] if isinstance(given, str) else list(given or ())
            context.options = {**options, "instructions": "\n\n".join([*texts, *packed.instructions])}
        return packed.pack

    def _record(self, response: ChatResponse[Any], pack: holdfast.Pack | None) -> None:
        reply = ReplyContext(pack, read_usage(response.usage_details))
        self._transcript.add(response.messages, after=self._after, is_saved=False, reply=reply)


class IntentMiddleware(FunctionMiddleware):
    """Stores the start of every tool before it runs, and its result when it ends.

    A provider adds it by itself, unless the agent persists its history per service call: then pass
    `middleware=[IntentMiddleware(provider)]` to the agent."""

    def __init__(self, provider: HoldfastHistoryProvider) -> None:
        self._provider = provider

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Run a tool under an intent."""
        call_id = context.metadata.get("call_id")
        if not call_id or context.session is None or current_call() is not None:
            await call_next()
            return
        try:
            run = await run_blocking(self._start, context.session, str(call_id), context.function.name)
        except OutcomeUnknown as error:
            runs = await run_blocking(self._tool_runs, context.session)
            text = await run_blocking(runs.tells, error)
            if text is None:
                raise MiddlewareFailure(str(error)) from error
            context.result = text
            return
        try:
            with run.bind():
                await call_next()
        except (UserInputRequiredException, MiddlewareTermination):
            await run_blocking(run.pause)
            raise
        except Exception as error:
            await run_blocking(run.finish, describe_error(error), is_error=True)
            raise
        if isinstance(context.result, Content) and context.result.type == "function_approval_request":
            await run_blocking(run.pause)
        else:
            await run_blocking(finish_run, run, _read_value(context.result))

    def _tool_runs(self, session: AgentSession) -> ToolRuns:
        transcript = self._provider.transcript(session.session_id)
        return ToolRuns(transcript.session, unknown=self._provider.unknown, repeatable=self._provider.repeatable)

    def _start(self, session: AgentSession, call_id: str, name: str) -> ToolRun:
        return self._tool_runs(session).start(accept_id(call_id), name)


def defer(persist: Callable[[], Awaitable[None]]) -> bool:
    """Whether the framework persists this reply later, or never: when it has decided that its content is permitted."""
    hold = getattr(framework_sessions, "_defer_run_persistence", None)
    return hold is not None and bool(hold(persist))


def is_gated() -> bool:
    """Whether the framework holds all saves of this run back until its content is permitted."""
    gate = getattr(framework_sessions, "_DEFERRED_RUN_PERSISTENCE", None)
    held = gate.get() if gate is not None else None
    return held is not None and bool(held.accepts(framework_sessions._current_run_identity()))


def split_sources(messages: Sequence[Message], source_id: str) -> tuple[list[Message], list[Message]]:
    """The messages of a model call that belong to this run, and those that other providers added. The history, which this
    provider added, is in neither."""
    own: list[Message] = []
    foreign: list[Message] = []
    for message in messages:
        attribution = message.additional_properties.get("_attribution")
        source = attribution.get("source_id") if isinstance(attribution, Mapping) else None
        if source is None:
            own.append(message)
        elif source != source_id:
            foreign.append(message)
    return own, foreign


def _read_value(result: object) -> object:
    """The value of a tool, as session.result() takes it."""
    if isinstance(result, list) and all(isinstance(each, Content) for each in result):
        return read_contents(result) or ""
    return "" if result is None else accept_text(str(result))
