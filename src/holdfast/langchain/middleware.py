"""Middleware for agents of LangChain: packs in place of the whole history, intents around tools, budgets for runs.

Laws: the state of the agent keeps all of its messages; only what is sent to the model is a pack. The start of a tool is
stored before it runs, and its result before LangChain sees it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Unpack

import msgspec
from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

import holdfast
from holdfast.errors import CallsOpen, InvalidArgument, describe_value
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.frameworks.shadows import ShadowMessage
from holdfast.frameworks.tool_runs import ToolRun, UnknownOutcome, current_call
from holdfast.langchain.attempts import ToolAttempts
from holdfast.langchain.budgets import RUNS, RunBudget
from holdfast.langchain.conversations import AgentConversation, PackedRequest, give_id
from holdfast.langchain.options import MiddlewareOptions
from holdfast.langchain.tools import ToolDescriptions, build_tools
from holdfast.model.names import check_options
from holdfast.types import shorten_name

_REMEMBERED = 1_000
"""Conversations in memory; the one that was used the longest time ago is opened again."""

_TOOLS = "tools:"
"""How LangChain names a run of the node that has the tools of an agent."""
_TRIES = 20
"""How often a conversation is followed again, because a run of another process on the same thread has gone on."""

Model = Callable[[ModelRequest[Any]], ModelResponse[Any]]
ToolAnswer = ToolMessage | Command[Any]


class _PreparedCall(NamedTuple):
    conversation: AgentConversation
    state: Sequence[BaseMessage]
    packed: PackedRequest
    request: ModelRequest[Any]
    budget: RunBudget | None


class HoldfastMiddleware(AgentMiddleware[Any, Any, Any]):
    """Gives an agent of LangChain a session of Holdfast for each of its threads.

        agent = create_agent(model, tools, middleware=[…, HoldfastMiddleware(engine)], checkpointer=saver)

    Put it last in the list. The model is sent a pack of at most `budget` tokens: superseded values are redacted, a long
    history is shortened, and large tool results are previews that the model can read on with the tool `read_handle`.

    `session` is the name of the session; without it, each thread has its own, named by its thread_id. `user` is the user
    whose facts the session reads and writes; without it, `user_id` in the configurable part of the config, if it is there.

    The start of each tool is stored before it runs. `unknown` says what happens when a tool is run again that was started
    before and has no result: OutcomeUnknown is raised ("raise"), the model is told and the tool does not run ("tell"), or
    it runs again with the same idempotency key ("repeat"). Tools in `repeatable` always run again.

    With `run_budget`, the model calls from one message of the user to the next may use so many tokens. MiddlewareOptions
    lists the other options."""

    def __init__(
        self,
        engine: holdfast.Engine,
        *,
        session: str | None = None,
        user: str | None = None,
        budget: int = 24_000,
        run_budget: int | None = None,
        unknown: UnknownOutcome = "raise",
        repeatable: Sequence[str] = (),
        **options: Unpack[MiddlewareOptions],
    ) -> None:
        super().__init__()
        check_options("HoldfastMiddleware", MiddlewareOptions, options)
        if unknown not in ("raise", "tell", "repeat"):
            raise InvalidArgument(argument="unknown", reason=f"{describe_value(unknown)} is not raise, tell or repeat")
        self._engine = check_engine(engine)
        self._session = session
        self._user = user
        self._budget = budget
        self._run_budget = run_budget
        self._unknown: UnknownOutcome = unknown
        self._repeatable = (*repeatable, holdfast.READ_HANDLE.name, holdfast.RECALL_MEMORY.name)
        self._options = options
        self._brief = self._find_brief()
        self._descriptions = ToolDescriptions()
        self._conversations: OrderedDict[tuple[str, str], AgentConversation] = OrderedDict()
        self._lock = threading.Lock()
        self.tools = build_tools(
            self._find_session, situation=options.get("situation", True), memory=options.get("memory", False)
        )

    # The model

    def wrap_model_call(self, request: ModelRequest[Any], handler: Model) -> ModelResponse[Any] | AIMessage:
        """Send a pack to the model, and record the reply with it."""
        prepared = self._prepare(request, get_config())
        if isinstance(prepared, AIMessage):
            return prepared
        return self._record(prepared, handler(prepared.request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | AIMessage:
        """Send a pack to the model, and record the reply with it."""
        prepared = await run_blocking(self._prepare, request, get_config())
        if isinstance(prepared, AIMessage):
            return prepared
        response = await handler(prepared.request)
        return await run_blocking(self._record, prepared, response)

    def _prepare(self, request: ModelRequest[Any], config: Any) -> _PreparedCall | AIMessage:
        conversation = self._find_conversation(config)
        state = _read_messages(request.state) or request.messages
        extra, pack = self._follow_and_pack(conversation, request, state, _find_point(config))
        budget = self._open_budget(conversation, state)
        if budget is not None and budget.is_short_of(pack):
            if self._options.get("spent", "raise") == "raise":
                raise budget.refusal(pack)
            return self._end_run(conversation, budget, state)
        packed = conversation.pack(state, request.messages, request.system_message, pack, extra)
        changed = request.override(messages=packed.messages, system_message=packed.system)  # type: ignore[arg-type]  # one of AnyMessage each
        return _PreparedCall(conversation, state, packed, changed, budget)

    def _follow_and_pack(
        self, conversation: AgentConversation, request: ModelRequest[Any], state: Sequence[BaseMessage], point: str
    ) -> tuple[Sequence[ShadowMessage], holdfast.Pack]:
        model = self._options.get("model") or _find_model_name(request)
        brief = self._build_brief(request)
        options = {"budget": self._budget, "model": model, "brief": brief, **self._options.get("pack", {})}
        for attempt in range(_TRIES):
            with conversation.hold():
                extra = conversation.follow(state, request.messages, point=point)
                try:
                    pack = conversation.session.pack(**options)
                except CallsOpen:  # another process has recorded a reply in between
                    if attempt == _TRIES - 1:
                        raise
                    continue
                if conversation.is_followed() or attempt == _TRIES - 1:
                    return extra, pack
        raise AssertionError("the last try returns or raises")

    def _record(self, prepared: _PreparedCall, response: ModelResponse[Any]) -> ModelResponse[Any]:
        conversation = prepared.conversation
        messages = response.result
        replies = [each for each in messages if isinstance(each, AIMessage)]
        for reply in replies:
            give_id(reply)
            conversation.record_reply(reply, prepared.packed.pack, prepared.state)
            if prepared.budget is not None:
                prepared.budget.charge(reply, prepared.packed.pack)
        conversation.record_results(each for each in messages if isinstance(each, ToolMessage))
        return response

    def _end_run(self, conversation: AgentConversation, budget: RunBudget, state: Sequence[BaseMessage]) -> AIMessage:
        reply = AIMessage(budget.describe())
        give_id(reply)
        conversation.record_reply(reply, None, state)
        return reply

    def _open_budget(self, conversation: AgentConversation, state: Sequence[BaseMessage]) -> RunBudget | None:
        if self._run_budget is None:
            return None
        asked = next((each.id for each in reversed(state) if isinstance(each, HumanMessage)), None)
        return RunBudget.open(self._open_runs(conversation.session), asked or "", self._run_budget)

    # Tools

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]) -> ToolAnswer:
        """Store that a tool starts, run it, and store its result."""
        conversation, run = self._start(request)
        if not isinstance(run, ToolRun):
            return run
        try:
            with run.bind():
                answer = handler(request)
        except Exception as error:
            conversation.attempts.fail(run, error)
            raise
        conversation.attempts.finish(run, request.tool_call, answer)
        return answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """Store that a tool starts, run it, and store its result."""
        conversation, run = await run_blocking(self._start, request)
        if not isinstance(run, ToolRun):
            return run
        try:
            with run.bind():
                answer = await handler(request)
        except Exception as error:
            await run_blocking(conversation.attempts.fail, run, error)
            raise
        await run_blocking(conversation.attempts.finish, run, request.tool_call, answer)
        return answer

    def _start(self, request: ToolCallRequest) -> tuple[AgentConversation, ToolRun | ToolAnswer]:
        conversation = self._find_conversation(request.runtime.config)
        config = request.runtime.config
        conversation.ensure_reply(request.tool_call, _read_messages(request.state), point=_find_point(config))
        run = conversation.start_tool(request.tool_call)
        if isinstance(run, ToolRun):
            conversation.attempts.note_edit(run, request.tool_call)
        return conversation, run

    # Sessions

    def _find_session(self, config: Any) -> holdfast.Session:
        return self._find_conversation(config).session

    def _find_conversation(self, config: Any) -> AgentConversation:
        configurable = (config or {}).get("configurable", {})
        name = self._session if self._session is not None else configurable.get("thread_id")
        if name is None or not str(name):
            reason = (
                "it is not given, and the config of the run has no thread_id: pass "
                '{"configurable": {"thread_id": "…"}} when you invoke the agent, or name the session'
            )
            raise InvalidArgument(argument="session", reason=reason)
        names = (str(name), str(configurable.get("checkpoint_ns") or "").rpartition("|")[0])
        with self._lock:
            known = self._conversations.get(names)
            if known is not None:
                self._conversations.move_to_end(names)
                return known
        opened = self._open_conversation(*names, configurable)
        with self._lock:
            opened = self._conversations.setdefault(names, opened)
            while len(self._conversations) > _REMEMBERED:
                self._conversations.popitem(last=False)
        return opened

    def _open_conversation(self, name: str, namespace: str, configurable: dict[str, Any]) -> AgentConversation:
        user = self._user if self._user is not None else configurable.get("user_id")
        short = shorten_name(name)
        session = self._engine.session(
            short,
            user=shorten_name(str(user)) if user is not None and str(user) else None,
            actor=self._options.get("actor", "main"),
            thread=shorten_name(namespace) if namespace else None,
            create=True,
            ledgers=tuple(self._options.get("ledgers", ())),
            memory=self._options.get("memory", False),
            metadata={"thread_id": name} if short != name else None,
        )
        attempts = ToolAttempts(self._engine, session, unknown=self._unknown, repeatable=self._repeatable)
        observe = self._options.get("observe", True) and not _is_inside_tool(namespace)
        return AgentConversation(session, attempts, observe=observe)

    def _open_runs(self, session: holdfast.Session) -> holdfast.Session:
        """The session of the frames of runs, beside the conversation: packs of the conversation do not show them."""
        scope = session.scope
        thread = f"{RUNS} {scope.thread}" if scope.thread else RUNS
        return self._engine.session(scope.session, actor=scope.actor, thread=shorten_name(thread), create=True)

    # Briefs

    def _find_brief(self) -> holdfast.Brief:
        role, brief = self._options.get("role"), self._options.get("brief")
        if role is None:
            return brief if brief is not None else holdfast.Brief()
        found = self._engine._context.briefs.get(role)
        if found is None or brief is not None:
            reason = "`brief` is set, too: pass one of the two" if found is not None else "the engine has no such brief"
            raise InvalidArgument(argument="role", reason=f"{describe_value(role)}: {reason}")
        return found

    def _build_brief(self, request: ModelRequest[Any]) -> holdfast.Brief:
        tools = self._descriptions.describe(request.tools)
        names = {tool.name for tool in tools}
        prompt = str(request.system_message.text) if request.system_message is not None else ""
        return msgspec.structs.replace(
            self._brief,
            prompt=prompt or self._brief.prompt,
            tools=tools,
            read_handle=holdfast.READ_HANDLE.name in names,
            recall_memory=holdfast.RECALL_MEMORY.name in names,
        )


def _read_messages(state: Any) -> list[BaseMessage]:
    """The messages in the state of an agent."""
    if isinstance(state, list):
        return state
    messages = state.get("messages") if isinstance(state, dict) else getattr(state, "messages", None)
    return list(messages or ())


def _is_inside_tool(namespace: str) -> bool:
    """Whether an agent runs in a tool of another one: what it is asked are words of a model, not of the user."""
    return current_call() is not None or any(part.startswith(_TOOLS) for part in namespace.split("|"))


def _find_point(config: Any) -> str:
    """The checkpoint of the root graph that the run of an agent goes on from; empty for an agent inside another graph."""
    configurable = (config or {}).get("configurable", {})
    if "|" in str(configurable.get("checkpoint_ns") or ""):
        return ""
    return str((configurable.get("checkpoint_map") or {}).get("") or "")


def _find_model_name(request: ModelRequest[Any]) -> str | None:
    for field in ("model_name", "model", "model_id"):
        name = getattr(request.model, field, None)
        if isinstance(name, str) and name:
            return name
    return None
