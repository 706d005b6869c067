"""The driver that blocks: it answers what a flow asks for, and knows nothing of what the flow is about."""

from __future__ import annotations

import threading
from types import CoroutineType
from typing import Any, TypeVar

from holdfast.errors import InvalidContent
from holdfast.flows.effects import Exclusive, Flow, Outside, called
from holdfast.model.names import StreamId
from holdfast.ports import EventStore

T = TypeVar("T")


class Turns:
    """A lock for each stream in use, so that threads of one process take turns instead of colliding."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._locks: dict[StreamId, tuple[threading.Lock, int]] = {}

    def take(self, stream: StreamId) -> None:
        with self._mutex:
            lock, users = self._locks.get(stream) or (threading.Lock(), 0)
            self._locks[stream] = (lock, users + 1)
        try:
            lock.acquire()
        except BaseException:
            self._leave(stream)
            raise

    def give(self, stream: StreamId) -> None:
        self._locks[stream][0].release()
        self._leave(stream)

    def _leave(self, stream: StreamId) -> None:
        with self._mutex:
            lock, users = self._locks[stream]
            if users > 1:  # never gone, not for a moment: others look without the mutex
                self._locks[stream] = (lock, users - 1)
            else:
                del self._locks[stream]


def drive(flow: Flow[T], store: EventStore, turns: Turns) -> T:
    """Run a flow to its end, blocking at every effect."""
    try:
        effect = next(flow)
        while True:
            try:
                if isinstance(effect, Exclusive):
                    answer = _in_turn(effect, store, turns)
                elif isinstance(effect, Outside):
                    answer = called(effect.function)
                    if isinstance(answer, CoroutineType):  # it was only called so far, and here it never goes on
                        answer.close()
                        raise InvalidContent(reason="a coroutine cannot run here: use an engine of open_async()")
                else:
                    answer = getattr(store, effect.method)(*effect.args, **effect.kwargs)
            except BaseException as error:  # noqa: BLE001 - it belongs to the flow, which may clean up or handle it
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as stop:
        result: T = stop.value
        return result


def _in_turn(effect: Exclusive, store: EventStore, turns: Turns) -> Any:
    taken: list[StreamId] = []
    try:
        for stream in effect.streams:
            turns.take(stream)
            taken.append(stream)
        return drive(effect.flow, store, turns)
    finally:
        for stream in reversed(taken):
            turns.give(stream)
