"""The history provider of the Agent Framework.

Without `require_per_service_call_history_persistence`, the provider adds middleware to a run: every model call and every
reply is stored when it happens. With it, the framework calls the provider before and after each model call; the pack is
then built there.
"""

from __future__ import annotations

import contextvars
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

from agent_framework import AgentSession, FunctionTool, HistoryProvider, Message, SessionContext, SupportsAgentRun

import holdfast
from holdfast.agent_framework.messages import build_messages, read_usage
from holdfast.agent_framework.middleware import IntentMiddleware, PackMiddleware, is_gated
from holdfast.agent_framework.transcripts import HistoryTranscript, ReplyContext, find_answers
from holdfast.errors import InvalidArgument
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.frameworks.shown import show_pack
from holdfast.frameworks.tool_runs import UnknownOutcome
from holdfast.model.names import check_options
from holdfast.types import shorten_name

DEFAULT_SOURCE = "holdfast"
DEFAULT_SESSION = "default"
MIN_BUDGET = 500
KEPT_TRANSCRIPTS = 256
"""How many conversations are kept in memory. Others are read again when they go on."""
_CHARS_PER_TOKEN = 4


class PackedMessages(NamedTuple):
    """What a model call is sent."""

    pack: holdfast.Pack
    messages: list[Message]
    instructions: list[str]
    """What the pack says of the user and the rules."""


class _Save(NamedTuple):
    """The call in which messages are saved."""

    after: int | None = None
    reply: ReplyContext | None = None


_SAVE: contextvars.ContextVar[_Save] = contextvars.ContextVar("holdfast_save", default=_Save())  # noqa: B039 - it is immutable

_ANSWERED: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("holdfast_answered", default=())
"""The calls that the input of the current call answers."""


class HistoryProviderOptions(TypedDict, total=False):
    """Options of HoldfastHistoryProvider. `user` and `actor` are those of engine.session(); the others are the
    framework's."""

    user: str | None
    actor: str
    load_messages: bool
    store_inputs: bool
    store_outputs: bool
    store_context_messages: bool
    store_context_from: set[str] | None


