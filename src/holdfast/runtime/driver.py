"""The blocking driver: it carries out the effects that a flow yields, and sends the answers back."""

from __future__ import annotations

import queue
import threading
from types import CoroutineType
from typing import Any, TypeVar

from holdfast.errors import InvalidArgument
from holdfast.flows.effects import ExclusiveFlow, Flow, OutsideCall, StoreCall, call_function, describe_timeout
from holdfast.model.names import StreamId
from holdfast.ports import EventStore
from holdfast.runtime.logs import log_append, log_refusal
from holdfast.runtime.store_features import find_method

T = TypeVar("T")

COROUTINE_REASON = "a coroutine function needs an event loop: use an engine of holdfast.open_async()"


class StreamLocks:
    """One lock for each stream in use, so that threads of this process take turns instead of colliding."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: dict[StreamId, tuple[threading.Lock, int]] = {}

    def acquire(self, stream: StreamId) -> None:
        with self._mutex:
            lock, users = self._locks.get(stream) or (threading.Lock(), 0)
            self._locks[stream] = (lock, users + 1)
        try:
            lock.acquire()
        except BaseException:
            self._drop_user(stream)
            raise

    def release(self, stream: StreamId) -> None:
        self._locks[stream][0].release()
        self._drop_user(stream)

    def _drop_user(self, stream: StreamId) -> None:
        with self._mutex:
            lock, users = self._locks[stream]
            if users > 1:  # replaced, never removed: release() reads it without the mutex
                self._locks[stream] = (lock, users - 1)
            else:
                del self._locks[stream]


def drive(flow: Flow[T], store: EventStore, locks: StreamLocks) -> T:
    """Run a flow to its end, and block at every effect."""
    try:
        effect = next(flow)
        while True:
            try:
                if isinstance(effect, ExclusiveFlow):
                    answer = _drive_exclusive(effect, store, locks)
                elif isinstance(effect, OutsideCall):
                    answer = _call_outside(effect)
                    if isinstance(answer, CoroutineType):
                        answer.close()
                        raise InvalidArgument(argument="function", reason=COROUTINE_REASON)
                else:
                    answer = find_method(store, effect.method)(*effect.args, **effect.kwargs)
                    if effect.method == "append":
                        log_append(effect.args[0], answer)
            except BaseException as error:  # noqa: BLE001 - the flow may clean up or handle it
                if isinstance(effect, StoreCall) and effect.method == "append":
                    log_refusal(effect.args[0], error)
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _call_outside(effect: OutsideCall) -> Any:
    if effect.timeout_s is None:
        return call_function(effect.function)
    answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call_function(effect.function), None))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            answers.put((None, error))

    threading.Thread(target=run, name="holdfast-outside", daemon=True).start()
    try:
        answer, error = answers.get(timeout=effect.timeout_s)
    except queue.Empty:
        raise TimeoutError(describe_timeout(effect.timeout_s)) from None
    if error is not None:
        raise error
    return answer


def _drive_exclusive(effect: ExclusiveFlow, store: EventStore, locks: StreamLocks) -> Any:
    acquired: list[StreamId] = []
    try:
        for stream in effect.streams:
            locks.acquire(stream)
            acquired.append(stream)
        return drive(effect.flow, store, locks)
    finally:
        for stream in reversed(acquired):
            locks.release(stream)
