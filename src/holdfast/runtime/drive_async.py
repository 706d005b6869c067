"""The driver that awaits: the twin of `drive`, for an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.flows.effects import Exclusive, Flow, Outside, called
from holdfast.model.names import StreamId
from holdfast.ports import AsyncEventStore

T = TypeVar("T")


class AsyncTurns:
    """The same among the tasks of one event loop."""

    def __init__(self) -> None:
        self._locks: dict[StreamId, tuple[asyncio.Lock, int]] = {}

    async def take(self, stream: StreamId) -> None:
        lock, users = self._locks.get(stream) or (asyncio.Lock(), 0)
        self._locks[stream] = (lock, users + 1)
        try:
            await lock.acquire()
        except BaseException:
            self._leave(stream)
            raise

    def give(self, stream: StreamId) -> None:
        self._locks[stream][0].release()
        self._leave(stream)

    def _leave(self, stream: StreamId) -> None:
        lock, users = self._locks[stream]
        if users > 1:
            self._locks[stream] = (lock, users - 1)
        else:
            del self._locks[stream]


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """For what is short and not to be left half done: a task that is cancelled in it is cancelled after it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # seen: the cancellation is what is told
        raise


async def drive_async(flow: Flow[T], store: AsyncEventStore, turns: AsyncTurns) -> T:
    """Run a flow to its end, awaiting every effect."""
    try:
        effect = next(flow)
        while True:
            try:
                if isinstance(effect, Exclusive):
                    answer = await _in_turn_async(effect, store, turns)
                elif isinstance(effect, Outside):
                    if inspect.iscoroutinefunction(effect.function):  # calling it is not yet doing it
                        answer = await effect.function()
                    else:
                        answer = await asyncio.to_thread(called, effect.function)
                    if inspect.isawaitable(answer):
                        answer = await answer
                elif effect.method == "append":  # or whoever comes next, in this process, looks before it is there
                    answer = await to_the_end(store.append(*effect.args))
                else:
                    answer = await getattr(store, effect.method)(*effect.args, **effect.kwargs)
            except BaseException as error:  # noqa: BLE001 - it belongs to the flow, which may clean up or handle it
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _in_turn_async(effect: Exclusive, store: AsyncEventStore, turns: AsyncTurns) -> Any:
    taken: list[StreamId] = []
    try:
        for stream in effect.streams:
            await turns.take(stream)
            taken.append(stream)
        return await drive_async(effect.flow, store, turns)
    finally:
        for stream in reversed(taken):
            turns.give(stream)