class HoldfastHistoryProvider(HistoryProvider):
    """Keeps the history of agent sessions in Holdfast.

        agent = Agent(client=client, context_providers=[HoldfastHistoryProvider(engine, budget=24_000)])

    With a `budget`, every model call gets a pack of at most that many tokens, instructions and tools included, in place of
    the whole history; without one, it gets the history. `pack_options` are options of session.pack().

    `unknown` says what happens to a tool call of an earlier process that was started and has no result: OutcomeUnknown is
    raised, or the model is told; with "repeat", a call that the framework runs again is run. Tools in `repeatable` are run
    again in any case. HistoryProviderOptions lists all options."""

    def __init__(
        self,
        engine: holdfast.Engine,
        source_id: str = DEFAULT_SOURCE,
        *,
        budget: int | None = None,
        pack_options: holdfast.PackOptions | None = None,
        unknown: UnknownOutcome = "raise",
        repeatable: Sequence[str] = (),
        **options: Unpack[HistoryProviderOptions],
    ) -> None:
        check_options("HoldfastHistoryProvider", HistoryProviderOptions, options)
        self._options: dict[str, Any] = {"user": options.pop("user", None), "actor": options.pop("actor", "main")}
        theirs: dict[str, Any] = {**options}
        super().__init__(source_id, **theirs)
        self._stores_all = self.store_inputs and self.store_outputs
        if budget is not None and not (self._stores_all and self.load_messages):
            reason = "packs need the whole conversation: use it with load_messages, store_inputs and store_outputs"
            raise InvalidArgument(argument="budget", reason=reason)
        self._engine = check_engine(engine)
        self.budget = budget
        self.unknown: UnknownOutcome = unknown
        self.repeatable = tuple(repeatable)
        self._pack_options: Any = pack_options or {}
        self._transcripts: OrderedDict[str, HistoryTranscript] = OrderedDict()
        self._lock = threading.Lock()

    def transcript(self, session_id: str | None) -> HistoryTranscript:
        """The conversation of an agent session. It is created if there is none."""
        name = session_id or DEFAULT_SESSION
        with self._lock:
            if name not in self._transcripts:
                thread = None if self.source_id == DEFAULT_SOURCE else shorten_name(self.source_id)
                session = self._engine.session(shorten_name(name), thread=thread, create=True, **self._options)
                self._transcripts[name] = HistoryTranscript(session)
                if len(self._transcripts) > KEPT_TRANSCRIPTS:
                    self._transcripts.popitem(last=False)
            self._transcripts.move_to_end(name)
            return self._transcripts[name]

    def conversation(self, session_id: str | None) -> holdfast.Session:
        """The Holdfast session of an agent session."""
        return self.transcript(session_id).session

    async def get_messages(
        self,
        session_id: str | None,
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002 - of the interface
        **_: Any,
    ) -> list[Message]:
        """The stored messages of an agent session."""
        answered = _ANSWERED.get()
        return await run_blocking(lambda: self.transcript(session_id).read(answered))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,  # noqa: ARG002 - of the interface
        **_: Any,
    ) -> None:
        """Store messages. Those that the current run stored before are known."""
        save = _SAVE.get()
        listed = list(messages)
        await run_blocking(
            lambda: self.transcript(session_id).add(listed, after=save.after, is_saved=True, reply=save.reply)
        )

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Load the history, and add what stores and packs each model call."""
        transcript, after = await run_blocking(self._begin, context.session_id)
        context.metadata[self._mark] = after
        is_per_call = bool(getattr(agent, "require_per_service_call_history_persistence", False))
        stores = self._stores_all and not is_gated()
        if is_per_call and stores and self.budget is not None:
            await run_blocking(self._pack_call, transcript, context, _read_options(agent))
        else:
            token = _ANSWERED.set(tuple(find_answers(context.input_messages)))
            try:
                await super().before_run(agent=agent, session=session, context=context, state=state)
            finally:
                _ANSWERED.reset(token)
            if stores and not is_per_call:
                context.extend_middleware(self.source_id, IntentMiddleware(self))
                context.extend_middleware(self.source_id, PackMiddleware(self, transcript, after))
        if stores and self.budget is not None:
            context.extend_tools(self.source_id, await run_blocking(self._build_tools, transcript))

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Save what the run added."""
        response = context.response
        usage = read_usage(response.usage_details) if response is not None else None
        pack = context.metadata.pop(self._mark + ".pack", None)
        token = _SAVE.set(_Save(context.metadata.get(self._mark), ReplyContext(pack, usage)))
        try:
            await super().after_run(agent=agent, session=session, context=context, state=state)
        finally:
            _SAVE.reset(token)

    def build_pack(
        self, transcript: HistoryTranscript, foreign: Sequence[Message], options: Mapping[str, Any]
    ) -> PackedMessages | None:
        """The pack of a model call beside the messages of other providers; None without a budget."""
        if self.budget is None:
            return None
        session = transcript.session
        if session.open_calls():
            session.close_calls("the agent went on without a result")
        budget = max(MIN_BUDGET, self.budget - sum(len(message.text) for message in foreign) // _CHARS_PER_TOKEN)
        brief = holdfast.Brief(
            prompt=_read_instructions(options),
            tools=_describe_tools(options.get("tools")),
            read_handle=False,
            recall_memory=False,
        )
        pack = session.pack(budget=budget, brief=brief, **self._pack_options)
        transcript.shadow.known_ids()
        shown = [*show_pack(pack, transcript.shadow)]
        own = [each for each in shown if each.message is None or each.message.seq]
        beside = [each for each in shown if each.message is not None and not each.message.seq]
        instructions = [each.text for each in beside if each.message is not None and each.message.id != "brief"]
        return PackedMessages(pack, build_messages(own, transcript.find_contents), instructions)

    @property
    def _mark(self) -> str:
        return f"holdfast.{self.source_id}"

    def _begin(self, session_id: str | None) -> tuple[HistoryTranscript, int]:
        transcript = self.transcript(session_id)
        transcript.settle(self.unknown)
        return transcript, transcript.position()

    def _pack_call(self, transcript: HistoryTranscript, context: SessionContext, options: Mapping[str, Any]) -> None:
        """Build the pack of one model call: with its input, which is stored now."""
        transcript.add(context.input_messages, after=context.metadata[self._mark], is_saved=False)
        foreign = context.get_messages(exclude_sources={self.source_id})
        packed = self.build_pack(transcript, foreign, options)
        assert packed is not None, "there is a budget"
        context.input_messages = []
        context.extend_messages(self, packed.messages)
        if packed.instructions:
            context.extend_instructions(self.source_id, packed.instructions)
        context.metadata[self._mark + ".pack"] = packed.pack

    def _build_tools(self, transcript: HistoryTranscript) -> list[FunctionTool]:
        """The tools by which a model reads what a pack shows only in part, and what was said earlier."""
        session = transcript.session
        functions: list[Any] = [session.handles.tool()]
        if session.state().has_memory:
            functions.append(session.recall_tool())
        return [
            FunctionTool(
                name=function.name,
                description=function.description,
                func=lambda _function=function, **arguments: _function(**arguments),
                input_model=function.parameters,
                approval_mode="never_require",
            )
            for function in functions
        ]


def _read_options(agent: object) -> Mapping[str, Any]:
    options = getattr(agent, "default_options", None)
    return options if isinstance(options, Mapping) else {}


def _read_instructions(options: Mapping[str, Any]) -> str:
    given = options.get("instructions")
    return given if isinstance(given, str) else "\n".join(map(str, given or ()))


def _describe_tools(tools: object) -> tuple[holdfast.Tool, ...]:
    """The tools of a model call, as a brief has them."""
    listed = tools if isinstance(tools, Sequence) else [] if tools is None else [tools]
    return tuple(
        holdfast.Tool(name=tool.name, description=tool.description, parameters=tool.parameters())
        for tool in listed
        if isinstance(tool, FunctionTool)
    )
