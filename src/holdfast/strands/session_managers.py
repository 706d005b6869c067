"""The session manager of Strands: persistence, packs for model calls, and intents around tools.

Laws: what the agent adds is stored before the agent goes on. A tool starts after its intent is stored. A call whose
earlier run has no result is not run again, unless the program says that it may.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

from strands.agent import Agent
from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterMultiAgentInvocationEvent,
    AfterNodeCallEvent,
    AfterToolCallEvent,
    AgentInitializedEvent,
    BeforeToolCallEvent,
    HookRegistry,
    MessageAddedEvent,
    MultiAgentInitializedEvent,
)
from strands.interrupt import InterruptException
from strands.middleware import (
    ExecuteToolContext,
    ExecuteToolStage,
    InvokeModelContext,
    InvokeModelStage,
    TypedEvent,
)
from strands.session import RepositorySessionManager
from strands.types.content import Message, SystemContentBlock, SystemPrompt
from strands.types.exceptions import SessionException
from strands.types.tools import ToolResult, ToolResultContent, ToolUse

import holdfast
from holdfast import Text
from holdfast.errors import CallAnswered, OutcomeUnknown
from holdfast.frameworks.accepted import accept_id
from holdfast.frameworks.engines import run_blocking
from holdfast.frameworks.shown import show_pack
from holdfast.frameworks.tool_runs import ToolRun, ToolRuns, UnknownOutcome, describe_unknown, finish_run, open_run
from holdfast.model import limits
from holdfast.render.entries import text_in
from holdfast.strands.messages import build_messages, read_result
from holdfast.strands.repositories import StrandsRepository
from holdfast.strands.tools import describe_specs, engine_tools
from holdfast.strands.transcripts import AgentTranscript
from holdfast.types import Body, Data, ModelUse, OpenCall

if TYPE_CHECKING:
    from strands.types.agent import LocalAgent

MIN_BUDGET = 500
_WHOLE = 10_000_000
"""A budget that any conversation fits into."""
_SHRINK = 0.6
"""How much of the last prompt is left after a provider refused it as too long."""
_INTERRUPT = "tool_interrupt_event"
"""The field of the event by which a tool asks for input."""
_ANSWERED = "This call has a result."
_NO_INPUT = "The tool asked for input, which a direct call cannot get."
_RUNNING: set[tuple[int, str]] = set()
"""The calls whose tools run in this process: the engine, and the key."""
_RECENT = 2 * limits.MESSAGE_CALLS
"""How many messages are searched for the result of a call."""
_INTERRUPTED = "Tool was interrupted."
"""What Strands tells a model of a call that has no result."""


class HoldfastSessionManager(RepositorySessionManager):
    """Keeps the conversations of agents in Holdfast.

        agent = Agent(model=model, tools=tools, session_manager=HoldfastSessionManager(engine, "order-7", budget=24_000))

    With a `budget`, every model call gets a pack of at most that many tokens, system prompt and tools included, in place
    of the agent's whole list; without one, it gets the list. `pack_options` are options of session.pack().

    `unknown` says what happens when a tool call runs again whose earlier run has no result: OutcomeUnknown is raised,
    the model is told, or the tool runs again. Tools in `repeatable` run again in any case. `user` and `actor` are those
    of engine.session()."""

    def __init__(
        self,
        engine: holdfast.Engine,
        session_id: str,
        *,
        budget: int | None = None,
        unknown: UnknownOutcome = "raise",
        repeatable: Sequence[str] = (),
        user: str | None = None,
        actor: str = "main",
        pack_options: holdfast.PackOptions | None = None,
    ) -> None:
        self.repository = StrandsRepository(engine, user=user, actor=actor)
        self.budget = budget
        self._pack_options: Any = pack_options or {}
        self._unknown: UnknownOutcome = unknown
        self._repeatable = tuple(repeatable)
        self._budgets: dict[str, int] = {}
        self._runs: dict[tuple[str, str], ToolRun] = {}
        self._repeats: set[tuple[str, str]] = set()
        self._answers: dict[tuple[str, str], ToolResult] = {}
        self._beside: dict[tuple[str, str], tuple[holdfast.Frame, str]] = {}
        """The runs of tools that are no calls of the model: the frame, and the call in it."""
        super().__init__(session_id, self.repository)

    def conversation(self, agent_id: str = "default") -> holdfast.Session:
        """The Holdfast session of an agent's conversation."""
        return self._transcript(agent_id).session

    def tool_runs(self, agent_id: str = "default") -> holdfast.Session:
        """A thread beside the conversation of an agent, with the runs of tools that the program calls itself, such as
        `agent.tool.pay(euros=3)`: its `recover()` names those that were running when a process died."""
        return self.repository.tool_runs(self.session_id, agent_id)

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        """Register what runs when agents begin, add messages, call models and run tools."""
        registry.add_callback(AgentInitializedEvent, self._begin)
        registry.add_callback(MessageAddedEvent, self._store_message)
        registry.add_callback(AfterInvocationEvent, self._store_agent)
        registry.add_callback(BeforeToolCallEvent, self._check_call)
        registry.add_callback(AfterToolCallEvent, self._finish_call)
        registry.add_callback(AfterModelCallEvent, self._count_retry)
        registry.add_callback(MultiAgentInitializedEvent, lambda event: self.initialize_multi_agent(event.source))
        registry.add_callback(AfterNodeCallEvent, lambda event: self.sync_multi_agent(event.source))
        registry.add_callback(AfterMultiAgentInvocationEvent, lambda event: self.sync_multi_agent(event.source))

    def initialize(self, agent: LocalAgent, **kwargs: Any) -> None:
        """Give the agent the conversation and the state that are stored, or store its own."""
        super().initialize(agent, **kwargs)
        for message in agent.messages:  # as Strands restored them
            self._correct_results(message, self._transcript(agent.agent_id))
        if self._latest_agent_message[agent.agent_id] is None:
            # Strands skips what its conversation manager removed; the next index still follows all of them.
            records = self._transcript(agent.agent_id).read_messages()
            self._latest_agent_message[agent.agent_id] = records[-1] if records else None

    def append_message(self, message: Message, agent: LocalAgent, **kwargs: Any) -> None:
        """Store a message of an agent."""
        self._explain_unknown(message, self._transcript(agent.agent_id))
        super().append_message(message, agent, **kwargs)

    def shrink_budget(self, agent: Agent) -> bool:
        """Make the packs of an agent smaller, since its provider refused a prompt as too long. False if they cannot be."""
        transcript = self._transcript(agent.agent_id)
        pack = transcript.pack or transcript.session.pack(budget=_WHOLE, settle=False)
        budget = self._budgets.get(agent.agent_id) or self.budget or _WHOLE
        smaller = max(MIN_BUDGET, int(min(budget, pack.tokens.used) * _SHRINK))
        if smaller >= budget:
            return False
        self._budgets[agent.agent_id] = smaller
        return True

    def agent_budget(self, agent_id: str) -> int | None:
        """The budget of the packs of an agent; None if it gets none."""
        return self._budgets.get(agent_id, self.budget)

    def restore_budget(self, agent_id: str, budget: int) -> None:
        """Use the budget that an earlier process came to."""
        self._budgets[agent_id] = budget

    def _transcript(self, agent_id: str) -> AgentTranscript:
        return self.repository.transcript(self.session_id, agent_id)

    def _begin(self, event: AgentInitializedEvent[Any]) -> None:
        agent = event.agent
        self.initialize(agent)
        if not isinstance(agent, Agent):
            return
        agent.add_middleware(InvokeModelStage.Input, self._build_context)
        agent.add_middleware(ExecuteToolStage, self._run_tool)
        session = self.conversation(agent.agent_id)
        for tool in engine_tools(session) if self.budget is not None else ():
            if tool.tool_name not in agent.tool_registry.registry:
                agent.tool_registry.register_tool(tool)

    async def _store_message(self, event: MessageAddedEvent[Any]) -> None:
        await run_blocking(self._store, event.message, event.agent)

    def _store(self, message: Message, agent: LocalAgent) -> None:
        self.append_message(message, agent)
        self.sync_agent(agent)

    async def _store_agent(self, event: AfterInvocationEvent) -> None:
        await run_blocking(self.sync_agent, event.agent)

    async def _build_context(self, context: InvokeModelContext) -> InvokeModelContext:
        return await run_blocking(self._pack_context, context)

    def _pack_context(self, context: InvokeModelContext) -> InvokeModelContext:
        """The context of a model call, with a pack in place of the list of messages."""
        agent_id = context.agent.agent_id
        transcript = self._transcript(agent_id)
        transcript.pack = None
        transcript.follow(context.messages)
        budget = self.agent_budget(agent_id)
        if budget is None:
            return context
        if transcript.session.open_calls():
            transcript.session.close_calls("the agent went on without a result")
        tools = describe_specs(context.tool_specs)
        brief = holdfast.Brief(
            prompt=_read_prompt(context.system_prompt), tools=tools, read_handle=False, recall_memory=False
        )
        pack = transcript.session.pack(budget=budget, brief=brief, **self._pack_options)
        transcript.pack = pack
        shown = [*show_pack(pack, transcript.shadow)]
        head = (each for each in shown if each.role == "system" and not each.is_later)
        system = [each.text for each in head if not _is_brief(each.message)]
        return context.replace(
            messages=build_messages(shown, transcript.find_blocks),
            system_prompt=_extend_prompt(context.system_prompt, system),
            dynamic_trailing_blocks=int(bool(shown) and shown[-1].message is None),  # the tail is new in each call
        )

    async def _check_call(self, event: BeforeToolCallEvent[Any]) -> None:
        """Stop a call whose earlier run has no result, before other hooks see it."""
        text = await run_blocking(
            self._decide, event.agent.agent_id, event.tool_use["toolUseId"], event.tool_use["name"]
        )
        if text is not None:
            event.cancel_tool = text
        elif (event.agent.agent_id, event.tool_use["toolUseId"]) in self._answers:
            event.cancel_tool = _ANSWERED

    def _decide(self, agent_id: str, call_id: str, name: str) -> str | None:
        """Raise OutcomeUnknown, or return what the model is told; None if the call may run, or has a result."""
        transcript = self._transcript(agent_id)
        call = _find_call(transcript.session, call_id)
        if call is None:
            answer = _find_answer(transcript.session, call_id)
            if answer is not None:  # the run broke off before Strands stored it
                self._answers[agent_id, call_id] = answer
            return None
        if not call.attempts or (agent_id, call_id) in self._repeats:
            return None
        self._check_running(call)
        if self._may_repeat(agent_id, call_id, name, call, transcript):
            return None
        error = OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
        text = self._open_runs(transcript).tells(error)
        if text is None:
            raise error
        return text

    def _check_running(self, call: OpenCall) -> None:
        """Raise SessionException if the tool of this call runs in this process: it was not interrupted."""
        if (id(self.repository.engine), call.key) in _RUNNING:
            raise SessionException(
                f"Another agent runs the tool {call.name} of this conversation. Nothing was changed. Wait for its end, and "
                "open the session again."
            )

    def _may_repeat(self, agent_id: str, call_id: str, name: str, call: OpenCall, transcript: AgentTranscript) -> bool:
        """Whether a call that was started may start again: the program allows it, this process knows how it ended, or it
        waited for input."""
        if self._unknown == "repeat" or name in self._repeatable or (agent_id, call_id) in self._repeats:
            return True
        return self._open_runs(transcript).was_paused(call.key, call.attempts)

    def _open_runs(self, transcript: AgentTranscript) -> ToolRuns:
        return ToolRuns(transcript.session, unknown=self._unknown, repeatable=self._repeatable)

    async def _run_tool(
        self, context: ExecuteToolContext, next_fn: Callable[[ExecuteToolContext], AsyncGenerator[TypedEvent, None]]
    ) -> AsyncGenerator[TypedEvent, None]:
        """Store the intent of a call, and run it. A call that waits for input is marked, so that it may go on later."""
        agent_id, call_id = context.agent.agent_id, context.tool_use["toolUseId"]
        run = await run_blocking(self._start, context.agent, context.tool_use)
        try:
            with run.bind():
                async for event in next_fn(context):
                    if _INTERRUPT in event:
                        await run_blocking(self._pause, agent_id, call_id, run)
                    yield event
        except InterruptException:
            await run_blocking(self._pause, agent_id, call_id, run)
            raise
        except BaseException:  # it failed, or was cancelled
            self._beside.pop((agent_id, call_id), None)
            self._end(run)
            raise

    def _start(self, agent: LocalAgent, use: ToolUse) -> ToolRun:
        agent_id, call_id, name = agent.agent_id, use["toolUseId"], use["name"]
        transcript = self._transcript(agent_id)
        call = _find_call(transcript.session, call_id)
        again = call is not None and call.attempts > 0 and self._may_repeat(agent_id, call_id, name, call, transcript)
        runs = ToolRuns(transcript.session, unknown="repeat" if again else self._unknown, repeatable=self._repeatable)
        run = runs.start(accept_id(call_id), name)
        if run.started is None and name in agent.tool_registry.registry:
            run = self._start_beside(agent_id, use)
        self._repeats.discard((agent_id, call_id))
        self._runs[agent_id, call_id] = run
        if run.started is not None:
            _RUNNING.add((id(self.repository.engine), run.started.key))
        return run

    def _start_beside(self, agent_id: str, use: ToolUse) -> ToolRun:
        """Start a tool that the program calls itself. A hook may start it again, under the same key."""
        name = (agent_id, use["toolUseId"])
        if name not in self._beside:
            given = use["input"] if isinstance(use["input"], dict) else {}
            self._beside[name] = open_run(self.tool_runs(agent_id), use["name"], given)
        frame, call = self._beside[name]
        return ToolRuns(frame, unknown="repeat").start(call)

    def _leave(self, name: tuple[str, str]) -> None:
        """End the frame of a run beside the conversation."""
        frame, _ = self._beside.pop(name, (None, ""))
        if frame is not None:
            with frame:
                pass

    def _end(self, run: ToolRun) -> None:
        if run.started is not None:
            _RUNNING.discard((id(self.repository.engine), run.started.key))

    def _pause(self, agent_id: str, call_id: str, run: ToolRun) -> None:
        self._runs.pop((agent_id, call_id), None)
        if (agent_id, call_id) in self._beside:
            run.finish(_NO_INPUT, is_error=True)
            self._leave((agent_id, call_id))
        run.pause()
        self._end(run)

    async def _finish_call(self, event: AfterToolCallEvent[Any]) -> None:
        """Store the outcome of a call, as all other hooks left it."""
        name = (event.agent.agent_id, event.tool_use["toolUseId"])
        answer = self._answers.pop(name, None)
        if answer is not None:
            event.result = answer
            return
        run = self._runs.pop(name, None)
        if run is None:
            return
        if event.retry:
            self._repeats.add(name)
            self._end(run)
            return
        is_error = event.result.get("status") == "error"
        await run_blocking(self._finish, name, run, read_result(event.result), is_error)

    def _finish(self, name: tuple[str, str], run: ToolRun, value: Any, is_error: bool) -> None:
        try:
            finish_run(run, value, is_error=is_error)
        except CallAnswered:  # another process has given the call up meanwhile: what came of it is kept as evidence
            run.keep_late(value, is_error=is_error)
        finally:
            self._end(run)
        self._leave(name)

    async def _count_retry(self, event: AfterModelCallEvent) -> None:
        """Record what a reply used that Strands throws away."""
        response = event.stop_response
        if not event.retry or response is None:
            return
        usage = (response.message.get("metadata") or {}).get("usage")
        if usage:
            counted = holdfast.Usage(input_tokens=usage["inputTokens"], output_tokens=usage["outputTokens"])
            use = ModelUse(purpose="discarded reply", model=_model_name(event.agent), usage=counted)
            await run_blocking(self.conversation(event.agent.agent_id).record_model_uses, use)

    def _correct_results(self, message: Message, transcript: AgentTranscript) -> None:
        """Tell the model the result of a call that has one, where Strands calls it an interruption."""
        for result in _find_interrupted(message):
            if _find_call(transcript.session, result["toolUseId"]) is None:
                result.update(_find_answer(transcript.session, result["toolUseId"]) or result)

    def _explain_unknown(self, message: Message, transcript: AgentTranscript) -> None:
        """Tell the model the result of a call, or of an unknown outcome, where Strands calls it an interruption."""
        self._correct_results(message, transcript)
        for result in _find_interrupted(message):
            call = _find_call(transcript.session, result["toolUseId"])
            if call is not None and call.attempts:
                self._check_running(call)
                error = OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
                result["content"] = [{"text": describe_unknown(error)}]


