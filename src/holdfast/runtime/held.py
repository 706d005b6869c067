"""What users hold of a session: itself, and the frames in it. Each operation is written once, as a flow; here it blocks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from holdfast.errors import HoldfastError, InvalidContent
from holdfast.flows import frames as frame_flows
from holdfast.flows import (
    handles,
    knowing,
    manifests,
    observing,
    packing,
    paging,
    planning,
    reading,
    recovering,
    situations,
    spending,
    suspending,
    tools,
    views,
)
from holdfast.flows import history as history_flows
from holdfast.flows import layers as layer_flows
from holdfast.flows import ledgers as ledger_flows
from holdfast.flows import messages as message_flows
from holdfast.flows import sessions as session_flows
from holdfast.flows import summaries as summary_flows
from holdfast.flows.effects import Flow
from holdfast.flows.manifests import Built
from holdfast.flows.place import LedgerPlace, Place
from holdfast.model.frames import Ending
from holdfast.model.messages import Message
from holdfast.model.names import LedgerId, Scope
from holdfast.model.tools import FunctionTool, tools_by_name
from holdfast.runtime import reproducing
from holdfast.runtime.reader import reader as reading_tool
from holdfast.runtime.situating import situation_tool as situating_tool

P = ParamSpec("P")
T = TypeVar("T")


def blocking(flow: Callable[Concatenate[Any, P], Flow[T]]) -> Callable[Concatenate[Any, P], T]:
    """A flow over a place as a method that blocks."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = self._drive(flow(self._place, *args, **kwargs))
        return answer

    return functools.update_wrapper(method, flow)


def on_ledger(flow: Callable[Concatenate[LedgerPlace, P], Flow[T]]) -> Callable[Concatenate[Any, P], T]:
    """A flow over a ledger as a method that blocks."""
    return blocking(ledger_flows.with_current_identity(flow))


def building(flow: Callable[Concatenate[Any, P], Flow[T]]) -> Callable[Concatenate[Any, P], T]:
    """A flow that builds a pack as a method: the handle remembers it for the reply."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._built = self._drive(flow(self._place, *args, **kwargs))
        answer: T = self._built
        return answer

    return functools.update_wrapper(method, flow)


def tying(flow: Callable[Concatenate[Any, P], Flow[Message]]) -> Callable[Concatenate[Any, P], Message]:
    """A flow that records as a method: a reply goes with the pack that was built last."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Message:
        built = self._built
        message: Message = self._drive(flow(self._place, *args, **with_built(built, kwargs)))
        self._forget(built, message, kwargs.get("pack"))
        return message

    return functools.update_wrapper(method, flow)


def with_built(built: Any, named: dict[str, Any]) -> Any:
    return named if built is None or named.get("pack") is not None else {**named, "pack": Built(built)}


def held(flow: Callable[Concatenate[Any, P], Flow[Place]]) -> Callable[Concatenate[Any, P], Frame]:
    """A flow that comes to a frame as a method that returns it."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Frame:
        return Frame(self._drive, self._drive(flow(self._place, *args, **kwargs)))

    return functools.update_wrapper(method, flow)


def shelved(flow: Callable[Concatenate[Any, P], Flow[LedgerPlace]]) -> Callable[Concatenate[Any, P], Ledger]:
    """A flow that comes to a ledger as a method that returns it."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Ledger:
        return Ledger(self._drive, self._drive(flow(self._place, *args, **kwargs)))

    return functools.update_wrapper(method, flow)


class Held:
    def __init__(self, drive: Callable[[Flow[Any]], Any], place: Place) -> None:
        self._drive = drive
        self._place = place
        self._built: Any = None
        """The pack that was built last and that no reply was recorded to."""

    def _forget(self, built: Any, message: Message, given: Any) -> None:
        """A pack is answered once."""
        new = built is not None and message.seq > built.history.version  # else it is an old one, said again
        if new and message.role == "assistant" and given in (None, built) and self._built is built:
            self._built = None

    @property
    def scope(self) -> Scope:
        return self._place.scope

    @property
    def id(self) -> str:
        return self._place.frame or self._place.scope.session

    def __repr__(self) -> str:
        frame = "" if self._place.frame is None else f" frame {self._place.frame}"
        return f"<{type(self).__name__} {self._place.scope.stream}{frame}>"


def ending_for(error: BaseException | None) -> tuple[Ending, str]:
    """How a frame ends whose body was left with this."""
    if error is None:
        return "completed", ""
    return "failed" if isinstance(error, Exception) else "cancelled", tools.told(error)


