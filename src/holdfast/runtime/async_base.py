"""The awaited twin of `base`, and frames that can be awaited or entered with `async with`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

import msgspec

import holdfast
from holdfast.errors import HoldfastError, InvalidArgument, LeaseLost
from holdfast.flows.context import EngineContext, LedgerContext, SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.facts import changes, observation
from holdfast.flows.frames import frames
from holdfast.flows.sessions import turns
from holdfast.model.facts.fact import Fact
from holdfast.model.frames.frames import Ending
from holdfast.model.names import check_flag
from holdfast.runtime.async_driver import run_uncancelled
from holdfast.runtime.base import ContextHolder, LedgerHolder, TurnPlan, frame_ending_for

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="AsyncConversationBase")


class AsyncDriver(Protocol):
    """Runs a flow to its end, awaited."""

    def __call__(self, flow: Flow[T], /) -> Coroutine[Any, Any, T]: ...


class AsyncConversationBase(ContextHolder):
    """A session, a frame, or a facet of one, for an event loop."""

    def __init__(self, drive: AsyncDriver, context: SessionContext) -> None:
        self._drive = drive
        self._context = context

    def _open_frame(self, flow: Flow[SessionContext]) -> AwaitableFrame:
        return AwaitableFrame(self._drive, flow)

    async def _open_fork(
        self, fork: Callable[[SessionContext], Flow[SessionContext]], *, ephemeral: bool
    ) -> holdfast.AsyncSession:
        """Open a fork; an ephemeral one with a driver whose writes stay in memory."""
        context, drive = self._context, self._drive
        if check_flag("ephemeral", ephemeral):
            from holdfast.runtime.overlay import Overlay, derive_ephemeral  # noqa: PLC0415 - few programs need it

            context = msgspec.structs.replace(context, engine=derive_ephemeral(context.engine))
            drive = Overlay().wrap_driver(drive)
        return holdfast.AsyncSession(drive, await drive(fork(context)))

    async def _run_own(
        self, flow: Callable[Concatenate[LedgerContext, P], Flow[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a flow on the session's own ledger."""
        return await self._drive(observation.run_in_own_ledger(self._context, flow, *args, **kwargs))

    async def _run_in_ledger_of(
        self,
        fact: str | Fact,
        flow: Callable[Concatenate[LedgerContext, P], Flow[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a flow on the ledger of a fact, or of the current fact for a key."""
        return await self._drive(observation.run_in_ledger_of(self._context, fact, flow, *args, **kwargs))

    @staticmethod
    def _check_functions(_function: object) -> None:
        """Accept all functions: an event loop runs coroutine functions too."""


class AsyncLedgerBase(LedgerHolder):
    """A ledger, or a facet of one, for an event loop."""

    def __init__(self, drive: AsyncDriver, context: LedgerContext) -> None:
        self._drive = drive
        self._context = context

    async def _run(
        self, flow: Callable[Concatenate[LedgerContext, P], Flow[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a flow with the current identity of the session, if the ledger was opened through one."""
        return await self._drive(changes.with_current_identity(flow)(self._context, *args, **kwargs))


class AsyncEngineBase:
    """A facet of an engine, for an event loop."""

    def __init__(self, drive: AsyncDriver, context: EngineContext) -> None:
        self._drive = drive
        self._context = context


class AwaitableFrame:
    """A frame that is not open yet: write `frame = await …`, or `async with … as frame:`."""

    def __init__(
        self, drive: AsyncDriver, flow: Flow[SessionContext], build: type[holdfast.AsyncFrame] | None = None
    ) -> None:
        self._drive = drive
        self._flow: Flow[SessionContext] | None = flow
        self._build = build or holdfast.AsyncFrame
        self._frame: holdfast.AsyncFrame | None = None

    async def _open(self) -> holdfast.AsyncFrame:
        flow, self._flow = self._flow, None
        if flow is None:
            raise InvalidArgument(
                argument="frame", reason="it was awaited already: use the frame that the first await returned"
            )
        self._frame = self._build(self._drive, await self._drive(flow))
        return self._frame

    def __await__(self) -> Generator[Any, None, holdfast.AsyncFrame]:
        return self._open().__await__()

    async def __aenter__(self) -> holdfast.AsyncFrame:
        try:
            return await run_uncancelled(self._open())
        except asyncio.CancelledError as error:
            await self.__aexit__(type(error), error, None)  # the frame may have been pushed: end it
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._frame is not None:
            await self._frame.__aexit__(kind, error, trace)


class AsyncFrameBlock(AsyncConversationBase):
    """A frame as an async context manager."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await run_uncancelled(self._drive(self._leave(*frame_ending_for(error))))
        except HoldfastError:
            if error is None:
                raise  # otherwise the error of the block is raised

    def _leave(self, status: Ending, summary: str) -> Flow[None]:
        return frames.leave(self._context, status, summary)


class AsyncTurnBlock(Generic[C]):
    """A turn as an async context manager: its block gets the session or frame, bound to the turn."""

    _turns: Any = turns
    """What takes, renews and ends a turn."""

    def __init__(self, conversation: C, lease_s: float, wait_s: float, owner: str | None) -> None:
        self._conversation = conversation
        self._plan = TurnPlan(lease_s, wait_s, owner)
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> C:
        try:
            await self._take()
        except asyncio.CancelledError:
            if self._conversation._context.engine.turn is not None:  # taken, just before the task was cancelled
                await run_uncancelled(self._conversation._drive(self._turns.end(self._conversation._context)))
            raise
        self._keeper = asyncio.create_task(self._renew(), name="holdfast-turn")
        return self._conversation

    async def _take(self) -> None:
        ticket = 0
        for pause in self._plan.pauses():
            ticket = await run_uncancelled(self._try(ticket))
            if self._conversation._context.engine.turn is not None:
                return
            await asyncio.sleep(pause)

    async def _try(self, ticket: int) -> int:
        """Try once; returns the place in the queue."""
        drive, context = self._conversation._drive, self._conversation._context
        answer = await drive(self._turns.take(context, self._plan.request, ticket))
        if answer.context is not None:
            self._conversation = type(self._conversation)(drive, answer.context)
        return int(answer.ticket)

    async def _end(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        await self._conversation._drive(self._turns.end(self._conversation._context))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._plan.renewal_s)
            try:
                await self._conversation._drive(self._turns.renew(self._conversation._context))
            except LeaseLost:
                return  # the next write in the block finds out
            except HoldfastError:
                continue  # the store may answer again before the turn is over

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await run_uncancelled(self._end())
        except HoldfastError:
            if error is None:
                raise  # otherwise the error of the block is raised
