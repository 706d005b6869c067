"""The awaited driver: the twin of `driver`, for an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

from holdfast.flows.effects import ExclusiveFlow, Flow, OutsideCall, StoreCall, call_function, describe_timeout
from holdfast.model.names import StreamId
from holdfast.ports import AsyncEventStore
from holdfast.runtime.logs import log_append, log_refusal
from holdfast.runtime.store_features import find_method

T = TypeVar("T")


class AsyncStreamLocks:
    """One lock for each stream in use, so that the tasks of one event loop take turns."""

    def __init__(self) -> None:
        self._locks: dict[StreamId, tuple[asyncio.Lock, int]] = {}

    async def acquire(self, stream: StreamId) -> None:
        lock, users = self._locks.get(stream) or (asyncio.Lock(), 0)
        self._locks[stream] = (lock, users + 1)
        try:
            await lock.acquire()
        except BaseException:
            self._drop_user(stream)
            raise

    def release(self, stream: StreamId) -> None:
        self._locks[stream][0].release()
        self._drop_user(stream)

    def _drop_user(self, stream: StreamId) -> None:
        lock, users = self._locks[stream]
        if users > 1:
            self._locks[stream] = (lock, users - 1)
        else:
            del self._locks[stream]


async def run_uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Finish short work that must not be left half done: a task that is cancelled meanwhile, once or again and again as
    anyio does, is cancelled afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # mark it as retrieved: the cancellation is raised
        raise


async def run_cancellable(work: Awaitable[T]) -> T:
    """Await work, and raise a cancellation that it swallowed. `asyncio.wait_for` of Python 3.11 swallows one that comes
    together with what it waits for; the pool of PostgreSQL's connections uses it."""
    task = asyncio.current_task()
    assert task is not None, "a coroutine of asyncio runs in a task"
    before = task.cancelling()
    result = await work
    if task.cancelling() > before:
        raise asyncio.CancelledError
    return result


async def drive_async(flow: Flow[T], store: AsyncEventStore, locks: AsyncStreamLocks) -> T:
    """Run a flow to its end, and await every effect."""
    try:
        effect = next(flow)
        while True:
            try:
                if isinstance(effect, ExclusiveFlow):
                    answer = await _drive_exclusive_async(effect, store, locks)
                elif isinstance(effect, OutsideCall):
                    answer = await _call_outside_async(effect)
                elif (
                    effect.method == "append"
                ):  # uncancelled, so that the next command of this process sees its outcome
                    answer = await run_uncancelled(store.append(*effect.args))
                    log_append(effect.args[0], answer)
                else:
                    call = find_method(store, effect.method)
                    answer = await run_cancellable(call(*effect.args, **effect.kwargs))
            except BaseException as error:  # noqa: BLE001 - the flow may clean up or handle it
                if isinstance(effect, StoreCall) and effect.method == "append":
                    log_refusal(effect.args[0], error)
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _call_outside_async(effect: OutsideCall) -> Any:
    async def call() -> Any:
        if inspect.iscoroutinefunction(effect.function):
            answer = await effect.function()
        else:
            answer = await asyncio.to_thread(call_function, effect.function)
        return await answer if inspect.isawaitable(answer) else answer

    if effect.timeout_s is None:
        return await call()
    try:
        return await asyncio.wait_for(call(), effect.timeout_s)
    except TimeoutError:
        raise TimeoutError(describe_timeout(effect.timeout_s)) from None


async def _drive_exclusive_async(effect: ExclusiveFlow, store: AsyncEventStore, locks: AsyncStreamLocks) -> Any:
    acquired: list[StreamId] = []
    try:
        for stream in effect.streams:
            await locks.acquire(stream)
            acquired.append(stream)
        return await drive_async(effect.flow, store, locks)
    finally:
        for stream in reversed(acquired):
            locks.release(stream)
