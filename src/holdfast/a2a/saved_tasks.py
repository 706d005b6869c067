"""The tasks that a store saved or read last, so that the next save costs what is new in it.

Laws: what is kept is of one entry of one thread, and counts only while that is the newest one of the thread; a key and a
position name one entry for good. What is kept is never changed. It is bounded by the number and by the bytes of the tasks.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from typing import Any, TypeAlias

from a2a.types.a2a_pb2 import Task

from holdfast.a2a.messages import TaskReading
from holdfast.frameworks.shadows import Shadow
from holdfast.types import Entry

Place: TypeAlias = tuple[str, str, str]
"""The actor, the context and the thread of a task."""
_TASKS = 200
_BYTES = 16 << 20
"""Of tasks as protobuf. With their JSON and their conversation, they take about ten times as much memory."""


class SavedTask:
    """A task as an entry has it."""

    def __init__(self, task: Task, entry: Entry, body: Any, shadow: Shadow, reading: TaskReading | None = None) -> None:
        self.task = task
        self.key = entry.key
        self.seq = entry.seq
        self.body = body
        self.shadow = shadow
        self.size = task.ByteSize()
        if reading is not None:
            self.reading = reading

    @functools.cached_property
    def reading(self) -> TaskReading:
        return TaskReading(self.task, body=self.body)

    def is_of(self, entry: Entry) -> bool:
        return (entry.key, entry.seq) == (self.key, self.seq)

    def is_equal(self, task: Task, body: Any) -> bool:
        """Whether a task, with this body, is the same state. A NaN equals no other, but its bytes do; and for Python, the
        JSON of true equals that of 1."""
        if isinstance(body, bytes) or isinstance(self.body, bytes):
            return bool(self.body == body)
        return bool(self.task == task)

    def copy(self) -> Task:
        task = Task()
        task.CopyFrom(self.task)
        return task


class SavedTasks:
    """The tasks that were used last. Threads can share it."""

    def __init__(self, *, tasks: int = _TASKS, size: int = _BYTES) -> None:
        self._most_tasks = tasks
        self._most_bytes = size
        self._bytes = 0
        self._kept: OrderedDict[Place, SavedTask] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, place: Place) -> SavedTask | None:
        with self._lock:
            if place in self._kept:
                self._kept.move_to_end(place)
            return self._kept.get(place)

    def keep(self, place: Place, saved: SavedTask) -> None:
        with self._lock:
            self._drop(place)
            self._kept[place] = saved
            self._bytes += saved.size
            while len(self._kept) > self._most_tasks or self._bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def forget(self, place: Place) -> None:
        with self._lock:
            self._drop(place)

    def _drop(self, place: Place) -> None:
        dropped = self._kept.pop(place, None)
        self._bytes -= dropped.size if dropped is not None else 0
