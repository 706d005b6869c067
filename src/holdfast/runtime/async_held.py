"""What users of an event loop hold of a session: the twins of `held`, awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Generator
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
from holdfast.flows.place import LedgerPlace, Place
from holdfast.model.messages import Message
from holdfast.runtime import reproducing
from holdfast.runtime.drive_async import to_the_end
from holdfast.runtime.held import Held, Shelved, ending_for, with_built
from holdfast.runtime.reader import async_reader as reading_tool
from holdfast.runtime.situating import async_situation_tool as situating_tool

P = ParamSpec("P")
T = TypeVar("T")


def awaiting(
    flow: Callable[Concatenate[Any, P], Flow[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A flow over a place as a method to await."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = await self._drive(flow(self._place, *args, **kwargs))
        return answer

    return functools.update_wrapper(method, flow)


def on_ledger(
    flow: Callable[Concatenate[LedgerPlace, P], Flow[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A flow over a ledger as a method to await."""
    return awaiting(ledger_flows.with_current_identity(flow))


def building(
    flow: Callable[Concatenate[Any, P], Flow[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """A flow that builds a pack as a method to await: the handle remembers it for the reply."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = await self._drive(flow(self._place, *args, **kwargs))
        self._built = answer
        return answer

    return functools.update_wrapper(method, flow)


def tying(
    flow: Callable[Concatenate[Any, P], Flow[Message]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, Message]]:
    """A flow that records as a method to await: a reply goes with the pack that was built last."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Message:
        built = self._built
        message: Message = await self._drive(flow(self._place, *args, **with_built(built, kwargs)))
        self._forget(built, message, kwargs.get("pack"))
        return message

    return functools.update_wrapper(method, flow)


def waking(flow: Callable[Concatenate[Any, P], Flow[Place]]) -> Callable[Concatenate[Any, P], Waking]:
    """A flow that comes to a frame as a method whose answer is awaited, or entered."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Waking:
        return Waking(self._drive, flow(self._place, *args, **kwargs))

    return functools.update_wrapper(method, flow)


def shelving(
    flow: Callable[Concatenate[Any, P], Flow[LedgerPlace]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, AsyncLedger]]:
    """A flow that comes to a ledger as a method to await."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> AsyncLedger:
        return AsyncLedger(self._drive, await self._drive(flow(self._place, *args, **kwargs)))

    return functools.update_wrapper(method, flow)


class Waking:
    """A frame on its way: `frame = await …`, or `async with … as frame:`."""

    def __init__(self, drive: Callable[[Flow[Any]], Any], flow: Flow[Place]) -> None:
        self._drive = drive
        self._flow: Flow[Place] | None = flow
        self._frame: AsyncFrame | None = None

    async def _made(self) -> AsyncFrame:
        flow, self._flow = self._flow, None
        if flow is None:
            raise InvalidContent(reason="this frame was pushed already: keep what awaiting it gave")
        self._frame = AsyncFrame(self._drive, await self._drive(flow))
        return self._frame

    def __await__(self) -> Generator[Any, None, AsyncFrame]:
        return self._made().__await__()

    async def __aenter__(self) -> AsyncFrame:
        try:
            return await to_the_end(self._made())
        except asyncio.CancelledError as error:
            await self.__aexit__(type(error), error, None)  # it may be there, and nobody would ever end it
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._frame is not None:
            await self._frame.__aexit__(kind, error, trace)


class _AsyncWorking(Held):
    """What a session and a frame have in common."""

    record = tying(message_flows.record)
    record_all = awaiting(message_flows.record_all)
    result = awaiting(message_flows.result)
    close_open_calls = awaiting(message_flows.close_open_calls)
    start = awaiting(tools.start)
    run = awaiting(tools.run)
    read_handle = awaiting(frame_flows.read_handle)
    read_text = awaiting(reading.read_text)
    reader = reading_tool
    situation = awaiting(situations.situation)
    update_situation = awaiting(situations.update_situation)
    refresh_situation = awaiting(situations.refresh_situation)
    situation_tool = situating_tool
    act = awaiting(situations.act)
    actions = awaiting(situations.actions)
    reasoning_context = awaiting(situations.reasoning_context)
    window = awaiting(views.window)
    draft_summary = awaiting(views.draft_summary)
    summarize = awaiting(views.summarize)
    summaries = awaiting(summary_flows.summaries)
    replace_summary = awaiting(summary_flows.replace_summary)
    improve_summaries = awaiting(summary_flows.improve_summaries)
    history = awaiting(history_flows.history)
    render = awaiting(history_flows.render)
    plan = awaiting(planning.plan)
    prepare = awaiting(planning.prepare)
    compact = awaiting(planning.compact)
    pack = building(packing.pack)
    piece = awaiting(paging.piece)
    pieces = awaiting(paging.pieces)
    handle = awaiting(handles.handle)
    occupancy = awaiting(handles.occupancy)
    page_out = awaiting(paging.page_out)
    page_in = awaiting(paging.page_in)
    packs = awaiting(manifests.packs)
    manifest = awaiting(manifests.manifest)
    diff = awaiting(manifests.diff)
    keep = awaiting(manifests.keep)
    reproduce = awaiting(reproducing.reproduce)
    frame = waking(frame_flows.push)


class AsyncSession(_AsyncWorking):
    """One session, for an event loop."""

    messages = awaiting(message_flows.messages)
    evidence = awaiting(message_flows.evidence)
    events = awaiting(message_flows.events)
    state = awaiting(session_flows.state)
    reset = awaiting(session_flows.reset)
    close = awaiting(session_flows.close)
    destroy = awaiting(session_flows.destroy)
    erase = awaiting(session_flows.erase)
    refresh_identity = awaiting(layer_flows.refresh_identity)
    set_working = awaiting(layer_flows.set_working)
    working = awaiting(layer_flows.working)
    clear_working = awaiting(layer_flows.clear_working)
    set_environment = awaiting(layer_flows.set_environment)
    environment = awaiting(layer_flows.environment)
    clear_environment = awaiting(layer_flows.clear_environment)
    observe = awaiting(observing.observe)
    proposals = awaiting(observing.waiting)
    accept = awaiting(observing.accept)
    decline = awaiting(observing.decline)
    fact = awaiting(observing.fact)
    search = awaiting(observing.search)
    ledger = shelving(observing.ledger)
    frames = awaiting(frame_flows.listed)
    stack = awaiting(frame_flows.stack)
    recover = awaiting(recovering.recover)
    get_frame = waking(frame_flows.get)


class AsyncFrame(_AsyncWorking):
    """A unit of work in a session, for an event loop: the twin of Frame."""

    state = awaiting(frame_flows.state)
    ancestry = awaiting(frame_flows.ancestry)
    spend = awaiting(frame_flows.spend)
    update = awaiting(frame_flows.update)
    reserve = awaiting(spending.reserve)
    commit = awaiting(spending.commit)
    cancel = awaiting(spending.cancel)
    use = awaiting(spending.use)
    grant = awaiting(spending.grant)
    add_handle = awaiting(frame_flows.add_handle)
    replace_handle = awaiting(frame_flows.replace_handle)
    handles = awaiting(frame_flows.handles)
    suspend = awaiting(suspending.suspend)
    reissue = awaiting(suspending.reissue)
    revoke = awaiting(suspending.revoke)
    pop = awaiting(frame_flows.pop)

    @property
    def frame_id(self) -> str:
        return self.id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await to_the_end(self._drive(frame_flows.leave(self._place, *ending_for(error))))
        except HoldfastError:
            if error is None:
                raise  # else the error of the block is what matters


class AsyncLedger(Shelved):
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
