"""One run of an agent on a conversation: its session follows the run's messages. Here everything blocks.

Laws: a reply is recorded with the pack that it answers. A tool call that was started and has no result is not run again
unless the program says so, and a call that has a result is not run again at all. What an interrupted run left behind is
part of the next run if tools ran in it, so that the model does not call them again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

import holdfast
from holdfast import codec
from holdfast.errors import CallAnswered, CallsOpen, HoldfastError, OutcomeUnknown, VersionConflict
from holdfast.frameworks.lost_runs import mark_outcome, read_outcome
from holdfast.frameworks.shadows import Shadow, ShadowMessage, mark_message
from holdfast.frameworks.shown import show_pack
from holdfast.frameworks.tool_runs import ToolRun, ToolRuns, UnknownOutcome
from holdfast.model.sessions.messages import Message
from holdfast.model.state import OpenCall
from holdfast.pydantic_ai.messages import (
    ListedPiece,
    Piece,
    clean,
    convert_message,
    count_before,
    name_call,
    name_pieces,
    restore_response,
    restore_result,
)
from holdfast.pydantic_ai.requests import RequestBuilder

RUN_KIND = "pydantic-ai/run"
"""The kind of the entries that say that a run ended, and with which message."""
_NOT_RUN = "Error: this call did not run. It was interrupted before it began."
_NOT_ANSWERED = (
    "Error: this call has no result. Its tool put it off, to wait for an approval or for a result from elsewhere, and the "
    "conversation went on without one. What it began elsewhere may still go on."
)
_AGAIN = "Error: this call was interrupted. It may have taken effect. It may be called again."
_RUNNING: dict[str, asyncio.Task[Any] | None] = {}
"""The tasks of the tools that run in this process, by the key of the call. One that is done has broken off."""
_ACTIVE: weakref.WeakSet[ConversationRun] = weakref.WeakSet()
"""The runs that are at work in this process."""
_ACTIVE_LOCK = threading.Lock()
_TRIES = 20
"""How often the start of a tool is tried again because another process wrote meanwhile."""
_RECENT = 200
"""How many of the last messages are searched for what an interrupted run left behind."""


class RunSettings(NamedTuple):
    """What all runs of a capability have in common."""

    budget: int | None
    unknown: UnknownOutcome
    repeatable: tuple[str, ...]
    pack_options: dict[str, Any]


class ConversationRun:
    """One run. `has_history` says whether the framework was given the conversation so far; if not, it goes on from the end
    of the session."""

    def __init__(
        self, session: holdfast.Session, shadow: Shadow, settings: RunSettings, *, run_id: str, has_history: bool
    ) -> None:
        self.session = session
        self._shadow = shadow
        self._settings = settings
        self._run_id = run_id
        self._has_history = has_history
        self._tool_runs = ToolRuns(session, unknown=settings.unknown, repeatable=settings.repeatable)
        self._pack: holdfast.Pack | None = None
        self._converted: dict[int, tuple[ModelMessage, int, tuple[Piece, ...]]] = {}
        self._sent: list[tuple[Piece, ...]] = []
        self._before: dict[str, int] | None = None
        """Without a history: how often each content came in the session before the run."""
        self._listed: set[str] = set()
        """Without a history: the names of all messages of the run so far."""
        self.is_first_request = True
        """No request was prepared yet."""

    # Messages

    def _convert(self, messages: Sequence[ModelMessage]) -> list[tuple[Piece, ...]]:
        """Convert each message once; one that the framework completed since, again."""
        converted = []
        for message in messages:
            known = self._converted.get(id(message))
            if known is None or known[1] != len(message.parts):
                known = self._converted[id(message)] = (message, len(message.parts), convert_message(message))
            converted.append(known[2])
        return converted

    def _name(self, converted: Sequence[tuple[Piece, ...]]) -> list[ListedPiece]:
        if self._has_history:
            return name_pieces(converted, self._shadow.known_ids())
        if self._before is None:  # names stay the same in a run, also if another one writes meanwhile
            self._before = count_before(converted, self._shadow.known_ids())
        return name_pieces(converted, before=self._before)

    def follow(self, messages: Sequence[ModelMessage], *, exact: bool = False) -> tuple[list[ListedPiece], list[str]]:
        """Record what is new. With `exact`, what comes after the list was taken back. Returns the pieces of the list, and
        the names of those before a session that is whole."""
        listed = self._name(self._convert(messages))
        shadows = [each.shadow for each in listed]
        if not self._has_history:
            self._listed.update(each.id for each in shadows)
            if self._is_mixed(shadows):
                shadows = self._find_new(listed)
        outcome = self._shadow.follow(shadows, exact=exact, continues=not self._has_history)
        return listed, [each.id for each in outcome.extra]

    def _is_mixed(self, shadows: Sequence[ShadowMessage]) -> bool:
        """Whether another run has recorded messages since the first message of this one."""
        known = self._shadow.known_ids()
        first = known.index(shadows[0].id) if shadows and shadows[0].id in self._shadow.known_names() else len(known)
        return any(name not in self._listed for name in known[first:])

    def _find_new(self, listed: Sequence[ListedPiece]) -> list[ShadowMessage]:
        """What the session does not have yet. Nothing is taken back: it might be of another run."""
        known = self._shadow.known_names()
        new = [each for each in listed if each.shadow.id not in known]
        open_calls = {call.provider_id or call.id for call in self.session.open_calls()}
        open_calls.update(call["id"] for each in new for call in each.piece.fields.get("tool_calls", ()))
        return [each.shadow for each in new if each.piece.call_id is None or each.piece.call_id in open_calls]

    # Model requests

    def prepare(self, messages: list[ModelMessage], parameters: ModelRequestParameters) -> list[ModelMessage]:
        """The messages to send. Record what is new first."""
        listed, extra = self.follow(messages, exact=self.is_first_request and self._has_history)
        self.is_first_request = False
        self._sent = self._convert(messages)
        self._close_calls()
        if self._settings.budget is None:
            self._pack = None
            return messages
        options = self._settings.pack_options
        self._pack = self.session.pack(budget=self._settings.budget, brief=build_brief(messages, parameters), **options)
        return RequestBuilder(messages, listed).build(extra, show_pack(self._pack, self._shadow))

    def record_reply(self, response: ModelResponse) -> None:
        """Record a reply with the pack that it answers."""
        [piece] = convert_message(response)
        if not piece.fields["content"] and "tool_calls" not in piece.fields:
            return  # an empty one is recorded with the next request, if the framework keeps it
        named = self._name([*self._sent, (piece,)])[-1].shadow
        if named.id in self._shadow.known_ids():
            return
        pack, self._pack = self._pack, None
        self.session.record(piece.fields, pack=False if pack is None else pack, metadata=mark_message(named))

    def _close_calls(self) -> None:
        """Close calls that will not run any more: the framework goes on without them."""
        for call in self._list_open_calls():
            text, metadata = _NOT_RUN, mark_outcome("not run")
            if call.attempts:
                text, metadata = _NOT_ANSWERED, mark_outcome("waits", call.key)
            self.session.result(call, text, is_error=True, metadata=metadata)

    def _list_open_calls(self) -> list[OpenCall]:
        return [call for call in self.session.open_calls() if call.frame is None and not _is_running(call)]

    # Interrupted runs

    def begin(self) -> None:
        """The run is at work from now on: until end()."""
        with _ACTIVE_LOCK:
            _ACTIVE.add(self)

    def end(self) -> None:
        """The run is over."""
        with _ACTIVE_LOCK:
            _ACTIVE.discard(self)

    def _is_shared(self) -> bool:
        """Whether another run is at work on the session in this process: what it left so far is not interrupted."""
        engine, scope = self.session._context.engine.cache, self.session.scope
        with _ACTIVE_LOCK:
            others = [each.session for each in _ACTIVE if each is not self]
        return any(each.scope == scope and each._context.engine.cache is engine for each in others)

    def check_running(self) -> None:
        """Before the first request of a run without a history: raise CallsOpen if a tool of another run is running in this
        process, since the run would go on from the middle of that one."""
        running = [call for call in self.session.open_calls() if call.frame is None and _is_running(call)]
        if running and not self._has_history:
            names = ", ".join(f"{call.provider_id or call.id} {call.name}" for call in running)
            what = "another run is at work on the conversation: wait for its end"
            raise CallsOpen(session=self.session.scope.session, count=len(running), calls=names, what=what)

    def check_unknown(self) -> None:
        """Before the first request: do with calls of unknown outcome what the settings say."""
        for call in self._list_open_calls():
            if not call.attempts or self._tool_runs.was_paused(call.key, call.attempts):
                continue
            error = OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
            is_repeatable = self._settings.unknown == "repeat" or call.name in self._settings.repeatable
            if is_repeatable:
                self.session.result(call, _AGAIN, is_error=True)
            elif self._tool_runs.tells(error) is None:
                raise error

    def find_interrupted(self, messages: Sequence[ModelMessage]) -> tuple[int, list[ModelMessage]]:
        """What an interrupted run left behind that the framework does not have, and where it belongs in its list.

        That is so if a tool ran in it, and the framework's list goes on at most with a new request."""
        if not self._has_history or self._is_shared():
            return 0, []
        listed = self._name(self._convert(messages))
        recent = [each for each in self.session.messages(limit=_RECENT) if not each.withdrawn and each.frame is None]
        names = [_name_of(each) for each in recent]
        known = {*self._shadow.known_ids()}
        shared = [each for each in listed if each.shadow.id in known or each.piece.call_id is not None]
        last = next((each for each in reversed(shared) if each.piece.call_id is None), None)
        new = [each for each in listed if each.shadow.id not in known and each.piece.call_id is None]
        if any(each.position != len(messages) - 1 for each in new):
            return 0, []
        if last is not None and last.shadow.id not in names:
            return 0, []
        rest = recent[names.index(last.shadow.id) + 1 :] if last is not None else recent
        if last is None and any(each.position < len(messages) - 1 for each in listed):
            return 0, []
        answered = {each.piece.call_id for each in listed}
        rest = [each for each in rest if not self._is_listed_result(each, recent, answered)]
        if not self._is_interrupted(rest):
            return 0, []
        self._close_calls()
        position = len(messages) - 1 if new else len(messages)
        return position, _restore(self._reread(rest))

    def _is_listed_result(self, message: Message, recent: Sequence[Message], answered: set[str | None]) -> bool:
        calls = {call.id: call.provider_id or call.id for each in recent for call in each.tool_calls}
        results = [calls.get(result.tool_call_id, result.tool_call_id) for result in message.tool_results]
        return bool(results) and all(call in answered for call in results)

    def _is_interrupted(self, rest: Sequence[Message]) -> bool:
        """Whether tools ran in these messages, and no reply ended them."""
        ran = any(each.tool_results and "framework" not in each.metadata for each in rest)
        if not ran or rest[-1].role == "user" or (rest[-1].role == "assistant" and not rest[-1].tool_calls):
            return False
        ended = self.session.entries.list(kind=RUN_KIND, limit=1)
        return not ended or ended[0].body != rest[-1].seq

    def _reread(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, and the results that were added since."""
        first = messages[0].seq
        read = self.session.messages(limit=_RECENT)
        return [each for each in read if each.seq >= first and not each.withdrawn and each.frame is None]

    # Tools

    def start_tool(
        self, messages: list[ModelMessage], call_id: str, name: str, task: asyncio.Task[Any] | None
    ) -> ToolRun:
        """Store that a tool starts, in this task. Raises OutcomeUnknown or CallAnswered if it was started before."""
        call = name_call(call_id)
        with self._shadow.hold():
            if self.is_first_request:  # the history ends with calls: they run before any request
                self.follow(messages)
            run = self._start(messages, call, name)
        if run.started is not None:
            for key in [key for key, other in _RUNNING.copy().items() if other is None or other.done()]:
                _RUNNING.pop(key, None)
            _RUNNING[run.started.key] = task
        return run

    def _start(self, messages: list[ModelMessage], call: str, name: str) -> ToolRun:
        for _ in range(_TRIES):
            try:
                return self._tool_runs.start(call, name)
            except CallAnswered:
                if not self.is_first_request:
                    raise
            with contextlib.suppress(VersionConflict):  # another process wrote meanwhile: look again
                self._take_back(messages, call)
        return self._tool_runs.start(call, name)

    def _take_back(self, messages: list[ModelMessage], call: str) -> None:
        """Take back the answer of a call that has not run, with all that came after: an approval may come when the
        conversation has gone on without the call. Raises CallAnswered if the call has run."""
        version = self.session.state().version
        made = self.session.find_message(call)
        calls = made.tool_calls if made is not None else ()
        own = {each.id for each in calls if call in (each.provider_id, each.id)}
        results = [each for each in self.session.messages(limit=_RECENT) if not each.withdrawn]
        answers = [each for each in results if any(result.tool_call_id in own for result in each.tool_results)]
        spans = self.session.activity(before=made.seq + 1, limit=1) if made is not None else ()
        is_started = not any(each.id in own and not each.key for each in spans)
        if made is None or (is_started and all(read_outcome(each)[0] not in ("not run", "waits") for each in answers)):
            raise CallAnswered(session=self.session.scope.session, call=call)
        self.check_unknown()
        self.session.withdraw(after=made.seq - 1, reason="taken back by the framework", expect=version)
        self.follow(messages)

    def finish_tool(self, run: ToolRun, value: object, *, is_error: bool = False) -> None:
        """Store the result of a tool."""
        try:
            with contextlib.suppress(CallAnswered):  # closed meanwhile
                run.finish(value, is_error=is_error)
        finally:
            self.leave_tool(run)

    def defer_tool(self, run: ToolRun) -> None:
        """Store that a tool put its call off: it waits for an approval, or for a result from elsewhere."""
        self.leave_tool(run)
        run.pause()

    def leave_tool(self, run: ToolRun) -> None:
        """The tool does not run any more. If it has no result, its outcome is unknown."""
        if run.started is not None:
            _RUNNING.pop(run.started.key, None)

    def tell_unknown(self, error: OutcomeUnknown) -> str | None:
        """The text for the model, if it is told of an unknown outcome."""
        return self._tool_runs.tells(error)

    def read_result(self, call_id: str) -> str | None:
        """The result of a call that was answered before."""
        call = name_call(call_id)
        messages = self.session.messages(limit=_RECENT)
        ids = {each.id for message in messages for each in message.tool_calls if call in (each.provider_id, each.id)}
        for message in reversed(messages):
            for result in message.tool_results:
                if result.tool_call_id in ids:
                    value = result.value
                    return value if isinstance(value, str) else codec.encode(value).decode()
        return None

    # The end

    def finish(self, messages: Sequence[ModelMessage], *, is_complete: bool) -> None:
        """Record what the run added last. A run that ends with a result, of an output tool, is marked as complete."""
        with contextlib.suppress(HoldfastError) if not is_complete else contextlib.nullcontext():
            self.follow(messages)
            if is_complete and messages and isinstance(messages[-1], ModelRequest):
                newest = self.session.messages(limit=1)
                if newest:
                    self.session.entries.append(RUN_KIND, f"run/{self._run_id}/{newest[-1].seq}", newest[-1].seq)


def _is_running(call: OpenCall) -> bool:
    """Whether the tool of this call is running in this process."""
    task = _RUNNING.get(call.key) if call.key else None
    return task is not None and not task.done()


def _name_of(message: Message) -> str:
    return str(message.metadata.get("id") or "") if "framework" in message.metadata else ""


def _restore(messages: Sequence[Message]) -> list[ModelMessage]:
    """Messages of the session as messages of the framework: requests and responses."""
    restored: list[ModelMessage] = []
    calls = {call.id: call for message in messages for call in message.tool_calls}
    for message in messages:
        if message.role == "assistant":
            restored.append(restore_response(message))
            continue
        parts: list[ModelRequestPart] = []
        for result in message.tool_results:
            if call := calls.get(result.tool_call_id):
                text = result.value if isinstance(result.value, str) else codec.encode(result.value).decode()
                parts.append(restore_result(message, call, text, is_error=result.is_error))
        if message.role == "user":
            parts.append(_restore_prompt(message))
        last = restored[-1] if restored else None
        if parts and isinstance(last, ModelRequest):
            restored[-1] = ModelRequest(parts=[*last.parts, *parts], timestamp=last.timestamp)
        elif parts:
            restored.append(ModelRequest(parts=parts, timestamp=message.at))
    return restored


def _restore_prompt(message: Message) -> ModelRequestPart:
    return UserPromptPart(message.text, timestamp=message.at)


def build_brief(messages: Sequence[ModelMessage], parameters: ModelRequestParameters) -> holdfast.Brief:
    """What comes first in the request, so that it counts: system prompts, instructions and tools."""
    parts = (part for message in messages for part in message.parts)
    texts = [InstructionPart.join(parameters.instruction_parts or []) or ""]
    texts += (part.content for part in parts if isinstance(part, SystemPromptPart))
    prompt = clean("\n\n".join(filter(None, texts)))
    tools = tuple(map(_describe_tool, (*parameters.function_tools, *parameters.output_tools)))
    return holdfast.Brief(prompt=prompt, tools=tools, read_handle=False, recall_memory=False)


def _describe_tool(tool: ToolDefinition) -> holdfast.Tool:
    return holdfast.Tool(
        name=tool.name, description=tool.description or "", parameters=dict(tool.parameters_json_schema)
    )