def _find_interrupted(message: Message) -> list[ToolResult]:
    """The results of a message that Strands made up."""
    results = (block["toolResult"] for block in message["content"] if "toolResult" in block)
    return [result for result in results if result.get("content") == [{"text": _INTERRUPTED}]]


def _find_call(session: holdfast.Session, call_id: str) -> OpenCall | None:
    """The open call with this id of the provider, the newest if there are several."""
    name = accept_id(call_id)
    return next((call for call in reversed(session.open_calls()) if name in (call.provider_id, call.id)), None)


def _find_answer(session: holdfast.Session, call_id: str) -> ToolResult | None:
    """The result that the session has for the newest call with this id; None if there is none."""
    name = accept_id(call_id)
    recent = [message for message in session.messages(limit=_RECENT) if not message.withdrawn]
    for message in reversed(recent):
        for call in message.tool_calls:
            if name in (call.provider_id, call.id):
                results = (result for each in recent for result in each.tool_results if result.tool_call_id == call.id)
                result = next(results, None)
                return None if result is None else _write_result(call_id, result)
    return None


def _write_result(call_id: str, result: holdfast.ToolResult) -> ToolResult:
    content: list[ToolResultContent] = []
    for part in result.content:
        match part:
            case Data():
                content.append({"json": part.value})
            case Text() | Body():
                content.append({"text": text_in(part)})
            case _:
                content.append({"text": f"[{type(part).__name__.lower()}]"})
    return {"toolUseId": call_id, "status": "error" if result.is_error else "success", "content": content}


def _is_brief(message: holdfast.Message | None) -> bool:
    return message is not None and message.seq == 0 and message.id == "brief"


def _read_prompt(prompt: SystemPrompt) -> str:
    if isinstance(prompt, str):
        return prompt
    return "\n".join(block["text"] for block in prompt or () if "text" in block)


def _extend_prompt(prompt: SystemPrompt, texts: Sequence[str]) -> SystemPrompt:
    """The system prompt, and behind it what the pack says of the user and the rules."""
    if not texts:
        return prompt
    if isinstance(prompt, list):
        added: list[SystemContentBlock] = [{"text": text} for text in texts]
        return [*prompt, *added]
    return "\n\n".join([*([prompt] if prompt else []), *texts])


def _model_name(agent: Agent) -> str:
    config = agent.model.get_config()
    name = config.get("model_id") if isinstance(config, dict) else None
    return str(name or type(agent.model).__name__)