class _Working(Held):
    """What a session and a frame have in common."""

    record = tying(message_flows.record)
    record_all = blocking(message_flows.record_all)
    result = blocking(message_flows.result)
    close_open_calls = blocking(message_flows.close_open_calls)
    start = blocking(tools.start)
    read_handle = blocking(frame_flows.read_handle)
    read_text = blocking(reading.read_text)
    reader = reading_tool
    situation = blocking(situations.situation)
    update_situation = blocking(situations.update_situation)
    refresh_situation = blocking(situations.refresh_situation)
    situation_tool = situating_tool
    act = blocking(situations.act)
    actions = blocking(situations.actions)
    reasoning_context = blocking(situations.reasoning_context)
    window = blocking(views.window)
    draft_summary = blocking(views.draft_summary)
    summarize = blocking(views.summarize)
    summaries = blocking(summary_flows.summaries)
    replace_summary = blocking(summary_flows.replace_summary)
    improve_summaries = blocking(summary_flows.improve_summaries)
    history = blocking(history_flows.history)
    render = blocking(history_flows.render)
    plan = blocking(planning.plan)
    prepare = blocking(planning.prepare)
    compact = blocking(planning.compact)
    pack = building(packing.pack)
    piece = blocking(paging.piece)
    pieces = blocking(paging.pieces)
    handle = blocking(handles.handle)
    occupancy = blocking(handles.occupancy)
    page_out = blocking(paging.page_out)
    page_in = blocking(paging.page_in)
    packs = blocking(manifests.packs)
    manifest = blocking(manifests.manifest)
    diff = blocking(manifests.diff)
    keep = blocking(manifests.keep)
    reproduce = blocking(reproducing.reproduce)
    frame = held(frame_flows.push)

    def run(
        self,
        call: Any,
        function: Callable[..., Any] | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]] | None = None,
        *,
        key_as: str | None = None,
        call_key: str | None = None,
        again: bool = False,
    ) -> Message:
        import inspect  # noqa: PLC0415 - a good part of the time of an import

        known = tools_by_name(function)
        given = function if known is None else known
        for each in (function,) if known is None else known.values():
            if inspect.iscoroutinefunction(each.function if isinstance(each, FunctionTool) else each):
                raise InvalidContent(reason="a coroutine function cannot run here: use an engine of open_async()")
        flow = tools.run(self._place, call, given, key_as=key_as, call_key=call_key, again=again)
        message: Message = self._drive(flow)
        return message

    run.__doc__ = tools.run.__doc__


class Session(_Working):
    """One session. Holds no state of its own: any process may hold another handle to the same session."""

    messages = blocking(message_flows.messages)
    evidence = blocking(message_flows.evidence)
    events = blocking(message_flows.events)
    state = blocking(session_flows.state)
    reset = blocking(session_flows.reset)
    close = blocking(session_flows.close)
    destroy = blocking(session_flows.destroy)
    erase = blocking(session_flows.erase)
    refresh_identity = blocking(layer_flows.refresh_identity)
    set_working = blocking(layer_flows.set_working)
    working = blocking(layer_flows.working)
    clear_working = blocking(layer_flows.clear_working)
    set_environment = blocking(layer_flows.set_environment)
    environment = blocking(layer_flows.environment)
    clear_environment = blocking(layer_flows.clear_environment)
    observe = blocking(observing.observe)
    proposals = blocking(observing.waiting)
    accept = blocking(observing.accept)
    decline = blocking(observing.decline)
    fact = blocking(observing.fact)
    search = blocking(observing.search)
    ledger = shelved(observing.ledger)
    frames = blocking(frame_flows.listed)
    stack = blocking(frame_flows.stack)
    recover = blocking(recovering.recover)
    get_frame = held(frame_flows.get)


class Frame(_Working):
    """A unit of work in a session. Holds no state of its own: any process may hold another handle to the same frame.

    As a context manager it ends when its block is left: completed, or failed with the error's text, and all below it
    cancelled. What was suspended in the block rests on; what was popped in it stays as it was popped."""

    state = blocking(frame_flows.state)
    ancestry = blocking(frame_flows.ancestry)
    spend = blocking(frame_flows.spend)
    update = blocking(frame_flows.update)
    reserve = blocking(spending.reserve)
    commit = blocking(spending.commit)
    cancel = blocking(spending.cancel)
    use = blocking(spending.use)
    grant = blocking(spending.grant)
    add_handle = blocking(frame_flows.add_handle)
    replace_handle = blocking(frame_flows.replace_handle)
    handles = blocking(frame_flows.handles)
    suspend = blocking(suspending.suspend)
    reissue = blocking(suspending.reissue)
    revoke = blocking(suspending.revoke)
    pop = blocking(frame_flows.pop)

    @property
    def frame_id(self) -> str:
        return self.id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._drive(frame_flows.leave(self._place, *ending_for(error)))
        except HoldfastError:
            if error is None:
                raise  # else the error of the block is what matters


class Shelved:
    def __init__(self, drive: Callable[[Flow[Any]], Any], place: LedgerPlace) -> None:
        self._drive = drive
        self._place = place

    @property
    def id(self) -> LedgerId:
        return self._place.ledger

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._place.ledger}>"


class Ledger(Shelved):
    """What is known of a user, a project, an organisation or in one session, as someone may see it. Holds no state of its
    own: any number of sessions and processes may read and write one ledger at once."""

    assert_ = on_ledger(ledger_flows.assert_)
    assert_all = on_ledger(ledger_flows.assert_all)
    supersede = on_ledger(ledger_flows.supersede)
    retract = on_ledger(ledger_flows.retract)
    expire = on_ledger(ledger_flows.expire)
    promote = on_ledger(ledger_flows.promote)
    endorse = on_ledger(ledger_flows.endorse)
    confirm = on_ledger(ledger_flows.confirm)
    reinstate = on_ledger(ledger_flows.reinstate)
    erase = on_ledger(ledger_flows.erase)
    current = on_ledger(knowing.current)
    get = on_ledger(knowing.get)
    history = on_ledger(knowing.history)
    why = on_ledger(knowing.why)
    facts = on_ledger(knowing.facts)
    review = on_ledger(knowing.review)
    constraints = on_ledger(knowing.constraints)
    search = on_ledger(knowing.search)
