"""Attempts of tool calls: the intent before, the result after, and how an attempt without a result ended.

Laws: a tool that was interrupted by a crash is not run again, unless the program says that it may. A tool that raised, or
that waits for a person, is run again when LangChain says so: that is known of the attempt. A call that has a result is not
run again: its result is returned; also if the thread left the branch with the call, and came back to it. What a result does
not say, such as a change of the state, is stored before it, and is
built again by the rules of LangGraph's strict serializer; what that one does not build as it was is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

import holdfast
from holdfast.conversion import to_json
from holdfast.errors import CallAnswered, EntryConflict, OutcomeUnknown
from holdfast.flows.sessions.tools import describe_error
from holdfast.frameworks.lost_runs import Outcome, is_answer, mark_outcome, read_outcome
from holdfast.frameworks.shadows import RESULT_DIGEST
from holdfast.frameworks.tool_runs import ToolRun, ToolRuns, UnknownOutcome, describe_unknown
from holdfast.langgraph.deflation import pack_bytes, unpack_bytes
from holdfast.langgraph.messages import to_shadow
from holdfast.langgraph.records import AGENT
from holdfast.model.content import Body, Part, ToolResult, text_of
from holdfast.model.sessions.messages import Message
from holdfast.model.state import OpenCall
from holdfast.types import shorten_name

_KIND = f"{AGENT}attempt"
_LATEST = 300
"""The newest messages among which the result of a call of the last reply is."""
_EDIT = f"{AGENT}edit"
_COMMAND = "command"
"""In the metadata of a result: the tool also changed the state of the agent."""
_ANSWER = f"{AGENT}answer"
_SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)

Answer = ToolMessage | Command[Any]
"""What a tool returns."""


class ToolAttempts:
    """The attempts of the tool calls of one session."""

    def __init__(
        self,
        engine: holdfast.Engine,
        session: holdfast.Session,
        *,
        unknown: UnknownOutcome = "raise",
        repeatable: Sequence[str] = (),
    ) -> None:
        self._engine = engine
        self._session = session
        self._repeatable = frozenset(repeatable)
        self._repeats = unknown == "repeat"
        self._runs = ToolRuns(session, unknown=unknown, repeatable=repeatable)
        self._again = ToolRuns(session, unknown="repeat")

    def start(self, call: Mapping[str, Any], earlier: Message | None = None) -> ToolRun | Answer:
        """Store that a tool starts; or return what is to be returned in its place. `earlier` is the result that the same
        call had before its reply was withdrawn."""
        if earlier is not None and (taken := self._take_over(call, earlier)) is not None:
            return taken
        call_id, name = recorded_id(call), str(call["name"])
        try:
            run = self._runs.start(call_id, name)
        except OutcomeUnknown as error:
            if (kept := self._find_kept(error.call)) is not None:
                self._record(error.call, call, kept)
                return kept
            if self._session.entries.get(_key(error.call, error.attempts)) is not None:
                return self._again.start(call_id, name)
            text = self._runs.tells(error)
            if text is None:
                raise
            return ToolMessage(text, tool_call_id=call["id"], name=name, status="error")
        except CallAnswered:
            run = ToolRun(self._session, None)
        if run.started is None:
            return self._find_result(call) or run
        return run

    def _take_over(self, call: Mapping[str, Any], earlier: Message) -> ToolRun | Answer | None:
        """What is known of a call that was recorded again. None if it may run."""
        again = (each for each in self._session.open_calls() if (each.provider_id or each.id) == recorded_id(call))
        waiting = next(again, None)
        if waiting is None or waiting.attempts:
            return None
        if is_answer(earlier):
            answer = self._read_answer(call, earlier, *earlier.tool_results)
            if answer is not None:
                self._keep(waiting.id, answer)
                self._record(waiting.id, call, answer)
            return answer
        outcome, key = read_outcome(earlier)
        if outcome == "unknown" and not self._may_repeat(call):
            error = OutcomeUnknown(call=waiting.id, name=waiting.name, key=key, attempts=1)
            if (text := self._runs.tells(error)) is None:
                raise error
            return ToolMessage(text, tool_call_id=call["id"], name=str(call["name"]), status="error")
        started = self._session.start_call(waiting.id)  # another attempt of the same call: under its key
        return ToolRun(self._session, msgspec.structs.replace(started, key=key))

    def note_edit(self, run: ToolRun, call: Mapping[str, Any]) -> None:
        """Store the arguments that a tool runs with, if they are not those of the model."""
        if run.started is None or (run.started.args == call["args"] and run.started.name == call["name"]):
            return
        body = {"name": call["name"], "args": to_json("the arguments", call["args"])}
        self._append(_EDIT, f"{_EDIT} {run.started.call} {run.started.attempt}", body)

    def finish(self, run: ToolRun, call: Mapping[str, Any], response: object) -> None:
        """Store the result."""
        if run.started is None or run.is_finished:
            return
        self._keep(run.started.call, response)
        self._record(run.started.call, call, response)
        run.is_finished = True

    def _record(self, call_id: str, call: Mapping[str, Any], response: object) -> None:
        answers = [each for each in iterate_results(response) if each.tool_call_id == call["id"]]
        metadata: dict[str, Any] = {} if isinstance(response, ToolMessage) else {_COMMAND: True}
        if answers:
            shadow = to_shadow(answers[-1])
            message = {**shadow.message, "metadata": {**metadata, RESULT_DIGEST: shadow.digest}}
            self._session.record_all([message], as_found=True)
        else:
            self._session.result(call_id, "The tool has run.", metadata=metadata)

    def _keep(self, call_id: str, response: object) -> None:
        """Store an answer that is more than its text, if it can be built again as it is."""
        if isinstance(response, ToolMessage) and type(response.content) is str and response.artifact is None:
            return
        if isinstance(response, Command) and not isinstance(response.update, dict | None):
            return  # pairs would come back as lists
        try:
            data = _SERDE.dumps_typed(response)
            if _SERDE.dumps_typed(_SERDE.loads_typed(data)) != data:
                return
            text = pack_bytes(*data)
        except Exception:  # noqa: BLE001 - a value of the program that has no form, or cannot be compared
            return
        self._append(_ANSWER, f"{_ANSWER} {call_id}", text)

    def _find_kept(self, call_id: str) -> Answer | None:
        entry = self._session.entries.get(shorten_name(f"{_ANSWER} {call_id}"))
        kept: Answer | None = None if entry is None else _SERDE.loads_typed(unpack_bytes(str(entry.body)))
        return kept

    def fail(self, run: ToolRun, error: Exception) -> None:
        """Store that an attempt ended without a result, and how."""
        if run.started is None:
            return
        waits = isinstance(error, GraphBubbleUp)
        body = {"outcome": "interrupted"} if waits else {"outcome": "raised", "error": describe_error(error)}
        self._append(_KIND, _key(run.started.call, run.started.attempt), body)

    def close(self, call: OpenCall, earlier: Message | None = None) -> None:
        """Give a result to a call that the conversation goes on without: the model is told what is known of it. `earlier`
        is the result that it had before its reply was withdrawn."""
        if earlier is not None and not call.attempts:
            (result,) = earlier.tool_results
            known = self._read_text(result)
            self._session.result(call, known, is_error=result.is_error, metadata={**earlier.metadata})
            return
        entry = self._session.entries.get(_key(call.id, call.attempts)) if call.attempts else None
        body = entry.body if entry is not None and isinstance(entry.body, dict) else {}
        outcome: Outcome
        if not call.attempts:
            text, outcome = self._describe_unstarted(call), "not run"
        elif entry is None:
            error = OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
            text, outcome = describe_unknown(error), "unknown"
        elif body.get("outcome") == "raised":
            text, outcome = f"Error: {body.get('error')}", "raised"
        else:
            text, outcome = "Error: this call was interrupted, to wait for an answer, and was not completed.", "waits"
        self._session.result(call, text, is_error=True, metadata=mark_outcome(outcome, call.key))

    def _describe_unstarted(self, call: OpenCall) -> str:
        request = self._session.find_message(call.provider_id or call.id)
        made = [each for each in request.tool_calls if each.id == call.id] if request is not None else []
        if any(isinstance(each.args, str) for each in made):
            return "Error: the arguments of this call could not be parsed. It was not run."
        return "Error: this call was not run."

    def _append(self, kind: str, key: str, body: Any) -> None:
        try:
            self._session.entries.append(kind, shorten_name(key), body)
        except EntryConflict:
            return  # another process noted the same attempt otherwise

    def _find_result(self, call: Mapping[str, Any]) -> Answer | None:
        """The result that a call has already: the process stopped before LangChain had stored it."""
        request = self._session.find_message(recorded_id(call))
        made = {each.id for each in request.tool_calls if each.provider_id == recorded_id(call)} if request else {}
        for message in reversed(self._session.messages(limit=_LATEST)) if made else ():
            for result in message.tool_results:
                if result.tool_call_id not in made or message.withdrawn:
                    continue
                return self._read_answer(call, message, result)
        return None

    def _read_answer(self, call: Mapping[str, Any], message: Message, result: ToolResult) -> Answer | None:
        """What a tool returned, from its recorded result. None if it is not known, and the tool may run again."""
        if (kept := self._find_kept(result.tool_call_id)) is not None:
            return kept
        if message.metadata.get(_COMMAND):  # how it changed the state of the agent is not known
            if self._may_repeat(call):
                return None
            raise CallAnswered(session=self._session.scope.session, call=result.tool_call_id)
        status: Literal["error", "success"] = "error" if result.is_error else "success"
        text = self._read_text(result)
        return ToolMessage(text, tool_call_id=call["id"], name=str(call["name"]), status=status)

    def _may_repeat(self, call: Mapping[str, Any]) -> bool:
        return self._repeats or call["name"] in self._repeatable

    def _read_text(self, result: ToolResult) -> str:
        return "\n".join(self._read_part(part) for part in result.content)

    def _read_part(self, part: Part) -> str:
        return self._engine.blobs.read(part.ref).decode() if isinstance(part, Body) else text_of((part,))


def iterate_results(response: object) -> Iterator[ToolMessage]:
    """The tool messages in what a tool returned."""
    if isinstance(response, ToolMessage):
        yield response
    elif isinstance(response, Command):
        update = response.update
        fields = update.items() if isinstance(update, dict) else update if isinstance(update, list | tuple) else ()
        for each in fields:
            if isinstance(each, ToolMessage):
                yield each
            elif isinstance(each, tuple) and len(each) == 2 and isinstance(each[1], list | tuple):
                yield from (message for message in each[1] if isinstance(message, ToolMessage))
    elif isinstance(response, list | tuple):
        for each in response:
            yield from iterate_results(each)


def recorded_id(call: Mapping[str, Any]) -> str:
    """The id of a call as the session has it."""
    return str(to_shadow(ToolMessage("", tool_call_id=str(call["id"]), id="-")).message["tool_call_id"])


def _key(call: str, attempt: int) -> str:
    return shorten_name(f"{_KIND} {call} {attempt}")
