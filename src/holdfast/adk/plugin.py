"""The plugin: packs in place of the raw history, replies with their packs, and intents before effects.

Laws: between two boundaries a request extends the one before it, up to the tail. A tool runs only after its start is
stored. A call that was started and has no result is not run again, unless the program says that it may.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.session import Session
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from typing_extensions import override

import holdfast
from holdfast.adk.contents import arrange_contents, read_view
from holdfast.adk.events import belongs_to, live_events, to_json, to_messages
from holdfast.adk.names import Conversations, clean_id
from holdfast.adk.session_service import SessionService
from holdfast.adk.tools import PackTool
from holdfast.adk.transcripts import Transcripts, conversation_key, list_messages, record_messages
from holdfast.adk.uris import choose_engine
from holdfast.errors import CallAnswered, CallsOpen, HoldfastError, OutcomeUnknown
from holdfast.flows.sessions.tools import describe_error
from holdfast.frameworks.accepted import accept_id, accept_json, accept_text
from holdfast.frameworks.engines import run_blocking
from holdfast.frameworks.shadows import Shadow
from holdfast.frameworks.shown import show_pack
from holdfast.frameworks.tool_runs import _CURRENT, ToolRun, ToolRuns, UnknownOutcome, current_call
from holdfast.model.names import check_options
from holdfast.types import StartedCall

_KEPT = 1_000
"""How many packs and runs that never ended are kept in memory."""


class _Talk:
    """The conversation that a callback is about."""

    def __init__(self, context: InvocationContext, branch: str | None, scope: str | None) -> None:
        self.session: Session = context.session
        self.names = (context.app_name, context.session.user_id, clean_id(context.session.id))
        self.branch, self.scope = branch or "", scope or ""
        self.key = conversation_key(branch, scope)
        self.is_ours = isinstance(context.session_service, SessionService)
        self.is_nested = current_call() is not None


class _Run:
    """A tool that is running."""

    def __init__(self, run: ToolRun, before: StartedCall | None) -> None:
        self.run, self.before = run, before


class PluginOptions(TypedDict, total=False):
    """Options of Plugin. SessionService has `observe` and `memory` for its own sessions."""

    offer_tools: bool
    """True, the default: the model can read what a pack shows in part."""
    observe: bool
    """True, the default: facts are read from messages of the user."""
    memory: bool
    """True: new sessions have a long-term memory."""
    name: str
    """The name of the plugin; "holdfast" by default."""


class Plugin(BasePlugin):
    """Packs, intents and usage of Holdfast in an app of ADK.

        app = App(name="desk", root_agent=agent, plugins=[Plugin(engine, budget=24_000)])

    With `budget`, the model gets a pack of at most that many tokens in place of the conversation; instructions and tools
    come on top. Without it, requests stay as they are. `pack_options` are options of `session.pack()`. `unknown` and
    `repeatable` say what happens to a tool call that was started before and has no result. PluginOptions lists all options.

    It works with any session service. With Holdfast's own, the conversation is recorded by the service."""

    def __init__(
        self,
        engine: holdfast.Engine | None = None,
        *,
        uri: str | None = None,
        budget: int | None = None,
        pack_options: holdfast.PackOptions | None = None,
        unknown: UnknownOutcome = "raise",
        repeatable: Sequence[str] = (),
        **options: Unpack[PluginOptions],
    ) -> None:
        check_options("Plugin", PluginOptions, options)
        super().__init__(options.get("name", "holdfast"))
        self.engine = choose_engine(engine, uri)
        self._budget, self._pack_options = budget, pack_options or {}
        self._unknown, self._repeatable = unknown, tuple(repeatable)
        self._offer_tools, self._observe = options.get("offer_tools", True), options.get("observe", True)
        self._conversations = Conversations(self.engine, memory=options.get("memory", False))
        self._transcripts = Transcripts.of(self.engine)
        self._packs: OrderedDict[tuple[str, ...], holdfast.Pack] = OrderedDict()
        self._runs: OrderedDict[tuple[str, ...], _Run] = OrderedDict()

    @override
    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> types.Content | None:
        """Record what other processes added to the session since. The message itself follows as an event."""
        talk = _Talk(invocation_context, None, None)
        if not talk.is_ours and talk.session.events:
            await run_blocking(self._follow, talk)
        return None

    @override
    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Replace the conversation in a request with a pack of it."""
        context = callback_context.get_invocation_context()
        talk = _Talk(context, callback_context.branch, callback_context.isolation_scope)
        if getattr(context.agent, "include_contents", "default") == "none" or llm_request.previous_interaction_id:
            return None  # the agent is to have no history
        agent = callback_context.agent_name
        built = await run_blocking(self._build_request, talk, list(llm_request.contents), agent)
        if built is None:
            return None
        pack, llm_request.contents, session = built
        self._remember(self._packs, (*talk.names, talk.key, callback_context.invocation_id, agent), pack)
        if self._offer_tools:
            _offer_tools(llm_request, session)
        return None

    @override
    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> LlmResponse | None:
        """Nothing changes here: the reply is recorded with its pack and its usage once ADK has made an event of it."""
        return None

    @override
    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Forget the pack: it has no reply."""
        context = callback_context.get_invocation_context()
        talk = _Talk(context, callback_context.branch, callback_context.isolation_scope)
        key = (*talk.names, talk.key, callback_context.invocation_id, callback_context.agent_name)
        self._packs.pop(key, None)
        return None

    @override
    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """Tie a reply to its pack. The event itself is not changed."""
        if event.partial or not event.content:
            return None
        talk = _Talk(invocation_context, event.branch, event.isolation_scope)
        key = (*talk.names, talk.key, event.invocation_id, event.author)
        is_reply = event.content.role == "model" and event.author != "user"
        pack = self._packs.pop(key, None) if is_reply and to_messages(event) else None
        if talk.is_ours:
            if pack is not None:
                self._transcripts.expect_reply(event.id, pack)
        else:
            await run_blocking(self._record, talk, event, pack)
        return None

    @override
    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Store the start of a tool, before it runs."""
        if isinstance(tool, PackTool) or not tool_context.function_call_id:
            return None
        talk = _Talk(tool_context.get_invocation_context(), tool_context.branch, tool_context.isolation_scope)
        before = current_call()
        started = await run_blocking(self._start, talk, tool_context.function_call_id, tool.name)
        if isinstance(started, str):
            return {"error": started}
        self._remember(self._runs, (*talk.names, talk.key, tool_context.function_call_id), _Run(started, before))
        _CURRENT.set(started.started or _name_call(talk, tool_context.function_call_id, tool.name, tool_args))
        return None

    @override
    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """Store the result of a tool. A tool that runs long, and has none yet, stays open; one that waits for a
        confirmation or a credential may start again."""
        run = self._end(tool_context)
        actions, call_id = tool_context.actions, tool_context.function_call_id
        if run is None:
            return None
        if call_id in actions.requested_tool_confirmations or call_id in actions.requested_auth_configs:
            await run_blocking(run.pause)
        elif result or not tool.is_long_running:
            await run_blocking(run.finish, accept_json(to_json(result)))
        return None

    @override
    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: BaseException
    ) -> dict[str, Any] | None:
        """Store the error of a tool. A cancelled tool may have taken effect: its outcome stays unknown."""
        run = self._end(tool_context)
        if run is not None and not isinstance(error, asyncio.CancelledError):
            with contextlib.suppress(HoldfastError):  # the error of the tool is raised
                await run_blocking(run.finish, accept_text(describe_error(error)), is_error=True)
        return None

    def _end(self, tool_context: ToolContext) -> ToolRun | None:
        talk = _Talk(tool_context.get_invocation_context(), tool_context.branch, tool_context.isolation_scope)
        ended = self._runs.pop((*talk.names, talk.key, tool_context.function_call_id or ""), None)
        if ended is None:
            return None
        _CURRENT.set(ended.before)
        return ended.run

    def _start(self, talk: _Talk, call_id: str, name: str) -> ToolRun | str:
        """Store the start of a call; a text for the model, if the tool must not run."""
        session = self._conversations.branch(*talk.names, talk.key)
        runs = ToolRuns(session, unknown=self._unknown, repeatable=self._repeatable)
        try:
            return runs.start(accept_id(call_id), name)
        except CallAnswered:  # ADK went on without it, and runs it now: the result is told as a later one
            self._transcripts.expect_late_result(call_id)
            return ToolRun(session, None)
        except OutcomeUnknown as error:
            told = runs.tells(error)
            if told is None:
                raise
            return told

    def _build_request(
        self, talk: _Talk, contents: list[types.Content], agent: str
    ) -> tuple[holdfast.Pack, list[types.Content], holdfast.Session] | None:
        shadow = self._follow(talk)
        if self._budget is None:
            return None
        pack = self._pack(shadow.session, self._budget)
        known = shadow.known_ids()
        events = [each for each in live_events(talk.session.events) if belongs_to(each, talk.branch, talk.scope)]
        calls = [
            accept_id(response.id)
            for event in events
            for response in event.get_function_responses()
            if response.id and event.author != "user"
        ]
        view = read_view(show_pack(pack, shadow), [*known, *calls])
        return pack, arrange_contents(contents, events, agent, view), shadow.session

    def _pack(self, session: holdfast.Session, budget: int) -> holdfast.Pack:
        """A pack. ADK asks the model although calls have no result: they were interrupted, or wait for a client."""
        try:
            return session.pack(budget=budget, **self._pack_options)
        except CallsOpen:
            session.close_calls("interrupted, or still waiting")
            return session.pack(budget=budget, **self._pack_options)

    def _follow(self, talk: _Talk) -> Shadow:
        """The shadow of a conversation, up to date. Holdfast's own service has recorded the main one."""
        session = self._conversations.branch(*talk.names, talk.key)
        is_read_here = not talk.key or (talk.scope != "" and not talk.is_ours)
        observe = self._observe and is_read_here and not talk.is_nested
        shadow = self._transcripts.shadow(session, observe=observe)
        if talk.key or not talk.is_ours:
            shadow.follow(list_messages(talk.session.events, talk.branch, talk.scope))
        return shadow

    def _record(self, talk: _Talk, event: Event, pack: holdfast.Pack | None) -> None:
        """Record an event of another session service, in its place."""
        messages = to_messages(event)
        if not messages:
            return
        shadow = self._follow(talk)
        record_messages(shadow.session, event, messages, pack)

    def _remember(self, kept: OrderedDict[tuple[str, ...], Any], key: tuple[str, ...], value: object) -> None:
        kept[key] = value
        while len(kept) > _KEPT:
            kept.popitem(last=False)


def _name_call(talk: _Talk, call_id: str, name: str, args: dict[str, Any]) -> StartedCall:
    """A call that the transcript does not have open. Its key is the same for every attempt."""
    digest = hashlib.sha256("\0".join((*talk.names, call_id)).encode("utf-8", "replace")).hexdigest()
    return StartedCall(call=call_id, name=name, args=to_json(args), key=digest[:32], attempt=1)


def _offer_tools(request: LlmRequest, session: holdfast.Session) -> None:
    """Offer the tools of a pack, unless the request cannot have functions beside what it has."""
    given = request.config.tools or []
    if any(getattr(tool, "function_declarations", None) is None for tool in given):
        return
    if not given and request.config.response_schema is not None:
        return
    tools = [tool for tool in PackTool.of(session) if tool.name not in request.tools_dict]
    request.append_tools(list(tools))
