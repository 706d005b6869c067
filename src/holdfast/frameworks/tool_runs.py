"""Tools that a framework runs: their start is stored before, and their result after.

    with ToolRuns(session).run("call_7") as run:
        run.finish(pay(key=current_call().key))

Law: a call that was started and has no result is not run again, unless the program says that it may.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import holdfast
from holdfast.errors import CallNotFound, HoldfastError, OutcomeUnknown
from holdfast.flows.sessions.tools import describe_error
from holdfast.frameworks.lost_runs import mark_outcome
from holdfast.model.frames.frames import StartedCall

UnknownOutcome = Literal["raise", "tell", "repeat"]
"""What happens when a framework runs a call again whose first run has no result: OutcomeUnknown is raised; the model is
told, and nothing runs; or the tool runs again."""

_RUN_TOKENS = 1
"""The budget of the frame of one run: it calls no model."""
_PAUSE = "tool_pause"
"""The kind of the entries for calls that wait for input."""
_CURRENT: contextvars.ContextVar[StartedCall | None] = contextvars.ContextVar("holdfast_call", default=None)
_LOOKUP: contextvars.ContextVar[Callable[[], StartedCall | None] | None] = contextvars.ContextVar(
    "holdfast_call_lookup", default=None
)


def announce_call(lookup: Callable[[], StartedCall | None]) -> None:
    """From now on, current_call() of this task and of those that it starts is what `lookup` returns then. For frameworks
    whose hooks run in another task than the tool, where the call starts."""
    _LOOKUP.set(lookup)


def current_call() -> StartedCall | None:
    """The tool call that is running here, inside a tool; None outside of one. Its `key` is the idempotency key: pass it to
    the system that the tool changes."""
    lookup = _LOOKUP.get()
    return _CURRENT.get() or (None if lookup is None else lookup())


class ToolRun:
    """One run of a tool call: finish() stores its result."""

    def __init__(self, session: holdfast.Session | holdfast.Frame, started: StartedCall | None) -> None:
        self._session = session
        self.started = started
        """None if the session does not know the call: then nothing is stored."""
        self.is_finished = started is None

    def finish(self, value: object, *, is_error: bool = False) -> None:
        """Store the result. Later calls change nothing."""
        if self.started is not None and not self.is_finished:
            self._session.result(self.started.call, value, is_error=is_error)
            self.is_finished = True

    def finish_blocks(self, blocks: Sequence[dict[str, Any]], *, is_error: bool = False) -> None:
        """Store the result as content blocks of a provider, such as images."""
        if self.started is not None and not self.is_finished:
            message = {"role": "tool", "tool_call_id": self.started.call, "content": [*blocks], "is_error": is_error}
            self._session.record(message)
            self.is_finished = True

    def keep_late(self, value: object, *, is_error: bool = False) -> None:
        """Keep a result that came after the call was given up, as evidence beside the conversation."""
        if self.started is not None and not self.is_finished:
            late = {"role": "tool", "tool_call_id": self.started.call, "content": value, "is_error": is_error}
            self._session.record_all([late], as_found=True)
            self.is_finished = True

    def pause(self) -> None:
        """Store that this run ended on purpose, to wait for input: the call may start again, in any process."""
        if self.started is not None and not self.is_finished and isinstance(self._session, holdfast.Session):
            key = _pause_key(self.started.key, self.started.attempt)
            self._session.entries.append(_PAUSE, key, {"call": self.started.call})
            self.is_finished = True

    @contextlib.contextmanager
    def bind(self) -> Iterator[None]:
        """Inside this block, current_call() is this call. For frameworks that await their tools: start() and finish()
        block, and run in a thread."""
        token = _CURRENT.set(self.started)
        try:
            yield
        finally:
            _CURRENT.reset(token)


class ToolRuns:
    """Runs the tools of a conversation under Holdfast's intents.

    `unknown` says what happens to a call whose earlier run has no result; tools in `repeatable` are run again in any case:
    name those that change nothing, or take effect once per idempotency key."""

    def __init__(
        self,
        session: holdfast.Session | holdfast.Frame,
        *,
        unknown: UnknownOutcome = "raise",
        repeatable: Sequence[str] = (),
    ) -> None:
        self._session = session
        self._unknown = unknown
        self._repeatable = frozenset(repeatable)

    def start(self, call_id: str, name: str = "") -> ToolRun:
        """Store that a call starts, by the id of the provider. Raises OutcomeUnknown if it was started before: tells() says
        whether that is for the model."""
        again = self._unknown == "repeat" or name in self._repeatable
        try:
            return ToolRun(self._session, self._session.start_call(call_id, again=again))
        except CallNotFound:
            return ToolRun(self._session, None)
        except OutcomeUnknown as error:
            if not self.was_paused(error.key, error.attempts):
                raise
            return ToolRun(self._session, self._session.start_call(call_id, again=True))

    def was_paused(self, key: str, attempts: int) -> bool:
        """Whether the last run of a call ended to wait for input: the key of the call, and how often it was started."""
        session = self._session
        return isinstance(session, holdfast.Session) and session.entries.get(_pause_key(key, attempts)) is not None

    @contextlib.contextmanager
    def run(self, call_id: str, name: str = "") -> Iterator[ToolRun]:
        """Store the start of a call, and run the block as its tool. An exception becomes an error result, and is raised."""
        run = self.start(call_id, name)
        try:
            with run.bind():
                yield run
        except Exception as error:
            with contextlib.suppress(HoldfastError):  # the error of the tool is raised
                run.finish(describe_error(error), is_error=True)
            raise

    def tells(self, error: OutcomeUnknown) -> str | None:
        """The text for the model, if it is to be told of an unknown outcome; the call is closed with it. None if the error
        is to be raised."""
        if self._unknown != "tell":
            return None
        text = describe_unknown(error)
        self._session.result(error.call, text, is_error=True, metadata=mark_outcome("unknown", error.key))
        return text


def open_run(session: holdfast.Session, name: str, arguments: dict[str, Any]) -> tuple[holdfast.Frame, str]:
    """A frame for one run of a tool, with its call: for frameworks that store no calls, or store them late."""
    frame = session.frame(f"Run the tool {name}", budget=_RUN_TOKENS)
    given = {each: _read_argument(value) for each, value in arguments.items()}
    reply = frame.record("assistant", tool_calls=[{"name": name, "args": given}], pack=False)
    return frame, reply.tool_calls[0].id


def _read_argument(value: object) -> Any:
    """An argument as JSON. What has no JSON form does not come from the model, such as the context of the agent."""
    try:
        return holdfast.conversion.to_json("the arguments", value)
    except HoldfastError:
        return f"[a value of type {type(value).__name__}]"


def finish_run(run: ToolRun, value: object, *, is_error: bool = False) -> None:
    """Store the result of a run: a value, or, as a list of dicts, content blocks."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        run.finish_blocks(value, is_error=is_error)
    else:
        run.finish(value, is_error=is_error)


def _pause_key(key: str, attempt: int) -> str:
    return f"{_PAUSE}/{key}/{attempt}"


def describe_unknown(error: OutcomeUnknown) -> str:
    """What a model is told of a call whose outcome is unknown."""
    return (
        f"Error: the outcome of this call is unknown. It was started before, under the key {error.key}, and was "
        "interrupted. It may have taken effect. Find out before you call the tool again. It did not run now."
    )
