"""Tool calls: the start is stored before the tool runs, the result after.

Law: a call that was started and has no result is never repeated unless the caller asks for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core import upcast
from holdfast.core.sessions.messages import find_open_call
from holdfast.errors import HoldfastError, InvalidArgument, InvalidInput, describe_value
from holdfast.flows import effects
from holdfast.flows.context import SessionContext, execute_command
from holdfast.flows.effects import Flow
from holdfast.flows.frames.lookup import read_event
from holdfast.flows.history import handle_text
from holdfast.flows.load import load_session_state
from holdfast.flows.sessions.ingest import check_call_id
from holdfast.flows.sessions.messages import result
from holdfast.model.content import Json, ToolCall, calling_seq
from holdfast.model.frames.frames import StartedCall
from holdfast.model.names import check_flag, check_name
from holdfast.model.sessions.commands import StartCall
from holdfast.model.sessions.events import CallStarted, MessageRecorded
from holdfast.model.sessions.messages import Message
from holdfast.model.state import OpenCall
from holdfast.model.tools.tool import READ_HANDLE, RECALL_MEMORY, FunctionTool, tools_by_name

_ENGINE_TOOLS = (READ_HANDLE.name, RECALL_MEMORY.name)
"""The tools that need no function."""
_ERROR_CHARS = 1_000
"""The longest list of tools in an error for a model."""


def start(
    context: SessionContext,
    call: ToolCall | OpenCall | str,
    *,
    call_key: str | None = None,
    again: bool = False,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[StartedCall]:
    """Store the start of a tool call, before the tool runs."""
    command = StartCall(
        scope=context.scope,
        call=check_call_id(call.id if isinstance(call, ToolCall | OpenCall) else call),
        key=None if call_key is None else check_name("call key", call_key),
        again=check_flag("again", again),
        frame=context.frame,
    )
    (recorded,) = (yield from execute_command(context, command, expect=expect, cause=cause)).events
    event = upcast.decode_event(recorded)
    assert isinstance(event, CallStarted), "StartCall makes this event"
    name, args = yield from _read_call(context, event.call)
    return StartedCall(call=event.call, name=name, args=args, key=event.key, attempt=event.attempt)


def _read_call(context: SessionContext, call: str) -> Flow[tuple[str, Json]]:
    """The name and the arguments of a call."""
    event = yield from read_event(context.scope.stream, calling_seq(call) or 0)
    if isinstance(event, MessageRecorded):
        for each in event.tool_calls:
            if each.id == call:
                return each.name, each.args
    raise InvalidArgument(argument="call", reason=f"the content of the call {call} was erased")


def run(
    context: SessionContext,
    call: ToolCall | OpenCall | str,
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]] | None = None,
    *,
    key_as: str | None = None,
    call_key: str | None = None,
    again: bool = False,
) -> Flow[Message]:
    """Run a tool call, and record what it returns or raises as its result."""
    if function is None:
        return (yield from _run_engine_tool(context, call, call_key, again))
    steps = CallSteps(
        start=functools.partial(start, context, call, call_key=call_key, again=again),
        finish=functools.partial(result, context),
        answer=functools.partial(_answer_call, context),
    )
    return (yield from run_function(steps, function, key_as=key_as))


class CallSteps(NamedTuple):
    """What running a tool call stores: its start, its result, and the answer of a tool of the engine."""

    start: Callable[[], Generator[Any, Any, StartedCall]]
    finish: Callable[..., Generator[Any, Any, Message]]
    """Gets the id of the call and the value, and perhaps `is_error`."""
    answer: Callable[[StartedCall], Generator[Any, Any, Message]]


def run_function(
    steps: CallSteps,
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]],
    *,
    key_as: str | None = None,
) -> Generator[Any, Any, Message]:
    """Run a function between the start and the result of a call."""
    tools = tools_by_name(function)
    if tools is None and not callable(function):
        raise InvalidArgument(argument="function", reason=f"{describe_value(function)} is not callable")
    if key_as is not None:
        check_name("key_as", key_as)
    started = yield from steps.start()
    if tools is not None and started.name in _ENGINE_TOOLS and started.name not in tools:
        return (yield from steps.answer(started))
    try:
        chosen, args = _prepare_call(started, function if tools is None else tools, key_as)
    except ValueError as error:
        return (yield from steps.finish(started.call, f"Error: {error}", is_error=True))
    try:
        value = yield from effects.run_outside(functools.partial(chosen, **args))
    except Exception as error:  # noqa: BLE001 - an exception of a tool is its result
        return (yield from steps.finish(started.call, describe_error(error), is_error=True))
    try:
        return (yield from steps.finish(started.call, value))
    except InvalidInput as error:
        reason = f"The tool has run, but its return value cannot be stored: {error}"
    except HoldfastError:
        raise
    except Exception as error:  # noqa: BLE001 - the tool returned an iterator that raised
        reason = describe_error(error)
    return (yield from steps.finish(started.call, reason, is_error=True))


def _run_engine_tool(
    context: SessionContext, call: ToolCall | OpenCall | str, call_key: str | None, again: bool
) -> Flow[Message]:
    """Run a call of a tool of the engine, which needs no function."""
    name = (
        call.name
        if isinstance(call, ToolCall | OpenCall)
        else (yield from _open_call_name(context, check_call_id(call)))
    )
    if name not in _ENGINE_TOOLS:
        reason = (
            f"only {' and '.join(_ENGINE_TOOLS)} run without a function; pass the function of {describe_value(name)}"
        )
        raise InvalidArgument(argument="function", reason=reason)
    started = yield from start(context, call, call_key=call_key, again=again)
    return (yield from _answer_call(context, started))


def _answer_call(context: SessionContext, started: StartedCall) -> Flow[Message]:
    """Run a call of a tool of the engine."""
    args = started.args if isinstance(started.args, dict) else {}
    if started.name == READ_HANDLE.name:
        answer = yield from handle_text.run_read_handle(context, {**args})
    else:
        from holdfast.flows.memory.answers import run_recall_memory  # noqa: PLC0415 - a good part of an import's time

        answer = yield from run_recall_memory(context, args)
    return (yield from result(context, started.call, answer))


def _open_call_name(context: SessionContext, call: str) -> Flow[str]:
    """The name of the tool of an open call; empty if there is no such call."""
    state = yield from load_session_state(context.scope.stream, context.engine.cache, fresh=True)
    open_call = find_open_call(state, call, context.frame)
    return "" if open_call is None else open_call.name


def _prepare_call(started: StartedCall, function: Any, key_as: str | None) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that a call names, and its arguments. Raises ValueError with a text for the model."""
    args = started.args
    if type(function) is dict:
        if started.name not in function:
            names = ", ".join(dict.fromkeys((*map(str, function), READ_HANDLE.name)))
            raise ValueError(f"there is no tool {describe_value(started.name)}. The tools are: {names}"[:_ERROR_CHARS])
        function = function[started.name]
    if not isinstance(args, dict):
        raise ValueError(f"the arguments are not an object: {describe_value(args)}")
    if isinstance(function, FunctionTool):
        try:
            args = function.convert_arguments(args)
        except ValueError as error:
            raise ValueError(f"invalid arguments of {function.name}: {error}. The tool did not run.") from error
        function = function.function
    return function, {**args, **({} if key_as is None else {key_as: started.key})}


def describe_error(error: BaseException) -> str:
    """The type and the text of an error, for a model or a person."""
    try:
        text = str(error)
        text.encode()
    except Exception:  # noqa: BLE001 - __str__ of another library
        text = ""
    name: str = type.__dict__["__name__"].__get__(type(error))  # a metaclass may define another __name__
    return f"{name}: {text}" if text else name
