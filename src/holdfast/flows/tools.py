"""Tools: an intent before they run, an outcome after. What has an intent and no outcome is never repeated unasked."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.core import upcast
from holdfast.core.messages import group_of, waiting_for
from holdfast.errors import HoldfastError, InvalidContent, InvalidInput, shown
from holdfast.flows import effects, reading_tool
from holdfast.flows.effects import Flow
from holdfast.flows.inform_frames import event_at
from holdfast.flows.ingest import checked_call_id
from holdfast.flows.load import load
from holdfast.flows.messages import result
from holdfast.flows.place import Place, order
from holdfast.model.commands import StartCall
from holdfast.model.content import Json, ToolCall
from holdfast.model.events import CallStarted, MessageRecorded
from holdfast.model.frames import Started
from holdfast.model.messages import Message
from holdfast.model.names import checked_flag, checked_name
from holdfast.model.state import OpenCall
from holdfast.model.tools import READ_HANDLE, FunctionTool, tools_by_name

_SHOWN_CHARS = 1_000
"""What a model is told of the tools that there are."""


def start(
    place: Place,
    call: ToolCall | OpenCall | str,
    *,
    call_key: str | None = None,
    again: bool = False,
    expect: int | None = None,
    cause: str | None = None,
) -> Flow[Started]:
    """Say that a tool is about to run, before it does. The call stays open until result() says what came of it.

    `call_key` is the idempotency key for whatever the tool changes; without one, it is made of the call's own names.
    Starting it a second time is refused with OutcomeUnknown, unless `again` says that you know what you are doing."""
    command = StartCall(
        scope=place.scope,
        call=checked_call_id(call.id if isinstance(call, ToolCall | OpenCall) else call),
        key=None if call_key is None else checked_name("call key", call_key),
        again=checked_flag("again", again),
        frame=place.frame,
    )
    (recorded,) = (yield from order(place, command, expect=expect, cause=cause)).events
    event = upcast.current(recorded)
    assert isinstance(event, CallStarted), "that is what the command makes"
    name, args = yield from _called(place, event.call)
    return Started(call=event.call, name=name, args=args, key=event.key, attempt=event.attempt)


def _called(place: Place, call: str) -> Flow[tuple[str, Json]]:
    """What a call says."""
    event = yield from event_at(place.scope.stream, group_of(call) or 0)
    if isinstance(event, MessageRecorded):
        for each in event.tool_calls:
            if each.id == call:
                return each.name, each.args
    raise InvalidContent(reason=f"what the call {call} said was erased")


def run(
    place: Place,
    call: ToolCall | OpenCall | str,
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]] | None = None,
    *,
    key_as: str | None = None,
    call_key: str | None = None,
    again: bool = False,
) -> Flow[Message]:
    """Run a tool: the intent is stored, the function is called with the call's arguments, and what it returns is stored as
    the call's result. An exception becomes a result that says so, for the model to see. A call of read_handle, which every
    pack offers, needs no function.

    `function` is a function, a tool made by Tool.from_function(), a list of them, or a mapping by name: the one that is
    called runs. A tool, and a function in a list, gets its arguments checked and converted to the annotated types. A call
    of no known tool, or with other arguments, gets an error for a result, and nothing runs.

    What is returned is converted to JSON by the rule in holdfast.conversion. If that cannot be, the tool has run all the
    same: the result is an error that says so, and where in the value the trouble is.

    With `key_as`, the function gets the call's idempotency key under that name. If it is interrupted, or the process dies,
    the call stays open with its outcome unknown: recover() tells of it, and nothing repeats it unasked."""
    if function is None:
        return (yield from _run_own(place, call, call_key, again))
    known = tools_by_name(function)
    if known is None and not callable(function):
        raise InvalidContent(reason=f"a tool is something to call, not {shown(function)}")
    if key_as is not None:
        checked_name("key_as", key_as)
    started = yield from start(place, call, call_key=call_key, again=again)
    if known is not None and started.name == READ_HANDLE.name and started.name not in known:
        return (yield from _read(place, started))
    try:
        chosen, args = _prepared(started, function if known is None else known, key_as)
    except ValueError as error:
        return (yield from result(place, started.call, f"Error: {error}", is_error=True))
    try:
        value = yield from effects.outside(functools.partial(chosen, **args))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises is its result
        return (yield from result(place, started.call, told(error), is_error=True))
    try:
        return (yield from result(place, started.call, value))
    except InvalidInput as error:
        reason = f"The tool has run, but what it returned cannot be kept: {error}"
    except HoldfastError:
        raise
    except Exception as error:  # noqa: BLE001 - it was still at work: what it returned is read piece by piece
        reason = told(error)
    return (yield from result(place, started.call, reason, is_error=True))


def _run_own(place: Place, call: ToolCall | OpenCall | str, call_key: str | None, again: bool) -> Flow[Message]:
    """Run a call of the tool that reads handles: it needs no function."""
    name = call.name if isinstance(call, ToolCall | OpenCall) else (yield from _name_of(place, checked_call_id(call)))
    if name != READ_HANDLE.name:
        raise InvalidContent(reason=f"only {READ_HANDLE.name} runs without a function; pass the one for {shown(name)}")
    started = yield from start(place, call, call_key=call_key, again=again)
    return (yield from _read(place, started))


def _read(place: Place, started: Started) -> Flow[Message]:
    args = started.args if isinstance(started.args, dict) else {}
    return (yield from result(place, started.call, (yield from reading_tool.answer(place, {**args}))))


def _name_of(place: Place, call: str) -> Flow[str]:
    """The tool that an open call is of."""
    state = yield from load(place.scope.stream, place.context.cache, fresh=True)
    found = waiting_for(state, call, place.frame)
    return "" if found is None else found.name


def _prepared(started: Started, given: Any, key_as: str | None) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The function that a call names, and what it is called with. Raises ValueError, in words for the model."""
    args = started.args
    if type(given) is dict:
        if started.name not in given:
            names = ", ".join(dict.fromkeys((*map(str, given), READ_HANDLE.name)))
            raise ValueError(f"there is no tool {shown(started.name)}. The tools are: {names}"[:_SHOWN_CHARS])
        given = given[started.name]
    if not isinstance(args, dict):
        raise ValueError(f"the arguments are not an object: {shown(args)}")
    if isinstance(given, FunctionTool):
        try:
            args = given.arguments(args)
        except ValueError as error:
            raise ValueError(f"invalid arguments of {given.name}: {error}. The tool did not run.") from error
        given = given.function
    return given, {**args, **({} if key_as is None else {key_as: started.key})}


def told(error: BaseException) -> str:
    """An error in words, for a model or a person."""
    try:
        text = str(error)
        text.encode()
    except Exception:  # noqa: BLE001 - somebody else's __str__
        text = ""
    name: str = type.__dict__["__name__"].__get__(type(error))  # a metaclass may have another
    return f"{name}: {text}" if text else name
